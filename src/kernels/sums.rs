//! How are the terms of a row summed exactly?
//!
//! ```text
//! sum:     for each logit z:  sum += quanta(z, shift)
//! split:   for each logit z:  if z ranks before y { above += quanta(z, max) } else { below += quanta(z, shift) }
//! leading: how many of the first logits have terms that add up to no more than a limit
//! ```
//!
//! [`crate::math::Grain`] says what quanta are, and `exact.rs` how they are added up. Seven vectors are taken
//! at a time: an exponential takes long to find, and the processor does not look far enough ahead to fill the
//! time by itself.

use super::exact::{RUN, Sum};
use super::terms::Terms;
use super::{Each, Float, Row, TILE, TileTerms, V, has_many_registers};
use crate::math::{Grain, WIDTH};
use crate::simd::{Lanes, Lines, Simd, vectorize};

/// Up to this many labels, the terms of all are kept from the pass that sums them.
pub(crate) const FEW_TERMS: usize = 64;

/// Rows of fewer runs are not worth a sample.
const SAMPLED: usize = 3;

/// Evaluates `$body` with `$sum` standing for the sum of a grain.
macro_rules! by_grain {
    ($s:ident, $grain:expr, $sum:ident => $body:expr) => {
        match $grain {
            Grain::Coarse => {
                type $sum<F, S> = <F as Float>::Coarse<S>;
                vectorize!($s, $body)
            }
            Grain::Fine => {
                type $sum<F, S> = <F as Float>::Fine<S>;
                vectorize!($s, $body)
            }
        }
    };
}

/// The exact sum of the terms of all logits, in quanta. `lines` are asked for meanwhile.
#[inline(always)]
pub(crate) fn sum<S: Simd, F: Float>(
    s: S,
    row: &[F],
    shift: F,
    scale: F,
    grain: Grain,
    lines: impl Lines,
) -> i128 {
    by_grain!(s, grain, Of => {
        let terms = Terms::new(s, shift, scale, grain.deepest());
        let mut total = 0;
        for block in row.chunks(WIDTH * <Of<F, S> as Sum<F, S>>::MOST) {
            total += sum_block::<S, F, Of<F, S>>(s, block, &terms, lines);
        }
        total
    })
}

/// The sum over so few labels that no lane overflows.
#[inline(always)]
fn sum_block<S: Simd, F: Float, A: Sum<F, S>>(
    s: S,
    block: &[F],
    terms: &Terms<F, S>,
    lines: impl Lines,
) -> i128 {
    // One for about every other line of the row, as it is while rows are scanned.
    const LINES_OF_RUN: usize = RUN.div_ceil(2);
    let row = Row::of(block);
    let (runs, rest) = row.whole.as_chunks::<RUN>();
    let mut sum = A::new(s);
    if runs.len() >= SAMPLED && is_shallow(s, &runs[0], terms) {
        lines.fetch_rest(0);
        // Most vectors have nothing to add, and are passed over.
        for run in runs {
            for values in run {
                let z = V::<F, S>::load(s, values);
                if terms.any_adds(z) {
                    sum.add(terms.of(z, A::UNIT));
                }
            }
            sum.settle();
        }
        for values in rest {
            sum.add(terms.of(V::<F, S>::load(s, values), A::UNIT));
        }
    } else {
        for (r, run) in row.whole.chunks(RUN).enumerate() {
            for line in r * LINES_OF_RUN..(r + 1) * LINES_OF_RUN {
                lines.fetch(line);
            }
            match run.as_array::<RUN>() {
                Some(run) if has_many_registers::<S>() => {
                    let mut found = [V::<F, S>::splat(s, F::ZERO); RUN];
                    for i in 0..RUN {
                        found[i] = terms.of(V::<F, S>::load(s, &run[i]), A::UNIT);
                    }
                    for term in found {
                        sum.add(term);
                    }
                }
                // Where registers are few, the compiler must not take a whole run at once, as it would if it
                // knew its length.
                _ => {
                    for values in run {
                        sum.add(terms.of(V::<F, S>::load(s, values), A::UNIT));
                    }
                }
            }
            sum.settle();
        }
        lines.fetch_rest(row.whole.len().div_ceil(RUN) * LINES_OF_RUN);
    }
    if let Some((z, _)) = row.last(s) {
        sum.add(terms.of(z, A::UNIT));
    }
    sum.settle();
    sum.total()
}

/// Whether at most one vector of the first run has anything to add: the others will be like it.
#[inline(always)]
fn is_shallow<S: Simd, F: Float>(s: S, run: &[[F; WIDTH]; RUN], terms: &Terms<F, S>) -> bool {
    let mut deep = 0;
    // Of most rows the first two vectors tell.
    for part in [0..2, 2..RUN] {
        for values in &run[part] {
            deep += u32::from(terms.any_adds(V::<F, S>::load(s, values)));
        }
        if deep > 1 {
            return false;
        }
    }
    true
}

