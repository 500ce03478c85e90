//! Where do the sets of a tile of rows end, one lane a row?
//!
//! ```text
//! for each rank, in all rows at once:
//!     find the label of the rank and its term (see `tile_order.rs`)
//!     compare its share of the total with the bounds of the rank (see `bounds.rs`)
//!     clearly in: the set goes on; clearly out: it ends; neither: the row is open
//! ```
//!
//! Open rows go through `row_cut.rs`, which asks the definition.
//!
//! Margins. Terms are those of `ranked_masses.rs` or, where they are not written out in vectors, of the form
//! that turns into such (see [`crate::math`]): within 1.5e-6 of them, relative to each term. They are summed,
//! and taken off the sum by rank, in float64 instead of integers. Each of at most 2 * 128 additions rounds by
//! 2^-53 of Z or less: 3e-14 in all, which the slack of the bounds covers thirty times.

use super::bounds::Bounds;
use super::tile_order::TileOrder;
use crate::kernels::{self, Column, FEW_LABELS, Float, MOST_SIDE_BY_SIDE, TILE};
use crate::math::each_lane;
use crate::score::{Score, Sums, TileView};
use crate::simd::{Simd, vectorize};

/// A cut that is made in lanes.
#[derive(Clone, Debug)]
pub(crate) struct TileCut {
    bounds: Bounds,
    /// [`Bounds::at`] of each rank; in place, so that small calls allocate nothing.
    by_rank: [(f64, f64); MOST_SIDE_BY_SIDE],
}

/// Fewer rows than this go one by one: most lanes would be empty. With APS and THR, float32 and float64,
/// short and long sets, AVX2 and AVX-512, lanes began to pay at 7 to 18 rows of up to 32 labels and at 13 to
/// 31 rows of 64 labels. Rows of more labels are walked in vectors, and lanes began to pay at about a tile or
/// two.
fn worth_lanes(n_labels: usize) -> usize {
    if n_labels <= FEW_LABELS { 10 + n_labels / 8 } else { 2 * TILE }
}

/// With more labels than this `kernels::labels` is faster along each row for float32 sets that end by mass,
/// whatever the number of rows: APS took 0.7 to 1.1 times as long in lanes with 80 labels, 1.1 to 1.3 times
/// with 100, 1.1 to 1.6 times with 128. Several cuts of a row share the order of its labels in lanes, and
/// stay there.
const MOST_BY_MASS: usize = 90;

/// Beyond this threshold, or this weight of SAPS, the slack does not cover the roundings of differences.
const LARGEST: f64 = 1e3;
/// A bound nearer to 0 would leave too many rows open.
const NEAR_ZERO: f64 = 1e-9;

impl TileCut {
    /// The cut in lanes, where it is possible and quicker. `is_only` says that it is the only cut of its
    /// rows.
    pub(crate) fn for_rows(bounds: &Bounds, n_rows: usize, n_labels: usize, is_only: bool) -> Option<Self> {
        let is_by_mass = matches!(bounds.scoring.score, Score::Aps) && n_labels > MOST_BY_MASS;
        let is_worth = n_rows >= worth_lanes(n_labels) && n_labels <= MOST_SIDE_BY_SIDE;
        if is_worth && !(is_by_mass && is_only) { Self::new(bounds, n_labels) } else { None }
    }

    fn new(bounds: &Bounds, n_labels: usize) -> Option<Self> {
        let is_moderate = |q: f64| q.abs() <= LARGEST || q == f64::NEG_INFINITY;
        let is_heavy = matches!(bounds.scoring.score, Score::Saps { weight } if weight > LARGEST);
        if bounds.scoring.is_limit()
            || !is_moderate(bounds.lo)
            || !is_moderate(bounds.hi)
            || is_heavy
            || bounds.at(1).1.abs() < NEAR_ZERO
        {
            return None;
        }
        let mut by_rank = [(0.0, 0.0); MOST_SIDE_BY_SIDE];
        for (rank, at) in (1..).zip(&mut by_rank[..n_labels]) {
            *at = bounds.at(rank);
        }
        Some(Self { bounds: *bounds, by_rank })
    }

    /// Where the sets of a tile's rows end. `order` must have begun with the tile, and is extended.
    #[inline(always)]
    pub(crate) fn ends<S: Simd, F: Float>(
        &self,
        s: S,
        view: &TileView<'_, F>,
        columns: &[Column<F>],
        order: &mut TileOrder<F>,
    ) -> Ends {
        let scale = view.sharpness(&self.bounds.scoring).scale;
        vectorize!(s, self.ends_in_lanes(s, view, columns, &scale, order))
    }

