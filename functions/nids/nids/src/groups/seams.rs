//! Where a literal may lie across the seam of two segments: [`Seams`].
//!
//! A literal across a seam contains one of the three four-byte stretches that cross it. A shorter
//! literal is such a stretch itself. Two filters hold the stretches of all literals: a bit for each
//! two bytes in a row, and some bits for each hash of four. They rule out most seams with one
//! look-up or four instead of a scan. Text often has such four bytes by chance, and such six bytes
//! less often. A literal across the seam lies within the run of such stretches, with its first four
//! bytes and its last four. This is rare by chance.

use core::ops::Range;

use warpline_search::Pattern;

/// See the module. Letters are folded.
pub(super) struct Seams {
    /// A bit for each two bytes in a row that are in a literal: small enough to stay in a core's
    /// first cache.
    pairs: Pairs,
    /// Stretches of four bytes, and literals of two and of three.
    parts: Parts,
    /// Stretches of six bytes.
    sixes: Parts,
    /// Literals of two bytes, of three; nothing where there are none.
    shorts: [Option<Pairs>; 2],
    /// Bytes of the longest literal.
    len_max: usize,
}

/// A bit for each two bytes in a row.
struct Pairs(Box<[u64; PAIRS / 64]>);

/// A set of stretches of four bytes, of fewer or of six, with those that literals begin or end
/// with. It is a Bloom filter in blocks of a word: a stretch sets three bits of one word, and the
/// same bits rotated for each end. So one look-up returns all facts.
struct Parts {
    words: Box<[u64]>,
}

/// The facts about a stretch, as far as a filter has them.
#[derive(Clone, Copy, Default)]
struct StretchFacts {
    /// Whether it is in some literal.
    is_in: bool,
    /// Whether one begins with it.
    begins: bool,
    /// Whether one ends with it.
    ends: bool,
}

/// Bits for each different stretch.
const SPARSE: usize = 12;
/// By how much a stretch's bits are turned where a literal begins with it, and where one ends with
/// it.
const BEGINS: u32 = 21;
const ENDS: u32 = 42;
/// Bytes of a stretch.
const PART_LEN: usize = 4;
/// Bytes of a longer one.
const SIX_LEN: usize = 6;
/// Bytes before a seam, of the eight around it that are looked at first.
const BEFORE: usize = PART_LEN - 1;
/// Two bytes in a row that there may be.
const PAIRS: usize = 1 << 16;

impl Seams {
    pub(super) fn new(patterns: &[Pattern]) -> Self {
        let literals = || patterns.iter().map(|pattern| &*pattern.bytes);
        let parts = literals()
            .flat_map(|literal| literal.windows(literal.len().clamp(2, PART_LEN)).map(number));
        let mut parts = Parts::new(parts.collect());
        for literal in literals() {
            let (first, last) =
                (literal.first_chunk::<PART_LEN>(), literal.last_chunk::<PART_LEN>());
            first.into_iter().for_each(|part| parts.add(number(part), BEGINS));
            last.into_iter().for_each(|part| parts.add(number(part), ENDS));
        }
        let sixes = literals().flat_map(|literal| literal.windows(SIX_LEN).map(number));
        let shorts = [2, 3].map(|len| {
            let mut shorts = literals().filter(|literal| literal.len() == len).peekable();
            shorts.peek()?;
            Some(Pairs::new(shorts.map(|short| short_hash(number(short)))))
        });
        Self {
            pairs: Pairs::new(literals().flat_map(|literal| literal.windows(2).map(number))),
            parts,
            sixes: Parts::new(sixes.collect()),
            shorts,
            len_max: literals().map(<[u8]>::len).max().unwrap_or(0),
        }
    }

