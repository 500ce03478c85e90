//! Sets and p-values from several candidates among which every label of a row selects: exact coverage
//! with all the data (Liang, Zhu & Barber 2024).
//!
//! Selecting the candidate with the smallest sets on the data that also calibrate it breaks their symmetry
//! with the new row. It is restored by letting the new row take part: for each label y that the row might
//! have, the candidate is the one that would be selected if (x, y) were one more calibration row. With
//! `C(q)` the calibration pairs (row, label) with scores up to q, `c(q)` those of the new row, and
//! `q = clip(S(x, y), lo, hi)` the threshold that the enlarged data would give,
//! `m_y = argmin_m w_m (C_m(q_m) + c_m(q_m))`, the first of equals, and y is in the set iff
//! `S^{m_y}(x, y) <= hi_{m_y}`. The weights `w_m` are fixed before the data are seen, all equal by default.
//!
//! Nearly always one candidate wins whatever y is: the others' counts at `lo` are above its count at `hi`.
//! Then the set is that candidate's own, at the cost of cutting one set a candidate.

use std::ops::Range;

use crate::batch::groups;
use crate::cells::CellVote;
use crate::cut::Standing;
use crate::error::Error;
use crate::float::Float;
use crate::group::Group;
use crate::kernel::{View, Views};
use crate::pvalue::p_value;
use crate::ranked_masses::RankedMasses;
use crate::rows::{GROUP, Rows};
use crate::scoring::Scale;
use crate::sets::{SetBlock, Sets};
use crate::simd::instances;
use crate::spare::{Space, bytes};
use crate::survivors::{Survivor, Survivors};
use crate::threads::{Plan, Size, fill};
use crate::top_labels::TopLabels;
use crate::uniform::Randomness;

/// What one candidate makes of a row.
#[derive(Debug, Default)]
struct Part {
    /// Its set, by rank.
    labels: Vec<u32>,
    /// The labels of it above `lo`, with their scores.
    between: Vec<(u32, f64)>,
    /// Pairs up to `lo` and up to `hi`, the row's own among them, weighted.
    at_lo: u64,
    at_hi: u64,
    /// Whether some label may select it.
    is_alive: bool,
}

impl Part {
    /// The count that decides for a label, given where the label stands.
    fn pairs(&self, survivor: &Survivor, label: u32) -> u64 {
        if let Some(&(_, score)) = self.between.iter().find(|pair| pair.0 == label) {
            let own = self.between.iter().filter(|pair| pair.1 <= score).count() as u64;
            let within = (self.labels.len() - self.between.len()) as u64;
            return survivor.weighted(survivor.pairs(score) + within + own);
        }
        if self.labels.contains(&label) { self.at_lo } else { self.at_hi }
    }
}

/// Buffers for the rows of one thread.
#[derive(Debug, Default)]
pub(crate) struct Vote<F: Float> {
    parts: Vec<Part>,
    /// Parts that the last row had no candidates for.
    spare: Vec<Part>,
    pub(crate) masses: RankedMasses<F>,
    pub(crate) top: TopLabels<F>,
    /// Labels that some candidate has in its set, by label and by rank.
    union: Vec<u32>,
    by_rank: Vec<u32>,
    /// The candidate that each label selects, for p-values.
    winners: Vec<usize>,
}

/// Labels of a candidate's set that there is room for beforehand; a larger set grows it.
const ROOM: usize = 1024;

impl<F: Float> Vote<F> {
    /// Takes rows with `n` candidates from now on; room that others need stays.
    pub(crate) fn fit(&mut self, n: usize) {
        self.spare.extend(self.parts.drain(n.min(self.parts.len())..));
        while self.parts.len() < n {
            self.parts.push(self.spare.pop().unwrap_or_default());
        }
    }

    /// Bytes that it has room for.
    pub(crate) fn bytes(&self) -> usize {
        let parts = self.parts.iter().chain(&self.spare);
        let of_parts = parts.map(|part| size_of::<Part>() + bytes(&part.labels) + bytes(&part.between));
        let own = self.masses.bytes() + self.top.bytes() + bytes(&self.winners);
        own + bytes(&self.union) + bytes(&self.by_rank) + of_parts.sum::<usize>()
    }

