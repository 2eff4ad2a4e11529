//! The IVs of CBC.

use aes::Block;
use aes::hazmat::{Block8, cipher_round_par, inv_mix_columns};

use super::{Cipher, HEADER_LEN, Job, Keys, Note};

/// Sealing with CBC: makes the IVs of sequence numbers, eight packets in step.
pub(super) fn write_cbc_ivs(keys: Keys<'_>, jobs: &mut [Job<'_>], notes: &mut [Note]) {
    let is_cbc = |note: &Note| note.plan.is_some_and(|plan| plan.cipher == Cipher::Cbc);
    let mut cbc = jobs.iter_mut().zip(notes).filter(|(_, note)| is_cbc(note));
    loop {
        let mut lanes: [_; 8] = core::array::from_fn(|_| cbc.next());
        let mut blocks = [[0; 16]; 8];
        let mut iv_keys = [&[[0; 16]; 11]; 8];
        for (lane, job) in lanes.iter().enumerate() {
            let Some((job, _)) = job else { break };
            blocks[lane][8..].copy_from_slice(&job.sequence.to_be_bytes());
            iv_keys[lane] = &keys.rows[job.row as usize].iv_keys;
        }
        encrypt(&mut blocks, &iv_keys);
        for (lane, block) in lanes.iter_mut().zip(&blocks) {
            let Some((job, note)) = lane else { return };
            job.esp[HEADER_LEN..][..16].copy_from_slice(block);
            note.iv = *block;
        }
    }
}

/// AES-128 of eight blocks, each with keys of its own (FIPS 197, 5.1).
fn encrypt(blocks: &mut [[u8; 16]; 8], keys: &[&[[u8; 16]; 11]; 8]) {
    let round = |round: usize| -> Block8 { keys.map(|keys| Block::from(keys[round])).into() };
    let mut state: Block8 = blocks.map(Block::from).into();
    for (block, key) in state.iter_mut().zip(round(0)) {
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
    }
    for number in 1..10 {
        cipher_round_par(&mut state, &round(number));
    }
    // The last round mixes no columns.
    cipher_round_par(&mut state, &Block8::default());
    for ((block, to), key) in state.iter_mut().zip(blocks).zip(round(10)) {
        inv_mix_columns(block);
        *to = core::array::from_fn(|i| block[i] ^ key[i]);
    }
}
