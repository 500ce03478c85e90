//! Vectors of float64 in AVX-512.
#![allow(unsafe_code, reason = "instructions of features that the caller has detected")]

#[allow(clippy::wildcard_imports, reason = "some thirty instructions, all in this file")]
use std::arch::x86_64::*;

use super::vector::{Double, Kind, instructions};
use crate::math::{ANCHOR, LOW_ANCHOR, TABLE_F64, TO_EXPONENT_F64, WIDE_COARSE_BITS};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512F64(__m512d);

#[inline(always)]
fn first_lanes(count: usize) -> __mmask8 {
    ((1_u32 << count) - 1) as __mmask8
}

impl Avx512F64 {
    /// The lanes with bits that no float32 has.
    #[inline(always)]
    unsafe fn is_wide(self) -> __mmask8 {
        // SAFETY: the instruction set, as the caller vouches.
        unsafe { _mm512_test_epi64_mask(_mm512_castpd_si512(self.0), _mm512_set1_epi64(LOW)) }
    }
}

/// Sums of patterns, those of each kind by themselves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PatternSums {
    mixed: __m256i,
    /// Of wide values: of patterns folded, in the lower halves.
    folded: __m512i,
    /// The lanes in which a value was not wide.
    not_wide: __mmask8,
    /// Of narrow values: of all bits, the exponents moved as [`Avx512F64::moved`] does.
    moved: __m512i,
    /// The bits in which a value was not as narrow ones are, among others.
    not_narrow: __m512i,
    /// The signs in the highest bits: those of an odd number of negative values.
    signs: __m512i,
}

/// What float32 has no room for in a float64.
const LOW: i64 = (1 << 29) - 1;
/// What is added to the exponents of narrow values, of 64 below 1 to 63 above it, to leave the highest four bits alike.
const MOVE: i64 = 65;
/// The exponents of 1 in both types differ by this.
const BIASES: i64 = 1023 - 127;
/// Bits that are alike in all narrow values moved, and what they are then: the exponent's highest four and the lowest of all.
const ALIKE: i64 = (15 << 59) | LOW;
const ALIKE_AS: i64 = 8 << 59;

impl Avx512F64 {
    /// The bits, the exponent moved.
    #[inline(always)]
    unsafe fn moved(self) -> __m512i {
        // SAFETY: the instruction set, as the caller vouches.
        unsafe { _mm512_add_epi64(_mm512_castpd_si512(self.0), _mm512_set1_epi64(MOVE << 52)) }
    }
}

