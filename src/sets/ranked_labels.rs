//! What are the first labels of a row by rank?
//!
//! ```text
//! take the labels down to a floor: lower ones cannot matter
//! when a rank is wanted that is not yet sorted:
//!     few labels are left and fewer than three are sorted: find the next one
//!     else: select the next sixteen, or as many as are sorted already, and sort them
//! ```
//!
//! Sets hold a few of many labels. A set of any fixed size costs O(K).

use crate::error::Error;
use crate::kernels::{self, FEW_LABELS, Float, LabelBuffer, MassWanted};
use crate::run::{list_bytes, reserve};
use crate::simd::Simd;

/// Labels by rank, sorted as far as they were wanted.
#[derive(Debug, Default)]
pub(crate) struct RankedLabels<F: Float> {
    /// As long as the longest row; the first `taken` are in use.
    keys: Vec<F::Key>,
    /// The labels by rank and their logits, as far as sorted.
    ranked: Vec<u32>,
    logits: Vec<F>,
    buffer: LabelBuffer<F>,
    /// Whether the labels are in the buffer, and not among the keys.
    is_in_vectors: bool,
    /// Whether all possible labels were taken.
    is_whole: bool,
    taken: usize,
    sorted: usize,
    /// Down to where labels were taken by [`Self::reach`].
    floor: Option<F>,
}

/// So many labels are sorted at first; each further step doubles them.
const FIRST_SORTED: usize = 16;
/// So many labels are found one by one before the others are sorted: most sets need no more.
const ONE_BY_ONE: usize = 3;
/// Each of them takes a pass over those that are left, so they are found one by one only among so many.
const FEW_LEFT: usize = 64;

impl<F: Float> RankedLabels<F> {
    /// Makes room for rows of so many labels.
    pub(crate) fn reserve(&mut self, n_labels: usize) -> Result<(), Error> {
        self.keys.clear();
        self.ranked.clear();
        self.logits.clear();
        reserve(&mut self.keys, n_labels)?;
        reserve(&mut self.ranked, n_labels)?;
        reserve(&mut self.logits, n_labels)?;
        if n_labels > FEW_LABELS { self.buffer.make_room(n_labels) } else { Ok(()) }
    }

    /// Bytes that it has room for.
    pub(crate) fn bytes(&self) -> usize {
        list_bytes(&self.keys) + list_bytes(&self.ranked) + list_bytes(&self.logits) + self.buffer.bytes()
    }

    /// Forgets the last row.
    #[inline(always)]
    pub(crate) fn forget(&mut self) {
        self.floor = None;
    }

    /// Takes the labels of a row down to `floor`, unless they were taken since `forget`. It takes them twice
    /// as far from the maximum, as the next cut may reach further.
    #[inline(always)]
    pub(crate) fn reach<S: Simd>(&mut self, s: S, row: &[F], max: F, floor: F) {
        if self.floor.is_none_or(|known| floor < known) {
            let further = floor - (max - floor);
            let further = if further > F::NEG_INFINITY { further } else { F::NEG_INFINITY };
            self.take(s, row, further);
            self.floor = Some(further);
        }
    }

    /// Takes the labels of a long row down to a finite `floor`, or the first of them that hold a mass.
    #[inline(always)]
    pub(crate) fn take_in_vectors<S: Simd>(
        &mut self,
        s: S,
        row: &[F],
        floor: F,
        wanted: Option<&MassWanted<F>>,
    ) {
        kernels::take_labels(s, row, floor, wanted, &mut self.buffer);
        self.forget_order(self.buffer.taken);
        self.is_in_vectors = true;
        self.is_whole = wanted.is_none() && floor == F::ZERO - F::MAX;
    }

    /// Ranks more of what was taken in vectors, or turns the rest into keys.
    fn extend_in_vectors<S: Simd>(&mut self, s: S) {
        let done = self.sorted;
        if kernels::rank_labels(s, &mut self.buffer) {
            let LabelBuffer { ranked, ranked_logits, ranked_labels, .. } = &self.buffer;
            self.ranked.extend_from_slice(&ranked_labels[done..*ranked]);
            self.logits.extend_from_slice(&ranked_logits[done..*ranked]);
            self.sorted = *ranked;
            return;
        }
        self.is_in_vectors = false;
        self.keys.resize(self.keys.len().max(self.taken), F::key(F::ZERO, 0));
        let LabelBuffer { logits, labels, .. } = &self.buffer;
        for i in done..self.taken {
            self.keys[i] = F::key(logits[i], labels[i]);
        }
    }

    fn forget_order(&mut self, taken: usize) {
        self.taken = taken;
        self.sorted = 0;
        self.is_in_vectors = false;
        self.ranked.clear();
        self.logits.clear();
    }

