//! The IVs of CBC.

use aes::Block;
use aes::hazmat::{Block8, cipher_round_par, inv_mix_columns};

use super::{Cipher, HEADER_LEN, Job, Keys, Note};

/// Packets in step.
const LANES: usize = 8;

/// Sealing with CBC: makes the IVs of sequence numbers.
pub(super) fn write_cbc_ivs(keys: Keys<'_>, jobs: &mut [Job<'_>], notes: &mut [Note]) {
    let (mut lanes, mut count) = ([0; LANES], 0);
    for index in 0..notes.len() {
        let is_cbc = notes[index].plan.is_some_and(|plan| plan.cipher == Cipher::Cbc);
        lanes[count] = index;
        count += usize::from(is_cbc);
        if count == LANES {
            write_ivs(keys, jobs, notes, lanes);
            count = 0;
        }
    }
    if count > 0 {
        // Unused lanes repeat the work of the first one.
        let first = lanes[0];
        lanes[count..].fill(first);
        write_ivs(keys, jobs, notes, lanes);
    }
}

/// AES-128 of eight numbers, each with keys of its own (FIPS 197, 5.1).
fn write_ivs(keys: Keys<'_>, jobs: &mut [Job<'_>], notes: &mut [Note], lanes: [usize; LANES]) {
    let iv_keys = lanes.map(|lane| &keys.rows[jobs[lane].row as usize].iv_keys);
    let (mut state, mut round_keys) = (Block8::default(), Block8::default());
    for ((block, key), lane) in state.iter_mut().zip(iv_keys).zip(lanes) {
        *block = Block::from(xor(u128::from(jobs[lane].sequence).to_be_bytes(), key[0]));
    }
    for number in 1..10 {
        for (round_key, keys) in round_keys.iter_mut().zip(iv_keys) {
            *round_key = Block::from(keys[number]);
        }
        cipher_round_par(&mut state, &round_keys);
    }
    // The last round mixes no columns.
    cipher_round_par(&mut state, &Block8::default());
    for ((block, key), lane) in state.iter_mut().zip(iv_keys).zip(lanes) {
        inv_mix_columns(block);
        let iv = xor((*block).into(), key[10]);
        jobs[lane].esp[HEADER_LEN..][..16].copy_from_slice(&iv);
        notes[lane].iv = iv;
    }
}

#[inline(always)]
fn xor(a: [u8; 16], b: [u8; 16]) -> [u8; 16] {
    (u128::from_ne_bytes(a) ^ u128::from_ne_bytes(b)).to_ne_bytes()
}
