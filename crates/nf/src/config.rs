//! A function's table in the chain file, read key by key.
//!
//! A [`Section`] hands out typed values and notes every mistake with its place; a value that is wrong reads
//! as its default, so that one pass finds all mistakes. Keys that the function doesn't know are found by
//! [`Section::refuse_unknown`].

use std::fs::File;
use std::io::Read;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::{Diagnostic, Diagnostics, SourceText};

/// Files named in a chain file may be this large.
pub const FILE_LEN_MAX: u64 = 1 << 30;

/// A key of a function's table.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name, units last.
    pub name: &'static str,
    /// What values are allowed.
    pub allowed: &'static str,
    /// What holds when it is absent; "required" where it must not be.
    pub default: &'static str,
    /// What it does, in a line.
    pub help: &'static str,
}

/// Keys that the engine reads in every function's table.
pub const COMMON_KEYS: &[Key] = &[
    Key {
        name: "function",
        allowed: "the name of a function",
        default: "the table's name",
        help: "which function the instance is",
    },
    Key { name: "device", allowed: "cpu", default: "cpu", help: "where it runs" },
    Key {
        name: "stage",
        allowed: "fused | own",
        default: "fused",
        help: "own: it has its own queue, apart from its neighbours on the same device",
    },
    Key {
        name: "launch_batches",
        allowed: "1 to 64",
        default: "1",
        help: "batches that go through it together; takes stage = \"own\"",
    },
];

/// A table of the chain file.
pub struct Section<'a> {
    source: &'a SourceText,
    table: &'a DeTable<'a>,
    span: Range<usize>,
    name: &'a str,
    folder: &'a Path,
    mistakes: &'a mut Diagnostics,
}

impl<'a> Section<'a> {
    /// Table `name` of the file `source`; paths in it are relative to `folder`.
    pub fn new(
        source: &'a SourceText,
        name: &'a str,
        table: &'a Spanned<DeTable<'a>>,
        folder: &'a Path,
        mistakes: &'a mut Diagnostics,
    ) -> Self {
        Self { source, table: table.get_ref(), span: table.span(), name, folder, mistakes }
    }

    /// The table's name: that of the instance.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Notes a mistake at the value of `key`, or at the table where the key is absent.
    pub fn mistake(&mut self, key: &str, message: impl Into<String>) -> &mut Self {
        let span = self.table.get(key).map_or(self.span.clone(), Spanned::span);
        self.mistakes.push(self.source.mistake(span, message));
        self
    }

    /// Notes a mistake that was found elsewhere, in a file that the table names, say.
    pub fn note(&mut self, mistake: Diagnostic) {
        self.mistakes.push(mistake);
    }

    /// Whether the table has `key`.
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Whether mistakes were noted so far, in this table or before it.
    pub fn is_broken(&self) -> bool {
        !self.mistakes.is_empty()
    }

    /// Finds keys that are not in `keys` nor common to all functions.
    pub fn refuse_unknown(&mut self, keys: &[Key]) {
        let known = || keys.iter().chain(COMMON_KEYS).map(|key| key.name);
        for key in self.table.keys() {
            if known().any(|name| name == key.get_ref().as_ref()) {
                continue;
            }
            let names: Vec<&str> = known().collect();
            let text = format!("[{}] has no key `{}`", self.name, key.get_ref());
            let mistake = self.source.mistake(key.span(), text);
            self.mistakes.push(mistake.help(format!("its keys: {}", names.join(", "))));
        }
    }

    fn value(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.table.get(key)
    }

    fn wrong(&mut self, at: Range<usize>, key: &str, allowed: &str, found: &str) {
        let text = format!("`{key}` takes {allowed}, not {found}");
        self.mistakes.push(self.source.mistake(at, text));
    }

