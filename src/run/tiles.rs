//! How does a call go over its rows? By one loop over tiles.
//!
//! ```text
//! for each block of rows, on a thread:
//!     take the thread's working space
//!     for each tile of the block:
//!         lend its rows, choose the instruction set, scan the rows, do the call's work
//! ```

use std::ops::Range;

use super::planes::Planes;
use super::scratch::{Scratch, with_scratch};
use super::threads::{Plan, Size, fill};
use crate::error::Error;
use crate::kernels::Float;
use crate::rows::{Rows, Tile, TileBuffers, rows_of_tile};
use crate::simd::{Simd, dispatch};

/// What is computed of a tile before the work on it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reads {
    /// Whether to take the sums behind entropy.
    pub(crate) entropy: bool,
    /// Whether the work sums rows along themselves.
    pub(crate) sums: bool,
}

/// What a call does with each tile of its rows.
pub(crate) trait TileWork<F: Float>: Sync {
    /// Working space of a thread.
    type Scratch: Scratch;
    /// What a block of rows fills.
    type Out<'a>;

    /// What the work needs of a tile; `None` if the tile need not be scanned.
    fn reads(&self) -> Option<Reads>;

    /// Makes the space ready for a block of rows.
    fn begin(&self, n_labels: usize, scratch: &mut Self::Scratch) -> Result<(), Error> {
        let _ = (n_labels, scratch);
        Ok(())
    }

    /// Works on a tile, after its scan. Errors name a row by its place in the tile.
    fn tile<S: Simd>(
        &self,
        s: S,
        tile: &mut Tile<'_, F>,
        scratch: &mut Self::Scratch,
        out: &mut Self::Out<'_>,
    ) -> Result<(), Error>;
}

impl<F: Float> Scratch for TileBuffers<F> {
    fn bytes(&self) -> usize {
        TileBuffers::bytes(self)
    }
}

/// Does the work on each tile of a block of rows.
pub(crate) fn for_tiles<F: Float, W: TileWork<F>>(
    rows: &dyn Rows<F>,
    range: Range<usize>,
    work: &W,
    out: &mut W::Out<'_>,
) -> Result<(), Error> {
    let size = rows_of_tile::<F>(rows.n_labels());
    let is_call = range.len() == rows.n_rows();
    with_scratch(is_call, |(buffers, scratch): &mut (TileBuffers<F>, W::Scratch)| {
        buffers.begin();
        work.begin(rows.n_labels(), scratch)?;
        for first in range.clone().step_by(size) {
            let count = size.min(range.end - first);
            buffers.with_tile(
                rows,
                first,
                count,
                first - range.start,
                |tile| dispatch!(s => scan_and_work(s, work, tile, scratch, out)),
            )?;
        }
        Ok(())
    })
}

#[inline(always)]
fn scan_and_work<S: Simd, F: Float, W: TileWork<F>>(
    s: S,
    work: &W,
    tile: &mut Tile<'_, F>,
    scratch: &mut W::Scratch,
    out: &mut W::Out<'_>,
) -> Result<(), Error> {
    if let Some(Reads { entropy, sums }) = work.reads() {
        tile.scan(s, entropy, sums)?;
    }
    work.tile(s, tile, scratch, out)
}

/// Fills `out`, which is laid out as planes times rows times `width`. The work on a row costs about `passes`
/// readings of it.
pub(crate) fn fill_tiles<T: Send, F: Float, W: for<'a> TileWork<F, Out<'a> = Planes<'a, T>>>(
    rows: &dyn Rows<F>,
    work: &W,
    width: usize,
    passes: usize,
    plan: &Plan<'_>,
    out: &mut [T],
) -> Result<(), Error> {
    fill(out, width, Size::new(rows.n_rows(), rows.n_labels(), passes), plan, |range, planes| {
        for_tiles(rows, range, work, planes)
    })
}