/// Two exact sums in one pass over the labels lower (`LOWER`) or higher than one with logit `y`: of those
/// that rank before it, relative to the first of `shifts`, the maximum, and of the others, relative to the
/// second. In quanta.
#[inline(always)]
pub(crate) fn split<const LOWER: bool, S: Simd, F: Float>(
    s: S,
    part: &[F],
    y: F,
    shifts: [F; 2],
    scale: F,
    grain: Grain,
) -> (i128, i128) {
    by_grain!(s, grain, Of => {
        let terms = Terms::new(s, shifts[1], scale, grain.deepest());
        let (max, y) = (V::<F, S>::splat(s, shifts[0] + F::ZERO), V::<F, S>::splat(s, y));
        let (mut above, mut all) = (0, 0);
        for block in part.chunks(WIDTH * <Of<F, S> as Sum<F, S>>::MOST) {
            let row = Row::of(block);
            let (mut uppers, mut sum) = (Of::<F, S>::new(s), Of::<F, S>::new(s));
            macro_rules! add {
                ($z:expr) => {
                    let z = $z;
                    let is_above = if LOWER { z.at_least(y) } else { z.greater(y) };
                    let term = terms.parted(z, is_above, max, Of::<F, S>::UNIT);
                    sum.add(term);
                    uppers.add_where(term, is_above);
                };
            }
            for run in row.whole.chunks(RUN) {
                for values in run {
                    add!(V::<F, S>::load(s, values));
                }
                sum.settle();
                uppers.settle();
            }
            if let Some((z, _)) = row.last(s) {
                add!(z);
            }
            sum.settle();
            uppers.settle();
            above += uppers.total();
            all += sum.total();
        }
        (above, all - above)
    })
}

/// The exact sums of a few logits relative to each of two shifts, in quanta.
#[inline(always)]
pub(crate) fn sums_of_few<S: Simd, F: Float>(
    s: S,
    few: &[F; WIDTH],
    shifts: [F; 2],
    scale: F,
    grain: Grain,
) -> [i128; 2] {
    by_grain!(s, grain, Of => shifts.map(
        #[inline(always)]
        |shift| {
            let terms = Terms::new(s, shift, scale, grain.deepest());
            one_vector::<S, F, Of<F, S>>(s, terms.of(V::<F, S>::load(s, few), Of::<F, S>::UNIT)).total()
        },
    ))
}

/// The terms of each row's own label in a tile, in quanta.
#[inline(always)]
pub(crate) fn own_quanta<S: Simd, F: Float>(
    s: S,
    logit: &Each<F>,
    tile: TileTerms<'_, F>,
    grain: Grain,
) -> Each<i128> {
    by_grain!(s, grain, Of => {
        let mut quanta = [0; TILE];
        for h in 0..TILE / WIDTH {
            let terms = Terms::<F, S>::of_tile(s, tile.shift, tile.scale, grain.deepest(), h);
            let own = terms.of(V::<F, S>::load(s, super::half(logit, h)), Of::<F, S>::UNIT);
            *super::half_mut(&mut quanta, h) = one_vector::<S, F, Of<F, S>>(s, own).lanes();
        }
        quanta
    })
}

/// The sum of one vector of terms.
#[inline(always)]
fn one_vector<S: Simd, F: Float, A: Sum<F, S>>(s: S, term: V<F, S>) -> A {
    let mut sum = A::new(s);
    sum.add(term);
    sum.settle();
    sum
}

/// The terms of a row of at most [`FEW_TERMS`] labels, added to `to`, and their exact sum in fine quanta.
#[inline(always)]
pub(crate) fn few_terms<S: Simd, F: Float>(s: S, row: &[F], shift: F, scale: F, to: &mut Vec<F>) -> i128 {
    assert!(row.len() <= FEW_TERMS, "few labels");
    vectorize!(s, {
        let terms = Terms::new(s, shift, scale, F::DEEPEST);
        let (mut sum, row) = (F::Fine::<S>::new(s), Row::of(row));
        // By a power of two, hence exactly.
        let one = V::<F, S>::splat(s, F::from_f64(1.0).over(F::Fine::<S>::UNIT));
        macro_rules! add {
            ($z:expr, $count:expr) => {
                let term = terms.of($z, F::Fine::<S>::UNIT);
                sum.add(term);
                to.extend_from_slice(&(term * one).to_array()[..$count]);
            };
        }
        for values in row.whole {
            add!(V::<F, S>::load(s, values), WIDTH);
        }
        if let Some((z, _)) = row.last(s) {
            add!(z, row.rest.len());
        }
        sum.settle();
        sum.total()
    })
}

/// How many of the logits, from the first on, have terms that add up to at most `limit` fine quanta, and
/// their sum.
#[inline(always)]
pub(crate) fn leading<S: Simd, F: Float>(s: S, logits: &[F], max: F, scale: F, limit: i128) -> (usize, i128) {
    vectorize!(s, {
        let terms = Terms::new(s, max, scale, F::DEEPEST);
        let (row, mut count, mut seen) = (Row::of(logits), 0, 0);
        macro_rules! take {
            ($z:expr, $length:expr) => {
                let sum: F::Fine<S> = one_vector(s, terms.of($z, F::Fine::<S>::UNIT));
                let total = sum.total();
                if seen + total > limit {
                    for own in &sum.lanes()[..$length] {
                        if seen + own > limit {
                            break;
                        }
                        (count, seen) = (count + 1, seen + own);
                    }
                    return (count, seen);
                }
                (count, seen) = (count + $length, seen + total);
            };
        }
        for values in row.whole {
            take!(V::<F, S>::load(s, values), WIDTH);
        }
        if let Some((z, _)) = row.last(s) {
            take!(z, row.rest.len());
        }
        (count, seen)
    })
}
