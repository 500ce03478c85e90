//! The scores and p-values of all labels of each row.
//!
//! A row is sorted, and the sums of its labels extend one another. Where labels are few it is quicker to score one label
//! of many rows after the other, in lanes.

use std::ops::Range;

use crate::batch::{check_length, groups};
use crate::candidates::{Candidates, Shared};
use crate::cells::CellVote;
use crate::error::Error;
use crate::float::Float;
use crate::group::Group;
use crate::kernel::{GroupRequest, View, group_label_scores};
use crate::planes::Planes;
use crate::pvalue::{p_value, smoothed_p_value};
use crate::rows::{GROUP, Rows};
use crate::scoring::{Scale, Scoring};
use crate::simd::instances;
use crate::spare::Space;
use crate::threads::{Plan, Size, fill};
use crate::uniform::Randomness;

/// Labels up to which rows go side by side: of ten labels that took 0.28 of the time with APS and 0.32 with THR, of 24
/// labels 0.53 and 0.68, of 48 labels 0.73 and 1.02 (AVX-512; AVX2 0.34, 0.42; 0.67, 0.93; 0.90, 1.30).
const FEW_LABELS: usize = 24;
/// The same of SAPS, whose sums all labels of a sorted row share: 0.68 of ten labels, 1.22 of 24 (AVX2 1.03, 1.87).
const FEW_LABELS_OF_TOP: usize = 10;
/// Fewer rows are sorted: most lanes would be empty.
const MANY_ROWS: usize = 16;

/// Scores of all labels, `out` as rows of K. Each equals what [`crate::label_scores`] gives for that label, to
/// the bit.
///
/// # Errors
/// For a row that is not one of logits, or U outside `[0, 1]`.
pub fn all_scores<F: Float, R: Rows<F>>(
    rows: &R,
    scoring: &Scoring,
    scale: Scale,
    randomness: &Randomness<'_>,
    plan: &Plan<'_>,
    out: &mut [f64],
) -> Result<(), Error> {
    all_labels(rows, scoring, scale, randomness, plan, out, &|_, _, score| score)
}

/// Conformal p-values of all labels against sorted ranked calibration scores, `out` as rows of K.
///
/// # Errors
/// For a row that is not one of logits, or U outside `[0, 1]`.
pub fn p_values<F: Float, R: Rows<F>>(
    rows: &R,
    scoring: &Scoring,
    sorted: &[f64],
    smoothed: bool,
    randomness: &Randomness<'_>,
    plan: &Plan<'_>,
    out: &mut [f64],
) -> Result<(), Error> {
    all_labels(rows, scoring, Scale::Ranked, randomness, plan, out, &|i, words, score| {
        if smoothed {
            smoothed_p_value(sorted, score, randomness.p_value_uniform(i, words))
        } else {
            p_value(sorted, score)
        }
    })
}

/// What is written for a label, given the index of its row, what the row's randomness is made of, and its score.
type Finish<'a> = &'a (dyn Fn(usize, [u64; 2], f64) -> f64 + Sync);

fn all_labels<F: Float, R: Rows<F>>(
    rows: &R,
    scoring: &Scoring,
    scale: Scale,
    randomness: &Randomness<'_>,
    plan: &Plan<'_>,
    out: &mut [f64],
    finish: Finish<'_>,
) -> Result<(), Error> {
    let (n, k) = (rows.n_rows(), rows.n_labels());
    check_length("out", out.len(), n * k)?;
    randomness.check(n)?;
    // Sorting and scoring a label costs several passes; the number only sets the size of slices.
    fill(out, k, Size::new(n, k, 8), plan, |range, parts| {
        all_labels_block::<F, R>(rows, scoring, scale, randomness, finish, range, parts.only())
    })
}

instances! {
    fn all_labels_block<F: Float, R: Rows<F>>(rows: &R, scoring: &Scoring, scale: Scale, randomness: &Randomness<'_>, finish: Finish<'_>, range: Range<usize>, out: &mut [f64]) -> Result<(), Error> = all_labels_rows::<F, R>;
}

