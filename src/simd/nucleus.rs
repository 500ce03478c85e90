//! Kernels behind sets by mass in rows of many labels, see [`crate::nucleus`]: which labels a set can hold, in
//! the order of their ranks, and how many of the first ones it certainly holds.
#![allow(unsafe_code, reason = "vector loads and stores, and instructions of detected features")]

use super::vector::{Vector, depth, exp2};
use crate::nucleus::{Candidates, MOST_RANKED, MOST_SUMMED, Wanted};
use crate::sum::deepest;

/// Each pass over the labels tries three thresholds at once: 1/64 of the range is left after three passes. One
/// more costs what it saves.
const PASSES: usize = 3;

/// Takes the labels with logits of at least `floor`, of those the first that hold the mass `wanted` and a few
/// more, and ranks them. `floor` and the maximum are finite.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn take<V: Vector>(row: &[f32], floor: f32, wanted: &Wanted, to: &mut Candidates) {
    to.make_room(row.len());
    // SAFETY: make_room leaves room for the row and a vector more; the caller vouches for the instruction set.
    unsafe {
        let mut taken = gather::<V>(row, floor, to);
        if taken > 2 * V::LANES && taken <= MOST_SUMMED {
            let threshold = threshold::<V>(floor, taken, wanted, to);
            if threshold > floor {
                taken = keep::<V>(threshold, taken, to);
            }
        }
        to.taken = taken;
        to.is_ranked = taken <= MOST_RANKED;
        if to.is_ranked {
            rank::<V>(taken, to);
        }
    }
}

/// The labels with logits of at least `floor`, in their order, and a vector of `-inf` after them.
#[inline(always)]
unsafe fn gather<V: Vector>(row: &[f32], floor: f32, to: &mut Candidates) -> usize {
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
#[inline(always)]
unsafe fn threshold<V: Vector>(floor: f32, taken: usize, wanted: &Wanted, to: &mut Candidates) -> f32 {
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
            let (at, mut sums) = (tried.map(|t| V::splat(t)), [zero; 3]);
            for i in 0..vectors {
                let z = V::load(logits.add(i * V::LANES));
                let e = V::load(terms.add(i * V::LANES));
                for j in 0..3 {
                    sums[j] = sums[j].add(V::select(z.greater_or_equal(at[j]), e, zero));
                }
            }
            let has = sums.map(|sum| across(sum) >= wanted.mass);
            (low, high) = match has {
                [_, _, true] => (tried[2], high),
                [_, true, _] => (tried[1], tried[2]),
                [true, ..] => (tried[0], tried[1]),
                _ => (low, tried[0]),
            };
        }
        // Logits further apart than the type can say leave no threshold behind.
        if low <= wanted.max { low } else { floor }
    }
}

/// The sum of the lanes.
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
#[inline(always)]
unsafe fn keep<V: Vector>(threshold: f32, taken: usize, to: &mut Candidates) -> usize {
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

/// Puts few labels into the order of their ranks: each is compared with all others, without a branch, which
/// for so few is several times faster than sorting them.
#[inline(always)]
unsafe fn rank<V: Vector>(taken: usize, to: &mut Candidates) {
    let vectors = taken.div_ceil(V::LANES);
    let logits = to.logits.as_ptr();
    for j in 0..taken {
        let (own, within) = (j / V::LANES, j % V::LANES);
        // SAFETY: there is room for what was taken and a vector more, and the last vector is filled with -inf.
        let before = unsafe {
            let z = V::splat(*logits.add(j));
            let at = |i: usize| V::load(logits.add(i * V::LANES));
            let mut before = 0;
            for i in 0..own {
                before += V::count(at(i).greater_or_equal(z));
            }
            let lower = V::bits(at(own).greater_or_equal(z)) & ((1 << within) - 1);
            before += (V::bits(at(own).greater(z)) | lower).count_ones();
            for i in own + 1..vectors {
                before += V::count(at(i).greater(z));
            }
            before as usize
        };
        to.ranked_logits[before] = to.logits[j];
        to.ranked_labels[before] = to.labels[j];
    }
}

/// How many of the logits, from the first on, have terms that add up to at most `limit` quanta, and their sum.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn leading<V: Vector>(logits: &[f32], max: f32, scale: f32, limit: i128) -> (usize, i128) {
    let (mut count, mut seen) = (0, 0_i128);
    let mut words = [0_u64; 16];
    // SAFETY: vectors lie inside the row, and 16 words hold one of any kind.
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
