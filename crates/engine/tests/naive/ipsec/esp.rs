//! ESP from SPI to ICV (RFC 4303, 2): AES as its standards have it, a block at a time, and HMAC
//! (RFC 2104).

use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Aes192, Aes256};
use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::sa::{Auth, Cipher, Sa};

type Block = [u8; 16];

/// The plaintext of ESP: padding is 1, 2, 3 and so on, as little as the cipher needs (RFC 4303,
/// 2.4).
pub(crate) fn text(sa: &Sa, payload: &[u8], next: u8) -> Vec<u8> {
    let mut text = payload.to_vec();
    let pad = (1..).find(|pad| (text.len() + pad + 1).is_multiple_of(block_len(sa))).unwrap_or(1);
    text.extend(1..pad as u8);
    text.extend([pad as u8 - 1, next]);
    text
}

pub(crate) fn block_len(sa: &Sa) -> usize {
    if sa.cipher == Cipher::Cbc { 16 } else { 4 }
}

pub(crate) fn iv_len(sa: &Sa) -> usize {
    match sa.cipher {
        Cipher::Null => 0,
        Cipher::Cbc => 16,
        Cipher::Ctr | Cipher::Gcm => 8,
    }
}

pub(crate) fn icv_len(sa: &Sa) -> usize {
    match (sa.cipher, sa.auth) {
        (Cipher::Gcm, _) | (_, Auth::Sha256) => 16,
        (_, Auth::Sha1) => 12,
        (_, Auth::None) => 0,
    }
}

/// SPI to ICV of packet `sequence` with `text`.
pub(crate) fn sealed(sa: &Sa, sequence: u64, text: &[u8]) -> Vec<u8> {
    let mut esp = [sa.spi.to_be_bytes(), (sequence as u32).to_be_bytes()].concat();
    let iv = match sa.cipher {
        Cipher::Null => Vec::new(),
        Cipher::Cbc => cbc_iv(sa, sequence).to_vec(),
        Cipher::Ctr | Cipher::Gcm => sequence.to_be_bytes().to_vec(),
    };
    esp.extend(&iv);
    esp.extend(match sa.cipher {
        Cipher::Null => text.to_vec(),
        Cipher::Cbc => cbc_sealed(&sa.enc_key, &iv, text),
        Cipher::Ctr => counted(sa, &iv, 1, text),
        // NIST SP 800-38D, 7.1: the first block goes into the tag.
        Cipher::Gcm => counted(sa, &iv, 2, text),
    });
    esp.extend(icv(sa, sequence, &esp));
    esp
}

/// The text of packet `sequence`; `None` where it is not authentic.
pub(crate) fn opened(sa: &Sa, sequence: u64, esp: &[u8]) -> Option<Vec<u8>> {
    let (covered, tag) = esp.split_at_checked(esp.len().checked_sub(icv_len(sa))?)?;
    let (head, sealed) = covered.split_at_checked(8 + iv_len(sa))?;
    if !sealed.len().is_multiple_of(block_len(sa)) || icv(sa, sequence, covered) != tag {
        return None;
    }
    let iv = &head[8..];
    Some(match sa.cipher {
        Cipher::Null => sealed.to_vec(),
        Cipher::Cbc => cbc_opened(&sa.enc_key, iv, sealed),
        Cipher::Ctr => counted(sa, iv, 1, sealed),
        Cipher::Gcm => counted(sa, iv, 2, sealed),
    })
}

/// The ICV after `covered`. It also covers the half of a number that is not sent (RFC 4303, 2.2.1;
/// RFC 4106, 5).
fn icv(sa: &Sa, sequence: u64, covered: &[u8]) -> Vec<u8> {
    let high = ((sequence >> 32) as u32).to_be_bytes();
    let high = if sa.esn { &high[..] } else { &[] };
    if sa.cipher == Cipher::Gcm {
        let aad = [&covered[..4], high, &covered[4..8]].concat();
        return gcm_tag(sa, &covered[8..16], &aad, &covered[16..]);
    }
    let message = [covered, high].concat();
    let full = match sa.auth {
        Auth::None => Vec::new(),
        Auth::Sha1 => hmac::<Sha1>(&sa.auth_key, &message),
        Auth::Sha256 => hmac::<Sha256>(&sa.auth_key, &message),
    };
    full[..icv_len(sa)].to_vec()
}

