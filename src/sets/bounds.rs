//! Which labels are clearly in a set, and which clearly out, before their scores are computed?
//!
//! Labels are taken by rank. A share of the row's total mass is compared with a bound, and the bound depends
//! on nothing but the rank and the threshold q. [`row_cut`](super::row_cut) and [`tile_cut`](super::tile_cut)
//! both cut by this table:
//!
//! | score | share | in at q when it is at least |
//! |---|---|---|
//! | thr | `r = 1`: `-(1 - f_y)`; then `f_y` | `-1 / (1 + e^-q)`; then `1 / (1 + e^q)` |
//! | aps | `(1 - U) f_y + (mass after y)` | `e^-q` |
//! | raps | as aps | `p - q`, `p = penalty max(0, r - k_reg)` |
//! | saps | `r = 1`: as aps; then `1 - f_(1) - weight U` | `-q`; then `weight (r - 2) - q` |
//! | rank | as thr | as thr, at the g with `g / (1 + abs g) = 2 (q - r)` |
//! | mixed | as thr | `e^-q - 1`; then `e^(weight log r - q)` |
//!
//! Shares fall with rank and bounds rise, so the first label that is out ends the set. A label within the
//! margin of a bound is at the edge, and the definition decides. (The top label of thr is compared by the
//! mass it leaves, as that may be far less than the rounding of its own.)
//!
//! Margins. A term's relative error is below 60 * 2^-24 * log 2 plus 1.2e-6 (float32: the depth, which is
//! rounded before it is multiplied, and the exponential), and sums add half a quantum a label: 4e-6 in all
//! where sums are not tiny. The definition has the same sources, and coarse quanta in place of fine ones:
//! 2.6e-6 more, relative to each sum itself (see [`Grain`](crate::math::Grain)).
//! [`Scalar::MARGIN`](crate::math::Scalar::MARGIN), relative to the mass, is ten times that, and more in
//! float64. Errors that are not relative to the mass are in the slack of each bound, in units of the total.
//!
//! Where shares underflow, a second pair of bounds is linear in the logit. For APS, `S = -log left` with `f_y
//! (1 - U) <= left <= f_y (1 - U + K - r)`: a label is in if `beta d + log Z - log(1 - U) <= q`, and out if
//! `beta d + log Z - log K > q`.

use crate::math::{each_lane, exp, exp_m1, ln, softplus};
use crate::score::{Score, Scoring};

/// Ten times, and more, what the sums, the bounds and the definition's fine quanta are off by, in units of
/// the total.
const ROUNDING: f64 = 1e-12;

/// A candidate with two thresholds `lo <= hi`, equal for an ordinary set: model selection asks at once for
/// the labels up to `lo`, and for the scores of the few between.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) scoring: Scoring,
    pub(crate) lo: f64,
    pub(crate) hi: f64,
    /// [`Self::at`] of the first rank, and of all others where they have one bound.
    first: (f64, f64),
    other: Option<(f64, f64)>,
}

impl Bounds {
    pub(crate) fn new(scoring: &Scoring, lo: f64, hi: f64) -> Self {
        let at = |rank| between(scoring.score, rank, lo, hi);
        let is_one = matches!(scoring.score, Score::Thr | Score::Aps);
        Self { scoring: *scoring, lo, hi, first: at(1), other: is_one.then(|| at(2)) }
    }

    /// The share of the total above which the label at a rank is in at `lo`, and the one below which it is
    /// out at `hi`.
    #[inline(always)]
    pub(crate) fn at(&self, rank: usize) -> (f64, f64) {
        match self.other {
            _ if rank == 1 => self.first,
            Some(other) => other,
            None => between(self.scoring.score, rank, self.lo, self.hi),
        }
    }

