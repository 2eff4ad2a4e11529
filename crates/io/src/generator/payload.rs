//! Payloads of packets: a window of a pool that is filled once, so that a payload costs a copy.
//!
//! The sums of the pool up to every second byte are kept, so a window's sum is a difference. They
//! are kept modulo 65,535, which a checksum does not see (RFC 1071).

use super::rng::Rng;
use super::sum::words;

/// The kind of payload.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content {
    /// Random bytes: don't compress, match next to nothing.
    Random,
    /// Words, blanks and line ends.
    Text,
    /// Text, with `pattern` somewhere in a random `share` of the payloads that have room for it.
    Planted {
        /// At least one byte.
        pattern: Vec<u8>,
        /// From 0 to 1.
        share: f64,
    },
}

/// The longest pattern that can be planted, in bytes.
pub(super) const PATTERN_MAX: usize = 1400;

impl Content {
    /// `random`, `text`, `planted:PATTERN` or `planted:PATTERN@SHARE`, `%XX` being the byte of
    /// that hexadecimal number.
    pub(super) fn parse(value: &str) -> Option<Self> {
        match value {
            "random" => return Some(Self::Random),
            "text" => return Some(Self::Text),
            _ => {}
        }
        let planted = value.strip_prefix("planted:")?;
        let (pattern, share) = match planted.rsplit_once('@') {
            Some((pattern, share)) => (pattern, super::settings::decimal(share, 0.0..=1.0)?),
            None => (planted, SHARE),
        };
        let pattern = unescape(pattern.as_bytes())?;
        let fits = (1..=PATTERN_MAX).contains(&pattern.len());
        fits.then_some(Self::Planted { pattern, share })
    }
}

/// The default share of payloads with a pattern.
const SHARE: f64 = 0.01;

fn unescape(mut text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    while let [first, rest @ ..] = text {
        text = rest;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, rest) = text.split_at_checked(2)?;
        let digit = |at: usize| char::from(digits[at]).to_digit(16);
        bytes.push((digit(0)? * 16 + digit(1)?) as u8);
        text = rest;
    }
    Some(bytes)
}

/// The pool that payloads are cut from.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    /// Followed by [`BLOCK`] bytes that no payload has.
    bytes: Vec<u8>,
    /// The sum of the first n words, modulo [`MODULUS`].
    sums: Vec<u16>,
    content: Content,
    is_planted: bool,
    planted: u64,
}

impl Pool {
    /// A pool for payloads of at most `longest` bytes: 64 KiB of places to begin, and `longest`.
    pub(super) fn new(content: Content, longest: usize, rng: &mut Rng) -> Self {
        let len = (STARTS * 2 + longest).next_multiple_of(2);
        let bytes = match content {
            Content::Random => random(len, rng),
            Content::Text | Content::Planted { .. } => text(len, rng),
        };
        let (pairs, _) = bytes.as_chunks::<2>();
        let mut sum = 0;
        let running = pairs.iter().map(|&pair| {
            sum = (sum + u32::from(u16::from_be_bytes(pair))) % MODULUS;
            sum as u16
        });
        let sums = core::iter::once(0).chain(running).collect();
        let bytes = [bytes, vec![0; BLOCK]].concat();
        let is_planted = matches!(content, Content::Planted { .. });
        Self { bytes, sums, content, is_planted, planted: 0 }
    }

    /// Fills the first `len` bytes of `room`, at most as many as the pool was made for, and gives
    /// their sum. `room` has [`BLOCK`] bytes at least; those of them after `len` are lost.
    #[inline(always)]
    pub(super) fn fill(&mut self, room: &mut [u8], len: usize, rng: &mut Rng) -> u32 {
        let first = rng.below(STARTS as u64) as usize;
        let from = &self.bytes[first * 2..];
        match (room.first_chunk_mut::<BLOCK>(), from.first_chunk::<BLOCK>()) {
            (Some(room), Some(from)) if len <= BLOCK => *room = *from,
            _ => copy(room, from, len),
        }
        if self.is_planted
            && let Some(sum) = self.plant(&mut room[..len], rng)
        {
            return sum;
        }
        let pairs = len / 2;
        let [before, after] = [self.sums[first], self.sums[first + pairs]].map(u32::from);
        let odd = if len % 2 == 1 { u32::from(room[len - 1]) << 8 } else { 0 };
        after + MODULUS - before + odd
    }

    /// Puts the pattern into its share of the payloads that have room for it. Gives the sum of
    /// such a payload.
    #[inline(never)]
    fn plant(&mut self, payload: &mut [u8], rng: &mut Rng) -> Option<u32> {
        let Content::Planted { pattern, share } = &self.content else { return None };
        let more =
            Some(payload.len()).filter(|_| rng.chance(*share))?.checked_sub(pattern.len())?;
        let at = rng.below(more as u64 + 1) as usize;
        payload[at..at + pattern.len()].copy_from_slice(pattern);
        self.planted += 1;
        Some(words(payload))
    }

