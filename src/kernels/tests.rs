//! Every kernel at every level of this machine, held to the definition of what it computes.

use proptest::prelude::*;

use super::entropy_sums::RUN;
use super::labels::MOST_COMPARED;
use super::*;
use crate::math::{Depths, Grain, quanta, term};
use crate::simd::{ColumnsAhead, NoLines, RowLines, for_each_level};

/// Labels of random rows at most: more than a vector, a run or a sample of them. Miri is slow.
const MOST: usize = if cfg!(miri) { 20 } else { 600 };

/// Ordinary logits, ties, and logits that are hard to compute with.
fn logit() -> impl Strategy<Value = f64> {
    let odd = [0.0, -0.0, f64::NEG_INFINITY, 1e-40, -1e-310, 1e38, -1e38, 1e300, f64::MIN];
    prop_oneof![
        40 => -40.0_f64..40.0,
        8 => (-4_i16..4).prop_map(f64::from),
        1 => prop::sample::select(odd.to_vec()),
    ]
}

/// Rows of few and of many labels: any, those of float32, and rows whose vectors mostly add nothing to a sum.
fn row() -> impl Strategy<Value = Vec<f64>> {
    let any = prop_oneof![prop::collection::vec(logit(), 0..40), prop::collection::vec(logit(), 0..MOST)];
    (any, 0..3).prop_map(|(mut row, kind)| {
        for (i, z) in row.iter_mut().enumerate() {
            *z = match kind {
                1 => f64::from(*z as f32),
                2 if i % 97 > 0 => *z - 1e4,
                _ => *z,
            };
        }
        row
    })
}

/// Scales, of which 0 and infinity stand for the smallest and the largest.
fn scale() -> impl Strategy<Value = f64> {
    prop_oneof![8 => 0.01_f64..100.0, 1 => Just(0.0), 1 => Just(f64::INFINITY)]
}

fn scale_of<F: Float>(scale: f64) -> F {
    F::from_f64(scale).larger(F::SMALLEST_SCALE).smaller(F::MAX)
}

/// Logits of a type: the finite ones stay finite.
fn row_of<F: Float>(row: &[f64]) -> Vec<F> {
    let nearest = |z: f64| F::from_f64(z).smaller(F::MAX).larger(F::ZERO - F::MAX);
    row.iter().map(|&z| if z.is_finite() { nearest(z) } else { F::from_f64(z) }).collect()
}

fn is_finite<F: Float>(z: &F) -> bool {
    z.to_f64().is_finite()
}

/// The exact sum of terms.
fn sum_of<F: Float>(row: impl IntoIterator<Item = F>, shift: F, scale: F, grain: Grain) -> i128 {
    row.into_iter().map(|z| quanta(z, shift, scale, grain)).sum()
}

/// The labels with logits of at least a floor by rank: by falling logit, then by rising label.
fn by_rank<F: Float>(row: &[F], floor: F) -> Vec<u32> {
    let mut labels: Vec<u32> = (0..row.len() as u32).filter(|&i| row[i as usize] >= floor).collect();
    labels.sort_by(|&a, &b| row[b as usize].partial_cmp(&row[a as usize]).unwrap());
    labels
}

/// The two largest logits.
fn top_two<F: Float>(row: &[F]) -> [F; 2] {
    let ranked = by_rank(row, F::NEG_INFINITY);
    [0, 1].map(|i| ranked.get(i).map_or(F::NEG_INFINITY, |&label| row[label as usize]))
}

/// How many labels rank before a label, and the logit ranked next.
fn place_of<F: Float>(row: &[F], label: usize) -> (usize, F) {
    let ranked = by_rank(row, F::NEG_INFINITY);
    let before = ranked.iter().position(|&ranked| ranked as usize == label).unwrap();
    (before, ranked.get(before + 1).map_or(F::NEG_INFINITY, |&label| row[label as usize]))
}

/// The sums behind entropy: label i in lane `i % 16`, or all in one where there are few, in runs of sixteen.
fn entropy_sums_of<F: Float>(row: &[F], shift: F) -> (f64, f64) {
    let n_lanes = if row.len() <= MOST_SIDE_BY_SIDE { 1 } else { WIDTH };
    let (depths, mut e_sums, mut d_sums) = (Depths::new(F::LOG2_E), [0.0; WIDTH], [0.0; WIDTH]);
    for run in row.chunks(RUN * n_lanes) {
        for lane in 0..n_lanes {
            let (mut e_run, mut d_run) = (F::ZERO, F::ZERO);
            for &z in run.iter().skip(lane).step_by(n_lanes) {
                let (d, e) = (depths.of(z, shift), depths.term(z, shift));
                e_run = e_run + e;
                d_run = e.mul_add(d, d_run);
            }
            e_sums[lane] += e_run.to_f64();
            d_sums[lane] += d_run.to_f64();
        }
    }
    (in_halves(e_sums), in_halves(d_sums))
}

