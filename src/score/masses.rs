//! Which sums is the score of one label made of? For all labels of a row see `sorted.rs`.
//!
//! Both forms add the same exact terms (see [`crate::math`]) with the same shifts, so they agree to the
//! bit, and a prediction set built from the sorted row is the set that the one-label form defines.
//!
//! The labels after y are summed relative to a shift near the next lower logit, not to the maximum:
//! in a saturated row their terms would all vanish otherwise. The shift is that logit rounded up to
//! a multiple of a power of two near `2 / beta`, or near `0.5 / beta` where sums are coarse, so that neighbouring
//! labels share it and the sorted form needs few sums. One label costs no sort: O(K).

use super::formula::{LimitView, MassLanes, Masses, Wants};
use super::place::{Place, TilePlaces};
use crate::kernels::{FEW_BEFORE, Float, TILE, TileTerms, in_halves, lanes_of, minus};
use crate::math::{Chunks, Depths, Grain, WIDTH, WordSums, each_lane, is_before, quanta};
use crate::rows::{Scan, Tile};
use crate::simd::Simd;

/// beta in the forms that the sums need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sharpness<F> {
    pub(crate) beta: f64,
    /// `beta log2(e)`, kept finite: at infinite beta only equal logits have a term.
    pub(crate) scale: F,
    /// The grid of shifts and its inverse, powers of two; a cell of 0 where beta leaves the type's range.
    cell: F,
    cells_per_unit: F,
}

impl<F: Float> Sharpness<F> {
    #[inline(always)]
    pub(crate) fn new(weight: f64, temperature: f64, grain: Grain) -> Self {
        // Never below a bound, about 2e-37 in float32 and 3e-306 in float64: all labels of rows in practice have
        // mass 1 there already. Two finite logits may be further apart than the type can say; down to the bound
        // such a label has no mass whatever the sum is relative to, below it that would depend on the shift.
        let beta = (1.0 / (weight * temperature)).max(F::SMALLEST_SCALE.to_f64());
        let scale = F::from_f64(beta * std::f64::consts::LOG2_E).smaller(F::MAX);
        // beta in [2^e, 2^(e+1)): a cell of 2^(1-e) spans 2 to 4 units of 1 / beta. Coarse sums need a term near 1.
        let cell = if grain == Grain::Coarse { -1 } else { 1 };
        let exponent = ((beta.to_bits() >> 52) as i32 & 0x7ff) - 1023;
        let within = exponent <= F::LARGEST_EXPONENT;
        let exponent = exponent.clamp(-F::LARGEST_EXPONENT, F::LARGEST_EXPONENT);
        Self {
            beta,
            scale,
            cell: if within { F::power_of_two(cell - exponent) } else { F::ZERO },
            cells_per_unit: F::power_of_two(exponent - cell),
        }
    }

    /// The shift for a sum whose largest logit is `next`.
    #[inline(always)]
    pub(crate) fn shift(&self, next: F, max: F) -> F {
        let cells = next * self.cells_per_unit;
        let snapped = (cells.ceil() * self.cell).smaller(max).larger(next);
        let fine = cells < F::INTEGRAL_FROM && cells > F::ZERO - F::INTEGRAL_FROM;
        if fine && self.cell > F::ZERO { snapped } else { next }
    }

    /// [`Self::shift`], or `own` when no label is ranked after: any shift does for an empty sum, as long as it
    /// is not above the label itself.
    #[inline(always)]
    pub(crate) fn shift_or(&self, next: F, max: F, own: F) -> F {
        if next == F::NEG_INFINITY { own } else { self.shift(next, max) }
    }

    /// What the sums of a label are relative to.
    #[inline(always)]
    pub(crate) fn shift_of(&self, kind: Sums, place: &Place<F>, max: F) -> F {
        let shift = self.shift_or(place.next, max, place.logit);
        if kind == Sums::Others && place.rank > 1 { max } else { shift }
    }
}

