//! Payloads of packets: a window of a pool that is filled once, so that a payload costs a copy.
//!
//! The sums of the pool up to every second byte are kept, so a window's sum is a difference.

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
    bytes: Vec<u8>,
    /// The sum of the first n words, modulo 2^32; a window's sum is below that.
    sums: Vec<u32>,
    content: Content,
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
        let mut sum = 0u32;
        let running = pairs.iter().map(|&pair| {
            sum = sum.wrapping_add(u32::from(u16::from_be_bytes(pair)));
            sum
        });
        let sums = core::iter::once(0).chain(running).collect();
        Self { bytes, sums, content, planted: 0 }
    }

    /// Fills `payload`, at most as long as the pool was made for, and gives its sum.
    #[inline]
    pub(super) fn fill(&mut self, payload: &mut [u8], rng: &mut Rng) -> u64 {
        let first = rng.below(STARTS as u64) as usize;
        let pairs = payload.len() / 2;
        payload.copy_from_slice(&self.bytes[first * 2..][..payload.len()]);
        if let Content::Planted { pattern, share } = &self.content
            && rng.chance(*share)
            && let Some(room) = payload.len().checked_sub(pattern.len())
        {
            let at = rng.below(room as u64 + 1) as usize;
            payload[at..at + pattern.len()].copy_from_slice(pattern);
            self.planted += 1;
            return words(payload);
        }
        let even = self.sums[first + pairs].wrapping_sub(self.sums[first]);
        let odd = if payload.len() % 2 == 1 { u64::from(payload[pairs * 2]) << 8 } else { 0 };
        u64::from(even) + odd
    }

    /// Payloads that got the pattern.
    pub(super) fn planted(&self) -> u64 {
        self.planted
    }
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
                let mut payload = vec![0; len];
                let sum = checksum(pool.fill(&mut payload, &mut rng));
                assert_eq!(sum, checksum(words(&payload)), "{len}");
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
            pool.fill(&mut payload, &mut rng);
            found += u64::from(payload.windows(8).any(|window| window == b"#needle#"));
        }
        // Standard deviation: 30.
        assert!(found.abs_diff(1000) < 150, "{found}");
        assert_eq!(found, pool.planted());
        pool.fill(&mut [0; 7], &mut rng);
        assert_eq!(found, pool.planted(), "no room, no pattern");
    }
}
