//! Which instruction set runs?
//!
//! Every kernel is written once, over [`Lanes`]: sixteen numbers of float32 or of float64, in as many
//! registers as the machine needs. The crate `fearless_simd` makes the operations of them, safely; [`Simd`]
//! adds the few that it has not. A value of [`Simd`] proves that the machine has an instruction set.
//! [`dispatch!`] makes one, once for a tile of rows, and everything below takes it along.
//!
//! Rust neither reorders nor contracts floating-point operations, every multiply-add is written out, and sums
//! are exact or in a fixed order. So instruction sets differ in speed alone.

mod extension;
#[cfg(target_arch = "x86_64")]
mod fused;
mod lanes;
mod level;
mod prefetch;
mod subnormals;
#[cfg(test)]
mod tests;

pub(crate) use extension::Simd;
pub(crate) use lanes::{F64x16, Lanes};
pub(crate) use level::{Chosen, chosen};
pub use level::{Level, level};
pub(crate) use prefetch::LINE;
pub(crate) use prefetch::{Ahead, ColumnLines, ColumnsAhead, Lines, NoLines, RowLines};
pub(crate) use subnormals::with_subnormals;

#[cfg(test)]
pub(crate) use level::{baseline, tokens};

/// Evaluates `$body` in a function of its own that is compiled for the instruction set `$s`: see
/// [`Simd::apart`].
macro_rules! vectorize {
    ($s:expr, $body:expr) => {
        $crate::simd::Simd::apart(
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
            $crate::simd::Chosen::Avx512($s) => $crate::simd::Simd::apart(
                $s,
                #[inline(always)]
                || $body,
            ),
            #[cfg(target_arch = "x86_64")]
            $crate::simd::Chosen::Avx2($s) => $crate::simd::Simd::apart(
                $s,
                #[inline(always)]
                || $body,
            ),
            $crate::simd::Chosen::Baseline($s) => $crate::simd::Simd::apart(
                $s,
                #[inline(always)]
                || $body,
            ),
        }
    };
}
pub(crate) use dispatch;

/// Runs `$body` for each instruction set that this machine has, with `$s` standing for it.
#[cfg(test)]
macro_rules! for_each_level {
    ($s:ident => $body:block) => {
        let tokens = $crate::simd::tokens();
        let $s = tokens.baseline;
        $body
        #[cfg(target_arch = "x86_64")]
        if let Some($s) = tokens.avx2 {
            $body
        }
        #[cfg(target_arch = "x86_64")]
        if let Some($s) = tokens.avx512 {
            $body
        }
    };
}
#[cfg(test)]
pub(crate) use for_each_level;
