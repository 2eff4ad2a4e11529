//! The keys of SAs in the form of the cipher work: a flat array of rows.
//!
//! Rows are wiped from memory when they are dropped.

use core::fmt;

use sha2::{Digest, Sha256};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

pub use super::key_schedule::ROUND_KEYS_MAX;
use super::key_schedule::{expand, invert};
use super::software::Schedule;
use super::{Auth, Cipher};
use crate::sa::{Direction, Sa};

/// Bytes that a block of SHA-1 and SHA-256 has.
const HASH_BLOCK: usize = 64;
/// The prefix hashed before the cipher's key to derive the key for IVs.
const IV_KEY_LABEL: &[u8] = b"warpline esp iv";

/// The keys of one SA in the form of the cipher work, 512 bytes. Rows are in one array, by the SA's
/// index.
#[repr(C, align(64))]
#[derive(Clone)]
pub struct KeyRow {
    /// A [`Cipher`], or [`KeyRow::UNUSABLE`].
    pub cipher: u8,
    /// An [`Auth`].
    pub auth: u8,
    /// 10, 12 or 14; 0 without AES.
    pub rounds: u8,
    /// 1 where sequence numbers have 64 bits.
    pub esn: u8,
    /// The salt or nonce that counter blocks start with (RFC 3686, 4; RFC 4106, 4).
    pub salt: [u8; 4],
    /// Zero.
    pub reserved: [u8; 8],
    /// Round keys (FIPS 197, 5.2), in the order of use. For opening CBC they are those of the
    /// equivalent inverse cipher (5.3.5), otherwise those of the cipher. Unused ones are zero.
    pub round_keys: [[u8; 16]; ROUND_KEYS_MAX],
    /// CBC, sealing: round keys of the AES-128 key that derives IVs from sequence numbers.
    /// Otherwise zero.
    pub iv_keys: [[u8; 16]; 11],
    /// State of the hash after the inner pad of HMAC, in words of the host. SHA-1 has five.
    pub inner: [u32; 8],
    /// The same after the outer pad.
    pub outer: [u32; 8],
}

const _: () = assert!(size_of::<KeyRow>() == 512);

impl KeyRow {
    /// [`cipher`](Self::cipher) of an SA whose keys have the wrong length for its algorithms.
    /// Nothing is sealed or opened with such a row.
    pub const UNUSABLE: u8 = 255;

    /// A row of the NULL cipher without authentication.
    const EMPTY: Self = Self {
        cipher: Cipher::Null as u8,
        auth: Auth::None as u8,
        rounds: 0,
        esn: 0,
        salt: [0; 4],
        reserved: [0; 8],
        round_keys: [[0; 16]; ROUND_KEYS_MAX],
        iv_keys: [[0; 16]; 11],
        inner: [0; 8],
        outer: [0; 8],
    };

    /// Its cipher and authentication; `None` for a row that is unusable.
    pub const fn suite(&self) -> Option<(Cipher, Auth)> {
        let cipher = match self.cipher {
            0 => Cipher::Null,
            1 => Cipher::Cbc,
            2 => Cipher::Ctr,
            3 => Cipher::Gcm,
            _ => return None,
        };
        match self.auth {
            0 => Some((cipher, Auth::None)),
            1 => Some((cipher, Auth::Sha1)),
            2 => Some((cipher, Auth::Sha256)),
            _ => None,
        }
    }

    /// Writes the keys of `sa` to an empty row; `None` where one is of a wrong length.
    fn fill(&mut self, sa: &Sa) -> Option<()> {
        self.cipher = sa.cipher as u8;
        self.auth = sa.auth as u8;
        self.esn = u8::from(sa.esn);
        self.fill_cipher(sa)?;
        if sa.cipher == Cipher::Gcm && sa.auth != Auth::None {
            return None;
        }
        let key = sa.auth_key.0.as_slice();
        match sa.auth {
            Auth::None => Some(()),
            Auth::Sha1 => self.fill_hmac(key, 20, sha1_state),
            Auth::Sha256 => self.fill_hmac(key, 32, sha256_state),
        }
    }

