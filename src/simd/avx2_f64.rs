//! Vectors of float64 in AVX2 with FMA.
#![allow(unsafe_code, reason = "instructions of features that the caller has detected")]

#[allow(clippy::wildcard_imports, reason = "some thirty instructions, all in this file")]
use std::arch::x86_64::*;

use super::vector::{Double, Kind, instructions};
use crate::math::{
    ANCHOR, COARSE_LOW_ANCHOR, LOW_ANCHOR, Scalar, TABLE_F64, TO_EXPONENT_F64, WIDE_COARSE_BITS,
};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2F64(__m256d);

/// All bits of the first `count` lanes.
#[inline(always)]
unsafe fn first_lanes(count: usize) -> __m256i {
    // SAFETY: AVX2, as the caller vouches.
    unsafe { _mm256_cmpgt_epi64(_mm256_set1_epi64x(count as i64), _mm256_setr_epi64x(0, 1, 2, 3)) }
}

impl Avx2F64 {
    /// Adds the two words of terms, of which the anchor of the low ones says the bits.
    #[inline(always)]
    unsafe fn add_words(self, low_anchor: f64, [high, low]: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the instruction set, as the caller vouches.
        unsafe {
            let anchor = _mm256_set1_pd(ANCHOR);
            let anchored = _mm256_add_pd(self.0, anchor);
            let rest = _mm256_sub_pd(self.0, _mm256_sub_pd(anchored, anchor));
            let rest = _mm256_add_pd(rest, _mm256_set1_pd(low_anchor));
            [
                _mm256_add_epi64(high, _mm256_castpd_si256(anchored)),
                _mm256_add_epi64(low, _mm256_castpd_si256(rest)),
            ]
        }
    }
}

impl Double for Avx2F64 {
    type Sums = [__m256i; 2];
    type Counts = __m128i;
    const LANES: usize = 4;
    instructions! {
        fn splat(value: f64) -> Self { Self(_mm256_set1_pd(value)) }
        fn load(from: *const f64) -> Self { Self(_mm256_loadu_pd(from)) }
        fn load_part(from: *const f64, count: usize) -> Self {
            let mask = first_lanes(count);
            let none = _mm256_set1_pd(f64::NEG_INFINITY);
            Self(_mm256_blendv_pd(none, _mm256_maskload_pd(from, mask), _mm256_castsi256_pd(mask)))
        }
        fn store(self, to: *mut f64) { _mm256_storeu_pd(to, self.0) }
        fn add(self, other: Self) -> Self { Self(_mm256_add_pd(self.0, other.0)) }
        fn sub(self, other: Self) -> Self { Self(_mm256_sub_pd(self.0, other.0)) }
        fn mul(self, other: Self) -> Self { Self(_mm256_mul_pd(self.0, other.0)) }
        fn mul_add(self, factor: Self, term: Self) -> Self { Self(_mm256_fmadd_pd(self.0, factor.0, term.0)) }
        fn neg_mul_add(self, factor: Self, term: Self) -> Self {
            Self(_mm256_fnmadd_pd(self.0, factor.0, term.0))
        }
        fn larger(self, other: Self) -> Self { Self(_mm256_max_pd(self.0, other.0)) }
        fn smaller(self, other: Self) -> Self { Self(_mm256_min_pd(self.0, other.0)) }
        fn smaller_pattern(self, other: Self) -> Self {
            Self(_mm256_blendv_pd(_mm256_min_pd(self.0, other.0), other.0, self.0))
        }
        fn keep(self, count: usize) -> Self {
            Self(_mm256_and_pd(self.0, _mm256_castsi256_pd(first_lanes(count))))
        }
        // Indices are below 16, the length of the table.
        fn power(shifted: Self, unit: f64) -> Self {
            let sixteenths = _mm256_castpd_si256(shifted.0);
            let index = _mm256_and_si256(sixteenths, _mm256_set1_epi64x(15));
            let found = _mm256_i64gather_epi64::<8>(TABLE_F64.0.as_ptr().cast(), index);
            let exponent = _mm256_slli_epi64::<{ TO_EXPONENT_F64 as i32 }>(sixteenths);
            let power = Self(_mm256_castsi256_pd(_mm256_add_epi64(found, exponent)));
            if unit == 1.0 { power } else { power.mul(Self::splat(unit)) }
        }
        fn no_sums() -> Self::Sums { [_mm256_setzero_si256(); 2] }
        fn accumulate(self, sums: Self::Sums) -> Self::Sums { self.add_words(LOW_ANCHOR, sums) }
    }
    // Without a conversion to 64-bit integers the words are those of fine quanta, the low ones with fewer bits.
    const COARSE_UNIT: f64 = 1.0;
    instructions! {
        fn accumulate_coarse(self, sums: Self::Sums) -> Self::Sums { self.add_words(COARSE_LOW_ANCHOR, sums) }
        fn coarse_total(sums: Self::Sums, taken: usize) -> i128 {
            let (mut high, mut low) = ([0_u64; 4], [0_u64; 4]);
            Self::store_sums(sums, high.as_mut_ptr(), low.as_mut_ptr());
            let anchors = COARSE_LOW_ANCHOR.to_bits().wrapping_mul(taken as u64);
            let mut total = 0;
            for lane in 0..4 {
                let (high, _) = f64::without_anchors(high[lane], 0, taken as u64);
                total += f64::collect((high, low[lane].wrapping_sub(anchors) << WIDE_COARSE_BITS));
            }
            total
        }
        fn store_sums([high_words, low_words]: Self::Sums, high: *mut u64, low: *mut u64) {
            _mm256_storeu_si256(high.cast(), high_words);
            _mm256_storeu_si256(low.cast(), low_words);
        }
        fn no_counts() -> Self::Counts { _mm_setzero_si128() }
        fn kind(self) -> Kind { Kind::Mixed }
    }
    #[inline(always)]
    unsafe fn add_pattern<const KIND: u8>(self, sums: Self::Counts) -> Self::Counts {
        // SAFETY: see splat.
        unsafe {
            // `-0.0` as `0.0`.
            let z = _mm256_add_pd(self.0, _mm256_setzero_pd());
            let narrow = _mm256_cvtpd_ps(z);
            let is_narrow = _mm256_cmp_pd::<_CMP_EQ_OQ>(_mm256_cvtps_pd(narrow), z);
            let bits = _mm256_castpd_si256(z);
            let folded = _mm256_xor_si256(bits, _mm256_srli_epi64::<32>(bits));
            // The lower half of each lane, side by side.
            let even = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
            let folded = _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(folded, even));
            let is_narrow = _mm256_permutevar8x32_epi32(_mm256_castpd_si256(is_narrow), even);
            let pattern =
                _mm_blendv_epi8(folded, _mm_castps_si128(narrow), _mm256_castsi256_si128(is_narrow));
            _mm_add_epi32(sums, pattern)
        }
    }
    #[inline(always)]
    unsafe fn patterns<const KIND: u8>(counts: Self::Counts, _taken: usize) -> Option<[u32; 8]> {
        let mut patterns = [0; 8];
        // SAFETY: as many values as lanes, and more.
        unsafe { _mm_storeu_si128(patterns.as_mut_ptr().cast(), counts) };
        Some(patterns)
    }
}
