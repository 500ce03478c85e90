//! What are sets and p-values where labels have thresholds of their own? This gives coverage for each label
//! or cluster.
//!
//! ```text
//! score all labels of the row by each scoring in use
//! for each cell with several candidates, and each of these:
//!     count the row's pairs (the labels of the cell) up to lo and up to hi; sort the scores between
//! each label selects a candidate of its cell by the rule of `modsel.rs`
//! a label is in if its score by the selected candidate is at most that candidate's hi
//! ```
//!
//! Each label is in one cell; a cell holds one label, or several that are calibrated together. It has one
//! candidate with a threshold, or several candidates. `lo`, `hi` and the rank are those of the cell's rows;
//! counts are of pairs of any row and a label of the cell. Given the rows of other cells, the choice is a
//! symmetric function of the cell's rows and the new row, so coverage within the cell is exact. Labels with
//! too few rows may share a cell that calibrates with all rows and counts all labels.
//!
//! A label's rank may be limited (Shi et al. 2024): beyond that rank its score is infinite.

use super::modsel::ROOM;
use super::pvalue::{p_value, smoothed_p_value};
use super::survivors::{Survivor, Survivors};
use crate::error::Error;
use crate::kernels::Float;
use crate::math::Randomness;
use crate::rows::{Rows, Tile};
use crate::run::{Plan, Planes, Reads, Scratch, Size, TileWork, fill_tiles, for_tiles, list_bytes, reserve};
use crate::score::{Candidates, RowView, Scale, Scoring, SortedRow, TileView, check_length};
use crate::sets::{SetBlock, Sets};
use crate::simd::Simd;

/// The calibration of some labels, or of some rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// One candidate with its threshold `hi`, or those among which each label selects.
    pub candidates: Survivors,
    /// Whether selection counts pairs of all labels, instead of the cell's labels.
    pub counts_all: bool,
    /// The sorted calibration scores of each candidate; none if they were not kept.
    pub scores: Vec<Vec<f64>>,
}

/// Which cell each label is in.
#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    pub(crate) cell_of: Vec<u32>,
    /// The largest rank with a finite score, for each label.
    pub(crate) most_ranks: Option<Vec<u32>>,
    /// The scorings in use, each once.
    scorings: Vec<Scoring>,
    /// The scoring of each candidate of each cell.
    used: Vec<Vec<usize>>,
    /// The labels of each cell.
    members: Vec<Vec<u32>>,
    /// Where the tallies of each cell begin: see [`CellVote::tally`].
    starts: Vec<usize>,
}

impl Partition {
    /// The partition of labels that `cell_of` gives.
    ///
    /// # Errors
    /// When a label has no cell, or not each label has a largest rank.
    pub fn new(cells: &[Cell], cell_of: Vec<u32>, most_ranks: Option<Vec<u32>>) -> Result<Self, Error> {
        let mut members = vec![Vec::new(); cells.len()];
        for (label, &cell) in cell_of.iter().enumerate() {
            let Some(members) = members.get_mut(cell as usize) else {
                return Err(Error::argument("cell_of", "the number of a cell for each label", cell));
            };
            members.push(label as u32);
        }
        if let Some(ranks) = &most_ranks
            && ranks.len() != cell_of.len()
        {
            return Err(Error::Length { name: "most_ranks", found: ranks.len(), expected: cell_of.len() });
        }
        let mut scorings: Vec<Scoring> = Vec::new();
        let (mut used, mut starts, mut n_tallies) = (Vec::new(), Vec::new(), 0);
        for (cell, members) in cells.iter().zip(&members) {
            starts.push(n_tallies);
            n_tallies += if has_tallies(cell, members) { cell.candidates.len() } else { 0 };
            let mut indices = Vec::with_capacity(cell.candidates.len());
            for candidate in cell.candidates.iter() {
                let known = scorings.iter().position(|scoring| *scoring == candidate.scoring);
                indices.push(known.unwrap_or(scorings.len()));
                if known.is_none() {
                    scorings.push(candidate.scoring);
                }
            }
            used.push(indices);
        }
        Ok(Self { cell_of, most_ranks, scorings, used, members, starts })
    }

