//! ESP's cipher work packet by packet, written from the RFCs, with crates for whole algorithms.

use aes::cipher::consts::{U12, U16};
use aes::cipher::{
    BlockCipherEncrypt, BlockModeEncrypt, BlockSizeUser, KeyInit, KeyIvInit, StreamCipher,
};
use aes::{Aes128, Aes192, Aes256, Block};
use aes_gcm::AesGcm;
use aes_gcm::aead::{Aead, Payload};
use hmac::{Hmac, Mac};
use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::{Auth, Cipher};
use crate::sa::Sa;

/// SPI to ICV of a packet with `text`.
pub(super) fn sealed(sa: &Sa, sequence: u64, text: &[u8]) -> Vec<u8> {
    let low = sequence as u32;
    let high = (sequence >> 32) as u32;
    let mut esp = [sa.spi.to_be_bytes(), low.to_be_bytes()].concat();
    let key = sa.enc_key.0.as_slice();
    match sa.cipher {
        Cipher::Null => esp.extend(text),
        Cipher::Cbc => {
            let iv = cbc_iv(key, sequence);
            esp.extend(iv);
            esp.extend(cbc(key, iv, text));
        }
        Cipher::Ctr => {
            let (key, nonce) = key.split_at(key.len() - 4);
            let iv = sequence.to_be_bytes();
            esp.extend(iv);
            esp.extend(ctr(key, &[nonce, &iv, &[0, 0, 0, 1]].concat(), text));
        }
        Cipher::Gcm => {
            let (key, salt) = key.split_at(key.len() - 4);
            let iv = sequence.to_be_bytes();
            let aad = match sa.esn {
                true => [sa.spi, high, low].map(u32::to_be_bytes).concat(),
                false => [sa.spi, low].map(u32::to_be_bytes).concat(),
            };
            esp.extend(iv);
            esp.extend(gcm(key, &[salt, &iv].concat(), &aad, text));
        }
    }
    let high = if sa.esn { high.to_be_bytes().to_vec() } else { Vec::new() };
    let message = [esp.as_slice(), &high].concat();
    esp.extend(match sa.auth {
        Auth::None => Vec::new(),
        Auth::Sha1 => {
            let hmac = Hmac::<Sha1>::new_from_slice(&sa.auth_key.0).unwrap();
            hmac.chain_update(message).finalize().into_bytes()[..12].to_vec()
        }
        Auth::Sha256 => {
            let hmac = Hmac::<Sha256>::new_from_slice(&sa.auth_key.0).unwrap();
            hmac.chain_update(message).finalize().into_bytes()[..16].to_vec()
        }
    });
    esp
}

/// The sequence number, encrypted with a key that is hashed from the SA's.
fn cbc_iv(key: &[u8], sequence: u64) -> [u8; 16] {
    let iv_key = Sha256::digest([b"warpline esp iv", key].concat());
    let mut iv = Block::from((u128::from(sequence)).to_be_bytes());
    Aes128::new_from_slice(&iv_key[..16]).unwrap().encrypt_block(&mut iv);
    iv.into()
}

/// The text in CBC mode.
pub(super) fn cbc(key: &[u8], iv: [u8; 16], text: &[u8]) -> Vec<u8> {
    fn with<C: KeyInit + BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>>(
        key: &[u8],
        iv: [u8; 16],
        blocks: &mut [Block],
    ) {
        let cipher = C::new_from_slice(key).unwrap();
        let mut mode =
            <cbc::Encryptor<C> as aes::cipher::InnerIvInit>::inner_iv_init(cipher, &iv.into());
        mode.encrypt_blocks(blocks);
    }
    let mut blocks: Vec<Block> =
        text.chunks(16).map(|block| Block::try_from(block).unwrap()).collect();
    match key.len() {
        16 => with::<Aes128>(key, iv, &mut blocks),
        24 => with::<Aes192>(key, iv, &mut blocks),
        _ => with::<Aes256>(key, iv, &mut blocks),
    }
    blocks.concat()
}

fn ctr(key: &[u8], first_counter: &[u8], text: &[u8]) -> Vec<u8> {
    let mut text = text.to_vec();
    match key.len() {
        16 => ctr::Ctr32BE::<Aes128>::new_from_slices(key, first_counter)
            .unwrap()
            .apply_keystream(&mut text),
        24 => ctr::Ctr32BE::<Aes192>::new_from_slices(key, first_counter)
            .unwrap()
            .apply_keystream(&mut text),
        _ => ctr::Ctr32BE::<Aes256>::new_from_slices(key, first_counter)
            .unwrap()
            .apply_keystream(&mut text),
    }
    text
}

fn gcm(key: &[u8], nonce: &[u8], aad: &[u8], msg: &[u8]) -> Vec<u8> {
    let nonce = nonce.try_into().unwrap();
    let payload = Payload { msg, aad };
    match key.len() {
        16 => AesGcm::<Aes128, U12>::new_from_slice(key).unwrap().encrypt(nonce, payload),
        24 => AesGcm::<Aes192, U12>::new_from_slice(key).unwrap().encrypt(nonce, payload),
        _ => AesGcm::<Aes256, U12>::new_from_slice(key).unwrap().encrypt(nonce, payload),
    }
    .unwrap()
}
