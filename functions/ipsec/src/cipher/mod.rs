//! The cipher work of ESP (RFC 4303, 3.3.2 and 3.4.4), many packets at a time and pure: it depends
//! on the key rows and the packets alone, so a device can do it.
//!
//! Key rows are flat: schedules and midstates, ready to use, without pointers.

#[cfg(test)]
pub(crate) mod cases;
mod engine;
pub mod ipsec_mb;
pub mod key_row;
mod key_schedule;
pub mod software;

pub use engine::{Choice, Engine};
pub use key_row::{KeyRow, KeyTable};
pub use software::JOBS_MAX;

/// A cipher of ESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Cipher {
    /// RFC 2410.
    Null = 0,
    /// AES in CBC mode, RFC 3602. Keys of 16, 24 or 32 bytes.
    Cbc = 1,
    /// AES in counter mode, RFC 3686. Keys of 16, 24 or 32 bytes, then 4 of nonce.
    Ctr = 2,
    /// AES in Galois counter mode with an ICV of 16 bytes, RFC 4106. Keys of 16, 24 or 32 bytes,
    /// then 4 of salt.
    Gcm = 3,
}

impl Cipher {
    /// Bytes of the initialization vector in the packet.
    pub const fn iv_len(self) -> usize {
        match self {
            Self::Null => 0,
            Self::Cbc => 16,
            Self::Ctr | Self::Gcm => 8,
        }
    }

    /// The text with its trailer is a multiple of this many bytes (RFC 4303, 2.4).
    pub const fn block_len(self) -> usize {
        match self {
            Self::Cbc => 16,
            Self::Null | Self::Ctr | Self::Gcm => 4,
        }
    }

    /// Whether its key must never see a sequence number twice.
    pub const fn is_counter(self) -> bool {
        matches!(self, Self::Ctr | Self::Gcm)
    }
}

/// How a packet is authenticated, where the cipher doesn't do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Auth {
    /// Not at all, or by GCM.
    None = 0,
    /// HMAC-SHA1-96, RFC 2404. A key of 20 bytes.
    Sha1 = 1,
    /// HMAC-SHA-256-128, RFC 4868. A key of 32 bytes.
    Sha256 = 2,
}

/// Bytes of the ICV of a cipher with an authentication.
pub const fn icv_len(cipher: Cipher, auth: Auth) -> usize {
    match (cipher, auth) {
        (Cipher::Gcm, _) | (_, Auth::Sha256) => 16,
        (_, Auth::Sha1) => 12,
        (_, Auth::None) => 0,
    }
}

/// One packet's work.
#[derive(Debug)]
pub struct Job<'a> {
    /// The place of its SA's row.
    pub row: u32,
    /// Its whole sequence number.
    pub sequence: u64,
    /// From the SPI to the last byte of the ICV: SPI, low half of the sequence number, IV, text,
    /// ICV. The text with its trailer is a multiple of the cipher's block.
    pub esp: &'a mut [u8],
    /// Opening: whether the ICV was right. The text is plain then; otherwise nothing was changed.
    pub is_authentic: bool,
}
