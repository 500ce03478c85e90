//! Working space that a thread keeps from one call for the next.
//!
//! A service asks for one row at a time. Six vectors as long as the row, allocated and freed with each call, took a sixth
//! of it at a thousand labels. A small call allocates its result and nothing else, once the thread has made one like it.

use std::any::Any;
use std::cell::Cell;
use std::thread::LocalKey;

use crate::cells::CellVote;
use crate::float::Float;
use crate::kernel::LabelWorkspace;
use crate::lane_order::LaneOrder;
use crate::rows::{Column, RowBuffer, Rows};
use crate::selected::Vote;

/// Bytes up to which space is kept by a thread that works on blocks of a call: more in each thread of a pool would be a
/// burden, and is little of the time of such calls.
const KEPT_BY_WORKERS: usize = 1 << 20;
/// The same by the thread of the caller, after a call that is one block: room for the set of a row of 262,144 labels. New with
/// each call, space for 128,000 labels took most of it (1.8 ms instead of 0.27), as the system clears its pages each time.
const KEPT_BY_CALLERS: usize = 1 << 24;

thread_local! {
    /// Of either computing type: who uses both in turns allocates each time.
    static SPARE: Cell<Option<Box<dyn Any>>> = const { Cell::new(None) };
    static ORDER: Cell<Vec<usize>> = const { Cell::new(Vec::new()) };
    static LABELS: Cell<Vec<i32>> = const { Cell::new(Vec::new()) };
}

/// Bytes that a list has room for.
pub(crate) fn bytes<T>(list: &Vec<T>) -> usize {
    list.capacity() * size_of::<T>()
}

/// Gives `work` a list for the order of candidates, which the thread keeps.
pub(crate) fn with_order<R>(work: impl FnOnce(&mut Vec<usize>) -> R) -> R {
    with_kept(&ORDER, work)
}

/// The same for the labels of sets, none at first.
pub(crate) fn with_labels<R>(work: impl FnOnce(&mut Vec<i32>) -> R) -> R {
    with_kept(&LABELS, |labels| {
        labels.clear();
        work(labels)
    })
}

fn with_kept<T, R>(list: &'static LocalKey<Cell<Vec<T>>>, work: impl FnOnce(&mut Vec<T>) -> R) -> R {
    // A thread that ends has none left.
    let mut values = list.try_with(Cell::take).unwrap_or_default();
    let result = work(&mut values);
    if bytes(&values) <= KEPT_BY_WORKERS {
        let _ = list.try_with(|kept| kept.set(values));
    }
    result
}

/// What labels are scored and sets are cut with. Nothing that comes out of it depends on the rows before.
#[derive(Debug, Default)]
pub(crate) struct Space<F: Float> {
    /// Rows that their source cannot lend as they are.
    pub(crate) lent: RowBuffer<F>,
    /// Rows of few labels, transposed.
    pub(crate) columns: Vec<Column<F>>,
    pub(crate) labels: LabelWorkspace<F>,
    pub(crate) vote: Vote<F>,
    pub(crate) cell_vote: CellVote<F>,
    pub(crate) order: LaneOrder<F>,
}

impl<F: Float + 'static> Space<F> {
    /// What the thread kept, or nothing yet.
    pub(crate) fn taken() -> Box<Self> {
        Self::of_thread(false)
    }

    /// The same for who fetches [`Rows::columns_ahead`] in the course of its work.
    pub(crate) fn fetching() -> Box<Self> {
        Self::of_thread(true)
    }

    fn of_thread(is_fetching: bool) -> Box<Self> {
        // A thread that ends has none left.
        let kept = SPARE.try_with(Cell::take).ok().flatten();
        let mut space = kept.and_then(|kept| kept.downcast::<Self>().ok()).unwrap_or_default();
        space.lent.begin(is_fetching);
        space.vote.top.forget();
        space.vote.masses.forget();
        space
    }

    /// Keeps it for the next call, after a block of `done` rows of those of a call.
    pub(crate) fn keep<R: Rows<F>>(self: Box<Self>, rows: &R, done: usize) {
        let is_call = done == rows.n_rows();
        if self.bytes() <= if is_call { KEPT_BY_CALLERS } else { KEPT_BY_WORKERS } {
            let _ = SPARE.try_with(|spare| spare.set(Some(self)));
        }
    }

    fn bytes(&self) -> usize {
        let votes = self.vote.bytes() + self.cell_vote.bytes();
        let rows = self.lent.bytes() + bytes(&self.columns) + self.labels.bytes();
        size_of::<Self>() + rows + votes + self.order.bytes()
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
    fn much_space_is_kept_by_callers_alone() {
        for (limit, done) in [(KEPT_BY_WORKERS, 1), (KEPT_BY_CALLERS, 5)] {
            for (room, is_kept) in [(limit / 2, true), (limit, false)] {
                let mut space = Space::<f32>::default();
                space.lent.emptied().reserve_exact(room / 4);
                Box::new(space).keep(&Shape(5, 10), done);
                assert_eq!(SPARE.take().is_some(), is_kept, "{done} rows, {room} bytes");
            }
        }
    }

    /// Every list counts: of rows, columns and orders, of sets and of sorted labels, and of candidates.
    #[test]
    fn all_that_is_kept_is_counted() {
        let space = || Space::<f32>::default();
        let grown = |space: &Space<f32>| space.bytes() - size_of::<Space<f32>>();
        assert_eq!(grown(&space()), 0);
        let changed: [fn(&mut Space<f32>); 6] = [
            |space| space.lent.emptied().push(1.0),
            |space| space.columns.push(Column([0.0; GROUP])),
            |space| space.order.begin(3),
            |space| space.vote.reserve(2, 1000),
            |space| space.vote.fit(2),
            |space| space.cell_vote.workspace.reserve(1000),
        ];
        for change in changed {
            let mut space = space();
            change(&mut space);
            assert!(grown(&space) > 0);
        }
    }

    #[test]
    fn lists_are_kept() {
        let first = with_order(|order| {
            order.push(7);
            order.as_ptr().addr()
        });
        assert_eq!(with_order(|order| order.as_ptr().addr()), first);
        let first = with_labels(|labels| {
            labels.push(7);
            labels.as_ptr().addr()
        });
        with_labels(|labels| {
            assert_eq!((labels.len(), labels.as_ptr().addr()), (0, first));
            labels.reserve(KEPT_BY_WORKERS);
        });
        assert_eq!(with_labels(|labels| labels.capacity()), 0);
    }
}
