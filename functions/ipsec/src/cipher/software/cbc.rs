//! AES in CBC mode (RFC 3602).
//!
//! Sealing uses eight lanes with a packet each: a round is done for a block of every lane at once.
//! A lane takes the next packet as soon as its own is done. Between the rounds the ciphertext is
//! hashed, since a CPU does both at a time. On a Xeon of family 6, model 143, packets of 1472 bytes
//! with SHA-1 take 1611 ns this way, and 1778 if they are hashed afterwards.

use core::array;

use aes::Block;
use aes::hazmat::{Block8, cipher_round_par, inv_mix_columns, mix_columns};
use zeroize::optimization_barrier;

use super::block_keys::Decryptor;
use super::hmac::{Hash, Mac, Sha1, Sha256, Unauthenticated};
use super::keystream::xor_block;
use super::{HEADER_LEN, JOBS_MAX, Room, key_and_text};
use crate::cipher::key_row::{Key, KeyTable, ROUND_KEYS_MAX};
use crate::cipher::{Auth, Job};

/// Packets side by side, those of `cipher_round_par`.
const LANES: usize = 8;
/// Where the text starts.
const TEXT: usize = HEADER_LEN + 16;

/// The jobs to seal here, and which of them can run in parallel: those with equal rounds and
/// authentication.
pub(super) struct Classes {
    of_job: [u8; JOBS_MAX],
    /// A bit for each that occurs.
    present: u16,
}

/// The class of jobs that are not to be sealed here.
const NO_CLASS: u8 = u8::MAX;
/// Numbers of rounds.
const ROUNDS: [usize; 3] = [10, 12, 14];
/// Authentications.
const AUTHS: [Auth; 3] = [Auth::None, Auth::Sha1, Auth::Sha256];

impl Default for Classes {
    fn default() -> Self {
        Self { of_job: [NO_CLASS; JOBS_MAX], present: 0 }
    }
}

impl Classes {
    /// Job `i` is to be sealed with `key`.
    pub(super) fn set(&mut self, i: usize, key: &Key<'_>) {
        let class = class_of(usize::from(key.row.rounds), key.auth);
        self.of_job[i] = class;
        self.present |= 1 << class;
    }

    /// The jobs whose class satisfies `has`.
    fn packets<'a>(
        &self,
        keys: &'a KeyTable,
        jobs: &'a mut [Job<'_>],
        has: impl Fn(u8) -> bool,
    ) -> impl Iterator<Item = Packet<'a>> {
        let classes = self.of_job.iter();
        let jobs = jobs.iter_mut().zip(classes).filter(move |(_, class)| has(**class));
        jobs.filter_map(|(job, _)| {
            let (key, text) = key_and_text(keys, job)?;
            Some(Packet { key, text_end: text.end, sequence: job.sequence, esp: job.esp })
        })
    }
}

const fn class_of(rounds: usize, auth: Auth) -> u8 {
    (rounds - ROUNDS[0]) as u8 / 2 * AUTHS.len() as u8 + auth as u8
}

/// A packet to be sealed.
struct Packet<'a> {
    key: Key<'a>,
    sequence: u64,
    esp: &'a mut [u8],
    text_end: usize,
}

