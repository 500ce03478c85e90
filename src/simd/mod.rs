//! Which instruction set runs?
//!
//! Every kernel is written once over [`Vector`], or as a plain loop, and is generic over a [`Simd`]: a value that proves
//! that the machine has an instruction set. [`dispatch!`] chooses it, once for a tile of rows; everything below takes the
//! value along. Rust neither reorders nor contracts floating-point operations, every multiply-add is written out and sums
//! are exact, so instruction sets differ in speed alone. `TIGHTSET_SIMD` forces one of them, for tests: `scalar`, `avx2`
//! or `avx512`.

#[cfg(target_arch = "x86_64")]
mod avx2_f32;
#[cfg(target_arch = "x86_64")]
mod avx2_f64;
#[cfg(target_arch = "x86_64")]
mod avx512_f32;
#[cfg(target_arch = "x86_64")]
mod avx512_f64;
mod prefetch;
mod subnormals;
#[cfg(target_arch = "x86_64")]
mod vector;

use std::sync::atomic::{AtomicU8, Ordering};

pub(crate) use prefetch::LINE;
pub(crate) use prefetch::{Ahead, ColumnLines, ColumnsAhead, Lines, NoLines, RowLines};
pub(crate) use subnormals::with_subnormals;
#[cfg(target_arch = "x86_64")]
pub(crate) use vector::{Double, Kind, Vector};
#[cfg(target_arch = "x86_64")]
pub(crate) use vector::{QUANTA, TERMS_PER_PART};

/// An instruction set that kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// What every machine of the architecture has.
    Scalar,
    /// AVX2, FMA and POPCNT.
    Avx2,
    /// AVX-512 with the F, BW, DQ and VL groups.
    Avx512,
}

impl Level {
    /// Whether this machine has it.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("popcnt")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                Self::Avx2.is_available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// Its name in `TIGHTSET_SIMD`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }
}

/// Best last.
const LEVELS: [Level; 3] = [Level::Scalar, Level::Avx2, Level::Avx512];
const SCALAR: u8 = Level::Scalar as u8;
const AVX2: u8 = Level::Avx2 as u8;
const AVX512: u8 = Level::Avx512 as u8;
const UNDECIDED: u8 = u8::MAX;
static CHOSEN: AtomicU8 = AtomicU8::new(UNDECIDED);

/// The level in use: the best available one, or what `TIGHTSET_SIMD` names. Decided once.
#[inline]
#[must_use]
pub fn level() -> Level {
    match CHOSEN.load(Ordering::Relaxed) {
        AVX512 => Level::Avx512,
        AVX2 => Level::Avx2,
        SCALAR => Level::Scalar,
        _ => decide(),
    }
}

#[cold]
fn decide() -> Level {
    let chosen = choose(std::env::var("TIGHTSET_SIMD").ok().as_deref());
    CHOSEN.store(chosen as u8, Ordering::Relaxed);
    chosen
}

/// A name that is unknown, or not available here, is passed over: a service must start.
fn choose(forced: Option<&str>) -> Level {
    let available = || LEVELS.into_iter().rev().filter(|level| level.is_available());
    let named = forced.and_then(|name| available().find(|level| level.name() == name));
    named.or_else(|| available().next()).unwrap_or(Level::Scalar)
}

/// The proof that the machine has an instruction set, which kernels are generic over.
pub trait Simd: Copy {
    /// Its vectors of float32, and with them those of float64. [`Portable`] has none and never uses them.
    #[cfg(target_arch = "x86_64")]
    type Vectors: Vector;
    /// The instruction set.
    const LEVEL: Level;

    /// Calls `work`, which must be `#[inline(always)]`, in a function of its own that is compiled for the instruction
    /// set. What is inlined there may use its instructions; in a larger function it would compete for registers.
    fn vectorize<R>(self, work: impl FnOnce() -> R) -> R;
}

/// What every machine has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

