//! What fuzzing found worth keeping, run again: needs no fuzzer.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use crate::document;
use crate::kernels;
use std::path::Path;

use arbitrary::{Arbitrary, Unstructured};

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let files = std::fs::read_dir(folder).unwrap();
    let inputs: Vec<Vec<u8>> = files.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect();
    assert!(inputs.len() > 50, "{name} has {} inputs", inputs.len());
    inputs
}

#[test]
fn documents() {
    for input in corpus("document") {
        if let Ok(text) = std::str::from_utf8(&input) {
            document::check_both(text);
        }
    }
}

#[test]
fn sets_and_scores() {
    let mut checked = 0;
    for input in corpus("kernels") {
        // As the fuzzer reads its inputs.
        if let Ok(input) = kernels::Input::arbitrary_take_rest(Unstructured::new(&input)) {
            kernels::check_input(&input);
            checked += 1;
        }
    }
    assert!(checked > 50);
}
