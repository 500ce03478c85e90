//! Where does the set of one row end, without scoring every label?
//!
//! ```text
//! take the labels that may be in the set; rank them as far as the set reaches
//! in vectors: the first labels are in, as long as the mass after them is clearly more than the bound
//! for each label after these, by rank:
//!     clearly in by its share or its distance: in
//!     clearly out: the set ends, all later labels are out as well
//!     at the edge: score it by the definition, and compare
//! ```
//!
//! Scores rise with rank up to the last bits of rounding, so a set is a run of the first labels. `bounds.rs`
//! says what is clear. The definition is [`RowView::label_score`]; where labels share sums they are taken
//! once, with equal bits.

use super::bounds::Bounds;
use super::ranked_labels::RankedLabels;
use super::ranked_masses::{Mass, RankedMasses};
use crate::error::Error;
use crate::kernels::{self, FEW_LABELS, Float, MassWanted};
use crate::math::Grain;
use crate::rows::Scan;
use crate::run::Scratch;
use crate::score::{RowView, Scale, Score, Scoring, Sums, masses_of_other};
use crate::simd::{Simd, vectorize};

/// Covers the roundings of masses that are added in float32 (see `kernels::labels`) and of the bound itself,
/// relative to the total.
const ROUNDINGS: f64 = 1e-4;

/// Where a label of the set stands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Standing {
    /// Its score is at most `lo`.
    Within,
    /// Its score, above `lo` and at most `hi`.
    Between(f64),
}

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

/// Cuts the sets of rows, for one candidate or for several that share the order of a row's labels and its
/// sums.
#[derive(Debug, Default)]
pub(crate) struct RowCutter<F: Float> {
    masses: RankedMasses<F>,
    labels: RankedLabels<F>,
}

impl<F: Float> Scratch for RowCutter<F> {
    fn bytes(&self) -> usize {
        self.masses.bytes() + self.labels.bytes()
    }
}

impl<F: Float> RowCutter<F> {
    /// Makes room for rows of so many labels.
    pub(crate) fn reserve(&mut self, n_labels: usize) -> Result<(), Error> {
        self.labels.reserve(n_labels)?;
        self.masses.reserve(n_labels)
    }

    /// Forgets the last row.
    #[inline(always)]
    pub(crate) fn begin_row(&mut self) {
        self.labels.forget();
        self.masses.forget();
    }

    /// Begins the only cut of a row. Returns how many of the first labels are in at `lo` for certain.
    #[inline(always)]
    pub(crate) fn begin_only<S: Simd>(&mut self, s: S, view: &RowView<'_, F>, bounds: &Bounds) -> usize {
        self.masses.take(s, view, &bounds.scoring);
        let floor = self.floor(s, view, bounds);
        if floor > F::NEG_INFINITY && self.is_by_mass(view, bounds) {
            self.take_by_mass(s, view, bounds, floor);
        } else {
            self.labels.take(s, view.row, floor);
        }
        self.certain(s, view, bounds)
    }

    /// Begins one of several cuts of a row, which rank its labels once. Returns how many of the first labels
    /// are in at `lo` for certain.
    #[inline(always)]
    pub(crate) fn begin_shared<S: Simd>(&mut self, s: S, view: &RowView<'_, F>, bounds: &Bounds) -> usize {
        self.masses.take(s, view, &bounds.scoring);
        let floor = self.floor(s, view, bounds);
        self.labels.reach(s, view.row, view.scan.max, floor);
        self.certain(s, view, bounds)
    }

    /// The labels of the first ranks, which were ranked.
    #[inline(always)]
    pub(crate) fn first_labels(&self, count: usize) -> &[u32] {
        self.labels.labels(count)
    }

    /// The label of a rank counted from 0, if it was taken.
    #[inline(always)]
    pub(crate) fn label<S: Simd>(&mut self, s: S, rank: usize) -> Option<u32> {
        self.labels.get(s, rank).map(|(label, _)| label)
    }

    /// The label ranked first.
    #[inline(always)]
    pub(crate) fn top_label<S: Simd>(&mut self, s: S) -> Option<u32> {
        self.label(s, 0)
    }

