//! What is a term in vectors? The depth of a logit below a shift, and its exponential.
//!
//! ```text
//! depth = shift - z, at most `bottom`      (and `bottom` for what lies above the shift)
//! term  = 2^-(scale depth)
//! ```

use super::{Each, Float, V, half};
use crate::simd::{Lanes, Simd};

/// What terms are relative to, and how they fall with depth.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms<F: Float, S: Simd> {
    /// Not `-0.0`: depths of 0 are then not `-0.0` either.
    shift: V<F, S>,
    minus_scale: V<F, S>,
    /// The depth from which terms add nothing.
    bottom: V<F, S>,
    one: V<F, S>,
}

impl<F: Float, S: Simd> Terms<F, S> {
    /// Terms of one row; those of `2^-deepest` and less add nothing.
    #[inline(always)]
    pub(super) fn new(s: S, shift: F, scale: F, deepest: F) -> Self {
        Self {
            shift: V::<F, S>::splat(s, shift + F::ZERO),
            minus_scale: V::<F, S>::splat(s, F::ZERO - scale),
            bottom: V::<F, S>::splat(s, deepest.over(scale)),
            one: V::<F, S>::hidden_one(s),
        }
    }

    /// Terms of the sixteen rows in half h of a tile.
    #[inline(always)]
    pub(super) fn of_tile(s: S, shift: &Each<F>, scale: &Each<F>, deepest: F, h: usize) -> Self {
        let mut bottom = *half(scale, h);
        for bottom in &mut bottom {
            *bottom = deepest.over(*bottom);
        }
        let zero = V::<F, S>::splat(s, F::ZERO);
        Self {
            shift: V::<F, S>::load(s, half(shift, h)) + zero,
            minus_scale: zero - V::<F, S>::load(s, half(scale, h)),
            bottom: V::<F, S>::load(s, &bottom),
            one: V::<F, S>::hidden_one(s),
        }
    }

    /// The same scales, relative to another shift.
    #[inline(always)]
    pub(super) fn relative_to(self, shift: V<F, S>) -> Self {
        Self { shift, ..self }
    }

    /// How far logits lie below the shift.
    #[inline(always)]
    pub(super) fn depth(&self, z: V<F, S>) -> V<F, S> {
        (self.shift - z).down_to(self.bottom)
    }

    /// The exponential of a depth, in `unit`s.
    #[inline(always)]
    pub(super) fn of_depth(&self, depth: V<F, S>, unit: F) -> V<F, S> {
        V::<F, S>::exp2(depth, self.minus_scale, unit)
    }

    /// The term of logits, in `unit`s.
    #[inline(always)]
    pub(super) fn of(&self, z: V<F, S>, unit: F) -> V<F, S> {
        V::<F, S>::exp2_to_round(self.depth(z), self.minus_scale, unit, self.one)
    }

    /// The term of logits that are relative to this shift where the mask is set.
    #[inline(always)]
    pub(super) fn parted(
        &self,
        z: V<F, S>,
        above: <V<F, S> as Lanes<S>>::Mask,
        shift: V<F, S>,
        unit: F,
    ) -> V<F, S> {
        self.relative_to(V::<F, S>::select(above, shift, self.shift)).of(z, unit)
    }

    /// Whether any of the logits adds anything.
    #[inline(always)]
    pub(super) fn any_adds(&self, z: V<F, S>) -> bool {
        V::<F, S>::any(self.bottom.greater(self.depth(z)))
    }
}
