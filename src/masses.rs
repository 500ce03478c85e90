//! The sums behind a score, for one label in two masked passes and for all labels from the sorted row.
//!
//! Both forms add the same exact terms (see [`crate::sum`]) with the same shifts, so they agree to the
//! bit, and a prediction set built from the sorted row is the set that the one-label form defines.
//!
//! The labels after y are summed relative to a shift near the next lower logit, not to the maximum:
//! in a saturated row their terms would all vanish otherwise. The shift is that logit rounded up to
//! a multiple of a power of two near `2 / beta`, so that neighbouring labels share it and the sorted
//! form needs few sums. One label costs no sort: O(K). All labels: O(K log K) for the order, then
//! O(K) terms for each of the few shifts whose window (about `36 / beta`) holds them.

use crate::float::Float;
use crate::row::Scan;
use crate::score::{LimitView, Masses};
use crate::sum::{quanta, sum_terms, to_f64};

/// beta in the forms that the sums need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sharpness<F> {
    beta: f64,
    /// `beta log2(e)`, kept finite: at infinite beta only equal logits have a term.
    scale: F,
    /// The grid of shifts and its inverse, powers of two.
    cell: F,
    cells_per_unit: F,
}

impl<F: Float> Sharpness<F> {
    #[inline(always)]
    pub(crate) fn new(weight: f64, temperature: f64) -> Self {
        let beta = 1.0 / weight / temperature;
        let scale = F::from_f64(beta * std::f64::consts::LOG2_E).smaller(F::MAX);
        // beta in [2^e, 2^(e+1)): a cell of 2^(1-e) spans 2 to 4 units of 1 / beta.
        let exponent = ((beta.to_bits() >> 52) as i32 & 0x7ff) - 1023;
        Self {
            beta,
            scale,
            cell: F::power_of_two(1 - exponent),
            cells_per_unit: F::power_of_two(exponent - 1),
        }
    }

    /// The shift for a sum whose largest logit is `next`.
    #[inline(always)]
    fn shift(&self, next: F, max: F) -> F {
        let cells = next * self.cells_per_unit;
        if cells < F::INTEGRAL_FROM && cells > F::ZERO - F::INTEGRAL_FROM {
            (cells.ceil() * self.cell).smaller(max).larger(next)
        } else {
            next
        }
    }
}

/// Where a label stands in its row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<F> {
    /// Its logit; finite.
    pub(crate) logit: F,
    /// 1-based.
    pub(crate) rank: usize,
    /// The logit ranked next after it, `-inf` when no possible label is.
    pub(crate) next: F,
}

const LANES: usize = 16;

/// How many logits satisfy `before`, and the largest of the others.
#[inline(always)]
fn count_and_next<F: Float>(part: &[F], before: impl Fn(F) -> bool) -> (usize, F) {
    let mut count = [0_u32; LANES];
    let mut next = [F::NEG_INFINITY; LANES];
    let mut take = |lane: usize, z: F| {
        let is_before = before(z);
        count[lane] += u32::from(is_before);
        next[lane] = next[lane].larger(if is_before { F::NEG_INFINITY } else { z });
    };
    let (groups, rest) = part.as_chunks::<LANES>();
    for group in groups {
        for lane in 0..LANES {
            take(lane, group[lane]);
        }
    }
    for (lane, &z) in rest.iter().enumerate() {
        take(lane, z);
    }
    let total = count.iter().map(|&c| c as usize).sum();
    (total, next.into_iter().fold(F::NEG_INFINITY, Float::larger))
}

/// Rank of a label by counting: no sort. Equal logits rank by lower label first.
#[inline(always)]
pub(crate) fn place<F: Float>(row: &[F], label: usize) -> Place<F> {
    let logit = row[label];
    let (left, next_left) = count_and_next(&row[..label], |z| z >= logit);
    let (right, next_right) = count_and_next(&row[label + 1..], |z| z > logit);
    Place { logit, rank: 1 + left + right, next: next_left.larger(next_right) }
}

