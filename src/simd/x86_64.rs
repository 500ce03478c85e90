//! The entries into the kernels over vectors: the run-time choice among their instances.
#![allow(unsafe_code, reason = "instructions of features that were detected")]

use super::avx2::Avx2;
use super::avx512::Avx512;
pub(crate) use super::columns::Found;
use super::columns::{self, Each};
use super::{Level, coarse, double, level, nucleus, places, scan, set_columns, unit_rows, vector};
use crate::ahead::{ColumnsAhead, LinesOfColumns};
use crate::nucleus::{Candidates, Wanted};
use crate::place::FEW_BEFORE;
use crate::ranked_masses::FEW_TERMS;
#[cfg(any(feature = "python", test))]
use crate::rows::Square;
use crate::rows::{Column, GROUP};
use crate::sum::LANES;

/// The sum of lanes that took `taken` values each, free of their anchors.
#[inline(always)]
pub(super) fn total<const N: usize>(lanes: [u64; N], taken: usize, anchor: u64) -> i128 {
    let anchors = anchor.wrapping_mul(taken as u64);
    if taken * N < 1 << 13 {
        // So few terms add up to less than 2^64 quanta; on the way there, wrapping does no harm.
        let sum = lanes.into_iter().fold(0, u64::wrapping_add);
        return i128::from(sum.wrapping_sub(anchors.wrapping_mul(N as u64)));
    }
    lanes.into_iter().map(|lane| i128::from(lane.wrapping_sub(anchors))).sum()
}

/// Defines a sum as the run-time choice among its instances; `None` where only the plain form will do.
macro_rules! dispatched {
    ($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),*) -> $out:ty = $($body:ident)::+ $(<$left:literal>)?;) => {
        $(#[$meta])*
        pub(crate) fn $name($($arg: $ty),*) -> Option<$out> {
            #[target_feature(enable = "avx2,fma,popcnt")]
            fn avx2($($arg: $ty),*) -> $out {
                // SAFETY: compiled for, and called with, the features of this vector.
                unsafe { $($body)::+::<Avx2 $(, $left)?>($($arg),*) }
            }
            #[target_feature(enable = "avx2,fma,popcnt,avx512f,avx512bw,avx512dq,avx512vl")]
            fn avx512($($arg: $ty),*) -> $out {
                // SAFETY: compiled for, and called with, the features of this vector.
                unsafe { $($body)::+::<Avx512 $(, $left)?>($($arg),*) }
            }
            match level() {
                // SAFETY: level() is this only where the features were detected.
                Level::Avx512 => Some(unsafe { avx512($($arg),*) }),
                // SAFETY: as above.
                Level::Avx2 => Some(unsafe { avx2($($arg),*) }),
                Level::Scalar => None,
            }
        }
    };
}

dispatched! {
    /// [`crate::sum::sum_terms`] of a float32 row.
    fn sum_terms(row: &[f32], shift: f32, scale: f32) -> i128 = vector::sum_terms;
}
dispatched! {
    /// [`crate::sum::split_lower`] of a float32 row.
    fn split_lower(part: &[f32], y: f32, max: f32, shift: f32, scale: f32) -> (i128, i128) = vector::split_terms<true>;
}
dispatched! {
    /// [`crate::sum::split_higher`] of a float32 row.
    fn split_higher(part: &[f32], y: f32, max: f32, shift: f32, scale: f32) -> (i128, i128) = vector::split_terms<false>;
}
dispatched! {
    /// [`crate::sum::sum_terms`] of a float32 row in coarse quanta.
    fn sum_coarse_terms(row: &[f32], shift: f32, scale: f32) -> u64 = coarse::sum_coarse_terms;
}
dispatched! {
    /// [`crate::sum::sum_terms`] of a few logits in coarse quanta, relative to each of two shifts.
    fn sums_of_few(few: &[f32; LANES], shifts: [f32; 2], scale: f32) -> [u64; 2] = coarse::sums_of_few;
}
dispatched! {
    /// [`crate::sum::split_lower`] of a float32 row in coarse quanta.
    fn split_coarse_lower(part: &[f32], y: f32, max: f32, shift: f32, scale: f32) -> (u64, u64) = coarse::split_coarse_terms<true>;
}
dispatched! {
    /// [`crate::sum::split_higher`] of a float32 row in coarse quanta.
    fn split_coarse_higher(part: &[f32], y: f32, max: f32, shift: f32, scale: f32) -> (u64, u64) = coarse::split_coarse_terms<false>;
}
dispatched! {
    /// The sums behind [`crate::unit_sums::unit_sums`] of a float32 row.
    fn unit_sums(row: &[f32], shift: f32, ahead: [&[f32]; 2]) -> (f64, f64) = unit_rows::unit_sums;
}
dispatched! {
    /// The same, with columns to fetch.
    fn unit_sums_by_columns(row: &[f32], shift: f32, ahead: LinesOfColumns) -> (f64, f64) = unit_rows::unit_sums;
}

dispatched! {
    /// [`crate::sum::sum_terms`] of a float64 row.
    fn sum_double_terms(row: &[f64], shift: f64, scale: f64) -> i128 = double::sum_terms<false>;
}
dispatched! {
    /// The same in coarse quanta.
    fn sum_coarse_double(row: &[f64], shift: f64, scale: f64) -> i128 = double::sum_terms<true>;
}
dispatched! {
    /// The sums behind [`crate::unit_sums::unit_sums`] of a float64 row.
    fn double_unit_sums(row: &[f64], shift: f64, ahead: [&[f64]; 2]) -> (f64, f64) = double::unit_sums;
}
dispatched! {
    /// The same, with columns to fetch.
    fn double_unit_sums_by_columns(row: &[f64], shift: f64, ahead: LinesOfColumns) -> (f64, f64) = double::unit_sums;
}
dispatched! {
    /// What [`crate::row::Scan`] holds of a float64 row, and whether a value is not finite.
    fn scan_double(row: &[f64]) -> (f64, f64, u32, bool) = double::scan;
}

