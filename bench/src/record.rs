//! The numbers of a bench as JSON, for `warpline reproduce --live --record`.

use std::path::PathBuf;

use serde_json::{Value, json};

/// The runs of a bench, and the file of its `--json FILE`.
pub struct Record {
    bench: &'static str,
    file: Option<PathBuf>,
    runs: Vec<Value>,
}

impl Record {
    /// Of `bench`, with the file that the arguments of the program name.
    pub fn of_arguments(bench: &'static str) -> Self {
        let mut arguments = std::env::args_os().skip_while(|argument| argument != "--json");
        let file = arguments.nth(1).map(PathBuf::from);
        Self { bench, file, runs: Vec::new() }
    }

    /// Adds the numbers of a run.
    pub fn add(&mut self, run: Value) {
        self.runs.push(run);
    }

    /// Writes the file, if one was named.
    pub fn write(self) {
        let Some(file) = self.file else { return };
        let text = format!("{:#}\n", json!({ "bench": self.bench, "runs": self.runs }));
        std::fs::write(&file, text).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
    }
}