/// [`Sharpness`] of the rows of a tile.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct SharpnessLanes<F> {
    pub(crate) beta: [f64; TILE],
    pub(crate) scale: [F; TILE],
    cell: [F; TILE],
    cells_per_unit: [F; TILE],
}

impl<F: Float> SharpnessLanes<F> {
    #[inline(always)]
    pub(crate) fn new(weight: &[f64; TILE], temperature: f64, grain: Grain) -> Self {
        let none = [F::ZERO; TILE];
        let mut lanes = Self { beta: [0.0; TILE], scale: none, cell: none, cells_per_unit: none };
        for i in 0..TILE {
            let Sharpness { beta, scale, cell, cells_per_unit } =
                Sharpness::new(weight[i], temperature, grain);
            lanes.beta[i] = beta;
            lanes.scale[i] = scale;
            lanes.cell[i] = cell;
            lanes.cells_per_unit[i] = cells_per_unit;
        }
        lanes
    }

    #[inline(always)]
    pub(crate) fn get(&self, i: usize) -> Sharpness<F> {
        let Self { beta, scale, cell, cells_per_unit } = self;
        Sharpness { beta: beta[i], scale: scale[i], cell: cell[i], cells_per_unit: cells_per_unit[i] }
    }
}

/// Which sums a score is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sums {
    /// The labels before and those after the label (aps, raps; of the top label, saps).
    Split,
    /// All labels but this one (thr, rank, mixed): `above` for a label that is not the top one, so that the sum
    /// is relative to the maximum, the same for all of them but for the label's own term, and the
    /// log-odds fall with rank by no more than a rounding of that term; `below` for the top label, relative to the next logit.
    Others,
}

/// Masses of one label: the definition.
#[inline(always)]
pub(crate) fn label_masses<S: Simd, F: Float>(
    s: S,
    kind: Sums,
    row: &[F],
    scan: &Scan<F>,
    label: usize,
    place: &Place<F>,
    sharpness: &Sharpness<F>,
) -> Masses {
    let (max, y) = (scan.max, place.logit);
    let shift = sharpness.shift_of(kind, place, max);
    let (above, below) = match (place.rank, kind) {
        (1, _) => (0, sum_but_one(s, row, y, shift, sharpness.scale)),
        (_, Sums::Others) => (sum_but_one(s, row, y, shift, sharpness.scale), 0),
        (_, Sums::Split) => split_sums(s, row, label, y, max, shift, sharpness.scale),
    };
    masses::<F>(max, y, place.rank, above, below, shift, sharpness)
}

/// [`label_masses`] of a label that is not the top one, for [`Sums::Others`], from the sum over all labels of the row.
#[inline(always)]
pub(crate) fn masses_of_other<F: Float>(
    all: i128,
    y: F,
    rank: usize,
    max: F,
    grain: Grain,
    sharpness: &Sharpness<F>,
) -> Masses {
    let own = quanta(y, max, sharpness.scale, grain);
    masses::<F>(max, y, rank, all - own, 0, max, sharpness)
}

/// Sums over the labels before a label, relative to the maximum, and after it, in one pass over both.
#[inline(always)]
pub(crate) fn split_sums<S: Simd, F: Float>(
    s: S,
    row: &[F],
    label: usize,
    y: F,
    max: F,
    shift: F,
    scale: F,
) -> (i128, i128) {
    let grain = Grain::of(row.len());
    let (above_left, below_left) = F::split::<S, true>(s, &row[..label], y, [max, shift], scale, grain);
    let (above_right, below_right) =
        F::split::<S, false>(s, &row[label + 1..], y, [max, shift], scale, grain);
    (above_left + above_right, below_left + below_right)
}

