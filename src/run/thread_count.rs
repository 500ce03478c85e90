//! How many threads may a call use by default? The number that was set, or that of the environment, or of the
//! machine.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::process::identity;
use crate::error::Error;

/// More threads than this do not help, and may exhaust the process.
pub(crate) const MOST: usize = 1024;

/// The number that [`set_default_threads`] was given; 0 for none.
static CHOSEN: AtomicUsize = AtomicUsize::new(0);

/// Variables that set the number of threads, ours first. Ray sets only the last one.
const VARIABLES: [&str; 3] = ["TIGHTSET_NUM_THREADS", "RAYON_NUM_THREADS", "OMP_NUM_THREADS"];

/// Sets the default number of threads; `None` goes back to the environment and the machine.
///
/// # Errors
/// When the number is 0 or more than a process should have.
pub fn set_default_threads(n_threads: Option<usize>) -> Result<(), Error> {
    if n_threads.is_some_and(|n| !(1..=MOST).contains(&n)) {
        let found = n_threads.unwrap_or(0);
        return Err(Error::argument("n_threads", "between 1 and 1024", found));
    }
    CHOSEN.store(n_threads.unwrap_or(0), Ordering::Relaxed);
    Ok(())
}

/// The default number of threads. It is the number that was set; else the first of `TIGHTSET_NUM_THREADS`,
/// `RAYON_NUM_THREADS` and `OMP_NUM_THREADS` that is set; else what the machine and its container allow.
///
/// # Errors
/// When such a variable does not hold a number of threads.
pub fn default_threads() -> Result<usize, Error> {
    match CHOSEN.load(Ordering::Relaxed) {
        0 => from_environment(|name| std::env::var(name).ok()),
        chosen => Ok(chosen),
    }
}

fn from_environment(read: impl Fn(&str) -> Option<String>) -> Result<usize, Error> {
    for name in VARIABLES {
        let Some(text) = read(name) else { continue };
        // OpenMP allows a list, one number for each level of nesting.
        let first = text.split(',').next().unwrap_or_default().trim();
        match first.parse::<usize>() {
            _ if first.is_empty() => {}
            Ok(0) if name == "RAYON_NUM_THREADS" => {} // rayon's own word for its default
            Ok(n) if (1..=MOST).contains(&n) => return Ok(n),
            _ => {
                let expected = "a number of threads between 1 and 1024";
                return Err(Error::Argument { name, expected, found: format!("{text:?}") });
            }
        }
    }
    Ok(available_threads())
}

/// Threads that the machine and its container allow this process, as found on the first call.
///
/// Finding out takes some forty system calls. A forked process finds out anew.
#[must_use]
pub fn available_threads() -> usize {
    /// The process that asked, and what it found. In two words: a process that reads one of another asks
    /// again.
    static ASKED_BY: AtomicU64 = AtomicU64::new(0);
    static FOUND: AtomicUsize = AtomicUsize::new(0);
    let (process, found) = (identity(), FOUND.load(Ordering::Acquire));
    if found > 0 && ASKED_BY.load(Ordering::Relaxed) == process {
        return found;
    }
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(MOST);
    ASKED_BY.store(process, Ordering::Relaxed);
    FOUND.store(threads, Ordering::Release);
    threads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_read_in_order() {
        let with = |pairs: &[(&str, &str)]| {
            from_environment(|name| {
                pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(with(&[]).unwrap(), available_threads());
        assert_eq!(with(&[("OMP_NUM_THREADS", "3,2")]).unwrap(), 3);
        assert_eq!(with(&[("OMP_NUM_THREADS", "3"), ("RAYON_NUM_THREADS", "5")]).unwrap(), 5);
        assert_eq!(with(&[("RAYON_NUM_THREADS", "0"), ("OMP_NUM_THREADS", " 7 ")]).unwrap(), 7);
        assert_eq!(with(&[("TIGHTSET_NUM_THREADS", "2"), ("RAYON_NUM_THREADS", "x")]).unwrap(), 2);
        for bad in ["0", "-1", "x", "100000", "1.5"] {
            let error = with(&[("TIGHTSET_NUM_THREADS", bad)]).unwrap_err().to_string();
            assert!(error.contains("TIGHTSET_NUM_THREADS") && error.contains(bad), "{error}");
        }
    }
}
