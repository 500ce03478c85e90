//! From one row to the scores of one label or of all labels, for a list of candidates.
//!
//! The row is scanned once and its entropy taken once, whatever the number of candidates; consecutive
//! candidates that differ in the score alone share their masses.

use crate::elementary::exp;
use crate::error::Error;
use crate::float::Float;
use crate::masses::{Census, Order, Place, Sharpness, label_masses, place};
use crate::row::{Scan, entropy};
use crate::score::{Masses, limit_score, score};
use crate::scoring::{Reweight, Scale, Score, Scoring};
use crate::uniform::Stream;

/// Where U comes from.
#[derive(Clone, Copy, Debug)]
pub enum Uniforms<'a> {
    /// From the row and the seed.
    FromRow,
    /// One number for every row.
    Fixed(f64),
    /// One number for each row.
    Each(&'a [f64]),
}

/// The randomisation of a call.
#[derive(Clone, Copy, Debug)]
pub struct Randomness<'a> {
    /// The seed; scores are a fixed function of (x, y) for a given one.
    pub seed: u64,
    /// Where U comes from.
    pub uniforms: Uniforms<'a>,
    /// An id for each row, mixed into U: for data with many identical rows.
    pub row_ids: Option<&'a [u64]>,
}

impl Default for Randomness<'_> {
    fn default() -> Self {
        Self { seed: 0, uniforms: Uniforms::FromRow, row_ids: None }
    }
}

impl Randomness<'_> {
    /// Checks the lengths against the number of rows.
    pub(crate) fn check(&self, n_rows: usize) -> Result<(), Error> {
        if let Uniforms::Each(u) = self.uniforms
            && u.len() != n_rows
        {
            return Err(Error::Length { name: "u", found: u.len(), expected: n_rows });
        }
        if let Some(ids) = self.row_ids
            && ids.len() != n_rows
        {
            return Err(Error::Length { name: "row_ids", found: ids.len(), expected: n_rows });
        }
        Ok(())
    }

    #[inline(always)]
    fn row_id(&self, index: usize) -> Option<u64> {
        self.row_ids.map(|ids| ids[index])
    }

    #[inline(always)]
    fn score_uniform<F: Float>(&self, index: usize, scan: &Scan<F>) -> Result<f64, Error> {
        let value = match self.uniforms {
            Uniforms::FromRow => return Ok(scan.uniform(self.seed, Stream::Score, self.row_id(index))),
            Uniforms::Fixed(value) => value,
            Uniforms::Each(values) => values[index],
        };
        if (0.0..=1.0).contains(&value) { Ok(value) } else { Err(Error::Uniform { row: index, value }) }
    }

    /// The number that smooths the p-values of a row.
    #[inline(always)]
    pub(crate) fn p_value_uniform<F: Float>(&self, index: usize, scan: &Scan<F>) -> f64 {
        scan.uniform(self.seed, Stream::PValue, self.row_id(index))
    }
}

/// Candidates and what they need of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidates<'a> {
    pub(crate) list: &'a [Scoring],
    entropy: bool,
    census: bool,
    top: bool,
}

fn is_limit(temperature: f64) -> bool {
    temperature == 0.0 || temperature == f64::INFINITY
}

impl<'a> Candidates<'a> {
    pub(crate) fn new(list: &'a [Scoring]) -> Self {
        Self {
            list,
            entropy: list.iter().any(|c| c.reweight.needs_entropy()),
            census: list.iter().any(|c| is_limit(c.temperature)),
            top: list.iter().any(|c| matches!(c.score, Score::Saps { .. })),
        }
    }
}

