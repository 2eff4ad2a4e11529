//! Mistakes in files that people write, with everything needed to fix them: file, line, column, the
//! line itself, the allowed values. All mistakes of a file are collected, not only the first.

use core::fmt;
use core::iter::repeat_n;
use core::ops::Range;
use std::collections::BTreeMap;
use std::sync::Arc;

mod deceptive;
mod secret;

pub use deceptive::is_deceptive;
pub(crate) use secret::may_have_keys;

/// Mistakes of one file that are listed; the rest is counted.
pub const LISTED_MAX: usize = 100;
/// Mistakes of one kind that are shown; a line counts the others.
const SHOWN_MAX: usize = 10;
/// Kinds of mistakes that are counted apart.
const KINDS_MAX: usize = 32;

/// A text file that was read, and the name to call it by.
#[derive(Clone, Debug)]
pub struct SourceText {
    /// The name as the user wrote it.
    pub name: Arc<str>,
    /// Its content.
    pub text: Arc<str>,
    /// Whether its parser already removed the keys.
    pub is_cleared: bool,
}

impl SourceText {
    /// A file called `name`.
    pub fn new(name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), text: text.into(), is_cleared: false }
    }

    /// A mistake at bytes `span` of the file.
    pub fn mistake(&self, span: Range<usize>, message: impl Into<String>) -> Diagnostic {
        let at = floor_char(&self.text, span.start);
        let line_start = self.text[..at].rfind('\n').map_or(0, |i| i + 1);
        let line_end = self.text[at..].find('\n').map_or(self.text.len(), |i| at + i);
        let line = 1 + self.text[..line_start].bytes().filter(|&b| b == b'\n').count();
        self.in_line(line, &self.text[line_start..line_end], at - line_start, span.len(), message)
    }

    /// A mistake in line `line` (from 1), which is `text`, at byte `at` of it, `len` bytes long.
    /// For readers of long files, which know the line.
    pub fn in_line(
        &self,
        line: usize,
        text: &str,
        at: usize,
        len: usize,
        message: impl Into<String>,
    ) -> Diagnostic {
        let at = floor_char(text, at);
        let len = len.clamp(1, (text.len() - at).max(1));
        let mut reported = Diagnostic {
            file: Arc::clone(&self.name),
            line,
            column: 1 + text[..at].chars().count(),
            width: text.get(at..at + len).map_or(1, |s| s.chars().count()).max(1),
            source_line: text.trim_end().into(),
            message: message.into(),
            help: None,
            allowed: None,
            is_hidden: false,
            is_cleared: self.is_cleared,
        };
        if secret::is_in(text) {
            reported.hide();
        }
        reported
    }

    /// A mistake of the file as a whole.
    pub fn whole(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            file: Arc::clone(&self.name),
            is_cleared: self.is_cleared,
            ..Diagnostic::bare(message)
        }
    }
}

fn floor_char(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file's name; empty for the command line.
    pub file: Arc<str>,
    /// Line from 1; 0 where the mistake is the whole file's.
    pub line: usize,
    /// Column from 1, in characters.
    pub column: usize,
    /// Characters that are wrong.
    pub width: usize,
    /// The line as it stands.
    pub source_line: Box<str>,
    /// The error, in lower case.
    pub message: String,
    /// The allowed values, if that helps. It quotes no file but the chain's.
    pub help: Option<Box<str>>,
    /// The same for programs, where the message says it in words already.
    pub allowed: Option<Box<str>>,
    /// Whether the line is not shown, as it may have a key.
    pub is_hidden: bool,
    /// See [`SourceText::is_cleared`].
    pub is_cleared: bool,
}

impl Diagnostic {
    /// A mistake without a place.
    pub fn bare(message: impl Into<String>) -> Self {
        Self {
            file: Arc::from(""),
            line: 0,
            column: 0,
            width: 0,
            source_line: Box::default(),
            message: message.into(),
            help: None,
            allowed: None,
            is_hidden: false,
            is_cleared: false,
        }
    }

    /// Removes the file's text, which may be a key: the line, and the message's quotes of it. Help
    /// has none.
    pub fn hide(&mut self) {
        if self.is_cleared {
            return;
        }
        self.source_line = Box::default();
        self.is_hidden = self.line > 0;
        self.message = secret::without_quotes(&self.message);
    }

    /// The message without its quotes of the file.
    fn kind(&self) -> String {
        secret::without_quotes(&self.message).replace("***", "...")
    }

    /// Notes the values that are allowed, which the message has in it.
    #[must_use]
    pub fn allowing(mut self, allowed: impl Into<Box<str>>) -> Self {
        self.allowed = Some(allowed.into());
        self
    }

