//! Vectors of float64 in AVX-512.
#![allow(unsafe_code, reason = "instructions of features that the caller has detected")]

#[allow(clippy::wildcard_imports, reason = "some thirty instructions, all in this file")]
use std::arch::x86_64::*;

use super::double::{Double, Kind};
use crate::exp2::{TABLE_F64, TO_EXPONENT_F64};
use crate::float::{ANCHOR, LOW_ANCHOR, WIDE_COARSE_BITS};

#[derive(Clone, Copy)]
pub(super) struct Avx512Double(__m512d);

#[inline(always)]
fn first_lanes(count: usize) -> __mmask8 {
    ((1_u32 << count) - 1) as __mmask8
}

impl Avx512Double {
    /// The lanes with bits that no float32 has.
    #[inline(always)]
    unsafe fn is_wide(self) -> __mmask8 {
        // SAFETY: the instruction set, as the caller vouches.
        unsafe { _mm512_test_epi64_mask(_mm512_castpd_si512(self.0), _mm512_set1_epi64((1 << 29) - 1)) }
    }
}

impl Double for Avx512Double {
    type Sums = [__m512i; 2];
    /// Those of patterns, of patterns folded, in the lower halves, and the lanes in which a value was of another kind.
    type Counts = (__m256i, __m512i, __mmask8);
    const LANES: usize = 8;
    #[inline(always)]
    unsafe fn splat(value: f64) -> Self {
        // SAFETY: the instruction set, as the caller vouches; so below.
        Self(unsafe { _mm512_set1_pd(value) })
    }
    #[inline(always)]
    unsafe fn load(from: *const f64) -> Self {
        // SAFETY: as many values as lanes are good to read or write, as the caller vouches.
        Self(unsafe { _mm512_loadu_pd(from) })
    }
    #[inline(always)]
    unsafe fn load_part(from: *const f64, count: usize) -> Self {
        // SAFETY: `count` values are readable, as the caller vouches.
        unsafe { Self(_mm512_mask_loadu_pd(_mm512_set1_pd(f64::NEG_INFINITY), first_lanes(count), from)) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        // SAFETY: as many values as lanes are good to read or write, as the caller vouches.
        unsafe { _mm512_storeu_pd(to, self.0) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: see splat.
        Self(unsafe { _mm512_add_pd(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: see splat.
        Self(unsafe { _mm512_sub_pd(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: see splat.
        Self(unsafe { _mm512_mul_pd(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, term: Self) -> Self {
        // SAFETY: see splat.
        Self(unsafe { _mm512_fmadd_pd(self.0, factor.0, term.0) })
    }
    #[inline(always)]
    unsafe fn neg_mul_add(self, factor: Self, term: Self) -> Self {
        // SAFETY: see splat.
        Self(unsafe { _mm512_fnmadd_pd(self.0, factor.0, term.0) })
    }
    #[inline(always)]
    unsafe fn larger(self, other: Self) -> Self {
        // SAFETY: see splat. The instruction gives its second operand for NaN.
        Self(unsafe { _mm512_max_pd(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn smaller(self, other: Self) -> Self {
        // SAFETY: see splat. The instruction gives its second operand for NaN.
        Self(unsafe { _mm512_min_pd(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn smaller_pattern(self, other: Self) -> Self {
        // SAFETY: see splat.
        unsafe {
            let smaller = _mm512_min_epu64(_mm512_castpd_si512(self.0), _mm512_castpd_si512(other.0));
            Self(_mm512_castsi512_pd(smaller))
        }
    }
    #[inline(always)]
    unsafe fn keep(self, count: usize) -> Self {
        // SAFETY: see splat.
        Self(unsafe { _mm512_maskz_mov_pd(first_lanes(count), self.0) })
    }
    #[inline(always)]
    unsafe fn power(shifted: Self, unit: f64) -> Self {
        // SAFETY: the table is as long as two vectors; see splat.
        unsafe {
            let more = _mm512_set1_epi64((unit.to_bits() - 1.0_f64.to_bits()) as i64);
            let table = TABLE_F64.0.as_ptr();
            let low = _mm512_add_epi64(_mm512_load_si512(table.cast()), more);
            let high = _mm512_add_epi64(_mm512_load_si512(table.add(8).cast()), more);
            let sixteenths = _mm512_castpd_si512(shifted.0);
            let exponent = _mm512_slli_epi64::<TO_EXPONENT_F64>(sixteenths);
            let found = _mm512_permutex2var_epi64(low, sixteenths, high);
            Self(_mm512_castsi512_pd(_mm512_add_epi64(found, exponent)))
        }
    }
    #[inline(always)]
    unsafe fn no_sums() -> Self::Sums {
        // SAFETY: see splat.
        unsafe { [_mm512_setzero_si512(); 2] }
    }
    #[inline(always)]
    unsafe fn accumulate(self, [high, low]: Self::Sums) -> Self::Sums {
        // SAFETY: see splat.
        unsafe {
            let anchor = _mm512_set1_pd(ANCHOR);
            let anchored = _mm512_add_pd(self.0, anchor);
            let rest = _mm512_sub_pd(self.0, _mm512_sub_pd(anchored, anchor));
            let rest = _mm512_add_pd(rest, _mm512_set1_pd(LOW_ANCHOR));
            [
                _mm512_add_epi64(high, _mm512_castpd_si512(anchored)),
                _mm512_add_epi64(low, _mm512_castpd_si512(rest)),
            ]
        }
    }
    // Coarse quanta: terms are converted to integers as they are, of which a lane takes at most an eighth.
    const COARSE_UNIT: f64 = (1_u64 << 56) as f64;
    #[inline(always)]
    unsafe fn accumulate_coarse(self, [sum, unused]: Self::Sums) -> Self::Sums {
        // SAFETY: see splat.
        unsafe { [_mm512_add_epi64(sum, _mm512_cvtpd_epi64(self.0)), unused] }
    }
    #[inline(always)]
    unsafe fn coarse_total([sum, _]: Self::Sums, _taken: usize) -> i128 {
        let mut lanes = [0_u64; 8];
        // SAFETY: as many values as lanes; see splat.
        unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), sum) };
        lanes.into_iter().map(i128::from).sum::<i128>() << WIDE_COARSE_BITS
    }
    #[inline(always)]
    unsafe fn store_sums([high_words, low_words]: Self::Sums, high: *mut u64, low: *mut u64) {
        // SAFETY: as many values as lanes may be written, as the caller vouches.
        unsafe {
            _mm512_storeu_si512(high.cast(), high_words);
            _mm512_storeu_si512(low.cast(), low_words);
        }
    }
    #[inline(always)]
    unsafe fn no_counts() -> Self::Counts {
        // SAFETY: see splat.
        unsafe { (_mm256_setzero_si256(), _mm512_setzero_si512(), 0) }
    }
    #[inline(always)]
    unsafe fn kind(self) -> Kind {
        // SAFETY: see splat.
        match unsafe { self.is_wide() } {
            0 => Kind::Narrow,
            0xff => Kind::Wide,
            _ => Kind::Mixed,
        }
    }
    #[inline(always)]
    unsafe fn add_pattern<const KIND: u8>(
        self,
        (narrow_sums, folded_sums, others): Self::Counts,
    ) -> Self::Counts {
        // SAFETY: see splat.
        unsafe {
            let (z, bits) = (self.0, _mm512_castpd_si512(self.0));
            let folded = _mm512_xor_si512(bits, _mm512_srli_epi64::<32>(bits));
            if KIND == Kind::Wide as u8 {
                return (narrow_sums, _mm512_add_epi64(folded_sums, folded), others | !self.is_wide());
            }
            let narrow = _mm512_cvtpd_ps(z);
            let is_other = _mm512_cmp_pd_mask::<_CMP_NEQ_UQ>(_mm512_cvtps_pd(narrow), z);
            let narrow = _mm256_castps_si256(narrow);
            if KIND == Kind::Narrow as u8 {
                return (_mm256_add_epi32(narrow_sums, narrow), folded_sums, others | is_other);
            }
            let pattern = _mm256_mask_mov_epi32(narrow, is_other, _mm512_cvtepi64_epi32(folded));
            (_mm256_add_epi32(narrow_sums, pattern), folded_sums, others)
        }
    }
    #[inline(always)]
    unsafe fn patterns((narrow_sums, folded_sums, others): Self::Counts) -> Option<[u32; 8]> {
        let mut patterns = [0; 8];
        // SAFETY: as many values as lanes; see splat.
        unsafe {
            let sums = _mm256_add_epi32(narrow_sums, _mm512_cvtepi64_epi32(folded_sums));
            _mm256_storeu_si256(patterns.as_mut_ptr().cast(), sums);
        }
        (others == 0).then_some(patterns)
    }
}
