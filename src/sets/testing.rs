//! What tests of both cuts share.

use super::{Bounds, RowCutter, Standing};
use crate::kernels::Float;
use crate::score::RowView;
use crate::simd::Simd;
use crate::testing::{OTHERS, THRESHOLDS};

/// Pairs `lo <= hi` of thresholds: `hi` is a score, just beside it or one of those far away.
pub(super) fn thresholds(score: f64, far: &[f64]) -> Vec<(f64, f64)> {
    let near = [score, score.next_up(), score.next_down(), score + 1e-6, score - 1e-6, score * 1.001];
    let all = near.iter().chain(far).copied().step_by(THRESHOLDS);
    let below = |hi: f64| [hi, score.min(hi), hi - 1e-3, f64::NEG_INFINITY].into_iter().step_by(OTHERS);
    all.flat_map(|hi| below(hi).map(move |lo| (lo, hi))).collect()
}

/// The labels of a row's set by rank, and of those between the thresholds the scores too.
pub(super) fn cut<S: Simd, F: Float>(
    s: S,
    cutter: &mut RowCutter<F>,
    view: &RowView<'_, F>,
    bounds: &Bounds,
    is_only: bool,
) -> (Vec<u32>, Vec<(u32, f64)>) {
    let certain =
        if is_only { cutter.begin_only(s, view, bounds) } else { cutter.begin_shared(s, view, bounds) };
    let (mut found, mut between) = (cutter.first_labels(certain).to_vec(), Vec::new());
    cutter.walk(s, view, bounds, certain, |rank, label, standing| {
        assert!(rank >= found.len() && rank < view.row.len());
        found.push(label);
        if let Standing::Between(score) = standing {
            between.push((label, score));
        }
    });
    (found, between)
}
