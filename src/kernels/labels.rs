//! Which labels of a long float32 row can be in its set, in the order of their ranks?
//!
//! ```text
//! take:    the labels with logits of at least a floor; if a mass is wanted, of those the first that hold it and a few more
//!          (found by bisection: three thresholds are tried in each of three passes)
//! rank:    a quicksort that stops after the first part, down to parts in which each label is compared with all others
//! leading: how many of the first labels hold no more than a given sum
//! ```
#![allow(unsafe_code, reason = "vector loads and stores, and instructions of features that were detected")]

use crate::error::Error;
use crate::math::WIDTH;
#[cfg(target_arch = "x86_64")]
use crate::math::deepest;
#[cfg(target_arch = "x86_64")]
use crate::simd::Vector;

#[cfg(target_arch = "x86_64")]
use super::terms::{depth, exp2};

/// Up to this many terms are added in float32 lanes: 1024 roundings in each of 8 lanes are less than 6.2e-5.
#[cfg(target_arch = "x86_64")]
const MOST_SUMMED: usize = 8192;
/// Up to this many labels a row is walked as it is. Beyond, it pays to find out first, by a logarithm, which labels
/// are too low to be in the set, and to take and rank the others in vectors.
pub(crate) const FEW_LABELS: usize = 64;

/// The mass that labels must hold for all after them to be out, in units of the largest term.
#[derive(Clone, Copy, Debug)]
pub struct MassWanted {
    pub(crate) mass: f32,
    pub(crate) max: f32,
    pub(crate) scale: f32,
}

/// Parts of what was taken that may wait to be ranked, and how often a label may be moved on average: more than
/// twice what rows in no particular order need.
const MOST_WAITING: usize = 48;
const MOST_ROUNDS: usize = 48;

/// Labels of a row that may be in its set, with room for a vector beyond them.
#[derive(Debug)]
pub struct LabelBuffer {
    pub(crate) logits: Vec<f32>,
    pub(crate) labels: Vec<u32>,
    pub(crate) terms: Vec<f32>,
    pub(crate) spare: Vec<u32>,
    /// By rank, the first `ranked` of them.
    pub(crate) ranked_logits: Vec<f32>,
    pub(crate) ranked_labels: Vec<u32>,
    pub(crate) taken: usize,
    pub(crate) ranked: usize,
    /// Parts, as their starts and lengths, whose labels rank before those of the parts below them.
    waiting: [(usize, usize); MOST_WAITING],
    parts: usize,
    moved: usize,
}

impl Default for LabelBuffer {
    fn default() -> Self {
        Self {
            logits: Vec::new(),
            labels: Vec::new(),
            terms: Vec::new(),
            spare: Vec::new(),
            ranked_logits: Vec::new(),
            ranked_labels: Vec::new(),
            taken: 0,
            ranked: 0,
            waiting: [(0, 0); MOST_WAITING],
            parts: 0,
            moved: 0,
        }
    }
}

impl LabelBuffer {
    /// Bytes that there is room for.
    pub(crate) fn bytes(&self) -> usize {
        let labels = vec_bytes(&self.labels) + vec_bytes(&self.spare) + vec_bytes(&self.ranked_labels);
        labels + vec_bytes(&self.logits) + vec_bytes(&self.terms) + vec_bytes(&self.ranked_logits)
    }

    /// Makes room for rows of so many labels.
    pub(crate) fn make_room(&mut self, n_labels: usize) -> Result<(), Error> {
        let room = n_labels + WIDTH;
        if self.logits.len() < room {
            grow(&mut self.logits, room)?;
            grow(&mut self.labels, room)?;
            grow(&mut self.terms, room)?;
            grow(&mut self.spare, room)?;
            grow(&mut self.ranked_logits, n_labels)?;
            grow(&mut self.ranked_labels, n_labels)?;
        }
        Ok(())
    }

