//! What is the definition of each score, in both scales?
//!
//! Notation: `z` logits, `m` the largest, `d = m - z_y`, `r` the rank of label y (1 is the largest
//! logit, equal logits by lower label first), `beta = 1 / (w T)`, `f` the softmax of `beta z`.
//! A score sees a row only through [`Masses`]: sums over the labels before, at and after y (aps, raps),
//! over all others (thr, rank, mixed), or over all but the top label (saps).
//!
//! Why two scales. When `f` is nearly one-hot, `1 - A` underflows in the textbook form of APS, wrong
//! labels tie at 1.0 and sets at alpha = 0.01 become all labels. The ranked scale is a strictly
//! increasing transform of the conventional one that keeps distinct labels apart: `-log(1 - A)` for
//! APS, the log-odds against the label for THR. Below, `g = log sum_{k != y} exp(beta (z_k - z_y))`.
//!
//! | score | conventional | ranked |
//! |---|---|---|
//! | thr | `1 - f_y` | `g` |
//! | aps | `A = sum_{i<r} f_(i) + U f_(r)` | `-log(1 - A)` |
//! | raps | `A + p`, `p = penalty max(0, r - k_reg)` | `p - exp(-S_aps) + 2^-30 S_aps / (1 + S_aps)` |
//! | saps | `U f_(1)`; `r > 1`: `f_(1) + weight (r - 2 + U)` | less 1, with `1 - f_(1)` kept exact |
//! | rank | `(r - f_y) / K` | `r + g / (2 (1 + abs g))` |
//! | mixed | `-log f_y + weight log r` | the same: `log(1 + e^g) + weight log r` |

use super::scoring::{Scale, Score};
use crate::math::{each_lane, exp, ln, ln_1p, softplus};

/// The sums of one row at one beta, split at one label; see [`Sums`](super::masses::Sums) for what each score
/// puts where.
///
/// `above` and `below` are exact sums relative to their own largest terms, so neither underflows:
/// `above` is in units of `exp(beta m)`, `below` in units of `exp(beta shift)` for a shift between
/// the next lower logit and one a few units of `1 / beta` higher.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Masses {
    pub(crate) beta: f64,
    /// 1-based rank of the label.
    pub(crate) rank: usize,
    /// `m - z_y`.
    pub(crate) distance: f64,
    /// Sum over the labels ranked before.
    pub(crate) above: f64,
    /// Sum over the labels ranked after.
    pub(crate) below: f64,
    /// `m - shift`.
    pub(crate) shift_distance: f64,
    /// `z_y - shift`, formed directly: as a difference of the two distances it would be off by their
    /// rounding, and beta may be huge.
    pub(crate) lead: f64,
    /// The label's own term, in units of `exp(beta m)`, as precise as the terms of the sums.
    pub(crate) own: f64,
    /// The term of a logit at the shift, in units of `exp(beta m)`.
    pub(crate) at_shift: f64,
}

/// [`Masses`] of N labels.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct MassLanes<const N: usize> {
    pub(crate) beta: [f64; N],
    pub(crate) rank: [usize; N],
    pub(crate) distance: [f64; N],
    pub(crate) above: [f64; N],
    pub(crate) below: [f64; N],
    pub(crate) shift_distance: [f64; N],
    pub(crate) lead: [f64; N],
    pub(crate) own: [f64; N],
    pub(crate) at_shift: [f64; N],
}

impl From<Masses> for MassLanes<1> {
    #[inline(always)]
    fn from(masses: Masses) -> Self {
        Self {
            beta: [masses.beta],
            rank: [masses.rank],
            distance: [masses.distance],
            above: [masses.above],
            below: [masses.below],
            shift_distance: [masses.shift_distance],
            lead: [masses.lead],
            own: [masses.own],
            at_shift: [masses.at_shift],
        }
    }
}

impl<const N: usize> MassLanes<N> {
    pub(crate) const EMPTY: Self = Self {
        beta: [0.0; N],
        rank: [0; N],
        distance: [0.0; N],
        above: [0.0; N],
        below: [0.0; N],
        shift_distance: [0.0; N],
        lead: [0.0; N],
        own: [0.0; N],
        at_shift: [0.0; N],
    };

