//! What do the candidates of a call need of a row, and which of them share their sums?

use super::formula::Sums;
use super::limits::Census;
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
    /// Whether any is a limit in temperature, and whether any limit reads the mean of the logits.
    pub(crate) census: bool,
    pub(crate) mean: bool,
}

/// Writes the order in which candidates that share their sums stand side by side to `order`.
pub(crate) fn sharing_order(list: &[Scoring], order: &mut Vec<usize>) {
    order.clear();
    order.extend(0..list.len());
    // A stable sort may allocate, so the index orders equals.
    order.sort_unstable_by_key(|&c| (sums_key(&list[c]), c));
}

impl<'a> Candidates<'a> {
    /// One candidate.
    pub(crate) fn only(candidate: &'a Scoring) -> Self {
        Self::ordered(std::slice::from_ref(candidate), &[0])
    }

    /// Several that score a row one after the other, without an order: none shares its sums.
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

    /// What the limits among them need of a row, if there are any.
    #[inline(always)]
    pub(crate) fn census<F: Float>(&self, row: &[F], scan: &Scan<F>) -> Option<Census> {
        if self.census { Some(Census::of(row, scan, self.mean)) } else { None }
    }
}

/// Candidates with equal keys have equal [`Masses`](super::formula::Masses).
pub(crate) type SumsKey = (u64, u64, u64, Sums);

/// The key of a candidate.
#[inline(always)]
pub(crate) fn sums_key(candidate: &Scoring) -> SumsKey {
    let (gamma, power) = candidate.reweight.bits();
    (gamma, power, candidate.temperature.to_bits(), Sums::of(candidate.score))
}
