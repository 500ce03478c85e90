//! The float64 kernels along a row over explicit vectors, as `vector.rs` has them for float32.
//!
//! The compiler's form of the plain loops writes terms to memory and reads them back before it adds them, and
//! loads the coefficients again for each. Every operation is the one that the plain form names, on
//! the same values, so the bits are the same. Parting a row at a label is left to the plain form: most
//! labels have few before them (see [`crate::masses::sums_after_few`]).
#![allow(unsafe_code, reason = "vector loads and instructions of detected features")]

use super::unit_rows::Lines;
use super::vector::Vector;
use crate::exp2::{REST_F64, ROUND_F64};
use crate::float::Float;
use crate::sum::{LANES, Lanes, MOST_COARSE, deepest};
use crate::unit_sums::{RUN, in_halves};

/// A vector of float64, with the operations that the kernels need and no more.
///
/// # Safety
/// As for [`Vector`].
pub(super) trait Double: Copy {
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
    /// [`Float::larger`]: the second of the two when either is NaN.
    unsafe fn larger(self, other: Self) -> Self;
    /// [`Float::smaller`].
    unsafe fn smaller(self, other: Self) -> Self;
    /// The smaller of the patterns as unsigned integers, where `other` is finite and positive.
    unsafe fn smaller_pattern(self, other: Self) -> Self;
    /// The first `count` lanes, and 0 in the others.
    unsafe fn keep(self, count: usize) -> Self;
    /// Two to the sixteenths that a sum with [`ROUND_F64`] has in its low bits, in `unit`s, a power of two.
    unsafe fn power(shifted: Self, unit: f64) -> Self;
    unsafe fn no_sums() -> Self::Sums;
    /// Adds terms as [`Float::accumulate`] does.
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
    /// Adds [`Float::pattern`] of each lane, wrapping. All values are of one kind, if it is not [`Kind::Mixed`]; whether they
    /// are is remembered.
    unsafe fn add_pattern<const KIND: u8>(self, sums: Self::Counts) -> Self::Counts;
    /// The sums, in which each lane took `taken` values of a kind, and any number as [`Kind::Mixed`]; `None` if a value was
    /// of another kind.
    unsafe fn patterns<const KIND: u8>(counts: Self::Counts, taken: usize) -> Option<[u32; 8]>;
}

/// What is known of values: those of most rows are alike, and their patterns are taken in fewer steps then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Mixed,
    /// Numbers of float32 from 2^-64 up to 2^64, of either sign: all are finite, and none is zero.
    Narrow,
    /// None that float32 has: none is infinite or zero.
    Wide,
}

/// Terms that a lane takes before its sum must be emptied; see [`crate::sum`].
const TERMS_PER_LANE: usize = 4096;
/// Vectors whose terms are found together, while those of the vectors before are added up: a term takes long
/// to find, and the processor does not look far enough ahead to fill the time by itself.
const TOGETHER: usize = 4;

/// [`crate::sum::Depths::of`], with a shift that is not `-0.0`.
#[inline(always)]
unsafe fn depth<D: Double>(z: D, shift: D, bottom: D) -> D {
    // SAFETY: the caller vouches for the instruction set.
    unsafe { shift.sub(z).smaller_pattern(bottom) }
}

/// [`Float::exp2`], in `unit`s.
#[inline(always)]
unsafe fn exp2<D: Double>(depth: D, scale: D, unit: f64) -> D {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let round = D::splat(ROUND_F64);
        let shifted = depth.neg_mul_add(scale, round);
        let f = depth.neg_mul_add(scale, round.sub(shifted));
        let power = D::power(shifted, unit);
        let [highest, rest @ ..] = REST_F64;
        let mut q = D::splat(highest);
        for c in rest {
            q = q.mul_add(f, D::splat(c));
        }
        power.mul_add(f.mul(q), power)
    }
}

impl Lines for [&[f64]; 2] {
    #[inline(always)]
    fn fetch(self, i: usize) {
        let [next, later] = self;
        if let Some(line) = next.get(i * 8) {
            super::fetch(std::ptr::from_ref(line).cast());
        }
        if let Some(line) = later.get(i * 8) {
            super::fetch_far(std::ptr::from_ref(line).cast());
        }
    }

    #[inline(always)]
    fn fetch_end(self, n_labels: usize) {
        for line in n_labels / (LANES * RUN) * (2 * RUN)..=n_labels.div_ceil(8) {
            self.fetch(line);
        }
    }
}

