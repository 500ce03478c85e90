//! An allocator that counts what each thread asks for. The test that has it for its own says so:
//! `#[global_allocator] static ALLOCATOR: Counting = Counting;`

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counting what the thread asks for.
pub(crate) struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
    /// Bytes that the thread has, and the most that it had. What one thread makes and another drops is
    /// counted wrong; here none is.
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn counted(more: usize, less: usize) {
    COUNT.set(COUNT.get() + usize::from(more > 0));
    // An allocator that moves a block has both for a while.
    PEAK.set(PEAK.get().max(LIVE.get() + more as isize));
    LIVE.set(LIVE.get() + more as isize - less as isize);
}

// SAFETY: hands every request to the system's allocator unchanged.
#[allow(unsafe_code, reason = "an allocator")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        counted(layout.size(), 0);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        counted(size, layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        counted(0, layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Allocations of this thread during `work`.
pub(crate) fn allocations(work: impl FnOnce()) -> usize {
    let before = COUNT.get();
    work();
    COUNT.get() - before
}

#[allow(dead_code, reason = "not asked for by all")]
/// The most bytes that this thread had at once during `work`, beyond those before.
pub(crate) fn peak(work: impl FnOnce()) -> isize {
    let before = LIVE.get();
    PEAK.set(before);
    work();
    PEAK.get() - before
}
