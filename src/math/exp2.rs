//! What is `2^-(depth scale)`, the exponential of which every sum is made?
//!
//! ```text
//! n     = depth scale, rounded to a sixteenth      (by adding 1.5 * 2^19 or 1.5 * 2^48)
//! f     = what the rounding leaves                 (in [-1/32, 1/32])
//! 2^-(depth scale) = 2^-n p(f)                     (2^-n: a table of 16 and the exponent's bits; p: a short polynomial)
//! ```
//!
//! The exponent is rounded to a sixteenth; the power of two of that is a number from a table with another
//! exponent, and a short polynomial does the rest, on `[-1/32, 1/32]`. A table of sixteen is one instruction
//! of AVX-512, and replaces three multiply-adds of a polynomial on `[-1/2, 1/2]` in float32, five in float64,
//! by one multiplication. The product of depth and scale is never rounded by itself: it is fused into the
//! rounding to sixteenths and into what that leaves, so deep terms are as precise as shallow ones. `2^0 == 1`
//! to the bit. Multiply-adds are explicit, hence fused on every path, and the bits do not depend on the
//! instruction set.
//!
//! The float32 polynomial is a parabola, `c (g^2 + b)` with `g = f + 23/16`: the offset costs nothing, as it
//! goes into a constant that is a number of sixteenths already, and c nothing, as it goes into the table;
//! 23/16 is near `1 / ln 2`, where the parabola that touches `2^f` has its vertex. b is such that
//! neighbouring parabolas meet at the ends of their intervals: exponentials never rise with depth by more
//! than a rounding. Between, the relative error is from -4.5e-7 to 1.04e-6; sums in coarse quanta are off by
//! up to 2.6e-6 (see [`Grain`](super::Grain)). (With three coefficients of its own, for one more operation of
//! nine, the parabola is within 6.6e-7; label scores then take 5 % longer.)

/// Powers of two from 0 to 15 sixteenths.
const SIXTEENTHS: [f64; 16] = [
    1.0,
    1.044_273_782_427_413_8,
    1.090_507_732_665_257_7,
    1.138_788_634_756_691_6,
    1.189_207_115_002_721,
    1.241_857_812_073_484,
    1.296_839_554_651_009_7,
    1.354_255_546_936_892_7,
    std::f64::consts::SQRT_2,
    1.476_826_145_939_499_3,
    1.542_210_825_407_940_8,
    1.610_490_331_949_254_3,
    1.681_792_830_507_429,
    1.756_252_160_373_299_5,
    1.834_008_086_409_342_5,
    1.915_206_561_397_147_3,
];

/// 1.5 * 2^19: the low bits of a sum with it are the other number in sixteenths, rounded.
pub(crate) const ROUND_F32: f32 = 786_432.0;
/// 1.5 * 2^48.
pub(crate) const ROUND_F64: f64 = 422_212_465_065_984.0;
/// How far the sixteenths in the low bits of a sum with [`ROUND_F32`] are from the exponent.
pub(crate) const TO_EXPONENT_F32: u32 = 19;
/// How far the sixteenths in the low bits of a sum with [`ROUND_F64`] are from the exponent.
pub(crate) const TO_EXPONENT_F64: u32 = 48;

/// Patterns of [`SIXTEENTHS`], in float32 times c, less what the sixteenths themselves add when they are
/// moved to the exponent.
#[repr(align(64))]
pub(crate) struct Table<T>(pub(crate) [T; 16]);

pub(crate) static TABLE_F32: Table<u32> = {
    let mut table = [0; 16];
    let mut i = 0;
    while i < 16 {
        table[i] = ((SIXTEENTHS[i] * PARABOLA_FACTOR) as f32).to_bits() - ((i as u32) << TO_EXPONENT_F32);
        i += 1;
    }
    Table(table)
};
pub(crate) static TABLE_F64: Table<u64> = {
    let mut table = [0; 16];
    let mut i = 0;
    while i < 16 {
        table[i] = SIXTEENTHS[i].to_bits() - ((i as u64) << TO_EXPONENT_F64);
        i += 1;
    }
    Table(table)
};

/// [`ROUND_F32`] and the offset of g.
pub(crate) const OFFSET_F32: f32 = ROUND_F32 + 23.0 / 16.0;
/// b of the parabola.
pub(crate) const PARABOLA_F32: f32 = 2.081_014_2;
/// And c, in the table: `1 / ((23/16)^2 + b)`.
const PARABOLA_FACTOR: f64 = 0.241_113_72;
/// `(2^f - 1) / f` on `[-1/32, 1/32]` in float64, highest power first; relative error of `2^f` 1.4e-17.
#[allow(clippy::approx_constant, reason = "a coefficient near ln 2, not ln 2")]
pub(crate) const REST_F64: [f64; 6] = [
    1.540_372_398_074_925_6e-4,
    1.333_378_157_678_426_8e-3,
    9.618_129_106_919_537e-3,
    5.550_410_865_663_93e-2,
    0.240_226_506_959_100_75,
    0.693_147_180_559_945_7,
];

