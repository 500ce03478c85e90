//! Rows over threads: the only file that names rayon, and the only way into it.
//!
//! Every row is computed alone, so the number of threads and the size of blocks never change a bit.
//! The pool is our own, made on first need and never at import. Work is cut into slices; between
//! slices the calling thread asks `interrupt`, which is how Ctrl-C is answered in a long call.
//! Small work never enters the pool.

use std::ops::Range;

use crate::error::Error;

/// Matrix elements below which a call stays on the calling thread.
const PARALLEL_FROM: usize = 1 << 15;
/// Matrix elements that a block, the unit of work of one thread, has at least.
const BLOCK_ELEMENTS: usize = 1 << 14;
/// Matrix elements between two looks at `interrupt`: about 50 ms of the slowest kernel.
const SLICE_ELEMENTS: usize = 1 << 22;

/// How a batch call is run.
#[derive(Clone, Copy)]
pub struct Plan<'a> {
    /// Threads to use at most; `None` for as many as the machine allows this process.
    pub n_threads: Option<usize>,
    /// Asked between slices; an error ends the work.
    pub interrupt: &'a (dyn Fn() -> Result<(), Error> + Sync),
    /// Elements of work for one row, as a multiple of its labels: candidates, for example.
    pub passes: usize,
}

impl std::fmt::Debug for Plan<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan").field("n_threads", &self.n_threads).field("passes", &self.passes).finish()
    }
}

impl Default for Plan<'_> {
    fn default() -> Self {
        Self { n_threads: None, interrupt: &|| Ok(()), passes: 1 }
    }
}

/// Calls `work` on consecutive blocks of `0..n_rows` and returns its results in order. Of several
/// errors the one of the first block is returned.
///
/// # Errors
/// What `work` or the plan's interrupt returned.
pub(crate) fn map_blocks<R: Send>(
    n_rows: usize,
    n_labels: usize,
    plan: &Plan<'_>,
    work: impl Fn(Range<usize>) -> Result<R, Error> + Sync,
) -> Result<Vec<R>, Error> {
    let tasks = blocks(n_rows, n_labels, plan).map(|range| (range, ())).collect();
    run(tasks, n_rows, n_labels, plan, |range, ()| work(range))
}

/// Fills `out`, laid out as `planes` times `n_rows` times `width`, block by block: `work` gets the
/// rows and, for each plane, the part of it that belongs to them.
///
/// # Errors
/// What `work` or the plan's interrupt returned.
pub(crate) fn fill<T: Send>(
    out: &mut [T],
    n_rows: usize,
    width: usize,
    n_labels: usize,
    plan: &Plan<'_>,
    work: impl Fn(Range<usize>, &mut [&mut [T]]) -> Result<(), Error> + Sync,
) -> Result<(), Error> {
    let plane = n_rows * width;
    let mut rest: Vec<&mut [T]> = if plane == 0 { Vec::new() } else { out.chunks_exact_mut(plane).collect() };
    let tasks = blocks(n_rows, n_labels, plan)
        .map(|range| {
            let parts = rest.iter_mut().map(|part| {
                let (head, tail) = std::mem::take(part).split_at_mut(range.len() * width);
                *part = tail;
                head
            });
            let parts: Vec<&mut [T]> = parts.collect();
            (range, parts)
        })
        .collect();
    run(tasks, n_rows, n_labels, plan, |range, mut parts: Vec<&mut [T]>| work(range, &mut parts))?;
    Ok(())
}

/// Elements of work that a row stands for.
fn row_cost(n_labels: usize, plan: &Plan<'_>) -> usize {
    n_labels.saturating_mul(plan.passes).max(1)
}

fn blocks(n_rows: usize, n_labels: usize, plan: &Plan<'_>) -> impl Iterator<Item = Range<usize>> + use<> {
    let size = BLOCK_ELEMENTS.div_ceil(row_cost(n_labels, plan)).max(1);
    (0..n_rows).step_by(size).map(move |start| start..n_rows.min(start + size))
}

/// Runs the tasks in slices and collects their results.
fn run<T: Send, R: Send>(
    tasks: Vec<(Range<usize>, T)>,
    n_rows: usize,
    n_labels: usize,
    plan: &Plan<'_>,
    work: impl Fn(Range<usize>, T) -> Result<R, Error> + Sync,
) -> Result<Vec<R>, Error> {
    let cost = row_cost(n_labels, plan);
    let n_threads = threads_for(n_rows.saturating_mul(cost), plan)?;
    let slice_rows = SLICE_ELEMENTS.div_ceil(cost).saturating_mul(n_threads);
    let mut results = Vec::with_capacity(tasks.len());
    let mut tasks = tasks.into_iter().peekable();
    while let Some((first, _)) = tasks.peek() {
        let end = first.start.saturating_add(slice_rows);
        let slice = std::iter::from_fn(|| tasks.next_if(|(range, _)| range.start < end));
        if n_threads == 1 {
            for (range, task) in slice {
                results.push(work(range, task)?);
            }
        } else {
            let done = pool::map(n_threads, slice.collect(), &|(range, task)| work(range, task))?;
            for result in done {
                results.push(result?);
            }
        }
        (plan.interrupt)()?;
    }
    Ok(results)
}