    /// Makes room for rows of `n_labels` and `n` candidates.
    pub(crate) fn reserve(&mut self, n: usize, n_labels: usize) {
        self.masses.reserve(n_labels);
        self.top.reserve(n_labels);
        self.spare.clear();
        self.spare.reserve(n);
        self.parts.resize_with(n, Part::default);
        let room = n_labels.min(ROOM);
        for part in &mut self.parts {
            part.labels.clear();
            part.labels.reserve(room);
            part.between.clear();
            part.between.reserve(room);
        }
        self.union.clear();
        self.union.reserve(n * room);
        self.by_rank.clear();
        self.by_rank.reserve(n_labels);
    }

    /// The set of one row, added to `labels`.
    #[inline(always)]
    pub(crate) fn row(&mut self, view: &View<'_, F>, survivors: &Survivors, labels: &mut Vec<u32>) {
        let alive = self.cut(view, survivors);
        self.labels(view.row, survivors, alive, |label| labels.push(label));
    }

    /// Cuts each candidate's set and finds who may be selected; gives the first of them.
    #[inline(always)]
    fn cut(&mut self, view: &View<'_, F>, survivors: &Survivors) -> usize {
        self.top.take(view.row, F::NEG_INFINITY);
        self.masses.forget();
        let mut smallest = u64::MAX;
        for &m in survivors.order() {
            let (cut, part) = (survivors.cut(m, view.row.len()), &mut self.parts[m]);
            part.labels.clear();
            part.between.clear();
            self.masses.take(view, cut.scoring);
            let (labels, between) = (&mut part.labels, &mut part.between);
            cut.walk(view, &mut self.masses, &mut self.top, |label, standing| {
                labels.push(label);
                if let Standing::Between(score) = standing {
                    between.push((label, score));
                }
            });
            let size = part.labels.len() as u64;
            let (survivor, between) = (&survivors[m], part.between.len() as u64);
            part.at_lo = survivor.weighted(survivor.at_lo + size - between);
            part.at_hi = survivor.weighted(survivor.at_lo + survivor.between.len() as u64 + size);
            smallest = smallest.min(part.at_hi);
        }
        for part in &mut self.parts {
            part.is_alive = part.at_lo <= smallest;
        }
        self.parts.iter().position(|part| part.is_alive).unwrap_or(0)
    }

    /// The candidate that a label selects.
    fn selected(&self, survivors: &[Survivor], label: u32) -> usize {
        let (mut best, mut fewest) = (0, u64::MAX);
        for (m, part) in self.parts.iter().enumerate().filter(|(_, part)| part.is_alive) {
            let pairs = part.pairs(&survivors[m], label);
            if pairs < fewest {
                (best, fewest) = (m, pairs);
            }
        }
        best
    }

    /// Whether all who may be selected have the same set.
    fn is_unanimous(&self, first: usize) -> bool {
        let set = &self.parts[first].labels;
        self.parts[first + 1..].iter().all(|part| !part.is_alive || part.labels == *set)
    }

    /// The labels of the set, by rank.
    #[inline(always)]
    fn labels(&mut self, row: &[F], survivors: &[Survivor], first: usize, mut each: impl FnMut(u32)) {
        if self.is_unanimous(first) {
            self.parts[first].labels.iter().for_each(|&label| each(label));
            return;
        }
        // Labels in no set are out whoever is selected; the others are met by rank.
        let Self { parts, top, union, by_rank, .. } = self;
        union.clear();
        union.extend(parts.iter().filter(|part| part.is_alive).flat_map(|part| part.labels.iter()));
        union.sort_unstable();
        union.dedup();
        by_rank.clear();
        let mut i = 0;
        while let (Some((label, _)), true) = (top.get(i), by_rank.len() < union.len()) {
            i += 1;
            if union.binary_search(&label).is_ok() {
                by_rank.push(label);
            }
        }
        by_rank.extend(union.iter().filter(|&&label| row[label as usize] == F::NEG_INFINITY));
        for &label in &self.by_rank {
            let winner = self.selected(survivors, label);
            if self.parts[winner].labels.contains(&label) {
                each(label);
            }
        }
    }
}

