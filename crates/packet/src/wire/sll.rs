//! The headers of Linux cooked captures: version 1 (`LINKTYPE_LINUX_SLL`) and version 2
//! (`LINKTYPE_LINUX_SLL2`). Captures on all devices have them, since there is no common link
//! header.

use super::be::Value;

/// Bytes of the version 1 header.
pub const HEADER_LEN: usize = 16;
/// Bytes of the version 2 header.
pub const HEADER_LEN_V2: usize = 20;

view! {
    /// A view of a version 1 header and what follows it.
    Sll in field, HEADER_LEN or LinkTruncated;
    /// To whom the packet went: 0 us, 1 broadcast, 2 multicast, 3 another host, 4 sent by us.
    PACKET_TYPE packet_type: u16 = 0..2;
    /// `ARPHRD_*` number of the device.
    HARDWARE_TYPE hardware_type: u16 = 2..4;
    /// Bytes that count in the address.
    ADDRESS_LEN = 4..6;
    /// Link-layer address of the sender.
    ADDRESS = 6..14;
    /// EtherType of the next header.
    ETHERTYPE ethertype / set_ethertype: u16 = 14..16;
}

impl<T: AsRef<[u8]>> Sll<T> {
    /// The sender's link-layer address, at most 8 bytes of it.
    #[inline]
    pub fn address(&self) -> &[u8] {
        let data = self.buffer.as_ref();
        let len = usize::from(u16::get(data, field::ADDRESS_LEN)).min(field::ADDRESS.len());
        &data[field::ADDRESS][..len]
    }
}

view! {
    /// A view of a version 2 header and what follows it.
    Sll2 in field_v2, HEADER_LEN_V2 or LinkTruncated;
    /// EtherType of the next header.
    ETHERTYPE ethertype / set_ethertype: u16 = 0..2;
    /// Number of the device.
    INTERFACE interface: u32 = 4..8;
    /// `ARPHRD_*` number of the device.
    HARDWARE_TYPE hardware_type: u16 = 8..10;
    /// To whom the packet went, as in version 1.
    PACKET_TYPE packet_type: u8 = 10..11;
    /// Bytes that count in the address.
    ADDRESS_LEN = 11..12;
    /// Link-layer address of the sender.
    ADDRESS = 12..20;
}

impl<T: AsRef<[u8]>> Sll2<T> {
    /// The sender's link-layer address, at most 8 bytes of it.
    #[inline]
    pub fn address(&self) -> &[u8] {
        let data = self.buffer.as_ref();
        let len = usize::from(u8::get(data, field_v2::ADDRESS_LEN));
        &data[field_v2::ADDRESS][..len.min(field_v2::ADDRESS.len())]
    }
}
