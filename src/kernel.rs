//! From rows to the scores of one label or of all labels, for a list of candidates.
//!
//! A row is scanned once and its entropy taken once, whatever the number of candidates; candidates that
//! differ in the score alone share their sums.

use crate::candidates::{Candidates, SumsKey, is_of_top, sums_key, sums_of};
use crate::elementary::exp;
use crate::error::Error;
use crate::float::Float;
use crate::group::{Group, Places};
use crate::group_scans::Scans;
use crate::lane_cut::LaneRows;
use crate::masses::{Census, Sharpness, SharpnessLanes, label_masses, top_masses};
use crate::order::Order;
use crate::place::place_in;
use crate::planes::Planes;
use crate::row::{Scan, entropy};
use crate::rows::{Column, GROUP};
use crate::score::{MassLanes, Masses, Wants, limit_score, score};
use crate::scoring::{Reweight, Scale, Score, Scoring};
use crate::simd::instances;
use crate::spare::bytes;
use crate::sum::{Grain, each_lane};
use crate::uniform::Randomness;

/// What [`group_label_scores`] needs beside the group: the group's first row, by which U is found, the labels of its
/// rows, and what is asked for.
#[derive(Debug)]
pub(crate) struct GroupRequest<'a> {
    pub(crate) first: usize,
    pub(crate) label: &'a [usize; GROUP],
    pub(crate) candidates: &'a Candidates<'a>,
    pub(crate) scale: Scale,
    pub(crate) randomness: &'a Randomness<'a>,
}

instances! {
    /// Scores of the labels of a group of rows that were scanned into the workspace. `out` has a run of rows for each
    /// candidate, of which the group's begin at `at`. A function by itself, whatever the rows come from: there are
    /// many sources, and it is long.
    pub(crate) fn group_label_scores<F: Float>(group: &Group<'_, F>, request: &GroupRequest<'_>, workspace: &mut LabelWorkspace<F>, out: &mut Planes<'_, f64>, at: usize) -> Result<(), Error> = label_scores_of_group::<F>;
}

#[inline(always)]
fn label_scores_of_group<F: Float>(
    group: &Group<'_, F>,
    request: &GroupRequest<'_>,
    workspace: &mut LabelWorkspace<F>,
    out: &mut Planes<'_, f64>,
    at: usize,
) -> Result<(), Error> {
    let GroupRequest { first, label, candidates, scale, randomness } = *request;
    let n_labels = group.rows[0].len();
    let LabelWorkspace { scans, places, masses, censuses } = workspace;
    places.read(group.rows, label);
    let entropies = if candidates.entropy { scans.entropies() } else { [0.0; GROUP] };
    group.places(scans, places);
    let mut u = [0.0; GROUP];
    randomness.score_uniforms(first, group.count, &scans.words(), &mut u)?;
    let mut shared: Option<SumsKey> = None;
    let grain = Grain::of(n_labels);
    if candidates.census {
        for i in 0..group.count {
            censuses[i] = Census::of(group.rows[i], &scans.scan(i), candidates.mean);
        }
    }
    for &c in candidates.order {
        let candidate = &candidates.list[c];
        let Scoring { score: name, reweight, temperature } = *candidate;
        let weight = reweight.weights(&entropies);
        let scores = if candidate.is_limit() {
            let mut scores = [0.0; GROUP];
            for i in 0..group.count {
                let view = censuses[i].view(&scans.scan(i), places.logit[i], places.rank[i], weight[i]);
                scores[i] = limit_score(name, &view, u[i], temperature, scale);
            }
            scores
        } else {
            let key = sums_key(candidate);
            if shared != Some(key) {
                let sharpness = SharpnessLanes::new(&weight, temperature, grain);
                let of_top = is_of_top(name).then(|| Places::of_top(scans));
                let places = of_top.as_ref().unwrap_or(places);
                group.masses(sums_of(name), Wants::of(name, scale), scans, places, &sharpness, masses);
                shared = Some(key);
            }
            score(name, scale, n_labels, masses, &places.rank, &u)
        };
        // A label that cannot occur has no finite score.
        let scores = each_lane!([0.0; GROUP], |i| {
            if places.logit[i] == F::NEG_INFINITY { f64::INFINITY } else { scores[i] }
        });
        out.plane(c)[at..][..group.count].copy_from_slice(&scores[..group.count]);
    }
    Ok(())
}

/// What [`group_label_scores`] fills for one group after another.
#[derive(Debug)]
pub(crate) struct LabelWorkspace<F> {
    pub(crate) scans: Scans<F>,
    places: Places<F>,
    masses: MassLanes<GROUP>,
    /// Filled for limits in temperature alone.
    censuses: [Census; GROUP],
}

impl<F: Float> Default for LabelWorkspace<F> {
    fn default() -> Self {
        Self {
            scans: Scans::EMPTY,
            places: Places::default(),
            masses: MassLanes::EMPTY,
            censuses: [Census::default(); GROUP],
        }
    }
}

impl<F> LabelWorkspace<F> {
    /// Bytes that it has room for beside its own.
    pub(crate) fn bytes(&self) -> usize {
        bytes(&self.places.before)
    }
}

/// What all candidates share of one row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a, F> {
    pub(crate) row: &'a [F],
    pub(crate) scan: Scan<F>,
    pub(crate) u: f64,
    entropy: f64,
    census: Option<Census>,
}

