//! Sets and p-values where labels have thresholds of their own: coverage given the label, or its cluster.
//!
//! Labels are parted into cells, one for each label or for labels that are calibrated together. A cell has
//! one candidate with its threshold, or several among which each of its labels selects: the rule of
//! `selected.rs` with the cell's rows for `lo`, `hi` and the rank, and with pairs of any row and a label of
//! the cell in the counts. Given the rows of other cells, the choice is a symmetric function of the cell's
//! rows and the new one, so coverage within the cell is exact. A cell that calibrates with all rows, for
//! labels that have too few of their own, counts all labels.
//!
//! A label's rank may be limited (Shi et al. 2024): beyond it the score is infinite.

use std::ops::Range;

use crate::batch::groups;
use crate::candidates::Candidates;
use crate::error::Error;
use crate::float::Float;
use crate::kernel::{View, Workspace};
use crate::pvalue::{p_value, smoothed_p_value};
use crate::rows::{GROUP, Rows};
use crate::scoring::{Scale, Scoring};
use crate::sets::{SetBlock, Sets};
use crate::simd::instances;
use crate::spare::{Space, bytes};
use crate::survivors::Survivors;
use crate::threads::{Plan, Size, fill};
use crate::uniform::Randomness;

/// What some labels or some rows are calibrated with.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// One candidate with its threshold `hi`, or those among which each label selects.
    pub candidates: Survivors,
    /// Whether selection counts the pairs of all labels, not of the cell's alone.
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
    /// For each cell its candidates' scorings, and its labels.
    used: Vec<Vec<usize>>,
    members: Vec<Vec<u32>>,
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
        let mut used = Vec::with_capacity(cells.len());
        for cell in cells {
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
        Ok(Self { cell_of, most_ranks, scorings, used, members })
    }

    /// Rows of so many labels.
    fn check(&self, n_labels: usize) -> Result<(), Error> {
        let expected = self.cell_of.len();
        if n_labels == expected { Ok(()) } else { Err(Error::Labels { found: n_labels, expected }) }
    }
}

/// What one candidate of a cell counts in a row, and whether a label may select it.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    at_lo: u64,
    at_hi: u64,
    is_alive: bool,
}

/// What a label gets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verdict {
    pub(crate) label: u32,
    /// Its cell, and the candidate of it that the label selects.
    pub(crate) cell: usize,
    pub(crate) winner: usize,
    pub(crate) score: f64,
    pub(crate) is_in: bool,
}

/// Buffers for the rows of one thread.
#[derive(Debug, Default)]
pub(crate) struct CellVote<F: Float> {
    pub(crate) workspace: Workspace<F>,
    /// Scores, one run of labels for each scoring.
    table: Vec<f64>,
    tallies: Vec<Tally>,
    /// Where each cell's tallies begin.
    starts: Vec<usize>,
}

impl<F: Float> CellVote<F> {
    /// Makes room for rows of a partition's labels.
    pub(crate) fn reserve(&mut self, cells: &[Cell], partition: &Partition) {
        let k = partition.cell_of.len();
        self.workspace.reserve(k);
        self.table.clear();
        self.table.reserve(k * partition.scorings.len());
        self.tallies.clear();
        self.tallies.reserve(cells.iter().map(|cell| cell.candidates.len()).sum());
        self.starts.clear();
        self.starts.reserve(cells.len());
    }

    /// Bytes that it has room for.
    pub(crate) fn bytes(&self) -> usize {
        self.workspace.bytes() + bytes(&self.table) + bytes(&self.tallies) + bytes(&self.starts)
    }

    /// Gives the verdict on each label, by rank.
    #[inline(always)]
    pub(crate) fn row(
        &mut self,
        view: &View<'_, F>,
        cells: &[Cell],
        partition: &Partition,
        mut each: impl FnMut(Verdict),
    ) {
        let k = view.row.len();
        let most_ranks = partition.most_ranks.as_deref();
        view.sort(&mut self.workspace);
        self.table.resize(k * partition.scorings.len(), 0.0);
        for (scoring, scores) in partition.scorings.iter().zip(self.table.chunks_exact_mut(k)) {
            let mut rank = 0;
            view.sorted_scores(&mut self.workspace, scoring, Scale::Ranked, |label, score| {
                rank += 1;
                let is_beyond = most_ranks.is_some_and(|most| rank > most[label as usize]);
                scores[label as usize] = if is_beyond { f64::INFINITY } else { score };
            });
        }
        self.tally(cells, partition, k);
        for i in 0..k {
            let label = self.workspace.label(i);
            let cell = partition.cell_of[label as usize] as usize;
            let (candidates, used) = (&cells[cell].candidates, &partition.used[cell]);
            let score = |j: usize| self.table[used[j] * k + label as usize];
            let winner =
                if candidates.len() == 1 { 0 } else { self.selected(cells, partition, cell, label, k) };
            let (score, hi) = (score(winner), candidates[winner].hi);
            each(Verdict { label, cell, winner, score, is_in: score <= hi });
        }
    }

