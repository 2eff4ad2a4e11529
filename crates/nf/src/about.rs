//! A function's description of its own configuration, before a packet flows.

use serde_json::{Map, Value};

/// The same description in two forms, for people and for programs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct About {
    /// Lines of the summary and of `warpline check`: a label of a word or two, and its text.
    pub lines: Vec<(&'static str, String)>,
    /// The same as a JSON object, for `--stats` and `warpline check --json`.
    pub json: Map<String, Value>,
}