/// [`crate::sum::sum_terms`] of a float64 row; of at most [`MOST_COARSE`] labels if quanta are coarse.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn sum_terms<V: Vector, const COARSE: bool>(row: &[f64], shift: f64, scale: f64) -> i128 {
    assert!(!COARSE || row.len() <= MOST_COARSE, "few labels");
    let mut total = 0;
    for block in row.chunks(V::Double::LANES * (TERMS_PER_LANE - TOGETHER)) {
        // SAFETY: as the caller vouches.
        total += unsafe { sum_block::<V::Double, COARSE>(block, shift, scale) };
    }
    total
}

/// The sum over so few labels that no lane overflows.
#[inline(always)]
unsafe fn sum_block<D: Double, const COARSE: bool>(block: &[f64], shift: f64, scale: f64) -> i128 {
    let unit = if COARSE { D::COARSE_UNIT } else { 1.0 };
    let (from, whole) = (block.as_ptr(), block.len() / D::LANES);
    let rest = block.len() - whole * D::LANES;
    // SAFETY: as the caller vouches; whole vectors and `rest` values after them lie inside the row.
    unsafe {
        let (shift, bottom, scale) = (D::splat(shift + 0.0), D::splat(deepest(scale)), D::splat(scale));
        let (mut sums, mut terms) = (D::no_sums(), [D::splat(0.0); TOGETHER]);
        macro_rules! add {
            ($term:expr) => {
                let term = $term;
                sums = if COARSE { term.accumulate_coarse(sums) } else { term.accumulate(sums) };
            };
        }
        for i in 0..whole / TOGETHER {
            for term in terms {
                add!(term);
            }
            for (j, term) in terms.iter_mut().enumerate() {
                let z = D::load(from.add((i * TOGETHER + j) * D::LANES));
                *term = exp2(depth(z, shift, bottom), scale, unit);
            }
        }
        for term in terms {
            add!(term);
        }
        for i in whole / TOGETHER * TOGETHER..whole {
            let z = D::load(from.add(i * D::LANES));
            add!(exp2(depth(z, shift, bottom), scale, unit));
        }
        if rest > 0 {
            let z = D::load_part(from.add(whole * D::LANES), rest);
            add!(exp2(depth(z, shift, bottom), scale, unit));
        }
        // The first terms of all, 0, were added too.
        let taken = TOGETHER + whole + usize::from(rest > 0);
        if COARSE {
            return D::coarse_total(sums, taken);
        }
        let (mut high, mut low) = ([0; 8], [0; 8]);
        D::store_sums(sums, high.as_mut_ptr(), low.as_mut_ptr());
        if D::LANES == 8 {
            Lanes { high, low }.total::<f64>(taken)
        } else {
            let (high, low) = ([high[0], high[1], high[2], high[3]], [low[0], low[1], low[2], low[3]]);
            Lanes { high, low }.total::<f64>(taken)
        }
    }
}

/// [`crate::unit_sums::unit_sums`] of a float64 row of many labels.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn unit_sums<V: Vector>(row: &[f64], shift: f64, ahead: impl Lines) -> (f64, f64) {
    let lanes = V::Double::LANES;
    let (mut exponentials, mut weighted) = ([0.0; LANES], [0.0; LANES]);
    let (runs, last) = row.as_chunks::<{ LANES * RUN }>();
    // SAFETY: as the caller vouches.
    unsafe {
        let zero = V::Double::splat(0.0);
        let (shift, scale) = (V::Double::splat(shift + 0.0), V::Double::splat(f64::LOG2_E));
        let bottom = V::Double::splat(deepest(f64::LOG2_E));
        // Two vectors at a time, each with lanes of its own.
        for part in (0..LANES).step_by(2 * lanes) {
            let (mut e_sums, mut d_sums) = ([zero; 2], [zero; 2]);
            for (r, run) in runs.iter().enumerate() {
                let (mut e_run, mut d_run) = ([zero; 2], [zero; 2]);
                for i in 0..RUN {
                    if part == 0 {
                        for line in 2 * (r * RUN + i)..2 * (r * RUN + i) + 2 {
                            ahead.fetch(line);
                        }
                    }
                    for j in 0..2 {
                        let z = V::Double::load(run.as_ptr().add(i * LANES + part + j * lanes));
                        let d = depth(z, shift, bottom);
                        let e = exp2(d, scale, 1.0);
                        e_run[j] = e_run[j].add(e);
                        d_run[j] = e.mul_add(d, d_run[j]);
                    }
                }
                for j in 0..2 {
                    e_sums[j] = e_sums[j].add(e_run[j]);
                    d_sums[j] = d_sums[j].add(d_run[j]);
                }
            }
            if part == 0 {
                ahead.fetch_end(row.len());
            }
            for j in 0..2 {
                let (mut e_run, mut d_run) = (zero, zero);
                let mut start = part + j * lanes;
                while start < last.len() {
                    let (count, from) = ((last.len() - start).min(lanes), last.as_ptr().add(start));
                    let whole = count == lanes;
                    let z = if whole { V::Double::load(from) } else { V::Double::load_part(from, count) };
                    let d = depth(z, shift, bottom);
                    let e = exp2(d, scale, 1.0);
                    let e = if whole { e } else { e.keep(count) };
                    e_run = e_run.add(e);
                    d_run = e.mul_add(d, d_run);
                    start += LANES;
                }
                e_sums[j].add(e_run).store(exponentials.as_mut_ptr().add(part + j * lanes));
                d_sums[j].add(d_run).store(weighted.as_mut_ptr().add(part + j * lanes));
            }
        }
    }
    (in_halves(exponentials), in_halves(weighted))
}

