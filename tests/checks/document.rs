//! Any text is refused or is a predictor that writes itself again and predicts.

use tightset::{Options, Predictor, Scratch, probe};

/// Reads a text as it is, and with the right hash, which mutations alone would never find; whether that one
/// is a predictor.
pub(crate) fn check_both(text: &str) -> bool {
    check(text);
    probe::sealed(text).is_some_and(|sealed| check(&sealed))
}

fn check(text: &str) -> bool {
    let Ok(predictor) = Predictor::from_json(text) else { return false };
    let again = Predictor::from_json(&predictor.to_json()).expect("what was written is read");
    assert_eq!(again, predictor);
    if predictor.n_labels() > 1000 {
        return true;
    }
    let k = predictor.n_labels();
    let ids = [3];
    let row_ids = predictor.uses_row_ids().then_some(&ids[..]);
    let group: Vec<_> = predictor.groups().take(1).collect();
    let groups = predictor.uses_groups().then_some(&group[..]);
    let options = Options { row_ids, groups, ..Options::default() };
    let row: Vec<f32> = if predictor.takes_probabilities() {
        vec![1.0 / k as f32; k]
    } else {
        (0..k).map(|label| (label * label % 7) as f32 - 2.0).collect()
    };
    let mut scratch = Scratch::new();
    let labels = predictor.predict_row_with(&row, &options, &mut scratch).expect("a good row");
    assert!(labels.len() <= k && labels.iter().all(|&label| (label as usize) < k));
    true
}