/// Masses of one label: a masked pass over the labels after it, another over those before it if any.
#[inline(always)]
pub(crate) fn label_masses<F: Float>(
    row: &[F],
    scan: &Scan<F>,
    label: usize,
    place: &Place<F>,
    sharpness: &Sharpness<F>,
) -> Masses {
    let (max, y) = (scan.max, place.logit);
    let (left, right) = (&row[..label], &row[label + 1..]);
    let scale = sharpness.scale;
    let above = if place.rank == 1 {
        0
    } else {
        sum_terms(left, max, scale, |z| z >= y) + sum_terms(right, max, scale, |z| z > y)
    };
    let (below, shift) = if place.next == F::NEG_INFINITY {
        (0, y)
    } else {
        let shift = sharpness.shift(place.next, max);
        (sum_terms(left, shift, scale, |z| z < y) + sum_terms(right, shift, scale, |z| z <= y), shift)
    };
    masses::<F>(max, y, place.rank, above, below, shift, sharpness)
}

#[inline(always)]
fn masses<F: Float>(
    max: F,
    y: F,
    rank: usize,
    above: i128,
    below: i128,
    shift: F,
    sharpness: &Sharpness<F>,
) -> Masses {
    let m = max.to_f64();
    Masses {
        beta: sharpness.beta,
        rank,
        distance: m - y.to_f64(),
        above: to_f64::<F>(above),
        below: to_f64::<F>(below),
        shift_distance: m - shift.to_f64(),
    }
}

/// A row sorted by falling logit, equal logits by lower label first.
#[derive(Debug, Default)]
pub(crate) struct Order<F> {
    keys: Vec<(u64, u32)>,
    /// Labels by rank.
    pub(crate) labels: Vec<u32>,
    /// Their logits.
    pub(crate) logits: Vec<F>,
    /// How many are possible; the rest are `-inf`.
    pub(crate) n_possible: usize,
}

impl<F: Float> Order<F> {
    pub(crate) fn sort(&mut self, row: &[F]) {
        self.keys.clear();
        self.keys.extend(row.iter().enumerate().map(|(label, z)| (!z.order_key(), label as u32)));
        self.keys.sort_unstable();
        self.labels.clear();
        self.labels.extend(self.keys.iter().map(|&(_, label)| label));
        self.logits.clear();
        self.logits.extend(self.labels.iter().map(|&label| row[label as usize]));
        self.n_possible = self.logits.partition_point(|&z| z > F::NEG_INFINITY);
    }

    /// The masses of every possible label, by rank, given to `each`. `sums` is working space.
    #[inline(always)]
    pub(crate) fn for_each_masses(
        &self,
        sharpness: &Sharpness<F>,
        sums: &mut Vec<(i128, F)>,
        mut each: impl FnMut(usize, &Masses),
    ) {
        let possible = &self.logits[..self.n_possible];
        let Some(&max) = possible.first() else { return };
        let scale = sharpness.scale;
        sums.clear();
        // Nothing is ranked after the last label; any shift does, as long as it is not above it.
        sums.resize(possible.len(), (0, possible[possible.len() - 1]));
        // From the last label back: labels that share a shift extend one sum.
        let mut below = 0;
        let mut shift = F::INFINITY;
        for i in (0..possible.len().saturating_sub(1)).rev() {
            let next = possible[i + 1];
            let wanted = sharpness.shift(next, max);
            if wanted == shift {
                below += quanta(next, shift, scale);
            } else {
                shift = wanted;
                below = sum_terms(self.window(i + 1, shift, scale), shift, scale, |_| true);
            }
            sums[i] = (below, shift);
        }
        let mut above = 0;
        for (i, &y) in possible.iter().enumerate() {
            let (below, shift) = sums[i];
            each(i, &masses::<F>(max, y, i + 1, above, below, shift, sharpness));
            above += quanta(y, max, scale);
        }
    }

