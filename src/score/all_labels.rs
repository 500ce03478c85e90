//! What are the scores of all labels of each row?
//!
//! ```text
//! few labels and many rows:  for each label, score it in all rows of the tile at once, one lane a row
//! else:                      for each row, sort it, and extend one sum from label to label
//! ```

use super::batch::check_length;
use super::candidates::Candidates;
use super::formula::Sums;
use super::scoring::{Scale, Scoring};
use super::sorted::SortedRow;
use super::tile::{LabelScratch, TileView, label_scores_of_tile};
use crate::error::Error;
use crate::kernels::{Float, TILE};
use crate::math::Randomness;
use crate::rows::{Rows, Tile};
use crate::run::{Plan, Planes, Reads, TileWork, fill_tiles};
use crate::simd::{Simd, vectorize};

/// Up to so many labels rows go side by side. In units of the time of sorted rows, APS and THR took 0.28 and
/// 0.32 with ten labels, 0.53 and 0.68 with 24, 0.73 and 1.02 with 48 (AVX-512; AVX2 0.34, 0.42; 0.67, 0.93;
/// 0.90, 1.30).
const FEW_LABELS: usize = 24;
/// With SAPS, all labels of a sorted row share one sum. It took 0.68 of the time with ten labels, 1.22 with
/// 24 (AVX2 1.03, 1.87).
const FEW_LABELS_OF_TOP: usize = 10;
/// Fewer rows than this are sorted: most lanes would be empty.
const MANY_ROWS: usize = 16;

/// Scores of all labels, `out` as rows of K. Each equals what [`crate::label_scores`] gives for that label,
/// to the bit.
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

/// Makes what is written for a label of the index of its row, the words behind the row's U, and the score.
pub(crate) type Finish<'a> = &'a (dyn Fn(usize, [u64; 2], f64) -> f64 + Sync);

/// Writes what `finish` makes of the score of each label.
pub(crate) fn all_labels<F: Float, R: Rows<F>>(
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
    let few = if Sums::of(scoring.score) == Sums::Top { FEW_LABELS_OF_TOP } else { FEW_LABELS };
    let candidates = Candidates::only(scoring);
    let work = AllLabels { candidates, scale, randomness, finish, is_few: k <= few };
    // Sorting and scoring a label costs several passes; the number only sets the size of slices.
    fill_tiles::<f64, F, _>(rows, &work, k, 8, plan, out)
}

struct AllLabels<'c> {
    candidates: Candidates<'c>,
    scale: Scale,
    randomness: &'c Randomness<'c>,
    finish: Finish<'c>,
    /// Whether rows may go side by side.
    is_few: bool,
}

impl<F: Float> TileWork<F> for AllLabels<'_> {
    type Scratch = (LabelScratch<F>, SortedRow<F>);
    type Out<'a> = Planes<'a, f64>;

    fn reads(&self) -> Option<Reads> {
        Some(Reads { entropy: self.candidates.entropy, sums: false })
    }

    fn begin(&self, n_labels: usize, (_, sorted): &mut Self::Scratch) -> Result<(), Error> {
        if self.is_few { Ok(()) } else { sorted.reserve(n_labels) }
    }

    #[inline(always)]
    fn tile<S: Simd>(
        &self,
        s: S,
        tile: &mut Tile<'_, F>,
        (labels, sorted): &mut Self::Scratch,
        out: &mut Planes<'_, f64>,
    ) -> Result<(), Error> {
        let Self { candidates, scale, randomness, finish, is_few } = self;
        let k = tile.n_labels();
        let out = &mut out.only()[tile.at * k..][..tile.count * k];
        let view = TileView::of(tile, candidates, randomness)?;
        let tile = view.tile;
        if *is_few && tile.count >= MANY_ROWS {
            let (words, mut scores) = (tile.words(), [0.0; TILE]);
            for label in 0..k {
                let planes = &mut Planes::Whole(&mut scores, TILE);
                labels.read(tile, &[label; TILE]);
                let (labels, view) = (&mut *labels, &view);
                vectorize!(s, label_scores_of_tile(s, view, candidates, *scale, labels, planes, 0));
                for i in 0..tile.count {
                    out[i * k + label] = finish(tile.first + i, [words[0][i], words[1][i]], scores[i]);
                }
            }
            return Ok(());
        }
        for (i, out) in out.chunks_exact_mut(k).enumerate() {
            let row = view.row(i, candidates);
            let words = row.scan.words();
            sorted.sort(row.row);
            row.sorted_scores(s, sorted, &candidates.list[0], *scale, |label, score| {
                out[label as usize] = finish(tile.first + i, words, score);
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Matrix;
    use crate::score::testing::{SCORES, narrow};
    use crate::score::{Reweight, Score, label_scores};
    use crate::testing::logit;
    use proptest::prelude::*;

    fn bits(values: &[f64]) -> Vec<u64> {
        values.iter().map(|v| v.to_bits()).collect()
    }

    /// Each label's score is the one it has alone.
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
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 60 }))]
        #[test]
        fn rows_side_by_side_equal_sorted_rows(
            k in 1_usize..FEW_LABELS + 4,
            n in prop_oneof![Just(1), Just(MANY_ROWS - 1), Just(MANY_ROWS), Just(TILE + MANY_ROWS)],
            logits in prop::collection::vec(logit(), 97),
            power in prop_oneof![Just(0.0), Just(1.0)],
            log_t in -6.0_f64..6.0,
        ) {
            // Each row has one label that is possible.
            let value = |i: usize| if i % k == i / k % k { 0.25 } else { logits[i % logits.len()] };
            let wide: Vec<f64> = (0..n * k).map(value).collect();
            for score in SCORES {
                let scoring = Scoring::new(score, Reweight::new(0.5, power).unwrap(), log_t.exp2()).unwrap();
                check(&wide, k, &scoring);
                check(&narrow(&wide), k, &scoring);
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
