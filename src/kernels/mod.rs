//! What is done with a whole row, or with a tile of rows, in vectors?
//!
//! A file for each question: the largest logits ([`scan`]), exact sums ([`sums`], made of [`terms`] and
//! [`exact`]), sums behind entropy ([`entropy_sums`]), ranks ([`rank`]), a tile of rows side by side
//! ([`tile`]), labels above a floor ([`labels`]), columns that become rows ([`transpose`]).
//!
//! Each kernel is written once, over [`Lanes`], for both types and every instruction set, and is compiled for
//! one of these in a function of its own. `tests.rs` holds each to a definition of a line or two, at every
//! level.

mod entropy_sums;
mod exact;
mod labels;
mod rank;
mod scan;
mod sums;
mod terms;
#[cfg(test)]
mod tests;
mod tile;
mod transpose;

pub(crate) use entropy_sums::{MOST_SIDE_BY_SIDE, entropy_sums, in_halves, squares};
pub(crate) use labels::{FEW_LABELS, LabelBuffer, MassWanted, rank_labels, take_labels};
pub(crate) use rank::{FEW_BEFORE, RanksFound, count_before, rank_few};
pub(crate) use scan::{Scanned, scan};
pub(crate) use sums::{FEW_TERMS, few_terms, leading, own_quanta, split, sum, sums_of_few};
pub(crate) use tile::{
    TileLabels, TileScan, TileTerms, are_top, first_labels, lanes_of, rank_columns, read_tile, split_columns,
    sum_columns, total_terms,
};
#[allow(unused_imports, reason = "arrays of Python alone have columns")]
pub(crate) use transpose::{Square, write_rows};

use crate::math::{Scalar, WIDTH};
use crate::simd::{Lanes, Simd};

/// Rows that kernels work on together.
pub const TILE: usize = 2 * WIDTH;

/// One number for each row of a tile.
pub(crate) type Each<T> = [T; TILE];

/// A label's logits in all rows of a tile, where vectors lie whole in lines of the cache.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Column<F>(pub(crate) [F; TILE]);

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// A computing type, `f32` or `f64`, with its vectors and its exact sums. Sealed.
#[doc(hidden)]
pub trait Float: Scalar + sealed::Sealed {
    /// Sixteen of them.
    type Lanes<S: Simd>: Lanes<S, Number = Self>;
    /// Sums in coarse quanta, of rows of at most [`MOST_COARSE`](crate::math::MOST_COARSE) labels.
    type Coarse<S: Simd>: exact::CoarseSum<Self, S>;
    /// Sums in fine quanta.
    type Fine<S: Simd>: exact::Sum<Self, S>;
}

impl Float for f32 {
    type Lanes<S: Simd> = fearless_simd::f32x16<S>;
    type Coarse<S: Simd> = exact::CoarseF32<S>;
    type Fine<S: Simd> = exact::FineF32<S>;
}

impl Float for f64 {
    type Lanes<S: Simd> = crate::simd::F64x16<S>;
    type Coarse<S: Simd> = exact::CoarseF64<S>;
    type Fine<S: Simd> = exact::FineF64<S>;
}

/// The vectors of a type at an instruction set.
type V<F, S> = <F as Float>::Lanes<S>;
/// A choice among the numbers of one.
type Mask<F, S> = <V<F, S> as Lanes<S>>::Mask;

/// Whether several vectors of sixteen fit the registers, with what is done to them: those of AVX-512 alone.
#[inline(always)]
fn has_many_registers<S: Simd>() -> bool {
    use fearless_simd::SimdBase;
    S::f32s::LEN == WIDTH
}

/// A row in vectors, of which the last may have fewer numbers.
#[derive(Clone, Copy, Debug)]
struct Row<'a, F> {
    whole: &'a [[F; WIDTH]],
    rest: &'a [F],
}

impl<'a, F: Float> Row<'a, F> {
    #[inline(always)]
    fn of(row: &'a [F]) -> Self {
        let (whole, rest) = row.as_chunks::<WIDTH>();
        Self { whole, rest }
    }

    /// The last vector, filled up with `-inf`, and a mask of its numbers; none if all vectors are whole.
    #[inline(always)]
    fn last<S: Simd>(&self, s: S) -> Option<(V<F, S>, Mask<F, S>)> {
        let count = self.rest.len();
        (count > 0).then(
            #[inline(always)]
            || (V::<F, S>::load_part(s, self.rest), V::<F, S>::mask(s, (1 << count) - 1)),
        )
    }
}

/// Half h of a tile's numbers: those of sixteen rows.
#[inline(always)]
fn half<F>(each: &Each<F>, h: usize) -> &[F; WIDTH] {
    &each.as_chunks::<WIDTH>().0[h]
}

/// Half h of a tile's numbers, to be written.
#[inline(always)]
fn half_mut<F>(each: &mut Each<F>, h: usize) -> &mut [F; WIDTH] {
    &mut each.as_chunks_mut::<WIDTH>().0[h]
}
