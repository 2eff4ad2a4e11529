//! A part of a rule's text with its position, and the reason why a rule cannot be applied.

use core::ops::Range;

use super::need::Need;

/// Why a rule is not applied.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Refusal {
    /// It is invalid.
    Broken(Box<Fault>),
    /// It needs an unsupported feature.
    Held(Need),
    /// Its own `requires` excludes this program, for this reason.
    Skipped(String),
}

/// A fault in a rule, with its position.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fault {
    /// Bytes of the rule's text.
    pub(super) at: Range<usize>,
    pub(super) message: String,
    /// The allowed values, if that helps.
    pub(super) help: Option<String>,
}

/// The result of parsing.
pub(super) type Read<T> = Result<T, Refusal>;

/// A stretch of a rule's text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    pub(super) text: &'a str,
    /// Its first byte in the text of the rule.
    pub(super) at: usize,
}

impl<'a> Piece<'a> {
    /// All of a text.
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Bytes `range` of it, which lie between characters.
    pub(super) fn part(self, range: Range<usize>) -> Self {
        Self { text: self.text.get(range.clone()).unwrap_or(""), at: self.at + range.start }
    }

    /// The text from byte `from` on.
    pub(super) fn behind(self, from: usize) -> Self {
        self.part(from..self.text.len())
    }

    /// Without the space around it.
    pub(super) fn trim(self) -> Self {
        let text = self.text.trim_start();
        Self { text: text.trim_end(), at: self.at + (self.text.len() - text.len()) }
    }

    pub(super) fn is_empty(self) -> bool {
        self.text.is_empty()
    }

    pub(super) fn starts_with(self, start: char) -> bool {
        self.text.starts_with(start)
    }

    /// The text after `start`, trimmed, if it begins with `start`.
    pub(super) fn strip(self, start: &str) -> Option<Self> {
        self.text.starts_with(start).then(|| self.behind(start.len()).trim())
    }

    /// Both sides of the first `mark`, trimmed.
    pub(super) fn split_once(self, mark: &str) -> Option<(Self, Self)> {
        let at = self.text.find(mark)?;
        Some((self.part(0..at).trim(), self.behind(at + mark.len()).trim()))
    }

    /// The parts between commas, trimmed.
    pub(super) fn list(self) -> impl Iterator<Item = Self> {
        let mut at = 0;
        self.text.split(',').map(move |text| {
            let start = at;
            at += text.len() + 1;
            self.part(start..start + text.len()).trim()
        })
    }

    /// Its first word, and what follows, trimmed.
    pub(super) fn word(self) -> (Self, Self) {
        let piece = self.trim();
        let end = piece.text.find(char::is_whitespace).unwrap_or(piece.text.len());
        (piece.part(0..end), piece.behind(end).trim())
    }

    /// A refusal as invalid, with the reason in `message`.
    pub(super) fn broken(self, message: impl Into<String>) -> Refusal {
        self.fault(message.into(), None)
    }

    /// A refusal as invalid, with the allowed values in `help`.
    pub(super) fn expected(self, message: impl Into<String>, help: impl Into<String>) -> Refusal {
        self.fault(message.into(), Some(help.into()))
    }

    /// Where it stands in the text of the rule.
    pub(super) fn place(self) -> Range<usize> {
        self.at..self.at + self.text.len()
    }

    fn fault(self, message: String, help: Option<String>) -> Refusal {
        Refusal::Broken(Box::new(Fault { at: self.place(), message, help }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_know_where_they_stand() {
        let text = Piece::new("  ab , cd=e ,, f ");
        let list: Vec<_> = text.list().map(|p| (p.text, p.at)).collect();
        assert_eq!(list, [("ab", 2), ("cd=e", 7), ("", 13), ("f", 15)]);
        let (left, right) = text.behind(7).split_once("=").unwrap();
        assert_eq!((left.text, left.at, right.text, right.at), ("cd", 7, "e ,, f", 10));
        let (word, rest) = text.word();
        assert_eq!((word.text, word.at, rest.text, rest.at), ("ab", 2, ", cd=e ,, f", 5));
        assert_eq!(Piece::new("! x").strip("!").map(|p| (p.text, p.at)), Some(("x", 2)));
    }
}
