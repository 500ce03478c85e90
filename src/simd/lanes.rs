//! What can sixteen numbers do? The operations that kernels are written in, alike for float32 and for
//! float64.
//!
//! Sixteen of either type: sums in a fixed order then have the same order everywhere, and processors work on
//! two or four registers at a time, where one would spend half its time waiting for the last operation on it.

use std::fmt::Debug;
use std::ops::{Add, Mul, Sub};

use fearless_simd::{f32x4, f32x16, f64x8, mask32x16, mask64x8, prelude::*, u32x16, u64x8};

use super::Simd;
use crate::math::{
    OFFSET_F32, PARABOLA_F32, REST_F64, ROUND_F32, ROUND_F64, Scalar, TABLE_F32, TABLE_F64, TO_EXPONENT_F32,
    TO_EXPONENT_F64, WIDTH,
};

/// Sixteen numbers.
pub trait Lanes<S: Simd>:
    Copy + Debug + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self>
{
    /// Their type.
    type Number: Scalar;
    /// A choice among them.
    type Mask: Copy;

    /// The same number everywhere.
    fn splat(s: S, value: Self::Number) -> Self;
    /// Numbers of memory.
    fn load(s: S, values: &[Self::Number; WIDTH]) -> Self;
    /// Fewer than sixteen numbers of memory, and `-inf` after them.
    fn load_part(s: S, values: &[Self::Number]) -> Self;
    /// Numbers as they are in memory.
    fn to_array(self) -> [Self::Number; WIDTH];
    /// Numbers in float64.
    fn widen(self) -> [f64x8<S>; 2];
    /// `self factor + term`, rounded once.
    #[must_use]
    fn fma(self, factor: Self, term: Self) -> Self;
    /// `self + 0 z`: as it was, or NaN from a z on that is not finite.
    #[must_use]
    fn poisoned_by(self, z: Self) -> Self;
    /// The larger ones; not defined for NaN.
    #[must_use]
    fn larger(self, other: Self) -> Self;
    /// The smaller ones; not defined for NaN.
    #[must_use]
    fn smaller(self, other: Self) -> Self;
    /// The smaller of depths, `bottom` being positive and finite: `bottom` where `self` is negative or NaN.
    #[must_use]
    fn down_to(self, bottom: Self) -> Self;
    /// Where a number is larger.
    fn greater(self, other: Self) -> Self::Mask;
    /// Where a number is not smaller.
    fn at_least(self, other: Self) -> Self::Mask;
    /// `yes` where the mask is set, `no` elsewhere.
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self;
    /// Where a number ranks before `other`: where it is larger, or as large and of a lower label.
    fn ranks_before(self, other: Self, is_lower: Self::Mask) -> Self::Mask;
    /// The mask of bits, the first lowest.
    fn mask(s: S, bits: u32) -> Self::Mask;
    /// The bits of a mask.
    fn bits(mask: Self::Mask) -> u32;
    /// Whether a mask is set anywhere.
    fn any(mask: Self::Mask) -> bool;
    /// The integers where the mask is set, 0 elsewhere.
    fn keep(mask: Self::Mask, integers: u32x16<S>) -> u32x16<S>;
    /// Writes the numbers where the mask is set side by side, and anything after them.
    fn compress(self, mask: Self::Mask, to: &mut [Self::Number; WIDTH]);
    /// [`Self::compress`] of labels.
    fn compress_labels(mask: Self::Mask, labels: u32x16<S>, to: &mut [u32; WIDTH]);
    /// The largest number.
    fn largest(self) -> Self::Number;
    /// The sum of all, in some order.
    fn total(self) -> Self::Number;
    /// 1, which the compiler does not know: a multiply-add with it stays one. Processors have more room for
    /// those than for additions, which comparisons and conversions compete with.
    #[inline(always)]
    fn hidden_one(s: S) -> Self {
        Self::splat(s, std::hint::black_box(Self::Number::from_f32(1.0)))
    }
    /// [`Scalar::pattern`]; `one` is [`Self::hidden_one`].
    fn pattern(self, one: Self) -> u32x16<S>;
    /// [`Scalar::exp2`] in `unit`s, powers of two: `unit 2^(depth minus_scale)`.
    fn exp2(depth: Self, minus_scale: Self, unit: Self::Number) -> Self;
    /// [`Self::exp2`] of a term that is rounded next; `one` is [`Self::hidden_one`].
    fn exp2_to_round(depth: Self, minus_scale: Self, unit: Self::Number, one: Self) -> Self;
    /// Four columns of sixteen rows, from label `first` on; each row must have so many.
    fn four_columns(s: S, rows: &[&[Self::Number]; WIDTH], first: usize) -> [Self; 4];
}

