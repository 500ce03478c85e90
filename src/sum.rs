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
use crate::simd::instances;

/// Lanes the loops are written in: one 512-bit or two 256-bit registers of float32.
pub(crate) const LANES: usize = 16;
/// `array::from_fn` as a plain loop: its closure is not always inlined, and would then be compiled for the
/// baseline instead of the instance it is used in.
macro_rules! each_lane {
    ([$start:expr; $n:expr], |$i:ident| $value:expr) => {{
        let mut lanes = [$start; $n];
        for $i in 0..$n {
            lanes[$i] = $value;
        }
        lanes
    }};
}
pub(crate) use each_lane;

/// A lane's integer sum fits 64 bits for this many terms of at most 2^51 quanta.
const TERMS_PER_LANE: usize = 4096;
const BLOCK: usize = LANES * TERMS_PER_LANE;

/// Integer sums in lanes.
#[derive(Clone, Copy)]
pub(crate) struct Lanes {
    high: [u64; LANES],
    low: [u64; LANES],
}

impl Lanes {
    pub(crate) const EMPTY: Self = Self { high: [0; LANES], low: [0; LANES] };

    /// Adds a value; every lane must take the same number of them.
    #[inline(always)]
    pub(crate) fn add<F: Float>(&mut self, lane: usize, value: F) {
        F::accumulate(value, &mut self.high[lane], &mut self.low[lane]);
    }

    /// Adds a value's words if `wanted`.
    #[inline(always)]
    pub(crate) fn add_words(&mut self, lane: usize, (high, low): (u64, u64), wanted: bool) {
        self.high[lane] = self.high[lane].wrapping_add(if wanted { high } else { 0 });
        self.low[lane] = self.low[lane].wrapping_add(if wanted { low } else { 0 });
    }

    /// The words of one lane that took `taken` values by `add`.
    #[inline(always)]
    pub(crate) fn words<F: Float>(&self, lane: usize, taken: usize) -> (u64, u64) {
        F::without_anchors(self.high[lane], self.low[lane], taken as u64)
    }

    #[inline(always)]
    pub(crate) fn total<F: Float>(&self, taken: usize) -> i128 {
        if taken > 0 && taken * LANES <= TERMS_PER_LANE {
            // Few enough for one lane: the lanes are added before anything else, in vectors.
            let (mut high, mut low) = (0_u64, 0_u64);
            for lane in 0..LANES {
                high = high.wrapping_add(self.high[lane]);
                low = low.wrapping_add(self.low[lane]);
            }
            return F::collect(F::without_anchors(high, low, (taken * LANES) as u64));
        }
        let mut total = 0;
        for lane in 0..LANES {
            total += F::collect(self.words::<F>(lane, taken));
        }
        total
    }
}

/// A row in groups of lanes, the last filled up with `-inf`, whose exponential is 0.
///
/// The loops over it are written out where they are used. As closures they might not be inlined, and
/// would then be compiled for the baseline instead of the instance they belong to: ten times slower.
pub(crate) struct Groups<'a, F> {
    whole: &'a [[F; LANES]],
    last: [F; LANES],
    pub(crate) count: usize,
}

impl<'a, F: Float> Groups<'a, F> {
    #[inline(always)]
    pub(crate) fn of(row: &'a [F]) -> Self {
        let (whole, rest) = row.as_chunks::<LANES>();
        let mut last = [F::NEG_INFINITY; LANES];
        last[..rest.len()].copy_from_slice(rest);
        Self { whole, last, count: whole.len() + usize::from(!rest.is_empty()) }
    }

    #[inline(always)]
    pub(crate) fn get(&self, g: usize) -> &[F; LANES] {
        self.whole.get(g).unwrap_or(&self.last)
    }
}

/// Whether a logit ranks before a label with logit `y`: lower labels (`LEFT`) do when equal, higher ones
/// do not. A constant, so that the loops compare once.
#[inline(always)]
pub(crate) fn is_before<const LEFT: bool, F: Float>(z: F, y: F) -> bool {
    if LEFT { z >= y } else { z > y }
}

/// One term: `2^(scale (z - shift))`, at most 1, and nothing below the type's floor or for NaN.
#[inline(always)]
pub(crate) fn term<F: Float>(z: F, shift: F, scale: F) -> F {
    F::exp2(exponent(z, shift, scale))
}

/// `scale (z - shift)`, kept between the floor and 0.
#[inline(always)]
pub(crate) fn exponent<F: Float>(z: F, shift: F, scale: F) -> F {
    // In this order: -inf times a scale that underflowed to 0 is NaN, and NaN must end at the floor.
    ((z - shift) * scale).larger(F::EXPONENT_FLOOR).smaller(F::ZERO)
}

