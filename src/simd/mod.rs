//! One source, several instruction sets, the same bits.
//!
//! Row kernels are `#[inline(always)]` functions over fixed lanes. [`instances!`] compiles such a body
//! for the baseline, for AVX2 with FMA and for AVX-512, and picks at run time. Rust does not reorder
//! or contract floating-point operations, every multiply-add is written out and sums are exact, so the
//! instances differ in speed alone. The innermost sums are written out over vectors (`vector.rs`, `coarse.rs`, `double.rs`,
//! `x86_64.rs`), with the plain form beside them in [`crate::sum`]. `TIGHTSET_SIMD` forces one of them, for tests: `scalar`, `avx2` or
//! `avx512`.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx2_double;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512_double;
#[cfg(target_arch = "x86_64")]
mod coarse;
#[cfg(target_arch = "x86_64")]
mod columns;
#[cfg(target_arch = "x86_64")]
mod double;
#[cfg(all(test, target_arch = "x86_64"))]
mod kernel_tests;
#[cfg(target_arch = "x86_64")]
mod nucleus;
#[cfg(target_arch = "x86_64")]
mod places;
#[cfg(target_arch = "x86_64")]
mod scan;
#[cfg(target_arch = "x86_64")]
mod set_columns;
#[cfg(target_arch = "x86_64")]
mod unit_rows;
#[cfg(target_arch = "x86_64")]
mod vector;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86_64;

use std::sync::atomic::{AtomicU8, Ordering};

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
    // Asked for every kernel, of some rows several times.
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
                #[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
                fn avx512 $(<$($generic: $bound),*>)? ($($arg: $ty),*) $(-> $out)? {
                    $body($($arg),*)
                }
                match $crate::simd::level() {
                    // SAFETY: level() is this only where the features were detected.
                    $crate::simd::Level::Avx512 => return unsafe { avx512($($arg),*) },
                    // SAFETY: as above.
                    $crate::simd::Level::Avx2 => return unsafe { avx2($($arg),*) },
                    $crate::simd::Level::Scalar => {}
                }
            }
            $body($($arg),*)
        }
    };
}
pub(crate) use instances;

/// Asks for the line of the cache that an address lies in, which may be any address at all.
#[inline(always)]
#[allow(unsafe_code, reason = "an instruction without effect on anything but speed")]
pub(crate) fn fetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every machine of the architecture has it, and it neither reads nor faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// The same for what is read later, after more than the nearest cache holds.
#[inline(always)]
#[allow(unsafe_code, reason = "as above")]
pub(crate) fn fetch_far(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: as above.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Whether lines from many places are better asked for by [`fetch_far`] than by [`fetch`].
///
/// On Intel's processors (Emerald Rapids was measured) the nearest cache awaits 16 lines at a time, and computing waits with
/// it; the one after it awaits 48. On AMD's (Zen 4) many of the lines that are asked for by `fetch_far` are not fetched
/// at all when others are awaited.
#[inline]
#[cfg(any(feature = "python", test))]
pub(crate) fn awaits_more_afar() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::sync::OnceLock;
        static IS_INTEL: OnceLock<bool> = OnceLock::new();
        *IS_INTEL.get_or_init(|| {
            let vendor = std::arch::x86_64::__cpuid(0);
            [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).concat() == b"GenuineIntel"
        })
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    false
}

/// Runs `work` with subnormal numbers on, whatever the calling thread's settings, and puts those back.
///
/// Other libraries switch them off (flush-to-zero) for speed; scores would then depend on who was
/// imported first.
#[inline]
#[allow(unsafe_code, reason = "the control register of the floating-point unit")]
pub(crate) fn with_subnormals<T>(work: impl FnOnce() -> T) -> T {
    #[cfg(all(target_arch = "x86_64", not(miri)))] // Miri has no assembly, and no such setting
    {
        /// Flush-to-zero and denormals-are-zero.
        const FLUSH: u32 = 0x8040;
        struct Restore(u32);
        impl Drop for Restore {
            fn drop(&mut self) {
                set(self.0);
            }
        }
        fn get() -> u32 {
            let mut value = 0_u32;
            // SAFETY: stores 32 bits to a local variable.
            unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut value, options(nostack)) };
            value
        }
        fn set(value: u32) {
            // SAFETY: loads a value read from the same register, with two mode bits cleared or not.
            unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const value, options(nostack)) };
        }
        let before = get();
        if before & FLUSH != 0 {
            let _restore = Restore(before);
            set(before & !FLUSH);
            return work();
        }
    }
    work()
}

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

    #[test]
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[allow(unsafe_code)]
    fn subnormals_are_on_inside_and_settings_come_back() {
        let half = |x: f64| std::hint::black_box(x) * std::hint::black_box(0.5);
        let mut before = 0_u32;
        // SAFETY: stores the control register to a local variable.
        unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut before, options(nostack)) };
        let flushing = before | 0x8040;
        // SAFETY: sets two mode bits, cleared again below.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const flushing, options(nostack)) };
        let outside = half(f64::MIN_POSITIVE);
        let inside = with_subnormals(|| half(f64::MIN_POSITIVE));
        let after = half(f64::MIN_POSITIVE);
        // SAFETY: puts the original settings back.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const before, options(nostack)) };
        assert_eq!((outside, after), (0.0, 0.0));
        assert!(inside > 0.0);
    }
}
