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
//! The sums of scores have coarser quanta in rows of at most 1024 labels: see [`Grain`].
//!
//! A term is `2^-(scale (shift - z))` with `scale = beta log2(e)`, for a shift no smaller than the
//! logits it is used on, so that the largest terms are near 1 and keep their precision.
//!
//! The sums behind entropy are the exception: see [`crate::unit_sums`].

#[cfg(target_arch = "x86_64")]
use crate::float::COARSE_BITS;
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
pub(crate) const BLOCK: usize = LANES * TERMS_PER_LANE;

/// Integer sums in lanes.
#[derive(Clone, Copy)]
pub(crate) struct Lanes<const N: usize = LANES> {
    pub(crate) high: [u64; N],
    pub(crate) low: [u64; N],
}

impl<const N: usize> Lanes<N> {
    pub(crate) const EMPTY: Self = Self { high: [0; N], low: [0; N] };

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
        if taken > 0 && taken * N <= TERMS_PER_LANE {
            // Few enough for one lane: the lanes are added before anything else, in vectors.
            let (mut high, mut low) = (0_u64, 0_u64);
            for lane in 0..N {
                high = high.wrapping_add(self.high[lane]);
                low = low.wrapping_add(self.low[lane]);
            }
            return F::collect(F::without_anchors(high, low, (taken * N) as u64));
        }
        let mut total = 0;
        for lane in 0..N {
            total += F::collect(self.words::<F>(lane, taken));
        }
        total
    }
}

/// What the terms of a score's sums are rounded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grain {
    /// Quanta.
    Fine,
    /// Multiples of 2^-29 in float32 and of 2^-56 in float64, for rows of at most [`MOST_COARSE`] labels: terms fit 32-bit
    /// integers, and those of float64 one word of 64 bits, which halves the cost of adding them up. Each sum has a
    /// term of 1/e or more, as shifts are at most one unit of `1 / beta` above the largest logit then (see
    /// [`crate::masses::Sharpness`]), so roundings are off by at most 1024 * 2^-30 * e = 2.6e-6 of a sum when all go one
    /// way, and by 1e-7 when they go as they come; terms themselves are off by as much. In float64 that is 1.9e-14
    /// and 1e-15.
    Coarse,
}

/// Labels of rows that are summed in coarse quanta, at most.
pub(crate) const MOST_COARSE: usize = 1024;
/// Coarse quanta of float32 in 1.
pub(crate) const COARSE: f32 = (1_u32 << 29) as f32;

impl Grain {
    #[inline(always)]
    pub(crate) fn of(n_labels: usize) -> Self {
        if n_labels <= MOST_COARSE { Self::Coarse } else { Self::Fine }
    }

    /// Terms of 2 to the power of less this add nothing.
    #[inline(always)]
    pub(crate) fn deepest<F: Float>(self) -> F {
        if self == Self::Coarse { F::DEEPEST_COARSE } else { F::DEEPEST }
    }
}

