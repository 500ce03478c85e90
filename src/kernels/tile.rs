//! What is read off a tile of rows that lie side by side, one lane a row?
//!
//! Where labels are few, most lanes of a vector along a row would be empty. A tile is transposed instead,
//! label by label with a value for each of its rows ([`Column`]), and every row has a lane of its own. Sums
//! are exact, or for entropy in the order of labels, so the bits are those of the forms along a row.

use fearless_simd::{prelude::*, u32x16};

use super::entropy_sums::{RUN, joined};
use super::exact::{self, CoarseSum, Sum};
use super::scan::LaneScan;
use super::terms::Terms;
use super::{Column, Each, Float, TILE, V, half, half_mut};
use crate::math::{Grain, WIDTH, each_lane};
use crate::simd::{LINE, Lanes, RowLines, Simd, vectorize};

/// What [`Scanned`](super::Scanned) holds, of each row of a tile, and where they are wanted its sums behind
/// entropy.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct TileScan<F> {
    pub(crate) max: Each<F>,
    pub(crate) second: Each<F>,
    pub(crate) bits: Each<u32>,
    pub(crate) exponentials: Each<f64>,
    pub(crate) weighted: Each<f64>,
    /// What others make of these: see `rows::Tile`.
    pub(crate) entropies: Each<f64>,
    pub(crate) u: Each<f64>,
}

impl<F: Float> Default for TileScan<F> {
    fn default() -> Self {
        Self {
            max: [F::NEG_INFINITY; TILE],
            second: [F::NEG_INFINITY; TILE],
            bits: [0; TILE],
            exponentials: [0.0; TILE],
            weighted: [0.0; TILE],
            entropies: [0.0; TILE],
            u: [0.0; TILE],
        }
    }
}

/// A label of each row of a tile, and its logit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TileLabels<'a, F> {
    pub(crate) label: &'a Each<usize>,
    pub(crate) logit: &'a Each<F>,
}

/// What the terms of each row are relative to, and their scales.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TileTerms<'a, F> {
    pub(crate) shift: &'a Each<F>,
    pub(crate) scale: &'a Each<F>,
}

/// The lanes that have a bit.
#[inline(always)]
pub(crate) fn lanes_of(mut bits: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = bits.trailing_zeros() as usize;
        bits &= bits.wrapping_sub(1);
        (lane < TILE).then_some(lane)
    })
}

/// The logits of a column in half h of a tile.
#[inline(always)]
fn load<S: Simd, F: Float>(s: S, column: &Column<F>, h: usize) -> V<F, S> {
    V::<F, S>::load(s, half(&column.0, h))
}

/// Columns in runs of a length that the compiler knows, and the last run: loops then take a quarter less
/// time.
macro_rules! for_each_run {
    ($columns:expr, $length:expr, |$run:ident| $body:block) => {
        let (runs, last) = $columns.as_chunks::<{ $length }>();
        for $run in runs {
            $body
        }
        if !last.is_empty() {
            let $run = last;
            $body
        }
    };
}

/// Writes rows, as long as there are columns, side by side, and scans them; with the sums behind entropy if
/// they are wanted. Says whether any value is not finite. `lines` are asked for meanwhile.
///
/// Rows are scanned while they are transposed: a transposition costs moves between lanes, a scan comparisons,
/// and different parts of the processor do them.
#[inline(always)]
pub(crate) fn read_tile<S: Simd, F: Float>(
    s: S,
    rows: &Each<&[F]>,
    columns: &mut [Column<F>],
    with_entropy: bool,
    lines: RowLines,
    found: &mut TileScan<F>,
) -> bool {
    for row in rows {
        assert_eq!(row.len(), columns.len(), "rows are as long as there are columns");
    }
    vectorize!(s, {
        let mut is_poisoned = false;
        // What the rows of a half will be read from in the tiles to come.
        let bytes = WIDTH * columns.len() * size_of::<F>();
        for h in 0..TILE / WIDTH {
            let (lines, rows) = (lines.skip(h * bytes), half(rows, h));
            let mut scan = LaneScan::<F, S>::new(s);
            let of_four = 4 * WIDTH * size_of::<F>() / LINE;
            let (fours, last) = columns.as_chunks_mut::<4>();
            let whole = 4 * fours.len();
            for (i, four) in fours.iter_mut().enumerate() {
                // What will be read next only where no sums follow that leave time for it.
                for line in i * of_four..(i + 1) * of_four {
                    lines.fetch_later(line);
                    if !with_entropy {
                        lines.fetch_next(line);
                    }
                }
                let values = V::<F, S>::four_columns(s, rows, 4 * i);
                for j in 0..4 {
                    *half_mut(&mut four[j].0, h) = values[j].to_array();
                    scan.take(values[j]);
                }
            }
            if !last.is_empty() && whole > 0 {
                // The last four, of which the first were written already.
                let (n, values) = (last.len(), V::<F, S>::four_columns(s, rows, whole + last.len() - 4));
                for i in 0..n {
                    *half_mut(&mut last[i].0, h) = values[4 - n + i].to_array();
                    scan.take(values[4 - n + i]);
                }
            } else {
                for (k, column) in last.iter_mut().enumerate() {
                    let values = each_lane!([F::ZERO; WIDTH], |i| rows[i][k]);
                    *half_mut(&mut column.0, h) = values;
                    scan.take(V::<F, S>::load(s, &values));
                }
            }
            *half_mut(&mut found.max, h) = scan.max.to_array();
            *half_mut(&mut found.second, h) = scan.second.to_array();
            *half_mut(&mut found.bits, h) = scan.bits.to_array();
            is_poisoned |= scan.is_poisoned();
        }
        if with_entropy {
            // After all rows were read: what is fetched ahead may push them out of the nearest caches.
            for h in 0..TILE / WIDTH {
                entropy_sums(s, columns, h, lines.skip(h * bytes), found);
            }
        }
        is_poisoned
    })
}