    /// Counts the row's pairs at the edges of every candidate of cells that have several.
    fn tally(&mut self, cells: &[Cell], partition: &Partition, k: usize) {
        self.tallies.clear();
        self.starts.clear();
        for ((cell, used), members) in cells.iter().zip(&partition.used).zip(&partition.members) {
            self.starts.push(self.tallies.len());
            if cell.candidates.len() == 1 || members.is_empty() {
                continue;
            }
            let first = self.tallies.len();
            let mut smallest = u64::MAX;
            for (candidate, &s) in cell.candidates.iter().zip(used) {
                let scores = &self.table[s * k..][..k];
                let own = |q: f64| own_pairs(scores, cell, members, q);
                let at_lo = candidate.weighted(candidate.at_lo + own(candidate.lo));
                let all = candidate.at_lo + candidate.between.len() as u64;
                let at_hi = candidate.weighted(all + own(candidate.hi));
                smallest = smallest.min(at_hi);
                self.tallies.push(Tally { at_lo, at_hi, is_alive: false });
            }
            for tally in &mut self.tallies[first..] {
                tally.is_alive = tally.at_lo <= smallest;
            }
        }
    }

    /// The candidate that a label selects, the first of equals.
    fn selected(&self, cells: &[Cell], partition: &Partition, cell: usize, label: u32, k: usize) -> usize {
        let (mut best, mut fewest) = (0, u64::MAX);
        let (rule, members) = (&cells[cell], &partition.members[cell]);
        let tallies = &self.tallies[self.starts[cell]..][..rule.candidates.len()];
        for (j, (candidate, tally)) in rule.candidates.iter().zip(tallies).enumerate() {
            if !tally.is_alive {
                continue;
            }
            let scores = &self.table[partition.used[cell][j] * k..][..k];
            let score = scores[label as usize];
            let pairs = if score <= candidate.lo {
                tally.at_lo
            } else if score > candidate.hi {
                tally.at_hi
            } else {
                candidate.weighted(candidate.pairs(score) + own_pairs(scores, rule, members, score))
            };
            if pairs < fewest {
                (best, fewest) = (j, pairs);
            }
        }
        best
    }
}

/// The row's own pairs with scores up to `q`, of the labels that the cell counts.
fn own_pairs(scores: &[f64], cell: &Cell, members: &[u32], q: f64) -> u64 {
    if cell.counts_all {
        scores.iter().filter(|&&score| score <= q).count() as u64
    } else {
        members.iter().filter(|&&label| scores[label as usize] <= q).count() as u64
    }
}

/// The sets of rows by the cells of their labels, labels by falling probability. With `allow_empty` false
/// a set that would be empty holds the top label.
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
    partition.check(rows.n_labels())?;
    let size = Size::new(rows.n_rows(), rows.n_labels(), 8 * partition.scorings.len());
    Sets::of_blocks(rows.n_rows(), size, plan, |range, sets| {
        sets_block::<F, R>(rows, cells, partition, allow_empty, randomness, range, sets)
    })
}

instances! {
    fn sets_block<F: Float, R: Rows<F>>(rows: &R, cells: &[Cell], partition: &Partition, allow_empty: bool, randomness: &Randomness<'_>, range: Range<usize>, sets: &mut SetBlock<'_>) -> Result<(), Error> = sets_rows::<F, R>;
}

