//! The readers of chain files and of requests to a running process, for fuzz targets.

use std::path::Path;
use std::sync::Arc;

use warpline_engine::{Deployment, Machine, Member, Ports, Settings};
use warpline_io::interface::Interface;
use warpline_nf::config::Folder;
use warpline_nf::{Definition, Diagnostic, Diagnostics, Outputs, SourceText};

use crate::chain_file::{LoadOptions, Loaded, Setting, load};
use crate::ctl::{Live, answers};
use crate::ports::{Input, Output};
use crate::shown::shown;

/// A chain of a file.
pub struct Chain {
    /// Where it runs.
    pub deployment: Arc<Deployment>,
    /// How it runs.
    pub settings: Settings,
    /// Rules that were left out, and remarks.
    pub notes: Vec<Diagnostic>,
    /// The interfaces that its ports read or send by, as the file names them.
    pub interfaces: Vec<Interface>,
}

/// Reads the chain file `text`, which may name `files` and no others. Each of `set` is a `--set`.
///
/// # Errors
/// Its mistakes.
pub fn read(
    text: &str,
    files: &[(&str, &str)],
    set: &[String],
    functions: &[&'static Definition],
) -> Result<Vec<Chain>, Diagnostics> {
    let source = SourceText::new("chain.toml", text);
    let set = Setting::of_set(set);
    let options = LoadOptions { set: &set, ..LoadOptions::of(functions) };
    let chains = load(&source, Folder::Bundled(files), &options, true)?;
    let chain = |loaded: Loaded| Chain {
        interfaces: interfaces(&loaded),
        notes: loaded.left_out.listed.iter().chain(loaded.remarks.iter()).cloned().collect(),
        deployment: loaded.deployment,
        settings: loaded.settings,
    };
    Ok(chains.into_iter().map(chain).collect())
}

fn interfaces(loaded: &Loaded) -> Vec<Interface> {
    let inputs = loaded.ports.input.iter().flat_map(Input::parts).filter_map(Input::interface);
    let outputs = loaded.ports.outputs.iter().flatten().filter_map(Output::interface);
    inputs.chain(outputs).cloned().collect()
}

/// Reads `text` as the source and as the destination of a port. Returns the messages about it, as
/// they are shown.
pub fn read_place(text: &str) -> Vec<String> {
    let input = Input::parse(text, Path::new("")).err().unwrap_or_default();
    let output = Output::parse(text, Path::new("")).err();
    input.into_iter().chain(output).map(|reported| shown(&reported).into_owned()).collect()
}

/// The answers of the control socket to a client that sends `request` and closes its side, with
/// `chains` that have not started. Reloads and moves are refused.
pub fn ask(chains: &[Chain], request: &[u8]) -> Vec<u8> {
    let member = |chain: &Chain| {
        let none = Ports::PerLane(Vec::new());
        Member::new(Arc::clone(&chain.deployment), chain.settings, none)
    };
    let members = chains.iter().map(member).collect();
    let machine = Machine::new(members, Outputs::default(), Vec::new());
    answers(&Arc::new(Live::new(machine, Arc::default(), Arc::default(), Arc::default())), request)
}
