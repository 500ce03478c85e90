//! How many pairs of any row and a label of a cell have scores up to a threshold? These counts select
//! candidates within a label or a cluster.

use super::pairs::{Bracket, PairCounts, check_brackets, count_tiles};
use crate::error::Error;
use crate::kernels::Float;
use crate::math::Randomness;
use crate::rows::{Rows, Tile};
use crate::run::{Plan, Reads, TileWork, push};
use crate::score::{Candidates, Scale, Scoring, SortedRow, TileView};
use crate::simd::Simd;

/// The counts of a candidate at a bracket, over pairs of any row and a label of one cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CellCounts {
    /// Pairs with scores up to `lo`.
    pub at_lo: u64,
    /// Pairs with scores up to `hi`.
    pub at_hi: u64,
    /// The scores above `lo` and up to `hi`, sorted, if they were asked for.
    pub between: Vec<f64>,
}

/// The cells of labels, for counting.
#[derive(Clone, Copy, Debug)]
pub struct Parting<'a> {
    /// The cell of each label; beyond `n_cells`, none.
    pub cell_of: &'a [u32],
    /// Number of cells.
    pub n_cells: usize,
    /// The largest rank with a finite score, for each label.
    pub most_ranks: Option<&'a [u32]>,
}

/// Counts the pairs of each candidate and cell, at each of their brackets. `brackets` and the result hold,
/// for each candidate in turn and for each cell in turn, as many brackets.
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
    check_brackets(brackets, slots, "as many for each candidate and cell")?;
    let lengths =
        [("cell_of", Some(parting.cell_of.len())), ("most_ranks", parting.most_ranks.map(<[_]>::len))];
    for (name, found) in lengths {
        if let Some(found) = found
            && found != rows.n_labels()
        {
            return Err(Error::Length { name, found, expected: rows.n_labels() });
        }
    }
    let work = CellPairs { candidates: Candidates::apart(candidates), parting, brackets, keep, randomness };
    let counts = count_tiles(rows, &work, brackets.len(), 8 * candidates.len(), plan)?;
    let of_cell = |PairCounts { at_lo, at_hi, between, .. }| CellCounts { at_lo, at_hi, between };
    Ok(counts.into_iter().map(of_cell).collect())
}

struct CellPairs<'c> {
    candidates: Candidates<'c>,
    parting: &'c Parting<'c>,
    brackets: &'c [Bracket],
    keep: bool,
    randomness: &'c Randomness<'c>,
}

impl<F: Float> TileWork<F> for CellPairs<'_> {
    type Scratch = SortedRow<F>;
    type Out<'a> = Vec<PairCounts>;

    fn reads(&self) -> Option<Reads> {
        Some(Reads { entropy: self.candidates.entropy, sums: false })
    }

    fn begin(&self, n_labels: usize, sorted: &mut SortedRow<F>) -> Result<(), Error> {
        sorted.reserve(n_labels)
    }

    #[inline(always)]
    fn tile<S: Simd>(
        &self,
        s: S,
        tile: &mut Tile<'_, F>,
        sorted: &mut SortedRow<F>,
        counts: &mut Vec<PairCounts>,
    ) -> Result<(), Error> {
        let &Parting { cell_of, n_cells, most_ranks } = self.parting;
        let levels = self.brackets.len() / (self.candidates.list.len() * n_cells);
        let view = TileView::of(tile, &self.candidates, self.randomness)?;
        let tile = view.tile;
        for i in 0..tile.count {
            let row = view.row(i, &self.candidates);
            sorted.sort(row.row);
            let mut kept = Ok(());
            for (m, candidate) in self.candidates.list.iter().enumerate() {
                let mut rank = 0;
                row.sorted_scores(s, sorted, candidate, Scale::Ranked, |label, score| {
                    rank += 1;
                    let cell = cell_of[label as usize] as usize;
                    if cell >= n_cells {
                        return;
                    }
                    let is_beyond = most_ranks.is_some_and(|most| rank > most[label as usize]);
                    let score = if is_beyond { f64::INFINITY } else { score };
                    let first = (m * n_cells + cell) * levels;
                    for slot in first..first + levels {
                        let (Bracket { lo, hi }, counts) = (self.brackets[slot], &mut counts[slot]);
                        counts.at_lo += u64::from(score <= lo);
                        counts.at_hi += u64::from(score <= hi);
                        if self.keep && lo < score && score <= hi && kept.is_ok() {
                            kept = push(&mut counts.between, score);
                        }
                    }
                });
            }
            kept?;
        }
        Ok(())
    }
}