/// All kernels along a row, but those of [`check_labels`].
fn check_row<S: Simd, F: Float>(s: S, row: &[F], [y, max, shift]: [F; 3], scale: F) {
    let lines = RowLines { next: row.as_ptr().cast(), later: row.as_ptr().cast() };
    let (all, [top, second]) = (|| row.iter().copied(), top_two(row));
    let bits = all().fold(0_u32, |sum, z| sum.wrapping_add(z.pattern()));
    let scanned = Scanned { max: top, second, bits, is_poisoned: !row.iter().all(is_finite) };
    assert_eq!(scan(s, row), scanned);
    assert_eq!(entropy_sums(s, row, second, lines), entropy_sums_of(row, second));
    let square = |z| term(z, second, F::LOG2_E) * term(z, second, F::LOG2_E);
    let total = all().map(|z| F::quanta(square(z), Grain::Fine)).sum();
    assert_eq!(squares(s, row, second), F::sum_to_f64(total));

    let (low, high) = (|z: &F| *z < y, |z: &F| *z > y);
    for grain in [Grain::Fine, Grain::Coarse] {
        assert_eq!(sum(s, row, shift, scale, grain, lines), sum_of(all(), shift, scale, grain));
        let above = sum_of(all().filter(|z| !low(z)), max, scale, grain);
        let below = sum_of(all().filter(low), shift, scale, grain);
        assert_eq!(split::<true, S, F>(s, row, y, [max, shift], scale, grain), (above, below));
        let above = sum_of(all().filter(high), max, scale, grain);
        let below = sum_of(all().filter(|z| !high(z)), shift, scale, grain);
        assert_eq!(split::<false, S, F>(s, row, y, [max, shift], scale, grain), (above, below));
        let few = each_of(|i| row.get(i).copied().unwrap_or(F::NEG_INFINITY));
        let sums = [max, shift].map(|shift| sum_of(few, shift, scale, grain));
        assert_eq!(sums_of_few(s, &few, [max, shift], scale, grain), sums);
    }
    let (few, mut terms) = (&row[..row.len().min(FEW_TERMS)], Vec::new());
    let total = few_terms(s, few, shift, scale, &mut terms);
    assert_eq!(total, sum_of(few.iter().copied(), shift, scale, Grain::Fine));
    assert_eq!(terms, few.iter().map(|&z| term(z, shift, scale)).collect::<Vec<_>>());

    for y in [y, F::NEG_INFINITY] {
        let largest = |z: &mut dyn Iterator<Item = F>| z.fold(F::NEG_INFINITY, F::larger);
        let found = (all().filter(|z| *z >= y).count(), largest(&mut all().filter(|z| *z < y)));
        assert_eq!(count_before::<true, S, F>(s, row, y), found);
        let found = (all().filter(|z| *z > y).count(), largest(&mut all().filter(|z| *z <= y)));
        assert_eq!(count_before::<false, S, F>(s, row, y), found);
    }
}

/// An array of any length.
fn each_of<T, const N: usize>(value: impl FnMut(usize) -> T) -> [T; N] {
    std::array::from_fn(value)
}

/// The kernels that take and rank the labels of a row; it has one of at least the floor. `share` is of the
/// row's mass.
fn check_labels<S: Simd, F: Float>(s: S, row: &[F], floor: F, scale: F, share: f64) {
    let [max, _] = top_two(row);
    let (expected, grain) = (by_rank(row, floor), Grain::Fine);
    let logits = |labels: &[u32]| labels.iter().map(|&i| row[i as usize]).collect::<Vec<F>>();
    let total = sum_of(row.iter().copied(), max, scale, grain);
    let wanted = MassWanted { mass: F::from_f64(share * F::sum_to_f64(total)), max, scale };
    let mut to = LabelBuffer::default();
    to.make_room(row.len()).unwrap();
    for wanted in [None, Some(&wanted)] {
        take_labels(s, row, floor, wanted, &mut to);
        while to.ranked < to.taken {
            let before = to.ranked;
            if !rank_labels(s, &mut to) {
                break;
            }
            assert!(to.ranked > before);
        }
        // What was not ranked is there, and ranks after the others.
        let (found, mut rest) = (&to.ranked_labels[..to.ranked], to.labels[to.ranked..to.taken].to_vec());
        assert_eq!(found, &expected[..to.ranked]);
        assert_eq!(to.ranked_logits[..to.ranked], logits(found));
        rest.sort_unstable();
        let mut after = expected[to.ranked..to.taken].to_vec();
        after.sort_unstable();
        assert_eq!(rest, after);
        let mass = F::sum_to_f64(sum_of(logits(&expected[..to.taken]), max, scale, grain));
        let holds = wanted.is_some_and(|wanted| mass >= wanted.mass.to_f64() * (1.0 - 1e-5));
        assert!(to.taken == expected.len() || (holds && to.taken > 0));
    }
    let (limit, mut seen) = ((share * total as f64) as i128, 0);
    let own = logits(&expected).into_iter().map(|z| quanta(z, max, scale, grain));
    let first: Vec<i128> = own.take_while(|own| (seen += own, seen <= limit).1).collect();
    assert_eq!(leading(s, &logits(&expected), max, scale, limit), (first.len(), first.iter().sum()));
}

