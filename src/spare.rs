//! Working space that a thread keeps from one call for the next.
//!
//! A service asks for one row at a time. Six vectors as long as the row, allocated and freed with each call, took a sixth
//! of it at a thousand labels. A call that keeps to its thread allocates its result and nothing else, once the thread has
//! made one like it.

use std::any::Any;
use std::cell::Cell;

use crate::float::Float;
use crate::kernel::LabelWorkspace;
use crate::lane_order::LaneOrder;
use crate::ranked_masses::RankedMasses;
use crate::rows::Column;
use crate::top_labels::TopLabels;

/// Space for longer rows is not kept. For these it is 6 to 8 megabytes in a thread. That of 128,000 labels, new with each
/// call, took four fifths of it: the system clears and maps its pages each time.
const KEPT_LABELS: usize = 1 << 18;

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
    pub(crate) top: TopLabels<F>,
    pub(crate) masses: RankedMasses<F>,
    pub(crate) order: LaneOrder<F>,
}

impl<F: Float + 'static> Space<F> {
    /// What the thread kept, or nothing yet.
    pub(crate) fn taken() -> Box<Self> {
        // A thread that ends has none left.
        let kept = SPARE.try_with(Cell::take).ok().flatten();
        let mut space = kept.and_then(|kept| kept.downcast::<Self>().ok()).unwrap_or_default();
        space.top.forget();
        space.masses.forget();
        space
    }

    /// Keeps it for the next call, after rows of so many labels.
    pub(crate) fn keep(self: Box<Self>, n_labels: usize) {
        if n_labels <= KEPT_LABELS {
            let _ = SPARE.try_with(|spare| spare.set(Some(self)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_rows_find_what_was_kept() {
        let address = |space: &Space<f32>| std::ptr::from_ref(space).addr();
        let space = Space::<f32>::taken();
        let first = address(&space);
        space.keep(10);
        let space = Space::<f32>::taken();
        assert_eq!(address(&space), first);
        // Taken, and so not there for anyone else; of the other type, and so of no use.
        assert_ne!(address(&Space::<f32>::taken()), first);
        space.keep(10);
        Space::<f64>::taken().keep(10);
        assert!(SPARE.take().is_some_and(|kept| kept.is::<Space<f64>>()));
        Space::<f64>::taken().keep(KEPT_LABELS + 1);
        assert!(SPARE.take().is_none());
    }
}
