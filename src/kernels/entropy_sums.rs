//! What are the sums behind the entropy of a row?
//!
//! ```text
//! e = exp(z - shift),  d = shift - z      (nothing for a logit above the shift, the second largest logit)
//! exponentials = sum of e,  weighted = sum of e d
//! ```
//!
//! A row has one entropy, taken along its labels as they come. A fixed order is enough for equal bits, and
//! costs half as much as exact sums: label i belongs to lane `i % 16`, or to one lane where labels are few. A
//! lane adds its terms in runs of sixteen, and the runs in float64. The lanes are added in halves.

use super::exact::{RUN as SETTLED, Sum};
use super::terms::Terms;
use super::{Float, Row, V, has_many_registers};
use crate::math::{WIDTH, each_lane};
use crate::simd::{Lanes, Lines, Simd, vectorize};

/// Up to this many labels the sums behind entropy have one lane. Rows are then summed side by side (see
/// `tile.rs`), where a row has one lane by nature. Another number would change the bits of results.
pub(crate) const MOST_SIDE_BY_SIDE: usize = 128;
/// Terms that a lane adds in the computing type before it widens the sum: widening each would take a third of
/// the time. Fifteen roundings of float32 are at most 9e-7 of a sum, when all go one way; a term of its own
/// is off by 1.04e-6.
pub(super) const RUN: usize = 16;

/// Vectors that are taken in step where registers are many.
const STEP: usize = 8;

/// The sum of lanes, in halves.
#[inline(always)]
pub(crate) fn in_halves(lanes: [f64; WIDTH]) -> f64 {
    // Each in an array of its own: in one loop over the halves the compiler would add lane by lane.
    let lanes = each_lane!([0.0; 8], |i| lanes[i] + lanes[i + 8]);
    let lanes = each_lane!([0.0; 4], |i| lanes[i] + lanes[i + 4]);
    (lanes[0] + lanes[2]) + (lanes[1] + lanes[3])
}

/// The sums behind entropy of a row; `lines` are asked for meanwhile.
#[inline(always)]
pub(crate) fn entropy_sums<S: Simd, F: Float>(s: S, row: &[F], shift: F, lines: impl Lines) -> (f64, f64) {
    vectorize!(s, {
        let terms = Terms::new(s, shift, F::LOG2_E, F::DEEPEST);
        if row.len() <= MOST_SIDE_BY_SIDE { few(s, row, &terms) } else { many(s, row, &terms, lines) }
    })
}

#[inline(always)]
fn many<S: Simd, F: Float>(s: S, row: &[F], terms: &Terms<F, S>, lines: impl Lines) -> (f64, f64) {
    let zero = V::<F, S>::splat(s, F::ZERO);
    let vectors = Row::of(row);
    let (mut e_sums, mut d_sums) = (zero.widen(), zero.widen());
    macro_rules! add {
        ($d:expr, $e:expr, $e_run:ident, $d_run:ident) => {
            let (d, e) = ($d, $e);
            $e_run = $e_run + e;
            $d_run = e.fma(d, $d_run);
        };
    }
    macro_rules! widen {
        ($e_run:ident, $d_run:ident) => {
            let (e, d) = ($e_run.widen(), $d_run.widen());
            e_sums = [e_sums[0] + e[0], e_sums[1] + e[1]];
            d_sums = [d_sums[0] + d[0], d_sums[1] + d[1]];
        };
    }
    // Lines of a vector: one of float32, two of float64.
    let of_vector = size_of::<F>() / size_of::<f32>();
    let (mut e_run, mut d_run) = (zero, zero);
    for (r, run) in vectors.whole.chunks(RUN).enumerate() {
        let (steps, rest) = run.as_chunks::<STEP>();
        // Where registers are few, the compiler must not take a whole run at once, as it would if it knew its
        // length.
        let (steps, rest) = if has_many_registers::<S>() { (steps, rest) } else { (&[][..], run) };
        for (i, step) in steps.iter().enumerate() {
            for line in 0..STEP * of_vector {
                lines.fetch((r * RUN + i * STEP) * of_vector + line);
            }
            let (mut d, mut e) = ([zero; STEP], [zero; STEP]);
            for j in 0..STEP {
                d[j] = terms.depth(V::<F, S>::load(s, &step[j]));
            }
            for j in 0..STEP {
                e[j] = terms.of_depth(d[j], F::from_f64(1.0));
            }
            for j in 0..STEP {
                add!(d[j], e[j], e_run, d_run);
            }
        }
        for (i, values) in rest.iter().enumerate() {
            for line in 0..of_vector {
                lines.fetch((r * RUN + steps.len() * STEP + i) * of_vector + line);
            }
            let d = terms.depth(V::<F, S>::load(s, values));
            add!(d, terms.of_depth(d, F::from_f64(1.0)), e_run, d_run);
        }
        if run.len() == RUN {
            widen!(e_run, d_run);
            (e_run, d_run) = (zero, zero);
        }
    }
    lines.fetch_end(vectors.whole.len() * of_vector, size_of_val(row));
    if let Some((z, mask)) = vectors.last(s) {
        let d = terms.depth(z);
        let e = terms.of_depth(d, F::from_f64(1.0));
        add!(d, V::<F, S>::select(mask, e, zero), e_run, d_run);
    }
    widen!(e_run, d_run);
    (in_halves(joined(e_sums)), in_halves(joined(d_sums)))
}

