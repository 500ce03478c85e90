//! Where the sets of a group of rows end, one lane a row: the fast twin of [`crate::cut`] for few labels.
//!
//! Labels are taken by rank in all rows at once (see [`crate::lane_order`]). At each rank a share of the total Z is compared with bounds that depend on the rank alone:
//!
//! | score | share | in at q when it is at least |
//! |---|---|---|
//! | thr | `r = 1`: `-(1 - f_y)`; then `f_y` | `-1 / (1 + e^-q)`; then `1 / (1 + e^q)` |
//! | aps | `(1 - U) f_y + (mass after y)` | `e^-q` |
//! | raps | the same | `p - q`, `p = penalty max(0, r - k_reg)` |
//! | saps | `r = 1`: the same; then `1 - f_(1) - weight U` | `-q`; then `weight (r - 2) - q` |
//! | rank | as thr | as thr, at the g with `g / (1 + abs g) = 2 (q - r)` |
//! | mixed | as thr | `e^-q - 1`; then `e^(weight log r - q)` |
//!
//! Shares fall with rank and bounds rise, so the first label that is out ends the set. (The top label of thr is
//! compared by what it leaves, which may be far less than the rounding of its own mass.) A row with a label
//! within the margin of a bound is open: it goes through [`Cut::walk`], which asks the definition.
//!
//! Margins. Terms are those of [`crate::ranked_masses`] or, where they are not written out in vectors, of the form that
//! turns into such (see [`crate::exp2`]): within 1.5e-6 of them, relative to each term. They are summed,
//! and taken off the sum by rank, in float64 instead of integers. Each of at most 2 * 128 additions rounds by 2^-53 of
//! Z or less: 3e-14 in all. So masses differ from the ones that `judge.rs` compares by less than 1.5e-6 of themselves and
//! [`ROUNDING`] of Z, and the margins are its own, relative to the mass and more than fifty times that, with `ROUNDING`
//! in place of the quanta.

use crate::cut::Cut;
use crate::elementary::{exp, ln};
use crate::float::Float;
#[cfg(target_arch = "x86_64")]
use crate::group::lanes;
use crate::lane_order::LaneOrder;
use crate::nucleus::FEW_LABELS;
use crate::rows::{Column, GROUP};
use crate::scoring::Score;
#[cfg(target_arch = "x86_64")]
use crate::simd::x86_64;
use crate::simd::{Level, instances, level};
use crate::sum::{Depths, each_lane};
use crate::unit_sums::MOST_SIDE_BY_SIDE;

/// A cut that is made in lanes.
#[derive(Clone, Debug)]
pub(crate) struct LaneCut {
    share: Share,
    /// For each rank, the share above which a label is in and the one below which it is out; in place, so that small
    /// calls allocate nothing.
    bounds: [(f64, f64); MOST_SIDE_BY_SIDE],
}

/// What is compared with the bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Share {
    /// The label's own mass.
    Own,
    /// What APS leaves: the mass after the label and 1 - U of its own.
    Left,
    /// The same for the top label, then all but its mass, less U times a weight.
    OfTop(f64),
}

/// Fewer rows go one by one: most lanes would be empty. Lanes began to pay, with APS and THR in float32 and float64,
/// short and long sets, AVX2 and AVX-512, at 7 to 18 rows of up to 32 labels and 13 to 31 rows of 64; and where rows are
/// walked in vectors, of more labels, at about a group or two.
fn worth_lanes(n_labels: usize) -> usize {
    if n_labels <= FEW_LABELS { 10 + n_labels / 8 } else { 2 * GROUP }
}

/// With more labels than this a float32 set that ends by mass is found faster in the vectors of [`crate::nucleus`],
/// whatever the number of rows: APS took 0.7 to 1.1 times as long in lanes with 80 labels, 1.1 to 1.3 times with 100,
/// 1.1 to 1.6 times with 128. Several cuts of a row share the order of its labels in lanes, and stay there.
const MOST_BY_MASS: usize = 90;

/// What the sums, the bounds and the definition's fine quanta may be off by, in units of Z: ten times and more. Its
/// coarse quanta are within the margins relative to the mass, as in `judge.rs`.
const ROUNDING: f64 = 1e-12;
/// Beyond this, differences of thresholds and penalties would have roundings that are not covered.
const LARGEST_THRESHOLD: f64 = 1e3;
/// The same for the weight of SAPS.
const LARGEST_WEIGHT: f64 = 1e3;
/// A bound nearer to 0 would leave too many rows open.
const NEAR_ZERO: f64 = 1e-9;

