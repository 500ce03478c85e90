//! What is coverage conditional on? Labels in cells, or rows in groups.

use crate::conformal::Partition;
use crate::error::Error;
use crate::kernels::{Float, TILE};
use crate::math::{Randomness, Uniforms};
use crate::rows::{RowBuffer, Rows, lend};
use crate::run::{reserve, zeroed};
use crate::sets::Sets;

/// The kinds of conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Label,
    Groups,
    Cluster,
    Rc3p,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Label, Self::Groups, Self::Cluster, Self::Rc3p];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Label => "label",
            Self::Groups => "groups",
            Self::Cluster => "cluster",
            Self::Rc3p => "rc3p",
        }
    }
}

/// The group of a row, for predictors that were calibrated with groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupKey<'a> {
    /// An integer.
    Number(i64),
    /// A string.
    Name(&'a str),
}

/// A group as a predictor keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GroupName {
    Number(i64),
    Name(String),
}

impl GroupName {
    pub(crate) fn key(&self) -> GroupKey<'_> {
        match self {
            Self::Number(number) => GroupKey::Number(*number),
            Self::Name(name) => GroupKey::Name(name),
        }
    }
}

/// How rows find their cells.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Parted {
    /// By the label that a row might have.
    Labels(Partition),
    /// By the row's group.
    Groups { names: Vec<GroupName>, cell_of: Vec<u32> },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Condition {
    pub(crate) kind: Kind,
    /// The cell of all rows, which labels and groups with too few rows get.
    pub(crate) pooled: Option<u32>,
    pub(crate) parted: Parted,
}

impl Condition {
    /// The cells of rows that are in groups; `None` when labels have the cells.
    pub(crate) fn cell_of(&self, group: GroupKey<'_>) -> Result<Option<u32>, Error> {
        let Parted::Groups { names, cell_of } = &self.parted else { return Ok(None) };
        let known = names.iter().position(|name| name.key() == group).map(|i| cell_of[i]);
        match known.or(self.pooled) {
            Some(cell) => Ok(Some(cell)),
            None => Err(Error::argument("groups", "one of the calibration", format!("{group:?}"))),
        }
    }

    pub(crate) fn has_groups(&self) -> bool {
        matches!(self.parted, Parted::Groups { .. })
    }
}

/// Some rows of a matrix, in any order.
#[derive(Debug)]
pub(crate) struct Picked<'a, R> {
    pub(crate) rows: &'a R,
    pub(crate) indices: Vec<usize>,
}

impl<F: Float, R: Rows<F>> Rows<F> for Picked<'_, R> {
    fn n_rows(&self) -> usize {
        self.indices.len()
    }

    fn n_labels(&self) -> usize {
        self.rows.n_labels()
    }

    fn lend<'a>(
        &'a self,
        first: usize,
        count: usize,
        buffer: &'a mut RowBuffer<F>,
        lent: &mut [&'a [F]; TILE],
    ) -> Result<(), Error> {
        let mut own = RowBuffer::default();
        let values = buffer.emptied();
        for &index in &self.indices[first..first + count] {
            let mut one: [&[F]; TILE] = [&[]; TILE];
            self.rows.lend(index, 1, &mut own, &mut one)?;
            values.extend_from_slice(one[0]);
        }
        lend(values, self.rows.n_labels(), lent);
        Ok(())
    }

    fn position(&self, index: usize) -> usize {
        self.rows.position(self.indices[index])
    }
}

/// The randomisation of some rows, owned.
#[derive(Debug)]
pub(crate) struct PickedRandomness {
    u: Option<Vec<f64>>,
    row_ids: Option<Vec<u64>>,
}

impl PickedRandomness {
    pub(crate) fn of(randomness: &Randomness<'_>, indices: &[usize]) -> Self {
        let u = match randomness.uniforms {
            Uniforms::Each(u) => Some(indices.iter().map(|&i| u[i]).collect()),
            _ => None,
        };
        Self { u, row_ids: randomness.row_ids.map(|ids| indices.iter().map(|&i| ids[i]).collect()) }
    }

    pub(crate) fn view<'a>(&'a self, whole: &Randomness<'a>) -> Randomness<'a> {
        Randomness {
            seed: whole.seed,
            uniforms: self.u.as_deref().map_or(whole.uniforms, Uniforms::Each),
            row_ids: self.row_ids.as_deref(),
        }
    }
}

/// Sets of all rows from those of the picked ones.
pub(crate) fn merged(parts: &[(Vec<usize>, Sets)], n_rows: usize) -> Result<Sets, Error> {
    let mut place = vec![(0, 0); n_rows];
    for (part, (indices, _)) in parts.iter().enumerate() {
        for (i, &index) in indices.iter().enumerate() {
            place[index] = (part, i);
        }
    }
    let (mut offsets, mut labels) = (zeroed(n_rows + 1, 1)?, Vec::new());
    reserve(&mut labels, parts.iter().map(|(_, part)| part.labels.len()).sum())?;
    for (end, (part, i)) in offsets[1..].iter_mut().zip(place) {
        labels.extend_from_slice(parts[part].1.row(i));
        *end = labels.len() as i64;
    }
    Ok(Sets { offsets, labels })
}
