//! What is allocated, counted by the allocator itself: nothing by `predict_row` after its first row, little by
//! documents that are damaged.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "checks/damage.rs"]
mod damage;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use damage::Choices;
use serde_json::Value;
use tightset::{
    Float, Matrix, Options, Plan, Predictor, Randomness, Reweight, Scale, Score, Scoring, Scratch,
    label_scores, predict_sets, probe,
};

/// The system's allocator, counting what the thread asks for.
struct Counting;

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

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of this thread during `work`.
fn allocations(work: impl FnOnce()) -> usize {
    let before = COUNT.get();
    work();
    COUNT.get() - before
}

/// The most bytes that this thread had at once during `work`, beyond those before.
fn peak(work: impl FnOnce()) -> isize {
    let before = LIVE.get();
    PEAK.set(before);
    work();
    PEAK.get() - before
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
    assert_eq!(peak(|| drop(std::hint::black_box(vec![0_u8; 100]))), 100);
}

#[test]
fn rows_allocate_nothing() {
    for text in documents() {
        let predictor = Predictor::from_json(&text).unwrap();
        if !predictor.uses_row_ids() {
            assert_eq!(count::<f32>(&predictor), 0, "{text}");
            assert_eq!(count::<f64>(&predictor), 0, "{text}");
        }
    }
}

/// The same at K = 1000, for predictors of one candidate and of several.
#[test]
fn long_rows_allocate_nothing() {
    for name in ["aps", "er-aps"] {
        let path = format!("{}/tests/fixtures/v1/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap().replace("\"n_labels\": 4", "\"n_labels\": 1000");
        let predictor = Predictor::from_json(&probe::sealed(&text).unwrap()).unwrap();
        assert_eq!((predictor.n_labels(), count::<f32>(&predictor)), (1000, 0));
    }
}

/// One-row calls allocate their result and nothing else, once a thread has made one.
#[test]
fn calls_of_one_row_allocate_their_result() {
    fn counted<F: Float>(n_labels: usize, scoring: &Scoring) -> (usize, usize) {
        let (randomness, plan) = (Randomness::default(), Plan { n_threads: Some(2), ..Plan::default() });
        // One label stands out: the set is short, and its labels grow no more than once.
        let logit = |label: usize| if label == 1 { 60.0 } else { (label * 7 % 11) as f64 };
        let row: Vec<F> = (0..n_labels).map(|label| F::from_f64(logit(label))).collect();
        let matrix = Matrix::new(&row, n_labels).unwrap();
        let mut scores = [0.0];
        let mut scored = || {
            label_scores(&matrix, &[1], &[*scoring], Scale::Ranked, &randomness, &plan, &mut scores).unwrap();
        };
        let cut = || drop(predict_sets(&matrix, scoring, 2.0, true, &randomness, &plan).unwrap());
        scored();
        cut();
        (allocations(scored), allocations(cut))
    }
    for n_labels in [2, 10, 100, 1000, 20_000] {
        for power in [0.0, 1.0] {
            let scoring = Scoring::new(Score::Aps, Reweight::new(1.0, power).unwrap(), 1.0).unwrap();
            // Scores go where the caller says; sets are their offsets and their labels.
            assert_eq!(counted::<f32>(n_labels, &scoring), (0, 2), "{n_labels} labels, power {power}");
            assert_eq!(counted::<f64>(n_labels, &scoring), (0, 2), "{n_labels} labels, power {power}");
        }
    }
}

fn documents() -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/predictions.json");
    let cases: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    cases.iter().map(|case| case["document"].as_str().unwrap().to_owned()).collect()
}

/// The largest peak among damaged and forged documents, as they are and with the hash that belongs to them.
fn peak_of_damaged(n_cases: usize) -> isize {
    let documents = documents();
    let texts: Vec<Vec<u8>> = documents.iter().map(|text| text.as_bytes().to_vec()).collect();
    let trees: Vec<Value> = documents.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    let mut choices = Choices(1);
    let mut largest = 0;
    for i in 0..n_cases {
        let text = if i % 2 == 0 {
            let bytes = damage::edited(&texts, &mut choices);
            String::from_utf8_lossy(&bytes).into_owned()
        } else {
            let forged = damage::forged(&trees, &mut choices);
            probe::sealed(&forged).unwrap_or(forged)
        };
        largest = largest.max(peak(|| drop(Predictor::from_json(&text))));
    }
    largest
}

const MOST: isize = 64 << 20;

#[test]
fn damaged_documents_need_little_memory() {
    let largest = peak_of_damaged(1000);
    // More than the text of some, so it was measured.
    assert!((10_000..MOST).contains(&largest), "{largest}");
}

/// `cargo test --release -- --ignored --nocapture` also tells the figure.
#[test]
#[ignore = "minutes"]
#[allow(clippy::print_stdout, reason = "a figure")]
fn many_damaged_documents_need_little_memory() {
    let largest = peak_of_damaged(100_000);
    println!("100,000 damaged documents: {largest} bytes at most");
    assert!(largest < MOST, "{largest}");
}

/// Texts with as much of something as may be.
#[test]
#[allow(clippy::print_stdout, reason = "a figure")]
fn hostile_texts_need_little_memory() {
    let most = Predictor::MAX_BYTES;
    let long = |before: &str, item: &str, n: usize, after: &str| format!("{before}{}{after}", item.repeat(n));
    for (name, text) in [
        ("values", long("[", "0,", (1 << 20) - 2, "0]")),
        ("objects", long("[", "{\"\":0},", (1 << 18) - 1, "0]")),
        ("lists", long("[", "[[0]],", (1 << 17) - 1, "0]")),
        ("escapes", long("\"", "\\n", most / 2 - 1, "\"")),
        ("number", long("", "1", most, "")),
    ] {
        assert!(text.len() <= most);
        let largest = peak(|| drop(Predictor::from_json(&text)));
        println!("{name}: {} bytes of text, {largest} at most", text.len());
        assert!(largest < MOST, "{name}: {largest}");
    }
}
