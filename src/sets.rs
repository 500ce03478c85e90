//! Prediction sets: which labels have a ranked score of at most the threshold.

use std::ops::Range;

use crate::batch::groups;
use crate::candidates::Candidates;
use crate::cut::Cut;
use crate::error::Error;
use crate::float::Float;
use crate::group::Group;
use crate::kernel::Views;
use crate::lane_cut::LaneCut;
use crate::results::room;
use crate::rows::{GROUP, Rows};
use crate::scoring::Scoring;
use crate::selected::Vote;
use crate::simd::instances;
use crate::spare::{Space, with_labels};
use crate::threads::{Plan, Size, map_only, map_parts};
use crate::uniform::Randomness;

/// Prediction sets as compressed rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sets {
    /// Row i's labels are `labels[offsets[i]..offsets[i + 1]]`.
    pub offsets: Vec<i64>,
    /// Labels by falling probability.
    pub labels: Vec<i32>,
}

/// The labels whose ranked score is at most the threshold. With `allow_empty` false a set that would
/// be empty holds the top label.
///
/// # Errors
/// For a row that is not one of logits, U outside `[0, 1]`, or a threshold that is NaN.
pub fn predict_sets<F: Float, R: Rows<F>>(
    rows: &R,
    scoring: &Scoring,
    threshold: f64,
    allow_empty: bool,
    randomness: &Randomness<'_>,
    plan: &Plan<'_>,
) -> Result<Sets, Error> {
    randomness.check(rows.n_rows())?;
    if threshold.is_nan() {
        return Err(Error::argument("threshold", "a number", "nan"));
    }
    let cut = Cut::new(scoring, threshold, threshold, rows.n_labels());
    let lanes = LaneCut::for_rows::<F>(&cut, rows.n_rows(), rows.n_labels(), true);
    let size = Size::new(rows.n_rows(), rows.n_labels(), 2);
    Sets::of_blocks(rows.n_rows(), size, plan, |range, sets| {
        sets_block::<F, R>(rows, &cut, lanes.as_ref(), allow_empty, randomness, range, sets)
    })
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

    /// The sets of all rows, block by block: `work` adds those of its rows, in order.
    ///
    /// Offsets are written where they stay, counted within their block at first. They are completed, and the
    /// labels copied, by all threads: the first touch of new memory took much of one thread's time at ten labels.
    pub(crate) fn of_blocks(
        n_rows: usize,
        size: Size,
        plan: &Plan<'_>,
        work: impl Fn(Range<usize>, &mut SetBlock<'_>) -> Result<(), Error> + Sync,
    ) -> Result<Self, Error> {
        let mut offsets = room(n_rows.saturating_add(1), 1)?;
        if let Some(range) = size.only_block() {
            // Copied from a list that grew before, so that the result is allocated once, as long as it is.
            let labels = map_only(range, plan, &mut offsets[1..], |range, ends| {
                with_labels(|grown| {
                    let mut block = SetBlock::new(ends, std::mem::take(grown));
                    work(range, &mut block)?;
                    let mut labels = room(block.labels.len(), 1)?;
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
        let mut labels = room(blocks.iter().map(Vec::len).sum(), 1)?;
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

/// Most sets have no more labels than this.
pub(crate) const SHORT: usize = 4;

/// The sets of consecutive rows, as they are made.
#[derive(Debug)]
pub(crate) struct SetBlock<'a> {
    pub(crate) labels: Vec<i32>,
    ends: &'a mut [i64],
    ended: usize,
}

impl<'a> SetBlock<'a> {
    /// For as many rows as there are ends, with an empty list for their labels.
    pub(crate) fn new(ends: &'a mut [i64], labels: Vec<i32>) -> Self {
        Self { labels, ends, ended: 0 }
    }

    /// Adds the sets of at most a group of rows, of which the first labels are given, and how many belong to it.
    #[inline(always)]
    pub(crate) fn end_short_rows(&mut self, labels: &[[i32; SHORT]], sizes: &[u32]) {
        // All of them are written, and the next row begins where the set ended: how many it is cannot be foreseen.
        let (mut joined, mut at) = ([0; GROUP * SHORT], 0);
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
    pub(crate) fn end_row(&mut self, otherwise: Option<u32>) {
        let start = if self.ended == 0 { 0 } else { self.ends[self.ended - 1] };
        if let (true, Some(label)) = (start == self.labels.len() as i64, otherwise) {
            self.labels.push(label as i32);
        }
        self.ends[self.ended] = self.labels.len() as i64;
        self.ended += 1;
    }
}

instances! {
    fn sets_block<F: Float, R: Rows<F>>(rows: &R, cut: &Cut<'_>, lanes: Option<&LaneCut>, allow_empty: bool, randomness: &Randomness<'_>, range: Range<usize>, sets: &mut SetBlock<'_>) -> Result<(), Error> = sets_rows::<F, R>;
}

#[inline(always)]
fn sets_rows<F: Float, R: Rows<F>>(
    rows: &R,
    cut: &Cut<'_>,
    lanes: Option<&LaneCut>,
    allow_empty: bool,
    randomness: &Randomness<'_>,
    range: Range<usize>,
    sets: &mut SetBlock<'_>,
) -> Result<(), Error> {
    let candidates = Candidates::only(cut.scoring);
    let (mut space, done) = (Space::<F>::fetching(), range.len());
    let Space { lent: scratch, columns, vote: Vote { top, masses, .. }, order, .. } = &mut *space;
    let mut views = Views::new(rows.n_labels());
    for (first, count) in groups(rows, range) {
        let ahead = rows.ahead(first + count);
        let mut lent: [&[F]; GROUP] = [&[]; GROUP];
        rows.group(first, count, scratch, &mut lent)?;
        let mut group = Group::new(&lent, count, ahead, columns).fetching(rows.columns_ahead(first));
        views.read(&mut group, &candidates, randomness, first, |i| rows.position(first + i))?;
        let mut ends = None;
        if let (Some(lanes), Some(columns)) = (lanes, group.columns()) {
            let scale = views.sharpness(cut.scoring).scale;
            order.begin(columns.len());
            let found = lanes.ends(&views.lanes(columns, &scale), order);
            if let (Some(sizes), true) = (found.sizes(count), allow_empty) {
                order.add_sets(sizes, count, sets);
                continue;
            }
            ends = Some(found);
        }
        for i in 0..count {
            if let Some(size) = ends.as_ref().and_then(|ends| ends.size(i)) {
                let size = if allow_empty { size } else { size.max(1) };
                order.add_labels(i, size, &mut sets.labels);
                sets.end_row(None);
                continue;
            }
            let row = group.rows[i];
            let view = views.view(i, row, &candidates);
            masses.forget();
            masses.take(&view, cut.scoring);
            cut.take(&view, masses, top);
            let certain = cut.certain(&view, masses, top);
            let labels = &mut sets.labels;
            labels.extend(top.labels(certain).iter().map(|&label| label as i32));
            cut.walk_from(certain, &view, masses, top, |label, _| labels.push(label as i32));
            sets.end_row(if allow_empty { None } else { top.get(0).map(|first| first.0) });
        }
    }
    space.keep(rows, done);
    Ok(())
}
