//! Where a literal may lie across the seam of two segments: [`Seams`].
//!
//! What lies across a seam holds one of the three stretches of four bytes that do; if it is shorter, it is the stretch.
//! A bit for each two bytes in a row, then some for each hash of four, in any literal, say of most seams that nothing
//! lies across, in one look or four instead of a scan. Text has many of these four bytes by chance. Then a literal that lies across begins
//! and ends within the run of such stretches, and has its first four bytes and its last four there, which is seldom so.

use core::ops::Range;

use crate::nids::matcher::Pattern;

/// See the module. Letters are folded.
pub(super) struct Seams {
    /// A bit for each two bytes in a row that are in a literal: small enough to stay in a core's first cache.
    pairs: Box<[u64; PAIRS / 64]>,
    /// Stretches of four bytes, and literals of two and of three.
    parts: Bits,
    /// The first and the last four bytes of literals.
    firsts: Bits,
    lasts: Bits,
    /// Whether there are literals of two and of three bytes.
    has_short: [bool; 2],
    /// Bytes of the longest literal.
    len_max: usize,
}

/// A set of hashes of up to four bytes: three bits of one word for each (a Bloom filter in blocks of a word).
struct Bits {
    /// A power of two of them.
    words: Box<[u64]>,
}

/// Bits for each different stretch, at least.
const SPARSE: usize = 8;
/// Bits for each different stretch that literals begin or end with, at least.
const SPARSE_ENDS: usize = 16;
/// Bytes of a stretch.
const PART_LEN: usize = 4;
/// Two bytes in a row that there may be.
const PAIRS: usize = 1 << 16;

impl Seams {
    pub(super) fn new(patterns: &[Pattern]) -> Self {
        let literals = || patterns.iter().map(|pattern| &*pattern.bytes);
        let parts = literals()
            .flat_map(|literal| literal.windows(literal.len().clamp(2, PART_LEN)).map(number));
        let firsts =
            literals().filter_map(|literal| Some(number(literal.first_chunk::<PART_LEN>()?)));
        let lasts =
            literals().filter_map(|literal| Some(number(literal.last_chunk::<PART_LEN>()?)));
        let mut pairs = Box::new([0; PAIRS / 64]);
        for pair in literals().flat_map(|literal| literal.windows(2).map(number)) {
            pairs[pair as usize / 64] |= 1 << (pair % 64);
        }
        Self {
            pairs,
            parts: Bits::new(parts.collect(), SPARSE),
            firsts: Bits::new(firsts.collect(), SPARSE_ENDS),
            lasts: Bits::new(lasts.collect(), SPARSE_ENDS),
            has_short: [2, 3].map(|short| literals().any(|literal| literal.len() == short)),
            len_max: literals().map(<[u8]>::len).max().unwrap_or(0),
        }
    }

    /// The part of `bytes` that holds every literal which begins before place `border` and ends behind it; `None` where
    /// there is none.
    #[inline]
    pub(super) fn spanning(&self, bytes: &[u8], border: usize) -> Option<Range<usize>> {
        let around = border.checked_sub(PART_LEN - 1).and_then(|start| bytes.get(start..));
        let Some(&[a, b, c, d, e, f]) = around.and_then(|bytes| bytes.first_chunk()) else {
            return self.spanning_at_edge(bytes, border);
        };
        let all = fold(u64::from_be_bytes([0, 0, a, b, c, d, e, f]));
        let pair = (all >> 16) as usize & (PAIRS - 1);
        if self.pairs[pair / 64] >> (pair % 64) & 1 == 0 {
            return None;
        }
        let has = |shift: u32, mask: u32| self.parts.has((all >> shift) as u32 & mask);
        let across = [has(16, u32::MAX), has(8, u32::MAX), has(0, u32::MAX)];
        let long = match across {
            [false, false, false] => None,
            _ if self.is_any(all, across) => self.spanning_long(bytes, border),
            _ => None,
        };
        let [has_pairs, has_triples] = self.has_short;
        let is_short = (has_triples && (has(8, 0xff_ffff) || has(16, 0xff_ffff)))
            || (has_pairs && has(16, 0xffff));
        if !is_short {
            return long;
        }
        let (start, end) = (border - 2, border + 2);
        Some(long.map_or(start..end, |long| long.start.min(start)..long.end.max(end)))
    }

