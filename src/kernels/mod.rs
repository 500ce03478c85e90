//! What is done with a whole row, or with a tile of rows, in vectors?
//!
//! A file for each question: the largest logits ([`scan`]), exact sums ([`sums`], [`coarse_sums`]), sums behind entropy
//! ([`entropy_sums`]), ranks ([`rank`]), a tile of rows side by side ([`tile`], [`tile_sets`]), labels above a floor
//! ([`labels`]), columns that become rows ([`transpose`]); of float64, along a row, [`rows_f64`].
//!
//! [`Float`] is the way in: the table at the end of this file. Each kernel has a portable form, plain loops that define the
//! result; float32, and float64 along a row, have forms over vectors with the same bits (`tests.rs` holds them to it, at every
//! level).

#[cfg(target_arch = "x86_64")]
mod coarse_sums;
mod entropy_sums;
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
pub(crate) use rank::{FEW_BEFORE, RanksFound};
pub(crate) use scan::Scanned;
pub(crate) use sums::FEW_TERMS;
pub(crate) use tile::{TileLabels, TileScan, TileTerms};
pub(crate) use tile::{lanes_of, minus};
pub(crate) use transpose::Square;

#[cfg(target_arch = "x86_64")]
use crate::math::{COARSE_BITS, MOST_COARSE};
use crate::math::{Grain, Scalar, WIDTH, WordSums};
use crate::simd::{ColumnLines, ColumnsAhead, Lines, RowLines, Simd, vectorize};

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

/// Runs a kernel in a function of its own that is compiled for the instruction set `$s`: over its vectors, where there is such
/// a form and the instruction set has any, else in the portable form.
macro_rules! run {
    ($s:ident, $portable:expr) => {
        vectorize!($s, $portable)
    };
    ($s:ident, $portable:expr, $vectors:expr) => {{
        #[cfg(target_arch = "x86_64")]
        if S::LEVEL != crate::simd::Level::Scalar {
            // SAFETY: `$s` proves that the machine has the instruction set of the vectors.
            #[allow(unsafe_code, reason = "instructions of features that were detected")]
            return vectorize!($s, unsafe { $vectors });
        }
        vectorize!($s, $portable)
    }};
}

