//! A terminal view of running chains, hop by hop: `ctl top` and `run --live`.
//!
//! It shows the difference of two statistics, so a view over the socket and one in the process are
//! the same.

mod lines;
mod screen;

pub(crate) use screen::{Leave, restore, view};