/// The sums behind entropy of the rows in half h. `lines` of the next tile are asked for meanwhile.
#[inline(always)]
fn entropy_sums<S: Simd, F: Float>(
    s: S,
    columns: &[Column<F>],
    h: usize,
    lines: RowLines,
    found: &mut TileScan<F>,
) {
    let zero = V::<F, S>::splat(s, F::ZERO);
    let terms = Terms::<F, S>::new(s, F::ZERO, F::LOG2_E, F::DEEPEST)
        .relative_to(V::<F, S>::load(s, half(&found.second, h)) + zero);
    let (mut e_sums, mut d_sums, mut line) = (zero.widen(), zero.widen(), 0);
    for_each_run!(columns, RUN, |run| {
        let (mut e_run, mut d_run) = (zero, zero);
        for column in run {
            for _ in 0..size_of::<F>() / size_of::<f32>() {
                lines.fetch_next(line);
                line += 1;
            }
            let d = terms.depth(load(s, column, h));
            let e = terms.of_depth(d, F::from_f64(1.0));
            e_run = e_run + e;
            d_run = e.fma(d, d_run);
        }
        let (e, d) = (e_run.widen(), d_run.widen());
        e_sums = [e_sums[0] + e[0], e_sums[1] + e[1]];
        d_sums = [d_sums[0] + d[0], d_sums[1] + d[1]];
    });
    *half_mut(&mut found.exponentials, h) = joined(e_sums);
    *half_mut(&mut found.weighted, h) = joined(d_sums);
}

/// A bit for each row whose label, with the given logit, is alone at the top.
#[inline(always)]
pub(crate) fn are_top<S: Simd, F: Float>(s: S, logit: &Each<F>, scan: &TileScan<F>) -> u32 {
    vectorize!(s, {
        let mut bits = 0;
        for h in 0..TILE / WIDTH {
            let max = V::<F, S>::load(s, half(&scan.max, h));
            let at_top = V::<F, S>::bits(V::<F, S>::load(s, half(logit, h)).at_least(max));
            let is_alone = V::<F, S>::bits(max.greater(V::<F, S>::load(s, half(&scan.second, h))));
            bits |= (at_top & is_alone) << (h * WIDTH);
        }
        bits
    })
}

/// Labels as numbers of the computing type, which has all of them: there are few.
#[inline(always)]
fn as_numbers<S: Simd, F: Float>(s: S, labels: &Each<usize>, h: usize) -> V<F, S> {
    let labels = half(labels, h);
    V::<F, S>::load(s, &each_lane!([F::ZERO; WIDTH], |i| F::from_f64(labels[i] as f64)))
}

