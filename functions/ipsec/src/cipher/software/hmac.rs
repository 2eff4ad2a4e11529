//! HMAC (RFC 2104) of ESP with SHA-1 (RFC 2404) and SHA-256 (RFC 4868), from the states in a key
//! row.
//!
//! Whole blocks are hashed in the packet itself; only the rest is copied.

use crate::cipher::KeyRow;

/// Bytes of a block of both hashes.
const BLOCK: usize = 64;

/// A hash by its block function; the inner one has already processed the padded key.
pub(super) trait Hash {
    /// Continues from a state of a key row.
    fn resume(words: &[u32; 8]) -> Self;
    /// Hashes whole blocks.
    fn compress(&mut self, blocks: &[[u8; BLOCK]]);
    /// The state as a digest, in the first bytes, and its length.
    fn digest(&self) -> ([u8; 32], usize);
}

/// FIPS 180-4, 6.1.
pub(super) struct Sha1([u32; 5]);

impl Hash for Sha1 {
    fn resume(&[a, b, c, d, e, ..]: &[u32; 8]) -> Self {
        Self([a, b, c, d, e])
    }

    fn compress(&mut self, blocks: &[[u8; BLOCK]]) {
        sha1::block_api::compress(&mut self.0, blocks);
    }

    fn digest(&self) -> ([u8; 32], usize) {
        (big_endian(&self.0), 20)
    }
}

/// FIPS 180-4, 6.2.
pub(super) struct Sha256([u32; 8]);

impl Hash for Sha256 {
    fn resume(words: &[u32; 8]) -> Self {
        Self(*words)
    }

    fn compress(&mut self, blocks: &[[u8; BLOCK]]) {
        sha2::block_api::compress256(&mut self.0, blocks);
    }

    fn digest(&self) -> ([u8; 32], usize) {
        (big_endian(&self.0), 32)
    }
}

/// In place of a hash where there is no ICV.
pub(super) struct Unauthenticated;

impl Hash for Unauthenticated {
    fn resume(_: &[u32; 8]) -> Self {
        Self
    }

    fn compress(&mut self, _: &[[u8; BLOCK]]) {}

    fn digest(&self) -> ([u8; 32], usize) {
        ([0; 32], 0)
    }
}

fn big_endian(words: &[u32]) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (bytes, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *bytes = word.to_be_bytes();
    }
    bytes
}

/// An HMAC under way over a message whose first `hashed` bytes are done.
pub(super) struct Mac<'a, H> {
    row: &'a KeyRow,
    inner: H,
    hashed: usize,
}

impl<'a, H: Hash> Mac<'a, H> {
    pub(super) fn new(row: &'a KeyRow) -> Self {
        Self { row, inner: H::resume(&row.inner), hashed: 0 }
    }

    /// Hashes one block, if `message`, which is as much of the message as is known, has another.
    pub(super) fn take_block(&mut self, message: &[u8]) {
        if let Some(block) = message.get(self.hashed..).and_then(|rest| rest.first_chunk()) {
            self.inner.compress(core::slice::from_ref(block));
            self.hashed += BLOCK;
        }
    }

    /// The first 16 bytes of the HMAC of `message`, the whole of it, and then of `high`.
    pub(super) fn finish(mut self, message: &[u8], high: Option<[u8; 4]>) -> [u8; 16] {
        let (blocks, tail) = message[self.hashed..].as_chunks();
        self.inner.compress(blocks);
        let high = high.as_ref().map_or(&[][..], |high| high);
        self.inner.compress_last(tail, high, message.len() + high.len());
        let (digest, digest_len) = self.inner.digest();
        let mut outer = H::resume(&self.row.outer);
        outer.compress_last(&digest[..digest_len], &[], digest_len);
        let [icv @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = outer.digest().0;
        icv
    }
}

trait CompressLast: Hash {
    /// Hashes `tail`, less than a block, then `more`, and the padding (FIPS 180-4, 5.1.1) of a
    /// message of `len` bytes after the padded key.
    fn compress_last(&mut self, tail: &[u8], more: &[u8], len: usize) {
        let mut padded = [[0; BLOCK]; 2];
        let bytes = padded.as_flattened_mut();
        let end = tail.len() + more.len();
        bytes[..tail.len()].copy_from_slice(tail);
        bytes[tail.len()..end].copy_from_slice(more);
        bytes[end] = 0x80;
        let used = (end + 1 + 8).next_multiple_of(BLOCK);
        let bits = 8 * (BLOCK + len) as u64;
        bytes[used - 8..used].copy_from_slice(&bits.to_be_bytes());
        self.compress(&padded[..used / BLOCK]);
    }
}

impl<H: Hash> CompressLast for H {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cipher::cases::{self, Suite, hex};
    use crate::cipher::{Auth, Cipher, KeyTable};
    use crate::sa::Direction;

    fn hmac<H: Hash>(row: &KeyRow, message: &[u8], taken: usize) -> [u8; 16] {
        let mut mac = Mac::<H>::new(row);
        for _ in 0..taken {
            mac.take_block(message);
        }
        mac.finish(message, None)
    }

    #[test]
    fn vectors_of_the_rfcs_and_long_messages_in_steps() {
        for (auth, key, message, expected) in cases::HMAC {
            let suite = Suite { cipher: Cipher::Null, key_len: 0, auth, esn: false };
            let keys = KeyTable::new(&[cases::sa(suite, Direction::Out, &[], &hex(key))]);
            let hmac = match auth {
                Auth::Sha1 => hmac::<Sha1>,
                _ => hmac::<Sha256>,
            };
            assert_eq!(hmac(&keys.rows()[0], message, 1).as_slice(), &hex(expected)[..16]);
            for len in [63, 64, 119, 120, 128, 200] {
                let message = vec![1; len];
                let at_once = hmac(&keys.rows()[0], &message, 0);
                for taken in 1..5 {
                    assert_eq!(hmac(&keys.rows()[0], &message, taken), at_once);
                }
            }
        }
    }
}