    /// Payloads that got the pattern.
    pub(super) fn planted(&self) -> u64 {
        self.planted
    }
}

/// Payloads up to this length are copied as one block.
pub(super) const BLOCK: usize = 64;

/// The modulus of the ones' complement sum.
const MODULUS: u32 = 0xffff;

/// Copies a long payload. A function of its own, since the compiler else makes one call of both
/// copies.
#[inline(never)]
fn copy(room: &mut [u8], from: &[u8], len: usize) {
    room[..len].copy_from_slice(&from[..len]);
}

/// Where a payload can begin: at every second byte of the first 64 KiB, which stays in the cache.
const STARTS: usize = 32 * 1024;

fn random(len: usize, rng: &mut Rng) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| rng.bits().to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}

fn text(len: usize, rng: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 16);
    while bytes.len() < len {
        bytes.extend_from_slice(WORDS[rng.below(WORDS.len() as u64) as usize].as_bytes());
        bytes.extend_from_slice(if rng.below(12) == 0 { b"\r\n" } else { b" " });
    }
    bytes.truncate(len);
    bytes
}

#[rustfmt::skip]
const WORDS: [&str; 64] = [
    "GET", "POST", "HTTP/1.1", "Host:", "index", "html", "user", "name", "accept", "content",
    "length", "type", "text", "image", "the", "of", "and", "to", "in", "is", "for", "with", "on",
    "as", "by", "at", "from", "this", "that", "not", "are", "was", "packet", "network", "server",
    "client", "request", "answer", "time", "first", "second", "small", "large", "open", "close",
    "read", "write", "value", "number", "table", "list", "set", "10", "42", "200", "404", "2024",
    "query", "session", "cache", "key", "token", "data", "end",
];

#[cfg(test)]
mod tests {
    use super::super::sum::checksum;
    use super::*;

    fn planted(pattern: &[u8], share: f64) -> Option<Content> {
        Some(Content::Planted { pattern: pattern.to_vec(), share })
    }

    #[test]
    fn parse_table() {
        assert_eq!(Content::parse("random"), Some(Content::Random));
        assert_eq!(Content::parse("text"), Some(Content::Text));
        assert_eq!(Content::parse("planted:a b"), planted(b"a b", SHARE));
        assert_eq!(Content::parse("planted:evil@0.5"), planted(b"evil", 0.5));
        assert_eq!(Content::parse("planted:%00%fF%40%25@1"), planted(b"\x00\xff@%", 1.0));
        for bad in [
            "",
            "Text",
            "planted",
            "planted:",
            "planted:@1",
            "planted:a@",
            "planted:a@2",
            "planted:%4",
            "planted:%",
            "planted:%zz",
            "planted:%+1",
        ] {
            assert_eq!(Content::parse(bad), None, "{bad}");
        }
        assert!(Content::parse(&format!("planted:{}", "x".repeat(PATTERN_MAX))).is_some());
        assert!(Content::parse(&format!("planted:{}", "x".repeat(PATTERN_MAX + 1))).is_none());
    }

    #[test]
    fn sums_are_those_of_the_bytes() {
        for content in [Content::Random, Content::Text, Content::parse("planted:odd@0.5").unwrap()]
        {
            let mut rng = Rng::stream(4, 4);
            let mut pool = Pool::new(content, 65_507, &mut rng);
            for len in (0..200).chain([1472, 65_506, 65_507]) {
                let mut room = vec![0; len.max(BLOCK)];
                // Headers have a sum that is not 0: for it 0 and 65,535 are the same.
                let sum = checksum(1 + pool.fill(&mut room, len, &mut rng));
                assert_eq!(sum, checksum(1 + words(&room[..len])), "{len}");
            }
        }
    }

    #[test]
    fn patterns_are_planted_in_their_share() {
        let mut rng = Rng::stream(6, 4);
        let mut pool = Pool::new(Content::parse("planted:#needle#@0.1").unwrap(), 100, &mut rng);
        let mut found = 0;
        for _ in 0..10_000 {
            let mut payload = [0; 100];
            pool.fill(&mut payload, 100, &mut rng);
            found += u64::from(payload.windows(8).any(|window| window == b"#needle#"));
        }
        // Standard deviation: 30.
        assert!(found.abs_diff(1000) < 150, "{found}");
        assert_eq!(found, pool.planted());
        pool.fill(&mut [0; BLOCK], 7, &mut rng);
        assert_eq!(found, pool.planted(), "no room, no pattern");
    }
}
