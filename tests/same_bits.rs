//! Results have the bits that are pinned here, on every machine and at every instruction set. Needs no Python.
//!
//! Rows are made of integers, so that every machine makes the same ones: near each other, tied, with impossible labels,
//! tiny, huge, steep, of any bits, all alike. A number is a hash of all that a call returns, for rows of every length.
//! A change of any bit is a decision: the test prints the new numbers, and the CHANGELOG says why.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests, and what they tell when they fail")]
#![allow(clippy::unreadable_literal, reason = "hashes")]

use tightset::{
    Float, Level, Matrix, Measure, Plan, Randomness, Reweight, Scale, Score, Scoring, all_scores,
    conformal_rank, kth_smallest, label_scores, level, p_values, predict_sets, ranks, softmax, uncertainty,
};

/// Labels of a row. Around 24, 64, 128 and 1024 kernels change.
const LENGTHS: [usize; 12] = [1, 3, 10, 24, 40, 64, 100, 130, 1000, 1024, 1300, 9000];

/// What a call returns, in float32 and in float64.
const PINNED: [(&str, u64, u64); 9] = [
    ("label_scores", 0x7937bcaafba05685, 0xccbc1918c3a4699a),
    ("label_scores, conventional", 0x0b65909c1d832659, 0x3a53969baeb6591b),
    ("all_scores", 0x18db34b426d64755, 0x8581280be901e5e6),
    ("thresholds", 0x93e55520a5c2c01b, 0x565662ded12283d1),
    ("predict_sets", 0x297c79726fedd490, 0xab3ce6d4639a0ef4),
    ("p_values", 0x6ec940814be91638, 0xd40272bf4be4c527),
    ("ranks", 0xf97f688ed7593eef, 0x7cddef99a43f24ea),
    ("uncertainty", 0x1ff9dec78484b333, 0xa6687d770d6b5309),
    ("softmax", 0xd6a0b109451628d5, 0x34fd834bc4639bd6),
];

/// FNV-1a, eight bytes at a time.
struct Hash(u64);

impl Hash {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        self.0 = mixed ^ (mixed >> 29);
    }

    fn add_all(&mut self, numbers: &[f64]) {
        for number in numbers {
            self.add(number.to_bits());
        }
    }
}

/// Splitmix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number type's own extremes.
trait Extremes: Float {
    /// A finite number of any bits.
    fn any(word: u64) -> Self;
    /// Units of the smallest number above 0.
    fn tiny(units: u64) -> Self;
    /// An eighth of the largest number.
    const HUGE: f64;
}

impl Extremes for f32 {
    const HUGE: f64 = f32::MAX as f64 / 8.0;

    fn any(word: u64) -> Self {
        let any = Self::from_bits(word as u32);
        if any.is_finite() { any } else { 0.0 }
    }

    fn tiny(units: u64) -> Self {
        Self::from_bits(units as u32)
    }
}

impl Extremes for f64 {
    const HUGE: f64 = f64::MAX / 8.0;

    fn any(word: u64) -> Self {
        let any = Self::from_bits(word);
        if any.is_finite() { any } else { 0.0 }
    }

    fn tiny(units: u64) -> Self {
        Self::from_bits(units)
    }
}

/// A logit of a row of the given kind.
fn logit<F: Extremes>(kind: usize, label: usize, word: u64) -> F {
    // Whole numbers of 53 bits, and powers of two: exact before they become float32, and rounded once then.
    let near = (word >> 11) as f64 * 2f64.powi(-49) - 8.0;
    let few = (word >> 60) as f64;
    let from = |x: f64| F::from_f64(x);
    match kind {
        0 | 8 => from(near),
        1 => from(0.25 * few - 2.0),
        2 if label > 0 && few < 5.0 => F::NEG_INFINITY,
        3 => F::tiny(word >> 44),
        4 => from(near * 0.9 * F::HUGE),
        5 => from(16.0 * few),
        6 => F::any(word),
        7 => from(if few < 8.0 { 0.0 } else { -0.0 }),
        9 => from(near - (label as f64).min(60.0)),
        _ => from(near * 0.125),
    }
}

/// Kinds of [`logit`].
const KINDS: usize = 11;

fn rows<F: Extremes>(n: usize, k: usize) -> (Vec<F>, Vec<i64>) {
    let mut state = k as u64;
    let mut data = Vec::with_capacity(n * k);
    for i in 0..n {
        for label in 0..k {
            data.push(logit(i % KINDS, label, next(&mut state)));
        }
    }
    let labels = (0..n).map(|_| (next(&mut state) % k as u64) as i64).collect();
    (data, labels)
}

fn scorings() -> Vec<Scoring> {
    let scores = [
        Score::Thr,
        Score::Aps,
        Score::Raps { penalty: 0.125, k_reg: 2 },
        Score::Saps { weight: 0.25 },
        Score::Rank,
        Score::Mixed { weight: 0.5 },
    ];
    let mut found = Vec::new();
    for (gamma, power) in [(0.0, 0.0), (0.0, 1.0), (1.0, 0.5)] {
        let reweight = Reweight::new(gamma, power).unwrap();
        for temperature in [0.0, 0.5, 3.0, f64::INFINITY] {
            // Few scores have limits in temperature.
            found.extend(scores.iter().filter_map(|score| Scoring::new(*score, reweight, temperature).ok()));
        }
    }
    assert_eq!(found.len(), 3 * (2 * 6 + 2 * 2));
    found
}

