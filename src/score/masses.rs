//! What are the sums of one label, in one row or in each row of a tile?
//!
//! ```text
//! find the rank of the label and the logit ranked next: a count, no sort
//! choose the shift: the next logit, rounded up to a grid of cells of about 1 / beta
//! add the terms of the labels before it, relative to the maximum
//! add the terms of the labels after it, relative to the shift
//! ```
//!
//! Why a shift. In a saturated row all terms after y would vanish relative to the maximum. Why a grid.
//! Neighbouring labels share a shift on it, so that the sorted row (`sorted.rs`) needs few sums. A cell is a
//! power of two near `2 / beta`, or near `0.5 / beta` where sums are coarse.
//!
//! Sums are exact integers (see [`crate::math`]). The forms for one label, for a tile and for a sorted row
//! add equal terms, so they agree to the bit, and a set that is cut from a sorted row is the set of the
//! definition.

use super::formula::{Masses, Sums};
use super::place::{Place, TilePlaces};
use super::scoring::Scale;
use crate::kernels::{self, FEW_BEFORE, Float, TILE, TileTerms, lanes_of};
use crate::math::{Grain, each_lane, quanta};
use crate::rows::Tile;
use crate::simd::{NoLines, Simd};

/// beta in the forms that the sums need.
#[derive(Clone, Copy, Debug, Default)]
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
        // Never below a bound, about 2e-37 in float32 and 3e-306 in float64, where all labels of rows in
        // practice have mass 1. Two finite logits may differ by more than the type can hold. Down to the
        // bound the lower one has no mass, whatever the sum is relative to; below the bound that would depend
        // on the shift.
        let beta = (1.0 / (weight * temperature)).max(F::SMALLEST_SCALE.to_f64());
        let scale = F::from_f64(beta * std::f64::consts::LOG2_E).smaller(F::MAX);
        // For beta in [2^e, 2^(e+1)) a cell of 2^(1-e) spans 2 to 4 units of 1 / beta. Coarse sums need a
        // term near 1.
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

    /// [`Self::shift`], or `own` when no label is ranked after it: an empty sum takes any shift that is not
    /// above the label itself.
    #[inline(always)]
    pub(crate) fn shift_or(&self, next: F, max: F, own: F) -> F {
        if next == F::NEG_INFINITY { own } else { self.shift(next, max) }
    }

    /// What the sums of a label are relative to.
    #[inline(always)]
    pub(crate) fn shift_of(&self, sums: Sums, place: &Place<F>, max: F) -> F {
        let shift = self.shift_or(place.next, max, place.logit);
        if sums == Sums::Others && place.rank > 1 { max } else { shift }
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

/// Masses of one label: the definition. For [`Sums::Top`] the place is that of the top label, and any label
/// does.
#[inline(always)]
pub(crate) fn label_masses<S: Simd, F: Float>(
    s: S,
    sums: Sums,
    row: &[F],
    label: usize,
    place: &Place<F>,
    max: F,
    sharpness: &Sharpness<F>,
) -> Masses {
    let (y, shift) = (place.logit, sharpness.shift_of(sums, place, max));
    let (above, below) = if sums == Sums::Split && place.rank > 1 {
        split_sums(s, row, label, y, [max, shift], sharpness.scale)
    } else {
        let others = sum_but_one(s, row, y, shift, sharpness.scale);
        if sums == Sums::Others && place.rank > 1 { (others, 0) } else { (0, others) }
    };
    masses(sums, max, y, (above, below), shift, sharpness)
}

/// [`label_masses`] of a label that is not the top one, for [`Sums::Others`], from the sum over all labels of
/// the row.
#[inline(always)]
pub(crate) fn masses_of_other<F: Float>(
    all: i128,
    y: F,
    max: F,
    grain: Grain,
    sharpness: &Sharpness<F>,
) -> Masses {
    let own = quanta(y, max, sharpness.scale, grain);
    masses(Sums::Others, max, y, (all - own, 0), max, sharpness)
}

/// Sums over the labels before a label, relative to the first of `shifts`, and after it, relative to the
/// second.
#[inline(always)]
fn split_sums<S: Simd, F: Float>(
    s: S,
    row: &[F],
    label: usize,
    y: F,
    shifts: [F; 2],
    scale: F,
) -> (i128, i128) {
    let grain = Grain::of(row.len());
    let (above_left, below_left) = kernels::split::<true, S, F>(s, &row[..label], y, shifts, scale, grain);
    let (above_right, below_right) =
        kernels::split::<false, S, F>(s, &row[label + 1..], y, shifts, scale, grain);
    (above_left + above_right, below_left + below_right)
}

/// The sum over all labels but one with logit `y`. Sums are exact, so all labels are summed and its term is
/// taken out again: one pass instead of two.
#[inline(always)]
pub(crate) fn sum_but_one<S: Simd, F: Float>(s: S, row: &[F], y: F, shift: F, scale: F) -> i128 {
    let grain = Grain::of(row.len());
    // A label above the shift was not counted. Most top labels lie above it.
    let own = if y > shift { 0 } else { quanta(y, shift, scale, grain) };
    kernels::sum(s, row, shift, scale, grain, NoLines) - own
}

/// The masses of a label from its exact sums before and after it.
#[inline(always)]
pub(crate) fn masses<F: Float>(
    sums: Sums,
    max: F,
    y: F,
    (above, below): (i128, i128),
    shift: F,
    sharpness: &Sharpness<F>,
) -> Masses {
    let mut masses = Masses { beta: [sharpness.beta], ..Masses::EMPTY };
    (masses.above, masses.below) = ([F::sum_to_f64(above)], [F::sum_to_f64(below)]);
    masses.complete((sums, Scale::Ranked), &[sharpness.scale], &[max], &[y], &[shift]);
    masses
}

/// [`label_masses`] of each row's label, as far as scores in a scale read them, put into `masses`.
#[inline(always)]
pub(crate) fn tile_masses<S: Simd, F: Float>(
    s: S,
    tile: &Tile<'_, F>,
    (sums, scale): (Sums, Scale),
    places: &TilePlaces<F>,
    sharpness: &SharpnessLanes<F>,
    masses: &mut Masses<TILE>,
) {
    let max = &tile.scan.max;
    let shift = each_lane!([F::ZERO; TILE], |i| {
        let place = Place { logit: places.logit[i], rank: places.rank[i], next: places.next[i] };
        sharpness.get(i).shift_of(sums, &place, max[i])
    });
    tile_sums(s, tile, sums, places, TileTerms { shift: &shift, scale: &sharpness.scale }, masses);
    if sums == Sums::Others {
        for i in 0..TILE {
            let others = masses.below[i];
            let is_above = places.rank[i] > 1;
            masses.above[i] = if is_above { others } else { 0.0 };
            masses.below[i] = if is_above { 0.0 } else { others };
        }
    }
    masses.beta = sharpness.beta;
    masses.complete((sums, scale), &sharpness.scale, max, &places.logit, &shift);
}

/// Puts the sums of each row into `masses`: those over the labels before and after its label, where these are
/// split, else that over the others, as `below`.
#[inline(always)]
fn tile_sums<S: Simd, F: Float>(
    s: S,
    tile: &Tile<'_, F>,
    sums: Sums,
    places: &TilePlaces<F>,
    terms: TileTerms<'_, F>,
    Masses { above, below, .. }: &mut Masses<TILE>,
) {
    let (max, logit, TileTerms { shift, scale }) = (&tile.scan.max, &places.logit, terms);
    let (grain, is_few) = (tile.grain(), |i: usize| places.rank[i] <= FEW_BEFORE + 1);
    let split =
        |i: usize| split_sums(s, tile.rows[i], places.label[i], logit[i], [max[i], shift[i]], scale[i]);
    let of_few = |i: usize| kernels::sums_of_few(s, &places.before[i], [max[i], shift[i]], scale[i], grain);
    if let Some(columns) = tile.columns() {
        if sums == Sums::Split && !places.by_row {
            kernels::split_columns(s, columns, &places.labels(), places.has_ties, max, terms, [above, below]);
            return;
        }
        let mut others = [0; TILE];
        kernels::sum_columns(s, columns, logit, terms, &mut others, below);
        *above = [0.0; TILE];
        // Where labels are split, those before the label are taken out again.
        for i in lanes_of(if sums == Sums::Split { places.others } else { 0 }) {
            let (before, after) = if is_few(i) {
                let [before, counted] = of_few(i);
                (before, (i128::from(others[i]) << F::COARSE_BITS) - counted)
            } else {
                split(i)
            };
            (above[i], below[i]) = (F::sum_to_f64(before), F::sum_to_f64(after));
        }
        return;
    }
    let own = kernels::own_quanta(s, logit, terms, grain);
    for i in 0..tile.count {
        let others = |i: usize| {
            let (row, shift, scale) = (tile.rows[i], shift[i], scale[i]);
            // Each in a loop of its own: most rows have no columns to fetch, and nothing asks for them.
            let all = if let Some((columns, count)) = tile.columns_ahead() {
                kernels::sum(s, row, shift, scale, grain, columns.step(count + i, 2 * count, 0))
            } else {
                kernels::sum(s, row, shift, scale, grain, NoLines)
            };
            all - own[i]
        };
        let (before, after) = if sums != Sums::Split || places.rank[i] == 1 {
            (0, others(i))
        } else if is_few(i) {
            let [before, counted] = of_few(i);
            (before, others(i) - counted)
        } else {
            split(i)
        };
        (above[i], below[i]) = (F::sum_to_f64(before), F::sum_to_f64(after));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifts_are_between_the_next_logit_and_a_few_units_above() {
        let grains = [(Grain::Fine, 4.0), (Grain::Coarse, 1.0)];
        for (beta, (grain, units)) in
            [0.01, 0.7, 1.0, 3.0, 1e6].into_iter().flat_map(|beta| grains.map(|grain| (beta, grain)))
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