/// The threads a call of this many elements gets.
fn threads_for(elements: usize, plan: &Plan<'_>) -> Result<usize, Error> {
    let n_threads = match plan.n_threads {
        Some(0) => return Err(Error::argument("n_threads", "at least 1", 0)),
        Some(n) => n,
        None => available_threads(),
    };
    Ok(if elements < PARALLEL_FROM { 1 } else { n_threads.min(pool::LARGEST) })
}

/// Threads that the machine and its container allow this process.
#[must_use]
pub fn available_threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

#[cfg(feature = "rayon")]
mod pool {
    use std::sync::{Arc, Mutex};

    use rayon::prelude::*;

    use crate::error::Error;

    /// More threads than this help no one and may exhaust the process.
    pub(super) const LARGEST: usize = 1024;

    struct Pool {
        process: u32,
        n_threads: usize,
        threads: Arc<rayon::ThreadPool>,
    }

    static POOL: Mutex<Option<Pool>> = Mutex::new(None);

    /// The pool for this many threads. A forked child has none of its parent's threads, so it makes
    /// its own; the parent's pool is forgotten there, because dropping it would wait for threads
    /// that do not exist.
    fn pool(n_threads: usize) -> Result<Arc<rayon::ThreadPool>, Error> {
        let mut held = POOL.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let process = std::process::id();
        if let Some(pool) = held.as_ref()
            && pool.process == process
            && pool.n_threads == n_threads
        {
            return Ok(Arc::clone(&pool.threads));
        }
        let made = rayon::ThreadPoolBuilder::new()
            .num_threads(n_threads)
            .thread_name(|i| format!("tightset-{i}"))
            .build()
            .map_err(|e| {
                Error::argument(
                    "n_threads",
                    "a number of threads this system can start",
                    format!("{n_threads} ({e})"),
                )
            })?;
        let threads = Arc::new(made);
        let old = held.replace(Pool { process, n_threads, threads: Arc::clone(&threads) });
        if let Some(old) = old.filter(|old| old.process != process) {
            std::mem::forget(old);
        }
        Ok(threads)
    }

    pub(super) fn map<T: Send, R: Send>(
        n_threads: usize,
        tasks: Vec<T>,
        work: &(impl Fn(T) -> R + Sync),
    ) -> Result<Vec<R>, Error> {
        Ok(pool(n_threads)?.install(|| tasks.into_par_iter().map(work).collect()))
    }
}

#[cfg(not(feature = "rayon"))]
mod pool {
    use crate::error::Error;

    pub(super) const LARGEST: usize = 1;

    pub(super) fn map<T, R>(_: usize, tasks: Vec<T>, work: &impl Fn(T) -> R) -> Result<Vec<R>, Error> {
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
            let ranges = map_blocks(100_001, 100, &plan, Ok).unwrap();
            assert!(ranges.len() > 10);
            assert_eq!(ranges.first().unwrap().start, 0);
            assert!(ranges.windows(2).all(|w| w[0].end == w[1].start));
            assert_eq!(ranges.last().unwrap().end, 100_001);
        }
    }

    #[test]
    fn planes_are_filled_where_they_belong() {
        let (planes, n, width) = (3, 50_000, 2);
        let mut out = vec![0_usize; planes * n * width];
        fill(&mut out, n, width, 64, &Plan::default(), |range, parts| {
            for (p, part) in parts.iter_mut().enumerate() {
                for (i, row) in range.clone().zip(part.chunks_mut(width)) {
                    row.copy_from_slice(&[p * n + i, 1]);
                }
            }
            Ok(())
        })
        .unwrap();
        assert!(out.chunks(2).enumerate().all(|(i, pair)| pair == [i, 1]));
    }

    #[test]
    fn the_first_error_wins_and_interrupts_end_the_work() {
        let plan = Plan { n_threads: Some(4), ..Plan::default() };
        let fail =
            |range: Range<usize>| -> Result<(), Error> { Err(Error::NoPossibleLabel { row: range.start }) };
        assert_eq!(map_blocks(1_000_000, 10, &plan, fail).unwrap_err(), Error::NoPossibleLabel { row: 0 });
        let stop = Plan { interrupt: &|| Err(Error::Interrupted), ..plan };
        assert_eq!(map_blocks(1_000_000, 1000, &stop, |_| Ok(())).unwrap_err(), Error::Interrupted);
        let zero = Plan { n_threads: Some(0), ..plan };
        assert!(map_blocks(10, 10, &zero, |_| Ok(())).is_err());
    }
}
