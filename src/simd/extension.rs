//! What do kernels need that `fearless_simd` has not? A table of sixteen, rounding to integers, a fused
//! multiply-add where the machine has none, and a function that is never inlined.
//!
//! Each has a portable form, and a better one where an instruction set has an instruction for it.

use fearless_simd::{f32x4, f32x16, f64x8, i32x16, prelude::*, u32x16, u64x8};

use crate::math::WIDTH;

/// The proof that the machine has an instruction set, which kernels are generic over.
pub trait Simd: fearless_simd::Simd {
    /// Whether the machine has fused multiply-adds; elsewhere they are put together of other operations.
    const IS_FUSED: bool = true;

    /// Calls `work`, which must be `#[inline(always)]`, in a function of its own that is compiled for the
    /// instruction set. What is inlined there may use its instructions; in a larger function it would compete
    /// for registers.
    fn apart<R>(self, work: impl FnOnce() -> R) -> R;

    /// Fewer than sixteen numbers, and `-inf` after them.
    #[inline(always)]
    fn load_part_f32(self, values: &[f32]) -> f32x16<Self> {
        let mut filled = [f32::NEG_INFINITY; WIDTH];
        filled[..values.len()].copy_from_slice(values);
        f32x16::load_array(self, filled)
    }

    /// At most eight numbers, and `-inf` after them.
    #[inline(always)]
    fn load_part_f64(self, values: &[f64]) -> f64x8<Self> {
        let mut filled = [f64::NEG_INFINITY; 8];
        filled[..values.len()].copy_from_slice(values);
        f64x8::load_array(self, filled)
    }

    /// The entries of a table, each by the lowest four bits of an index.
    #[inline(always)]
    fn look_up_u32(self, table: &[u32; WIDTH], indices: u32x16<Self>) -> u32x16<Self> {
        let mut found = indices.to_array();
        for entry in &mut found {
            *entry = table[(*entry & 15) as usize];
        }
        u32x16::load_array(self, found)
    }

    /// The entries of a table, each by the lowest four bits of an index.
    #[inline(always)]
    fn look_up_u64(self, table: &[u64; WIDTH], indices: u64x8<Self>) -> u64x8<Self> {
        let mut found = indices.to_array();
        for entry in &mut found {
            *entry = table[(*entry & 15) as usize];
        }
        u64x8::load_array(self, found)
    }

    /// The nearest integers, even ones at ties, of numbers below 2^31.
    #[inline(always)]
    fn round_u32(self, x: f32x16<Self>) -> u32x16<Self> {
        x.round_ties_even().to_int::<i32x16<Self>>().bitcast()
    }

    /// The nearest integers, even ones at ties, of numbers up to 2^56.
    #[inline(always)]
    fn round_u64(self, x: f64x8<Self>) -> u64x8<Self> {
        // Adding these leaves multiples of 32, and then whole numbers, in the lowest bits.
        const COARSE: f64 = 1.5 * (1_u64 << 57) as f64;
        const FINE: f64 = 1.5 * (1_u64 << 52) as f64;
        let coarse = x + COARSE;
        let fine = (x - (coarse - COARSE)) + FINE;
        let both = (coarse.to_bits() << 5) + fine.to_bits();
        both - (COARSE.to_bits() << 5).wrapping_add(FINE.to_bits())
    }

    /// `a b + c`, rounded once.
    #[inline(always)]
    fn fma_f32(self, a: f32x16<Self>, b: f32x16<Self>, c: f32x16<Self>) -> f32x16<Self> {
        a.mul_add_precise(b, c)
    }

    /// `a b + c`, rounded once.
    #[inline(always)]
    fn fma_f64(self, a: f64x8<Self>, b: f64x8<Self>, c: f64x8<Self>) -> f64x8<Self> {
        a.mul_add_precise(b, c)
    }

    /// The smaller of two depths, `bottom` being positive and finite: `bottom` where `depth` is negative or
    /// NaN.
    #[inline(always)]
    fn cut_depth_f64(self, depth: f64x8<Self>, bottom: f64x8<Self>) -> f64x8<Self> {
        // As patterns: negative numbers and NaN come after the others.
        f64x8::from_bits(depth.to_bits().min(bottom.to_bits()))
    }

    /// Four columns of sixteen rows, of which four numbers each are given.
    #[inline(always)]
    fn four_columns(self, rows: &[f32x4<Self>; WIDTH]) -> [f32x16<Self>; 4] {
        // Four rows side by side.
        macro_rules! fours {
            ($row:expr) => {
                rows[$row].combine(rows[$row + 1]).combine(rows[$row + 2].combine(rows[$row + 3]))
            };
        }
        let ((e0, o0), (e1, o1)) = (fours!(0).deinterleave(fours!(4)), fours!(8).deinterleave(fours!(12)));
        let ((c0, c2), (c1, c3)) = (e0.deinterleave(e1), o0.deinterleave(o1));
        [c0, c1, c2, c3]
    }
}

