//! What is read off a tile of rows that lie side by side, one lane a row?
//!
//! Where labels are few, most lanes of a vector along a row would be empty. A tile is transposed instead, label by label
//! with a value for each of its rows ([`Column`]), and every row has a lane of its own. Sums are exact, or for entropy in
//! the order of labels, so the bits are those of the forms along a row.
#![allow(unsafe_code, reason = "vector loads and instructions of features that were detected")]

#[cfg(target_arch = "x86_64")]
use crate::math::{COARSE, COARSE_BITS, WIDTH, deepest};
use crate::math::{Depths, Grain, Scalar, WordSums, each_lane, words};
#[cfg(target_arch = "x86_64")]
use crate::simd::{ColumnsAhead, RowLines, Vector};

use super::entropy_sums::RUN;
use super::{Column, Each, TILE};
#[cfg(target_arch = "x86_64")]
use super::{
    coarse_sums::{self, COARSE_RUN},
    scan::LaneScan,
    terms::{depth, exp2, exp2_to_round, hidden_one},
};

/// What [`Scanned`](super::Scanned) holds, of each row of a tile, and where they are wanted its sums behind entropy.
#[derive(Debug)]
#[repr(align(64))]
pub struct TileScan<F> {
    pub(crate) max: Each<F>,
    pub(crate) second: Each<F>,
    pub(crate) bits: Each<u32>,
    pub(crate) exponentials: Each<f64>,
    pub(crate) weighted: Each<f64>,
    /// What others make of these: see `rows::Tile`.
    pub(crate) entropies: Each<f64>,
    pub(crate) u: Each<f64>,
}

impl<F: Scalar> Default for TileScan<F> {
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
pub struct TileLabels<'a, F> {
    pub(crate) label: &'a Each<usize>,
    pub(crate) logit: &'a Each<F>,
}

/// What the terms of each row are relative to, and their scales.
#[derive(Clone, Copy, Debug)]
pub struct TileTerms<'a, F> {
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

/// Writes rows side by side and scans them, with the sums behind entropy if they are wanted. Says whether any value is not
/// finite.
#[inline(always)]
pub(super) fn read_portable<F: Scalar>(
    rows: &Each<&[F]>,
    columns: &mut [Column<F>],
    with_entropy: bool,
    scan: &mut TileScan<F>,
) -> bool {
    for (lane, row) in rows.iter().enumerate() {
        for (column, &z) in columns.iter_mut().zip(*row) {
            column.0[lane] = z;
        }
    }
    (scan.max, scan.second) = ([F::NEG_INFINITY; TILE], [F::NEG_INFINITY; TILE]);
    scan.bits = [0; TILE];
    let mut poison = [F::ZERO; TILE];
    for column in &*columns {
        for lane in 0..TILE {
            let z = column.0[lane];
            poison[lane] = poison[lane] + z * F::ZERO; // NaN from NaN and infinities on
            scan.second[lane] = scan.second[lane].larger(scan.max[lane].smaller(z));
            scan.max[lane] = scan.max[lane].larger(z);
            scan.bits[lane] = scan.bits[lane].wrapping_add(z.pattern());
        }
    }
    if with_entropy {
        entropy_sums_portable(columns, scan);
    }
    poison.iter().any(|p| *p != F::ZERO)
}

/// The sums behind entropy of each row, from the columns.
#[inline(always)]
fn entropy_sums_portable<F: Scalar>(columns: &[Column<F>], scan: &mut TileScan<F>) {
    (scan.exponentials, scan.weighted) = ([0.0; TILE], [0.0; TILE]);
    let depths = Depths::new(F::LOG2_E);
    for run in columns.chunks(RUN) {
        let (mut e_run, mut d_run) = ([F::ZERO; TILE], [F::ZERO; TILE]);
        for column in run {
            for lane in 0..TILE {
                let d = depths.of(column.0[lane], scan.second[lane]);
                let e = F::exp2(d, F::LOG2_E);
                e_run[lane] = e_run[lane] + e;
                d_run[lane] = e.mul_add(d, d_run[lane]);
            }
        }
        for lane in 0..TILE {
            scan.exponentials[lane] += e_run[lane].to_f64();
            scan.weighted[lane] += d_run[lane].to_f64();
        }
    }
}

/// A bit for each row whose label, with the given logit, is alone at the top.
#[inline(always)]
pub(super) fn are_top_portable<F: Scalar>(logit: &Each<F>, scan: &TileScan<F>) -> u32 {
    let mut bits = 0;
    for i in 0..TILE {
        let is_top = (logit[i] == scan.max[i]) & (scan.second[i] < scan.max[i]);
        bits |= u32::from(is_top) << i;
    }
    bits
}

