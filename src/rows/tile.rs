//! What is read off a tile, up to 32 rows that are worked on together, before any label is looked at?
//!
//! Two things make a tile fast. After the sums of a row its entropy, weight and score take a few dozen
//! operations, as much work as to sum a hundred labels; for a tile of rows in lanes that nearly vanishes. And
//! where labels are few the sums themselves run across rows, one lane a row. Every result equals that of one
//! row by itself to the bit.
//!
//! ```text
//! labels are few:  transpose the tile, scan all rows at once, then sum for entropy across rows
//! else:            for each row: scan it, then sum for the entropy of the row before it, which is in the cache
//! ```

use super::scan::{Scan, check_row};
use super::{RowBuffer, Rows};
use crate::error::Error;
use crate::kernels::{self, Column, Float, MOST_SIDE_BY_SIDE, TILE, TileScan};
use crate::math::{EntropySums, Grain, Randomness, each_lane, entropies};
use crate::simd::{Ahead, ColumnsAhead, RowLines, Simd};

/// Bytes of rows that are worked on together. More would push the first rows out of the nearest caches before
/// the second pass.
const TILE_BYTES: usize = 1 << 17;
/// How many rows ahead memory is fetched: far enough to arrive in time, near enough to be still there.
const ROWS_AHEAD: usize = 4;
/// Longer rows, in bytes, do not fit that many times into the second cache, and the next one not into the
/// nearest.
const LONGEST_AHEAD: usize = 1 << 15;

/// Rows of a tile.
#[inline(always)]
pub(crate) fn rows_of_tile<F>(n_labels: usize) -> usize {
    (TILE_BYTES / (n_labels * size_of::<F>()).max(1)).clamp(1, TILE)
}

/// Working space for tiles.
#[derive(Debug, Default)]
pub(crate) struct TileBuffers<F: Float> {
    rows: RowBuffer<F>,
    /// Rows of few labels, transposed.
    columns: Vec<Column<F>>,
    scan: TileScan<F>,
}

impl<F: Float> TileBuffers<F> {
    /// Forgets what it held, for the rows of another source.
    pub(crate) fn begin(&mut self) {
        self.rows.begin();
    }

    /// Bytes that it has allocated.
    pub(crate) fn bytes(&self) -> usize {
        self.rows.bytes() + self.columns.capacity() * size_of::<Column<F>>()
    }

    /// Calls `work` with the tile of `count` rows from `first` on, not yet scanned. `at` is where they begin
    /// in their block of rows.
    #[inline(always)]
    pub(crate) fn with_tile<T>(
        &mut self,
        rows: &dyn Rows<F>,
        first: usize,
        count: usize,
        at: usize,
        work: impl FnOnce(&mut Tile<'_, F>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut lent: [&[F]; TILE] = [&[]; TILE];
        rows.lend(first, count, &mut self.rows, &mut lent)?;
        let n_labels = lent[0].len();
        // A scan overwrites what the last tile left.
        let width = if n_labels <= MOST_SIDE_BY_SIDE { n_labels } else { 0 };
        self.columns.resize(width, Column([F::ZERO; TILE]));
        let (columns, scan) = (&mut *self.columns, &mut self.scan);
        let ahead = rows.ahead(first, count);
        let mut tile = Tile { rows: &lent, count, first, at, columns, scan, ahead, sums_rows: false };
        work(&mut tile).map_err(|error| error.at_row(|i| rows.position(first + i)))
    }
}

/// Up to [`TILE`] rows, transposed where labels are few, and what [`Tile::scan`] found of them.
#[derive(Debug)]
pub(crate) struct Tile<'a, F> {
    pub(crate) rows: &'a [&'a [F]; TILE],
    pub(crate) count: usize,
    /// Index of the first row in its call.
    pub(crate) first: usize,
    /// Index of the first row in its block of rows.
    pub(crate) at: usize,
    columns: &'a mut [Column<F>],
    pub(crate) scan: &'a mut TileScan<F>,
    ahead: Ahead,
    /// Whether the rows will be summed along themselves after the scan: then half of the columns ahead are
    /// fetched.
    sums_rows: bool,
}

