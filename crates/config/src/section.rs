//! A function's table in the chain file, read key by key.
//!
//! A [`Section`] returns typed values and notes every mistake with its place. A wrong value reads
//! as its default, so one pass finds all mistakes. [`Section::refuse_unknown`] finds keys that the
//! function doesn't know.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use warpline_outputs::Destination;
use zeroize::Zeroizing;

use crate::folder::{Folder, text_of};
use crate::keys::{COMMON_KEYS, Key};
use crate::similar::did_you_mean;
use crate::unpack::unpack_text;
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
        if let Some(number) = whole(value.get_ref(), &range) {
            return number;
        }
        self.wrong(value.span(), key, &allowed(&range), &shown(value.get_ref()));
        default
    }

    /// A finite decimal number.
    pub fn decimal(&mut self, key: &str, default: f64) -> f64 {
        let Some(value) = self.value(key) else { return default };
        let number = match value.get_ref() {
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse().ok(),
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => None,
        };
        if let Some(number) = number.filter(|number: &f64| number.is_finite()) {
            return number;
        }
        self.wrong(value.span(), key, "a decimal number", &shown(value.get_ref()));
        default
    }

    /// A whole number, or `None` for the one `word` that may stand in its place.
    pub fn integer_or(
        &mut self,
        key: &str,
        range: RangeInclusive<u64>,
        word: &str,
        default: u64,
    ) -> Option<u64> {
        let Some(value) = self.value(key) else { return Some(default) };
        let number = whole(value.get_ref(), &range);
        let is_word = matches!(value.get_ref(), DeValue::String(text) if text.as_ref() == word);
        if number.is_none() && !is_word {
            let allowed = format!("{} or {word:?}", allowed(&range));
            self.wrong(value.span(), key, &allowed, &shown(value.get_ref()));
        }
        number
    }

    /// A whole number in `range`, or a name.
    pub fn number_or_name(
        &mut self,
        key: &str,
        range: RangeInclusive<u64>,
    ) -> Option<NumberOrName<'a>> {
        let value = self.value(key)?;
        if let DeValue::String(name) = value.get_ref() {
            return Some(NumberOrName::Name(name));
        }
        if let Some(number) = whole(value.get_ref(), &range) {
            return Some(NumberOrName::Number(number));
        }
        let allowed = format!("{} or a name", allowed(&range));
        self.wrong(value.span(), key, &allowed, &shown(value.get_ref()));
        None
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
        self.wrong(value.span(), key, &alternatives(&names), &shown(value.get_ref()));
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

    /// A list of strings that parse as `T`s; a single string is a list of one. Each that doesn't
    /// parse is a mistake.
    pub fn parsed_list<T: FromStr<Err: ToString>>(&mut self, key: &str) -> Vec<T> {
        self.parsed_items(key).into_iter().map(|(item, _)| item).collect()
    }

    /// The same, with the place of each string.
    pub fn parsed_items<T: FromStr<Err: ToString>>(&mut self, key: &str) -> Vec<(T, Range<usize>)> {
        let mut list = Vec::new();
        self.each_string(key, |section, text, span| match text.parse::<T>() {
            Ok(parsed) => list.push((parsed, span)),
            Err(why) => {
                section.mistake_at(key, span, format!("`{key}`: {text:?}: {}", why.to_string()));
            }
        });
        list
    }

    /// Does `work` with each string of a list and its place; a single string is a list of one.
    /// Other values are mistakes.
    fn each_string(&mut self, key: &str, mut work: impl FnMut(&mut Self, &'a str, Range<usize>)) {
        let Some(value) = self.value(key) else { return };
        let items = match value.get_ref() {
            DeValue::Array(items) => &items[..],
            _ => core::slice::from_ref(value),
        };
        for item in items {
            match item.get_ref() {
                DeValue::String(text) => work(self, text.as_ref(), item.span()),
                other => self.wrong(item.span(), key, "a list of strings", describe(other)),
            }
        }
    }

    /// The name and the unpacked bytes of each file of a list; a single name is a list of one. A
    /// file that is missing, can't be read or is larger than [`crate::FILE_LEN_MAX`] is a mistake.
    pub fn files_bytes(&mut self, key: &str) -> Vec<(&'a str, Vec<u8>)> {
        let mut files = Vec::new();
        self.each_string(key, |section, name, span| {
            match section.folder.read_bytes(name).and_then(unpack_text) {
                Ok(bytes) => {
                    (key, &bytes).hash(&mut section.files);
                    files.push((name, bytes));
                }
                Err(why) => section.mistake_at(key, span, format!("can't read {name:?}: {why}")),
            }
        });
        files
    }

    /// A table of strings by name: name and text of each, in the order of the names.
    pub fn named_strings(&mut self, key: &str) -> Vec<(String, &'a str)> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let DeValue::Table(table) = value.get_ref() else {
            self.wrong(value.span(), key, "a table of strings", describe(value.get_ref()));
            return Vec::new();
        };
        let mut strings = Vec::new();
        for (name, value) in table {
            match value.get_ref() {
                DeValue::String(text) => strings.push((name.get_ref().to_string(), text.as_ref())),
                other => self.wrong(value.span(), key, "a table of strings", describe(other)),
            }
        }
        strings
    }

    /// The text of the file that `key` names, which may be packed. A file that is missing, can't be
    /// read, is not UTF-8 or is larger than [`crate::FILE_LEN_MAX`] is a mistake.
    pub fn file(&mut self, key: &str) -> Option<SourceText> {
        let (name, bytes) = self.file_bytes(key)?;
        self.text(key, name, bytes)
    }

    /// The name and the bytes of the file that `key` names. A file that is missing, can't be read
    /// or is larger than [`crate::FILE_LEN_MAX`] is a mistake.
    pub fn file_bytes(&mut self, key: &str) -> Option<(&'a str, Vec<u8>)> {
        let name = self.string(key)?;
        match self.folder.read_bytes(name) {
            Ok(bytes) => {
                (key, &bytes).hash(&mut self.files);
                Some((name, bytes))
            }
            Err(why) => {
                self.mistake(key, format!("can't read {name:?}: {why}"));
                None
            }
        }
    }

    /// The bytes of the file that `key` names, which are a key: at least `len_min`, and only the
    /// file's owner may read it.
    pub fn secret(&mut self, key: &str, len_min: usize) -> Option<Zeroizing<Vec<u8>>> {
        let name = self.string(key)?;
        let why = match self.folder.read_secret(name).map(Zeroizing::new) {
            Ok(bytes) if bytes.len() >= len_min => return Some(bytes),
            Ok(bytes) => format!(
                "`{key}`: {name:?} has {} bytes, a key has {len_min} at least: \
                 head -c {len_min} /dev/urandom > {name}",
                bytes.len()
            ),
            Err(why) => format!("can't read {name:?}: {why}"),
        };
        self.mistake(key, why);
        None
    }

    /// The bytes from [`Section::file_bytes`], unpacked, as text. Bytes that are not UTF-8 are a
    /// mistake.
    pub fn text(&mut self, key: &str, name: &str, bytes: Vec<u8>) -> Option<SourceText> {
        match unpack_text(bytes).and_then(text_of) {
            Ok(text) => Some(SourceText::new(name, text)),
            Err(why) => {
                self.mistake(key, format!("can't read {name:?}: {why}"));
                None
            }
        }
    }

    /// A number that tells this table, with the files that were read through it, from one that says
    /// something else. It is the same in every run of a build of the program. [`COMMON_KEYS`],
    /// which say where a function runs, do not count.
    pub fn fingerprint(&self) -> u64 {
        let mut all = self.files.clone();
        let keys = self.layers.iter().flat_map(|layer| layer.table.keys());
        let keys: BTreeSet<&str> = keys.map(|key| key.get_ref().as_ref()).collect();
        let is_common = |key: &str| COMMON_KEYS.iter().any(|common| common.name == key);
        for key in keys.into_iter().filter(|key| !is_common(key)) {
            key.hash(&mut all);
            if let Some(value) = self.value(key) {
                hash_value(value.get_ref(), &mut all);
            }
        }
        all.finish()
    }

    /// The file that `key` names, to be created when a run starts. Its path is relative to the
    /// chain file's folder, or to the current one if the chain file is part of the program. An
    /// empty name is a mistake.
    pub fn output(&mut self, key: &str) -> Option<PathBuf> {
        let name = self.string(key)?;
        if name.is_empty() {
            self.mistake(key, format!("`{key}` is empty: it must be the name of a file"));
            return None;
        }
        if name == "-" {
            let reported = format!(
                "`{key}` must be the name of a file; standard output is for --output and --alerts"
            );
            self.mistake(key, reported);
            return None;
        }
        Some(match self.folder {
            Folder::Disk(folder) => folder.join(name),
            Folder::Bundled(_) => PathBuf::from(name),
        })
    }

    /// The file, pipe or socket that `key` names, to be opened when a run starts. Paths are
    /// relative to the chain file's folder.
    pub fn destination(&mut self, key: &str) -> Option<Destination> {
        let text = self.string(key)?;
        if !text.starts_with("unix:") && !text.starts_with("tcp:") {
            return self.output(key).map(Destination::File);
        }
        let folder = match self.folder {
            Folder::Disk(folder) => folder,
            Folder::Bundled(_) => Path::new(""),
        };
        let parsed = Destination::parse(text, folder);
        parsed.map_err(|why| self.mistake(key, format!("`{key}`: {why}"))).ok()
    }

    /// A key that must be there: notes a mistake where it is not.
    pub fn require(&mut self, key: &str, why: &str) {
        if !self.has(key) {
            self.mistake_of_table(format!("[{}] needs `{key}`: {why}", self.name));
        }
    }
}

