//! New inputs in every run, made from those that are kept: seconds of what `make test-fuzz` does for longer.
//!
//! `TIGHTSET_SEED` repeats a run, `TIGHTSET_CASES` makes it longer.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use crate::damage;
use crate::document;
use crate::kernels;
use std::panic::catch_unwind;
use std::path::Path;
use std::time::SystemTime;

use arbitrary::{Arbitrary, Unstructured};
use damage::Choices;
use serde_json::Value;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Makes as many inputs as asked for and checks each; the number of those that `check` counts.
fn explore<T>(
    n_cases: u64,
    input: impl Fn(&mut Choices) -> T,
    check: fn(&T) -> bool,
    shown: fn(&T) -> String,
) -> u64
where
    T: std::panic::RefUnwindSafe,
{
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let seed = variable("TIGHTSET_SEED").unwrap_or(since.as_nanos() as u64);
    let mut choices = Choices(seed);
    let mut counted = 0;
    for _ in 0..variable("TIGHTSET_CASES").unwrap_or(n_cases) {
        let input = input(&mut choices);
        let Ok(is_counted) = catch_unwind(|| check(&input)) else {
            panic!("TIGHTSET_SEED={seed}: {}", shown(&input))
        };
        counted += u64::from(is_counted);
    }
    counted
}

fn kept(folder: &str) -> Vec<Vec<u8>> {
    let files = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap();
    files.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect()
}

#[test]
fn edited_documents() {
    let inputs = [kept("fuzz/corpus/document"), kept("tests/fixtures/v1")].concat();
    let edited = |choices: &mut Choices| {
        let bytes = damage::edited(&inputs, choices);
        String::from_utf8_lossy(&bytes).into_owned()
    };
    explore(3000, edited, |text| document::check_both(text), Clone::clone);
}

#[test]
fn forged_documents() {
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/predictions.json"));
    let cases: Vec<Value> = serde_json::from_str(&text.unwrap()).unwrap();
    let documents: Vec<Value> = cases
        .iter()
        .map(|case| case["document"].as_str().unwrap())
        .filter(|text| text.len() < 20_000)
        .map(|text| serde_json::from_str(text).unwrap())
        .collect();
    assert!(documents.len() > 10);
    let forged = |choices: &mut Choices| damage::forged(&documents, choices);
    let n_accepted = explore(3000, forged, |text| document::check_both(text), Clone::clone);
    // Some forgeries hold together; if none did, nothing behind the first check would have been reached.
    assert!(n_accepted > 0);
}

#[test]
fn sets_and_scores() {
    let inputs = kept("fuzz/corpus/kernels");
    let edited = |choices: &mut Choices| damage::edited(&inputs, choices);
    let n_checked = explore(
        3000,
        edited,
        |bytes| match kernels::Input::arbitrary_take_rest(Unstructured::new(bytes)) {
            Ok(input) => {
                kernels::check_input(&input);
                true
            }
            Err(_) => false,
        },
        |bytes| format!("{bytes:?}"),
    );
    assert!(n_checked > 0);
}
