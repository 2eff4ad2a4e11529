//! MD5 (RFC 1321), eight messages at a time: one in each 32-bit lane of a vector.
//!
//! MD5 is a chain in which each step waits for the one before, so one message alone leaves most of
//! a processor idle. [`compress`] takes one block of eight messages, or of two times eight, which
//! on AVX2 hides the waiting.

use wide::u32x8;

/// Messages whose blocks are worked on in the lanes of one vector.
pub const LANES: usize = 8;
/// Bytes of a block.
pub const BLOCK_LEN: usize = 64;

/// A block of a message: sixteen words, little endian.
pub type Block = [u8; BLOCK_LEN];
/// A digest as the four words A, B, C, D, each little endian in the digest's bytes (RFC 1321, 3.5).
pub type Digest = [u32; 4];

/// The initial state of a digest (RFC 1321, 3.3).
pub const INITIAL: Digest = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

/// The unfinished digests of [`LANES`] messages.
#[derive(Clone, Copy, Debug)]
pub struct States([u32x8; 4]);

impl States {
    /// All lanes at their start.
    pub const fn new() -> Self {
        Self([
            u32x8::new([INITIAL[0]; LANES]),
            u32x8::new([INITIAL[1]; LANES]),
            u32x8::new([INITIAL[2]; LANES]),
            u32x8::new([INITIAL[3]; LANES]),
        ])
    }

    /// The digest in `lane`, below [`LANES`].
    #[inline(always)]
    pub fn lane(&self, lane: usize) -> Digest {
        self.0.map(|word| word.as_array()[lane])
    }

    /// Puts `lane`, below [`LANES`], back to its start.
    #[inline(always)]
    pub fn restart(&mut self, lane: usize) {
        for (word, start) in self.0.iter_mut().zip(INITIAL) {
            word.as_mut_array()[lane] = start;
        }
    }
}

impl Default for States {
    fn default() -> Self {
        Self::new()
    }
}

/// The bytes of a digest, as they are written.
pub fn bytes(digest: Digest) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (to, word) in bytes.chunks_exact_mut(4).zip(digest) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// The end of a message of `len` bytes, of which `rest` follow its last whole block: 0x80, zeros,
/// and the length in bits (RFC 1321, 3.1 and 3.2). Says how many blocks it takes, 1 or 2.
#[inline]
pub fn pad(rest: &[u8], len: usize, padded: &mut [Block; 2]) -> usize {
    let bytes = padded.as_flattened_mut();
    let rest = &rest[..rest.len().min(BLOCK_LEN - 1)];
    let blocks = if rest.len() + 9 > BLOCK_LEN { 2 } else { 1 };
    bytes[..BLOCK_LEN * blocks].fill(0);
    bytes[..rest.len()].copy_from_slice(rest);
    bytes[rest.len()] = 0x80;
    let end = BLOCK_LEN * blocks;
    bytes[end - 8..end].copy_from_slice(&(8 * len as u64).to_le_bytes());
    blocks
}

/// One block of each message into its digest, for `G` vectors of them side by side.
#[inline(always)]
pub fn compress<const G: usize>(states: &mut [States; G], blocks: &[[&Block; LANES]; G]) {
    let words: [[u32x8; 16]; G] = core::array::from_fn(|group| transposed(&blocks[group]));
    let mut working = states.map(|state| state.0);
    macro_rules! steps {
        ($($step:literal)*) => { $(step::<$step, G>(&mut working, &words);)* };
    }
    steps!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    steps!(16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
    steps!(32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47);
    steps!(48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63);
    for (state, working) in states.iter_mut().zip(working) {
        for (word, add) in state.0.iter_mut().zip(working) {
            *word += add;
        }
    }
}

/// Step `I` of 64 (RFC 1321, 3.4): the names a, b, c, d move on by one place with each.
#[inline(always)]
fn step<const I: usize, const G: usize>(working: &mut [[u32x8; 4]; G], words: &[[u32x8; 16]; G]) {
    let left = SHIFTS[I / 16][I % 4];
    for (state, words) in working.iter_mut().zip(words) {
        let [a, b, c, d] = *state;
        // The terms without `b`, the word made last, come first.
        let sum = a + (words[word_of(I)] + u32x8::new([SINES[I]; LANES]));
        let sum = match I / 16 {
            0 => sum + (d ^ (b & (c ^ d))),
            // Of the two halves no bit is in both, so that the sum is the union.
            1 => (sum + (c & !d)) + (b & d),
            2 => sum + (b ^ (c ^ d)),
            _ => sum + (c ^ (b | !d)),
        };
        *state = [d, b + ((sum << left) | (sum >> (32 - left))), b, c];
    }
}

/// Which word of the block a step takes.
const fn word_of(step: usize) -> usize {
    match step / 16 {
        0 => step % 16,
        1 => (5 * step + 1) % 16,
        2 => (3 * step + 5) % 16,
        _ => 7 * step % 16,
    }
}

/// Word `i` of every block in vector `i`.
#[inline(always)]
fn transposed(blocks: &[&Block; LANES]) -> [u32x8; 16] {
    let half = |start: usize| {
        u32x8::transpose(core::array::from_fn(|lane| {
            u32x8::new(core::array::from_fn(|word| {
                let at = start + 4 * word;
                let block = blocks[lane];
                u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
            }))
        }))
    };
    let (low, high) = (half(0), half(BLOCK_LEN / 2));
    core::array::from_fn(|word| if word < 8 { low[word] } else { high[word - 8] })
}

/// Bits by which a step turns, by its round and its place among four.
const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// The integer part of 2^32 times the absolute sine of 1, 2, ... 64 (RFC 1321, 3.4).
#[rustfmt::skip]
const SINES: [u32; 64] = [
    0xd76a_a478, 0xe8c7_b756, 0x2420_70db, 0xc1bd_ceee,
    0xf57c_0faf, 0x4787_c62a, 0xa830_4613, 0xfd46_9501,
    0x6980_98d8, 0x8b44_f7af, 0xffff_5bb1, 0x895c_d7be,
    0x6b90_1122, 0xfd98_7193, 0xa679_438e, 0x49b4_0821,
    0xf61e_2562, 0xc040_b340, 0x265e_5a51, 0xe9b6_c7aa,
    0xd62f_105d, 0x0244_1453, 0xd8a1_e681, 0xe7d3_fbc8,
    0x21e1_cde6, 0xc337_07d6, 0xf4d5_0d87, 0x455a_14ed,
    0xa9e3_e905, 0xfcef_a3f8, 0x676f_02d9, 0x8d2a_4c8a,
    0xfffa_3942, 0x8771_f681, 0x6d9d_6122, 0xfde5_380c,
    0xa4be_ea44, 0x4bde_cfa9, 0xf6bb_4b60, 0xbebf_bc70,
    0x289b_7ec6, 0xeaa1_27fa, 0xd4ef_3085, 0x0488_1d05,
    0xd9d4_d039, 0xe6db_99e5, 0x1fa2_7cf8, 0xc4ac_5665,
    0xf429_2244, 0x432a_ff97, 0xab94_23a7, 0xfc93_a039,
    0x655b_59c3, 0x8f0c_cc92, 0xffef_f47d, 0x8584_5dd1,
    0x6fa8_7e4f, 0xfe2c_e6e0, 0xa301_4314, 0x4e08_11a1,
    0xf753_7e82, 0xbd3a_f235, 0x2ad7_d2bb, 0xeb86_d391,
];