/// Whether label k with logit z ranks before the label with logit y.
#[inline(always)]
fn is_before<F: Scalar>(z: F, y: F, k: u32, label: u32) -> bool {
    (z > y) | ((z == y) & (k < label))
}

/// The rank of each row's label, and the logit ranked next. Says that another label may have its logit, as it does not look.
#[inline(always)]
pub(super) fn rank_portable<F: Scalar>(
    columns: &[Column<F>],
    labels: &TileLabels<'_, F>,
    rank: &mut Each<usize>,
    next: &mut Each<F>,
) -> bool {
    let label = each_lane!([0; TILE], |i| labels.label[i] as u32);
    let mut before = [0_u32; TILE];
    *next = [F::NEG_INFINITY; TILE];
    for (k, column) in (0_u32..).zip(columns) {
        for lane in 0..TILE {
            let z = column.0[lane];
            let is_before = is_before(z, labels.logit[lane], k, label[lane]);
            before[lane] += u32::from(is_before);
            let z = if is_before | (k == label[lane]) { F::NEG_INFINITY } else { z };
            next[lane] = next[lane].larger(z);
        }
    }
    *rank = each_lane!([1; TILE], |i| 1 + before[i] as usize);
    true
}

/// Sums over the labels before each row's label, relative to the maximum, and over those after it, relative to `shift`.
#[inline(always)]
pub(super) fn split_portable<F: Scalar>(
    columns: &[Column<F>],
    labels: &TileLabels<'_, F>,
    max: &Each<F>,
    TileTerms { shift, scale }: TileTerms<'_, F>,
    [above, below]: [&mut Each<f64>; 2],
) {
    let depths = each_lane!([Depths::new(F::LOG2_E); TILE], |i| Depths::new(scale[i]));
    let label = each_lane!([0; TILE], |i| labels.label[i] as u32);
    let (mut upper, mut all) = (WordSums::<TILE>::EMPTY, WordSums::<TILE>::EMPTY);
    for (k, column) in (0_u32..).zip(columns) {
        let (mut terms, mut is_above) = ([F::ZERO; TILE], [false; TILE]);
        for lane in 0..TILE {
            is_above[lane] = is_before(column.0[lane], labels.logit[lane], k, label[lane]);
            let reference = if is_above[lane] { max[lane] } else { shift[lane] };
            terms[lane] = depths[lane].term(column.0[lane], reference);
        }
        for lane in 0..TILE {
            let words = words(terms[lane], Grain::Coarse);
            upper.add_words(lane, words, is_above[lane]);
            all.add_words(lane, words, true);
        }
    }
    for i in 0..TILE {
        // The label itself was counted among the others.
        let own = words(depths[i].term(labels.logit[i], shift[i]), Grain::Coarse);
        let before = upper.words::<F>(i, 0);
        above[i] = F::words_to_f64(before);
        below[i] = F::words_to_f64(minus(minus(all.words::<F>(i, 0), before), own));
    }
}

/// Sums over all labels but each row's own, in words.
#[inline(always)]
pub(super) fn sum_portable<F: Scalar>(
    columns: &[Column<F>],
    logit: &Each<F>,
    TileTerms { shift, scale }: TileTerms<'_, F>,
    sums: &mut WordSums<TILE>,
) {
    let depths = each_lane!([Depths::new(F::LOG2_E); TILE], |i| Depths::new(scale[i]));
    let mut all = WordSums::<TILE>::EMPTY;
    for column in columns {
        let terms = each_lane!([F::ZERO; TILE], |lane| depths[lane].term(column.0[lane], shift[lane]));
        for lane in 0..TILE {
            all.add_words(lane, words(terms[lane], Grain::Coarse), true);
        }
    }
    for i in 0..TILE {
        let own = words(depths[i].term(logit[i], shift[i]), Grain::Coarse);
        (sums.high[i], sums.low[i]) = minus(all.words::<F>(i, 0), own);
    }
}

/// The difference of two sums of words.
#[inline(always)]
pub(crate) fn minus(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    (a.0.wrapping_sub(b.0), a.1.wrapping_sub(b.1))
}

/// Columns in runs of which a 32-bit lane holds the sum. Written twice, so that loops over whole runs have a length
/// that the compiler knows: they take a quarter less time.
#[cfg(target_arch = "x86_64")]
macro_rules! for_each_run {
    ($columns:expr, |$run:ident| $body:block) => {
        let (runs, last) = $columns.as_chunks::<COARSE_RUN>();
        for $run in runs {
            $body
        }
        if !last.is_empty() {
            let $run = last;
            $body
        }
    };
}

