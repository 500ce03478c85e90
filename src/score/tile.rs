//! What are the scores of one label in each row of a tile?
//!
//! ```text
//! find the place of each label
//! for each candidate, those that share their sums side by side:
//!     take the sums, unless the last candidate had them
//!     make the score of each row of them
//! ```
//!
//! Rows are scanned and their entropies taken once for all candidates. Every score equals
//! [`RowView::label_score`] to the bit.

use super::candidates::{Candidates, SumsKey, sums_key};
use super::formula::{Masses, Sums, score};
use super::limits::Census;
use super::masses::{SharpnessLanes, tile_masses};
use super::place::TilePlaces;
use super::row::RowView;
use super::scoring::{Scale, Scoring};
use crate::error::Error;
use crate::kernels::{Float, TILE};
use crate::math::{Randomness, each_lane};
use crate::rows::Tile;
use crate::run::{Planes, Scratch, list_bytes};
use crate::simd::Simd;

/// A tile as candidates see it: with the entropies and U of its rows.
#[derive(Debug)]
pub(crate) struct TileView<'a, F> {
    pub(crate) tile: &'a Tile<'a, F>,
}

impl<'a, F: Float> TileView<'a, F> {
    /// The tile must be scanned, with the sums behind entropy if the candidates need it.
    #[inline(always)]
    pub(crate) fn of<'b: 'a>(
        tile: &'a mut Tile<'b, F>,
        candidates: &Candidates<'_>,
        randomness: &Randomness<'_>,
    ) -> Result<Self, Error> {
        if candidates.entropy {
            tile.take_entropies();
        }
        tile.draw(randomness)?;
        Ok(Self { tile })
    }

    /// [`RowView::sharpness`] of each row.
    #[inline(always)]
    pub(crate) fn sharpness(&self, candidate: &Scoring) -> SharpnessLanes<F> {
        let weights = candidate.reweight.weights(&self.tile.scan.entropies);
        SharpnessLanes::new(&weights, candidate.temperature, self.tile.grain())
    }

