//! Where a row's set ends, without scoring every label.
//!
//! Scores rise with rank, so a set is a run of the first labels, up to the last bits of rounding. Labels
//! are taken by rank, in an order that is sorted only as far as the set reaches. For each, a bound or an
//! approximation of its score with a margin that covers every rounding says in or out; only a label
//! within the margin of the threshold is scored by the definition, [`View::label_score`]. The first
//! label that is out by more than the margin ends the set: all later ones are out as well.
//!
//! Bounds for APS, with `left = (1 - U) f_y + (mass after y)`, so that `S = -log left` and
//! `f_y (1 - U) <= left <= f_y (1 - U + K - r)`: a label is in if `beta d + log Z - log(1 - U) <= q`, out
//! if `beta d + log Z - log K > q`, both linear in the logit. In between, `left` is the exact total less
//! the exact sum so far. For THR the score is a function of `f_y`, hence of the logit, alone.
//!
//! Margins. A term's relative error is below 60 * 2^-24 * log 2 plus 2 * 2^-24 (float32: the product in
//! the exponent and the polynomial), and sums add half a quantum a label: 3e-6 in all where sums are not
//! tiny. The definition has the same sources. The margins below are more than ten times that.

use crate::elementary::{exp, ln, ln_1p};
use crate::float::Float;
use crate::kernel::View;
use crate::masses::Sharpness;
use crate::score::Masses;
use crate::scoring::{Scale, Score, Scoring};
use crate::simd::instances;
use crate::sum::{quanta, sum_terms};
use crate::top_labels::TopLabels;

/// What is known of a label before its score is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    In,
    Out,
    /// Within the margin of the threshold: the definition decides.
    Edge,
}

/// In below `low`, out above `high`, at the edge between.
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

/// A candidate with its threshold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut<'a> {
    pub(crate) scoring: &'a Scoring,
    threshold: f64,
    n_labels: usize,
    /// `exp(-q)` for aps, `exp(q)` for thr.
    bound: f64,
}

impl<'a> Cut<'a> {
    pub(crate) fn new(scoring: &'a Scoring, threshold: f64, n_labels: usize) -> Self {
        let bound = exp(if scoring.score == Score::Thr { threshold } else { -threshold });
        Self { scoring, threshold, n_labels, bound }
    }

    /// The labels of the set, by rank, given to `each`.
    #[inline(always)]
    pub(crate) fn labels<F: Float>(&self, view: &View<'_, F>, top: &mut TopLabels<F>, each: impl FnMut(u32)) {
        let mut judge = Judge::new(self, view);
        // A logarithm a row is worth it where it spares ordering many labels.
        let floor = if self.n_labels > 64 { judge.floor() } else { F::NEG_INFINITY };
        top.take(view.row, floor);
        self.walk(&mut judge, top, each);
    }

    /// How many labels the set has, with labels taken before.
    #[inline(always)]
    pub(crate) fn count<F: Float>(&self, view: &View<'_, F>, top: &mut TopLabels<F>) -> u64 {
        let mut count = 0;
        self.walk(&mut Judge::new(self, view), top, |_| count += 1);
        count
    }

    #[inline(always)]
    fn walk<F: Float>(
        &self,
        judge: &mut Judge<'_, '_, F>,
        top: &mut TopLabels<F>,
        mut each: impl FnMut(u32),
    ) {
        let view = judge.view;
        if self.threshold == f64::INFINITY {
            // Every label, the impossible ones last.
            let mut i = 0;
            while let Some((label, _)) = top.get(i) {
                each(label);
                i += 1;
            }
            let impossible = view.row.iter().enumerate().filter(|(_, z)| **z == F::NEG_INFINITY);
            impossible.for_each(|(label, _)| each(label as u32));
            return;
        }
        let mut i = 0;
        while let Some((label, logit)) = top.get(i) {
            let is_in = match judge.next(logit, i + 1) {
                Verdict::In => true,
                Verdict::Out => return,
                Verdict::Edge => scored(view, label as usize, self.scoring) <= self.threshold,
            };
            if is_in {
                each(label);
            }
            i += 1;
        }
    }
}

// The functions below are not inlined: they are pure, so the compiler would lift their logarithms out of the
// loop over labels and compute them for every row, also for the many that never need them.

