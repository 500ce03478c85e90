//! Whole-matrix calls that give one result a row, or a softmax: each walks the rows in blocks over threads.
//!
//! Inputs are checked before anything is written: lengths at once, values as rows are read.

use std::ops::Range;

use crate::candidates::{Candidates, sharing_order};
use crate::error::Error;
use crate::float::Float;
use crate::group::Group;
use crate::kernel::{GroupRequest, LabelWorkspace, View, group_label_scores};
use crate::place::place;
use crate::planes::Planes;
use crate::row::{Scan, gini, margin};
use crate::rows::{GROUP, Rows};
use crate::scoring::{Reweight, Scale, Score, Scoring};
use crate::simd::instances;
use crate::spare::{Space, with_order};
use crate::threads::{Plan, Size, fill};
use crate::uniform::Randomness;

/// A measure of how uncertain a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Entropy in nats.
    Entropy,
    /// Difference of the two largest probabilities.
    Margin,
    /// Gini impurity.
    Gini,
}

pub(crate) fn check_length(name: &'static str, found: usize, expected: usize) -> Result<(), Error> {
    if found == expected { Ok(()) } else { Err(Error::Length { name, found, expected }) }
}

#[inline(always)]
fn checked_label<F: Float, R: Rows<F>>(rows: &R, index: usize, label: i64) -> Result<usize, Error> {
    let n_labels = rows.n_labels();
    let valid = usize::try_from(label).ok().filter(|&y| y < n_labels);
    valid.ok_or_else(|| Error::Label { row: rows.position(index), value: label, n_labels })
}

/// Puts the labels of the rows from `first` on, at most a group of them, into `checked`.
#[inline(always)]
fn check_labels<F: Float, R: Rows<F>>(
    rows: &R,
    first: usize,
    labels: &[i64],
    checked: &mut [usize; GROUP],
) -> Result<(), Error> {
    let n_labels = rows.n_labels() as u64;
    let mut outside = false;
    for (place, &label) in checked.iter_mut().zip(labels) {
        outside |= label as u64 >= n_labels; // negative ones too
        *place = label as usize;
    }
    if outside {
        // What was read, not what may stand there by now.
        for (i, &label) in checked[..labels.len()].iter().enumerate() {
            checked_label(rows, first + i, label as i64)?;
        }
    }
    Ok(())
}

/// Bytes of rows that are worked on together: more would push the first out of the nearest caches
/// before the second pass.
const GROUP_BYTES: usize = 1 << 17;

/// Rows of a group.
#[inline(always)]
pub(crate) fn group_size<F>(n_labels: usize) -> usize {
    (GROUP_BYTES / (n_labels * size_of::<F>())).clamp(1, GROUP)
}

/// The groups of a block, as first row and number of rows. Bodies of loops over them are written out,
/// not passed as closures, so that they belong to the instance of their instruction set.
pub(crate) fn groups<F: Float, R: Rows<F>>(
    rows: &R,
    range: Range<usize>,
) -> impl Iterator<Item = (usize, usize)> + use<F, R> {
    let size = group_size::<F>(rows.n_labels());
    let end = range.end;
    range.step_by(size).map(move |first| (first, size.min(end - first)))
}

/// Uncertainty of each row.
///
/// # Errors
/// For a row that is not one of logits.
pub fn uncertainty<F: Float, R: Rows<F>>(
    rows: &R,
    measure: Measure,
    plan: &Plan<'_>,
    out: &mut [f64],
) -> Result<(), Error> {
    check_length("out", out.len(), rows.n_rows())?;
    fill(out, 1, Size::new(rows.n_rows(), rows.n_labels(), 1), plan, |range, parts| {
        uncertainty_block::<F, R>(rows, measure, range, parts.only())
    })
}

instances! {
    fn uncertainty_block<F: Float, R: Rows<F>>(rows: &R, measure: Measure, range: Range<usize>, out: &mut [f64]) -> Result<(), Error> = uncertainty_rows::<F, R>;
}

#[inline(always)]
fn uncertainty_rows<F: Float, R: Rows<F>>(
    rows: &R,
    measure: Measure,
    range: Range<usize>,
    out: &mut [f64],
) -> Result<(), Error> {
    let (start, done) = (range.start, range.len());
    let mut space = if measure == Measure::Entropy { Space::<F>::fetching() } else { Space::taken() };
    let Space { lent: scratch, columns, labels: LabelWorkspace { scans, .. }, .. } = &mut *space;
    for (first, count) in groups(rows, range) {
        let mut group: [&[F]; GROUP] = [&[]; GROUP];
        rows.group(first, count, scratch, &mut group)?;
        let out = &mut out[first - start..][..count];
        if measure == Measure::Entropy {
            let mut group = Group::new(&group, count, rows.ahead(first + count), columns)
                .fetching(rows.columns_ahead(first));
            group.scan(true, |i| rows.position(first + i), scans)?;
            out.copy_from_slice(&scans.entropies()[..count]);
            continue;
        }
        for i in 0..count {
            let scan = Scan::of(group[i], rows.position(first + i))?;
            out[i] = if measure == Measure::Margin { margin(group[i], &scan) } else { gini(group[i], &scan) };
        }
    }
    space.keep(rows, done);
    Ok(())
}

/// Reweighted, tempered softmax of each row.
///
/// # Errors
/// For a row that is not one of logits, or a negative temperature.
pub fn softmax<F: Float, R: Rows<F>>(
    rows: &R,
    reweight: Reweight,
    temperature: f64,
    plan: &Plan<'_>,
    out: &mut [F],
) -> Result<(), Error> {
    let k = rows.n_labels();
    check_length("out", out.len(), rows.n_rows() * k)?;
    let scoring = Scoring::new(Score::Thr, reweight, temperature)?;
    fill(out, k, Size::new(rows.n_rows(), k, 4), plan, |range, parts| {
        softmax_block::<F, R>(rows, &scoring, range, parts.only())
    })
}

