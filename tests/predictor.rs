//! Saved predictors: the same bits as in Python, every bad document refused.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};

use serde_json::Value;
use tightset::{Error, Float, GroupKey, Matrix, Options, Plan, Predictor, RowBuffer, Rows, Scratch, Sets};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

fn cases(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(folder("vectors").join(name)).unwrap();
    let cases: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert!(cases.len() > 40);
    cases
}

fn fixtures() -> Vec<String> {
    let files = std::fs::read_dir(folder("fixtures/v1")).unwrap();
    let texts: Vec<String> =
        files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    assert!(texts.len() >= 5);
    texts
}

/// Rows from the hexadecimal digits of their bits.
fn floats<F>(case: &Value, field: &str, digits: usize, from_bits: impl Fn(u64) -> F) -> Vec<F> {
    let rows = case[field].as_array().unwrap().iter().map(|row| row.as_str().unwrap());
    let words = rows.flat_map(|row| row.as_bytes().chunks_exact(digits));
    words
        .map(|word| from_bits(u64::from_str_radix(std::str::from_utf8(word).unwrap(), 16).unwrap()))
        .collect()
}

fn sets(case: &Value, field: &str) -> Vec<Vec<u32>> {
    serde_json::from_value(case[field].clone()).unwrap()
}

fn rows_of(sets: &Sets) -> Vec<Vec<u32>> {
    (0..sets.offsets.len() - 1)
        .map(|i| sets.row(i).iter().map(|&label| u32::try_from(label).unwrap()).collect())
        .collect()
}

fn name_of(group: &Value) -> GroupKey<'_> {
    GroupKey::Name(group.as_str().unwrap())
}

fn check<F: Float>(case: &Value, predictor: &Predictor, data: &[F]) {
    let name = case["name"].as_str().unwrap();
    let k = predictor.n_labels();
    let matrix = Matrix::new(data, k).unwrap();
    let ids: Option<Vec<u64>> = serde_json::from_value(case["row_ids"].clone()).unwrap();
    let groups: Option<Vec<GroupKey<'_>>> = case["groups"].as_array().map(|groups| {
        let key = |group: &Value| group.as_i64().map(GroupKey::Number);
        groups.iter().map(|group| key(group).unwrap_or_else(|| name_of(group))).collect()
    });
    let mut scratch = Scratch::new();
    for (field, allow_empty) in [("sets", true), ("sets_not_empty", false)] {
        let expected = sets(case, field);
        let given = Options { row_ids: ids.as_deref(), groups: groups.as_deref(), ..Options::default() };
        let options = Options { allow_empty, ..given };
        for n_threads in [None, Some(1), Some(2)] {
            let plan = Plan { n_threads, ..Plan::default() };
            assert_eq!(
                rows_of(&predictor.predict_sets(&matrix, &options, &plan).unwrap()),
                expected,
                "{name}"
            );
        }
        for (i, row) in data.chunks_exact(k).enumerate() {
            let row_ids = ids.as_deref().map(|ids| &ids[i..=i]);
            let groups = groups.as_deref().map(|groups| &groups[i..=i]);
            let options = Options { row_ids, groups, ..options };
            let labels = predictor.predict_row_with(row, &options, &mut scratch).unwrap();
            assert_eq!(labels, expected[i], "{name}, row {i}");
        }
    }
    let mut p = vec![0.0; data.len()];
    let options = Options { row_ids: ids.as_deref(), groups: groups.as_deref(), ..Options::default() };
    let found = predictor.p_values(&matrix, &options, &Plan::default(), &mut p);
    if case["p_values"].is_null() {
        assert!(found.is_err());
    } else {
        found.unwrap();
        let expected = floats(case, "p_values", 16, f64::from_bits);
        assert_eq!(p, expected, "{name}");
    }
}