impl Double for Avx512F64 {
    type Sums = [__m512i; 2];
    type Counts = PatternSums;
    const LANES: usize = 8;
    instructions! {
        fn splat(value: f64) -> Self { Self(_mm512_set1_pd(value)) }
        fn load(from: *const f64) -> Self { Self(_mm512_loadu_pd(from)) }
        fn load_part(from: *const f64, count: usize) -> Self {
            Self(_mm512_mask_loadu_pd(_mm512_set1_pd(f64::NEG_INFINITY), first_lanes(count), from))
        }
        fn store(self, to: *mut f64) { _mm512_storeu_pd(to, self.0) }
        fn add(self, other: Self) -> Self { Self(_mm512_add_pd(self.0, other.0)) }
        fn sub(self, other: Self) -> Self { Self(_mm512_sub_pd(self.0, other.0)) }
        fn mul(self, other: Self) -> Self { Self(_mm512_mul_pd(self.0, other.0)) }
        fn mul_add(self, factor: Self, term: Self) -> Self { Self(_mm512_fmadd_pd(self.0, factor.0, term.0)) }
        fn neg_mul_add(self, factor: Self, term: Self) -> Self {
            Self(_mm512_fnmadd_pd(self.0, factor.0, term.0))
        }
        fn larger(self, other: Self) -> Self { Self(_mm512_max_pd(self.0, other.0)) }
        fn smaller(self, other: Self) -> Self { Self(_mm512_min_pd(self.0, other.0)) }
        fn smaller_pattern(self, other: Self) -> Self {
            let smaller = _mm512_min_epu64(_mm512_castpd_si512(self.0), _mm512_castpd_si512(other.0));
            Self(_mm512_castsi512_pd(smaller))
        }
        fn keep(self, count: usize) -> Self { Self(_mm512_maskz_mov_pd(first_lanes(count), self.0)) }
        // The table is as long as two vectors.
        fn power(shifted: Self, unit: f64) -> Self {
            let more = _mm512_set1_epi64((unit.to_bits() - 1.0_f64.to_bits()) as i64);
            let table = TABLE_F64.0.as_ptr();
            let low = _mm512_add_epi64(_mm512_load_si512(table.cast()), more);
            let high = _mm512_add_epi64(_mm512_load_si512(table.add(8).cast()), more);
            let sixteenths = _mm512_castpd_si512(shifted.0);
            let exponent = _mm512_slli_epi64::<TO_EXPONENT_F64>(sixteenths);
            let found = _mm512_permutex2var_epi64(low, sixteenths, high);
            Self(_mm512_castsi512_pd(_mm512_add_epi64(found, exponent)))
        }
        fn no_sums() -> Self::Sums { [_mm512_setzero_si512(); 2] }
        fn accumulate(self, [high, low]: Self::Sums) -> Self::Sums {
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
    instructions! {
        fn accumulate_coarse(self, [sum, unused]: Self::Sums) -> Self::Sums {
            [_mm512_add_epi64(sum, _mm512_cvtpd_epi64(self.0)), unused]
        }
        fn coarse_total([sum, _]: Self::Sums, _taken: usize) -> i128 {
            let mut lanes = [0_u64; 8];
            _mm512_storeu_si512(lanes.as_mut_ptr().cast(), sum);
            lanes.into_iter().map(i128::from).sum::<i128>() << WIDE_COARSE_BITS
        }
        fn store_sums([high_words, low_words]: Self::Sums, high: *mut u64, low: *mut u64) {
            _mm512_storeu_si512(high.cast(), high_words);
            _mm512_storeu_si512(low.cast(), low_words);
        }
        fn no_counts() -> Self::Counts {
            let (mixed, none) = (_mm256_setzero_si256(), _mm512_setzero_si512());
            PatternSums { mixed, folded: none, not_wide: 0, moved: none, not_narrow: none, signs: none }
        }
        fn kind(self) -> Kind {
            let strays = _mm512_xor_si512(self.moved(), _mm512_set1_epi64(ALIKE_AS));
            if _mm512_test_epi64_mask(strays, _mm512_set1_epi64(ALIKE)) == 0 {
                Kind::Narrow
            } else if self.is_wide() == 0xff {
                Kind::Wide
            } else {
                Kind::Mixed
            }
        }
    }
    #[inline(always)]
    unsafe fn add_pattern<const KIND: u8>(self, sums: Self::Counts) -> Self::Counts {
        // SAFETY: see splat.
        unsafe {
            if KIND == Kind::Narrow as u8 {
                // A number of float32 has its pattern within its bits, but for the sign and another bias of the exponent,
                // and nothing below: bits are added up as they are, and patterns read off the sum.
                let moved = self.moved();
                return PatternSums {
                    moved: _mm512_add_epi64(sums.moved, moved),
                    // `not_narrow | (moved ^ ALIKE_AS)`
                    not_narrow: _mm512_ternarylogic_epi64::<0xf6>(
                        sums.not_narrow,
                        moved,
                        _mm512_set1_epi64(ALIKE_AS),
                    ),
                    signs: _mm512_xor_si512(sums.signs, moved),
                    ..sums
                };
            }
            if KIND == Kind::Wide as u8 {
                let bits = _mm512_castpd_si512(self.0);
                let folded = _mm512_xor_si512(bits, _mm512_srli_epi64::<32>(bits));
                let not_wide = sums.not_wide | !self.is_wide();
                return PatternSums { folded: _mm512_add_epi64(sums.folded, folded), not_wide, ..sums };
            }
            // `-0.0` as `0.0`.
            let z = _mm512_add_pd(self.0, _mm512_setzero_pd());
            let bits = _mm512_castpd_si512(z);
            let folded = _mm512_xor_si512(bits, _mm512_srli_epi64::<32>(bits));
            let narrow = _mm512_cvtpd_ps(z);
            let is_other = _mm512_cmp_pd_mask::<_CMP_NEQ_UQ>(_mm512_cvtps_pd(narrow), z);
            let narrow = _mm256_castps_si256(narrow);
            let pattern = _mm256_mask_mov_epi32(narrow, is_other, _mm512_cvtepi64_epi32(folded));
            PatternSums { mixed: _mm256_add_epi32(sums.mixed, pattern), ..sums }
        }
    }
    #[inline(always)]
    unsafe fn patterns<const KIND: u8>(sums: Self::Counts, taken: usize) -> Option<[u32; 8]> {
        let mut patterns = [0; 8];
        // SAFETY: as many values as lanes; see splat.
        unsafe {
            let mut sum = sums.mixed;
            if KIND == Kind::Wide as u8 {
                sum = _mm256_add_epi32(sum, _mm512_cvtepi64_epi32(sums.folded));
            }
            if KIND == Kind::Narrow as u8 {
                if _mm512_test_epi64_mask(sums.not_narrow, _mm512_set1_epi64(ALIKE)) != 0 {
                    return None;
                }
                let moves = ((BIASES + MOVE) << 23).wrapping_mul(taken as i64) as i32;
                let unsigned = _mm512_cvtepi64_epi32(_mm512_srli_epi64::<29>(sums.moved));
                let unsigned = _mm256_sub_epi32(unsigned, _mm256_set1_epi32(moves));
                let signs = _mm512_cvtepi64_epi32(_mm512_srli_epi64::<32>(sums.signs));
                let signs = _mm256_and_si256(signs, _mm256_set1_epi32(i32::MIN));
                sum = _mm256_add_epi32(sum, _mm256_add_epi32(unsigned, signs));
            }
            _mm256_storeu_si256(patterns.as_mut_ptr().cast(), sum);
        }
        (sums.not_wide == 0).then_some(patterns)
    }
}