/// Compiles the calls of [`Simd::apart`] for the instructions that `fearless_simd` takes at a level: with any
/// fewer its operations would not be inlined (`tests/inlined.py` looks for that).
#[cfg(target_arch = "x86_64")]
macro_rules! apart {
    ($token:ident, $features:literal) => {
        #[inline(always)]
        #[allow(unsafe_code, reason = "a call of a function compiled for features that were detected")]
        fn apart<R>(self, work: impl FnOnce() -> R) -> R {
            #[inline(never)]
            #[target_feature(enable = $features)]
            fn compiled<R>(work: impl FnOnce() -> R) -> R {
                work()
            }
            // SAFETY: the machine has the features, as the token proves.
            unsafe { compiled(work) }
        }
    };
}

/// [`Simd::apart`] for what the whole crate is compiled for.
macro_rules! plainly_apart {
    () => {
        #[inline(always)]
        fn apart<R>(self, work: impl FnOnce() -> R) -> R {
            #[inline(never)]
            fn compiled<R>(work: impl FnOnce() -> R) -> R {
                work()
            }
            compiled(work)
        }
    };
}

#[cfg(target_arch = "x86_64")]
#[allow(clippy::wildcard_imports, reason = "a dozen instructions, all in this file")]
mod x86_64 {
    use std::arch::x86_64::*;

    use fearless_simd::{Avx2, Avx512, Sse2};

    use super::super::fused;
    use super::*;

    impl Simd for Avx512 {
        apart!(
            Avx512,
            "fxsr,adx,aes,avx512bitalg,avx512bw,avx512cd,avx512dq,avx512f,avx512ifma,avx512vbmi,avx512vbmi2,avx512vl,avx512vnni,avx512vpopcntdq,bmi1,bmi2,cmpxchg16b,fma,gfni,lzcnt,movbe,pclmulqdq,popcnt,rdrand,rdseed,sha,vaes,vpclmulqdq,xsave,xsavec,xsaveopt,xsaves"
        );

        #[inline(always)]
        #[allow(unsafe_code, reason = "loads of parts of vectors")]
        fn load_part_f32(self, values: &[f32]) -> f32x16<Self> {
            fearless_simd::kernel!(
                #[inline(always)]
                fn kernel(token: Avx512, values: &[f32]) -> f32x16<Avx512> {
                    assert!(values.len() < WIDTH, "part of a vector");
                    let (none, mask) = (_mm512_set1_ps(f32::NEG_INFINITY), (1_u32 << values.len()) - 1);
                    // SAFETY: as many numbers are read as there are.
                    unsafe { _mm512_mask_loadu_ps(none, mask as __mmask16, values.as_ptr()) }.simd_into(token)
                }
            );
            kernel(self, values)
        }

        #[inline(always)]
        #[allow(unsafe_code, reason = "loads of parts of vectors")]
        fn load_part_f64(self, values: &[f64]) -> f64x8<Self> {
            fearless_simd::kernel!(
                #[inline(always)]
                fn kernel(token: Avx512, values: &[f64]) -> f64x8<Avx512> {
                    assert!(values.len() <= 8, "at most a vector");
                    let (none, mask) = (_mm512_set1_pd(f64::NEG_INFINITY), (1_u32 << values.len()) - 1);
                    // SAFETY: as many numbers are read as there are.
                    unsafe { _mm512_mask_loadu_pd(none, mask as __mmask8, values.as_ptr()) }.simd_into(token)
                }
            );
            kernel(self, values)
        }

        #[inline(always)]
        fn look_up_u32(self, table: &[u32; WIDTH], indices: u32x16<Self>) -> u32x16<Self> {
            fearless_simd::kernel!(
                #[inline(always)]
                fn kernel(token: Avx512, table: u32x16<Avx512>, indices: u32x16<Avx512>) -> u32x16<Avx512> {
                    _mm512_permutexvar_epi32(indices.into(), table.into()).simd_into(token)
                }
            );
            kernel(self, u32x16::load_array_ref(self, table), indices)
        }