/// Sixteen float64 as an array.
#[inline(always)]
pub(super) fn joined<S: Simd>([low, high]: [fearless_simd::f64x8<S>; 2]) -> [f64; WIDTH] {
    use fearless_simd::prelude::*;
    let mut values = [0.0; WIDTH];
    low.store_slice(&mut values[..8]);
    high.store_slice(&mut values[8..]);
    values
}

#[inline(always)]
fn few<S: Simd, F: Float>(s: S, row: &[F], terms: &Terms<F, S>) -> (f64, f64) {
    let vectors = Row::of(row);
    let (mut exponentials, mut weighted) = (0.0, 0.0);
    macro_rules! add {
        ($z:expr, $count:expr) => {
            let depth = terms.depth($z);
            let e = terms.of_depth(depth, F::from_f64(1.0)).to_array();
            let (d, mut e_run, mut d_run) = (depth.to_array(), F::ZERO, F::ZERO);
            for i in 0..$count {
                e_run = e_run + e[i];
                d_run = e[i].mul_add(d[i], d_run);
            }
            exponentials += e_run.to_f64();
            weighted += d_run.to_f64();
        };
    }
    const { assert!(RUN == WIDTH, "a run is a vector") };
    for values in vectors.whole {
        add!(V::<F, S>::load(s, values), WIDTH);
    }
    if let Some((z, _)) = vectors.last(s) {
        add!(z, vectors.rest.len());
    }
    (exponentials, weighted)
}

/// The exact sum of the squares of the exponentials, for Gini impurity; what lies above the shift counts as
/// nothing.
#[inline(always)]
pub(crate) fn squares<S: Simd, F: Float>(s: S, row: &[F], shift: F) -> f64 {
    let squares = vectorize!(s, {
        let terms = Terms::new(s, shift, F::LOG2_E, F::DEEPEST);
        let unit = V::<F, S>::splat(s, F::Fine::<S>::UNIT);
        let mut squares = 0;
        for block in row.chunks(WIDTH * F::Fine::<S>::MOST) {
            let (row, mut sum) = (Row::of(block), F::Fine::<S>::new(s));
            for run in row.whole.chunks(SETTLED) {
                for values in run {
                    let e = terms.of(V::<F, S>::load(s, values), F::from_f64(1.0));
                    sum.add(e * e * unit);
                }
                sum.settle();
            }
            if let Some((z, _)) = row.last(s) {
                let e = terms.of(z, F::from_f64(1.0));
                sum.add(e * e * unit);
            }
            sum.settle();
            squares += sum.total();
        }
        squares
    });
    F::sum_to_f64(squares)
}
