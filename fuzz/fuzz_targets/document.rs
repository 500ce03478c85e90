//! Any text is refused or is a predictor that writes itself again and predicts.
#![no_main]

#[path = "../../tests/checks/document.rs"]
mod checks;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    checks::check_both(text);
});
