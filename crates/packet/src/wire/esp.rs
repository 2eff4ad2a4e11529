//! The ESP header (RFC 4303): the cleartext part of an encrypted packet.

use super::be::clamped_mut;

/// Bytes of the header; initialisation vector, ciphertext and ICV follow, by security association.
pub const HEADER_LEN: usize = 8;

view! {
    /// A view of an ESP packet.
    Esp in field, HEADER_LEN or EspTruncated;
    /// Security parameters index.
    SPI spi / set_spi: u32 = 0..4;
    /// Sequence number; the low half of an extended one.
    SEQ seq / set_seq: u32 = 4..8;
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Esp<T> {
    /// The bytes after the header, to write.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        clamped_mut(self.buffer.as_mut(), HEADER_LEN, usize::MAX)
    }
}
