//! What vectors do at every level of this machine, held to what is done to each number.

use fearless_simd::{f32x16, f64x8, prelude::*, u32x16, u64x8};
use proptest::prelude::*;

use super::{F64x16, Lanes, Simd, for_each_level};
use crate::math::{Scalar, WIDTH};

/// Sixteen numbers of any size, many of them alike, none of them NaN.
fn numbers() -> impl Strategy<Value = [f64; WIDTH]> {
    let number = prop_oneof![
        2 => any::<u64>().prop_map(f64::from_bits),
        2 => any::<u32>().prop_map(|bits| f64::from(f32::from_bits(bits))),
        2 => (-3_i8..3).prop_map(f64::from),
        1 => prop::sample::select(vec![-0.0, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, 1e-310]),
    ];
    prop::array::uniform16(number.prop_map(|z| if z.is_nan() { 0.5 } else { z }))
}

/// Where two numbers are alike, or both are NaN.
fn alike<N: Scalar>(a: N, b: N) -> bool {
    a == b || (a.to_f64().is_nan() && b.to_f64().is_nan())
}

fn check<S: Simd, L: Lanes<S>>(s: S, numbers: &[[f64; WIDTH]; 3], bits: u32) {
    let [a, b, c] = numbers.each_ref().map(|numbers| numbers.map(L::Number::from_f64));
    let [x, y, z] = [a, b, c].map(|numbers| L::load(s, &numbers));
    let is_set = |i: usize| bits >> i & 1 == 1;
    let holds = |found: L, expected: &dyn Fn(usize) -> L::Number| {
        let found = found.to_array();
        assert!((0..WIDTH).all(|i| alike(found[i], expected(i))), "{found:?}");
    };
    let chosen = |mask: L::Mask, expected: &dyn Fn(usize) -> bool| {
        let expected = (0..WIDTH).map(|i| u32::from(expected(i)) << i).sum();
        assert_eq!((L::bits(mask), L::any(mask)), (expected, expected > 0));
    };
    let none = L::Number::NEG_INFINITY;
    for count in 0..WIDTH {
        holds(L::load_part(s, &a[..count]), &|i| if i < count { a[i] } else { none });
    }
    holds(L::splat(s, a[0]), &|_| a[0]);
    holds(x + y, &|i| a[i] + b[i]);
    holds(x - y, &|i| a[i] - b[i]);
    holds(x * y, &|i| a[i] * b[i]);
    holds(x.fma(y, z), &|i| a[i].mul_add(b[i], c[i]));
    holds(x.poisoned_by(y), &|i| a[i] + b[i] * L::Number::ZERO);
    holds(x.larger(y), &|i| a[i].larger(b[i]));
    holds(x.smaller(y), &|i| a[i].smaller(b[i]));
    let [low, high] = x.widen().map(SimdBase::to_array);
    assert_eq!([low, high].concat(), a.map(Scalar::to_f64));
    let largest = a.into_iter().fold(none, L::Number::larger);
    assert!(L::largest(x) == largest);

    let mask = L::mask(s, bits);
    chosen(mask, &is_set);
    chosen(x.greater(y), &|i| a[i] > b[i]);
    chosen(x.at_least(y), &|i| a[i] >= b[i]);
    chosen(x.ranks_before(y, mask), &|i| a[i] > b[i] || (a[i] == b[i] && is_set(i)));
    holds(L::select(mask, x, y), &|i| if is_set(i) { a[i] } else { b[i] });
    let labels: [u32; WIDTH] = std::array::from_fn(|i| i as u32);
    let kept = L::keep(mask, u32x16::load_array(s, labels)).to_array();
    assert_eq!(kept, labels.map(|i| if is_set(i as usize) { i } else { 0 }));
    let (set, count): (Vec<u32>, _) =
        (labels.into_iter().filter(|&i| is_set(i as usize)).collect(), bits.count_ones());
    let (mut side_by_side, mut side_by_side_labels) = ([L::Number::ZERO; WIDTH], [0; WIDTH]);
    x.compress(mask, &mut side_by_side);
    assert!(set.iter().zip(side_by_side).all(|(&i, found)| found == a[i as usize]));
    L::compress_labels(mask, u32x16::load_array(s, labels), &mut side_by_side_labels);
    assert_eq!(side_by_side_labels[..count as usize], set);
    assert_eq!(x.pattern(L::hidden_one(s)).to_array(), a.map(Scalar::pattern));

    // Depths are what is left of them down to a bottom, and NaN where infinities are taken off each other.
    let bottom = L::Number::from_f64(60.0);
    let depth = (x - y).down_to(L::splat(s, bottom));
    let expected = |i: usize| {
        let depth = a[i] - b[i];
        if depth > L::Number::ZERO && depth < bottom { depth } else { bottom }
    };
    // Zeros may be negative, which is the deepest.
    let depth = L::select(x.greater(y), depth, L::splat(s, bottom));
    holds(depth, &expected);
    for unit in [0, 29, 51].map(L::Number::power_of_two) {
        let scale = L::Number::LOG2_E;
        let minus = L::splat(s, L::Number::ZERO - scale);
        holds(L::exp2(depth, minus, unit), &|i| L::Number::exp2(expected(i), scale) * unit);
    }
    let rows: [Vec<L::Number>; WIDTH] = std::array::from_fn(|i| vec![none, a[i], b[i], c[i], a[i]]);
    let columns = L::four_columns(s, &std::array::from_fn(|i| rows[i].as_slice()), 1);
    for (column, j) in columns.into_iter().zip(1..) {
        holds(column, &|i| rows[i][j]);
    }
}

