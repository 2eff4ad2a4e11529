//! AES in Galois counter mode for ESP (RFC 4106), by NIST SP 800-38D, 7.

use core::ops::Range;

use aes::Block;
use ghash::GHash;
use ghash::universal_hash::UniversalHash;
use subtle::ConstantTimeEq;

use super::block_keys::Encryptor;
use super::keystream::{Keystream, nonce_of, xor_block};
use super::{HEADER_LEN, Room};
use crate::cipher::Job;
use crate::cipher::key_row::Key;

/// Encrypts the text after the IV and writes the ICV.
pub(super) fn seal(
    key: &Key<'_>,
    cipher: &Encryptor,
    hash: &GHash,
    job: &mut Job<'_>,
    text: Range<usize>,
    room: &mut Room,
) {
    let mut keystream = keystream_of(key, cipher, job, &text, room);
    let mask = keystream.take_block();
    keystream.xor(&mut job.esp[text.clone()]);
    let icv = icv_of(key, hash, mask, job, text.clone());
    job.esp[text.end..].copy_from_slice(&icv);
}

/// Compares the ICV, decrypts the text if it is right and returns whether it was.
pub(super) fn open(
    key: &Key<'_>,
    cipher: &Encryptor,
    hash: &GHash,
    job: &mut Job<'_>,
    text: Range<usize>,
    room: &mut Room,
) -> bool {
    let mut keystream = keystream_of(key, cipher, job, &text, room);
    let mask = keystream.take_block();
    let is_authentic =
        icv_of(key, hash, mask, job, text.clone()).ct_eq(&job.esp[text.end..]).into();
    if is_authentic {
        keystream.xor(&mut job.esp[text]);
    }
    is_authentic
}

/// The block with counter one, which hides the hash, then those for the text.
fn keystream_of<'a>(
    key: &Key<'_>,
    cipher: &'a Encryptor,
    job: &Job<'_>,
    text: &Range<usize>,
    room: &'a mut Room,
) -> Keystream<'a> {
    Keystream::new(cipher, nonce_of(key, job.esp), 1 + text.len().div_ceil(16), room)
}

/// The ICV over what RFC 4106, 5 names and the encrypted text.
fn icv_of(key: &Key<'_>, hash: &GHash, mask: Block, job: &Job<'_>, text: Range<usize>) -> [u8; 16] {
    let mut known = Block::default();
    let (spi, low) = job.esp[..HEADER_LEN].split_at(4);
    known[..4].copy_from_slice(spi);
    let known_len = match key.high_half(job.sequence) {
        Some(high) => {
            known[4..8].copy_from_slice(&high);
            known[8..12].copy_from_slice(low);
            12
        }
        None => {
            known[4..8].copy_from_slice(low);
            8
        }
    };
    let mut lengths = Block::default();
    lengths[..8].copy_from_slice(&(8 * known_len as u64).to_be_bytes());
    lengths[8..].copy_from_slice(&(8 * text.len() as u64).to_be_bytes());

    let mut hash = hash.clone();
    hash.update(&[known]);
    hash.update_padded(&job.esp[text]);
    hash.update(&[lengths]);
    let mut icv = hash.finalize().0;
    xor_block(&mut icv, &mask.0);
    icv
}
