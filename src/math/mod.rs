//! What are exp, log, a float, an exact sum, an entropy and U here?
//!
//! The mathematics that everything above is made of: functions of numbers, without rows, threads or
//! instruction sets.

mod elementary;
mod entropy;
mod exact;
mod exp2;
mod scalar;
mod scalar_f32;
mod scalar_f64;
mod uniform;

pub(crate) use elementary::{exp, exp_m1, ln, ln_1p, one_minus_exp_neg, power, softplus};
pub(crate) use entropy::{EntropySums, entropies};
pub(crate) use exact::{Depths, WIDTH, each_lane, quanta, term};
pub(crate) use exp2::{
    OFFSET_F32, PARABOLA_F32, REST_F64, ROUND_F32, ROUND_F64, TABLE_F32, TABLE_F64, TO_EXPONENT_F32,
    TO_EXPONENT_F64,
};
pub(crate) use scalar::{ANCHOR, COARSE_BITS, LOW_ANCHOR, LOW_BITS, WIDE_COARSE_BITS};
pub(crate) use scalar::{COARSE, Grain, Scalar};
pub use uniform::{GENERATOR, Randomness, Uniforms, permutation};
