//! What is read of a group of rows before any label is looked at: their largest logits and the sums behind
//! entropy. The fast twin of [`crate::row`].

use crate::error::Error;
use crate::float::Float;
use crate::group::Group;
#[cfg(target_arch = "x86_64")]
use crate::group::{narrowed, widened};
use crate::row::{Scan, check_row, entropy_of_sums};
use crate::rows::GROUP;
#[cfg(target_arch = "x86_64")]
use crate::simd::x86_64;
use crate::sum::{Depths, each_lane};
use crate::unit_sums::{RUN, UnitSums, unit_sums};

/// [`Scan`] of each row, and where they are wanted its sums behind entropy.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Scans<F> {
    pub(crate) max: [F; GROUP],
    pub(crate) second: [F; GROUP],
    bits: [u32; GROUP],
    exponentials: [f64; GROUP],
    weighted: [f64; GROUP],
}

impl<F: Float> Scans<F> {
    /// Of rows not yet read.
    pub(crate) const EMPTY: Self = Self {
        max: [F::NEG_INFINITY; GROUP],
        second: [F::NEG_INFINITY; GROUP],
        bits: [0; GROUP],
        exponentials: [0.0; GROUP],
        weighted: [0.0; GROUP],
    };

    /// [`crate::row::entropy`] of each row.
    #[inline(always)]
    pub(crate) fn entropies(&self) -> [f64; GROUP] {
        each_lane!([0.0; GROUP], |i| {
            let gap = self.max[i].to_f64() - self.second[i].to_f64();
            entropy_of_sums(gap, &UnitSums::new(self.exponentials[i], self.weighted[i], gap))
        })
    }

    /// [`Scan::words`] of each row.
    #[inline(always)]
    pub(crate) fn words(&self) -> [[u64; GROUP]; 2] {
        [
            each_lane!([0; GROUP], |i| self.max[i].wide_pattern()),
            each_lane!([0; GROUP], |i| u64::from(self.bits[i])),
        ]
    }

    #[inline(always)]
    pub(crate) fn scan(&self, i: usize) -> Scan<F> {
        Scan { max: self.max[i], second: self.second[i], bits: self.bits[i] }
    }
}

impl<F: Float> Group<'_, F> {
    /// [`Scan::of`] for each row, with the sums behind entropy if it is asked for. What `scans` holds of
    /// other rows is written over, or not looked at. It is not the result, which would be copied.
    #[inline(always)]
    pub(crate) fn scan(
        &self,
        with_entropy: bool,
        position: impl Fn(usize) -> usize,
        scans: &mut Scans<F>,
    ) -> Result<(), Error> {
        if !self.is_transposed() {
            for i in 0..self.count {
                let row = self.rows[i];
                let scan = Scan::of(row, position(i))?;
                (scans.max[i], scans.second[i], scans.bits[i]) = (scan.max, scan.second, scan.bits);
                // While the row is in the nearest cache, and the next one is on its way there.
                if with_entropy {
                    let ahead = if i + 1 < self.count { self.rows[i + 1] } else { self.ahead };
                    (scans.exponentials[i], scans.weighted[i]) = unit_sums(row, scan.second, ahead);
                }
            }
            return Ok(());
        }
        if self.scan_columns(scans) {
            for i in 0..self.count {
                check_row(self.rows[i], position(i))?;
                if scans.max[i] == F::NEG_INFINITY {
                    return Err(Error::NoPossibleLabel { row: position(i) });
                }
            }
        }
        if with_entropy {
            self.sum_columns(scans);
        }
        Ok(())
    }

    /// Fills the scans, and says whether any value is not finite.
    #[inline(always)]
    fn scan_columns(&self, scans: &mut Scans<F>) -> bool {
        #[cfg(target_arch = "x86_64")]
        if let Some(columns) = F::columns_as_f32(self.columns)
            && let Some((max, second, bits, poisoned)) = x86_64::scan_columns(columns)
        {
            (scans.max, scans.second, scans.bits) = (widened(&max), widened(&second), bits);
            return poisoned;
        }
        (scans.max, scans.second) = ([F::NEG_INFINITY; GROUP], [F::NEG_INFINITY; GROUP]);
        scans.bits = [0; GROUP];
        let mut poison = [F::ZERO; GROUP];
        for column in self.columns {
            for lane in 0..GROUP {
                let z = column.0[lane];
                poison[lane] = poison[lane] + z * F::ZERO; // NaN from NaN and infinities on
                scans.second[lane] = scans.second[lane].larger(scans.max[lane].smaller(z));
                scans.max[lane] = scans.max[lane].larger(z);
                scans.bits[lane] = scans.bits[lane].wrapping_add(z.pattern());
            }
        }
        poison.iter().any(|p| *p != F::ZERO)
    }

    /// [`unit_sums`] of each row, from the columns.
    #[inline(always)]
    fn sum_columns(&self, scans: &mut Scans<F>) {
        #[cfg(target_arch = "x86_64")]
        if let Some(columns) = F::columns_as_f32(self.columns)
            && let Some(ahead) = F::as_f32(self.ahead)
            && let Some(sums) = x86_64::unit_sums_columns(columns, &narrowed(&scans.second), ahead)
        {
            (scans.exponentials, scans.weighted) = sums;
            return;
        }
        (scans.exponentials, scans.weighted) = ([0.0; GROUP], [0.0; GROUP]);
        let depths = Depths::new(F::LOG2_E);
        for run in self.columns.chunks(RUN) {
            let (mut e_run, mut d_run) = ([F::ZERO; GROUP], [F::ZERO; GROUP]);
            for column in run {
                for lane in 0..GROUP {
                    let d = depths.of(column.0[lane], scans.second[lane]);
                    let e = F::exp2(d, F::LOG2_E);
                    e_run[lane] = e_run[lane] + e;
                    d_run[lane] = e.mul_add(d, d_run[lane]);
                }
            }
            for lane in 0..GROUP {
                scans.exponentials[lane] += e_run[lane].to_f64();
                scans.weighted[lane] += d_run[lane].to_f64();
            }
        }
    }
}