/// The words of a term in quanta of its type, rounded as the grain says.
#[inline(always)]
pub(crate) fn words<F: Float>(term: F, grain: Grain) -> (u64, u64) {
    match grain {
        Grain::Fine => F::words(term),
        Grain::Coarse => F::coarse_words(term),
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

/// How far logits lie below a shift, at most as far as terms of a scale add anything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Depths<F> {
    pub(crate) scale: F,
    /// From here on terms add nothing.
    deepest: F,
}

impl<F: Float> Depths<F> {
    #[inline(always)]
    pub(crate) fn new(scale: F) -> Self {
        Self { scale, deepest: deepest(scale) }
    }

    /// The depth of a logit; the deepest for those far below or above the shift, and for NaN.
    ///
    /// As patterns: the smaller of two unsigned integers, since negative numbers and NaN come after the others.
    #[inline(always)]
    pub(crate) fn of(&self, z: F, shift: F) -> F {
        let depth = shift - z;
        if depth >= F::ZERO && depth < self.deepest { depth } else { self.deepest }
    }

    /// One term: `2^-(scale (shift - z))`, at most 1, and nothing for what is deepest.
    #[inline(always)]
    pub(crate) fn term(&self, z: F, shift: F) -> F {
        F::exp2(self.of(z, shift), self.scale)
    }

    /// The same in the form that turns into vector code, with other bits.
    #[inline(always)]
    pub(crate) fn term_in_lanes(&self, z: F, shift: F) -> F {
        F::exp2_in_lanes(self.of(z, shift), self.scale)
    }
}

/// The depth from which terms add nothing; finite, as scales are at least [`Float::SMALLEST_SCALE`].
#[inline(always)]
pub(crate) fn deepest<F: Float>(scale: F) -> F {
    F::DEEPEST.over(scale)
}

/// [`Depths::term`] of one logit.
#[inline(always)]
pub(crate) fn term<F: Float>(z: F, shift: F, scale: F) -> F {
    Depths::new(scale).term(z, shift)
}

/// The integer multiple of the quantum that one term adds to a sum.
#[inline(always)]
pub(crate) fn quanta<F: Float>(z: F, shift: F, scale: F, grain: Grain) -> i128 {
    F::collect(words(term(z, shift, scale), grain))
}

// The sums below go to the vectors of `simd`, where the machine has them; in float64 a row is parted by the
// plain loop. Otherwise they are these plain loops, functions of their own in each instruction set: inlined into a
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
pub(crate) fn sum_terms<F: Float>(row: &[F], shift: F, scale: F, grain: Grain) -> i128 {
    if grain == Grain::Coarse {
        by_vectors!(row, sum_coarse_terms(shift, scale) => |sum| i128::from(sum) << COARSE_BITS);
        #[cfg(target_arch = "x86_64")]
        if let Some(wide) = F::as_f64(row)
            && let Some(sum) = crate::simd::x86_64::sum_coarse_double(wide, shift.to_f64(), scale.to_f64())
        {
            return sum;
        }
        return sum_coarse_plain(row, shift, scale);
    }
    by_vectors!(row, sum_terms(shift, scale) => |sum| sum);
    #[cfg(target_arch = "x86_64")]
    if let Some(wide) = F::as_f64(row)
        && let Some(sum) = crate::simd::x86_64::sum_double_terms(wide, shift.to_f64(), scale.to_f64())
    {
        return sum;
    }
    sum_terms_plain(row, shift, scale)
}

/// [`sum_terms`] of a few logits, relative to each of two shifts.
#[inline(always)]
pub(crate) fn sums_of_few<F: Float>(few: &[F; LANES], shifts: [F; 2], scale: F, grain: Grain) -> [i128; 2] {
    if let Some(words) = words_of_few(few, shifts, scale, grain) {
        return words.map(F::collect);
    }
    shifts.map(|shift| sum_terms(few, shift, scale, grain))
}

/// The same in words, where they are found in vectors: most sums need no more than 64 bits.
#[inline(always)]
pub(crate) fn words_of_few<F: Float>(
    few: &[F; LANES],
    shifts: [F; 2],
    scale: F,
    grain: Grain,
) -> Option<[(u64, u64); 2]> {
    #[cfg(target_arch = "x86_64")]
    if grain == Grain::Coarse
        && let Some(few) = F::as_f32(few).and_then(|few| few.try_into().ok())
        && let shifts = shifts.map(|shift| shift.to_f64() as f32)
        && let Some(sums) = crate::simd::x86_64::sums_of_few(few, shifts, scale.to_f64() as f32)
    {
        return Some(sums.map(|sum| (sum << COARSE_BITS, 0)));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (few, shifts, scale, grain);
    None
}

/// Two sums in one pass over the labels lower than one with logit `y`: of those that rank before it,
/// relative to `max`, and of the others, relative to `shift`. In quanta.
#[inline(always)]
pub(crate) fn split_lower<F: Float>(
    part: &[F],
    y: F,
    max: F,
    shift: F,
    scale: F,
    grain: Grain,
) -> (i128, i128) {
    if grain == Grain::Coarse {
        by_vectors!(part, split_coarse_lower(y, max, shift, scale) => |sums| in_quanta(sums));
    } else {
        by_vectors!(part, split_lower(y, max, shift, scale) => |sums| sums);
    }
    split_lower_plain(part, y, max, shift, scale, grain)
}

/// The same for the higher labels.
#[inline(always)]
pub(crate) fn split_higher<F: Float>(
    part: &[F],
    y: F,
    max: F,
    shift: F,
    scale: F,
    grain: Grain,
) -> (i128, i128) {
    if grain == Grain::Coarse {
        by_vectors!(part, split_coarse_higher(y, max, shift, scale) => |sums| in_quanta(sums));
    } else {
        by_vectors!(part, split_higher(y, max, shift, scale) => |sums| sums);
    }
    split_higher_plain(part, y, max, shift, scale, grain)
}

/// Coarse sums in quanta.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
pub(crate) fn in_quanta((upper, lower): (u64, u64)) -> (i128, i128) {
    (i128::from(upper) << COARSE_BITS, i128::from(lower) << COARSE_BITS)
}

instances! {
    fn sum_terms_plain<F: Float>(row: &[F], shift: F, scale: F) -> i128 = sum_terms_body::<F>;
}
instances! {
    fn sum_coarse_plain<F: Float>(row: &[F], shift: F, scale: F) -> i128 = sum_coarse_body::<F>;
}
instances! {
    fn split_lower_plain<F: Float>(part: &[F], y: F, max: F, shift: F, scale: F, grain: Grain) -> (i128, i128) = split_terms::<true, F>;
}
instances! {
    fn split_higher_plain<F: Float>(part: &[F], y: F, max: F, shift: F, scale: F, grain: Grain) -> (i128, i128) = split_terms::<false, F>;
}
#[inline(always)]
pub(crate) fn sum_terms_body<F: Float>(row: &[F], shift: F, scale: F) -> i128 {
    let depths = Depths::new(scale);
    let mut sum = 0;
    for block in row.chunks(BLOCK) {
        let mut lanes = Lanes::<LANES>::EMPTY;
        let groups = Groups::of(block);
        for g in 0..groups.count {
            let group = groups.get(g);
            // In two loops: the compiler then keeps the whole group in registers.
            let mut terms = [F::ZERO; LANES];
            for lane in 0..LANES {
                terms[lane] = depths.term(group[lane], shift);
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

/// The sum over at most [`MOST_COARSE`] labels in coarse quanta.
#[inline(always)]
pub(crate) fn sum_coarse_body<F: Float>(row: &[F], shift: F, scale: F) -> i128 {
    let depths = Depths::new(scale);
    let mut lanes = Lanes::<LANES>::EMPTY;
    let groups = Groups::of(row);
    for g in 0..groups.count {
        let group = groups.get(g);
        let mut terms = [F::ZERO; LANES];
        for lane in 0..LANES {
            terms[lane] = depths.term(group[lane], shift);
        }
        for lane in 0..LANES {
            lanes.add_words(lane, F::coarse_words(terms[lane]), true);
        }
    }
    lanes.total::<F>(0)
}

#[inline(always)]
pub(crate) fn split_terms<const LEFT: bool, F: Float>(
    part: &[F],
    y: F,
    max: F,
    shift: F,
    scale: F,
    grain: Grain,
) -> (i128, i128) {
    let depths = Depths::new(scale);
    let (mut upper, mut all) = (0, 0);
    for block in part.chunks(BLOCK) {
        let (mut upper_lanes, mut all_lanes) = (Lanes::<LANES>::EMPTY, Lanes::<LANES>::EMPTY);
        let groups = Groups::of(block);
        for g in 0..groups.count {
            let group = groups.get(g);
            let mut terms = [F::ZERO; LANES];
            for lane in 0..LANES {
                let reference = if is_before::<LEFT, F>(group[lane], y) { max } else { shift };
                terms[lane] = depths.term(group[lane], reference);
            }
            for lane in 0..LANES {
                let words = words(terms[lane], grain);
                upper_lanes.add_words(lane, words, is_before::<LEFT, F>(group[lane], y));
                all_lanes.add_words(lane, words, true);
            }
        }
        upper += upper_lanes.total::<F>(0);
        all += all_lanes.total::<F>(0);
    }
    (upper, all - upper)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The plain definition: one term after another.
    fn naive<F: Float>(row: &[F], shift: F, scale: F, grain: Grain) -> i128 {
        row.iter().map(|&z| quanta(z, shift, scale, grain)).sum()
    }

    fn check<F: Float>(row: &[F], scale: F, grain: Grain) {
        let max = row.iter().fold(F::NEG_INFINITY, |m, &z| m.larger(z));
        let all = sum_terms(row, max, scale, grain);
        assert_eq!(all, naive(row, max, scale, grain));
        let mut reversed = row.to_vec();
        reversed.reverse();
        assert_eq!(all, sum_terms(&reversed, max, scale, grain));
        let cut = row[row.len() / 2];
        let (high, low): (Vec<F>, Vec<F>) = row.iter().partition(|z| **z > cut);
        let split = split_terms::<false, F>(row, cut, max, cut, scale, grain);
        assert_eq!(split, (naive(&high, max, scale, grain), naive(&low, cut, scale, grain)));
        let float: f64 = row.iter().map(|z| ((*z - max) * scale).to_f64().exp2()).sum();
        assert!((F::sum_to_f64(all) / float - 1.0).abs() < 1e-6);
    }

    proptest! {
        #[test]
        fn order_does_not_exist(row in prop::collection::vec(-40.0_f64..40.0, 1..300), scale in 0.01_f64..30.0) {
            let narrow: Vec<f32> = row.iter().map(|&z| z as f32).collect();
            for grain in [Grain::Fine, Grain::Coarse] {
                check(&row, scale, grain);
                check(&narrow, scale as f32, grain);
            }
        }
    }

    #[test]
    fn long_rows_do_not_overflow_a_lane() {
        let row = vec![1.5_f32; 3 * BLOCK + 7];
        assert_eq!(f32::sum_to_f64(sum_terms(&row, 1.5, 1.0, Grain::Fine)), row.len() as f64);
        let row = vec![1.5_f64; 3 * BLOCK + 7];
        assert_eq!(f64::sum_to_f64(sum_terms(&row, 1.5, 1.0, Grain::Fine)), row.len() as f64);
    }

    #[test]
    fn values_no_row_should_hold_do_no_harm() {
        let row = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0];
        assert_eq!(f64::sum_to_f64(sum_terms(&row, 0.0, 1.0, Grain::Fine)), 1.0);
        let narrow = row.map(|z| z as f32);
        assert_eq!(f32::sum_to_f64(sum_terms(&narrow, 0.0, 1.0, Grain::Fine)), 1.0);
    }
}
