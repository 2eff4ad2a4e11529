//! AES in counter mode: the blocks of the keystream, many at a time.

use core::ops::Range;

use aes::Block;
use wide::u8x16;

use super::block_keys::Encryptor;
use super::{HEADER_LEN, Room};
use crate::cipher::Job;
use crate::cipher::key_row::Key;

/// The start of counter blocks: salt or nonce, then IV (RFC 3686, 4; RFC 4106, 4).
pub(super) type Nonce = [u8; 12];

/// The nonce of a packet with its IV in it.
pub(super) fn nonce_of(key: &Key<'_>, esp: &[u8]) -> Nonce {
    let mut nonce = Nonce::default();
    nonce[..4].copy_from_slice(&key.row.salt);
    nonce[4..].copy_from_slice(&esp[HEADER_LEN..HEADER_LEN + 8]);
    nonce
}

/// Encrypts or decrypts the text of `job` (RFC 3686, 2.1): its counter starts with one.
pub(super) fn xor(
    key: &Key<'_>,
    cipher: &Encryptor,
    job: &mut Job<'_>,
    text: Range<usize>,
    room: &mut Room,
) {
    let nonce = nonce_of(key, job.esp);
    let mut keystream = Keystream::new(cipher, nonce, text.len().div_ceil(16), room);
    keystream.xor(&mut job.esp[text]);
}

/// The keystream of one packet, from counter one on.
pub(super) struct Keystream<'a> {
    cipher: &'a Encryptor,
    nonce: Nonce,
    /// Those made.
    blocks: &'a mut Room,
    /// How many of them are there and how many were used.
    made: usize,
    used: usize,
    /// Counter of the next block that is not made.
    counter: u32,
    /// Blocks to be made yet.
    left: usize,
}

impl<'a> Keystream<'a> {
    /// A keystream of `len` blocks.
    pub(super) fn new(cipher: &'a Encryptor, nonce: Nonce, len: usize, room: &'a mut Room) -> Self {
        let mut keystream =
            Self { cipher, nonce, blocks: room, made: 0, used: 0, counter: 1, left: len };
        keystream.make();
        keystream
    }

    /// The next block.
    pub(super) fn take_block(&mut self) -> Block {
        if self.used == self.made {
            self.make();
        }
        self.used += 1;
        self.blocks[self.used - 1]
    }

    /// Adds the keystream to `text`.
    pub(super) fn xor(&mut self, mut text: &mut [u8]) {
        while !text.is_empty() {
            if self.used == self.made {
                self.make();
            }
            let blocks = &self.blocks[self.used..self.made];
            let (now, later) = text.split_at_mut(text.len().min(16 * blocks.len()));
            self.used += now.len().div_ceil(16);
            let (whole, tail) = now.as_chunks_mut::<16>();
            for (text, block) in whole.iter_mut().zip(blocks) {
                xor_block(text, &block.0);
            }
            if let Some(block) = blocks.get(whole.len()) {
                for (text, key) in tail.iter_mut().zip(block) {
                    *text ^= key;
                }
            }
            text = later;
        }
    }

    /// Makes as many blocks as there is room for.
    fn make(&mut self) {
        // One at least, also where more is asked for than was said.
        self.made = self.left.clamp(1, self.blocks.len());
        self.left = self.left.saturating_sub(self.made);
        self.used = 0;
        let blocks = &mut self.blocks[..self.made];
        for block in &mut *blocks {
            block[..12].copy_from_slice(&self.nonce);
            block[12..].copy_from_slice(&self.counter.to_be_bytes());
            self.counter = self.counter.wrapping_add(1);
        }
        self.cipher.encrypt(blocks);
    }
}

/// Adds `other` to `block`. In one register: if two pieces are written to memory, the next read of
/// the block waits for both.
#[inline]
pub(super) fn xor_block(block: &mut [u8; 16], other: &[u8; 16]) {
    *block = (u8x16::new(*block) ^ u8x16::new(*other)).to_array();
}