dispatched! {
    /// What [`crate::lane_order::LaneOrder`] needs for the first two ranks of float32 rows.
    fn first_labels(columns: &[Column<f32>], max: &Each<f32>, second: &Each<f32>, found: &mut [Each<f32>; 3]) -> () = set_columns::first_labels;
}
dispatched! {
    /// The terms of a logit of each float32 row relative to its largest one, widened.
    fn terms(logits: &Each<f32>, max: &Each<f32>, scale: &Each<f32>, terms: &mut Each<f64>) -> () = set_columns::terms;
}
dispatched! {
    /// The sums of these terms over all labels, in float64, label by label.
    fn total_terms(columns: &[Column<f32>], max: &Each<f32>, scale: &Each<f32>, totals: &mut Each<f64>) -> () = set_columns::total_terms;
}
dispatched! {
    /// A bit for each float32 row of a group whose label is alone at the top.
    fn are_top(logit: &Each<f32>, max: &Each<f32>, second: &Each<f32>) -> u32 = columns::are_top;
}
dispatched! {
    /// [`crate::place::count_and_next`] of the lower labels of a float32 row.
    fn count_lower(part: &[f32], y: f32) -> (usize, f32) = places::count_and_next<true>;
}
dispatched! {
    /// [`crate::place::count_and_next`] of the higher labels of a float32 row.
    fn count_higher(part: &[f32], y: f32) -> (usize, f32) = places::count_and_next<false>;
}

dispatched! {
    /// [`crate::place::place_and_before`] of the rows with a bit in `wanted` whose label has few before it; a bit for each of
    /// the others.
    fn place_rows(rows: &[&[f32]; GROUP], labels: &[usize; GROUP], wanted: u32, rank: &mut [usize; GROUP], next: &mut Each<f32>, before: &mut [[f32; FEW_BEFORE]]) -> u32 = places::place_rows;
}
dispatched! {
    /// What [`crate::row::Scan`] holds, and whether a value is not finite.
    fn scan(row: &[f32]) -> (f32, f32, u32, bool) = scan::scan;
}
dispatched! {
    /// The terms of a float32 row of few labels, and [`crate::sum::sum_terms`] of it.
    fn few_terms(row: &[f32], shift: f32, scale: f32) -> ([f32; FEW_TERMS], i128) = vector::few_terms;
}
dispatched! {
    /// Labels of a float32 row from a logit on, or those among them that hold a mass.
    fn take_labels(row: &[f32], floor: f32, wanted: Option<&Wanted>, to: &mut Candidates) -> () = nucleus::take;
}
dispatched! {
    /// Ranks more of these labels.
    fn rank_labels(to: &mut Candidates) -> bool = nucleus::rank;
}
dispatched! {
    /// How many float32 terms of ranked logits stay within a sum, and theirs.
    fn leading(logits: &[f32], max: f32, scale: f32, limit: i128) -> (usize, i128) = nucleus::leading;
}
dispatched! {
    /// Writes rows side by side, and reads off them what is needed before any label is looked at; whether any value is
    /// not finite.
    fn read_columns(rows: &[&[f32]; GROUP], columns: &mut [Column<f32>], with_entropy: bool, ahead: [&[f32]; 2], found: &mut Found<'_>) -> bool = columns::read;
}
dispatched! {
    /// The other way, into rows `stride` apart from label `first` on.
    #[cfg(any(feature = "python", test))]
    fn write_rows(square: &Square<'_, f32>, first: usize, stride: usize, ahead: LinesOfColumns, rows: &mut [f32]) -> () = columns::write_rows;
}
dispatched! {
    /// [`crate::place::place`] across rows: labels before, and the next logit; false inside where logits tie.
    fn places_columns(columns: &[Column<f32>], logit: &Each<f32>, before: &mut Each<u32>, next: &mut Each<f32>) -> bool = columns::places;
}
dispatched! {
    /// Sums before and after each row's label, which ties with no other.
    #[allow(clippy::too_many_arguments, reason = "a kernel: everything it reads and writes, named")]
    fn split_columns(columns: &[Column<f32>], logit: &Each<f32>, max: &Each<f32>, shift: &Each<f32>, scale: &Each<f32>, upper: &mut Each<u64>, lower: &mut Each<u64>) -> () = columns::split_terms;
}
dispatched! {
    /// [`crate::sum::sum_terms`] of the rows with a bit in `wanted`, without their labels, in coarse quanta.
    fn sum_rows(rows: &[&[f32]; GROUP], wanted: u32, logit: &Each<f32>, shift: &Each<f32>, scale: &Each<f32>, ahead: Option<(ColumnsAhead, usize)>, sums: &mut Each<u64>) -> () = columns::sum_rows;
}
dispatched! {
    /// Sums over all labels but each row's own.
    fn sum_columns(columns: &[Column<f32>], logit: &Each<f32>, shift: &Each<f32>, scale: &Each<f32>, sums: &mut Each<u64>) -> () = columns::sum_terms;
}
