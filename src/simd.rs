//! One source, several instruction sets, the same bits.
//!
//! Row kernels are `#[inline(always)]` functions over fixed lanes. [`instances!`] compiles such a body
//! once for the baseline and once for AVX2 with FMA, and picks at run time. Rust does not reorder or
//! contract floating-point operations and every multiply-add is written out, so the instances differ
//! in speed alone. `TIGHTSET_SIMD` forces one of them, for tests: `scalar` or `avx2`.

use std::sync::atomic::{AtomicU8, Ordering};

/// An instruction set that kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// What every machine of the architecture has.
    Scalar,
    /// AVX2 and FMA.
    Avx2,
}

impl Level {
    /// Whether this machine has it.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 => false,
        }
    }

    /// Its name in `TIGHTSET_SIMD`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
        }
    }
}

const LEVELS: [Level; 2] = [Level::Scalar, Level::Avx2];
const UNDECIDED: u8 = u8::MAX;
static CHOSEN: AtomicU8 = AtomicU8::new(UNDECIDED);

/// The level in use: the best available one, or what `TIGHTSET_SIMD` names. Decided once.
#[must_use]
pub fn level() -> Level {
    match CHOSEN.load(Ordering::Relaxed) {
        UNDECIDED => {
            let chosen = choose(std::env::var("TIGHTSET_SIMD").ok().as_deref());
            CHOSEN.store(chosen as u8, Ordering::Relaxed);
            chosen
        }
        chosen => LEVELS[usize::from(chosen)],
    }
}

/// A name that is unknown, or not available here, is passed over: a service must start.
fn choose(forced: Option<&str>) -> Level {
    let named = forced.and_then(|name| LEVELS.into_iter().find(|level| level.name() == name));
    let usable = named.filter(|level| level.is_available());
    usable.unwrap_or(if Level::Avx2.is_available() { Level::Avx2 } else { Level::Scalar })
}

/// Defines `$name` as the run-time choice among instances of the inlined function `$body`.
macro_rules! instances {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident $(<$($generic:ident : $bound:path),*>)? ($($arg:ident : $ty:ty),* $(,)?) $(-> $out:ty)? = $body:path;
    ) => {
        $(#[$meta])*
        #[allow(unsafe_code, reason = "calling an instance compiled for features that were detected")]
        $vis fn $name $(<$($generic: $bound),*>)? ($($arg: $ty),*) $(-> $out)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn avx2 $(<$($generic: $bound),*>)? ($($arg: $ty),*) $(-> $out)? {
                    $body($($arg),*)
                }
                if $crate::simd::level() == $crate::simd::Level::Avx2 {
                    // SAFETY: level() is Avx2 only where avx2 and fma were detected.
                    return unsafe { avx2($($arg),*) };
                }
            }
            $body($($arg),*)
        }
    };
}
pub(crate) use instances;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_force_levels() {
        assert_eq!(choose(Some("scalar")), Level::Scalar);
        let best = choose(None);
        assert!(best.is_available());
        assert_eq!(choose(Some("no such set")), best);
    }
}