    /// Says that so many labels were taken, none of them ranked.
    #[cfg(target_arch = "x86_64")]
    fn begin(&mut self, taken: usize) {
        // What ranks labels writes a vector beyond them.
        assert!(
            taken + WIDTH <= self.logits.len() && taken <= self.ranked_logits.len(),
            "room for {taken} labels"
        );
        (self.taken, self.ranked, self.moved) = (taken, 0, 0);
        self.parts = 1;
        self.waiting[0] = (0, taken);
    }

    /// The part whose labels rank next.
    #[cfg(target_arch = "x86_64")]
    fn next_part(&mut self) -> Option<(usize, usize)> {
        self.parts = self.parts.checked_sub(1)?;
        Some(self.waiting[self.parts])
    }

    /// Says that a part was split, after its first labels; `false` where the limits are met.
    #[cfg(target_arch = "x86_64")]
    fn wait(&mut self, start: usize, higher: usize, count: usize) -> bool {
        self.moved += count;
        if self.parts + 2 > MOST_WAITING || self.moved > MOST_ROUNDS * self.taken {
            return false;
        }
        self.waiting[self.parts] = (start + higher, count - higher);
        self.waiting[self.parts + 1] = (start, higher);
        self.parts += 2;
        true
    }
}

/// Lengthens a list with zeros.
fn grow<T: Clone + Default>(list: &mut Vec<T>, length: usize) -> Result<(), Error> {
    let more = length - list.len();
    list.try_reserve(more).map_err(|_| Error::Memory { elements: length, size: size_of::<T>() })?;
    list.resize(length, T::default());
    Ok(())
}

/// Bytes that a list has room for.
fn vec_bytes<T>(list: &Vec<T>) -> usize {
    list.capacity() * size_of::<T>()
}

/// Each pass over the labels tries three thresholds at once: 1/64 of the range is left after three passes. With
/// two or four, sets of 56 among 1000 labels take 5 and 12 % longer.
#[cfg(target_arch = "x86_64")]
const PASSES: usize = 3;

/// Labels that are ranked by comparing each with all others.
#[cfg(target_arch = "x86_64")]
const MOST_COMPARED: usize = 64;

/// Takes the labels with logits of at least `floor`, which is finite, of those the first that hold the mass
/// `wanted` and a few more, to be ranked.
///
/// # Safety
/// The instruction set of V must be available.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn take<V: Vector>(
    row: &[f32],
    floor: f32,
    wanted: Option<&MassWanted>,
    to: &mut LabelBuffer,
) -> bool {
    assert!(row.len() + WIDTH <= to.logits.len(), "room for {} labels", row.len());
    // SAFETY: there is room for the row and a vector more; the caller vouches for the instruction set.
    unsafe {
        let mut taken = gather::<V>(row, floor, to);
        if let Some(wanted) = wanted
            && taken > 2 * V::LANES
            && taken <= MOST_SUMMED
        {
            let threshold = threshold::<V>(floor, taken, wanted, to);
            if threshold > floor {
                taken = keep::<V>(threshold, taken, to);
            }
        }
        to.begin(taken);
    }
    true
}

/// The labels with logits of at least `floor`, in their order, and a vector of `-inf` after them.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn gather<V: Vector>(row: &[f32], floor: f32, to: &mut LabelBuffer) -> usize {
    let (logits, labels) = (to.logits.as_mut_ptr(), to.labels.as_mut_ptr());
    let mut taken = 0;
    // SAFETY: what is taken never overtakes what is read, and there is room for a vector more.
    unsafe {
        let floor = V::splat(floor);
        for start in (0..row.len()).step_by(V::LANES) {
            let (from, left) = (row.as_ptr().add(start), row.len() - start);
            let z = if left >= V::LANES { V::load(from) } else { V::load_part(from, left) };
            let high = z.greater_or_equal(floor);
            let count = V::count(high) as usize;
            // Most vectors have no label that is high enough.
            if count > 0 {
                z.compress(high, logits.add(taken));
                V::compress_labels(high, start as u32, labels.add(taken));
                taken += count;
            }
        }
        V::splat(f32::NEG_INFINITY).store(logits.add(taken));
    }
    taken
}