/// The integer multiple of the quantum that one term adds to a sum.
#[inline(always)]
pub(crate) fn quanta<F: Float>(z: F, shift: F, scale: F) -> i128 {
    F::collect(F::words(term(z, shift, scale)))
}

// The sums below go to the vectors of `simd` in float32, where the machine has them. Otherwise, and in
// float64, they are these plain loops, functions of their own in each instruction set: inlined into a
// larger kernel they would compete for its registers.

/// `$call` of the vector form, if there is one for this row.
macro_rules! by_vectors {
    ($row:ident, $call:ident($($arg:expr),*) => |$sums:ident| $result:expr) => {
        #[cfg(target_arch = "x86_64")]
        if let Some(narrow) = F::as_f32($row)
            && let Some($sums) = crate::simd::x86_64::$call(narrow, $($arg.to_f64() as f32),*)
        {
            return $result;
        }
    };
}

/// Sum of the terms of all logits, in quanta.
#[inline(always)]
pub(crate) fn sum_terms<F: Float>(row: &[F], shift: F, scale: F) -> i128 {
    by_vectors!(row, sum_terms(shift, scale) => |sum| sum);
    sum_terms_plain(row, shift, scale)
}

/// Two sums in one pass over the labels lower than one with logit `y`: of those that rank before it,
/// relative to `max`, and of the others, relative to `shift`. In quanta.
#[inline(always)]
pub(crate) fn split_lower<F: Float>(part: &[F], y: F, max: F, shift: F, scale: F) -> (i128, i128) {
    by_vectors!(part, split_lower(y, max, shift, scale) => |sums| sums);
    split_lower_plain(part, y, max, shift, scale)
}

/// The same for the higher labels.
#[inline(always)]
pub(crate) fn split_higher<F: Float>(part: &[F], y: F, max: F, shift: F, scale: F) -> (i128, i128) {
    by_vectors!(part, split_higher(y, max, shift, scale) => |sums| sums);
    split_higher_plain(part, y, max, shift, scale)
}

/// The sums behind entropy. The one label at the top is left out of them: it is the term that is
/// exactly 1 and 0.
#[inline(always)]
pub(crate) fn unit_sums<F: Float>(row: &[F], shift: F) -> UnitSums {
    by_vectors!(row, unit_sums(shift) => |sums| UnitSums::new::<F>(sums.0, sums.1));
    let (exponentials, weighted) = unit_sums_plain(row, shift);
    UnitSums::new::<F>(exponentials, weighted)
}

instances! {
    fn sum_terms_plain<F: Float>(row: &[F], shift: F, scale: F) -> i128 = sum_terms_body::<F>;
}
instances! {
    fn split_lower_plain<F: Float>(part: &[F], y: F, max: F, shift: F, scale: F) -> (i128, i128) = split_terms::<true, F>;
}
instances! {
    fn split_higher_plain<F: Float>(part: &[F], y: F, max: F, shift: F, scale: F) -> (i128, i128) = split_terms::<false, F>;
}
instances! {
    pub(crate) fn unit_sums_plain<F: Float>(row: &[F], shift: F) -> (i128, i128) = unit_sums_body::<F>;
}
instances! {
    /// Sum of the squares of the exponentials, for Gini impurity; the top label's is left out.
    pub(crate) fn unit_squares<F: Float>(row: &[F], shift: F) -> f64 = unit_squares_body::<F>;
}

#[inline(always)]
pub(crate) fn sum_terms_body<F: Float>(row: &[F], shift: F, scale: F) -> i128 {
    let mut sum = 0;
    for block in row.chunks(BLOCK) {
        let mut lanes = Lanes::EMPTY;
        let groups = Groups::of(block);
        for g in 0..groups.count {
            let group = groups.get(g);
            // In two loops: the compiler then keeps the whole group in registers.
            let mut terms = [F::ZERO; LANES];
            for lane in 0..LANES {
                terms[lane] = term(group[lane], shift, scale);
            }
            for lane in 0..LANES {
                lanes.add(lane, terms[lane]);
            }
        }
        let taken = groups.count;
        sum += lanes.total::<F>(taken);
    }
    sum
}

