//! Is this still the process that made the thread pool? A forked child has none of its parent's threads.
//!
//! A process id alone does not tell: ids are used again, and each pid namespace has ids of its own. Each fork also counts.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Forks between the first process and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);
static IS_COUNTING: AtomicBool = AtomicBool::new(false);

/// A number, never 0, that differs in a forked child from those of all processes it descends from.
pub(super) fn identity() -> u64 {
    if !IS_COUNTING.swap(true, Ordering::Relaxed) {
        count_forks();
    }
    u64::from(FORKS.load(Ordering::Relaxed)) << 32 | u64::from(std::process::id())
}

#[cfg(unix)]
#[allow(unsafe_code, reason = "a call of the system")]
fn count_forks() {
    extern "C" fn in_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the function does what is allowed between fork and exec: it adds to an atomic number. A failure leaves the
    // process id alone to tell.
    unsafe {
        libc::pthread_atfork(None, None, Some(in_child));
    }
}

#[cfg(not(unix))]
fn count_forks() {}