/// The sets of rows whose labels select among candidates. With `allow_empty` false a set that would be
/// empty holds the top label.
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
    randomness.check(rows.n_rows())?;
    let size = Size::new(rows.n_rows(), rows.n_labels(), 2 * survivors.len());
    Sets::of_blocks(rows.n_rows(), size, plan, |range, sets| {
        sets_block::<F, R>(rows, survivors, allow_empty, randomness, range, sets)
    })
}

instances! {
    fn sets_block<F: Float, R: Rows<F>>(rows: &R, survivors: &Survivors, allow_empty: bool, randomness: &Randomness<'_>, range: Range<usize>, sets: &mut SetBlock<'_>) -> Result<(), Error> = sets_rows::<F, R>;
}

#[inline(always)]
fn sets_rows<F: Float, R: Rows<F>>(
    rows: &R,
    survivors: &Survivors,
    allow_empty: bool,
    randomness: &Randomness<'_>,
    range: Range<usize>,
    sets: &mut SetBlock<'_>,
) -> Result<(), Error> {
    let candidates = survivors.candidates();
    let (mut space, done) = (Space::<F>::fetching(), range.len());
    let Space { lent: scratch, columns, vote, .. } = &mut *space;
    vote.fit(survivors.len());
    let mut views = Views::new(rows.n_labels());
    for (first, count) in groups(rows, range) {
        let ahead = rows.ahead(first + count);
        let mut lent: [&[F]; GROUP] = [&[]; GROUP];
        rows.group(first, count, scratch, &mut lent)?;
        let mut group = Group::new(&lent, count, ahead, columns).fetching(rows.columns_ahead(first));
        views.read(&mut group, &candidates, randomness, first, |i| rows.position(first + i))?;
        for i in 0..count {
            let view = views.view(i, group.rows[i], &candidates);
            let alive = vote.cut(&view, survivors);
            let labels = &mut sets.labels;
            vote.labels(group.rows[i], survivors, alive, |label| labels.push(label as i32));
            sets.end_row(if allow_empty { None } else { vote.top.get(0).map(|first| first.0) });
        }
    }
    space.keep(rows, done);
    Ok(())
}

/// Conformal p-values `(1 + #{S_i >= S(x, y)}) / (n + 1)` by the candidate that each label selects, `out` as
/// rows of K: a label is in the set exactly when its p-value is above alpha. `sorted` holds each
/// survivor's calibration scores.
///
/// # Errors
/// As [`predict_selected_sets`].
pub fn selected_p_values<F: Float, R: Rows<F>, S: AsRef<[f64]> + Sync>(
    rows: &R,
    survivors: &Survivors,
    sorted: &[S],
    randomness: &Randomness<'_>,
    plan: &Plan<'_>,
    out: &mut [f64],
) -> Result<(), Error> {
    let (n, k) = (rows.n_rows(), rows.n_labels());
    randomness.check(n)?;
    for (name, found, expected) in [("out", out.len(), n * k), ("sorted", sorted.len(), survivors.len())] {
        if found != expected {
            return Err(Error::Length { name, found, expected });
        }
    }
    fill(out, k, Size::new(n, k, 8 * survivors.len()), plan, |range, parts| {
        p_values_block::<F, R, S>(rows, survivors, sorted, randomness, range, parts.only())
    })
}

