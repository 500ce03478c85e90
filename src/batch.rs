//! Whole-matrix calls: each walks the rows in blocks over threads and writes one result a row.
//!
//! Inputs are checked here, before anything is written: lengths at once, values as rows are read.

use std::ops::Range;

use crate::error::Error;
use crate::float::Float;
use crate::kernel::{Candidates, Randomness, View, Workspace};
use crate::masses::place;
use crate::pvalue::{p_value, smoothed_p_value};
use crate::row::{Scan, entropy, gini, margin};
use crate::rows::Rows;
use crate::scoring::{Reweight, Scale, Score, Scoring};
use crate::simd::instances;
use crate::threads::{Plan, fill, map_blocks};

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

/// What a call computes with: candidates, scale and randomness.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The candidates; all are computed in one reading of the rows.
    pub candidates: &'a [Scoring],
    /// The scale of the results.
    pub scale: Scale,
    /// Where U comes from.
    pub randomness: Randomness<'a>,
}

fn check_labels(labels: &[i64], n_rows: usize) -> Result<(), Error> {
    if labels.len() == n_rows {
        Ok(())
    } else {
        Err(Error::Length { name: "labels", found: labels.len(), expected: n_rows })
    }
}

#[inline(always)]
fn checked_label<F: Float, R: Rows<F>>(rows: &R, index: usize, label: i64) -> Result<usize, Error> {
    let n_labels = rows.n_labels();
    let valid = usize::try_from(label).ok().filter(|&y| y < n_labels);
    valid.ok_or_else(|| Error::Label { row: rows.position(index), value: label, n_labels })
}

