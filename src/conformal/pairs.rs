//! How many pairs of a row and a label have scores up to a threshold? These counts select candidates.
//!
//! ```text
//! for each tile of rows, and each cut (a candidate at a bracket):
//!     find where the sets of all rows end, in lanes, where labels are few
//! for each row that some cut leaves open, and each such cut:
//!     walk the labels of the row's set by rank, and count them
//! ```

use std::sync::{Mutex, PoisonError};

use crate::error::Error;
use crate::kernels::Float;
use crate::math::Randomness;
use crate::rows::{Rows, Tile};
use crate::run::{Plan, Reads, Size, TileWork, for_tiles, map_blocks, push, reserve};
use crate::score::{Candidates, Scoring, TileView, sharing_order};
use crate::sets::{Bounds, RowCutter, Standing, TileCut, TileOrder};
use crate::simd::Simd;

/// Two neighbouring calibration scores of a candidate, `lo <= hi`; equal for an ordinary threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bracket {
    /// The lower one, `-inf` below the first score.
    pub lo: f64,
    /// The conformal threshold.
    pub hi: f64,
}

/// What a candidate's sets at a bracket add up to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PairCounts {
    /// Pairs with scores up to `lo`.
    pub at_lo: u64,
    /// Pairs with scores up to `hi`: the sum of the set sizes.
    pub at_hi: u64,
    /// Rows whose set at `hi` has one label.
    pub singletons: u64,
    /// Rows whose set at `hi` is empty.
    pub empty: u64,
    /// The scores above `lo` and up to `hi`, sorted, if they were asked for.
    pub between: Vec<f64>,
}

/// Counts the pairs of each candidate at each of its brackets. `brackets` holds the brackets of the first
/// candidate, then those of the second, as many for each; the result has the same order. With `keep`, the
/// scores between are kept.
///
/// The rows are read once, whatever the number of candidates. Candidates with equal reweighting and
/// temperature share their sums.
///
/// # Errors
/// For a row that is not one of logits, U outside `[0, 1]`, or a bracket that is not one.
pub fn count_pairs<F: Float, R: Rows<F>>(
    rows: &R,
    candidates: &[Scoring],
    brackets: &[Bracket],
    keep: bool,
    randomness: &Randomness<'_>,
    plan: &Plan<'_>,
) -> Result<Vec<PairCounts>, Error> {
    randomness.check(rows.n_rows())?;
    let m = candidates.len();
    check_brackets(brackets, m, "as many for each candidate")?;
    let levels = brackets.len() / m;
    let mut order = Vec::new();
    sharing_order(candidates, &mut order);
    let is_only = brackets.len() == 1;
    // Candidates that share their sums stand side by side; each cut knows where its counts belong.
    let cuts: Vec<SlotCut> = (order.iter())
        .flat_map(|&c| (c * levels..(c + 1) * levels).map(move |slot| (c, slot)))
        .map(|(c, slot)| {
            let bounds = Bounds::new(&candidates[c], brackets[slot].lo, brackets[slot].hi);
            let tile_cut = TileCut::for_rows(&bounds, rows.n_rows(), rows.n_labels(), is_only);
            SlotCut { slot, bounds, tile_cut }
        })
        .collect();
    let passes = 2 * cuts.len();
    let work = Pairs { candidates: Candidates::ordered(candidates, &order), cuts, keep, randomness };
    count_tiles(rows, &work, brackets.len(), passes, plan)
}

/// Counts the pairs of all rows at each of so many brackets. Blocks are added up in any order: counts are
/// integers, and the scores between are sorted in the end.
pub(super) fn count_tiles<F: Float, R: Rows<F>, W: for<'a> TileWork<F, Out<'a> = Vec<PairCounts>>>(
    rows: &R,
    work: &W,
    n_brackets: usize,
    passes: usize,
    plan: &Plan<'_>,
) -> Result<Vec<PairCounts>, Error> {
    let totals = Mutex::new(vec![PairCounts::default(); n_brackets]);
    map_blocks(Size::new(rows.n_rows(), rows.n_labels(), passes), plan, |range| {
        let mut block = vec![PairCounts::default(); n_brackets];
        for_tiles(rows, range, work, &mut block)?;
        let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
        totals.iter_mut().zip(&block).try_for_each(|(total, part)| total.add(part))
    })?;
    let mut totals = totals.into_inner().unwrap_or_else(PoisonError::into_inner);
    for total in &mut totals {
        total.between.sort_unstable_by(f64::total_cmp);
    }
    Ok(totals)
}