    #[inline(always)]
    pub(crate) fn get(&self, i: usize) -> Masses {
        Masses {
            beta: self.beta[i],
            rank: self.rank[i],
            distance: self.distance[i],
            above: self.above[i],
            below: self.below[i],
            shift_distance: self.shift_distance[i],
            lead: self.lead[i],
            own: self.own[i],
            at_shift: self.at_shift[i],
        }
    }
}

/// What a score reads of [`Masses`] beside the sums; the rest need not be there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wants {
    /// The distances.
    pub(crate) distances: bool,
    /// `own` and `at_shift`.
    pub(crate) terms: bool,
}

impl Wants {
    #[cfg(test)]
    pub(crate) const ALL: Self = Self { distances: true, terms: true };

    #[inline(always)]
    pub(crate) fn of(score: Score, scale: Scale) -> Self {
        let terms = matches!(score, Score::Aps | Score::Raps { .. });
        Self { distances: !terms || scale == Scale::Ranked, terms }
    }
}

/// `beta d`, with 0 for d = 0 at infinite beta.
#[inline(always)]
fn scaled(beta: f64, distance: f64) -> f64 {
    if distance == 0.0 { 0.0 } else { beta * distance }
}

impl Masses {
    /// The labels after it, in units of `exp(beta m)`, however small.
    #[inline(always)]
    fn tail(&self) -> f64 {
        self.below * exp(-scaled(self.beta, self.shift_distance))
    }

    /// The labels after it, in units of the label's own term.
    #[inline(always)]
    fn relative_tail(&self) -> f64 {
        self.below * exp(-scaled(self.beta, self.lead))
    }

    /// `g`, the log-odds against the label.
    #[inline(always)]
    fn log_odds(&self) -> f64 {
        let of_top = ln(self.below) - scaled(self.beta, self.shift_distance);
        let of_other = scaled(self.beta, self.distance) + ln(self.above + self.tail());
        if self.rank == 1 { of_top } else { of_other }
    }

    /// APS in the conventional scale, as the mass it counts and the total. Terms of the sums' own type will do, as the
    /// total is at least 1; below the deepest they stay at 2^-60 (float32) or 2^-110, which is less than its rounding.
    #[inline(always)]
    fn counted_and_total(&self, u: f64) -> (f64, f64) {
        let counted = u.mul_add(self.own, self.above);
        (counted, self.below.mul_add(self.at_shift, self.above + self.own))
    }

