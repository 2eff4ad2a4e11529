//! The TCP header (RFC 9293), with its options.

use super::be::{Value, clamped, clamped_mut};
use super::checksum;
use super::{Malformed, options::Options};

/// Bytes of the header without options.
pub const HEADER_LEN: usize = 20;

/// The flags, as bits of [`Tcp::flags`].
pub mod flags {
    /// No more data from the sender.
    pub const FIN: u16 = 0x001;
    /// Synchronise sequence numbers.
    pub const SYN: u16 = 0x002;
    /// Reset the connection.
    pub const RST: u16 = 0x004;
    /// Push to the receiver.
    pub const PSH: u16 = 0x008;
    /// The acknowledgment number counts.
    pub const ACK: u16 = 0x010;
    /// The urgent pointer counts.
    pub const URG: u16 = 0x020;
    /// Congestion was seen (RFC 3168).
    pub const ECE: u16 = 0x040;
    /// The congestion window was reduced (RFC 3168).
    pub const CWR: u16 = 0x080;
    /// Accurate congestion notification, once the nonce sum.
    pub const AE: u16 = 0x100;
    /// All of them.
    pub const MASK: u16 = 0x1ff;
}

/// Kinds of options.
pub mod option {
    /// Maximum segment size, 2 bytes of data.
    pub const MAX_SEGMENT_SIZE: u8 = 2;
    /// Window scale, 1 byte of data (RFC 7323).
    pub const WINDOW_SCALE: u8 = 3;
    /// Selective acknowledgment permitted (RFC 2018).
    pub const SACK_PERMITTED: u8 = 4;
    /// Selective acknowledgment, 8 bytes of data per block (RFC 2018).
    pub const SACK: u8 = 5;
    /// Timestamps, 8 bytes of data (RFC 7323).
    pub const TIMESTAMPS: u8 = 8;
}

view! {
    /// A view of a TCP segment.
    Tcp in field;
    /// Source port.
    SRC_PORT src_port / set_src_port: u16 = 0..2;
    /// Destination port.
    DST_PORT dst_port / set_dst_port: u16 = 2..4;
    /// Sequence number.
    SEQ seq / set_seq: u32 = 4..8;
    /// Acknowledgment number, which counts where the flag `ACK` is set.
    ACK ack / set_ack: u32 = 8..12;
    /// Header length in 32-bit words (4 bits), reserved (3), flags (9).
    OFFSET_FLAGS = 12..14;
    /// Window, not scaled.
    WINDOW window / set_window: u16 = 14..16;
    /// Checksum over pseudo-header, header and data, as carried.
    CHECKSUM checksum / set_checksum: u16 = 16..18;
    /// Urgent pointer.
    URGENT urgent / set_urgent: u16 = 18..20;
}

impl<T: AsRef<[u8]>> Tcp<T> {
    /// Checks that the header is there and its length is true.
    #[inline]
    pub fn check_len(&self) -> Result<(), Malformed> {
        self.check_within(self.buffer.as_ref().len())
    }

    /// Checks a segment that had `wire_len` bytes on the wire. The buffer may hold fewer but must
    /// include the header.
    #[inline(always)]
    pub fn check_within(&self, wire_len: usize) -> Result<(), Malformed> {
        let len = self.buffer.as_ref().len();
        if len < HEADER_LEN {
            return Err(Malformed::TcpTruncated);
        }
        let header_len = self.header_len();
        if header_len < HEADER_LEN || header_len > wire_len {
            return Err(Malformed::TcpHeaderLen);
        }
        if header_len > len { Err(Malformed::TcpTruncated) } else { Ok(()) }
    }

    /// Bytes of the header, options included.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.offset_flags() >> 12) * 4
    }

    /// The flags ([`flags`]).
    #[inline]
    pub fn flags(&self) -> u16 {
        self.offset_flags() & flags::MASK
    }

    /// Whether all of these flags are set.
    #[inline]
    pub fn has(&self, flags: u16) -> bool {
        self.flags() & flags == flags
    }

    /// Sequence numbers that the segment takes: its data, and one each for SYN and FIN.
    #[inline]
    pub fn segment_len(&self) -> u32 {
        let controls = u32::from(self.has(flags::SYN)) + u32::from(self.has(flags::FIN));
        self.payload().len() as u32 + controls
    }

    /// Whether the checksum is right; `pseudo` is the sum of the pseudo-header.
    #[inline]
    pub fn verify_checksum(&self, pseudo: u32) -> bool {
        checksum::fold(pseudo + checksum::sum(self.buffer.as_ref())) == 0xffff
    }

    /// The header's options; offsets count from [`HEADER_LEN`].
    #[inline]
    pub fn options(&self) -> Options<'_> {
        Options::new(clamped(self.buffer.as_ref(), HEADER_LEN, self.header_len()))
    }

    /// The data.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        clamped(self.buffer.as_ref(), self.header_len(), usize::MAX)
    }

    #[inline]
    fn offset_flags(&self) -> u16 {
        Value::get(self.buffer.as_ref(), field::OFFSET_FLAGS)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Tcp<T> {
    /// Sets the header's length in bytes, a multiple of 4 up to 60.
    #[inline]
    pub fn set_header_len(&mut self, len: usize) {
        let word = (len / 4) as u16 & 0x0f;
        let rest = self.offset_flags() & 0x0fff;
        (word << 12 | rest).set(self.buffer.as_mut(), field::OFFSET_FLAGS);
    }

    /// Sets exactly these flags; the reserved bits stay.
    #[inline]
    pub fn set_flags(&mut self, flags: u16) {
        let rest = self.offset_flags() & !flags::MASK;
        (rest | flags & flags::MASK).set(self.buffer.as_mut(), field::OFFSET_FLAGS);
    }

    /// Computes the checksum over the whole buffer and sets it; `pseudo` is the sum of the
    /// pseudo-header.
    #[inline]
    pub fn fill_checksum(&mut self, pseudo: u32) {
        self.set_checksum(0);
        let sum = checksum::sum(self.buffer.as_ref());
        self.set_checksum(!checksum::fold(pseudo + sum));
    }

    /// The data, to write.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let start = self.header_len();
        clamped_mut(self.buffer.as_mut(), start, usize::MAX)
    }
}
