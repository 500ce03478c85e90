//! Rows over threads: the only file that names rayon, and the only way into it.
//!
//! Every row is computed alone, so the number of threads and the size of blocks never change a bit.
//! A call from within a rayon pool stays in it unless it says how many threads it wants; else the
//! pool is our own, made on first need and never at import. Work is cut into slices; between
//! slices the calling thread asks `interrupt`, which is how Ctrl-C is answered in a long call.
//! Small work never enters the pool.

use std::ops::Range;

use crate::error::Error;
use crate::planes::Planes;
use crate::rows::GROUP;
use crate::simd::with_subnormals;
use crate::thread_count::default_threads;

/// Matrix elements below which a call stays on the calling thread.
const PARALLEL_FROM: usize = 1 << 15;
/// Matrix elements that a block, the unit of work of one thread, has about.
const BLOCK_ELEMENTS: usize = 1 << 14;
/// Labels from which on a block has less than a group of rows, so that few rows keep all threads busy and what
/// is converted stays in the cache.
const LONG_ROWS: usize = 1 << 12;
/// Blocks of which there may as well be an eighth.
const MANY_BLOCKS: usize = 1 << 10;
/// Elements of work that a block has at most then: few long ones at the end of a slice would leave threads idle.
const LONG_BLOCK: usize = 1 << 18;
/// Elements of work for each thread between two looks at `interrupt`: about 50 ms.
const SLICE_ELEMENTS: usize = 1 << 25;

/// How a batch call is run.
#[derive(Clone, Copy)]
pub struct Plan<'a> {
    /// Threads to use at most; `None` for the rayon pool that the caller is in, and outside of one for as
    /// many as [`default_threads`] says.
    pub n_threads: Option<usize>,
    /// Asked between slices; an error ends the work.
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

/// The size of a call: rows, and elements of work for each (its labels, times the candidates).
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

    /// All rows, where they are few enough for one block.
    pub(crate) fn only_block(self) -> Option<Range<usize>> {
        let mut blocks = self.blocks();
        let first = blocks.next()?;
        if blocks.next().is_none() { Some(first) } else { None }
    }

    /// Consecutive blocks of rows; all but the last hold a whole number of groups.
    fn blocks(self) -> impl Iterator<Item = Range<usize>> {
        // Rows of few labels and many candidates are much work each: smaller blocks keep all threads busy.
        let by_work = (8 * BLOCK_ELEMENTS).div_ceil(self.row_cost).max(4 * GROUP);
        let rows = BLOCK_ELEMENTS.div_ceil(self.n_labels.max(1)).min(by_work);
        // Whole groups, half of whose lanes would else be empty at a thousand labels.
        let rows = if self.n_labels <= LONG_ROWS { rows.next_multiple_of(GROUP) } else { rows.max(1) };
        // In long calls several groups: the next one is on its way to the cache while one is worked on.
        let most = (LONG_BLOCK / self.row_cost).next_multiple_of(GROUP);
        let rows = if self.n_rows / rows >= MANY_BLOCKS { (8 * rows).min(most).max(rows) } else { rows };
        // Small calls are one block, which allocates nothing.
        let rows = if self.is_small() { self.n_rows.max(1) } else { rows };
        (0..self.n_rows).step_by(rows).map(move |start| start..self.n_rows.min(start + rows))
    }
}

/// Calls `work` on all rows, which are one [block](Size::only_block): on this thread, whatever
/// the number of threads would be, which is not asked for, and without allocating anything.
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

/// Calls `work` on consecutive blocks of rows and returns its results in order. Of several errors the
/// one of the first block is returned.
pub(crate) fn map_blocks<R: Send>(
    size: Size,
    plan: &Plan<'_>,
    work: impl Fn(Range<usize>) -> Result<R, Error> + Sync,
) -> Result<Vec<R>, Error> {
    map_parts(|_| (), size, plan, |range, ()| work(range))
}

/// Fills `out`, laid out as planes times rows times `width`, block by block: `work` gets the rows and the part of
/// each plane that belongs to them. Nothing is asked of it where there is nothing to fill.
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

/// [`map_blocks`] with something of its own for each block, which `part` gives, in order.
pub(crate) fn map_parts<T: Send, R: Send>(
    mut part: impl FnMut(&Range<usize>) -> T,
    size: Size,
    plan: &Plan<'_>,
    work: impl Fn(Range<usize>, T) -> Result<R, Error> + Sync,
) -> Result<Vec<R>, Error> {
    let tasks = size.blocks().map(|range| {
        let part = part(&range);
        (range, part)
    });
    run(tasks, size, plan, work)
}