/// What all candidates share of one row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a, F> {
    pub(crate) row: &'a [F],
    pub(crate) scan: Scan<F>,
    u: f64,
    entropy: f64,
    census: Option<Census>,
    /// The first label with the largest logit, if a candidate asks for it.
    top: usize,
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
            u: randomness.score_uniform(index, &scan)?,
            entropy: if candidates.entropy { entropy(row, &scan) } else { 0.0 },
            census: candidates.census.then(|| Census::of(row, &scan)),
            top: if candidates.top { row.iter().position(|&z| z == scan.max).unwrap_or(0) } else { 0 },
        })
    }

    #[inline(always)]
    fn sharpness(&self, reweight: Reweight, temperature: f64) -> Sharpness<F> {
        Sharpness::new(reweight.weight(self.entropy), temperature)
    }

    #[inline(always)]
    fn top_masses(&self, sharpness: &Sharpness<F>) -> Masses {
        let place = Place { logit: self.scan.max, rank: 1, next: self.scan.second };
        label_masses(self.row, &self.scan, self.top, &place, sharpness)
    }

    #[inline(always)]
    fn limit(&self, candidate: &Scoring, logit: F, rank: usize, scale: Scale) -> f64 {
        let Some(census) = self.census else { return f64::INFINITY };
        let weight = candidate.reweight.weight(self.entropy);
        let view = census.view(&self.scan, logit, rank, weight);
        limit_score(candidate.score, &view, self.u, candidate.temperature, scale)
    }

    /// Scores of one label, one for each candidate, given to `each`.
    #[inline(always)]
    pub(crate) fn label_scores(
        &self,
        label: usize,
        candidates: &Candidates<'_>,
        scale: Scale,
        mut each: impl FnMut(usize, f64),
    ) {
        if self.row[label] == F::NEG_INFINITY {
            // A label that cannot occur.
            (0..candidates.list.len()).for_each(|c| each(c, f64::INFINITY));
            return;
        }
        let place = place(self.row, label);
        let mut shared: Option<(Reweight, f64, bool, Masses)> = None;
        for (c, candidate) in candidates.list.iter().enumerate() {
            let Scoring { score: name, reweight, temperature } = *candidate;
            if is_limit(temperature) {
                each(c, self.limit(candidate, place.logit, place.rank, scale));
                continue;
            }
            let of_top = matches!(name, Score::Saps { .. });
            let masses = match shared {
                Some((r, t, top, masses)) if r == reweight && t == temperature && top == of_top => masses,
                _ => {
                    let sharpness = self.sharpness(reweight, temperature);
                    if of_top {
                        self.top_masses(&sharpness)
                    } else {
                        label_masses(self.row, &self.scan, label, &place, &sharpness)
                    }
                }
            };
            shared = Some((reweight, temperature, of_top, masses));
            each(c, score(name, &masses, place.rank, self.u, self.row.len(), scale));
        }
    }

    /// Scores of all labels by one candidate, given to `each` as (label, score), labels by rank;
    /// those that cannot occur come last.
    #[inline(always)]
    pub(crate) fn all_scores(
        &self,
        workspace: &mut Workspace<F>,
        candidate: &Scoring,
        scale: Scale,
        mut each: impl FnMut(u32, f64),
    ) {
        let Workspace { order, sums } = workspace;
        let k = self.row.len();
        let Scoring { score: name, reweight, temperature } = *candidate;
        if is_limit(temperature) {
            for i in 0..order.n_possible {
                each(order.labels[i], self.limit(candidate, order.logits[i], i + 1, scale));
            }
        } else if matches!(name, Score::Saps { .. }) {
            let masses = self.top_masses(&self.sharpness(reweight, temperature));
            for i in 0..order.n_possible {
                each(order.labels[i], score(name, &masses, i + 1, self.u, k, scale));
            }
        } else {
            order.for_each_masses(&self.sharpness(reweight, temperature), sums, |i, masses| {
                each(order.labels[i], score(name, masses, i + 1, self.u, k, scale));
            });
        }
        for &label in &order.labels[order.n_possible..] {
            each(label, f64::INFINITY);
        }
    }

    /// Reweighted probabilities of all labels. `out` is as long as the row.
    #[inline(always)]
    pub(crate) fn softmax(&self, reweight: Reweight, temperature: f64, out: &mut [F]) {
        let max = self.scan.max.to_f64();
        let weight = reweight.weight(self.entropy);
        let term = |z: F| match max - z.to_f64() {
            f64::INFINITY => 0.0,
            // The limits: the largest logits at infinite beta, all possible ones at beta = 0.
            d if d == 0.0 || temperature == f64::INFINITY => 1.0,
            d => exp(-(d / weight / temperature)),
        };
        let total: f64 = self.row.iter().map(|&z| term(z)).sum();
        for (p, &z) in out.iter_mut().zip(self.row) {
            *p = F::from_f64(term(z) / total);
        }
    }
}

/// Buffers that rows of one thread share.
#[derive(Debug, Default)]
pub(crate) struct Workspace<F> {
    pub(crate) order: Order<F>,
    sums: Vec<(i128, F)>,
}
