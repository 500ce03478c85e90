//! The definition of every score, in one place and in both scales.
//!
//! Notation: `z` logits, `m` the largest, `d = m - z_y`, `r` the rank of label y (1 is the largest
//! logit, equal logits by lower label first), `beta = 1 / (w T)`, `f` the softmax of `beta z`.
//! A score sees a row only through [`Masses`]: three sums over the labels before, at and after y.
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

use crate::elementary::{exp, ln, ln_1p};
use crate::scoring::{Scale, Score};

/// The sums of one row, split at one label, at one beta.
///
/// `above` and `below` are exact sums relative to their own largest terms, so neither underflows:
/// `above` is in units of `exp(beta m)`, `below` in units of `exp(beta shift)` for a shift between
/// the next lower logit and one a few units of `1 / beta` higher.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Masses {
    pub(crate) beta: f64,
    /// 1-based rank of the label.
    pub(crate) rank: usize,
    /// `m - z_y`; finite.
    pub(crate) distance: f64,
    /// Sum over the labels ranked before.
    pub(crate) above: f64,
    /// Sum over the labels ranked after.
    pub(crate) below: f64,
    /// `m - shift`.
    pub(crate) shift_distance: f64,
}

/// `beta d`, with 0 for d = 0 at infinite beta.
#[inline(always)]
fn scaled(beta: f64, distance: f64) -> f64 {
    if distance == 0.0 { 0.0 } else { beta * distance }
}

impl Masses {
    /// The label's own term, in units of `exp(beta m)`.
    #[inline(always)]
    fn own(&self) -> f64 {
        exp(-scaled(self.beta, self.distance))
    }

    /// The labels after it, in units of `exp(beta m)`.
    #[inline(always)]
    fn tail(&self) -> f64 {
        self.below * exp(-scaled(self.beta, self.shift_distance))
    }

    /// The labels after it, in units of the label's own term.
    #[inline(always)]
    fn relative_tail(&self) -> f64 {
        self.below * exp(-scaled(self.beta, self.shift_distance - self.distance))
    }

    /// `g`, the log-odds against the label.
    #[inline(always)]
    fn log_odds(&self) -> f64 {
        if self.rank == 1 {
            ln(self.below) - scaled(self.beta, self.shift_distance)
        } else {
            scaled(self.beta, self.distance) + ln(self.above + self.tail())
        }
    }

    /// APS in the conventional scale, as the mass it counts and the total.
    #[inline(always)]
    fn counted_and_total(&self, u: f64) -> (f64, f64) {
        let own = self.own();
        (u.mul_add(own, self.above), self.above + own + self.tail())
    }

    /// `-log(1 - A)`, from A itself while A is small and from what A leaves when it is not.
    #[inline(always)]
    fn aps_ranked(&self, u: f64) -> f64 {
        let (counted, total) = self.counted_and_total(u);
        if counted + counted <= total {
            return 0.0 - ln_1p(-counted / total); // not -0.0 when nothing counts
        }
        if u == 1.0 {
            // Only the labels after y are left, and they may be too few to add to anything.
            return ln(total) + scaled(self.beta, self.shift_distance) - ln(self.below);
        }
        scaled(self.beta, self.distance) + ln(total) - ln((1.0 - u) + self.relative_tail())
    }
}

/// `1 / (1 + e^-g)` without overflow.
#[inline(always)]
fn logistic(g: f64) -> f64 {
    if g >= 0.0 {
        1.0 / (1.0 + exp(-g))
    } else {
        let e = exp(g);
        e / (1.0 + e)
    }
}

/// `x / (1 + |x|)`, with its limits at infinity.
#[inline(always)]
fn squash(x: f64) -> f64 {
    if x.is_infinite() { x.signum() } else { x / (1.0 + x.abs()) }
}

/// Score of a label from its masses; for SAPS those of the top label, with the label's own rank
/// given apart.
#[inline(always)]
pub(crate) fn score(
    score: Score,
    masses: &Masses,
    rank: usize,
    u: f64,
    n_labels: usize,
    scale: Scale,
) -> f64 {
    let r = rank as f64;
    match (score, scale) {
        (Score::Thr, Scale::Conventional) => logistic(masses.log_odds()),
        (Score::Thr, Scale::Ranked) => masses.log_odds(),
        (Score::Aps, Scale::Conventional) => {
            let (counted, total) = masses.counted_and_total(u);
            counted / total
        }
        (Score::Aps, Scale::Ranked) => masses.aps_ranked(u),
        (Score::Raps { penalty, k_reg }, _) => {
            let p = penalty * (r - f64::from(k_reg)).max(0.0);
            if scale == Scale::Conventional {
                let (counted, total) = masses.counted_and_total(u);
                return counted / total + p;
            }
            let s = masses.aps_ranked(u);
            // The last term orders labels whose tail is below the rounding of p.
            p - exp(-s) + squash(s) / f64::from(1 << 30)
        }
        (Score::Saps { weight }, _) => {
            let others = masses.tail();
            let top = 1.0 / (1.0 + others);
            let not_top = others / (1.0 + others);
            match (rank, scale) {
                (1, Scale::Conventional) => u * top,
                (1, Scale::Ranked) => -((1.0 - u) + u * not_top),
                (_, Scale::Conventional) => top + weight * (r - 2.0 + u),
                (_, Scale::Ranked) => weight * (r - 2.0 + u) - not_top,
            }
        }
        (Score::Rank, Scale::Conventional) => (r - logistic(-masses.log_odds())) / n_labels as f64,
        (Score::Rank, Scale::Ranked) => r + 0.5 * squash(masses.log_odds()),
    }
}

/// What the closed limits in temperature need of a row and a label.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimitView {
    /// `w`, held fixed in the limit.
    pub(crate) weight: f64,
    pub(crate) rank: usize,
    /// `m - z_y`; finite.
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
            } else if view.distance > 0.0 {
                view.distance / view.weight
            } else {
                let after = (view.n_top - view.rank) as f64;
                -(1.0 - u + after) / view.n_top as f64
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
            match (is_thr, at_zero && view.distance > 0.0) {
                (_, true) => 1.0,
                (true, false) => 1.0 - 1.0 / n,
                (false, false) => (r - 1.0 + u) / n,
            }
        }
    }
}
