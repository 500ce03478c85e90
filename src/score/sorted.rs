//! What are the sums of all labels of a row? They equal those that `masses.rs` takes for one label to the
//! bit.
//!
//! ```text
//! sort the labels
//! from the last label back: if its shift is that of the label after it, extend the sum; else sum anew
//! from the first label on: extend the sum over the labels before it
//! ```
//!
//! Cost: O(K log K) for the order. Each term is then added once for each shift whose window holds it, and
//! these are few: a window is 42 units of `1 / beta` in float32 and 76 in float64, half of that where sums
//! are coarse.

use super::formula::{Masses, Sums};
use super::masses::Sharpness;
use super::scoring::Scale;
use crate::error::Error;
use crate::kernels::{self, Float};
use crate::math::{Grain, each_lane, quanta};
use crate::run::{Scratch, list_bytes, reserve};
use crate::simd::{NoLines, Simd};

/// A row sorted by falling logit, equal logits by lower label first.
#[derive(Debug, Default)]
pub(crate) struct SortedRow<F: Float> {
    keys: Vec<F::Key>,
    /// Labels by rank.
    pub(crate) labels: Vec<u32>,
    /// Their logits.
    pub(crate) logits: Vec<F>,
    /// How many are possible; the rest are `-inf`.
    pub(crate) n_possible: usize,
    /// For each of the first ranks, the sum over the labels after it and its shift.
    after: Vec<(i128, F)>,
}

impl<F: Float> Scratch for SortedRow<F> {
    fn bytes(&self) -> usize {
        let own = list_bytes(&self.keys) + list_bytes(&self.labels) + list_bytes(&self.logits);
        own + list_bytes(&self.after)
    }
}

impl<F: Float> SortedRow<F> {
    /// Makes room for rows of so many labels.
    pub(crate) fn reserve(&mut self, n_labels: usize) -> Result<(), Error> {
        self.keys.clear();
        self.labels.clear();
        self.logits.clear();
        self.after.clear();
        reserve(&mut self.keys, n_labels)?;
        reserve(&mut self.labels, n_labels)?;
        reserve(&mut self.logits, n_labels)?;
        reserve(&mut self.after, n_labels + 1)
    }

    /// Sorts the labels of a row, once for all candidates.
    pub(crate) fn sort(&mut self, row: &[F]) {
        self.keys.clear();
        self.keys.extend(row.iter().enumerate().map(|(label, &z)| F::key(z, label as u32)));
        self.keys.sort_unstable();
        self.labels.clear();
        self.labels.extend(self.keys.iter().map(|&key| F::from_key(key).0));
        self.logits.clear();
        self.logits.extend(self.keys.iter().map(|&key| F::from_key(key).1));
        self.n_possible = self.logits.partition_point(|&z| z > F::NEG_INFINITY);
    }

    /// The possible labels, by rank, and their masses. There must be one, and `sums` are not those of the top
    /// label.
    #[inline(always)]
    pub(crate) fn masses<'a, S: Simd>(
        &'a mut self,
        s: S,
        sums: Sums,
        sharpness: &'a Sharpness<F>,
    ) -> (&'a [u32], MassesByRank<'a, F>) {
        let Self { labels, logits, n_possible, after, .. } = self;
        let (possible, grain) = (&logits[..*n_possible], Grain::of(logits.len()));
        let (max, scale) = (possible[0], sharpness.scale);
        let (count, total) = match sums {
            Sums::Others => (1, kernels::sum(s, possible, max, scale, grain, NoLines)),
            _ => (possible.len(), 0),
        };
        after.clear();
        // Nothing is ranked after the last label: its sum is 0, and any shift does.
        after.resize(count, (0, possible[possible.len() - 1]));
        // From the last label back: labels that share a shift extend one sum.
        let (mut below, mut shift) = (0, F::INFINITY);
        // Labels from `end` on add nothing. Shifts rise, so `end` falls: a search for each shift took an
        // eighth of the time.
        let (mut end, deepest) = (possible.len(), grain.deepest::<F>());
        for i in (0..count.min(possible.len() - 1)).rev() {
            let next = possible[i + 1];
            let wanted = sharpness.shift(next, max);
            if wanted == shift {
                below += quanta(next, shift, scale, grain);
            } else {
                shift = wanted;
                while end > i + 1 && (shift - possible[end - 1]) * scale >= deepest {
                    end -= 1;
                }
                below = kernels::sum(s, &possible[i + 1..end], shift, scale, grain, NoLines);
            }
            after[i] = (below, shift);
        }
        let masses = MassesByRank { sums, grain, possible, sharpness, after, total, before: 0, seen: 0 };
        (&labels[..possible.len()], masses)
    }
}

/// The masses of a sorted row's labels, some after the other.
#[derive(Debug)]
pub(crate) struct MassesByRank<'a, F> {
    sums: Sums,
    grain: Grain,
    possible: &'a [F],
    sharpness: &'a Sharpness<F>,
    /// See [`SortedRow`].
    after: &'a [(i128, F)],
    total: i128,
    before: i128,
    seen: usize,
}

