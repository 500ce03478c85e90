//! Exact sums of exponentials, in which order does not exist.
//!
//! A floating-point sum depends on the order of its terms, so a masked pass over a row, a cumulative
//! sum over the sorted row, eight lanes and sixteen lanes would all differ in the last bits, and a
//! label at the threshold would be in the set for one of them and out for another. Here every term,
//! a number in `[0, 1]`, is rounded once to a multiple of a fixed quantum (2^-51 for float32, whose
//! terms carry 24 bits; 2^-99 for float64) and the multiples are added as integers. The price is
//! one addition and one conversion a term; what it buys is that scalar and vector code, any block
//! size, and the one-label and all-label forms of a score agree to the bit by construction.
//!
//! A term is `2^(scale (z - shift))` with `scale = beta log2(e)`, for a shift no smaller than the
//! logits it is used on, so that the largest terms are near 1 and keep their precision.

use crate::float::Float;

/// Lanes the loops are written in: one 512-bit or two 256-bit registers of float32.
const LANES: usize = 16;
/// A lane's integer sum fits 64 bits for this many terms of at most 2^51 quanta.
const TERMS_PER_LANE: usize = 4096;
const BLOCK: usize = LANES * TERMS_PER_LANE;

#[derive(Clone, Copy)]
struct Lanes {
    high: [u64; LANES],
    low: [u64; LANES],
}

impl Lanes {
    const EMPTY: Self = Self { high: [0; LANES], low: [0; LANES] };

    #[inline(always)]
    fn add<F: Float>(&mut self, lane: usize, value: F) {
        F::accumulate(value, &mut self.high[lane], &mut self.low[lane]);
    }

    fn total<F: Float>(&self, terms_per_lane: usize) -> i128 {
        let lanes = self.high.iter().zip(&self.low);
        lanes.map(|(&high, &low)| F::collect(high, low, terms_per_lane as u64)).sum()
    }
}

/// Runs `body(lane, logit)` over the row in whole groups of lanes. The last group is filled up with
/// `-inf`, whose exponential is 0. Returns the terms a lane took.
#[inline(always)]
fn for_each_lane<F: Float>(row: &[F], mut body: impl FnMut(usize, F)) -> usize {
    let (groups, rest) = row.as_chunks::<LANES>();
    for group in groups {
        for lane in 0..LANES {
            body(lane, group[lane]);
        }
    }
    if rest.is_empty() {
        return groups.len();
    }
    let mut group = [F::NEG_INFINITY; LANES];
    group[..rest.len()].copy_from_slice(rest);
    for lane in 0..LANES {
        body(lane, group[lane]);
    }
    groups.len() + 1
}

/// One term: `2^(scale (z - shift))`, at most 1, and nothing below the type's floor or for NaN.
#[inline(always)]
pub(crate) fn term<F: Float>(z: F, shift: F, scale: F) -> F {
    // In this order: -inf times a scale that underflowed to 0 is NaN, and NaN must end at the floor.
    F::exp2(((z - shift) * scale).larger(F::EXPONENT_FLOOR).smaller(F::ZERO))
}

/// The integer multiple of the quantum that one term adds to a sum.
#[inline(always)]
pub(crate) fn quanta<F: Float>(z: F, shift: F, scale: F) -> i128 {
    let (mut high, mut low) = (0, 0);
    F::accumulate(term(z, shift, scale), &mut high, &mut low);
    F::collect(high, low, 1)
}

/// Sum of the terms of the logits that `keep` accepts, in quanta.
#[inline(always)]
pub(crate) fn sum_terms<F: Float>(row: &[F], shift: F, scale: F, keep: impl Fn(F) -> bool) -> i128 {
    let mut sum = 0;
    for block in row.chunks(BLOCK) {
        let mut lanes = Lanes::EMPTY;
        let taken = for_each_lane(block, |lane, z| {
            let z = if keep(z) { z } else { F::NEG_INFINITY };
            lanes.add(lane, term(z, shift, scale));
        });
        sum += lanes.total::<F>(taken);
    }
    sum
}