/// Writes parts of so many numbers to `to`, each compressed, from where the last one ended.
macro_rules! compress_parts {
    ($length:literal, $to:expr, $($part:expr, $mask:expr);+) => {
        let mut taken = 0;
        $(
            SimdBase::compress($part, $mask).store_slice(&mut $to[taken..][..$length]);
            taken += $mask.to_bitmask().count_ones() as usize;
        )+
        debug_assert!(taken <= WIDTH, "of sixteen");
    };
}

/// Compresses sixteen numbers of 32 bits, register by register: of several at once the crate takes the bytes
/// one by one.
macro_rules! compress_32 {
    ($values:expr, $mask:expr, $to:expr) => {
        let (values, mask, s) = ($values, $mask, $values.token());
        let ((low, high), (low_mask, high_mask)) = (values.split(), s.split_mask32x16(mask));
        if S::f32s::LEN == WIDTH {
            SimdBase::compress(values, mask).store_array($to);
        } else if S::f32s::LEN == WIDTH / 2 {
            compress_parts!(8, $to, low, low_mask; high, high_mask);
        } else {
            let ((a, b), (c, d)) = (low.split(), high.split());
            let ((of_a, of_b), (of_c, of_d)) = (s.split_mask32x8(low_mask), s.split_mask32x8(high_mask));
            compress_parts!(4, $to, a, of_a; b, of_b; c, of_c; d, of_d);
        }
    };
}

impl<S: Simd> Lanes<S> for f32x16<S> {
    type Number = f32;
    type Mask = mask32x16<S>;

    #[inline(always)]
    fn splat(s: S, value: f32) -> Self {
        SimdBase::splat(s, value)
    }

    #[inline(always)]
    fn load(s: S, values: &[f32; WIDTH]) -> Self {
        SimdBase::load_array_ref(s, values)
    }

    #[inline(always)]
    fn load_part(s: S, values: &[f32]) -> Self {
        s.load_part_f32(values)
    }

    #[inline(always)]
    fn to_array(self) -> [f32; WIDTH] {
        SimdBase::to_array(self)
    }

    #[inline(always)]
    fn widen(self) -> [f64x8<S>; 2] {
        SimdWiden::widen(self).into()
    }

    #[inline(always)]
    fn fma(self, factor: Self, term: Self) -> Self {
        self.token().fma_f32(self, factor, term)
    }

