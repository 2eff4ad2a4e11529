//! The keys of a `[chain]` table for input and output: read as what it means, every mistake noted
//! at its key.

use std::ffi::OsStr;
use std::path::Path;

use warpline_io::middleware::{ImpairConfig, ParseProblem};
use warpline_io_error::plain;
use warpline_nf::Section;
use warpline_nf::config::{Folder, did_you_mean};

use crate::port_tables::{self, PortTable};
use crate::ports::{CaptureOutput, Input, Output};

/// The input and the outputs that a `[chain]` table and its ports' tables name.
pub(crate) struct PortKeys {
    pub(crate) input: Option<Input>,
    pub(crate) output: Option<Output>,
    pub(crate) tap: Option<CaptureOutput>,
    pub(crate) impair: Option<ImpairConfig>,
    /// By port, its own output. Empty in a chain without ports.
    pub(crate) outputs: Vec<Option<Output>>,
}

impl PortKeys {
    /// Reads them; relative paths are in `folder`. The file that `input` names must be there if
    /// `needs_input`. A chain with `tables` reads what its ports read.
    pub(crate) fn read(
        section: &mut Section<'_>,
        tables: &[PortTable],
        folder: Folder<'_>,
        needs_input: bool,
    ) -> Self {
        let (folder, on_disk) = match folder {
            Folder::Disk(folder) => (folder, true),
            Folder::Bundled(_) => (Path::new(""), false),
        };
        let input = section.string("input").and_then(|text| {
            let mut parsed = Input::parse(text, folder);
            if let Some(why) = parsed.as_ref().ok().and_then(refusal)
                && needs_input
                && on_disk
            {
                parsed = Err(vec![format!("can't read {text:?}: {why}")]);
            }
            read_port(section, "input", parsed)
        });
        let output = section.string("output").and_then(|text| {
            read_port(section, "output", Output::parse(text, folder).map_err(|why| vec![why]))
        });
        let impair = section.string("impair").and_then(|text| {
            let texts = |problems: Vec<_>| problems.iter().map(problem_text).collect();
            read_port(section, "impair", ImpairConfig::parse(text).map_err(texts))
        });
        let tap = section.string("tap").and_then(|name| {
            let file = match name {
                "-" => Err("it must be the name of a file, not standard output".into()),
                _ => CaptureOutput::parse(name, folder),
            };
            read_port(section, "tap", file.map_err(|why| vec![why]))
        });
        let outputs: Vec<_> = tables.iter().map(|table| table.output.clone()).collect();
        if tables.is_empty() {
            return Self { input, output, tap, impair, outputs };
        }
        if section.has("input") {
            let text = "`input` conflicts with [[port]]: name the capture as a port's `device`";
            section.mistake("input", text);
        }
        if section.has("output") && outputs.iter().all(Option::is_some) {
            section.mistake("output", "`output` gets no packets: each port has its own output");
        }
        if tables.iter().all(|table| table.input.is_none()) && !section.is_broken() {
            section.mistake("ports", "no port of the chain has packets: each `device` is \"none\"");
        }
        Self { input: Some(port_tables::input(tables)), output, tap, impair, outputs }
    }
}

/// The reason that the input can't be read, if the file at its path shows one.
pub(crate) fn refusal(input: &Input) -> Option<String> {
    match input.path()?.metadata() {
        Ok(meta) if meta.is_dir() => Some("it is a folder".into()),
        Ok(_) => None,
        Err(error) => Some(format!("{}{}", plain(&error), interface_hint(input))),
    }
}

/// The way to name an interface, if that is what a missing file is.
fn interface_hint(input: &Input) -> String {
    let name = input.path().and_then(Path::file_name).and_then(OsStr::to_str).unwrap_or_default();
    match !name.is_empty() && Path::new("/sys/class/net").join(name).exists() {
        true => format!("; the interface is \"af_packet:{name}\""),
        false => String::new(),
    }
}

/// A problem of a source or of `impair`, with the setting that was perhaps meant.
pub(crate) fn problem_text(problem: &ParseProblem) -> String {
    let ParseProblem { column, key, what, allowed } = problem;
    let meant = did_you_mean(key, allowed.split(", "));
    format!("column {column}: `{key}` {what}; {meant}allowed: {allowed}")
}

/// The port in a key's value. Its mistakes are noted in `section`.
pub(crate) fn read_port<T>(
    section: &mut Section<'_>,
    key: &str,
    parsed: Result<T, Vec<String>>,
) -> Option<T> {
    match parsed {
        Ok(port) => Some(port),
        Err(mistakes) => {
            for why in mistakes {
                section.mistake(key, format!("`{key}`: {why}"));
            }
            None
        }
    }
}