impl<'a, F: Float> View<'a, F> {
    #[inline(always)]
    pub(crate) fn of(
        row: &'a [F],
        index: usize,
        position: usize,
        candidates: &Candidates<'_>,
        randomness: &Randomness<'_>,
    ) -> Result<Self, Error> {
        let scan = Scan::of(row, position)?;
        Ok(Self {
            row,
            scan,
            u: randomness.score_uniform(index, scan.words())?,
            entropy: if candidates.entropy { entropy(row, &scan) } else { 0.0 },
            census: candidates.census(row, &scan),
        })
    }

    #[inline(always)]
    pub(crate) fn sharpness(&self, candidate: &Scoring) -> Sharpness<F> {
        let weight = candidate.reweight.weight(self.entropy);
        Sharpness::new(weight, candidate.temperature, Grain::of(self.row.len()))
    }

    #[inline(always)]
    pub(crate) fn top_masses(&self, sharpness: &Sharpness<F>) -> Masses {
        top_masses(self.row, &self.scan, sharpness)
    }

    #[inline(always)]
    pub(crate) fn limit(&self, candidate: &Scoring, logit: F, rank: usize, scale: Scale) -> f64 {
        let Some(census) = self.census else { return f64::INFINITY };
        let weight = candidate.reweight.weight(self.entropy);
        let view = census.view(&self.scan, logit, rank, weight);
        limit_score(candidate.score, &view, self.u, candidate.temperature, scale)
    }

    /// Score of one label: the definition.
    #[inline(always)]
    pub(crate) fn label_score(&self, label: usize, candidate: &Scoring, scale: Scale) -> f64 {
        if self.row[label] == F::NEG_INFINITY {
            return f64::INFINITY;
        }
        let place = place_in(self.row, label, &self.scan);
        if candidate.is_limit() {
            return self.limit(candidate, place.logit, place.rank, scale);
        }
        let sharpness = self.sharpness(candidate);
        let masses = if is_of_top(candidate.score) {
            self.top_masses(&sharpness)
        } else {
            label_masses(sums_of(candidate.score), self.row, &self.scan, label, &place, &sharpness)
        };
        self.score(candidate.score, scale, masses, place.rank)
    }

    #[inline(always)]
    pub(crate) fn score(&self, name: Score, scale: Scale, masses: Masses, rank: usize) -> f64 {
        let [value] = score(name, scale, self.row.len(), &masses.into(), &[rank], &[self.u]);
        value
    }