    /// Takes the labels of a row whose logits are at least `floor` and possible.
    #[inline(always)]
    pub(crate) fn take<S: Simd>(&mut self, s: S, row: &[F], floor: F) {
        if row.len() > FEW_LABELS {
            self.take_in_vectors(s, row, floor.larger(F::ZERO - F::MAX), None);
            return;
        }
        if self.keys.len() < row.len() {
            self.keys.resize(row.len(), F::key(F::ZERO, 0));
        }
        let keys = &mut self.keys[..row.len()];
        let mut taken = 0;
        // Every key is written, and the next one overwrites it if it is not kept: a branch would be
        // mispredicted too often.
        for (label, &z) in row.iter().enumerate() {
            keys[taken] = F::key(z, label as u32);
            taken += usize::from((z >= floor) & (z > F::NEG_INFINITY));
        }
        self.forget_order(taken);
        self.is_whole = floor == F::NEG_INFINITY;
    }

    /// The logit ranked after rank `i` counted from 0, `-inf` if no possible label is; `None` if it was not
    /// taken.
    #[inline(always)]
    pub(crate) fn next_logit<S: Simd>(&mut self, s: S, i: usize) -> Option<F> {
        let is_last = self.is_whole.then_some(F::NEG_INFINITY);
        self.get(s, i + 1).map(|(_, logit)| logit).or(is_last)
    }

    /// The label of a rank counted from 0, and its logit.
    #[inline(always)]
    pub(crate) fn get<S: Simd>(&mut self, s: S, i: usize) -> Option<(u32, F)> {
        while i >= self.sorted {
            if self.sorted == self.taken {
                return None;
            }
            self.extend(s);
        }
        Some((self.ranked[i], self.logits[i]))
    }

    fn extend<S: Simd>(&mut self, s: S) {
        if self.is_in_vectors {
            return self.extend_in_vectors(s);
        }
        let rest = &mut self.keys[self.sorted..self.taken];
        if self.sorted < ONE_BY_ONE && rest.len() <= FEW_LEFT {
            let mut first = 0;
            for i in 1..rest.len() {
                first = if rest[i] < rest[first] { i } else { first };
            }
            rest.swap(0, first);
            self.keep_order(1);
            return;
        }
        let step = self.sorted.max(FIRST_SORTED).min(rest.len());
        if step < rest.len() {
            rest.select_nth_unstable(step);
        }
        rest[..step].sort_unstable();
        self.keep_order(step);
    }

    /// Says that so many more keys are in order.
    #[inline(always)]
    fn keep_order(&mut self, more: usize) {
        let keys = &self.keys[self.sorted..self.sorted + more];
        self.ranked.extend(keys.iter().map(|&key| F::from_key(key).0));
        self.logits.extend(keys.iter().map(|&key| F::from_key(key).1));
        self.sorted += more;
    }

    /// The labels of the first ranks, which were sorted.
    #[inline(always)]
    pub(crate) fn labels(&self, count: usize) -> &[u32] {
        &self.ranked[..count]
    }

    /// The logits from a rank on, counted from 0, as far as sorted but at least one; `None` after the last.
    #[inline(always)]
    pub(crate) fn ranked_from<S: Simd>(&mut self, s: S, i: usize) -> Option<&[F]> {
        self.get(s, i)?;
        Some(&self.logits[i..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::for_each_level;

    /// Takes all labels of a row, and checks their order; gives them and the order.
    fn check<S: Simd>(s: S, row: &[f32]) -> (RankedLabels<f32>, Vec<u32>) {
        let mut expected: Vec<u32> = (0..row.len() as u32).collect();
        expected.sort_by(|&a, &b| row[b as usize].total_cmp(&row[a as usize]).then(a.cmp(&b)));
        let mut labels = RankedLabels::default();
        labels.reserve(row.len()).unwrap();
        labels.take(s, row, f32::NEG_INFINITY);
        let found: Vec<u32> = (0..row.len()).map(|i| labels.get(s, i).unwrap().0).collect();
        assert_eq!(found, expected);
        assert!(labels.get(s, row.len()).is_none());
        (labels, expected)
    }

    /// Every pivot of the vectors is among the largest logits that are left, so that they give up.
    #[test]
    fn rows_made_to_be_slow_are_ordered_by_keys() {
        let (mut row, mut left) = (vec![-1.0_f32; 2000], (0..2000).collect::<Vec<_>>());
        while left.len() > 5 {
            let step = left.len() / 5;
            for i in [2, 1, 0] {
                let next = left.len() as f32;
                row[left.remove(step / 2 + i * step)] = next;
            }
        }
        for_each_level!(s => { assert!(!check(s, &row).0.is_in_vectors); });
    }

    #[test]
    fn orders_are_extended_as_needed() {
        let row: Vec<f32> = (0..1000).map(|i| ((i * 7919) % 499) as f32).collect();
        for_each_level!(s => {
            let (mut labels, expected) = check(s, &row);
            labels.take(s, &row, 490.0);
            assert_eq!(labels.taken, row.iter().filter(|z| **z >= 490.0).count());
            labels.forget();
            for floor in [480.0, 490.0, 470.0, 100.0, f32::NEG_INFINITY, 480.0] {
                labels.reach(s, &row, 498.0, floor);
                let wanted = row.iter().filter(|z| **z >= floor).count();
                assert!(labels.taken >= wanted);
                assert!((0..wanted).all(|i| labels.get(s, i).unwrap().0 == expected[i]));
            }
        });
    }
}
