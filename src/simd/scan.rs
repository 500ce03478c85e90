//! The first pass over float32 rows, along a row and across rows: the fast twin of [`crate::row::Scan`].
#![allow(unsafe_code, reason = "vector loads and instructions of detected features")]

use super::vector::{Vector, hidden_one};
use crate::sum::LANES;

/// [`crate::row::Scan`] of what the lanes of a vector took.
pub(super) struct LaneScan<V: Vector> {
    pub(super) max: V,
    pub(super) second: V,
    pub(super) bits: V::Counts,
    poison: [V; 2],
    one: V,
}

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

    /// The same of two vectors, ordered between themselves first: as many operations, but each that waits for the one
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

    /// The same of the first `count` lanes; the others are `-inf`.
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

/// The two largest logits of a row, the sum of its patterns, and whether a value in it is not finite.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn scan<V: Vector>(row: &[f32]) -> (f32, f32, u32, bool) {
    // SAFETY: as the caller vouches.
    unsafe {
        let mut lanes = LaneScan::<V>::new();
        let whole = row.len() / V::LANES;
        let vector = |i: usize| V::load(row.as_ptr().add(i * V::LANES));
        for i in 0..whole / 2 {
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
        let mut bits = [0_u32; LANES];
        V::store_counts(lanes.bits, bits.as_mut_ptr());
        let bits = bits.iter().fold(0_u32, |sum, &lane| sum.wrapping_add(lane));
        (max.first(), second.first(), bits, lanes.is_poisoned())
    }
}
