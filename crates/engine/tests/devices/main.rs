//! Chains with functions on devices: I1, I2, I3 wherever functions run, and I7 whatever fails.

#[path = "../common/mod.rs"]
mod common;

mod beside;
mod demand;
mod failures;
mod keys;
mod late;
mod placed;
mod same;
mod scripted;
mod told;