impl LaneCut {
    /// The same cut in lanes, where it can be made in them and that is quicker; `is_only` if it is the only cut
    /// of its rows.
    pub(crate) fn for_rows<F: Float>(
        cut: &Cut<'_>,
        n_rows: usize,
        n_labels: usize,
        is_only: bool,
    ) -> Option<Self> {
        // Without fused instructions every term is dear, and walking takes fewer of them.
        let has_lanes = cfg!(not(target_arch = "x86_64")) || level() != Level::Scalar;
        let is_by_mass = cfg!(target_arch = "x86_64")
            && F::as_f32(&[]).is_some()
            && matches!(cut.scoring.score, Score::Aps)
            && n_labels > MOST_BY_MASS;
        let is_worth = has_lanes && n_rows >= worth_lanes(n_labels) && n_labels <= MOST_SIDE_BY_SIDE;
        if is_worth && !(is_by_mass && is_only) { Self::new(cut, n_labels) } else { None }
    }

    fn new(cut: &Cut<'_>, n_labels: usize) -> Option<Self> {
        let Cut { scoring, lo, hi, .. } = *cut;
        let is_moderate = |q: f64| q.abs() <= LARGEST_THRESHOLD || q == f64::NEG_INFINITY;
        if scoring.is_limit() || !is_moderate(lo) || !is_moderate(hi) {
            return None;
        }
        let share = match scoring.score {
            Score::Thr | Score::Rank | Score::Mixed { .. } => Share::Own,
            Score::Aps | Score::Raps { .. } => Share::Left,
            Score::Saps { weight } if weight <= LARGEST_WEIGHT => Share::OfTop(weight),
            Score::Saps { .. } => return None,
        };
        let (first, _) = needed(scoring.score, 1, hi);
        if first.abs() < NEAR_ZERO {
            return None;
        }
        let mut bounds = [(0.0, 0.0); MOST_SIDE_BY_SIDE];
        for (rank, bound) in (1..).zip(&mut bounds[..n_labels]) {
            let (in_at, in_slack) = needed(scoring.score, rank, lo);
            let (out_at, out_slack) = needed(scoring.score, rank, hi);
            *bound = (in_at + in_slack, out_at - out_slack);
        }
        Some(Self { share, bounds })
    }

    /// Where the sets of a group's rows end. `order` must have begun with the group.
    #[inline(always)]
    pub(crate) fn ends<F: Float>(&self, rows: &LaneRows<'_, F>, order: &mut LaneOrder<F>) -> Ends {
        ends(self, rows, order)
    }
}

/// The share that the label at a rank needs to be in at threshold `q`, and what roundings, or terms of the
/// definition that are in no share, may change of it.
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
            (by_rank - q, ROUNDING * (2.0 + weight + by_rank + q.abs().min(LARGEST_THRESHOLD)))
        }
        Score::Rank => {
            // |g / (1 + |g|)| <= 1: ranks further than a half from q are in, or out, whatever the share is.
            let t = 2.0 * (q - r);
            if t.abs() > 1.0 + 2e-9 {
                return (-t * f64::INFINITY, 0.0);
            }
            let t = t.clamp(-1.0, 1.0);
            (at_odds(t / (1.0 - t.abs())), ROUNDING)
        }
        Score::Mixed { .. } if rank == 1 => ((-q).exp_m1(), ROUNDING),
        Score::Mixed { weight } => (exp(weight * ln(r) - q), ROUNDING),
    }
}

/// The rows of a group, as far as a candidate sees them.
#[derive(Debug)]
pub(crate) struct LaneRows<'a, F> {
    pub(crate) columns: &'a [Column<F>],
    /// The two largest logits.
    pub(crate) max: &'a [F; GROUP],
    pub(crate) second: &'a [F; GROUP],
    /// `beta log2(e)`.
    pub(crate) scale: &'a [F; GROUP],
    pub(crate) u: &'a [f64; GROUP],
}

/// Where the sets of a group's rows end.
#[derive(Clone, Debug)]
pub(crate) struct Ends {
    /// Labels in each set.
    size: [u32; GROUP],
    state: [u32; GROUP],
}

