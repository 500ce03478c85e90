//! What callers and documents may not bring about, however strange they are: a panic, another candidate, a wait.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::definition;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use definition::{Case, Hash, brackets, counted, lists, winners};
use serde_json::{Value, json};
use tightset::{
    Bracket, Cell, Error, Float, LogProbabilities, Matrix, Measure, Parting, Partition, Plan, Predictor,
    Randomness, Reweight, RowBuffer, Rows, Scale, Score, Scoring, Scratch, Survivor, Survivors, TILE,
    all_scores, cell_p_values, conformal_rank, count_cell_pairs, count_pairs, label_scores, p_values,
    predict_cell_sets, predict_selected_sets, predict_sets, probe, ranks, selected_p_values, softmax,
    uncertainty,
};

fn scoring(score: Score, temperature: f64) -> Scoring {
    Scoring::new(score, Reweight::NONE, temperature).unwrap()
}

/// A document of two candidates, aps and thr, with these counts up to `lo` and weights, and its candidates.
fn document(counts: [(u64, u32); 2]) -> (String, Vec<Survivor>) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/v1/several.json");
    let mut document: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let number = |value: &Value| {
        let bits = value["bits"].as_str().unwrap();
        f64::from_bits(u64::from_str_radix(bits, 16).unwrap())
    };
    let n = i64::MAX as usize;
    document["n_calibration"] = json!(n);
    document["rank"] = json!(conformal_rank(n, number(&document["alpha"])).unwrap());
    document.as_object_mut().unwrap().remove("calibration_scores");
    let candidates = document["candidates"].as_array().unwrap();
    let named = |name: &str| {
        let is_it = |c: &&Value| {
            c["score"]["name"] == name && c["reweight"].is_null() && number(&c["temperature"]) == 1.0
        };
        candidates.iter().find(is_it).unwrap().clone()
    };
    let (mut candidates, mut survivors) = ([named("aps"), named("thr")], Vec::new());
    for ((candidate, score), (at_lo, weight)) in
        candidates.iter_mut().zip([Score::Aps, Score::Thr]).zip(counts)
    {
        candidate["pairs_at_lo"] = json!(at_lo);
        candidate["weight"] = json!(weight);
        let (lo, hi) = (number(&candidate["lo"]), number(&candidate["threshold"]));
        let words = candidate["between"].as_str().unwrap().as_bytes().chunks_exact(16);
        let word = |word: &[u8]| u64::from_str_radix(std::str::from_utf8(word).unwrap(), 16).unwrap();
        let between = words.map(|bits| f64::from_bits(word(bits))).collect();
        survivors.push(Survivor { scoring: scoring(score, 1.0), lo, hi, at_lo, between, weight });
    }
    document["candidates"] = json!(candidates);
    (probe::sealed(&document.to_string()).unwrap(), survivors)
}

/// The sets of the rows by the definition, in numbers that cannot overflow.
fn expected_sets(case: &Case<f32>, survivors: &[Survivor]) -> Vec<Vec<usize>> {
    let tables: Vec<Vec<f64>> = survivors.iter().map(|s| case.scores(&s.scoring)).collect();
    let winners = winners(survivors, &tables, case.k);
    case.sets(true, |pair| tables[winners[pair]][pair] <= survivors[winners[pair]].hi)
}

/// Rows of three labels whose U comes from themselves.
fn short_rows() -> Case<f32> {
    Case::new(&mut Hash(7), 40, 3).by_default()
}

/// A document with these counts is refused, or its sets are those of the definition.
fn check_document(counts: [(u64, u32); 2]) {
    let (case, (text, survivors)) = (short_rows(), document(counts));
    let predictor = match Predictor::from_json(&text) {
        Ok(predictor) => predictor,
        Err(error) => return assert!(matches!(error, Error::Document(_)), "{error:?}"),
    };
    let (expected, mut scratch) = (expected_sets(&case, &survivors), Scratch::new());
    for (row, expected) in case.data.chunks_exact(case.k).zip(&expected) {
        let found = predictor.predict_row(row, &mut scratch).unwrap();
        let found: Vec<usize> = found.iter().map(|&label| label as usize).collect();
        assert_eq!(found, *expected, "{row:?} with {counts:?}");
    }
}

/// A document of ordinary counts is taken: those that are refused are refused for their counts.
#[test]
fn documents_with_ordinary_counts_predict() {
    for counts in [[(24, 1), (27, 1)], [(27, 1), (24, 1)], [(24, 2), (50, 1)]] {
        assert!(Predictor::from_json(&document(counts).0).is_ok());
        check_document(counts);
    }
}

