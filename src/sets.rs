//! Prediction sets: which labels have a ranked score of at most the threshold.

use std::ops::Range;

use crate::batch::groups;
use crate::cut::Cut;
use crate::error::Error;
use crate::float::Float;
use crate::group::Group;
use crate::kernel::{Candidates, Views};
use crate::ranked_masses::RankedMasses;
use crate::rows::Rows;
use crate::scoring::Scoring;
use crate::simd::instances;
use crate::threads::{Plan, Size, map_blocks};
use crate::top_labels::TopLabels;
use crate::uniform::Randomness;

/// Prediction sets as compressed rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sets {
    /// Row i's labels are `labels[offsets[i]..offsets[i + 1]]`.
    pub offsets: Vec<i64>,
    /// Labels by falling probability.
    pub labels: Vec<i32>,
}

/// The labels whose ranked score is at most the threshold. With `allow_empty` false a set that would
/// be empty holds the top label.
///
/// # Errors
/// For a row that is not one of logits, U outside `[0, 1]`, or a threshold that is NaN.
pub fn predict_sets<F: Float, R: Rows<F>>(
    rows: &R,
    scoring: &Scoring,
    threshold: f64,
    allow_empty: bool,
    randomness: &Randomness<'_>,
    plan: &Plan<'_>,
) -> Result<Sets, Error> {
    randomness.check(rows.n_rows())?;
    if threshold.is_nan() {
        return Err(Error::argument("threshold", "a number", "nan"));
    }
    let cut = Cut::new(scoring, threshold, threshold, rows.n_labels());
    let blocks = map_blocks(Size::new(rows.n_rows(), rows.n_labels(), 2), plan, |range| {
        sets_block::<F, R>(rows, &cut, allow_empty, randomness, range)
    })?;
    Ok(Sets::joined(blocks, rows.n_rows()))
}

impl Sets {
    /// The labels of one row.
    ///
    /// # Panics
    /// When there are not so many rows.
    #[must_use]
    pub fn row(&self, i: usize) -> &[i32] {
        &self.labels[self.offsets[i] as usize..self.offsets[i + 1] as usize]
    }

    /// One after another.
    pub(crate) fn joined(mut blocks: Vec<Self>, n_rows: usize) -> Self {
        if let [block] = blocks.as_mut_slice() {
            return std::mem::take(block);
        }
        let mut offsets = Vec::with_capacity(n_rows + 1);
        let mut labels = Vec::with_capacity(blocks.iter().map(|b| b.labels.len()).sum());
        offsets.push(0);
        for block in blocks {
            let before = labels.len() as i64;
            offsets.extend(block.offsets[1..].iter().map(|end| before + end));
            labels.extend_from_slice(&block.labels);
        }
        Self { offsets, labels }
    }

    pub(crate) fn with_room(n_rows: usize) -> Self {
        let mut offsets = Vec::with_capacity(n_rows + 1);
        offsets.push(0);
        Self { offsets, labels: Vec::new() }
    }

    /// Ends the set of a row; `otherwise` fills an empty one.
    #[inline(always)]
    pub(crate) fn end_row(&mut self, otherwise: Option<u32>) {
        let is_empty = self.offsets.last() == Some(&(self.labels.len() as i64));
        if let (true, Some(label)) = (is_empty, otherwise) {
            self.labels.push(label as i32);
        }
        self.offsets.push(self.labels.len() as i64);
    }
}

instances! {
    fn sets_block<F: Float, R: Rows<F>>(rows: &R, cut: &Cut<'_>, allow_empty: bool, randomness: &Randomness<'_>, range: Range<usize>) -> Result<Sets, Error> = sets_rows::<F, R>;
}

#[inline(always)]
fn sets_rows<F: Float, R: Rows<F>>(
    rows: &R,
    cut: &Cut<'_>,
    allow_empty: bool,
    randomness: &Randomness<'_>,
    range: Range<usize>,
) -> Result<Sets, Error> {
    let mut sets = Sets::with_room(range.len());
    let candidates = Candidates::new(std::slice::from_ref(cut.scoring));
    let (mut top, mut masses) = (TopLabels::default(), RankedMasses::default());
    let (mut scratch, mut columns) = (Vec::new(), Vec::new());
    for (first, count) in groups(rows, range) {
        let ahead = rows.ahead(first + count);
        let group = Group::new(rows.group(first, count, &mut scratch)?, count, ahead, &mut columns);
        let views = Views::of(&group, &candidates, randomness, first, |i| rows.position(first + i))?;
        for i in 0..count {
            let row = group.rows[i];
            let view = views.view(i, row, &candidates);
            masses.forget();
            masses.take(&view, cut.scoring);
            cut.take(&view, &mut masses, &mut top);
            let certain = cut.certain(&view, &mut masses, &mut top);
            let labels = &mut sets.labels;
            labels.extend(top.labels(certain).iter().map(|&label| label as i32));
            cut.walk_from(certain, &view, &mut masses, &mut top, |label, _| labels.push(label as i32));
            sets.end_row(if allow_empty { None } else { top.get(0).map(|first| first.0) });
        }
    }
    Ok(sets)
}
