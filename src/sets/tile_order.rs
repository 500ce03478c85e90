//! What are the first labels by rank of each row of a tile, one lane a row?
//!
//! The two largest logits of a row are known from its scan, so the first two ranks take a comparison a label
//! to find. Each rank after them is a pass for the largest logit that is left.

use super::result::{SHORT, SetBlock};
use crate::error::Error;
use crate::kernels::{self, Column, Float, TILE, TileScan};
use crate::math::each_lane;
use crate::run::{Scratch, list_bytes};
use crate::simd::Simd;

/// Labels by rank, and their logits.
#[derive(Debug, Default)]
pub(crate) struct TileOrder<F: Float> {
    /// The columns, with `-inf` in place of all labels found but the last. Empty until the third rank is
    /// wanted.
    rest: Vec<Column<F>>,
    pub(crate) logits: Vec<Column<F>>,
    pub(crate) labels: Vec<[u32; TILE]>,
    pub(crate) found: usize,
}

impl<F: Float> Scratch for TileOrder<F> {
    fn bytes(&self) -> usize {
        list_bytes(&self.rest) + list_bytes(&self.logits) + list_bytes(&self.labels)
    }
}

impl<F: Float> TileOrder<F> {
    /// Forgets what it held, for rows of so many labels.
    #[inline(always)]
    pub(crate) fn begin(&mut self, n_labels: usize) {
        self.logits.resize(n_labels, Column([F::ZERO; TILE]));
        self.labels.resize(n_labels.max(SHORT), [0; TILE]);
        self.found = 0;
    }

    /// Adds the sets of `count` rows, of these sizes, to `sets`.
    #[inline(always)]
    pub(crate) fn add_sets(
        &self,
        sizes: &[u32; TILE],
        count: usize,
        sets: &mut SetBlock<'_>,
    ) -> Result<(), Error> {
        sets.reserve(sizes[..count].iter().map(|&size| size as usize).sum())?;
        if sizes[..count].iter().all(|&size| size <= SHORT as u32) {
            let [first, second, third, fourth] =
                each_lane!([&self.labels[0]; SHORT], |rank| &self.labels[rank]);
            let labels = each_lane!([[0; SHORT]; TILE], |row| {
                [first[row] as i32, second[row] as i32, third[row] as i32, fourth[row] as i32]
            });
            sets.end_short_rows(&labels[..count], &sizes[..count]);
        } else {
            for row in 0..count {
                self.add_labels(row, sizes[row] as usize, &mut sets.labels);
                sets.end_row(None)?;
            }
        }
        Ok(())
    }

    /// Adds the first labels of a row, by rank.
    #[inline(always)]
    pub(crate) fn add_labels(&self, row: usize, size: usize, labels: &mut Vec<i32>) {
        labels.extend(self.labels[..size].iter().map(|of_rank| of_rank[row] as i32));
    }

    /// Finds the next rank of all rows, which were scanned. Its logit is `-inf` where no possible label is
    /// left.
    #[inline(always)]
    pub(crate) fn extend<S: Simd>(&mut self, s: S, columns: &[Column<F>], scan: &TileScan<F>) {
        if self.found == 0 {
            self.find_first(s, columns, scan);
            return;
        }
        if self.found == 2 {
            self.rest.clear();
            self.rest.extend_from_slice(columns);
        }
        let last = self.labels[self.found - 1];
        let before = self.labels[if self.found == 2 { 0 } else { self.found - 1 }];
        let (mut best, mut label) = ([F::NEG_INFINITY; TILE], [0; TILE]);
        for (k, column) in (0_u32..).zip(&mut self.rest) {
            for lane in 0..TILE {
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

    /// Finds the first two ranks, or the only one.
    #[inline(always)]
    fn find_first<S: Simd>(&mut self, s: S, columns: &[Column<F>], scan: &TileScan<F>) {
        let [top, first, next] = kernels::first_labels(s, columns, scan);
        self.labels[0] = top;
        // Where the two largest logits are equal, either may be the top label.
        self.labels[1] = each_lane!([0; TILE], |i| if first[i] == top[i] { next[i] } else { first[i] });
        self.logits[0] = Column(scan.max);
        self.found = 1;
        if let Some(logits) = self.logits.get_mut(1) {
            *logits = Column(scan.second);
            self.found = 2;
        }
    }
}
