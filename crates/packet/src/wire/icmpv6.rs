//! The ICMPv6 header (RFC 4443).

use super::be::{Value, clamped_mut};
use super::checksum;

/// Bytes of the header: every message of RFC 4443 and RFC 4861 has at least these.
pub const HEADER_LEN: usize = 8;

/// Types of messages.
pub mod message {
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 1;
    /// Packet too big.
    pub const PACKET_TOO_BIG: u8 = 2;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 3;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 4;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 128;
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 129;
    /// Router solicitation (RFC 4861).
    pub const ROUTER_SOLICITATION: u8 = 133;
    /// Router advertisement (RFC 4861).
    pub const ROUTER_ADVERTISEMENT: u8 = 134;
    /// Neighbor solicitation (RFC 4861).
    pub const NEIGHBOR_SOLICITATION: u8 = 135;
    /// Neighbor advertisement (RFC 4861).
    pub const NEIGHBOR_ADVERTISEMENT: u8 = 136;
    /// Redirect (RFC 4861).
    pub const REDIRECT: u8 = 137;

    /// Whether messages of this type are errors (RFC 4443, 2.1: the high bit is clear).
    #[inline]
    pub const fn is_error(message_type: u8) -> bool {
        message_type < 128
    }
}

view! {
    /// A view of an ICMPv6 message.
    Icmpv6 in field, HEADER_LEN or IcmpTruncated;
    /// Type of message (see `message`).
    TYPE message_type / set_message_type: u8 = 0..1;
    /// Code, by type.
    CODE code / set_code: u8 = 1..2;
    /// Checksum over pseudo-header, header and data, as carried.
    CHECKSUM checksum / set_checksum: u16 = 2..4;
    /// Identifier, in an echo or its reply.
    IDENT ident / set_ident: u16 = 4..6;
    /// Sequence number, in an echo or its reply.
    SEQ seq / set_seq: u16 = 6..8;
    /// The second word in errors: pointer or MTU.
    REST = 4..8;
}

impl<T: AsRef<[u8]>> Icmpv6<T> {
    /// Whether it is an error, which quotes a packet.
    #[inline]
    pub fn is_error(&self) -> bool {
        message::is_error(self.message_type())
    }

    /// Whether it is an echo or its reply, which have identifier and sequence number.
    #[inline]
    pub fn is_echo(&self) -> bool {
        matches!(self.message_type(), message::ECHO_REQUEST | message::ECHO_REPLY)
    }

    /// Whether the checksum is right; `pseudo` is the sum of the pseudo-header.
    #[inline]
    pub fn verify_checksum(&self, pseudo: u32) -> bool {
        checksum::fold(pseudo + checksum::sum(self.buffer.as_ref())) == 0xffff
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Icmpv6<T> {
    /// Sets the second word, which in an error is not an echo's.
    #[inline]
    pub fn set_rest(&mut self, rest: u32) {
        rest.set(self.buffer.as_mut(), field::REST);
    }

    /// Computes the checksum over the whole buffer and sets it; `pseudo` is the sum of the
    /// pseudo-header.
    #[inline]
    pub fn fill_checksum(&mut self, pseudo: u32) {
        self.set_checksum(0);
        let sum = checksum::sum(self.buffer.as_ref());
        self.set_checksum(!checksum::fold(pseudo + sum));
    }

    /// The bytes after the header, to write.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        clamped_mut(self.buffer.as_mut(), HEADER_LEN, usize::MAX)
    }
}