/// A logit, at least `floor`, such that the labels from there on hold the mass wanted; `floor` where none was
/// found.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn threshold<V: Vector>(floor: f32, taken: usize, wanted: &MassWanted, to: &mut LabelBuffer) -> f32 {
    let (logits, terms) = (to.logits.as_ptr(), to.terms.as_mut_ptr());
    let vectors = taken.div_ceil(V::LANES);
    // SAFETY: there is room for what was taken and a vector more, and the last vector is filled with -inf.
    unsafe {
        let (zero, shift) = (V::splat(0.0), V::splat(wanted.max + 0.0));
        let (bottom, scale) = (V::splat(deepest(wanted.scale)), V::splat(wanted.scale));
        for i in 0..vectors {
            let z = V::load(logits.add(i * V::LANES));
            exp2(depth(z, shift, bottom), scale, 1.0).store(terms.add(i * V::LANES));
        }
        let (mut low, mut high) = (floor, wanted.max);
        for _ in 0..PASSES {
            let step = 0.25 * (high - low);
            let tried = [low + step, low + 2.0 * step, high - step];
            let at = [V::splat(tried[0]), V::splat(tried[1]), V::splat(tried[2])];
            let mut sums = [zero; 3];
            for i in 0..vectors {
                let z = V::load(logits.add(i * V::LANES));
                let e = V::load(terms.add(i * V::LANES));
                for j in 0..3 {
                    sums[j] = sums[j].add(V::select(z.greater_or_equal(at[j]), e, zero));
                }
            }
            (low, high) = if across(sums[2]) >= wanted.mass {
                (tried[2], high)
            } else if across(sums[1]) >= wanted.mass {
                (tried[1], tried[2])
            } else if across(sums[0]) >= wanted.mass {
                (tried[0], tried[1])
            } else {
                (low, tried[0])
            };
        }
        // Logits further apart than the type can say leave no threshold behind.
        if low <= wanted.max { low } else { floor }
    }
}

/// The sum of the lanes.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn across<V: Vector>(sum: V) -> f32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let mut sum = sum;
        if V::LANES > 8 {
            sum = sum.add(sum.swapped::<8>());
        }
        sum = sum.add(sum.swapped::<4>());
        sum = sum.add(sum.swapped::<2>());
        sum.add(sum.swapped::<1>()).first()
    }
}

/// Keeps the labels from a threshold on, and a vector of `-inf` after them.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn keep<V: Vector>(threshold: f32, taken: usize, to: &mut LabelBuffer) -> usize {
    let (logits, labels) = (to.logits.as_mut_ptr(), to.labels.as_mut_ptr().cast::<f32>());
    let mut kept = 0;
    // SAFETY: vectors are read before they are written over, since what is kept never overtakes what is read;
    // labels are moved as patterns.
    unsafe {
        let threshold = V::splat(threshold);
        for i in 0..taken.div_ceil(V::LANES) {
            let z = V::load(logits.add(i * V::LANES));
            let label = V::load(labels.add(i * V::LANES));
            let high = z.greater_or_equal(threshold);
            z.compress(high, logits.add(kept));
            label.compress(high, labels.add(kept));
            kept += V::count(high) as usize;
        }
        V::splat(f32::NEG_INFINITY).store(logits.add(kept));
    }
    kept
}