/// [`split_sums`] of a label with few before it, which are given. Sums are exact: all labels are summed relative to
/// the shift, and these and the label itself taken out again. That costs half as much as to part the labels as they
/// are summed.
#[inline(always)]
pub(crate) fn sums_after_few<S: Simd, F: Float>(
    s: S,
    row: &[F],
    before: &[F; FEW_BEFORE],
    y: F,
    max: F,
    shift: F,
    scale: F,
) -> (i128, i128) {
    let [above, counted] =
        F::sums_of_few(s, before, [max, shift], scale, Grain::of(row.len())).map(F::collect);
    (above, sum_but_one(s, row, y, shift, scale) - counted)
}

/// [`label_masses`] of the label ranked first, whichever it is: no search for it.
#[inline(always)]
pub(crate) fn top_masses<S: Simd, F: Float>(
    s: S,
    row: &[F],
    scan: &Scan<F>,
    sharpness: &Sharpness<F>,
) -> Masses {
    let shift = sharpness.shift_or(scan.second, scan.max, scan.max);
    let below = sum_but_one(s, row, scan.max, shift, sharpness.scale);
    masses::<F>(scan.max, scan.max, 1, 0, below, shift, sharpness)
}

/// The sum over all labels but one with logit `y`. Sums are exact: its term is taken out again, which is one
/// pass instead of two, over the labels on both sides.
#[inline(always)]
pub(crate) fn sum_but_one<S: Simd, F: Float>(s: S, row: &[F], y: F, shift: F, scale: F) -> i128 {
    let grain = Grain::of(row.len());
    // What lies above the shift was not counted: most top labels do, and need no term.
    let own = if y > shift { 0 } else { quanta(y, shift, scale, grain) };
    F::sum(s, row, shift, scale, grain) - own
}

/// Exact sums as the masses of a label.
#[inline(always)]
pub(crate) fn masses<F: Float>(
    max: F,
    y: F,
    rank: usize,
    above: i128,
    below: i128,
    shift: F,
    sharpness: &Sharpness<F>,
) -> Masses {
    let m = max.to_f64();
    let depths = Depths::new(sharpness.scale);
    Masses {
        beta: sharpness.beta,
        rank,
        distance: m - y.to_f64(),
        above: F::sum_to_f64(above),
        below: F::sum_to_f64(below),
        shift_distance: m - shift.to_f64(),
        lead: y.to_f64() - shift.to_f64(),
        own: depths.term_in_lanes(y, max).to_f64(),
        at_shift: depths.term_in_lanes(shift, max).to_f64(),
    }
}

/// Where the sums over the labels before each row's label, if they are parted, and over the others go.
type Halves<'a> = (&'a mut [f64; TILE], &'a mut [f64; TILE]);

/// [`label_masses`] of each row's label, as far as it is wanted, put into `lanes`.
#[inline(always)]
pub(crate) fn tile_masses<S: Simd, F: Float>(
    s: S,
    tile: &Tile<'_, F>,
    (kind, wants): (Sums, Wants),
    places: &TilePlaces<F>,
    sharpness: &SharpnessLanes<F>,
    lanes: &mut MassLanes<TILE>,
) {
    let max = &tile.scan.max;
    let shift = each_lane!([F::ZERO; TILE], |i| {
        let place = Place { logit: places.logit[i], rank: places.rank[i], next: places.next[i] };
        sharpness.get(i).shift_of(kind, &place, max[i])
    });
    let sums = (&mut lanes.above, &mut lanes.below);
    tile_sums(s, tile, kind, places, &shift, &sharpness.scale, sums);
    if kind == Sums::Others {
        for i in 0..TILE {
            let rest = lanes.below[i];
            let is_above = places.rank[i] > 1;
            lanes.above[i] = if is_above { rest } else { 0.0 };
            lanes.below[i] = if is_above { 0.0 } else { rest };
        }
    }
    lanes.beta = sharpness.beta;
    lanes.rank = places.rank;
    if wants.distances {
        for i in 0..TILE {
            let (max, y) = (max[i].to_f64(), places.logit[i].to_f64());
            lanes.distance[i] = max - y;
            lanes.shift_distance[i] = max - shift[i].to_f64();
            lanes.lead[i] = y - shift[i].to_f64();
        }
    }
    if wants.terms {
        // In loops of their own, of whole vectors of the computing type.
        let depths = each_lane!([Depths::new(F::LOG2_E); TILE], |i| Depths::new(sharpness.scale[i]));
        let own = each_lane!([F::ZERO; TILE], |i| depths[i].term_in_lanes(places.logit[i], max[i]));
        let at_shift = each_lane!([F::ZERO; TILE], |i| depths[i].term_in_lanes(shift[i], max[i]));
        for i in 0..TILE {
            (lanes.own[i], lanes.at_shift[i]) = (own[i].to_f64(), at_shift[i].to_f64());
        }
    }
}

