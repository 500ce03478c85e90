//! The kernels over vectors, each held to the plain form of what it computes, for every vector that this machine has.
#![allow(unsafe_code, reason = "instructions of features that were detected")]

use proptest::prelude::*;

use super::avx2::Avx2;
use super::avx512::Avx512;
use super::columns::{self, Found};
use super::{Level, coarse, double, places, scan, set_columns, unit_rows, vector};
use crate::ahead::{Ahead, LinesOfColumns};
use crate::float::{COARSE_BITS, Float};
use crate::place::FEW_BEFORE;
use crate::ranked_masses::FEW_TERMS;
use crate::rows::{Column, GROUP, Square};
use crate::sum::{Depths, Grain, LANES, MOST_COARSE, in_quanta};
use crate::{place, row, sum, unit_sums};

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
                let found = coarse::sums_of_few::<V>(&few, [max, shift], scale);
                assert_eq!(found.map(|sum| i128::from(sum) << COARSE_BITS), sums);
                let sum = coarse::sum_coarse_terms::<V>(&row, shift, scale);
                assert_eq!(i128::from(sum) << COARSE_BITS, sum::sum_coarse_body(&row, shift, scale));
                let split = in_quanta(coarse::split_coarse_terms::<V, true>(&row, y, max, shift, scale));
                assert_eq!(split, sum::split_terms::<true, f32>(&row, y, max, shift, scale, Grain::Coarse));
                let split = in_quanta(coarse::split_coarse_terms::<V, false>(&row, y, max, shift, scale));
                assert_eq!(split, sum::split_terms::<false, f32>(&row, y, max, shift, scale, Grain::Coarse));
                for y in [y, f32::NEG_INFINITY] {
                    let counted = places::count_and_next::<V, true>(&row, y);
                    assert_eq!(counted, place::count_and_next::<true, f32>(&row, y));
                    let counted = places::count_and_next::<V, false>(&row, y);
                    assert_eq!(counted, place::count_and_next::<false, f32>(&row, y));
                }
                assert_eq!(unit_rows::unit_sums::<V>(&row, shift, [row.as_slice(), &[]]), unit_sums::unit_sums_plain::<f32>(&row, shift));
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

