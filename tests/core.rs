//! The tests of the core from outside, in one program.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "checks/damage.rs"]
mod damage;
#[path = "checks/definition.rs"]
mod definition;
#[path = "checks/document.rs"]
mod document;
#[path = "checks/kernels.rs"]
mod kernels;

#[path = "corpus.rs"]
mod corpus;
#[path = "explore.rs"]
mod explore;
#[path = "hostile.rs"]
mod hostile;
#[path = "pairs.rs"]
mod pairs;
#[path = "predictor.rs"]
mod predictor;
#[path = "rooms.rs"]
mod rooms;
#[path = "same_bits.rs"]
mod same_bits;
