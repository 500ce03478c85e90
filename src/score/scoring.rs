//! What is a candidate made of? A score with its parameters, a reweighting, a temperature.

use crate::error::Error;
use crate::math::{each_lane, power};
use crate::simd::with_subnormals;

/// A nonconformity score; low means conforming. Formulas are in `score/formula.rs`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Score {
    /// `1 - f_y` (Sadinle et al. 2019), also called LAC.
    Thr,
    /// Mass ranked before the label plus U times its own (Romano et al. 2020).
    Aps,
    /// APS plus `penalty max(0, r - k_reg)` (Angelopoulos et al. 2021).
    Raps {
        /// Penalty a rank, `>= 0`.
        penalty: f64,
        /// Ranks free of penalty.
        k_reg: u32,
    },
    /// Top probability, then a constant a rank (Huang et al. 2024).
    Saps {
        /// Cost of a rank, `>= 0`.
        weight: f64,
    },
    /// Rank first, probability breaks the ties (Luo & Zhou 2024).
    Rank,
    /// `-log f_y + weight log r`: between THR (weight 0) and RANK.
    Mixed {
        /// Cost of a factor e in rank, `>= 0`.
        weight: f64,
    },
}

impl Score {
    fn has_limits_in_temperature(self) -> bool {
        matches!(self, Self::Thr | Self::Aps)
    }
}

/// Reweighting of the logits by `w = (gamma + H)^power`, H the entropy of the row.
///
/// `gamma = 0, power = 1` is the paper's `z / (H T)`, `gamma = 1` is what its authors released,
/// and [`Reweight::NONE`] is plain temperature scaling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reweight {
    gamma: f64,
    power: f64,
}

impl Reweight {
    /// No reweighting: `w = 1`.
    pub const NONE: Self = Self { gamma: 0.0, power: 0.0 };

    /// Reweighting with the given offset and exponent.
    ///
    /// # Errors
    /// When `gamma` is negative or not finite, `power` is not finite, or `power < 0` without
    /// `gamma > 0`.
    pub fn new(gamma: f64, power: f64) -> Result<Self, Error> {
        with_subnormals(|| {
            if !(gamma >= 0.0 && gamma.is_finite()) {
                return Err(Error::argument("gamma", "finite and at least 0", gamma));
            }
            if !power.is_finite() {
                return Err(Error::argument("power", "finite", power));
            }
            if power < 0.0 && gamma == 0.0 {
                return Err(Error::argument("gamma", "above 0 when power is negative", gamma));
            }
            let reweight = Self { gamma, power };
            // The entropy of 2^31 labels is below 22; at 0 the weight may be 0 but never infinite.
            if !(reweight.weight(22.0) > 0.0 && reweight.weight(22.0).max(reweight.weight(0.0)).is_finite()) {
                return Err(Error::argument("power", "one that keeps (gamma + H)^power finite", power));
            }
            Ok(reweight)
        })
    }

    /// Gamma and the power, as they were given.
    pub(crate) fn parameters(self) -> (f64, f64) {
        (self.gamma, self.power)
    }

    /// Whether the weight depends on the entropy.
    pub(crate) fn needs_entropy(self) -> bool {
        self.power != 0.0
    }

    /// The parameters' bits, equal for equal reweightings.
    pub(crate) fn bits(self) -> (u64, u64) {
        ((self.gamma + 0.0).to_bits(), (self.power + 0.0).to_bits())
    }

    /// `w` for a row of the given entropy.
    #[inline(always)]
    pub(crate) fn weight(self, entropy: f64) -> f64 {
        power(self.gamma + entropy, self.power)
    }

    /// [`Self::weight`] of several rows. The power is chosen outside the loop: inside it every lane would pay
    /// for the general one.
    #[inline(always)]
    pub(crate) fn weights<const N: usize>(self, entropy: &[f64; N]) -> [f64; N] {
        if self.power == 1.0 {
            each_lane!([0.0; N], |i| self.gamma + entropy[i])
        } else if self.power == 0.0 {
            [1.0; N]
        } else {
            each_lane!([0.0; N], |i| self.weight(entropy[i]))
        }
    }
}

/// One candidate: a score of the reweighted, tempered logits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scoring {
    pub(crate) score: Score,
    pub(crate) reweight: Reweight,
    pub(crate) temperature: f64,
}

impl Scoring {
    /// Checks the parameters together.
    ///
    /// # Errors
    /// When a parameter is outside its domain, or the temperature is 0 or infinite for a score
    /// without limits there (raps, saps, rank, mixed).
    pub fn new(score: Score, reweight: Reweight, temperature: f64) -> Result<Self, Error> {
        with_subnormals(|| {
            match score {
                Score::Raps { penalty, .. } if !(penalty >= 0.0 && penalty.is_finite()) => {
                    return Err(Error::argument("penalty", "finite and at least 0", penalty));
                }
                Score::Saps { weight } | Score::Mixed { weight }
                    if !(weight >= 0.0 && weight.is_finite()) =>
                {
                    return Err(Error::argument("weight", "finite and at least 0", weight));
                }
                _ => {}
            }
            if temperature.is_nan() || temperature < 0.0 {
                return Err(Error::argument("temperature", "at least 0", temperature));
            }
            let scoring = Self { score, reweight, temperature: temperature + 0.0 };
            if scoring.is_limit() && !score.has_limits_in_temperature() {
                let expected = "positive and finite for raps, saps, rank and mixed";
                return Err(Error::argument("temperature", expected, temperature));
            }
            Ok(scoring)
        })
    }

    /// Whether the temperature is one of the closed limits, 0 or infinity.
    #[inline(always)]
    pub(crate) fn is_limit(&self) -> bool {
        self.temperature == 0.0 || self.temperature == f64::INFINITY
    }
}

/// The scale scores are given in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// As in the papers. Labels of saturated rows tie.
    Conventional,
    /// A strictly increasing transform with full relative precision at both ends: what is ranked,
    /// stored and compared.
    Ranked,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains() {
        assert!(Reweight::new(0.0, 1.0).is_ok());
        assert!(Reweight::new(0.1, -0.1).is_ok());
        for (gamma, power) in [(-1.0, 1.0), (f64::NAN, 1.0), (0.0, f64::INFINITY), (0.0, -0.1)] {
            assert!(Reweight::new(gamma, power).is_err());
        }
        let raps = Score::Raps { penalty: 0.1, k_reg: 2 };
        assert!(Scoring::new(raps, Reweight::NONE, 1.0).is_ok());
        for temperature in [-1.0, f64::NAN, 0.0, f64::INFINITY] {
            assert!(Scoring::new(raps, Reweight::NONE, temperature).is_err());
        }
        assert!(Scoring::new(Score::Aps, Reweight::NONE, 0.0).is_ok());
        assert!(Scoring::new(Score::Raps { penalty: -0.1, k_reg: 2 }, Reweight::NONE, 1.0).is_err());
        assert!(Scoring::new(Score::Saps { weight: f64::NAN }, Reweight::NONE, 1.0).is_err());
    }
}
