//! The UDP header (RFC 768).

use super::Malformed;
use super::be::{clamped, clamped_mut};
use super::checksum;

/// Bytes of the header.
pub const HEADER_LEN: usize = 8;

view! {
    /// A view of a UDP datagram.
    Udp in field;
    /// Source port.
    SRC_PORT src_port / set_src_port: u16 = 0..2;
    /// Destination port.
    DST_PORT dst_port / set_dst_port: u16 = 2..4;
    /// Bytes of header and data.
    LENGTH length / set_length: u16 = 4..6;
    /// Checksum over pseudo-header, header and data, as carried; 0 if there is none.
    CHECKSUM checksum / set_checksum: u16 = 6..8;
}

impl<T: AsRef<[u8]>> Udp<T> {
    /// Checks that the datagram is all there. Of a first fragment, whose length is that of the
    /// whole, check with [`check_within`](Self::check_within) instead.
    #[inline]
    pub fn check_len(&self) -> Result<(), Malformed> {
        self.check_within(self.buffer.as_ref().len())
    }

    /// Checks a datagram that had `wire_len` bytes on the wire (in a first fragment, 65,535: the
    /// rest comes later). The buffer may hold fewer but must include the header.
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

    /// Whether the checksum is right or there is none; `pseudo` is the sum of the pseudo-header.
    #[inline]
    pub fn verify_checksum(&self, pseudo: u32) -> bool {
        self.checksum() == 0 || checksum::fold(pseudo + self.sum()) == 0xffff
    }

    /// The data, up to the header's length and the end of the buffer.
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

impl<T: AsRef<[u8]> + AsMut<[u8]>> Udp<T> {
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