#[test]
fn the_same_sets_and_p_values_as_python() {
    for case in cases("predictions.json") {
        let predictor = Predictor::from_json(case["document"].as_str().unwrap()).unwrap();
        assert_eq!(Predictor::from_json(&predictor.to_json()).unwrap(), predictor);
        // What Rust writes is what Python wrote, so Python reads it as its own.
        assert_eq!(contents(&predictor.to_json()), contents(case["document"].as_str().unwrap()));
        if case["dtype"] == "float32" {
            let data = floats(&case, "rows", 8, |bits| f32::from_bits(u32::try_from(bits).unwrap()));
            check(&case, &predictor, &data);
        } else {
            check(&case, &predictor, &floats(&case, "rows", 16, f64::from_bits));
        }
    }
}

#[test]
fn bad_documents_are_refused() {
    for case in cases("refused.json") {
        let (name, message) = (case["name"].as_str().unwrap(), case["message"].as_str().unwrap());
        let error = Predictor::from_json(case["text"].as_str().unwrap()).expect_err(name);
        assert!(matches!(error, Error::Document(_)), "{name}: {error:?}");
        assert!(error.to_string().contains(message), "{name}: {error}");
    }
    let text = &fixtures()[0];
    assert!(Predictor::from_json_up_to(text, text.len()).is_ok());
    let error = Predictor::from_json_up_to(text, text.len() - 1).unwrap_err();
    assert!(error.to_string().contains("too large"));
}

/// The lines of a document but for its version, which a later one replaces by its own, and with it the hash.
fn lines(text: &str) -> Vec<&str> {
    let kept = |line: &&str| !line.contains("\"tightset\"") && !line.contains("\"sha256\"");
    text.lines().filter(kept).collect()
}

fn contents(text: &str) -> Value {
    let mut document: Value = serde_json::from_str(text).unwrap();
    document.as_object_mut().unwrap().retain(|name, _| name != "tightset" && name != "sha256");
    document
}

#[test]
fn fixtures_are_read_and_written_alike() {
    for text in fixtures() {
        let predictor = Predictor::from_json(&text).unwrap();
        assert_eq!(lines(&predictor.to_json()), lines(&text));
        assert!(predictor.to_json().ends_with("}\n"));
    }
}

#[test]
fn what_a_predictor_says() {
    let text = std::fs::read_to_string(folder("fixtures/v1/raps-with-names.json")).unwrap();
    let predictor = Predictor::from_json(&text).unwrap();
    assert_eq!((predictor.alpha(), predictor.n_labels(), predictor.n_calibration()), (0.3, 3, 30));
    assert_eq!(predictor.rank(), 22);
    assert!(!predictor.takes_probabilities() && !predictor.uses_row_ids());
    assert_eq!(predictor.label_names().unwrap(), ["cat", "d\"o\\g\n", "鶴 é"]);
    assert_eq!(predictor.candidates().len(), 1);
}

#[test]
fn groups_are_asked_for_and_known() {
    let text = std::fs::read_to_string(folder("fixtures/v1/groups.json")).unwrap();
    let predictor = Predictor::from_json(&text).unwrap();
    assert!(predictor.uses_groups() && predictor.candidates().is_empty());
    assert_eq!(predictor.cells().len(), 2);
    let mut scratch = Scratch::new();
    let mut error = |groups: Option<&[GroupKey<'_>]>| {
        let options = Options { groups, ..Options::default() };
        predictor
            .predict_row_with(&[0.0_f32; 4], &options, &mut scratch)
            .map(<[u32]>::len)
            .map_err(|e| e.to_string())
    };
    assert!(error(Some(&[GroupKey::Name("b")])).is_ok());
    assert_eq!(error(None).unwrap_err(), "groups must be given exactly when calibration had them, got none");
    assert!(
        error(Some(&[GroupKey::Name("c")])).unwrap_err().contains("groups must be one of the calibration")
    );
    assert!(
        error(Some(&[GroupKey::Number(1)])).unwrap_err().contains("groups must be one of the calibration")
    );
    assert!(error(Some(&[])).unwrap_err().contains("groups must have one value for each"));
    let text = std::fs::read_to_string(folder("fixtures/v1/aps.json")).unwrap();
    let without = Predictor::from_json(&text).unwrap();
    let options = Options { groups: Some(&[GroupKey::Number(1)]), ..Options::default() };
    assert!(without.predict_row_with(&[0.0_f32; 4], &options, &mut Scratch::new()).is_err());
}