/// Seals the jobs that are in a class.
pub(super) fn seal(keys: &KeyTable, jobs: &mut [Job<'_>], classes: &Classes) {
    if classes.present == 0 {
        return;
    }
    write_ivs(classes.packets(keys, jobs, |class| class != NO_CLASS));
    for rounds in ROUNDS {
        for auth in AUTHS {
            let class = class_of(rounds, auth);
            if classes.present & 1 << class == 0 {
                continue;
            }
            let packets = classes.packets(keys, jobs, |of_job| of_job == class);
            match auth {
                Auth::None => seal_class::<Unauthenticated>(rounds, packets),
                Auth::Sha1 => seal_class::<Sha1>(rounds, packets),
                Auth::Sha256 => seal_class::<Sha256>(rounds, packets),
            }
        }
    }
}

/// Writes the IV of each packet: its sequence number, encrypted with a key for that alone.
fn write_ivs<'a>(mut packets: impl Iterator<Item = Packet<'a>>) {
    let mut keys = Keys::new();
    loop {
        let mut batch: [Option<Packet<'_>>; LANES] = array::from_fn(|_| packets.next());
        let mut blocks = Block8::default();
        for (lane, packet) in batch.iter().enumerate() {
            if let Some(packet) = packet {
                blocks[lane][8..].copy_from_slice(&packet.sequence.to_be_bytes());
                keys.set(lane, &packet.key.row.iv_keys);
            }
        }
        if batch[0].is_none() {
            return;
        }
        for (lane, block) in blocks.iter_mut().enumerate() {
            xor_block(&mut block.0, keys.first(lane));
        }
        keys.encrypt(&mut blocks, 10, || {});
        for (packet, iv) in batch.iter_mut().flatten().zip(&blocks) {
            packet.esp[HEADER_LEN..TEXT].copy_from_slice(iv);
        }
    }
}

/// Seals packets with keys of `rounds` rounds and an HMAC of `H`, with the IVs that they have.
fn seal_class<'a, H: Hash>(rounds: usize, mut packets: impl Iterator<Item = Packet<'a>>) {
    let mut lanes: [Option<Lane<'_, H>>; LANES] = [const { None }; LANES];
    let mut keys = Keys::new();
    let mut blocks = Block8::default();
    // Lanes take turns with a block to hash: every lane twice in eight steps, so that it keeps
    // pace.
    let mut turn = 0;
    loop {
        for (i, lane) in lanes.iter_mut().enumerate() {
            while lane.as_ref().is_none_or(|lane| lane.blocks_left() == 0) {
                if let Some(done) = lane.take() {
                    done.finish();
                }
                let Some(packet) = packets.next() else { break };
                keys.set(i, &packet.key.row.round_keys[..=rounds]);
                blocks[i].copy_from_slice(&packet.esp[HEADER_LEN..TEXT]);
                *lane = Some(Lane::new(packet));
            }
        }
        let Some(steps) = lanes.iter().flatten().map(Lane::blocks_left).min() else { return };
        for _ in 0..steps {
            for (i, (lane, block)) in lanes.iter().zip(&mut blocks).enumerate() {
                xor_block(&mut block.0, keys.first(i));
                if let Some(lane) = lane {
                    lane.add_text(block);
                }
            }
            keys.encrypt(&mut blocks, rounds, || hash_block(&mut lanes[turn]));
            for (lane, block) in lanes.iter_mut().zip(&blocks) {
                if let Some(lane) = lane {
                    lane.put(block);
                }
            }
            hash_block(&mut lanes[turn + 1]);
            turn = (turn + 2) % LANES;
        }
    }
}

fn hash_block<H: Hash>(lane: &mut Option<Lane<'_, H>>) {
    if let Some(lane) = lane {
        lane.mac.take_block(&lane.packet.esp[..lane.next]);
    }
}

/// A packet under way.
struct Lane<'a, H> {
    packet: Packet<'a>,
    mac: Mac<'a, H>,
    /// The first byte that is plain.
    next: usize,
}

impl<'a, H: Hash> Lane<'a, H> {
    fn new(packet: Packet<'a>) -> Self {
        Self { mac: Mac::new(packet.key.row), packet, next: TEXT }
    }

    fn blocks_left(&self) -> usize {
        (self.packet.text_end - self.next) / 16
    }

    /// Adds the next block of the text to the one before, which is encrypted.
    fn add_text(&self, block: &mut Block) {
        if let Some(text) = self.packet.esp.get(self.next..).and_then(|rest| rest.first_chunk()) {
            xor_block(&mut block.0, text);
        }
    }

