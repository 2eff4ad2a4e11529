//! A function's table in the chain file, read key by key.
//!
//! A [`Section`] returns typed values and notes every mistake with its place. A wrong value reads
//! as its default, so one pass finds all mistakes. [`Section::refuse_unknown`] finds keys that the
//! function doesn't know.

mod files;
mod fingerprint;
mod values;

use std::hash::DefaultHasher;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::folder::Folder;
use crate::keys::{COMMON_KEYS, Key};
use crate::similar::did_you_mean;
use crate::{Diagnostic, Diagnostics, LISTED_MAX, SourceText};

/// A table as it stands in one text: the chain file, or a setting of the command line.
#[derive(Clone)]
pub struct Layer<'a> {
    /// The text.
    pub source: &'a SourceText,
    /// The table.
    pub table: &'a DeTable<'a>,
    /// Its place in the text, for messages about missing keys.
    pub span: Range<usize>,
}

/// The values that [`Section::number_or_name`] reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberOrName<'a> {
    /// A whole number.
    Number(u64),
    /// A string.
    Name(&'a str),
}

/// A table of the chain file, with the settings of the command line.
pub struct Section<'a> {
    /// The last one that has a key counts.
    layers: Vec<Layer<'a>>,
    name: &'a str,
    folder: Folder<'a>,
    mistakes: &'a mut Diagnostics,
    /// Over the files that were read.
    files: DefaultHasher,
}

impl<'a> Section<'a> {
    /// Table `name`, made of `layers`, at least one; files named in it are in `folder`.
    pub fn new(
        layers: Vec<Layer<'a>>,
        name: &'a str,
        folder: Folder<'a>,
        mistakes: &'a mut Diagnostics,
    ) -> Self {
        Self { layers, name, folder, mistakes, files: DefaultHasher::new() }
    }

    /// The table's name: that of the instance.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Notes a mistake at the value of `key`, or at the table where the key is absent.
    pub fn mistake(&mut self, key: &str, message: impl Into<String>) -> &mut Self {
        match self.find(key) {
            Some((source, value)) => self.mistakes.push(source.mistake(value.span(), message)),
            None => self.mistake_of_table(message),
        }
        self
    }

    fn mistake_of_table(&mut self, message: impl Into<String>) {
        let mistake = match self.layers.first() {
            Some(layer) => layer.source.mistake(layer.span.clone(), message),
            None => Diagnostic::bare(message),
        };
        self.mistakes.push(mistake);
    }

    /// A mistake at entry `name` of the table that `key` has, to be noted.
    pub fn mistake_in(&self, key: &str, name: &str, message: impl Into<String>) -> Diagnostic {
        let entry = self.find(key).and_then(|(source, value)| match value.get_ref() {
            DeValue::Table(table) => Some((source, table.get(name)?.span())),
            _ => None,
        });
        match entry {
            Some((source, at)) => source.mistake(at, message),
            None => Diagnostic::bare(message),
        }
    }

    /// Notes a mistake that was found elsewhere, in a file that the table names, say.
    pub fn note(&mut self, mistake: Diagnostic) {
        self.mistakes.push(mistake);
    }

    /// Whether the table has `key`.
    pub fn has(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// Whether mistakes were noted so far, in this table or before it.
    pub fn is_broken(&self) -> bool {
        !self.mistakes.is_empty()
    }

    /// Finds keys that are not in `keys`, nor common to all functions.
    pub fn refuse_unknown(&mut self, keys: &[Key]) {
        let known: Vec<&str> = keys.iter().chain(COMMON_KEYS).map(|key| key.name).collect();
        self.refuse_all_but(&known);
    }

    /// Finds keys that are not in `known`.
    pub fn refuse_all_but(&mut self, known: &[&str]) {
        for layer in &self.layers {
            let unknown = layer.table.keys().filter(|key| !known.contains(&key.get_ref().as_ref()));
            let unknown: Vec<_> = unknown.collect();
            for key in unknown.iter().take(LISTED_MAX) {
                let text = format!("[{}] has no key `{}`", self.name, key.get_ref());
                let mistake = layer.source.mistake(key.span(), text);
                let meant = did_you_mean(key.get_ref(), known.iter().copied());
                self.mistakes.push(mistake.help(format!("{meant}its keys: {}", known.join(", "))));
            }
            // To find the places of all would take the square of their number.
            self.mistakes.count_more(unknown.len().saturating_sub(LISTED_MAX));
        }
    }

    fn find(&self, key: &str) -> Option<(&'a SourceText, &'a Spanned<DeValue<'a>>)> {
        let mut layers = self.layers.iter().rev();
        layers.find_map(|layer| layer.table.get(key).map(|value| (layer.source, value)))
    }

    fn value(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.find(key).map(|(_, value)| value)
    }

    fn wrong(&mut self, at: Range<usize>, key: &str, allowed: &str, found: &str) {
        let text = format!("`{key}` must be {allowed}, found {found}");
        if let Some((source, _)) = self.find(key) {
            self.mistakes.push(source.mistake(at, text).allowing(allowed));
        }
    }

    fn mistake_at(&mut self, key: &str, at: Range<usize>, text: String) {
        let mistake = self.mistake_of_item(key, at, text);
        self.note(mistake);
    }

    /// A mistake at a place of the value of `key`, to be noted.
    pub fn mistake_of_item(&self, key: &str, at: Range<usize>, text: String) -> Diagnostic {
        match self.find(key) {
            Some((source, _)) => source.mistake(at, text),
            None => Diagnostic::bare(text),
        }
    }

    /// A key that must be there: notes a mistake where it is not.
    pub fn require(&mut self, key: &str, why: &str) {
        if !self.has(key) {
            self.mistake_of_table(format!("[{}] needs `{key}`: {why}", self.name));
        }
    }
}

#[cfg(test)]
mod tests;
