//! Where does a label stand in its row: its rank, the logit ranked next, and the logits ranked before it?

use crate::kernels::{self, FEW_BEFORE, Float, RanksFound, TILE, TileLabels, TileScan, lanes_of};
use crate::math::WIDTH;
use crate::rows::{Scan, Tile};
use crate::simd::{Simd, vectorize};

/// Where a label stands in its row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<F> {
    /// Its logit; finite.
    pub(crate) logit: F,
    /// 1-based.
    pub(crate) rank: usize,
    /// The logit ranked next after it, `-inf` when no possible label is.
    pub(crate) next: F,
}

impl<F: Float> Place<F> {
    /// The place of the top label, whichever that is.
    #[inline(always)]
    pub(crate) fn of_top(scan: &Scan<F>) -> Self {
        Self { logit: scan.max, rank: 1, next: scan.second }
    }
}

/// Rank of a label by counting: no sort. Equal logits rank by lower label first.
#[inline(always)]
pub(crate) fn place<S: Simd, F: Float>(s: S, row: &[F], label: usize) -> Place<F> {
    let logit = row[label];
    let (lower, next_lower) = kernels::count_before::<true, S, F>(s, &row[..label], logit);
    let (higher, next_higher) = kernels::count_before::<false, S, F>(s, &row[label + 1..], logit);
    Place { logit, rank: 1 + lower + higher, next: next_lower.larger(next_higher) }
}

/// [`place`] of a label of a row that was scanned. The scan says all of a label that has the maximum for
/// itself.
#[inline(always)]
pub(crate) fn place_in<S: Simd, F: Float>(s: S, row: &[F], label: usize, scan: &Scan<F>) -> Place<F> {
    let logit = row[label];
    if logit == scan.max && scan.second < scan.max {
        return Place::of_top(scan);
    }
    place(s, row, label)
}

/// [`place_in`], and puts the logits that rank before the label, if they are few, into `before`; `-inf` fills
/// it up.
#[inline(always)]
pub(crate) fn place_and_before<S: Simd, F: Float>(
    s: S,
    row: &[F],
    label: usize,
    scan: &Scan<F>,
    before: &mut [F; FEW_BEFORE],
) -> Place<F> {
    let place = place_in(s, row, label, scan);
    vectorize!(s, collect_before(row, label, place.rank, before));
    place
}

#[inline(always)]
fn collect_before<F: Float>(row: &[F], label: usize, rank: usize, found: &mut [F; FEW_BEFORE]) {
    *found = [F::NEG_INFINITY; FEW_BEFORE];
    if rank - 1 > FEW_BEFORE {
        return;
    }
    let (y, mut count) = (row[label], 0);
    let (parts, last) = row.as_chunks::<WIDTH>();
    for (start, part) in (0..).step_by(WIDTH).zip(parts) {
        // Few parts have one. A comparison of vectors passes over the others.
        let mut any = false;
        for lane in 0..WIDTH {
            any |= part[lane] >= y;
        }
        if any {
            count = append_before(part, start, y, label, count, found);
            if count + 1 >= rank {
                return;
            }
        }
    }
    append_before(last, parts.len() * WIDTH, y, label, count, found);
}

/// Appends the logits of a part of a row, from label `start` on, that rank before the label. Returns their
/// new count.
#[inline(always)]
fn append_before<F: Float>(
    part: &[F],
    start: usize,
    y: F,
    label: usize,
    mut count: usize,
    found: &mut [F; FEW_BEFORE],
) -> usize {
    for (k, &z) in (start..).zip(part) {
        // No more than there is room for, even if another thread writes to the row meanwhile.
        if count < FEW_BEFORE && (z > y || (z == y && k < label)) {
            found[count] = z;
            count += 1;
        }
    }
    count
}

/// [`Place`] of each row's label.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct TilePlaces<F> {
    pub(crate) label: [usize; TILE],
    pub(crate) logit: [F; TILE],
    pub(crate) rank: [usize; TILE],
    pub(crate) next: [F; TILE],
    /// The logits of the labels before it, where places were found row by row and these are few.
    pub(crate) before: Vec<[F; FEW_BEFORE]>,
    /// Whether another label may have a label's logit.
    pub(crate) has_ties: bool,
    /// Whether places were found row by row. Rows with a bit in `others` have a label that is not the only
    /// one at the top.
    pub(crate) by_row: bool,
    pub(crate) others: u32,
}

/// With fewer labels than this all labels are placed across rows.
const LABELS_BY_ROW: usize = 33;
/// With more rows than this, of those whose label is not the only one at the top, they are placed across
/// rows, too.
const ROWS_BY_ROW: u32 = 12;

impl<F: Float> TilePlaces<F> {
    /// The labels and their logits.
    #[inline(always)]
    pub(crate) fn labels(&self) -> TileLabels<'_, F> {
        TileLabels { label: &self.label, logit: &self.logit }
    }

    /// Reads the logits of labels. It comes first of all work on a tile: vectors that load them later wait
    /// until they have reached the cache.
    #[inline(always)]
    pub(crate) fn read(&mut self, rows: &[&[F]; TILE], label: &[usize; TILE]) {
        for i in 0..TILE {
            self.logit[i] = rows[i][label[i]];
        }
        self.label = *label;
    }

    /// Finds the [`place`] of each row's label, which was read.
    #[inline(always)]
    pub(crate) fn find<S: Simd>(&mut self, s: S, tile: &Tile<'_, F>) {
        self.has_ties = true;
        // In most data most labels are the only ones at the top, and nothing is to be counted.
        let others = !kernels::are_top(s, &self.logit, tile.scan) & (u32::MAX >> (TILE - tile.count));
        self.by_row = match tile.columns() {
            Some(columns) => columns.len() >= LABELS_BY_ROW && others.count_ones() <= ROWS_BY_ROW,
            None => true,
        };
        if let (Some(columns), false) = (tile.columns(), self.by_row) {
            let labels = TileLabels { label: &self.label, logit: &self.logit };
            self.has_ties = kernels::rank_columns(s, columns, &labels, &mut self.rank, &mut self.next);
            return;
        }
        (self.rank, self.next) = ([1; TILE], tile.scan.second);
        self.before.resize(TILE, [F::NEG_INFINITY; FEW_BEFORE]);
        self.others = others;
        let Self { label, rank, next, before, .. } = self;
        let found = RanksFound { rank, next, before };
        let left = kernels::rank_few(s, tile.rows, label, others, found);
        for i in lanes_of(left) {
            let place = place_and_before(s, tile.rows[i], label[i], &tile.row_scan(i), &mut before[i]);
            (rank[i], next[i]) = (place.rank, place.next);
        }
    }

    /// The places of the top labels, whichever these are.
    #[inline(always)]
    pub(crate) fn of_top(scan: &TileScan<F>) -> Self {
        Self { logit: scan.max, rank: [1; TILE], next: scan.second, ..Self::default() }
    }
}
