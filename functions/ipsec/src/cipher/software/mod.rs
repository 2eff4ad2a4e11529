//! The cipher work on any CPU: the crates `aes`, `sha1`, `sha2` and `ghash`, which use the CPU's
//! instructions for them if it has them.
//!
//! When sealing in CBC mode, each block waits for the one before, so eight packets are done in
//! parallel. All other work has enough blocks within one packet.

mod block_keys;
mod cbc;
mod gcm;
mod hmac;
mod keystream;

use core::ops::Range;

use aes::Block;
use subtle::ConstantTimeEq;

pub(super) use block_keys::Schedule;
use hmac::{Mac, Sha1, Sha256, Unauthenticated};

use super::key_row::{Key, KeyTable};
use super::{Auth, Cipher, Job, icv_len};

/// Jobs that go side by side; more of them are done one such number after another.
pub const JOBS_MAX: usize = 256;

/// Bytes of the SPI and of the sequence number (RFC 4303, 2).
const HEADER_LEN: usize = 8;

/// Room for blocks between packet and cipher: those of a packet of usual size, and one more.
type Room = [Block; 96];

/// Makes the IV, encrypts the text in place and writes the ICV, for each of `jobs`.
///
/// A job is left untouched if its row is missing, is unusable or opens CBC, or if its algorithms
/// never make the length of its `esp`.
pub fn seal(keys: &KeyTable, jobs: &mut [Job<'_>]) {
    let mut room = [Block::default(); _];
    for jobs in jobs.chunks_mut(JOBS_MAX) {
        let mut chained = cbc::Classes::default();
        for (i, job) in jobs.iter_mut().enumerate() {
            if let Some((key, text)) = key_and_text(keys, job) {
                match key.schedule {
                    Schedule::CbcOut => chained.set(i, &key),
                    Schedule::CbcIn(_) => {}
                    _ => seal_alone(&key, job, text, &mut room),
                }
            }
        }
        cbc::seal(keys, jobs, &chained);
    }
}

/// Compares the ICV and, if it is right, decrypts the text in place, for each of `jobs`.
///
/// Sets `is_authentic` of each. It is false, with nothing changed, also if the row is missing, is
/// unusable or seals CBC, or if its algorithms never make the length of `esp`.
pub fn open(keys: &KeyTable, jobs: &mut [Job<'_>]) {
    let mut room = [Block::default(); _];
    for job in jobs {
        job.is_authentic = match key_and_text(keys, job) {
            Some((key, text)) => open_alone(&key, job, text, &mut room),
            None => false,
        };
    }
}

/// The keys of a job and where its text is.
fn key_and_text<'k>(keys: &'k KeyTable, job: &Job<'_>) -> Option<(Key<'k>, Range<usize>)> {
    let key = keys.key(job.row)?;
    let text = text_of(job.esp.len(), key.cipher, key.auth)?;
    Some((key, text))
}

/// The text within `len` bytes from the SPI to the ICV. `None` if there is no room for the rest, or
/// the text is not whole blocks.
fn text_of(len: usize, cipher: Cipher, auth: Auth) -> Option<Range<usize>> {
    let start = HEADER_LEN + cipher.iv_len();
    let end = len.checked_sub(icv_len(cipher, auth))?;
    let text_len = end.checked_sub(start)?;
    text_len.is_multiple_of(cipher.block_len()).then_some(start..end)
}

/// Seals a packet whose blocks don't wait for each other.
fn seal_alone(key: &Key<'_>, job: &mut Job<'_>, text: Range<usize>, room: &mut Room) {
    job.esp[HEADER_LEN..text.start]
        .copy_from_slice(&job.sequence.to_be_bytes()[..key.cipher.iv_len()]);
    match key.schedule {
        Schedule::Gcm(cipher, hash) => return gcm::seal(key, cipher, hash, job, text, room),
        Schedule::Ctr(cipher) => keystream::xor(key, cipher, job, text.clone(), room),
        Schedule::Null | Schedule::CbcIn(_) | Schedule::CbcOut => {}
    }
    let (esp, icv) = job.esp.split_at_mut(text.end);
    icv.copy_from_slice(&icv_of(key, esp, job.sequence)[..icv.len()]);
}

/// Opens a packet and returns whether it was authentic.
fn open_alone(key: &Key<'_>, job: &mut Job<'_>, text: Range<usize>, room: &mut Room) -> bool {
    if let Schedule::Gcm(cipher, hash) = key.schedule {
        return gcm::open(key, cipher, hash, job, text, room);
    }
    let (esp, icv) = job.esp.split_at_mut(text.end);
    if !bool::from(icv_of(key, esp, job.sequence)[..icv.len()].ct_eq(icv)) {
        return false;
    }
    match key.schedule {
        Schedule::CbcIn(cipher) => cbc::open(cipher, &mut esp[HEADER_LEN..], room),
        Schedule::Ctr(cipher) => keystream::xor(key, cipher, job, text, room),
        Schedule::Null | Schedule::Gcm(..) => {}
        Schedule::CbcOut => return false,
    }
    true
}

/// The ICV of HMAC over `esp`, in the first bytes.
fn icv_of(key: &Key<'_>, esp: &[u8], sequence: u64) -> [u8; 16] {
    let high = key.high_half(sequence);
    match key.auth {
        Auth::None => Mac::<Unauthenticated>::new(key.row).finish(esp, high),
        Auth::Sha1 => Mac::<Sha1>::new(key.row).finish(esp, high),
        Auth::Sha256 => Mac::<Sha256>::new(key.row).finish(esp, high),
    }
}

#[cfg(test)]
mod tests {
    use super::{open, seal};
    use crate::cipher::cases;

    #[test]
    fn seals_the_vectors_of_the_rfcs() {
        cases::seals_vectors(&seal);
    }

    #[test]
    fn opens_the_vectors_of_the_rfcs() {
        cases::opens_vectors(&open);
    }

    #[test]
    fn does_random_work_as_the_oracle() {
        cases::random_work(&seal, &open);
    }

    #[test]
    fn refuses_what_a_bit_is_changed_of() {
        cases::changed_bits(&open);
    }

    #[test]
    fn leaves_packets_of_wrong_lengths_alone() {
        cases::wrong_lengths(&seal, &open);
    }

    #[test]
    fn leaves_packets_of_wrong_rows_alone() {
        cases::wrong_rows(&seal, &open);
    }
}
