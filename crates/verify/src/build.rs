//! Functions built from the text of their tables, as from a chain file.

use std::path::Path;

use warpline_nf::config::{Folder, Layer};
use warpline_nf::{Definition, Diagnostics, Function, Resources, Section, SourceText};

/// Builds a function from the text of its table, as a chain file would; panics with the mistakes.
pub fn build(definition: &Definition, table: &str, folder: &Path) -> (Box<dyn Function>, usize) {
    match try_build(definition, table, folder) {
        Ok(built) => built,
        Err(mistakes) => panic!("{mistakes}"),
    }
}

/// Builds a function and returns how many scratch words it got, or the errors in its table.
pub fn try_build(
    definition: &Definition,
    table: &str,
    folder: &Path,
) -> Result<(Box<dyn Function>, usize), Diagnostics> {
    let mut resources = Resources::default();
    let function = build_with(definition, table, folder, &mut resources)?;
    Ok((function, resources.scratch_words()))
}

/// Builds a function as one of several that share `resources`, or returns the errors in its table.
pub fn build_with(
    definition: &Definition,
    table: &str,
    folder: &Path,
    resources: &mut Resources,
) -> Result<Box<dyn Function>, Diagnostics> {
    read(definition, table, folder, &mut |section| (definition.build)(section, resources))
}

/// Builds the functions of both places of an instance, with the number of their scratch words.
/// Panics with the mistakes, and for a function that has one place only.
pub fn build_pair(
    definition: &Definition,
    table: &str,
    folder: &Path,
) -> ([Box<dyn Function>; 2], usize) {
    match try_build_pair(definition, table, folder) {
        Ok(built) => built,
        Err(mistakes) => panic!("{mistakes}"),
    }
}

/// The same, or what is wrong with the table.
pub fn try_build_pair(
    definition: &Definition,
    table: &str,
    folder: &Path,
) -> Result<([Box<dyn Function>; 2], usize), Diagnostics> {
    let mut resources = Resources::default();
    let built = build_pair_with(definition, table, folder, &mut resources)?;
    Ok((built, resources.scratch_words()))
}

/// Builds both places of an instance that shares `resources` with others, like [`build_with`].
pub fn build_pair_with(
    definition: &Definition,
    table: &str,
    folder: &Path,
    resources: &mut Resources,
) -> Result<[Box<dyn Function>; 2], Diagnostics> {
    let pair = definition.build_pair.expect("a function with two places");
    read(definition, table, folder, &mut |section| pair(section, resources))
}

/// Builds of a table by `make`.
fn read<T>(
    definition: &Definition,
    table: &str,
    folder: &Path,
    make: &mut dyn FnMut(&mut Section<'_>) -> Option<T>,
) -> Result<T, Diagnostics> {
    let source = SourceText::new("chain.toml", table);
    let parsed = toml::de::DeTable::parse(&source.text).expect("a table that is TOML");
    let mut mistakes = Diagnostics::default();
    let layer = Layer { source: &source, table: parsed.get_ref(), span: parsed.span() };
    let folder = Folder::Disk(folder);
    let mut section = Section::new(vec![layer], definition.name, folder, &mut mistakes);
    section.refuse_unknown(definition.keys);
    match make(&mut section) {
        Some(built) if mistakes.is_empty() => Ok(built),
        _ => Err(mistakes),
    }
}