    #[inline(always)]
    fn poisoned_by(self, z: Self) -> Self {
        if S::IS_FUSED { z.mul_add_precise(0.0, self) } else { self + z * 0.0 }
    }

    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        self.max(other)
    }

    #[inline(always)]
    fn smaller(self, other: Self) -> Self {
        self.min(other)
    }

    #[inline(always)]
    fn down_to(self, bottom: Self) -> Self {
        // As patterns: negative numbers and NaN come after the others.
        Self::from_bits(self.to_bits().min(bottom.to_bits()))
    }

    #[inline(always)]
    fn greater(self, other: Self) -> Self::Mask {
        self.simd_gt(other)
    }

    #[inline(always)]
    fn at_least(self, other: Self) -> Self::Mask {
        self.simd_ge(other)
    }

    #[inline(always)]
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self {
        Select::select(mask, yes, no)
    }

    #[inline(always)]
    fn ranks_before(self, other: Self, is_lower: Self::Mask) -> Self::Mask {
        self.simd_gt(other) | (self.simd_ge(other) & is_lower)
    }

    #[inline(always)]
    fn mask(s: S, bits: u32) -> Self::Mask {
        SimdMask::from_bitmask(s, u64::from(bits))
    }

    #[inline(always)]
    fn bits(mask: Self::Mask) -> u32 {
        mask.to_bitmask() as u32
    }

    #[inline(always)]
    fn any(mask: Self::Mask) -> bool {
        mask.any_true()
    }

    #[inline(always)]
    fn keep(mask: Self::Mask, integers: u32x16<S>) -> u32x16<S> {
        Select::select(mask, integers, SimdBase::splat(integers.token(), 0))
    }

    #[inline(always)]
    fn compress(self, mask: Self::Mask, to: &mut [f32; WIDTH]) {
        compress_32!(self, mask, to);
    }

    #[inline(always)]
    fn compress_labels(mask: Self::Mask, labels: u32x16<S>, to: &mut [u32; WIDTH]) {
        compress_32!(labels, mask, to);
    }

    #[inline(always)]
    fn largest(self) -> f32 {
        self.reduce_max()
    }

    #[inline(always)]
    fn total(self) -> f32 {
        self.reduce_sum()
    }

    #[inline(always)]
    fn pattern(self, one: Self) -> u32x16<S> {
        // `-0.0` as `0.0`.
        if S::IS_FUSED { self.mul_add_precise(one, 0.0).to_bits() } else { (self + 0.0).to_bits() }
    }

    #[inline(always)]
    fn exp2(depth: Self, minus_scale: Self, unit: f32) -> Self {
        let shifted = depth.fma(minus_scale, SimdBase::splat(depth.token(), ROUND_F32));
        let g = depth.fma(minus_scale, OFFSET_F32 - shifted);
        power_f32(shifted, unit) * g.fma(g, SimdBase::splat(g.token(), PARABOLA_F32))
    }

    #[inline(always)]
    fn exp2_to_round(depth: Self, minus_scale: Self, unit: f32, one: Self) -> Self {
        if !S::IS_FUSED {
            return Self::exp2(depth, minus_scale, unit);
        }
        let shifted = depth.fma(minus_scale, SimdBase::splat(depth.token(), ROUND_F32));
        let g = depth.fma(minus_scale, (-shifted).fma(one, SimdBase::splat(one.token(), OFFSET_F32)));
        power_f32(shifted, unit) * g.fma(g, SimdBase::splat(g.token(), PARABOLA_F32))
    }

    #[inline(always)]
    fn four_columns(s: S, rows: &[&[f32]; WIDTH], first: usize) -> [Self; 4] {
        let mut fours = [f32x4::splat(s, 0.0); WIDTH];
        for i in 0..WIDTH {
            fours[i] = f32x4::from_slice(s, &rows[i][first..first + 4]);
        }
        s.four_columns(&fours)
    }
}

/// Two to the sixteenths that a sum with [`ROUND_F32`] has in its low bits, in `unit`s.
#[inline(always)]
fn power_f32<S: Simd>(shifted: f32x16<S>, unit: f32) -> f32x16<S> {
    let (s, sixteenths) = (shifted.token(), shifted.to_bits());
    let power = s.look_up_u32(&in_units(TABLE_F32.0, unit), sixteenths);
    f32x16::from_bits(power + (sixteenths << TO_EXPONENT_F32))
}

/// The table times a power of two.
#[inline(always)]
fn in_units(mut table: [u32; WIDTH], unit: f32) -> [u32; WIDTH] {
    for entry in &mut table {
        *entry += unit.to_bits() - 1.0_f32.to_bits();
    }
    table
}

/// Sixteen float64: the first eight and the others.
#[derive(Clone, Copy, Debug)]
pub struct F64x16<S: Simd>(f64x8<S>, f64x8<S>);

/// Defines operations of both halves.
macro_rules! halves {
    ($($trait:ident $name:ident $operator:tt),*) => {
        $(
            impl<S: Simd> $trait for F64x16<S> {
                type Output = Self;

                #[inline(always)]
                fn $name(self, other: Self) -> Self {
                    Self(self.0 $operator other.0, self.1 $operator other.1)
                }
            }
        )*
    };
}
halves!(Add add +, Sub sub -, Mul mul *);

impl<S: Simd> Lanes<S> for F64x16<S> {
    type Number = f64;
    type Mask = [mask64x8<S>; 2];