    /// Says what is allowed, without a word of the file.
    #[must_use]
    pub fn help(mut self, help: impl Into<Box<str>>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, message) = (OneLine(&self.file), OneLine(&self.message));
        match (self.file.is_empty(), self.line) {
            (true, _) => write!(f, "{message}")?,
            (false, 0) => write!(f, "{file}: {message}")?,
            (false, line) if self.is_hidden => {
                write!(f, "{file}:{line}:{}: {message}", self.column)?;
                write!(f, "\n      = the line is not shown, as it may have a key")?;
            }
            (false, line) => {
                write!(f, "{file}:{line}:{}: {message}", self.column)?;
                let shown = Excerpt::of(&self.source_line, self.column);
                let caret = "^".repeat(self.width.min(shown.text.chars().count().max(1)));
                write!(
                    f,
                    "\n{line:>5} | {}\n      | {:>w$}{caret}",
                    shown.text,
                    "",
                    w = shown.column
                )?;
            }
        }
        if let Some(help) = &self.help {
            write!(f, "\n      = {}", OneLine(help))?;
        }
        Ok(())
    }
}

/// Text with control characters written as `\u000a`: a quote of a file must not look like another
/// message.
struct OneLine<'a>(&'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in self.0.split_inclusive(char::is_control) {
            let plain = part.trim_end_matches(char::is_control);
            f.write_str(plain)?;
            part[plain.len()..].chars().try_for_each(|c| write!(f, "\\u{:04x}", u32::from(c)))?;
        }
        Ok(())
    }
}

/// At most 120 characters of a line, around a column.
struct Excerpt {
    text: String,
    /// Characters before the column.
    column: usize,
}

impl Excerpt {
    fn of(line: &str, column: usize) -> Self {
        let before = column.saturating_sub(1);
        let skip = before.saturating_sub(60);
        // A tab would move the caret; control characters would garble a terminal.
        let text = line.chars().skip(skip).take(120);
        let text = text.map(|c| if c.is_control() { ' ' } else { c }).collect();
        Self { text, column: before - skip }
    }
}

/// Mistakes, as they are found.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    more: usize,
    /// How many of `more` are of each kind.
    kinds: BTreeMap<String, usize>,
}

impl Diagnostics {
    /// Notes a mistake.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        let of_file =
            self.list.iter().filter(|d| d.file == diagnostic.file).take(LISTED_MAX).count();
        if of_file < LISTED_MAX {
            self.list.push(diagnostic);
        } else {
            self.more += 1;
            count_kind(&mut self.kinds, &diagnostic.kind(), 1);
        }
    }

    /// Counts so many more that are not listed.
    pub fn count_more(&mut self, count: usize) {
        self.more += count;
    }

    /// Adds those of `other`, and counts what it only counted.
    pub fn extend(&mut self, other: &Self) {
        other.iter().for_each(|reported| self.push(reported.clone()));
        self.more += other.more;
        other.kinds.iter().for_each(|(kind, count)| count_kind(&mut self.kinds, kind, *count));
    }

    /// Hides those of files for which `has_keys` holds ([`Diagnostic::hide`]); asks once for each
    /// file.
    pub fn hide(&mut self, has_keys: impl Fn(&str) -> bool) {
        let mut known: BTreeMap<Arc<str>, bool> = BTreeMap::new();
        for one in self.list.iter_mut().filter(|one| !one.is_cleared) {
            let is_hidden =
                known.entry(Arc::clone(&one.file)).or_insert_with(|| has_keys(&one.file));
            if *is_hidden {
                one.hide();
            }
        }
    }

    /// Sorts those of each file by line and column. Files stay in the order of their first mistake.
    pub fn sort(&mut self) {
        let mut files: Vec<Arc<str>> = Vec::new();
        for one in &self.list {
            if !files.contains(&one.file) {
                files.push(Arc::clone(&one.file));
            }
        }
        let rank = |one: &Diagnostic| files.iter().position(|file| *file == one.file);
        self.list.sort_by_key(|one| (rank(one), one.line, one.column));
    }

    /// How many were found.
    pub fn count(&self) -> usize {
        self.list.len() + self.more
    }

    /// Whether none was found.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The messages of those that are only counted, without their quotes.
    pub fn unlisted(&self) -> impl Iterator<Item = &str> {
        let others = self.more - self.kinds.values().sum::<usize>();
        let kinds = self.kinds.iter();
        let kinds = kinds.flat_map(|(kind, count)| repeat_n(kind.as_str(), *count));
        kinds.chain(repeat_n("other mistakes", others))
    }

    /// Those that are listed.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown: BTreeMap<String, usize> = BTreeMap::new();
        let mut left = self.kinds.clone();
        for (i, diagnostic) in self.list.iter().enumerate() {
            let kind = diagnostic.kind();
            let of_kind = shown.entry(kind.clone()).or_default();
            *of_kind += 1;
            if *of_kind > SHOWN_MAX {
                *left.entry(kind).or_default() += 1;
                continue;
            }
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{diagnostic}")?;
        }
        for (kind, count) in &left {
            write!(f, "\n... and {count} more: {}", OneLine(kind))?;
        }
        match self.more - self.kinds.values().sum::<usize>() {
            0 => Ok(()),
            others => write!(f, "\n... and {others} more"),
        }
    }
}

