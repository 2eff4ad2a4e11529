//! The ICMP header (RFC 792).

use super::Malformed;
use super::be::{clamped, clamped_mut, get16, set16};
use super::checksum;

/// Bytes of the header: every message of RFC 792 has at least these.
pub const HEADER_LEN: usize = 8;

/// Where each field is.
pub mod field {
    use core::ops::Range;

    /// Type of message.
    pub const TYPE: Range<usize> = 0..1;
    /// Code, by type.
    pub const CODE: Range<usize> = 1..2;
    /// Checksum over header and data.
    pub const CHECKSUM: Range<usize> = 2..4;
    /// Identifier of an echo.
    pub const IDENT: Range<usize> = 4..6;
    /// Sequence number of an echo.
    pub const SEQ: Range<usize> = 6..8;
    /// The second word in errors: pointer, gateway or next-hop MTU.
    pub const REST: Range<usize> = 4..8;
}

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

/// A view of an ICMP message.
#[derive(Clone, Copy, Debug)]
pub struct Icmpv4<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Icmpv4<T> {
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

    /// Whether the checksum is right.
    #[inline]
    pub fn verify_checksum(&self) -> bool {
        checksum::checksum(self.buffer.as_ref()) == 0
    }

    /// What follows the header: an echo's data, or the packet that an error quotes.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        clamped(self.buffer.as_ref(), HEADER_LEN, usize::MAX)
    }
}

/// Setters leave the checksum as it is.
impl<T: AsRef<[u8]> + AsMut<[u8]>> Icmpv4<T> {
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

    /// Computes the checksum over the whole buffer and sets it.
    #[inline]
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let checksum = checksum::checksum(self.buffer.as_ref());
        self.set_checksum(checksum);
    }

    /// What follows the header, to write.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        clamped_mut(self.buffer.as_mut(), HEADER_LEN, usize::MAX)
    }
}
