//! The running system: lanes, stages, steering, merge and statistics.

#![deny(unsafe_code)]

pub mod sys;