#[inline(always)]
fn all_labels_rows<F: Float, R: Rows<F>>(
    rows: &R,
    scoring: &Scoring,
    scale: Scale,
    randomness: &Randomness<'_>,
    finish: Finish<'_>,
    range: Range<usize>,
    out: &mut [f64],
) -> Result<(), Error> {
    let (k, start, done) = (rows.n_labels(), range.start, range.len());
    let candidates = Candidates::only(scoring);
    let few = if Shared::of(scoring.score) == Shared::Top { FEW_LABELS_OF_TOP } else { FEW_LABELS };
    let mut space = Space::<F>::taken();
    let Space { lent: scratch, columns, labels: lanes, cell_vote: CellVote { workspace, .. }, .. } =
        &mut *space;
    for (first, count) in groups(rows, range) {
        let mut lent: [&[F]; GROUP] = [&[]; GROUP];
        rows.group(first, count, scratch, &mut lent)?;
        let out = &mut out[(first - start) * k..][..count * k];
        if k <= few && count >= MANY_ROWS {
            let ahead = rows.ahead(first + count);
            let mut group = Group::new(&lent, count, ahead, columns);
            group.scan(candidates.entropy, |i| rows.position(first + i), &mut lanes.scans)?;
            let (words, mut scores) = (lanes.scans.words(), [0.0; GROUP]);
            for label in 0..k {
                let request = GroupRequest {
                    first,
                    label: &[label; GROUP],
                    candidates: &candidates,
                    scale,
                    randomness,
                };
                group_label_scores(&group, &request, lanes, &mut Planes::Whole(&mut scores, GROUP), 0)?;
                for i in 0..count {
                    out[i * k + label] = finish(first + i, [words[0][i], words[1][i]], scores[i]);
                }
            }
            continue;
        }
        for ((i, row), out) in (first..).zip(&lent[..count]).zip(out.chunks_exact_mut(k)) {
            let view = View::of(row, i, rows.position(i), &candidates, randomness)?;
            let words = view.scan.words();
            view.all_scores(workspace, scoring, scale, |label, score| {
                out[label as usize] = finish(i, words, score);
            });
        }
    }
    space.keep(rows, done);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::label_scores;
    use crate::cut::tests::logit;
    use crate::rows::Matrix;
    use crate::scoring::{Reweight, Score};
    use proptest::prelude::*;

    const SCORES: [Score; 6] = [
        Score::Thr,
        Score::Aps,
        Score::Raps { penalty: 0.1, k_reg: 2 },
        Score::Saps { weight: 0.2 },
        Score::Rank,
        Score::Mixed { weight: 0.3 },
    ];

    fn bits(values: &[f64]) -> Vec<u64> {
        values.iter().map(|v| v.to_bits()).collect()
    }

    /// Each label's score is the one it has alone, and each row's p-values those it has alone.
    fn check<F: Float>(data: &[F], k: usize, scoring: &Scoring) {
        let (randomness, plan) = (Randomness::default(), Plan::default());
        let rows = Matrix::new(data, k).unwrap();
        let n = data.len() / k;
        for scale in [Scale::Ranked, Scale::Conventional] {
            let mut all = vec![0.0; n * k];
            all_scores(&rows, scoring, scale, &randomness, &plan, &mut all).unwrap();
            for label in 0..k {
                let mut of_label = vec![0.0; n];
                let labels = vec![label as i64; n];
                label_scores(&rows, &labels, &[*scoring], scale, &randomness, &plan, &mut of_label).unwrap();
                let found: Vec<f64> = all.iter().skip(label).step_by(k).copied().collect();
                assert_eq!(bits(&found), bits(&of_label), "label {label} of {k}, {scoring:?}");
            }
        }
        let sorted = [-1.0, 0.2, 0.2, 0.7, 1.5, 3.0];
        for smoothed in [false, true] {
            let mut all = vec![0.0; n * k];
            p_values(&rows, scoring, &sorted, smoothed, &randomness, &plan, &mut all).unwrap();
            for (row, expected) in data.chunks_exact(k).zip(all.chunks_exact(k)) {
                let (row, mut found) = (Matrix::new(row, k).unwrap(), vec![0.0; k]);
                p_values(&row, scoring, &sorted, smoothed, &randomness, &plan, &mut found).unwrap();
                assert_eq!(bits(&found), bits(expected));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 60 }))]
        #[test]
        fn rows_side_by_side_equal_sorted_rows(
            k in 1_usize..FEW_LABELS + 4,
            n in prop_oneof![Just(1), Just(MANY_ROWS - 1), Just(MANY_ROWS), Just(GROUP + MANY_ROWS)],
            logits in prop::collection::vec(logit(), 97),
            power in prop_oneof![Just(0.0), Just(1.0)],
            log_t in -6.0_f64..6.0,
        ) {
            // Each row has one label that is possible.
            let value = |i: usize| if i % k == i / k % k { 0.25 } else { logits[i % logits.len()] };
            let wide: Vec<f64> = (0..n * k).map(value).collect();
            let narrow: Vec<f32> = wide.iter().map(|&z| z as f32).collect();
            for score in SCORES {
                let scoring = Scoring::new(score, Reweight::new(0.5, power).unwrap(), log_t.exp2()).unwrap();
                check(&wide, k, &scoring);
                check(&narrow, k, &scoring);
            }
        }
    }

    #[test]
    fn limits_are_those_of_single_labels() {
        let data: Vec<f32> = (0..40 * 5_u16).map(|i| f32::from(i * 7 % 11) - 4.0).collect();
        for score in [Score::Thr, Score::Aps] {
            for temperature in [0.0, f64::INFINITY] {
                check(&data, 5, &Scoring::new(score, Reweight::NONE, temperature).unwrap());
            }
        }
    }

    #[test]
    fn the_first_bad_row_is_named() {
        let mut data = vec![0.5_f32; 40 * 3];
        (data[35 * 3], data[20 * 3 + 1]) = (f32::NAN, f32::NAN);
        let rows = Matrix::new(&data, 3).unwrap();
        let scoring = Scoring::new(Score::Aps, Reweight::NONE, 1.0).unwrap();
        let (randomness, plan) = (Randomness::default(), Plan::default());
        let error =
            all_scores(&rows, &scoring, Scale::Ranked, &randomness, &plan, &mut [0.0; 120]).unwrap_err();
        assert!(error.to_string().contains("row 20"), "{error}");
    }
}