/// Ranks each row's label by counting across rows: its rank, and the logit ranked next. Says whether another
/// label may have its logit.
#[inline(always)]
pub(crate) fn rank_columns<S: Simd, F: Float>(
    s: S,
    columns: &[Column<F>],
    labels: &TileLabels<'_, F>,
    rank: &mut Each<usize>,
    next: &mut Each<F>,
) -> bool {
    vectorize!(s, {
        let mut ties = 0;
        let (none, one) = (V::<F, S>::splat(s, F::NEG_INFINITY), u32x16::splat(s, 1));
        for h in 0..TILE / WIDTH {
            let y = V::<F, S>::load(s, half(labels.logit, h));
            let (mut above, mut at_least) = (u32x16::splat(s, 0), u32x16::splat(s, 0));
            let mut largest = none;
            for column in columns {
                let z = load(s, column, h);
                let is_at_least = z.at_least(y);
                above += V::<F, S>::keep(z.greater(y), one);
                at_least += V::<F, S>::keep(is_at_least, one);
                largest = largest.larger(V::<F, S>::select(is_at_least, none, z));
            }
            let (before, not_after) = (above.to_array(), at_least.to_array());
            for i in 0..WIDTH {
                // Wrapping: another thread may have changed the label's logit since, and then none is like
                // it.
                ties |= not_after[i].wrapping_sub(before[i]).wrapping_sub(1);
                rank[h * WIDTH + i] = 1 + before[i] as usize;
            }
            *half_mut(next, h) = largest.to_array();
        }
        if ties != 0 {
            rank_tied(s, columns, labels, rank, next);
        }
        ties != 0
    })
}

/// [`rank_columns`] where labels may have the same logit: lower ones rank first.
#[inline(always)]
fn rank_tied<S: Simd, F: Float>(
    s: S,
    columns: &[Column<F>],
    labels: &TileLabels<'_, F>,
    rank: &mut Each<usize>,
    next: &mut Each<F>,
) {
    let none = V::<F, S>::splat(s, F::NEG_INFINITY);
    for h in 0..TILE / WIDTH {
        let (y, own) = (V::<F, S>::load(s, half(labels.logit, h)), as_numbers::<S, F>(s, labels.label, h));
        let (mut before, mut largest) = (u32x16::splat(s, 0), none);
        for (k, column) in columns.iter().enumerate() {
            let (z, k) = (load(s, column, h), V::<F, S>::splat(s, F::from_f64(k as f64)));
            let is_before = z.ranks_before(y, own.greater(k));
            // The label itself ranks neither before nor after.
            let after = V::<F, S>::select(own.greater(k), z, V::<F, S>::select(k.greater(own), z, none));
            before += V::<F, S>::keep(is_before, u32x16::splat(s, 1));
            largest = largest.larger(V::<F, S>::select(is_before, none, after));
        }
        let before = before.to_array();
        for i in 0..WIDTH {
            rank[h * WIDTH + i] = 1 + before[i] as usize;
        }
        *half_mut(next, h) = largest.to_array();
    }
}

/// Sums over the labels before each row's label, relative to the maximum, and over those after it, relative
/// to the shift, of terms in coarse quanta. `has_ties` says whether another label may have its logit.
#[inline(always)]
pub(crate) fn split_columns<S: Simd, F: Float>(
    s: S,
    columns: &[Column<F>],
    labels: &TileLabels<'_, F>,
    has_ties: bool,
    max: &Each<F>,
    tile: TileTerms<'_, F>,
    halves: [&mut Each<f64>; 2],
) {
    if has_ties {
        split_by::<true, S, F>(s, columns, labels, max, tile, halves);
    } else {
        split_by::<false, S, F>(s, columns, labels, max, tile, halves);
    }
}

#[inline(always)]
fn split_by<const TIES: bool, S: Simd, F: Float>(
    s: S,
    columns: &[Column<F>],
    labels: &TileLabels<'_, F>,
    max: &Each<F>,
    tile: TileTerms<'_, F>,
    [above, below]: [&mut Each<f64>; 2],
) {
    vectorize!(s, {
        let zero = V::<F, S>::splat(s, F::ZERO);
        for h in 0..TILE / WIDTH {
            let (y, max) =
                (V::<F, S>::load(s, half(labels.logit, h)), V::<F, S>::load(s, half(max, h)) + zero);
            let own = if TIES { as_numbers::<S, F>(s, labels.label, h) } else { zero };
            let terms = Terms::<F, S>::of_tile(s, tile.shift, tile.scale, Grain::Coarse.deepest(), h);
            let (mut uppers, mut all) = (F::Coarse::<S>::new(s), F::Coarse::<S>::new(s));
            let mut k = zero;
            for_each_run!(columns, exact::RUN, |run| {
                for column in run {
                    let z = load(s, column, h);
                    let is_above = if TIES { z.ranks_before(y, own.greater(k)) } else { z.greater(y) };
                    let term = terms.parted(z, is_above, max, F::Coarse::<S>::UNIT);
                    all.add(term);
                    uppers.add_where(term, is_above);
                    if TIES {
                        k = k + V::<F, S>::splat(s, F::from_f64(1.0));
                    }
                }
                all.settle();
                uppers.settle();
            });
            // Wrapping, here and below: another thread may change the rows after they were written side by
            // side.
            let (before, not_before, own) = (uppers.words(), all.words(), own_words(s, &terms, y));
            let after = [0, 1].map(|i| not_before[i] - before[i] - own[i]);
            *half_mut(above, h) = joined(F::Coarse::<S>::to_f64(before));
            *half_mut(below, h) = joined(F::Coarse::<S>::to_f64(after));
        }
    });
}

