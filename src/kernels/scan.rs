//! What are the largest logits of a row, and is every value one that a row may hold?
//!
//! ```text
//! for each logit z:
//!     second = max(second, min(max, z));  max = max(max, z)
//!     bits   = bits + pattern of z        (wrapping; what U is made of)
//!     poison = poison + 0 z               (NaN from NaN and infinities on)
//! ```
#![allow(unsafe_code, reason = "vector loads and instructions of features that were detected")]

use crate::math::{Scalar, WIDTH};
#[cfg(target_arch = "x86_64")]
use crate::simd::{Lines, Vector};

#[cfg(target_arch = "x86_64")]
use super::terms::hidden_one;

/// What one pass over a row finds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scanned<F> {
    /// Largest logit.
    pub(crate) max: F,
    /// Second largest, equal to `max` when two labels share it, `-inf` when no other is possible.
    pub(crate) second: F,
    /// Wrapping sum of the logits' bit patterns.
    pub(crate) bits: u32,
    /// Whether a value is not finite.
    pub(crate) is_poisoned: bool,
}

#[inline(always)]
pub(super) fn portable<F: Scalar>(row: &[F]) -> Scanned<F> {
    let mut max = [F::NEG_INFINITY; WIDTH];
    let mut second = [F::NEG_INFINITY; WIDTH];
    let mut bits = [0_u32; WIDTH];
    let mut poison = [F::ZERO; WIDTH];
    // A macro, not a closure: it must be inlined into the instance of its instruction set.
    macro_rules! take {
        ($lane:ident, $z:expr) => {
            let z = $z;
            poison[$lane] = poison[$lane] + z * F::ZERO; // NaN from NaN and infinities on
            second[$lane] = second[$lane].larger(max[$lane].smaller(z));
            max[$lane] = max[$lane].larger(z);
            bits[$lane] = bits[$lane].wrapping_add(z.pattern());
        };
    }
    let (chunks, rest) = row.as_chunks::<WIDTH>();
    for chunk in chunks {
        for lane in 0..WIDTH {
            take!(lane, chunk[lane]);
        }
    }
    for (lane, &z) in rest.iter().enumerate() {
        take!(lane, z);
    }
    let (mut top, mut runner_up) = (max[0], second[0]);
    for lane in 1..WIDTH {
        runner_up = runner_up.larger(second[lane]).larger(top.smaller(max[lane]));
        top = top.larger(max[lane]);
    }
    let is_poisoned = poison.iter().any(|p| *p != F::ZERO);
    let bits = bits.iter().fold(0_u32, |sum, &lane| sum.wrapping_add(lane));
    Scanned { max: top, second: runner_up, bits, is_poisoned }
}

/// What the lanes of a vector took, each by itself.
#[cfg(target_arch = "x86_64")]
pub(super) struct LaneScan<V: Vector> {
    pub(super) max: V,
    pub(super) second: V,
    pub(super) bits: V::Counts,
    poison: [V; 2],
    one: V,
}

#[cfg(target_arch = "x86_64")]
impl<V: Vector> LaneScan<V> {
    #[inline(always)]
    pub(super) unsafe fn new() -> Self {
        // SAFETY: the caller vouches for the instruction set.
        unsafe {
            let none = V::splat(f32::NEG_INFINITY);
            // Additions compete with comparisons.
            let one = hidden_one::<V>();
            Self { max: none, second: none, poison: [V::splat(0.0); 2], bits: V::no_counts(), one }
        }
    }

    #[inline(always)]
    pub(super) unsafe fn take(&mut self, z: V) {
        // SAFETY: the caller vouches for the instruction set.
        unsafe {
            let zero = V::splat(0.0);
            self.poison[0] = z.mul_add(zero, self.poison[0]);
            self.second = self.second.larger(self.max.smaller(z));
            self.max = self.max.larger(z);
            self.bits = z.mul_add(self.one, zero).add_bits(self.bits);
        }
    }

    /// [`Self::take`] of two vectors, ordered between themselves first: as many operations, but each that waits for the one
    /// before it takes both, and waiting is what a scan one by one does a third of its time.
    #[inline(always)]
    pub(super) unsafe fn take_two(&mut self, a: V, b: V) {
        // SAFETY: the caller vouches for the instruction set.
        unsafe {
            let zero = V::splat(0.0);
            self.poison = [a.mul_add(zero, self.poison[0]), b.mul_add(zero, self.poison[1])];
            let (high, low) = (a.larger(b), a.smaller(b));
            self.second = self.second.larger(low.larger(self.max.smaller(high)));
            self.max = self.max.larger(high);
            self.bits = a.mul_add(self.one, zero).add_bits(self.bits);
            self.bits = b.mul_add(self.one, zero).add_bits(self.bits);
        }
    }

    /// [`Self::take`] of the first `count` lanes; the others are `-inf`.
    #[inline(always)]
    unsafe fn take_part(&mut self, z: V, count: usize) {
        // SAFETY: the caller vouches for the instruction set.
        unsafe {
            let zero = V::splat(0.0);
            self.poison[0] = z.keep(count).mul_add(zero, self.poison[0]);
            self.second = self.second.larger(self.max.smaller(z));
            self.max = self.max.larger(z);
            self.bits = z.keep(count).mul_add(self.one, zero).add_bits(self.bits);
        }
    }

    #[inline(always)]
    pub(super) unsafe fn is_poisoned(&self) -> bool {
        // SAFETY: the caller vouches for the instruction set.
        unsafe {
            let [a, b] = self.poison;
            V::count(a.add(b).greater_or_equal(V::splat(0.0))) < V::LANES as u32
        }
    }
}

/// [`portable`] over vectors; what lies ahead is asked for meanwhile.
///
/// # Safety
/// The instruction set of V must be available.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn vectors<V: Vector>(row: &[f32], ahead: impl Lines) -> Scanned<f32> {
    // SAFETY: as the caller vouches.
    unsafe {
        let mut lanes = LaneScan::<V>::new();
        let whole = row.len() / V::LANES;
        let vector = |i: usize| V::load(row.as_ptr().add(i * V::LANES));
        for i in 0..whole / 2 {
            for line in 2 * i * V::LANES / WIDTH..2 * (i + 1) * V::LANES / WIDTH {
                ahead.fetch(line);
            }
            lanes.take_two(vector(2 * i), vector(2 * i + 1));
        }
        if whole % 2 == 1 {
            lanes.take(vector(whole - 1));
        }
        let rest = row.len() - whole * V::LANES;
        if rest > 0 {
            lanes.take_part(V::load_part(row.as_ptr().add(whole * V::LANES), rest), rest);
        }
        let (mut max, mut second) = (lanes.max, lanes.second);
        macro_rules! fold {
            ($step:literal) => {
                let (other_max, other_second) = (max.swapped::<$step>(), second.swapped::<$step>());
                second = second.larger(other_second).larger(max.smaller(other_max));
                max = max.larger(other_max);
            };
        }
        if V::LANES > 8 {
            fold!(8);
        }
        fold!(4);
        fold!(2);
        fold!(1);
        let mut bits = [0_u32; WIDTH];
        V::store_counts(lanes.bits, bits.as_mut_ptr());
        let bits = bits.iter().fold(0_u32, |sum, &lane| sum.wrapping_add(lane));
        Scanned { max: max.first(), second: second.first(), bits, is_poisoned: lanes.is_poisoned() }
    }
}
