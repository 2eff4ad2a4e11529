//! VLAN tags: 802.1Q, and the outer tag of 802.1ad ("QinQ"), which has the same form.
//!
//! The view begins behind the EtherType that announced the tag, so it is the tag control
//! information and the EtherType of what the tag covers.

use super::Malformed;
use super::be::{clamped, get16, set16};

/// Bytes of a tag.
pub const HEADER_LEN: usize = 4;

/// Where each field is.
pub mod field {
    use core::ops::Range;

    /// Priority (3 bits), drop eligible (1 bit), VLAN identifier (12 bits).
    pub const TCI: Range<usize> = 0..2;
    /// EtherType of what follows.
    pub const ETHERTYPE: Range<usize> = 2..4;
}

/// A view of a tag and what follows it.
#[derive(Clone, Copy, Debug)]
pub struct Vlan<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Vlan<T> {
    /// A view whose getters may panic where the tag is cut.
    #[inline]
    pub const fn new_unchecked(buffer: T) -> Self {
        Self { buffer }
    }

    /// A view of a whole tag, or [`Malformed::VlanTruncated`].
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self, Malformed> {
        let tag = Self::new_unchecked(buffer);
        tag.check_len()?;
        Ok(tag)
    }

    /// Checks that the tag is there.
    #[inline]
    pub fn check_len(&self) -> Result<(), Malformed> {
        let there = self.buffer.as_ref().len() >= HEADER_LEN;
        if there { Ok(()) } else { Err(Malformed::VlanTruncated) }
    }

    /// The bytes that it views.
    #[inline]
    pub fn into_inner(self) -> T {
        self.buffer
    }

    /// Tag control information, all 16 bits.
    #[inline]
    pub fn tci(&self) -> u16 {
        get16(self.buffer.as_ref(), field::TCI)
    }

    /// VLAN identifier; 0 says that the tag only carries a priority.
    #[inline]
    pub fn vid(&self) -> u16 {
        self.tci() & 0x0fff
    }

    /// Priority code point, 0 to 7.
    #[inline]
    pub fn pcp(&self) -> u8 {
        (self.tci() >> 13) as u8
    }

    /// Whether the frame is eligible to be dropped under congestion.
    #[inline]
    pub fn dei(&self) -> bool {
        self.tci() & 0x1000 != 0
    }

    /// EtherType of what follows.
    #[inline]
    pub fn ethertype(&self) -> u16 {
        get16(self.buffer.as_ref(), field::ETHERTYPE)
    }

    /// What follows the tag.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        clamped(self.buffer.as_ref(), HEADER_LEN, usize::MAX)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Vlan<T> {
    /// Sets all of the tag control information.
    #[inline]
    pub fn set_tci(&mut self, tci: u16) {
        set16(self.buffer.as_mut(), field::TCI, tci);
    }

    /// Sets the VLAN identifier, of which the low 12 bits count.
    #[inline]
    pub fn set_vid(&mut self, vid: u16) {
        self.set_tci(self.tci() & 0xf000 | vid & 0x0fff);
    }

    /// Sets the EtherType of what follows.
    #[inline]
    pub fn set_ethertype(&mut self, ethertype: u16) {
        set16(self.buffer.as_mut(), field::ETHERTYPE, ethertype);
    }
}
