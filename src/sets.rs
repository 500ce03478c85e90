//! Prediction sets: which labels have a ranked score of at most the threshold.

use std::ops::Range;

use crate::batch::groups;
use crate::cut::Cut;
use crate::error::Error;
use crate::float::Float;
use crate::group::Group;
use crate::kernel::{Candidates, Views};
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
    let cut = Cut::new(scoring, threshold, rows.n_labels());
    let mut blocks = map_blocks(Size::new(rows.n_rows(), rows.n_labels(), 2), plan, |range| {
        sets_block::<F, R>(rows, &cut, allow_empty, randomness, range)
    })?;
    if let [block] = blocks.as_mut_slice() {
        return Ok(std::mem::take(block));
    }
    let mut offsets = Vec::with_capacity(rows.n_rows() + 1);
    let mut labels = Vec::with_capacity(blocks.iter().map(|b| b.labels.len()).sum());
    offsets.push(0);
    for block in blocks {
        let before = labels.len() as i64;
        offsets.extend(block.offsets[1..].iter().map(|end| before + end));
        labels.extend_from_slice(&block.labels);
    }
    Ok(Sets { offsets, labels })
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
    let mut sets = Sets { offsets: Vec::with_capacity(range.len() + 1), labels: Vec::new() };
    sets.offsets.push(0);
    let candidates = Candidates::new(std::slice::from_ref(cut.scoring));
    let mut top = TopLabels::default();
    let (mut scratch, mut columns) = (Vec::new(), Vec::new());
    for (first, count) in groups(rows, range) {
        let group = Group::new(rows.group(first, count, &mut scratch)?, count, &mut columns);
        let views = Views::of(&group, &candidates, |i| rows.position(first + i))?;
        for i in 0..count {
            let row = group.rows[i];
            let view = views.view(i, row, first + i, &candidates, randomness)?;
            let start = sets.labels.len();
            cut.labels(&view, &mut top, |label| sets.labels.push(label as i32));
            if sets.labels.len() == start && !allow_empty {
                sets.labels.push(top.first(row) as i32);
            }
            sets.offsets.push(sets.labels.len() as i64);
        }
    }
    Ok(sets)
}

/// Number of (row, label) pairs whose ranked score is at most a threshold, for each candidate and each
/// of its thresholds: sums of set sizes. `thresholds` holds one run for each candidate, all equally
/// long; so does the result.
///
/// # Errors
/// For a row that is not one of logits, or U outside `[0, 1]`.
pub fn count_pairs<F: Float, R: Rows<F>>(
    rows: &R,
    candidates: &[Scoring],
    thresholds: &[f64],
    randomness: &Randomness<'_>,
    plan: &Plan<'_>,
) -> Result<Vec<u64>, Error> {
    randomness.check(rows.n_rows())?;
    let m = candidates.len();
    if m == 0 || thresholds.is_empty() || !thresholds.len().is_multiple_of(m) {
        return Err(Error::argument("thresholds", "as many for each candidate", thresholds.len()));
    }
    let levels = thresholds.len() / m;
    let cuts: Vec<Cut<'_>> = (candidates.iter().zip(thresholds.chunks_exact(levels)))
        .flat_map(|(scoring, run)| run.iter().map(|&threshold| Cut::new(scoring, threshold, rows.n_labels())))
        .collect();
    let blocks = map_blocks(Size::new(rows.n_rows(), rows.n_labels(), 2 * cuts.len()), plan, |range| {
        count_block::<F, R>(rows, candidates, &cuts, randomness, range)
    })?;
    let mut counts = vec![0; thresholds.len()];
    for block in blocks {
        counts.iter_mut().zip(block).for_each(|(total, count)| *total += count);
    }
    Ok(counts)
}

instances! {
    fn count_block<F: Float, R: Rows<F>>(rows: &R, candidates: &[Scoring], cuts: &[Cut<'_>], randomness: &Randomness<'_>, range: Range<usize>) -> Result<Vec<u64>, Error> = count_rows::<F, R>;
}

#[inline(always)]
fn count_rows<F: Float, R: Rows<F>>(
    rows: &R,
    candidates: &[Scoring],
    cuts: &[Cut<'_>],
    randomness: &Randomness<'_>,
    range: Range<usize>,
) -> Result<Vec<u64>, Error> {
    let mut counts = vec![0_u64; cuts.len()];
    let candidates = Candidates::new(candidates);
    let mut top = TopLabels::default();
    let (mut scratch, mut columns) = (Vec::new(), Vec::new());
    for (first, count) in groups(rows, range) {
        let group = Group::new(rows.group(first, count, &mut scratch)?, count, &mut columns);
        let views = Views::of(&group, &candidates, |i| rows.position(first + i))?;
        for i in 0..count {
            let row = group.rows[i];
            let view = views.view(i, row, first + i, &candidates, randomness)?;
            // All cuts share one order, extended as far as the largest set needs.
            top.take(row, F::NEG_INFINITY);
            for (count, cut) in counts.iter_mut().zip(cuts) {
                *count += cut.count(&view, &mut top);
            }
        }
    }
    Ok(counts)
}