    /// The part of `bytes` that holds every literal which begins before place `border` and ends
    /// after it; `None` if there is none.
    #[inline]
    pub(super) fn spanning(&self, bytes: &[u8], border: usize) -> Option<Range<usize>> {
        let around = border.checked_sub(BEFORE).and_then(|start| bytes.get(start..));
        let Some(eight) = around.and_then(|bytes| bytes.first_chunk()) else {
            return self.spanning_at_edge(bytes, border);
        };
        let (is_long, is_short) = self.look(u64::from_be_bytes(*eight));
        let long = if is_long { self.spanning_long(bytes, border) } else { None };
        if !is_short {
            return long;
        }
        let (start, end) = (border - 2, border + 2);
        Some(long.map_or(start..end, |long| long.start.min(start)..long.end.max(end)))
    }

    /// Whether a literal may lie across the border after the first [`BEFORE`] of eight bytes.
    #[inline]
    pub(super) fn may_span(&self, eight: u64) -> bool {
        let (is_long, is_short) = self.look(eight);
        is_long | is_short
    }

    /// Whether a literal of four bytes or more may lie there, and whether a shorter one may.
    #[inline(always)]
    fn look(&self, eight: u64) -> (bool, bool) {
        let all = Eight(fold(eight));
        let middle = all.stretch(2, 2);
        if !self.pairs.has(middle) {
            return (false, false);
        }
        let [pairs, triples] = &self.shorts;
        let is_pair = pairs.as_ref().is_some_and(|all_of| all_of.has(short_hash(middle)));
        let is_triple = triples.as_ref().is_some_and(|all_of| {
            all_of.has(short_hash(all.stretch(1, 3))) | all_of.has(short_hash(all.stretch(2, 3)))
        });
        (self.may_touch(all), is_pair | is_triple)
    }

    /// Whether a literal of four bytes or more may lie there. It begins one or two bytes before the
    /// border, ends one or two after it, or else holds the first six.
    #[inline(always)]
    fn may_touch(&self, all: Eight) -> bool {
        let [before, middle, behind] = [self.part(all, 0), self.part(all, 1), self.part(all, 2)];
        before.ends
            || (middle.ends & (before.is_in | middle.begins))
            || (middle.begins && self.goes_on(all, 1, middle, behind))
            || (behind.begins && self.goes_on(all, 2, behind, self.part(all, 3)))
            || (before.is_in & middle.is_in & behind.is_in && self.has_six(all, 0))
    }

    /// Whether what begins with the four bytes from one of eight on may be there as far as these
    /// go: it is no longer than they are, ends with the `next` four, or has its first six there.
    #[inline(always)]
    fn goes_on(&self, all: Eight, at: usize, first: StretchFacts, next: StretchFacts) -> bool {
        first.ends || next.ends || (next.is_in && self.has_six(all, at))
    }

    /// The facts about the four bytes from `at` on.
    #[inline(always)]
    fn part(&self, all: Eight, at: usize) -> StretchFacts {
        self.parts.get(all.stretch(at, PART_LEN))
    }

    /// Whether the six from there on are in some literal.
    #[inline(always)]
    fn has_six(&self, all: Eight, at: usize) -> bool {
        self.sixes.get(all.stretch(at, SIX_LEN)).is_in
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
        parts.any(|part| self.parts.get(number(part)).is_in).then_some(start..end)
    }

    /// Where what has four bytes or more may lie, at three bytes of each side or more: from the
    /// farthest place where one may begin, all of whose stretches up to the border are in some
    /// literal, to the farthest where one may end.
    fn spanning_long(&self, bytes: &[u8], border: usize) -> Option<Range<usize>> {
        let stretch = |at: usize| {
            let part = bytes.get(at..).and_then(|bytes| bytes.first_chunk::<PART_LEN>());
            let part = part.map(|part| fold(u32::from_be_bytes(*part).into()));
            part.map(|part| self.parts.get(part)).filter(|part| part.is_in)
        };
        let (mut begin, mut end) = (None, None);
        for at in (0..border).rev().take(self.len_max) {
            match stretch(at) {
                Some(StretchFacts { begins: true, .. }) => begin = Some(at),
                // A literal that begins earlier contains this stretch.
                None if at + PART_LEN <= border + 1 => break,
                _ => {}
            }
        }
        let begin = begin?;
        for at in (border + 1 - PART_LEN..bytes.len()).take(self.len_max) {
            match stretch(at) {
                Some(StretchFacts { ends: true, .. }) => end = Some(at),
                None if at + 1 >= border => break,
                _ => {}
            }
        }
        end.filter(|&end| begin <= end).map(|end| begin..end + PART_LEN)
    }

