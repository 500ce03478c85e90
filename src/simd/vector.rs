//! What can a vector do? The operations that kernels are written in, and what an instruction set must add.
//!
//! The compiler turns plain loops into vector code, but carries each group of terms through memory between the
//! exponential, in float32, and the sums, in 64-bit integers, takes exponentials apart lane by lane and counts ranks partly
//! so. Over explicit vectors everything stays in registers. Every operation is the one that the portable form names, on
//! the same values, so the bits are the same.
#![allow(unsafe_code, reason = "instructions of features that were detected")]

#[cfg(doc)]
use crate::math::{MOST_COARSE, ROUND_F32, ROUND_F64, Scalar};

/// The methods of a vector, each by the instructions that it is made of.
macro_rules! instructions {
    ($(fn $name:ident($($argument:tt)*) $(-> $result:ty)? $body:block)*) => {
        $(
            #[inline(always)]
            #[allow(unused_unsafe, reason = "some are made of no instruction")]
            unsafe fn $name($($argument)*) $(-> $result)? {
                // SAFETY: the caller vouches for the instruction set, and for as many values behind a pointer as there
                // are lanes, or as `count` says. Nothing asks for alignment.
                unsafe { $body }
            }
        )*
    };
}
pub(super) use instructions;

/// The unit of terms that are summed in parts: the quantum.
pub(crate) const QUANTA: f32 = (1_u64 << 51) as f32;
/// Quanta in a unit of the upper parts.
pub(super) const UPPER_BITS: u32 = 28;
/// Terms of which an upper part, of at most 2^23 each, holds fewer.
pub(crate) const TERMS_PER_PART: usize = 512;

/// A vector of float32, with the operations that the kernels need and no more.
///
/// # Safety
/// The methods use the instruction set of the implementation: it must be available. They are inlined into
/// functions compiled for it. Pointers must be good for `LANES` values; no alignment is asked for.
pub trait Vector: Copy + std::fmt::Debug {
    /// The vector of float64 of the instruction set.
    type Double: Double;
    /// A choice for each lane.
    type Mask: Copy;
    /// Exact sums in 64-bit integers, one for each lane.
    type Sums: Copy;
    /// Exact sums in 32-bit parts; see `kernels::fine_sums`.
    type Parts: Copy;
    /// Sums in float64, one for each lane.
    type Wide: Copy;
    /// Sums of 32-bit integers, one for each lane.
    type Counts: Copy;
    /// Such sums in 64 bits.
    type LongCounts: Copy;
    /// At most [`WIDTH`](crate::math::WIDTH): arrays on the stack hold a vector of any kind.
    const LANES: usize;
    /// What terms are multiplied by before `accumulate`, a power of two.
    const UNIT: f32;

