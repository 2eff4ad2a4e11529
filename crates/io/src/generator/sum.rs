//! The ones' complement sum of the Internet checksum (RFC 1071), in parts.

use warpline_packet::wire::checksum;

/// The sum of `bytes`, at most 0xffff.
pub(super) fn words(bytes: &[u8]) -> u32 {
    checksum::sum(bytes)
}

/// The sum of the two words of `number`.
#[inline]
pub(super) fn halves(number: u32) -> u32 {
    (number >> 16) + (number & 0xffff)
}

/// The checksum field for a sum: its carries added back in (RFC 1071, section 2), and the
/// complement of that.
#[inline]
pub(super) fn checksum(sum: u32) -> u16 {
    !checksum::fold(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_of_rfc_1071() {
        // Section 3: 0001 f203 f4f5 f6f7 sums to 2ddf0, which folds to ddf2.
        let sum = words(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum, 0xddf2);
        assert_eq!(checksum(sum), !0xddf2);
        assert_eq!(words(&[1, 2, 3]), 0x0102 + 0x0300);
        assert_eq!(halves(0x1234_5678), 0x1234 + 0x5678);
        assert_eq!(checksum(0), 0xffff);
    }

    #[test]
    fn carries_of_any_sum_are_folded() {
        for sum in [u32::MAX, 0xffff_0000, 0xffff_fffe, 0x1_fffe, 0xffff, 0x1_0000, 7] {
            let folded = u32::from(!checksum(sum));
            assert_eq!(folded % 0xffff, sum % 0xffff, "{sum:x}");
        }
    }
}