/// Puts the next labels into the order of their ranks, at least one if there are more; `false` where logits are
/// laid out to make that slow.
///
/// A quicksort whose parts keep the order of labels, so that equal logits stay as they rank, down to parts in
/// which each label is compared with all others: without a branch that depends on a logit.
///
/// # Safety
/// The instruction set of V must be available.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn rank<V: Vector>(to: &mut LabelBuffer) -> bool {
    while let Some((start, count)) = to.next_part() {
        // SAFETY: parts lie inside what was taken, after which there is room for a vector.
        unsafe {
            let (logits, labels) = (to.logits.as_mut_ptr(), to.labels.as_mut_ptr().cast::<f32>());
            let (after, labels_after) = (logits.add(start + count), labels.add(start + count));
            let (kept, kept_labels) = (V::load(after), V::load(labels_after));
            V::splat(f32::NEG_INFINITY).store(after);
            if count <= MOST_COMPARED {
                compare::<V>(start, count, to);
                kept.store(after);
                to.ranked = start + count;
                return true;
            }
            let pivot = middle(&to.logits[start..start + count]);
            let mut higher = split::<V, true>(start, count, pivot, to);
            let all = higher == count;
            if all {
                // The pivot is the smallest: labels with its logit are in order.
                V::splat(f32::NEG_INFINITY).store(after);
                higher = split::<V, false>(start, count, pivot, to);
            }
            kept.store(after);
            kept_labels.store(labels_after);
            if higher == 0 {
                to.ranked_logits[start..start + count].copy_from_slice(&to.logits[start..start + count]);
                to.ranked_labels[start..start + count].copy_from_slice(&to.labels[start..start + count]);
                to.ranked = start + count;
                return true;
            }
            if !to.wait(start, higher, count) {
                return false;
            }
        }
    }
    true
}

/// The middle one of five of the logits.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn middle(logits: &[f32]) -> f32 {
    let step = logits.len() / 5;
    let mut some = [0.0; 5];
    for i in 0..5 {
        some[i] = logits[step / 2 + i * step];
    }
    // Selected by exchanges, each of which is two instructions.
    for (i, j) in [(0, 1), (3, 4), (0, 3), (1, 4), (1, 2), (2, 3), (1, 2)] {
        let (a, b): (f32, f32) = (some[i], some[j]);
        some[i] = if a < b { a } else { b };
        some[j] = if a < b { b } else { a };
    }
    some[2]
}

/// Moves labels that are at least the pivot (`EQUAL`), or above it, before the others, both in their order; how
/// many they are. The part has a vector of `-inf` after it.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn split<V: Vector, const EQUAL: bool>(
    start: usize,
    count: usize,
    pivot: f32,
    to: &mut LabelBuffer,
) -> usize {
    // SAFETY: as in [`keep`]; the lower ones go where nothing is, and from there after the higher ones. Labels
    // are moved as patterns.
    unsafe {
        let (logits, labels) =
            (to.logits.as_mut_ptr().add(start), to.labels.as_mut_ptr().add(start).cast::<f32>());
        let (lower_logits, lower_labels) = (to.terms.as_mut_ptr(), to.spare.as_mut_ptr().cast::<f32>());
        let pivot = V::splat(pivot);
        let (mut higher, mut lower) = (0, 0);
        for i in (0..count).step_by(V::LANES) {
            let (z, label) = (V::load(logits.add(i)), V::load(labels.add(i)));
            let (high, low) = if EQUAL {
                (z.greater_or_equal(pivot), pivot.greater(z))
            } else {
                (z.greater(pivot), pivot.greater_or_equal(z))
            };
            z.compress(high, logits.add(higher));
            label.compress(high, labels.add(higher));
            z.compress(low, lower_logits.add(lower));
            label.compress(low, lower_labels.add(lower));
            let moved = V::count(high) as usize;
            higher += moved;
            // The filling is behind all others.
            lower += V::LANES.min(count - i) - moved;
        }
        for i in (0..lower).step_by(V::LANES) {
            V::load(lower_logits.add(i)).store(logits.add(higher + i));
            V::load(lower_labels.add(i)).store(labels.add(higher + i));
        }
        higher
    }
}