    /// Puts `block` in place of that text.
    fn put(&mut self, block: &Block) {
        self.packet.esp[self.next..self.next + 16].copy_from_slice(block);
        self.next += 16;
    }

    /// Writes the ICV.
    fn finish(self) {
        let Packet { key, sequence, esp, text_end } = self.packet;
        let (esp, icv) = esp.split_at_mut(text_end);
        icv.copy_from_slice(&self.mac.finish(esp, key.high_half(sequence))[..icv.len()]);
    }
}

/// The round keys of every lane, those of a round together.
struct Keys([Block8; ROUND_KEYS_MAX]);

impl Keys {
    fn new() -> Self {
        Self([Block8::default(); ROUND_KEYS_MAX])
    }

    /// From now on `lane` has `round_keys`, all that there are.
    fn set(&mut self, lane: usize, round_keys: &[[u8; 16]]) {
        for (keys, round_key) in self.0.iter_mut().zip(round_keys) {
            keys[lane].0 = *round_key;
        }
        if let Some(last) = self.0.get_mut(round_keys.len() - 1) {
            mix_columns(&mut last[lane]);
        }
    }

    /// The block that is added to that of `lane` before it is encrypted.
    fn first(&self, lane: usize) -> &[u8; 16] {
        &self.0[0][lane].0
    }

    /// The rounds of AES after the first round key (FIPS 197, 5.1). Halfway, it calls `between`.
    fn encrypt(&self, blocks: &mut Block8, rounds: usize, between: impl FnOnce()) {
        let (first, second) = self.0[1..=rounds].split_at(rounds / 2);
        for keys in first {
            cipher_round_par(blocks, keys);
        }
        between();
        for keys in second {
            cipher_round_par(blocks, keys);
        }
        // The last round does not mix columns, and there is no function for it. The mixing is
        // undone; for that its round key is mixed too.
        for block in blocks {
            inv_mix_columns(block);
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.0 = [Block8::default(); ROUND_KEYS_MAX];
        optimization_barrier(&self.0);
    }
}

/// Decrypts the blocks of `text`. The first is the IV and stays.
pub(super) fn open(cipher: &Decryptor, text: &mut [u8], room: &mut Room) {
    let Some((before, text)) = text.split_first_chunk_mut::<16>() else { return };
    let mut before = *before;
    for text in text.as_chunks_mut::<16>().0.chunks_mut(room.len()) {
        let blocks = &mut room[..text.len()];
        for (block, text) in blocks.iter_mut().zip(&*text) {
            block.0 = *text;
        }
        cipher.decrypt(blocks);
        for (block, text) in blocks.iter_mut().zip(text) {
            xor_block(&mut block.0, &before);
            before = *text;
            *text = block.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cipher::Cipher;
    use crate::cipher::cases::{self, Suite, hex};
    use crate::sa::Direction;

    /// RFC 3602, 4, with the IVs given there, all side by side.
    #[test]
    fn seals_the_vectors_of_the_rfc() {
        let suite = Suite { cipher: Cipher::Cbc, key_len: 16, auth: Auth::None, esn: false };
        let sas = cases::CBC.map(|[key, ..]| cases::sa(suite, Direction::Out, &hex(key), &[]));
        let keys = KeyTable::new(&sas);
        let mut packets =
            cases::CBC.map(|[_, iv, text, _]| [vec![0; 8], hex(iv), hex(text)].concat());
        let packets_of = packets.iter_mut().enumerate().map(|(i, esp)| Packet {
            key: keys.key(i as u32).unwrap(),
            sequence: 0,
            text_end: esp.len(),
            esp,
        });
        seal_class::<Unauthenticated>(10, packets_of);
        for (packet, [_, _, _, sealed]) in packets.iter().zip(cases::CBC) {
            assert_eq!(packet[TEXT..], hex(sealed));
        }
    }
}
