//! What is the score of a label in one row? The definition, which every faster form must equal.

use super::candidates::Candidates;
use super::formula::{Masses, Sums, score};
use super::limits::Census;
use super::masses::{Sharpness, label_masses};
use super::place::{Place, place_in};
use super::scoring::{Reweight, Scale, Score, Scoring};
use super::sorted::SortedRow;
use crate::error::Error;
use crate::kernels::Float;
use crate::math::{Grain, Randomness, exp};
use crate::rows::{Scan, entropy};
use crate::simd::Simd;

/// So many labels of a row are scored at once: two registers of AVX-512. With a thousand labels, 32 at once
/// took 0.96 of the time and 8 at once 1.1. Where labels are few, more lanes would be idle.
const LABELS: usize = 16;

/// What all candidates share of one row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowView<'a, F> {
    pub(crate) row: &'a [F],
    pub(crate) scan: Scan<F>,
    pub(crate) u: f64,
    pub(super) entropy: f64,
    pub(super) census: Option<Census>,
}

impl<'a, F: Float> RowView<'a, F> {
    #[inline(always)]
    pub(crate) fn of<S: Simd>(
        s: S,
        row: &'a [F],
        candidates: &Candidates<'_>,
        randomness: &Randomness<'_>,
    ) -> Result<Self, Error> {
        let scan = Scan::of(s, row, 0)?;
        Ok(Self {
            row,
            scan,
            u: randomness.score_uniform(0, scan.words())?,
            entropy: if candidates.entropy { entropy(s, row, &scan) } else { 0.0 },
            census: candidates.census(row, &scan),
        })
    }

    #[inline(always)]
    pub(crate) fn sharpness(&self, candidate: &Scoring) -> Sharpness<F> {
        let weight = candidate.reweight.weight(self.entropy);
        Sharpness::new(weight, candidate.temperature, Grain::of(self.row.len()))
    }

    /// The masses of the label ranked first.
    #[inline(always)]
    pub(crate) fn top_masses<S: Simd>(&self, s: S, sharpness: &Sharpness<F>) -> Masses {
        label_masses(s, Sums::Top, self.row, 0, &Place::of_top(&self.scan), self.scan.max, sharpness)
    }

    /// Score of a possible label by a candidate that is a limit in temperature.
    #[inline(always)]
    pub(crate) fn limit(&self, candidate: &Scoring, logit: F, rank: usize, scale: Scale) -> f64 {
        let Some(census) = self.census else { return f64::INFINITY };
        let weight = candidate.reweight.weight(self.entropy);
        census.score(candidate, scale, &self.scan, (logit, rank), weight, self.u)
    }

    /// Score of one label: the definition.
    #[inline(always)]
    pub(crate) fn label_score<S: Simd>(&self, s: S, label: usize, candidate: &Scoring, scale: Scale) -> f64 {
        if self.row[label] == F::NEG_INFINITY {
            return f64::INFINITY;
        }
        let place = place_in(s, self.row, label, &self.scan);
        if candidate.is_limit() {
            return self.limit(candidate, place.logit, place.rank, scale);
        }
        let sharpness = self.sharpness(candidate);
        let masses = match Sums::of(candidate.score) {
            Sums::Top => self.top_masses(s, &sharpness),
            sums => label_masses(s, sums, self.row, label, &place, self.scan.max, &sharpness),
        };
        self.score(candidate.score, scale, &masses, place.rank)
    }

    /// Score of a label of this rank, from its masses or, for SAPS, those of the top label.
    #[inline(always)]
    pub(crate) fn score(&self, name: Score, scale: Scale, masses: &Masses, rank: usize) -> f64 {
        let [value] = score(name, scale, self.row.len(), masses, &[rank], &[self.u]);
        value
    }

    /// Gives `each` all labels by rank with their scores; impossible labels come last. `sorted` must hold the
    /// row.
    #[inline(always)]
    pub(crate) fn sorted_scores<S: Simd>(
        &self,
        s: S,
        sorted: &mut SortedRow<F>,
        candidate: &Scoring,
        scale: Scale,
        mut each: impl FnMut(u32, f64),
    ) {
        if candidate.is_limit() {
            for i in 0..sorted.n_possible {
                each(sorted.labels[i], self.limit(candidate, sorted.logits[i], i + 1, scale));
            }
        } else if Sums::of(candidate.score) == Sums::Top {
            let masses = self.top_masses(s, &self.sharpness(candidate));
            for i in 0..sorted.n_possible {
                each(sorted.labels[i], self.score(candidate.score, scale, &masses, i + 1));
            }
        } else if sorted.n_possible > 0 {
            // There is none only if another thread has written to the row since it was scanned.
            let sharpness = self.sharpness(candidate);
            let (labels, mut by_rank) = sorted.masses(s, Sums::of(candidate.score), &sharpness);
            // Some labels at a time: logarithms cost little in lanes.
            let mut masses = Masses::EMPTY;
            for labels in labels.chunks(LABELS) {
                let rank = by_rank.next_lanes(scale, &mut masses);
                let u = [self.u; LABELS];
                let scores = score(candidate.score, scale, self.row.len(), &masses, &rank, &u);
                labels.iter().zip(scores).for_each(|(&label, score)| each(label, score));
            }
        }
        for &label in &sorted.labels[sorted.n_possible..] {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::Score;
    use crate::simd::baseline;

    /// As when another thread writes to the array between the scan of a row and its sort.
    #[test]
    fn rows_that_become_impossible_are_no_panic() {
        let (before, after) = ([1.0_f64, 0.5, -2.0], [f64::NEG_INFINITY; 3]);
        for score in [Score::Thr, Score::Aps, Score::Saps { weight: 0.2 }, Score::Rank] {
            let scoring = Scoring::new(score, Reweight::NONE, 1.0).unwrap();
            let candidates = Candidates::only(&scoring);
            let mut view = RowView::of(baseline(), &before, &candidates, &Randomness::default()).unwrap();
            view.row = &after;
            let mut scores = [0.0; 3];
            let mut sorted = SortedRow::default();
            sorted.sort(view.row);
            view.sorted_scores(baseline(), &mut sorted, &scoring, Scale::Ranked, |label, score| {
                scores[label as usize] = score;
            });
            assert_eq!(scores, [f64::INFINITY; 3]);
        }
    }
}
