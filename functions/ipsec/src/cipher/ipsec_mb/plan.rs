//! The work on one packet.

use warpline_native::ipsec_mb::{self as native, Direction};

use super::{Auth, Cipher, Job, Keys};

/// The work, and its place.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) cipher: Cipher,
    pub(super) auth: Auth,
    /// Whether the sequence number has 64 bits.
    pub(super) esn: bool,
    /// Where the text starts.
    pub(super) text: usize,
    /// Where the ICV starts.
    pub(super) icv: usize,
}

impl Plan {
    /// `None`: the row is missing, unusable or for the other direction, or the packet is too short,
    /// too long, or not whole blocks.
    #[inline(always)]
    pub(super) fn of(keys: Keys<'_>, job: &Job<'_>, direction: Direction) -> Option<Self> {
        let sa = keys.sas.get(job.row as usize)?;
        let (cipher, auth) = sa.suite?;
        let text = usize::from(sa.text);
        let icv = job.esp.len().checked_sub(sa.icv_len.into())?;
        let is_whole = icv.checked_sub(text)? & usize::from(sa.over) == 0;
        let is_for = sa.cbc.is_none_or(|cbc| cbc == direction);
        let is_taken = is_whole && is_for && job.esp.len() <= native::PART_LEN_MAX;
        is_taken.then_some(Self { cipher, auth, esn: sa.esn, text, icv })
    }

    /// The high half of a 64-bit sequence number is authenticated after the text, but not sent (RFC
    /// 4303, 2.2.1). During the HMAC it occupies this many bytes in the ICV's place.
    pub(super) fn high_len(&self) -> usize {
        if self.esn && self.auth != Auth::None { 4 } else { 0 }
    }

    pub(super) fn write_high_half(&self, job: &mut Job<'_>) {
        if self.high_len() == 4 {
            job.esp[self.icv..][..4].copy_from_slice(&high_half(job.sequence));
        }
    }
}

pub(super) fn high_half(sequence: u64) -> [u8; 4] {
    ((sequence >> 32) as u32).to_be_bytes()
}
