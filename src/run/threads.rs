//! How are rows spread over threads?
//!
//! ```text
//! call = slices, one after the other; between them the calling thread asks `interrupt`, which answers Ctrl-C
//! slice = blocks of rows, each the work of one thread at a time
//! ```
//!
//! Every row is computed alone, so the number of threads and the size of blocks never change a bit. Small
//! calls stay on the calling thread.

use std::ops::Range;

use super::planes::Planes;
#[cfg(feature = "rayon")]
use super::pool;
use super::thread_count::default_threads;
use crate::error::Error;
use crate::kernels::TILE;
use crate::simd::with_subnormals;

/// Matrix elements below which a call stays on the calling thread.
const PARALLEL_FROM: usize = 1 << 15;
/// Matrix elements of a block, about.
const BLOCK_ELEMENTS: usize = 1 << 14;
/// Rows of more labels may have blocks smaller than a tile, so that few rows keep all threads busy and
/// converted rows stay in the cache.
const LONG_ROWS: usize = 1 << 12;
/// Calls of this many blocks get blocks eight times as large: these are still enough to keep all threads
/// busy.
const MANY_BLOCKS: usize = 1 << 10;
/// Elements of work of such a block, at most: a few long blocks at the end of a slice would leave threads
/// idle.
const LONG_BLOCK: usize = 1 << 18;
/// Elements of work of a slice, for each thread: about 50 ms.
const SLICE_ELEMENTS: usize = 1 << 25;

/// How a batch call is run.
#[derive(Clone, Copy)]
pub struct Plan<'a> {
    /// Threads to use at most. `None` uses the rayon pool that the caller is in; outside of a pool, the
    /// number that [`default_threads`] gives.
    pub n_threads: Option<usize>,
    /// Called between slices; an error ends the work.
    pub interrupt: &'a (dyn Fn() -> Result<(), Error> + Sync),
}

impl std::fmt::Debug for Plan<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan").field("n_threads", &self.n_threads).finish_non_exhaustive()
    }
}

impl Default for Plan<'_> {
    fn default() -> Self {
        Self { n_threads: None, interrupt: &|| Ok(()) }
    }
}

/// The size of a call: its rows, and the elements of work for each (its labels, times the passes over them).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    n_rows: usize,
    n_labels: usize,
    row_cost: usize,
}

impl Size {
    pub(crate) fn new(n_rows: usize, n_labels: usize, passes: usize) -> Self {
        Self { n_rows, n_labels, row_cost: n_labels.saturating_mul(passes).max(1) }
    }

    /// Whether it is too small for the pool.
    fn is_small(self) -> bool {
        self.n_rows.saturating_mul(self.row_cost) < PARALLEL_FROM
    }

    /// All rows, if they fit in one block.
    pub(crate) fn only_block(self) -> Option<Range<usize>> {
        let mut blocks = self.blocks();
        let first = blocks.next()?;
        if blocks.next().is_none() { Some(first) } else { None }
    }

    /// Consecutive blocks of rows; all but the last hold a whole number of tiles.
    fn blocks(self) -> impl Iterator<Item = Range<usize>> {
        // Many candidates make much work of a short row: smaller blocks keep all threads busy.
        let by_work = (8 * BLOCK_ELEMENTS).div_ceil(self.row_cost).max(4 * TILE);
        let rows = BLOCK_ELEMENTS.div_ceil(self.n_labels.max(1)).min(by_work);
        // Whole tiles: at a thousand labels, half of the lanes would be empty otherwise.
        let rows = if self.n_labels <= LONG_ROWS { rows.next_multiple_of(TILE) } else { rows.max(1) };
        // Long calls get several tiles in a block: the next tile is fetched while one is worked on.
        let most = (LONG_BLOCK / self.row_cost).next_multiple_of(TILE);
        let rows = if self.n_rows / rows >= MANY_BLOCKS { (8 * rows).min(most).max(rows) } else { rows };
        // Small calls are one block, which allocates nothing.
        let rows = if self.is_small() { self.n_rows.max(1) } else { rows };
        (0..self.n_rows).step_by(rows).map(move |start| start..self.n_rows.min(start + rows))
    }
}

