//! The engine's data of an SA besides its row.

use warpline_native::ipsec_mb::{Direction, GcmKey, Manager};

use super::{Auth, Cipher, HEADER_LEN, KeyRow};
use crate::cipher::icv_len;

/// The data of an SA besides its row, compact, since every packet reads it.
#[derive(Debug)]
pub(super) struct SaNote {
    /// `None`: unusable.
    pub(super) suite: Option<(Cipher, Auth)>,
    /// Of CBC, the direction that its round keys are for.
    pub(super) cbc: Option<Direction>,
    pub(super) esn: bool,
    /// Bytes before the text, and of the ICV.
    pub(super) text: u8,
    pub(super) icv_len: u8,
    /// The text's length has none of these bits: it is of whole blocks.
    pub(super) over: u8,
    pub(super) salt: [u8; 4],
    pub(super) gcm: Option<GcmKey>,
}

impl SaNote {
    pub(super) fn of(manager: &Manager, row: &KeyRow) -> Self {
        let suite = row.suite();
        let cipher = suite.map(|(cipher, _)| cipher);
        // Only rows that seal have keys for IVs; no schedule ends with zeros.
        let cbc = match row.iv_keys[10] == [0; 16] {
            true => Direction::Open,
            false => Direction::Seal,
        };
        // The first round keys of the cipher are the key itself (FIPS 197, 5.2).
        let gcm_key = || {
            let key_len = (usize::from(row.rounds) * 4).checked_sub(24)?;
            GcmKey::new(manager, row.round_keys.as_flattened().get(..key_len)?)
        };
        Self {
            suite,
            cbc: (cipher == Some(Cipher::Cbc)).then_some(cbc),
            esn: row.esn != 0,
            text: (HEADER_LEN + cipher.map_or(0, Cipher::iv_len)) as u8,
            icv_len: suite.map_or(0, |(cipher, auth)| icv_len(cipher, auth)) as u8,
            over: cipher.map_or(0, |cipher| cipher.block_len() as u8 - 1),
            salt: row.salt,
            gcm: (cipher == Some(Cipher::Gcm)).then(gcm_key).flatten(),
        }
    }
}