    /// Refuses rows with another number of labels, and cells other than those the partition was made of.
    fn check(&self, cells: &[Cell], n_labels: usize) -> Result<(), Error> {
        let expected = self.cell_of.len();
        if n_labels != expected {
            return Err(Error::Labels { found: n_labels, expected });
        }
        let is_own = |(cell, used): (&Cell, &Vec<usize>)| {
            let scorings = used.iter().map(|&i| self.scorings[i]);
            cell.candidates.iter().map(|candidate| candidate.scoring).eq(scorings)
        };
        if cells.len() != self.used.len() || !cells.iter().zip(&self.used).all(is_own) {
            return Err(Error::argument("partition", "made of these cells", "one of others"));
        }
        Ok(())
    }

    /// All scorings in use: a row is read for these.
    pub(crate) fn candidates(&self) -> Candidates<'_> {
        Candidates::apart(&self.scorings)
    }
}

/// Whether labels of a cell have something to select.
fn has_tallies(cell: &Cell, members: &[u32]) -> bool {
    cell.candidates.len() > 1 && !members.is_empty()
}

/// The counts of one candidate of a cell, for one row.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    /// Pairs up to `lo` and up to `hi`, of calibration and of the row, weighted.
    at_lo: u128,
    at_hi: u128,
    /// Whether some label may select it.
    is_alive: bool,
    /// The row's pairs up to `lo`.
    own: u64,
    /// The range of the row's scores between `lo` and `hi` in [`CellVote::between`], sorted.
    between: (usize, usize),
}

/// What was found for a label.
#[derive(Clone, Copy, Debug)]
struct Verdict {
    label: u32,
    cell: usize,
    /// The candidate of the cell that the label selects, and the label's score by it.
    winner: usize,
    score: f64,
    is_in: bool,
}

/// Working space for one row at a time.
#[derive(Debug, Default)]
pub(crate) struct CellVote<F: Float> {
    sorted: SortedRow<F>,
    /// The scores of all labels, by each scoring.
    table: Vec<f64>,
    /// One for each candidate of each cell that has several.
    tallies: Vec<Tally>,
    /// The row's scores between `lo` and `hi` of each candidate.
    between: Vec<f64>,
}

impl<F: Float> Scratch for CellVote<F> {
    fn bytes(&self) -> usize {
        let scores = list_bytes(&self.table) + list_bytes(&self.between);
        self.sorted.bytes() + scores + list_bytes(&self.tallies)
    }
}

impl<F: Float> CellVote<F> {
    /// Makes room for rows of these cells.
    pub(crate) fn reserve(&mut self, cells: &[Cell], partition: &Partition) -> Result<(), Error> {
        let k = partition.cell_of.len();
        self.sorted.reserve(k)?;
        self.table.clear();
        self.tallies.clear();
        let n_candidates: usize = cells.iter().map(|cell| cell.candidates.len()).sum();
        self.between.clear();
        reserve(&mut self.table, k.saturating_mul(partition.scorings.len()))?;
        reserve(&mut self.tallies, n_candidates)?;
        reserve(&mut self.between, ROOM.min(k.saturating_mul(n_candidates)))
    }

    /// The most probable label of the row.
    pub(crate) fn top_label(&self) -> Option<u32> {
        self.sorted.labels.first().copied()
    }

    /// Calls `each` with the labels of the row's set, by rank. Allocates nothing once there is room.
    #[inline(always)]
    pub(crate) fn set<S: Simd>(
        &mut self,
        s: S,
        view: &RowView<'_, F>,
        cells: &[Cell],
        partition: &Partition,
        mut each: impl FnMut(u32),
    ) {
        self.row(s, view, cells, partition, |verdict| {
            if verdict.is_in {
                each(verdict.label);
            }
        });
    }

    /// Calls `each` with the verdict on each label, by rank.
    #[inline(always)]
    fn row<S: Simd>(
        &mut self,
        s: S,
        view: &RowView<'_, F>,
        cells: &[Cell],
        partition: &Partition,
        mut each: impl FnMut(Verdict),
    ) {
        let k = view.row.len();
        let most_ranks = partition.most_ranks.as_deref();
        self.sorted.sort(view.row);
        self.table.resize(k * partition.scorings.len(), 0.0);
        for (scoring, scores) in partition.scorings.iter().zip(self.table.chunks_exact_mut(k)) {
            let mut rank = 0;
            view.sorted_scores(s, &mut self.sorted, scoring, Scale::Ranked, |label, score| {
                rank += 1;
                let is_beyond = most_ranks.is_some_and(|most| rank > most[label as usize]);
                scores[label as usize] = if is_beyond { f64::INFINITY } else { score };
            });
        }
        self.tally(cells, partition, k);
        for i in 0..k {
            let label = self.sorted.labels[i];
            let cell = partition.cell_of[label as usize] as usize;
            let (candidates, used) = (&cells[cell].candidates, &partition.used[cell]);
            let score = |j: usize| self.table[used[j] * k + label as usize];
            let winner =
                if candidates.len() == 1 { 0 } else { self.selected(cells, partition, cell, label, k) };
            let (score, hi) = (score(winner), candidates[winner].hi);
            each(Verdict { label, cell, winner, score, is_in: score <= hi });
        }
    }

