//! The rare bytes of a literal, which a filter searches for.

use core::ops::Range;

/// A rough logarithm of a byte's frequency in network traffic; higher is more frequent. Folded
/// letters follow their frequency in English.
fn weight(byte: u8) -> u32 {
    match byte.to_ascii_lowercase() {
        0 => 12,
        b' ' | b'e' | b't' => 10,
        b'a' | b'o' | b'i' | b'n' | b's' | b'r' => 9,
        b'h' | b'l' | b'd' | b'c' | b'p' | b'm' | b'u' => 8,
        b'0'..=b'9' | b'.' | b'/' | b'-' | b'\n' | b'\r' | b'f' | b'g' | b'w' | b'b' => 7,
        b'y' | b'v' | b'k' | b'x' | b'=' | b':' | b'"' | b',' | b'_' | 0xff => 6,
        b'j' | b'q' | b'z' | b'<'..=b'>' | b'%' | b'&' | b'(' | b')' | b';' | 1 => 5,
        0x20..=0x7e => 4,
        _ => 3,
    }
}

/// The frequency of a stretch of bytes, as the sum of their weights. A run of one byte, such as
/// padding, is more frequent than its weights suggest.
pub(super) fn dullness(bytes: &[u8]) -> u32 {
    let sum: u32 = bytes.iter().map(|&byte| weight(byte)).sum();
    let is_run = bytes.windows(2).all(|pair| pair[0].eq_ignore_ascii_case(&pair[1]));
    if is_run && bytes.len() > 1 { sum * 3 } else { sum }
}

/// The first of the least frequent stretches of `len` bytes; all bytes if there are no more.
pub(super) fn rarest(bytes: &[u8], len: usize) -> Range<usize> {
    let start = (0..(bytes.len() + 1).saturating_sub(len))
        .min_by_key(|&start| dullness(&bytes[start..start + len]))
        .unwrap_or(0);
    start..bytes.len().min(start + len)
}
