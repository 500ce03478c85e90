//! How many pairs of a row and a label have scores up to a threshold: what candidates are selected by.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::batch::groups;
use crate::candidates::{Candidates, sharing_order};
use crate::cut::{Cut, Standing};
use crate::error::Error;
use crate::float::Float;
use crate::group::Group;
use crate::kernel::Views;
use crate::lane_cut::LaneCut;
use crate::rows::{GROUP, Rows};
use crate::scoring::Scoring;
use crate::selected::Vote;
use crate::simd::instances;
use crate::spare::Space;
use crate::threads::{Plan, Size, map_blocks};
use crate::uniform::Randomness;

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

/// Counts for each candidate at each of its brackets. `brackets` holds one run for each candidate, all
/// equally long; so does the result. With `keep`, the scores between are kept.
///
/// One reading of the rows, whatever the number of candidates; those that share a reweighting and a
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
    if m == 0 || brackets.is_empty() || !brackets.len().is_multiple_of(m) {
        return Err(Error::argument("brackets", "as many for each candidate", brackets.len()));
    }
    if let Some(bad) = brackets.iter().find(|b| b.lo > b.hi || b.lo.is_nan() || b.hi.is_nan()) {
        return Err(Error::argument("brackets", "pairs lo <= hi", format!("{} and {}", bad.lo, bad.hi)));
    }
    let levels = brackets.len() / m;
    let mut order = Vec::new();
    sharing_order(candidates, &mut order);
    let listed = Candidates::ordered(candidates, &order);
    // Candidates that share their sums side by side; each cut knows where its counts belong.
    let cuts: Vec<SlotCut<'_>> = (listed.order.iter())
        .flat_map(|&c| (c * levels..(c + 1) * levels).map(move |slot| (c, slot)))
        .map(|(c, slot)| {
            let cut = Cut::new(&candidates[c], brackets[slot].lo, brackets[slot].hi, rows.n_labels());
            let is_only = brackets.len() == 1;
            let lanes = LaneCut::for_rows::<F>(&cut, rows.n_rows(), rows.n_labels(), is_only);
            SlotCut { slot, cut, lanes }
        })
        .collect();
    // Added up block by block, in any order: they are integers, and the scores between are sorted.
    let totals = Mutex::new(vec![PairCounts::default(); brackets.len()]);
    map_blocks(Size::new(rows.n_rows(), rows.n_labels(), 2 * cuts.len()), plan, |range| {
        let block = count_block::<F, R>(rows, &listed, &cuts, keep, randomness, range)?;
        let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
        totals.iter_mut().zip(block).for_each(|(total, part)| total.add(part));
        Ok(())
    })?;
    let mut totals = totals.into_inner().unwrap_or_else(PoisonError::into_inner);
    for total in &mut totals {
        total.between.sort_unstable_by(f64::total_cmp);
    }
    Ok(totals)
}

/// A cut, the same in lanes where it can be made in them, and where its counts belong.
struct SlotCut<'a> {
    slot: usize,
    cut: Cut<'a>,
    lanes: Option<LaneCut>,
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

    fn add(&mut self, part: Self) {
        self.at_lo += part.at_lo;
        self.at_hi += part.at_hi;
        self.singletons += part.singletons;
        self.empty += part.empty;
        self.between.extend(part.between);
    }
}

instances! {
    fn count_block<F: Float, R: Rows<F>>(rows: &R, candidates: &Candidates<'_>, cuts: &[SlotCut<'_>], keep: bool, randomness: &Randomness<'_>, range: Range<usize>) -> Result<Vec<PairCounts>, Error> = count_rows::<F, R>;
}

#[inline(always)]
fn count_rows<F: Float, R: Rows<F>>(
    rows: &R,
    candidates: &Candidates<'_>,
    cuts: &[SlotCut<'_>],
    keep: bool,
    randomness: &Randomness<'_>,
    range: Range<usize>,
) -> Result<Vec<PairCounts>, Error> {
    let mut counts = vec![PairCounts::default(); cuts.len()];
    let (mut space, done) = (Space::<F>::fetching(), range.len());
    let Space { lent: scratch, columns, vote: Vote { top, masses, .. }, order, .. } = &mut *space;
    let mut open = Vec::new();
    let mut views = Views::new(rows.n_labels());
    for (first, count) in groups(rows, range) {
        let ahead = rows.ahead(first + count);
        let mut lent: [&[F]; GROUP] = [&[]; GROUP];
        rows.group(first, count, scratch, &mut lent)?;
        let mut group = Group::new(&lent, count, ahead, columns).fetching(rows.columns_ahead(first));
        views.read(&mut group, candidates, randomness, first, |i| rows.position(first + i))?;
        // What lanes leave open of each cut, a bit for each row.
        open.clear();
        open.resize(cuts.len(), u32::MAX);
        if let Some(columns) = group.columns() {
            order.begin(columns.len());
            for (SlotCut { slot, cut, lanes }, open) in cuts.iter().zip(&mut open) {
                let Some(lanes) = lanes else { continue };
                let scale = views.sharpness(cut.scoring).scale;
                let ends = lanes.ends(&views.lanes(columns, &scale), order);
                *open = ends.open();
                for size in (0..count).filter_map(|i| ends.size(i)) {
                    counts[*slot].add_row(size as u64, size as u64);
                }
            }
        }
        let any_open = open.iter().fold(0, |any, open| any | open);
        for i in (0..count).filter(|i| any_open >> i & 1 == 1) {
            let row = group.rows[i];
            let view = views.view(i, row, candidates);
            // All cuts share one order, extended as far as the largest set needs.
            top.forget();
            masses.forget();
            for (SlotCut { slot, cut, .. }, open) in cuts.iter().zip(&open) {
                if open >> i & 1 == 0 {
                    continue;
                }
                masses.take(&view, cut.scoring);
                top.reach(row, view.scan.max, cut.floor(&view, masses));
                let counts = &mut counts[*slot];
                let (mut within, mut size) = (0, 0);
                cut.walk(&view, masses, top, |_, standing| {
                    size += 1;
                    match standing {
                        Standing::Within => within += 1,
                        Standing::Between(score) if keep => counts.between.push(score),
                        Standing::Between(_) => {}
                    }
                });
                counts.add_row(within, size);
            }
        }
    }
    space.keep(rows, done);
    Ok(counts)
}
