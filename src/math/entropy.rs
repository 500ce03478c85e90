//! What is the entropy of a row, given the sums behind it?
//!
//! With `g` the gap between the two largest logits, `S` and `W` the sums of `e` and of `e d` over the other
//! labels (see `kernels::entropy_sums`), relative to the second largest logit, and `E = exp(-g)`: `H =
//! log1p(E S) + E (g S + W) / (1 + E S)`. Every term is >= 0, so nothing cancels.
//!
//! In float32 rows S and W are as precise as float32 is, so the logarithm and the quotient are taken in
//! float32 too, which is four times as quick as in float64 and shows in rows of few labels. E alone may be
//! far below what float32 holds, and H is proportional to it then: its exponent is kept apart and applied in
//! float64.

use std::f64::consts::LOG2_E;

use super::elementary::{exp, ln_1p};
use super::exact::each_lane;
use super::exp2::WHOLE_F32;
use super::scalar::Scalar;

/// Sums behind the entropies of N rows: over all labels but one at the top, relative to the second largest
/// logit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntropySums<const N: usize> {
    /// Sum of `e = exp(z - second)`.
    pub(crate) exponentials: [f64; N],
    /// Sum of `e (second - z)`.
    pub(crate) weighted: [f64; N],
}

impl<const N: usize> EntropySums<N> {
    /// From sums in which logits above the shift, the second largest logit, count as nothing. When two labels
    /// share the maximum, neither lies above the shift; one of them is taken out.
    #[inline(always)]
    pub(crate) fn new(exponentials: &[f64; N], weighted: &[f64; N], gap: &[f64; N]) -> Self {
        let twice = each_lane!([0.0; N], |i| if gap[i] == 0.0 { 1.0 } else { 0.0 });
        let exponentials = each_lane!([0.0; N], |i| exponentials[i] - twice[i]);
        Self { exponentials, weighted: *weighted }
    }
}

/// H of N rows, from the gaps between their two largest logits and the sums relative to the second.
#[inline(always)]
pub(crate) fn entropies<F: Scalar, const N: usize>(gap: &[f64; N], sums: &EntropySums<N>) -> [f64; N] {
    if size_of::<F>() == size_of::<f32>() {
        entropies_f32(gap, sums)
    } else {
        each_lane!([0.0; N], |i| entropy_f64(gap[i], sums.exponentials[i], sums.weighted[i]))
    }
}

#[inline(always)]
fn entropy_f64(gap: f64, exponentials: f64, weighted: f64) -> f64 {
    let e = exp(-gap);
    let others = e * exponentials;
    let value = ln_1p(others) + e * gap.mul_add(exponentials, weighted) / (1.0 + others);
    // With e = 0 the product of a huge gap is 0 * inf.
    if e == 0.0 { 0.0 } else { value }
}

/// In loops of their own, of whole vectors of one type each: in a single one the long chain of operations on
/// each row would leave the processor waiting.
#[inline(always)]
fn entropies_f32<const N: usize>(gap: &[f64; N], sums: &EntropySums<N>) -> [f64; N] {
    // E = 2^(fraction + whole); beyond 800 it is 0 in float64 all the same, and so is H.
    let gap = each_lane!([0.0; N], |i| if gap[i] < 800.0 { gap[i] } else { 800.0 });
    let whole = each_lane!([0.0; N], |i| (-gap[i]).mul_add(LOG2_E, ROUND) - ROUND);
    let fraction = each_lane!([0.0; N], |i| (-gap[i]).mul_add(LOG2_E, -whole[i]) as f32);
    let narrow_whole = each_lane!([0.0; N], |i| whole[i] as f32);
    let narrow_gap = each_lane!([0.0; N], |i| gap[i] as f32);
    let s = each_lane!([0.0; N], |i| sums.exponentials[i] as f32);
    let w = each_lane!([0.0; N], |i| sums.weighted[i] as f32);
    let (mut power, mut factor, mut logarithm) = ([0.0; N], [0.0; N], [0.0; N]);
    for i in 0..N {
        let p = exp2_of_fraction(fraction[i]);
        // As a float32, 0 where it is so small that nothing is left of it beside 1.
        let whole = if narrow_whole[i] > -100.0 { narrow_whole[i] } else { -100.0 };
        let others = p * power_of_two_f32(whole) * s[i];
        let quotient = narrow_gap[i].mul_add(s[i], w[i]) / (1.0 + others);
        // log1p(x) is x where the next term of its series is below the rounding, and then goes with what E is
        // a factor of.
        let is_small = others < SMALL;
        power[i] = p;
        factor[i] = if is_small { quotient + s[i] } else { quotient };
        logarithm[i] = if is_small { 0.0 } else { ln_1p_f32(others) };
    }
    each_lane!([0.0; N], |i| {
        // Two powers, so that H keeps its bits where E is subnormal.
        let half = whole[i].mul_add(0.5, ROUND) - ROUND;
        let product = f64::from(power[i]) * f64::from(factor[i]);
        let product = product * power_of_two(half) * power_of_two(whole[i] - half);
        product + f64::from(logarithm[i])
    })
}

