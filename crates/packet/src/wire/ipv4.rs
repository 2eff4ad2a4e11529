//! The IPv4 header (RFC 791), with its options.

use super::be::{clamped, clamped_mut};
use super::checksum;
use super::{Malformed, options::Options};
use core::net::Ipv4Addr;

/// Bytes of the header without options.
pub const HEADER_LEN: usize = 20;

/// Bit of the flags and fragment word: may not be fragmented.
pub const DONT_FRAGMENT: u16 = 0x4000;
/// Bit of the flags and fragment word: this isn't the last fragment.
pub const MORE_FRAGMENTS: u16 = 0x2000;
/// The fragment offset in the flags and fragment word, in units of 8 bytes.
pub const OFFSET_MASK: u16 = 0x1fff;

/// Types of options.
pub mod option {
    /// Record route.
    pub const RECORD_ROUTE: u8 = 7;
    /// Timestamps.
    pub const TIMESTAMP: u8 = 68;
    /// Loose source route.
    pub const LOOSE_SOURCE_ROUTE: u8 = 131;
    /// Strict source route.
    pub const STRICT_SOURCE_ROUTE: u8 = 137;
    /// Router alert (RFC 2113).
    pub const ROUTER_ALERT: u8 = 148;
}

view! {
    /// A view of an IPv4 packet.
    Ipv4 in field;
    /// Version (4 bits) and header length in 32-bit words (4 bits).
    VER_IHL = 0..1;
    /// Differentiated services (6 bits) and congestion notification (2 bits).
    DSCP_ECN = 1..2;
    /// Bytes of header and data, as the header has them; see `packet_len` for 0.
    TOTAL_LEN total_len / set_total_len: u16 = 2..4;
    /// Identification, which the fragments of a packet share.
    IDENT ident / set_ident: u16 = 4..6;
    /// Flags (3 bits) and fragment offset in units of 8 bytes (13 bits).
    FLAGS_FRAGMENT flags_fragment / set_flags_fragment: u16 = 6..8;
    /// Time to live.
    TTL ttl / set_ttl: u8 = 8..9;
    /// Protocol of the data (see `ip_protocol`).
    PROTOCOL protocol / set_protocol: u8 = 9..10;
    /// Checksum of the header, as carried.
    CHECKSUM checksum / set_checksum: u16 = 10..12;
    /// Source address.
    SRC_ADDR src_addr / set_src_addr: Ipv4Addr = 12..16;
    /// Destination address.
    DST_ADDR dst_addr / set_dst_addr: Ipv4Addr = 16..20;
}

impl<T: AsRef<[u8]>> Ipv4<T> {
    /// Checks that the packet is all there and its lengths agree; link padding may follow it.
    #[inline]
    pub fn check_len(&self) -> Result<(), Malformed> {
        self.check_within(self.buffer.as_ref().len())
    }

    /// Checks a packet that had `wire_len` bytes on the wire, link padding included. The buffer may
    /// hold fewer but must include the header.
    #[inline(always)]
    pub fn check_within(&self, wire_len: usize) -> Result<(), Malformed> {
        self.check_start()?;
        let (header_len, packet_len) = (self.header_len(), self.packet_len(wire_len));
        if packet_len < header_len || packet_len > wire_len {
            return Err(Malformed::Ipv4TotalLen);
        }
        if self.buffer.as_ref().len() < header_len {
            return Err(Malformed::Ipv4Truncated);
        }
        // RFC 791, 3.1: the total length of the reassembled datagram has 16 bits too. Its header is
        // the first fragment's, which is no shorter than a later one's.
        if packet_len > usize::from(u16::MAX) - self.fragment_offset() && self.is_fragment() {
            return Err(Malformed::FragmentBounds);
        }
        Ok(())
    }

