//! Is this still the process that made the thread pool? A forked child has none of its parent's threads.
//!
//! A process id is not enough: the system uses ids again, and each pid namespace has its own. So forks are
//! counted too.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Forks between the first process and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);
static IS_COUNTING: AtomicBool = AtomicBool::new(false);

/// A number, never 0. In a forked child it differs from the numbers of all its ancestors.
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
    // SAFETY: between fork and exec the function only adds to an atomic number, which is allowed. If
    // registering it fails, the process id alone has to do.
    unsafe {
        libc::pthread_atfork(None, None, Some(in_child));
    }
}

#[cfg(not(unix))]
fn count_forks() {}