/// The number that `value` is, where it is one in `range`.
fn whole(value: &DeValue<'_>, range: &RangeInclusive<u64>) -> Option<u64> {
    let DeValue::Integer(number) = value else { return None };
    let number = u64::from_str_radix(number.as_str(), number.radix()).ok()?;
    range.contains(&number).then_some(number)
}

fn allowed(range: &RangeInclusive<u64>) -> String {
    format!("a whole number from {} to {}", range.start(), range.end())
}

fn describe(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// A short value itself, or its kind. Keys of ciphers are longer, so that messages never show one.
fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) if text.len() <= SHOWN_LEN_MAX => format!("{text:?}"),
        DeValue::Integer(number) if number.as_str().len() <= SHOWN_LEN_MAX => number.to_string(),
        DeValue::Float(number) if number.as_str().len() <= SHOWN_LEN_MAX => number.to_string(),
        other => describe(other).into(),
    }
}

/// Bytes of a value in a message.
const SHOWN_LEN_MAX: usize = 24;

/// Adds a value, and not where it stands.
fn hash_value(value: &DeValue<'_>, to: &mut DefaultHasher) {
    describe(value).hash(to);
    match value {
        DeValue::String(text) => text.hash(to),
        DeValue::Integer(number) => (number.as_str(), number.radix()).hash(to),
        DeValue::Float(number) => number.as_str().hash(to),
        DeValue::Boolean(on) => on.hash(to),
        DeValue::Datetime(date) => date.to_string().hash(to),
        DeValue::Array(items) => {
            items.len().hash(to);
            items.iter().for_each(|item| hash_value(item.get_ref(), to));
        }
        DeValue::Table(table) => {
            table.len().hash(to);
            // Sorted, as the map is.
            for (key, value) in table {
                key.get_ref().hash(to);
                hash_value(value.get_ref(), to);
            }
        }
    }
}