    /// What is compared with [`Self::at`], of labels at rank `i` counted from 0, one a lane: a mass, and what
    /// is added to it without a margin of its own. `own` are the labels' masses, `after` those of all labels
    /// after them, or for SAPS of all labels after the top one, and `z` the totals.
    #[inline(always)]
    pub(crate) fn shares<const N: usize>(
        &self,
        i: usize,
        own: &[f64; N],
        after: &[f64; N],
        z: &[f64; N],
        u: &[f64; N],
    ) -> ([f64; N], [f64; N]) {
        let none = [0.0; N];
        match self.scoring.score {
            Score::Thr | Score::Rank | Score::Mixed { .. } if i > 0 => (*own, none),
            Score::Thr | Score::Rank | Score::Mixed { .. } => {
                (each_lane!([0.0; N], |lane| -after[lane]), none)
            }
            Score::Saps { weight } if i > 0 => {
                (*after, each_lane!([0.0; N], |lane| -weight * u[lane] * z[lane]))
            }
            Score::Aps | Score::Raps { .. } | Score::Saps { .. } => {
                (each_lane!([0.0; N], |lane| (1.0 - u[lane]).mul_add(own[lane], after[lane])), none)
            }
        }
    }

    /// Two distances from the largest logit: up to the first a label is in, beyond the second it is out.
    /// `log_z` is the logarithm of the row's total.
    #[inline(always)]
    pub(crate) fn distances(
        &self,
        n_labels: usize,
        log_z: f64,
        u: f64,
        beta: f64,
        margin: f64,
    ) -> (f64, f64) {
        let lo = self.lo - margin * (1.0 + self.lo.abs());
        let hi = self.hi + margin * (1.0 + self.hi.abs());
        match self.scoring.score {
            Score::Aps => ((lo - log_z + ln(1.0 - u)) / beta, (hi - log_z + ln(n_labels as f64)) / beta),
            // g <= q means f_y >= 1 / (1 + e^q), and log(1 + e^q) is softplus(q).
            Score::Thr => ((softplus(lo) - log_z - margin) / beta, (softplus(hi) - log_z + margin) / beta),
            Score::Mixed { .. } => (f64::NEG_INFINITY, (hi - log_z) / beta),
            _ => (f64::NEG_INFINITY, f64::INFINITY),
        }
    }

    /// Whether [`Self::distances`] bounds the set from below.
    pub(crate) fn has_distances(&self) -> bool {
        let is_linear = matches!(self.scoring.score, Score::Aps | Score::Thr | Score::Mixed { .. });
        is_linear && !self.scoring.is_limit() && self.hi < f64::INFINITY
    }
}

#[inline(always)]
fn between(score: Score, rank: usize, lo: f64, hi: f64) -> (f64, f64) {
    let (in_at, in_slack) = needed(score, rank, lo);
    let (out_at, out_slack) = needed(score, rank, hi);
    (in_at + in_slack, out_at - out_slack)
}

/// The share that the label at a rank needs to be in at threshold `q`, and its slack: what roundings change
/// of it, and the terms of the definition that are in no share. Near the bound `p` or `weight r` is near q,
/// so the slack covers their roundings however large q is.
#[inline(always)]
fn needed(score: Score, rank: usize, q: f64) -> (f64, f64) {
    let r = rank as f64;
    let at_odds = |g: f64| if rank == 1 { -1.0 / (1.0 + exp(-g)) } else { 1.0 / (1.0 + exp(g)) };
    match score {
        Score::Thr => (at_odds(q), ROUNDING),
        Score::Aps => (exp(-q), ROUNDING),
        Score::Raps { penalty, k_reg } => {
            let p = penalty * (r - f64::from(k_reg)).max(0.0);
            (p - q, 2e-9 * (1.0 + p))
        }
        Score::Saps { weight } => {
            let by_rank = weight * (r - 2.0).max(0.0);
            (by_rank - q, 4.0 * ROUNDING * (1.0 + weight + by_rank))
        }
        Score::Rank => {
            // As |g / (1 + |g|)| <= 1, a rank further than a half from q is in or out whatever the share is.
            let t = 2.0 * (q - r);
            if t.abs() > 1.0 + 2e-9 {
                return (-t * f64::INFINITY, 0.0);
            }
            let t = t.clamp(-1.0, 1.0);
            (at_odds(t / (1.0 - t.abs())), ROUNDING)
        }
        Score::Mixed { .. } if rank == 1 => (exp_m1(-q), ROUNDING),
        Score::Mixed { weight } => (exp(weight * ln(r) - q), ROUNDING),
    }
}