    #[inline(always)]
    fn splat(s: S, value: f64) -> Self {
        Self(f64x8::splat(s, value), f64x8::splat(s, value))
    }

    #[inline(always)]
    fn load(s: S, values: &[f64; WIDTH]) -> Self {
        let (halves, _) = values.as_chunks::<8>();
        Self(f64x8::load_array_ref(s, &halves[0]), f64x8::load_array_ref(s, &halves[1]))
    }

    #[inline(always)]
    fn load_part(s: S, values: &[f64]) -> Self {
        let (first, second) = values.split_at(values.len().min(8));
        Self(s.load_part_f64(first), s.load_part_f64(second))
    }

    #[inline(always)]
    fn to_array(self) -> [f64; WIDTH] {
        let mut values = [0.0; WIDTH];
        self.0.store_slice(&mut values[..8]);
        self.1.store_slice(&mut values[8..]);
        values
    }

    #[inline(always)]
    fn widen(self) -> [f64x8<S>; 2] {
        [self.0, self.1]
    }

    #[inline(always)]
    fn fma(self, factor: Self, term: Self) -> Self {
        let s = self.0.token();
        Self(s.fma_f64(self.0, factor.0, term.0), s.fma_f64(self.1, factor.1, term.1))
    }

    #[inline(always)]
    fn poisoned_by(self, z: Self) -> Self {
        let zero = Self::splat(self.0.token(), 0.0);
        if S::IS_FUSED { z.fma(zero, self) } else { self + z * zero }
    }

    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        Self(self.0.max(other.0), self.1.max(other.1))
    }

    #[inline(always)]
    fn smaller(self, other: Self) -> Self {
        Self(self.0.min(other.0), self.1.min(other.1))
    }

    #[inline(always)]
    fn down_to(self, bottom: Self) -> Self {
        let s = self.0.token();
        Self(s.cut_depth_f64(self.0, bottom.0), s.cut_depth_f64(self.1, bottom.1))
    }

    #[inline(always)]
    fn greater(self, other: Self) -> Self::Mask {
        [self.0.simd_gt(other.0), self.1.simd_gt(other.1)]
    }

    #[inline(always)]
    fn at_least(self, other: Self) -> Self::Mask {
        [self.0.simd_ge(other.0), self.1.simd_ge(other.1)]
    }

    #[inline(always)]
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self {
        Self(Select::select(mask[0], yes.0, no.0), Select::select(mask[1], yes.1, no.1))
    }

    #[inline(always)]
    fn ranks_before(self, other: Self, is_lower: Self::Mask) -> Self::Mask {
        let ([a, b], [c, d]) = (self.greater(other), self.at_least(other));
        [a | (c & is_lower[0]), b | (d & is_lower[1])]
    }

    #[inline(always)]
    fn mask(s: S, bits: u32) -> Self::Mask {
        [mask64x8::from_bitmask(s, u64::from(bits & 255)), mask64x8::from_bitmask(s, u64::from(bits >> 8))]
    }

    #[inline(always)]
    fn bits(mask: Self::Mask) -> u32 {
        mask[0].to_bitmask() as u32 | (mask[1].to_bitmask() as u32) << 8
    }

    #[inline(always)]
    fn any(mask: Self::Mask) -> bool {
        (mask[0] | mask[1]).any_true()
    }

    #[inline(always)]
    fn keep(mask: Self::Mask, integers: u32x16<S>) -> u32x16<S> {
        Select::select(mask[0].narrow(mask[1]), integers, u32x16::splat(integers.token(), 0))
    }

    #[inline(always)]
    fn compress(self, mask: Self::Mask, to: &mut [f64; WIDTH]) {
        let ((a, b), (c, d), s) = (self.0.split(), self.1.split(), self.0.token());
        if S::f64s::LEN > 2 {
            compress_parts!(8, to, self.0, mask[0]; self.1, mask[1]);
        } else {
            let ((of_a, of_b), (of_c, of_d)) = (s.split_mask64x8(mask[0]), s.split_mask64x8(mask[1]));
            macro_rules! halved {
                ($of:expr) => {
                    s.split_mask64x4($of)
                };
            }
            let ((a, b), (c, d), (e, f), (g, h)) = (a.split(), b.split(), c.split(), d.split());
            let ((ma, mb), (mc, md)) = (halved!(of_a), halved!(of_b));
            let ((me, mf), (mg, mh)) = (halved!(of_c), halved!(of_d));
            compress_parts!(2, to, a, ma; b, mb; c, mc; d, md; e, me; f, mf; g, mg; h, mh);
        }
    }

    #[inline(always)]
    fn compress_labels(mask: Self::Mask, labels: u32x16<S>, to: &mut [u32; WIDTH]) {
        let mask = mask[0].narrow(mask[1]);
        compress_32!(labels, mask, to);
    }

    #[inline(always)]
    fn largest(self) -> f64 {
        self.0.max(self.1).reduce_max()
    }

    #[inline(always)]
    fn total(self) -> f64 {
        (self.0 + self.1).reduce_sum()
    }

    #[inline(always)]
    fn pattern(self, _one: Self) -> u32x16<S> {
        // What float32 has no room for: most numbers have some, and then nothing else is to be looked at.
        if (is_wide(self.0) & is_wide(self.1)).all_true() {
            return folded(self.0).narrow(folded(self.1));
        }
        // `-0.0` as `0.0`.
        let z = self + Self::splat(self.0.token(), 0.0);
        let narrow = z.0.narrow(z.1);
        let (low, high) = SimdWiden::widen(narrow);
        let is_narrow = [low.simd_eq(z.0), high.simd_eq(z.1)];
        if (is_narrow[0] & is_narrow[1]).all_true() {
            return narrow.to_bits();
        }
        let folded = folded(z.0).narrow(folded(z.1));
        Select::select(is_narrow[0].narrow(is_narrow[1]), narrow.to_bits(), folded)
    }

    #[inline(always)]
    fn exp2(depth: Self, minus_scale: Self, unit: f64) -> Self {
        Self(exp2_f64(depth.0, minus_scale.0, unit), exp2_f64(depth.1, minus_scale.1, unit))
    }

    #[inline(always)]
    fn exp2_to_round(depth: Self, minus_scale: Self, unit: f64, _one: Self) -> Self {
        Self::exp2(depth, minus_scale, unit)
    }

    #[inline(always)]
    fn four_columns(s: S, rows: &[&[f64]; WIDTH], first: usize) -> [Self; 4] {
        let mut columns = [[0.0; WIDTH]; 4];
        for i in 0..WIDTH {
            let row = &rows[i][first..first + 4];
            for j in 0..4 {
                columns[j][i] = row[j];
            }
        }
        [
            Self::load(s, &columns[0]),
            Self::load(s, &columns[1]),
            Self::load(s, &columns[2]),
            Self::load(s, &columns[3]),
        ]
    }
}