/// Calls `work` on all rows of a call that is one [block](Size::only_block). It runs on this thread and
/// allocates nothing; the number of threads is not even asked for.
pub(crate) fn map_only<T, R>(
    range: Range<usize>,
    plan: &Plan<'_>,
    part: T,
    work: impl FnOnce(Range<usize>, T) -> Result<R, Error>,
) -> Result<R, Error> {
    check_threads(plan)?;
    let result = with_subnormals(|| work(range, part))?;
    (plan.interrupt)()?;
    Ok(result)
}

/// Calls `work` on consecutive blocks of rows and returns its results in order. If several blocks fail, the
/// first block's error is returned.
pub(crate) fn map_blocks<R: Send>(
    size: Size,
    plan: &Plan<'_>,
    work: impl Fn(Range<usize>) -> Result<R, Error> + Sync,
) -> Result<Vec<R>, Error> {
    map_parts(|_| (), size, plan, |range, ()| work(range))
}

/// Fills `out` block by block; it is laid out as planes times rows times `width`. `work` gets the rows of a
/// block, and the part of each plane that belongs to them. If there is nothing to fill, it is not called.
pub(crate) fn fill<T: Send>(
    out: &mut [T],
    width: usize,
    size: Size,
    plan: &Plan<'_>,
    work: impl Fn(Range<usize>, &mut Planes<'_, T>) -> Result<(), Error> + Sync,
) -> Result<(), Error> {
    let plane = size.n_rows * width;
    if plane == 0 {
        return check_threads(plan);
    }
    if let Some(range) = size.only_block() {
        return map_only(range, plan, Planes::Whole(out, plane), |range, mut planes| {
            work(range, &mut planes)
        });
    }
    let mut rest: Vec<&mut [T]> = out.chunks_exact_mut(plane).collect();
    let parts = |range: &Range<usize>| {
        let count = range.len() * width;
        Planes::Parts(rest.iter_mut().map(|part| part.split_off_mut(..count).unwrap_or_default()).collect())
    };
    map_parts(parts, size, plan, |range, mut parts| work(range, &mut parts))?;
    Ok(())
}

/// [`map_blocks`], where each block has something of its own: `part` gives it, in the order of the blocks.
pub(crate) fn map_parts<T: Send, R: Send>(
    mut part: impl FnMut(&Range<usize>) -> T,
    size: Size,
    plan: &Plan<'_>,
    work: impl Fn(Range<usize>, T) -> Result<R, Error> + Sync,
) -> Result<Vec<R>, Error> {
    let n_threads = threads_for(size, plan)?;
    let slice_rows = SLICE_ELEMENTS.div_ceil(size.row_cost).saturating_mul(n_threads);
    let work = |range, task| with_subnormals(|| work(range, task));
    let mut results = Vec::new();
    // Parts are made when their slice begins.
    let mut tasks = size.blocks().map(|range| (range.clone(), part(&range))).peekable();
    while let Some((first, _)) = tasks.peek() {
        let end = first.start.saturating_add(slice_rows);
        let slice = std::iter::from_fn(|| tasks.next_if(|(range, _)| range.start < end));
        if n_threads == 1 {
            for (range, task) in slice {
                results.push(work(range, task)?);
            }
        } else {
            let own = plan.n_threads.is_some() || pool::of_caller().is_none();
            let own = own.then_some(n_threads);
            let done = pool::map(own, slice.collect(), &|(range, task)| work(range, task))?;
            for result in done {
                results.push(result?);
            }
        }
        (plan.interrupt)()?;
    }
    Ok(results)
}

fn check_threads(plan: &Plan<'_>) -> Result<(), Error> {
    if plan.n_threads == Some(0) { Err(Error::argument("n_threads", "at least 1", 0)) } else { Ok(()) }
}

/// The number of threads for a call. One block stays with the caller, and does not ask how many threads there
/// are: finding out may read a file or two.
fn threads_for(size: Size, plan: &Plan<'_>) -> Result<usize, Error> {
    check_threads(plan)?;
    if size.only_block().is_some() {
        return Ok(1);
    }
    let n_threads = match (plan.n_threads, pool::of_caller()) {
        (Some(asked), _) => asked,
        (None, Some(of_caller)) => of_caller,
        // Where no threads can be started, as when memory is short, the caller does the work alone.
        (None, None) => match default_threads()? {
            more if more > 1 && pool::start(more.min(pool::LARGEST)).is_err() => 1,
            enough => enough,
        },
    };
    Ok(n_threads.min(pool::LARGEST))
}

/// Without rayon every call runs on the calling thread.
#[cfg(not(feature = "rayon"))]
mod pool {
    use crate::error::Error;

    pub(super) const LARGEST: usize = 1;

    pub(super) fn start(_: usize) -> Result<(), Error> {
        Ok(())
    }

    pub(super) fn of_caller() -> Option<usize> {
        None
    }

    pub(super) fn map<T, R>(
        _: Option<usize>,
        tasks: Vec<T>,
        work: &impl Fn(T) -> R,
    ) -> Result<Vec<R>, Error> {
        Ok(tasks.into_iter().map(work).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_all_rows_in_order() {
        for n_threads in [1, 2, 5] {
            let plan = Plan { n_threads: Some(n_threads), ..Plan::default() };
            let ranges = map_blocks(Size::new(100_001, 100, 1), &plan, Ok).unwrap();
            assert!(ranges.len() > 10);
            assert_eq!(ranges.first().unwrap().start, 0);
            assert!(ranges.windows(2).all(|w| w[0].end == w[1].start));
            assert_eq!(ranges.last().unwrap().end, 100_001);
        }
    }

    #[test]
    fn planes_are_filled_where_they_belong() {
        let (planes, width) = (3, 2);
        // Many blocks, and the only one of a small call.
        for n in [50_000, 500] {
            let mut out = vec![0_usize; planes * n * width];
            fill(&mut out, width, Size::new(n, 64, 1), &Plan::default(), |range, parts| {
                for p in 0..planes {
                    for (i, row) in range.clone().zip(parts.plane(p).chunks_mut(width)) {
                        row.copy_from_slice(&[p * n + i, 1]);
                    }
                }
                Ok(())
            })
            .unwrap();
            assert!(out.chunks(2).enumerate().all(|(i, pair)| pair == [i, 1]));
        }
    }

    #[test]
    fn small_calls_are_one_block() {
        for n_labels in [1, 3, 100, 1000, 5000] {
            for passes in [1, 2, 40] {
                let largest = (PARALLEL_FROM - 1) / (n_labels * passes);
                let only = |n_rows| Size::new(n_rows, n_labels, passes).only_block();
                assert!(
                    largest == 0 || only(largest) == Some(0..largest),
                    "{n_labels} labels, {passes} passes"
                );
            }
        }
        assert_eq!(Size::new(0, 10, 1).only_block(), None);
    }

    #[test]
    fn the_first_error_wins_and_interrupts_end_the_work() {
        let plan = Plan { n_threads: Some(4), ..Plan::default() };
        let fail =
            |range: Range<usize>| -> Result<(), Error> { Err(Error::NoPossibleLabel { row: range.start }) };
        assert_eq!(
            map_blocks(Size::new(1_000_000, 10, 1), &plan, fail).unwrap_err(),
            Error::NoPossibleLabel { row: 0 }
        );
        let stop = Plan { interrupt: &|| Err(Error::Interrupted), ..plan };
        assert_eq!(
            map_blocks(Size::new(1_000_000, 1000, 1), &stop, |_| Ok(())).unwrap_err(),
            Error::Interrupted
        );
        let zero = Plan { n_threads: Some(0), ..plan };
        assert!(map_blocks(Size::new(10, 10, 1), &zero, |_| Ok(())).is_err());
    }
}