    /// The same where there are less than three bytes on a side.
    fn spanning_at_edge(&self, bytes: &[u8], border: usize) -> Option<Range<usize>> {
        let stretches = (2..=PART_LEN).flat_map(|len| (1..len).map(move |before| (before, len)));
        let mut parts = stretches.filter_map(|(before, len)| {
            let start = border.checked_sub(before)?;
            bytes.get(start..start + len)
        });
        let start = (border + 1).saturating_sub(self.len_max);
        let end = bytes.len().min(border + self.len_max);
        parts.any(|part| self.parts.has(number(part))).then_some(start..end)
    }

    /// Whether something of four bytes or more may lie across the middle of six bytes, of whose three stretches it is known
    /// whether each is in some literal. What has three bytes on both sides holds all of them; what has less on one begins or
    /// ends with one.
    #[inline]
    fn is_any(&self, all: u64, across: [bool; 3]) -> bool {
        let begins = |at: usize| across[at] && self.firsts.has((all >> (16 - 8 * at)) as u32);
        let ends = |at: usize| across[at] && self.lasts.has((all >> (16 - 8 * at)) as u32);
        across == [true; 3] || begins(1) || begins(2) || ends(0) || ends(1)
    }

    /// Where what has four bytes or more may lie, at three bytes of each side or more: from the farthest place where one may begin,
    /// all of whose stretches up to the border are in some literal, to the farthest where one may end.
    fn spanning_long(&self, bytes: &[u8], border: usize) -> Option<Range<usize>> {
        let stretch = |at: usize| {
            let part = bytes.get(at..).and_then(|bytes| bytes.first_chunk::<PART_LEN>());
            part.map(|part| fold(u32::from_be_bytes(*part).into()) as u32)
        };
        let is_part = |part: &u32| self.parts.has(*part);
        let (mut begin, mut end) = (None, None);
        for at in (0..border).rev().take(self.len_max) {
            match stretch(at).filter(is_part) {
                Some(part) if self.firsts.has(part) => begin = Some(at),
                // What begins before has this one in it.
                None if at + PART_LEN <= border + 1 => break,
                _ => {}
            }
        }
        let begin = begin?;
        for at in (border + 1 - PART_LEN..bytes.len()).take(self.len_max) {
            match stretch(at).filter(is_part) {
                Some(part) if self.lasts.has(part) => end = Some(at),
                None if at + 1 >= border => break,
                _ => {}
            }
        }
        end.filter(|&end| begin <= end).map(|end| begin..end + PART_LEN)
    }

    pub(super) fn memory_len(&self) -> usize {
        let bits = [&self.parts, &self.firsts, &self.lasts].map(|bits| bits.words.len());
        8 * (self.pairs.len() + bits.iter().sum::<usize>())
    }
}

impl Bits {
    /// Of these, with at least so many bits for each different one.
    fn new(mut parts: Vec<u32>, sparse: usize) -> Self {
        parts.sort_unstable();
        parts.dedup();
        let len = (parts.len() * sparse).div_ceil(64).next_power_of_two();
        let mut bits = Self { words: vec![0; len].into() };
        for part in parts {
            let (word, own) = bits.place(part);
            bits.words[word] |= own;
        }
        bits
    }

    #[inline(always)]
    fn has(&self, part: u32) -> bool {
        let (word, bits) = self.place(part);
        self.words[word] & bits == bits
    }

