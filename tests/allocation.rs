//! What is allocated, counted by the allocator itself: nothing by `predict_row` after its first row, little by
//! documents that are damaged.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "checks/counting.rs"]
mod counting;
#[path = "checks/damage.rs"]
mod damage;

use counting::{Counting, allocations, peak};
use damage::Choices;
use serde_json::Value;
use tightset::{Float, Options, Predictor, Scratch, probe};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

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