    pub(super) fn memory_len(&self) -> usize {
        let shorts = self.shorts.iter().flatten().count();
        8 * ((1 + shorts) * PAIRS / 64 + self.parts.words.len() + self.sixes.words.len())
    }
}

/// Eight bytes around a seam, letters folded.
#[derive(Clone, Copy)]
struct Eight(u64);

impl Eight {
    /// So many of them from one on, as a number.
    #[inline(always)]
    fn stretch(self, at: usize, len: usize) -> u64 {
        self.0 << (8 * at) >> (64 - 8 * len)
    }
}

impl Pairs {
    fn new(numbers: impl Iterator<Item = u64>) -> Self {
        let mut words = Box::new([0; PAIRS / 64]);
        numbers.for_each(|number| words[number as usize % PAIRS / 64] |= 1 << (number % 64));
        Self(words)
    }

    #[inline(always)]
    fn has(&self, number: u64) -> bool {
        self.0[number as usize % PAIRS / 64] >> (number % 64) & 1 == 1
    }
}

/// Two bytes of two or three.
#[inline(always)]
fn short_hash(number: u64) -> u64 {
    number ^ number >> 9
}

impl Parts {
    /// Of these stretches; which of them begin or end something is [`Parts::add`]ed.
    fn new(mut parts: Vec<u64>) -> Self {
        parts.sort_unstable();
        parts.dedup();
        let mut all = Self { words: vec![0; (parts.len() * SPARSE).div_ceil(64).max(1)].into() };
        parts.into_iter().for_each(|part| all.add(part, 0));
        all
    }

    /// Sets the bits of a stretch, turned by `by`.
    fn add(&mut self, part: u64, by: u32) {
        let (word, bits) = self.place(part);
        self.words[word] |= bits.rotate_left(by);
    }

    #[inline(always)]
    fn get(&self, part: u64) -> StretchFacts {
        let (word, bits) = self.place(part);
        let missing = !self.words[word];
        let is_in = missing & bits == 0;
        let has = |by: u32| is_in & (missing & bits.rotate_left(by) == 0);
        StretchFacts { is_in, begins: has(BEGINS), ends: has(ENDS) }
    }

    /// The word of a stretch, and its bits there.
    #[inline(always)]
    fn place(&self, part: u64) -> (usize, u64) {
        // The upper half of the product hangs on all bytes of the part.
        let hash = part.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bits = 1 << (hash >> 58) | 1 << (hash >> 52 & 63) | 1 << (hash >> 46 & 63);
        let named = (hash >> 14) as u32;
        (((u64::from(named) * self.words.len() as u64) >> 32) as usize, bits)
    }
}

/// Up to eight bytes as one number, letters folded.
fn number(part: &[u8]) -> u64 {
    fold(part.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
}

/// Eight bytes at once, capital letters made small.
#[inline]
fn fold(bytes: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // Sums of the lower seven bits set the eighth bit of each byte that is at least `A`, or above
    // `Z`.
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
            for (literal, border) in literals.iter()
                .flat_map(|l| (0..=text.len()).map(move |b| (l, b))) {
                let spans = |start: usize| {
                    start + literal.len() > border
                        && text[start..].get(..literal.len()).is_some_and(|found| {
                            found.eq_ignore_ascii_case(literal.as_bytes())
                        })
                };
                let found = seams.spanning(text, border).unwrap_or(0..0);
                let eight = border.checked_sub(BEFORE).and_then(|at| text[at..].first_chunk());
                let may = eight.is_none_or(|eight| seams.may_span(u64::from_be_bytes(*eight)));
                for start in (0..border).filter(|&start| spans(start)) {
                    prop_assert!(may, "{} at {}, {}", literal, start, border);
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