instances! {
    /// Distances from the maximum within which a label is in, and beyond which it is out.
    #[inline(never)]
    fn linear_bounds(cut: &Cut<'_>, z: f64, u: f64, beta: f64, margin: f64) -> (f64, f64) = linear_bounds_body;
}

#[inline(always)]
fn linear_bounds_body(cut: &Cut<'_>, z: f64, u: f64, beta: f64, margin: f64) -> (f64, f64) {
    let q = cut.threshold;
    let margin = margin * (1.0 + q.abs());
    let log_z = ln(z);
    match cut.scoring.score {
        Score::Aps => {
            let inner = (q - margin - log_z + ln(1.0 - u)) / beta;
            (inner, (q + margin - log_z + ln(cut.n_labels as f64)) / beta)
        }
        Score::Thr => {
            // g <= q means f_y >= 1 / (1 + e^q); log(1 + e^q) = q + log1p(e^-q).
            let log_odds = if q > 0.0 { q + ln_1p(exp(-q)) } else { ln_1p(exp(q)) };
            ((log_odds - log_z - 2.0 * margin) / beta, (log_odds - log_z + 2.0 * margin) / beta)
        }
        _ => (f64::NEG_INFINITY, f64::INFINITY),
    }
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
    /// A score that costs nothing once its row is known: at the limits in temperature, and saps.
    #[inline(never)]
    fn cheap_score<F: Float>(view: &View<'_, F>, scoring: &Scoring, top: Option<&Masses>, logit: F, rank: usize) -> f64 = cheap_score_body::<F>;
}

#[inline(always)]
fn cheap_score_body<F: Float>(
    view: &View<'_, F>,
    scoring: &Scoring,
    top: Option<&Masses>,
    logit: F,
    rank: usize,
) -> f64 {
    match top {
        Some(masses) => view.score(scoring.score, Scale::Ranked, *masses, rank),
        None => view.limit(scoring, logit, rank, Scale::Ranked),
    }
}

/// Judges the labels of one row in the order of their ranks.
struct Judge<'a, 'b, F> {
    cut: &'a Cut<'a>,
    view: &'a View<'b, F>,
    sharpness: Sharpness<F>,
    /// Exact sums relative to the maximum: of all labels, and of those seen.
    total: i128,
    seen: i128,
    /// `Z`.
    z: f64,
    /// Distances from the maximum within which a label is in, and beyond which it is out; computed when
    /// masses do not decide.
    distances: Option<(f64, f64)>,
    /// SAPS: the top label's masses.
    top: Option<Masses>,
    /// Whether scores are computed outright.
    is_cheap: bool,
}

impl<'a, 'b, F: Float> Judge<'a, 'b, F> {
    #[inline(always)]
    fn new(cut: &'a Cut<'a>, view: &'a View<'b, F>) -> Self {
        let scoring = cut.scoring;
        let sharpness = view.sharpness(scoring);
        let mut judge = Self {
            cut,
            view,
            sharpness,
            total: 0,
            seen: 0,
            z: 1.0,
            distances: None,
            top: None,
            is_cheap: true,
        };
        if scoring.is_limit() || cut.threshold == f64::INFINITY {
            return judge;
        }
        judge.is_cheap = matches!(scoring.score, Score::Saps { .. });
        match scoring.score {
            Score::Thr | Score::Aps | Score::Raps { .. } => {
                judge.total = sum_terms(view.row, view.scan.max, sharpness.scale);
                judge.z = F::sum_to_f64(judge.total);
            }
            Score::Saps { .. } => judge.top = Some(view.top_masses(&sharpness)),
            Score::Rank => {}
        }
        judge
    }

    /// Distances by the bounds that are linear in the logit.
    #[inline(always)]
    fn distances(&mut self) -> (f64, f64) {
        if let Some(known) = self.distances {
            return known;
        }
        let distances = linear_bounds(self.cut, self.z, self.view.u, self.sharpness.beta, F::MARGIN);
        self.distances = Some(distances);
        distances
    }

    /// A logit below which no label is in the set.
    #[inline(always)]
    fn floor(&mut self) -> F {
        let is_linear = matches!(self.cut.scoring.score, Score::Aps | Score::Thr);
        if !is_linear || self.cut.scoring.is_limit() || self.cut.threshold == f64::INFINITY {
            return F::NEG_INFINITY;
        }
        let (_, outer) = self.distances();
        // The top label is always looked at; NaN, at infinite beta, keeps all.
        let floor = F::from_f64(self.view.scan.max.to_f64() - outer.max(0.0));
        // One rounding, to float32, may lift it by half a unit in the last place.
        let slack = F::from_f64(floor.to_f64().abs() * 1e-6);
        let floor = floor - slack;
        if floor > F::NEG_INFINITY { floor } else { F::NEG_INFINITY }
    }

    /// The next label, of the given 1-based rank.
    #[inline(always)]
    fn next(&mut self, logit: F, rank: usize) -> Verdict {
        let (view, q) = (self.view, self.cut.threshold);
        let scoring = self.cut.scoring;
        if self.is_cheap {
            let exact = cheap_score(view, scoring, self.top.as_ref(), logit, rank);
            return if exact <= q { Verdict::In } else { Verdict::Out };
        }
        let distance = view.scan.max.to_f64() - logit.to_f64();
        let own = quanta(logit, view.scan.max, self.sharpness.scale);
        self.seen += own;
        match scoring.score {
            Score::Rank => {
                // |g / (2 (1 + |g|))| <= 1/2.
                verdict(rank as f64, q - 0.5, q + 0.5)
            }
            Score::Thr if rank == 1 => {
                // f_1 is near 1 where its distance says nothing: from the mass of the others.
                let others = F::sum_to_f64(self.total - own);
                self.by_mass(-others, -self.cut.bound)
            }
            Score::Thr => {
                let (inner, outer) = self.distances();
                verdict(distance, inner, outer)
            }
            Score::Aps => {
                let by_mass = self.by_mass(self.left(own), self.cut.bound * self.z);
                if by_mass != Verdict::Edge {
                    return by_mass;
                }
                let (inner, outer) = self.distances();
                verdict(distance, inner, outer)
            }
            Score::Raps { penalty, k_reg } => {
                let p = penalty * (rank as f64 - f64::from(k_reg)).max(0.0);
                let left = self.left(own);
                let margin = F::MARGIN * left / self.z + self.quantisation() + 2e-9 * (1.0 + q.abs());
                verdict(p - left / self.z, q - margin, q + margin)
            }
            Score::Saps { .. } => Verdict::Edge,
        }
    }

    /// `(1 - U) f_y` and the mass after y, times Z: differences are taken of integers.
    #[inline(always)]
    fn left(&self, own: i128) -> f64 {
        (1.0 - self.view.u).mul_add(F::sum_to_f64(own), F::sum_to_f64(self.total - self.seen))
    }

    /// In if `mass` is clearly above `needed`, out if clearly below.
    #[inline(always)]
    fn by_mass(&self, mass: f64, needed: f64) -> Verdict {
        let margin = F::MARGIN * mass.abs() + self.quantisation();
        verdict(-mass, -needed - margin, -needed + margin)
    }

    /// What rounding every term to the quantum can add up to, with room to spare.
    #[inline(always)]
    fn quantisation(&self) -> f64 {
        4.0 * self.cut.n_labels as f64 * F::QUANTUM
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Candidates, Workspace};
    use crate::scoring::Reweight;
    use crate::uniform::{Randomness, Uniforms};
    use proptest::prelude::*;

    /// The set by the definition: every label scored, those at most the threshold kept.
    fn naive<F: Float>(view: &View<'_, F>, scoring: &Scoring, threshold: f64) -> Vec<u32> {
        let mut labels = Vec::new();
        view.all_scores(&mut Workspace::default(), scoring, Scale::Ranked, |label, score| {
            if score <= threshold {
                labels.push(label);
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
            let mut found = Vec::new();
            Cut::new(scoring, threshold, row.len())
                .labels(&view, &mut TopLabels::default(), |l| found.push(l));
            assert_eq!(found, naive(&view, scoring, threshold), "threshold {threshold}");
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
        #![proptest_config(ProptestConfig::with_cases(400))]
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
            for score in [Score::Thr, Score::Aps, raps, Score::Saps { weight: 0.2 }, Score::Rank] {
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