    unsafe fn splat(value: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    /// The first `count` values, fewer than `LANES`, and `-inf` in the other lanes.
    unsafe fn load_part(from: *const f32, count: usize) -> Self;
    unsafe fn store(self, to: *mut f32);
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn sub(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    /// `self * factor + term`, fused.
    unsafe fn mul_add(self, factor: Self, term: Self) -> Self;
    /// `term - self * factor`, fused.
    unsafe fn neg_mul_add(self, factor: Self, term: Self) -> Self;
    /// [`Scalar::larger`]: the second of the two when either is NaN.
    unsafe fn larger(self, other: Self) -> Self;
    /// [`Scalar::smaller`].
    unsafe fn smaller(self, other: Self) -> Self;
    /// The smaller of the patterns as unsigned integers.
    unsafe fn smaller_pattern(self, other: Self) -> Self;
    unsafe fn greater(self, other: Self) -> Self::Mask;
    unsafe fn greater_or_equal(self, other: Self) -> Self::Mask;
    /// `yes` where the mask is set, `no` elsewhere.
    unsafe fn select(mask: Self::Mask, yes: Self, no: Self) -> Self;
    /// The first `count` lanes, and 0 in the others.
    unsafe fn keep(self, count: usize) -> Self;
    /// Writes the lanes in which the mask is set side by side. As many values as lanes may be written.
    unsafe fn compress(self, mask: Self::Mask, to: *mut f32);
    /// Writes labels of the lanes in which the mask is set side by side: lane i has label `start + i`.
    unsafe fn compress_labels(mask: Self::Mask, start: u32, to: *mut u32);
    /// A bit for each lane, the first lowest.
    unsafe fn bits(mask: Self::Mask) -> u32;
    /// Lanes in which the mask is set.
    #[inline(always)]
    unsafe fn count(mask: Self::Mask) -> u32 {
        // SAFETY: as the caller vouches.
        unsafe { Self::bits(mask).count_ones() }
    }
    /// The lanes with halves of `2 STEP` lanes swapped, for a STEP of 1, 2, 4 or 8, below `LANES`.
    unsafe fn swapped<const STEP: usize>(self) -> Self;
    /// The first lane.
    unsafe fn first(self) -> f32;
    /// Two to the sixteenths that a sum with [`ROUND_F32`] has in its low bits, in `unit`s, a power of two.
    unsafe fn power(shifted: Self, unit: f32) -> Self;
    unsafe fn no_sums() -> Self::Sums;
    /// Adds terms, in units of `UNIT`, as [`Scalar::accumulate`] does.
    unsafe fn accumulate(self, sums: Self::Sums) -> Self::Sums;
    /// The sum of the words of all lanes, each of which took `taken` values.
    unsafe fn total(sums: Self::Sums, taken: usize) -> i128;
    /// The words of each lane, each of which took `taken` values.
    unsafe fn store_sums(sums: Self::Sums, taken: usize, to: *mut u64);
    unsafe fn no_parts() -> Self::Parts;
    /// Adds terms in quanta to the parts.
    unsafe fn add_parts(self, parts: Self::Parts) -> Self::Parts;
    /// Empties the lower parts into wider ones.
    unsafe fn settle(parts: Self::Parts) -> Self::Parts;
    /// The sum of all lanes, settled, each of which took `taken` values, fewer than [`TERMS_PER_PART`].
    unsafe fn total_of_parts(parts: Self::Parts, taken: usize) -> i128;
    unsafe fn no_wide() -> Self::Wide;
    unsafe fn widen(self, sums: Self::Wide) -> Self::Wide;
    unsafe fn store_wide(sums: Self::Wide, to: *mut f64);
    unsafe fn no_counts() -> Self::Counts;
    /// Adds the bits of each lane, wrapping.
    unsafe fn add_bits(self, sums: Self::Counts) -> Self::Counts;
    /// Adds 1 where the mask is set.
    unsafe fn add_mask(mask: Self::Mask, counts: Self::Counts) -> Self::Counts;
    unsafe fn store_counts(counts: Self::Counts, to: *mut u32);
    /// Adds the lanes rounded to whole numbers, to even ones at ties.
    unsafe fn add_rounded(self, counts: Self::Counts) -> Self::Counts;
    /// [`Self::add_rounded`] where the mask is set.
    unsafe fn add_rounded_where(self, mask: Self::Mask, counts: Self::Counts) -> Self::Counts;
    unsafe fn no_long_counts() -> Self::LongCounts;
    unsafe fn lengthen(counts: Self::Counts, sums: Self::LongCounts) -> Self::LongCounts;
    unsafe fn total_count(sums: Self::LongCounts) -> u64;
    unsafe fn store_long_counts(sums: Self::LongCounts, to: *mut u64);
    /// The sums less others.
    unsafe fn minus(sums: Self::LongCounts, others: Self::LongCounts) -> Self::LongCounts;
    /// Four columns of as many rows as there are lanes, from label `first` on; each row must have so many.
    unsafe fn four_columns(rows: &[&[f32]], first: usize) -> [Self; 4];
    /// Turns the first `LANES` vectors, as rows of a square, into its columns.
    unsafe fn transpose(rows: [Self; 16]) -> [Self; 16];
}

/// A vector of float64, with the operations that the kernels need and no more.
///
/// # Safety
/// As for [`Vector`].
pub trait Double: Copy + std::fmt::Debug {
    /// The two words of exact sums, one of each for each lane.
    type Sums: Copy;
    /// Sums of patterns, and what is known of the values that were added.
    type Counts: Copy;
    const LANES: usize;

    unsafe fn splat(value: f64) -> Self;
    unsafe fn load(from: *const f64) -> Self;
    /// The first `count` values, fewer than `LANES`, and `-inf` in the other lanes.
    unsafe fn load_part(from: *const f64, count: usize) -> Self;
    unsafe fn store(self, to: *mut f64);
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn sub(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    /// `self * factor + term`, fused.
    unsafe fn mul_add(self, factor: Self, term: Self) -> Self;
    /// `term - self * factor`, fused.
    unsafe fn neg_mul_add(self, factor: Self, term: Self) -> Self;
    /// [`Scalar::larger`]: the second of the two when either is NaN.
    unsafe fn larger(self, other: Self) -> Self;
    /// [`Scalar::smaller`].
    unsafe fn smaller(self, other: Self) -> Self;
    /// The smaller of the patterns as unsigned integers, where `other` is finite and positive.
    unsafe fn smaller_pattern(self, other: Self) -> Self;
    /// The first `count` lanes, and 0 in the others.
    unsafe fn keep(self, count: usize) -> Self;
    /// Two to the sixteenths that a sum with [`ROUND_F64`] has in its low bits, in `unit`s, a power of two.
    unsafe fn power(shifted: Self, unit: f64) -> Self;
    unsafe fn no_sums() -> Self::Sums;
    /// Adds terms as [`Scalar::accumulate`] does.
    unsafe fn accumulate(self, sums: Self::Sums) -> Self::Sums;
    /// What terms are multiplied by before `accumulate_coarse`, a power of two.
    const COARSE_UNIT: f64;
    /// Adds terms, in units of `COARSE_UNIT`, in coarse quanta: at most [`MOST_COARSE`] over all lanes.
    unsafe fn accumulate_coarse(self, sums: Self::Sums) -> Self::Sums;
    /// The sum of all lanes, each of which took `taken` values by `accumulate_coarse`, in quanta.
    unsafe fn coarse_total(sums: Self::Sums, taken: usize) -> i128;
    /// The high words and the low words, anchors included.
    unsafe fn store_sums(sums: Self::Sums, high: *mut u64, low: *mut u64);
    unsafe fn no_counts() -> Self::Counts;
    /// What the values are, if they are all alike.
    unsafe fn kind(self) -> Kind;
    /// Adds [`Scalar::pattern`] of each lane, wrapping. All values are of one kind, if it is not [`Kind::Mixed`]; whether they
    /// are is remembered.
    unsafe fn add_pattern<const KIND: u8>(self, sums: Self::Counts) -> Self::Counts;
    /// The sums, in which each lane took `taken` values of a kind, and any number as [`Kind::Mixed`]; `None` if a value was
    /// of another kind.
    unsafe fn patterns<const KIND: u8>(counts: Self::Counts, taken: usize) -> Option<[u32; 8]>;
}

/// What is known of values: those of most rows are alike, and their patterns are taken in fewer steps then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Mixed,
    /// Numbers of float32 from 2^-64 up to 2^64, of either sign: all are finite, and none is zero.
    Narrow,
    /// None that float32 has: none is infinite or zero.
    Wide,
}

/// The sum of lanes that took `taken` values each, free of their anchors.
#[inline(always)]
pub(super) fn total<const N: usize>(lanes: [u64; N], taken: usize, anchor: u64) -> i128 {
    let anchors = anchor.wrapping_mul(taken as u64);
    if taken * N < 1 << 13 {
        // So few terms add up to less than 2^64 quanta; on the way there, wrapping does no harm.
        let sum = lanes.into_iter().fold(0, u64::wrapping_add);
        return i128::from(sum.wrapping_sub(anchors.wrapping_mul(N as u64)));
    }
    lanes.into_iter().map(|lane| i128::from(lane.wrapping_sub(anchors))).sum()
}
