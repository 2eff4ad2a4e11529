//! The search for one literal: [`Searcher`].

use core::ops::Range;
use std::sync::Arc;

use memchr::memmem::{self, Finder};
use memchr::{memchr, memchr2};

/// A literal, ready to be searched for.
#[derive(Clone, Debug)]
pub(super) struct Searcher {
    needle: Arc<[u8]>,
    how: How,
}

#[derive(Clone, Debug)]
enum How {
    Exact(Box<Finder<'static>>),
    /// Letters of ASCII match in either case. The byte at `rarest` is looked for, then the rest
    /// compared.
    Caseless {
        rarest: usize,
    },
}

impl Searcher {
    pub(super) fn new(needle: &Arc<[u8]>, is_nocase: bool) -> Self {
        let has_letters = needle.iter().any(u8::is_ascii_alphabetic);
        let how = if is_nocase && has_letters {
            How::Caseless { rarest: rarest(needle) }
        } else {
            How::Exact(Box::new(Finder::new(needle).into_owned()))
        };
        Self { needle: needle.clone(), how }
    }

    /// Bytes of the literal.
    pub(super) fn len(&self) -> usize {
        self.needle.len()
    }

    /// Where it is first found whole within `window` of `bytes`.
    pub(super) fn find(&self, bytes: &[u8], window: Range<usize>) -> Option<usize> {
        let start = window.start;
        let window = bytes.get(window)?;
        let found = match &self.how {
            How::Exact(finder) => finder.find(window),
            How::Caseless { rarest } => find_caseless(&self.needle, *rarest, window),
        };
        found.map(|at| start + at)
    }

    /// Whether it stands at `at`.
    pub(super) fn is_at(&self, bytes: &[u8], at: usize) -> bool {
        let Some(found) = bytes.get(at..).and_then(|rest| rest.get(..self.len())) else {
            return false;
        };
        match self.how {
            How::Exact(_) => *found == *self.needle,
            How::Caseless { .. } => found.eq_ignore_ascii_case(&self.needle),
        }
    }
}

/// Whether the literal is in `bytes`, for one search only.
pub(crate) fn contains(bytes: &[u8], needle: &[u8], is_nocase: bool) -> bool {
    match is_nocase {
        true => find_caseless(needle, rarest(needle), bytes).is_some(),
        false => memmem::find(bytes, needle).is_some(),
    }
}

/// The place of the byte that payloads have least often.
fn rarest(needle: &[u8]) -> usize {
    (0..needle.len()).min_by_key(|&at| commonness(needle[at])).unwrap_or(0)
}

fn find_caseless(needle: &[u8], rarest: usize, window: &[u8]) -> Option<usize> {
    let byte = *needle.get(rarest)?;
    let last = window.len().checked_sub(needle.len())?;
    let mut at = 0;
    while at <= last {
        // A byte that is too near to either end for the whole to fit is not looked for.
        at += find_byte(byte, window.get(at + rarest..=last + rarest)?)?;
        if window[at..at + needle.len()].eq_ignore_ascii_case(needle) {
            return Some(at);
        }
        at += 1;
    }
    None
}

fn find_byte(byte: u8, bytes: &[u8]) -> Option<usize> {
    let (lower, upper) = (byte.to_ascii_lowercase(), byte.to_ascii_uppercase());
    if lower == upper { memchr(byte, bytes) } else { memchr2(lower, upper, bytes) }
}

/// About how often a byte occurs in payloads: letters by their frequency in English, in both cases.
fn commonness(byte: u8) -> u8 {
    const LETTERS: &[u8] = b"zqjxkvbywgpfmucdlhrsnioate";
    match byte {
        0 | b' ' => 60,
        0xff | b'/' | b'.' | b'=' | b'\n' | b'\r' => 40,
        b'0'..=b'9' => 30,
        _ => match LETTERS.iter().position(|letter| *letter == byte.to_ascii_lowercase()) {
            Some(rank) => 20 + rank as u8,
            None => 10,
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn literals_are_found_where_a_plain_comparison_finds_them(
            bytes in proptest::collection::vec(prop::sample::select(b"aAbB\0/".to_vec()), 0..80),
            needle in proptest::collection::vec(prop::sample::select(b"aAb\0".to_vec()), 1..5),
            is_nocase: bool,
        ) {
            let is_same = |place: &[u8]| match is_nocase {
                true => place.eq_ignore_ascii_case(&needle),
                false => place == needle,
            };
            let first = bytes.windows(needle.len()).position(is_same);
            prop_assert_eq!(contains(&bytes, &needle, is_nocase), first.is_some());
            let searcher = Searcher::new(&needle.clone().into(), is_nocase);
            prop_assert_eq!(searcher.find(&bytes, 0..bytes.len()), first);
        }
    }
}
