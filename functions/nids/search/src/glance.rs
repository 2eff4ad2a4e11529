//! A glance at a short text: whether any pattern may be in it.
//!
//! A scan takes long to begin, and most payloads are short and hold no pattern. Each pattern of
//! four bytes or more is known by its rarest four bytes in a row: by a bit for the first two of
//! them, and then in a Bloom filter in blocks of a word. Shorter patterns are known by their first
//! two bytes.

use super::Pattern;

/// See the module.
#[derive(Debug)]
pub(crate) struct Glance {
    /// The first two bytes of those by which patterns are known.
    firsts: Pairs,
    /// Of patterns of fewer than four bytes.
    shorts: Pairs,
    /// Letters are folded.
    fours: Fours,
    /// Whether a text of one byte may be one.
    has_single: bool,
}

/// A bit for each two bytes in a row, whose first is the lower.
#[derive(Debug)]
pub(crate) struct Pairs(Box<[u64; PAIRS / 64]>);

/// Stretches of four bytes: each sets two bits of one word.
#[derive(Debug)]
struct Fours {
    /// As many as a power of two.
    words: Box<[u64]>,
    shift: u32,
}

/// Two bytes in a row that there may be.
const PAIRS: usize = 1 << 16;
/// Bits for each stretch.
const SPARSE: usize = 128;
const WORDS_MAX: usize = 1 << 14;
/// The bit that distinguishes the cases of a letter, in each of four bytes.
const FOLD: u32 = 0x2020_2020;

impl Glance {
    pub(crate) fn new<'a>(patterns: impl Iterator<Item = &'a Pattern> + Clone) -> Self {
        let mut all = Self {
            firsts: Pairs::new(),
            shorts: Pairs::new(),
            fours: Fours::new(patterns.clone().count()),
            has_single: false,
        };
        for Pattern { bytes, is_nocase } in patterns {
            match (&**bytes, rarest(bytes)) {
                (_, Some(four)) => {
                    all.firsts.add([four[0], four[1]], *is_nocase);
                    all.fours.add(u32::from_le_bytes(four));
                }
                (&[a, b, ..], _) => all.add_short([a, b], *is_nocase),
                (&[one], _) => {
                    all.has_single = true;
                    for other in 0..=u8::MAX {
                        all.add_short([one, other], *is_nocase);
                        all.add_short([other, one], *is_nocase);
                    }
                }
                (&[], _) => {}
            }
        }
        all
    }

    /// Whether no pattern is in `text`, for certain.
    #[inline]
    pub(crate) fn rules_out(&self, text: &[u8]) -> bool {
        let is_short = |pair: &[u8; 2]| self.shorts.has(u16::from_le_bytes(*pair));
        let Some(last) = text.last_chunk::<3>() else {
            return !(self.has_single || text.array_windows().any(is_short));
        };
        let may_begin = |four: &[u8; 4]| {
            let four = u32::from_le_bytes(*four);
            let pair = four as u16;
            self.firsts.has(pair) && (self.shorts.has(pair) || self.fours.has(four))
        };
        !(text.array_windows().any(may_begin) || last.array_windows().any(is_short))
    }

    pub(crate) fn memory_len(&self) -> usize {
        8 * self.fours.words.len() + 2 * Pairs::MEMORY_LEN
    }

    fn add_short(&mut self, pair: [u8; 2], is_nocase: bool) {
        self.firsts.add(pair, is_nocase);
        self.shorts.add(pair, is_nocase);
    }
}

impl Pairs {
    pub(crate) const MEMORY_LEN: usize = PAIRS / 8;

    pub(crate) fn new() -> Self {
        Self(Box::new([0; PAIRS / 64]))
    }

    pub(crate) fn add(&mut self, pair: [u8; 2], is_nocase: bool) {
        for pair in Self::cases(pair, is_nocase) {
            self.0[usize::from(pair) / 64] |= 1 << (pair % 64);
        }
    }

