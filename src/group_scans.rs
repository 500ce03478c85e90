//! What is read of a group of rows before any label is looked at: their largest logits and the sums behind
//! entropy. The fast twin of [`crate::row`].

use crate::ahead::Ahead;
use crate::entropy::entropies_of_sums;
use crate::error::Error;
use crate::float::Float;
use crate::group::Group;
#[cfg(target_arch = "x86_64")]
use crate::group::lanes_mut;
use crate::row::{Scan, check_row};
use crate::rows::GROUP;
use crate::simd::instances;
#[cfg(target_arch = "x86_64")]
use crate::simd::x86_64::{self, Found};
use crate::sum::{Depths, each_lane};
use crate::unit_sums::{RUN, UnitSums, unit_sums};

/// Which row is fetched from memory while one is read: near enough to be there still, far enough to be there already.
const ROWS_AHEAD: usize = 4;
/// Of longer rows, in bytes, so many do not fit the second cache, and the next one does not fit the nearest.
const LONGEST_AHEAD: usize = 1 << 15;

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
        let gap = each_lane!([0.0; GROUP], |i| self.max[i].to_f64() - self.second[i].to_f64());
        entropies_of_sums::<F, GROUP>(&gap, &UnitSums::new(&self.exponentials, &self.weighted, &gap))
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
    /// [`Scan::of`] for each row, with the sums behind entropy if it is asked for; the rows are transposed on the way,
    /// where labels are few. What `scans` holds of other rows is written over, or not looked at. It is not the
    /// result, which would be copied.
    #[inline(always)]
    pub(crate) fn scan(
        &mut self,
        with_entropy: bool,
        position: impl Fn(usize) -> usize,
        scans: &mut Scans<F>,
    ) -> Result<(), Error> {
        if !self.is_transposed() {
            let is_long = size_of_val(self.rows[0]) > LONGEST_AHEAD;
            for i in 0..=self.count {
                if i < self.count {
                    if let (Some(columns), false) = (self.columns_ahead, with_entropy) {
                        columns.while_scanned(i, self.count, self.is_summed).fetch_all();
                    }
                    let scan = Scan::of(self.rows[i], position(i))?;
                    (scans.max[i], scans.second[i], scans.bits[i]) = (scan.max, scan.second, scan.bits);
                }
                // A row behind, so that nothing waits for the end of a scan; its rows are in the nearest cache and the next
                // one is on its way there, or to the second cache where rows are long.
                if with_entropy && i > 0 {
                    let next = self.row_ahead(i + 1);
                    let ahead = if is_long { [&[], next] } else { [next, self.row_ahead(i + ROWS_AHEAD)] };
                    let ahead = match self.columns_ahead {
                        Some(columns) => {
                            Ahead::Columns(columns.while_scanned(i - 1, self.count, self.is_summed))
                        }
                        None => Ahead::Rows(ahead),
                    };
                    let sums = unit_sums(self.rows[i - 1], scans.second[i - 1], ahead);
                    (scans.exponentials[i - 1], scans.weighted[i - 1]) = sums;
                }
            }
            return Ok(());
        }
        if read_columns(self, with_entropy, scans) {
            for i in 0..self.count {
                check_row(self.rows[i], position(i))?;
                if scans.max[i] == F::NEG_INFINITY {
                    return Err(Error::NoPossibleLabel { row: position(i) });
                }
            }
        }
        Ok(())
    }

    /// A row of this group or, beyond its end, of what will be read after it, as far as that is known.
    #[inline(always)]
    fn row_ahead(&self, i: usize) -> &[F] {
        if i < self.count {
            return self.rows[i];
        }
        self.ahead.get((i - self.count) * self.rows[0].len()..).unwrap_or_default()
    }

    #[inline(always)]
    fn read_columns(&mut self, with_entropy: bool, scans: &mut Scans<F>) -> bool {
        #[cfg(target_arch = "x86_64")]
        if let (Some(rows), Some(columns)) = (F::group_as_f32(self.rows), F::columns_as_f32_mut(self.columns))
            && let (Some(max), Some(second)) = (lanes_mut(&mut scans.max), lanes_mut(&mut scans.second))
        {
            let ahead = F::as_f32(self.ahead).unwrap_or_default();
            let ahead: [&[f32]; 2] = ahead.split_at(ahead.len().min(GROUP * columns.len())).into();
            let Scans { bits, exponentials, weighted, .. } = scans;
            let mut found = Found { max, second, bits, exponentials, weighted };
            if let Some(poisoned) = x86_64::read_columns(rows, columns, with_entropy, ahead, &mut found) {
                return poisoned;
            }
        }
        for (lane, row) in self.rows.iter().enumerate() {
            for (column, &z) in self.columns.iter_mut().zip(*row) {
                column.0[lane] = z;
            }
        }
        (scans.max, scans.second) = ([F::NEG_INFINITY; GROUP], [F::NEG_INFINITY; GROUP]);
        scans.bits = [0; GROUP];
        let mut poison = [F::ZERO; GROUP];
        for column in &*self.columns {
            for lane in 0..GROUP {
                let z = column.0[lane];
                poison[lane] = poison[lane] + z * F::ZERO; // NaN from NaN and infinities on
                scans.second[lane] = scans.second[lane].larger(scans.max[lane].smaller(z));
                scans.max[lane] = scans.max[lane].larger(z);
                scans.bits[lane] = scans.bits[lane].wrapping_add(z.pattern());
            }
        }
        if with_entropy {
            self.unit_sums_of_columns(scans);
        }
        poison.iter().any(|p| *p != F::ZERO)
    }

    /// [`unit_sums`] of each row, from the columns.
    #[inline(always)]
    fn unit_sums_of_columns(&self, scans: &mut Scans<F>) {
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

instances! {
    /// Fills the columns and the scans, and says whether any value is not finite.
    fn read_columns<F: Float>(group: &mut Group<'_, F>, with_entropy: bool, scans: &mut Scans<F>) -> bool = Group::read_columns;
}