/// All kernels of a tile of rows.
fn check_tile<S: Simd, F: Float>(s: S, data: &[F], k: usize, scale: F) {
    let rows: Each<&[F]> = each_of(|i| &data[i * k..][..k]);
    let label: Each<usize> = each_of(|i| (i * 7) % k);
    let logit: Each<F> = each_of(|i| rows[i][label[i]]);
    let labels = TileLabels { label: &label, logit: &logit };
    let lines = RowLines { next: data.as_ptr().cast(), later: data.as_ptr().cast() };
    let (mut columns, mut scanned) = (vec![Column([F::ZERO; TILE]); k], TileScan::default());
    let is_poisoned = !data[..TILE * k].iter().all(is_finite);
    assert_eq!(read_tile(s, &rows, &mut columns, false, lines, &mut TileScan::default()), is_poisoned);
    assert_eq!(read_tile(s, &rows, &mut columns, true, lines, &mut scanned), is_poisoned);

    let (max, scales) = (scanned.max, [scale; TILE]);
    let at_max = TileTerms { shift: &max, scale: &scales };
    let at_second = TileTerms { shift: &scanned.second, scale: &scales };
    let (mut rank, mut next) = ([0; TILE], [F::ZERO; TILE]);
    let has_ties = rank_columns(s, &columns, &labels, &mut rank, &mut next);
    let (mut above, mut below) = ([0.0; TILE], [0.0; TILE]);
    split_columns(s, &columns, &labels, has_ties, &max, at_second, [&mut above, &mut below]);
    let (mut others, mut sums, mut totals) = ([0; TILE], [0.0; TILE], [0.0; TILE]);
    sum_columns(s, &columns, &logit, at_max, &mut others, &mut sums);
    total_terms(s, &columns, &max, &scales, &mut totals);
    let (first, at_top) = (first_labels(s, &columns, &scanned), are_top(s, &logit, &scanned));
    let own = [Grain::Fine, Grain::Coarse].map(|grain| own_quanta(s, &logit, at_second, grain));
    let (mut ranks, mut nexts, mut few) = ([0; TILE], [F::ZERO; TILE], [[F::ZERO; FEW_BEFORE]; TILE]);
    let found = RanksFound { rank: &mut ranks, next: &mut nexts, before: &mut few };
    let left = rank_few(s, &rows, &label, u32::MAX, found);

    let is_tied = |i: usize| rows[i].iter().filter(|&&z| z == logit[i]).count() > 1;
    assert_eq!(has_ties, (0..TILE).any(is_tied));
    for (i, row) in rows.iter().enumerate() {
        assert!((0..k).all(|j| columns[j].0[i] == row[j]));
        assert_eq!([max[i], scanned.second[i]], top_two(row));
        assert_eq!(scanned.bits[i], row.iter().fold(0_u32, |sum, z| sum.wrapping_add(z.pattern())));
        let entropy_sums = entropy_sums_of(row, scanned.second[i]);
        assert_eq!((scanned.exponentials[i], scanned.weighted[i]), entropy_sums);
        let (before, after) = place_of(row, label[i]);
        assert_eq!((rank[i], next[i]), (1 + before, after));
        assert_eq!(left >> i & 1 == 1, is_tied(i) || before > FEW_BEFORE);
        if left >> i & 1 == 0 {
            let mut higher = row.iter().copied().filter(|&z| z > logit[i]);
            let higher = each_of(|_| higher.next().unwrap_or(F::NEG_INFINITY));
            assert_eq!((ranks[i], nexts[i], few[i]), (1 + before, after, higher));
        }
        let at_least = |bound| (0..k as u32).filter(move |&j| row[j as usize] >= bound);
        let (top, mut high) = (at_least(max[i]).next(), at_least(scanned.second[i]));
        let expected = [top, high.next(), high.next()].map(Option::unwrap_or_default);
        assert_eq!(first.map(|labels| labels[i]), expected);
        assert_eq!(at_top >> i & 1 == 1, logit[i] == max[i] && max[i] > scanned.second[i]);

        let total: f64 = row.iter().map(|&z| term(z, max[i], scale).to_f64()).sum();
        assert_eq!(totals[i], total);
        for (own, grain) in own.iter().zip([Grain::Fine, Grain::Coarse]) {
            assert_eq!(own[i], quanta(logit[i], scanned.second[i], scale, grain));
        }
        let ranked = by_rank(row, F::NEG_INFINITY);
        let coarse = |labels: &[u32], shift| {
            sum_of(labels.iter().map(|&j| row[j as usize]), shift, scale, Grain::Coarse)
        };
        let sum = coarse(&ranked, max[i]) - quanta(logit[i], max[i], scale, Grain::Coarse);
        assert_eq!((i128::from(others[i]) << F::COARSE_BITS, sums[i]), (sum, F::sum_to_f64(sum)));
        let (is_before, is_after) = (&ranked[..before], &ranked[before + 1..]);
        assert_eq!(above[i], F::sum_to_f64(coarse(is_before, max[i])));
        assert_eq!(below[i], F::sum_to_f64(coarse(is_after, scanned.second[i])));
    }
    for count in [1, 17, TILE] {
        let (mut back, side) = (vec![F::ZERO; count * k], TILE - 3);
        for first in (0..k).step_by(side) {
            let square = Square::of(&columns[first..k.min(first + side)], count);
            let lines = ColumnsAhead::new(std::ptr::null(), 0, 1, 0).step(0, 1, 0);
            write_rows(s, &square, first, k, lines, &mut back);
        }
        assert_eq!(back, data[..count * k]);
    }
}