    /// Row i of the tile.
    #[inline(always)]
    pub(crate) fn row(&self, i: usize, candidates: &Candidates<'_>) -> RowView<'a, F> {
        let (row, scan) = (self.tile.rows[i], self.tile.row_scan(i));
        let (u, entropy) = (self.tile.scan.u[i], self.tile.scan.entropies[i]);
        RowView { row, scan, u, entropy, census: candidates.census(row, &scan) }
    }
}

/// Working space for the scores of labels.
#[derive(Debug)]
pub(crate) struct LabelScratch<F> {
    places: TilePlaces<F>,
    masses: Masses<TILE>,
    /// Filled where a candidate is a limit in temperature.
    censuses: [Census; TILE],
}

impl<F: Float> Default for LabelScratch<F> {
    fn default() -> Self {
        Self { places: TilePlaces::default(), masses: Masses::EMPTY, censuses: Default::default() }
    }
}

impl<F: Float> Scratch for LabelScratch<F> {
    fn bytes(&self) -> usize {
        list_bytes(&self.places.before)
    }
}

impl<F: Float> LabelScratch<F> {
    /// See [`TilePlaces::read`].
    #[inline(always)]
    pub(crate) fn read(&mut self, tile: &Tile<'_, F>, label: &[usize; TILE]) {
        self.places.read(tile.rows, label);
    }
}

/// Scores of the labels of a tile, which were read. `out` has a run of rows for each candidate; the tile's
/// begin at `at`.
#[inline(always)]
pub(crate) fn label_scores_of_tile<S: Simd, F: Float>(
    s: S,
    view: &TileView<'_, F>,
    candidates: &Candidates<'_>,
    scale: Scale,
    scratch: &mut LabelScratch<F>,
    out: &mut Planes<'_, f64>,
    at: usize,
) {
    let (tile, LabelScratch { places, masses, censuses }) = (view.tile, scratch);
    places.find(s, tile);
    if candidates.census {
        for i in 0..tile.count {
            censuses[i] = Census::of(tile.rows[i], &tile.row_scan(i), candidates.mean);
        }
    }
    let mut shared: Option<SumsKey> = None;
    for &c in candidates.order {
        let candidate = &candidates.list[c];
        let name = candidate.score;
        let scores = if candidate.is_limit() {
            let weight = candidate.reweight.weights(&tile.scan.entropies);
            let mut scores = [0.0; TILE];
            for i in 0..tile.count {
                let (scan, label) = (tile.row_scan(i), (places.logit[i], places.rank[i]));
                scores[i] = censuses[i].score(candidate, scale, &scan, label, weight[i], tile.scan.u[i]);
            }
            scores
        } else {
            let key = sums_key(candidate);
            if shared != Some(key) {
                let sharpness = view.sharpness(candidate);
                let sums = Sums::of(name);
                let of_top = (sums == Sums::Top).then(|| TilePlaces::of_top(tile.scan));
                let places = of_top.as_ref().unwrap_or(places);
                tile_masses(s, tile, (sums, scale), places, &sharpness, masses);
                shared = Some(key);
            }
            score(name, scale, tile.n_labels(), masses, &places.rank, &tile.scan.u)
        };
        // Impossible labels score infinity.
        let scores = each_lane!([0.0; TILE], |i| {
            if places.logit[i] == F::NEG_INFINITY { f64::INFINITY } else { scores[i] }
        });
        out.plane(c)[at..][..tile.count].copy_from_slice(&scores[..tile.count]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::MOST_SIDE_BY_SIDE;
    use crate::rows::{Matrix, Scan, TileBuffers, entropy};
    use crate::score::masses::label_masses;
    use crate::score::place::{place, place_in};
    use crate::score::testing::narrow;
    use crate::simd::for_each_level;
    use crate::testing::logit;
    use proptest::prelude::*;

    /// Calls `work` with a tile of the rows, scanned.
    fn with_tile<F: Float>(
        data: &[Vec<F>],
        work: impl FnOnce(&mut Tile<'_, F>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let rows = data.concat();
        let matrix = Matrix::new(&rows, data[0].len()).unwrap();
        TileBuffers::default().with_tile(&matrix, 0, data.len(), 0, work)
    }

    /// Everything the tile computes equals its one-row definition, to the bit.
    fn check<F: Float>(data: &[Vec<F>], beta: f64, picks: &[usize]) {
        for_each_level!(s => {
            with_tile(data, |tile| {
                check_tile(s, tile, beta, picks);
                Ok(())
            })
            .unwrap();
        });
    }

    fn check_tile<S: Simd, F: Float>(s: S, tile: &mut Tile<'_, F>, beta: f64, picks: &[usize]) {
        let (k, rows) = (tile.n_labels(), tile.rows);
        tile.scan(s, true, true).unwrap();
        assert_eq!(tile.columns().is_some(), k <= MOST_SIDE_BY_SIDE);
        tile.take_entropies();
        let entropies = tile.scan.entropies;
        let label = std::array::from_fn(|i| {
            let wanted = picks[i] % k;
            if rows[i][wanted] > F::NEG_INFINITY { wanted } else { k - 1 }
        });
        let mut places = TilePlaces::default();
        places.read(rows, &label);
        places.find(s, tile);
        let sharpness = SharpnessLanes::<F>::new(&[1.0 / beta; TILE], 1.0, tile.grain());
        let masses = [Sums::Split, Sums::Others, Sums::Top].map(|sums| {
            let mut masses = Masses::EMPTY;
            let of_top = TilePlaces::of_top(tile.scan);
            let places = if sums == Sums::Top { &of_top } else { &places };
            tile_masses(s, tile, (sums, Scale::Ranked), places, &sharpness, &mut masses);
            (sums, masses)
        });
        for i in 0..tile.count {
            let scan = Scan::of(s, rows[i], i).unwrap();
            let found = tile.row_scan(i);
            // Logits that tie may be of either sign of zero.
            assert_eq!((scan.max, scan.second, scan.bits), (found.max, found.second, found.bits));
            assert_eq!(entropy(s, rows[i], &scan).to_bits(), entropies[i].to_bits());
            let own = place(s, rows[i], label[i]);
            let quick = place_in(s, rows[i], label[i], &scan);
            assert_eq!((own.rank, own.next), (quick.rank, quick.next));
            assert_eq!((own.rank, own.next), (places.rank[i], places.next[i]));
            let first = rows[i].iter().position(|&z| z == scan.max).unwrap();
            let at_first = place(s, rows[i], first);
            for (sums, masses) in &masses {
                let (label, place) = if *sums == Sums::Top { (first, &at_first) } else { (label[i], &own) };
                let one = label_masses(s, *sums, rows[i], label, place, scan.max, &sharpness.get(i));
                assert_eq!(one.lane(0).map(f64::to_bits), masses.lane(i).map(f64::to_bits));
            }
        }
    }

    fn check_both(data: &[Vec<f64>], beta: f64, picks: &[usize]) {
        check(data, beta, picks);
        check(&data.iter().map(|row| narrow(row)).collect::<Vec<_>>(), beta, picks);
    }

    const MOST_LABELS: usize = if cfg!(miri) { 5 } else { 100 };
    const MOST_ROWS: usize = if cfg!(miri) { 3 } else { TILE };

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 128 }))]
        #[test]
        fn tiles_equal_rows(
            mut data in (1..MOST_LABELS, 1..=MOST_ROWS).prop_flat_map(|(k, n)| {
                prop::collection::vec(prop::collection::vec(logit(), k), n)
            }),
            log_beta in -12.0_f64..20.0,
            picks in prop::collection::vec(0_usize..1000, TILE),
        ) {
            for row in &mut data {
                row.push(0.25);
            }
            check_both(&data, log_beta.exp2(), &picks);
        }

        /// Summed along the row; labels near the top, which have few before them, and any others.
        #[test]
        fn tiles_of_long_rows_equal_rows(
            mut row in prop::collection::vec(logit(), MOST_SIDE_BY_SIDE + 1..300),
            log_beta in -12.0_f64..20.0,
            mut picks in prop::collection::vec(0_usize..1000, TILE),
        ) {
            row.push(0.25);
            let mut ranked: Vec<usize> = (0..row.len()).collect();
            ranked.sort_by(|&a, &b| row[b].total_cmp(&row[a]));
            picks[..20].copy_from_slice(&ranked[..20]);
            check_both(&vec![row; TILE], log_beta.exp2(), &picks);
        }
    }

    #[test]
    fn bad_rows_are_named() {
        for k in [3, MOST_SIDE_BY_SIDE + 5] {
            let good = vec![0.0_f64; k];
            let mut nan = good.clone();
            nan[2] = f64::NAN;
            let none = vec![f64::NEG_INFINITY; k];
            for (bad, expected) in [(nan, "row 7, column 2"), (none, "row 7 is")] {
                let mut data = vec![good.clone(); 9];
                data[7] = bad;
                for_each_level!(s => {
                    let error = with_tile(&data, |tile| tile.scan(s, true, false)).unwrap_err();
                    assert!(error.to_string().contains(expected), "{error}");
                });
            }
        }
    }
}