/// Ranks a part by comparing each label with all others. The part has a vector of `-inf` after it.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn compare<V: Vector>(start: usize, count: usize, to: &mut LabelBuffer) {
    let vectors = count.div_ceil(V::LANES);
    for j in 0..count {
        let (own, within) = (j / V::LANES, j % V::LANES);
        // SAFETY: the vectors reach at most a vector beyond the part.
        let before = unsafe {
            let logits = to.logits.as_ptr().add(start);
            let z = V::splat(*logits.add(j));
            let mut before = 0;
            for i in 0..own {
                before += V::count(V::load(logits.add(i * V::LANES)).greater_or_equal(z));
            }
            let same = V::load(logits.add(own * V::LANES));
            let lower = V::bits(same.greater_or_equal(z)) & ((1 << within) - 1);
            before += (V::bits(same.greater(z)) | lower).count_ones();
            for i in own + 1..vectors {
                before += V::count(V::load(logits.add(i * V::LANES)).greater(z));
            }
            before as usize
        };
        to.ranked_logits[start + before] = to.logits[start + j];
        to.ranked_labels[start + before] = to.labels[start + j];
    }
}

/// How many of the logits, from the first on, have terms that add up to at most `limit` quanta, and their sum.
///
/// # Safety
/// The instruction set of V must be available.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn leading<V: Vector>(logits: &[f32], max: f32, scale: f32, limit: i128) -> (usize, i128) {
    let (mut count, mut seen) = (0, 0_i128);
    const { assert!(V::LANES <= WIDTH, "words hold a vector") };
    let mut words = [0_u64; WIDTH];
    // SAFETY: vectors lie inside the row, and WIDTH words hold one of any kind.
    unsafe {
        let (shift, bottom, scale) = (V::splat(max + 0.0), V::splat(deepest(scale)), V::splat(scale));
        for start in (0..logits.len()).step_by(V::LANES) {
            let (from, left) = (logits.as_ptr().add(start), logits.len() - start);
            let z = if left >= V::LANES { V::load(from) } else { V::load_part(from, left) };
            let sums = exp2(depth(z, shift, bottom), scale, V::UNIT).accumulate(V::no_sums());
            V::store_sums(sums, 1, words.as_mut_ptr());
            // A vector's terms add up to less than 2^56.
            let rest = (limit - seen).clamp(-1, 1 << 62) as i64;
            let mut sum = 0_u64;
            for &word in &words[..left.min(V::LANES)] {
                if (sum + word) as i64 > rest {
                    return (count, seen + i128::from(sum));
                }
                sum += word;
                count += 1;
            }
            seen += i128::from(sum);
        }
    }
    (count, seen)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::kernels::Float;
    use crate::math::{Grain, Scalar, quanta};
    use crate::simd::{Avx2, Avx512, Simd};
    use proptest::prelude::*;

    fn logit() -> impl Strategy<Value = f32> {
        prop_oneof![
            8 => -12.0_f32..12.0,
            2 => (-4_i16..4).prop_map(f32::from),
            1 => prop_oneof![Just(-0.0_f32), Just(0.0)],
            1 => Just(f32::NEG_INFINITY),
            1 => prop_oneof![Just(f32::MIN), Just(f32::MAX), -1e30_f32..1e30],
        ]
    }

    /// The plain definition: labels from a logit on, by falling logit, then by rising label.
    fn by_rank(row: &[f32], floor: f32) -> Vec<u32> {
        let mut labels: Vec<u32> = (0..row.len() as u32).filter(|&i| row[i as usize] >= floor).collect();
        labels.sort_by(|&a, &b| row[b as usize].partial_cmp(&row[a as usize]).unwrap());
        labels
    }

    fn check<S: Simd>(s: S, row: &[f32], floor: f32, scale: f32, share: f64, limit: f64) {
        let max = row.iter().fold(f32::NEG_INFINITY, |m, &z| m.max(z));
        let expected = by_rank(row, floor);
        let total: i128 = row.iter().map(|&z| quanta(z, max, scale, Grain::Fine)).sum();
        let wanted = MassWanted { mass: (share * total as f64 * f32::QUANTUM) as f32, max, scale };
        let mut to = LabelBuffer::default();
        to.make_room(row.len()).unwrap();
        for wanted in [None, Some(&wanted)] {
            assert!(f32::take_labels(s, row, floor, wanted, &mut to));
            while to.ranked < to.taken {
                let before = to.ranked;
                if !f32::rank_labels(s, &mut to) {
                    break;
                }
                assert!(to.ranked > before);
            }
            // Whatever was not ranked is there, and ranks after the others.
            let mut found = to.ranked_labels[..to.ranked].to_vec();
            let mut rest = to.labels[to.ranked..to.taken].to_vec();
            rest.sort_unstable();
            rest.sort_by(|&a, &b| row[b as usize].partial_cmp(&row[a as usize]).unwrap());
            found.extend(rest);
            assert_eq!(found, expected[..to.taken]);
            assert!((0..to.ranked).all(|i| to.ranked_logits[i] == row[found[i] as usize]));
            let mass: i128 = found.iter().map(|&i| quanta(row[i as usize], max, scale, Grain::Fine)).sum();
            let holds =
                wanted.is_some_and(|w| mass as f64 * f32::QUANTUM >= f64::from(w.mass) * (1.0 - 1e-5));
            assert!(to.taken == expected.len() || (holds && to.taken > 0));
        }
        let logits: Vec<f32> = expected.iter().map(|&i| row[i as usize]).collect();
        let limit = (limit * total as f64) as i128;
        let (mut count, mut seen) = (0, 0);
        for &z in &logits {
            let own = quanta(z, max, scale, Grain::Fine);
            if seen + own > limit {
                break;
            }
            (count, seen) = (count + 1, seen + own);
        }
        assert_eq!(f32::leading(s, &logits, max, scale, limit), Some((count, seen)));
    }

    fn check_each(row: &[f32], floor: f32, scale: f32, share: f64, limit: f64) {
        if let Some(s) = Avx2::detected() {
            check(s, row, floor, scale, share, limit);
        }
        if let Some(s) = Avx512::detected() {
            check(s, row, floor, scale, share, limit);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 200 }))]
        #[test]
        fn labels_are_taken_and_ranked_as_the_definition_has_them(
            mut row in prop::collection::vec(logit(), 0..if cfg!(miri) { 100 } else { 700 }),
            floor in prop_oneof![Just(f32::MIN), -12.0_f32..0.25],
            scale in prop_oneof![0.01_f32..10.0, Just(f32::SMALLEST_SCALE), 1e3_f32..1e30],
            share in -0.5_f64..1.2,
            limit in -0.1_f64..1.1,
        ) {
            row.push(0.25);
            check_each(&row, floor, scale, share, limit);
        }
    }

    /// Every pivot is the third largest logit that is left.
    fn worst_row(n: usize) -> Vec<f32> {
        let (mut row, mut left) = (vec![-1.0; n], (0..n).collect::<Vec<_>>());
        let mut next = n as f32;
        while left.len() > MOST_COMPARED {
            let step = left.len() / 5;
            let places = [2, 1, 0].map(|i| step / 2 + i * step);
            for place in places {
                row[left.remove(place)] = next;
                next -= 1.0;
            }
        }
        row
    }

    #[test]
    fn rows_in_any_order_are_ranked() {
        let n = if cfg!(miri) { 200_usize } else { 2000 };
        let rising: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let falling: Vec<f32> = rising.iter().rev().copied().collect();
        let pipes: Vec<f32> = (0..n).map(|i| (n / 2).abs_diff(i) as f32).collect();
        let saw: Vec<f32> = (0..n).map(|i| (i % 7) as f32).collect();
        for row in [rising, falling, pipes, saw, vec![1.5; n], worst_row(n)] {
            check_each(&row, f32::MIN, 0.01, 0.5, 0.5);
        }
    }
}