    /// The word of a part, and its bits there.
    #[inline(always)]
    fn place(&self, part: u32) -> (usize, u64) {
        // The upper half of the product hangs on all bytes of the part; its lowest bits say which word.
        let hash = u64::from(part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bits = 1 << (hash >> 58) | 1 << (hash >> 52 & 63) | 1 << (hash >> 46 & 63);
        ((hash >> 26) as usize & (self.words.len() - 1), bits)
    }
}

/// Up to four bytes as one number, letters folded.
fn number(part: &[u8]) -> u32 {
    fold(part.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte))) as u32
}

/// Eight bytes at once, capital letters made small.
#[inline]
fn fold(bytes: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // Of the lower seven bits, the eighth then says whether they are `A` or more, and more than `Z`.
    let low = bytes & (0x7f * EACH);
    let from_a = low + (0x80 - b'A' as u64) * EACH;
    let behind_z = low + (0x7f - b'Z' as u64) * EACH;
    bytes | (from_a & !behind_z & !bytes & (0x80 * EACH)) >> 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Few letters, so that much lies across.
        #[test]
        fn nothing_that_lies_across_is_ruled_out(
            literals in prop::collection::vec("[ab]{1,9}", 1..4),
            text in "[abAB]{0,30}",
        ) {
            let literals: Vec<&str> = literals.iter().map(String::as_str).collect();
            let (seams, text) = (seams(&literals), text.as_bytes());
            for (literal, border) in literals.iter().flat_map(|l| (0..=text.len()).map(move |b| (l, b))) {
                let spans = |start: usize| {
                    start + literal.len() > border
                        && text[start..].get(..literal.len()).is_some_and(|found| {
                            found.eq_ignore_ascii_case(literal.as_bytes())
                        })
                };
                let found = seams.spanning(text, border).unwrap_or(0..0);
                for start in (0..border).filter(|&start| spans(start)) {
                    let is_in = found.start <= start && start + literal.len() <= found.end;
                    prop_assert!(is_in, "{} at {}, {}: {:?}", literal, start, border, found);
                }
            }
        }
    }

    fn seams(literals: &[&str]) -> Seams {
        let pattern = |text: &&str| Pattern { bytes: text.as_bytes().into(), is_nocase: true };
        Seams::new(&literals.iter().map(pattern).collect::<Vec<_>>())
    }

    #[test]
    fn whatever_lies_across_is_not_ruled_out() {
        let literals = ["abcde", "XYZ", "q", "0123456789", "p.", "four"];
        let seams = seams(&literals);
        for literal in literals {
            for (before, behind) in [("", ""), ("--", "--"), ("a", "z"), ("abc", "")] {
                let bytes = format!("{before}{}{behind}", literal.to_ascii_uppercase());
                for border in before.len() + 1..before.len() + literal.len() {
                    assert!(seams.spanning(bytes.as_bytes(), border).is_some(), "{bytes} {border}");
                }
            }
        }
    }

    #[test]
    fn most_else_is() {
        let one = seams(&["abcde", "x"]);
        let bytes: Vec<u8> = (0..=255).rev().collect();
        let left = (0..=256).filter(|&border| one.spanning(&bytes, border).is_some()).count();
        assert!(left < 40, "{left}");
        assert!(seams(&[]).spanning(b"abcd", 2).is_none());
    }

    #[test]
    fn a_part_of_a_literal_is_not_enough() {
        let seams = seams(&["attention", "nation", "four"]);
        assert_eq!(seams.spanning(b"a mention of", 6), None);
        assert_eq!(seams.spanning(b"of attentive", 7), None);
        assert_eq!(seams.spanning(b"a nation of", 5), Some(2..8));
        assert_eq!(seams.spanning(b"of AttenTion", 7), Some(3..12));
    }

    #[test]
    fn folds_as_one_byte_at_a_time() {
        for byte in 0..=u8::MAX {
            let bytes = [byte, b'Z', 0x80, byte, b'@', b'[', 0xff, byte];
            assert_eq!(
                fold(u64::from_be_bytes(bytes)).to_be_bytes(),
                bytes.map(|b| b.to_ascii_lowercase())
            );
        }
    }
}
