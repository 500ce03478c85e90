//! What is done with a whole row, or with a tile of rows, in vectors?
//!
//! A file for each question: the largest logits ([`scan`]), exact sums ([`sums`], [`coarse_sums`]), sums behind entropy
//! ([`entropy_sums`]), ranks ([`rank`]), a tile of rows side by side ([`tile`], [`tile_sets`]), labels above a floor
//! ([`labels`]), columns that become rows ([`transpose`]); of float64, along a row, [`rows_f64`].
//!
//! [`Float`] is the way in. Its methods have portable forms, plain loops that define the result; float32, and float64 along
//! a row, have forms over vectors with the same bits (`tests.rs` holds them to it, at every level).

#[cfg(target_arch = "x86_64")]
mod coarse_sums;
mod entropy_sums;
#[cfg(target_arch = "x86_64")]
mod f32;
#[cfg(target_arch = "x86_64")]
mod f64;
mod labels;
mod rank;
#[cfg(target_arch = "x86_64")]
mod rows_f64;
mod scan;
mod sums;
#[cfg(target_arch = "x86_64")]
mod terms;
#[cfg(test)]
mod tests;
mod tile;
mod tile_sets;
mod transpose;

pub(crate) use entropy_sums::{MOST_SIDE_BY_SIDE, in_halves, squares};
pub(crate) use labels::FEW_LABELS;
pub(crate) use labels::{LabelBuffer, MassWanted};
pub(crate) use rank::FEW_BEFORE;
pub(crate) use scan::Scanned;
pub(crate) use sums::FEW_TERMS;
pub(crate) use tile::{TileLabels, TileScan};
pub(crate) use tile::{lanes_of, minus};
pub(crate) use transpose::Square;

use crate::math::{Grain, Scalar, WIDTH, WordSums};
use crate::simd::{ColumnLines, ColumnsAhead, Lines, RowLines, Simd};

/// Rows that kernels work on together. Two registers of each kind, where one would spend half its time waiting for the
/// last operation on it.
pub const TILE: usize = 32;

/// One number for each row of a tile.
pub(crate) type Each<T> = [T; TILE];

/// A label's logits in all rows of a tile, where vectors lie whole in lines of the cache.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Column<F>(pub [F; TILE]);

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// A computing type, `f32` or `f64`, with its kernels. Sealed.
///
/// Each method runs in a function of its own that is compiled for the instruction set; the defaults are the portable forms.
#[doc(hidden)]
pub trait Float: Scalar + sealed::Sealed {
    /// The two largest logits of a row, the sum of its bit patterns, and whether a value in it is not finite.
    #[inline(always)]
    fn scan<S: Simd>(s: S, row: &[Self]) -> Scanned<Self> {
        s.vectorize(
            #[inline(always)]
            move || scan::portable(row),
        )
    }

    /// The exact sum of the terms of all logits, in quanta.
    #[inline(always)]
    fn sum<S: Simd>(s: S, row: &[Self], shift: Self, scale: Self, grain: Grain) -> i128 {
        s.vectorize(
            #[inline(always)]
            move || sums::portable(row, shift, scale, grain),
        )
    }

    /// The exact sums of a few logits relative to each of two shifts, in words.
    #[inline(always)]
    fn sums_of_few<S: Simd>(
        s: S,
        few: &[Self; WIDTH],
        shifts: [Self; 2],
        scale: Self,
        grain: Grain,
    ) -> [(u64, u64); 2] {
        s.vectorize(
            #[inline(always)]
            move || sums::few_portable(few, shifts, scale, grain),
        )
    }

    /// Two exact sums in one pass over the labels lower (`LOWER`) or higher than one with logit `y`: of those that rank
    /// before it, relative to `max`, and of the others, relative to `shift`. In quanta.
    #[inline(always)]
    fn split<S: Simd, const LOWER: bool>(
        s: S,
        part: &[Self],
        y: Self,
        [max, shift]: [Self; 2],
        scale: Self,
        grain: Grain,
    ) -> (i128, i128) {
        s.vectorize(
            #[inline(always)]
            move || sums::split_portable::<LOWER, _>(part, y, [max, shift], scale, grain),
        )
    }

