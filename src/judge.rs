//! What can be said of a label before its score is computed: in, out, or at the edge.
//!
//! Bounds for APS, with `left = (1 - U) f_y + (mass after y)`, so that `S = -log left` and
//! `f_y (1 - U) <= left <= f_y (1 - U + K - r)`: a label is in if `beta d + log Z - log(1 - U) <= q`, out
//! if `beta d + log Z - log K > q`, both linear in the logit. In between, `left` is the exact total less
//! the exact sum so far. THR and RANK compare the odds against the label with a bound fixed in advance.
//!
//! Margins. A term's relative error is below 60 * 2^-24 * log 2 plus 1.2e-6 (float32: the depth, which is rounded
//! before it is multiplied, and the exponential), and sums add half a quantum a label: 4e-6 in all where sums are not
//! tiny. The definition has the same sources, and coarse quanta in place of fine ones: 2.6e-6 more, relative to each
//! sum itself (see [`crate::sum::Grain`]). The margins below are ten times that, and more in float64.
//!
//! Some functions are not inlined: they are pure, so the compiler would lift their logarithms out of the loop over
//! labels and compute them for every row, also for the many that never need them.

use crate::cut::Cut;
use crate::elementary::{exp, ln, ln_1p};
use crate::float::Float;
use crate::kernel::View;
use crate::ranked_masses::{Mass, RankedMasses};
use crate::scoring::{Scale, Score, Scoring};
use crate::simd::instances;

/// What is known of a label before its score is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    In,
    Out,
    /// Within the margin of a threshold: the definition decides.
    Edge,
}

/// In below `low`, out above `high`, at the edge between; NaN is at the edge.
#[inline(always)]
fn verdict(value: f64, low: f64, high: f64) -> Verdict {
    if value < low {
        Verdict::In
    } else if value > high {
        Verdict::Out
    } else {
        Verdict::Edge
    }
}