/// [`read_portable`] over vectors. Rows are scanned while they are transposed: a transposition costs moves between lanes,
/// a scan comparisons, and different parts of the processor do them.
///
/// # Safety
/// The instruction set of V must be available.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn read_vectors<V: Vector>(
    rows: &Each<&[f32]>,
    columns: &mut [Column<f32>],
    with_entropy: bool,
    lines: RowLines,
    found: &mut TileScan<f32>,
) -> bool {
    for row in rows {
        assert_eq!(row.len(), columns.len(), "rows are as long as there are columns");
    }
    let mut poisoned = false;
    for lane in (0..TILE).step_by(V::LANES) {
        // SAFETY: `lane + V::LANES` is at most TILE, which a column has. Rows are as long as there are columns: four
        // values are read of each from `4 i` and from `whole + n - 4` on, both ending inside, or as many as there are.
        // The caller vouches for the instruction set.
        unsafe {
            let mut scan = LaneScan::<V>::new();
            // What the rows of these lanes will be read from in the tiles to come.
            let lines = lines.skip(lane * columns.len() * size_of::<f32>());
            let (fours, last) = columns.as_chunks_mut::<4>();
            let (whole, part) = (4 * fours.len(), &rows[lane..lane + V::LANES]);
            for (i, four) in fours.iter_mut().enumerate() {
                // What will be read next only where no sums follow that leave time for it.
                for line in 4 * i * V::LANES / WIDTH..4 * (i + 1) * V::LANES / WIDTH {
                    lines.fetch_later(line);
                    if !with_entropy {
                        lines.fetch_next(line);
                    }
                }
                for (column, values) in four.iter_mut().zip(V::four_columns(part, 4 * i)) {
                    values.store(column.0.as_mut_ptr().add(lane));
                    scan.take(values);
                }
            }
            if !last.is_empty() && whole > 0 {
                // The last four, of which the first were written already.
                let (n, four) = (last.len(), V::four_columns(part, whole + last.len() - 4));
                for i in 0..n {
                    let values = four[4 - n + i];
                    values.store(last[i].0.as_mut_ptr().add(lane));
                    scan.take(values);
                }
            } else if !last.is_empty() {
                let mut tile = [V::splat(0.0); WIDTH];
                for i in 0..V::LANES {
                    tile[i] = V::load_part(part[i].as_ptr(), last.len());
                }
                for (column, values) in last.iter_mut().zip(V::transpose(tile)) {
                    values.store(column.0.as_mut_ptr().add(lane));
                    scan.take(values);
                }
            }
            scan.max.store(found.max.as_mut_ptr().add(lane));
            scan.second.store(found.second.as_mut_ptr().add(lane));
            V::store_counts(scan.bits, found.bits.as_mut_ptr().add(lane));
            poisoned |= scan.is_poisoned();
        }
    }
    if !with_entropy {
        return poisoned;
    }
    // After all rows were read: what is fetched ahead may push them out of the nearest cache.
    for lane in (0..TILE).step_by(V::LANES) {
        // SAFETY: as above.
        unsafe {
            let second = V::load(found.second.as_ptr().add(lane));
            let (e_sums, d_sums) =
                entropy_sums(columns, lane, second, lines.skip(lane * columns.len() * size_of::<f32>()));
            V::store_wide(e_sums, found.exponentials.as_mut_ptr().add(lane));
            V::store_wide(d_sums, found.weighted.as_mut_ptr().add(lane));
        }
    }
    poisoned
}

/// The sums behind entropy of the rows in a vector's lanes from `lane` on, all of few labels. `lines` of
/// the next tile are asked for meanwhile.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn entropy_sums<V: Vector>(
    columns: &[Column<f32>],
    lane: usize,
    shift: V,
    lines: RowLines,
) -> (V::Wide, V::Wide) {
    // SAFETY: as in `read`.
    unsafe {
        let shift = shift.add(V::splat(0.0));
        let (scale, bottom) = (V::splat(f32::LOG2_E), V::splat(deepest(f32::LOG2_E)));
        let (mut e_sums, mut d_sums) = (V::no_wide(), V::no_wide());
        let (runs, last) = columns.as_chunks::<RUN>();
        macro_rules! add {
            ($run:expr, $line:expr) => {
                let (mut e_run, mut d_run) = (V::splat(0.0), V::splat(0.0));
                for (i, column) in $run.iter().enumerate() {
                    // A line for every 16 values.
                    if V::LANES == WIDTH || i % 2 == 0 {
                        lines.fetch_next(($line + i) * V::LANES / WIDTH);
                    }
                    let d = depth(V::load(column.0.as_ptr().add(lane)), shift, bottom);
                    let e = exp2(d, scale, 1.0);
                    e_run = e_run.add(e);
                    d_run = e.mul_add(d, d_run);
                }
                e_sums = e_run.widen(e_sums);
                d_sums = d_run.widen(d_sums);
            };
        }
        for (r, run) in runs.iter().enumerate() {
            add!(run, r * RUN);
        }
        if !last.is_empty() {
            add!(last, runs.len() * RUN);
        }
        (e_sums, d_sums)
    }
}

