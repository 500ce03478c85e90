//! What tests of several rooms share.

use proptest::prelude::*;

/// Steps through lists of thresholds, and of what else is tried one by one. Tests try each; under Miri, where
/// one cut takes a quarter of a second, every ninth or third.
pub(crate) const THRESHOLDS: usize = if cfg!(miri) { 9 } else { 1 };
pub(crate) const OTHERS: usize = if cfg!(miri) { 3 } else { 1 };

/// Ordinary logits, ties, and logits that are hard to compute with.
pub(crate) fn logit() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => -12.0_f64..12.0,
        2 => (-4_i32..4).prop_map(f64::from),
        1 => -700.0_f64..0.0,
        1 => Just(f64::NEG_INFINITY),
        1 => Just(-0.0),
        1 => prop_oneof![Just(-1e38), Just(1e38), Just(1e-40)],
    ]
}