/// Both halves of each pattern in one.
#[inline(always)]
fn folded<S: Simd>(x: f64x8<S>) -> u64x8<S> {
    x.to_bits() ^ (x.to_bits() >> 32)
}

/// The numbers with bits that float32 has no room for.
#[inline(always)]
fn is_wide<S: Simd>(x: f64x8<S>) -> mask64x8<S> {
    (x.to_bits() & ((1 << 29) - 1)).simd_ne(0)
}

#[inline(always)]
fn exp2_f64<S: Simd>(depth: f64x8<S>, minus_scale: f64x8<S>, unit: f64) -> f64x8<S> {
    let s = depth.token();
    let round = f64x8::splat(s, ROUND_F64);
    let shifted = s.fma_f64(depth, minus_scale, round);
    let f = s.fma_f64(depth, minus_scale, round - shifted);
    let sixteenths = shifted.to_bits();
    let more = unit.to_bits() - 1.0_f64.to_bits();
    let power = s.look_up_u64(&TABLE_F64.0, sixteenths) + ((sixteenths << TO_EXPONENT_F64) + more);
    let power = f64x8::from_bits(power);
    let [highest, rest @ ..] = REST_F64;
    let mut q = f64x8::splat(s, highest);
    for c in rest {
        q = s.fma_f64(q, f, f64x8::splat(s, c));
    }
    s.fma_f64(power, f * q, power)
}
