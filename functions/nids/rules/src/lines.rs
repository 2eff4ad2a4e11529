//! The lines of a file of rules. Comments and empty lines are skipped, lines that end with `\` are
//! joined with the next, and bytes that are not UTF-8 are kept.
//!
//! Such a byte is a character of its own in the text, from U+10FF80 on; [`raw_byte`] returns it. A
//! file is read once, from front to back, and only the current line is kept.

use std::borrow::Cow;

use super::piece::Fault;
use warpline_config::{Diagnostic, SourceText};

/// Bytes of a rule, its lines put together, that are read.
pub(super) const RULE_BYTES_MAX: usize = 1 << 16;

const RAW: u32 = 0x10_ff00;

/// The byte that a character stands for, if it is one that is not UTF-8.
pub(super) fn raw_byte(c: char) -> Option<u8> {
    (u32::from(c) >= RAW + 0x80).then(|| (u32::from(c) & 0xff) as u8)
}

/// A text without such characters: U+FFFD stands in their place.
pub(super) fn shown(text: &str) -> Cow<'_, str> {
    if text.contains(|c| raw_byte(c).is_some()) {
        Cow::Owned(text.replace(|c| raw_byte(c).is_some(), "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// A line, or several put together.
pub(super) struct Line<'a> {
    pub(super) text: Cow<'a, str>,
    /// Its first line in the file, from 1.
    pub(super) first: u32,
    /// Where in `text` further lines begin, and which they are.
    joints: Vec<(usize, u32)>,
    /// Longer than [`RULE_BYTES_MAX`]: `text` is its beginning.
    pub(super) is_cut: bool,
}

impl Line<'_> {
    /// A mistake in it.
    pub(super) fn mistake(&self, file: &SourceText, fault: Fault) -> Diagnostic {
        let joint = self.joints.partition_point(|(start, _)| *start <= fault.at.start);
        let (start, line) = match joint.checked_sub(1).and_then(|i| self.joints.get(i)) {
            Some(&(start, line)) => (start, line),
            None => (0, self.first),
        };
        let end = self.joints.get(joint).map_or(self.text.len(), |(end, _)| *end);
        let text = self.text.get(start..end).unwrap_or("");
        let mut reported = file.in_line(
            line as usize,
            text,
            fault.at.start - start,
            fault.at.len(),
            fault.message,
        );
        reported.source_line = shown(&reported.source_line).into_owned().into();
        reported.help = fault.help.map(Into::into);
        reported
    }
}

/// The lines of a file.
pub(super) struct Lines<'a> {
    rest: &'a [u8],
    line: u32,
}

impl<'a> Lines<'a> {
    /// The lines of `bytes`, without a byte order mark.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes), line: 0 }
    }

    /// The next line of the file, without its end.
    fn physical(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.iter().position(|b| *b == b'\n').unwrap_or(self.rest.len());
        let line = &self.rest[..end];
        self.rest = self.rest.get(end + 1..).unwrap_or_default();
        self.line += 1;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }

    /// Puts the lines together that follow `start`, which ends with `\`.
    fn joined(&mut self, start: &[u8]) -> Line<'a> {
        let first = self.line;
        let (mut text, mut joints, mut is_cut) = (String::new(), Vec::new(), false);
        let mut part = Some(start);
        while let Some(bytes) = part {
            is_cut |= text.len() + bytes.len() > RULE_BYTES_MAX;
            if !is_cut {
                text.push_str(&decoded(bytes));
            }
            part = self.physical();
            if let Some(next) = part {
                joints.push((text.len(), self.line));
                match continued(next) {
                    Some(next) => part = Some(next),
                    None => {
                        is_cut |= text.len() + next.len() > RULE_BYTES_MAX;
                        text.push_str(&decoded(if is_cut { b"" } else { next }));
                        break;
                    }
                }
            }
            if is_cut {
                joints.clear();
            }
        }
        Line { text: Cow::Owned(text), first, joints, is_cut }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        loop {
            let bytes = self.physical()?;
            match bytes.trim_ascii_start().first() {
                None | Some(b'#' | b';') => {}
                Some(_) => {
                    if let Some(start) = continued(bytes) {
                        return Some(self.joined(start));
                    }
                    let is_cut = bytes.len() > RULE_BYTES_MAX;
                    let text = decoded(&bytes[..bytes.len().min(RULE_BYTES_MAX)]);
                    return Some(Line { text, first: self.line, joints: Vec::new(), is_cut });
                }
            }
        }
    }
}