    /// The terms of a row of few labels, added to `terms`, and their exact sum in fine quanta.
    #[inline(always)]
    fn few_terms<S: Simd>(s: S, row: &[Self], shift: Self, scale: Self, terms: &mut Vec<Self>) -> i128 {
        s.vectorize(
            #[inline(always)]
            move || sums::few_terms_portable(row, shift, scale, terms),
        )
    }

    /// The sums behind entropy of a row; `lines` are asked for meanwhile.
    #[inline(always)]
    fn entropy_sums<S: Simd>(s: S, row: &[Self], shift: Self, lines: impl Lines) -> (f64, f64) {
        let _ = lines;
        s.vectorize(
            #[inline(always)]
            move || entropy_sums::portable(row, shift),
        )
    }

    /// How many of the labels lower (`LOWER`) or higher than one with logit `y` rank before it, and the largest logit of
    /// the others.
    #[inline(always)]
    fn count_before<S: Simd, const LOWER: bool>(s: S, part: &[Self], y: Self) -> (usize, Self) {
        s.vectorize(
            #[inline(always)]
            move || rank::count_portable::<LOWER, _>(part, y),
        )
    }

    /// Ranks the labels of the rows with a bit in `wanted`, where few labels rank before them: the rank, the logit ranked
    /// next and those before it. A bit for each row that is left.
    #[inline(always)]
    fn rank_few<S: Simd>(
        s: S,
        rows: &Each<&[Self]>,
        labels: &Each<usize>,
        wanted: u32,
        rank: &mut Each<usize>,
        next: &mut Each<Self>,
        before: &mut [[Self; FEW_BEFORE]],
    ) -> u32 {
        s.vectorize(
            #[inline(always)]
            move || rank::rank_few_portable(rows, labels, wanted, rank, next, before),
        )
    }

    /// Writes rows, as long as there are columns, side by side, and scans them; with the sums behind entropy if they are
    /// wanted. Says whether any value is not finite.
    #[inline(always)]
    fn read_tile<S: Simd>(
        s: S,
        rows: &Each<&[Self]>,
        columns: &mut [Column<Self>],
        with_entropy: bool,
        lines: RowLines,
        scan: &mut TileScan<Self>,
    ) -> bool {
        let _ = lines;
        s.vectorize(
            #[inline(always)]
            move || tile::read_portable(rows, columns, with_entropy, scan),
        )
    }

    /// A bit for each row whose label, with the given logit, is alone at the top.
    #[inline(always)]
    fn are_top<S: Simd>(s: S, logit: &Each<Self>, scan: &TileScan<Self>) -> u32 {
        s.vectorize(
            #[inline(always)]
            move || tile::are_top_portable(logit, scan),
        )
    }

    /// Ranks each row's label by counting across rows. Says whether another label may have its logit.
    #[inline(always)]
    fn rank_columns<S: Simd>(
        s: S,
        columns: &[Column<Self>],
        labels: &TileLabels<'_, Self>,
        rank: &mut Each<usize>,
        next: &mut Each<Self>,
    ) -> bool {
        s.vectorize(
            #[inline(always)]
            move || tile::rank_portable(columns, labels, rank, next),
        );
        true
    }

