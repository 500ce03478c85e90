//! What is a term in vectors? The depth of a logit below a shift, and its exponential.
#![allow(unsafe_code, reason = "vector loads and instructions of features that were detected")]

use crate::math::{OFFSET_F32, PARABOLA_F32, REST_F64, ROUND_F32, ROUND_F64};
use crate::simd::{Double, Vector};

/// [`Depths::of`](crate::math::Depths::of), with a shift that is not `-0.0`: the difference is then not `-0.0` either.
#[inline(always)]
pub(super) unsafe fn depth<V: Vector>(z: V, shift: V, bottom: V) -> V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe { shift.sub(z).smaller_pattern(bottom) }
}

/// [`Scalar::exp2`](crate::math::Scalar::exp2), in `unit`s.
#[inline(always)]
pub(super) unsafe fn exp2<V: Vector>(depth: V, scale: V, unit: f32) -> V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let round = V::splat(ROUND_F32);
        let shifted = depth.neg_mul_add(scale, round);
        let g = depth.neg_mul_add(scale, V::splat(OFFSET_F32).sub(shifted));
        V::power(shifted, unit).mul(g.mul_add(g, V::splat(PARABOLA_F32)))
    }
}

/// [`exp2`] of a term that is rounded next: a subtraction less, as conversions compete with those, and a multiply-add more.
/// `one` comes from [`hidden_one`].
#[inline(always)]
pub(super) unsafe fn exp2_to_round<V: Vector>(depth: V, scale: V, unit: f32, one: V) -> V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let shifted = depth.neg_mul_add(scale, V::splat(ROUND_F32));
        let g = depth.neg_mul_add(scale, shifted.neg_mul_add(one, V::splat(OFFSET_F32)));
        V::power(shifted, unit).mul(g.mul_add(g, V::splat(PARABOLA_F32)))
    }
}

/// 1, which the compiler does not know: a multiply-add with it stays one, where a processor has more room for those than for
/// additions.
#[inline(always)]
pub(super) unsafe fn hidden_one<V: Vector>() -> V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe { V::splat(std::hint::black_box(1.0)) }
}

/// A row in vectors, the last filled up with `-inf`.
pub(super) struct Vectors<'a> {
    pub(super) row: &'a [f32],
}

impl Vectors<'_> {
    pub(super) fn count<V: Vector>(&self) -> usize {
        self.row.len().div_ceil(V::LANES)
    }

    /// Vector i.
    #[inline(always)]
    pub(super) unsafe fn get<V: Vector>(&self, i: usize) -> V {
        let start = i * V::LANES;
        // SAFETY: as many values as are left lie inside the row. The caller vouches for the instruction set.
        unsafe {
            let from = self.row.as_ptr().add(start);
            if start + V::LANES <= self.row.len() {
                V::load(from)
            } else {
                V::load_part(from, self.row.len() - start)
            }
        }
    }
}

/// [`Depths::of`](crate::math::Depths::of), with a shift that is not `-0.0`.
#[inline(always)]
pub(super) unsafe fn depth_f64<D: Double>(z: D, shift: D, bottom: D) -> D {
    // SAFETY: the caller vouches for the instruction set.
    unsafe { shift.sub(z).smaller_pattern(bottom) }
}

/// [`Scalar::exp2`](crate::math::Scalar::exp2), in `unit`s.
#[inline(always)]
pub(super) unsafe fn exp2_f64<D: Double>(depth: D, scale: D, unit: f64) -> D {
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
