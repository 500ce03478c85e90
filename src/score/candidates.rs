//! What do the candidates of a call need of a row, and which of them share their sums?

use super::masses::{Census, Sums};
use super::scoring::{Score, Scoring};
use crate::kernels::Float;
use crate::rows::Scan;

/// Candidates and what they need of a row.
#[derive(Debug)]
pub(crate) struct Candidates<'a> {
    pub(crate) list: &'a [Scoring],
    /// The candidates' indices, those that share their sums side by side.
    pub(crate) order: &'a [usize],
    pub(crate) entropy: bool,
    /// Whether any is a limit, and any of those asks for the mean of the logits.
    pub(crate) census: bool,
    pub(crate) mean: bool,
}

/// The order in which candidates share their sums, written over `order`.
pub(crate) fn sharing_order(list: &[Scoring], order: &mut Vec<usize>) {
    order.clear();
    order.extend(0..list.len());
    // By index among equals, and not by a stable sort, which may allocate.
    order.sort_unstable_by_key(|&c| (sums_key(&list[c]), c));
}

impl<'a> Candidates<'a> {
    /// One candidate.
    pub(crate) fn only(candidate: &'a Scoring) -> Self {
        Self::ordered(std::slice::from_ref(candidate), &[0])
    }

    /// Several that score a row one after the other: none shares its sums, and there is no order.
    pub(crate) fn apart(list: &'a [Scoring]) -> Self {
        Self::ordered(list, &[])
    }

    /// Several, in their [`sharing_order`].
    pub(crate) fn ordered(list: &'a [Scoring], order: &'a [usize]) -> Self {
        Self {
            list,
            order,
            entropy: list.iter().any(|c| c.reweight.needs_entropy()),
            census: list.iter().any(Scoring::is_limit),
            mean: list.iter().any(|c| c.score == Score::Thr && c.temperature == f64::INFINITY),
        }
    }
}

impl Candidates<'_> {
    /// What the limits among them need of a row, if there are any.
    #[inline(always)]
    pub(crate) fn census<F: Float>(&self, row: &[F], scan: &Scan<F>) -> Option<Census> {
        if self.census { Some(Census::of(row, scan, self.mean)) } else { None }
    }
}

/// Whether a score is made of the top label's masses instead of its own.
#[inline(always)]
pub(crate) fn is_of_top(score: Score) -> bool {
    matches!(score, Score::Saps { .. })
}

/// Which sums a score is made of.
#[inline(always)]
pub(crate) fn sums_of(score: Score) -> Sums {
    match score {
        Score::Thr | Score::Rank | Score::Mixed { .. } => Sums::Others,
        Score::Aps | Score::Raps { .. } | Score::Saps { .. } => Sums::Split,
    }
}

/// What the scores of all labels of a row are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shared {
    /// Sums that are split at the label.
    Split,
    /// Of labels that are not the top one: the sum of all labels, each less its own term.
    Others,
    /// The masses of the top label.
    Top,
}

impl Shared {
    #[inline(always)]
    pub(crate) fn of(score: Score) -> Self {
        match sums_of(score) {
            _ if is_of_top(score) => Self::Top,
            Sums::Others => Self::Others,
            Sums::Split => Self::Split,
        }
    }
}

/// Candidates with equal keys have equal sums, and of these [want](super::formula::Wants) the same.
pub(crate) type SumsKey = (u64, u64, u64, bool, Sums);

/// The key of a candidate.
#[inline(always)]
pub(crate) fn sums_key(candidate: &Scoring) -> SumsKey {
    let (gamma, power) = candidate.reweight.bits();
    let Scoring { score, temperature, .. } = *candidate;
    (gamma, power, temperature.to_bits(), is_of_top(score), sums_of(score))
}