/// 1.5 * 2^52: a sum with it is rounded to a whole number.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// Below this, `log1p(x)` is x in float32.
const SMALL: f32 = 1.0 / (1_u32 << 24) as f32;

/// `2^f` for f in `[-1/2, 1/2]`.
#[inline(always)]
fn exp2_of_fraction(f: f32) -> f32 {
    let [c5, c4, c3, c2, c1, c0] = WHOLE_F32;
    // In pairs, side by side: in one chain each multiply-add would wait for the last.
    let square = f * f;
    let high = c5.mul_add(f, c4).mul_add(square, c3.mul_add(f, c2));
    high.mul_add(square, c1.mul_add(f, c0))
}

/// `2^n` for a whole number from -1022 on.
#[inline(always)]
fn power_of_two(n: f64) -> f64 {
    f64::from_bits(((n + ROUND).to_bits() << 52).wrapping_add(1.0_f64.to_bits()))
}

/// `2^n` in float32 for a whole number from -126 on.
#[inline(always)]
fn power_of_two_f32(n: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23
    f32::from_bits(((n + ROUND).to_bits() << 23).wrapping_add(1.0_f32.to_bits()))
}

/// `log1p(x)` for `x >= 0`, with an error of less than three units in the last place.
#[inline(always)]
fn ln_1p_f32(x: f32) -> f32 {
    const SQRT_HALF: u32 = 0x3f35_04f3;
    // g in log(1 + f) = f - f^2 / 2 + f^3 g(f), highest power first: minimax on [sqrt(1/2) - 1, sqrt(2) - 1],
    // relative error 3.2e-8.
    const G: [f32; 7] =
        [0.087_001_175, -0.142_674_39, 0.149_148_48, -0.165_775_91, 0.199_630_57, -0.250_013_38, 0.333_339_1];
    let u = 1.0 + x;
    // u = 2^k m, m in [sqrt(1/2), sqrt(2)); for k = 0 what m - 1 would round is x itself.
    let k = u.to_bits().wrapping_sub(SQRT_HALF) >> 23;
    let m = f32::from_bits(u.to_bits().wrapping_sub(k << 23));
    let f = if k == 0 { x } else { m - 1.0 };
    let [g6, g5, g4, g3, g2, g1, g0] = G;
    let square = f * f;
    let high = g6.mul_add(square, g5.mul_add(f, g4)).mul_add(square, g3.mul_add(f, g2));
    let g = high.mul_add(square, g1.mul_add(f, g0));
    let tail = square.mul_add(-0.5, square * f * g);
    (k as i32 as f32).mul_add(std::f32::consts::LN_2, f + tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_close_to_the_library() {
        for i in 0..400_000 {
            let x = (f64::from(i) / 4000.0 - 30.0).exp2() as f32;
            let expected = f64::from(x).ln_1p();
            assert!((f64::from(ln_1p_f32(x)) / expected - 1.0).abs() < 2.5e-7, "{x}");
        }
    }

    #[test]
    fn narrow_sums_give_what_wide_ones_do() {
        for gap in (0..9000).map(|i| f64::from(i) / 12.0) {
            for (exponentials, depth) in [(1.0, 0.0), (1.5, 0.3), (40.0, 1.0), (1e3, 3.5), (1e8, 11.0)] {
                let weighted = exponentials * depth;
                let sums = EntropySums { exponentials: [exponentials], weighted: [weighted] };
                let ([narrow], wide) =
                    (entropies_f32(&[gap], &sums), entropy_f64(gap, exponentials, weighted));
                // The wide one multiplies an E that may be subnormal, and then has fewer bits.
                let slack = 5e-7 * wide + 5e-324 * exponentials * (gap + depth + 2.0);
                assert!((narrow - wide).abs() <= slack, "{gap} {exponentials}: {narrow} {wide}");
            }
        }
        for gap in [1e3, 1e30, f64::INFINITY] {
            let sums = EntropySums { exponentials: [7.0], weighted: [1.0] };
            assert_eq!((entropies_f32(&[gap], &sums), entropy_f64(gap, 7.0, 1.0)), ([0.0], 0.0));
        }
    }
}