/// Sums over the labels before each row's label, where these are parted, and over the others.
#[inline(always)]
fn tile_sums<S: Simd, F: Float>(
    s: S,
    tile: &Tile<'_, F>,
    kind: Sums,
    places: &TilePlaces<F>,
    shift: &[F; TILE],
    scale: &[F; TILE],
    (above, rest): Halves<'_>,
) {
    let (max, logit, mut sums) = (&tile.scan.max, &places.logit, WordSums::<TILE>::EMPTY);
    let terms = TileTerms { shift, scale };
    if let Some(columns) = tile.columns() {
        if kind == Sums::Split && !places.by_row {
            F::split_columns(s, columns, &places.labels(), places.has_ties, max, terms, [above, rest]);
            return;
        }
        F::sum_columns(s, columns, logit, terms, &mut sums);
    } else {
        let mut wanted = 0;
        for i in 0..tile.count {
            let is_wanted = kind == Sums::Others || places.rank[i] <= FEW_BEFORE + 1;
            wanted |= u32::from(is_wanted) << i;
        }
        let ahead = tile.columns_ahead();
        if !F::sum_rows(s, tile.rows, wanted, logit, terms, ahead, &mut sums) {
            sums_of_rows(s, tile, kind, places, shift, scale, (above, rest));
            return;
        }
    }
    for i in 0..TILE {
        (above[i], rest[i]) = (0.0, F::words_to_f64((sums.high[i], sums.low[i])));
    }
    // Where labels are parted, those before the label are taken out again.
    for i in lanes_of(if kind == Sums::Split { places.others } else { 0 }) {
        if places.rank[i] <= FEW_BEFORE + 1 {
            let shifts = [max[i], shift[i]];
            let [before, counted] = F::sums_of_few(s, &places.before[i], shifts, scale[i], tile.grain());
            let after = minus((sums.high[i], sums.low[i]), counted);
            (above[i], rest[i]) = (F::words_to_f64(before), F::words_to_f64(after));
        } else {
            let (row, label) = (tile.rows[i], places.label[i]);
            let (before, after) = split_sums(s, row, label, logit[i], max[i], shift[i], scale[i]);
            (above[i], rest[i]) = (F::sum_to_f64(before), F::sum_to_f64(after));
        }
    }
}

/// [`tile_sums`] of each row by itself.
#[inline(always)]
fn sums_of_rows<S: Simd, F: Float>(
    s: S,
    tile: &Tile<'_, F>,
    kind: Sums,
    places: &TilePlaces<F>,
    shift: &[F; TILE],
    scale: &[F; TILE],
    (above, rest): Halves<'_>,
) {
    for i in 0..tile.count {
        let (row, y, max) = (tile.rows[i], places.logit[i], tile.scan.max[i]);
        let sums = if kind == Sums::Others || places.rank[i] == 1 {
            (0, sum_but_one(s, row, y, shift[i], scale[i]))
        } else if places.rank[i] <= FEW_BEFORE + 1 {
            sums_after_few(s, row, &places.before[i], y, max, shift[i], scale[i])
        } else {
            split_sums(s, row, places.label[i], y, max, shift[i], scale[i])
        };
        (above[i], rest[i]) = (F::sum_to_f64(sums.0), F::sum_to_f64(sums.1));
    }
}

