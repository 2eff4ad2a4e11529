//! The Ethernet II header (RFC 894, IEEE 802.3). The frame check sequence is not part of a frame.

/// Bytes of the header, without VLAN tags.
pub const HEADER_LEN: usize = 14;

view! {
    /// A view of an Ethernet frame.
    Ethernet in field, HEADER_LEN or LinkTruncated;
    /// Destination address.
    DST dst / set_dst: [u8; 6] = 0..6;
    /// Source address.
    SRC src / set_src: [u8; 6] = 6..12;
    /// EtherType; a length where it is under `ethertype::MIN`.
    ETHERTYPE ethertype / set_ethertype: u16 = 12..14;
}