/// [`are_top_portable`] over vectors.
///
/// # Safety
/// The instruction set of V must be available.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn are_top_vectors<V: Vector>(logit: &Each<f32>, scan: &TileScan<f32>) -> u32 {
    let mut bits = 0;
    for lane in (0..TILE).step_by(V::LANES) {
        // SAFETY: as in `read`.
        unsafe {
            let (y, max) = (V::load(logit.as_ptr().add(lane)), V::load(scan.max.as_ptr().add(lane)));
            let at_top = V::bits(y.greater_or_equal(max));
            bits |= (at_top & V::bits(max.greater(V::load(scan.second.as_ptr().add(lane))))) << lane;
        }
    }
    bits
}

/// [`rank_portable`] over vectors; `false`, and no ranks, when another label has the same logit.
///
/// # Safety
/// The instruction set of V must be available.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn rank_vectors<V: Vector>(
    columns: &[Column<f32>],
    logit: &Each<f32>,
    rank: &mut Each<usize>,
    next: &mut Each<f32>,
) -> bool {
    let (mut before, mut not_after) = ([0_u32; TILE], [0_u32; TILE]);
    for lane in (0..TILE).step_by(V::LANES) {
        // SAFETY: as in `read`.
        unsafe {
            let y = V::load(logit.as_ptr().add(lane));
            let none = V::splat(f32::NEG_INFINITY);
            let (mut above, mut at_least, mut largest) = (V::no_counts(), V::no_counts(), none);
            for column in columns {
                let z = V::load(column.0.as_ptr().add(lane));
                let is_at_least = z.greater_or_equal(y);
                above = V::add_mask(z.greater(y), above);
                at_least = V::add_mask(is_at_least, at_least);
                largest = largest.larger(V::select(is_at_least, none, z));
            }
            largest.store(next.as_mut_ptr().add(lane));
            V::store_counts(above, before.as_mut_ptr().add(lane));
            V::store_counts(at_least, not_after.as_mut_ptr().add(lane));
        }
    }
    let mut ties = 0;
    for i in 0..TILE {
        // Wrapping: another thread may have changed the label's logit since, and then none is like it.
        ties |= not_after[i].wrapping_sub(before[i]).wrapping_sub(1);
    }
    *rank = each_lane!([1; TILE], |i| 1 + before[i] as usize);
    ties == 0
}

/// [`split_portable`] over vectors. No other label may have the same logit.
///
/// # Safety
/// The instruction set of V must be available.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn split_vectors<V: Vector>(
    columns: &[Column<f32>],
    logit: &Each<f32>,
    max: &Each<f32>,
    TileTerms { shift, scale }: TileTerms<'_, f32>,
    [above, below]: [&mut Each<f64>; 2],
) {
    let (mut upper, mut lower) = ([0_u64; TILE], [0_u64; TILE]);
    for lane in (0..TILE).step_by(V::LANES) {
        // SAFETY: as in `read`.
        unsafe {
            let y = V::load(logit.as_ptr().add(lane));
            let max = V::load(max.as_ptr().add(lane)).add(V::splat(0.0));
            let depths = LaneDepths::<V>::new(shift, scale, lane);
            let (mut uppers, mut all) = (V::no_long_counts(), V::no_long_counts());
            for_each_run!(columns, |run| {
                let (mut upper_run, mut all_run) = (V::no_counts(), V::no_counts());
                for column in run {
                    let z = V::load(column.0.as_ptr().add(lane));
                    let above = z.greater(y);
                    let e = depths.term(z, V::select(above, max, depths.shift));
                    all_run = e.add_rounded(all_run);
                    upper_run = e.add_rounded_where(above, upper_run);
                }
                all = V::lengthen(all_run, all);
                uppers = V::lengthen(upper_run, uppers);
            });
            // Wrapping, here and below: another thread may change the rows after they were written side by side.
            let after = V::minus(V::minus(all, uppers), depths.own(y));
            V::store_long_counts(uppers, upper.as_mut_ptr().add(lane));
            V::store_long_counts(after, lower.as_mut_ptr().add(lane));
        }
    }
    for i in 0..TILE {
        above[i] = upper[i] as f64 / f64::from(COARSE);
        below[i] = lower[i] as f64 / f64::from(COARSE);
    }
}

