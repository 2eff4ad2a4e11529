//! The ways of single packets through a chain: recorded as it runs, then shown.

mod recorder;
mod snapshot;
mod texts;

pub(crate) use recorder::{Chosen, Recorder, Traced};
pub(crate) use texts::{chain_to_json, chain_to_text};

/// The version of the JSON form.
pub(crate) const SCHEMA: u32 = 1;