fn check_rows_of<F: Float>(row: &[f64], ends: [f64; 3], scale: f64) {
    let (row, scale): (Vec<F>, F) = (row_of(row), scale_of(scale));
    for_each_level!(s => { check_row(s, &row, ends.map(F::from_f64), scale); });
}

fn check_labels_of<F: Float>(row: &[f64], floor: f64, scale: f64, share: f64) {
    let (row, floor) = (row_of(row), F::from_f64(floor).larger(F::ZERO - F::MAX));
    for_each_level!(s => { check_labels::<_, F>(s, &row, floor, scale_of(scale), share); });
}

fn check_tiles_of<F: Float>(data: &[f64], k: usize, scale: f64) {
    let (data, scale): (Vec<F>, F) = (row_of(data), scale_of(scale));
    for_each_level!(s => { check_tile(s, &data, k, scale); });
}

proptest! {
    #[test]
    fn rows(row in row(), ends in [-5.0_f64..5.0, -5.0_f64..50.0, -5.0_f64..10.0], scale in scale(), is_zero in any::<bool>()) {
        let ends = if is_zero { [0.0, -0.0, -0.0] } else { ends };
        check_rows_of::<f32>(&row, ends, scale);
        check_rows_of::<f64>(&row, ends, scale);
    }

    #[test]
    fn labels_of_rows(
        mut row in row(),
        floor in prop_oneof![Just(f64::NEG_INFINITY), -12.0_f64..0.25],
        scale in prop_oneof![4 => scale(), 1 => 1e3_f64..1e30],
        share in -0.5_f64..1.2,
    ) {
        row.push(0.25);
        check_labels_of::<f32>(&row, floor, scale, share);
        check_labels_of::<f64>(&row, floor, scale, share);
    }

    #[test]
    fn tiles(
        mut data in prop::collection::vec(logit(), if cfg!(miri) { 5 } else { 40 } * TILE),
        k in 1_usize..=if cfg!(miri) { 5 } else { 40 },
        scale in scale(),
        has_ties in any::<bool>(),
    ) {
        if !has_ties {
            (0..data.len()).for_each(|i| data[i] += i as f64 * 1e-3);
        }
        check_tiles_of::<f32>(&data, k, scale);
        check_tiles_of::<f64>(&data, k, scale);
    }

    #[test]
    fn what_is_no_logit_is_seen_and_adds_nothing(row in prop::collection::vec(-40.0_f64..40.0, 1..40), at in 0_usize..40 * TILE) {
        fn check<F: Float>(row: &[f64], at: usize, bad: f64) {
            let (mut row, k, bad) = (row_of::<F>(row), row.len(), F::from_f64(bad));
            let mut data = row.repeat(TILE);
            (row[at % k], data[at % (k * TILE)]) = (bad, bad);
            let (rows, lines) = (each_of(|i| &data[i * k..][..k]), RowLines { next: std::ptr::null(), later: std::ptr::null() });
            let mut columns = vec![Column([F::ZERO; TILE]); k];
            let one = F::from_f64(1.0);
            for_each_level!(s => {
                assert!(scan(s, &row).is_poisoned);
                assert!(read_tile(s, &rows, &mut columns, true, lines, &mut TileScan::default()));
                let expected = sum_of(row.iter().copied(), one, one, Grain::Fine);
                assert_eq!(sum(s, &row, one, one, Grain::Fine, NoLines), expected);
            });
        }
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            check::<f32>(&row, at, bad);
            check::<f64>(&row, at, bad);
        }
    }

    /// And sums are those of exponentials.
    #[test]
    fn order_does_not_exist(row in prop::collection::vec(-40.0_f64..40.0, 1..MOST), scale in 0.01_f64..30.0) {
        fn check<F: Float>(row: &[f64], scale: f64) {
            let (row, scale) = (row_of::<F>(row), F::from_f64(scale));
            let ([max, _], reversed) = (top_two(&row), row.iter().rev().copied().collect::<Vec<F>>());
            let float: f64 = row.iter().map(|z| ((*z - max) * scale).to_f64().exp2()).sum();
            for grain in [Grain::Fine, Grain::Coarse] {
                for_each_level!(s => {
                    let found = sum(s, &row, max, scale, grain, NoLines);
                    assert_eq!(found, sum(s, &reversed, max, scale, grain, NoLines));
                    assert!((F::sum_to_f64(found) / float - 1.0).abs() < 3e-6);
                });
            }
        }
        check::<f32>(&row, scale);
        check::<f64>(&row, scale);
    }
}