    /// Counts the row's pairs at `lo` and `hi`, for each candidate of cells that have several.
    fn tally(&mut self, cells: &[Cell], partition: &Partition, k: usize) {
        self.tallies.clear();
        self.between.clear();
        for ((cell, used), members) in cells.iter().zip(&partition.used).zip(&partition.members) {
            let first = self.tallies.len();
            if !has_tallies(cell, members) {
                continue;
            }
            let mut smallest = u128::MAX;
            for (candidate, &s) in cell.candidates.iter().zip(used) {
                let scores = &self.table[s * k..][..k];
                let (start, mut own) = (self.between.len(), 0);
                let mut count = |score: f64| {
                    own += u64::from(score <= candidate.lo);
                    if candidate.lo < score && score <= candidate.hi {
                        self.between.push(score);
                    }
                };
                if cell.counts_all {
                    for &score in scores {
                        count(score);
                    }
                } else {
                    for &label in members {
                        count(scores[label as usize]);
                    }
                }
                let end = self.between.len();
                self.between[start..end].sort_unstable_by(f64::total_cmp);
                let all = candidate.at_lo + candidate.between.len() as u64;
                let at_hi = candidate.weighted(all + own + (end - start) as u64);
                let at_lo = candidate.weighted(candidate.at_lo + own);
                smallest = smallest.min(at_hi);
                self.tallies.push(Tally { at_lo, at_hi, is_alive: false, own, between: (start, end) });
            }
            for tally in &mut self.tallies[first..] {
                tally.is_alive = tally.at_lo <= smallest;
            }
        }
    }

    /// The candidate that a label selects: the first with the fewest pairs.
    fn selected(&self, cells: &[Cell], partition: &Partition, cell: usize, label: u32, k: usize) -> usize {
        let candidates = &cells[cell].candidates;
        let tallies = &self.tallies[partition.starts[cell]..][..candidates.len()];
        let pairs = |&(j, (candidate, tally)): &(usize, (&Survivor, &Tally))| {
            let score = self.table[partition.used[cell][j] * k + label as usize];
            if score <= candidate.lo {
                tally.at_lo
            } else if score > candidate.hi {
                tally.at_hi
            } else {
                let between = &self.between[tally.between.0..tally.between.1];
                let own = tally.own + between.partition_point(|&s| s <= score) as u64;
                candidate.weighted(candidate.pairs(score) + own)
            }
        };
        let alive = candidates.iter().zip(tallies).enumerate().filter(|(_, (_, tally))| tally.is_alive);
        alive.min_by_key(pairs).map_or(0, |(j, _)| j)
    }
}

/// The prediction sets of rows, by the cells of their labels; labels by falling probability. With
/// `allow_empty` false, a set that would be empty holds the top label.
///
/// # Errors
/// For a row that is not one of logits, or U outside `[0, 1]`.
pub fn predict_cell_sets<F: Float, R: Rows<F>>(
    rows: &R,
    cells: &[Cell],
    partition: &Partition,
    allow_empty: bool,
    randomness: &Randomness<'_>,
    plan: &Plan<'_>,
) -> Result<Sets, Error> {
    randomness.check(rows.n_rows())?;
    partition.check(cells, rows.n_labels())?;
    let size = Size::new(rows.n_rows(), rows.n_labels(), 8 * partition.scorings.len());
    let work = CellSets { cells, partition, allow_empty, randomness };
    Sets::of_blocks(rows.n_rows(), size, plan, |range, sets| for_tiles(rows, range, &work, sets))
}

