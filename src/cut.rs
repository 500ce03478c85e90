//! Where a row's set ends, without scoring every label.
//!
//! Scores rise with rank, so a set is a run of the first labels, up to the last bits of rounding. Labels
//! are taken by rank, in an order that is sorted only as far as the set reaches. For each, a bound or an
//! approximation of its score with a margin that covers every rounding says in or out; only a label
//! within the margin of the threshold is scored by the definition, [`View::label_score`]. The first
//! label that is out by more than the margin ends the set: all later ones are out as well.
//!
//! A cut has two thresholds, `lo <= hi`, equal for an ordinary set: model selection asks at once for
//! the labels up to `lo`, and for the scores of the few between.
//!
//! Bounds for APS, with `left = (1 - U) f_y + (mass after y)`, so that `S = -log left` and
//! `f_y (1 - U) <= left <= f_y (1 - U + K - r)`: a label is in if `beta d + log Z - log(1 - U) <= q`, out
//! if `beta d + log Z - log K > q`, both linear in the logit. In between, `left` is the exact total less
//! the exact sum so far. THR and RANK compare the odds against the label with a bound fixed in advance.
//!
//! Margins. A term's relative error is below 60 * 2^-24 * log 2 plus 2 * 2^-24 (float32: the product in
//! the exponent and the polynomial), and sums add half a quantum a label: 3e-6 in all where sums are not
//! tiny. The definition has the same sources. The margins below are more than ten times that.

use crate::elementary::{exp, ln, ln_1p};
use crate::float::Float;
use crate::kernel::View;
use crate::ranked_masses::{Mass, RankedMasses};
use crate::row::Scan;
use crate::scoring::{Scale, Score, Scoring};
use crate::simd::instances;
use crate::top_labels::TopLabels;

/// What is known of a label before its score is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
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

/// Where a label of the set stands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Standing {
    /// Its score is at most `lo`.
    Within,
    /// Its score, above `lo` and at most `hi`.
    Between(f64),
}

/// A candidate with its thresholds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut<'a> {
    pub(crate) scoring: &'a Scoring,
    pub(crate) lo: f64,
    pub(crate) hi: f64,
    pub(crate) n_labels: usize,
    /// What the labels' masses are compared with, for `lo` and for `hi`: `exp(-q)` for aps, odds against
    /// the label for thr, and for rank the odds that matter at the rank nearest to q.
    pub(crate) bounds: (f64, f64),
}

impl<'a> Cut<'a> {
    pub(crate) fn new(scoring: &'a Scoring, lo: f64, hi: f64, n_labels: usize) -> Self {
        // The definition rounds ranked scores; odds are compared without that rounding.
        let slack = |q: f64| 8.0 * f64::EPSILON * (1.0 + q.abs());
        // S <= q at rank r means g / (1 + |g|) <= 2 (q - r).
        let rank_odds = |q: f64, slack: f64| {
            let t = (2.0 * (q - q.round() + slack)).clamp(-1.0, 1.0);
            exp(t / (1.0 - t.abs()))
        };
        let bounds = match scoring.score {
            Score::Thr => (exp(lo), exp(hi)),
            Score::Rank => (rank_odds(lo, -slack(lo)), rank_odds(hi, slack(hi))),
            _ => (exp(-lo), exp(-hi)),
        };
        Self { scoring, lo, hi, n_labels, bounds }
    }

    /// The labels of the set at `hi`, by rank, given to `each` with where they stand. `masses` must be
    /// those of the candidate's beta, unless its temperature is a limit.
    #[inline(always)]
    pub(crate) fn walk<F: Float>(
        &self,
        view: &View<'_, F>,
        masses: &mut RankedMasses<F>,
        top: &mut TopLabels<F>,
        mut each: impl FnMut(u32, Standing),
    ) {
        let certain = self.certain(view, masses, top);
        top.labels(certain).iter().for_each(|&label| each(label, Standing::Within));
        self.walk_from(certain, view, masses, top, each);
    }

    /// The same from a rank on, counted from 0, the labels before which are [`Self::certain`].
    #[inline(always)]
    pub(crate) fn walk_from<F: Float>(
        &self,
        mut i: usize,
        view: &View<'_, F>,
        masses: &mut RankedMasses<F>,
        top: &mut TopLabels<F>,
        mut each: impl FnMut(u32, Standing),
    ) {
        let mut judge = Judge { cut: self, view, masses, distances: None };
        if self.lo == f64::INFINITY {
            // Every label, the impossible ones last.
            while let Some((label, _)) = top.get(i) {
                each(label, Standing::Within);
                i += 1;
            }
            let impossible = view.row.iter().enumerate().filter(|(_, z)| **z == F::NEG_INFINITY);
            impossible.for_each(|(label, _)| each(label as u32, Standing::Within));
            return;
        }
        let scale = judge.masses.sharpness.scale;
        let is_blurred = scale == F::MAX && !self.scoring.is_limit() && is_blurred(view);
        while let Some((label, logit)) = top.get(i) {
            match if is_blurred { Verdict::Edge } else { judge.next(label, logit, i) } {
                Verdict::In => each(label, Standing::Within),
                Verdict::Out => return,
                Verdict::Edge => {
                    let score = scored(view, label as usize, self.scoring);
                    if score <= self.lo {
                        each(label, Standing::Within);
                    } else if score <= self.hi {
                        each(label, Standing::Between(score));
                    }
                }
            }
            i += 1;
        }
        if self.hi == f64::INFINITY {
            let impossible = view.row.iter().enumerate().filter(|(_, z)| **z == F::NEG_INFINITY);
            impossible.for_each(|(label, _)| each(label as u32, Standing::Between(f64::INFINITY)));
        }
    }