/// [`sum_portable`] over vectors, as the high words.
///
/// # Safety
/// The instruction set of V must be available.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn sum_vectors<V: Vector>(
    columns: &[Column<f32>],
    logit: &Each<f32>,
    TileTerms { shift, scale }: TileTerms<'_, f32>,
    sums: &mut Each<u64>,
) {
    for lane in (0..TILE).step_by(V::LANES) {
        // SAFETY: as in `read`.
        unsafe {
            let depths = LaneDepths::<V>::new(shift, scale, lane);
            let mut all = V::no_long_counts();
            for_each_run!(columns, |run| {
                let mut counts = V::no_counts();
                for column in run {
                    let z = V::load(column.0.as_ptr().add(lane));
                    counts = depths.term(z, depths.shift).add_rounded(counts);
                }
                all = V::lengthen(counts, all);
            });
            let own = depths.own(V::load(logit.as_ptr().add(lane)));
            V::store_long_counts(V::minus(all, own), sums.as_mut_ptr().add(lane));
        }
    }
    in_high_words(sums);
}

/// Sums over all labels but each row's own, along the rows with a bit in `wanted`, as high words of coarse quanta. `columns`
/// are asked for meanwhile, in as many steps as there are rows.
///
/// # Safety
/// The instruction set of V must be available.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn sum_rows<V: Vector>(
    rows: &Each<&[f32]>,
    wanted: u32,
    logit: &Each<f32>,
    TileTerms { shift, scale }: TileTerms<'_, f32>,
    columns: Option<(ColumnsAhead, usize)>,
    sums: &mut Each<u64>,
) {
    for i in lanes_of(wanted) {
        // SAFETY: as the caller vouches.
        sums[i] = unsafe {
            // Each in a loop of its own: most rows have no columns to fetch, and nothing asks for them.
            if let Some((columns, count)) = columns {
                let lines = columns.step(count + i, 2 * count, 0);
                coarse_sums::sum_fetching::<V>(rows[i], shift[i], scale[i], Some(lines))
            } else {
                coarse_sums::sum::<V>(rows[i], shift[i], scale[i])
            }
        };
    }
    let mut own = [0_u64; TILE];
    for lane in (0..TILE).step_by(V::LANES) {
        // SAFETY: as in `read`.
        unsafe {
            let depths = LaneDepths::<V>::new(shift, scale, lane);
            let counts = depths.own(V::load(logit.as_ptr().add(lane)));
            V::store_long_counts(counts, own.as_mut_ptr().add(lane));
        }
    }
    for i in 0..TILE {
        sums[i] = sums[i].wrapping_sub(own[i]);
    }
    in_high_words(sums);
}

/// Coarse quanta as high words.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn in_high_words(sums: &mut Each<u64>) {
    *sums = each_lane!([0; TILE], |i| sums[i] << COARSE_BITS);
}

/// The shifts and scales of the rows in a vector's lanes.
#[cfg(target_arch = "x86_64")]
struct LaneDepths<V> {
    shift: V,
    scale: V,
    bottom: V,
    one: V,
}

#[cfg(target_arch = "x86_64")]
impl<V: Vector> LaneDepths<V> {
    #[inline(always)]
    unsafe fn new(shift: &Each<f32>, scale: &Each<f32>, lane: usize) -> Self {
        let mut bottom = [0.0; WIDTH];
        for i in 0..V::LANES {
            bottom[i] = f32::DEEPEST_COARSE / scale[lane + i];
        }
        // SAFETY: as in `read`.
        unsafe {
            Self {
                shift: V::load(shift.as_ptr().add(lane)).add(V::splat(0.0)),
                scale: V::load(scale.as_ptr().add(lane)),
                bottom: V::load(bottom.as_ptr()),
                one: hidden_one::<V>(),
            }
        }
    }

    /// Terms in coarse quanta, not yet rounded.
    #[inline(always)]
    unsafe fn term(&self, z: V, shift: V) -> V {
        // SAFETY: as in `read`.
        unsafe { exp2_to_round(depth(z, shift, self.bottom), self.scale, COARSE, self.one) }
    }

    /// The coarse quanta of the labels themselves, relative to the shifts.
    #[inline(always)]
    unsafe fn own(&self, logit: V) -> V::LongCounts {
        // SAFETY: as in `read`.
        unsafe {
            let counts = self.term(logit, self.shift).add_rounded(V::no_counts());
            V::lengthen(counts, V::no_long_counts())
        }
    }
}
