//! What are the largest logits of a row, and is every value one that a row may hold?
//!
//! ```text
//! for each logit z:
//!     second = max(second, min(max, z));  max = max(max, z)
//!     bits   = bits + pattern of z        (wrapping; what U is made of)
//!     poison = poison + 0 z               (NaN from NaN and infinities on)
//! ```

use fearless_simd::{prelude::*, u32x16};

use super::{Float, Row, V, has_many_registers};
use crate::math::WIDTH;
use crate::simd::{Lanes, Simd, vectorize};

/// What one pass over a row finds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Scanned<F> {
    /// Largest logit.
    pub(crate) max: F,
    /// Second largest, equal to `max` when two labels share it, `-inf` when no other is possible.
    pub(crate) second: F,
    /// Wrapping sum of the logits' bit patterns.
    pub(crate) bits: u32,
    /// Whether a value is not finite.
    pub(crate) is_poisoned: bool,
}

/// What sixteen lanes took, each by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaneScan<F: Float, S: Simd> {
    pub(super) max: V<F, S>,
    pub(super) second: V<F, S>,
    pub(super) bits: u32x16<S>,
    poison: [V<F, S>; 2],
    one: V<F, S>,
}

impl<F: Float, S: Simd> LaneScan<F, S> {
    #[inline(always)]
    pub(super) fn new(s: S) -> Self {
        let (none, zero) = (V::<F, S>::splat(s, F::NEG_INFINITY), V::<F, S>::splat(s, F::ZERO));
        Self {
            max: none,
            second: none,
            bits: u32x16::splat(s, 0),
            poison: [zero; 2],
            one: V::<F, S>::hidden_one(s),
        }
    }

    #[inline(always)]
    pub(super) fn take(&mut self, z: V<F, S>) {
        self.poison[0] = self.poison[0].poisoned_by(z);
        self.bits += z.pattern(self.one);
        self.rank(z);
    }

    /// [`Self::take`] of two vectors, ordered between themselves first: as many operations, but each that
    /// waits for the one before it takes both, and waiting is what a scan of one register after the other
    /// does a third of its time.
    #[inline(always)]
    fn take_two(&mut self, a: V<F, S>, b: V<F, S>) {
        self.poison = [self.poison[0].poisoned_by(a), self.poison[1].poisoned_by(b)];
        self.bits += a.pattern(self.one);
        self.bits += b.pattern(self.one);
        let (high, low) = (a.larger(b), a.smaller(b));
        self.second = self.second.larger(low.larger(self.max.smaller(high)));
        self.max = self.max.larger(high);
    }

    /// [`Self::take`] of the lanes of a mask; the others are `-inf`.
    #[inline(always)]
    fn take_part(&mut self, z: V<F, S>, mask: <V<F, S> as Lanes<S>>::Mask) {
        let held = V::<F, S>::select(mask, z, V::<F, S>::splat(self.bits.token(), F::ZERO));
        self.poison[0] = self.poison[0].poisoned_by(held);
        self.bits += held.pattern(self.one);
        self.rank(z);
    }

    #[inline(always)]
    fn rank(&mut self, z: V<F, S>) {
        self.second = self.second.larger(self.max.smaller(z));
        self.max = self.max.larger(z);
    }

    #[inline(always)]
    pub(super) fn is_poisoned(&self) -> bool {
        let zero = V::<F, S>::splat(self.bits.token(), F::ZERO);
        V::<F, S>::bits((self.poison[0] + self.poison[1]).at_least(zero)) != (1 << WIDTH) - 1
    }
}

/// The two largest logits of a row, the sum of its bit patterns, and whether a value in it is not finite.
#[inline(always)]
pub(crate) fn scan<S: Simd, F: Float>(s: S, row: &[F]) -> Scanned<F> {
    vectorize!(s, {
        let (vectors, mut lanes) = (Row::of(row), LaneScan::<F, S>::new(s));
        let (pairs, odd) = vectors.whole.as_chunks::<2>();
        let (pairs, odd) = if has_many_registers::<S>() { (pairs, odd) } else { (&[][..], vectors.whole) };
        for [a, b] in pairs {
            lanes.take_two(V::<F, S>::load(s, a), V::<F, S>::load(s, b));
        }
        for z in odd {
            lanes.take(V::<F, S>::load(s, z));
        }
        if let Some((z, mask)) = vectors.last(s) {
            lanes.take_part(z, mask);
        }
        let max = lanes.max.largest();
        // The second is the largest of the lanes' seconds, or of the lanes' maxima but one.
        let at_top = lanes.max.at_least(V::<F, S>::splat(s, max));
        let second = V::<F, S>::select(at_top, lanes.second, lanes.max).largest();
        let second = if V::<F, S>::bits(at_top).count_ones() > 1 { max } else { second };
        Scanned { max, second, bits: lanes.bits.reduce_sum(), is_poisoned: lanes.is_poisoned() }
    })
}
