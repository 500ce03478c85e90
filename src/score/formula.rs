//! What is the definition of each score, in both scales?
//!
//! Notation: `z` logits, `m` the largest, `d = m - z_y`, `r` the rank of label y (1 is the largest
//! logit, equal logits by lower label first), `beta = 1 / (w T)`, `f` the softmax of `beta z`.
//! A score sees a row only through [`Masses`], the sums that [`Sums`] names.
//!
//! Why two scales. When `f` is nearly one-hot, `1 - A` underflows in the textbook form of APS, wrong labels
//! tie at 1.0, and sets at alpha = 0.01 become all labels. The ranked scale is a strictly increasing
//! transform of the conventional one that keeps distinct labels apart: `-log(1 - A)` for APS, the log-odds
//! against the label for THR, `g = log sum_{k != y} exp(beta (z_k - z_y))`.
//!
//! | score | conventional | ranked |
//! |---|---|---|
//! | thr | `1 - f_y` | `g` |
//! | aps | `A = sum_{i<r} f_(i) + U f_(r)` | `-log(1 - A)` |
//! | raps | `A + p`, `p = penalty max(0, r - k_reg)` | `p - exp(-S_aps) + 2^-30 S_aps / (1 + S_aps)` |
//! | saps | `U f_(1)`; `r > 1`: `f_(1) + weight (r - 2 + U)` | less 1, with `1 - f_(1)` kept exact |
//! | rank | `(r - f_y) / K` | `r + g / (2 (1 + abs g))` |
//! | mixed | `-log f_y + weight log r` | as conventional: `log(1 + e^g) + weight log r` |

use super::scoring::{Scale, Score};
use crate::kernels::Float;
use crate::math::{Depths, each_lane, exp, ln, ln_1p, softplus};

/// Which sums a score is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sums {
    /// The labels before and those after the label (aps, raps).
    Split,
    /// All labels but this one (thr, rank, mixed). For the top label they are relative to the logit ranked
    /// next. For any other label they are relative to the maximum: its sum is that of all labels less its own
    /// term, so that the log-odds fall with rank by no more than a rounding of that term. They count as
    /// `above` then.
    Others,
    /// All labels but the top one, whichever label is scored (saps).
    Top,
}

impl Sums {
    #[inline(always)]
    pub(crate) fn of(score: Score) -> Self {
        match score {
            Score::Aps | Score::Raps { .. } => Self::Split,
            Score::Thr | Score::Rank | Score::Mixed { .. } => Self::Others,
            Score::Saps { .. } => Self::Top,
        }
    }
}

/// The sums of N rows, each at one beta and split at one label. What a score does not read is left as it was.
///
/// Neither sum underflows, as each is exact and relative to its own largest term: `above` is in units of
/// `exp(beta m)`, `below` in units of `exp(beta shift)`. The shift lies between the logit ranked next and a
/// few units of `1 / beta` above it.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Masses<const N: usize = 1> {
    pub(crate) beta: [f64; N],
    /// `m - z_y`.
    pub(crate) distance: [f64; N],
    /// Sum over the labels ranked before.
    pub(crate) above: [f64; N],
    /// Sum over the labels ranked after.
    pub(crate) below: [f64; N],
    /// `m - shift`.
    pub(crate) shift_distance: [f64; N],
    /// `z_y - shift`. The difference of the two distances would be off by their rounding, and beta may be
    /// huge.
    pub(crate) lead: [f64; N],
    /// The label's own term, in units of `exp(beta m)`, as precise as the terms of the sums.
    pub(crate) own: [f64; N],
    /// The term of a logit at the shift, in units of `exp(beta m)`.
    pub(crate) at_shift: [f64; N],
}

/// `beta d`, with 0 for d = 0 at infinite beta.
#[inline(always)]
fn scaled(beta: f64, distance: f64) -> f64 {
    if distance == 0.0 { 0.0 } else { beta * distance }
}