    /// Scores of all labels by one candidate, given to `each` as (label, score), labels by rank;
    /// those that cannot occur come last.
    #[inline(always)]
    pub(crate) fn all_scores(
        &self,
        workspace: &mut Workspace<F>,
        candidate: &Scoring,
        scale: Scale,
        each: impl FnMut(u32, f64),
    ) {
        self.sort(workspace);
        self.sorted_scores(workspace, candidate, scale, each);
    }

    /// Sorts the labels, once for all candidates.
    pub(crate) fn sort(&self, workspace: &mut Workspace<F>) {
        workspace.order.sort(self.row);
    }

    /// What [`View::all_scores`] gives, after [`View::sort`].
    #[inline(always)]
    pub(crate) fn sorted_scores(
        &self,
        workspace: &mut Workspace<F>,
        candidate: &Scoring,
        scale: Scale,
        mut each: impl FnMut(u32, f64),
    ) {
        let Workspace { order, sums } = workspace;
        if candidate.is_limit() {
            for i in 0..order.n_possible {
                each(order.labels[i], self.limit(candidate, order.logits[i], i + 1, scale));
            }
        } else if is_of_top(candidate.score) {
            let masses = self.top_masses(&self.sharpness(candidate));
            for i in 0..order.n_possible {
                each(order.labels[i], self.score(candidate.score, scale, masses, i + 1));
            }
        } else if order.n_possible > 0 {
            // Else another thread has made all labels impossible since the row was scanned.
            let sharpness = self.sharpness(candidate);
            let mut by_rank = order.masses(sums_of(candidate.score), &sharpness, sums);
            // Some labels at a time, as the rows of a group are scored: logarithms of many cost little.
            let (wants, mut masses) = (Wants::of(candidate.score, scale), MassLanes::EMPTY);
            for labels in order.labels[..order.n_possible].chunks(LABELS) {
                by_rank.next_lanes(wants, &mut masses);
                let scores =
                    score(candidate.score, scale, self.row.len(), &masses, &masses.rank, &[self.u; LABELS]);
                labels.iter().zip(scores).for_each(|(&label, score)| each(label, score));
            }
        }
        for &label in &order.labels[order.n_possible..] {
            each(label, f64::INFINITY);
        }
    }

    /// Reweighted probabilities of all labels. `out` is as long as the row.
    #[inline(always)]
    pub(crate) fn softmax(&self, reweight: Reweight, temperature: f64, out: &mut [F]) {
        let max = self.scan.max.to_f64();
        let scale = reweight.weight(self.entropy) * temperature;
        let mut total = 0.0;
        for &z in self.row {
            total += softmax_term(max, z, scale, temperature);
        }
        for (p, &z) in out.iter_mut().zip(self.row) {
            *p = F::from_f64(softmax_term(max, z, scale, temperature) / total);
        }
    }
}

/// `exp(-d / scale)`, with its limits: the largest logits at scale 0, all possible ones at infinite T.
#[inline(always)]
fn softmax_term<F: Float>(max: f64, z: F, scale: f64, temperature: f64) -> f64 {
    let d = max - z.to_f64();
    let value = exp(-(d / scale));
    let value = if d == 0.0 || temperature == f64::INFINITY { 1.0 } else { value };
    if z == F::NEG_INFINITY { 0.0 } else { value }
}

/// What [`View::of`] gives for each row of a group, with scans, entropies and U taken together.
#[derive(Debug)]
pub(crate) struct Views<F> {
    pub(crate) scans: Scans<F>,
    entropies: [f64; GROUP],
    pub(crate) u: [f64; GROUP],
    grain: Grain,
}

impl<F: Float> Views<F> {
    /// Of rows of so many labels, not yet read.
    #[inline(always)]
    pub(crate) fn new(n_labels: usize) -> Self {
        Self { scans: Scans::EMPTY, entropies: [0.0; GROUP], u: [0.0; GROUP], grain: Grain::of(n_labels) }
    }

