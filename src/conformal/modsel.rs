//! How does each label of a row select among candidates, so that coverage stays exact with all the data
//! (Liang, Zhu & Barber 2024)?
//!
//! If the data that calibrate a candidate also select it, they are no longer symmetric with the new row. The
//! new row restores the symmetry by taking part: each label y that it might have selects the candidate that
//! would be selected if (x, y) were one more calibration row.
//!
//! Let `C(q)` be the number of calibration pairs (row, label) with scores up to q, `c(q)` that of the new
//! row's pairs, and `q = clip(S(x, y), lo, hi)`, the threshold of the enlarged data. Then `m_y = argmin_m w_m
//! (C_m(q_m) + c_m(q_m))`, the first of equals, and y is in the set iff `S^{m_y}(x, y) <= hi_{m_y}`. The
//! weights `w_m` are fixed before the data are seen; by default all are equal.
//!
//! ```text
//! for each candidate: cut the row's set (of a tile of rows at once, where labels are few)
//! a candidate is alive if its count at lo is at most the count at hi of each other one
//! no label can select a candidate that is not alive
//! a label that all sets of alive candidates hold is in; a label that none of them holds is out
//! any other label selects the alive candidate with the smallest count
//! it is in if that candidate's set holds it
//! ```
//!
//! Counts grow with q, so at a label's threshold the count of a candidate is between its counts at `lo` and
//! at `hi`: a candidate whose count at `lo` is above another's count at `hi` loses for every label.
//!
//! A set is a run of the first ranks and a few labels after it. It is kept as the length of the run and a
//! list of the others, so a vote takes no memory for the labels, and time in proportion to them.

use super::pvalue::p_value;
use super::survivors::{Survivor, Survivors};
use crate::error::Error;
use crate::kernels::Float;
use crate::math::Randomness;
use crate::rows::{Rows, Tile};
use crate::run::{
    Plan, Planes, Reads, Scratch, Size, TileWork, fill_tiles, for_tiles, list_bytes, reserve, with_scratch,
};
use crate::score::{RowView, Scale, SortedRow, TileView, check_length};
use crate::sets::{Ends, RowCutter, SetBlock, Sets, Standing, TileCut, TileOrder};
use crate::simd::Simd;

/// The set of a row by one candidate.
#[derive(Debug, Default)]
struct Part {
    /// The first `run` labels, by rank, have scores up to `lo`.
    run: usize,
    /// The other labels of the set: their ranks counted from 0, and their scores if these are above `lo`.
    rest: Vec<(u32, Option<f64>)>,
    /// The scores above `lo`, sorted.
    between: Vec<f64>,
    /// Pairs up to `lo` and up to `hi`, of calibration and of the row, weighted.
    at_lo: u128,
    at_hi: u128,
    /// Whether some label may select it.
    is_alive: bool,
}

/// Where a label stands in a candidate's set.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stand {
    Within,
    Between(f64),
    Out,
}

impl Part {
    /// Begins a set with the first `run` labels.
    fn begin(&mut self, run: usize) {
        self.run = run;
        self.rest.clear();
        self.between.clear();
    }

    /// Adds the label of a rank.
    #[inline(always)]
    fn add(&mut self, rank: usize, standing: Standing) {
        match standing {
            Standing::Within if self.rest.is_empty() && rank == self.run => self.run += 1,
            Standing::Within => self.rest.push((rank as u32, None)),
            Standing::Between(score) => {
                self.rest.push((rank as u32, Some(score)));
                self.between.push(score);
            }
        }
    }

    /// Counts the pairs of a set that is complete.
    #[inline(always)]
    fn count(&mut self, survivor: &Survivor) {
        self.between.sort_unstable_by(f64::total_cmp);
        let (size, between) = ((self.run + self.rest.len()) as u64, self.between.len() as u64);
        self.at_lo = survivor.weighted(survivor.at_lo + size - between);
        self.at_hi = survivor.weighted(survivor.at_lo + survivor.between.len() as u64 + size);
    }

    /// One more than the last rank of the set.
    fn end(&self) -> usize {
        self.rest.last().map_or(self.run, |&(rank, _)| rank as usize + 1)
    }

    fn stand(&self, rank: usize) -> Stand {
        if rank < self.run {
            return Stand::Within;
        }
        match self.rest.binary_search_by_key(&(rank as u32), |&(rank, _)| rank) {
            Ok(i) => self.rest[i].1.map_or(Stand::Within, Stand::Between),
            Err(_) => Stand::Out,
        }
    }