impl<const N: usize> Masses<N> {
    pub(crate) const EMPTY: Self = Self {
        beta: [0.0; N],
        distance: [0.0; N],
        above: [0.0; N],
        below: [0.0; N],
        shift_distance: [0.0; N],
        lead: [0.0; N],
        own: [0.0; N],
        at_shift: [0.0; N],
    };

    /// Adds to beta and the sums what else the scores made of them read.
    #[inline(always)]
    pub(crate) fn complete<F: Float>(
        &mut self,
        (sums, in_scale): (Sums, Scale),
        scale: &[F; N],
        max: &[F; N],
        logit: &[F; N],
        shift: &[F; N],
    ) {
        let reads_terms = sums == Sums::Split;
        if !reads_terms || in_scale == Scale::Ranked {
            for i in 0..N {
                let (max, y) = (max[i].to_f64(), logit[i].to_f64());
                self.distance[i] = max - y;
                self.shift_distance[i] = max - shift[i].to_f64();
                self.lead[i] = y - shift[i].to_f64();
            }
        }
        if reads_terms {
            // In loops of their own, of whole vectors of the computing type.
            let depths = each_lane!([Depths::new(F::LOG2_E); N], |i| Depths::new(scale[i]));
            let own = each_lane!([F::ZERO; N], |i| depths[i].term_in_lanes(logit[i], max[i]));
            let at_shift = each_lane!([F::ZERO; N], |i| depths[i].term_in_lanes(shift[i], max[i]));
            for i in 0..N {
                (self.own[i], self.at_shift[i]) = (own[i].to_f64(), at_shift[i].to_f64());
            }
        }
    }

    /// The labels after label i, in units of `exp(beta m)`, however small.
    #[inline(always)]
    fn tail(&self, i: usize) -> f64 {
        self.below[i] * exp(-scaled(self.beta[i], self.shift_distance[i]))
    }

    /// The labels after label i, in units of its own term.
    #[inline(always)]
    fn relative_tail(&self, i: usize) -> f64 {
        self.below[i] * exp(-scaled(self.beta[i], self.lead[i]))
    }

    /// `g`, the log-odds against label i of this rank.
    #[inline(always)]
    fn log_odds(&self, i: usize, rank: usize) -> f64 {
        let of_top = ln(self.below[i]) - scaled(self.beta[i], self.shift_distance[i]);
        let of_other = scaled(self.beta[i], self.distance[i]) + ln(self.above[i] + self.tail(i));
        if rank == 1 { of_top } else { of_other }
    }

    /// The mass that APS counts, and the total. The total is at least 1, so terms of the sums' own type are
    /// precise enough: below the deepest they stay at 2^-60 (float32) or 2^-110, which is less than its
    /// rounding.
    #[inline(always)]
    fn counted_and_total(&self, i: usize, u: f64) -> (f64, f64) {
        let counted = u.mul_add(self.own[i], self.above[i]);
        (counted, self.below[i].mul_add(self.at_shift[i], self.above[i] + self.own[i]))
    }

    /// APS in the conventional scale, A.
    #[inline(always)]
    fn aps(&self, i: usize, u: f64) -> f64 {
        let (counted, total) = self.counted_and_total(i, u);
        counted / total
    }

    /// `-log(1 - A)`, from A itself while A is small and from what A leaves when it is not.
    #[inline(always)]
    fn aps_ranked(&self, i: usize, u: f64) -> f64 {
        let (counted, total) = self.counted_and_total(i, u);
        let log_total = ln(total);
        let from_counted = 0.0 - ln_1p(-counted / total); // not -0.0 when nothing counts
        let left = (1.0 - u) + self.relative_tail(i);
        let from_left = scaled(self.beta[i], self.distance[i]) + log_total - ln(left);
        // At U = 1 only the labels after y are left, and they may be too few to add to anything.
        let from_after = log_total + scaled(self.beta[i], self.shift_distance[i]) - ln(self.below[i]);
        let large = if u == 1.0 { from_after } else { from_left };
        if counted + counted <= total { from_counted } else { large }
    }

