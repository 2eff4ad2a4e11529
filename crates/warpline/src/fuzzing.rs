//! The reader of chain files, for fuzz targets.

use std::sync::Arc;

use warpline_engine::{Deployment, Settings};
use warpline_nf::config::Folder;
use warpline_nf::{Definition, Diagnostic, Diagnostics, SourceText};

use crate::chain_file::{LoadOptions, Setting, load};

/// A chain of a file.
pub struct Chain {
    /// Where it runs.
    pub deployment: Arc<Deployment>,
    /// How it runs.
    pub settings: Settings,
    /// Rules that were left out, and remarks.
    pub notes: Vec<Diagnostic>,
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
    let options = LoadOptions { functions, set: &set, device: None, is_live: false };
    let chains = load(&source, Folder::Bundled(files), &options, true)?;
    let chain = |loaded: crate::chain_file::Loaded| Chain {
        notes: loaded.left_out.iter().chain(loaded.remarks.iter()).cloned().collect(),
        deployment: loaded.deployment,
        settings: loaded.settings,
    };
    Ok(chains.into_iter().map(chain).collect())
}
