//! Which sums are the scores of all labels of a row made of? They come from the sorted row, to the bit as `masses.rs` takes
//! them for one label.
//!
//! O(K log K) for the order, then O(K) terms for each of the few shifts whose window (42 units of `1 / beta` in
//! float32 and 76 in float64, half of that where sums are coarse) holds them.

use super::formula::{MassLanes, Wants};
use super::masses::{Sharpness, Sums};
use crate::error::Error;
use crate::kernels::Float;
use crate::math::{Depths, Grain, each_lane, quanta};
use crate::run::{Scratch, list_bytes, reserve};
use crate::simd::Simd;

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
    sums: Vec<(i128, F)>,
}

impl<F: Float> Scratch for SortedRow<F> {
    fn bytes(&self) -> usize {
        let own = list_bytes(&self.keys) + list_bytes(&self.labels) + list_bytes(&self.logits);
        own + list_bytes(&self.sums)
    }
}

impl<F: Float> SortedRow<F> {
    /// Makes room for rows of so many labels.
    pub(crate) fn reserve(&mut self, n_labels: usize) -> Result<(), Error> {
        self.keys.clear();
        self.labels.clear();
        self.logits.clear();
        self.sums.clear();
        reserve(&mut self.keys, n_labels)?;
        reserve(&mut self.labels, n_labels)?;
        reserve(&mut self.logits, n_labels)?;
        reserve(&mut self.sums, n_labels + 1)
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

    /// The possible labels, by rank, and their masses.
    #[inline(always)]
    pub(crate) fn masses<'a, S: Simd>(
        &'a mut self,
        s: S,
        kind: Sums,
        sharpness: &'a Sharpness<F>,
    ) -> (&'a [u32], MassesByRank<'a, F>) {
        let (n, grain) = (self.n_possible, Grain::of(self.logits.len()));
        sums_after(
            s,
            &self.logits[..n],
            if kind == Sums::Others { 1 } else { n },
            grain,
            sharpness,
            &mut self.sums,
        );
        let possible = &self.logits[..n];
        let total =
            if kind == Sums::Others { F::sum(s, possible, possible[0], sharpness.scale, grain) } else { 0 };
        let sums = &self.sums;
        let masses = MassesByRank { kind, grain, possible, sharpness, sums, total, before: 0, seen: 0 };
        (&self.labels[..n], masses)
    }
}

/// For each of the first `count` ranks, the sum over the labels after it and its shift.
#[inline(always)]
fn sums_after<S: Simd, F: Float>(
    s: S,
    possible: &[F],
    count: usize,
    grain: Grain,
    sharpness: &Sharpness<F>,
    sums: &mut Vec<(i128, F)>,
) {
    let (max, scale) = (possible[0], sharpness.scale);
    sums.clear();
    // Nothing is ranked after the last label: its sum is 0, and any shift does.
    sums.resize(count, (0, possible[possible.len() - 1]));
    // From the last label back: labels that share a shift extend one sum.
    let mut below = 0;
    let mut shift = F::INFINITY;
    // Labels from here on add nothing. Shifts rise, so it falls: a search for each took an eighth of the time.
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
            below = F::sum(s, &possible[i + 1..end], shift, scale, grain);
        }
        sums[i] = (below, shift);
    }
}

/// The masses of a sorted row's labels, some after the other.
#[derive(Debug)]
pub(crate) struct MassesByRank<'a, F> {
    kind: Sums,
    grain: Grain,
    possible: &'a [F],
    sharpness: &'a Sharpness<F>,
    sums: &'a [(i128, F)],
    total: i128,
    before: i128,
    seen: usize,
}

