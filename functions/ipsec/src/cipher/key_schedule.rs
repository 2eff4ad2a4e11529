//! AES round keys (FIPS 197, 5.2 and 5.3.5) from keys of 16, 24 or 32 bytes.
//!
//! The S-box is that of the `aes` crate, so no table look-up depends on a key.

use aes::Block;
use aes::hazmat::{cipher_round, inv_mix_columns};
use zeroize::Zeroizing;

/// Round keys of the longest AES key: 14 rounds.
pub const ROUND_KEYS_MAX: usize = 15;
/// Bytes of the longest key.
const KEY_LEN_MAX: usize = 32;

/// Rounds of a key of `key_len` bytes; `None` where AES has none.
const fn rounds_of(key_len: usize) -> Option<usize> {
    match key_len {
        16 | 24 | KEY_LEN_MAX => Some(key_len / 4 + 6),
        _ => None,
    }
}

/// Writes the round keys of the cipher to the start of `round_keys`, in the order of use, and
/// returns the number of rounds. Returns `None` and writes nothing if `key` has no AES length or
/// `round_keys` is too short.
pub(super) fn expand(key: &[u8], round_keys: &mut [[u8; 16]]) -> Option<usize> {
    let rounds = rounds_of(key.len())?;
    let round_keys = round_keys.get_mut(..=rounds)?;
    let words = round_keys.as_flattened_mut().as_chunks_mut::<4>().0;
    let key_words = key.as_chunks::<4>().0;
    words[..key_words.len()].copy_from_slice(key_words);
    let mut round_constant = 1u8;
    for i in key_words.len()..words.len() {
        let mut word = Zeroizing::new(words[i - 1]);
        if i % key_words.len() == 0 {
            word.rotate_left(1);
            substitute(&mut word);
            word[0] ^= round_constant;
            // Ten of them are used, the last one is 0x36: they double in GF(2^8).
            round_constant = (round_constant << 1) ^ (0x1b * (round_constant >> 7));
        } else if key_words.len() > 6 && i % key_words.len() == 4 {
            substitute(&mut word);
        }
        for (byte, before) in word.iter_mut().zip(words[i - key_words.len()]) {
            *byte ^= before;
        }
        words[i] = *word;
    }
    Some(rounds)
}

/// Converts all round keys of the cipher to those of the equivalent inverse cipher, in the order of
/// use.
pub(super) fn invert(round_keys: &mut [[u8; 16]]) {
    round_keys.reverse();
    if let [_, inner @ .., _] = round_keys {
        for round_key in inner {
            inv_mix_columns(round_key.into());
        }
    }
}

/// `SubWord()`. In a state of four equal columns, shifting rows changes nothing, and the rest of a
/// round is undone.
fn substitute(word: &mut [u8; 4]) {
    let mut state = Zeroizing::new([0; 16]);
    for column in state.as_chunks_mut::<4>().0 {
        *column = *word;
    }
    let block: &mut Block = (&mut *state).into();
    cipher_round(block, &Block::default());
    inv_mix_columns(block);
    word.copy_from_slice(&block[..4]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cipher::cases::hex;

    fn schedule(key: &str) -> Vec<[u8; 16]> {
        let mut round_keys = vec![[0; 16]; ROUND_KEYS_MAX];
        let rounds = expand(&hex(key), &mut round_keys).unwrap();
        assert!(round_keys.drain(rounds + 1..).all(|unused| unused == [0; 16]));
        round_keys
    }

    /// FIPS 197, appendix A: round keys of the three keys, as (number, words).
    #[test]
    fn schedules_of_fips_197() {
        let aes_128 = schedule("2b7e1516 28aed2a6 abf71588 09cf4f3c");
        let aes_192 = schedule("8e73b0f7 da0e6452 c810f32b 809079e5 62f8ead2 522c6b7b");
        let aes_256 =
            schedule("603deb10 15ca71be 2b73aef0 857d7781 1f352c07 3b6108d7 2d9810a3 0914dff4");
        for (schedule, number, words) in [
            (&aes_128, 0, "2b7e1516 28aed2a6 abf71588 09cf4f3c"),
            (&aes_128, 1, "a0fafe17 88542cb1 23a33939 2a6c7605"),
            (&aes_128, 2, "f2c295f2 7a96b943 5935807a 7359f67f"),
            (&aes_128, 9, "ac7766f3 19fadc21 28d12941 575c006e"),
            (&aes_128, 10, "d014f9a8 c9ee2589 e13f0cc8 b6630ca6"),
            (&aes_192, 1, "62f8ead2 522c6b7b fe0c91f7 2402f5a5"),
            (&aes_192, 12, "e98ba06f 448c773c 8ecc7204 01002202"),
            (&aes_256, 2, "9ba35411 8e6925af a51a8b5f 2067fcde"),
            (&aes_256, 14, "fe4890d1 e6188d0b 046df344 706c631e"),
        ] {
            assert_eq!(schedule[number].to_vec(), hex(words), "round {number}");
        }
    }

    /// FIPS 197, appendix C, where each key is 00 01 02 and so on: the first and last `ik_sch`, and
    /// that of round 1, of the equivalent inverse cipher.
    #[test]
    fn inverse_schedules_of_fips_197() {
        for (len, first, second) in [
            (16, "13111d7fe3944a17f307a78b4d2b30c5", "13aa29be9c8faff6f770f58000f7bf03"),
            (24, "a4970a331a78dc09c418c271e3a41d5d", "d6bebd0dc209ea494db073803e021bb9"),
            (32, "24fc79ccbf0979e9371ac23c6d68de36", "34f1d1ffbfceaa2ffce9e25f2558016e"),
        ] {
            let key: Vec<u8> = (0..len).collect();
            let mut round_keys = [[0; 16]; ROUND_KEYS_MAX];
            let rounds = expand(&key, &mut round_keys).unwrap();
            invert(&mut round_keys[..=rounds]);
            assert_eq!(round_keys[0].to_vec(), hex(first));
            assert_eq!(round_keys[1].to_vec(), hex(second));
            assert_eq!(round_keys[rounds], key[..16]);
        }
    }

    #[test]
    fn keys_of_other_lengths_are_refused() {
        for len in (0..100).filter(|len| ![16, 24, 32].contains(len)) {
            let mut round_keys = [[7; 16]; ROUND_KEYS_MAX];
            assert_eq!(expand(&vec![1; len], &mut round_keys), None);
            assert_eq!(round_keys, [[7; 16]; ROUND_KEYS_MAX]);
        }
        assert_eq!(expand(&[1; 16], &mut [[0; 16]; 10]), None);
    }
}