    /// A string.
    pub fn string(&mut self, key: &str) -> Option<&'a str> {
        let value = self.value(key)?;
        if let DeValue::String(text) = value.get_ref() {
            return Some(text);
        }
        self.wrong(value.span(), key, "a string", describe(value.get_ref()));
        None
    }

    /// `true` or `false`.
    pub fn boolean(&mut self, key: &str, default: bool) -> bool {
        let Some(value) = self.value(key) else { return default };
        if let DeValue::Boolean(on) = value.get_ref() {
            return *on;
        }
        self.wrong(value.span(), key, "true or false", describe(value.get_ref()));
        default
    }

    /// A whole number in `range`.
    pub fn integer(&mut self, key: &str, range: RangeInclusive<u64>, default: u64) -> u64 {
        let Some(value) = self.value(key) else { return default };
        if let DeValue::Integer(number) = value.get_ref()
            && let Ok(number) = u64::from_str_radix(number.as_str(), number.radix())
            && range.contains(&number)
        {
            return number;
        }
        let allowed = format!("a whole number from {} to {}", range.start(), range.end());
        self.wrong(value.span(), key, &allowed, describe(value.get_ref()));
        default
    }

    /// One of the named choices.
    pub fn choice<T: Clone>(&mut self, key: &str, choices: &[(&str, T)], default: T) -> T {
        let Some(value) = self.value(key) else { return default };
        if let DeValue::String(text) = value.get_ref()
            && let Some((_, choice)) = choices.iter().find(|(name, _)| *name == text.as_ref())
        {
            return choice.clone();
        }
        let names: Vec<String> = choices.iter().map(|(name, _)| format!("{name:?}")).collect();
        self.wrong(value.span(), key, &names.join(" or "), describe(value.get_ref()));
        default
    }

    /// A string that reads as a `T`; the message of a mistake follows `T`'s own.
    pub fn parsed<T: FromStr<Err: ToString>>(&mut self, key: &str) -> Option<T> {
        let text = self.string(key)?;
        match text.parse::<T>() {
            Ok(value) => Some(value),
            Err(why) => {
                self.mistake(key, format!("`{key}`: {text:?}: {}", why.to_string()));
                None
            }
        }
    }

    /// A list of strings that read as `T`s; a single string is a list of one. Every one that doesn't
    /// read is a mistake.
    pub fn parsed_list<T: FromStr<Err: ToString>>(&mut self, key: &str) -> Vec<T> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let items: Vec<&Spanned<DeValue<'a>>> = match value.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            DeValue::String(_) => vec![value],
            other => {
                self.wrong(value.span(), key, "a list of strings", describe(other));
                return Vec::new();
            }
        };
        let mut list = Vec::with_capacity(items.len());
        for item in items {
            let DeValue::String(text) = item.get_ref() else {
                self.wrong(item.span(), key, "a list of strings", describe(item.get_ref()));
                continue;
            };
            match text.parse::<T>() {
                Ok(parsed) => list.push(parsed),
                Err(why) => {
                    let text = format!("`{key}`: {:?}: {}", text.as_ref(), why.to_string());
                    self.mistakes.push(self.source.mistake(item.span(), text));
                }
            }
        }
        list
    }

    /// The text of the file that `key` names. A file that is missing, can't be read, is not UTF-8 or
    /// is larger than [`FILE_LEN_MAX`] is a mistake.
    pub fn file(&mut self, key: &str) -> Option<SourceText> {
        let name = self.string(key)?;
        match read_text(&self.folder.join(name)) {
            Ok(text) => Some(SourceText::new(name, text)),
            Err(why) => {
                self.mistake(key, format!("can't read {name:?}: {why}"));
                None
            }
        }
    }

    /// A key that must be there: notes a mistake where it is not.
    pub fn require(&mut self, key: &str, why: &str) {
        if !self.has(key) {
            let text = format!("[{}] needs `{key}`: {why}", self.name);
            self.mistakes.push(self.source.mistake(self.span.clone(), text));
        }
    }

    /// The path that `key` names, relative to the chain file's folder.
    pub fn path(&mut self, key: &str) -> Option<PathBuf> {
        self.string(key).map(|name| self.folder.join(name))
    }
}

