//! The entries into the kernels over vectors: the run-time choice among their instances.
#![allow(unsafe_code, reason = "instructions of features that were detected")]

use super::avx2::Avx2;
use super::avx512::Avx512;
pub(crate) use super::columns::Found;
use super::columns::{self, Each};
use super::{Level, double, level, nucleus, places, scan, vector};
use crate::ahead::LinesOfColumns;
use crate::nucleus::{Candidates, Wanted};
use crate::place::FEW_BEFORE;
use crate::ranked_masses::FEW_TERMS;
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
    fn sum_coarse_terms(row: &[f32], shift: f32, scale: f32) -> u64 = vector::sum_coarse_terms;
}
dispatched! {
    /// [`crate::sum::sum_terms`] of a few logits in coarse quanta, relative to each of two shifts.
    fn sums_of_few(few: &[f32; LANES], shifts: [f32; 2], scale: f32) -> [u64; 2] = vector::sums_of_few;
}
dispatched! {
    /// [`crate::sum::split_lower`] of a float32 row in coarse quanta.
    fn split_coarse_lower(part: &[f32], y: f32, max: f32, shift: f32, scale: f32) -> (u64, u64) = vector::split_coarse_terms<true>;
}
dispatched! {
    /// [`crate::sum::split_higher`] of a float32 row in coarse quanta.
    fn split_coarse_higher(part: &[f32], y: f32, max: f32, shift: f32, scale: f32) -> (u64, u64) = vector::split_coarse_terms<false>;
}
dispatched! {
    /// The sums behind [`crate::unit_sums::unit_sums`] of a float32 row.
    fn unit_sums(row: &[f32], shift: f32, ahead: [&[f32]; 2]) -> (f64, f64) = vector::unit_sums;
}
dispatched! {
    /// The same, with columns to fetch.
    fn unit_sums_by_columns(row: &[f32], shift: f32, ahead: LinesOfColumns) -> (f64, f64) = vector::unit_sums;
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
    fn first_labels(columns: &[Column<f32>], max: &Each<f32>, second: &Each<f32>, found: &mut [Each<f32>; 3]) -> () = columns::first_labels;
}
dispatched! {
    /// The terms of a logit of each float32 row relative to its largest one, widened.
    fn terms(logits: &Each<f32>, max: &Each<f32>, scale: &Each<f32>, terms: &mut Each<f64>) -> () = columns::terms;
}
dispatched! {
    /// The sums of these terms over all labels, in float64, label by label.
    fn total_terms(columns: &[Column<f32>], max: &Each<f32>, scale: &Each<f32>, totals: &mut Each<f64>) -> () = columns::total_terms;
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
    /// The other way, into rows of `n_labels` from label `first` on.
    #[cfg(any(feature = "python", test))]
    fn write_rows(columns: &[Column<f32>], first: usize, stride: usize, rows: &mut [f32]) -> () = columns::write_rows;
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
    /// Sums over all labels but each row's own.
    fn sum_columns(columns: &[Column<f32>], logit: &Each<f32>, shift: &Each<f32>, scale: &Each<f32>, sums: &mut Each<u64>) -> () = columns::sum_terms;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ahead::Ahead;
    use crate::float::COARSE_BITS;
    use crate::float::Float;
    use crate::sum::{Grain, MOST_COARSE, in_quanta};
    use crate::{place, row, sum, unit_sums};
    use proptest::prelude::*;

    fn logit() -> impl Strategy<Value = f32> {
        prop_oneof![
            8 => -40.0_f32..40.0,
            2 => (-4_i16..4).prop_map(f32::from),
            1 => Just(-0.0),
            1 => Just(f32::NEG_INFINITY),
        ]
    }

    /// Runs `body` for each vector this machine has.
    macro_rules! for_each_vector {
        ($V:ident => $body:expr) => {
            if Level::Avx2.is_available() {
                type $V = Avx2;
                $body
            }
            if Level::Avx512.is_available() {
                type $V = Avx512;
                $body
            }
        };
    }

    proptest! {
        #[test]
        fn vectors_equal_the_plain_form(
            row in prop::collection::vec(logit(), 0..200),
            y in -5.0_f32..5.0,
            shift in -5.0_f32..10.0,
            scale in prop_oneof![0.01_f32..100.0, Just(f32::SMALLEST_SCALE), Just(f32::MAX)],
        ) {
            let max = row.iter().fold(shift.max(y), |m, &z| m.max(z));
            for_each_vector!(V => {
                // SAFETY: the vector is available, as just asked.
                unsafe {
                    assert_eq!(vector::sum_terms::<V>(&row, shift, scale), sum::sum_terms_body(&row, shift, scale));
                    let few = &row[..row.len().min(FEW_TERMS)];
                    let (terms, total) = vector::few_terms::<V>(few, shift, scale);
                    assert_eq!(total, sum::sum_terms_body(few, shift, scale));
                    assert!(few.iter().zip(terms).all(|(&z, e)| sum::term(z, shift, scale) == e));
                    let split = vector::split_terms::<V, true>(&row, y, max, shift, scale);
                    assert_eq!(split, sum::split_terms::<true, f32>(&row, y, max, shift, scale, Grain::Fine));
                    let split = vector::split_terms::<V, false>(&row, y, max, shift, scale);
                    assert_eq!(split, sum::split_terms::<false, f32>(&row, y, max, shift, scale, Grain::Fine));
                    let few: [f32; LANES] = std::array::from_fn(|i| row.get(i).copied().unwrap_or(f32::NEG_INFINITY));
                    let sums = [max, shift].map(|shift| sum::sum_coarse_body(&few, shift, scale));
                    let found = vector::sums_of_few::<V>(&few, [max, shift], scale);
                    assert_eq!(found.map(|sum| i128::from(sum) << COARSE_BITS), sums);
                    let sum = vector::sum_coarse_terms::<V>(&row, shift, scale);
                    assert_eq!(i128::from(sum) << COARSE_BITS, sum::sum_coarse_body(&row, shift, scale));
                    let split = in_quanta(vector::split_coarse_terms::<V, true>(&row, y, max, shift, scale));
                    assert_eq!(split, sum::split_terms::<true, f32>(&row, y, max, shift, scale, Grain::Coarse));
                    let split = in_quanta(vector::split_coarse_terms::<V, false>(&row, y, max, shift, scale));
                    assert_eq!(split, sum::split_terms::<false, f32>(&row, y, max, shift, scale, Grain::Coarse));
                    for y in [y, f32::NEG_INFINITY] {
                        let counted = places::count_and_next::<V, true>(&row, y);
                        assert_eq!(counted, place::count_and_next::<true, f32>(&row, y));
                        let counted = places::count_and_next::<V, false>(&row, y);
                        assert_eq!(counted, place::count_and_next::<false, f32>(&row, y));
                    }
                    assert_eq!(vector::unit_sums::<V>(&row, shift, [&row, &[]]), unit_sums::unit_sums_plain::<f32>(&row, shift));
                }
            });
        }
    }

    fn wide_logit() -> impl Strategy<Value = f64> {
        prop_oneof![
            8 => -40.0_f64..40.0,
            2 => (-4_i16..4).prop_map(f64::from),
            1 => logit().prop_map(f64::from),
            1 => Just(-0.0),
            1 => prop_oneof![Just(1e300), Just(-1e300), Just(1e-310)],
        ]
    }

    proptest! {
        #[test]
        fn vectors_of_float64_equal_the_plain_form(
            row in prop::collection::vec(wide_logit(), 0..300),
            shift in prop_oneof![-5.0_f64..40.0, Just(0.0), Just(-0.0)],
            scale in prop_oneof![0.01_f64..100.0, Just(f64::SMALLEST_SCALE), Just(f64::MAX)],
        ) {
            let (scan, poisoned) = row::read_plain::<f64>(&row);
            for_each_vector!(V => {
                // SAFETY: the vector is available, as just asked.
                unsafe {
                    let sum = double::sum_terms::<V, false>(&row, shift, scale);
                    assert_eq!(sum, sum::sum_terms_body(&row, shift, scale));
                    let sum = double::sum_terms::<V, true>(&row, shift, scale);
                    assert_eq!(sum, sum::sum_coarse_body(&row, shift, scale));
                    assert_eq!(double::unit_sums::<V>(&row, shift, [&row, &[]]), unit_sums::unit_sums_plain::<f64>(&row, shift));
                    let (max, second, bits, is_poisoned) = double::scan::<V>(&row);
                    assert_eq!((max, second, bits, is_poisoned), (scan.max, scan.second, scan.bits, poisoned));
                }
            });
        }

        #[test]
        fn what_is_no_logit_is_seen_in_float64(mut row in prop::collection::vec(wide_logit(), 1..40), at in 0_usize..40) {
            let k = row.len();
            for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                row[at % k] = bad;
                for_each_vector!(V => {
                    // SAFETY: the vector is available, as just asked.
                    let (_, _, bits, poisoned) = unsafe { double::scan::<V>(&row) };
                    assert!(poisoned);
                    assert_eq!(bits, row::read_plain::<f64>(&row).0.bits);
                    // SAFETY: as above.
                    let sum = unsafe { double::sum_terms::<V, false>(&row, 1.0, 1.0) };
                    assert_eq!(sum, sum::sum_terms_body(&row, 1.0, 1.0));
                });
            }
        }
    }

    /// Labels of a group of rows, none of them impossible, a logit for each.
    fn labels_of(rows: &[&[f32]; GROUP]) -> [usize; GROUP] {
        std::array::from_fn(|i| (i * 7) % rows[i].len())
    }

    proptest! {
        #[test]
        fn a_row_is_read_as_the_plain_form_reads_it(row in prop::collection::vec(logit(), 1..100)) {
            let (scan, poisoned) = row::read_plain::<f32>(&row);
            for_each_vector!(V => {
                // SAFETY: the vector is available, as just asked.
                let found = unsafe { scan::scan::<V>(&row) };
                assert_eq!(found, (scan.max, scan.second, scan.bits, poisoned));
            });
        }

        #[test]
        fn columns_equal_rows(
            data in prop::collection::vec(logit(), 40 * GROUP),
            k in 1_usize..=40,
            scale in prop_oneof![0.01_f32..100.0, Just(f32::SMALLEST_SCALE), Just(f32::MAX)],
        ) {
            let rows: [&[f32]; GROUP] = std::array::from_fn(|i| &data[i * k..][..k]);
            let label = labels_of(&rows);
            let logit: [f32; GROUP] = std::array::from_fn(|i| rows[i][label[i]]);
            for_each_vector!(V => {
                let mut columns = vec![Column([0.0; GROUP]); k];
                // SAFETY: the vector is available, as just asked.
                unsafe {
                    let (mut max, mut second, mut bits) = ([0.0; GROUP], [0.0; GROUP], [0; GROUP]);
                    let (mut exponentials, mut weighted) = ([0.0; GROUP], [0.0; GROUP]);
                    let mut found = Found {
                        max: &mut max,
                        second: &mut second,
                        bits: &mut bits,
                        exponentials: &mut exponentials,
                        weighted: &mut weighted,
                    };
                    let poisoned = columns::read::<V>(&rows, &mut columns, true, [&data, &data], &mut found);
                    let (mut before, mut next) = ([0; GROUP], [0.0; GROUP]);
                    let are_placed = columns::places::<V>(&columns, &logit, &mut before, &mut next);
                    let (mut others, mut split) = ([0; GROUP], ([0; GROUP], [0; GROUP]));
                    let scales = [scale; GROUP];
                    columns::sum_terms::<V>(&columns, &logit, &max, &scales, &mut others);
                    let (upper, lower) = (&mut split.0, &mut split.1);
                    columns::split_terms::<V>(&columns, &logit, &max, &second, &scales, upper, lower);
                    let mut any_poison = false;
                    for count in [1, 17, GROUP] {
                        let (mut back, half) = (vec![0.0; count * k], k / 2);
                        columns::write_rows::<V>(&columns[..half], 0, k, &mut back);
                        columns::write_rows::<V>(&columns[half..], half, k, &mut back);
                        assert_eq!(back, data[..count * k]);
                    }
                    for (i, row) in rows.iter().enumerate() {
                        assert!((0..k).all(|j| columns[j].0[i] == row[j]));
                        let (scan, row_poison) = row::read_plain::<f32>(row);
                        any_poison |= row_poison;
                        assert_eq!((max[i], second[i], bits[i]), (scan.max, scan.second, scan.bits));
                        assert_eq!((exponentials[i], weighted[i]), unit_sums::unit_sums(row, second[i], Ahead::NOTHING));
                        let own = |shift| sum::quanta(logit[i], shift, scale, Grain::Coarse);
                        let all: i128 = row.iter().map(|&z| sum::quanta(z, max[i], scale, Grain::Coarse)).sum();
                        assert_eq!(i128::from(others[i]) << COARSE_BITS, all - own(max[i]));
                        if are_placed {
                            let place = crate::place::place(row, label[i]);
                            assert_eq!((1 + before[i] as usize, next[i]), (place.rank, place.next));
                            let (upper, lower) = sum::split_terms::<false, f32>(
                                row, logit[i], max[i], second[i], scale, Grain::Coarse,
                            );
                            assert_eq!(in_quanta((split.0[i], split.1[i])), (upper, lower - own(second[i])));
                        }
                    }
                    assert_eq!(poisoned, any_poison);
                }
            });
        }
    }

    #[test]
    fn long_rows_are_emptied_in_time() {
        let row = vec![1.5_f32; 200_007];
        for_each_vector!(V => {
            // SAFETY: the vector is available, as just asked.
            let sum = unsafe { vector::sum_terms::<V>(&row, 1.5, 1.0) };
            assert_eq!(f32::sum_to_f64(sum), 200_007.0);
            // Each lower part of a term is near the largest there is, up or down.
            for (z, scale) in [(1.499_999_9, 1.0), (1.499_999_8, 0.7), (0.9, 1.3)] {
                let row = vec![z; 20_011];
                // SAFETY: as above.
                let sum = unsafe { vector::sum_terms::<V>(&row, 1.5, scale) };
                assert_eq!(sum, 20_011 * sum::quanta(z, 1.5, scale, Grain::Fine));
                // SAFETY: as above.
                let sum = unsafe { vector::sum_coarse_terms::<V>(&row[..MOST_COARSE], 1.5, scale) };
                let term = sum::quanta(z, 1.5, scale, Grain::Coarse);
                assert_eq!(i128::from(sum) << COARSE_BITS, MOST_COARSE as i128 * term);
            }
            // Few vectors have anything to add.
            let row: Vec<f32> = (0..20_000).map(|i| if i % 1000 == 7 { 1.25 } else { -90.0 }).collect();
            // SAFETY: as above.
            let sum = unsafe { vector::sum_terms::<V>(&row, 1.5, 40.0) };
            assert_eq!(sum, 20 * sum::quanta(1.25_f32, 1.5, 40.0, Grain::Fine));
            let row = vec![1.5_f64; 200_007];
            // SAFETY: as above.
            let sum = unsafe { double::sum_terms::<V, false>(&row, 1.5, 1.0) };
            assert_eq!(f64::sum_to_f64(sum), 200_007.0);
        });
    }
}
