//! Where a row's set ends, without scoring every label.
//!
//! Scores rise with rank, so a set is a run of the first labels, up to the last bits of rounding. Labels
//! are taken by rank, in an order that is sorted only as far as the set reaches. For each, a bound or an
//! approximation of its score with a margin that covers every rounding says in or out; only a label
//! within the margin of the threshold is scored by the definition, [`View::label_score`], or by the same sums where
//! the labels of a row share them. The first label that is out by more than the margin, or by more than scores may fall
//! with rank, ends the set: all later ones are out as well.
//!
//! A cut has two thresholds, `lo <= hi`, equal for an ordinary set: model selection asks at once for
//! the labels up to `lo`, and for the scores of the few between.

use crate::candidates::Shared;
use crate::elementary::exp;
use crate::float::Float;
use crate::judge::{Judge, Verdict, linear_bounds};
use crate::kernel::View;
use crate::masses::masses_of_other;
use crate::nucleus::FEW_LABELS;
use crate::ranked_masses::RankedMasses;
use crate::row::Scan;
use crate::scoring::{Scale, Score, Scoring};
use crate::simd::instances;
use crate::sum::Grain;
use crate::top_labels::TopLabels;

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
        let scale = masses.sharpness.scale;
        let is_blurred = scale == F::MAX && !self.scoring.is_limit() && is_blurred(view);
        // Log-odds of labels that are not the top one fall with rank by no more than a rounding of an exponential.
        let ends_above = match self.scoring.score {
            Score::Thr => self.hi + 0.01 * F::MARGIN * (1.0 + self.hi.abs()),
            _ => f64::INFINITY,
        };
        let mut judge = Judge::new(self, view, masses);
        while let Some((label, logit)) = top.get(i) {
            match if is_blurred { Verdict::Edge } else { judge.next(label, logit, i) } {
                Verdict::In => each(label, Standing::Within),
                Verdict::Out => return,
                Verdict::Edge => {
                    let score = scored(view, label as usize, logit, i + 1, self.scoring, judge.masses);
                    if score <= self.lo {
                        each(label, Standing::Within);
                    } else if score <= self.hi {
                        each(label, Standing::Between(score));
                    } else if score > ends_above && i > 0 && !is_blurred {
                        return;
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
        if self.n_labels <= FEW_LABELS || !is_linear || self.scoring.is_limit() || self.hi == f64::INFINITY {
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

instances! {
    /// The definition, for the labels at the edge, whose ranks are known. Not inlined: see [`crate::judge`].
    ///
    /// What the scores of a row's labels share is summed once. Where beta is small, or the weight of SAPS, all labels of a row
    /// may be at the edge: summed for each, they would take the square of their number.
    #[inline(never)]
    fn scored<F: Float>(view: &View<'_, F>, label: usize, logit: F, rank: usize, scoring: &Scoring, masses: &mut RankedMasses<F>) -> f64 = scored_body::<F>;
}

#[inline(always)]
fn scored_body<F: Float>(
    view: &View<'_, F>,
    label: usize,
    logit: F,
    rank: usize,
    scoring: &Scoring,
    masses: &mut RankedMasses<F>,
) -> f64 {
    let shared = if scoring.is_limit() { Shared::Nothing } else { Shared::of(scoring.score) };
    let shared = match shared {
        Shared::Others if rank > 1 => {
            let (all, grain) = (masses.sum_of_all(view), Grain::of(view.row.len()));
            masses_of_other(all, logit, rank, view.scan.max, grain, &masses.sharpness)
        }
        Shared::Top => masses.of_top(view),
        Shared::Others | Shared::Nothing => return view.label_score(label, scoring, Scale::Ranked),
    };
    view.score(scoring.score, Scale::Ranked, shared, rank)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::candidates::Candidates;
    use crate::kernel::Workspace;
    use crate::scoring::Reweight;
    use crate::uniform::{Randomness, Uniforms};
    use proptest::prelude::*;

    /// Of thresholds, and of what else is tried one after another, each is taken, or under Miri, where one cut takes
    /// a quarter of a second, every ninth or third.
    pub(crate) const THRESHOLDS: usize = if cfg!(miri) { 9 } else { 1 };
    pub(crate) const OTHERS: usize = if cfg!(miri) { 3 } else { 1 };

    #[test]
    fn labels_closer_than_beta_can_tell_in_the_type() {
        let (a, b) = (f32::from_bits(14393), f32::from_bits(13621));
        for score in [Score::Thr, Score::Aps, Score::Mixed { weight: 0.5 }] {
            let scoring = Scoring::new(score, Reweight::NONE, 7.086_415_767_815_804e-304).unwrap();
            for pick in (0..3).step_by(OTHERS) {
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
        for temperature in [1e30, 1e36, 1e37, 1e161, 1e305, 1e307].into_iter().step_by(OTHERS) {
            for score in [Score::Thr, Score::Aps, Score::Rank, Score::Mixed { weight: 0.01 }] {
                let scoring = Scoring::new(score, Reweight::NONE, temperature).unwrap();
                for pick in (0..5).step_by(THRESHOLDS) {
                    check(&narrow, &scoring, 0.25, pick);
                    check(&wide, &scoring, 0.25, pick);
                }
            }
        }
    }

    /// Where beta is small, scores of all labels are within the margin of a threshold.
    #[test]
    fn labels_that_beta_hardly_tells_apart() {
        let row: Vec<f32> = (0..90_u16).map(|i| f32::from(i * 37 % 90) / 7.0 - f32::from(i % 3)).collect();
        let wide: Vec<f64> = row.iter().map(|&z| f64::from(z) * 1.000_000_1).collect();
        for exponent in (8..26).step_by(6 * OTHERS) {
            let saps = [Score::Saps { weight: 0.0 }, Score::Saps { weight: 1e-6 }];
            for score in [Score::Thr, Score::Rank, Score::Mixed { weight: 0.01 }].into_iter().chain(saps) {
                let scoring = Scoring::new(score, Reweight::NONE, f64::from(exponent).exp2()).unwrap();
                for pick in (0..90).step_by(7 * THRESHOLDS) {
                    check(&row, &scoring, 0.5, pick);
                    check(&wide, &scoring, 0.5, pick);
                }
            }
        }
    }

    /// The same of more labels than are summed in coarse quanta.
    #[test]
    #[cfg(not(miri))]
    fn many_labels_that_beta_hardly_tells_apart() {
        let row: Vec<f32> = (0..1100_u16).map(|i| f32::from(i * 37 % 1100) / 70.0).collect();
        let wide: Vec<f64> = row.iter().map(|&z| f64::from(z) * 1.000_000_1).collect();
        for score in [Score::Thr, Score::Rank, Score::Mixed { weight: 0.01 }, Score::Saps { weight: 1e-6 }] {
            let scoring = Scoring::new(score, Reweight::NONE, 1e5).unwrap();
            for pick in [0, 400, 1000] {
                check(&row, &scoring, 0.5, pick);
                check(&wide, &scoring, 0.5, pick);
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
        let candidates = Candidates::only(scoring);
        let randomness = Randomness { uniforms: Uniforms::Fixed(u), ..Randomness::default() };
        let view = View::of(row, 0, 0, &candidates, &randomness).unwrap();
        let score = view.label_score(pick % row.len(), scoring, Scale::Ranked);
        // Thresholds that are scores, just beside them, and far away.
        let near = [score, score.next_up(), score.next_down(), score + 1e-6, score - 1e-6, score * 1.001];
        let far = [-1.0, 0.0, 0.5, 3.0, 700.0, 1e5];
        for threshold in near.into_iter().chain(far).step_by(THRESHOLDS) {
            let below = [threshold, score.min(threshold), threshold - 1e-3, f64::NEG_INFINITY];
            for lo in below.into_iter().step_by(OTHERS) {
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

    /// Logits as they are, ties, and what is hard to compute with.
    pub(crate) fn logit() -> impl Strategy<Value = f64> {
        prop_oneof![
            8 => -12.0_f64..12.0,
            2 => (-4_i32..4).prop_map(f64::from),
            1 => -700.0_f64..0.0,
            1 => Just(f64::NEG_INFINITY),
            1 => Just(-0.0),
            1 => prop_oneof![Just(-1e38), Just(1e38), Just(1e-40)],
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 60 }))]
        #[test]
        fn sets_of_many_labels_are_those_of_the_definition(
            mut row in prop::collection::vec(logit(), 65..if cfg!(miri) { 70 } else { 600 }),
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
            mut row in prop::collection::vec(logit(), 0..if cfg!(miri) { 9 } else { 90 }),
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
