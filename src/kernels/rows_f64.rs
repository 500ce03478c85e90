//! How are float64 rows scanned and summed along the row?
//!
//! The compiler's form of the portable loops writes terms to memory and reads them back before it adds them, and loads the
//! coefficients again for each. Rows are parted at a label by the portable form: most labels have few before them.
#![allow(unsafe_code, reason = "vector loads and instructions of features that were detected")]

use crate::math::{MOST_COARSE, Scalar, TERMS_PER_LANE, WIDTH, WordSums, deepest};
use crate::simd::{Double, Kind, Lines, Vector};

use super::Scanned;
use super::entropy_sums::{MOST_SIDE_BY_SIDE, RUN, few_portable, in_halves};
use super::terms::{depth_f64, exp2_f64};

/// Vectors whose terms are found together, while those of the vectors before are added up: a term takes long
/// to find, and the processor does not look far enough ahead to fill the time by itself.
const TOGETHER: usize = 4;

/// [`sums::portable`](super::sums::portable) of a float64 row; of at most [`MOST_COARSE`] labels if quanta are coarse.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn sum<V: Vector, const COARSE: bool>(row: &[f64], shift: f64, scale: f64) -> i128 {
    assert!(!COARSE || row.len() <= MOST_COARSE, "few labels");
    let mut total = 0;
    for block in row.chunks(V::Double::LANES * (TERMS_PER_LANE - TOGETHER)) {
        // SAFETY: as the caller vouches.
        total += unsafe { sum_block::<V::Double, COARSE>(block, shift, scale) };
    }
    total
}

/// The sum over so few labels that no lane overflows.
#[inline(always)]
unsafe fn sum_block<D: Double, const COARSE: bool>(block: &[f64], shift: f64, scale: f64) -> i128 {
    let unit = if COARSE { D::COARSE_UNIT } else { 1.0 };
    let (from, whole) = (block.as_ptr(), block.len() / D::LANES);
    let rest = block.len() - whole * D::LANES;
    // SAFETY: as the caller vouches; whole vectors and `rest` values after them lie inside the row.
    unsafe {
        let (shift, bottom, scale) = (D::splat(shift + 0.0), D::splat(deepest(scale)), D::splat(scale));
        let (mut sums, mut terms) = (D::no_sums(), [D::splat(0.0); TOGETHER]);
        macro_rules! add {
            ($term:expr) => {
                let term = $term;
                sums = if COARSE { term.accumulate_coarse(sums) } else { term.accumulate(sums) };
            };
        }
        for i in 0..whole / TOGETHER {
            for term in terms {
                add!(term);
            }
            for (j, term) in terms.iter_mut().enumerate() {
                let z = D::load(from.add((i * TOGETHER + j) * D::LANES));
                *term = exp2_f64(depth_f64(z, shift, bottom), scale, unit);
            }
        }
        for term in terms {
            add!(term);
        }
        for i in whole / TOGETHER * TOGETHER..whole {
            let z = D::load(from.add(i * D::LANES));
            add!(exp2_f64(depth_f64(z, shift, bottom), scale, unit));
        }
        if rest > 0 {
            let z = D::load_part(from.add(whole * D::LANES), rest);
            add!(exp2_f64(depth_f64(z, shift, bottom), scale, unit));
        }
        // The first terms of all, 0, were added too.
        let taken = TOGETHER + whole + usize::from(rest > 0);
        if COARSE {
            return D::coarse_total(sums, taken);
        }
        let (mut high, mut low) = ([0; 8], [0; 8]);
        D::store_sums(sums, high.as_mut_ptr(), low.as_mut_ptr());
        if D::LANES == 8 {
            WordSums { high, low }.total::<f64>(taken)
        } else {
            let (high, low) = ([high[0], high[1], high[2], high[3]], [low[0], low[1], low[2], low[3]]);
            WordSums { high, low }.total::<f64>(taken)
        }
    }
}