fn describe(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "this string",
        DeValue::Integer(_) => "this number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// Reads a text file of bounded size.
pub fn read_text(path: &Path) -> Result<String, String> {
    let file = File::open(path).map_err(|error| plain(&error))?;
    let meta = file.metadata().map_err(|error| plain(&error))?;
    if meta.is_dir() {
        return Err("it is a folder".into());
    }
    let mut bytes = Vec::new();
    file.take(FILE_LEN_MAX + 1).read_to_end(&mut bytes).map_err(|error| plain(&error))?;
    if bytes.len() as u64 > FILE_LEN_MAX {
        return Err(format!("it is larger than {} MiB", FILE_LEN_MAX >> 20));
    }
    String::from_utf8(bytes)
        .map_err(|error| format!("byte {} is not UTF-8 text", error.utf8_error().valid_up_to()))
}

/// An operating system's error without its number.
pub fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| c.to_lowercase().chain(chars).collect())
}

/// What a chain hands out to the functions it is made of.
#[derive(Debug, Default)]
pub struct Resources {
    scratch_words: usize,
    notices: Diagnostics,
}

impl Resources {
    /// Hands out `N` scratch words; `None` when the chain has no more.
    pub fn scratch<const N: usize>(&mut self) -> Option<[warpline_packet::ScratchWord; N]> {
        let first = self.scratch_words;
        if first + N > warpline_packet::SCRATCH_WORDS {
            return None;
        }
        self.scratch_words += N;
        let mut words = (first..first + N).filter_map(warpline_packet::ScratchWord::new);
        let words: [Option<_>; N] = std::array::from_fn(|_| words.next());
        let words: Vec<_> = words.into_iter().flatten().collect();
        words.try_into().ok()
    }

    /// Tells what a function was asked to leave out, and left out, of a file that it read.
    pub fn notice(&mut self, left_out: Diagnostic) {
        self.notices.push(left_out);
    }

    /// What was left out so far.
    pub fn notices(&self) -> &Diagnostics {
        &self.notices
    }

    /// Scratch words handed out so far.
    pub fn scratch_words(&self) -> usize {
        self.scratch_words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpline_packet::Prefix;

    fn with(text: &str, test: impl FnOnce(&mut Section<'_>)) -> Vec<String> {
        let source = SourceText::new("chain.toml", text);
        let table = DeTable::parse(&source.text).unwrap();
        let mut mistakes = Diagnostics::default();
        test(&mut Section::new(&source, "nat", &table, Path::new("."), &mut mistakes));
        mistakes.iter().map(|d| format!("{}:{} {}", d.line, d.column, d.message)).collect()
    }

    #[test]
    fn every_mistake_is_found_and_placed() {
        let text = "a = 70000\nb = \"no\"\nc = [\"10.0.0.0/8\", \"10.0.0.1/8\", 3]\nd = 1\nx = 1\n";
        let told = with(text, |section| {
            assert_eq!(section.integer("a", 1..=65535, 7), 7);
            assert!(section.boolean("b", true));
            assert_eq!(section.parsed_list::<Prefix>("c").len(), 1);
            assert_eq!(section.choice("d", &[("one", 1), ("two", 2)], 2), 2);
            assert!(section.file("missing").is_none());
            section.require("rules", "it has nothing to do");
            let key = |name| Key { name, allowed: "", default: "", help: "" };
            section.refuse_unknown(&["a", "b", "c", "d"].map(key));
        });
        assert_eq!(
            told,
            [
                "1:5 `a` takes a whole number from 1 to 65535, not this number",
                "2:5 `b` takes true or false, not this string",
                "3:20 `c`: \"10.0.0.1/8\": address has bits set behind the prefix",
                "3:34 `c` takes a list of strings, not this number",
                "4:5 `d` takes \"one\" or \"two\", not this number",
                "1:1 [nat] needs `rules`: it has nothing to do",
                "5:1 [nat] has no key `x`",
            ]
        );
    }

    #[test]
    fn scratch_words_run_out() {
        let mut resources = Resources::default();
        assert!(resources.scratch::<10>().is_some());
        assert!(resources.scratch::<7>().is_none());
        assert_eq!(resources.scratch::<6>().unwrap()[5].field().name(), "scratch-15");
    }
}
