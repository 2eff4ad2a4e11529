//! Undoes in received frames the work that a sender left to its interface, or ours did already.

use warpline_packet::wire::{checksum, ip_protocol};
use warpline_packet::{Flags, Headers, LinkType};

/// Bytes of both addresses of an Ethernet header, and of a VLAN tag.
const ADDRESSES_LEN: usize = 12;
const TAG_LEN: usize = 4;

/// Puts the VLAN tag that the system removed back into a frame, which starts [`TAG_LEN`] bytes
/// after the start of `bytes`. The frame then fills all of `bytes`. Returns whether it did.
pub(crate) fn insert_tag(bytes: &mut [u8], (control, protocol): (u16, u16)) -> bool {
    if bytes.len() < TAG_LEN + ADDRESSES_LEN {
        return false;
    }
    bytes.copy_within(TAG_LEN..TAG_LEN + ADDRESSES_LEN, 0);
    let tag = &mut bytes[ADDRESSES_LEN..ADDRESSES_LEN + TAG_LEN];
    tag[..2].copy_from_slice(&protocol.to_be_bytes());
    tag[2..].copy_from_slice(&control.to_be_bytes());
    true
}

/// Completes the checksum of a frame if it is the sum of the pseudo-header, as a sender leaves it
/// to its interface. AF_XDP marks no such frames.
#[inline]
pub(crate) fn complete_half_done(frame: &mut [u8]) {
    if is_half_done(frame) {
        complete_checksum(frame);
    }
}

fn is_half_done(frame: &[u8]) -> bool {
    let word = |at: usize| frame.get(at..at + 2).map(|w| u16::from_be_bytes([w[0], w[1]]));
    let (protocol, transport, addresses, len) = match (word(12), frame.get(14)) {
        (Some(0x0800), Some(0x45)) => {
            (frame.get(23), 34, 26..34, word(16).map(|len| len.wrapping_sub(20)))
        }
        (Some(0x86dd), Some(_)) => (frame.get(20), 54, 22..54, word(18)),
        _ => return false,
    };
    let (Some(&protocol), Some(len)) = (protocol, len) else { return false };
    let field = match protocol {
        ip_protocol::TCP => 16,
        ip_protocol::UDP => 6,
        _ => return false,
    };
    let (Some(found), Some(addresses)) = (word(transport + field), frame.get(addresses)) else {
        return false;
    };
    let words = addresses.chunks_exact(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let sum = words.sum::<u32>() + u32::from(protocol) + u32::from(len);
    let sum = (sum >> 16) + (sum & 0xffff);
    u32::from(found) == (sum >> 16) + (sum & 0xffff)
}

/// Completes the TCP or UDP checksum of a frame that was not cut. The sender left the sum of the
/// pseudo-header in its place.
pub(crate) fn complete_checksum(frame: &mut [u8]) {
    let headers = Headers::parse(frame, LinkType::ETHERNET, frame.len());
    let field = match headers.protocol {
        ip_protocol::TCP => 16,
        ip_protocol::UDP => 6,
        _ => return,
    };
    let (start, end) = (usize::from(headers.l4), headers.end as usize);
    let is_fragment = headers.flags.has(Flags::FRAGMENT);
    let Some(segment) = frame.get_mut(start..end).filter(|s| !is_fragment && s.len() >= field + 2)
    else {
        return;
    };
    let sum = match (checksum::checksum(segment), headers.protocol) {
        (0, ip_protocol::UDP) => 0xffff,
        (sum, _) => sum,
    };
    segment[field..field + 2].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A DNS query as `scapy` writes it, with a right checksum, from the start of Ethernet.
    const QUERY: &str = "020000000002020000000001080045000039000100004011f9670a0000010a800002\
                         0035003500255f5e000001000001000000000000\
                         076578616d706c65036f72670000010001";

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> =
            hex.bytes().map(|c| (c as char).to_digit(16).unwrap() as u8).collect();
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    /// The ones'-complement sum, word by word.
    fn naive(parts: &[&[u8]]) -> u16 {
        let all = parts.concat();
        let mut sum = 0_u64;
        for pair in all.chunks(2) {
            sum += u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
        }
        while sum > 0xffff {
            sum = (sum >> 16) + (sum & 0xffff);
        }
        sum as u16
    }

    #[test]
    fn a_half_done_checksum_is_completed() {
        let right = bytes(QUERY);
        let len = (right.len() - 34) as u16;
        let pseudo = [&right[26..34], &[0, 17], &len.to_be_bytes()];
        let mut complete = right.clone();
        complete[40..42].fill(0);
        let whole = !naive(&[pseudo[0], pseudo[1], pseudo[2], &complete[34..]]);
        let mut half = right.clone();
        half[40..42].copy_from_slice(&naive(&pseudo).to_be_bytes());
        complete_half_done(&mut half);
        assert_eq!(half[40..42], whole.to_be_bytes());
        // Nothing else changes, and short or foreign frames stay as they are.
        assert_eq!((&half[..40], &half[42..]), (&right[..40], &right[42..]));
        for len in 0..40 {
            let mut cut = right[..len].to_vec();
            complete_checksum(&mut cut);
            assert_eq!(cut, right[..len]);
            complete_half_done(&mut cut);
            assert_eq!(cut, right[..len]);
        }
        let mut wrong = right.clone();
        wrong[41] ^= 1;
        complete_half_done(&mut wrong);
        assert_eq!(wrong[..41], right[..41], "a wrong checksum stays wrong");
    }

    #[test]
    fn a_removed_tag_goes_back_after_the_addresses() {
        let mut room = [0xee; 4 + 16];
        for (at, byte) in room[4..].iter_mut().enumerate() {
            *byte = at as u8;
        }
        assert!(insert_tag(&mut room, (0x6064, 0x88a8)));
        let expected =
            [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0x88, 0xa8, 0x60, 0x64, 12, 13, 14, 15];
        assert_eq!(room, expected);
        assert!(!insert_tag(&mut [0; 15], (1, 0x8100)));
    }
}