    #[inline(always)]
    fn ends_in_lanes<S: Simd, F: Float>(
        &self,
        s: S,
        view: &TileView<'_, F>,
        columns: &[Column<F>],
        scale: &[F; TILE],
        order: &mut TileOrder<F>,
    ) -> Ends {
        let scan = &*view.tile.scan;
        let (sums, u) = (Sums::of(self.bounds.scoring.score), &scan.u);
        let (mut z, mut own) = ([0.0; TILE], [0.0; TILE]);
        kernels::total_terms(s, columns, &scan.max, scale, &mut z);
        // Where beta leaves the type's range sums may hold terms that are 0 at beta itself (see
        // `row_cut.rs`).
        let mut state = each_lane!([ALIVE; TILE], |i| if scale[i] < F::MAX { ALIVE } else { OPEN });
        let mut size = [0_u32; TILE];
        let mut after = z;
        for (i, &(in_at, out_at)) in self.by_rank[..columns.len()].iter().enumerate() {
            if i == order.found {
                order.extend(s, columns, scan);
            }
            let logits = &order.logits[i];
            kernels::total_terms(s, std::slice::from_ref(logits), &scan.max, scale, &mut own);
            if i == 0 || sums == Sums::Split {
                after = each_lane!([0.0; TILE], |lane| after[lane] - own[lane]);
            }
            let (mass, offset) = self.bounds.shares(i, &own, &after, &z, u);
            let mut alive = 0;
            for lane in 0..TILE {
                let margin = F::MARGIN * mass[lane].abs();
                let share = mass[lane] + offset[lane];
                let is_in = share - margin > in_at * z[lane];
                let is_out = share + margin < out_at * z[lane];
                let verdict = if is_out { DONE } else { OPEN };
                let verdict = if is_in { ALIVE } else { verdict };
                let verdict = if logits.0[lane] > F::NEG_INFINITY { verdict } else { DONE };
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
}

/// Where the sets of a tile's rows end.
#[derive(Clone, Debug)]
pub(crate) struct Ends {
    /// Labels in each set.
    size: [u32; TILE],
    state: [u32; TILE],
}

const DONE: u32 = 0;
const ALIVE: u32 = 1;
const OPEN: u32 = 2;

impl Ends {
    /// Every row is open.
    pub(crate) const OPEN: Self = Self { size: [0; TILE], state: [OPEN; TILE] };

    /// The size of the set of a row that is not open.
    #[inline(always)]
    pub(crate) fn size_in(&self, row: usize) -> u32 {
        self.size[row]
    }

    /// A bit for each row that is open.
    #[inline(always)]
    pub(crate) fn open(&self) -> u32 {
        let mut bits = 0;
        for i in 0..TILE {
            bits |= u32::from(self.state[i] == OPEN) << i;
        }
        bits
    }

    /// The sizes of the sets, if no row of the first `count` is open.
    #[inline(always)]
    pub(crate) fn sizes(&self, count: usize) -> Option<&[u32; TILE]> {
        (self.open() & (u32::MAX >> (TILE - count)) == 0).then_some(&self.size)
    }

    /// The size of a row's set; `None` for a row that is open.
    #[inline(always)]
    pub(crate) fn size(&self, row: usize) -> Option<usize> {
        (self.state[row] != OPEN).then_some(self.size[row] as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::{Randomness, Uniforms};
    use crate::rows::{Matrix, Tile, TileBuffers};
    use crate::score::testing::{SCORES, narrow};
    use crate::score::{Candidates, Reweight, Scale, Scoring};
    use crate::sets::RowCutter;
    use crate::sets::testing::{cut, thresholds};
    use crate::simd::for_each_level;
    use crate::testing::logit;
    use proptest::prelude::*;

    const MOST_LABELS: usize = if cfg!(miri) { 5 } else { 40 };
    const MOST_ROWS: usize = if cfg!(miri) { 2 } else { TILE };

    /// Compares rows that are decided in lanes with [`RowCutter::walk`]; how many are, of how many at one
    /// threshold.
    fn check<F: Float>(data: &[Vec<F>], scoring: &Scoring, u: &[f64], pick: usize) -> (usize, usize) {
        let mut counts = Vec::new();
        for_each_level!(s => { counts.push(check_at(s, data, scoring, u, pick)); });
        assert!(counts.iter().all(|count| count.1 == counts[0].1));
        counts.into_iter().min().unwrap_or_default()
    }

    fn check_at<S: Simd, F: Float>(
        s: S,
        data: &[Vec<F>],
        scoring: &Scoring,
        u: &[f64],
        pick: usize,
    ) -> (usize, usize) {
        let (rows, k) = (data.concat(), data[0].len());
        let matrix = Matrix::new(&rows, k).unwrap();
        let candidates = Candidates::only(scoring);
        let randomness = Randomness { uniforms: Uniforms::Each(u), ..Randomness::default() };
        let (mut decided, mut judged) = (0, 0);
        let mut work = |tile: &mut Tile<'_, F>| {
            tile.scan(s, true, false)?;
            let view = TileView::of(tile, &candidates, &randomness)?;
            let tile = view.tile;
            let columns = tile.columns().unwrap();
            let of = view.row(pick % data.len(), &candidates);
            let score = of.label_score(s, pick / 7 % k, scoring, Scale::Ranked);
            let far = [f64::NEG_INFINITY, -1.0, -0.3, 0.0, 1e-6, 0.5, 1.5, 2.4, 3.0, 10.0, 18.0, 700.0];
            // One order for all thresholds, as all candidates of a row share one.
            let (mut order, mut cutter) = (TileOrder::default(), RowCutter::default());
            order.begin(k);
            cutter.reserve(k).unwrap();
            for (lo, hi) in thresholds(score, &far) {
                let bounds = Bounds::new(scoring, lo, hi);
                let Some(in_lanes) = TileCut::new(&bounds, k) else { continue };
                let ends = in_lanes.ends(s, &view, columns, &mut order);
                for i in 0..data.len() {
                    judged += usize::from(lo == hi);
                    let Some(size) = ends.size(i) else { continue };
                    decided += usize::from(lo == hi);
                    let row = view.row(i, &candidates);
                    cutter.begin_row();
                    let (labels, between) = cut(s, &mut cutter, &row, &bounds, false);
                    let mut found = vec![7];
                    order.add_labels(i, size, &mut found);
                    let expected: Vec<i32> =
                        [7].into_iter().chain(labels).map(|label| label as i32).collect();
                    assert_eq!(found, expected, "thresholds {lo}, {hi}, row {:?}", row.row);
                    assert_eq!(between, [], "thresholds {lo}, {hi}, row {:?}", row.row);
                    if let Some(first) = cutter.top_label(s) {
                        assert_eq!(order.labels[0][i], first);
                    }
                }
            }
            Ok(())
        };
        TileBuffers::default().with_tile(&matrix, 0, data.len(), 0, &mut work).unwrap();
        (decided, judged)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 150 }))]
        #[test]
        fn lanes_equal_rows(
            mut data in (0_usize..MOST_LABELS, 1_usize..=MOST_ROWS).prop_flat_map(|(k, n)| {
                prop::collection::vec(prop::collection::vec(logit(), k), n)
            }),
            u in prop::collection::vec(prop_oneof![8 => 0.0_f64..1.0, 1 => Just(0.0), 1 => Just(1.0)], TILE),
            gamma in prop_oneof![Just(0.0), Just(1.0)],
            power in prop_oneof![Just(0.0), Just(1.0), Just(0.5)],
            log_t in prop_oneof![4 => -8.0_f64..8.0, 1 => -140.0_f64..140.0],
            pick in 0_usize..1000,
        ) {
            for row in &mut data {
                row.push(0.25);
            }
            let narrow: Vec<Vec<f32>> = data.iter().map(|row| narrow(row)).collect();
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
                (0..TILE).map(|i| (0..n_labels).map(|k| logit(i, k)).collect()).collect();
            let u: Vec<f64> = (0..TILE).map(|i| i as f64 / TILE as f64).collect();
            for score in SCORES {
                let scoring = Scoring::new(score, Reweight::NONE, 1.0).unwrap();
                let (decided, judged) = check(&data, &scoring, &u, 3);
                assert!(judged >= 5 * TILE, "{score:?}: {judged}");
                assert!(4 * decided > 3 * judged, "{score:?}, {n_labels} labels: {decided} of {judged}");
            }
        }
    }

    #[test]
    fn what_lanes_cannot_decide_is_refused() {
        let scoring = |score, temperature| Scoring::new(score, Reweight::NONE, temperature).unwrap();
        let refused = |scoring: Scoring, q: f64| TileCut::new(&Bounds::new(&scoring, q, q), 10).is_none();
        for q in [f64::INFINITY, 1e4, -1e4, 40.0] {
            assert!(refused(scoring(Score::Aps, 1.0), q));
        }
        assert!(!refused(scoring(Score::Aps, 1.0), 10.0));
        assert!(refused(scoring(Score::Aps, 0.0), 0.5));
        assert!(refused(scoring(Score::Saps { weight: 1e4 }, 1.0), 0.5));
    }
}