/// `a, b or c`.
fn alternatives(names: &[String]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::path::Path;

    use super::*;

    fn with(text: &str, test: impl FnOnce(&mut Section<'_>)) -> Vec<String> {
        let source = SourceText::new("chain.toml", text);
        let table = DeTable::parse(&source.text).unwrap();
        let mut mistakes = Diagnostics::default();
        let layer = Layer { source: &source, table: table.get_ref(), span: table.span() };
        let folder = Folder::Disk(Path::new("."));
        test(&mut Section::new(vec![layer], "nat", folder, &mut mistakes));
        mistakes.sort();
        mistakes.iter().map(|d| format!("{}:{} {}", d.line, d.column, d.message)).collect()
    }

    #[test]
    fn outputs_lie_beside_the_chain_file() {
        let reported = with("a = \"out.csv\"\nb = \"\"\n", |section| {
            assert_eq!(section.output("a"), Some(PathBuf::from("./out.csv")));
            assert_eq!(section.output("b"), None);
            assert_eq!(section.output("c"), None);
            section.folder = Folder::Bundled(&[]);
            assert_eq!(section.output("a"), Some(PathBuf::from("out.csv")));
        });
        assert_eq!(reported, ["2:5 `b` is empty: it must be the name of a file"]);
    }

    #[test]
    fn packed_files_are_read_as_plain_ones() {
        let folder = std::env::temp_dir().join(format!("warpline-packed-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("a"), zstd::encode_all(&b"\xef\xbb\xbfone\n"[..], 1).unwrap())
            .unwrap();
        std::fs::write(folder.join("b"), b"\x1f\x8bno").unwrap();
        let names = ["a", "b"].map(|name| folder.join(name).display().to_string());
        let reported = with(&format!("a = {:?}\nb = {:?}\n", names[0], names), |section| {
            assert_eq!(&*section.file("a").unwrap().text, "one\n");
            assert_eq!(section.files_bytes("b").len(), 1);
        });
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(
            matches!(&reported[..], [one] if one.contains("b\": can't be unpacked: ")),
            "{reported:?}"
        );
    }

    #[test]
    fn every_mistake_is_found_and_placed() {
        let text = "a = 70000\nb = \"no\"\nc = [\"10.0.0.0\", \"10.0.0.1/8\", 3]\nd = 1\nx = 1\n";
        let reported = with(text, |section| {
            assert_eq!(section.integer("a", 1..=65535, 7), 7);
            assert!(section.boolean("b", true));
            assert_eq!(section.parsed_list::<Ipv4Addr>("c").len(), 1);
            assert_eq!(section.choice("d", &[("one", 1), ("two", 2), ("three", 3)], 2), 2);
            assert!(section.file("missing").is_none());
            section.require("rules", "it has nothing to do");
            let key = |name| Key { name, allowed: "", default: "", help: "" };
            section.refuse_unknown(&["a", "b", "c", "d"].map(key));
        });
        assert_eq!(
            reported,
            [
                "1:1 [nat] needs `rules`: it has nothing to do",
                "1:5 `a` must be a whole number from 1 to 65535, found 70000",
                "2:5 `b` must be true or false, found a string",
                "3:18 `c`: \"10.0.0.1/8\": invalid IPv4 address syntax",
                "3:32 `c` must be a list of strings, found a number",
                "4:5 `d` must be \"one\", \"two\" or \"three\", found 1",
                "5:1 [nat] has no key `x`",
            ]
        );
    }

    #[test]
    fn mistakes_in_entries_of_tables_are_placed() {
        let reported = with("[t]\na = \"x\"\nb = \"y\"\n", |section| {
            for name in ["b", "c"] {
                let mistake = section.mistake_in("t", name, "wrong");
                section.note(mistake);
            }
        });
        assert_eq!(reported, ["3:5 wrong", "0:0 wrong"]);
    }

    #[test]
    fn a_fingerprint_tells_values_and_files_apart() {
        let rules: &[(&str, &str)] = &[("rules", "one"), ("other", "two"), ("same", "one")];
        let of = |text: &str| {
            let source = SourceText::new("chain.toml", text);
            let table = DeTable::parse(&source.text).unwrap();
            let mut mistakes = Diagnostics::default();
            let layer = Layer { source: &source, table: table.get_ref(), span: table.span() };
            let layers = vec![layer];
            let mut section =
                Section::new(layers, "firewall", Folder::Bundled(rules), &mut mistakes);
            let _ = section.file("rules");
            section.fingerprint()
        };
        let base = of("rules = \"rules\"\nlist = [\"1\", 2]\n[t]\na = 1\nb = 2\n");
        let moved = "# a comment\nlist = [ \"1\",2 ]\nrules = 'rules'\n[t]\nb = 2\na = 1\n";
        assert_eq!(of(moved), base);
        let elsewhere =
            "rules = \"rules\"\nlist = [\"1\", 2]\ndevice = \"host\"\n[t]\na = 1\nb = 2\n";
        assert_eq!(of(elsewhere), base, "common keys do not count");
        for other in [
            "rules = \"other\"\nlist = [\"1\", 2]\n[t]\na = 1\nb = 2\n",
            "rules = \"rules\"\nlist = [\"1\", \"2\"]\n[t]\na = 1\nb = 2\n",
            "rules = \"rules\"\nlist = [\"1\", 2]\n[t]\na = 2\nb = 1\n",
            "rules = \"rules\"\nlist = [[\"1\", 2]]\n[t]\na = 1\nb = 2\n",
            "rules = \"rules\"\nlist = [\"1\", 2]\n",
        ] {
            assert_ne!(of(other), base, "{other}");
        }
    }
}
