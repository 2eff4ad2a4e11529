//! The commands, one file each.

pub(crate) mod advise;
pub(crate) mod check;
mod crew;
pub(crate) mod demo;
pub(crate) mod devices;
pub(crate) mod functions;
pub(crate) mod meters;
mod opening;
pub(crate) mod pages;
pub(crate) mod places;
pub(crate) mod plan;
mod private;
pub(crate) mod profile;
pub(crate) mod reproduce;
pub(crate) mod run;
pub(crate) mod simulate;
mod strict;
pub(crate) mod trace;

use std::io::{ErrorKind, Write};
use std::path::Path;

use warpline_io_error::plain;
use warpline_nf::config::{Folder, read_text};
use warpline_nf::{Diagnostics, SourceText};

use crate::Failure;
use crate::bounded::bounded;
use crate::chain_file::{LoadOptions, Loaded, is_chain_header, load};
use crate::shown::shown;

/// Writes `text` and a line's end to standard output. A reader that went away has had enough.
fn say(text: &str) -> Result<(), Failure> {
    say_json(&bounded(text))
}

/// The same for what a program reads, which is whole.
fn say_json(text: &str) -> Result<(), Failure> {
    is_heard(text).map(drop)
}

/// The same; returns whether the output is still read.
fn is_heard(text: &str) -> Result<bool, Failure> {
    match writeln!(std::io::stdout().lock(), "{}", shown(text)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::Run(format!("standard output: {}", plain(&error)))),
    }
}

/// Bytes that a chain file may have.
const CHAIN_FILE_LEN_MAX: u64 = 1 << 20;

/// Reads and builds the chain file at `path`; its inputs must be there if `needs_input`.
pub(crate) fn load_file(
    path: &Path,
    options: &LoadOptions<'_>,
    needs_input: bool,
) -> Result<Vec<Loaded>, Failure> {
    let name = path.display().to_string();
    let text = read_text(path, CHAIN_FILE_LEN_MAX)
        .map_err(|why| Failure::Usage(format!("can't read {name}: {why}")))?;
    let source = SourceText::new(name.as_str(), text);
    let folder = Folder::Disk(folder_of(path));
    let has_chain = source.text.lines().any(is_chain_header);
    // A chain file names files of keys and has none itself.
    let has_keys = |file: &str| match file == name {
        true => !has_chain && Folder::Disk(Path::new("")).has_keys(file),
        false => !file.is_empty() && folder.has_keys(file),
    };
    let loaded = load(&source, folder, options, needs_input).map(|mut chains| {
        for loaded in &mut chains {
            loaded.left_out.listed.hide(has_keys);
            loaded.remarks.hide(has_keys);
        }
        chains
    });
    loaded.map_err(|mut mistakes| {
        mistakes.hide(has_keys);
        self::mistakes(&name, mistakes)
    })
}

/// The mistakes of the chain file `name`.
fn mistakes(name: &str, list: Diagnostics) -> Failure {
    let count = list.count();
    let word = if count == 1 { "mistake" } else { "mistakes" };
    Failure::Mistakes { heading: format!("{name}: {count} {word}"), list }
}

/// The folder that relative paths of the file at `path` are in.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