    /// Checks the header alone. That is all that can be checked of a packet quoted by an ICMP
    /// error: it may end anywhere after, and some senders get its total length wrong.
    #[inline(always)]
    pub fn check_start(&self) -> Result<(), Malformed> {
        if self.buffer.as_ref().len() < HEADER_LEN {
            return Err(Malformed::Ipv4Truncated);
        }
        if self.version() != 4 {
            return Err(Malformed::Ipv4Version);
        }
        if self.header_len() < HEADER_LEN { Err(Malformed::Ipv4HeaderLen) } else { Ok(()) }
    }

    /// Version, 4 if it is IPv4.
    #[inline]
    pub fn version(&self) -> u8 {
        self.byte(field::VER_IHL.start) >> 4
    }

    /// Bytes of the header, options included.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.byte(field::VER_IHL.start) & 0x0f) * 4
    }

    /// Differentiated services code point.
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.byte(field::DSCP_ECN.start) >> 2
    }

    /// Explicit congestion notification.
    #[inline]
    pub fn ecn(&self) -> u8 {
        self.byte(field::DSCP_ECN.start) & 3
    }

    /// Bytes of header and data of a packet that had `wire_len` bytes on the wire: the total length
    /// or, if that is 0, all of them. A capture taken before the network card cut the segment (TSO)
    /// has such headers.
    #[inline(always)]
    pub fn packet_len(&self, wire_len: usize) -> usize {
        match usize::from(self.total_len()) {
            0 => wire_len,
            total_len => total_len,
        }
    }

    /// Whether the packet may not be fragmented.
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        self.flags_fragment() & DONT_FRAGMENT != 0
    }

    /// Whether fragments follow this one.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        self.flags_fragment() & MORE_FRAGMENTS != 0
    }

    /// Where the fragment's data belong, in bytes.
    #[inline]
    pub fn fragment_offset(&self) -> usize {
        usize::from(self.flags_fragment() & OFFSET_MASK) * 8
    }

    /// Whether it is a fragment, the first one too.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.flags_fragment() & (MORE_FRAGMENTS | OFFSET_MASK) != 0
    }

    /// Whether the header's checksum is right.
    #[inline]
    pub fn verify_checksum(&self) -> bool {
        checksum::checksum(clamped(self.buffer.as_ref(), 0, self.header_len())) == 0
    }

    /// The header's options; offsets count from [`HEADER_LEN`].
    #[inline]
    pub fn options(&self) -> Options<'_> {
        Options::new(clamped(self.buffer.as_ref(), HEADER_LEN, self.header_len()))
    }

    /// The data, up to the total length and the end of the buffer. A total length of 0 sets no
    /// bound.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        clamped(self.buffer.as_ref(), self.header_len(), self.packet_len(usize::MAX))
    }

    #[inline]
    fn byte(&self, at: usize) -> u8 {
        self.buffer.as_ref()[at]
    }
}

/// Setters leave the checksum as it is: see [`fill_checksum`](Ipv4::fill_checksum) and
/// [`checksum::update16`].
impl<T: AsRef<[u8]> + AsMut<[u8]>> Ipv4<T> {
    /// Sets version 4 and the header's length in bytes, a multiple of 4 up to 60.
    #[inline]
    pub fn set_header_len(&mut self, len: usize) {
        self.buffer.as_mut()[field::VER_IHL.start] = 0x40 | (len / 4) as u8 & 0x0f;
    }

    /// Sets the differentiated services and congestion notification byte.
    #[inline]
    pub fn set_dscp_ecn(&mut self, value: u8) {
        self.buffer.as_mut()[field::DSCP_ECN.start] = value;
    }

    /// Computes the header's checksum and sets it.
    #[inline]
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let sum = checksum::checksum(clamped(self.buffer.as_ref(), 0, self.header_len()));
        self.set_checksum(sum);
    }

    /// The data, to write.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let (start, end) = (self.header_len(), self.packet_len(usize::MAX));
        clamped_mut(self.buffer.as_mut(), start, end)
    }
}
