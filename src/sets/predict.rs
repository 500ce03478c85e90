//! What are the sets of a matrix: the labels whose ranked score is at most the threshold?

use super::bounds::Bounds;
use super::result::{SetBlock, Sets};
use super::row_cut::RowCutter;
use super::tile_cut::TileCut;
use super::tile_order::TileOrder;
use crate::error::Error;
use crate::kernels::Float;
use crate::math::Randomness;
use crate::rows::{Rows, Tile};
use crate::run::{Plan, Reads, Size, TileWork, for_tiles};
use crate::score::{Candidates, Scoring, TileView};
use crate::simd::Simd;

/// Finds the labels of each row whose ranked score is at most the threshold. If `allow_empty` is false, the
/// top label fills a set that would be empty.
///
/// # Errors
/// For a row that is not one of logits, U outside `[0, 1]`, or a threshold that is NaN.
pub fn predict_sets<F: Float, R: Rows<F>>(
    rows: &R,
    scoring: &Scoring,
    threshold: f64,
    allow_empty: bool,
    randomness: &Randomness<'_>,
    plan: &Plan<'_>,
) -> Result<Sets, Error> {
    randomness.check(rows.n_rows())?;
    if threshold.is_nan() {
        return Err(Error::argument("threshold", "a number", "nan"));
    }
    let bounds = Bounds::new(scoring, threshold, threshold);
    let tile_cut = TileCut::for_rows(&bounds, rows.n_rows(), rows.n_labels(), true);
    let work = OneCandidate { bounds, tile_cut, allow_empty, randomness };
    Sets::of_blocks(rows.n_rows(), Size::new(rows.n_rows(), rows.n_labels(), 2), plan, |range, sets| {
        for_tiles(rows, range, &work, sets)
    })
}

struct OneCandidate<'c> {
    bounds: Bounds,
    tile_cut: Option<TileCut>,
    allow_empty: bool,
    randomness: &'c Randomness<'c>,
}

impl<F: Float> TileWork<F> for OneCandidate<'_> {
    type Scratch = (RowCutter<F>, TileOrder<F>);
    type Out<'a> = SetBlock<'a>;

    fn reads(&self) -> Option<Reads> {
        Some(Reads { entropy: self.bounds.scoring.reweight.needs_entropy(), sums: false })
    }

    fn begin(&self, n_labels: usize, (cutter, _): &mut Self::Scratch) -> Result<(), Error> {
        cutter.reserve(n_labels)
    }

    #[inline(always)]
    fn tile<S: Simd>(
        &self,
        s: S,
        tile: &mut Tile<'_, F>,
        (cutter, order): &mut Self::Scratch,
        sets: &mut SetBlock<'_>,
    ) -> Result<(), Error> {
        let Self { bounds, tile_cut, allow_empty, randomness } = self;
        let candidates = Candidates::only(&bounds.scoring);
        let view = TileView::of(tile, &candidates, randomness)?;
        let tile = view.tile;
        let mut ends = None;
        if let (Some(tile_cut), Some(columns)) = (tile_cut, tile.columns()) {
            order.begin(columns.len());
            let found = tile_cut.ends(s, &view, columns, order);
            if let (Some(sizes), true) = (found.sizes(tile.count), *allow_empty) {
                return order.add_sets(sizes, tile.count, sets);
            }
            ends = Some(found);
        }
        for i in 0..tile.count {
            if let Some(size) = ends.as_ref().and_then(|ends| ends.size(i)) {
                let size = if *allow_empty { size } else { size.max(1) };
                sets.reserve(size)?;
                order.add_labels(i, size, &mut sets.labels);
                sets.end_row(None)?;
                continue;
            }
            let row = view.row(i, &candidates);
            cutter.begin_row();
            let certain = cutter.begin_only(s, &row, bounds);
            sets.reserve(certain)?;
            sets.labels.extend(cutter.first_labels(certain).iter().map(|&label| label as i32));
            cutter.walk(s, &row, bounds, certain, |_, label, _| sets.push(label));
            sets.end_row(if *allow_empty { None } else { cutter.top_label(s) })?;
        }
        Ok(())
    }
}
