//! Vectors of AVX2 with FMA.
#![allow(unsafe_code, reason = "instructions of features that the caller has detected")]

#[allow(clippy::wildcard_imports, reason = "some fifty instructions, all in this file")]
use std::arch::x86_64::*;

use super::avx2_f64::Avx2F64;
use super::vector::{QUANTA, UPPER_BITS, Vector, instructions, total};
use crate::math::{ANCHOR, TABLE_F32, TO_EXPONENT_F32};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2F32(__m256);

/// All bits of the first `count` lanes.
#[inline(always)]
unsafe fn first_lanes(count: usize) -> __m256i {
    // SAFETY: AVX2, as the caller vouches.
    unsafe {
        let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), lanes)
    }
}

/// Which lanes a choice of lanes has, one after the other.
#[repr(align(32))]
struct Compressed([[u32; 8]; 256]);

static COMPRESSED: Compressed = {
    let (mut lanes, mut bits) = ([[0; 8]; 256], 0);
    while bits < 256 {
        let (mut lane, mut count) = (0, 0);
        while lane < 8 {
            if bits >> lane & 1 == 1 {
                lanes[bits][count] = lane as u32;
                count += 1;
            }
            lane += 1;
        }
        bits += 1;
    }
    Compressed(lanes)
};

impl Vector for Avx2F32 {
    type Double = Avx2F64;
    type Mask = __m256;
    type Sums = [__m256i; 2];
    /// Upper, lower, and the lower ones settled.
    type Parts = [__m256i; 4];
    type Wide = [__m256d; 2];
    type Counts = __m256i;
    /// As in AVX-512.
    type LongCounts = [__m256i; 2];
    const LANES: usize = 8;
    const UNIT: f32 = 1.0;
    instructions! {
        fn splat(value: f32) -> Self { Self(_mm256_set1_ps(value)) }
        fn load(from: *const f32) -> Self { Self(_mm256_loadu_ps(from)) }
        fn load_part(from: *const f32, count: usize) -> Self {
            let mask = first_lanes(count);
            let none = _mm256_set1_ps(f32::NEG_INFINITY);
            Self(_mm256_blendv_ps(none, _mm256_maskload_ps(from, mask), _mm256_castsi256_ps(mask)))
        }
        fn store(self, to: *mut f32) { _mm256_storeu_ps(to, self.0) }
        fn add(self, other: Self) -> Self { Self(_mm256_add_ps(self.0, other.0)) }
        fn sub(self, other: Self) -> Self { Self(_mm256_sub_ps(self.0, other.0)) }
        fn mul(self, other: Self) -> Self { Self(_mm256_mul_ps(self.0, other.0)) }
        fn mul_add(self, factor: Self, term: Self) -> Self { Self(_mm256_fmadd_ps(self.0, factor.0, term.0)) }
        fn neg_mul_add(self, factor: Self, term: Self) -> Self {
            Self(_mm256_fnmadd_ps(self.0, factor.0, term.0))
        }
        fn larger(self, other: Self) -> Self { Self(_mm256_max_ps(self.0, other.0)) }
        fn smaller(self, other: Self) -> Self { Self(_mm256_min_ps(self.0, other.0)) }
        fn smaller_pattern(self, other: Self) -> Self {
            let smaller = _mm256_min_epu32(_mm256_castps_si256(self.0), _mm256_castps_si256(other.0));
            Self(_mm256_castsi256_ps(smaller))
        }
        fn greater(self, other: Self) -> Self::Mask { _mm256_cmp_ps::<_CMP_GT_OQ>(self.0, other.0) }
        fn greater_or_equal(self, other: Self) -> Self::Mask { _mm256_cmp_ps::<_CMP_GE_OQ>(self.0, other.0) }
        fn select(mask: Self::Mask, yes: Self, no: Self) -> Self { Self(_mm256_blendv_ps(no.0, yes.0, mask)) }
        fn keep(self, count: usize) -> Self {
            Self(_mm256_and_ps(self.0, _mm256_castsi256_ps(first_lanes(count))))
        }
        fn compress(self, mask: Self::Mask, to: *mut f32) {
            let order = _mm256_load_si256(COMPRESSED.0[Self::bits(mask) as usize].as_ptr().cast());
            _mm256_storeu_ps(to, _mm256_permutevar8x32_ps(self.0, order));
        }
        // As above.
        fn compress_labels(mask: Self::Mask, start: u32, to: *mut u32) {
            let order = _mm256_load_si256(COMPRESSED.0[Self::bits(mask) as usize].as_ptr().cast());
            _mm256_storeu_si256(to.cast(), _mm256_add_epi32(order, _mm256_set1_epi32(start as i32)));
        }
        fn bits(mask: Self::Mask) -> u32 { _mm256_movemask_ps(mask) as u32 }
    }
    #[inline(always)]
    unsafe fn swapped<const STEP: usize>(self) -> Self {
        // SAFETY: see splat.
        unsafe {
            Self(match STEP {
                4 => _mm256_permute2f128_ps::<1>(self.0, self.0),
                2 => _mm256_permute_ps::<0b01_00_11_10>(self.0),
                _ => _mm256_permute_ps::<0b10_11_00_01>(self.0),
            })
        }
    }
    instructions! {
        fn first(self) -> f32 { _mm256_cvtss_f32(self.0) }
        // The table is as long as two vectors.
        fn power(shifted: Self, unit: f32) -> Self {
            let more = _mm256_set1_epi32((unit.to_bits() - 1.0_f32.to_bits()) as i32);
            let table = TABLE_F32.0.as_ptr();
            let low = _mm256_add_epi32(_mm256_load_si256(table.cast()), more);
            let high = _mm256_add_epi32(_mm256_load_si256(table.add(8).cast()), more);
            let sixteenths = _mm256_castps_si256(shifted.0);
            // Each half by the lowest three bits; the fourth, as a sign, chooses among the two.
            let found = _mm256_blendv_ps(
                _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(low, sixteenths)),
                _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(high, sixteenths)),
                _mm256_castsi256_ps(_mm256_slli_epi32::<28>(sixteenths)),
            );
            let exponent = _mm256_slli_epi32::<{ TO_EXPONENT_F32 as i32 }>(sixteenths);
            Self(_mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(found), exponent)))
        }
        fn no_sums() -> Self::Sums { [_mm256_setzero_si256(); 2] }
        fn accumulate(self, [low, high]: Self::Sums) -> Self::Sums {
            let anchor = _mm256_set1_pd(ANCHOR);
            let first = _mm256_add_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(self.0)), anchor);
            let second = _mm256_add_pd(_mm256_cvtps_pd(_mm256_extractf128_ps::<1>(self.0)), anchor);
            [
                _mm256_add_epi64(low, _mm256_castpd_si256(first)),
                _mm256_add_epi64(high, _mm256_castpd_si256(second)),
            ]
        }
        // As many bytes of plain integers on both sides.
        fn total([low, high]: Self::Sums, taken: usize) -> i128 {
            let lanes: [u64; 8] = std::mem::transmute([low, high]);
            total(lanes, taken, ANCHOR.to_bits())
        }
        fn store_sums([low, high]: Self::Sums, taken: usize, to: *mut u64) {
            let anchors = (taken as u64).wrapping_mul(ANCHOR.to_bits());
            let anchors = _mm256_set1_epi64x(anchors as i64);
            _mm256_storeu_si256(to.cast(), _mm256_sub_epi64(low, anchors));
            _mm256_storeu_si256(to.add(4).cast(), _mm256_sub_epi64(high, anchors));
        }
        fn no_parts() -> Self::Parts { [_mm256_setzero_si256(); 4] }
        fn add_parts(self, [upper, lower, first, second]: Self::Parts) -> Self::Parts {
            let anchor = _mm256_set1_ps(QUANTA);
            let anchored = _mm256_add_ps(self.0, anchor);
            let rest = _mm256_sub_ps(self.0, _mm256_sub_ps(anchored, anchor));
            let upper = _mm256_add_epi32(upper, _mm256_castps_si256(anchored));
            [upper, _mm256_add_epi32(lower, _mm256_cvtps_epi32(rest)), first, second]
        }
        fn settle([upper, lower, first, second]: Self::Parts) -> Self::Parts {
            [
                upper,
                _mm256_setzero_si256(),
                _mm256_add_epi64(first, _mm256_cvtepi32_epi64(_mm256_castsi256_si128(lower))),
                _mm256_add_epi64(second, _mm256_cvtepi32_epi64(_mm256_extracti128_si256::<1>(lower))),
            ]
        }
        // As many bytes of plain integers on both sides.
        fn total_of_parts([upper, _, first, second]: Self::Parts, taken: usize) -> i128 {
            let anchors = QUANTA.to_bits().wrapping_mul(taken as u32);
            let upper = _mm256_sub_epi32(upper, _mm256_set1_epi32(anchors as i32));
            let (low, high) = (_mm256_castsi256_si128(upper), _mm256_extracti128_si256::<1>(upper));
            let upper = _mm256_add_epi64(_mm256_cvtepu32_epi64(low), _mm256_cvtepu32_epi64(high));
            let lower = _mm256_add_epi64(first, second);
            let sum = _mm256_add_epi64(_mm256_slli_epi64::<{ UPPER_BITS as i32 }>(upper), lower);
            // Fewer than 2^12 terms: the sum of all lanes fits 64 bits.
            let lanes: [u64; 4] = std::mem::transmute(sum);
            i128::from(lanes.into_iter().fold(0, u64::wrapping_add))
        }
        fn no_wide() -> Self::Wide { [_mm256_setzero_pd(); 2] }
        fn widen(self, [low, high]: Self::Wide) -> Self::Wide {
            [
                _mm256_add_pd(low, _mm256_cvtps_pd(_mm256_castps256_ps128(self.0))),
                _mm256_add_pd(high, _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(self.0))),
            ]
        }
        fn store_wide([low, high]: Self::Wide, to: *mut f64) {
            _mm256_storeu_pd(to, low);
            _mm256_storeu_pd(to.add(4), high);
        }
        fn no_counts() -> Self::Counts { _mm256_setzero_si256() }
        fn add_bits(self, sums: Self::Counts) -> Self::Counts {
            _mm256_add_epi32(sums, _mm256_castps_si256(self.0))
        }
        fn add_mask(mask: Self::Mask, counts: Self::Counts) -> Self::Counts {
            _mm256_sub_epi32(counts, _mm256_castps_si256(mask))
        }
        fn store_counts(counts: Self::Counts, to: *mut u32) { _mm256_storeu_si256(to.cast(), counts) }
        fn add_rounded(self, counts: Self::Counts) -> Self::Counts {
            _mm256_add_epi32(counts, _mm256_cvtps_epi32(self.0))
        }
        fn add_rounded_where(self, mask: Self::Mask, counts: Self::Counts) -> Self::Counts {
            let wanted = _mm256_and_si256(_mm256_cvtps_epi32(self.0), _mm256_castps_si256(mask));
            _mm256_add_epi32(counts, wanted)
        }
        fn no_long_counts() -> Self::LongCounts { [_mm256_setzero_si256(); 2] }
        fn lengthen(counts: Self::Counts, [even, odd]: Self::LongCounts) -> Self::LongCounts {
            [_mm256_add_epi64(even, counts), _mm256_add_epi64(odd, _mm256_srli_epi64::<32>(counts))]
        }
        fn total_count(sums: Self::LongCounts) -> u64 {
            let mut lanes = [0; 8];
            Self::store_long_counts(sums, lanes.as_mut_ptr());
            lanes.into_iter().fold(0, u64::wrapping_add)
        }
        fn store_long_counts([even, odd]: Self::LongCounts, to: *mut u64) {
            let even = _mm256_sub_epi64(even, _mm256_slli_epi64::<32>(odd));
            let (low, high) = (_mm256_unpacklo_epi64(even, odd), _mm256_unpackhi_epi64(even, odd));
            _mm256_storeu_si256(to.cast(), _mm256_permute2x128_si256::<0x20>(low, high));
            _mm256_storeu_si256(to.add(4).cast(), _mm256_permute2x128_si256::<0x31>(low, high));
        }
        fn minus([even, odd]: Self::LongCounts, others: Self::LongCounts) -> Self::LongCounts {
            [_mm256_sub_epi64(even, others[0]), _mm256_sub_epi64(odd, others[1])]
        }
        // Four values of each row are readable, as the caller vouches.
        fn four_columns(rows: &[&[f32]], first: usize) -> [Self; 4] {
            let four = |row: usize| _mm_loadu_ps(rows[row].as_ptr().add(first));
            // The halves have a row of the first four rows and one of the others.
            let both = |row: usize| _mm256_set_m128(four(4 + row), four(row));
            let (a, b, c, d) = (both(0), both(1), both(2), both(3));
            let (low, high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
            let (other_low, other_high) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
            let pair = |a, b| (_mm256_castps_pd(a), _mm256_castps_pd(b));
            let ((a, b), (c, d)) = (pair(low, other_low), pair(high, other_high));
            [
                Self(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b))),
                Self(_mm256_castpd_ps(_mm256_unpackhi_pd(a, b))),
                Self(_mm256_castpd_ps(_mm256_unpacklo_pd(c, d))),
                Self(_mm256_castpd_ps(_mm256_unpackhi_pd(c, d))),
            ]
        }
        fn transpose(rows: [Self; 16]) -> [Self; 16] {
            let (mut pairs, mut fours, mut columns) = (rows, rows, rows);
            for i in (0..8).step_by(2) {
                pairs[i] = Self(_mm256_unpacklo_ps(rows[i].0, rows[i + 1].0));
                pairs[i + 1] = Self(_mm256_unpackhi_ps(rows[i].0, rows[i + 1].0));
            }
            for i in [0, 1, 4, 5] {
                let (a, b) = (_mm256_castps_pd(pairs[i].0), _mm256_castps_pd(pairs[i + 2].0));
                let at = (i & 4) + 2 * (i & 1);
                fours[at] = Self(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)));
                fours[at + 1] = Self(_mm256_castpd_ps(_mm256_unpackhi_pd(a, b)));
            }
            for i in 0..4 {
                columns[i] = Self(_mm256_permute2f128_ps::<0x20>(fours[i].0, fours[4 + i].0));
                columns[4 + i] = Self(_mm256_permute2f128_ps::<0x31>(fours[i].0, fours[4 + i].0));
            }
            columns
        }
    }
}
