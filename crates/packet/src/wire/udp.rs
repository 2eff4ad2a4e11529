//! The UDP header (RFC 768).

use super::Malformed;
use super::be::{clamped, clamped_mut, get16, set16};
use super::checksum;

/// Bytes of the header.
pub const HEADER_LEN: usize = 8;

/// Where each field is.
pub mod field {
    use core::ops::Range;

    /// Source port.
    pub const SRC_PORT: Range<usize> = 0..2;
    /// Destination port.
    pub const DST_PORT: Range<usize> = 2..4;
    /// Bytes of header and data.
    pub const LENGTH: Range<usize> = 4..6;
    /// Checksum over pseudo-header, header and data; 0 says that there is none.
    pub const CHECKSUM: Range<usize> = 6..8;
}

/// A view of a UDP datagram.
#[derive(Clone, Copy, Debug)]
pub struct Udp<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Udp<T> {
    /// A view whose getters may panic where the header is cut.
    #[inline]
    pub const fn new_unchecked(buffer: T) -> Self {
        Self { buffer }
    }

    /// A view of a whole datagram, the payload of an IP packet. Of a first fragment, whose length
    /// is that of the whole, check with [`check_within`](Self::check_within) instead.
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self, Malformed> {
        let datagram = Self::new_unchecked(buffer);
        datagram.check_len()?;
        Ok(datagram)
    }

    /// Checks that the datagram is all there.
    #[inline]
    pub fn check_len(&self) -> Result<(), Malformed> {
        self.check_within(self.buffer.as_ref().len())
    }

    /// Checks a datagram that had `wire_len` bytes on the wire (in a first fragment, 65,535: the
    /// rest comes later), of which the buffer may hold fewer. The header must be in the buffer.
    #[inline(always)]
    pub fn check_within(&self, wire_len: usize) -> Result<(), Malformed> {
        if self.buffer.as_ref().len() < HEADER_LEN {
            return Err(Malformed::UdpTruncated);
        }
        let length = usize::from(self.length());
        // RFC 2675, 4: 0 in a datagram of more than 65,535 bytes.
        let is_jumbo = length == 0 && wire_len > usize::from(u16::MAX);
        let lies = (length < HEADER_LEN && !is_jumbo) || length > wire_len;
        if lies { Err(Malformed::UdpLength) } else { Ok(()) }
    }

    /// The bytes that it views.
    #[inline]
    pub fn into_inner(self) -> T {
        self.buffer
    }

    /// Source port.
    #[inline]
    pub fn src_port(&self) -> u16 {
        get16(self.buffer.as_ref(), field::SRC_PORT)
    }

    /// Destination port.
    #[inline]
    pub fn dst_port(&self) -> u16 {
        get16(self.buffer.as_ref(), field::DST_PORT)
    }

    /// Bytes of header and data.
    #[inline]
    pub fn length(&self) -> u16 {
        get16(self.buffer.as_ref(), field::LENGTH)
    }

    /// Checksum, as carried; 0 says that there is none.
    #[inline]
    pub fn checksum(&self) -> u16 {
        get16(self.buffer.as_ref(), field::CHECKSUM)
    }

    /// Whether the checksum is right or there is none; `pseudo` is the sum of the pseudo-header.
    #[inline]
    pub fn verify_checksum(&self, pseudo: u32) -> bool {
        self.checksum() == 0 || checksum::fold(pseudo + self.sum()) == 0xffff
    }

    /// The data, as much as the length says and the buffer has.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        clamped(self.buffer.as_ref(), HEADER_LEN, self.end())
    }

    fn sum(&self) -> u32 {
        checksum::sum(clamped(self.buffer.as_ref(), 0, self.end()))
    }

    /// Where the data end: with the buffer where the length is 0 (RFC 2675, 4).
    fn end(&self) -> usize {
        match usize::from(self.length()) {
            0 => usize::MAX,
            length => length,
        }
    }
}

/// Setters leave the checksum as it is.
impl<T: AsRef<[u8]> + AsMut<[u8]>> Udp<T> {
    /// Sets the source port.
    #[inline]
    pub fn set_src_port(&mut self, port: u16) {
        set16(self.buffer.as_mut(), field::SRC_PORT, port);
    }

    /// Sets the destination port.
    #[inline]
    pub fn set_dst_port(&mut self, port: u16) {
        set16(self.buffer.as_mut(), field::DST_PORT, port);
    }

    /// Sets the bytes of header and data.
    #[inline]
    pub fn set_length(&mut self, length: u16) {
        set16(self.buffer.as_mut(), field::LENGTH, length);
    }

    /// Sets the checksum.
    #[inline]
    pub fn set_checksum(&mut self, checksum: u16) {
        set16(self.buffer.as_mut(), field::CHECKSUM, checksum);
    }

    /// Computes the checksum and sets it, 0xffff where it comes out as 0; `pseudo` is the sum of
    /// the pseudo-header.
    #[inline]
    pub fn fill_checksum(&mut self, pseudo: u32) {
        self.set_checksum(0);
        let checksum = !checksum::fold(pseudo + self.sum());
        self.set_checksum(if checksum == 0 { 0xffff } else { checksum });
    }

    /// The data, to write.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let end = self.end();
        clamped_mut(self.buffer.as_mut(), HEADER_LEN, end)
    }
}