#[inline(always)]
fn sets_rows<F: Float, R: Rows<F>>(
    rows: &R,
    cells: &[Cell],
    partition: &Partition,
    allow_empty: bool,
    randomness: &Randomness<'_>,
    range: Range<usize>,
    sets: &mut SetBlock<'_>,
) -> Result<(), Error> {
    let candidates = partition.candidates();
    let (mut space, done) = (Space::<F>::taken(), range.len());
    let Space { lent: scratch, cell_vote: vote, .. } = &mut *space;
    for (first, count) in groups(rows, range) {
        let mut group: [&[F]; GROUP] = [&[]; GROUP];
        rows.group(first, count, scratch, &mut group)?;
        for (i, row) in (first..).zip(&group[..count]) {
            let view = View::of(row, i, rows.position(i), &candidates, randomness)?;
            let labels = &mut sets.labels;
            vote.row(&view, cells, partition, |verdict| {
                if verdict.is_in {
                    labels.push(verdict.label as i32);
                }
            });
            sets.end_row(if allow_empty { None } else { Some(vote.workspace.label(0)) });
        }
    }
    space.keep(rows, done);
    Ok(())
}

/// The set of one row, added to `labels`; allocates nothing once `vote` has room.
#[inline(always)]
pub(crate) fn predict_cell_row<F: Float>(
    view: &View<'_, F>,
    cells: &[Cell],
    partition: &Partition,
    allow_empty: bool,
    vote: &mut CellVote<F>,
    labels: &mut Vec<u32>,
) {
    vote.row(view, cells, partition, |verdict| {
        if verdict.is_in {
            labels.push(verdict.label);
        }
    });
    if labels.is_empty() && !allow_empty {
        labels.push(vote.workspace.label(0));
    }
}

impl Partition {
    /// What rows are viewed for.
    pub(crate) fn candidates(&self) -> Candidates<'_> {
        Candidates::apart(&self.scorings)
    }
}

/// Conformal p-values of all labels within their cells, `out` as rows of K: plain ones
/// `(1 + #{S_i >= S(x, y)}) / (n + 1)` over the n scores of the candidate that the label selects, or
/// smoothed ones, which need one candidate in each cell.
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
    partition.check(k)?;
    if out.len() != n * k {
        return Err(Error::Length { name: "out", found: out.len(), expected: n * k });
    }
    for cell in cells {
        if cell.scores.len() != cell.candidates.len() {
            return Err(Error::argument("score_table", "saved with the predictor, for p-values", "none"));
        }
        if smoothed && cell.candidates.len() > 1 {
            return Err(Error::argument("smoothed", "false with several candidates in use", true));
        }
    }
    fill(out, k, Size::new(n, k, 8 * partition.scorings.len()), plan, |range, parts| {
        p_values_block::<F, R>(rows, cells, partition, smoothed, randomness, range, parts.only())
    })
}

instances! {
    fn p_values_block<F: Float, R: Rows<F>>(rows: &R, cells: &[Cell], partition: &Partition, smoothed: bool, randomness: &Randomness<'_>, range: Range<usize>, out: &mut [f64]) -> Result<(), Error> = p_values_rows::<F, R>;
}

#[inline(always)]
fn p_values_rows<F: Float, R: Rows<F>>(
    rows: &R,
    cells: &[Cell],
    partition: &Partition,
    smoothed: bool,
    randomness: &Randomness<'_>,
    range: Range<usize>,
    out: &mut [f64],
) -> Result<(), Error> {
    let (k, start) = (rows.n_labels(), range.start);
    let candidates = partition.candidates();
    let (mut space, done) = (Space::<F>::taken(), range.len());
    let Space { lent: scratch, cell_vote: vote, .. } = &mut *space;
    for (first, count) in groups(rows, range) {
        let mut group: [&[F]; GROUP] = [&[]; GROUP];
        rows.group(first, count, scratch, &mut group)?;
        for (i, row) in (first..).zip(&group[..count]) {
            let out = &mut out[(i - start) * k..][..k];
            let view = View::of(row, i, rows.position(i), &candidates, randomness)?;
            let v = if smoothed { randomness.p_value_uniform(i, view.scan.words()) } else { 0.0 };
            vote.row(&view, cells, partition, |Verdict { label, cell, winner, score, .. }| {
                let sorted = &cells[cell].scores[winner];
                out[label as usize] =
                    if smoothed { smoothed_p_value(sorted, score, v) } else { p_value(sorted, score) };
            });
        }
    }
    space.keep(rows, done);
    Ok(())
}