/// Sums over the whole row at beta = 1 with the second largest logit as the shift; the logits above
/// it count as equal to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnitSums {
    /// Sum of `e = exp(z - shift)`.
    pub(crate) exponentials: f64,
    /// Sum of `e (shift - z)`.
    pub(crate) weighted: f64,
    /// Sum of `e^2`.
    pub(crate) squares: f64,
}

/// The sums behind entropy and Gini impurity. The one label at the top is left out of them: it is
/// the term that is exactly 1, 0 and 1.
#[inline(always)]
pub(crate) fn unit_sums<F: Float>(row: &[F], shift: F, with_squares: bool) -> UnitSums {
    let (mut exponentials, mut weighted, mut squares) = (0, 0, 0);
    for block in row.chunks(BLOCK) {
        let (mut e_lanes, mut d_lanes, mut s_lanes) = (Lanes::EMPTY, Lanes::EMPTY, Lanes::EMPTY);
        let taken = for_each_lane(block, |lane, z| {
            // -inf would make 0 * inf: the floor in logits, at which the exponential is 0 anyway.
            let x = (z - shift).larger(F::EXPONENT_FLOOR).smaller(F::ZERO);
            let e = F::exp2((x * F::LOG2_E).larger(F::EXPONENT_FLOOR));
            e_lanes.add(lane, e);
            d_lanes.add(lane, e * (F::ZERO - x));
            if with_squares {
                s_lanes.add(lane, e * e);
            }
        });
        exponentials += e_lanes.total::<F>(taken);
        weighted += d_lanes.total::<F>(taken);
        if with_squares {
            squares += s_lanes.total::<F>(taken);
        }
    }
    let one = quanta::<F>(F::ZERO, F::ZERO, F::ZERO);
    UnitSums {
        exponentials: to_f64::<F>(exponentials - one),
        weighted: to_f64::<F>(weighted),
        squares: to_f64::<F>(if with_squares { squares - one } else { 0 }),
    }
}

/// An exact sum, rounded once.
#[inline(always)]
pub(crate) fn to_f64<F: Float>(quanta: i128) -> f64 {
    quanta as f64 * F::QUANTUM
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The plain definition: one term after another.
    fn naive<F: Float>(row: &[F], shift: F, scale: F) -> i128 {
        row.iter().map(|&z| quanta(z, shift, scale)).sum()
    }

    fn check<F: Float>(row: &[F], scale: F) {
        let max = row.iter().fold(F::NEG_INFINITY, |m, &z| m.larger(z));
        let all = sum_terms(row, max, scale, |_| true);
        assert_eq!(all, naive(row, max, scale));
        let mut reversed = row.to_vec();
        reversed.reverse();
        assert_eq!(all, sum_terms(&reversed, max, scale, |_| true));
        let cut = row[row.len() / 2];
        let low = sum_terms(row, max, scale, |z| z <= cut);
        assert_eq!(all, low + sum_terms(row, max, scale, |z| z > cut));
        let float: f64 = row.iter().map(|z| ((*z - max) * scale).to_f64().exp2()).sum();
        assert!((to_f64::<F>(all) / float - 1.0).abs() < 1e-6);
    }

    proptest! {
        #[test]
        fn order_does_not_exist(row in prop::collection::vec(-40.0_f64..40.0, 1..300), scale in 0.01_f64..30.0) {
            check(&row, scale);
            let narrow: Vec<f32> = row.iter().map(|&z| z as f32).collect();
            check(&narrow, scale as f32);
        }
    }

    #[test]
    fn long_rows_do_not_overflow_a_lane() {
        let row = vec![1.5_f32; 3 * BLOCK + 7];
        assert_eq!(to_f64::<f32>(sum_terms(&row, 1.5, 1.0, |_| true)), row.len() as f64);
        let row = vec![1.5_f64; 3 * BLOCK + 7];
        assert_eq!(to_f64::<f64>(sum_terms(&row, 1.5, 1.0, |_| true)), row.len() as f64);
    }

    #[test]
    fn values_no_row_should_hold_do_no_harm() {
        let row = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0];
        let sum = to_f64::<f64>(sum_terms(&row, 0.0, 1.0, |_| true));
        assert!((0.0..=4.0).contains(&sum));
    }
}