    /// The pair in each case of its letters, some more than once.
    pub(crate) fn cases([a, b]: [u8; 2], is_nocase: bool) -> impl Iterator<Item = u16> {
        let cases = move |byte: u8| match is_nocase {
            true => [byte.to_ascii_lowercase(), byte.to_ascii_uppercase()],
            false => [byte; 2],
        };
        let pairs = cases(a).into_iter().flat_map(move |a| cases(b).map(|b| [a, b]));
        pairs.map(u16::from_le_bytes)
    }

    #[inline(always)]
    pub(crate) fn has(&self, pair: u16) -> bool {
        self.0[usize::from(pair) / 64] >> (pair % 64) & 1 == 1
    }
}

impl Fours {
    fn new(count: usize) -> Self {
        let len = (count * SPARSE / 64).next_power_of_two().clamp(2, WORDS_MAX);
        Self { words: vec![0; len].into(), shift: u64::BITS - len.ilog2() }
    }

    fn add(&mut self, four: u32) {
        let (word, bits) = self.place(four);
        self.words[word] |= bits;
    }

    #[inline(always)]
    fn has(&self, four: u32) -> bool {
        let (word, bits) = self.place(four);
        self.words.get(word).is_none_or(|word| word & bits == bits)
    }

    #[inline(always)]
    fn place(&self, four: u32) -> (usize, u64) {
        let hash = u64::from(four | FOLD).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((hash >> self.shift) as usize, 1 << (hash >> 32 & 63) | 1 << (hash >> 38 & 63))
    }
}

/// The four bytes in a row that the fewest texts have, as far as can be guessed, its first two
/// above all; the last of equal ones.
fn rarest(bytes: &[u8]) -> Option<[u8; 4]> {
    let rarity = |byte: u8| match byte {
        0 | 0xff => 0,
        b' ' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => 1,
        b'!'..=b'~' | b'\r' | b'\n' => 2,
        _ => 3,
    };
    let worth = |four: &[u8; 4]| {
        let [a, b, c, d] = four.map(rarity);
        2 * (a + b) + c + d
    };
    bytes.array_windows().copied().max_by_key(worth)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn glance(patterns: &[(Vec<u8>, bool)]) -> Glance {
        let pattern = |(bytes, is_nocase): &(Vec<u8>, bool)| Pattern {
            bytes: (&**bytes).into(),
            is_nocase: *is_nocase,
        };
        Glance::new(patterns.iter().map(pattern).collect::<Vec<_>>().iter())
    }

    fn of_few_bytes(len: core::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(b"aAbB[{\0\xe1".to_vec()), len)
    }

    proptest! {
        /// Few letters, so that texts hold patterns.
        #[test]
        fn nothing_that_is_there_is_ruled_out(
            patterns in prop::collection::vec(
                (of_few_bytes(1..7), any::<bool>()),
                1..4,
            ),
            text in of_few_bytes(0..24),
        ) {
            let holds = |(pattern, is_nocase): &(Vec<u8>, bool)| {
                text.windows(pattern.len()).any(|at| match is_nocase {
                    true => at.eq_ignore_ascii_case(pattern),
                    false => at == pattern,
                })
            };
            prop_assert!(!patterns.iter().any(holds) || !glance(&patterns).rules_out(&text));
        }
    }

    #[test]
    fn most_else_is_ruled_out() {
        let patterns: Vec<_> = (0..1000_u32)
            .map(|n| (n.wrapping_mul(0x9e37_79b9).to_be_bytes().repeat(2), n % 2 == 0))
            .chain((0..80).map(|n| (vec![n, 200 - n], false)))
            .collect();
        let glance = glance(&patterns);
        let text = |n: u64| n.wrapping_mul(0xd129_42f4_c1c4_1d6f).to_be_bytes();
        let left = (0..10_000).filter(|&n| !glance.rules_out(&text(n))).count();
        assert!(left < 300, "{left}");
    }
}
