//! What tests of scores and of sets share.

use super::Score;

/// Every score, with parameters that matter and that do not.
pub(crate) const SCORES: [Score; 9] = [
    Score::Thr,
    Score::Aps,
    Score::Raps { penalty: 0.1, k_reg: 2 },
    Score::Raps { penalty: 0.0, k_reg: 0 },
    Score::Saps { weight: 0.2 },
    Score::Saps { weight: 900.0 },
    Score::Rank,
    Score::Mixed { weight: 0.3 },
    Score::Mixed { weight: 100.0 },
];

/// The logits in float32.
pub(crate) fn narrow(row: &[f64]) -> Vec<f32> {
    row.iter().map(|&z| z as f32).collect()
}