    /// Gives `each` the labels of the set at `hi` from rank `i` on, counted from 0, with their ranks and
    /// where they stand. The labels before it are certain: the cut must have begun.
    #[inline(always)]
    pub(crate) fn walk<S: Simd>(
        &mut self,
        s: S,
        view: &RowView<'_, F>,
        bounds: &Bounds,
        mut i: usize,
        mut each: impl FnMut(usize, u32, Standing),
    ) {
        let (lo, hi) = (bounds.lo, bounds.hi);
        let is_limit = bounds.scoring.is_limit();
        let is_blurred = self.masses.sharpness.scale == F::MAX && !is_limit && is_blurred(view);
        // Log-odds of labels that are not the top one fall with rank by no more than a rounding of an
        // exponential.
        let ends_above = match bounds.scoring.score {
            Score::Thr => hi + 0.01 * F::MARGIN * (1.0 + hi.abs()),
            _ => f64::INFINITY,
        };
        let mut distances = None;
        while let Some((label, logit)) = self.labels.get(s, i) {
            let verdict = if lo == f64::INFINITY {
                Verdict::In
            } else if is_blurred {
                Verdict::Edge
            } else if is_limit {
                // Exact: at the edge are the scores between the thresholds.
                verdict(limit(s, view, &bounds.scoring, logit, i + 1), lo, hi)
            } else {
                self.judge(s, view, bounds, (label, logit), i, &mut distances)
            };
            match verdict {
                Verdict::In => each(i, label, Standing::Within),
                Verdict::Out => return,
                Verdict::Edge => {
                    let score = self.score(s, view, (label, logit), i, &bounds.scoring);
                    if score <= lo {
                        each(i, label, Standing::Within);
                    } else if score <= hi {
                        each(i, label, Standing::Between(score));
                    } else if score > ends_above && i > 0 && !is_blurred {
                        return;
                    }
                }
            }
            i += 1;
        }
        if hi == f64::INFINITY {
            // The labels that cannot occur come last.
            let standing = if lo == hi { Standing::Within } else { Standing::Between(hi) };
            for (label, _) in (0..).zip(view.row).filter(|(_, z)| **z == F::NEG_INFINITY) {
                each(i, label, standing);
                i += 1;
            }
        }
    }

    /// What the bounds say of the label at rank `i` counted from 0.
    #[inline(always)]
    fn judge<S: Simd>(
        &mut self,
        s: S,
        view: &RowView<'_, F>,
        bounds: &Bounds,
        (label, logit): (u32, F),
        i: usize,
        distances: &mut Option<(f64, f64)>,
    ) -> Verdict {
        let Mass { own, after } = self.masses.at(view, i, label, logit);
        let (sums, z) = (Sums::of(bounds.scoring.score), self.masses.z);
        let after = if sums == Sums::Top && i > 0 { self.masses.first().after } else { after };
        let ([mass], [offset]) = bounds.shares(i, &[own], &[after], &[z], &[view.u]);
        let margin = F::MARGIN * mass.abs() + quantisation::<F>(view.row.len());
        let (in_at, out_at) = bounds.at(i + 1);
        let by_share = verdict(-(mass + offset), -(in_at * z + margin), -(out_at * z - margin));
        // The share of a top label near 1 says more than its distance, which is 0.
        if by_share != Verdict::Edge || !bounds.has_distances() || (i == 0 && sums == Sums::Others) {
            return by_share;
        }
        let (inner, outer) = *distances.get_or_insert_with(|| self.distances(s, view, bounds));
        verdict(view.scan.max.to_f64() - logit.to_f64(), inner, outer)
    }

    /// [`Bounds::distances`] of the row. It is a function of its own, as the compiler would lift its
    /// logarithms out of the loop over labels and compute them for every row. Most rows never need them.
    #[inline(always)]
    fn distances<S: Simd>(&mut self, s: S, view: &RowView<'_, F>, bounds: &Bounds) -> (f64, f64) {
        let (n, log_z) = (view.row.len(), self.masses.log_z());
        let (u, beta) = (view.u, self.masses.sharpness.beta);
        vectorize!(s, bounds.distances(n, log_z, u, beta, F::MARGIN))
    }