impl<F: Float> MassesByRank<'_, F> {
    /// The masses of the next labels, at most N, as far as scores in a scale read them. Gives their ranks.
    #[inline(always)]
    pub(crate) fn next_lanes<const N: usize>(&mut self, scale: Scale, to: &mut Masses<N>) -> [usize; N] {
        let (max, Sharpness { beta, scale: beta_scale, .. }) = (self.possible[0], *self.sharpness);
        let first = self.seen;
        let rest = &self.possible[first..];
        let rest = &rest[..rest.len().min(N)];
        let (mut logits, mut shifts) = ([max; N], [max; N]);
        for (i, &y) in rest.iter().enumerate() {
            let own = quanta(y, max, beta_scale, self.grain);
            let is_other = self.sums == Sums::Others && first + i > 0;
            let (below, shift) = if is_other { (0, max) } else { self.after[first + i] };
            let above = if is_other { self.total - own } else { self.before };
            self.before += own;
            (logits[i], shifts[i]) = (y, shift);
            (to.above[i], to.below[i]) = (F::sum_to_f64(above), F::sum_to_f64(below));
        }
        self.seen += rest.len();
        to.beta = [beta; N];
        to.complete((self.sums, scale), &[beta_scale; N], &[max; N], &logits, &shifts);
        each_lane!([0; N], |i| first + i + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{FEW_BEFORE, sums_of_few};
    use crate::rows::Scan;
    use crate::score::masses::{label_masses, masses, sum_but_one};
    use crate::score::place::{place, place_and_before};
    use crate::score::testing::narrow;
    use crate::simd::for_each_level;
    use crate::testing::logit;
    use proptest::prelude::*;

    fn sort_and_check<F: Float>(row: &[F], beta: f64) {
        for_each_level!(s => { sort_and_check_at(s, row, beta); });
    }

    fn sort_and_check_at<S: Simd, F: Float>(s: S, row: &[F], beta: f64) {
        let scan = Scan::of(s, row, 0).unwrap();
        let sharpness = Sharpness::<F>::new(1.0 / beta, 1.0, Grain::of(row.len()));
        let mut sorted = SortedRow::default();
        sorted.sort(row);
        for sums in [Sums::Split, Sums::Others] {
            let (labels, mut by_rank) = sorted.masses(s, sums, &sharpness);
            assert_eq!(labels.len(), row.iter().filter(|z| **z > F::NEG_INFINITY).count());
            for (chunk, labels) in labels.chunks(7).enumerate() {
                let mut lanes = Masses::<7>::EMPTY;
                let ranks = by_rank.next_lanes(Scale::Ranked, &mut lanes);
                for (i, &label) in labels.iter().enumerate() {
                    let (label, rank) = (label as usize, 7 * chunk + i + 1);
                    let place = place(s, row, label);
                    assert_eq!((place.rank, ranks[i]), (rank, rank));
                    let one = label_masses(s, sums, row, label, &place, scan.max, &sharpness).lane(0);
                    assert_eq!(one.map(f64::to_bits), lanes.lane(i).map(f64::to_bits), "label {label}");
                    if sums == Sums::Split && (2..=FEW_BEFORE + 1).contains(&rank) {
                        let mut before = [F::ZERO; FEW_BEFORE];
                        let found = place_and_before(s, row, label, &scan, &mut before);
                        assert_eq!((found.rank, found.next), (place.rank, place.next));
                        let (max, y, shift) =
                            (scan.max, place.logit, sharpness.shift_of(sums, &place, scan.max));
                        let (scale, grain) = (sharpness.scale, Grain::of(row.len()));
                        let [above, counted] = sums_of_few(s, &before, [max, shift], scale, grain);
                        let below = sum_but_one(s, row, y, shift, scale) - counted;
                        let few = masses(sums, max, y, (above, below), shift, &sharpness).lane(0);
                        assert_eq!(one.map(f64::to_bits), few.map(f64::to_bits), "label {label}");
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn one_label_and_all_labels_agree_to_the_bit(
            mut row in prop::collection::vec(logit(), 1..if cfg!(miri) { 9 } else { 120 }),
            log_beta in -20.0_f64..40.0,
        ) {
            row.push(0.5);
            let beta = log_beta.exp2();
            sort_and_check(&row, beta);
            sort_and_check(&narrow(&row), beta);
        }
    }

    #[test]
    fn extreme_sharpness() {
        for beta in [1e-300, 1e-30, 1e30, 1e300, f64::INFINITY] {
            sort_and_check(&[1.0_f64, 1.0, 0.0, -3.0, 1e4], beta);
            sort_and_check(&[1.0_f32, 1.0, 0.0, -3.0, 1e4], beta);
        }
    }
}