    /// `-log(1 - A)`, from A itself while A is small and from what A leaves when it is not.
    #[inline(always)]
    fn aps_ranked(&self, u: f64) -> f64 {
        let (counted, total) = self.counted_and_total(u);
        let log_total = ln(total);
        let from_counted = 0.0 - ln_1p(-counted / total); // not -0.0 when nothing counts
        let left = (1.0 - u) + self.relative_tail();
        let from_left = scaled(self.beta, self.distance) + log_total - ln(left);
        // At U = 1 only the labels after y are left, and they may be too few to add to anything.
        let from_after = log_total + scaled(self.beta, self.shift_distance) - ln(self.below);
        let large = if u == 1.0 { from_after } else { from_left };
        if counted + counted <= total { from_counted } else { large }
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

/// Scores of N labels, each from its masses, its rank and its U; for SAPS the masses are those of the
/// row's top label. A score has no other definition than this.
#[inline(always)]
pub(crate) fn score<const N: usize>(
    score: Score,
    scale: Scale,
    n_labels: usize,
    masses: &MassLanes<N>,
    rank: &[usize; N],
    u: &[f64; N],
) -> [f64; N] {
    // The choice is made outside the loops, which then turn into vector code.
    match (score, scale) {
        (Score::Thr, Scale::Conventional) => each_lane!([0.0; N], |i| logistic(masses.get(i).log_odds())),
        (Score::Thr, Scale::Ranked) => each_lane!([0.0; N], |i| masses.get(i).log_odds()),
        (Score::Aps, Scale::Conventional) => each_lane!([0.0; N], |i| {
            let (counted, total) = masses.get(i).counted_and_total(u[i]);
            counted / total
        }),
        (Score::Aps, Scale::Ranked) => each_lane!([0.0; N], |i| masses.get(i).aps_ranked(u[i])),
        (Score::Raps { penalty, k_reg }, Scale::Conventional) => each_lane!([0.0; N], |i| {
            let (counted, total) = masses.get(i).counted_and_total(u[i]);
            counted / total + raps_penalty(penalty, k_reg, rank[i])
        }),
        (Score::Raps { penalty, k_reg }, Scale::Ranked) => each_lane!([0.0; N], |i| {
            let s = masses.get(i).aps_ranked(u[i]);
            // The last term orders labels whose tail is below the rounding of the penalty.
            raps_penalty(penalty, k_reg, rank[i]) - exp(-s) + squash(s) / f64::from(1 << 30)
        }),
        (Score::Saps { weight }, Scale::Conventional) => each_lane!([0.0; N], |i| {
            let top = 1.0 / (1.0 + masses.get(i).tail());
            if rank[i] == 1 { u[i] * top } else { top + weight * (rank[i] as f64 - 2.0 + u[i]) }
        }),
        (Score::Saps { weight }, Scale::Ranked) => each_lane!([0.0; N], |i| {
            let others = masses.get(i).tail();
            let not_top = others / (1.0 + others);
            let of_top = -((1.0 - u[i]) + u[i] * not_top);
            if rank[i] == 1 { of_top } else { weight * (rank[i] as f64 - 2.0 + u[i]) - not_top }
        }),
        (Score::Rank, Scale::Conventional) => {
            each_lane!([0.0; N], |i| (rank[i] as f64 - logistic(-masses.get(i).log_odds())) / n_labels as f64)
        }
        (Score::Rank, Scale::Ranked) => {
            each_lane!([0.0; N], |i| rank[i] as f64 + 0.5 * squash(masses.get(i).log_odds()))
        }
        (Score::Mixed { weight }, _) => {
            each_lane!([0.0; N], |i| weight.mul_add(ln(rank[i] as f64), softplus(masses.get(i).log_odds())))
        }
    }
}

#[inline(always)]
fn raps_penalty(penalty: f64, k_reg: u32, rank: usize) -> f64 {
    penalty * (rank as f64 - f64::from(k_reg)).max(0.0)
}

/// What the closed limits in temperature need of a row and a label.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimitView {
    /// `w`, held fixed in the limit.
    pub(crate) weight: f64,
    pub(crate) rank: usize,
    /// Whether the label shares the maximum.
    pub(crate) is_top: bool,
    /// `m - z_y`.
    pub(crate) distance: f64,
    /// `max_{k != y} z_k - z_y`.
    pub(crate) lead: f64,
    /// Labels that share the maximum.
    pub(crate) n_top: usize,
    /// Labels with a finite logit.
    pub(crate) n_possible: usize,
    /// Mean of the finite logits less `z_y`.
    pub(crate) mean_lead: f64,
}

/// `a / w`, with 0 for a = 0 at zero weight.
#[inline(always)]
fn per_weight(a: f64, weight: f64) -> f64 {
    if a == 0.0 { 0.0 } else { a / weight }
}

/// Scores at T = 0 and T = inf, thr and aps only: the order that the scores tend to.
#[inline(always)]
pub(crate) fn limit_score(score: Score, view: &LimitView, u: f64, temperature: f64, scale: Scale) -> f64 {
    let r = view.rank as f64;
    let is_thr = score == Score::Thr;
    match (temperature == 0.0, scale) {
        (true, Scale::Ranked) => {
            if is_thr {
                per_weight(view.lead, view.weight)
            } else if view.is_top {
                let after = view.n_top as f64 - r;
                -(1.0 - u + after) / view.n_top as f64
            } else {
                view.distance / view.weight
            }
        }
        (false, Scale::Ranked) => {
            if is_thr {
                per_weight(view.mean_lead, view.weight)
            } else {
                (r - 1.0 + u) / view.n_possible as f64
            }
        }
        (at_zero, Scale::Conventional) => {
            let n = if at_zero { view.n_top } else { view.n_possible } as f64;
            match (is_thr, at_zero && !view.is_top) {
                (_, true) => 1.0,
                (true, false) => 1.0 - 1.0 / n,
                (false, false) => (r - 1.0 + u) / n,
            }
        }
    }
}