impl Simd for Portable {
    #[cfg(target_arch = "x86_64")]
    type Vectors = avx2_f32::Avx2F32;
    const LEVEL: Level = Level::Scalar;

    #[inline(always)]
    fn vectorize<R>(self, work: impl FnOnce() -> R) -> R {
        #[inline(never)]
        fn compiled<R>(work: impl FnOnce() -> R) -> R {
            work()
        }
        compiled(work)
    }
}

/// Defines the proof of an instruction set.
#[cfg(target_arch = "x86_64")]
macro_rules! instruction_set {
    ($name:ident, $vectors:ty, $features:literal) => {
        /// The proof that the machine has the instruction set: only [`chosen`] and tests make it.
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name(());

        impl Simd for $name {
            type Vectors = $vectors;
            const LEVEL: Level = Level::$name;

            #[inline(always)]
            #[allow(unsafe_code, reason = "a call of a function compiled for features that were detected")]
            fn vectorize<R>(self, work: impl FnOnce() -> R) -> R {
                #[inline(never)]
                #[target_feature(enable = $features)]
                fn compiled<R>(work: impl FnOnce() -> R) -> R {
                    work()
                }
                // SAFETY: the machine has the features, as `self` proves.
                unsafe { compiled(work) }
            }
        }

        impl $name {
            /// The proof, if the machine has the instruction set.
            #[cfg(test)]
            pub(crate) fn detected() -> Option<Self> {
                Level::$name.is_available().then_some(Self(()))
            }
        }
    };
}
#[cfg(target_arch = "x86_64")]
instruction_set!(Avx2, avx2_f32::Avx2F32, "avx2,fma,popcnt");
#[cfg(target_arch = "x86_64")]
instruction_set!(Avx512, avx512_f32::Avx512F32, "avx2,fma,popcnt,avx512f,avx512bw,avx512dq,avx512vl");

/// The proof of the instruction set in use.
pub(crate) enum Chosen {
    Portable(Portable),
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

/// The instruction set in use: [`level`] names only what was detected.
#[inline(always)]
pub(crate) fn chosen() -> Chosen {
    match level() {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => Chosen::Avx512(Avx512(())),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => Chosen::Avx2(Avx2(())),
        _ => Chosen::Portable(Portable),
    }
}

/// Evaluates `$body` in a function of its own that is compiled for the instruction set `$s`: see [`Simd::vectorize`].
macro_rules! vectorize {
    ($s:expr, $body:expr) => {
        $crate::simd::Simd::vectorize(
            $s,
            #[inline(always)]
            move || $body,
        )
    };
}
pub(crate) use vectorize;

/// Evaluates `$body` with `$s` standing for the instruction set in use.
macro_rules! dispatch {
    ($s:ident => $body:expr) => {
        match $crate::simd::chosen() {
            #[cfg(target_arch = "x86_64")]
            $crate::simd::Chosen::Avx512($s) => $crate::simd::Simd::vectorize(
                $s,
                #[inline(always)]
                || $body,
            ),
            #[cfg(target_arch = "x86_64")]
            $crate::simd::Chosen::Avx2($s) => $crate::simd::Simd::vectorize(
                $s,
                #[inline(always)]
                || $body,
            ),
            $crate::simd::Chosen::Portable($s) => $body,
        }
    };
}
pub(crate) use dispatch;

/// Runs `$body` for each instruction set that this machine has, with `$s` standing for it.
#[cfg(test)]
macro_rules! for_each_level {
    ($s:ident => $body:block) => {
        let $s = $crate::simd::Portable;
        $body
        #[cfg(target_arch = "x86_64")]
        if let Some($s) = $crate::simd::Avx2::detected() {
            $body
        }
        #[cfg(target_arch = "x86_64")]
        if let Some($s) = $crate::simd::Avx512::detected() {
            $body
        }
    };
}
#[cfg(test)]
pub(crate) use for_each_level;

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