#[inline(always)]
pub(crate) fn split_terms<const LEFT: bool, F: Float>(
    part: &[F],
    y: F,
    max: F,
    shift: F,
    scale: F,
) -> (i128, i128) {
    let (mut upper, mut all) = (0, 0);
    for block in part.chunks(BLOCK) {
        let (mut upper_lanes, mut all_lanes) = (Lanes::EMPTY, Lanes::EMPTY);
        let groups = Groups::of(block);
        for g in 0..groups.count {
            let group = groups.get(g);
            let mut terms = [F::ZERO; LANES];
            for lane in 0..LANES {
                let reference = if is_before::<LEFT, F>(group[lane], y) { max } else { shift };
                terms[lane] = term(group[lane], reference, scale);
            }
            for lane in 0..LANES {
                let words = F::words(terms[lane]);
                upper_lanes.add_words(lane, words, is_before::<LEFT, F>(group[lane], y));
                all_lanes.add_words(lane, words, true);
            }
        }
        upper += upper_lanes.total::<F>(0);
        all += all_lanes.total::<F>(0);
    }
    (upper, all - upper)
}

/// Sums over the whole row at beta = 1 with the second largest logit as the shift; the logits above
/// it count as equal to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnitSums {
    /// Sum of `e = exp(z - shift)`.
    pub(crate) exponentials: f64,
    /// Sum of `e (shift - z)`.
    pub(crate) weighted: f64,
}

#[inline(always)]
fn unit_sums_body<F: Float>(row: &[F], shift: F) -> (i128, i128) {
    let (mut exponentials, mut weighted) = (0, 0);
    for block in row.chunks(BLOCK) {
        let (mut e_lanes, mut d_lanes) = (Lanes::EMPTY, Lanes::EMPTY);
        let groups = Groups::of(block);
        for g in 0..groups.count {
            let group = groups.get(g);
            let (mut terms, mut products) = ([F::ZERO; LANES], [F::ZERO; LANES]);
            for lane in 0..LANES {
                let t = exponent(group[lane], shift, F::LOG2_E);
                terms[lane] = F::exp2(t);
                products[lane] = terms[lane] * (F::ZERO - t);
            }
            for lane in 0..LANES {
                e_lanes.add(lane, terms[lane]);
                d_lanes.add(lane, products[lane]);
            }
        }
        exponentials += e_lanes.total::<F>(groups.count);
        weighted += d_lanes.total::<F>(groups.count);
    }
    (exponentials, weighted)
}

#[inline(always)]
fn unit_squares_body<F: Float>(row: &[F], shift: F) -> f64 {
    let mut squares = 0;
    for block in row.chunks(BLOCK) {
        let mut lanes = Lanes::EMPTY;
        let groups = Groups::of(block);
        for g in 0..groups.count {
            let group = groups.get(g);
            for lane in 0..LANES {
                let e = term(group[lane], shift, F::LOG2_E);
                lanes.add(lane, e * e);
            }
        }
        squares += lanes.total::<F>(groups.count);
    }
    F::sum_to_f64(squares - one::<F>())
}

/// The quanta of 1.
#[inline(always)]
pub(crate) fn one<F: Float>() -> i128 {
    quanta::<F>(F::ZERO, F::ZERO, F::ZERO)
}

impl UnitSums {
    /// From the sums over all labels, in quanta; the weights are in units of log 2.
    #[inline(always)]
    pub(crate) fn new<F: Float>(exponentials: i128, weighted: i128) -> Self {
        Self {
            exponentials: F::sum_to_f64(exponentials - one::<F>()),
            weighted: F::sum_to_f64(weighted) * std::f64::consts::LN_2,
        }
    }
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
        let all = sum_terms(row, max, scale);
        assert_eq!(all, naive(row, max, scale));
        let mut reversed = row.to_vec();
        reversed.reverse();
        assert_eq!(all, sum_terms(&reversed, max, scale));
        let cut = row[row.len() / 2];
        let (high, low): (Vec<F>, Vec<F>) = row.iter().partition(|z| **z > cut);
        let split = split_terms::<false, F>(row, cut, max, cut, scale);
        assert_eq!(split, (naive(&high, max, scale), naive(&low, cut, scale)));
        let float: f64 = row.iter().map(|z| ((*z - max) * scale).to_f64().exp2()).sum();
        assert!((F::sum_to_f64(all) / float - 1.0).abs() < 1e-6);
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
        assert_eq!(f32::sum_to_f64(sum_terms(&row, 1.5, 1.0)), row.len() as f64);
        let row = vec![1.5_f64; 3 * BLOCK + 7];
        assert_eq!(f64::sum_to_f64(sum_terms(&row, 1.5, 1.0)), row.len() as f64);
    }

    #[test]
    fn values_no_row_should_hold_do_no_harm() {
        let row = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0];
        let sum = f64::sum_to_f64(sum_terms(&row, 0.0, 1.0));
        assert!((0.0..=4.0).contains(&sum));
    }
}
