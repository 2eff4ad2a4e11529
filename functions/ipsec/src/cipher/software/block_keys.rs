//! AES with a whole schedule, for packets whose blocks are ciphered in parallel.

use core::slice;

use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use aes::{Aes128Dec, Aes128Enc, Aes192Dec, Aes192Enc, Aes256Dec, Aes256Enc, Block};
use ghash::GHash;
use zeroize::Zeroize;

use crate::cipher::Cipher;
use crate::sa::{Direction, Sa};

/// The data for one SA's packets besides its row.
pub(crate) enum Schedule {
    /// No keys.
    Null,
    /// Packets are sealed side by side with the keys of their rows.
    CbcOut,
    /// For opening CBC.
    CbcIn(Decryptor),
    /// Both ways.
    Ctr(Encryptor),
    /// Both ways, with the hash before its first block.
    Gcm(Encryptor, GHash),
}

impl Schedule {
    /// `None` where the key is of no length of its cipher.
    pub(crate) fn new(sa: &Sa) -> Option<Self> {
        let key = sa.enc_key.0.as_slice();
        let salted = || key.split_last_chunk::<4>().and_then(|(key, _)| Encryptor::new(key));
        Some(match (sa.cipher, sa.direction) {
            (Cipher::Null, _) => Self::Null,
            (Cipher::Cbc, Direction::Out) => Self::CbcOut,
            (Cipher::Cbc, Direction::In) => Self::CbcIn(Decryptor::new(key)?),
            (Cipher::Ctr, _) => Self::Ctr(salted()?),
            (Cipher::Gcm, _) => {
                let cipher = salted()?;
                let mut hash_key = Block::default();
                cipher.encrypt(slice::from_mut(&mut hash_key));
                let hash = GHash::new(&hash_key);
                hash_key.0.zeroize();
                Self::Gcm(cipher, hash)
            }
        })
    }
}

/// AES with a key of any length, encrypting.
pub(crate) enum Encryptor {
    Aes128(Aes128Enc),
    Aes192(Aes192Enc),
    Aes256(Aes256Enc),
}

impl Encryptor {
    fn new(key: &[u8]) -> Option<Self> {
        match key.len() {
            16 => Aes128Enc::new_from_slice(key).ok().map(Self::Aes128),
            24 => Aes192Enc::new_from_slice(key).ok().map(Self::Aes192),
            _ => Aes256Enc::new_from_slice(key).ok().map(Self::Aes256),
        }
    }

    pub(super) fn encrypt(&self, blocks: &mut [Block]) {
        match self {
            Self::Aes128(aes) => aes.encrypt_blocks(blocks),
            Self::Aes192(aes) => aes.encrypt_blocks(blocks),
            Self::Aes256(aes) => aes.encrypt_blocks(blocks),
        }
    }
}

/// AES with a key of any length, decrypting.
pub(crate) enum Decryptor {
    Aes128(Aes128Dec),
    Aes192(Aes192Dec),
    Aes256(Aes256Dec),
}

impl Decryptor {
    fn new(key: &[u8]) -> Option<Self> {
        match key.len() {
            16 => Aes128Dec::new_from_slice(key).ok().map(Self::Aes128),
            24 => Aes192Dec::new_from_slice(key).ok().map(Self::Aes192),
            _ => Aes256Dec::new_from_slice(key).ok().map(Self::Aes256),
        }
    }

    pub(super) fn decrypt(&self, blocks: &mut [Block]) {
        match self {
            Self::Aes128(aes) => aes.decrypt_blocks(blocks),
            Self::Aes192(aes) => aes.decrypt_blocks(blocks),
            Self::Aes256(aes) => aes.decrypt_blocks(blocks),
        }
    }
}