/// RFC 2104; both hashes have blocks of 64 bytes, and keys are shorter.
fn hmac<H: Digest>(key: &[u8], message: &[u8]) -> Vec<u8> {
    let padded = |with: u8| -> Vec<u8> {
        (0..64).map(|at| key.get(at).copied().unwrap_or(0) ^ with).collect()
    };
    let inner = H::digest([&padded(0x36)[..], message].concat());
    H::digest([&padded(0x5c)[..], &inner[..]].concat()).to_vec()
}

fn encrypt(key: &[u8], block: Block) -> Block {
    let mut block = block.into();
    match key.len() {
        16 => Aes128::new_from_slice(key).expect("a key").encrypt_block(&mut block),
        24 => Aes192::new_from_slice(key).expect("a key").encrypt_block(&mut block),
        _ => Aes256::new_from_slice(key).expect("a key").encrypt_block(&mut block),
    }
    block.into()
}

fn decrypt(key: &[u8], block: Block) -> Block {
    let mut block = block.into();
    match key.len() {
        16 => Aes128::new_from_slice(key).expect("a key").decrypt_block(&mut block),
        24 => Aes192::new_from_slice(key).expect("a key").decrypt_block(&mut block),
        _ => Aes256::new_from_slice(key).expect("a key").decrypt_block(&mut block),
    }
    block.into()
}

fn xor(a: &[u8], b: &[u8]) -> Vec<u8> {
    a.iter().zip(b).map(|(a, b)| a ^ b).collect()
}

fn block(bytes: &[u8]) -> Block {
    std::array::from_fn(|at| bytes.get(at).copied().unwrap_or(0))
}

/// The number, ciphered with a key that the SA's gives, as the manual has it.
fn cbc_iv(sa: &Sa, sequence: u64) -> Block {
    let key = Sha256::digest([b"warpline esp iv", &sa.enc_key[..]].concat());
    encrypt(&key[..16], u128::from(sequence).to_be_bytes())
}

/// NIST SP 800-38A, 6.2.
fn cbc_sealed(key: &[u8], iv: &[u8], text: &[u8]) -> Vec<u8> {
    let mut before = block(iv);
    let next = |part: &[u8]| {
        before = encrypt(key, block(&xor(part, &before)));
        before
    };
    text.chunks(16).flat_map(next).collect()
}

fn cbc_opened(key: &[u8], iv: &[u8], sealed: &[u8]) -> Vec<u8> {
    let befores = std::iter::once(iv).chain(sealed.chunks(16));
    let parts = sealed.chunks(16).zip(befores);
    parts.flat_map(|(part, before)| xor(&decrypt(key, block(part)), before)).collect()
}

/// Key and salt.
fn parts(sa: &Sa) -> (&[u8], &[u8]) {
    sa.enc_key.split_at(sa.enc_key.len() - 4)
}

/// In counter mode, from block `first` on (RFC 3686, 4).
fn counted(sa: &Sa, iv: &[u8], first: u32, text: &[u8]) -> Vec<u8> {
    let (key, salt) = parts(sa);
    let stream = |counter: u32| encrypt(key, block(&[salt, iv, &counter.to_be_bytes()].concat()));
    text.chunks(16).zip(first..).flat_map(|(part, counter)| xor(part, &stream(counter))).collect()
}

/// NIST SP 800-38D, 7.1.
fn gcm_tag(sa: &Sa, iv: &[u8], aad: &[u8], sealed: &[u8]) -> Vec<u8> {
    let (key, salt) = parts(sa);
    let hash_key = u128::from_be_bytes(encrypt(key, [0; 16]));
    let bits = |bytes: &[u8]| (bytes.len() as u64 * 8).to_be_bytes();
    let lens = [bits(aad), bits(sealed)].concat();
    let blocks = aad.chunks(16).chain(sealed.chunks(16)).chain([&lens[..]]);
    let hash = blocks.fold(0, |sum, part| times(sum ^ u128::from_be_bytes(block(part)), hash_key));
    let first = encrypt(key, block(&[salt, iv, &[0, 0, 0, 1]].concat()));
    xor(&first, &hash.to_be_bytes())
}

/// NIST SP 800-38D, 6.3.
fn times(x: u128, y: u128) -> u128 {
    let (mut product, mut power) = (0, y);
    for bit in (0..128).rev() {
        if x >> bit & 1 == 1 {
            product ^= power;
        }
        power = power >> 1 ^ if power & 1 == 1 { 0xe1 << 120 } else { 0 };
    }
    product
}