/// Adds what each call returns for rows of k labels, in the order of [`PINNED`].
fn add_results<F: Extremes>(k: usize, to: &mut [Hash; PINNED.len()]) {
    // More than one tile of 32 rows, and not a whole number of them. Of long rows, fewer rows and scorings.
    let (n, step) = if k < 200 {
        (7 * KINDS, 1)
    } else if k < 2000 {
        (3 * KINDS, 5)
    } else {
        (KINDS, 5)
    };
    let (data, labels) = rows::<F>(n, k);
    let matrix = Matrix::new(&data, k).unwrap();
    let (plan, randomness, all) = (Plan::default(), Randomness::default(), scorings());
    let mut scores = vec![0.0; n * all.len()];
    label_scores(&matrix, &labels, &all, Scale::Conventional, &randomness, &plan, &mut scores).unwrap();
    to[1].add_all(&scores);
    label_scores(&matrix, &labels, &all, Scale::Ranked, &randomness, &plan, &mut scores).unwrap();
    to[0].add_all(&scores);
    let rank = conformal_rank(n, 0.2).unwrap();
    let mut of_all = vec![0.0; n * k];
    for (c, scoring) in all.iter().enumerate().step_by(step) {
        let own = &scores[c * n..][..n];
        let threshold = kth_smallest(own, rank, &plan).unwrap();
        to[3].add(threshold.to_bits());
        for (threshold, allow_empty) in [(threshold, false), (own[0], true)] {
            let sets = predict_sets(&matrix, scoring, threshold, allow_empty, &randomness, &plan).unwrap();
            for word in sets.offsets.iter().copied().chain(sets.labels.iter().map(|&label| label.into())) {
                to[4].add(word as u64);
            }
        }
        all_scores(&matrix, scoring, Scale::Ranked, &randomness, &plan, &mut of_all).unwrap();
        to[2].add_all(&of_all);
        if c % 20 == 5 {
            let mut sorted = own.to_vec();
            sorted.sort_by(f64::total_cmp);
            for is_smoothed in [false, true] {
                p_values(&matrix, scoring, &sorted, is_smoothed, &randomness, &plan, &mut of_all).unwrap();
                to[5].add_all(&of_all);
            }
        }
    }
    let mut found = vec![0; n];
    ranks(&matrix, &labels, &plan, &mut found).unwrap();
    for rank in found {
        to[6].add(rank as u64);
    }
    for measure in [Measure::Entropy, Measure::Margin, Measure::Gini] {
        let mut found = vec![0.0; n];
        uncertainty(&matrix, measure, &plan, &mut found).unwrap();
        to[7].add_all(&found);
    }
    for power in [0.0, 1.0] {
        let mut found = vec![F::ZERO; n * k];
        let reweight = Reweight::new(0.5, power).unwrap();
        softmax(&matrix, reweight, 0.5, &plan, &mut found).unwrap();
        for p in found {
            to[8].add(p.to_f64().to_bits());
        }
    }
}

/// The hashes of all calls. The numbers of each length are printed, to be compared where the last ones differ.
fn hashes<F: Extremes>() -> [u64; PINNED.len()] {
    let mut all = [const { Hash(0) }; PINNED.len()];
    for k in LENGTHS {
        let mut own = std::array::from_fn(|_| Hash::new());
        add_results::<F>(k, &mut own);
        println!("{k} labels, {} bytes: {:x?}", size_of::<F>(), own.each_ref().map(|hash| hash.0));
        for (hash, own) in all.iter_mut().zip(own) {
            hash.add(own.0);
        }
    }
    all.map(|hash| hash.0)
}

#[test]
fn results_have_the_bits_that_are_pinned() {
    println!("{}", level().name());
    let (single, double) = (hashes::<f32>(), hashes::<f64>());
    let found = std::array::from_fn(|i| (PINNED[i].0, single[i], double[i]));
    for (name, single, double) in found {
        println!("    (\"{name}\", 0x{single:016x}, 0x{double:016x}),");
    }
    assert!(found == PINNED, "other bits at {}; the numbers are above", level().name());
}

/// A process has one instruction set: the others of this machine have one of their own.
#[test]
fn other_instruction_sets_have_them_too() {
    for other in Level::ALL {
        if other == level() || !other.is_available() || std::env::var_os("TIGHTSET_SIMD").is_some() {
            continue;
        }
        let mut test = std::process::Command::new(std::env::current_exe().unwrap());
        // By a part of its name, which a module may precede; and it must be found.
        test.args(["results_have_the_bits_that_are_pinned", "--nocapture"]);
        let output = test.env("TIGHTSET_SIMD", other.name()).output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && told.contains("1 passed"), "{told}");
    }
}