fn check_output(found: usize, expected: usize) -> Result<(), Error> {
    if found == expected { Ok(()) } else { Err(Error::Length { name: "out", found, expected }) }
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
    check_output(out.len(), rows.n_rows())?;
    fill(out, rows.n_rows(), 1, rows.n_labels(), plan, |range, parts| {
        uncertainty_block::<F, R>(rows, measure, range, parts[0])
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
    let mut scratch = Vec::new();
    for (i, value) in range.zip(out) {
        let row = rows.row(i, &mut scratch)?;
        let scan = Scan::of(row, rows.position(i))?;
        *value = match measure {
            Measure::Entropy => entropy(row, &scan),
            Measure::Margin => margin(row, &scan),
            Measure::Gini => gini(row, &scan),
        };
    }
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
    check_output(out.len(), rows.n_rows() * k)?;
    let candidates = [Scoring::new(Score::Thr, reweight, temperature)?];
    fill(out, rows.n_rows(), k, k, plan, |range, parts| {
        softmax_block::<F, R>(rows, &candidates[0], range, parts[0])
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
    let candidates = Candidates::new(std::slice::from_ref(scoring));
    let mut scratch = Vec::new();
    for (i, out) in range.zip(out.chunks_exact_mut(rows.n_labels())) {
        let row = rows.row(i, &mut scratch)?;
        let view = View::of(row, i, rows.position(i), &candidates, &Randomness::default())?;
        view.softmax(scoring.reweight, scoring.temperature, out);
    }
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
    check_labels(labels, rows.n_rows())?;
    check_output(out.len(), rows.n_rows())?;
    fill(out, rows.n_rows(), 1, rows.n_labels(), plan, |range, parts| {
        ranks_block::<F, R>(rows, labels, range, parts[0])
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
    let mut scratch = Vec::new();
    for (i, rank) in range.zip(out) {
        let label = checked_label(rows, i, labels[i])?;
        let row = rows.row(i, &mut scratch)?;
        Scan::of(row, rows.position(i))?;
        *rank = place(row, label).rank as i64;
    }
    Ok(())
}

/// Scores of each row's label: `out` holds one run of rows for each candidate.
///
/// # Errors
/// For a row that is not one of logits, a label out of range, or U outside `[0, 1]`.
pub fn label_scores<F: Float, R: Rows<F>>(
    rows: &R,
    labels: &[i64],
    request: &Request<'_>,
    plan: &Plan<'_>,
    out: &mut [f64],
) -> Result<(), Error> {
    let n = rows.n_rows();
    check_labels(labels, n)?;
    request.randomness.check(n)?;
    check_output(out.len(), n * request.candidates.len())?;
    let plan = Plan { passes: request.candidates.len(), ..*plan };
    fill(out, n, 1, rows.n_labels(), &plan, |range, parts| {
        label_scores_block::<F, R>(rows, labels, request, range, parts)
    })
}

instances! {
    fn label_scores_block<F: Float, R: Rows<F>>(rows: &R, labels: &[i64], request: &Request<'_>, range: Range<usize>, out: &mut [&mut [f64]]) -> Result<(), Error> = label_scores_rows::<F, R>;
}

#[inline(always)]
fn label_scores_rows<F: Float, R: Rows<F>>(
    rows: &R,
    labels: &[i64],
    request: &Request<'_>,
    range: Range<usize>,
    out: &mut [&mut [f64]],
) -> Result<(), Error> {
    let candidates = Candidates::new(request.candidates);
    let mut scratch = Vec::new();
    for (at, i) in range.enumerate() {
        let label = checked_label(rows, i, labels[i])?;
        let row = rows.row(i, &mut scratch)?;
        let view = View::of(row, i, rows.position(i), &candidates, &request.randomness)?;
        view.label_scores(label, &candidates, request.scale, |c, score| out[c][at] = score);
    }
    Ok(())
}

/// Calls `each` for every row with its view and the row's labels in order, ready for
/// [`View::all_scores`].
#[inline(always)]
fn for_each_ordered<F: Float, R: Rows<F>>(
    rows: &R,
    request: &Request<'_>,
    range: Range<usize>,
    mut each: impl FnMut(usize, &View<'_, F>, &mut Workspace<F>),
) -> Result<(), Error> {
    let candidates = Candidates::new(request.candidates);
    let mut scratch = Vec::new();
    let mut workspace = Workspace::default();
    for i in range {
        let row = rows.row(i, &mut scratch)?;
        let view = View::of(row, i, rows.position(i), &candidates, &request.randomness)?;
        workspace.order.sort(row);
        each(i, &view, &mut workspace);
    }
    Ok(())
}

/// Scores of all labels by the first candidate, `out` as rows of K. Each equals what
/// [`label_scores`] gives for that label, to the bit.
///
/// # Errors
/// For a row that is not one of logits, or U outside `[0, 1]`.
pub fn all_scores<F: Float, R: Rows<F>>(
    rows: &R,
    request: &Request<'_>,
    plan: &Plan<'_>,
    out: &mut [f64],
) -> Result<(), Error> {
    all_labels(rows, request, plan, out, &|_, _, _, score| score)
}

/// How a label's score turns into what is written for it.
type Finish<'a, F> = &'a (dyn Fn(usize, &View<'_, F>, u32, f64) -> f64 + Sync);

fn all_labels<F: Float, R: Rows<F>>(
    rows: &R,
    request: &Request<'_>,
    plan: &Plan<'_>,
    out: &mut [f64],
    finish: Finish<'_, F>,
) -> Result<(), Error> {
    let (n, k) = (rows.n_rows(), rows.n_labels());
    request.randomness.check(n)?;
    check_output(out.len(), n * k)?;
    fill(out, n, k, k, plan, |range, parts| all_labels_block::<F, R>(rows, request, finish, range, parts[0]))
}

instances! {
    fn all_labels_block<F: Float, R: Rows<F>>(rows: &R, request: &Request<'_>, finish: Finish<'_, F>, range: Range<usize>, out: &mut [f64]) -> Result<(), Error> = all_labels_rows::<F, R>;
}

#[inline(always)]
fn all_labels_rows<F: Float, R: Rows<F>>(
    rows: &R,
    request: &Request<'_>,
    finish: Finish<'_, F>,
    range: Range<usize>,
    out: &mut [f64],
) -> Result<(), Error> {
    let (k, first) = (rows.n_labels(), range.start);
    for_each_ordered(rows, request, range, |i, view, workspace| {
        let out = &mut out[(i - first) * k..][..k];
        view.all_scores(workspace, &request.candidates[0], request.scale, |label, score| {
            out[label as usize] = finish(i, view, label, score);
        });
    })
}

/// Conformal p-values of all labels against sorted calibration scores, `out` as rows of K.
///
/// # Errors
/// For a row that is not one of logits, or U outside `[0, 1]`.
pub fn p_values<F: Float, R: Rows<F>>(
    rows: &R,
    request: &Request<'_>,
    sorted: &[f64],
    smoothed: bool,
    plan: &Plan<'_>,
    out: &mut [f64],
) -> Result<(), Error> {
    all_labels(rows, request, plan, out, &|i, view: &View<'_, F>, _, score| {
        if smoothed {
            smoothed_p_value(sorted, score, request.randomness.p_value_uniform(i, &view.scan))
        } else {
            p_value(sorted, score)
        }
    })
}

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
    request: &Request<'_>,
    threshold: f64,
    allow_empty: bool,
    plan: &Plan<'_>,
) -> Result<Sets, Error> {
    request.randomness.check(rows.n_rows())?;
    if threshold.is_nan() {
        return Err(Error::argument("threshold", "a number", "nan"));
    }
    let blocks = map_blocks(rows.n_rows(), rows.n_labels(), plan, |range| {
        sets_block::<F, R>(rows, request, threshold, allow_empty, range)
    })?;
    let mut offsets = Vec::with_capacity(rows.n_rows() + 1);
    let mut labels = Vec::with_capacity(blocks.iter().map(|b| b.labels.len()).sum());
    offsets.push(0);
    for block in blocks {
        let before = labels.len() as i64;
        offsets.extend(block.offsets.iter().map(|end| before + end));
        labels.extend_from_slice(&block.labels);
    }
    Ok(Sets { offsets, labels })
}

instances! {
    fn sets_block<F: Float, R: Rows<F>>(rows: &R, request: &Request<'_>, threshold: f64, allow_empty: bool, range: Range<usize>) -> Result<Sets, Error> = sets_rows::<F, R>;
}

/// Sets of a block; its offsets are the ends of its rows.
#[inline(always)]
fn sets_rows<F: Float, R: Rows<F>>(
    rows: &R,
    request: &Request<'_>,
    threshold: f64,
    allow_empty: bool,
    range: Range<usize>,
) -> Result<Sets, Error> {
    let mut sets = Sets { offsets: Vec::with_capacity(range.len()), labels: Vec::new() };
    for_each_ordered(rows, request, range, |_, view, workspace| {
        let start = sets.labels.len();
        view.all_scores(workspace, &request.candidates[0], Scale::Ranked, |label, score| {
            if score <= threshold {
                sets.labels.push(label as i32);
            }
        });
        if sets.labels.len() == start && !allow_empty {
            sets.labels.push(workspace.order.labels[0] as i32);
        }
        sets.offsets.push(sets.labels.len() as i64);
    })?;
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
    request: &Request<'_>,
    thresholds: &[f64],
    plan: &Plan<'_>,
) -> Result<Vec<u64>, Error> {
    request.randomness.check(rows.n_rows())?;
    let m = request.candidates.len();
    if m == 0 || thresholds.is_empty() || !thresholds.len().is_multiple_of(m) {
        return Err(Error::argument("thresholds", "as many for each candidate", thresholds.len()));
    }
    let plan = Plan { passes: m, ..*plan };
    let blocks = map_blocks(rows.n_rows(), rows.n_labels(), &plan, |range| {
        count_block::<F, R>(rows, request, thresholds, range)
    })?;
    let mut counts = vec![0; thresholds.len()];
    for block in blocks {
        counts.iter_mut().zip(block).for_each(|(total, count)| *total += count);
    }
    Ok(counts)
}

instances! {
    fn count_block<F: Float, R: Rows<F>>(rows: &R, request: &Request<'_>, thresholds: &[f64], range: Range<usize>) -> Result<Vec<u64>, Error> = count_rows::<F, R>;
}

#[inline(always)]
fn count_rows<F: Float, R: Rows<F>>(
    rows: &R,
    request: &Request<'_>,
    thresholds: &[f64],
    range: Range<usize>,
) -> Result<Vec<u64>, Error> {
    let levels = thresholds.len() / request.candidates.len();
    let mut counts = vec![0_u64; thresholds.len()];
    for_each_ordered(rows, request, range, |_, view, workspace| {
        let runs = thresholds.chunks_exact(levels).zip(counts.chunks_exact_mut(levels));
        for (candidate, (thresholds, counts)) in request.candidates.iter().zip(runs) {
            view.all_scores(workspace, candidate, Scale::Ranked, |_, score| {
                for (count, &threshold) in counts.iter_mut().zip(thresholds) {
                    *count += u64::from(score <= threshold);
                }
            });
        }
    })?;
    Ok(counts)
}