    /// The salt and the round keys.
    fn fill_cipher(&mut self, sa: &Sa) -> Option<()> {
        let mut key = sa.enc_key.0.as_slice();
        match sa.cipher {
            Cipher::Null => return key.is_empty().then_some(()),
            Cipher::Cbc => {}
            Cipher::Ctr | Cipher::Gcm => {
                (key, self.salt) = key.split_last_chunk().map(|(k, s)| (k, *s))?
            }
        }
        let rounds = expand(key, &mut self.round_keys)?;
        self.rounds = rounds as u8;
        match (sa.cipher, sa.direction) {
            (Cipher::Cbc, Direction::In) => invert(&mut self.round_keys[..=rounds]),
            (Cipher::Cbc, Direction::Out) => {
                let hash = Sha256::new().chain_update(IV_KEY_LABEL).chain_update(key).finalize();
                expand(&Zeroizing::new(<[u8; 32]>::from(hash))[..16], &mut self.iv_keys)?;
            }
            _ => {}
        }
        Some(())
    }

    /// The two states of HMAC (RFC 2104, 2 and 4) with a key of `key_len` bytes, at most a block.
    fn fill_hmac(
        &mut self,
        key: &[u8],
        key_len: usize,
        state: fn(&[u8; HASH_BLOCK]) -> [u32; 8],
    ) -> Option<()> {
        if key.len() != key_len {
            return None;
        }
        for (to, pad) in [(&mut self.inner, 0x36), (&mut self.outer, 0x5c)] {
            let mut block = Zeroizing::new([pad; HASH_BLOCK]);
            for (byte, key) in block.iter_mut().zip(key) {
                *byte ^= key;
            }
            *to = state(&block);
        }
        Some(())
    }
}

/// State of SHA-1 after one block (FIPS 180-4, 5.3.1), then zeros.
fn sha1_state(block: &[u8; HASH_BLOCK]) -> [u32; 8] {
    let mut state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    sha1::block_api::compress(&mut state, &[*block]);
    let [a, b, c, d, e] = state;
    [a, b, c, d, e, 0, 0, 0]
}

/// State of SHA-256 after one block (FIPS 180-4, 5.3.3).
fn sha256_state(block: &[u8; HASH_BLOCK]) -> [u32; 8] {
    let mut state = [
        0x6a09_e667,
        0xbb67_ae85,
        0x3c6e_f372,
        0xa54f_f53a,
        0x510e_527f,
        0x9b05_688c,
        0x1f83_d9ab,
        0x5be0_cd19,
    ];
    sha2::block_api::compress256(&mut state, &[*block]);
    state
}

impl Zeroize for KeyRow {
    fn zeroize(&mut self) {
        self.cipher = Self::UNUSABLE;
        self.salt.zeroize();
        self.round_keys.as_flattened_mut().zeroize();
        self.iv_keys.as_flattened_mut().zeroize();
        self.inner.zeroize();
        self.outer.zeroize();
    }
}

impl ZeroizeOnDrop for KeyRow {}

impl Drop for KeyRow {
    fn drop(&mut self) {
        self.zeroize();
    }
}

/// The rows of every SA, by its place in [`Database::sas`](crate::sa::Database::sas).
pub struct KeyTable {
    rows: Vec<KeyRow>,
    /// Those of [`software`](super::software), of the rows that are usable.
    schedules: Vec<Option<Schedule>>,
}

/// The table's data of an SA.
pub(super) struct Key<'a> {
    pub(super) row: &'a KeyRow,
    pub(super) schedule: &'a Schedule,
    pub(super) cipher: Cipher,
    pub(super) auth: Auth,
}

impl Key<'_> {
    /// The half of `sequence` that is authenticated but not sent, for SAs that have one (RFC 4303,
    /// 2.2.1).
    pub(super) fn high_half(&self, sequence: u64) -> Option<[u8; 4]> {
        (self.row.esn == 1).then_some(((sequence >> 32) as u32).to_be_bytes())
    }
}

impl KeyTable {
    /// The rows of `sas`. An SA with keys of the wrong length, or with GCM and another
    /// authentication, gets an [unusable](KeyRow::UNUSABLE) row.
    pub fn new(sas: &[Sa]) -> Self {
        // Filled where they stay, so that no copies are left behind.
        let mut rows = vec![KeyRow::EMPTY; sas.len()];
        let mut schedules = Vec::with_capacity(sas.len());
        for (row, sa) in rows.iter_mut().zip(sas) {
            let schedule = row.fill(sa).and_then(|()| Schedule::new(sa));
            if schedule.is_none() {
                row.zeroize();
            }
            schedules.push(schedule);
        }
        Self { rows, schedules }
    }