/// The pairs of a row are added to a count of the document without a panic, and never make it small.
#[test]
fn documents_with_huge_counts_neither_panic_nor_select_another_candidate() {
    for huge in [u64::MAX, u64::MAX - 1, u64::MAX - 4] {
        for counts in [[(huge, 1), (24, 1)], [(24, 1), (huge, 1)], [(huge, 1), (huge, 1)]] {
            check_document(counts);
        }
    }
}

/// Counts times weights are compared as they are, also where the products are beyond 64 bits.
#[test]
fn documents_with_huge_weights_select_no_other_candidate() {
    let (count, weight) = (1 << 40, u32::MAX);
    for counts in [[(count + 100, weight), (count, weight)], [(count, weight), (count, weight - 1)]] {
        check_document(counts);
    }
}

/// Candidates with the largest count are refused, or every call on them gives what the definition says.
#[test]
fn candidates_with_the_largest_count_do_not_panic() {
    let case = Case::<f32>::new(&mut Hash(3), 40, 20).by_default();
    for huge in [0, 1] {
        let survivor = |m: usize| Survivor {
            scoring: scoring([Score::Aps, Score::Thr][m], 1.0),
            lo: 0.5,
            hi: 1.5,
            at_lo: if m == huge { u64::MAX } else { 3 },
            between: vec![1.0, 1.5],
            weight: 1,
        };
        let list = vec![survivor(0), survivor(1)];
        let Ok(survivors) = Survivors::new(list.clone()) else { continue };
        let (rows, randomness, plan) = (case.rows(), Randomness::default(), Plan::default());
        let expected = expected_sets(&case, &list);
        let found = predict_selected_sets(&rows, &survivors, true, &randomness, &plan).unwrap();
        assert_eq!(lists(&found), expected);
        let scores = vec![vec![0.5, 1.0, 1.5]; 2];
        let mut out = vec![0.0; case.n * case.k];
        selected_p_values(&rows, &survivors, &scores, &randomness, &plan, &mut out).unwrap();
        let cells = [Cell { candidates: survivors, counts_all: true, scores }];
        let partition = Partition::new(&cells, vec![0; case.k], None).unwrap();
        let found = predict_cell_sets(&rows, &cells, &partition, true, &randomness, &plan).unwrap();
        assert_eq!(lists(&found), expected);
        cell_p_values(&rows, &cells, &partition, false, &randomness, &plan, &mut out).unwrap();
    }
}

/// What a call gives, unless it panics.
fn caught<T>(call: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(call)).ok()
}

/// A cell of candidates with these temperatures.
fn cell(temperatures: &[f64]) -> Cell {
    let survivor = |&temperature: &f64| Survivor {
        scoring: scoring(Score::Aps, temperature),
        lo: 0.25,
        hi: 0.5,
        at_lo: 1,
        between: vec![0.5],
        weight: 1,
    };
    let candidates = Survivors::new(temperatures.iter().map(survivor).collect()).unwrap();
    Cell { candidates, counts_all: false, scores: vec![vec![0.25, 0.5]; temperatures.len()] }
}

/// A partition that was made of other cells is refused.
#[test]
fn partitions_of_other_cells_are_refused() {
    let own = [cell(&[1.0, 2.0]), cell(&[1.0])];
    let others = [
        ("more cells", vec![cell(&[1.0, 2.0]), cell(&[1.0]), cell(&[1.0])]),
        ("fewer cells", vec![cell(&[1.0, 2.0])]),
        ("more candidates", vec![cell(&[1.0, 2.0, 3.0]), cell(&[1.0])]),
        ("fewer candidates", vec![cell(&[1.0]), cell(&[1.0])]),
        ("cells in another order", vec![cell(&[1.0]), cell(&[1.0, 2.0])]),
        ("candidates in another order", vec![cell(&[2.0, 1.0]), cell(&[1.0])]),
        ("other temperatures", vec![cell(&[1.0, 3.0]), cell(&[1.0])]),
    ];
    let (data, randomness, plan) = ([2.0_f32, 1.0, 0.0, 0.5], Randomness::default(), Plan::default());
    let rows = Matrix::new(&data, 4).unwrap();
    let mut taken = Vec::new();
    for (name, cells) in others {
        let partition =
            Partition::new(&cells, (0..4).map(|label| label % cells.len() as u32).collect(), None);
        let partition = partition.unwrap();
        let sets = caught(|| predict_cell_sets(&rows, &own, &partition, true, &randomness, &plan).is_err());
        let values = caught(|| {
            cell_p_values(&rows, &own, &partition, false, &randomness, &plan, &mut [0.0; 4]).is_err()
        });
        for (call, refused) in [("sets", sets), ("p-values", values)] {
            match refused {
                Some(true) => {}
                Some(false) => taken.push(format!("{name}: {call} are given")),
                None => taken.push(format!("{name}: {call} panic")),
            }
        }
    }
    assert!(taken.is_empty(), "{}", taken.join("; "));
}