/// Refuses brackets unless `lo <= hi` in each, and there are as many for each of `slots`.
pub(super) fn check_brackets(
    brackets: &[Bracket],
    slots: usize,
    expected: &'static str,
) -> Result<(), Error> {
    if slots == 0 || brackets.is_empty() || !brackets.len().is_multiple_of(slots) {
        return Err(Error::argument("brackets", expected, brackets.len()));
    }
    match brackets.iter().find(|b| b.lo > b.hi || b.lo.is_nan() || b.hi.is_nan()) {
        Some(Bracket { lo, hi }) => {
            Err(Error::argument("brackets", "pairs lo <= hi", format!("{lo} and {hi}")))
        }
        None => Ok(()),
    }
}

/// A candidate at a bracket.
struct SlotCut {
    /// Where its counts belong.
    slot: usize,
    bounds: Bounds,
    /// The cut of all rows of a tile, if it can be made in lanes.
    tile_cut: Option<TileCut>,
}

impl PairCounts {
    /// Adds a row with a set of `size` labels at `hi`, `within` of them up to `lo`.
    #[inline(always)]
    fn add_row(&mut self, within: u64, size: u64) {
        self.at_lo += within;
        self.at_hi += size;
        self.singletons += u64::from(size == 1);
        self.empty += u64::from(size == 0);
    }

    fn add(&mut self, part: &Self) -> Result<(), Error> {
        self.at_lo += part.at_lo;
        self.at_hi += part.at_hi;
        self.singletons += part.singletons;
        self.empty += part.empty;
        reserve(&mut self.between, part.between.len())?;
        self.between.extend_from_slice(&part.between);
        Ok(())
    }
}

struct Pairs<'c> {
    candidates: Candidates<'c>,
    cuts: Vec<SlotCut>,
    keep: bool,
    randomness: &'c Randomness<'c>,
}

impl<F: Float> TileWork<F> for Pairs<'_> {
    /// The list holds the rows that each cut leaves open, a bit for each.
    type Scratch = (RowCutter<F>, TileOrder<F>, Vec<u32>);
    type Out<'a> = Vec<PairCounts>;

    fn reads(&self) -> Option<Reads> {
        Some(Reads { entropy: self.candidates.entropy, sums: false })
    }

    fn begin(&self, n_labels: usize, (cutter, ..): &mut Self::Scratch) -> Result<(), Error> {
        cutter.reserve(n_labels)
    }

    #[inline(always)]
    fn tile<S: Simd>(
        &self,
        s: S,
        tile: &mut Tile<'_, F>,
        (cutter, order, open): &mut Self::Scratch,
        counts: &mut Vec<PairCounts>,
    ) -> Result<(), Error> {
        let Self { candidates, cuts, keep, randomness } = self;
        let view = TileView::of(tile, candidates, randomness)?;
        let tile = view.tile;
        open.clear();
        open.resize(cuts.len(), u32::MAX);
        if let Some(columns) = tile.columns() {
            order.begin(columns.len());
            for (SlotCut { slot, tile_cut, .. }, open) in cuts.iter().zip(&mut *open) {
                let Some(tile_cut) = tile_cut else { continue };
                let ends = tile_cut.ends(s, &view, columns, order);
                *open = ends.open();
                for size in (0..tile.count).filter_map(|i| ends.size(i)) {
                    counts[*slot].add_row(size as u64, size as u64);
                }
            }
        }
        let any_open = open.iter().fold(0, |any, open| any | open);
        for i in (0..tile.count).filter(|i| any_open >> i & 1 == 1) {
            let row = view.row(i, candidates);
            // All cuts share one order, extended as far as the largest set needs.
            cutter.begin_row();
            let open_cuts = cuts.iter().zip(&*open).filter(|(_, open)| *open >> i & 1 == 1);
            for (SlotCut { slot, bounds, .. }, _) in open_cuts {
                let counts = &mut counts[*slot];
                let mut kept = Ok(());
                let certain = cutter.begin_shared(s, &row, bounds) as u64;
                let (mut within, mut size) = (certain, certain);
                cutter.walk(s, &row, bounds, certain as usize, |_, _, standing| {
                    size += 1;
                    match standing {
                        Standing::Within => within += 1,
                        Standing::Between(score) if *keep && kept.is_ok() => {
                            kept = push(&mut counts.between, score);
                        }
                        Standing::Between(_) => {}
                    }
                });
                kept?;
                counts.add_row(within, size);
            }
        }
        Ok(())
    }
}