    /// A logit below which no label is in the set. It costs a logarithm a row, which pays where it spares
    /// ordering many labels.
    #[inline(always)]
    fn floor<S: Simd>(&mut self, s: S, view: &RowView<'_, F>, bounds: &Bounds) -> F {
        if view.row.len() <= FEW_LABELS || !bounds.has_distances() {
            return F::NEG_INFINITY;
        }
        let (_, outer) = self.distances(s, view, bounds);
        // The top label is always looked at; NaN, at infinite beta, keeps all.
        let floor = F::from_f64(view.scan.max.to_f64() - outer.max(0.0));
        // One rounding, to float32, may lift it by half a unit in the last place.
        let floor = floor - F::from_f64(floor.to_f64().abs() * 1e-6);
        if floor > F::NEG_INFINITY { floor } else { F::NEG_INFINITY }
    }

    /// Whether the set of a long row ends by the mass of the labels before it.
    #[inline(always)]
    fn is_by_mass(&self, view: &RowView<'_, F>, bounds: &Bounds) -> bool {
        matches!(bounds.scoring.score, Score::Aps)
            && !bounds.scoring.is_limit()
            && view.row.len() > FEW_LABELS
            && self.masses.sharpness.scale < F::MAX
    }

    /// Takes the labels that hold all mass but what the bound leaves. Labels after these are out, as their
    /// share is at most the total less the mass before them.
    #[inline(always)]
    fn take_by_mass<S: Simd>(&mut self, s: S, view: &RowView<'_, F>, bounds: &Bounds, floor: F) {
        let (z, scale) = (self.masses.z, self.masses.sharpness.scale);
        let kept = bounds.at(1).1.max(0.0) * z * (1.0 - F::MARGIN);
        let mass = z * (1.0 + ROUNDINGS) - kept + quantisation::<F>(view.row.len());
        let wanted = MassWanted { mass: F::from_f64(mass), max: view.scan.max, scale };
        self.labels.take_in_vectors(s, view.row, floor, Some(&wanted));
    }

    /// How many of the first labels are in at `lo` for certain, as their share is at least the mass after
    /// them. Their masses are passed over.
    #[inline(always)]
    fn certain<S: Simd>(&mut self, s: S, view: &RowView<'_, F>, bounds: &Bounds) -> usize {
        if !self.is_by_mass(view, bounds) {
            if self.masses.skipped > 0 {
                self.masses.restart();
            }
            return 0;
        }
        self.masses.restart();
        let needed = bounds.at(1).0 * self.masses.z + quantisation::<F>(view.row.len());
        let after = needed / (1.0 - 2.0 * F::MARGIN);
        let limit = self.masses.total.saturating_sub((after / F::QUANTUM).ceil() as i128);
        let (max, scale) = (view.scan.max, self.masses.sharpness.scale);
        let mut count = 0;
        while let (true, Some(ranked)) = (limit > 0, self.labels.ranked_from(s, count)) {
            let (more, seen) = kernels::leading(s, ranked, max, scale, limit - self.masses.seen);
            count += more;
            self.masses.skip(more, seen);
            if more < ranked.len() {
                break;
            }
        }
        count
    }

    /// The score of the label at rank `i` counted from 0, which is at the edge, by the definition. Sums that
    /// the labels of a row share are taken once.
    #[inline(always)]
    fn score<S: Simd>(
        &mut self,
        s: S,
        view: &RowView<'_, F>,
        (label, logit): (u32, F),
        i: usize,
        scoring: &Scoring,
    ) -> f64 {
        let Self { masses, labels } = self;
        vectorize!(s, {
            let shared = match Sums::of(scoring.score) {
                _ if scoring.is_limit() => None,
                Sums::Top => Some(masses.of_top(s, view)),
                Sums::Others if i > 0 => {
                    let (all, grain) = (masses.sum_of_all(s, view), Grain::of(view.row.len()));
                    Some(masses_of_other(all, logit, view.scan.max, grain, &masses.sharpness))
                }
                Sums::Others => None,
                Sums::Split => labels.next_logit(s, i).map(|next| {
                    let ranked = labels.ranked_from(s, 0).unwrap_or_default();
                    masses.split_at(s, view, ranked, i, next)
                }),
            };
            match shared {
                Some(shared) => view.score(scoring.score, Scale::Ranked, &shared, i + 1),
                None => view.label_score(s, label as usize, scoring, Scale::Ranked),
            }
        })
    }
}

