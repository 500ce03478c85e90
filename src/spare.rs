//! Working space that a thread keeps from one call for the next.
//!
//! A service asks for one row at a time. Six vectors as long as the row, allocated and freed with each call, took a sixth
//! of it at a thousand labels. A call of one row and one candidate allocates its result and nothing else, once the thread
//! has made one like it; with several candidates, lists as long as these too.

use std::any::Any;
use std::cell::Cell;

use crate::float::Float;
use crate::kernel::LabelWorkspace;
use crate::lane_order::LaneOrder;
use crate::rows::{Column, Rows};
use crate::selected::Vote;

/// Labels, times the candidates that vote, up to which space is kept by a thread that works on blocks of a call: more would be
/// megabytes in each thread of a pool, and little of the time of their calls.
const KEPT_BY_WORKERS: usize = 1 << 12;
/// The same by the thread of the caller, after a call that is one block: at most 13 MB for one candidate, as measured. New with
/// each call, space for 128,000 labels took most of it (1.8 ms instead of 0.27), as the system clears its pages each time.
const KEPT_BY_CALLERS: usize = 1 << 18;

thread_local! {
    /// Of either computing type: who uses both in turns allocates each time.
    static SPARE: Cell<Option<Box<dyn Any>>> = const { Cell::new(None) };
}

/// What labels are scored and sets are cut with. Nothing that comes out of it depends on the rows before.
#[derive(Debug, Default)]
pub(crate) struct Space<F: Float> {
    /// Rows of few labels, transposed.
    pub(crate) columns: Vec<Column<F>>,
    pub(crate) labels: LabelWorkspace<F>,
    pub(crate) vote: Vote<F>,
    pub(crate) order: LaneOrder<F>,
}

impl<F: Float + 'static> Space<F> {
    /// What the thread kept, or nothing yet.
    pub(crate) fn taken() -> Box<Self> {
        // A thread that ends has none left.
        let kept = SPARE.try_with(Cell::take).ok().flatten();
        let mut space = kept.and_then(|kept| kept.downcast::<Self>().ok()).unwrap_or_default();
        space.vote.top.forget();
        space.vote.masses.forget();
        space
    }

    /// Keeps it for the next call, after a block of `done` rows of those of a call.
    pub(crate) fn keep<R: Rows<F>>(self: Box<Self>, rows: &R, done: usize) {
        let is_call = done == rows.n_rows();
        let size = rows.n_labels().saturating_mul(self.vote.room().max(1));
        if size <= if is_call { KEPT_BY_CALLERS } else { KEPT_BY_WORKERS } {
            let _ = SPARE.try_with(|spare| spare.set(Some(self)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::rows::{GROUP, RowBuffer};

    /// Rows that are never read.
    struct Shape(usize, usize);

    impl<F: Float> Rows<F> for Shape {
        fn n_rows(&self) -> usize {
            self.0
        }

        fn n_labels(&self) -> usize {
            self.1
        }

        fn group<'a>(
            &'a self,
            _first: usize,
            _count: usize,
            _scratch: &'a mut RowBuffer<F>,
            _to: &mut [&'a [F]; GROUP],
        ) -> Result<(), Error> {
            Ok(())
        }
    }

    #[test]
    fn short_rows_find_what_was_kept() {
        let address = |space: &Space<f32>| std::ptr::from_ref(space).addr();
        let space = Space::<f32>::taken();
        let first = address(&space);
        space.keep(&Shape(5, 10), 5);
        let space = Space::<f32>::taken();
        assert_eq!(address(&space), first);
        // Taken, and so not there for anyone else; of the other type, and so of no use.
        assert_ne!(address(&Space::<f32>::taken()), first);
        space.keep(&Shape(5, 10), 1);
        Space::<f64>::taken().keep(&Shape(5, 10), 1);
        assert!(SPARE.take().is_some_and(|kept| kept.is::<Space<f64>>()));
    }

    #[test]
    fn space_of_long_rows_is_kept_by_callers_alone() {
        for (n_labels, done, is_kept) in [
            (KEPT_BY_WORKERS, 1, true),
            (KEPT_BY_WORKERS + 1, 1, false),
            (KEPT_BY_CALLERS, 5, true),
            (KEPT_BY_CALLERS + 1, 5, false),
        ] {
            Space::<f32>::taken().keep(&Shape(5, n_labels), done);
            assert_eq!(SPARE.take().is_some(), is_kept, "{done} rows of {n_labels} labels");
        }
        for (n_candidates, is_kept) in [(8, true), (9, false)] {
            let mut space = Space::<f32>::taken();
            space.vote.fit(n_candidates);
            space.keep(&Shape(1, KEPT_BY_CALLERS / 8), 1);
            assert_eq!(SPARE.take().is_some(), is_kept, "{n_candidates} candidates");
        }
    }
}
