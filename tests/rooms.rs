//! The rooms of the core depend one way, in the order that `src/lib.rs` tells.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

/// A room may ask those before it alone. `probe` serves benchmarks, `testing` tests.
const ORDER: [&str; 12] = [
    "error",
    "math",
    "simd",
    "kernels",
    "rows",
    "run",
    "score",
    "sets",
    "conformal",
    "predictor",
    "probe",
    "py",
];

/// The sources below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The code of a source, without comments and tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// Where the rooms that a code names after `crate::` stand in the order.
fn asked(code: &str) -> Vec<usize> {
    let names = code
        .split("crate::")
        .skip(1)
        .map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default());
    names.filter_map(|name| ORDER.iter().position(|room| *room == name)).collect()
}

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

#[test]
fn rooms_ask_those_before_them_alone() {
    let mut seen = 0;
    for path in sources(&src()) {
        let inside = path.strip_prefix(src()).unwrap();
        let room = inside.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        if ["lib", "testing"].contains(&room) || inside.ends_with("kernels/tests.rs") {
            continue;
        }
        let own = ORDER.iter().position(|name| *name == room);
        let own = own.unwrap_or_else(|| panic!("{room} is a room that the order does not know"));
        for asked in asked(&code(&path)) {
            assert!(asked <= own, "{} asks {}, which comes after it", inside.display(), ORDER[asked]);
            seen += usize::from(asked < own);
        }
    }
    assert!(seen > 200, "{seen} questions");
}

#[test]
fn the_order_can_be_broken() {
    let late = "use crate::math::exp;\nuse crate::{error::Error, sets::Sets};\nfn f() { crate::score::g() }";
    assert_eq!(asked(late).into_iter().max(), Some(6));
}

#[test]
fn python_is_named_at_the_door_alone() {
    for path in sources(&src()) {
        let inside = path.strip_prefix(src()).unwrap();
        let is_door = inside.ends_with("lib.rs") || inside.starts_with("py");
        assert!(is_door || !code(&path).contains("feature = \"python\""), "{}", inside.display());
    }
}