/// What rounding every term to the quantum can add up to, with room to spare.
#[inline(always)]
fn quantisation<F: Float>(n_labels: usize) -> f64 {
    4.0 * n_labels as f64 * F::QUANTUM
}

/// A score at a limit in temperature. Why it is a function of its own: see [`RowCutter::distances`].
#[inline(always)]
fn limit<S: Simd, F: Float>(s: S, view: &RowView<'_, F>, scoring: &Scoring, logit: F, rank: usize) -> f64 {
    vectorize!(s, view.limit(scoring, logit, rank, Scale::Ranked))
}

/// Whether the sums hold terms that are 0 at beta itself. Beta is beyond the type's range, and they are taken
/// at its largest number instead: such terms are those of labels less than `200 / F::MAX` below the maximum.
#[cold]
#[inline(never)]
fn is_blurred<F: Float>(view: &RowView<'_, F>) -> bool {
    let Scan { max, second, .. } = view.scan;
    let shows = |z: F| max > z && (max - z) * F::MAX < F::from_f64(200.0);
    (second == max || shows(second)) && view.row.iter().any(|&z| shows(z))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::{Randomness, Uniforms};
    use crate::score::testing::{SCORES, narrow};
    use crate::score::{Candidates, Reweight, SortedRow};
    use crate::sets::testing::{cut, thresholds};
    use crate::simd::for_each_level;
    use crate::testing::{OTHERS, THRESHOLDS, logit};
    use proptest::prelude::*;

    fn plain(score: Score, temperature: f64) -> Scoring {
        Scoring::new(score, Reweight::NONE, temperature).unwrap()
    }

    #[test]
    fn labels_closer_than_beta_can_tell_in_the_type() {
        let (a, b) = (f32::from_bits(14393), f32::from_bits(13621));
        for score in [Score::Thr, Score::Aps, Score::Mixed { weight: 0.5 }] {
            let scoring = plain(score, 7.086_415_767_815_804e-304);
            for pick in (0..3).step_by(OTHERS) {
                check(&[a, b], &scoring, 0.5, pick);
                check(&[a, a, b], &scoring, 0.5, pick);
                check(&[f64::from_bits(20), f64::from_bits(19), -1.0], &scoring, 0.5, pick);
            }
        }
    }

    #[test]
    fn labels_further_apart_than_the_type_can_say() {
        for temperature in [1e30, 1e36, 1e37, 1e161, 1e305, 1e307].into_iter().step_by(OTHERS) {
            for score in [Score::Thr, Score::Aps, Score::Rank, Score::Mixed { weight: 0.01 }] {
                let scoring = plain(score, temperature);
                for pick in (0..5).step_by(THRESHOLDS) {
                    check(&[-2.5e38_f32, 1.0, 2e11, 1.7e38, -3e38], &scoring, 0.25, pick);
                    check(&[-1.3e308, 1.0, 2e200, 9e307, -1.7e308], &scoring, 0.25, pick);
                }
            }
        }
    }

    /// Where beta is small, scores of all labels are within the margin of a threshold. Of the more labels,
    /// sums are fine.
    #[test]
    fn labels_that_beta_hardly_tells_apart() {
        let saps = [Score::Saps { weight: 0.0 }, Score::Saps { weight: 1e-6 }];
        for (n, temperatures, step) in [(90_u16, &[256.0, 16384.0, 1_048_576.0][..], 7), (1100, &[1e5], 400)]
        {
            let spread =
                |i: u16| f64::from(i * 37 % n) * 1.000_000_1 * 13.0 / f64::from(n) - f64::from(i % 3);
            let row: Vec<f64> = (0..n).map(spread).collect();
            for score in [Score::Thr, Score::Rank, Score::Mixed { weight: 0.01 }].into_iter().chain(saps) {
                for &temperature in temperatures.iter().step_by(OTHERS) {
                    for pick in (0..usize::from(n)).step_by(step * THRESHOLDS) {
                        check_both(&row, &plain(score, temperature), 0.5, pick);
                    }
                }
            }
            if cfg!(miri) {
                return;
            }
        }
    }

    /// The set by the definition: every label scored, those at most the threshold kept.
    fn naive<S: Simd, F: Float>(s: S, view: &RowView<'_, F>, scoring: &Scoring, q: f64) -> Vec<(u32, f64)> {
        let (mut labels, mut sorted) = (Vec::new(), SortedRow::default());
        sorted.sort(view.row);
        view.sorted_scores(s, &mut sorted, scoring, Scale::Ranked, |label, score| {
            if score <= q {
                labels.push((label, score));
            }
        });
        labels
    }

    fn check_both(row: &[f64], scoring: &Scoring, u: f64, pick: usize) {
        check(row, scoring, u, pick);
        check(&narrow(row), scoring, u, pick);
    }

    fn check<F: Float>(row: &[F], scoring: &Scoring, u: f64, pick: usize) {
        for_each_level!(s => { check_at(s, row, scoring, u, pick); });
    }

    fn check_at<S: Simd, F: Float>(s: S, row: &[F], scoring: &Scoring, u: f64, pick: usize) {
        let candidates = Candidates::only(scoring);
        let randomness = Randomness { uniforms: Uniforms::Fixed(u), ..Randomness::default() };
        let view = RowView::of(s, row, &candidates, &randomness).unwrap();
        let score = view.label_score(s, pick % row.len(), scoring, Scale::Ranked);
        let mut cutter = RowCutter::default();
        cutter.reserve(row.len()).unwrap();
        for (lo, hi) in thresholds(score, &[-1.0, 0.0, 0.5, 3.0, 700.0, 1e5, f64::INFINITY]) {
            let bounds = Bounds::new(scoring, lo, hi);
            let mut between = naive(s, &view, scoring, hi);
            let labels = between.iter().map(|pair| pair.0).collect();
            between.retain(|pair| pair.1 > lo);
            let expected = (labels, between);
            cutter.begin_row();
            for is_only in [true, false] {
                let found = cut(s, &mut cutter, &view, &bounds, is_only);
                assert_eq!(found, expected, "thresholds {lo}, {hi}");
            }
        }
    }

    fn u() -> impl Strategy<Value = f64> {
        prop_oneof![0.0_f64..1.0, Just(0.0), Just(1.0)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 60 }))]
        #[test]
        fn sets_of_many_labels_are_those_of_the_definition(
            mut row in prop::collection::vec(logit(), 65..if cfg!(miri) { 70 } else { 600 }),
            u in u(),
            power in prop_oneof![Just(0.0), Just(1.0)],
            log_t in -4.0_f64..6.0,
            pick in 0_usize..600,
        ) {
            row.push(0.25);
            let scoring = Scoring::new(Score::Aps, Reweight::new(power, power).unwrap(), log_t.exp2()).unwrap();
            check_both(&row, &scoring, u, pick);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 250 }))]
        #[test]
        fn sets_are_those_of_the_definition(
            mut row in prop::collection::vec(logit(), 0..if cfg!(miri) { 9 } else { 90 }),
            u in u(),
            gamma in prop_oneof![Just(0.0), Just(1.0)],
            power in prop_oneof![Just(0.0), Just(1.0)],
            log_t in -8.0_f64..8.0,
            pick in 0_usize..100,
        ) {
            row.push(0.25);
            let reweight = Reweight::new(gamma, power).unwrap();
            for score in SCORES.into_iter().chain([Score::Raps { penalty: 0.001, k_reg: 2 }]) {
                for temperature in [log_t.exp2(), 0.0, f64::INFINITY] {
                    if let Ok(scoring) = Scoring::new(score, reweight, temperature) {
                        check_both(&row, &scoring, u, pick);
                    }
                }
            }
        }
    }
}