instances! {
    /// Distances from the maximum within which a label is in, and beyond which it is out.
    #[inline(never)]
    pub(crate) fn linear_bounds(cut: &Cut<'_>, log_z: f64, u: f64, beta: f64, margin: f64) -> (f64, f64) = linear_bounds_body;
}

#[inline(always)]
fn linear_bounds_body(cut: &Cut<'_>, log_z: f64, u: f64, beta: f64, margin: f64) -> (f64, f64) {
    let lo = cut.lo - margin * (1.0 + cut.lo.abs());
    let hi = cut.hi + margin * (1.0 + cut.hi.abs());
    match cut.scoring.score {
        Score::Aps => ((lo - log_z + ln(1.0 - u)) / beta, (hi - log_z + ln(cut.n_labels as f64)) / beta),
        Score::Thr => {
            // g <= q means f_y >= 1 / (1 + e^q), and log(1 + e^q) = q + log1p(e^-q).
            ((softplus(lo) - log_z - margin) / beta, (softplus(hi) - log_z + margin) / beta)
        }
        Score::Mixed { .. } => (f64::NEG_INFINITY, (hi - log_z) / beta),
        _ => (f64::NEG_INFINITY, f64::INFINITY),
    }
}

/// `log(1 + e^q)` without overflow. Not a closure: see [`crate::sum::each_lane`].
#[inline(always)]
fn softplus(q: f64) -> f64 {
    ln_1p(exp(-q.abs())) + q.max(0.0)
}

instances! {
    /// A score at a limit in temperature, which costs nothing once its row is known.
    #[inline(never)]
    fn limit<F: Float>(view: &View<'_, F>, scoring: &Scoring, logit: F, rank: usize) -> f64 = limit_body::<F>;
}

#[inline(always)]
fn limit_body<F: Float>(view: &View<'_, F>, scoring: &Scoring, logit: F, rank: usize) -> f64 {
    view.limit(scoring, logit, rank, Scale::Ranked)
}

instances! {
    #[inline(never)]
    fn log_rank(rank: usize) -> f64 = log_rank_body;
}

#[inline(always)]
fn log_rank_body(rank: usize) -> f64 {
    ln(rank as f64)
}

/// Judges the labels of one row in the order of their ranks.
pub(crate) struct Judge<'a, 'b, F> {
    cut: &'a Cut<'a>,
    view: &'a View<'b, F>,
    pub(crate) masses: &'a mut RankedMasses<F>,
    /// Distances from the maximum within which a label is in, and beyond which it is out; computed when
    /// masses do not decide.
    distances: Option<(f64, f64)>,
}

impl<'a, 'b, F: Float> Judge<'a, 'b, F> {
    #[inline(always)]
    pub(crate) fn new(cut: &'a Cut<'a>, view: &'a View<'b, F>, masses: &'a mut RankedMasses<F>) -> Self {
        Self { cut, view, masses, distances: None }
    }

    /// The label at rank `i` counted from 0.
    #[inline(always)]
    pub(crate) fn next(&mut self, label: u32, logit: F, i: usize) -> Verdict {
        let (view, cut) = (self.view, self.cut);
        let rank = i + 1;
        if cut.scoring.is_limit() {
            // Exact, so what lies between the thresholds alone is asked for again.
            return verdict(limit(view, cut.scoring, logit, rank), cut.lo, cut.hi);
        }
        let r = rank as f64;
        let mass = self.masses.at(view, i, label, logit);
        match cut.scoring.score {
            Score::Thr => {
                let by_odds = self.by_odds(mass, i, cut.bounds.0, cut.bounds.1);
                if by_odds != Verdict::Edge || i == 0 {
                    // f_1 is near 1 where its distance says nothing.
                    return by_odds;
                }
                self.by_distance(logit)
            }
            Score::Rank => {
                // |g / (2 (1 + |g|))| <= 1/2, so only the nearest whole number is open.
                let coarse = verdict(r, cut.lo - 0.5 - 1e-9, cut.hi + 0.5 + 1e-9);
                if coarse != Verdict::Edge {
                    return coarse;
                }
                let in_at = if r == cut.lo.round() { cut.bounds.0 } else { 0.0 };
                let out_at = if r == cut.hi.round() { cut.bounds.1 } else { f64::INFINITY };
                self.by_odds(mass, i, in_at, out_at)
            }
            Score::Mixed { weight } => {
                let distance = view.scan.max.to_f64() - logit.to_f64();
                let drop = if distance == 0.0 { 0.0 } else { self.masses.sharpness.beta * distance };
                let by_rank = if i == 0 { 0.0 } else { weight * log_rank(rank) };
                let value = drop + self.masses.log_z() + by_rank;
                let margin = F::MARGIN * (1.0 + value.abs());
                verdict(value, cut.lo - margin, cut.hi + margin)
            }
            Score::Aps => {
                let left = self.left(mass);
                let margin = F::MARGIN * left + self.cut.quantisation::<F>();
                let needed = (cut.bounds.0 * self.masses.z, cut.bounds.1 * self.masses.z);
                let by_mass = verdict(-left, -needed.0 - margin, -needed.1 + margin);
                if by_mass == Verdict::Edge { self.by_distance(logit) } else { by_mass }
            }
            Score::Raps { penalty, k_reg } => {
                let p = penalty * (r - f64::from(k_reg)).max(0.0);
                let left = self.left(mass) / self.masses.z;
                let margin = F::MARGIN * left + self.cut.quantisation::<F>() + 2e-9 * (1.0 + p);
                verdict(p - left, cut.lo - margin, cut.hi + margin)
            }
            Score::Saps { weight } => {
                let first = self.masses.first();
                let not_top = first.after / self.masses.z;
                let of_top = -((1.0 - view.u) + view.u * not_top);
                let value = if i == 0 { of_top } else { weight * (r - 2.0 + view.u) - not_top };
                let margin = F::MARGIN * not_top + self.cut.quantisation::<F>() + 1e-12 * (1.0 + value.abs());
                verdict(value, cut.lo - margin, cut.hi + margin)
            }
        }
    }

    /// In if the odds against the label are clearly below `in_at`, out if clearly above `out_at`.
    #[inline(always)]
    fn by_odds(&self, mass: Mass, i: usize, in_at: f64, out_at: f64) -> Verdict {
        let others = if i == 0 { mass.after } else { self.masses.z - mass.own };
        let (own, q) = (mass.own, self.cut.quantisation::<F>());
        let is_in = others.mul_add(1.0 + F::MARGIN, q) < in_at * (own * (1.0 - F::MARGIN) - q);
        let is_out = others.mul_add(1.0 - F::MARGIN, -q) > out_at * own.mul_add(1.0 + F::MARGIN, q);
        if is_in {
            Verdict::In
        } else if is_out {
            Verdict::Out
        } else {
            Verdict::Edge
        }
    }

    /// By the bounds that are linear in the logit.
    #[inline(always)]
    fn by_distance(&mut self, logit: F) -> Verdict {
        let (inner, outer) = if let Some(known) = self.distances {
            known
        } else {
            let log_z = self.masses.log_z();
            let (u, beta) = (self.view.u, self.masses.sharpness.beta);
            *self.distances.insert(linear_bounds(self.cut, log_z, u, beta, F::MARGIN))
        };
        verdict(self.view.scan.max.to_f64() - logit.to_f64(), inner, outer)
    }

    /// `(1 - U) f_y` and the mass after y, times Z: differences are taken of integers.
    #[inline(always)]
    fn left(&self, mass: Mass) -> f64 {
        (1.0 - self.view.u).mul_add(mass.own, mass.after)
    }
}