    /// Sums over the labels before each row's label, relative to the maximum, and over those after it, relative to
    /// `shift`, in coarse quanta. `has_ties` says whether another label may have its logit.
    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "a kernel: everything it reads and writes, named")]
    fn split_columns<S: Simd>(
        s: S,
        columns: &[Column<Self>],
        labels: &TileLabels<'_, Self>,
        has_ties: bool,
        max: &Each<Self>,
        shift: &Each<Self>,
        scale: &Each<Self>,
        [above, below]: [&mut Each<f64>; 2],
    ) {
        let _ = has_ties;
        s.vectorize(
            #[inline(always)]
            move || tile::split_portable(columns, labels, max, shift, scale, above, below),
        );
    }

    /// Sums over all labels but each row's own, in coarse quanta.
    #[inline(always)]
    fn sum_columns<S: Simd>(
        s: S,
        columns: &[Column<Self>],
        logit: &Each<Self>,
        shift: &Each<Self>,
        scale: &Each<Self>,
        sums: &mut WordSums<TILE>,
    ) {
        s.vectorize(
            #[inline(always)]
            move || tile::sum_portable(columns, logit, shift, scale, sums),
        );
    }

    /// Sums over all labels but each row's own along the rows with a bit in `wanted`, in coarse quanta; `false`, and no
    /// sums, where rows are as well summed one by one. `columns` are asked for meanwhile, in as many steps as there are
    /// rows.
    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "a kernel: everything it reads and writes, named")]
    fn sum_rows<S: Simd>(
        s: S,
        rows: &Each<&[Self]>,
        wanted: u32,
        logit: &Each<Self>,
        shift: &Each<Self>,
        scale: &Each<Self>,
        columns: Option<(ColumnsAhead, usize)>,
        sums: &mut WordSums<TILE>,
    ) -> bool {
        let _ = (s, rows, wanted, logit, shift, scale, columns, sums);
        false
    }

    /// Labels of each row: the first with its largest logit, and the first and the second of those whose logits are at
    /// least the second largest.
    #[inline(always)]
    fn first_labels<S: Simd>(s: S, columns: &[Column<Self>], scan: &TileScan<Self>) -> [Each<u32>; 3] {
        s.vectorize(
            #[inline(always)]
            move || tile_sets::first_labels_portable(columns, scan),
        )
    }

    /// The sums over all columns of the terms relative to `max`, in float64, label by label.
    #[inline(always)]
    fn total_terms<S: Simd>(
        s: S,
        columns: &[Column<Self>],
        max: &Each<Self>,
        scale: &Each<Self>,
        totals: &mut Each<f64>,
    ) {
        s.vectorize(
            #[inline(always)]
            move || tile_sets::total_terms_portable(columns, max, scale, totals),
        );
    }

    /// Takes the labels with logits of at least `floor`, which is finite, or of those the first that hold a mass; `false`
    /// where that has no form in vectors.
    #[inline(always)]
    fn take_labels<S: Simd>(
        s: S,
        row: &[Self],
        floor: Self,
        wanted: Option<&MassWanted>,
        to: &mut LabelBuffer,
    ) -> bool {
        let _ = (s, row, floor, wanted, to);
        false
    }

    /// Ranks more of the labels that were taken, at least one if there are more; `false` where logits are laid out to make
    /// that slow.
    #[inline(always)]
    fn rank_labels<S: Simd>(s: S, to: &mut LabelBuffer) -> bool {
        let _ = (s, to);
        false
    }

    /// How many of the logits, from the first on, have terms that add up to at most `limit` quanta, and their sum; `None`
    /// where that has no form in vectors.
    #[inline(always)]
    fn leading<S: Simd>(s: S, logits: &[Self], max: Self, scale: Self, limit: i128) -> Option<(usize, i128)> {
        let _ = (s, logits, max, scale, limit);
        None
    }

    /// Writes a square into rows that begin `stride` apart, one for each of its rows, from label `first` on. `lines` are
    /// asked for meanwhile.
    #[inline(always)]
    fn write_rows<S: Simd>(
        s: S,
        square: &Square<'_, Self>,
        first: usize,
        stride: usize,
        lines: ColumnLines,
        rows: &mut [Self],
    ) {
        s.vectorize(
            #[inline(always)]
            move || transpose::portable(square, first, stride, lines, rows),
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl Float for f32 {}
#[cfg(not(target_arch = "x86_64"))]
impl Float for f64 {}

/// Returns what a kernel over the vectors of `$s` gives, where there are vectors.
#[cfg(target_arch = "x86_64")]
macro_rules! in_vectors {
    ($s:ident, $kernel:expr) => {
        if S::LEVEL != $crate::simd::Level::Scalar {
            // SAFETY: `$s` proves that the machine has the instruction set of the vectors.
            #[allow(unsafe_code, reason = "instructions of features that were detected")]
            return $s.vectorize(
                #[inline(always)]
                move || unsafe { $kernel },
            );
        }
    };
}
#[cfg(target_arch = "x86_64")]
use in_vectors;