    /// What rounding every term to the quantum can add up to, with room to spare.
    #[inline(always)]
    pub(crate) fn quantisation<F: Float>(&self) -> f64 {
        4.0 * self.n_labels as f64 * F::QUANTUM
    }

    /// A logit below which no label is in the set: a logarithm a row, worth it where it spares ordering
    /// many labels.
    #[inline(always)]
    pub(crate) fn floor<F: Float>(&self, view: &View<'_, F>, masses: &mut RankedMasses<F>) -> F {
        let is_linear = matches!(self.scoring.score, Score::Aps | Score::Thr | Score::Mixed { .. });
        if self.n_labels <= 64 || !is_linear || self.scoring.is_limit() || self.hi == f64::INFINITY {
            return F::NEG_INFINITY;
        }
        let log_z = masses.log_z();
        let (_, outer) = linear_bounds(self, log_z, view.u, masses.sharpness.beta, F::MARGIN);
        // The top label is always looked at; NaN, at infinite beta, keeps all.
        let floor = F::from_f64(view.scan.max.to_f64() - outer.max(0.0));
        // One rounding, to float32, may lift it by half a unit in the last place.
        let floor = floor - F::from_f64(floor.to_f64().abs() * 1e-6);
        if floor > F::NEG_INFINITY { floor } else { F::NEG_INFINITY }
    }
}

/// Whether beta is beyond the type's range and the sums, taken at its largest number instead, hold terms that
/// are 0 at beta itself: of labels that are not at the maximum and less than `200 / F::MAX` below it.
#[cold]
#[inline(never)]
fn is_blurred<F: Float>(view: &View<'_, F>) -> bool {
    let Scan { max, second, .. } = view.scan;
    let shows = |z: F| max > z && (max - z) * F::MAX < F::from_f64(200.0);
    (second == max || shows(second)) && view.row.iter().any(|&z| shows(z))
}

// The functions below are not inlined: they are pure, so the compiler would lift their logarithms out of the
// loop over labels and compute them for every row, also for the many that never need them.