/// The two largest logits of a row, the sum of its patterns, and whether a value in it is not finite.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn scan<V: Vector>(row: &[f64]) -> (f64, f64, u32, bool) {
    const NARROW: u8 = Kind::Narrow as u8;
    const WIDE: u8 = Kind::Wide as u8;
    // SAFETY: as the caller vouches; a whole vector lies inside the row.
    unsafe {
        let is_long = row.len() >= V::Double::LANES;
        let kind = if is_long { V::Double::load(row.as_ptr()).kind() } else { Kind::Mixed };
        let found = match kind {
            Kind::Narrow => scan_of_kind::<V, NARROW>(row),
            Kind::Wide => scan_of_kind::<V, WIDE>(row),
            Kind::Mixed => None,
        };
        found.or_else(|| scan_of_kind::<V, { Kind::Mixed as u8 }>(row)).unwrap_or_default()
    }
}

/// The same where all values are of one kind, as it seems; `None` if they are not.
#[inline(always)]
unsafe fn scan_of_kind<V: Vector, const KIND: u8>(row: &[f64]) -> Option<(f64, f64, u32, bool)> {
    let lanes = V::Double::LANES;
    let (whole, mut tops, mut runners_up, mut poisons) = (row.len() / lanes, [0.0; 8], [0.0; 8], [0.0; 8]);
    let patterns;
    // SAFETY: as the caller vouches; whole vectors and `rest` values after them lie inside the row.
    unsafe {
        let (zero, none) = (V::Double::splat(0.0), V::Double::splat(f64::NEG_INFINITY));
        let (mut max, mut second, mut poison, mut bits) = (none, none, zero, V::Double::no_counts());
        for i in 0..whole {
            let z = V::Double::load(row.as_ptr().add(i * lanes));
            if KIND != Kind::Narrow as u8 {
                poison = z.mul_add(zero, poison);
            }
            second = second.larger(max.smaller(z));
            max = max.larger(z);
            bits = z.add_pattern::<KIND>(bits);
        }
        let rest = row.len() - whole * lanes;
        if rest > 0 {
            let z = V::Double::load_part(row.as_ptr().add(whole * lanes), rest);
            poison = z.keep(rest).mul_add(zero, poison);
            second = second.larger(max.smaller(z));
            max = max.larger(z);
            // Zeros in the other lanes.
            bits = z.keep(rest).add_pattern::<{ Kind::Mixed as u8 }>(bits);
        }
        max.store(tops.as_mut_ptr());
        second.store(runners_up.as_mut_ptr());
        poison.store(poisons.as_mut_ptr());
        patterns = V::Double::patterns::<KIND>(bits, whole)?;
    }
    let (mut max, mut second) = (tops[0], runners_up[0]);
    for i in 1..lanes {
        second = Float::larger(Float::larger(second, runners_up[i]), Float::smaller(max, tops[i]));
        max = Float::larger(max, tops[i]);
    }
    let bits = patterns.iter().fold(0_u32, |sum, &lane| sum.wrapping_add(lane));
    Some((max, second, bits, poisons.iter().any(|p| *p != 0.0)))
}
