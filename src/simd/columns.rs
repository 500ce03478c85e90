//! The float32 kernels across a group of rows, one lane a row, over explicit vectors: the fast twins of the
//! plain loops in [`crate::group`], used where labels are few.
//!
//! Columns are label by label, with a value for each row.
#![allow(unsafe_code, reason = "vector loads and instructions of detected features")]

use super::coarse::{COARSE_RUN, sum_coarse_fetching, sum_coarse_terms};
use super::scan::LaneScan;
use super::vector::{Vector, depth, exp2, exp2_to_round, hidden_one};
use super::{fetch, fetch_far};
use crate::ahead::ColumnsAhead;
#[cfg(any(feature = "python", test))]
use crate::ahead::LinesOfColumns;
use crate::float::Float;
use crate::group::rows_of;
#[cfg(any(feature = "python", test))]
use crate::rows::Square;
use crate::rows::{Column, GROUP};
use crate::sum::{COARSE, LANES, deepest};
use crate::unit_sums::RUN;

/// One number for each row.
pub(crate) type Each<T> = [T; GROUP];

/// Columns in runs of which a 32-bit lane holds the sum. Written twice, so that loops over whole runs have a length
/// that the compiler knows: they take a quarter less time.
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

/// Where [`read`] puts what it finds of each row.
pub(crate) struct Found<'a> {
    /// The two largest logits.
    pub(crate) max: &'a mut Each<f32>,
    pub(crate) second: &'a mut Each<f32>,
    /// The sum of patterns.
    pub(crate) bits: &'a mut Each<u32>,
    /// The sums behind entropy: see [`crate::unit_sums::unit_sums`].
    pub(crate) exponentials: &'a mut Each<f64>,
    pub(crate) weighted: &'a mut Each<f64>,
}