/// The terms of the labels themselves, in coarse quanta.
#[inline(always)]
fn own_words<S: Simd, F: Float>(s: S, terms: &Terms<F, S>, y: V<F, S>) -> [fearless_simd::u64x8<S>; 2] {
    let mut own = F::Coarse::<S>::new(s);
    own.add(terms.of(y, F::Coarse::<S>::UNIT));
    own.settle();
    own.words()
}

/// Sums over all labels but each row's own, in quanta.
#[inline(always)]
pub(crate) fn sum_columns<S: Simd, F: Float>(
    s: S,
    columns: &[Column<F>],
    logit: &Each<F>,
    tile: TileTerms<'_, F>,
    quanta: &mut Each<u64>,
    sums: &mut Each<f64>,
) {
    vectorize!(s, {
        for h in 0..TILE / WIDTH {
            let terms = Terms::<F, S>::of_tile(s, tile.shift, tile.scale, Grain::Coarse.deepest(), h);
            let mut all = F::Coarse::<S>::new(s);
            for_each_run!(columns, exact::RUN, |run| {
                for column in run {
                    all.add(terms.of(load(s, column, h), F::Coarse::<S>::UNIT));
                }
                all.settle();
            });
            let (all, own) = (all.words(), own_words(s, &terms, V::<F, S>::load(s, half(logit, h))));
            let words = [all[0] - own[0], all[1] - own[1]];
            let (eights, _) = half_mut(quanta, h).as_chunks_mut::<8>();
            for i in 0..2 {
                eights[i] = words[i].to_array();
            }
            *half_mut(sums, h) = joined(F::Coarse::<S>::to_f64(words));
        }
    });
}

/// Labels of each row: the first with its largest logit, and the first and the second of those whose logits
/// are at least the second largest.
#[inline(always)]
pub(crate) fn first_labels<S: Simd, F: Float>(
    s: S,
    columns: &[Column<F>],
    scan: &TileScan<F>,
) -> [Each<u32>; 3] {
    vectorize!(s, {
        let mut found = [[0; TILE]; 3];
        for h in 0..TILE / WIDTH {
            let max = V::<F, S>::load(s, half(&scan.max, h));
            let second = V::<F, S>::load(s, half(&scan.second, h));
            let none = V::<F, S>::splat(s, F::ZERO);
            let (mut top, mut first, mut next) = (none, none, none);
            // From the last label on, so that the first ones stay.
            for (k, column) in columns.iter().enumerate().rev() {
                let (z, label) = (load(s, column, h), V::<F, S>::splat(s, F::from_f64(k as f64)));
                top = V::<F, S>::select(z.at_least(max), label, top);
                let is_high = z.at_least(second);
                next = V::<F, S>::select(is_high, first, next);
                first = V::<F, S>::select(is_high, label, first);
            }
            for (labels, found) in [top, first, next].into_iter().zip(&mut found) {
                let labels = labels.to_array();
                *half_mut(found, h) = each_lane!([0; WIDTH], |i| labels[i].to_f64() as u32);
            }
        }
        found
    })
}

/// The sums over all columns of the terms relative to `max`, in float64, label by label.
#[inline(always)]
pub(crate) fn total_terms<S: Simd, F: Float>(
    s: S,
    columns: &[Column<F>],
    max: &Each<F>,
    scale: &Each<F>,
    totals: &mut Each<f64>,
) {
    vectorize!(s, {
        for h in 0..TILE / WIDTH {
            let terms = Terms::<F, S>::of_tile(s, max, scale, F::DEEPEST, h);
            let mut sums = V::<F, S>::splat(s, F::ZERO).widen();
            for column in columns {
                let term = terms.of(load(s, column, h), F::from_f64(1.0)).widen();
                sums = [sums[0] + term[0], sums[1] + term[1]];
            }
            *half_mut(totals, h) = joined(sums);
        }
    });
}
