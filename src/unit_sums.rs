//! The sums behind entropy: over the exponentials of a row at temperature 1, in a fixed order.
//!
//! A row has one entropy, taken along its labels as they come: a fixed order is enough, and costs half as much as the
//! exact sums of [`crate::sum`].

use crate::ahead::Ahead;
use crate::float::Float;
use crate::simd::instances;
use crate::sum::{BLOCK, Depths, Groups, LANES, Lanes, each_lane, term};

/// Sums behind the entropies of N rows: over all labels but one at the top, relative to the second largest logit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnitSums<const N: usize> {
    /// Sum of `e = exp(z - second)`.
    pub(crate) exponentials: [f64; N],
    /// Sum of `e (second - z)`.
    pub(crate) weighted: [f64; N],
}

impl<const N: usize> UnitSums<N> {
    /// From sums in which what lies above the shift, the second largest logit, counts as nothing. When two
    /// labels share the maximum nothing does, and one of them is taken out.
    #[inline(always)]
    pub(crate) fn new(exponentials: &[f64; N], weighted: &[f64; N], gap: &[f64; N]) -> Self {
        let twice = each_lane!([0.0; N], |i| if gap[i] == 0.0 { 1.0 } else { 0.0 });
        let exponentials = each_lane!([0.0; N], |i| exponentials[i] - twice[i]);
        Self { exponentials, weighted: *weighted }
    }
}

/// Up to this many labels the sums behind entropy have one lane. Rows are then summed side by side (see
/// [`crate::group`]), where a row has one lane by nature. Another number would change the bits of results.
pub(crate) const MOST_SIDE_BY_SIDE: usize = 128;
/// Terms that a lane adds in the computing type before it widens the sum: widening each would take a third of the time.
/// Fifteen roundings of float32 are at most 9e-7 of a sum, when all go one way; a term of its own is off by 1.04e-6.
pub(crate) const RUN: usize = 16;

/// The sums behind entropy, in a fixed order: label `i` belongs to lane `i % n` of 16 lanes, or of one where
/// labels are few; a lane adds its terms in runs of sixteen, the runs in float64; and the lanes are added in
/// halves. `ahead` is fetched meanwhile.
#[inline(always)]
pub(crate) fn unit_sums<F: Float>(row: &[F], shift: F, ahead: Ahead<'_, F>) -> (f64, f64) {
    if row.len() <= MOST_SIDE_BY_SIDE {
        return unit_sums_few(row, shift);
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(sums) = unit_sums_in_vectors(row, shift, ahead) {
        return sums;
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = ahead;
    unit_sums_plain(row, shift)
}

#[inline(always)]
#[cfg(target_arch = "x86_64")]
fn unit_sums_in_vectors<F: Float>(row: &[F], shift: F, ahead: Ahead<'_, F>) -> Option<(f64, f64)> {
    use crate::simd::x86_64;
    let wide_shift = shift.to_f64();
    if let Some(row) = F::as_f32(row) {
        let shift = wide_shift as f32;
        return match ahead {
            Ahead::Rows(rows) => {
                x86_64::unit_sums(row, shift, rows.map(|r| F::as_f32(r).unwrap_or_default()))
            }
            Ahead::Columns(lines) => x86_64::unit_sums_by_columns(row, shift, lines),
        };
    }
    let row = F::as_f64(row)?;
    match ahead {
        Ahead::Rows(rows) => {
            x86_64::double_unit_sums(row, wide_shift, rows.map(|r| F::as_f64(r).unwrap_or_default()))
        }
        Ahead::Columns(lines) => x86_64::double_unit_sums_by_columns(row, wide_shift, lines),
    }
}

/// The sum of lanes, in halves.
#[inline(always)]
pub(crate) fn in_halves(lanes: [f64; LANES]) -> f64 {
    // Each in an array of its own: in one loop over the halves the compiler would add lane by lane.
    let lanes = each_lane!([0.0; 8], |i| lanes[i] + lanes[i + 8]);
    let lanes = each_lane!([0.0; 4], |i| lanes[i] + lanes[i + 4]);
    (lanes[0] + lanes[2]) + (lanes[1] + lanes[3])
}

instances! {
    pub(crate) fn unit_sums_plain<F: Float>(row: &[F], shift: F) -> (f64, f64) = unit_sums_body::<F>;
}
instances! {
    fn unit_sums_few<F: Float>(row: &[F], shift: F) -> (f64, f64) = unit_sums_few_body::<F>;
}
instances! {
    /// Sum of the squares of the exponentials, for Gini impurity; what lies above the shift counts as nothing.
    pub(crate) fn unit_squares<F: Float>(row: &[F], shift: F) -> f64 = unit_squares_body::<F>;
}

#[inline(always)]
fn unit_sums_body<F: Float>(row: &[F], shift: F) -> (f64, f64) {
    let depths = Depths::new(F::LOG2_E);
    let (mut exponentials, mut weighted) = ([0.0; LANES], [0.0; LANES]);
    for run in row.chunks(LANES * RUN) {
        let (mut e_run, mut d_run) = ([F::ZERO; LANES], [F::ZERO; LANES]);
        let (whole, rest) = run.as_chunks::<LANES>();
        for group in whole {
            for lane in 0..LANES {
                let d = depths.of(group[lane], shift);
                let e = F::exp2(d, F::LOG2_E);
                e_run[lane] = e_run[lane] + e;
                d_run[lane] = e.mul_add(d, d_run[lane]);
            }
        }
        for (lane, &z) in rest.iter().enumerate() {
            let d = depths.of(z, shift);
            let e = F::exp2(d, F::LOG2_E);
            e_run[lane] = e_run[lane] + e;
            d_run[lane] = e.mul_add(d, d_run[lane]);
        }
        for lane in 0..LANES {
            exponentials[lane] += e_run[lane].to_f64();
            weighted[lane] += d_run[lane].to_f64();
        }
    }
    (in_halves(exponentials), in_halves(weighted))
}

#[inline(always)]
fn unit_sums_few_body<F: Float>(row: &[F], shift: F) -> (f64, f64) {
    let depths = Depths::new(F::LOG2_E);
    let (mut exponentials, mut weighted) = (0.0, 0.0);
    for run in row.chunks(RUN) {
        let (mut below, mut terms) = ([F::ZERO; RUN], [F::ZERO; RUN]);
        for (i, &z) in run.iter().enumerate() {
            below[i] = depths.of(z, shift);
            terms[i] = F::exp2(below[i], F::LOG2_E);
        }
        let (mut e_run, mut d_run) = (F::ZERO, F::ZERO);
        for i in 0..RUN {
            e_run = e_run + terms[i];
            d_run = terms[i].mul_add(below[i], d_run);
        }
        exponentials += e_run.to_f64();
        weighted += d_run.to_f64();
    }
    (exponentials, weighted)
}

#[inline(always)]
fn unit_squares_body<F: Float>(row: &[F], shift: F) -> f64 {
    let mut squares = 0;
    for block in row.chunks(BLOCK) {
        let mut lanes = Lanes::<LANES>::EMPTY;
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
    F::sum_to_f64(squares)
}
