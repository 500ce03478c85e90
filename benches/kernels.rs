//! Kernels of the core by themselves, on one thread: `make bench-kernels`.
//!
//! The instruction set is chosen once in a process, so each has a run of its own; names carry it.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tightset::{
    Error, Matrix, Measure, Options, Plan, Predictor, Randomness, Reweight, Scale, Score, Scoring, Scratch,
    label_scores, level, predict_sets, probe, uncertainty,
};

/// Elements of a matrix: large enough for many rows, small enough for the second-level cache.
const ELEMENTS: usize = 64_000;
const LABELS: [usize; 3] = [10, 100, 1000];
const ONE_THREAD: Plan<'static> = Plan { n_threads: Some(1), interrupt: &|| Ok(()) };

/// A few strong labels and a long tail.
fn logits(n_labels: usize) -> Vec<f32> {
    let mut state = 1_u64;
    let mut uniform = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32
    };
    let mut data: Vec<f32> = (0..ELEMENTS).map(|_| (0..4).map(|_| uniform()).sum::<f32>() * 1.7).collect();
    for row in data.chunks_exact_mut(n_labels) {
        for gain in [9.0, 6.0, 5.0] {
            let label = (uniform() * n_labels as f32) as usize;
            row[label.min(n_labels - 1)] += gain * uniform();
        }
    }
    data
}

fn id(name: &str, size: usize) -> BenchmarkId {
    BenchmarkId::new(format!("{name}/{}", level().name()), size)
}

fn rows(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("rows");
    group.throughput(Throughput::Elements(ELEMENTS as u64));
    for k in LABELS {
        let data = logits(k);
        let n = data.len() / k;
        let matrix = matrix(&data, k);
        let labels: Vec<i64> = (0..n).map(|i| (i % k) as i64).collect();
        let mut out = vec![0.0; n];
        group.bench_function(id("only reading", k), |b| {
            let mut maxima = vec![0.0_f32; n];
            b.iter(|| probe::row_maxima(black_box(&matrix), &ONE_THREAD, &mut maxima));
        });
        group.bench_function(id("entropy", k), |b| {
            b.iter(|| uncertainty(black_box(&matrix), Measure::Entropy, &ONE_THREAD, &mut out));
        });
        for (name, score) in [("aps", Score::Aps), ("thr", Score::Thr)] {
            let candidate = [scoring(score, 1.0)];
            group.bench_function(id(&format!("label scores, {name}"), k), |b| {
                b.iter(|| {
                    let randomness = Randomness::default();
                    let scale = Scale::Ranked;
                    label_scores(
                        black_box(&matrix),
                        &labels,
                        &candidate,
                        scale,
                        &randomness,
                        &ONE_THREAD,
                        &mut out,
                    )
                });
            });
        }
        // Thresholds on the ranked scale: -log(1 - A), so sets of mass 0.9 and 0.999.
        for (name, threshold) in [("short", 2.3), ("long", 6.9)] {
            let plain = scoring(Score::Aps, 0.0);
            group.bench_function(id(&format!("set walk, {name}"), k), |b| {
                b.iter(|| {
                    let randomness = Randomness::default();
                    predict_sets(black_box(&matrix), &plain, threshold, true, &randomness, &ONE_THREAD)
                });
            });
        }
    }
    group.finish();
}

/// Saved predictors, a row at a time and in a batch on one thread, for entropy-reweighted and plain APS: what
/// a service pays for having rows one by one.
fn saved(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("saved");
    for k in LABELS {
        let data = logits(k);
        let matrix = matrix(&data, k);
        group.throughput(Throughput::Elements((ELEMENTS / k) as u64));
        for (name, text) in [("aps", APS), ("er-aps", ER_APS)] {
            let predictor = with_labels(text, k);
            group.bench_function(id(&format!("{name}, batch"), k), |b| {
                b.iter(|| predictor.predict_sets(black_box(&matrix), &Options::default(), &ONE_THREAD));
            });
            let mut scratch = Scratch::new();
            group.bench_function(id(&format!("{name}, row by row"), k), |b| {
                b.iter(|| {
                    let rows = black_box(&data).chunks_exact(k);
                    rows.map(|row| valid(predictor.predict_row(row, &mut scratch)).len()).sum::<usize>()
                });
            });
        }
    }
    group.finish();
}

const APS: &str = include_str!("../tests/fixtures/v1/aps.json");
const ER_APS: &str = include_str!("../tests/fixtures/v1/er-aps.json");

/// A saved predictor that takes rows of another length: what it predicts has no meaning, and takes its time.
fn with_labels(text: &str, n_labels: usize) -> Predictor {
    let text = text.replace("\"n_labels\": 4", &format!("\"n_labels\": {n_labels}"));
    valid(Predictor::from_json(&probe::sealed(&text).unwrap_or_default()))
}

/// Few rows in a call, where labels are few: from some number on, sets are cut in lanes (`worth_lanes`).
fn few(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("few");
    for k in [2, 10, 100] {
        let data = logits(k);
        let plain = scoring(Score::Aps, 0.0);
        for (name, threshold) in [("short", 2.3), ("long", 6.9)] {
            for n in [1, 8, 16, 32, 64] {
                let rows = matrix(&data[..n * k], k);
                group.bench_function(id(&format!("{k} labels, {name}"), n), |b| {
                    b.iter(|| {
                        let randomness = Randomness::default();
                        predict_sets(black_box(&rows), &plain, threshold, true, &randomness, &ONE_THREAD)
                    });
                });
            }
        }
    }
    group.finish();
}

fn sums(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sums");
    for k in LABELS {
        let data = logits(k);
        let row = &data[..k];
        let shift = row.iter().copied().fold(f32::MIN, f32::max);
        group.throughput(Throughput::Elements(k as u64));
        group.bench_function(id("exact", k), |b| b.iter(|| probe::exact_sum(black_box(row), shift, 1.5)));
        group.bench_function(id("float64 as it comes", k), |b| {
            b.iter(|| probe::plain_sum(black_box(row), shift, 1.5));
        });
    }
    group.finish();
}

/// What the constants above make cannot be refused.
fn valid<T>(result: Result<T, Error>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

fn matrix(data: &[f32], n_labels: usize) -> Matrix<'_, f32> {
    valid(Matrix::new(data, n_labels))
}

fn scoring(score: Score, power: f64) -> Scoring {
    valid(Reweight::new(0.0, power).and_then(|reweight| Scoring::new(score, reweight, 1.0)))
}

fn quick() -> Criterion {
    let second = std::time::Duration::from_secs(1);
    Criterion::default().warm_up_time(second / 5).measurement_time(second).sample_size(30)
}

criterion_group! { name = kernels; config = quick(); targets = rows, saved, few, sums }
criterion_main!(kernels);
