//! Every kernel at every level of this machine, held to the definition of what it computes.

use proptest::prelude::*;

use super::{
    Column, Each, FEW_BEFORE, FEW_TERMS, Float, RanksFound, Square, TILE, TileLabels, TileScan, TileTerms,
};
use crate::math::{Depths, Grain, MOST_COARSE, Scalar, WIDTH, WordSums, quanta, term};
use crate::simd::{ColumnsAhead, NoLines, RowLines, Simd, for_each_level};

/// The exact sum of the terms of some logits.
fn sum_of<F: Scalar>(row: impl IntoIterator<Item = F>, shift: F, scale: F, grain: Grain) -> i128 {
    row.into_iter().map(|z| quanta(z, shift, scale, grain)).sum()
}

/// Ranks before a label, and the largest logit ranked after it.
fn place_of<F: Scalar>(row: &[F], label: usize) -> (usize, F) {
    let y = row[label];
    let is_before = |&(k, &z): &(usize, &F)| z > y || (z == y && k < label);
    let after = row.iter().enumerate().filter(|&pair| pair.0 != label && !is_before(&pair));
    let next = after.fold(F::NEG_INFINITY, |next, (_, &z)| next.larger(z));
    (row.iter().enumerate().filter(is_before).count(), next)
}

/// The largest two logits.
fn top_of<F: Scalar>(row: &[F]) -> (F, F) {
    row.iter().fold((F::NEG_INFINITY, F::NEG_INFINITY), |(max, second), &z| {
        (max.larger(z), second.larger(max.smaller(z)))
    })
}

fn logit() -> impl Strategy<Value = f32> {
    prop_oneof![
        8 => -40.0_f32..40.0,
        2 => (-4_i16..4).prop_map(f32::from),
        1 => Just(-0.0),
        1 => Just(f32::NEG_INFINITY),
    ]
}

fn scale() -> impl Strategy<Value = f32> {
    prop_oneof![0.01_f32..100.0, Just(f32::SMALLEST_SCALE), Just(f32::MAX)]
}

/// All kernels along a row.
fn check_row<S: Simd, F: Float>(s: S, row: &[F], [y, shift]: [F; 2], scale: F) {
    let scanned = F::scan(s, row, NoLines);
    let (top, second) = top_of(row);
    assert_eq!((scanned.max, scanned.second), (top, second));
    assert_eq!(scanned.bits, row.iter().fold(0_u32, |sum, z| sum.wrapping_add(z.pattern())));
    assert_eq!(scanned.is_poisoned, row.iter().any(|z| !z.to_f64().is_finite()));
    let max = top.larger(shift).larger(y);
    for grain in [Grain::Fine, Grain::Coarse] {
        assert_eq!(F::sum(s, row, shift, scale, grain), sum_of(row.iter().copied(), shift, scale, grain));
        let few: [F; WIDTH] = std::array::from_fn(|i| row.get(i).copied().unwrap_or(F::NEG_INFINITY));
        let found = F::sums_of_few(s, &few, [max, shift], scale, grain).map(F::collect);
        assert_eq!(found, [max, shift].map(|shift| sum_of(few, shift, scale, grain)));
        let part = |is_above: &dyn Fn(F) -> bool| {
            let above = row.iter().copied().filter(|&z| is_above(z));
            let below = row.iter().copied().filter(|&z| !is_above(z));
            (sum_of(above, max, scale, grain), sum_of(below, shift, scale, grain))
        };
        let lower = F::split::<S, true>(s, row, y, [max, shift], scale, grain);
        assert_eq!(lower, part(&|z| z >= y));
        let higher = F::split::<S, false>(s, row, y, [max, shift], scale, grain);
        assert_eq!(higher, part(&|z| z > y));
    }
    let (few, mut terms) = (&row[..row.len().min(FEW_TERMS)], Vec::new());
    let total = F::few_terms(s, few, shift, scale, &mut terms);
    assert_eq!(total, sum_of(few.iter().copied(), shift, scale, Grain::Fine));
    assert!(few.iter().zip(&terms).all(|(&z, &e)| term(z, shift, scale) == e));
    for y in [y, F::NEG_INFINITY] {
        let below = |is_above: &dyn Fn(F) -> bool| {
            let count = row.iter().filter(|z| is_above(**z)).count();
            let next = row.iter().filter(|z| !is_above(**z)).fold(F::NEG_INFINITY, |next, &z| next.larger(z));
            (count, next)
        };
        assert_eq!(F::count_before::<S, true>(s, row, y), below(&|z| z >= y));
        assert_eq!(F::count_before::<S, false>(s, row, y), below(&|z| z > y));
    }
    // The order of the sums behind entropy is part of their definition: one form is held to the other.
    let lines = RowLines { next: row.as_ptr().cast(), later: row.as_ptr().cast() };
    let portable = super::entropy_sums::portable(row, shift);
    assert_eq!(F::entropy_sums(s, row, shift, NoLines), portable);
    assert_eq!(F::entropy_sums(s, row, shift, lines), portable);
}

