//! The sums behind a score, for one label in two masked passes; for all labels of a row: [`crate::order`].
//!
//! Both forms add the same exact terms (see [`crate::sum`]) with the same shifts, so they agree to the
//! bit, and a prediction set built from the sorted row is the set that the one-label form defines.
//!
//! The labels after y are summed relative to a shift near the next lower logit, not to the maximum:
//! in a saturated row their terms would all vanish otherwise. The shift is that logit rounded up to
//! a multiple of a power of two near `2 / beta`, or near `0.5 / beta` where sums are coarse, so that neighbouring
//! labels share it and the sorted form needs few sums. One label costs no sort: O(K).

use crate::float::Float;
use crate::place::{FEW_BEFORE, Place};
use crate::row::Scan;
use crate::rows::GROUP;
use crate::score::{LimitView, Masses};
use crate::sum::{
    Depths, Grain, Groups, LANES, is_before, quanta, split_higher, split_lower, sum_terms, sums_of_few,
};
use crate::unit_sums::in_halves;

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

    /// The same, or `own` when no label is ranked after: any shift does for an empty sum, as long as it
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

/// [`Sharpness`] of the rows of a group.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct SharpnessLanes<F> {
    pub(crate) beta: [f64; GROUP],
    pub(crate) scale: [F; GROUP],
    cell: [F; GROUP],
    cells_per_unit: [F; GROUP],
}

impl<F: Float> SharpnessLanes<F> {
    #[inline(always)]
    pub(crate) fn new(weight: &[f64; GROUP], temperature: f64, grain: Grain) -> Self {
        let none = [F::ZERO; GROUP];
        let mut lanes = Self { beta: [0.0; GROUP], scale: none, cell: none, cells_per_unit: none };
        for i in 0..GROUP {
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
pub(crate) fn label_masses<F: Float>(
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
        (1, _) => (0, sum_but_one(row, y, shift, sharpness.scale)),
        (_, Sums::Others) => (sum_but_one(row, y, shift, sharpness.scale), 0),
        (_, Sums::Split) => split_sums(row, label, y, max, shift, sharpness.scale),
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
pub(crate) fn split_sums<F: Float>(
    row: &[F],
    label: usize,
    y: F,
    max: F,
    shift: F,
    scale: F,
) -> (i128, i128) {
    let grain = Grain::of(row.len());
    let (above_left, below_left) = split_lower(&row[..label], y, max, shift, scale, grain);
    let (above_right, below_right) = split_higher(&row[label + 1..], y, max, shift, scale, grain);
    (above_left + above_right, below_left + below_right)
}

/// [`split_sums`] of a label with few before it, which are given. Sums are exact: all labels are summed relative to
/// the shift, and these and the label itself taken out again. That costs half as much as to part the labels as they
/// are summed.
#[inline(always)]
pub(crate) fn sums_after_few<F: Float>(
    row: &[F],
    before: &[F; FEW_BEFORE],
    y: F,
    max: F,
    shift: F,
    scale: F,
) -> (i128, i128) {
    let [above, counted] = sums_of_few(before, [max, shift], scale, Grain::of(row.len()));
    (above, sum_but_one(row, y, shift, scale) - counted)
}

/// [`label_masses`] of the label ranked first, whichever it is: no search for it.
#[inline(always)]
pub(crate) fn top_masses<F: Float>(row: &[F], scan: &Scan<F>, sharpness: &Sharpness<F>) -> Masses {
    let shift = sharpness.shift_or(scan.second, scan.max, scan.max);
    let below = sum_but_one(row, scan.max, shift, sharpness.scale);
    masses::<F>(scan.max, scan.max, 1, 0, below, shift, sharpness)
}

/// The sum over all labels but one with logit `y`. Sums are exact: its term is taken out again, which is one
/// pass instead of two, over the labels on both sides.
#[inline(always)]
pub(crate) fn sum_but_one<F: Float>(row: &[F], y: F, shift: F, scale: F) -> i128 {
    let grain = Grain::of(row.len());
    // What lies above the shift was not counted: most top labels do, and need no term.
    let own = if y > shift { 0 } else { quanta(y, shift, scale, grain) };
    sum_terms(row, shift, scale, grain) - own
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
    let (groups, rest) = row.as_chunks::<LANES>();
    let mut counts = [0_u32; LANES];
    for group in groups {
        for lane in 0..LANES {
            counts[lane] += u32::from(is_before::<EQUAL, F>(group[lane], y));
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
    let mut sums = [0.0; LANES];
    let groups = Groups::of(row);
    for g in 0..groups.count {
        let group = groups.get(g);
        for lane in 0..LANES {
            let part = half_distance(max, group[lane]) * share;
            sums[lane] += if group[lane] > F::NEG_INFINITY { part } else { 0.0 };
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