instances! {
    /// Distances from the maximum within which a label is in, and beyond which it is out.
    #[inline(never)]
    fn linear_bounds(cut: &Cut<'_>, log_z: f64, u: f64, beta: f64, margin: f64) -> (f64, f64) = linear_bounds_body;
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
    /// The definition, for the few labels at the edge.
    #[inline(never)]
    fn scored<F: Float>(view: &View<'_, F>, label: usize, scoring: &Scoring) -> f64 = scored_body::<F>;
}

#[inline(always)]
fn scored_body<F: Float>(view: &View<'_, F>, label: usize, scoring: &Scoring) -> f64 {
    view.label_score(label, scoring, Scale::Ranked)
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
struct Judge<'a, 'b, F> {
    cut: &'a Cut<'a>,
    view: &'a View<'b, F>,
    masses: &'a mut RankedMasses<F>,
    /// Distances from the maximum within which a label is in, and beyond which it is out; computed when
    /// masses do not decide.
    distances: Option<(f64, f64)>,
}

impl<F: Float> Judge<'_, '_, F> {
    /// The label at rank `i` counted from 0.
    #[inline(always)]
    fn next(&mut self, label: u32, logit: F, i: usize) -> Verdict {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Candidates, Workspace};
    use crate::scoring::Reweight;
    use crate::uniform::{Randomness, Uniforms};
    use proptest::prelude::*;

    #[test]
    fn labels_closer_than_beta_can_tell_in_the_type() {
        let (a, b) = (f32::from_bits(14393), f32::from_bits(13621));
        for score in [Score::Thr, Score::Aps, Score::Mixed { weight: 0.5 }] {
            let scoring = Scoring::new(score, Reweight::NONE, 7.086_415_767_815_804e-304).unwrap();
            for pick in 0..3 {
                check(&[a, b], &scoring, 0.5, pick);
                check(&[a, a, b], &scoring, 0.5, pick);
                check(&[f64::from_bits(20), f64::from_bits(19), -1.0], &scoring, 0.5, pick);
            }
        }
    }

    #[test]
    fn labels_further_apart_than_the_type_can_say() {
        let narrow = [-2.5e38_f32, 1.0, 2e11, 1.7e38, -3e38];
        let wide = [-1.3e308, 1.0, 2e200, 9e307, -1.7e308];
        for temperature in [1e30, 1e36, 1e37, 1e161, 1e305, 1e307] {
            for score in [Score::Thr, Score::Aps, Score::Rank, Score::Mixed { weight: 0.01 }] {
                let scoring = Scoring::new(score, Reweight::NONE, temperature).unwrap();
                for pick in 0..5 {
                    check(&narrow, &scoring, 0.25, pick);
                    check(&wide, &scoring, 0.25, pick);
                }
            }
        }
    }

    /// The set by the definition: every label scored, those at most the threshold kept.
    fn naive<F: Float>(view: &View<'_, F>, scoring: &Scoring, threshold: f64) -> Vec<(u32, f64)> {
        let mut labels = Vec::new();
        view.all_scores(&mut Workspace::default(), scoring, Scale::Ranked, |label, score| {
            if score <= threshold {
                labels.push((label, score));
            }
        });
        labels
    }

    fn check<F: Float>(row: &[F], scoring: &Scoring, u: f64, pick: usize) {
        let list = [*scoring];
        let candidates = Candidates::new(&list);
        let randomness = Randomness { uniforms: Uniforms::Fixed(u), ..Randomness::default() };
        let view = View::of(row, 0, 0, &candidates, &randomness).unwrap();
        let score = view.label_score(pick % row.len(), scoring, Scale::Ranked);
        // Thresholds that are scores, just beside them, and far away.
        let near = [score, score.next_up(), score.next_down(), score + 1e-6, score - 1e-6, score * 1.001];
        for threshold in near.into_iter().chain([-1.0, 0.0, 0.5, 3.0, 700.0, 1e5]) {
            for lo in [threshold, score.min(threshold), threshold - 1e-3, f64::NEG_INFINITY] {
                let (mut found, mut between) = (Vec::new(), Vec::new());
                let cut = Cut::new(scoring, lo, threshold, row.len());
                let (mut masses, mut top) = (RankedMasses::default(), TopLabels::default());
                masses.take(&view, scoring);
                cut.take(&view, &mut masses, &mut top);
                cut.walk(&view, &mut masses, &mut top, |label, standing| {
                    found.push(label);
                    if let Standing::Between(score) = standing {
                        between.push((label, score));
                    }
                });
                let expected = naive(&view, scoring, threshold);
                let labels: Vec<u32> = expected.iter().map(|pair| pair.0).collect();
                assert_eq!(found, labels, "thresholds {lo}, {threshold}");
                let expected: Vec<_> = expected.into_iter().filter(|pair| pair.1 > lo).collect();
                assert_eq!(between, expected, "thresholds {lo}, {threshold}");
            }
        }
    }

    fn logit() -> impl Strategy<Value = f64> {
        prop_oneof![
            8 => -12.0_f64..12.0,
            2 => (-4_i32..4).prop_map(f64::from),
            1 => -700.0_f64..0.0,
            1 => Just(f64::NEG_INFINITY),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 60 }))]
        #[test]
        fn sets_of_many_labels_are_those_of_the_definition(
            mut row in prop::collection::vec(logit(), 65..600),
            u in prop_oneof![0.0_f64..1.0, Just(0.0), Just(1.0)],
            power in prop_oneof![Just(0.0), Just(1.0)],
            log_t in -4.0_f64..6.0,
            pick in 0_usize..600,
        ) {
            row.push(0.25);
            let narrow: Vec<f32> = row.iter().map(|&z| z as f32).collect();
            let scoring = Scoring::new(Score::Aps, Reweight::new(power, power).unwrap(), log_t.exp2()).unwrap();
            check(&narrow, &scoring, u, pick);
            check(&row, &scoring, u, pick);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 400 }))]
        #[test]
        fn sets_are_those_of_the_definition(
            mut row in prop::collection::vec(logit(), 0..90),
            u in prop_oneof![0.0_f64..1.0, Just(0.0), Just(1.0)],
            gamma in prop_oneof![Just(0.0), Just(1.0)],
            power in prop_oneof![Just(0.0), Just(1.0)],
            log_t in -8.0_f64..8.0,
            pick in 0_usize..100,
            penalty in prop_oneof![Just(0.0), Just(0.1), Just(0.001)],
        ) {
            row.push(0.25);
            let narrow: Vec<f32> = row.iter().map(|&z| z as f32).collect();
            let reweight = Reweight::new(gamma, power).unwrap();
            let raps = Score::Raps { penalty, k_reg: 2 };
            for score in [Score::Thr, Score::Aps, raps, Score::Saps { weight: 0.2 }, Score::Rank, Score::Mixed { weight: 0.3 }] {
                for temperature in [log_t.exp2(), 0.0, f64::INFINITY] {
                    if let Ok(scoring) = Scoring::new(score, reweight, temperature) {
                        check(&row, &scoring, u, pick);
                        check(&narrow, &scoring, u, pick);
                    }
                }
            }
        }
    }
}