proptest! {
    #[test]
    fn rows_of_float32(
        row in prop::collection::vec(logit(), 0..300),
        ends in [-5.0_f32..5.0, -5.0_f32..10.0],
        scale in scale(),
    ) {
        for_each_level!(s => { check_row(s, &row, ends, scale); });
    }

    #[test]
    fn rows_of_float64(
        row in prop::collection::vec(wide_logit(), 0..300),
        y in -5.0_f64..5.0,
        shift in prop_oneof![-5.0_f64..40.0, Just(0.0), Just(-0.0)],
        scale in prop_oneof![0.01_f64..100.0, Just(f64::SMALLEST_SCALE), Just(f64::MAX)],
    ) {
        for_each_level!(s => { check_row(s, &row, [y, shift], scale); });
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
        for_each_level!(s => { check_row(s, &row, [0.0, 1.0], 1.0); });
    }

    #[test]
    fn what_is_no_logit_is_seen(
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
            let narrow: Vec<f32> = row.iter().map(|&z| z as f32).collect();
            for_each_level!(s => {
                assert!(f64::scan(s, &row, NoLines).is_poisoned && f32::scan(s, &narrow, NoLines).is_poisoned);
                let sum = sum_of(row.iter().copied(), 1.0, 1.0, Grain::Fine);
                assert_eq!(f64::sum(s, &row, 1.0, 1.0, Grain::Fine), sum);
            });
        }
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

/// All kernels of a tile of rows.
fn check_tile<S: Simd, F: Float>(s: S, data: &[F], k: usize, scale: F) {
    let rows: Each<&[F]> = std::array::from_fn(|i| &data[i * k..][..k]);
    let label: Each<usize> = std::array::from_fn(|i| (i * 7) % k);
    let logit: Each<F> = std::array::from_fn(|i| rows[i][label[i]]);
    let labels = TileLabels { label: &label, logit: &logit };
    let (mut columns, mut scan) = (vec![Column([F::ZERO; TILE]); k], TileScan::default());
    let lines = RowLines { next: data.as_ptr().cast(), later: data.as_ptr().cast() };
    let is_poisoned = F::read_tile(s, &rows, &mut columns, true, lines, &mut scan);
    assert_eq!(is_poisoned, data[..TILE * k].iter().any(|z| !z.to_f64().is_finite()));
    let (mut rank, mut next) = ([0; TILE], [F::ZERO; TILE]);
    let has_ties = F::rank_columns(s, &columns, &labels, &mut rank, &mut next);
    let (scales, max) = ([scale; TILE], scan.max);
    let (mut across, mut along) = (WordSums::<TILE>::EMPTY, WordSums::<TILE>::EMPTY);
    let at_max = TileTerms { shift: &max, scale: &scales };
    F::sum_columns(s, &columns, &logit, at_max, &mut across);
    let is_along = F::sum_rows(s, &rows, u32::MAX, &logit, at_max, None, &mut along);
    let (mut above, mut below) = ([0.0; TILE], [0.0; TILE]);
    let halves = [&mut above, &mut below];
    let at_second = TileTerms { shift: &scan.second, scale: &scales };
    F::split_columns(s, &columns, &labels, has_ties, &max, at_second, halves);
    let (mut totals, mut own) = ([0.0; TILE], [0.0; TILE]);
    F::total_terms(s, &columns, &max, &scales, &mut totals);
    F::total_terms(s, &[Column(logit)], &max, &scales, &mut own);
    let (first, are_top) = (F::first_labels(s, &columns, &scan), F::are_top(s, &logit, &scan));
    let (mut ranks, mut nexts, mut few) = ([0; TILE], [F::ZERO; TILE], [[F::ZERO; FEW_BEFORE]; TILE]);
    let found = RanksFound { rank: &mut ranks, next: &mut nexts, before: &mut few };
    let left = F::rank_few(s, &rows, &label, u32::MAX, found);
    for count in [1, 17, TILE] {
        let (mut back, side) = (vec![F::ZERO; count * k], TILE - 3);
        for first in (0..k).step_by(side) {
            let square = Square::of(&columns[first..k.min(first + side)], count);
            let lines = ColumnsAhead::new(std::ptr::null(), 0, 1, 0).step(0, 1, 0);
            F::write_rows(s, &square, first, k, lines, &mut back);
        }
        assert_eq!(back, data[..count * k]);
    }
    for (i, row) in rows.iter().enumerate() {
        assert!((0..k).all(|j| columns[j].0[i] == row[j]));
        assert_eq!((max[i], scan.second[i]), top_of(row));
        assert_eq!(scan.bits[i], F::scan(s, row, NoLines).bits);
        let sums = F::entropy_sums(s, row, scan.second[i], NoLines);
        assert_eq!((scan.exponentials[i], scan.weighted[i]), sums);
        let depths = Depths::new(scale);
        let close = |found: f64, z: &[F]| {
            let total: f64 = z.iter().map(|&z| depths.term(z, max[i]).to_f64()).sum();
            (found - total).abs() <= 3e-6 * total.max(1e-30)
        };
        assert!(close(totals[i], row) && close(own[i], &[logit[i]]));
        let at_least = |bound: F| (0..k as u32).filter(move |&j| row[j as usize] >= bound);
        let expected =
            [at_least(max[i]).next(), at_least(scan.second[i]).next(), at_least(scan.second[i]).nth(1)];
        assert_eq!(first.map(|labels| labels[i]), expected.map(Option::unwrap_or_default));
        assert_eq!(are_top >> i & 1 == 1, logit[i] == max[i] && max[i] > scan.second[i]);
        let (before, after) = place_of(row, label[i]);
        assert_eq!((rank[i], next[i]), (1 + before, after));
        let ties = row.iter().filter(|&&z| z == logit[i]).count() > 1;
        // An impossible label may tie with what fills the last vector.
        if logit[i] > F::NEG_INFINITY {
            assert_eq!(left >> i & 1 == 1, ties || before > FEW_BEFORE);
        }
        if left >> i & 1 == 0 {
            assert_eq!((ranks[i], nexts[i]), (1 + before, after));
            let mut expected = [F::NEG_INFINITY; FEW_BEFORE];
            row.iter().filter(|&&z| z > logit[i]).zip(&mut expected).for_each(|(&z, to)| *to = z);
            assert_eq!(few[i], expected);
        }
        let coarse = |shift, wanted: &dyn Fn(usize) -> bool| {
            let logits = (0..k).filter(|&j| wanted(j)).map(|j| row[j]);
            sum_of(logits, shift, scale, Grain::Coarse)
        };
        let others = coarse(max[i], &|j| j != label[i]);
        assert_eq!(F::collect((across.high[i], across.low[i])), others);
        assert!(!is_along || F::collect((along.high[i], along.low[i])) == others);
        let is_before = |j: usize| row[j] > logit[i] || (row[j] == logit[i] && j < label[i]);
        let above_sum = coarse(max[i], &is_before);
        let below_sum = coarse(scan.second[i], &|j| !is_before(j) && j != label[i]);
        assert_eq!((above[i], below[i]), (F::sum_to_f64(above_sum), F::sum_to_f64(below_sum)));
    }
}

proptest! {
    #[test]
    fn tiles(data in prop::collection::vec(logit(), 40 * TILE), k in 1_usize..=40, scale in scale()) {
        let wide: Vec<f64> = data.iter().map(|&z| f64::from(z) * 1.000_000_1).collect();
        for_each_level!(s => {
            check_tile(s, &data, k, scale);
            check_tile(s, &wide, k, f64::from(scale));
        });
    }
}

#[test]
fn long_rows_are_emptied_in_time() {
    let row = vec![1.5_f32; 200_007];
    // Few vectors have anything to add.
    let sparse: Vec<f32> = (0..20_000).map(|i| if i % 1000 == 7 { 1.25 } else { -90.0 }).collect();
    for_each_level!(s => {
        assert_eq!(f32::sum_to_f64(f32::sum(s, &row, 1.5, 1.0, Grain::Fine)), 200_007.0);
        // Each lower part of a term is near the largest there is, up or down.
        for (z, scale) in [(1.499_999_9, 1.0), (1.499_999_8, 0.7), (0.9, 1.3)] {
            let sum = f32::sum(s, &vec![z; 20_011], 1.5, scale, Grain::Fine);
            assert_eq!(sum, 20_011 * quanta(z, 1.5, scale, Grain::Fine));
            let sum = f32::sum(s, &[z; MOST_COARSE], 1.5, scale, Grain::Coarse);
            assert_eq!(sum, MOST_COARSE as i128 * quanta(z, 1.5, scale, Grain::Coarse));
        }
        let sum = f32::sum(s, &sparse, 1.5, 40.0, Grain::Fine);
        assert_eq!(sum, 20 * quanta(1.25_f32, 1.5, 40.0, Grain::Fine));
        for (z, scale) in [(1.5_f64, 1.0), (1.499_999_9, 1.0), (0.9, 1.3)] {
            let sum = f64::sum(s, &[z; MOST_COARSE], 1.5, scale, Grain::Coarse);
            assert_eq!(sum, MOST_COARSE as i128 * quanta(z, 1.5, scale, Grain::Coarse));
        }
        let wide = vec![1.5_f64; 200_007];
        assert_eq!(f64::sum_to_f64(f64::sum(s, &wide, 1.5, 1.0, Grain::Fine)), 200_007.0);
    });
}
