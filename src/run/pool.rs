//! Which threads run a call? This is the only file that names rayon.
//!
//! A call from within a rayon pool stays in that pool, unless it says how many threads it wants. Other calls
//! run in a pool of our own. It is made when it is first needed, never at import.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;

use super::process::identity;
use crate::error::Error;

/// The most that a call can use.
pub(super) const LARGEST: usize = super::thread_count::MOST;

struct Pool {
    process: u64,
    n_threads: usize,
    threads: Arc<rayon::ThreadPool>,
}

/// A pool behind a lock that survives `fork`.
///
/// If one thread holds a mutex while another forks, the mutex stays locked in the child forever, and the
/// child's first call hangs. This lock holds the [`identity`] of the holder's process. A child that finds its
/// parent's identity takes the lock over and forgets the pool: a forked process has none of its parent's
/// threads. (Dropping the parent's pool would take more locks.) The lock is held for a few instructions,
/// never while a pool is built.
struct Shared {
    holder: AtomicU64,
    pool: UnsafeCell<Option<Pool>>,
}

// SAFETY: the cell is only touched by the holder of the lock.
#[allow(unsafe_code, reason = "a lock of our own; see Shared")]
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared { holder: AtomicU64::new(0), pool: UnsafeCell::new(None) };

impl Shared {
    #[allow(unsafe_code, reason = "a lock of our own; see Shared")]
    fn with<T>(&self, use_pool: impl FnOnce(&mut Option<Pool>) -> T) -> T {
        let process = identity();
        let mut seen = 0;
        // The lock is taken if it is free, or if its holder lives in another process.
        while let Err(holder) =
            self.holder.compare_exchange_weak(seen, process, Ordering::Acquire, Ordering::Relaxed)
        {
            seen = if holder == process { 0 } else { holder };
            std::thread::yield_now();
        }
        // SAFETY: this thread holds the lock, and all other threads of this process wait for it.
        let pool = unsafe { &mut *self.pool.get() };
        if seen != 0 || pool.as_ref().is_some_and(|pool| pool.process != process) {
            // SAFETY: as above. The old value may be half-written; it is overwritten without being read.
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
    let pool = Pool { process: identity(), n_threads, threads: Arc::clone(&threads) };
    // The old pool ends here, outside the lock, when its last call has ended.
    drop(SHARED.with(|held| held.replace(pool)));
    Ok(threads)
}

/// Starts our own pool of `n_threads`, unless it is there.
pub(super) fn start(n_threads: usize) -> Result<(), Error> {
    pool(n_threads).map(drop)
}

/// Threads of the pool that the caller runs in, if it does.
pub(super) fn of_caller() -> Option<usize> {
    rayon::current_thread_index().map(|_| rayon::current_num_threads())
}

/// Maps in our own pool of `n_threads`, or in the caller's pool.
///
/// rayon sees only the numbers of tasks. A rayon map over tasks and results of every type was compiled thirty
/// times, a quarter of the crate's code. A lock without contention costs nothing beside a block.
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
    let result = |slot: Mutex<(_, Option<R>)>| slot.into_inner().unwrap_or_else(PoisonError::into_inner).1;
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