    /// All of label i, to the bit but for the sign of zero: logits that tie may be of either, and `scaled`
    /// ignores it.
    #[cfg(test)]
    pub(super) fn lane(&self, i: usize) -> [f64; 8] {
        let Self { beta, distance, above, below, shift_distance, lead, own, at_shift } = self;
        [beta, distance, above, below, shift_distance, lead, own, at_shift].map(|lanes| lanes[i] + 0.0)
    }
}

/// `1 / (1 + e^-g)` without overflow.
#[inline(always)]
fn logistic(g: f64) -> f64 {
    let e = exp(-g.abs());
    let of_smaller = e / (1.0 + e);
    if g >= 0.0 { 1.0 / (1.0 + e) } else { of_smaller }
}

/// `x / (1 + |x|)`, with its limits at infinity.
#[inline(always)]
fn squash(x: f64) -> f64 {
    if x.is_infinite() { x.signum() } else { x / (1.0 + x.abs()) }
}

/// Scores of N labels, each from its masses, its rank and its U; for SAPS the masses are those of the row's
/// top label. Every score of the crate comes from here or, at a limit in temperature, from `limits.rs`.
#[inline(always)]
pub(crate) fn score<const N: usize>(
    score: Score,
    scale: Scale,
    n_labels: usize,
    masses: &Masses<N>,
    rank: &[usize; N],
    u: &[f64; N],
) -> [f64; N] {
    // The choice is made outside the loops, which then turn into vector code.
    match (score, scale) {
        (Score::Thr, Scale::Conventional) => {
            each_lane!([0.0; N], |i| logistic(masses.log_odds(i, rank[i])))
        }
        (Score::Thr, Scale::Ranked) => each_lane!([0.0; N], |i| masses.log_odds(i, rank[i])),
        (Score::Aps, Scale::Conventional) => each_lane!([0.0; N], |i| masses.aps(i, u[i])),
        (Score::Aps, Scale::Ranked) => each_lane!([0.0; N], |i| masses.aps_ranked(i, u[i])),
        (Score::Raps { penalty, k_reg }, Scale::Conventional) => {
            each_lane!([0.0; N], |i| masses.aps(i, u[i]) + raps_penalty(penalty, k_reg, rank[i]))
        }
        (Score::Raps { penalty, k_reg }, Scale::Ranked) => each_lane!([0.0; N], |i| {
            let s = masses.aps_ranked(i, u[i]);
            // The last term orders labels whose tail is below the rounding of the penalty.
            raps_penalty(penalty, k_reg, rank[i]) - exp(-s) + squash(s) / f64::from(1 << 30)
        }),
        (Score::Saps { weight }, Scale::Conventional) => each_lane!([0.0; N], |i| {
            let top = 1.0 / (1.0 + masses.tail(i));
            if rank[i] == 1 { u[i] * top } else { top + weight * (rank[i] as f64 - 2.0 + u[i]) }
        }),
        (Score::Saps { weight }, Scale::Ranked) => each_lane!([0.0; N], |i| {
            let others = masses.tail(i);
            let not_top = others / (1.0 + others);
            let of_top = -((1.0 - u[i]) + u[i] * not_top);
            if rank[i] == 1 { of_top } else { weight * (rank[i] as f64 - 2.0 + u[i]) - not_top }
        }),
        (Score::Rank, Scale::Conventional) => each_lane!([0.0; N], |i| {
            (rank[i] as f64 - logistic(-masses.log_odds(i, rank[i]))) / n_labels as f64
        }),
        (Score::Rank, Scale::Ranked) => {
            each_lane!([0.0; N], |i| rank[i] as f64 + 0.5 * squash(masses.log_odds(i, rank[i])))
        }
        (Score::Mixed { weight }, _) => each_lane!([0.0; N], |i| {
            weight.mul_add(ln(rank[i] as f64), softplus(masses.log_odds(i, rank[i])))
        }),
    }
}

#[inline(always)]
fn raps_penalty(penalty: f64, k_reg: u32, rank: usize) -> f64 {
    penalty * (rank as f64 - f64::from(k_reg)).max(0.0)
}
