//! The Internet checksum (RFC 1071), and how it is mended (RFC 1624).

/// The ones' complement sum of RFC 1071, not yet complemented.
pub(crate) fn sum(parts: &[&[u8]]) -> u16 {
    let word = |pair: &[u8]| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
    let mut sum: u64 = parts.iter().flat_map(|part| part.chunks(2)).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// RFC 1624, equation 3: the checksum at `at` after the bytes `old` that it covers become `new`.
pub(crate) fn mend(bytes: &mut [u8], at: usize, old: &[u8], new: &[u8]) {
    // A last byte alone is followed by a zero.
    let padding = &[0][..old.len() % 2];
    let not: Vec<u8> = old.iter().chain(padding).map(|byte| !byte).collect();
    let check = [!bytes[at], !bytes[at + 1]];
    let mended = !sum(&[&check, &not, new]);
    bytes[at..at + 2].copy_from_slice(&mended.to_be_bytes());
}