    /// Row `i` is that of SA `i`.
    pub fn rows(&self) -> &[KeyRow] {
        &self.rows
    }

    /// The keys of row `i`; `None` where there is no such row or it is unusable.
    pub(super) fn key(&self, i: u32) -> Option<Key<'_>> {
        let row = self.rows.get(i as usize)?;
        let schedule = self.schedules.get(i as usize)?.as_ref()?;
        let (cipher, auth) = row.suite()?;
        Some(Key { row, schedule, cipher, auth })
    }
}

impl fmt::Debug for KeyTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secret key rows", self.rows.len())
    }
}

#[cfg(test)]
mod tests {
    use aes::Block;
    use aes::hazmat::{cipher_round, equiv_inv_cipher_round, inv_mix_columns, mix_columns};

    use super::*;
    use crate::cipher::cases::{self, Suite, hex};

    fn row(cipher: Cipher, direction: Direction, key: &[u8]) -> KeyRow {
        let suite = Suite { cipher, key_len: 0, auth: Auth::None, esn: false };
        KeyTable::new(&[cases::sa(suite, direction, key, &[])]).rows()[0].clone()
    }

    /// All rounds except the last are `round`; `unmix` undoes the extra step of the last one.
    fn through(
        row: &KeyRow,
        round: fn(&mut Block, &Block),
        unmix: fn(&mut Block),
        block: &str,
    ) -> Vec<u8> {
        let rounds = usize::from(row.rounds);
        let mut block = Block::try_from(hex(block).as_slice()).unwrap();
        let add = |block: &mut Block, key: &[u8; 16]| {
            block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        };
        add(&mut block, &row.round_keys[0]);
        for round_key in &row.round_keys[1..rounds] {
            round(&mut block, &Block::from(*round_key));
        }
        round(&mut block, &Block::default());
        unmix(&mut block);
        add(&mut block, &row.round_keys[rounds]);
        assert!(row.round_keys[rounds + 1..].iter().all(|unused| *unused == [0; 16]));
        block.to_vec()
    }

    /// FIPS 197, appendix C: each key is 00 01 02 and so on.
    #[test]
    fn rows_encrypt_and_decrypt_as_fips_197_does() {
        let plain = "00112233445566778899aabbccddeeff";
        for (key_len, encrypted) in [
            (16, "69c4e0d86a7b0430d8cdb78070b4c55a"),
            (24, "dda97ca4864cdfe06eaf70a0ec0d7191"),
            (32, "8ea2b7ca516745bfeafc49904b496089"),
        ] {
            let key: Vec<u8> = (0..key_len).collect();
            let salted = [&key[..], &[9, 8, 7, 6]].concat();
            let seals = [
                row(Cipher::Cbc, Direction::Out, &key),
                row(Cipher::Ctr, Direction::Out, &salted),
                row(Cipher::Ctr, Direction::In, &salted),
                row(Cipher::Gcm, Direction::In, &salted),
            ];
            for row in &seals {
                let block = through(row, cipher_round, inv_mix_columns, plain);
                assert_eq!(block, hex(encrypted));
                assert_eq!(row.salt, if row.cipher == 1 { [0; 4] } else { [9, 8, 7, 6] });
            }
            let opens = row(Cipher::Cbc, Direction::In, &key);
            let block = through(&opens, equiv_inv_cipher_round, mix_columns, encrypted);
            assert_eq!(block, hex(plain));
            assert_eq!(opens.iv_keys, [[0; 16]; 11]);
        }
    }

    #[test]
    fn keys_are_not_shown_and_are_wiped() {
        let mut row = row(Cipher::Ctr, Direction::Out, &[0xab; 20]);
        row.inner = [0xabab_abab; 8];
        row.outer = row.inner;
        row.iv_keys = [[0xab; 16]; 11];
        row.zeroize();
        assert_eq!(row.suite(), None);
        assert!(row.round_keys.iter().chain(&row.iv_keys).flatten().all(|byte| *byte == 0));
        assert_eq!((row.salt, row.inner, row.outer), ([0; 4], [0; 8], [0; 8]));

        let table = KeyTable { rows: vec![row], schedules: vec![None] };
        assert_eq!(format!("{table:?}"), "1 secret key rows");
    }
}
