//! What are prediction sets, and how are the sets of blocks of rows put together?

use std::ops::Range;

use crate::error::Error;
use crate::kernels::TILE;
use crate::run::{Plan, Size, map_only, map_parts, push, reserve, with_scratch, zeroed};

/// Prediction sets as compressed rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sets {
    /// Row i's labels are `labels[offsets[i]..offsets[i + 1]]`.
    pub offsets: Vec<i64>,
    /// Labels by falling probability.
    pub labels: Vec<i32>,
}

impl Sets {
    /// The labels of one row.
    ///
    /// # Panics
    /// When there are not so many rows.
    #[must_use]
    pub fn row(&self, i: usize) -> &[i32] {
        &self.labels[self.offsets[i] as usize..self.offsets[i + 1] as usize]
    }

    /// The sets of all rows. For each block, `work` adds the sets of its rows in order.
    ///
    /// ```text
    /// for each block, on a thread: list the labels of its sets; write offsets in place, as within the block
    /// for each block, on a thread: add the number of labels before it to its offsets; copy its labels
    /// ```
    ///
    /// All threads copy: the first touch of new memory took much of one thread's time at ten labels.
    pub(crate) fn of_blocks(
        n_rows: usize,
        size: Size,
        plan: &Plan<'_>,
        work: impl Fn(Range<usize>, &mut SetBlock<'_>) -> Result<(), Error> + Sync,
    ) -> Result<Self, Error> {
        let mut offsets = zeroed(n_rows.saturating_add(1), 1)?;
        if let Some(range) = size.only_block() {
            // The labels are copied from a list that is kept, so that the result is allocated once, at its
            // own length.
            let labels = map_only(range, plan, &mut offsets[1..], |range, ends| {
                with_scratch(false, |grown: &mut Vec<i32>| {
                    grown.clear();
                    let mut block = SetBlock::new(ends, std::mem::take(grown));
                    work(range, &mut block)?;
                    let mut labels = zeroed(block.labels.len(), 1)?;
                    labels.copy_from_slice(&block.labels);
                    *grown = block.labels;
                    Ok(labels)
                })
            })?;
            return Ok(Self { offsets, labels });
        }
        let mut rest = &mut offsets[1..];
        let part = |range: &Range<usize>| rest.split_off_mut(..range.len()).unwrap_or_default();
        let blocks = map_parts(part, size, plan, |range, ends| {
            let mut block = SetBlock::new(ends, Vec::new());
            work(range, &mut block)?;
            Ok(block.labels)
        })?;
        let mut labels = zeroed(blocks.iter().map(Vec::len).sum(), 1)?;
        let (mut rest, mut places) = (&mut offsets[1..], labels.as_mut_slice());
        let (mut before, mut blocks) = (0, blocks.into_iter());
        let part = |range: &Range<usize>| {
            let block = blocks.next().unwrap_or_default();
            let start = before;
            before += block.len() as i64;
            let place = places.split_off_mut(..block.len()).unwrap_or_default();
            (start, rest.split_off_mut(..range.len()).unwrap_or_default(), block, place)
        };
        map_parts(part, size, plan, |_, (start, ends, block, place)| {
            for end in ends {
                *end += start;
            }
            place.copy_from_slice(&block);
            Ok(())
        })?;
        Ok(Self { offsets, labels })
    }
}

/// Sets of up to so many labels are written at once: most sets are.
pub(crate) const SHORT: usize = 4;

/// The sets of consecutive rows, as they are made.
#[derive(Debug)]
pub(crate) struct SetBlock<'a> {
    pub(crate) labels: Vec<i32>,
    ends: &'a mut [i64],
    ended: usize,
    /// Whether there was room for all labels.
    is_complete: Result<(), Error>,
}

impl<'a> SetBlock<'a> {
    /// For as many rows as there are ends, with an empty list for their labels.
    pub(crate) fn new(ends: &'a mut [i64], labels: Vec<i32>) -> Self {
        Self { labels, ends, ended: 0, is_complete: Ok(()) }
    }

    /// Makes room for so many labels more.
    #[inline(always)]
    pub(crate) fn reserve(&mut self, more: usize) -> Result<(), Error> {
        reserve(&mut self.labels, more)
    }

    /// Adds a label to the set of the row; [`Self::end_row`] says whether there was room for it.
    #[inline(always)]
    pub(crate) fn push(&mut self, label: u32) {
        if self.is_complete.is_ok() {
            self.is_complete = push(&mut self.labels, label as i32);
        }
    }

    /// Adds the sets of at most a tile of rows, given the first labels of each and its size.
    #[inline(always)]
    pub(crate) fn end_short_rows(&mut self, labels: &[[i32; SHORT]], sizes: &[u32]) {
        // All labels are written, and the next row overwrites those beyond the set: a branch on its size
        // would be mispredicted.
        let (mut joined, mut at) = ([0; TILE * SHORT], 0);
        let ends = &mut self.ends[self.ended..][..labels.len()];
        for ((labels, &size), end) in labels.iter().zip(sizes).zip(ends) {
            joined[at..][..SHORT].copy_from_slice(labels);
            at += size as usize;
            *end = (self.labels.len() + at) as i64;
        }
        self.labels.extend_from_slice(&joined[..at]);
        self.ended += labels.len();
    }

    /// Ends the set of a row; `otherwise` fills an empty one.
    #[inline(always)]
    pub(crate) fn end_row(&mut self, otherwise: Option<u32>) -> Result<(), Error> {
        let start = if self.ended == 0 { 0 } else { self.ends[self.ended - 1] };
        if let (true, Some(label)) = (start == self.labels.len() as i64, otherwise) {
            self.push(label);
        }
        self.ends[self.ended] = self.labels.len() as i64;
        self.ended += 1;
        std::mem::replace(&mut self.is_complete, Ok(()))
    }
}
