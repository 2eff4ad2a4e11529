//! The Ethernet II header (RFC 894, IEEE 802.3). The frame check sequence is not part of a frame.

use super::Malformed;
use super::be::{clamped, get_array, get16, set16};

/// Bytes of the header, without VLAN tags.
pub const HEADER_LEN: usize = 14;

/// Where each field is.
pub mod field {
    use core::ops::Range;

    /// Destination address.
    pub const DST: Range<usize> = 0..6;
    /// Source address.
    pub const SRC: Range<usize> = 6..12;
    /// EtherType, or the length of an 802.3 frame.
    pub const ETHERTYPE: Range<usize> = 12..14;
}

/// A view of an Ethernet frame.
#[derive(Clone, Copy, Debug)]
pub struct Ethernet<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Ethernet<T> {
    /// A view whose getters may panic where the header is cut.
    #[inline]
    pub const fn new_unchecked(buffer: T) -> Self {
        Self { buffer }
    }

    /// A view of a whole header, or [`Malformed::LinkTruncated`].
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self, Malformed> {
        let frame = Self::new_unchecked(buffer);
        frame.check_len()?;
        Ok(frame)
    }

    /// Checks that the header is there.
    #[inline]
    pub fn check_len(&self) -> Result<(), Malformed> {
        let there = self.buffer.as_ref().len() >= HEADER_LEN;
        if there { Ok(()) } else { Err(Malformed::LinkTruncated) }
    }

    /// The bytes that it views.
    #[inline]
    pub fn into_inner(self) -> T {
        self.buffer
    }

    /// Destination address.
    #[inline]
    pub fn dst(&self) -> [u8; 6] {
        get_array(self.buffer.as_ref(), field::DST)
    }

    /// Source address.
    #[inline]
    pub fn src(&self) -> [u8; 6] {
        get_array(self.buffer.as_ref(), field::SRC)
    }

    /// EtherType; a length where it is under [`ethertype::MIN`](super::ethertype::MIN).
    #[inline]
    pub fn ethertype(&self) -> u16 {
        get16(self.buffer.as_ref(), field::ETHERTYPE)
    }

    /// What follows the header: a VLAN tag, the packet, perhaps padding behind it.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        clamped(self.buffer.as_ref(), HEADER_LEN, usize::MAX)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Ethernet<T> {
    /// Sets the destination address.
    #[inline]
    pub fn set_dst(&mut self, address: [u8; 6]) {
        self.buffer.as_mut()[field::DST].copy_from_slice(&address);
    }

    /// Sets the source address.
    #[inline]
    pub fn set_src(&mut self, address: [u8; 6]) {
        self.buffer.as_mut()[field::SRC].copy_from_slice(&address);
    }

    /// Sets the EtherType.
    #[inline]
    pub fn set_ethertype(&mut self, ethertype: u16) {
        set16(self.buffer.as_mut(), field::ETHERTYPE, ethertype);
    }
}