/// Adds to the count of a kind, unless too many others are counted.
fn count_kind(kinds: &mut BTreeMap<String, usize>, kind: &str, count: usize) {
    if let Some(of_kind) = kinds.get_mut(kind) {
        *of_kind += count;
    } else if kinds.len() < KINDS_MAX {
        kinds.insert(kind.to_owned(), count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_place_line_and_allowed_values() {
        let source = SourceText::new("a.rules", "first\nsecönd bad\n");
        let at = source.text.find("bad").unwrap();
        let reported = source.mistake(at..at + 3, "unknown word").help("one of: good").to_string();
        assert_eq!(
            reported,
            "a.rules:2:8: unknown word\n    2 | secönd bad\n      |        ^^^\n      = one of: \
             good"
        );
    }

    #[test]
    fn any_span_of_any_text_can_be_reported() {
        for text in ["", "\n", "ä", "x\ty\0z\n\n", &"long ".repeat(1000)] {
            let source = SourceText::new("f", text);
            for start in 0..text.len().min(40) + 3 {
                for len in [0, 1, 5, 10_000] {
                    assert!(!source.mistake(start..start + len, "m").to_string().is_empty());
                }
            }
        }
    }

    /// Text of a file can't look like another message.
    #[test]
    fn a_message_has_one_line() {
        let source = SourceText::new("f\n", "x\n");
        let reported = source.mistake(0..1, "a\nerror: b\u{1b}").help("c\r\nd").to_string();
        assert_eq!(
            reported,
            "f\\u000a:1:1: a\\u000aerror: b\\u001b\n    1 | x\n      | ^\n      = c\\u000d\\u000ad"
        );
        assert_eq!(Diagnostic::bare("a\nb").to_string(), "a\\u000ab");
    }

    #[test]
    fn a_long_list_is_counted() {
        let source = SourceText::new("f", "x");
        let mut all = Diagnostics::default();
        (0..LISTED_MAX + 5).for_each(|_| all.push(source.mistake(0..1, "m")));
        assert_eq!(all.count(), LISTED_MAX + 5);
        let others = LISTED_MAX + 5 - SHOWN_MAX;
        assert!(all.to_string().ends_with(&format!("... and {others} more: m")));
        let mut both = all.clone();
        both.extend(&all);
        assert_eq!((both.count(), both.iter().count()), (2 * all.count(), LISTED_MAX));
        assert!(both.to_string().ends_with(&format!("... and {} more: m", 210 - SHOWN_MAX)));
    }

    /// Kinds differ by more than the text that a message quotes.
    #[test]
    fn a_line_counts_each_kind() {
        let source = SourceText::new("f", "x");
        let mut all = Diagnostics::default();
        for number in 0..150 {
            all.push(source.mistake(0..1, format!("`{number}`: not an action")));
            all.push(source.mistake(0..1, format!("`{number}`: out of range")));
        }
        let text = all.to_string();
        let lines =
            "\n... and 140 more: `...`: not an action\n... and 140 more: `...`: out of range";
        assert!(text.ends_with(lines), "{text}");
        assert!(text.contains("`9`: not") && !text.contains("`10`: not"), "{text}");
        (0..KINDS_MAX).for_each(|kind| all.push(source.mistake(0..1, "m".repeat(kind + 1))));
        all.count_more(7);
        assert_eq!(all.count(), 300 + KINDS_MAX + 7);
        assert!(all.to_string().ends_with("\n... and 9 more"), "two kinds too many: {all}");
        let unlisted: Vec<&str> = all.unlisted().collect();
        assert_eq!((unlisted.len(), unlisted[0]), (200 + KINDS_MAX + 7, "`...`: not an action"));
        assert_eq!(unlisted.last(), Some(&"other mistakes"));
    }
}