fn check_integers<S: Simd>(s: S, table: &[u64; WIDTH], indices: &[u64; WIDTH], x: &[f64; WIDTH]) {
    let (low, narrow) = (table.map(|entry| entry as u32), indices.map(|index| index as u32));
    let found = s.look_up_u32(&low, u32x16::load_array(s, narrow)).to_array();
    assert_eq!(found, narrow.map(|index| low[index as usize % WIDTH]));
    let (indices, _) = indices.as_chunks::<8>();
    let found = s.look_up_u64(table, u64x8::load_array(s, indices[0])).to_array();
    assert_eq!(found, indices[0].map(|index| table[index as usize % WIDTH]));
    // In a term's units: up to 2^29 or its negative, and up to 2^56.
    let narrow = x.map(|x| (x * f64::from(1 << 29)) as f32);
    let found = s.round_u32(f32x16::load_array(s, narrow)).to_array();
    assert_eq!(found, narrow.map(|x| x.round_ties_even() as i32 as u32));
    let (wide, _) = x.as_chunks::<8>();
    let wide = wide[0].map(|x| x.abs() * (1_u64 << 56) as f64);
    let found = s.round_u64(f64x8::load_array(s, wide)).to_array();
    assert_eq!(found, wide.map(|x| x.round_ties_even() as u64));
}

proptest! {
    #[test]
    fn numbers_in_lanes(a in numbers(), b in numbers(), c in numbers(), bits in 0_u32..1 << WIDTH) {
        for_each_level!(s => {
            check::<_, f32x16<_>>(s, &[a, b, c], bits);
            check::<_, F64x16<_>>(s, &[a, b, c], bits);
        });
        // Patterns of vectors that are all of one kind take fewer steps.
        let narrow = a.map(|z| f64::from(z as f32));
        let wide = b.map(|z| z.clamp(-1e300, 1e300) * (1.0 + f64::EPSILON) + 0.1);
        for_each_level!(s => {
            for z in [narrow, wide] {
                assert_eq!(F64x16::load(s, &z).pattern(F64x16::hidden_one(s)).to_array(), z.map(Scalar::pattern));
            }
        });
    }

    #[test]
    fn integers_in_lanes(
        table in prop::array::uniform16(any::<u64>()),
        indices in prop::array::uniform16(any::<u64>()),
        x in prop::array::uniform16(prop_oneof![
            2 => -1.0_f64..1.0,
            2 => (-60.0_f64..0.0).prop_map(f64::exp2),
            1 => (-64_i16..64).prop_map(|half| f64::from(half) * 0.5 / (1_u64 << 56) as f64),
            1 => (-64_i16..64).prop_map(|half| f64::from(half) * 0.5 / f64::from(1 << 29)),
            1 => Just(1.0),
        ]),
    ) {
        for_each_level!(s => { check_integers(s, &table, &indices, &x); });
    }
}