/// Values of either kind and of none, and at the bounds of kinds.
fn odd_value() -> impl Strategy<Value = f64> {
    let (tiny, huge) = ((-64.0_f64).exp2(), 64.0_f64.exp2());
    let bounds =
        [0.1, 0.0, 0.5, tiny, tiny / 2.0, huge / 2.0, huge, f64::from(f32::MAX), 1e300, 1e-40, 1e-310];
    (prop::sample::select(bounds.to_vec()), any::<bool>())
        .prop_map(|(z, is_negative)| if is_negative { -z } else { z })
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
                assert_eq!(double::unit_sums::<V>(&row, shift, [row.as_slice(), &[]]), unit_sums::unit_sums_plain::<f64>(&row, shift));
                let (max, second, bits, is_poisoned) = double::scan::<V>(&row);
                assert_eq!((max, second, bits, is_poisoned), (scan.max, scan.second, scan.bits, poisoned));
            }
        });
    }

    /// Values of one kind are scanned in fewer steps, until one is of another.
    #[test]
    fn kinds_of_float64_are_scanned_alike(
        row in prop::collection::vec(-40.0_f32..40.0, 8..100),
        is_narrow in any::<bool>(),
        odd in prop::option::of((0_usize..100, odd_value())),
    ) {
        let factor = if is_narrow { 1.0 } else { 1.0 + f64::EPSILON };
        let mut row: Vec<f64> = row.iter().map(|&z| f64::from(z) * factor).collect();
        if let Some((at, value)) = odd {
            let k = row.len();
            row[at % k] = value;
        }
        let (scan, poisoned) = row::read_plain::<f64>(&row);
        for_each_vector!(V => {
            // SAFETY: the vector is available, as just asked.
            let found = unsafe { double::scan::<V>(&row) };
            assert_eq!(found, (scan.max, scan.second, scan.bits, poisoned));
        });
    }

    #[test]
    fn what_is_no_logit_is_seen_in_float64(
        mut row in prop_oneof![
            prop::collection::vec(wide_logit(), 1..40),
            prop::collection::vec((1.0_f32..40.0).prop_map(f64::from), 1..40),
            prop::collection::vec(1.0_f64..40.0, 1..40),
        ],
        at in 0_usize..40,
    ) {
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
                let mut along = [0; GROUP];
                columns::sum_rows::<V>(&rows, u32::MAX, &logit, &max, &scales, None, &mut along);
                assert_eq!(along, others);
                let (mut totals, mut own_terms) = ([0.0; GROUP], [0.0; GROUP]);
                set_columns::total_terms::<V>(&columns, &max, &scales, &mut totals);
                set_columns::terms::<V>(&logit, &max, &scales, &mut own_terms);
                let mut first = [[0.0; GROUP]; 3];
                set_columns::first_labels::<V>(&columns, &max, &second, &mut first);
                let are_top = columns::are_top::<V>(&logit, &max, &second);
                let (mut ranks, mut nexts) = ([0; GROUP], [0.0; GROUP]);
                let mut few = [[0.0; FEW_BEFORE]; GROUP];
                let left = places::place_rows::<V>(&rows, &label, u32::MAX, &mut ranks, &mut nexts, &mut few);
                let mut any_poison = false;
                for count in [1, 17, GROUP] {
                    let (mut back, side) = (vec![0.0; count * k], GROUP - 3);
                    for first in (0..k).step_by(side) {
                        let square = Square::of(&columns[first..k.min(first + side)], count);
                        columns::write_rows::<V>(&square, first, k, LinesOfColumns::none(), &mut back);
                    }
                    assert_eq!(back, data[..count * k]);
                }
                for (i, row) in rows.iter().enumerate() {
                    assert!((0..k).all(|j| columns[j].0[i] == row[j]));
                    let (scan, row_poison) = row::read_plain::<f32>(row);
                    any_poison |= row_poison;
                    assert_eq!((max[i], second[i], bits[i]), (scan.max, scan.second, scan.bits));
                    assert_eq!((exponentials[i], weighted[i]), unit_sums::unit_sums(row, second[i], Ahead::NOTHING));
                    let depths = Depths::new(scale);
                    let mut total = 0.0;
                    row.iter().for_each(|&z| total += f64::from(depths.term(z, max[i])));
                    assert_eq!((totals[i], own_terms[i]), (total, f64::from(depths.term(logit[i], max[i]))));
                    let at_least = |bound: f32| (0..k as u32).filter(move |&j| row[j as usize] >= bound);
                    let expected = [at_least(max[i]).next(), at_least(second[i]).next(), at_least(second[i]).nth(1)];
                    let found = first.map(|labels| labels[i].to_bits());
                    assert_eq!(found, expected.map(Option::unwrap_or_default));
                    let is_top = logit[i] == max[i] && max[i] > second[i];
                    assert_eq!(are_top >> i & 1 == 1, is_top);
                    let alone = place::place(row, label[i]);
                    let ties = row.iter().filter(|&&z| z == logit[i]).count() > 1;
                    // An impossible label may tie with what fills the last vector.
                    if logit[i] > f32::NEG_INFINITY {
                        assert_eq!(left >> i & 1 == 1, ties || alone.rank - 1 > FEW_BEFORE);
                        let mut plainly = [0.0; FEW_BEFORE];
                        let found = place::place_few(row, label[i], &mut plainly);
                        let expected = (left >> i & 1 == 0).then(|| (ranks[i] - 1, nexts[i]));
                        assert_eq!(found, expected);
                        assert!(found.is_none() || plainly == few[i]);
                    }
                    if left >> i & 1 == 0 {
                        assert_eq!((ranks[i], nexts[i]), (alone.rank, alone.next));
                        let mut before = [f32::NEG_INFINITY; FEW_BEFORE];
                        row.iter().filter(|&&z| z > logit[i]).zip(&mut before).for_each(|(&z, to)| *to = z);
                        assert_eq!(few[i], before);
                    }
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
            let sum = unsafe { coarse::sum_coarse_terms::<V>(&row[..MOST_COARSE], 1.5, scale) };
            let term = sum::quanta(z, 1.5, scale, Grain::Coarse);
            assert_eq!(i128::from(sum) << COARSE_BITS, MOST_COARSE as i128 * term);
        }
        // Few vectors have anything to add.
        let row: Vec<f32> = (0..20_000).map(|i| if i % 1000 == 7 { 1.25 } else { -90.0 }).collect();
        // SAFETY: as above.
        let sum = unsafe { vector::sum_terms::<V>(&row, 1.5, 40.0) };
        assert_eq!(sum, 20 * sum::quanta(1.25_f32, 1.5, 40.0, Grain::Fine));
        for (z, scale) in [(1.5, 1.0), (1.499_999_9, 1.0), (0.9, 1.3)] {
            let row = [z; MOST_COARSE];
            // SAFETY: as above.
            let sum = unsafe { double::sum_terms::<V, true>(&row, 1.5, scale) };
            assert_eq!(sum, MOST_COARSE as i128 * sum::quanta(z, 1.5, scale, Grain::Coarse));
        }
        let row = vec![1.5_f64; 200_007];
        // SAFETY: as above.
        let sum = unsafe { double::sum_terms::<V, false>(&row, 1.5, 1.0) };
        assert_eq!(f64::sum_to_f64(sum), 200_007.0);
    });
}