const DONE: u32 = 0;
const ALIVE: u32 = 1;
const OPEN: u32 = 2;

impl Ends {
    /// A bit for each row that is open.
    #[inline(always)]
    pub(crate) fn open(&self) -> u32 {
        let mut bits = 0;
        for i in 0..GROUP {
            bits |= u32::from(self.state[i] == OPEN) << i;
        }
        bits
    }

    /// The sizes of the sets, if no row of the first `count` is open.
    #[inline(always)]
    pub(crate) fn sizes(&self, count: usize) -> Option<&[u32; GROUP]> {
        (self.open() & (u32::MAX >> (GROUP - count)) == 0).then_some(&self.size)
    }

    /// The size of a row's set; `None` for a row that is open.
    #[inline(always)]
    pub(crate) fn size(&self, row: usize) -> Option<usize> {
        (self.state[row] != OPEN).then_some(self.size[row] as usize)
    }
}

instances! {
    fn ends<F: Float>(cut: &LaneCut, rows: &LaneRows<'_, F>, order: &mut LaneOrder<F>) -> Ends = ends_body::<F>;
}

#[inline(always)]
fn ends_body<F: Float>(cut: &LaneCut, rows: &LaneRows<'_, F>, order: &mut LaneOrder<F>) -> Ends {
    let LaneRows { columns, max, second, scale, u } = *rows;
    let z = total_terms(columns, max, scale);
    // Where beta leaves the type's range sums may hold terms that it has not (see `cut.rs`).
    let mut state = each_lane!([ALIVE; GROUP], |i| if scale[i] < F::MAX { ALIVE } else { OPEN });
    let mut size = [0_u32; GROUP];
    let mut after = z;
    for (i, &(in_at, out_at)) in cut.bounds[..columns.len()].iter().enumerate() {
        if i == order.found {
            order.extend(columns, max, second);
        }
        let logits = &order.logits[i].0;
        let own = terms(logits, max, scale);
        // A mass, and what is added to it without a margin of its own.
        let (mut mass, mut offset) = (own, [0.0; GROUP]);
        match cut.share {
            Share::Own if i > 0 => {}
            Share::Own => mass = each_lane!([0.0; GROUP], |lane| own[lane] - z[lane]),
            Share::OfTop(weight) if i > 0 => {
                mass = after;
                offset = each_lane!([0.0; GROUP], |lane| -weight * u[lane] * z[lane]);
            }
            Share::Left | Share::OfTop(_) => {
                after = each_lane!([0.0; GROUP], |lane| after[lane] - own[lane]);
                mass = each_lane!([0.0; GROUP], |lane| (1.0 - u[lane]).mul_add(own[lane], after[lane]));
            }
        }
        let mut alive = 0;
        for lane in 0..GROUP {
            let margin = F::MARGIN * mass[lane].abs();
            let share = mass[lane] + offset[lane];
            let is_in = share - margin > in_at * z[lane];
            let is_out = share + margin < out_at * z[lane];
            let verdict = if is_in {
                ALIVE
            } else if is_out {
                DONE
            } else {
                OPEN
            };
            let verdict = if logits[lane] > F::NEG_INFINITY { verdict } else { DONE };
            state[lane] = if state[lane] == ALIVE { verdict } else { state[lane] };
            size[lane] += state[lane] & ALIVE;
            alive |= state[lane] & ALIVE;
        }
        if alive == 0 {
            break;
        }
    }
    Ends { size, state }
}

/// The terms of a logit of each row, relative to its largest one.
#[inline(always)]
fn terms<F: Float>(logits: &[F; GROUP], max: &[F; GROUP], scale: &[F; GROUP]) -> [f64; GROUP] {
    let mut terms = [0.0; GROUP];
    #[cfg(target_arch = "x86_64")]
    if let (Some(logits), Some(max), Some(scale)) = (lanes(logits), lanes(max), lanes(scale))
        && x86_64::terms(logits, max, scale, &mut terms).is_some()
    {
        return terms;
    }
    for lane in 0..GROUP {
        terms[lane] = Depths::new(scale[lane]).term_in_lanes(logits[lane], max[lane]).to_f64();
    }
    terms
}

/// The sums of these terms over all labels. The terms are the same to the bit: they are taken off these sums again.
#[inline(always)]
fn total_terms<F: Float>(columns: &[Column<F>], max: &[F; GROUP], scale: &[F; GROUP]) -> [f64; GROUP] {
    let mut totals = [0.0; GROUP];
    #[cfg(target_arch = "x86_64")]
    if let (Some(columns), Some(max), Some(scale)) = (F::columns_as_f32(columns), lanes(max), lanes(scale))
        && x86_64::total_terms(columns, max, scale, &mut totals).is_some()
    {
        return totals;
    }
    let depths = each_lane!([Depths::new(F::LOG2_E); GROUP], |i| Depths::new(scale[i]));
    for column in columns {
        for lane in 0..GROUP {
            totals[lane] += depths[lane].term_in_lanes(column.0[lane], max[lane]).to_f64();
        }
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidates::Candidates;
    use crate::cut::Standing;
    use crate::cut::tests::{OTHERS, THRESHOLDS, logit};
    use crate::group::Group;
    use crate::kernel::Views;
    use crate::ranked_masses::RankedMasses;
    use crate::scoring::{Reweight, Scale, Scoring};
    use crate::top_labels::TopLabels;
    use crate::uniform::{Randomness, Uniforms};
    use proptest::prelude::*;

    const SCORES: [Score; 9] = [
        Score::Thr,
        Score::Aps,
        Score::Raps { penalty: 0.1, k_reg: 2 },
        Score::Raps { penalty: 0.0, k_reg: 0 },
        Score::Saps { weight: 0.2 },
        Score::Saps { weight: 900.0 },
        Score::Rank,
        Score::Mixed { weight: 0.3 },
        Score::Mixed { weight: 100.0 },
    ];

    const MOST_LABELS: usize = if cfg!(miri) { 5 } else { 40 };
    const MOST_ROWS: usize = if cfg!(miri) { 2 } else { GROUP };

    /// Compares rows that are decided in lanes with [`Cut::walk`]; how many are, of how many at one threshold.
    fn check<F: Float>(data: &[Vec<F>], scoring: &Scoring, u: &[f64], pick: usize) -> (usize, usize) {
        let k = data[0].len();
        let rows: [&[F]; GROUP] = std::array::from_fn(|i| data[i % data.len()].as_slice());
        let candidates = Candidates::only(scoring);
        let randomness = Randomness { uniforms: Uniforms::Each(u), ..Randomness::default() };
        let mut columns = Vec::new();
        let mut group = Group::new(&rows, data.len(), &[], &mut columns);
        let mut views = Views::new(k);
        views.read(&mut group, &candidates, &randomness, 0, |i| i).unwrap();
        let scale = views.sharpness(scoring).scale;
        let lanes = views.lanes(group.columns().unwrap(), &scale);
        let of = pick % data.len();
        let score = views.view(of, rows[of], &candidates).label_score(pick / 7 % k, scoring, Scale::Ranked);
        // Thresholds that are scores, just beside them, and far away.
        let near = [score, score.next_up(), score.next_down(), score + 1e-6, score - 1e-6, score * 1.001];
        let far = [f64::NEG_INFINITY, -1.0, -0.3, 0.0, 1e-6, 0.5, 1.5, 2.4, 3.0, 10.0, 18.0, 700.0];
        let (mut decided, mut judged) = (0, 0);
        // One order for all thresholds, as all candidates of a row share one.
        let mut order = LaneOrder::default();
        order.begin(k);
        for hi in near.into_iter().chain(far).step_by(THRESHOLDS) {
            for lo in [hi, score.min(hi), hi - 1e-3, f64::NEG_INFINITY].into_iter().step_by(OTHERS) {
                let cut = Cut::new(scoring, lo, hi, k);
                let Some(in_lanes) = LaneCut::new(&cut, k) else { continue };
                let ends = in_lanes.ends(&lanes, &mut order);
                for i in 0..data.len() {
                    judged += usize::from(lo == hi);
                    let Some(size) = ends.size(i) else { continue };
                    decided += usize::from(lo == hi);
                    let view = views.view(i, rows[i], &candidates);
                    let (mut masses, mut top) = (RankedMasses::default(), TopLabels::default());
                    masses.take(&view, scoring);
                    top.take(rows[i], F::NEG_INFINITY);
                    let mut expected = Vec::new();
                    cut.walk(&view, &mut masses, &mut top, |label, standing| {
                        assert!(matches!(standing, Standing::Within), "{lo} {hi} {label} {standing:?}");
                        expected.push(label as i32);
                    });
                    let mut found = vec![7];
                    order.add_labels(i, size, &mut found);
                    let expected: Vec<i32> = [7].into_iter().chain(expected).collect();
                    assert_eq!(found, expected, "thresholds {lo}, {hi}, row {:?}", rows[i]);
                    if let Some((first, _)) = top.get(0) {
                        assert_eq!(order.labels[0][i], first);
                    }
                }
            }
        }
        (decided, judged)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 150 }))]
        #[test]
        fn lanes_equal_rows(
            mut data in (0_usize..MOST_LABELS, 1_usize..=MOST_ROWS).prop_flat_map(|(k, n)| {
                prop::collection::vec(prop::collection::vec(logit(), k), n)
            }),
            u in prop::collection::vec(prop_oneof![8 => 0.0_f64..1.0, 1 => Just(0.0), 1 => Just(1.0)], GROUP),
            gamma in prop_oneof![Just(0.0), Just(1.0)],
            power in prop_oneof![Just(0.0), Just(1.0), Just(0.5)],
            log_t in prop_oneof![4 => -8.0_f64..8.0, 1 => -140.0_f64..140.0],
            pick in 0_usize..1000,
        ) {
            for row in &mut data {
                row.push(0.25);
            }
            let narrow: Vec<Vec<f32>> =
                data.iter().map(|row| row.iter().map(|&z| z as f32).collect()).collect();
            let reweight = Reweight::new(gamma, power).unwrap();
            for score in SCORES {
                let scoring = Scoring::new(score, reweight, log_t.exp2()).unwrap();
                let u = &u[..data.len()];
                check(&data, &scoring, u, pick);
                check(&narrow, &scoring, u, pick);
            }
        }
    }

    /// At a beta beyond the type's range the sums take labels for ties that the definition tells apart.
    #[test]
    #[cfg_attr(miri, ignore = "tries too few thresholds")]
    fn rows_that_beta_blurs_are_left_open() {
        let narrow = [f32::from_bits(14393), f32::from_bits(13621)];
        let wide = [f64::from_bits(20), f64::from_bits(19), -1.0];
        for score in SCORES {
            let scoring = Scoring::new(score, Reweight::NONE, 1e-310).unwrap();
            for (decided, judged) in
                [check(&[narrow.to_vec()], &scoring, &[0.5], 1), check(&[wide.to_vec()], &scoring, &[0.5], 1)]
            {
                assert!(decided == 0 && judged > 0, "{score:?}: {decided} of {judged}");
            }
        }
    }

    // A proportion of rows, of which Miri could try too few.
    #[test]
    #[cfg_attr(miri, ignore = "takes hours")]
    fn most_rows_are_decided() {
        let logit = |i: usize, k: usize| ((i * 7919 + k * 104_729) % 9973) as f32 / 1000.0;
        for n_labels in [1, 2, 10, 100, 128] {
            let data: Vec<Vec<f32>> =
                (0..GROUP).map(|i| (0..n_labels).map(|k| logit(i, k)).collect()).collect();
            let u: Vec<f64> = (0..GROUP).map(|i| i as f64 / GROUP as f64).collect();
            for score in SCORES {
                let scoring = Scoring::new(score, Reweight::NONE, 1.0).unwrap();
                let (decided, judged) = check(&data, &scoring, &u, 3);
                assert!(judged >= 5 * GROUP, "{score:?}: {judged}");
                assert!(4 * decided > 3 * judged, "{score:?}, {n_labels} labels: {decided} of {judged}");
            }
        }
    }

    #[test]
    fn what_lanes_cannot_decide_is_refused() {
        let scoring = |score, temperature| Scoring::new(score, Reweight::NONE, temperature).unwrap();
        let refused = |scoring: Scoring, q: f64| LaneCut::new(&Cut::new(&scoring, q, q, 10), 10).is_none();
        for q in [f64::INFINITY, 1e4, -1e4, 40.0] {
            assert!(refused(scoring(Score::Aps, 1.0), q));
        }
        assert!(!refused(scoring(Score::Aps, 1.0), 10.0));
        assert!(refused(scoring(Score::Aps, 0.0), 0.5));
        assert!(refused(scoring(Score::Saps { weight: 1e4 }, 1.0), 0.5));
    }
}