        #[inline(always)]
        fn look_up_u64(self, table: &[u64; WIDTH], indices: u64x8<Self>) -> u64x8<Self> {
            fearless_simd::kernel!(
                #[inline(always)]
                fn kernel(
                    token: Avx512,
                    low: u64x8<Avx512>,
                    high: u64x8<Avx512>,
                    indices: u64x8<Avx512>,
                ) -> u64x8<Avx512> {
                    _mm512_permutex2var_epi64(low.into(), indices.into(), high.into()).simd_into(token)
                }
            );
            let [low, high] = halves(table);
            kernel(self, u64x8::load_array_ref(self, low), u64x8::load_array_ref(self, high), indices)
        }

        #[inline(always)]
        fn round_u32(self, x: f32x16<Self>) -> u32x16<Self> {
            fearless_simd::kernel!(
                #[inline(always)]
                fn kernel(token: Avx512, x: f32x16<Avx512>) -> u32x16<Avx512> {
                    _mm512_cvtps_epi32(x.into()).simd_into(token)
                }
            );
            kernel(self, x)
        }

        #[inline(always)]
        fn round_u64(self, x: f64x8<Self>) -> u64x8<Self> {
            fearless_simd::kernel!(
                #[inline(always)]
                fn kernel(token: Avx512, x: f64x8<Avx512>) -> u64x8<Avx512> {
                    _mm512_cvtpd_epi64(x.into()).simd_into(token)
                }
            );
            kernel(self, x)
        }
    }

    impl Simd for Avx2 {
        apart!(Avx2, "fxsr,avx2,bmi1,bmi2,cmpxchg16b,f16c,fma,lzcnt,movbe,popcnt,xsave");

        #[inline(always)]
        #[allow(unsafe_code, reason = "loads of parts of vectors")]
        fn load_part_f32(self, values: &[f32]) -> f32x16<Self> {
            fearless_simd::kernel!(
                #[inline(always)]
                fn kernel(token: Avx2, values: &[f32]) -> fearless_simd::f32x8<Avx2> {
                    assert!(values.len() <= 8, "at most a vector");
                    let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
                    let mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(values.len() as i32), lanes);
                    // SAFETY: as many numbers are read as there are.
                    let found = unsafe { _mm256_maskload_ps(values.as_ptr(), mask) };
                    let none = _mm256_set1_ps(f32::NEG_INFINITY);
                    _mm256_blendv_ps(none, found, _mm256_castsi256_ps(mask)).simd_into(token)
                }
            );
            let (first, second) = values.split_at(values.len().min(8));
            kernel(self, first).combine(kernel(self, second))
        }

        #[inline(always)]
        #[allow(unsafe_code, reason = "loads of parts of vectors")]
        fn load_part_f64(self, values: &[f64]) -> f64x8<Self> {
            fearless_simd::kernel!(
                #[inline(always)]
                fn kernel(token: Avx2, values: &[f64]) -> fearless_simd::f64x4<Avx2> {
                    assert!(values.len() <= 4, "at most a vector");
                    let lanes = _mm256_setr_epi64x(0, 1, 2, 3);
                    let mask = _mm256_cmpgt_epi64(_mm256_set1_epi64x(values.len() as i64), lanes);
                    // SAFETY: as many numbers are read as there are.
                    let found = unsafe { _mm256_maskload_pd(values.as_ptr(), mask) };
                    let none = _mm256_set1_pd(f64::NEG_INFINITY);
                    _mm256_blendv_pd(none, found, _mm256_castsi256_pd(mask)).simd_into(token)
                }
            );
            let (first, second) = values.split_at(values.len().min(4));
            kernel(self, first).combine(kernel(self, second))
        }