/// Defines [`Float`] and its kernels by a table: what a kernel is given, its portable form, and those over vectors.
macro_rules! kernels {
    ($(
        $(#[$meta:meta])*
        fn $name:ident $(<const $flag:ident>)? ($($argument:ident: $type:ty),*) $(-> $result:ty)?:
            portable $portable:block
            $(f32 $f32:block)?
            $(f64 $f64:block)?
    )*) => {
        /// A computing type, `f32` or `f64`, with its kernels. Sealed.
        #[doc(hidden)]
        pub trait Float: Scalar + sealed::Sealed {
            $(
                $(#[$meta])*
                fn $name<S: Simd $(, const $flag: bool)?>(s: S, $($argument: $type),*) $(-> $result)?;
            )*
        }

        impl Float for f32 {
            $(
                #[inline(always)]
                fn $name<S: Simd $(, const $flag: bool)?>(s: S, $($argument: $type),*) $(-> $result)? {
                    let _ = ($(&$argument),*);
                    run!(s, $portable $(, $f32)?)
                }
            )*
        }

        impl Float for f64 {
            $(
                #[inline(always)]
                fn $name<S: Simd $(, const $flag: bool)?>(s: S, $($argument: $type),*) $(-> $result)? {
                    let _ = ($(&$argument),*);
                    run!(s, $portable $(, $f64)?)
                }
            )*
        }
    };
}

kernels! {
    /// The two largest logits of a row, the sum of its bit patterns, and whether a value in it is not finite. `lines` are
    /// asked for meanwhile.
    fn scan(row: &[Self], lines: impl Lines) -> Scanned<Self>:
        portable { scan::portable(row) }
        f32 { scan::vectors::<S::Vectors>(row, lines) }
        f64 { rows_f64::scan::<S::Vectors>(row) }

    /// The exact sum of the terms of all logits, in quanta.
    fn sum(row: &[Self], shift: Self, scale: Self, grain: Grain) -> i128:
        portable { sums::portable(row, shift, scale, grain) }
        f32 {
            match grain {
                Grain::Coarse => i128::from(coarse_sums::sum::<S::Vectors>(row, shift, scale)) << COARSE_BITS,
                Grain::Fine => sums::vectors::<S::Vectors>(row, shift, scale),
            }
        }
        f64 {
            match grain {
                Grain::Coarse => rows_f64::sum::<S::Vectors, true>(row, shift, scale),
                Grain::Fine => rows_f64::sum::<S::Vectors, false>(row, shift, scale),
            }
        }

    /// The exact sums of a few logits relative to each of two shifts, in words.
    fn sums_of_few(few: &[Self; WIDTH], shifts: [Self; 2], scale: Self, grain: Grain) -> [(u64, u64); 2]:
        portable { sums::few_portable(few, shifts, scale, grain) }
        f32 {
            match grain {
                Grain::Coarse => coarse_sums::sums_of_few::<S::Vectors>(few, shifts, scale),
                Grain::Fine => sums::few_portable(few, shifts, scale, grain),
            }
        }

    /// Two exact sums in one pass over the labels lower (`LOWER`) or higher than one with logit `y`: of those that rank
    /// before it, relative to the first of `shifts`, the maximum, and of the others, relative to the second. In quanta.
    fn split<const LOWER>(part: &[Self], y: Self, shifts: [Self; 2], scale: Self, grain: Grain) -> (i128, i128):
        portable { sums::split_portable::<LOWER, _>(part, y, shifts, scale, grain) }
        f32 {
            match grain {
                Grain::Coarse => coarse_sums::split::<S::Vectors, LOWER>(part, y, shifts, scale),
                Grain::Fine => sums::split_vectors::<S::Vectors, LOWER>(part, y, shifts, scale),
            }
        }

    /// The terms of a row of few labels, added to `terms`, and their exact sum in fine quanta.
    fn few_terms(row: &[Self], shift: Self, scale: Self, terms: &mut Vec<Self>) -> i128:
        portable { sums::few_terms_portable(row, shift, scale, terms) }
        f32 { sums::few_terms_vectors::<S::Vectors>(row, shift, scale, terms) }

    /// The sums behind entropy of a row; `lines` are asked for meanwhile.
    fn entropy_sums(row: &[Self], shift: Self, lines: impl Lines) -> (f64, f64):
        portable { entropy_sums::portable(row, shift) }
        f32 { entropy_sums::vectors::<S::Vectors>(row, shift, lines) }
        f64 { rows_f64::entropy_sums::<S::Vectors>(row, shift, lines) }

    /// How many of the labels lower (`LOWER`) or higher than one with logit `y` rank before it, and the largest logit of
    /// the others.
    fn count_before<const LOWER>(part: &[Self], y: Self) -> (usize, Self):
        portable { rank::count_portable::<LOWER, _>(part, y) }
        f32 { rank::count_vectors::<S::Vectors, LOWER>(part, y) }

    /// Ranks the labels of the rows with a bit in `wanted`, where few labels rank before them: the rank, the logit ranked
    /// next and those before it. A bit for each row that is left.
    fn rank_few(rows: &Each<&[Self]>, labels: &Each<usize>, wanted: u32, found: RanksFound<'_, Self>) -> u32:
        portable { rank::rank_few_portable(rows, labels, wanted, found) }
        f32 { rank::rank_few_vectors::<S::Vectors>(rows, labels, wanted, found) }

    /// Writes rows, as long as there are columns, side by side, and scans them; with the sums behind entropy if they are
    /// wanted. Says whether any value is not finite. `lines` are asked for meanwhile.
    fn read_tile(
        rows: &Each<&[Self]>, columns: &mut [Column<Self>], with_entropy: bool, lines: RowLines, scan: &mut TileScan<Self>
    ) -> bool:
        portable { tile::read_portable(rows, columns, with_entropy, scan) }
        f32 { tile::read_vectors::<S::Vectors>(rows, columns, with_entropy, lines, scan) }

    /// A bit for each row whose label, with the given logit, is alone at the top.
    fn are_top(logit: &Each<Self>, scan: &TileScan<Self>) -> u32:
        portable { tile::are_top_portable(logit, scan) }
        f32 { tile::are_top_vectors::<S::Vectors>(logit, scan) }

    /// Ranks each row's label by counting across rows. Says whether another label may have its logit.
    fn rank_columns(
        columns: &[Column<Self>], labels: &TileLabels<'_, Self>, rank: &mut Each<usize>, next: &mut Each<Self>
    ) -> bool:
        portable { tile::rank_portable(columns, labels, rank, next) }
        f32 {
            !tile::rank_vectors::<S::Vectors>(columns, labels.logit, rank, next)
                && tile::rank_portable(columns, labels, rank, next)
        }

    /// Sums over the labels before each row's label, relative to the maximum, and over those after it, relative to the
    /// shift, in coarse quanta. `has_ties` says whether another label may have its logit.
    fn split_columns(
        columns: &[Column<Self>], labels: &TileLabels<'_, Self>, has_ties: bool, max: &Each<Self>,
        terms: TileTerms<'_, Self>, halves: [&mut Each<f64>; 2]
    ):
        portable { tile::split_portable(columns, labels, max, terms, halves) }
        f32 {
            if has_ties {
                tile::split_portable(columns, labels, max, terms, halves);
            } else {
                tile::split_vectors::<S::Vectors>(columns, labels.logit, max, terms, halves);
            }
        }

    /// Sums over all labels but each row's own, in coarse quanta.
    fn sum_columns(
        columns: &[Column<Self>], logit: &Each<Self>, terms: TileTerms<'_, Self>, sums: &mut WordSums<TILE>
    ):
        portable { tile::sum_portable(columns, logit, terms, sums) }
        f32 { tile::sum_vectors::<S::Vectors>(columns, logit, terms, &mut sums.high) }

    /// Sums over all labels but each row's own along the rows with a bit in `wanted`, in coarse quanta; `false`, and no
    /// sums, where rows are as well summed one by one. `ahead` is asked for meanwhile, in as many steps as there are rows.
    fn sum_rows(
        rows: &Each<&[Self]>, wanted: u32, logit: &Each<Self>, terms: TileTerms<'_, Self>,
        ahead: Option<(ColumnsAhead, usize)>, sums: &mut WordSums<TILE>
    ) -> bool:
        portable { false }
        f32 {
            let is_coarse = rows[0].len() <= MOST_COARSE;
            if is_coarse {
                tile::sum_rows::<S::Vectors>(rows, wanted, logit, terms, ahead, &mut sums.high);
            }
            is_coarse
        }

    /// Labels of each row: the first with its largest logit, and the first and the second of those whose logits are at
    /// least the second largest.
    fn first_labels(columns: &[Column<Self>], scan: &TileScan<Self>) -> [Each<u32>; 3]:
        portable { tile_sets::first_labels_portable(columns, scan) }
        f32 { tile_sets::first_labels_vectors::<S::Vectors>(columns, scan) }

    /// The sums over all columns of the terms relative to `max`, in float64, label by label.
    fn total_terms(columns: &[Column<Self>], max: &Each<Self>, scale: &Each<Self>, totals: &mut Each<f64>):
        portable { tile_sets::total_terms_portable(columns, max, scale, totals) }
        f32 { tile_sets::total_terms_vectors::<S::Vectors>(columns, max, scale, totals) }

    /// Takes the labels with logits of at least `floor`, which is finite, or of those the first that hold a mass; `false`
    /// where that has no form in vectors.
    fn take_labels(row: &[Self], floor: Self, wanted: Option<&MassWanted>, to: &mut LabelBuffer) -> bool:
        portable { false }
        f32 { labels::take::<S::Vectors>(row, floor, wanted, to) }

    /// Ranks more of the labels that were taken, at least one if there are more; `false` where logits are laid out to make
    /// that slow.
    fn rank_labels(to: &mut LabelBuffer) -> bool:
        portable { false }
        f32 { labels::rank::<S::Vectors>(to) }

    /// How many of the logits, from the first on, have terms that add up to at most `limit` quanta, and their sum; `None`
    /// where that has no form in vectors.
    fn leading(logits: &[Self], max: Self, scale: Self, limit: i128) -> Option<(usize, i128)>:
        portable { None }
        f32 { Some(labels::leading::<S::Vectors>(logits, max, scale, limit)) }

    /// Writes a square into rows that begin `stride` apart, one for each of its rows, from label `first` on. `lines` are
    /// asked for meanwhile.
    fn write_rows(square: &Square<'_, Self>, first: usize, stride: usize, lines: ColumnLines, rows: &mut [Self]):
        portable { transpose::portable(square, first, stride, lines, rows) }
        f32 { transpose::vectors::<S::Vectors>(square, first, stride, lines, rows) }
}
