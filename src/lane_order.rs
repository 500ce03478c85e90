//! The labels of a group's rows by rank, one lane a row, found as far as someone asks.
//!
//! The two largest logits of a row are known from its scan, so the first two ranks take a comparison a label to find.
//! Each rank after them is a pass for the largest logit that is left.

use crate::float::Float;
#[cfg(target_arch = "x86_64")]
use crate::group::lanes;
use crate::rows::{Column, GROUP};
use crate::sets::{SHORT, SetBlock};
#[cfg(target_arch = "x86_64")]
use crate::simd::x86_64;
use crate::spare::bytes;
use crate::sum::each_lane;

/// Labels by rank, and their logits.
#[derive(Debug, Default)]
pub(crate) struct LaneOrder<F> {
    /// The columns, with `-inf` in place of all labels found but the last. Only there from the third rank on.
    rest: Vec<Column<F>>,
    pub(crate) logits: Vec<Column<F>>,
    pub(crate) labels: Vec<[u32; GROUP]>,
    pub(crate) found: usize,
}

impl<F: Float> LaneOrder<F> {
    /// Bytes that it has room for.
    pub(crate) fn bytes(&self) -> usize {
        bytes(&self.rest) + bytes(&self.logits) + bytes(&self.labels)
    }

    /// Forgets what it held, for rows of so many labels.
    #[inline(always)]
    pub(crate) fn begin(&mut self, n_labels: usize) {
        self.logits.resize(n_labels, Column([F::ZERO; GROUP]));
        self.labels.resize(n_labels.max(SHORT), [0; GROUP]);
        self.found = 0;
    }

    /// Adds the sets of `count` rows, whose sizes are given, to those of the rows before them.
    #[inline(always)]
    pub(crate) fn add_sets(&self, sizes: &[u32; GROUP], count: usize, sets: &mut SetBlock<'_>) {
        if sizes[..count].iter().all(|&size| size <= SHORT as u32) {
            let [first, second, third, fourth] =
                each_lane!([&self.labels[0]; SHORT], |rank| &self.labels[rank]);
            let labels = each_lane!([[0; SHORT]; GROUP], |row| {
                [first[row] as i32, second[row] as i32, third[row] as i32, fourth[row] as i32]
            });
            sets.end_short_rows(&labels[..count], &sizes[..count]);
        } else {
            for row in 0..count {
                self.add_labels(row, sizes[row] as usize, &mut sets.labels);
                sets.end_row(None);
            }
        }
    }

    /// Adds the first labels of a row, by rank.
    #[inline(always)]
    pub(crate) fn add_labels(&self, row: usize, size: usize, labels: &mut Vec<i32>) {
        labels.extend(self.labels[..size].iter().map(|of_rank| of_rank[row] as i32));
    }

    /// Finds the next rank of all rows, of which the two largest logits are given: `-inf` where no possible label is
    /// left.
    #[inline(always)]
    pub(crate) fn extend(&mut self, columns: &[Column<F>], max: &[F; GROUP], second: &[F; GROUP]) {
        if self.found == 0 {
            self.find_first(columns, max, second);
            return;
        }
        if self.found == 2 {
            self.rest.clear();
            self.rest.extend_from_slice(columns);
        }
        let last = self.labels[self.found - 1];
        let before = self.labels[if self.found == 2 { 0 } else { self.found - 1 }];
        let (mut best, mut label) = ([F::NEG_INFINITY; GROUP], [0; GROUP]);
        for (k, column) in (0_u32..).zip(&mut self.rest) {
            for lane in 0..GROUP {
                let is_found = (last[lane] == k) | (before[lane] == k);
                let z = if is_found { F::NEG_INFINITY } else { column.0[lane] };
                column.0[lane] = z;
                // Strictly: of equal logits the lowest label comes first.
                label[lane] = if z > best[lane] { k } else { label[lane] };
                best[lane] = z.larger(best[lane]);
            }
        }
        self.logits[self.found] = Column(best);
        self.labels[self.found] = label;
        self.found += 1;
    }

    /// Finds the first two ranks, as far as there are so many labels.
    #[inline(always)]
    fn find_first(&mut self, columns: &[Column<F>], max: &[F; GROUP], second: &[F; GROUP]) {
        let [top, first, next] = first_labels(columns, max, second);
        self.labels[0] = top;
        // The second largest may be as large as the first, and the top label any of them.
        self.labels[1] = each_lane!([0; GROUP], |i| if first[i] == top[i] { next[i] } else { first[i] });
        self.logits[0] = Column(*max);
        self.found = 1;
        if let Some(logits) = self.logits.get_mut(1) {
            *logits = Column(*second);
            self.found = 2;
        }
    }
}

/// The first label with the largest logit, and the first and the second of those whose logits are at least the second
/// largest.
#[inline(always)]
fn first_labels<F: Float>(columns: &[Column<F>], max: &[F; GROUP], second: &[F; GROUP]) -> [[u32; GROUP]; 3] {
    #[cfg(target_arch = "x86_64")]
    if let (Some(columns), Some(max), Some(second)) = (F::columns_as_f32(columns), lanes(max), lanes(second))
    {
        let mut found = [[0.0; GROUP]; 3];
        if x86_64::first_labels(columns, max, second, &mut found).is_some() {
            return found.map(|bits| each_lane!([0; GROUP], |i| bits[i].to_bits()));
        }
    }
    let [mut top, mut first, mut next] = [[0; GROUP]; 3];
    // From the last label on, so that the first ones stay.
    for (k, column) in (0..columns.len() as u32).zip(columns).rev() {
        for lane in 0..GROUP {
            let z = column.0[lane];
            top[lane] = if z >= max[lane] { k } else { top[lane] };
            let is_high = z >= second[lane];
            next[lane] = if is_high { first[lane] } else { next[lane] };
            first[lane] = if is_high { k } else { first[lane] };
        }
    }
    [top, first, next]
}
