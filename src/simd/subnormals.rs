//! How do results stay the same where another library has switched subnormal numbers off?
//!
//! Flush-to-zero is a setting of the thread. Other libraries set it for speed; scores would then depend on
//! which library was imported first.

/// Runs `work` with subnormal numbers on, whatever the calling thread's settings, and puts those back.
///
/// `work` runs in a function that is never inlined: the compiler may move arithmetic past the instruction
/// that sets the register, but not out of a call.
#[inline]
pub(crate) fn with_subnormals<T>(work: impl FnOnce() -> T) -> T {
    #[inline(never)]
    fn apart<T>(work: impl FnOnce() -> T) -> T {
        work()
    }
    let before = register::get();
    if before & register::FLUSH == 0 {
        return work();
    }
    let _restore = Restore(before);
    register::set(before & !register::FLUSH);
    apart(work)
}

/// Puts a setting back, also when `work` panics.
struct Restore(register::Word);

impl Drop for Restore {
    fn drop(&mut self) {
        register::set(self.0);
    }
}

/// MXCSR of x86-64.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[allow(unsafe_code, reason = "the control register of the floating-point unit")]
mod register {
    pub(super) type Word = u32;
    /// Flush-to-zero and denormals-are-zero.
    pub(super) const FLUSH: Word = 0x8040;

    #[inline(always)]
    pub(super) fn get() -> Word {
        let mut value = 0;
        // SAFETY: stores 32 bits to a local variable.
        unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut value, options(nostack)) };
        value
    }

    #[inline(always)]
    pub(super) fn set(value: Word) {
        // SAFETY: loads a value that was read from the same register, with two mode bits changed or not.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const value, options(nostack)) };
    }
}

/// FPCR of AArch64.
#[cfg(all(target_arch = "aarch64", not(miri)))]
#[allow(unsafe_code, reason = "the control register of the floating-point unit")]
mod register {
    pub(super) type Word = u64;
    /// Flush-to-zero.
    pub(super) const FLUSH: Word = 1 << 24;

    #[inline(always)]
    pub(super) fn get() -> Word {
        let value;
        // SAFETY: reads a register.
        unsafe { std::arch::asm!("mrs {}, fpcr", out(reg) value, options(nomem, nostack)) };
        value
    }

    #[inline(always)]
    pub(super) fn set(value: Word) {
        // SAFETY: writes a value that was read from the same register, with one mode bit changed or not.
        unsafe { std::arch::asm!("msr fpcr, {}", in(reg) value, options(nostack)) };
    }
}

/// No such setting is known; Miri has no assembly.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod register {
    pub(super) type Word = u32;
    pub(super) const FLUSH: Word = 0;

    pub(super) fn get() -> Word {
        0
    }

    pub(super) fn set(_value: Word) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
    fn subnormals_are_on_inside_and_settings_come_back() {
        use std::hint::black_box;
        // The product in a box too: as a mere value it may be taken after the register changes again.
        let half = |x: f64| black_box(black_box(x) * black_box(0.5));
        let restore = Restore(register::get());
        register::set(restore.0 | register::FLUSH);
        let outside = half(f64::MIN_POSITIVE);
        let inside = with_subnormals(|| half(f64::MIN_POSITIVE));
        let after = half(f64::MIN_POSITIVE);
        drop(restore);
        assert_eq!((outside, after), (0.0, 0.0));
        assert!(inside > 0.0);
    }
}