impl<F: Float> MassesByRank<'_, F> {
    /// The masses of the next labels, at most N, with what the score wants; gives how many they are.
    ///
    /// What is not a sum is made in lanes, as [`masses`](super::masses::masses) makes it of one label.
    #[inline(always)]
    pub(crate) fn next_lanes<const N: usize>(&mut self, wants: Wants, to: &mut MassLanes<N>) -> usize {
        let (max, scale, first) = (self.possible[0], self.sharpness.scale, self.seen);
        let rest = &self.possible[first..];
        let rest = &rest[..rest.len().min(N)];
        let (mut logits, mut shifts) = ([max; N], [max; N]);
        for (i, &y) in rest.iter().enumerate() {
            let own = quanta(y, max, scale, self.grain);
            let is_other = self.kind == Sums::Others && first + i > 0;
            let (below, shift) = if is_other { (0, max) } else { self.sums[first + i] };
            let above = if is_other { self.total - own } else { self.before };
            self.before += own;
            (logits[i], shifts[i]) = (y, shift);
            (to.above[i], to.below[i]) = (F::sum_to_f64(above), F::sum_to_f64(below));
        }
        self.seen += rest.len();
        let (m, depths) = (max.to_f64(), Depths::new(scale));
        to.beta = [self.sharpness.beta; N];
        to.rank = each_lane!([0; N], |i| first + i + 1);
        if wants.distances {
            to.distance = each_lane!([0.0; N], |i| m - logits[i].to_f64());
            to.shift_distance = each_lane!([0.0; N], |i| m - shifts[i].to_f64());
            to.lead = each_lane!([0.0; N], |i| logits[i].to_f64() - shifts[i].to_f64());
        }
        if wants.terms {
            to.own = each_lane!([0.0; N], |i| depths.term_in_lanes(logits[i], max).to_f64());
            to.at_shift = each_lane!([0.0; N], |i| depths.term_in_lanes(shifts[i], max).to_f64());
        }
        rest.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::FEW_BEFORE;
    use crate::rows::Scan;
    use crate::score::masses::{label_masses, masses, sums_after_few};
    use crate::score::place::{place, place_and_before};
    use crate::simd::for_each_level;
    use proptest::prelude::*;

    fn sort_and_check<F: Float>(row: &[F], beta: f64) {
        for_each_level!(s => { sort_and_check_at(s, row, beta); });
    }

    fn sort_and_check_at<S: Simd, F: Float>(s: S, row: &[F], beta: f64) {
        let scan = Scan::of(s, row, 0).unwrap();
        let sharpness = Sharpness::<F>::new(1.0 / beta, 1.0, Grain::of(row.len()));
        let mut order = SortedRow::default();
        order.sort(row);
        for kind in [Sums::Split, Sums::Others] {
            let (labels, mut by_rank) = order.masses(s, kind, &sharpness);
            let (mut seen, mut group) = (0, MassLanes::<7>::EMPTY);
            let all = std::iter::from_fn(|| {
                let count = by_rank.next_lanes(Wants::ALL, &mut group);
                (count > 0).then(|| (0..count).map(|i| group.get(i)).collect::<Vec<_>>())
            });
            for all in all.flatten() {
                let label = labels[seen] as usize;
                let place = place(s, row, label);
                seen += 1;
                assert_eq!(place.rank, seen);
                let one = label_masses(s, kind, row, &scan, label, &place, &sharpness);
                assert_eq!(format!("{one:?}"), format!("{all:?}"), "label {label}");
                if kind == Sums::Split && (2..=FEW_BEFORE + 1).contains(&seen) {
                    let mut before = [F::ZERO; FEW_BEFORE];
                    let found = place_and_before(s, row, label, &scan, &mut before);
                    assert_eq!((found.rank, found.next), (place.rank, place.next));
                    let (max, y, shift) = (scan.max, place.logit, sharpness.shift_of(kind, &place, scan.max));
                    let (above, below) = sums_after_few(s, row, &before, y, max, shift, sharpness.scale);
                    let few = masses(max, y, seen, above, below, shift, &sharpness);
                    assert_eq!(format!("{one:?}"), format!("{few:?}"), "label {label}");
                }
            }
            assert_eq!(seen, row.iter().filter(|z| **z > F::NEG_INFINITY).count());
        }
    }

    fn logit() -> impl Strategy<Value = f64> {
        prop_oneof![
            8 => -30.0_f64..30.0,
            2 => (-4_i32..4).prop_map(f64::from),
            1 => -1e4_f64..1e4,
            1 => Just(f64::NEG_INFINITY),
        ]
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
            let narrow: Vec<f32> = row.iter().map(|&z| z as f32).collect();
            sort_and_check(&narrow, beta);
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