/// Every pivot is the third largest logit that is left.
fn worst_row(n: usize) -> Vec<f64> {
    let (mut row, mut left) = (vec![-1.0; n], (0..n).collect::<Vec<_>>());
    let mut next = n as f64;
    while left.len() > MOST_COMPARED {
        let step = left.len() / 5;
        let places = [2, 1, 0].map(|i| step / 2 + i * step);
        for place in places {
            row[left.remove(place)] = next;
            next -= 1.0;
        }
    }
    row
}

#[test]
fn rows_in_any_order_are_ranked() {
    let n = if cfg!(miri) { 200_usize } else { 2000 };
    let rising: Vec<f64> = (0..n).map(|i| i as f64).collect();
    let falling: Vec<f64> = rising.iter().rev().copied().collect();
    let pipes: Vec<f64> = (0..n).map(|i| (n / 2).abs_diff(i) as f64).collect();
    let saw: Vec<f64> = (0..n).map(|i| (i % 7) as f64).collect();
    for row in [rising, falling, pipes, saw, vec![1.5; n], worst_row(n)] {
        check_labels_of::<f32>(&row, f64::NEG_INFINITY, 0.01, 0.5);
        check_labels_of::<f64>(&row, f64::NEG_INFINITY, 0.01, 0.5);
    }
}

/// Twice as long as a lane holds, of terms whose lower parts are the largest there are, up or down.
#[test]
fn long_rows_do_not_overflow_a_lane() {
    fn check<F: Float>(most: usize) {
        let n = 2 * WIDTH * most + 7;
        for (z, scale) in [(1.5, 1.0), (1.499_999_9, 1.0), (1.499_999_8, 0.7), (0.9, 1.3)] {
            let [z, scale, shift, low] = [z, scale, 1.5, 0.5].map(F::from_f64);
            let (row, e) = (vec![z; n], term(z, shift, F::LOG2_E));
            for_each_level!(s => {
                for grain in [Grain::Fine, Grain::Coarse] {
                    let expected = n as i128 * quanta(z, shift, scale, grain);
                    assert_eq!(sum(s, &row, shift, scale, grain, NoLines), expected);
                    let above = split::<true, _, F>(s, &row, low, [shift, shift], scale, grain);
                    let below = split::<false, _, F>(s, &row, shift, [shift, shift], scale, grain);
                    assert_eq!((above, below), ((expected, 0), (0, expected)));
                }
                let expected = F::sum_to_f64(n as i128 * F::quanta(e * e, Grain::Fine));
                assert_eq!(squares(s, &row, shift), expected);
            });
        }
    }
    check::<f32>(504);
    check::<f64>(4096);
}
