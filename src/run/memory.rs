//! How is memory allocated, so that a shortage is an error and not an abort?

use std::alloc::{Layout, alloc_zeroed};

use crate::error::Error;

/// Types whose zero (or false) has only zero bits.
///
/// # Safety
/// The type must be such a type.
#[allow(unsafe_code, reason = "a promise about bits")]
pub(crate) unsafe trait Zero: Copy {}
macro_rules! zero {
    ($($type:ty),*) => {
        $(
            // SAFETY: a plain number, or a boolean.
            #[allow(unsafe_code, reason = "a promise about bits")]
            unsafe impl Zero for $type {}
        )*
    };
}
zero!(bool, i32, i64, u64, f32, f64);

/// A result of `rows` times `columns` elements, all 0, or an error if there is no memory for it. The system
/// hands out large results as zeros, so the threads that fill them are the first to touch their pages.
#[allow(unsafe_code, reason = "no safe call allocates zeros and returns an error")]
#[allow(clippy::same_length_and_capacity, reason = "it was allocated for exactly so many")]
pub(crate) fn zeroed<T: Zero>(rows: usize, columns: usize) -> Result<Vec<T>, Error> {
    let size = size_of::<T>();
    let elements = rows.checked_mul(columns).filter(|n| n.checked_mul(size).is_some());
    let elements = elements.ok_or(Error::Memory { elements: usize::MAX, size })?;
    let layout = Layout::array::<T>(elements).map_err(|_| Error::Memory { elements, size })?;
    if elements == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the layout is not empty, and it is that of a vector with this many elements; zero bits are
    // valid elements.
    unsafe {
        let memory = alloc_zeroed(layout).cast::<T>();
        if memory.is_null() {
            return Err(Error::Memory { elements, size });
        }
        in_large_pages(memory.cast(), layout.size());
        Ok(Vec::from_raw_parts(memory, elements, elements))
    }
}

/// Makes room for `more` elements. A list that grows at least doubles.
#[inline]
pub(crate) fn reserve<T>(list: &mut Vec<T>, more: usize) -> Result<(), Error> {
    list.try_reserve(more)
        .map_err(|_| Error::Memory { elements: list.len().saturating_add(more), size: size_of::<T>() })
}

/// Adds an element to a list, or fails if there is no memory for it.
#[inline(always)]
pub(crate) fn push<T>(list: &mut Vec<T>, element: T) -> Result<(), Error> {
    if list.len() == list.capacity() {
        reserve(list, 1)?;
    }
    list.push(element);
    Ok(())
}

/// Asks for large pages behind memory that was not touched yet, as NumPy does for its arrays. Without them, a
/// result of a million rows has two thousand pages, and the first write to each asks the system for it: a
/// tenth of the time of scores of ten labels, and more of the time of sets.
#[allow(unsafe_code, reason = "a call of the system")]
fn in_large_pages(memory: *mut u8, bytes: usize) {
    /// As NumPy has it.
    const LARGE: usize = 1 << 22;
    const PAGE: usize = 1 << 12;
    #[cfg(target_os = "linux")]
    if bytes >= LARGE {
        let skipped = memory.align_offset(PAGE);
        // SAFETY: this advises on whole pages of our own memory, and does not change what they hold. A system
        // without large pages refuses it.
        unsafe {
            libc::madvise(memory.add(skipped).cast(), (bytes - skipped) & !(PAGE - 1), libc::MADV_HUGEPAGE);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (memory, bytes, LARGE, PAGE);
}
