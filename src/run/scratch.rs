//! What working space does a thread keep from one call to the next? One of each type that its calls used.
//!
//! A service asks for one row at a time. Six vectors as long as the row, allocated and freed with each call,
//! took a sixth of the call at a thousand labels. With kept space, a small call allocates only its result,
//! once the thread has made such a call.

use std::any::{Any, TypeId};
use std::cell::RefCell;

/// Space up to this many bytes is kept by a thread that works on blocks of a call. More would be a burden in
/// each thread of a pool, and allocating it anew takes little of the time of such calls.
const KEPT_BY_WORKERS: usize = 1 << 20;
/// Space up to this many bytes is kept by the caller's thread after a call that is one block: room for the
/// set of a row of 262,144 labels. Space for 128,000 labels, allocated with each call, took most of the call
/// (1.8 ms instead of 0.27): the system clears its pages each time.
const KEPT_BY_CALLERS: usize = 1 << 24;

/// Working space. No result depends on what earlier calls left in it.
pub(crate) trait Scratch: Default + 'static {
    /// Bytes that its lists have room for.
    fn bytes(&self) -> usize;
}

impl Scratch for () {
    fn bytes(&self) -> usize {
        0
    }
}

impl<T: 'static> Scratch for Vec<T> {
    fn bytes(&self) -> usize {
        list_bytes(self)
    }
}

impl<A: Scratch, B: Scratch> Scratch for (A, B) {
    fn bytes(&self) -> usize {
        self.0.bytes() + self.1.bytes()
    }
}

impl<A: Scratch, B: Scratch, C: Scratch> Scratch for (A, B, C) {
    fn bytes(&self) -> usize {
        self.0.bytes() + self.1.bytes() + self.2.bytes()
    }
}

/// Bytes that a list has room for.
pub(crate) fn list_bytes<T>(list: &Vec<T>) -> usize {
    list.capacity() * size_of::<T>()
}

/// Space of one type, and its bytes when it was last kept. While it is in use there is none.
struct Kept {
    of: TypeId,
    bytes: usize,
    space: Option<Box<dyn Any>>,
}

thread_local! {
    static KEPT: RefCell<Vec<Kept>> = const { RefCell::new(Vec::new()) };
}

/// Calls `work` with the space of this type that the thread kept, or with new space. The space is kept for
/// the next call, up to a limit; the limit is higher if `is_call` says that this is a whole call and not one
/// of several blocks.
pub(crate) fn with_scratch<T: Scratch, R>(is_call: bool, work: impl FnOnce(&mut T) -> R) -> R {
    // A thread that is ending has dropped its list.
    let known = KEPT.try_with(|kept| take::<T>(&mut kept.borrow_mut())).ok().flatten();
    let mut space = known.unwrap_or_default();
    let result = work(&mut space);
    let most = if is_call { KEPT_BY_CALLERS } else { KEPT_BY_WORKERS };
    let bytes = size_of::<T>() + space.bytes();
    if bytes <= most {
        let _ = KEPT.try_with(|kept| keep(&mut kept.borrow_mut(), bytes, space));
    }
    result
}

fn take<T: Scratch>(kept: &mut [Kept]) -> Option<Box<T>> {
    let known = kept.iter_mut().find(|kept| kept.of == TypeId::of::<T>())?;
    known.bytes = 0;
    known.space.take()?.downcast().ok()
}

/// Keeps space. The limit for one type holds for all types together.
fn keep<T: Scratch>(kept: &mut Vec<Kept>, bytes: usize, space: Box<T>) {
    let space: Option<Box<dyn Any>> = Some(space);
    if bytes + kept.iter().map(|kept| kept.bytes).sum::<usize>() > KEPT_BY_CALLERS {
        kept.clear();
    }
    let of = TypeId::of::<T>();
    match kept.iter_mut().find(|kept| kept.of == of) {
        Some(known) => (known.bytes, known.space) = (bytes, space),
        None => kept.push(Kept { of, bytes, space }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Space(Vec<u8>);

    impl Scratch for Space {
        fn bytes(&self) -> usize {
            list_bytes(&self.0)
        }
    }

    /// The address of the list that a call with so much room finds.
    fn address(room: usize, is_call: bool) -> usize {
        with_scratch(is_call, |space: &mut Space| {
            let address = space.0.as_ptr().addr();
            space.0.reserve_exact(room);
            if room > 0 { space.0.as_ptr().addr() } else { address }
        })
    }

    #[test]
    fn a_call_finds_the_space_of_the_last_one() {
        let first = address(10, false);
        assert_eq!(address(0, false), first);
        // Space of other types stays beside it.
        with_scratch(false, |list: &mut Vec<usize>| list.push(7));
        assert_eq!(address(0, false), first);
        assert_eq!(with_scratch(false, |list: &mut Vec<usize>| list.len()), 1);
        // While it is used no one else finds it.
        with_scratch(false, |_: &mut Space| assert_ne!(address(10, false), first));
    }

    #[test]
    fn much_space_is_kept_by_callers_alone() {
        for (limit, is_call) in [(KEPT_BY_WORKERS, false), (KEPT_BY_CALLERS, true)] {
            let first = address(limit / 2, is_call);
            assert_eq!(address(0, is_call), first);
            address(limit + 1, is_call);
            assert_eq!(with_scratch(is_call, |space: &mut Space| space.0.capacity()), 0);
        }
    }

    #[test]
    fn all_types_together_take_no_more_than_one_may() {
        address(KEPT_BY_CALLERS / 2, true);
        with_scratch(true, |list: &mut Vec<u8>| list.reserve_exact(KEPT_BY_CALLERS / 2));
        assert_eq!(with_scratch(true, |space: &mut Space| space.0.capacity()), 0);
        assert_eq!(with_scratch(true, |list: &mut Vec<u8>| list.capacity()), KEPT_BY_CALLERS / 2);
    }
}