    /// Reads a group whose first row is row `first` of the call; `position` names a row of the group.
    #[inline(always)]
    pub(crate) fn read(
        &mut self,
        group: &mut Group<'_, F>,
        candidates: &Candidates<'_>,
        randomness: &Randomness<'_>,
        first: usize,
        position: impl Fn(usize) -> usize,
    ) -> Result<(), Error> {
        group.scan(candidates.entropy, position, &mut self.scans)?;
        complete_views(self, candidates.entropy, randomness, first, group.count)
    }

    /// [`View::sharpness`] of each row.
    #[inline(always)]
    pub(crate) fn sharpness(&self, candidate: &Scoring) -> SharpnessLanes<F> {
        SharpnessLanes::new(&candidate.reweight.weights(&self.entropies), candidate.temperature, self.grain)
    }

    /// The rows transposed, as a candidate of this scale sees them.
    #[inline(always)]
    pub(crate) fn lanes<'a>(&'a self, columns: &'a [Column<F>], scale: &'a [F; GROUP]) -> LaneRows<'a, F> {
        LaneRows { columns, max: &self.scans.max, second: &self.scans.second, scale, u: &self.u }
    }

    /// Row i of the group.
    #[inline(always)]
    pub(crate) fn view<'a>(&self, i: usize, row: &'a [F], candidates: &Candidates<'_>) -> View<'a, F> {
        let scan = self.scans.scan(i);
        View { row, scan, u: self.u[i], entropy: self.entropies[i], census: candidates.census(row, &scan) }
    }
}

instances! {
    /// Takes the entropies and U of rows that were scanned.
    fn complete_views<F: Float>(views: &mut Views<F>, with_entropy: bool, randomness: &Randomness<'_>, first: usize, count: usize) -> Result<(), Error> = complete::<F>;
}

#[inline(always)]
fn complete<F: Float>(
    views: &mut Views<F>,
    with_entropy: bool,
    randomness: &Randomness<'_>,
    first: usize,
    count: usize,
) -> Result<(), Error> {
    if with_entropy {
        views.entropies = views.scans.entropies();
    }
    randomness.score_uniforms(first, count, &views.scans.words(), &mut views.u)
}

/// Labels of a row that are scored at once: two registers of AVX-512. Of a thousand labels 32 at once took 0.96 of the time,
/// 8 at once 1.1; but lanes are idle where labels are few.
const LABELS: usize = 16;

/// Buffers that rows of one thread share.
#[derive(Debug, Default)]
pub(crate) struct Workspace<F: Float> {
    order: Order<F>,
    sums: Vec<(i128, F)>,
}

impl<F: Float> Workspace<F> {
    /// Makes room for rows of so many labels.
    pub(crate) fn reserve(&mut self, n_labels: usize) {
        self.order.reserve(n_labels);
        self.sums.clear();
        self.sums.reserve(n_labels + 1);
    }

    /// Bytes that it has room for.
    pub(crate) fn bytes(&self) -> usize {
        self.order.bytes() + bytes(&self.sums)
    }

    /// The label of a rank counted from 0, of the row that was sorted last.
    #[inline(always)]
    pub(crate) fn label(&self, i: usize) -> u32 {
        self.order.labels[i]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As when another thread writes to the array between the scan of a row and its sort.
    #[test]
    fn rows_that_become_impossible_are_no_panic() {
        let (before, after) = ([1.0_f64, 0.5, -2.0], [f64::NEG_INFINITY; 3]);
        for score in [Score::Thr, Score::Aps, Score::Saps { weight: 0.2 }, Score::Rank] {
            let scoring = Scoring::new(score, Reweight::NONE, 1.0).unwrap();
            let candidates = Candidates::only(&scoring);
            let mut view = View::of(&before, 0, 0, &candidates, &Randomness::default()).unwrap();
            view.row = &after;
            let mut scores = [0.0; 3];
            view.all_scores(&mut Workspace::default(), &scoring, Scale::Ranked, |label, score| {
                scores[label as usize] = score;
            });
            assert_eq!(scores, [f64::INFINITY; 3]);
        }
    }
}
