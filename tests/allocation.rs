//! `predict_row` allocates nothing after its first row, counted by the allocator itself.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use serde_json::Value;
use tightset::{Float, Options, Predictor, Scratch};

/// The system's allocator, counting what the thread asks for.
struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: hands every request to the system's allocator unchanged.
#[allow(unsafe_code, reason = "an allocator")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: as the caller promised.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of this thread during `work`.
fn allocations(work: impl FnOnce()) -> usize {
    let before = COUNT.get();
    work();
    COUNT.get() - before
}

/// Rows of all kinds: sharp, flat, tied, with impossible labels.
fn rows<F: Float>(n_labels: usize) -> Vec<Vec<F>> {
    let mut state = 1_u64;
    let mut uniform = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / f64::from(1 << 24)
    };
    let row = |i: usize| {
        let scale = [0.0, 0.01, 1.0, 30.0, 1000.0][i % 5];
        let is_possible = i % 7 != 3;
        (0..n_labels)
            .map(|label| match scale * uniform() {
                _ if !is_possible && label % 3 == 1 => F::NEG_INFINITY,
                z => F::from_f64(z),
            })
            .collect()
    };
    (0..100).map(row).collect()
}

fn count<F: Float>(predictor: &Predictor) -> usize {
    let mut rows = rows::<F>(predictor.n_labels());
    if predictor.takes_probabilities() {
        for row in &mut rows {
            let p = F::from_f64(1.0 / row.len() as f64);
            row.fill(p);
        }
    }
    let keys: Vec<_> = predictor.groups().collect();
    let of_row = |i: usize| {
        let groups = predictor.uses_groups().then(|| &keys[i % keys.len()..][..1]);
        Options { groups, ..Options::default() }
    };
    let mut scratch = Scratch::new();
    predictor.predict_row_with(&rows[0], &of_row(0), &mut scratch).unwrap();
    allocations(|| {
        for (i, row) in rows.iter().enumerate() {
            predictor.predict_row_with(row, &of_row(i), &mut scratch).unwrap();
        }
    })
}

#[test]
fn allocations_are_counted() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![0_u8; 100]))), 1);
}

#[test]
fn rows_allocate_nothing() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/predictions.json");
    let cases: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for case in cases {
        let predictor = Predictor::from_json(case["document"].as_str().unwrap()).unwrap();
        if !predictor.uses_row_ids() {
            assert_eq!(count::<f32>(&predictor), 0, "{}", case["name"]);
            assert_eq!(count::<f64>(&predictor), 0, "{}", case["name"]);
        }
    }
}