/// The line without the `\` at its end.
fn continued(line: &[u8]) -> Option<&[u8]> {
    line.trim_ascii_end().strip_suffix(b"\\")
}

/// Bytes as text.
fn decoded(bytes: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(bytes) {
        // A character that could be taken for an encoded byte starts with this.
        Ok(text) if !bytes.contains(&0xf4) => Cow::Borrowed(text),
        _ => {
            let mut text = String::with_capacity(bytes.len());
            let raw = |b: &u8| char::from_u32(RAW + u32::from(*b)).unwrap_or_default();
            for chunk in bytes.utf8_chunks() {
                for c in chunk.valid().chars() {
                    match raw_byte(c) {
                        Some(_) => {
                            text.extend(c.encode_utf8(&mut [0; 4]).as_bytes().iter().map(raw))
                        }
                        None => text.push(c),
                    }
                }
                text.extend(chunk.invalid().iter().map(raw));
            }
            Cow::Owned(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<(String, u32)> {
        Lines::new(bytes).map(|l| (l.text.into_owned(), l.first)).collect()
    }

    #[test]
    fn lines_are_put_together() {
        let text = b"\xef\xbb\xbfone\r\n\r\n# two \\\n  three\\  \r\n# four \\\n\tfive\nsix\\";
        let expected = [("one", 1), ("  three# four \tfive", 4), ("six", 7)];
        assert_eq!(lines(text), expected.map(|(t, n)| (t.to_owned(), n)));
    }

    #[test]
    fn bytes_that_are_not_utf8_come_back() {
        for bytes in [
            &b"a\xe4b"[..],
            b"\xf4\x8f\xbf\xbf",
            b"\xc3\xa4",
            b"\xf4\x8f\xbe\x80\xff",
            b"\xed\xa0\x80",
        ] {
            let text = &lines(bytes)[0].0;
            let mut back = Vec::new();
            for c in text.chars() {
                match raw_byte(c) {
                    Some(byte) => back.push(byte),
                    None => back.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
                }
            }
            assert_eq!(back, bytes);
            assert!(!shown(text).contains(|c| raw_byte(c).is_some()));
        }
    }

    #[test]
    fn mistakes_are_reported_by_line() {
        let file = SourceText::new("a.rules", "");
        let line = Lines::new(b"\nab \\\n  cd ef\\\ngh").next().unwrap();
        assert_eq!(line.text, "ab   cd efgh");
        for (at, place) in [(0, "2:1"), (2, "2:3"), (8, "3:6"), (10, "4:1"), (99, "4:3")] {
            let fault = Fault { at: at..at + 1, message: "m".into(), help: None };
            let reported = line.mistake(&file, fault).to_string();
            assert!(reported.starts_with(&format!("a.rules:{place}: m")), "{reported}");
        }
    }

    #[test]
    fn long_lines_are_cut() {
        let mut bytes = vec![b'x'; RULE_BYTES_MAX + 1];
        let line = Lines::new(&bytes).next().unwrap();
        assert!(line.is_cut && line.text.len() == RULE_BYTES_MAX);
        bytes.extend_from_slice(b"\\\nyy\\\nzz\nnext");
        let cut: Vec<_> = Lines::new(&bytes).map(|l| (l.is_cut, l.text.len(), l.first)).collect();
        assert_eq!(cut, [(true, 0, 1), (false, 4, 4)]);
    }
}
