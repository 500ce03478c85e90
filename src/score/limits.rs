//! What are the scores of THR and APS at temperatures 0 and infinity?
//!
//! They are the limits of what orders the labels, at a fixed weight `w`. Of n labels that share the maximum
//! (T = 0) or are possible (T = inf):
//!
//! | score | conventional | ranked, T = 0 | ranked, T = inf |
//! |---|---|---|---|
//! | thr | `1 - 1 / n` | `(max_{k != y} z_k - z_y) / w` | `(mean z - z_y) / w` |
//! | aps | `(r - 1 + U) / n` | `d / w`; of the maximum `-(1 - U + n - r) / n` | `(r - 1 + U) / n` |
//!
//! At T = 0 a label below the maximum has the conventional score 1.

use super::scoring::{Scale, Score, Scoring};
use crate::kernels::{Float, in_halves};
use crate::math::WIDTH;
use crate::rows::Scan;

/// What the limits need of a row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Census {
    /// Labels that share the maximum.
    n_top: usize,
    /// Labels with a finite logit.
    n_possible: usize,
    /// Half of what the mean of the finite logits is below the maximum.
    half_depth: f64,
}

impl Census {
    /// Counts the labels, and takes the mean if it is asked for: one limit alone needs it.
    #[inline(always)]
    pub(crate) fn of<F: Float>(row: &[F], scan: &Scan<F>, with_mean: bool) -> Self {
        let count = |is_one: &dyn Fn(F) -> bool| row.iter().filter(|&&z| is_one(z)).count();
        let n_top = if scan.second < scan.max { 1 } else { count(&|z| z >= scan.max) };
        let n_possible = count(&|z| z > F::NEG_INFINITY);
        let half_depth = if with_mean { half_depth(row, scan.max, n_possible) } else { 0.0 };
        Self { n_top, n_possible, half_depth }
    }

    /// The score of a possible label, given its logit and rank, for a row of this weight and U.
    #[inline(always)]
    pub(crate) fn score<F: Float>(
        &self,
        &Scoring { score, temperature, .. }: &Scoring,
        scale: Scale,
        scan: &Scan<F>,
        (logit, rank): (F, usize),
        weight: f64,
        u: f64,
    ) -> f64 {
        let (is_thr, is_zero, r) = (score == Score::Thr, temperature == 0.0, rank as f64);
        let is_below = is_zero && logit != scan.max;
        let n = if is_zero { self.n_top } else { self.n_possible } as f64;
        match (scale, is_thr) {
            (Scale::Conventional, _) if is_below => 1.0,
            (Scale::Conventional, true) => 1.0 - 1.0 / n,
            (Scale::Ranked, true) if is_zero => {
                let rival = if rank == 1 { scan.second } else { scan.max };
                per_weight(rival.to_f64() - logit.to_f64(), weight)
            }
            (Scale::Ranked, true) => {
                per_weight(2.0 * (half_distance(scan.max, logit) - self.half_depth), weight)
            }
            (Scale::Ranked, false) if is_below => (scan.max.to_f64() - logit.to_f64()) / weight,
            (Scale::Ranked, false) if is_zero => -(1.0 - u + (n - r)) / n,
            (_, false) => (r - 1.0 + u) / n,
        }
    }
}

/// `a / w`, with 0 for a = 0 at zero weight.
#[inline(always)]
fn per_weight(a: f64, weight: f64) -> f64 {
    if a == 0.0 { 0.0 } else { a / weight }
}

/// Half of what the mean of the possible logits is below the largest: relative to that, so that large logits
/// of one sign cost no precision; in halves and divided before they are added, so that no difference of
/// finite logits overflows. Label `i` is added in lane `i % 16`.
#[inline(always)]
fn half_depth<F: Float>(row: &[F], max: F, n_possible: usize) -> f64 {
    let share = 1.0 / n_possible as f64;
    let mut sums = [0.0; WIDTH];
    for chunk in row.chunks(WIDTH) {
        for (sum, &z) in sums.iter_mut().zip(chunk) {
            let part = half_distance(max, z) * share;
            *sum += if z > F::NEG_INFINITY { part } else { 0.0 };
        }
    }
    in_halves(sums)
}

#[inline(always)]
fn half_distance<F: Float>(max: F, z: F) -> f64 {
    0.5 * max.to_f64() - 0.5 * z.to_f64()
}
