//! Small calls allocate their result and nothing else, counted by the allocator itself.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "checks/counting.rs"]
mod counting;

use counting::{Counting, allocations};
use tightset::{
    Cell, Float, LogProbabilities, Matrix, Measure, Partition, Plan, Randomness, Reweight, Rows, Scale,
    Score, Scoring, Survivor, Survivors, all_scores, cell_p_values, label_scores, p_values,
    predict_cell_sets, predict_selected_sets, predict_sets, ranks, selected_p_values, softmax, uncertainty,
};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Small calls allocate their result and nothing else, once a thread has made one like it: of one row and of several,
/// of few labels and of many, of one candidate and of several, whatever is asked for.
#[test]
fn small_calls_allocate_their_result() {
    let mut counted = 0;
    for n_labels in [2, 10, 100, 1000, 20_000] {
        for n_rows in [1, 3, 12, 40, 200, 1500].into_iter().filter(|n| n * n_labels < 1 << 15) {
            counted += calls_of::<f32>(n_rows, n_labels) + calls_of::<f64>(n_rows, n_labels);
        }
    }
    assert!(counted > 1000, "{counted}");
}

/// Counts what calls on such rows allocate; the number of calls.
fn calls_of<F: Float>(n_rows: usize, n_labels: usize) -> usize {
    // One label stands out: sets are short.
    let logit = |i: usize| if i % n_labels == 1 { 60.0 } else { (i * 7 % 11) as f64 };
    let logits: Vec<F> = (0..n_rows * n_labels).map(|i| F::from_f64(logit(i))).collect();
    let share = |i: usize| if i % n_labels == 1 { 0.5 } else { 0.5 / (n_labels - 1) as f64 };
    let shares: Vec<F> = (0..n_rows * n_labels).map(|i| F::from_f64(share(i))).collect();
    let logits = Matrix::new(&logits, n_labels).unwrap();
    let of_logits = calls_on::<F, _>(&logits, n_labels);
    of_logits + calls_on::<F, _>(&LogProbabilities(Matrix::new(&shares, n_labels).unwrap()), n_labels)
}

fn calls_on<F: Float, R: Rows<F>>(rows: &R, n_labels: usize) -> usize {
    let n_rows = rows.n_rows();
    let (randomness, plan) = (Randomness::default(), Plan { n_threads: Some(2), ..Plan::default() });
    let labels = vec![1_i64; n_rows];
    let (mut ranked, mut values) = (vec![0; n_rows], vec![0.0; n_rows * n_labels]);
    let mut probabilities = vec![F::ZERO; n_rows * n_labels];
    let mut calls = 0;
    // Those that stay on the thread of the caller, which passes over the rows so many times; the first makes room.
    let mut check = |name: &str, passes: usize, expected: usize, call: &mut dyn FnMut()| {
        if n_rows > 1 && n_rows * n_labels * passes >= 1 << 15 {
            return;
        }
        call();
        assert_eq!(allocations(&mut *call), expected, "{name}, {n_rows} rows of {n_labels} labels");
        calls += 1;
    };
    for measure in [Measure::Entropy, Measure::Margin, Measure::Gini] {
        check("uncertainty", 1, 0, &mut || uncertainty(rows, measure, &plan, &mut values[..n_rows]).unwrap());
    }
    check("ranks", 1, 0, &mut || ranks(rows, &labels, &plan, &mut ranked).unwrap());
    check("softmax", 4, 0, &mut || {
        softmax(rows, Reweight::new(1.0, 1.0).unwrap(), 2.0, &plan, &mut probabilities).unwrap();
    });
    let scorings = |n: usize, power: f64| -> Vec<Scoring> {
        let scores =
            [Score::Aps, Score::Thr, Score::Raps { penalty: 0.1, k_reg: 1 }, Score::Saps { weight: 0.2 }];
        let reweight = Reweight::new(1.0, power).unwrap();
        // Not in the order in which they share sums.
        let temperature = |i: usize| [1.0, 0.5, 2.0][i / 4 % 3] * (1.0 + (i / 12) as f64);
        (0..n).map(|i| Scoring::new(scores[i % 4], reweight, temperature(i)).unwrap()).collect()
    };
    for (n, power) in [(1, 0.0), (1, 1.0), (3, 1.0), (64, 1.0)] {
        let scorings = scorings(n, power);
        let mut out = vec![0.0; n * n_rows];
        check("label_scores", n, 0, &mut || {
            label_scores(rows, &labels, &scorings, Scale::Ranked, &randomness, &plan, &mut out).unwrap();
        });
    }
    for scoring in scorings(4, 1.0) {
        let sorted = [0.5, 1.0, 2.0];
        check("all_scores", 8, 0, &mut || {
            all_scores(rows, &scoring, Scale::Ranked, &randomness, &plan, &mut values).unwrap();
        });
        check("p_values", 8, 0, &mut || {
            p_values(rows, &scoring, &sorted, true, &randomness, &plan, &mut values).unwrap();
        });
        // Offsets and labels.
        for threshold in [0.5, 2.0, f64::INFINITY] {
            check("predict_sets", 2, 2, &mut || {
                drop(predict_sets(rows, &scoring, threshold, false, &randomness, &plan).unwrap());
            });
        }
    }
    let survivor =
        |scoring: Scoring| Survivor { scoring, lo: 0.25, hi: 0.5, at_lo: 3, between: vec![0.5], weight: 1 };
    let several = || Survivors::new(scorings(4, 1.0).into_iter().map(survivor).collect()).unwrap();
    let (survivors, sorted) = (several(), vec![vec![0.5, 1.0]; 4]);
    check("predict_selected_sets", 8, 2, &mut || {
        drop(predict_selected_sets(rows, &survivors, false, &randomness, &plan).unwrap());
    });
    check("selected_p_values", 32, 0, &mut || {
        selected_p_values(rows, &survivors, &sorted, &randomness, &plan, &mut values).unwrap();
    });
    let cells = [several(), several()].map(|candidates| Cell {
        candidates,
        counts_all: false,
        scores: sorted.clone(),
    });
    let partition =
        Partition::new(&cells, (0..n_labels).map(|label| label as u32 % 2).collect(), None).unwrap();
    check("predict_cell_sets", 32, 2, &mut || {
        drop(predict_cell_sets(rows, &cells, &partition, false, &randomness, &plan).unwrap());
    });
    check("cell_p_values", 32, 0, &mut || {
        cell_p_values(rows, &cells, &partition, false, &randomness, &plan, &mut values).unwrap();
    });
    calls
}
