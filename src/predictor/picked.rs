//! How are some rows of a matrix predicted by themselves? They are picked with their randomness, and their
//! sets are merged.

use crate::error::Error;
use crate::kernels::{Float, TILE};
use crate::math::{Randomness, Uniforms};
use crate::rows::{RowBuffer, Rows, lend};
use crate::run::{reserve, zeroed};
use crate::sets::Sets;

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

/// The randomness of picked rows.
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

/// The sets of all rows, in order, from those of the picked ones.
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