    /// The logits from a rank on whose terms are not yet nothing.
    #[inline(always)]
    fn window(&self, from: usize, shift: F, scale: F) -> &[F] {
        let rest = &self.logits[from..self.n_possible];
        let end = rest.partition_point(|&z| (z - shift) * scale > F::EXPONENT_FLOOR);
        &rest[..end]
    }
}

/// Counts and means that the closed limits need and no other score does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Census {
    n_top: usize,
    n_possible: usize,
    mean: f64,
}

impl Census {
    /// One pass, in the order of the labels.
    #[inline(always)]
    pub(crate) fn of<F: Float>(row: &[F], scan: &Scan<F>) -> Self {
        let (mut n_top, mut n_possible, mut sum) = (0, 0, 0.0);
        for &z in row {
            n_top += usize::from(z == scan.max);
            let possible = z > F::NEG_INFINITY;
            n_possible += usize::from(possible);
            // Relative to the maximum, so that large logits of one sign cost no precision.
            sum += if possible { z.to_f64() - scan.max.to_f64() } else { 0.0 };
        }
        Self { n_top, n_possible, mean: sum / n_possible as f64 }
    }

    /// The view of one label.
    #[inline(always)]
    pub(crate) fn view<F: Float>(&self, scan: &Scan<F>, logit: F, rank: usize, weight: f64) -> LimitView {
        let distance = scan.max.to_f64() - logit.to_f64();
        let lead = if rank == 1 { scan.second.to_f64() - logit.to_f64() } else { distance };
        LimitView {
            weight,
            rank,
            distance,
            lead,
            n_top: self.n_top,
            n_possible: self.n_possible,
            mean_lead: self.mean + distance,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sort_and_check<F: Float>(row: &[F], beta: f64) {
        let scan = Scan::of(row, 0).unwrap();
        let sharpness = Sharpness::<F>::new(1.0 / beta, 1.0);
        let mut order = Order::default();
        order.sort(row);
        let mut seen = 0;
        order.for_each_masses(&sharpness, &mut Vec::new(), |i, all| {
            let label = order.labels[i] as usize;
            let place = place(row, label);
            assert_eq!(place.rank, i + 1);
            let one = label_masses(row, &scan, label, &place, &sharpness);
            assert_eq!(format!("{one:?}"), format!("{all:?}"), "label {label}");
            seen += 1;
        });
        assert_eq!(seen, row.iter().filter(|z| **z > F::NEG_INFINITY).count());
    }

    fn logit() -> impl Strategy<Value = f64> {
        prop_oneof![
            8 => -30.0_f64..30.0,
            2 => (-4_i32..4).prop_map(f64::from),
            1 => -1e4_f64..1e4,
            1 => Just(f64::NEG_INFINITY),
        ]
    }

    proptest! {
        #[test]
        fn one_label_and_all_labels_agree_to_the_bit(
            mut row in prop::collection::vec(logit(), 1..120),
            log_beta in -20.0_f64..40.0,
        ) {
            row.push(0.5);
            let beta = log_beta.exp2();
            sort_and_check(&row, beta);
            let narrow: Vec<f32> = row.iter().map(|&z| z as f32).collect();
            sort_and_check(&narrow, beta);
        }
    }

    #[test]
    fn extreme_sharpness() {
        for beta in [1e-300, 1e-30, 1e30, 1e300, f64::INFINITY] {
            sort_and_check(&[1.0_f64, 1.0, 0.0, -3.0, 1e4], beta);
            sort_and_check(&[1.0_f32, 1.0, 0.0, -3.0, 1e4], beta);
        }
    }

    #[test]
    fn shifts_are_between_the_next_logit_and_four_units_above() {
        for beta in [0.01, 0.7, 1.0, 3.0, 1e6] {
            let sharpness = Sharpness::<f64>::new(1.0 / beta, 1.0);
            for i in -1000..1000 {
                let z = f64::from(i) / 37.0;
                let shift = sharpness.shift(z, 1e9);
                assert!(shift >= z && (shift - z) * beta <= 4.0);
            }
        }
    }
}