impl<F: Float> Tile<'_, F> {
    #[inline(always)]
    pub(crate) fn n_labels(&self) -> usize {
        self.rows[0].len()
    }

    #[inline(always)]
    pub(crate) fn grain(&self) -> Grain {
        Grain::of(self.n_labels())
    }

    /// The rows transposed, where labels are few.
    #[inline(always)]
    pub(crate) fn columns(&self) -> Option<&[Column<F>]> {
        if self.columns.is_empty() { None } else { Some(self.columns) }
    }

    /// The columns to fetch while rows are summed, if any.
    #[inline(always)]
    pub(crate) fn columns_ahead(&self) -> Option<(ColumnsAhead, usize)> {
        match self.ahead {
            Ahead::Columns(columns) if self.sums_rows => Some((columns, self.count)),
            _ => None,
        }
    }

    /// Takes [`Scan::of`] of each row, with the sums behind entropy if they are wanted. Where labels are few
    /// it transposes the rows on the way. Errors name a row by its place in the tile.
    #[inline(always)]
    pub(crate) fn scan<S: Simd>(&mut self, s: S, with_entropy: bool, sums_rows: bool) -> Result<(), Error> {
        self.sums_rows = sums_rows && size_of::<F>() == size_of::<f32>() && self.grain() == Grain::Coarse;
        if self.columns.is_empty() {
            return self.scan_rows(s, with_entropy);
        }
        let bytes = TILE * size_of_val(self.rows[0]);
        let address = |bytes| self.ahead.after(bytes).unwrap_or(self.rows[0].as_ptr().cast());
        let lines = RowLines { next: address(0), later: address(bytes) };
        if kernels::read_tile(s, self.rows, self.columns, with_entropy, lines, self.scan) {
            for i in 0..self.count {
                check_row(self.rows[i], i)?;
                if self.scan.max[i] == F::NEG_INFINITY {
                    return Err(Error::NoPossibleLabel { row: i });
                }
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn scan_rows<S: Simd>(&mut self, s: S, with_entropy: bool) -> Result<(), Error> {
        let count = self.count;
        let (steps, spacing) = if self.sums_rows { (2 * count, 1) } else { (count, 0) };
        for i in 0..=count {
            if i < count {
                // The sums behind entropy leave time to fetch what is ahead; without them columns are fetched
                // here. Rows that are only scanned come as fast by themselves: to fetch them, too, took 1.2 to
                // 1.4 of the time.
                if let (Ahead::Columns(columns), false) = (self.ahead, with_entropy) {
                    columns.step(i, steps, spacing).fetch_all();
                }
                let Scan { max, second, bits } = Scan::of(s, self.rows[i], i)?;
                (self.scan.max[i], self.scan.second[i], self.scan.bits[i]) = (max, second, bits);
            }
            // A row behind, so that nothing waits for the end of a scan. Both rows are in the nearest cache,
            // and the next one is on its way there, or to the second cache where rows are long.
            if with_entropy && i > 0 {
                let (row, shift) = (self.rows[i - 1], self.scan.second[i - 1]);
                let sums = if let Ahead::Columns(columns) = self.ahead {
                    kernels::entropy_sums(s, row, shift, columns.step(i - 1, steps, spacing))
                } else {
                    kernels::entropy_sums(s, row, shift, self.lines_of(i))
                };
                (self.scan.exponentials[i - 1], self.scan.weighted[i - 1]) = sums;
            }
        }
        Ok(())
    }

    /// What to fetch while row `i` or the one before it is read: the row after it, and one further on.
    #[inline(always)]
    fn lines_of(&self, i: usize) -> RowLines {
        let own = self.rows[0].as_ptr().cast();
        let next = self.row_ahead(i + 1).unwrap_or(own);
        if size_of_val(self.rows[0]) > LONGEST_AHEAD {
            return RowLines { next: own, later: next };
        }
        RowLines { next, later: self.row_ahead(i + ROWS_AHEAD).unwrap_or(own) }
    }

    /// A row of this tile or, beyond its end, of what will be read after it, as far as that is known.
    #[inline(always)]
    fn row_ahead(&self, i: usize) -> Option<*const u8> {
        if i < self.count {
            return Some(self.rows[i].as_ptr().cast());
        }
        self.ahead.after((i - self.count) * size_of_val(self.rows[0]))
    }

    /// Takes [`entropy`](super::entropy) of each row, which was scanned with its sums.
    #[inline(always)]
    pub(crate) fn take_entropies(&mut self) {
        let TileScan { max, second, exponentials, weighted, .. } = &*self.scan;
        let gap = each_lane!([0.0; TILE], |i| max[i].to_f64() - second[i].to_f64());
        self.scan.entropies = entropies::<F, TILE>(&gap, &EntropySums::new(exponentials, weighted, &gap));
    }

    /// Draws U of each row.
    #[inline(always)]
    pub(crate) fn draw(&mut self, randomness: &Randomness<'_>) -> Result<(), Error> {
        let words = self.words();
        randomness.score_uniforms(self.first, self.count, &words, &mut self.scan.u)
    }

    /// [`Scan::words`] of each row.
    #[inline(always)]
    pub(crate) fn words(&self) -> [[u64; TILE]; 2] {
        [
            each_lane!([0; TILE], |i| self.scan.max[i].wide_pattern()),
            each_lane!([0; TILE], |i| u64::from(self.scan.bits[i])),
        ]
    }

    /// What was found of one row.
    #[inline(always)]
    pub(crate) fn row_scan(&self, i: usize) -> Scan<F> {
        Scan { max: self.scan.max[i], second: self.scan.second[i], bits: self.scan.bits[i] }
    }
}
