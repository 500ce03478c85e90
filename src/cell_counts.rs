//! How many pairs of any row and a label of a cell have scores up to a threshold: what candidates are selected
//! by within a label or a cluster.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::batch::groups;
use crate::candidates::Candidates;
use crate::cells::CellVote;
use crate::counts::Bracket;
use crate::error::Error;
use crate::float::Float;
use crate::kernel::View;
use crate::rows::{GROUP, Rows};
use crate::scoring::{Scale, Scoring};
use crate::simd::instances;
use crate::spare::Space;
use crate::threads::{Plan, Size, map_blocks};
use crate::uniform::Randomness;

/// What the pairs of any row and a label of one cell add up to, for a candidate at a bracket.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CellCounts {
    /// Pairs with scores up to `lo`.
    pub at_lo: u64,
    /// Pairs with scores up to `hi`.
    pub at_hi: u64,
    /// The scores above `lo` and up to `hi`, sorted, if they were asked for.
    pub between: Vec<f64>,
}

/// How labels are parted while their pairs are counted.
#[derive(Clone, Copy, Debug)]
pub struct Parting<'a> {
    /// The cell of each label; beyond `n_cells`, none.
    pub cell_of: &'a [u32],
    /// Number of cells.
    pub n_cells: usize,
    /// The largest rank with a finite score, for each label.
    pub most_ranks: Option<&'a [u32]>,
}

/// Counts for each candidate, cell and level, `brackets` and result in this order: levels run fastest.
///
/// # Errors
/// For a row that is not one of logits, U outside `[0, 1]`, or a bracket that is not one.
pub fn count_cell_pairs<F: Float, R: Rows<F>>(
    rows: &R,
    candidates: &[Scoring],
    parting: &Parting<'_>,
    brackets: &[Bracket],
    keep: bool,
    randomness: &Randomness<'_>,
    plan: &Plan<'_>,
) -> Result<Vec<CellCounts>, Error> {
    randomness.check(rows.n_rows())?;
    let slots = candidates.len() * parting.n_cells;
    if slots == 0 || brackets.is_empty() || !brackets.len().is_multiple_of(slots) {
        return Err(Error::argument("brackets", "as many for each candidate and cell", brackets.len()));
    }
    let lengths =
        [("cell_of", Some(parting.cell_of.len())), ("most_ranks", parting.most_ranks.map(<[_]>::len))];
    for (name, found) in lengths {
        if let Some(found) = found
            && found != rows.n_labels()
        {
            return Err(Error::Length { name, found, expected: rows.n_labels() });
        }
    }
    if let Some(bad) = brackets.iter().find(|b| b.lo > b.hi || b.lo.is_nan() || b.hi.is_nan()) {
        return Err(Error::argument("brackets", "pairs lo <= hi", format!("{} and {}", bad.lo, bad.hi)));
    }
    let totals = Mutex::new(vec![CellCounts::default(); brackets.len()]);
    map_blocks(Size::new(rows.n_rows(), rows.n_labels(), 8 * candidates.len()), plan, |range| {
        let block = count_block::<F, R>(rows, candidates, parting, brackets, keep, randomness, range)?;
        let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
        for (total, part) in totals.iter_mut().zip(block) {
            total.at_lo += part.at_lo;
            total.at_hi += part.at_hi;
            total.between.extend(part.between);
        }
        Ok(())
    })?;
    let mut totals = totals.into_inner().unwrap_or_else(PoisonError::into_inner);
    for total in &mut totals {
        total.between.sort_unstable_by(f64::total_cmp);
    }
    Ok(totals)
}

instances! {
    fn count_block<F: Float, R: Rows<F>>(rows: &R, candidates: &[Scoring], parting: &Parting<'_>, brackets: &[Bracket], keep: bool, randomness: &Randomness<'_>, range: Range<usize>) -> Result<Vec<CellCounts>, Error> = count_rows::<F, R>;
}

#[inline(always)]
fn count_rows<F: Float, R: Rows<F>>(
    rows: &R,
    candidates: &[Scoring],
    parting: &Parting<'_>,
    brackets: &[Bracket],
    keep: bool,
    randomness: &Randomness<'_>,
    range: Range<usize>,
) -> Result<Vec<CellCounts>, Error> {
    let &Parting { cell_of, n_cells, most_ranks } = parting;
    let levels = brackets.len() / (candidates.len() * n_cells);
    let listed = Candidates::apart(candidates);
    let mut counts = vec![CellCounts::default(); brackets.len()];
    let (mut space, done) = (Space::<F>::taken(), range.len());
    let Space { lent: scratch, cell_vote: CellVote { workspace, .. }, .. } = &mut *space;
    for (first, count) in groups(rows, range) {
        let mut group: [&[F]; GROUP] = [&[]; GROUP];
        rows.group(first, count, scratch, &mut group)?;
        for (i, row) in (first..).zip(&group[..count]) {
            let view = View::of(row, i, rows.position(i), &listed, randomness)?;
            view.sort(workspace);
            for (m, candidate) in candidates.iter().enumerate() {
                let mut rank = 0;
                view.sorted_scores(workspace, candidate, Scale::Ranked, |label, score| {
                    rank += 1;
                    let cell = cell_of[label as usize] as usize;
                    if cell >= n_cells {
                        return;
                    }
                    let is_beyond = most_ranks.is_some_and(|most| rank > most[label as usize]);
                    let score = if is_beyond { f64::INFINITY } else { score };
                    let first = (m * n_cells + cell) * levels;
                    for slot in first..first + levels {
                        let (Bracket { lo, hi }, counts) = (brackets[slot], &mut counts[slot]);
                        counts.at_lo += u64::from(score <= lo);
                        counts.at_hi += u64::from(score <= hi);
                        if keep && lo < score && score <= hi {
                            counts.between.push(score);
                        }
                    }
                });
            }
        }
    }
    space.keep(rows, done);
    Ok(counts)
}
