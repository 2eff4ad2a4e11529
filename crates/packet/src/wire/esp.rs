//! The ESP header (RFC 4303): what of an encrypted packet is in the clear.

use super::Malformed;
use super::be::{clamped, clamped_mut, get32, set32};

/// Bytes of the header; initialisation vector, ciphertext and ICV follow, by security association.
pub const HEADER_LEN: usize = 8;

/// Where each field is.
pub mod field {
    use core::ops::Range;

    /// Security parameters index.
    pub const SPI: Range<usize> = 0..4;
    /// Sequence number; the low half of an extended one.
    pub const SEQ: Range<usize> = 4..8;
}

/// A view of an ESP packet.
#[derive(Clone, Copy, Debug)]
pub struct Esp<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Esp<T> {
    /// A view whose getters may panic where the header is cut.
    #[inline]
    pub const fn new_unchecked(buffer: T) -> Self {
        Self { buffer }
    }

    /// A view of a whole header, or [`Malformed::EspTruncated`].
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self, Malformed> {
        let packet = Self::new_unchecked(buffer);
        packet.check_len()?;
        Ok(packet)
    }

    /// Checks that the header is there.
    #[inline]
    pub fn check_len(&self) -> Result<(), Malformed> {
        let there = self.buffer.as_ref().len() >= HEADER_LEN;
        if there { Ok(()) } else { Err(Malformed::EspTruncated) }
    }

    /// The bytes that it views.
    #[inline]
    pub fn into_inner(self) -> T {
        self.buffer
    }

    /// Security parameters index.
    #[inline]
    pub fn spi(&self) -> u32 {
        get32(self.buffer.as_ref(), field::SPI)
    }

    /// Sequence number; the low half of an extended one.
    #[inline]
    pub fn seq(&self) -> u32 {
        get32(self.buffer.as_ref(), field::SEQ)
    }

    /// What follows the header.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        clamped(self.buffer.as_ref(), HEADER_LEN, usize::MAX)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Esp<T> {
    /// Sets the security parameters index.
    #[inline]
    pub fn set_spi(&mut self, spi: u32) {
        set32(self.buffer.as_mut(), field::SPI, spi);
    }

    /// Sets the sequence number.
    #[inline]
    pub fn set_seq(&mut self, seq: u32) {
        set32(self.buffer.as_mut(), field::SEQ, seq);
    }

    /// What follows the header, to write.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        clamped_mut(self.buffer.as_mut(), HEADER_LEN, usize::MAX)
    }
}