    /// The count that decides for a label, given where it stands.
    fn pairs(&self, survivor: &Survivor, stand: Stand) -> u128 {
        match stand {
            Stand::Within => self.at_lo,
            Stand::Out => self.at_hi,
            Stand::Between(score) => {
                let within = self.run + self.rest.len() - self.between.len();
                let own = within + self.between.partition_point(|&s| s <= score);
                survivor.weighted(survivor.pairs(score) + own as u64)
            }
        }
    }
}

/// Labels after the runs, of all candidates together, for which room is made at first: half a megabyte. Few
/// rows have more, so few rows allocate.
pub(super) const ROOM: usize = 1 << 14;

/// Working space for votes.
#[derive(Debug, Default)]
pub(crate) struct Vote<F: Float> {
    cutter: RowCutter<F>,
    /// One for each candidate; more if an earlier call had more candidates.
    parts: Vec<Part>,
    /// The labels of the row that cannot occur, if they were asked for.
    impossible: Vec<u32>,
}

impl<F: Float> Scratch for Vote<F> {
    fn bytes(&self) -> usize {
        let of_parts = self.parts.iter().map(|part| list_bytes(&part.rest) + list_bytes(&part.between));
        let own = list_bytes(&self.parts) + list_bytes(&self.impossible);
        self.cutter.bytes() + own + of_parts.sum::<usize>()
    }
}

/// The candidates that some label of a row may select, and the ranks among which they differ.
#[derive(Clone, Copy, Debug)]
struct Alive {
    /// The first of them, and whether it is the only one.
    first: usize,
    is_only: bool,
    /// All labels before this rank are in, and all from `end` on are out.
    run: usize,
    end: usize,
}

impl<F: Float> Vote<F> {
    /// Makes room for rows of `n_labels` and `n` candidates.
    pub(crate) fn reserve(&mut self, n: usize, n_labels: usize) -> Result<(), Error> {
        self.cutter.reserve(n_labels)?;
        if self.parts.len() < n {
            let more = n - self.parts.len();
            reserve(&mut self.parts, more)?;
            self.parts.resize_with(n, Part::default);
        }
        let room = n_labels.min(ROOM / n.max(1));
        for part in &mut self.parts[..n] {
            part.rest.clear();
            part.between.clear();
            reserve(&mut part.rest, room)?;
            reserve(&mut part.between, room)?;
        }
        Ok(())
    }

    /// Calls `each` with the labels of the row's set, by rank.
    #[inline(always)]
    pub(crate) fn row<S: Simd>(
        &mut self,
        s: S,
        view: &RowView<'_, F>,
        survivors: &Survivors,
        mut each: impl FnMut(u32),
    ) {
        self.cutter.begin_row();
        if survivors.len() == 1 {
            let bounds = survivors.bounds(0);
            let certain = self.cutter.begin_only(s, view, bounds);
            self.cutter.first_labels(certain).iter().for_each(|&label| each(label));
            self.cutter.walk(s, view, bounds, certain, |_, label, _| each(label));
            return;
        }
        for &m in survivors.order() {
            self.cut(s, view, survivors, m);
        }
        self.labels(s, view, survivors, each);
    }

    /// The most probable label of the row.
    #[inline(always)]
    pub(crate) fn top_label<S: Simd>(&mut self, s: S) -> Option<u32> {
        self.cutter.top_label(s)
    }

    /// Cuts the set of candidate m.
    #[inline(always)]
    fn cut<S: Simd>(&mut self, s: S, view: &RowView<'_, F>, survivors: &Survivors, m: usize) {
        let (part, bounds) = (&mut self.parts[m], survivors.bounds(m));
        part.begin(self.cutter.begin_shared(s, view, bounds));
        let run = part.run;
        self.cutter.walk(s, view, bounds, run, |rank, _, standing| part.add(rank, standing));
        part.count(&survivors[m]);
    }

    /// Finds the candidates that may be selected, once all sets are cut.
    #[inline(always)]
    fn alive(&mut self, n: usize) -> Alive {
        let parts = &mut self.parts[..n];
        let smallest = parts.iter().map(|part| part.at_hi).min().unwrap_or(0);
        let mut alive = Alive { first: n, is_only: true, run: usize::MAX, end: 0 };
        for (m, part) in parts.iter_mut().enumerate() {
            part.is_alive = part.at_lo <= smallest;
            if part.is_alive {
                alive.is_only = alive.first == n;
                alive.first = alive.first.min(m);
                alive.run = alive.run.min(part.run);
                alive.end = alive.end.max(part.end());
            }
        }
        alive
    }

    /// The candidate that the label of a rank selects, and where the label stands in its set.
    #[inline(always)]
    fn selected(&self, survivors: &Survivors, rank: usize) -> (usize, Stand) {
        let parts = self.parts[..survivors.len()].iter().enumerate().filter(|(_, part)| part.is_alive);
        let counted = parts.map(|(m, part)| {
            let stand = part.stand(rank);
            (part.pairs(&survivors[m], stand), m, stand)
        });
        // The first of equals.
        let fewest = counted.min_by_key(|(pairs, ..)| *pairs);
        fewest.map_or((0, Stand::Out), |(_, m, stand)| (m, stand))
    }