#[test]
fn bad_rows_are_refused() {
    let text = std::fs::read_to_string(folder("fixtures/v1/aps.json")).unwrap();
    let predictor = Predictor::from_json(&text).unwrap();
    let mut scratch = Scratch::new();
    let mut error = |row: &[f32]| predictor.predict_row(row, &mut scratch).unwrap_err().to_string();
    assert_eq!(error(&[0.0; 3]), "logits must have 4 labels as in calibration, got 3");
    assert!(error(&[0.0, f32::NAN, 0.0, 0.0]).contains("found nan at row 0, column 1"));
    assert!(error(&[f32::NEG_INFINITY; 4]).contains("row 0 is -inf throughout"));
    let options = Options { row_ids: Some(&[1]), ..Options::default() };
    let error = predictor.predict_row_with(&[0.0_f32; 4], &options, &mut scratch).unwrap_err();
    assert!(error.to_string().contains("row_ids must be given exactly when calibration had them"));
    // A refusal leaves the scratch usable.
    assert!(!predictor.predict_row(&[0.0_f32; 4], &mut scratch).unwrap().is_empty());
    let rows = Matrix::new(&[0.0_f64; 6], 3).unwrap();
    assert!(predictor.predict_sets(&rows, &Options::default(), &Plan::default()).is_err());
    assert_eq!(rows.n_rows(), 2);
}

#[cfg(feature = "rayon")]
#[test]
fn batches_stay_in_the_pool_of_their_caller() {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    /// Rows that know who read them.
    struct Watched<'a> {
        rows: Matrix<'a, f32>,
        readers: Mutex<BTreeSet<String>>,
    }

    impl Rows<f32> for Watched<'_> {
        fn n_rows(&self) -> usize {
            self.rows.n_rows()
        }

        fn n_labels(&self) -> usize {
            self.rows.n_labels()
        }

        fn lend<'a>(
            &'a self,
            first: usize,
            count: usize,
            scratch: &'a mut RowBuffer<f32>,
            lent: &mut [&'a [f32]; tightset::TILE],
        ) -> Result<(), Error> {
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            self.readers.lock().unwrap().insert(name);
            self.rows.lend(first, count, scratch, lent)
        }
    }

    let text = std::fs::read_to_string(folder("fixtures/v1/aps.json")).unwrap();
    let predictor = Predictor::from_json(&text).unwrap();
    let data: Vec<f32> =
        (0..400_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 20) as f32 / 500.0).collect();
    let rows = Matrix::new(&data, 4).unwrap();
    let predict = |plan: &Plan<'_>| {
        let watched = Watched { rows, readers: Mutex::default() };
        let sets = predictor.predict_sets(&watched, &Options::default(), plan).unwrap();
        (sets, watched.readers.into_inner().unwrap())
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).thread_name(|i| format!("caller-{i}"));
    let pool = pool.build().unwrap();
    let (inside, readers) = pool.install(|| predict(&Plan::default()));
    assert!(readers.iter().all(|name| name.starts_with("caller-")), "{readers:?}");
    let (asked, readers) = pool.install(|| predict(&Plan { n_threads: Some(2), ..Plan::default() }));
    assert!(readers.iter().all(|name| name.starts_with("tightset-")), "{readers:?}");
    let (alone, readers) = predict(&Plan { n_threads: Some(1), ..Plan::default() });
    assert_eq!(readers.len(), 1);
    assert!(inside == asked && asked == alone);
}
