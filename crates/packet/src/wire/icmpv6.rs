//! The ICMPv6 header (RFC 4443).

use super::Malformed;
use super::be::{clamped, clamped_mut, get16, set16};
use super::checksum;

/// Bytes of the header: every message of RFC 4443 and RFC 4861 has at least these.
pub const HEADER_LEN: usize = 8;

/// Where each field is.
pub mod field {
    use core::ops::Range;

    /// Type of message.
    pub const TYPE: Range<usize> = 0..1;
    /// Code, by type.
    pub const CODE: Range<usize> = 1..2;
    /// Checksum over pseudo-header, header and data.
    pub const CHECKSUM: Range<usize> = 2..4;
    /// Identifier of an echo.
    pub const IDENT: Range<usize> = 4..6;
    /// Sequence number of an echo.
    pub const SEQ: Range<usize> = 6..8;
    /// The second word in errors: pointer or MTU.
    pub const REST: Range<usize> = 4..8;
}

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

/// A view of an ICMPv6 message.
#[derive(Clone, Copy, Debug)]
pub struct Icmpv6<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Icmpv6<T> {
    /// A view whose getters may panic where the header is cut.
    #[inline]
    pub const fn new_unchecked(buffer: T) -> Self {
        Self { buffer }
    }

    /// A view of a message, the payload of an IP packet, or [`Malformed::IcmpTruncated`].
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self, Malformed> {
        let message = Self::new_unchecked(buffer);
        message.check_len()?;
        Ok(message)
    }

    /// Checks that the header is there.
    #[inline]
    pub fn check_len(&self) -> Result<(), Malformed> {
        let there = self.buffer.as_ref().len() >= HEADER_LEN;
        if there { Ok(()) } else { Err(Malformed::IcmpTruncated) }
    }

    /// The bytes that it views.
    #[inline]
    pub fn into_inner(self) -> T {
        self.buffer
    }

    /// Type of message ([`message`]).
    #[inline]
    pub fn message_type(&self) -> u8 {
        self.buffer.as_ref()[field::TYPE.start]
    }

    /// Code, by type.
    #[inline]
    pub fn code(&self) -> u8 {
        self.buffer.as_ref()[field::CODE.start]
    }

    /// Checksum, as carried.
    #[inline]
    pub fn checksum(&self) -> u16 {
        get16(self.buffer.as_ref(), field::CHECKSUM)
    }

    /// Identifier, in an echo or its reply.
    #[inline]
    pub fn ident(&self) -> u16 {
        get16(self.buffer.as_ref(), field::IDENT)
    }

    /// Sequence number, in an echo or its reply.
    #[inline]
    pub fn seq(&self) -> u16 {
        get16(self.buffer.as_ref(), field::SEQ)
    }

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

    /// What follows the header: an echo's data, or the packet that an error quotes.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        clamped(self.buffer.as_ref(), HEADER_LEN, usize::MAX)
    }
}

/// Setters leave the checksum as it is.
impl<T: AsRef<[u8]> + AsMut<[u8]>> Icmpv6<T> {
    /// Sets the type of message.
    #[inline]
    pub fn set_message_type(&mut self, message_type: u8) {
        self.buffer.as_mut()[field::TYPE.start] = message_type;
    }

    /// Sets the code.
    #[inline]
    pub fn set_code(&mut self, code: u8) {
        self.buffer.as_mut()[field::CODE.start] = code;
    }

    /// Sets the checksum.
    #[inline]
    pub fn set_checksum(&mut self, checksum: u16) {
        set16(self.buffer.as_mut(), field::CHECKSUM, checksum);
    }

    /// Sets the identifier of an echo.
    #[inline]
    pub fn set_ident(&mut self, ident: u16) {
        set16(self.buffer.as_mut(), field::IDENT, ident);
    }

    /// Sets the sequence number of an echo.
    #[inline]
    pub fn set_seq(&mut self, seq: u16) {
        set16(self.buffer.as_mut(), field::SEQ, seq);
    }

    /// Sets the second word, which in an error is not an echo's.
    #[inline]
    pub fn set_rest(&mut self, rest: u32) {
        self.buffer.as_mut()[field::REST].copy_from_slice(&rest.to_be_bytes());
    }

    /// Computes the checksum over the whole buffer and sets it; `pseudo` is the sum of the
    /// pseudo-header.
    #[inline]
    pub fn fill_checksum(&mut self, pseudo: u32) {
        self.set_checksum(0);
        let sum = checksum::sum(self.buffer.as_ref());
        self.set_checksum(!checksum::fold(pseudo + sum));
    }

    /// What follows the header, to write.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        clamped_mut(self.buffer.as_mut(), HEADER_LEN, usize::MAX)
    }
}
