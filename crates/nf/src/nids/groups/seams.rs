//! Whether a literal may lie across the seam of two segments: [`Seams`].
//!
//! What lies across a seam holds one of the three stretches of four bytes that do; if it is shorter, it is the stretch.
//! A bit for each hash of four bytes in a row, in any literal, says of most seams that nothing lies across, in
//! three looks instead of a scan.

use crate::nids::matcher::Pattern;

/// See the module. Letters are folded.
pub(super) struct Seams {
    /// A power of two of them.
    bits: Box<[u64]>,
    /// Literals of two and of three bytes, which the bits have as well.
    has_short: [bool; 2],
}

/// Bits for each byte of a literal, at least.
const SPARSE: usize = 8;
/// Bytes of a stretch.
const PART_LEN: usize = 4;

impl Seams {
    pub(super) fn new(patterns: &[Pattern]) -> Self {
        let len: usize = patterns.iter().map(|pattern| pattern.bytes.len()).sum();
        let words = (len * SPARSE).div_ceil(64).next_power_of_two();
        let has_short = [2, 3].map(|len| patterns.iter().any(|pattern| pattern.bytes.len() == len));
        let mut seams = Self { bits: vec![0; words].into(), has_short };
        for pattern in patterns {
            for part in pattern.bytes.windows(pattern.bytes.len().clamp(2, PART_LEN)) {
                let (word, bit) = seams.place(part);
                seams.bits[word] |= 1 << bit;
            }
        }
        seams
    }

    /// Whether a literal may begin before place `border` of `bytes` and end behind it.
    #[inline]
    pub(super) fn may_span(&self, bytes: &[u8], border: usize) -> bool {
        let has = |before: usize, len: usize| {
            let start = border.checked_sub(before);
            let part = start.and_then(|start| bytes.get(start..start + len));
            part.is_some_and(|part| self.has(part))
        };
        let [has_pairs, has_triples] = self.has_short;
        has(1, 4)
            || has(2, 4)
            || has(3, 4)
            || (has_triples && (has(1, 3) || has(2, 3)))
            || (has_pairs && has(1, 2))
    }

    pub(super) fn memory_len(&self) -> usize {
        8 * self.bits.len()
    }

    #[inline]
    fn has(&self, part: &[u8]) -> bool {
        let (word, bit) = self.place(part);
        self.bits[word] >> bit & 1 == 1
    }

    #[inline]
    fn place(&self, part: &[u8]) -> (usize, u32) {
        let fold = |sum: u32, byte: &u8| sum << 8 | u32::from(byte.to_ascii_lowercase());
        let hash = part.iter().fold(0, fold).wrapping_mul(0x9e37_79b1);
        ((hash >> 6) as usize & (self.bits.len() - 1), hash & 63)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
                    assert!(seams.may_span(bytes.as_bytes(), border), "{bytes} {border}");
                }
            }
        }
    }

    #[test]
    fn most_else_is() {
        let one = seams(&["abcde", "x"]);
        let bytes: Vec<u8> = (0..=255).rev().collect();
        let left = (0..=256).filter(|&border| one.may_span(&bytes, border)).count();
        assert!(left < 40, "{left}");
        assert!(!seams(&[]).may_span(b"abcd", 2));
    }
}
