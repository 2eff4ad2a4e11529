//! The words of a line, with their places, and what is wrong with one.

use core::net::IpAddr;

use warpline_config::{Diagnostic, SourceText};

/// A word of a line.
#[derive(Clone, Copy, Debug)]
pub struct Word<'a> {
    /// The word.
    pub text: &'a str,
    /// Where it begins in the line, in bytes.
    at: usize,
    /// Whether it stood in quotes, and so is no keyword.
    pub quoted: bool,
}

impl<'a> Word<'a> {
    /// A word at byte `at` of a line.
    pub fn new(text: &'a str, at: usize) -> Self {
        Self { text, at, quoted: false }
    }

    /// A word that stood in quotes.
    pub fn quoted(text: &'a str, at: usize) -> Self {
        Self { text, at, quoted: true }
    }

    /// A part of the word, reported at the word's place.
    pub fn with(self, text: &'a str) -> Self {
        Self { text, ..self }
    }

    /// The parts of the word between `separator`s.
    pub fn split(self, separator: char) -> impl Iterator<Item = Self> {
        let mut at = self.at;
        self.text.split(separator).map(move |text| {
            let part = Self { text, at, ..self };
            at += text.len() + separator.len_utf8();
            part
        })
    }

    /// The word is a mistake.
    pub fn wrong(&self, message: impl Into<String>) -> Trouble {
        let what = if self.text.is_empty() {
            message.into()
        } else {
            format!("`{}`: {}", self.shown(), message.into())
        };
        let len = self.text.len();
        Trouble { at: self.at, len, message: what, help: None, unsupported: false }
    }

    /// The word asks for what there isn't.
    pub fn unsupported(&self, message: impl Into<String>) -> Trouble {
        Trouble { unsupported: true, ..self.wrong(format!("not supported: {}", message.into())) }
    }

    fn shown(&self) -> String {
        self.text.chars().take(40).map(|c| if c.is_control() { ' ' } else { c }).collect()
    }
}

/// A mistake in a line.
#[derive(Clone, Debug)]
pub struct Trouble {
    at: usize,
    len: usize,
    message: String,
    help: Option<String>,
    /// Whether the line is valid but asks for something unsupported.
    pub unsupported: bool,
}

impl Trouble {
    /// Adds a hint at the allowed values.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds the number of further cases of the kind in the same rule.
    pub fn and_more(mut self, count: usize) -> Self {
        if count > 0 {
            self.message += &format!(" (and {count} more in this rule)");
        }
        self
    }

    /// The mistake in line `number`, which reads `text`.
    pub fn diagnostic(self, source: &SourceText, number: usize, text: &str) -> Diagnostic {
        let messages = source.in_line(number, text, self.at, self.len, self.message);
        match self.help {
            Some(help) => messages.help(help),
            None => messages,
        }
    }
}

/// Iterates over the words of a line. Blanks separate words, and blanks may follow a comma.
#[derive(Debug)]
pub struct Cursor<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// At the start of `line`.
    pub fn new(line: &'a str) -> Self {
        Self { line, at: 0 }
    }

    /// The next word, which stays.
    pub fn peek(&self) -> Option<Word<'a>> {
        let rest = &self.line[self.at..];
        let text = rest.trim_start();
        let at = self.at + rest.len() - text.len();
        let text = text.split_whitespace().next()?;
        Some(Word::new(text, at))
    }

    /// The next word.
    pub fn next_word(&mut self) -> Option<Word<'a>> {
        let word = self.peek()?;
        self.at = word.at + word.text.len();
        Some(word)
    }

    /// Whether the next word is `text`; if so it is taken.
    pub fn take(&mut self, text: &str) -> bool {
        let found = self.peek().is_some_and(|word| word.text == text);
        if found {
            self.next_word();
        }
        found
    }

    /// The next word; the line's end is a mistake.
    pub fn need(&mut self, what: &str) -> Result<Word<'a>, Trouble> {
        self.next_word()
            .ok_or_else(|| self.end().wrong(format!("the line ends where {what} is due")))
    }

    /// The place after the last word.
    pub fn end(&self) -> Word<'a> {
        Word::new("", self.line.trim_end().len())
    }

    /// The whole line.
    pub fn whole(&self) -> WordSpan {
        let text = self.line.trim();
        let at = self.line.len() - self.line.trim_start().len();
        WordSpan { at, len: text.len() }
    }

    /// One or more of `what`, with commas between them.
    pub fn list<T>(
        &mut self,
        what: &str,
        one: impl Fn(Word<'a>) -> Result<T, Trouble>,
    ) -> Result<Vec<T>, Trouble> {
        let mut list = Vec::new();
        loop {
            let word = self.need(what)?;
            let (mut at, mut comma) = (word.at, false);
            for text in word.text.split(',') {
                comma = text.is_empty();
                if !comma {
                    list.push(one(Word::new(text, at))?);
                } else if at + 1 < word.at + word.text.len() || at == word.at {
                    return Err(Word::new(",", at).wrong(format!("{what} is missing here")));
                }
                at += text.len() + 1;
            }
            if !comma {
                return Ok(list);
            }
        }
    }
}

/// A stretch of a line.
#[derive(Clone, Copy, Debug)]
pub struct WordSpan {
    at: usize,
    len: usize,
}

impl WordSpan {
    /// The stretch is a mistake.
    pub fn wrong(self, message: impl Into<String>) -> Trouble {
        let Self { at, len } = self;
        Trouble { at, len, message: message.into(), help: None, unsupported: false }
    }

    /// The stretch asks for what there isn't.
    pub fn unsupported(self, message: &str) -> Trouble {
        Trouble { unsupported: true, ..self.wrong(format!("not supported: {message}")) }
    }
}

/// Whether an address means something on its link only.
pub fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// A word as messages quote it.
pub fn shorten(word: &str) -> String {
    if word.chars().count() <= 40 {
        return word.into();
    }
    word.chars().take(37).chain("...".chars()).collect()
}