/// Rows without labels.
struct NoLabels(usize);

impl<F: Float> Rows<F> for NoLabels {
    fn n_rows(&self) -> usize {
        self.0
    }

    fn n_labels(&self) -> usize {
        0
    }

    fn lend<'a>(
        &'a self,
        _first: usize,
        _count: usize,
        _scratch: &'a mut RowBuffer<F>,
        lent: &mut [&'a [F]; TILE],
    ) -> Result<(), Error> {
        *lent = [&[]; TILE];
        Ok(())
    }
}

/// Names of calls on rows without labels that panic.
fn panics_without_labels<R: Rows<f32>>(rows: &R) -> Vec<&'static str> {
    let (n, aps) = (rows.n_rows(), scoring(Score::Aps, 1.0));
    let (labels, randomness, plan) = (vec![0; n], Randomness::default(), Plan::default());
    let (random, one, two) = (&randomness, cell(&[1.0]), cell(&[1.0, 2.0]).candidates);
    let cells = [one];
    let partition = Partition::new(&cells, Vec::new(), None).unwrap();
    let parting = Parting { cell_of: &[], n_cells: 1, most_ranks: None };
    let bracket = [Bracket { lo: 0.25, hi: 0.5 }];
    let mut panicked = Vec::new();
    let mut check = |name: &'static str, call: &mut dyn FnMut()| {
        if caught(call).is_none() {
            panicked.push(name);
        }
    };
    check("uncertainty", &mut || {
        for measure in [Measure::Entropy, Measure::Margin, Measure::Gini] {
            let _ = uncertainty(rows, measure, &plan, &mut vec![0.0; n]);
        }
    });
    check("softmax", &mut || drop(softmax(rows, Reweight::NONE, 1.0, &plan, &mut [])));
    check("ranks", &mut || drop(ranks(rows, &labels, &plan, &mut vec![0; n])));
    check("label_scores", &mut || {
        drop(label_scores(rows, &labels, &[aps], Scale::Ranked, random, &plan, &mut vec![0.0; n]));
    });
    check("all_scores", &mut || drop(all_scores(rows, &aps, Scale::Ranked, random, &plan, &mut [])));
    check("p_values", &mut || drop(p_values(rows, &aps, &[0.5], true, random, &plan, &mut [])));
    check("predict_sets", &mut || {
        for allow_empty in [true, false] {
            let _ = predict_sets(rows, &aps, 0.5, allow_empty, random, &plan);
        }
    });
    check("predict_selected_sets", &mut || {
        for allow_empty in [true, false] {
            let _ = predict_selected_sets(rows, &two, allow_empty, random, &plan);
        }
    });
    check("selected_p_values", &mut || {
        drop(selected_p_values(rows, &two, &[vec![0.5], vec![0.5]], random, &plan, &mut []));
    });
    check("count_pairs", &mut || drop(count_pairs(rows, &[aps], &bracket, true, random, &plan)));
    check("count_cell_pairs", &mut || {
        drop(count_cell_pairs(rows, &[aps], &parting, &bracket, true, random, &plan));
    });
    check("predict_cell_sets", &mut || {
        for allow_empty in [true, false] {
            let _ = predict_cell_sets(rows, &cells, &partition, allow_empty, random, &plan);
        }
    });
    check("cell_p_values", &mut || {
        drop(cell_p_values(rows, &cells, &partition, false, random, &plan, &mut []));
    });
    panicked
}

/// Rows without labels are refused, or give nothing; they divide nothing by zero.
#[test]
fn rows_without_labels_do_not_panic() {
    for n_rows in [0, 1, 3, 100_000] {
        let panicked = panics_without_labels(&NoLabels(n_rows));
        assert!(panicked.is_empty(), "{n_rows} rows: {panicked:?}");
        let panicked = panics_without_labels(&LogProbabilities(NoLabels(n_rows)));
        assert!(panicked.is_empty(), "{n_rows} rows of probabilities: {panicked:?}");
    }
}

/// A row of so many labels, and a cell of six candidates that have half of them or more in their sets, most of these
/// between their ends, so that any candidate may be selected.
fn row_and_cell(k: usize) -> (Vec<f32>, Cell) {
    let mut hash = Hash(k as u64);
    let row: Vec<f32> = (0..k).map(|_| 4.0 * hash.unit() as f32).collect();
    let survivor = |m: usize| {
        let (scoring, mut scores) = (scoring(Score::Thr, 0.5 + m as f64 / 4.0), vec![0.0; k]);
        let rows = Matrix::new(&row, k).unwrap();
        all_scores(&rows, &scoring, Scale::Ranked, &Randomness::default(), &Plan::default(), &mut scores)
            .unwrap();
        scores.sort_by(f64::total_cmp);
        let (lo, hi) = (scores[k / 10], scores[k / 2 + m * k / 20]);
        Survivor { scoring, lo, hi, at_lo: 0, between: Vec::new(), weight: 1 }
    };
    let candidates = Survivors::new((0..6).map(survivor).collect()).unwrap();
    (row, Cell { candidates, counts_all: true, scores: vec![vec![0.5]; 6] })
}