/// Writes rows, as long as there are columns, side by side, and scans them on the way: what a square costs are moves
/// between lanes, and what a scan costs are comparisons, which other parts of the processor do. Then takes the sums
/// behind entropy, if they are wanted. Says whether any value is not finite.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn read<V: Vector>(
    rows: &[&[f32]; GROUP],
    columns: &mut [Column<f32>],
    with_entropy: bool,
    ahead: [&[f32]; 2],
    found: &mut Found<'_>,
) -> bool {
    for row in rows {
        assert_eq!(row.len(), columns.len(), "rows are as long as there are columns");
    }
    // Addresses are never read: those beyond the end do no harm. Where nothing is known, they are of what is at hand.
    let [next, later] = ahead.map(|part| if part.is_empty() { rows[0].as_ptr() } else { part.as_ptr() });
    let mut poisoned = false;
    for lane in (0..GROUP).step_by(V::LANES) {
        // SAFETY: `lane + V::LANES` is at most GROUP, which a column has. Rows are as long as there are columns: four
        // values are read of each from `4 i` and from `whole + n - 4` on, both ending inside, or as many as there are.
        // The caller vouches for the instruction set.
        unsafe {
            let mut scan = LaneScan::<V>::new();
            // What the rows of these lanes will be read from in the groups to come.
            let first = lane * columns.len();
            let (fours, last) = columns.as_chunks_mut::<4>();
            let (whole, group) = (4 * fours.len(), &rows[lane..lane + V::LANES]);
            for (i, four) in fours.iter_mut().enumerate() {
                // What will be read next only where no sums follow that leave time for it.
                for line in (0..4 * V::LANES).step_by(LANES) {
                    let at = first + 4 * i * V::LANES + line;
                    fetch_far(later.wrapping_add(at).cast());
                    if !with_entropy {
                        fetch(next.wrapping_add(at).cast());
                    }
                }
                for (column, values) in four.iter_mut().zip(V::four_columns(group, 4 * i)) {
                    values.store(column.0.as_mut_ptr().add(lane));
                    scan.take(values);
                }
            }
            if !last.is_empty() && whole > 0 {
                // The last four, of which the first were written already.
                let (n, four) = (last.len(), V::four_columns(group, whole + last.len() - 4));
                for i in 0..n {
                    let values = four[4 - n + i];
                    values.store(last[i].0.as_mut_ptr().add(lane));
                    scan.take(values);
                }
            } else if !last.is_empty() {
                let mut tile = [V::splat(0.0); 16];
                for i in 0..V::LANES {
                    tile[i] = V::load_part(group[i].as_ptr(), last.len());
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
    for lane in (0..GROUP).step_by(V::LANES) {
        // SAFETY: as above.
        unsafe {
            let second = V::load(found.second.as_ptr().add(lane));
            let (e_sums, d_sums) = unit_sums(columns, lane, second, next.wrapping_add(lane * columns.len()));
            V::store_wide(e_sums, found.exponentials.as_mut_ptr().add(lane));
            V::store_wide(d_sums, found.weighted.as_mut_ptr().add(lane));
        }
    }
    poisoned
}

/// The sums behind entropy of the rows in a vector's lanes from `lane` on, all of few labels. What lies from `next` on is
/// fetched meanwhile.
#[inline(always)]
unsafe fn unit_sums<V: Vector>(
    columns: &[Column<f32>],
    lane: usize,
    shift: V,
    next: *const f32,
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
                    if V::LANES == LANES || i % 2 == 0 {
                        fetch(next.wrapping_add(($line + i) * V::LANES).cast());
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

/// Writes a square into rows that begin `stride` apart, one for each of its rows, from label `first` on. `ahead` is fetched
/// meanwhile.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
#[cfg(any(feature = "python", test))]
pub(super) unsafe fn write_rows<V: Vector>(
    square: &Square<'_, f32>,
    first: usize,
    stride: usize,
    ahead: LinesOfColumns,
    rows: &mut [f32],
) {
    let Square { n_columns, n_rows, .. } = *square;
    assert!(first + n_columns <= stride && n_rows * stride <= rows.len(), "a row for each of the square's");
    let (mut done, tiles) = (0, n_columns.div_ceil(V::LANES) * n_rows.div_ceil(V::LANES));
    for left in (0..n_columns).step_by(V::LANES) {
        let width = V::LANES.min(n_columns - left);
        for top in (0..n_rows).step_by(V::LANES) {
            ahead.fetch_in_step(done, tiles);
            done += 1;
            let held = V::LANES.min(n_rows - top);
            // SAFETY: `held` values from `top` on are good to read of each of `width` columns from `left` on, as they
            // are all of the square, and each of as many rows has places for them. The caller vouches for the
            // instruction set.
            unsafe {
                let from = |i: usize| square.start.byte_offset((left + i) as isize * square.stride).add(top);
                let to = rows.as_mut_ptr().add(top * stride + first + left);
                // Whole tiles in loops of known length, so that they stay in registers.
                if width == V::LANES && held == V::LANES {
                    let mut tile = [V::splat(0.0); 16];
                    for i in 0..V::LANES {
                        tile[i] = V::load(from(i));
                    }
                    let tile = V::transpose(tile);
                    for i in 0..V::LANES {
                        tile[i].store(to.add(i * stride));
                    }
                    continue;
                }
                let mut tile = [V::splat(0.0); 16];
                for (i, values) in tile[..width].iter_mut().enumerate() {
                    *values = if held == V::LANES { V::load(from(i)) } else { V::load_part(from(i), held) };
                }
                let tile = V::transpose(tile);
                for i in 0..held {
                    let mut part = [0.0; 16];
                    tile[i].store(part.as_mut_ptr());
                    std::ptr::copy_nonoverlapping(part.as_ptr(), to.add(i * stride), width);
                }
            }
        }
    }
}

/// A bit for each row whose label is alone at the top.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn are_top<V: Vector>(logit: &Each<f32>, max: &Each<f32>, second: &Each<f32>) -> u32 {
    let mut bits = 0;
    for lane in (0..GROUP).step_by(V::LANES) {
        // SAFETY: as in `read`.
        unsafe {
            let (y, max) = (V::load(logit.as_ptr().add(lane)), V::load(max.as_ptr().add(lane)));
            let at_top = V::bits(y.greater_or_equal(max));
            bits |= (at_top & V::bits(max.greater(V::load(second.as_ptr().add(lane))))) << lane;
        }
    }
    bits
}

/// How many labels rank before each row's label, and the largest logit of the others. Whether that holds: not when
/// another label has the same logit, which the plain form settles.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn places<V: Vector>(
    columns: &[Column<f32>],
    logit: &Each<f32>,
    before: &mut Each<u32>,
    next: &mut Each<f32>,
) -> bool {
    let mut not_after = [0; GROUP];
    for lane in (0..GROUP).step_by(V::LANES) {
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
    for i in 0..GROUP {
        // Wrapping: another thread may have changed the label's logit since, and then none is like it.
        ties |= not_after[i].wrapping_sub(before[i]).wrapping_sub(1);
    }
    ties == 0
}

/// [`crate::sum::split_lower`] and `split_higher` of each row together, in coarse quanta, without the label itself.
/// No other label may have the same logit.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn split_terms<V: Vector>(
    columns: &[Column<f32>],
    logit: &Each<f32>,
    max: &Each<f32>,
    shift: &Each<f32>,
    scale: &Each<f32>,
    upper: &mut Each<u64>,
    lower: &mut Each<u64>,
) {
    for lane in (0..GROUP).step_by(V::LANES) {
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
}

/// [`crate::sum::sum_terms`] of each row without its label, in coarse quanta.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn sum_terms<V: Vector>(
    columns: &[Column<f32>],
    logit: &Each<f32>,
    shift: &Each<f32>,
    scale: &Each<f32>,
    sums: &mut Each<u64>,
) {
    for lane in (0..GROUP).step_by(V::LANES) {
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
}

/// The same along rows, of those with a bit in `wanted`; columns are fetched meanwhile, if there are any to fetch while so
/// many rows are summed.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn sum_rows<V: Vector>(
    rows: &[&[f32]; GROUP],
    wanted: u32,
    logit: &Each<f32>,
    shift: &Each<f32>,
    scale: &Each<f32>,
    ahead: Option<(ColumnsAhead, usize)>,
    sums: &mut Each<u64>,
) {
    for i in rows_of(wanted) {
        // SAFETY: as the caller vouches.
        sums[i] = unsafe {
            // Each in a loop of its own: most rows have no columns to fetch, and nothing asks for them.
            if let Some((columns, count)) = ahead {
                let lines = columns.while_summed(i, count);
                sum_coarse_fetching::<V>(rows[i], shift[i], scale[i], Some(lines))
            } else {
                sum_coarse_terms::<V>(rows[i], shift[i], scale[i])
            }
        };
    }
    let mut own = [0_u64; GROUP];
    for lane in (0..GROUP).step_by(V::LANES) {
        // SAFETY: as in `read`.
        unsafe {
            let depths = LaneDepths::<V>::new(shift, scale, lane);
            let counts = depths.own(V::load(logit.as_ptr().add(lane)));
            V::store_long_counts(counts, own.as_mut_ptr().add(lane));
        }
    }
    for i in 0..GROUP {
        sums[i] = sums[i].wrapping_sub(own[i]);
    }
}

/// The shifts and scales of the rows in a vector's lanes.
struct LaneDepths<V> {
    shift: V,
    scale: V,
    bottom: V,
    one: V,
}

impl<V: Vector> LaneDepths<V> {
    #[inline(always)]
    unsafe fn new(shift: &Each<f32>, scale: &Each<f32>, lane: usize) -> Self {
        let mut bottom = [0.0; 16];
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
