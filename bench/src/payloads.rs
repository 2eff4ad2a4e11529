//! Literals and payloads for the benches of `nids`, by their number: text-like, random, and made to
//! flood a prefilter.

use warpline_packet::hash::mix32;
use warpline_search::Pattern;

/// A rule's: words of two to five syllables; with digits or bytes that are no text between, as in
/// rules.
pub fn literal(number: u32) -> Pattern {
    let mut bytes = Vec::new();
    for part in 0..1 + mix32(number) % 3 {
        let draw = mix32((number * 8 + part) ^ 0x5eed_0000);
        word(draw, OF_RULES, &mut bytes);
        match draw >> 28 {
            0..4 => bytes.extend(draw.to_le_bytes().iter().take(2 + draw as usize % 3)),
            4..7 => bytes.extend(format!("={}", draw % 1000).bytes()),
            7..9 => bytes.extend(b"/"),
            9..11 => bytes.extend(b": "),
            _ => bytes.extend(b"."),
        }
    }
    Pattern { bytes: bytes.into(), is_nocase: number.is_multiple_of(2) }
}

/// Of rules' literals.
const OF_RULES: &[&str] = &[
    "a", "con", "ter", "cmd", "re", "shell", "st", "al", "or", "user", "ing", "e", "tion", "pro",
    "de", "an", "er", "php", "on", "ad", "file", "evil", "com", "es", "bot", "le", "ex", "ti",
    "get", "ap", "x", "o",
];

/// Of other text; some of it is the same.
const OF_TEXT: &[&str] = &[
    "a", "con", "ter", "in", "re", "ment", "ed", "al", "or", "ther", "ing", "e", "tion", "our",
    "de", "an", "er", "is", "on", "all", "per", "th", "ver", "es", "un", "le", "wh", "ti", "ough",
    "ly", "ow", "o",
];

fn word(draw: u32, syllables: &[&str], to: &mut Vec<u8>) {
    for k in 0..2 + draw % 3 {
        to.extend(syllables[mix32(draw ^ k) as usize % syllables.len()].bytes());
    }
}

/// `len` bytes of words with spaces, line ends and numbers.
pub fn text(number: u32, len: usize) -> Vec<u8> {
    let mut payload = Vec::with_capacity(len + 32);
    let mut draw = mix32(number ^ 0x7e87_0000);
    while payload.len() < len {
        draw = mix32(draw);
        match draw >> 28 {
            0 => payload.extend(b"\r\n"),
            1 => payload.extend(format!("{}", draw % 10_000).bytes()),
            2 => payload.extend(b": "),
            _ => {
                let start = payload.len();
                word(draw, OF_TEXT, &mut payload);
                if draw.is_multiple_of(5) {
                    payload[start].make_ascii_uppercase();
                }
                payload.push(b' ');
            }
        }
    }
    payload.truncate(len);
    payload
}

/// `len` bytes at random.
pub fn random(number: u32, len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| mix32(number << 12 ^ i) as u8).collect()
}

/// `len` bytes of literals without their first or their last byte.
pub fn flood(number: u32, len: usize, literals: &[Pattern]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(len + 64);
    let mut draw = mix32(number ^ 0xf100_d000);
    while payload.len() < len {
        draw = mix32(draw);
        let bytes = &literals[draw as usize % literals.len()].bytes;
        let cut = (draw >> 31) as usize;
        payload.extend(&bytes[cut..bytes.len() - 1 + cut]);
    }
    payload.truncate(len);
    payload
}
