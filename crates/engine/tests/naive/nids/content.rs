//! Contents of a rule, as Suricata's manual has them ("Payload Keywords"): every choice of places
//! is tried.

use std::fmt::{self, Write};

/// A pattern to search for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_negated: bool,
    pub(crate) is_nocase: bool,
    pub(crate) offset: Option<usize>,
    pub(crate) depth: Option<usize>,
    /// Counted from the end of the match before.
    pub(crate) distance: Option<i64>,
    pub(crate) within: Option<i64>,
    pub(crate) starts: bool,
    pub(crate) ends: bool,
    /// Written in hexadecimal.
    pub(crate) is_hex: bool,
    /// Says by which content the rule is found, and changes nothing.
    pub(crate) is_fast: bool,
}

/// Whether a payload holds all of `contents` in the required places. An empty payload holds none.
pub(crate) fn hold(contents: &[Content], payload: &[u8]) -> bool {
    contents.is_empty() || (!payload.is_empty() && holds_from(contents, payload, 0))
}

/// Whether it does when the match before ended at `last`.
fn holds_from(contents: &[Content], payload: &[u8], last: usize) -> bool {
    let Some((content, rest)) = contents.split_first() else { return true };
    let mut ends = (content.bytes.len()..=payload.len())
        .filter(|&end| content.is_at(payload, end - content.bytes.len(), last));
    match content.is_negated {
        true => ends.next().is_none() && holds_from(rest, payload, last),
        false => ends.any(|end| holds_from(rest, payload, end)),
    }
}

impl Content {
    pub(crate) fn is_relative(&self) -> bool {
        self.distance.is_some() || self.within.is_some()
    }

    /// Whether it is found at `at`, and may be there.
    fn is_at(&self, payload: &[u8], at: usize, last: usize) -> bool {
        let end = at + self.bytes.len();
        let found = &payload[at..end];
        let is_equal = match self.is_nocase {
            true => found.eq_ignore_ascii_case(&self.bytes),
            false => found == self.bytes,
        };
        let offset = self.offset.unwrap_or(0);
        let base = last as i64 + self.distance.unwrap_or(0);
        is_equal
            && at >= offset
            && self.depth.is_none_or(|depth| end <= offset + depth)
            && (!self.is_relative() || at as i64 >= base)
            && self.within.is_none_or(|within| end as i64 <= base + within)
            && (!self.starts || at == 0)
            && (!self.ends || end == payload.len())
    }
}

/// As a rule has it.
impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for (at, &byte) in self.bytes.iter().enumerate() {
            let plain = byte.is_ascii_alphanumeric() && !(self.is_hex && at % 2 == 0);
            match plain {
                true => text.push(byte.into()),
                false => write!(text, "|{byte:02x}|")?,
            }
        }
        write!(f, "content:{}\"{text}\";", if self.is_negated { "!" } else { "" })?;
        let flags = [
            ("nocase", self.is_nocase),
            ("startswith", self.starts),
            ("endswith", self.ends),
            ("fast_pattern", self.is_fast),
        ];
        for (name, _) in flags.iter().filter(|(_, is_set)| *is_set) {
            write!(f, " {name};")?;
        }
        let places = [
            ("offset", self.offset.map(|offset| offset as i64)),
            ("depth", self.depth.map(|depth| depth as i64)),
            ("distance", self.distance),
            ("within", self.within),
        ];
        for (name, place) in places.iter().filter_map(|(name, place)| Some((name, (*place)?))) {
            write!(f, " {name}:{place};")?;
        }
        Ok(())
    }
}