/// Runs the tasks in slices, each made when its slice begins, and collects their results.
fn run<T: Send, R: Send>(
    tasks: impl Iterator<Item = (Range<usize>, T)>,
    size: Size,
    plan: &Plan<'_>,
    work: impl Fn(Range<usize>, T) -> Result<R, Error> + Sync,
) -> Result<Vec<R>, Error> {
    let n_threads = threads_for(size, plan)?;
    let slice_rows = SLICE_ELEMENTS.div_ceil(size.row_cost).saturating_mul(n_threads);
    let work = |range, task| with_subnormals(|| work(range, task));
    let mut results = Vec::new();
    let mut tasks = tasks.peekable();
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

/// The threads a call gets. One block, as small calls are, does not even ask how many there are, which costs a file or
/// two, and stays with the caller.
fn threads_for(size: Size, plan: &Plan<'_>) -> Result<usize, Error> {
    check_threads(plan)?;
    if size.only_block().is_some() {
        return Ok(1);
    }
    let n_threads = match (plan.n_threads, pool::of_caller()) {
        (Some(asked), _) => asked,
        (None, Some(of_caller)) => of_caller,
        (None, None) => default_threads()?,
    };
    Ok(n_threads.min(pool::LARGEST))
}

#[cfg(feature = "rayon")]
mod pool {
    use std::cell::UnsafeCell;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, Mutex, PoisonError};

    use rayon::prelude::*;

    use crate::error::Error;

    /// The most that a call can use.
    pub(super) const LARGEST: usize = crate::thread_count::MOST;

    struct Pool {
        process: u32,
        n_threads: usize,
        threads: Arc<rayon::ThreadPool>,
    }

    /// A pool behind a lock that survives `fork`.
    ///
    /// A mutex that another thread holds while this one forks stays locked in the child forever, and
    /// the child's first call hangs. Here the lock is the holder's process id: a child that finds its
    /// parent's takes the lock over and forgets what it guards, which it could not use anyway, since
    /// a forked process has none of its parent's threads. (Dropping the parent's pool instead would
    /// take locks of its own.) It is held for a few instructions, never while a pool is built.
    struct Shared {
        holder: AtomicU32,
        pool: UnsafeCell<Option<Pool>>,
    }

    // SAFETY: the cell is only touched by the holder of the lock.
    #[allow(unsafe_code, reason = "a lock of our own; see Shared")]
    unsafe impl Sync for Shared {}

    static SHARED: Shared = Shared { holder: AtomicU32::new(0), pool: UnsafeCell::new(None) };

    impl Shared {
        #[allow(unsafe_code, reason = "a lock of our own; see Shared")]
        fn with<T>(&self, use_pool: impl FnOnce(&mut Option<Pool>) -> T) -> T {
            let process = std::process::id();
            let mut seen = 0;
            // From free, or from a holder that lives in another process.
            while let Err(holder) =
                self.holder.compare_exchange_weak(seen, process, Ordering::Acquire, Ordering::Relaxed)
            {
                seen = if holder == process { 0 } else { holder };
                std::thread::yield_now();
            }
            // SAFETY: this thread holds the lock, and no other thread of this process can: they wait for
            // it to be free.
            let pool = unsafe { &mut *self.pool.get() };
            if seen != 0 || pool.as_ref().is_some_and(|pool| pool.process != process) {
                // SAFETY: as above; what was there, perhaps half-written, is overwritten unread.
                unsafe { std::ptr::write(pool, None) };
            }
            let result = use_pool(pool);
            self.holder.store(0, Ordering::Release);
            result
        }
    }

    /// The pool for this many threads, made on first need.
    fn pool(n_threads: usize) -> Result<Arc<rayon::ThreadPool>, Error> {
        let known = SHARED.with(|held| {
            let pool = held.as_ref().filter(|pool| pool.n_threads == n_threads);
            pool.map(|pool| Arc::clone(&pool.threads))
        });
        if let Some(threads) = known {
            return Ok(threads);
        }
        let made = rayon::ThreadPoolBuilder::new()
            .num_threads(n_threads)
            .thread_name(|i| format!("tightset-{i}"))
            .build()
            .map_err(|e| {
                let expected = "a number of threads this system can start";
                Error::argument("n_threads", expected, format!("{n_threads} ({e})"))
            })?;
        let threads = Arc::new(made);
        let pool = Pool { process: std::process::id(), n_threads, threads: Arc::clone(&threads) };
        // The old pool ends here, outside the lock, when its last call has ended.
        drop(SHARED.with(|held| held.replace(pool)));
        Ok(threads)
    }

    /// Threads of the pool that the caller runs in, if it does.
    pub(super) fn of_caller() -> Option<usize> {
        rayon::current_thread_index().map(|_| rayon::current_num_threads())
    }

    /// Maps in our own pool of so many threads, or in the caller's.
    ///
    /// rayon sees numbers of tasks alone: as a map over tasks and results of every type it was compiled
    /// thirty times, a quarter of the crate's code. A lock that no one else wants costs nothing beside a block.
    pub(super) fn map<T: Send, R: Send>(
        n_threads: Option<usize>,
        tasks: Vec<T>,
        work: &(impl Fn(T) -> R + Sync),
    ) -> Result<Vec<R>, Error> {
        let slots: Vec<_> = tasks.into_iter().map(|task| Mutex::new((Some(task), None))).collect();
        let locked = |i: usize| slots[i].lock().unwrap_or_else(PoisonError::into_inner);
        for_each(n_threads, slots.len(), &|i| {
            let task = locked(i).0.take();
            let result = task.map(work);
            locked(i).1 = result;
        })?;
        let result =
            |slot: Mutex<(_, Option<R>)>| slot.into_inner().unwrap_or_else(PoisonError::into_inner).1;
        Ok(slots.into_iter().filter_map(result).collect())
    }

    fn for_each(n_threads: Option<usize>, count: usize, work: &(dyn Fn(usize) + Sync)) -> Result<(), Error> {
        let all = || (0..count).into_par_iter().for_each(work);
        match n_threads {
            Some(n_threads) => pool(n_threads)?.install(all),
            None => all(),
        }
        Ok(())
    }
}

#[cfg(not(feature = "rayon"))]
mod pool {
    use crate::error::Error;

    pub(super) const LARGEST: usize = 1;

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