    /// Calls `each` with the labels of the set, by rank, once all sets are cut.
    #[inline(always)]
    fn labels<S: Simd>(
        &mut self,
        s: S,
        view: &RowView<'_, F>,
        survivors: &Survivors,
        mut each: impl FnMut(u32),
    ) {
        let Alive { run, end, .. } = self.alive(survivors.len());
        self.impossible.clear();
        for rank in 0..end {
            if rank < run || self.selected(survivors, rank).1 != Stand::Out {
                each(self.label(s, view.row, rank));
            }
        }
    }

    /// The label of a rank; labels that cannot occur come last.
    #[inline(always)]
    fn label<S: Simd>(&mut self, s: S, row: &[F], rank: usize) -> u32 {
        if let Some(label) = self.cutter.label(s, rank) {
            return label;
        }
        if self.impossible.is_empty() {
            let labels = (0_u32..).zip(row).filter(|(_, z)| **z == F::NEG_INFINITY);
            self.impossible.extend(labels.map(|(label, _)| label));
        }
        self.impossible[rank + self.impossible.len() - row.len()]
    }
}

/// The prediction sets of rows whose labels select among candidates. With `allow_empty` false, a set that
/// would be empty holds the top label.
///
/// # Errors
/// For a row that is not one of logits, or U outside `[0, 1]`.
pub fn predict_selected_sets<F: Float, R: Rows<F>>(
    rows: &R,
    survivors: &Survivors,
    allow_empty: bool,
    randomness: &Randomness<'_>,
    plan: &Plan<'_>,
) -> Result<Sets, Error> {
    let (n, k) = (rows.n_rows(), rows.n_labels());
    randomness.check(n)?;
    let is_only = survivors.len() == 1;
    with_scratch(false, |tile_cuts: &mut Vec<Option<TileCut>>| {
        tile_cuts.clear();
        let bounds = (0..survivors.len()).map(|m| survivors.bounds(m));
        tile_cuts.extend(bounds.map(|bounds| TileCut::for_rows(bounds, n, k, is_only)));
        let work = SelectedSets { survivors, tile_cuts, allow_empty, randomness };
        Sets::of_blocks(n, Size::new(n, k, 2 * survivors.len()), plan, |range, sets| {
            for_tiles(rows, range, &work, sets)
        })
    })
}

struct SelectedSets<'c> {
    survivors: &'c Survivors,
    tile_cuts: &'c [Option<TileCut>],
    allow_empty: bool,
    randomness: &'c Randomness<'c>,
}

impl<F: Float> TileWork<F> for SelectedSets<'_> {
    /// The last list has what each candidate's cut of a tile found.
    type Scratch = (Vote<F>, TileOrder<F>, Vec<Ends>);
    type Out<'a> = SetBlock<'a>;

    fn reads(&self) -> Option<Reads> {
        Some(Reads { entropy: self.survivors.candidates().entropy, sums: false })
    }

    fn begin(&self, n_labels: usize, (vote, _, ends): &mut Self::Scratch) -> Result<(), Error> {
        ends.clear();
        reserve(ends, self.survivors.len())?;
        vote.reserve(self.survivors.len(), n_labels)
    }

    #[inline(always)]
    fn tile<S: Simd>(
        &self,
        s: S,
        tile: &mut Tile<'_, F>,
        (vote, order, ends): &mut Self::Scratch,
        sets: &mut SetBlock<'_>,
    ) -> Result<(), Error> {
        let Self { survivors, tile_cuts, allow_empty, randomness } = self;
        let candidates = survivors.candidates();
        let view = TileView::of(tile, &candidates, randomness)?;
        let tile = view.tile;
        ends.clear();
        let mut open = u32::MAX;
        if let Some(columns) = tile.columns() {
            open = 0;
            order.begin(columns.len());
            for tile_cut in *tile_cuts {
                let found = tile_cut.as_ref().map_or(Ends::OPEN, |cut| cut.ends(s, &view, columns, order));
                open |= found.open();
                ends.push(found);
            }
        }
        for i in 0..tile.count {
            let is_open = open >> i & 1 == 1;
            if !is_open && let Some(size) = run_of_ranks(survivors, ends, i) {
                let size = if *allow_empty { size } else { size.max(1) } as usize;
                sets.reserve(size)?;
                order.add_labels(i, size, &mut sets.labels);
                sets.end_row(None)?;
                continue;
            }
            vote.row(s, &view.row(i, &candidates), survivors, |label| sets.push(label));
            sets.end_row(if *allow_empty { None } else { vote.top_label(s) })?;
        }
        Ok(())
    }
}

