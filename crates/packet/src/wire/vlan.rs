//! VLAN tags: 802.1Q, and the outer tag of 802.1ad ("QinQ"), which has the same form.
//!
//! The view begins after the EtherType that announced the tag. It has the tag control information
//! and the EtherType of the tagged content.

/// Bytes of a tag.
pub const HEADER_LEN: usize = 4;

view! {
    /// A view of a tag and what follows it.
    Vlan in field, HEADER_LEN or VlanTruncated;
    /// Tag control information, all 16 bits.
    TCI tci / set_tci: u16 = 0..2;
    /// EtherType of the next header.
    ETHERTYPE ethertype / set_ethertype: u16 = 2..4;
}

impl<T: AsRef<[u8]>> Vlan<T> {
    /// VLAN identifier; 0 if the tag carries only a priority.
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
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Vlan<T> {
    /// Sets the VLAN identifier to the low 12 bits.
    #[inline]
    pub fn set_vid(&mut self, vid: u16) {
        self.set_tci(self.tci() & 0xf000 | vid & 0x0fff);
    }
}
