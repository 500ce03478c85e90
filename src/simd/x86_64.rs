//! AVX2 and AVX-512 vectors, and the entries into the sums over them.
#![allow(unsafe_code, reason = "instructions of features that the caller has detected")]

#[allow(clippy::wildcard_imports, reason = "some fifty instructions, all in this file")]
use std::arch::x86_64::*;

use super::vector::{self, Vector};
use super::{Level, level};
use crate::float::Float;

/// The sum of lanes that took `taken` values each, free of their anchors.
#[inline(always)]
fn total<const N: usize>(lanes: [u64; N], taken: usize) -> i128 {
    if taken * N < 1 << 13 {
        // So few terms add up to less than 2^64 quanta; on the way there, wrapping does no harm.
        let sum = lanes.into_iter().fold(0, u64::wrapping_add);
        return f32::collect(f32::without_anchors(sum, 0, (taken * N) as u64));
    }
    let mut total = 0;
    for lane in lanes {
        total += f32::collect(f32::without_anchors(lane, 0, taken as u64));
    }
    total
}

/// Adding this rounds a value in `[0, 1]` to a multiple of 2^-51; see [`Float::accumulate`].
const ANCHOR: f64 = 3.0;

#[derive(Clone, Copy)]
struct Avx2(__m256);

impl Vector for Avx2 {
    type Mask = __m256;
    type Sums = [__m256i; 2];
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: AVX, as the caller vouches; so below.
        Self(unsafe { _mm256_set1_ps(value) })
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: eight values are readable, as the caller vouches.
        Self(unsafe { _mm256_loadu_ps(from) })
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: see splat.
        Self(unsafe { _mm256_add_ps(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: see splat.
        Self(unsafe { _mm256_sub_ps(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: see splat.
        Self(unsafe { _mm256_mul_ps(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, term: Self) -> Self {
        // SAFETY: FMA, as the caller vouches.
        Self(unsafe { _mm256_fmadd_ps(self.0, factor.0, term.0) })
    }
    #[inline(always)]
    unsafe fn larger(self, other: Self) -> Self {
        // SAFETY: see splat. The instruction gives its second operand for NaN.
        Self(unsafe { _mm256_max_ps(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn smaller(self, other: Self) -> Self {
        // SAFETY: see splat.
        Self(unsafe { _mm256_min_ps(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn greater(self, other: Self) -> __m256 {
        // SAFETY: see splat.
        unsafe { _mm256_cmp_ps::<_CMP_GT_OQ>(self.0, other.0) }
    }
    #[inline(always)]
    unsafe fn greater_or_equal(self, other: Self) -> __m256 {
        // SAFETY: see splat.
        unsafe { _mm256_cmp_ps::<_CMP_GE_OQ>(self.0, other.0) }
    }
    #[inline(always)]
    unsafe fn select(mask: __m256, yes: Self, no: Self) -> Self {
        // SAFETY: see splat.
        Self(unsafe { _mm256_blendv_ps(no.0, yes.0, mask) })
    }
    #[inline(always)]
    unsafe fn count(mask: __m256) -> u32 {
        // SAFETY: see splat.
        unsafe { _mm256_movemask_ps(mask).count_ones() }
    }
    #[inline(always)]
    unsafe fn largest(self) -> f32 {
        // SAFETY: as many bytes of plain floats on both sides.
        let lanes: [f32; 8] = unsafe { std::mem::transmute(self.0) };
        lanes.into_iter().fold(f32::NEG_INFINITY, Float::larger)
    }
    #[inline(always)]
    unsafe fn scale_by(self, shifted: Self) -> Self {
        // SAFETY: AVX2, as the caller vouches.
        unsafe {
            let exponent = _mm256_slli_epi32::<23>(_mm256_castps_si256(shifted.0));
            Self(_mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(self.0), exponent)))
        }
    }
    #[inline(always)]
    unsafe fn no_sums() -> [__m256i; 2] {
        // SAFETY: see splat.
        unsafe { [_mm256_setzero_si256(); 2] }
    }
    #[inline(always)]
    unsafe fn accumulate(self, [low, high]: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: AVX2, as the caller vouches.
        unsafe {
            let anchor = _mm256_set1_pd(ANCHOR);
            let first = _mm256_add_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(self.0)), anchor);
            let second = _mm256_add_pd(_mm256_cvtps_pd(_mm256_extractf128_ps::<1>(self.0)), anchor);
            [
                _mm256_add_epi64(low, _mm256_castpd_si256(first)),
                _mm256_add_epi64(high, _mm256_castpd_si256(second)),
            ]
        }
    }
    #[inline(always)]
    unsafe fn total([low, high]: [__m256i; 2], taken: usize) -> i128 {
        // SAFETY: as many bytes of plain integers on both sides.
        let lanes: [u64; 8] = unsafe { std::mem::transmute([low, high]) };
        total(lanes, taken)
    }
}

#[derive(Clone, Copy)]
struct Avx512(__m512);

impl Vector for Avx512 {
    type Mask = __mmask16;
    type Sums = [__m512i; 2];
    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: AVX-512F, as the caller vouches; so below.
        Self(unsafe { _mm512_set1_ps(value) })
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: sixteen values are readable, as the caller vouches.
        Self(unsafe { _mm512_loadu_ps(from) })
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: see splat.
        Self(unsafe { _mm512_add_ps(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: see splat.
        Self(unsafe { _mm512_sub_ps(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: see splat.
        Self(unsafe { _mm512_mul_ps(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, term: Self) -> Self {
        // SAFETY: see splat.
        Self(unsafe { _mm512_fmadd_ps(self.0, factor.0, term.0) })
    }
    #[inline(always)]
    unsafe fn larger(self, other: Self) -> Self {
        // SAFETY: see splat. The instruction gives its second operand for NaN.
        Self(unsafe { _mm512_max_ps(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn smaller(self, other: Self) -> Self {
        // SAFETY: see splat.
        Self(unsafe { _mm512_min_ps(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn greater(self, other: Self) -> __mmask16 {
        // SAFETY: see splat.
        unsafe { _mm512_cmp_ps_mask::<_CMP_GT_OQ>(self.0, other.0) }
    }
    #[inline(always)]
    unsafe fn greater_or_equal(self, other: Self) -> __mmask16 {
        // SAFETY: see splat.
        unsafe { _mm512_cmp_ps_mask::<_CMP_GE_OQ>(self.0, other.0) }
    }
    #[inline(always)]
    unsafe fn select(mask: __mmask16, yes: Self, no: Self) -> Self {
        // SAFETY: see splat.
        Self(unsafe { _mm512_mask_blend_ps(mask, no.0, yes.0) })
    }
    #[inline(always)]
    unsafe fn count(mask: __mmask16) -> u32 {
        mask.count_ones()
    }
    #[inline(always)]
    unsafe fn largest(self) -> f32 {
        // SAFETY: see splat.
        unsafe { _mm512_reduce_max_ps(self.0) }
    }
    #[inline(always)]
    unsafe fn scale_by(self, shifted: Self) -> Self {
        // SAFETY: see splat.
        unsafe {
            let exponent = _mm512_slli_epi32::<23>(_mm512_castps_si512(shifted.0));
            Self(_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(self.0), exponent)))
        }
    }
    #[inline(always)]
    unsafe fn no_sums() -> [__m512i; 2] {
        // SAFETY: see splat.
        unsafe { [_mm512_setzero_si512(); 2] }
    }
    #[inline(always)]
    unsafe fn accumulate(self, [low, high]: [__m512i; 2]) -> [__m512i; 2] {
        // SAFETY: AVX-512F and DQ, as the caller vouches.
        unsafe {
            let anchor = _mm512_set1_pd(ANCHOR);
            let first = _mm512_add_pd(_mm512_cvtps_pd(_mm512_castps512_ps256(self.0)), anchor);
            let second = _mm512_add_pd(_mm512_cvtps_pd(_mm512_extractf32x8_ps::<1>(self.0)), anchor);
            [
                _mm512_add_epi64(low, _mm512_castpd_si512(first)),
                _mm512_add_epi64(high, _mm512_castpd_si512(second)),
            ]
        }
    }
    #[inline(always)]
    unsafe fn total([low, high]: [__m512i; 2], taken: usize) -> i128 {
        // SAFETY: as many bytes of plain integers on both sides.
        let lanes: [u64; 16] = unsafe { std::mem::transmute([low, high]) };
        total(lanes, taken)
    }
}

/// Defines a sum as the run-time choice among its instances; `None` where only the plain form will do.
macro_rules! dispatched {
    ($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),*) -> $out:ty = $($body:ident)::+ $(<$left:literal>)?;) => {
        $(#[$meta])*
        pub(crate) fn $name($($arg: $ty),*) -> Option<$out> {
            #[target_feature(enable = "avx2,fma,popcnt")]
            fn avx2($($arg: $ty),*) -> $out {
                // SAFETY: compiled for, and called with, the features of this vector.
                unsafe { $($body)::+::<Avx2 $(, $left)?>($($arg),*) }
            }
            #[target_feature(enable = "avx2,fma,popcnt,avx512f,avx512bw,avx512dq,avx512vl")]
            fn avx512($($arg: $ty),*) -> $out {
                // SAFETY: compiled for, and called with, the features of this vector.
                unsafe { $($body)::+::<Avx512 $(, $left)?>($($arg),*) }
            }
            match level() {
                // SAFETY: level() is this only where the features were detected.
                Level::Avx512 => Some(unsafe { avx512($($arg),*) }),
                // SAFETY: as above.
                Level::Avx2 => Some(unsafe { avx2($($arg),*) }),
                Level::Scalar => None,
            }
        }
    };
}

dispatched! {
    /// [`crate::sum::sum_terms`] of a float32 row.
    fn sum_terms(row: &[f32], shift: f32, scale: f32) -> i128 = vector::sum_terms;
}
dispatched! {
    /// [`crate::sum::split_lower`] of a float32 row.
    fn split_lower(part: &[f32], y: f32, max: f32, shift: f32, scale: f32) -> (i128, i128) = vector::split_terms<true>;
}
dispatched! {
    /// [`crate::sum::split_higher`] of a float32 row.
    fn split_higher(part: &[f32], y: f32, max: f32, shift: f32, scale: f32) -> (i128, i128) = vector::split_terms<false>;
}
dispatched! {
    /// The sums behind [`crate::sum::unit_sums`] of a float32 row.
    fn unit_sums(row: &[f32], shift: f32) -> (i128, i128) = vector::unit_sums;
}

dispatched! {
    /// [`crate::masses::count_and_next`] of the lower labels of a float32 row.
    fn count_lower(part: &[f32], y: f32) -> (usize, f32) = vector::count_and_next<true>;
}
dispatched! {
    /// [`crate::masses::count_and_next`] of the higher labels of a float32 row.
    fn count_higher(part: &[f32], y: f32) -> (usize, f32) = vector::count_and_next<false>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{masses, sum};
    use proptest::prelude::*;

    fn logit() -> impl Strategy<Value = f32> {
        prop_oneof![
            8 => -40.0_f32..40.0,
            2 => (-4_i16..4).prop_map(f32::from),
            1 => Just(f32::NEG_INFINITY),
        ]
    }

    /// Runs `body` for each vector this machine has.
    macro_rules! for_each_vector {
        ($V:ident => $body:expr) => {
            if Level::Avx2.is_available() {
                type $V = Avx2;
                $body
            }
            if Level::Avx512.is_available() {
                type $V = Avx512;
                $body
            }
        };
    }

    proptest! {
        #[test]
        fn vectors_equal_the_plain_form(
            row in prop::collection::vec(logit(), 0..200),
            y in -5.0_f32..5.0,
            shift in -5.0_f32..10.0,
            scale in prop_oneof![0.01_f32..100.0, Just(0.0), Just(f32::MAX)],
        ) {
            let max = row.iter().fold(shift.max(y), |m, &z| m.max(z));
            for_each_vector!(V => {
                // SAFETY: the vector is available, as just asked.
                unsafe {
                    assert_eq!(vector::sum_terms::<V>(&row, shift, scale), sum::sum_terms_body(&row, shift, scale));
                    let split = vector::split_terms::<V, true>(&row, y, max, shift, scale);
                    assert_eq!(split, sum::split_terms::<true, f32>(&row, y, max, shift, scale));
                    let split = vector::split_terms::<V, false>(&row, y, max, shift, scale);
                    assert_eq!(split, sum::split_terms::<false, f32>(&row, y, max, shift, scale));
                    for y in [y, f32::NEG_INFINITY] {
                        let counted = vector::count_and_next::<V, true>(&row, y);
                        assert_eq!(counted, masses::count_and_next::<true, f32>(&row, y));
                        let counted = vector::count_and_next::<V, false>(&row, y);
                        assert_eq!(counted, masses::count_and_next::<false, f32>(&row, y));
                    }
                    assert_eq!(vector::unit_sums::<V>(&row, shift), sum::unit_sums_plain::<f32>(&row, shift));
                }
            });
        }
    }

    #[test]
    fn long_rows_are_emptied_in_time() {
        let row = vec![1.5_f32; 200_007];
        for_each_vector!(V => {
            // SAFETY: the vector is available, as just asked.
            let sum = unsafe { vector::sum_terms::<V>(&row, 1.5, 1.0) };
            assert_eq!(f32::sum_to_f64(sum), 200_007.0);
        });
    }
}
