//! Vectors of AVX-512.
#![allow(unsafe_code, reason = "instructions of features that the caller has detected")]

#[allow(clippy::wildcard_imports, reason = "some fifty instructions, all in this file")]
use std::arch::x86_64::*;

use super::avx512_f64::Avx512F64;
use super::vector::{QUANTA, UPPER_BITS, Vector, instructions, total};
use crate::math::{TABLE_F32, TO_EXPONENT_F32};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512F32(__m512);

#[inline(always)]
fn first_lanes(count: usize) -> __mmask16 {
    ((1_u32 << count) - 1) as __mmask16
}

impl Vector for Avx512F32 {
    type Double = Avx512F64;
    type Mask = __mmask16;
    type Sums = [__m512i; 2];
    /// Upper, lower, and the lower ones settled.
    type Parts = [__m512i; 4];
    type Wide = [__m512d; 2];
    type Counts = __m512i;
    /// The sums of even lanes, with those of odd lanes on top of them, and the sums of odd lanes.
    type LongCounts = [__m512i; 2];
    const LANES: usize = 16;
    // Quanta: terms are converted to integers as they are.
    const UNIT: f32 = (1_u64 << 51) as f32;
    instructions! {
        fn splat(value: f32) -> Self { Self(_mm512_set1_ps(value)) }
        fn load(from: *const f32) -> Self { Self(_mm512_loadu_ps(from)) }
        fn load_part(from: *const f32, count: usize) -> Self {
            Self(_mm512_mask_loadu_ps(_mm512_set1_ps(f32::NEG_INFINITY), first_lanes(count), from))
        }
        fn store(self, to: *mut f32) { _mm512_storeu_ps(to, self.0) }
        fn add(self, other: Self) -> Self { Self(_mm512_add_ps(self.0, other.0)) }
        fn sub(self, other: Self) -> Self { Self(_mm512_sub_ps(self.0, other.0)) }
        fn mul(self, other: Self) -> Self { Self(_mm512_mul_ps(self.0, other.0)) }
        fn mul_add(self, factor: Self, term: Self) -> Self { Self(_mm512_fmadd_ps(self.0, factor.0, term.0)) }
        fn neg_mul_add(self, factor: Self, term: Self) -> Self {
            Self(_mm512_fnmadd_ps(self.0, factor.0, term.0))
        }
        fn larger(self, other: Self) -> Self { Self(_mm512_max_ps(self.0, other.0)) }
        fn smaller(self, other: Self) -> Self { Self(_mm512_min_ps(self.0, other.0)) }
        fn smaller_pattern(self, other: Self) -> Self {
            let smaller = _mm512_min_epu32(_mm512_castps_si512(self.0), _mm512_castps_si512(other.0));
            Self(_mm512_castsi512_ps(smaller))
        }
        fn greater(self, other: Self) -> Self::Mask { _mm512_cmp_ps_mask::<_CMP_GT_OQ>(self.0, other.0) }
        fn greater_or_equal(self, other: Self) -> Self::Mask {
            _mm512_cmp_ps_mask::<_CMP_GE_OQ>(self.0, other.0)
        }
        fn select(mask: Self::Mask, yes: Self, no: Self) -> Self {
            Self(_mm512_mask_blend_ps(mask, no.0, yes.0))
        }
        fn keep(self, count: usize) -> Self { Self(_mm512_maskz_mov_ps(first_lanes(count), self.0)) }
        // Compressed in a register: to memory it is a slow instruction on some machines.
        fn compress(self, mask: Self::Mask, to: *mut f32) {
            _mm512_storeu_ps(to, _mm512_maskz_compress_ps(mask, self.0))
        }
        fn compress_labels(mask: Self::Mask, start: u32, to: *mut u32) {
            let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            let labels = _mm512_add_epi32(lanes, _mm512_set1_epi32(start as i32));
            _mm512_storeu_si512(to.cast(), _mm512_maskz_compress_epi32(mask, labels));
        }
        fn bits(mask: Self::Mask) -> u32 { u32::from(mask) }
    }
    #[inline(always)]
    unsafe fn swapped<const STEP: usize>(self) -> Self {
        // SAFETY: see splat.
        unsafe {
            Self(match STEP {
                8 => _mm512_shuffle_f32x4::<0b01_00_11_10>(self.0, self.0),
                4 => _mm512_shuffle_f32x4::<0b10_11_00_01>(self.0, self.0),
                2 => _mm512_permute_ps::<0b01_00_11_10>(self.0),
                _ => _mm512_permute_ps::<0b10_11_00_01>(self.0),
            })
        }
    }
    instructions! {
        fn first(self) -> f32 { _mm512_cvtss_f32(self.0) }
        // The table is as long as a vector.
        fn power(shifted: Self, unit: f32) -> Self {
            let more = _mm512_set1_epi32((unit.to_bits() - 1.0_f32.to_bits()) as i32);
            let table = _mm512_add_epi32(_mm512_load_si512(TABLE_F32.0.as_ptr().cast()), more);
            let sixteenths = _mm512_castps_si512(shifted.0);
            let exponent = _mm512_slli_epi32::<TO_EXPONENT_F32>(sixteenths);
            Self(_mm512_castsi512_ps(_mm512_add_epi32(_mm512_permutexvar_epi32(sixteenths, table), exponent)))
        }
        fn no_sums() -> Self::Sums { [_mm512_setzero_si512(); 2] }
        fn accumulate(self, [low, high]: Self::Sums) -> Self::Sums {
            [
                _mm512_add_epi64(low, _mm512_cvtps_epi64(_mm512_castps512_ps256(self.0))),
                _mm512_add_epi64(high, _mm512_cvtps_epi64(_mm512_extractf32x8_ps::<1>(self.0))),
            ]
        }
        // As many bytes of plain integers on both sides.
        fn total([low, high]: Self::Sums, taken: usize) -> i128 {
            if taken < 1 << 9 {
                // The sum of all lanes fits 64 bits.
                return i128::from(_mm512_reduce_add_epi64(_mm512_add_epi64(low, high)) as u64);
            }
            let lanes: [u64; 16] = std::mem::transmute([low, high]);
            total(lanes, taken, 0)
        }
        fn store_sums([low, high]: Self::Sums, _taken: usize, to: *mut u64) {
            _mm512_storeu_si512(to.cast(), low);
            _mm512_storeu_si512(to.add(8).cast(), high);
        }
        fn no_parts() -> Self::Parts { [_mm512_setzero_si512(); 4] }
        fn add_parts(self, [upper, lower, first, second]: Self::Parts) -> Self::Parts {
            let anchor = _mm512_set1_ps(QUANTA);
            let anchored = _mm512_add_ps(self.0, anchor);
            let rest = _mm512_sub_ps(self.0, _mm512_sub_ps(anchored, anchor));
            let upper = _mm512_add_epi32(upper, _mm512_castps_si512(anchored));
            [upper, _mm512_add_epi32(lower, _mm512_cvtps_epi32(rest)), first, second]
        }
        fn settle([upper, lower, first, second]: Self::Parts) -> Self::Parts {
            [
                upper,
                _mm512_setzero_si512(),
                _mm512_add_epi64(first, _mm512_cvtepi32_epi64(_mm512_castsi512_si256(lower))),
                _mm512_add_epi64(second, _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64::<1>(lower))),
            ]
        }
        fn total_of_parts([upper, _, first, second]: Self::Parts, taken: usize) -> i128 {
            let anchors = QUANTA.to_bits().wrapping_mul(taken as u32);
            let upper = _mm512_sub_epi32(upper, _mm512_set1_epi32(anchors as i32));
            let (low, high) = (_mm512_castsi512_si256(upper), _mm512_extracti64x4_epi64::<1>(upper));
            let upper = _mm512_add_epi64(_mm512_cvtepu32_epi64(low), _mm512_cvtepu32_epi64(high));
            let lower = _mm512_add_epi64(first, second);
            let sum = _mm512_add_epi64(_mm512_slli_epi64::<UPPER_BITS>(upper), lower);
            // Fewer than 2^13 terms: the sum of all lanes fits 64 bits.
            i128::from(_mm512_reduce_add_epi64(sum) as u64)
        }
        fn no_wide() -> Self::Wide { [_mm512_setzero_pd(); 2] }
        fn widen(self, [low, high]: Self::Wide) -> Self::Wide {
            [
                _mm512_add_pd(low, _mm512_cvtps_pd(_mm512_castps512_ps256(self.0))),
                _mm512_add_pd(high, _mm512_cvtps_pd(_mm512_extractf32x8_ps::<1>(self.0))),
            ]
        }
        fn store_wide([low, high]: Self::Wide, to: *mut f64) {
            _mm512_storeu_pd(to, low);
            _mm512_storeu_pd(to.add(8), high);
        }
        fn no_counts() -> Self::Counts { _mm512_setzero_si512() }
        fn add_bits(self, sums: Self::Counts) -> Self::Counts {
            _mm512_add_epi32(sums, _mm512_castps_si512(self.0))
        }
        fn add_mask(mask: Self::Mask, counts: Self::Counts) -> Self::Counts {
            _mm512_mask_add_epi32(counts, mask, counts, _mm512_set1_epi32(1))
        }
        fn store_counts(counts: Self::Counts, to: *mut u32) { _mm512_storeu_si512(to.cast(), counts) }
        fn add_rounded(self, counts: Self::Counts) -> Self::Counts {
            _mm512_add_epi32(counts, _mm512_cvtps_epi32(self.0))
        }
        fn add_rounded_where(self, mask: Self::Mask, counts: Self::Counts) -> Self::Counts {
            _mm512_mask_add_epi32(counts, mask, counts, _mm512_cvtps_epi32(self.0))
        }
        fn no_long_counts() -> Self::LongCounts { [_mm512_setzero_si512(); 2] }
        fn lengthen(counts: Self::Counts, [even, odd]: Self::LongCounts) -> Self::LongCounts {
            [_mm512_add_epi64(even, counts), _mm512_add_epi64(odd, _mm512_srli_epi64::<32>(counts))]
        }
        fn total_count([even, odd]: Self::LongCounts) -> u64 {
            let even = _mm512_sub_epi64(even, _mm512_slli_epi64::<32>(odd));
            _mm512_reduce_add_epi64(_mm512_add_epi64(even, odd)) as u64
        }
        fn store_long_counts([even, odd]: Self::LongCounts, to: *mut u64) {
            let even = _mm512_sub_epi64(even, _mm512_slli_epi64::<32>(odd));
            let (first, second) =
                (_mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15));
            _mm512_storeu_si512(to.cast(), _mm512_permutex2var_epi64(even, first, odd));
            _mm512_storeu_si512(to.add(8).cast(), _mm512_permutex2var_epi64(even, second, odd));
        }
        fn minus([even, odd]: Self::LongCounts, others: Self::LongCounts) -> Self::LongCounts {
            [_mm512_sub_epi64(even, others[0]), _mm512_sub_epi64(odd, others[1])]
        }
        // Four values of each row are readable, as the caller vouches.
        fn four_columns(rows: &[&[f32]], first: usize) -> [Self; 4] {
            let four = |row: usize| _mm_loadu_ps(rows[row].as_ptr().add(first));
            // Quarter q of each has a row of the rows from 4 q on.
            let mut quarters = [_mm512_setzero_ps(); 4];
            for (i, quarter) in quarters.iter_mut().enumerate() {
                let vector = _mm512_broadcast_f32x4(four(i));
                let vector = _mm512_mask_broadcast_f32x4(vector, 0x00f0, four(4 + i));
                let vector = _mm512_mask_broadcast_f32x4(vector, 0x0f00, four(8 + i));
                *quarter = _mm512_mask_broadcast_f32x4(vector, 0xf000, four(12 + i));
            }
            let [a, b, c, d] = quarters;
            let (low, high) = (_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
            let (other_low, other_high) = (_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
            let pair = |a, b| (_mm512_castps_pd(a), _mm512_castps_pd(b));
            let ((a, b), (c, d)) = (pair(low, other_low), pair(high, other_high));
            [
                Self(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b))),
                Self(_mm512_castpd_ps(_mm512_unpackhi_pd(a, b))),
                Self(_mm512_castpd_ps(_mm512_unpacklo_pd(c, d))),
                Self(_mm512_castpd_ps(_mm512_unpackhi_pd(c, d))),
            ]
        }
        fn transpose(rows: [Self; 16]) -> [Self; 16] {
            const EVEN: i32 = 0b10_00_10_00;
            const ODD: i32 = 0b11_01_11_01;
            let (mut pairs, mut fours, mut columns) = (rows, rows, rows);
            for i in (0..16).step_by(2) {
                pairs[i] = Self(_mm512_unpacklo_ps(rows[i].0, rows[i + 1].0));
                pairs[i + 1] = Self(_mm512_unpackhi_ps(rows[i].0, rows[i + 1].0));
            }
            for i in [0, 1, 4, 5, 8, 9, 12, 13] {
                let (a, b) = (_mm512_castps_pd(pairs[i].0), _mm512_castps_pd(pairs[i + 2].0));
                let at = (i & 0b1100) + 2 * (i & 1);
                fours[at] = Self(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)));
                fours[at + 1] = Self(_mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
            }
            // Quarter q of fours[4 r + c] has column 4 q + c of the rows from 4 r on.
            for i in 0..4 {
                let upper_even = _mm512_shuffle_f32x4::<EVEN>(fours[i].0, fours[4 + i].0);
                let upper_odd = _mm512_shuffle_f32x4::<ODD>(fours[i].0, fours[4 + i].0);
                let lower_even = _mm512_shuffle_f32x4::<EVEN>(fours[8 + i].0, fours[12 + i].0);
                let lower_odd = _mm512_shuffle_f32x4::<ODD>(fours[8 + i].0, fours[12 + i].0);
                columns[i] = Self(_mm512_shuffle_f32x4::<EVEN>(upper_even, lower_even));
                columns[4 + i] = Self(_mm512_shuffle_f32x4::<EVEN>(upper_odd, lower_odd));
                columns[8 + i] = Self(_mm512_shuffle_f32x4::<ODD>(upper_even, lower_even));
                columns[12 + i] = Self(_mm512_shuffle_f32x4::<ODD>(upper_odd, lower_odd));
            }
            columns
        }
    }
}
