//! Sets against the naive definition.
#![no_main]

#[path = "../../tests/checks/kernels.rs"]
mod checks;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: checks::Input| checks::check_input(&input));
