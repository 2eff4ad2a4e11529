//! The ICMP header (RFC 792).

use super::be::{Value, clamped_mut};
use super::checksum;

/// Bytes of the header: every message of RFC 792 has at least these.
pub const HEADER_LEN: usize = 8;

/// Types of messages.
pub mod message {
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 0;
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 3;
    /// Source quench, deprecated (RFC 6633).
    pub const SOURCE_QUENCH: u8 = 4;
    /// Redirect.
    pub const REDIRECT: u8 = 5;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 8;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 11;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 12;

    /// Whether messages of this type are errors (RFC 1122, 3.2.2).
    #[inline]
    pub const fn is_error(message_type: u8) -> bool {
        let quench = message_type == SOURCE_QUENCH;
        quench || matches!(message_type, UNREACHABLE | REDIRECT | TIME_EXCEEDED | PARAMETER_PROBLEM)
    }
}

view! {
    /// A view of an ICMP message.
    Icmpv4 in field, HEADER_LEN or IcmpTruncated;
    /// Type of message (see `message`).
    TYPE message_type / set_message_type: u8 = 0..1;
    /// Code, by type.
    CODE code / set_code: u8 = 1..2;
    /// Checksum over header and data, as carried.
    CHECKSUM checksum / set_checksum: u16 = 2..4;
    /// Identifier, in an echo or its reply.
    IDENT ident / set_ident: u16 = 4..6;
    /// Sequence number, in an echo or its reply.
    SEQ seq / set_seq: u16 = 6..8;
    /// The second word in errors: pointer, gateway or next-hop MTU.
    REST = 4..8;
}

impl<T: AsRef<[u8]>> Icmpv4<T> {
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

    /// Whether the checksum is right.
    #[inline]
    pub fn verify_checksum(&self) -> bool {
        checksum::checksum(self.buffer.as_ref()) == 0
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Icmpv4<T> {
    /// Sets the second word, which in an error is not an echo's.
    #[inline]
    pub fn set_rest(&mut self, rest: u32) {
        rest.set(self.buffer.as_mut(), field::REST);
    }

    /// Computes the checksum over the whole buffer and sets it.
    #[inline]
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let checksum = checksum::checksum(self.buffer.as_ref());
        self.set_checksum(checksum);
    }

    /// The bytes after the header, to write.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        clamped_mut(self.buffer.as_mut(), HEADER_LEN, usize::MAX)
    }
}