instances! {
    fn p_values_block<F: Float, R: Rows<F>, S: AsRef<[f64]>>(rows: &R, survivors: &Survivors, sorted: &[S], randomness: &Randomness<'_>, range: Range<usize>, out: &mut [f64]) -> Result<(), Error> = p_values_rows::<F, R, S>;
}

#[inline(always)]
fn p_values_rows<F: Float, R: Rows<F>, S: AsRef<[f64]>>(
    rows: &R,
    survivors: &Survivors,
    sorted: &[S],
    randomness: &Randomness<'_>,
    range: Range<usize>,
    out: &mut [f64],
) -> Result<(), Error> {
    let k = rows.n_labels();
    let candidates = survivors.candidates();
    let (start, done) = (range.start, range.len());
    let mut space = Space::<F>::taken();
    let Space { lent: scratch, vote, cell_vote: CellVote { workspace, .. }, .. } = &mut *space;
    vote.fit(survivors.len());
    let mut winners = std::mem::take(&mut vote.winners);
    winners.resize(k, 0);
    for (first, count) in groups(rows, range) {
        let mut group: [&[F]; GROUP] = [&[]; GROUP];
        rows.group(first, count, scratch, &mut group)?;
        for (i, row) in (first..).zip(&group[..count]) {
            let out = &mut out[(i - start) * k..][..k];
            let view = View::of(row, i, rows.position(i), &candidates, randomness)?;
            let alive = vote.cut(&view, survivors);
            let is_decided = vote.parts[alive + 1..].iter().all(|part| !part.is_alive);
            for (label, winner) in winners.iter_mut().enumerate() {
                *winner = if is_decided { alive } else { vote.selected(survivors, label as u32) };
            }
            for (m, survivor) in survivors.iter().enumerate() {
                if winners.contains(&m) {
                    view.all_scores(workspace, &survivor.scoring, Scale::Ranked, |label, score| {
                        if winners[label as usize] == m {
                            out[label as usize] = p_value(sorted[m].as_ref(), score);
                        }
                    });
                }
            }
        }
    }
    space.vote.winners = winners;
    space.keep(rows, done);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Matrix;
    use crate::scoring::{Reweight, Score, Scoring};
    use crate::uniform::Uniforms;
    use proptest::prelude::*;

    /// Whether each label is in: every candidate's counts at every label's threshold, as the definition has them.
    fn naive(row: &[f32], survivors: &Survivors, randomness: &Randomness<'_>) -> Vec<bool> {
        let view = View::of(row, 0, 0, &survivors.candidates(), randomness).unwrap();
        let scores = |m: usize| {
            let score = |label| view.label_score(label, &survivors[m].scoring, Scale::Ranked);
            (0..row.len()).map(score).collect::<Vec<f64>>()
        };
        let scores: Vec<Vec<f64>> = (0..survivors.len()).map(scores).collect();
        let is_in = |label: usize| {
            let count = |m: usize| {
                let q = scores[m][label].clamp(survivors[m].lo, survivors[m].hi);
                let own = scores[m].iter().filter(|&&score| score <= q).count() as u64;
                survivors[m].weighted(survivors[m].pairs(q) + own)
            };
            let winner = (0..survivors.len()).min_by_key(|&m| count(m)).unwrap();
            scores[winner][label] <= survivors[winner].hi
        };
        (0..row.len()).map(is_in).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 400 }))]
        #[test]
        fn each_label_is_judged_by_the_candidate_it_selects(
            row in prop::collection::vec((-8_i8..8).prop_map(|z| f32::from(z) / 2.0), 1..9),
            ends in prop::collection::vec((0.0_f64..4.0, 0.0_f64..2.0, 0_u64..4, 1_u32..3), 3),
            between in prop::collection::vec(0.0_f64..1.0, 0..4),
            u in 0.0_f64..1.0,
        ) {
            let kinds = [(Score::Aps, 1.0), (Score::Thr, 0.5), (Score::Aps, 4.0)];
            let survivors: Vec<Survivor> = (kinds.into_iter().zip(ends))
                .map(|((score, temperature), (lo, width, at_lo, weight))| {
                    let mut between: Vec<f64> = between.iter().map(|t| (lo + width * t).next_up()).collect();
                    between.sort_by(f64::total_cmp);
                    let hi = between.last().copied().unwrap_or(lo + width);
                    let scoring = Scoring::new(score, Reweight::NONE, temperature).unwrap();
                    Survivor { scoring, lo, hi, at_lo, between, weight }
                })
                .collect();
            let survivors = Survivors::new(survivors).unwrap();
            let randomness = Randomness { uniforms: Uniforms::Fixed(u), ..Randomness::default() };
            let matrix = Matrix::new(&row, row.len()).unwrap();
            let sets =
                predict_selected_sets(&matrix, &survivors, true, &randomness, &Plan::default()).unwrap();
            let mut found = vec![false; row.len()];
            sets.row(0).iter().for_each(|&label| found[label as usize] = true);
            assert_eq!(found, naive(&row, &survivors, &randomness));
            assert!(sets.row(0).is_sorted_by(|&a, &b| row[a as usize] > row[b as usize] || (row[a as usize] == row[b as usize] && a < b)));
        }
    }
}