        #[inline(always)]
        fn look_up_u32(self, table: &[u32; WIDTH], indices: u32x16<Self>) -> u32x16<Self> {
            // Each half by the lowest three bits; the fourth, as a sign, chooses among the two.
            fearless_simd::kernel!(
                #[inline(always)]
                fn kernel(token: Avx2, table: u32x16<Avx2>, indices: u32x16<Avx2>) -> u32x16<Avx2> {
                    let (low, high) = table.split();
                    let (low, high): (__m256i, __m256i) = (low.into(), high.into());
                    let (first, second) = indices.split();
                    let (first, second): (__m256i, __m256i) = (first.into(), second.into());
                    let first = _mm256_castps_si256(_mm256_blendv_ps(
                        _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(low, first)),
                        _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(high, first)),
                        _mm256_castsi256_ps(_mm256_slli_epi32::<28>(first)),
                    ));
                    let second = _mm256_castps_si256(_mm256_blendv_ps(
                        _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(low, second)),
                        _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(high, second)),
                        _mm256_castsi256_ps(_mm256_slli_epi32::<28>(second)),
                    ));
                    let first: fearless_simd::u32x8<Avx2> = first.simd_into(token);
                    let second: fearless_simd::u32x8<Avx2> = second.simd_into(token);
                    first.combine(second)
                }
            );
            kernel(self, u32x16::load_array_ref(self, table), indices)
        }

        #[inline(always)]
        #[allow(unsafe_code, reason = "a gather from a table")]
        fn look_up_u64(self, table: &[u64; WIDTH], indices: u64x8<Self>) -> u64x8<Self> {
            fearless_simd::kernel!(
                #[inline(always)]
                fn kernel(token: Avx2, table: &[u64; WIDTH], indices: u64x8<Avx2>) -> u64x8<Avx2> {
                    let (first, second) = (indices & 15_u64).split();
                    // SAFETY: indices are below 16, the length of the table.
                    let (first, second) = unsafe {
                        (
                            _mm256_i64gather_epi64::<8>(table.as_ptr().cast(), first.into()),
                            _mm256_i64gather_epi64::<8>(table.as_ptr().cast(), second.into()),
                        )
                    };
                    let first: fearless_simd::u64x4<Avx2> = first.simd_into(token);
                    let second: fearless_simd::u64x4<Avx2> = second.simd_into(token);
                    first.combine(second)
                }
            );
            kernel(self, table, indices)
        }

        #[inline(always)]
        fn round_u32(self, x: f32x16<Self>) -> u32x16<Self> {
            fearless_simd::kernel!(
                #[inline(always)]
                fn kernel(token: Avx2, x: f32x16<Avx2>) -> u32x16<Avx2> {
                    let (first, second) = x.split();
                    let first: fearless_simd::u32x8<Avx2> = _mm256_cvtps_epi32(first.into()).simd_into(token);
                    let second: fearless_simd::u32x8<Avx2> =
                        _mm256_cvtps_epi32(second.into()).simd_into(token);
                    first.combine(second)
                }
            );
            kernel(self, x)
        }

        #[inline(always)]
        fn cut_depth_f64(self, depth: f64x8<Self>, bottom: f64x8<Self>) -> f64x8<Self> {
            // AVX2 has no minimum of 64-bit integers. The second is taken where the first is NaN, or has a
            // sign.
            fearless_simd::kernel!(
                #[inline(always)]
                fn kernel(token: Avx2, depth: f64x8<Avx2>, bottom: f64x8<Avx2>) -> f64x8<Avx2> {
                    let ((d0, d1), (b0, b1)) = (depth.split(), bottom.split());
                    let (d0, d1, b0, b1): (__m256d, __m256d, __m256d, __m256d) =
                        (d0.into(), d1.into(), b0.into(), b1.into());
                    let first: fearless_simd::f64x4<Avx2> =
                        _mm256_blendv_pd(_mm256_min_pd(d0, b0), b0, d0).simd_into(token);
                    let second: fearless_simd::f64x4<Avx2> =
                        _mm256_blendv_pd(_mm256_min_pd(d1, b1), b1, d1).simd_into(token);
                    first.combine(second)
                }
            );
            kernel(self, depth, bottom)
        }

        #[inline(always)]
        fn four_columns(self, rows: &[f32x4<Self>; WIDTH]) -> [f32x16<Self>; 4] {
            // Within blocks of four, where instructions are quicker than across them.
            fearless_simd::kernel!(
                #[inline(always)]
                fn kernel(
                    token: Avx2,
                    a: __m256,
                    b: __m256,
                    c: __m256,
                    d: __m256,
                ) -> [fearless_simd::f32x8<Avx2>; 4] {
                    let (low, high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
                    let (other_low, other_high) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
                    let (a, c) = (_mm256_castps_pd(low), _mm256_castps_pd(high));
                    let (b, d) = (_mm256_castps_pd(other_low), _mm256_castps_pd(other_high));
                    [
                        _mm256_castpd_ps(_mm256_unpacklo_pd(a, b)).simd_into(token),
                        _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)).simd_into(token),
                        _mm256_castpd_ps(_mm256_unpacklo_pd(c, d)).simd_into(token),
                        _mm256_castpd_ps(_mm256_unpackhi_pd(c, d)).simd_into(token),
                    ]
                }
            );
            // The halves have a row of the first four rows and one of the others.
            macro_rules! both {
                ($row:expr) => {
                    rows[$row].combine(rows[$row + 4]).into()
                };
            }
            macro_rules! eight {
                ($first:expr) => {
                    kernel(self, both!($first), both!($first + 1), both!($first + 2), both!($first + 3))
                };
            }
            let ([a, b, c, d], [e, f, g, h]) = (eight!(0), eight!(8));
            [a.combine(e), b.combine(f), c.combine(g), d.combine(h)]
        }
    }

    impl Simd for Sse2 {
        plainly_apart!();
        const IS_FUSED: bool = false;

        #[inline(always)]
        fn round_u32(self, x: f32x16<Self>) -> u32x16<Self> {
            fearless_simd::kernel!(
                #[inline(always)]
                fn kernel(token: Sse2, x: f32x4<Sse2>) -> fearless_simd::u32x4<Sse2> {
                    _mm_cvtps_epi32(x.into()).simd_into(token)
                }
            );
            let (low, high) = x.split();
            let ((a, b), (c, d)) = (low.split(), high.split());
            let (a, b, c, d) = (kernel(self, a), kernel(self, b), kernel(self, c), kernel(self, d));
            a.combine(b).combine(c.combine(d))
        }

        #[inline(always)]
        fn fma_f32(self, a: f32x16<Self>, b: f32x16<Self>, c: f32x16<Self>) -> f32x16<Self> {
            fused::fma_f32(self, a, b, c)
        }

        #[inline(always)]
        fn fma_f64(self, a: f64x8<Self>, b: f64x8<Self>, c: f64x8<Self>) -> f64x8<Self> {
            fused::fma_f64(self, a, b, c)
        }
    }

    /// A table in two halves.
    #[inline(always)]
    fn halves(table: &[u64; WIDTH]) -> [&[u64; 8]; 2] {
        let (halves, _) = table.as_chunks::<8>();
        [&halves[0], &halves[1]]
    }
}

