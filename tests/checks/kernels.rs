//! Sets against the naive definition: every label scored by itself, those at most the threshold kept.

use arbitrary::Arbitrary;
use tightset::{Float, Matrix, Plan, Randomness, Reweight, Scale, Score, Scoring, Uniforms};

/// A parameter: mostly one that recipes have, now and then anything.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Parameter {
    Usual(u8),
    Any(f64),
}

impl Parameter {
    fn among(self, usual: &[f64]) -> f64 {
        match self {
            Self::Usual(i) => usual[usize::from(i) % usual.len()],
            Self::Any(value) => value,
        }
    }
}

/// Rows and a scoring.
#[derive(Arbitrary, Debug)]
pub(crate) struct Input {
    n_labels: u8,
    score: u8,
    parameter: Parameter,
    k_reg: u8,
    gamma: Parameter,
    power: Parameter,
    temperature: Parameter,
    u: Option<Parameter>,
    pick: u16,
    is_wide: bool,
    has_any_bits: bool,
    scale: u8,
    rows: Vec<u32>,
}

fn score(input: &Input) -> Score {
    let weight = input.parameter.among(&[0.0, 0.01, 0.1, 0.5, 1.0, 1e6]);
    match input.score % 6 {
        0 => Score::Thr,
        1 => Score::Aps,
        2 => Score::Raps { penalty: weight, k_reg: input.k_reg.into() },
        3 => Score::Saps { weight },
        4 => Score::Rank,
        _ => Score::Mixed { weight },
    }
}

fn check<F: Float>(input: &Input, data: &[F], n_labels: usize) {
    let gamma = input.gamma.among(&[0.0, 0.01, 0.1, 1.0, 1e-300, 1e9]);
    let power = input.power.among(&[0.0, 1.0, 0.5, -0.1, 2.0, -3.0]);
    let limits_and_powers: Vec<f64> =
        [0.0, f64::INFINITY].into_iter().chain((-20..40).map(|j| 2f64.powi(j))).collect();
    let temperature = input.temperature.among(&limits_and_powers);
    let Ok(reweight) = Reweight::new(gamma, power) else { return };
    let Ok(scoring) = Scoring::new(score(input), reweight, temperature) else { return };
    let n = data.len() / n_labels;
    let data = &data[..n * n_labels];
    let rows = Matrix::new(data, n_labels).expect("a whole number of rows");
    let uniforms = input.u.map_or(Uniforms::FromRow, |u| Uniforms::Fixed(u.among(&[0.0, 0.25, 0.5, 1.0])));
    let randomness = Randomness { uniforms, ..Randomness::default() };
    let plan = Plan { n_threads: Some(1), ..Plan::default() };
    // One label at a time is the definition; a bad row or U is refused by all calls alike.
    let mut scores = vec![0.0; n * n_labels];
    for label in 0..n_labels {
        let mut of_label = vec![0.0; n];
        let labels = vec![label as i64; n];
        let scored = tightset::label_scores(
            &rows,
            &labels,
            &[scoring],
            Scale::Ranked,
            &randomness,
            &plan,
            &mut of_label,
        );
        if let Err(error) = scored {
            let sets = tightset::predict_sets(&rows, &scoring, 0.0, true, &randomness, &plan);
            // As text: NaN, which errors carry, is not equal to itself.
            assert_eq!(sets.unwrap_err().to_string(), error.to_string());
            return;
        }
        for (i, score) in of_label.into_iter().enumerate() {
            assert!(!score.is_nan());
            scores[i * n_labels + label] = score;
        }
    }
    let mut all = vec![0.0; n * n_labels];
    tightset::all_scores(&rows, &scoring, Scale::Ranked, &randomness, &plan, &mut all).expect("as above");
    assert_eq!(all, scores);
    let Some(&threshold) = scores.get(usize::from(input.pick) % scores.len().max(1)) else { return };
    for threshold in [threshold, threshold.next_up(), threshold.next_down(), f64::INFINITY] {
        if threshold.is_nan() {
            continue;
        }
        let sets =
            tightset::predict_sets(&rows, &scoring, threshold, true, &randomness, &plan).expect("as above");
        for i in 0..n {
            let mut found = sets.row(i).to_vec();
            found.sort_unstable();
            let row = &scores[i * n_labels..][..n_labels];
            let expected: Vec<i32> = (0..n_labels as i32).filter(|&y| row[y as usize] <= threshold).collect();
            assert_eq!(found, expected, "row {i}, threshold {threshold:?}");
        }
    }
}

/// Checks one input.
pub(crate) fn check_input(input: &Input) {
    let n_labels = usize::from(input.n_labels).max(1);
    // Near each other, so that labels tie and margins matter, or any floats at all.
    let scale = 2f64.powi(i32::from(input.scale % 40) - 30);
    let near = |word: u32| f64::from(word as i32 >> 12) * scale;
    let (words, is_any) = (&input.rows, input.has_any_bits);
    if input.is_wide {
        let bits = |w: &[u32]| f64::from_bits(u64::from(w[0]) << 32 | u64::from(w[1]));
        let row = words.chunks_exact(2).map(|w| if is_any { bits(w) } else { near(w[0]) });
        check(input, &row.collect::<Vec<_>>(), n_labels);
    } else {
        let row = words.iter().map(|&w| if is_any { f32::from_bits(w) } else { near(w) as f32 });
        check(input, &row.collect::<Vec<_>>(), n_labels);
    }
}