/// [`entropy_sums::portable`](super::entropy_sums::portable) of a float64 row.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn entropy_sums<V: Vector>(row: &[f64], shift: f64, lines: impl Lines) -> (f64, f64) {
    if row.len() <= MOST_SIDE_BY_SIDE {
        return few_portable(row, shift);
    }
    let lanes = V::Double::LANES;
    let (mut exponentials, mut weighted) = ([0.0; WIDTH], [0.0; WIDTH]);
    let (runs, last) = row.as_chunks::<{ WIDTH * RUN }>();
    // SAFETY: as the caller vouches.
    unsafe {
        let zero = V::Double::splat(0.0);
        let (shift, scale) = (V::Double::splat(shift + 0.0), V::Double::splat(f64::LOG2_E));
        let bottom = V::Double::splat(deepest(f64::LOG2_E));
        // Two vectors at a time, each with lanes of its own.
        for part in (0..WIDTH).step_by(2 * lanes) {
            let (mut e_sums, mut d_sums) = ([zero; 2], [zero; 2]);
            for (r, run) in runs.iter().enumerate() {
                let (mut e_run, mut d_run) = ([zero; 2], [zero; 2]);
                for i in 0..RUN {
                    if part == 0 {
                        for line in 2 * (r * RUN + i)..2 * (r * RUN + i) + 2 {
                            lines.fetch(line);
                        }
                    }
                    for j in 0..2 {
                        let z = V::Double::load(run.as_ptr().add(i * WIDTH + part + j * lanes));
                        let d = depth_f64(z, shift, bottom);
                        let e = exp2_f64(d, scale, 1.0);
                        e_run[j] = e_run[j].add(e);
                        d_run[j] = e.mul_add(d, d_run[j]);
                    }
                }
                for j in 0..2 {
                    e_sums[j] = e_sums[j].add(e_run[j]);
                    d_sums[j] = d_sums[j].add(d_run[j]);
                }
            }
            if part == 0 {
                lines.fetch_end(runs.len() * 2 * RUN, size_of_val(row));
            }
            for j in 0..2 {
                let (mut e_run, mut d_run) = (zero, zero);
                let mut start = part + j * lanes;
                while start < last.len() {
                    let (count, from) = ((last.len() - start).min(lanes), last.as_ptr().add(start));
                    let whole = count == lanes;
                    let z = if whole { V::Double::load(from) } else { V::Double::load_part(from, count) };
                    let d = depth_f64(z, shift, bottom);
                    let e = exp2_f64(d, scale, 1.0);
                    let e = if whole { e } else { e.keep(count) };
                    e_run = e_run.add(e);
                    d_run = e.mul_add(d, d_run);
                    start += WIDTH;
                }
                e_sums[j].add(e_run).store(exponentials.as_mut_ptr().add(part + j * lanes));
                d_sums[j].add(d_run).store(weighted.as_mut_ptr().add(part + j * lanes));
            }
        }
    }
    (in_halves(exponentials), in_halves(weighted))
}

/// [`scan::portable`](super::scan::portable) of a float64 row.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn scan<V: Vector>(row: &[f64]) -> Scanned<f64> {
    const NARROW: u8 = Kind::Narrow as u8;
    const WIDE: u8 = Kind::Wide as u8;
    // SAFETY: as the caller vouches; a whole vector lies inside the row.
    unsafe {
        let is_long = row.len() >= V::Double::LANES;
        let kind = if is_long { V::Double::load(row.as_ptr()).kind() } else { Kind::Mixed };
        let found = match kind {
            Kind::Narrow => scan_of_kind::<V, NARROW>(row),
            Kind::Wide => scan_of_kind::<V, WIDE>(row),
            Kind::Mixed => None,
        };
        found.or_else(|| scan_of_kind::<V, { Kind::Mixed as u8 }>(row)).unwrap_or_default()
    }
}

/// [`scan`] where all values are of one kind, as it seems; `None` if they are not.
#[inline(always)]
unsafe fn scan_of_kind<V: Vector, const KIND: u8>(row: &[f64]) -> Option<Scanned<f64>> {
    let lanes = V::Double::LANES;
    let (whole, mut tops, mut runners_up, mut poisons) = (row.len() / lanes, [0.0; 8], [0.0; 8], [0.0; 8]);
    let patterns;
    // SAFETY: as the caller vouches; whole vectors and `rest` values after them lie inside the row.
    unsafe {
        let (zero, none) = (V::Double::splat(0.0), V::Double::splat(f64::NEG_INFINITY));
        let (mut max, mut second, mut poison, mut bits) = (none, none, zero, V::Double::no_counts());
        for i in 0..whole {
            let z = V::Double::load(row.as_ptr().add(i * lanes));
            if KIND != Kind::Narrow as u8 {
                poison = z.mul_add(zero, poison);
            }
            second = second.larger(max.smaller(z));
            max = max.larger(z);
            bits = z.add_pattern::<KIND>(bits);
        }
        let rest = row.len() - whole * lanes;
        if rest > 0 {
            let z = V::Double::load_part(row.as_ptr().add(whole * lanes), rest);
            poison = z.keep(rest).mul_add(zero, poison);
            second = second.larger(max.smaller(z));
            max = max.larger(z);
            // Zeros in the other lanes.
            bits = z.keep(rest).add_pattern::<{ Kind::Mixed as u8 }>(bits);
        }
        max.store(tops.as_mut_ptr());
        second.store(runners_up.as_mut_ptr());
        poison.store(poisons.as_mut_ptr());
        patterns = V::Double::patterns::<KIND>(bits, whole)?;
    }
    let (mut max, mut second) = (tops[0], runners_up[0]);
    for i in 1..lanes {
        second = Scalar::larger(Scalar::larger(second, runners_up[i]), Scalar::smaller(max, tops[i]));
        max = Scalar::larger(max, tops[i]);
    }
    let bits = patterns.iter().fold(0_u32, |sum, &lane| sum.wrapping_add(lane));
    let is_poisoned = poisons.iter().any(|p| *p != 0.0);
    Some(Scanned { max, second, bits, is_poisoned })
}