instances! {
    fn softmax_block<F: Float, R: Rows<F>>(rows: &R, scoring: &Scoring, range: Range<usize>, out: &mut [F]) -> Result<(), Error> = softmax_rows::<F, R>;
}

#[inline(always)]
fn softmax_rows<F: Float, R: Rows<F>>(
    rows: &R,
    scoring: &Scoring,
    range: Range<usize>,
    out: &mut [F],
) -> Result<(), Error> {
    let candidates = Candidates::only(scoring);
    let (k, start, done) = (rows.n_labels(), range.start, range.len());
    let mut space = Space::<F>::taken();
    let scratch = &mut space.lent;
    for (first, count) in groups(rows, range) {
        let mut group: [&[F]; GROUP] = [&[]; GROUP];
        rows.group(first, count, scratch, &mut group)?;
        for i in 0..count {
            let position = rows.position(first + i);
            let view = View::of(group[i], first + i, position, &candidates, &Randomness::default())?;
            let out = &mut out[(first + i - start) * k..][..k];
            view.softmax(scoring.reweight, scoring.temperature, out);
        }
    }
    space.keep(rows, done);
    Ok(())
}

/// Rank of each row's label: 1 for the largest logit, equal logits by lower label first.
///
/// # Errors
/// For a row that is not one of logits or a label out of range.
pub fn ranks<F: Float, R: Rows<F>>(
    rows: &R,
    labels: &[i64],
    plan: &Plan<'_>,
    out: &mut [i64],
) -> Result<(), Error> {
    check_length("labels", labels.len(), rows.n_rows())?;
    check_length("out", out.len(), rows.n_rows())?;
    fill(out, 1, Size::new(rows.n_rows(), rows.n_labels(), 1), plan, |range, parts| {
        ranks_block::<F, R>(rows, labels, range, parts.only())
    })
}

instances! {
    fn ranks_block<F: Float, R: Rows<F>>(rows: &R, labels: &[i64], range: Range<usize>, out: &mut [i64]) -> Result<(), Error> = ranks_rows::<F, R>;
}

#[inline(always)]
fn ranks_rows<F: Float, R: Rows<F>>(
    rows: &R,
    labels: &[i64],
    range: Range<usize>,
    out: &mut [i64],
) -> Result<(), Error> {
    let (start, done) = (range.start, range.len());
    let mut space = Space::<F>::taken();
    let scratch = &mut space.lent;
    for (first, count) in groups(rows, range) {
        let mut group: [&[F]; GROUP] = [&[]; GROUP];
        rows.group(first, count, scratch, &mut group)?;
        for i in 0..count {
            let label = checked_label(rows, first + i, labels[first + i])?;
            Scan::of(group[i], rows.position(first + i))?;
            out[first + i - start] = place(group[i], label).rank as i64;
        }
    }
    space.keep(rows, done);
    Ok(())
}

/// Scores of each row's label: `out` holds one run of rows for each candidate, all from one reading.
///
/// # Errors
/// For a row that is not one of logits, a label out of range, or U outside `[0, 1]`.
pub fn label_scores<F: Float, R: Rows<F>>(
    rows: &R,
    labels: &[i64],
    candidates: &[Scoring],
    scale: Scale,
    randomness: &Randomness<'_>,
    plan: &Plan<'_>,
    out: &mut [f64],
) -> Result<(), Error> {
    let n = rows.n_rows();
    check_length("labels", labels.len(), n)?;
    check_length("out", out.len(), n * candidates.len())?;
    randomness.check(n)?;
    with_order(|order| {
        sharing_order(candidates, order);
        let listed = Candidates::ordered(candidates, order);
        let request = LabelRequest { labels, candidates: listed, scale, randomness };
        fill(out, 1, Size::new(n, rows.n_labels(), candidates.len()), plan, |range, parts| {
            label_scores_block::<F, R>(rows, &request, range, parts)
        })
    })
}

struct LabelRequest<'a> {
    labels: &'a [i64],
    candidates: Candidates<'a>,
    scale: Scale,
    randomness: &'a Randomness<'a>,
}

instances! {
    fn label_scores_block<F: Float, R: Rows<F>>(rows: &R, request: &LabelRequest<'_>, range: Range<usize>, out: &mut Planes<'_, f64>) -> Result<(), Error> = label_scores_rows::<F, R>;
}

#[inline(always)]
fn label_scores_rows<F: Float, R: Rows<F>>(
    rows: &R,
    request: &LabelRequest<'_>,
    range: Range<usize>,
    out: &mut Planes<'_, f64>,
) -> Result<(), Error> {
    let LabelRequest { labels, candidates, scale, randomness } = request;
    let (start, done) = (range.start, range.len());
    let mut space = Space::<F>::fetching();
    let Space { lent: scratch, columns, labels: workspace, .. } = &mut *space;
    for (first, count) in groups(rows, range) {
        let mut label = [0; GROUP];
        check_labels(rows, first, &labels[first..first + count], &mut label)?;
        let ahead = rows.ahead(first + count);
        let mut lent: [&[F]; GROUP] = [&[]; GROUP];
        rows.group(first, count, scratch, &mut lent)?;
        let mut group =
            Group::new(&lent, count, ahead, columns).fetching(rows.columns_ahead(first)).then_summed();
        group.scan(candidates.entropy, |i| rows.position(first + i), &mut workspace.scans)?;
        let request = GroupRequest { first, label: &label, candidates, scale: *scale, randomness };
        group_label_scores(&group, &request, workspace, out, first - start)?;
    }
    space.keep(rows, done);
    Ok(())
}