#[cfg(target_arch = "aarch64")]
#[allow(clippy::wildcard_imports, reason = "a few instructions, all in this file")]
mod aarch64 {
    use std::arch::aarch64::*;

    use fearless_simd::{Neon, f64x2, u32x4};

    use super::*;

    /// One vector of four after the other.
    macro_rules! by_fours {
        ($x:expr, |$four:ident| $value:expr) => {{
            let (low, high) = $x.split();
            let ((a, b), (c, d)) = (low.split(), high.split());
            macro_rules! each {
                ($one:expr) => {{
                    let $four = $one;
                    $value
                }};
            }
            each!(a).combine(each!(b)).combine(each!(c).combine(each!(d)))
        }};
    }

    impl Simd for Neon {
        plainly_apart!();

        #[inline(always)]
        fn look_up_u32(self, table: &[u32; WIDTH], indices: u32x16<Self>) -> u32x16<Self> {
            fearless_simd::kernel!(
                #[inline(always)]
                fn kernel(
                    token: Neon,
                    a: u32x4<Neon>,
                    b: u32x4<Neon>,
                    c: u32x4<Neon>,
                    d: u32x4<Neon>,
                    indices: u32x4<Neon>,
                ) -> u32x4<Neon> {
                    let table = uint8x16x4_t(
                        vreinterpretq_u8_u32(a.into()),
                        vreinterpretq_u8_u32(b.into()),
                        vreinterpretq_u8_u32(c.into()),
                        vreinterpretq_u8_u32(d.into()),
                    );
                    // The four bytes of entry i are those from 4 i on.
                    let first: uint32x4_t = (indices & 15_u32).into();
                    let bytes = vmlaq_n_u32(vdupq_n_u32(0x0302_0100), first, 0x0404_0404);
                    vreinterpretq_u32_u8(vqtbl4q_u8(table, vreinterpretq_u8_u32(bytes))).simd_into(token)
                }
            );
            let (low, high) = u32x16::load_array_ref(self, table).split();
            let ((a, b), (c, d)) = (low.split(), high.split());
            by_fours!(indices, |four| kernel(self, a, b, c, d, four))
        }

        #[inline(always)]
        fn round_u32(self, x: f32x16<Self>) -> u32x16<Self> {
            fearless_simd::kernel!(
                #[inline(always)]
                fn kernel(token: Neon, x: f32x4<Neon>) -> u32x4<Neon> {
                    vreinterpretq_u32_s32(vcvtnq_s32_f32(x.into())).simd_into(token)
                }
            );
            by_fours!(x, |four| kernel(self, four))
        }

        #[inline(always)]
        fn round_u64(self, x: f64x8<Self>) -> u64x8<Self> {
            fearless_simd::kernel!(
                #[inline(always)]
                fn kernel(token: Neon, x: f64x2<Neon>) -> fearless_simd::u64x2<Neon> {
                    vreinterpretq_u64_s64(vcvtnq_s64_f64(x.into())).simd_into(token)
                }
            );
            by_fours!(x, |two| kernel(self, two))
        }
    }
}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
impl Simd for fearless_simd::Fallback {
    plainly_apart!();
}