struct CellSets<'c> {
    cells: &'c [Cell],
    partition: &'c Partition,
    allow_empty: bool,
    randomness: &'c Randomness<'c>,
}

impl<F: Float> TileWork<F> for CellSets<'_> {
    type Scratch = CellVote<F>;
    type Out<'a> = SetBlock<'a>;

    fn reads(&self) -> Option<Reads> {
        Some(Reads { entropy: self.partition.candidates().entropy, sums: false })
    }

    fn begin(&self, _n_labels: usize, vote: &mut CellVote<F>) -> Result<(), Error> {
        vote.reserve(self.cells, self.partition)
    }

    #[inline(always)]
    fn tile<S: Simd>(
        &self,
        s: S,
        tile: &mut Tile<'_, F>,
        vote: &mut CellVote<F>,
        sets: &mut SetBlock<'_>,
    ) -> Result<(), Error> {
        let Self { cells, partition, allow_empty, randomness } = self;
        let candidates = partition.candidates();
        let view = TileView::of(tile, &candidates, randomness)?;
        let tile = view.tile;
        for i in 0..tile.count {
            vote.set(s, &view.row(i, &candidates), cells, partition, |label| sets.push(label));
            sets.end_row(if *allow_empty { None } else { vote.top_label() })?;
        }
        Ok(())
    }
}

/// Conformal p-values of all labels within their cells, `out` as rows of K. Plain ones are `(1 + #{S_i >=
/// S(x, y)}) / (n + 1)`, over the n scores of the candidate that the label selects. Smoothed ones need one
/// candidate in each cell.
///
/// # Errors
/// As [`predict_cell_sets`], or when the cells do not hold their scores.
pub fn cell_p_values<F: Float, R: Rows<F>>(
    rows: &R,
    cells: &[Cell],
    partition: &Partition,
    smoothed: bool,
    randomness: &Randomness<'_>,
    plan: &Plan<'_>,
    out: &mut [f64],
) -> Result<(), Error> {
    let (n, k) = (rows.n_rows(), rows.n_labels());
    randomness.check(n)?;
    partition.check(cells, k)?;
    check_length("out", out.len(), n * k)?;
    for cell in cells {
        if cell.scores.len() != cell.candidates.len() {
            return Err(Error::argument("score_table", "saved with the predictor, for p-values", "none"));
        }
        if smoothed && cell.candidates.len() > 1 {
            return Err(Error::argument("smoothed", "false with several candidates in use", true));
        }
    }
    let work = CellPValues { cells, partition, smoothed, randomness };
    fill_tiles::<f64, F, _>(rows, &work, k, 8 * partition.scorings.len(), plan, out)
}

struct CellPValues<'c> {
    cells: &'c [Cell],
    partition: &'c Partition,
    smoothed: bool,
    randomness: &'c Randomness<'c>,
}

impl<F: Float> TileWork<F> for CellPValues<'_> {
    type Scratch = CellVote<F>;
    type Out<'a> = Planes<'a, f64>;

    fn reads(&self) -> Option<Reads> {
        Some(Reads { entropy: self.partition.candidates().entropy, sums: false })
    }

    fn begin(&self, _n_labels: usize, vote: &mut CellVote<F>) -> Result<(), Error> {
        vote.reserve(self.cells, self.partition)
    }

    #[inline(always)]
    fn tile<S: Simd>(
        &self,
        s: S,
        tile: &mut Tile<'_, F>,
        vote: &mut CellVote<F>,
        out: &mut Planes<'_, f64>,
    ) -> Result<(), Error> {
        let Self { cells, partition, smoothed, randomness } = self;
        let (k, candidates) = (tile.n_labels(), partition.candidates());
        let view = TileView::of(tile, &candidates, randomness)?;
        let tile = view.tile;
        let out = &mut out.only()[tile.at * k..][..tile.count * k];
        for (i, out) in out.chunks_exact_mut(k).enumerate() {
            let row = view.row(i, &candidates);
            let v =
                if *smoothed { randomness.p_value_uniform(tile.first + i, row.scan.words()) } else { 0.0 };
            vote.row(s, &row, cells, partition, |Verdict { label, cell, winner, score, .. }| {
                let sorted = &cells[cell].scores[winner];
                out[label as usize] =
                    if *smoothed { smoothed_p_value(sorted, score, v) } else { p_value(sorted, score) };
            });
        }
        Ok(())
    }
}
