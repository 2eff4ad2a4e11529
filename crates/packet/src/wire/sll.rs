//! The headers of Linux cooked captures: version 1 (`LINKTYPE_LINUX_SLL`) and version 2
//! (`LINKTYPE_LINUX_SLL2`). They stand where a capture on all devices has no common link header.

use super::Malformed;
use super::be::{clamped, get_array, get16, get32, set16};

/// Bytes of the version 1 header.
pub const HEADER_LEN: usize = 16;
/// Bytes of the version 2 header.
pub const HEADER_LEN_V2: usize = 20;

/// Where each field of version 1 is.
pub mod field {
    use core::ops::Range;

    /// To whom the packet went: 0 us, 1 broadcast, 2 multicast, 3 another host, 4 sent by us.
    pub const PACKET_TYPE: Range<usize> = 0..2;
    /// `ARPHRD_*` number of the device.
    pub const HARDWARE_TYPE: Range<usize> = 2..4;
    /// Bytes that count in the address.
    pub const ADDRESS_LEN: Range<usize> = 4..6;
    /// Link-layer address of the sender.
    pub const ADDRESS: Range<usize> = 6..14;
    /// EtherType of what follows.
    pub const ETHERTYPE: Range<usize> = 14..16;
}

/// Where each field of version 2 is.
pub mod field_v2 {
    use core::ops::Range;

    /// EtherType of what follows.
    pub const ETHERTYPE: Range<usize> = 0..2;
    /// Number of the device.
    pub const INTERFACE: Range<usize> = 4..8;
    /// `ARPHRD_*` number of the device.
    pub const HARDWARE_TYPE: Range<usize> = 8..10;
    /// To whom the packet went, as in version 1.
    pub const PACKET_TYPE: Range<usize> = 10..11;
    /// Bytes that count in the address.
    pub const ADDRESS_LEN: Range<usize> = 11..12;
    /// Link-layer address of the sender.
    pub const ADDRESS: Range<usize> = 12..20;
}

/// A view of a version 1 header and what follows it.
#[derive(Clone, Copy, Debug)]
pub struct Sll<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Sll<T> {
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

    /// To whom the packet went.
    #[inline]
    pub fn packet_type(&self) -> u16 {
        get16(self.buffer.as_ref(), field::PACKET_TYPE)
    }

    /// `ARPHRD_*` number of the device.
    #[inline]
    pub fn hardware_type(&self) -> u16 {
        get16(self.buffer.as_ref(), field::HARDWARE_TYPE)
    }

    /// The sender's link-layer address, at most 8 bytes of it.
    #[inline]
    pub fn address(&self) -> &[u8] {
        let data = self.buffer.as_ref();
        let len = usize::from(get16(data, field::ADDRESS_LEN)).min(field::ADDRESS.len());
        &data[field::ADDRESS][..len]
    }

    /// EtherType of what follows.
    #[inline]
    pub fn ethertype(&self) -> u16 {
        get16(self.buffer.as_ref(), field::ETHERTYPE)
    }

    /// What follows the header.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        clamped(self.buffer.as_ref(), HEADER_LEN, usize::MAX)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Sll<T> {
    /// Sets the EtherType of what follows.
    #[inline]
    pub fn set_ethertype(&mut self, ethertype: u16) {
        set16(self.buffer.as_mut(), field::ETHERTYPE, ethertype);
    }
}

/// A view of a version 2 header and what follows it.
#[derive(Clone, Copy, Debug)]
pub struct Sll2<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Sll2<T> {
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
        let there = self.buffer.as_ref().len() >= HEADER_LEN_V2;
        if there { Ok(()) } else { Err(Malformed::LinkTruncated) }
    }

    /// The bytes that it views.
    #[inline]
    pub fn into_inner(self) -> T {
        self.buffer
    }

    /// EtherType of what follows.
    #[inline]
    pub fn ethertype(&self) -> u16 {
        get16(self.buffer.as_ref(), field_v2::ETHERTYPE)
    }

    /// Number of the device.
    #[inline]
    pub fn interface(&self) -> u32 {
        get32(self.buffer.as_ref(), field_v2::INTERFACE)
    }

    /// `ARPHRD_*` number of the device.
    #[inline]
    pub fn hardware_type(&self) -> u16 {
        get16(self.buffer.as_ref(), field_v2::HARDWARE_TYPE)
    }

    /// To whom the packet went.
    #[inline]
    pub fn packet_type(&self) -> u8 {
        let [kind] = get_array(self.buffer.as_ref(), field_v2::PACKET_TYPE);
        kind
    }

    /// The sender's link-layer address, at most 8 bytes of it.
    #[inline]
    pub fn address(&self) -> &[u8] {
        let data = self.buffer.as_ref();
        let [len] = get_array::<1>(data, field_v2::ADDRESS_LEN);
        &data[field_v2::ADDRESS][..usize::from(len).min(field_v2::ADDRESS.len())]
    }

    /// What follows the header.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        clamped(self.buffer.as_ref(), HEADER_LEN_V2, usize::MAX)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Sll2<T> {
    /// Sets the EtherType of what follows.
    #[inline]
    pub fn set_ethertype(&mut self, ethertype: u16) {
        set16(self.buffer.as_mut(), field_v2::ETHERTYPE, ethertype);
    }
}