/// Counts and means that the closed limits need and no other score does.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Census {
    n_top: usize,
    n_possible: usize,
    /// Half of what the mean of the possible logits is below the largest.
    half_depth: f64,
}

impl Census {
    /// Labels are counted; the mean, which one limit alone needs, is taken if it is asked for.
    #[inline(always)]
    pub(crate) fn of<F: Float>(row: &[F], scan: &Scan<F>, with_mean: bool) -> Self {
        let n_top = if scan.second < scan.max { 1 } else { count::<true, F>(row, scan.max) };
        let n_possible = count::<false, F>(row, F::NEG_INFINITY);
        Self {
            n_top,
            n_possible,
            half_depth: if with_mean { half_depth(row, scan.max, n_possible) } else { 0.0 },
        }
    }

    /// The view of one label.
    #[inline(always)]
    pub(crate) fn view<F: Float>(&self, scan: &Scan<F>, logit: F, rank: usize, weight: f64) -> LimitView {
        let rival = if rank == 1 { scan.second } else { scan.max };
        LimitView {
            weight,
            rank,
            is_top: logit == scan.max,
            distance: scan.max.to_f64() - logit.to_f64(),
            lead: rival.to_f64() - logit.to_f64(),
            n_top: self.n_top,
            n_possible: self.n_possible,
            mean_lead: 2.0 * (half_distance(scan.max, logit) - self.half_depth),
        }
    }
}

/// Labels with logits of at least `y` (`EQUAL`), or above it.
#[inline(always)]
fn count<const EQUAL: bool, F: Float>(row: &[F], y: F) -> usize {
    let (chunks, rest) = row.as_chunks::<WIDTH>();
    let mut counts = [0_u32; WIDTH];
    for chunk in chunks {
        for lane in 0..WIDTH {
            counts[lane] += u32::from(is_before::<EQUAL, F>(chunk[lane], y));
        }
    }
    for (lane, &z) in rest.iter().enumerate() {
        counts[lane] += u32::from(is_before::<EQUAL, F>(z, y));
    }
    counts.iter().map(|&lane| lane as usize).sum()
}

/// Half of what the mean of the possible logits is below the largest: relative to that, so that large logits of one sign
/// cost no precision; in halves and divided before they are added, so that no difference of finite logits overflows.
/// Label `i` is added in lane `i % 16`.
#[inline(always)]
fn half_depth<F: Float>(row: &[F], max: F, n_possible: usize) -> f64 {
    let share = 1.0 / n_possible as f64;
    let mut sums = [0.0; WIDTH];
    let chunks = Chunks::of(row);
    for i in 0..chunks.count {
        let chunk = chunks.get(i);
        for lane in 0..WIDTH {
            let part = half_distance(max, chunk[lane]) * share;
            sums[lane] += if chunk[lane] > F::NEG_INFINITY { part } else { 0.0 };
        }
    }
    in_halves(sums)
}

#[inline(always)]
fn half_distance<F: Float>(max: F, z: F) -> f64 {
    0.5 * max.to_f64() - 0.5 * z.to_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifts_are_between_the_next_logit_and_a_few_units_above() {
        for (beta, (grain, units)) in [0.01, 0.7, 1.0, 3.0, 1e6]
            .into_iter()
            .flat_map(|beta| [(beta, (Grain::Fine, 4.0)), (beta, (Grain::Coarse, 1.0))])
        {
            let sharpness = Sharpness::<f64>::new(1.0 / beta, 1.0, grain);
            for i in -1000..1000 {
                let z = f64::from(i) / 37.0;
                let shift = sharpness.shift(z, 1e9);
                assert!(shift >= z && (shift - z) * beta <= units);
            }
        }
    }
}
