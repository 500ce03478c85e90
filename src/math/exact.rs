//! How are exponentials summed so that order does not exist?
//!
//! A floating-point sum depends on the order of its terms. A masked pass over a row, a cumulative sum over
//! the sorted row, eight lanes and sixteen lanes would all differ in the last bits, and a label at the
//! threshold would be in the set for one of them and out for another. Here every term, a number in `[0, 1]`,
//! is rounded once to a multiple of a fixed quantum (2^-51 for float32, whose terms carry 24 bits; 2^-99 for
//! float64), and the multiples are added as integers. The price is one addition and one conversion a term.
//! What it buys: scalar and vector code, any block size, and the one-label and all-label forms of a score
//! agree to the bit by construction.
//!
//! ```text
//! term(z)   = 2^-(scale (shift - z)),  scale = beta log2(e),  shift >= z
//! quanta(z) = round(term(z) / quantum)
//! sum       = quantum * (integer sum of quanta)
//! ```
//!
//! The shift is no smaller than the logits it is used on, so the largest terms are near 1 and keep their
//! precision. Sums behind scores have coarser quanta in rows of at most 1024 labels: see [`Grain`]. Sums
//! behind entropy are not exact but in a fixed order: see `kernels::entropy_sums`.

use super::scalar::{Grain, Scalar};

/// Numbers that are worked on together: one 512-bit or two 256-bit registers of float32.
pub(crate) const WIDTH: usize = 16;

/// `array::from_fn` as a plain loop. A closure is not always inlined; it would be compiled for the baseline
/// instead of the instruction set that its caller is compiled for.
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

/// How far logits lie below a shift, at most as far as terms of a scale add anything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Depths<F> {
    pub(crate) scale: F,
    /// From here on terms add nothing.
    deepest: F,
}

impl<F: Scalar> Depths<F> {
    #[inline(always)]
    pub(crate) fn new(scale: F) -> Self {
        Self { scale, deepest: deepest(scale) }
    }

    /// The depth of a logit; the deepest for those far below or above the shift, and for NaN.
    ///
    /// As patterns: the smaller of two unsigned integers, since negative numbers and NaN come after the
    /// others.
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

    /// [`Self::term`] in the form that turns into vector code, with other bits.
    #[inline(always)]
    pub(crate) fn term_in_lanes(&self, z: F, shift: F) -> F {
        F::exp2_in_lanes(self.of(z, shift), self.scale)
    }
}

/// The depth from which terms add nothing; finite, as scales are at least [`Scalar::SMALLEST_SCALE`].
#[inline(always)]
pub(crate) fn deepest<F: Scalar>(scale: F) -> F {
    F::DEEPEST.over(scale)
}

/// [`Depths::term`] of one logit.
#[inline(always)]
pub(crate) fn term<F: Scalar>(z: F, shift: F, scale: F) -> F {
    Depths::new(scale).term(z, shift)
}

/// The integer multiple of the quantum that one term adds to a sum.
#[inline(always)]
pub(crate) fn quanta<F: Scalar>(z: F, shift: F, scale: F, grain: Grain) -> i128 {
    F::quanta(term(z, shift, scale), grain)
}