/// [`super::Scalar::exp2`] of float32.
#[inline(always)]
pub(super) fn exp2_f32(depth: f32, scale: f32) -> f32 {
    let shifted = (-depth).mul_add(scale, ROUND_F32);
    let g = (-depth).mul_add(scale, OFFSET_F32 - shifted);
    let bits = shifted.to_bits();
    let power = f32::from_bits(TABLE_F32.0[(bits & 15) as usize].wrapping_add(bits << TO_EXPONENT_F32));
    power * g.mul_add(g, PARABOLA_F32)
}

/// [`super::Scalar::exp2`] of float64.
#[inline(always)]
pub(super) fn exp2_f64(depth: f64, scale: f64) -> f64 {
    let shifted = (-depth).mul_add(scale, ROUND_F64);
    let f = (-depth).mul_add(scale, ROUND_F64 - shifted);
    let bits = shifted.to_bits();
    let power = f64::from_bits(TABLE_F64.0[(bits & 15) as usize].wrapping_add(bits << TO_EXPONENT_F64));
    let [highest, rest @ ..] = REST_F64;
    let mut q = highest;
    for c in rest {
        q = q.mul_add(f, c);
    }
    power.mul_add(f * q, power)
}

/// The polynomial for `2^f` on `[-1/2, 1/2]` in float32, highest power first; relative error 9.4e-8.
#[allow(clippy::approx_constant, reason = "a minimax coefficient near ln 2, not ln 2")]
pub(crate) const WHOLE_F32: [f32; 6] =
    [1.326_951_5e-3, 9.671_29e-3, 5.550_711e-2, 0.240_222_47, 0.693_147, 1.0];
/// The polynomial for `2^f` on `[-1/2, 1/2]` in float64; relative error 1.8e-17.
#[allow(clippy::approx_constant, reason = "a minimax coefficient near ln 2, not ln 2")]
#[allow(clippy::excessive_precision, reason = "coefficients as computed; the last digit rounds")]
const WHOLE_F64: [f64; 12] = [
    4.078_071_929_588_336_7e-10,
    7.072_570_412_814_423_5e-9,
    1.018_064_765_923_413_9e-7,
    1.321_544_267_532_982_2e-6,
    1.525_272_738_519_386_8e-5,
    1.540_353_044_157_213_03e-4,
    1.333_355_815_343_996_5e-3,
    9.618_129_107_607_002e-3,
    5.550_410_866_479_039_4e-2,
    0.240_226_506_959_100_98,
    0.693_147_180_559_945_7,
    1.0,
];

/// [`exp2_f32`] without a table, by a longer polynomial. The compiler turns no table look-up into vector
/// code; loops over lanes take this form. Not the same bits.
#[inline(always)]
pub(super) fn exp2_in_lanes_f32(depth: f32, scale: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23
    let shifted = (-depth).mul_add(scale, ROUND);
    let f = (-depth).mul_add(scale, ROUND - shifted);
    let [first, rest @ ..] = WHOLE_F32;
    let mut p = first;
    for c in rest {
        p = p.mul_add(f, c);
    }
    f32::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << 23))
}

/// [`exp2_f64`] without a table, by a longer polynomial. Not the same bits.
#[inline(always)]
pub(super) fn exp2_in_lanes_f64(depth: f64, scale: f64) -> f64 {
    const ROUND: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52
    let shifted = (-depth).mul_add(scale, ROUND);
    let f = (-depth).mul_add(scale, ROUND - shifted);
    let [first, rest @ ..] = WHOLE_F64;
    let mut p = first;
    for c in rest {
        p = p.mul_add(f, c);
    }
    f64::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << 52))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_to_the_zero_is_one() {
        for scale in [1e-30_f32, 1.0, f32::MAX] {
            assert_eq!((exp2_f32(0.0, scale), exp2_in_lanes_f32(0.0, scale)), (1.0, 1.0));
            for zero in [0.0, -0.0] {
                let scale = f64::from(scale);
                assert_eq!((exp2_f64(zero, scale), exp2_in_lanes_f64(zero, scale)), (1.0, 1.0));
            }
        }
    }

    #[test]
    fn exponentials_are_close_to_the_library_ones() {
        for i in 0..=60_000 {
            let depth = f64::from(i) / 1000.0;
            for scale in [1.0, 0.37] {
                let exact = (-depth * scale).exp2();
                // The library's argument is rounded: half a unit of it, times log 2.
                let slack = depth * scale * 8e-17;
                for found in [exp2_f64(depth, scale), exp2_in_lanes_f64(depth, scale)] {
                    assert!((found / exact - 1.0).abs() < 4e-16 + slack, "{depth}");
                }
                let (depth, scale) = (depth as f32, scale as f32);
                let exact = (f64::from(depth) * -f64::from(scale)).exp2();
                assert!((f64::from(exp2_in_lanes_f32(depth, scale)) / exact - 1.0).abs() < 1.7e-7, "{depth}");
                assert!((f64::from(exp2_f32(depth, scale)) / exact - 1.0).abs() < 1.2e-6, "{depth}");
            }
        }
    }

    #[test]
    fn exponentials_do_not_rise_with_depth() {
        let mut last = 1.0_f32;
        for i in 0..3_000_000_u32 {
            let found = exp2_f32(i as f32 / 500_000.0, 1.0);
            assert!(found <= last * (1.0 + f32::EPSILON), "{i}: {found} after {last}");
            last = found;
        }
    }
}