/// The shortest time of some runs of each call on a row whose labels select.
fn times(k: usize, n_runs: usize) -> [(&'static str, Duration); 3] {
    let (row, cell) = row_and_cell(k);
    let cells = [cell];
    let partition = Partition::new(&cells, vec![0; k], None).unwrap();
    let Cell { candidates, scores, .. } = &cells[0];
    let (rows, random, plan) = (Matrix::new(&row, k).unwrap(), &Randomness::default(), &Plan::default());
    let mut out = vec![0.0; k];
    let shortest = |call: &mut dyn FnMut()| {
        let time = |_| {
            let start = Instant::now();
            call();
            start.elapsed()
        };
        (0..n_runs).map(time).min().unwrap()
    };
    let sets = shortest(&mut || drop(predict_selected_sets(&rows, candidates, true, random, plan).unwrap()));
    let values =
        shortest(&mut || selected_p_values(&rows, candidates, scores, random, plan, &mut out).unwrap());
    let of_cell =
        shortest(&mut || drop(predict_cell_sets(&rows, &cells, &partition, true, random, plan).unwrap()));
    [("predict_selected_sets", sets), ("selected_p_values", values), ("predict_cell_sets", of_cell)]
}

/// The time of a row whose labels select grows with its labels: 16 times as many take less than 100 times as long, not
/// the 256 times of a pass for each label.
#[test]
fn selecting_is_not_quadratic_in_the_size_of_sets() {
    let (short, long) = (times(1000, 9), times(16_000, 3));
    let ratios = short
        .iter()
        .zip(long)
        .map(|(short, (name, long))| (name, long.as_secs_f64() / short.1.as_secs_f64()));
    let slow: Vec<_> = ratios.filter(|(_, ratio)| *ratio >= 100.0).collect();
    assert!(slow.is_empty(), "16 times as many labels take so many times as long: {slow:?}");
}

/// A candidate counts the same pairs whatever others share its sums, and at whatever other brackets it is asked.
#[test]
fn candidates_that_share_sums_count_as_each_alone() {
    let raps = scoring(Score::Raps { penalty: 0.1, k_reg: 2 }, 1.0);
    let (aps, saps) = (scoring(Score::Aps, 1.0), scoring(Score::Saps { weight: 0.2 }, 1.0));
    for (seed, k) in (0..).zip([65, 100, 150, 600]) {
        let mut hash = Hash(seed);
        let case = Case::<f32>::new(&mut hash, 20, k);
        let (random, plan) = (case.randomness(), case.plan());
        for candidates in
            [vec![aps], vec![raps, aps], vec![aps, raps], vec![saps, aps], vec![raps, saps, aps]]
        {
            let (mut listed, mut expected) = (Vec::new(), Vec::new());
            for candidate in &candidates {
                let scores = case.scores(candidate);
                // Several brackets of one candidate, or one of each of several.
                let (all, i) = (brackets(&mut hash, &scores), hash.below(4));
                listed.extend(if candidates.len() == 1 { all } else { vec![all[i]] });
                expected.extend(listed[expected.len()..].iter().map(|&b| counted(&scores, k, b, false)));
            }
            let found = count_pairs(&case.rows(), &candidates, &listed, false, &random, &plan).unwrap();
            assert_eq!(found, expected, "{k} labels, {candidates:?} at {listed:?}");
        }
    }
}

/// A label selects among candidates that share their sums as it does among others.
#[test]
fn candidates_that_share_sums_are_selected_as_others_are() {
    for (seed, k) in (0..).zip([65, 100, 150, 600]) {
        let case = Case::<f32>::new(&mut Hash(seed), 40, k).by_default();
        // Raps, whose sets are short, has too many pairs to be selected; the sets are those of aps.
        let of = |score, lo, hi, at_lo| Survivor {
            scoring: scoring(score, 1.0),
            lo,
            hi,
            at_lo,
            between: Vec::new(),
            weight: 1,
        };
        let raps = of(Score::Raps { penalty: 0.1, k_reg: 2 }, -0.9, -0.5, 10 * k as u64);
        let aps = of(Score::Aps, 3.0, 3.5, 0);
        for list in [vec![aps.clone(), raps.clone()], vec![raps, aps]] {
            let survivors = Survivors::new(list).unwrap();
            let found =
                predict_selected_sets(&case.rows(), &survivors, true, &case.randomness(), &case.plan());
            assert_eq!(lists(&found.unwrap()), expected_sets(&case, &survivors), "{k} labels");
        }
    }
}
