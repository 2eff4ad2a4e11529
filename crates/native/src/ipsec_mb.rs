//! The intel-ipsec-mb library, versions 1.2 to 1.5: ciphers and hashes many packets in step.
//!
//! [`Library::load`] returns it, or the reason why it can't be used. A thread makes its own
//! [`Manager`], which [`run`](Manager::run)s [`Job`]s. Each of them ciphers a part of a packet in
//! place, hashes a part, or both. The library's single jobs are used instead of its bursts, which
//! came with 1.3 and changed with 1.4. The library does AES-GCM one packet at a time, so it is a
//! call of its own, [`Manager::gcm`].
//!
//! Limits: Linux on x86-64. A part has at most [`PART_LEN_MAX`] bytes. Traces of keys and data in a
//! manager's own memory are not wiped when that is freed.

use core::ops::Range;

pub use crate::sys::ipsec_mb::{GcmKey, Library, Manager};

/// The longest part of a packet, in bytes, that a job can have: lanes count in 16 bits.
pub const PART_LEN_MAX: usize = (1 << 16) - 2;

/// The work on one packet. Sealing ciphers first, opening hashes first.
#[derive(Debug)]
pub struct Job<'a> {
    /// Which way the cipher goes.
    pub direction: Direction,
    /// Done to `ciphered`.
    pub cipher: Cipher<'a>,
    /// Done to `hashed`.
    pub hash: Hash<'a>,
    /// The bytes, changed in place.
    pub packet: &'a mut [u8],
    /// The part that is ciphered, in bytes of `packet`; CBC: whole blocks.
    pub ciphered: Range<usize>,
    /// The part that is hashed, in bytes of `packet`; not empty. Not looked at without a hash.
    pub hashed: Range<usize>,
    /// The offset in `packet` of the tag, 12 or 16 bytes, written after the hashed part was read.
    /// `None`: the tag goes to the outcome. Ignored without a hash.
    pub tag_at: Option<usize>,
    /// Its outcome.
    pub outcome: &'a mut JobOutcome,
}

/// Which way a cipher goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Encrypts, then hashes.
    Seal,
    /// Hashes, then decrypts, whatever the hash is.
    Open,
}

/// A cipher with its keys. Round keys are those of FIPS 197 in the order of their use, 11, 13 or 15
/// of them, at an address that is a multiple of 16.
#[derive(Clone, Copy, Debug)]
pub enum Cipher<'a> {
    /// Nothing.
    Null,
    /// AES in CBC mode.
    Cbc {
        /// For opening those of the equivalent inverse cipher (FIPS 197, 5.3.5).
        round_keys: &'a [[u8; 16]],
        /// The block before the first.
        iv: &'a [u8; 16],
    },
    /// AES in counter mode.
    Ctr {
        /// Of the cipher, both ways.
        round_keys: &'a [[u8; 16]],
        /// The first counter block; its last 32 bits count, in network order.
        counter: &'a [u8; 16],
    },
}

/// An HMAC with the states of its hash after the inner and the outer pad, in words of the host.
#[derive(Clone, Copy, Debug)]
pub enum Hash<'a> {
    /// None.
    None,
    /// HMAC-MD5-96; the first four words.
    Md5(&'a [u32; 8], &'a [u32; 8]),
    /// HMAC-SHA1-96; the first five words.
    Sha1(&'a [u32; 8], &'a [u32; 8]),
    /// HMAC-SHA-256-128.
    Sha256(&'a [u32; 8], &'a [u32; 8]),
}

impl Hash<'_> {
    /// Bytes of its tag.
    #[inline(always)]
    pub(crate) fn tag_len(&self) -> usize {
        match self {
            Self::Md5(..) | Self::Sha1(..) => 12,
            Self::None | Self::Sha256(..) => 16,
        }
    }
}

/// The outcome of a job.
#[derive(Clone, Copy, Debug, Default)]
pub struct JobOutcome {
    pub(crate) tag: [u8; 16],
    pub(crate) is_done: bool,
}

impl JobOutcome {
    /// The tag: 12 bytes of MD5 and SHA-1, 16 of SHA-256. The other bytes are undefined, and so are
    /// all if the tag went to the packet. `None` if the job was not done: it was malformed and left
    /// untouched, or the library gave it up.
    #[inline(always)]
    pub fn tag(&self) -> Option<&[u8; 16]> {
        self.is_done.then_some(&self.tag)
    }

    /// Whether the job was done.
    pub fn is_done(&self) -> bool {
        self.is_done
    }
}

impl Job<'_> {
    /// Whether every part is within the packet and has a length that its algorithm takes, and keys
    /// have a length and an address that the library takes.
    #[inline(always)]
    pub(crate) fn is_well_formed(&self) -> bool {
        let within = |part: &Range<usize>| {
            part.start <= part.end
                && part.end <= self.packet.len()
                && part.end - part.start <= PART_LEN_MAX
        };
        let is_ciphered = match self.cipher {
            Cipher::Null => true,
            Cipher::Cbc { round_keys, .. } => {
                within(&self.ciphered)
                    && self.ciphered.len().is_multiple_of(16)
                    && are_taken(round_keys)
            }
            Cipher::Ctr { round_keys, .. } => within(&self.ciphered) && are_taken(round_keys),
        };
        let is_hashed = match self.hash {
            Hash::None => true,
            _ => {
                let tag_end = self.tag_at.map_or(0, |at| at.saturating_add(self.hash.tag_len()));
                within(&self.hashed) && !self.hashed.is_empty() && tag_end <= self.packet.len()
            }
        };
        is_ciphered && is_hashed
    }
}

#[inline(always)]
fn are_taken(round_keys: &[[u8; 16]]) -> bool {
    matches!(round_keys.len(), 11 | 13 | 15) && round_keys.as_ptr().addr().is_multiple_of(16)
}

#[cfg(test)]
mod tests;