/// The size of a row's set, if every candidate's set is a run of ranks without scores between `lo` and `hi`;
/// `None` if the labels that are in are no such run.
#[inline(always)]
fn run_of_ranks(survivors: &Survivors, ends: &[Ends], row: usize) -> Option<u32> {
    let size = |m: usize| ends[m].size_in(row);
    let smallest = (0..survivors.len()).map(|m| survivors.weighted_at_hi(m, size(m))).min()?;
    let is_alive = |m: &usize| survivors.weighted_at_lo(*m, size(*m)) <= smallest;
    let (mut run, mut end) = (u32::MAX, 0);
    for m in (0..survivors.len()).filter(is_alive) {
        (run, end) = (run.min(size(m)), end.max(size(m)));
    }
    let mut found = run;
    for rank in run..end {
        let pairs = |m: &usize| {
            let size = size(*m);
            if rank < size { survivors.weighted_at_lo(*m, size) } else { survivors.weighted_at_hi(*m, size) }
        };
        let selected = (0..survivors.len()).filter(is_alive).min_by_key(pairs).unwrap_or(0);
        if rank < size(selected) {
            if found < rank {
                return None;
            }
            found = rank + 1;
        }
    }
    Some(found)
}

/// Conformal p-values `(1 + #{S_i >= S(x, y)}) / (n + 1)` by the candidate that each label selects, `out` as
/// rows of K: a label is in the set exactly when its p-value is above alpha. `sorted` holds each
/// survivor's calibration scores.
///
/// # Errors
/// As [`predict_selected_sets`].
pub fn selected_p_values<F: Float, R: Rows<F>, L: AsRef<[f64]> + Sync>(
    rows: &R,
    survivors: &Survivors,
    sorted: &[L],
    randomness: &Randomness<'_>,
    plan: &Plan<'_>,
    out: &mut [f64],
) -> Result<(), Error> {
    let (n, k) = (rows.n_rows(), rows.n_labels());
    randomness.check(n)?;
    check_length("out", out.len(), n * k)?;
    check_length("sorted", sorted.len(), survivors.len())?;
    let work = SelectedPValues { survivors, sorted, randomness };
    fill_tiles::<f64, F, _>(rows, &work, k, 8 * survivors.len(), plan, out)
}

struct SelectedPValues<'c, L> {
    survivors: &'c Survivors,
    sorted: &'c [L],
    randomness: &'c Randomness<'c>,
}

impl<F: Float, L: AsRef<[f64]> + Sync> TileWork<F> for SelectedPValues<'_, L> {
    /// The last list has the candidate that the label of each rank selects.
    type Scratch = (Vote<F>, SortedRow<F>, Vec<usize>);
    type Out<'a> = Planes<'a, f64>;

    fn reads(&self) -> Option<Reads> {
        Some(Reads { entropy: self.survivors.candidates().entropy, sums: false })
    }

    fn begin(&self, n_labels: usize, (vote, sorted, winners): &mut Self::Scratch) -> Result<(), Error> {
        vote.reserve(self.survivors.len(), n_labels)?;
        sorted.reserve(n_labels)?;
        winners.clear();
        reserve(winners, n_labels)
    }

    #[inline(always)]
    fn tile<S: Simd>(
        &self,
        s: S,
        tile: &mut Tile<'_, F>,
        (vote, sorted, winners): &mut Self::Scratch,
        out: &mut Planes<'_, f64>,
    ) -> Result<(), Error> {
        let (survivors, k) = (self.survivors, tile.n_labels());
        let candidates = survivors.candidates();
        let view = TileView::of(tile, &candidates, self.randomness)?;
        let tile = view.tile;
        let out = &mut out.only()[tile.at * k..][..tile.count * k];
        for (i, out) in out.chunks_exact_mut(k).enumerate() {
            let row = view.row(i, &candidates);
            vote.cutter.begin_row();
            for &m in survivors.order() {
                vote.cut(s, &row, survivors, m);
            }
            let Alive { first, is_only, .. } = vote.alive(survivors.len());
            winners.clear();
            winners.extend((0..k).map(|rank| if is_only { first } else { vote.selected(survivors, rank).0 }));
            sorted.sort(row.row);
            for (m, survivor) in survivors.iter().enumerate().filter(|(m, _)| winners.contains(m)) {
                let mut ranks = winners.iter();
                row.sorted_scores(s, sorted, &survivor.scoring, Scale::Ranked, |label, score| {
                    if ranks.next() == Some(&m) {
                        out[label as usize] = p_value(self.sorted[m].as_ref(), score);
                    }
                });
            }
        }
        Ok(())
    }
}
