//! What a function tells of itself before a packet flows: what it was built of.

use serde_json::{Map, Value};

/// The same twice: for people and for programs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct About {
    /// Lines of the summary and of `warpline check`: what is told, in a word or two, and what is
    /// told of it.
    pub lines: Vec<(&'static str, String)>,
    /// The same as a JSON object, for `--stats` and `warpline check --json`.
    pub json: Map<String, Value>,
}
