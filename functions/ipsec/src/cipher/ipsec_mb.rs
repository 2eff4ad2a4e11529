//! The cipher work by intel-ipsec-mb, if it is installed: the same bytes as those of the software
//! engine.
//!
//! One job of the library, cipher and HMAC, seals a CBC or CTR packet. Two open it, since only
//! authentic packets are decrypted: all HMACs come first, then the ciphers of the packets whose ICV
//! was right. The library's GCM decrypts while it authenticates. If its tag is wrong, the text is
//! ciphered again at once, so the packet leaves as it came. In between its slot has unauthenticated
//! text.
//!
//! Each thread makes a manager of the library at its first packet. Without memory for it, the
//! software engine does the work. That engine also takes packets longer than the library's lanes
//! count.

mod cbc_iv;
mod lanes;
mod plan;
mod sa_note;

use core::cell::RefCell;

use subtle::ConstantTimeEq;
use warpline_native::Missing;
use warpline_native::ipsec_mb::{self as native, Direction, JobOutcome, Library, Manager};
use warpline_packet::prefetch;

use super::{Auth, Cipher, Job, KeyRow, KeyTable, software};

use cbc_iv::write_cbc_ivs;
use lanes::{open_lanes, seal_lanes};
use plan::{Plan, high_half};
use sa_note::SaNote;

/// Jobs that the library gets at a time.
const CHUNK: usize = 256;
/// SPI and the low half of the sequence number (RFC 4303, 2).
const HEADER_LEN: usize = 8;

thread_local! {
    static WORKER: RefCell<Option<Worker>> = const { RefCell::new(None) };
}

/// The library, and what is wanted of SAs before their rows.
#[derive(Debug)]
pub struct IpsecMb {
    library: &'static Library,
    /// By the SA's place.
    sas: Vec<SaNote>,
}

impl IpsecMb {
    /// An engine for the rows of `keys`; it is used with them alone.
    ///
    /// # Errors
    ///
    /// The library can't be used here.
    pub fn new(keys: &KeyTable) -> Result<Self, Missing> {
        let library = Library::load()?;
        let manager = Manager::new(library)?;
        let sas = keys.rows().iter().map(|row| SaNote::of(&manager, row)).collect();
        Ok(Self { library, sas })
    }

    /// Asks for what names the keys of a row.
    #[inline]
    pub fn announce(&self, row: u32) {
        self.sas.get(row as usize).into_iter().for_each(prefetch);
    }

    /// Asks for the keys of a row, which soon are used for `len` bytes.
    #[inline]
    pub fn fetch(&self, keys: &KeyTable, row: u32, len: usize) {
        let row = row as usize;
        let (Some(sa), Some(row)) = (self.sas.get(row), keys.rows().get(row)) else { return };
        if let Some(key) = &sa.gcm {
            return key.fetch(len);
        }
        // One for each line of the cache that packets need with keys of 128 bits.
        [0, 3, 7].into_iter().for_each(|at| prefetch(&row.round_keys[at]));
        if sa.cbc == Some(Direction::Seal) {
            [0, 4].into_iter().for_each(|at| prefetch(&row.iv_keys[at]));
        }
        [&row.inner, &row.outer].into_iter().for_each(prefetch);
    }

    /// Seals packets in place, as [`software::seal`] does.
    pub fn seal(&self, keys: &KeyTable, jobs: &mut [Job<'_>]) {
        self.work(jobs, software::seal, keys, Worker::seal);
    }

    /// Opens packets in place, as [`software::open`] does.
    pub fn open(&self, keys: &KeyTable, jobs: &mut [Job<'_>]) {
        self.work(jobs, software::open, keys, Worker::open);
    }

    /// Has this thread's worker do `jobs`, a chunk at a time, or the software where there is none.
    fn work(
        &self,
        jobs: &mut [Job<'_>],
        software: fn(&KeyTable, &mut [Job<'_>]),
        keys: &KeyTable,
        work: fn(&mut Worker, Keys<'_>, &mut [Job<'_>]),
    ) {
        WORKER.with_borrow_mut(|worker| {
            if worker.is_none() {
                *worker = Worker::new(self.library);
            }
            let Some(worker) = worker else { return software(keys, jobs) };
            let keys_here = Keys { rows: keys.rows(), sas: &self.sas };
            for jobs in jobs.chunks_mut(CHUNK) {
                work(worker, keys_here, jobs);
                for job in jobs.iter_mut().filter(|job| job.esp.len() > native::PART_LEN_MAX) {
                    software(keys, core::slice::from_mut(job));
                }
            }
        });
    }
}

/// The parts that all SAs share.
#[derive(Clone, Copy)]
struct Keys<'k> {
    rows: &'k [KeyRow],
    sas: &'k [SaNote],
}

impl<'k> Keys<'k> {
    fn row(&self, job: &Job<'_>) -> Option<&'k KeyRow> {
        self.rows.get(job.row as usize)
    }
}

/// A thread's part of it.
struct Worker {
    manager: Manager,
    notes: Vec<Note>,
}

/// The data of a job besides the job. All of it is written before the first job starts. The library
/// would stall on reads of data just written in smaller pieces, for each job in turn.
#[derive(Clone, Default)]
struct Note {
    /// `None`: there is nothing to do.
    plan: Option<Plan>,
    /// CBC: the IV. CTR: the first counter block (RFC 3686, 4). GCM: the nonce (RFC 4106, 4), and 4
    /// bytes.
    iv: [u8; 16],
    /// GCM: the data that are authenticated and not ciphered (RFC 4106, 5); without ESN the last 4
    /// bytes are unused.
    aad: [u8; 12],
    /// Opening: the bytes of the ICV in whose place the high half of the sequence number lies.
    icv_start: [u8; 4],
    outcome: JobOutcome,
}

impl Worker {
    fn new(library: &'static Library) -> Option<Self> {
        let manager = Manager::new(library).ok()?;
        Some(Self { manager, notes: vec![Note::default(); CHUNK] })
    }

    fn seal(&mut self, keys: Keys<'_>, jobs: &mut [Job<'_>]) {
        let Self { manager, notes } = self;
        let notes = &mut notes[..jobs.len()];
        let mut has = Has::default();
        for (job, note) in jobs.iter_mut().zip(&mut *notes) {
            note.plan = Plan::of(keys, job, Direction::Seal);
            let Some(plan) = note.plan else { continue };
            has.note(plan.cipher);
            if plan.cipher.is_counter() {
                let iv = job.sequence.to_be_bytes();
                job.esp[HEADER_LEN..][..8].copy_from_slice(&iv);
                note.write_counter(keys, job, iv);
            }
            plan.write_high_half(job);
        }
        if has.cbc() {
            write_cbc_ivs(keys, jobs, notes);
        }
        for (job, note) in jobs.iter_mut().zip(&*notes).filter(|_| has.gcm()) {
            if let Some(plan) = note.plan.filter(|plan| plan.cipher == Cipher::Gcm) {
                let tag = gcm(manager, keys, &plan, note, job, Direction::Seal);
                place(&plan, job, tag.as_ref());
            }
        }
        if has.lanes() {
            seal_lanes(manager, keys, jobs, notes);
        }
    }

    fn open(&mut self, keys: Keys<'_>, jobs: &mut [Job<'_>]) {
        let Self { manager, notes } = self;
        let notes = &mut notes[..jobs.len()];
        let mut has = Has::default();
        for (job, note) in jobs.iter_mut().zip(&mut *notes) {
            job.is_authentic = false;
            note.plan = Plan::of(keys, job, Direction::Open);
            let Some(plan) = note.plan else { continue };
            has.note(plan.cipher);
            note.read_iv(keys, job, plan.cipher);
            if plan.high_len() == 4 {
                note.icv_start.copy_from_slice(&job.esp[plan.icv..][..4]);
                plan.write_high_half(job);
            }
        }
        for (job, note) in jobs.iter_mut().zip(&*notes).filter(|_| has.gcm()) {
            if let Some(plan) = note.plan.filter(|plan| plan.cipher == Cipher::Gcm) {
                open_gcm(manager, keys, &plan, note, job);
            }
        }
        if has.lanes() {
            open_lanes(manager, keys, jobs, notes);
        }
    }
}

/// The ciphers that there are in a chunk, a bit for each.
#[derive(Default)]
struct Has(u8);

impl Has {
    #[inline(always)]
    fn note(&mut self, cipher: Cipher) {
        self.0 |= 1 << cipher as u8;
    }

    fn cbc(&self) -> bool {
        self.0 & 1 << Cipher::Cbc as u8 != 0
    }

    fn gcm(&self) -> bool {
        self.0 & 1 << Cipher::Gcm as u8 != 0
    }

    /// Whether there is what the library does many at a time.
    fn lanes(&self) -> bool {
        self.0 & !(1 << Cipher::Gcm as u8) != 0
    }
}

/// Writes the ICV of a sealed packet. A well-formed packet that the library gave up must not leave
/// in the clear: it is blanked.
fn place(plan: &Plan, job: &mut Job<'_>, tag: Option<&[u8; 16]>) {
    let Some(tag) = tag else { return job.esp[plan.text..].fill(0) };
    let icv = &mut job.esp[plan.icv..];
    match icv.len() {
        12 => icv.copy_from_slice(&tag[..12]),
        16 => icv.copy_from_slice(tag),
        _ => {}
    }
}

/// In constant time, whether an ICV is the start of `tag`. An empty one is.
#[inline(always)]
fn is_equal(tag: &[u8; 16], icv: &[u8]) -> bool {
    // Two words are all of it; those of twelve bytes share four.
    let last = match icv.len() {
        12 => 4,
        16 => 8,
        _ => return true,
    };
    let word = |bytes: &[u8], at: usize| {
        let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk);
        bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    };
    let differing = |at| word(tag, at) ^ word(icv, at);
    (differing(0) | differing(last)).ct_eq(&0).into()
}

/// RFC 4106, both ways, whatever the ICV is. Gives what it should be.
fn gcm(
    manager: &mut Manager,
    keys: Keys<'_>,
    plan: &Plan,
    note: &Note,
    job: &mut Job<'_>,
    direction: Direction,
) -> Option<[u8; 16]> {
    let key = keys.sas.get(job.row as usize)?.gcm.as_ref()?;
    let aad = &note.aad[..if plan.esn { 12 } else { 8 }];
    let text = &mut job.esp[plan.text..plan.icv];
    Some(manager.gcm(direction, key, note.iv.first_chunk()?, aad, text))
}

fn open_gcm(manager: &mut Manager, keys: Keys<'_>, plan: &Plan, note: &Note, job: &mut Job<'_>) {
    if let Some(tag) = gcm(manager, keys, plan, note, job, Direction::Open) {
        job.is_authentic = is_equal(&tag, &job.esp[plan.icv..]);
        if !job.is_authentic {
            gcm(manager, keys, plan, note, job, Direction::Seal);
        }
    }
}

impl Note {
    fn lanes_plan(&self) -> Option<Plan> {
        self.plan.filter(|plan| plan.cipher != Cipher::Gcm)
    }

    /// Opening: notes the IV that is in the packet.
    fn read_iv(&mut self, keys: Keys<'_>, job: &Job<'_>, cipher: Cipher) {
        let iv = &job.esp[HEADER_LEN..];
        match (cipher, iv.first_chunk::<16>(), iv.first_chunk::<8>()) {
            (Cipher::Cbc, Some(iv), _) => self.iv = *iv,
            (Cipher::Ctr | Cipher::Gcm, _, Some(iv)) => self.write_counter(keys, job, *iv),
            _ => {}
        }
    }

    /// Notes what counter modes start with, and what GCM authenticates besides.
    fn write_counter(&mut self, keys: Keys<'_>, job: &Job<'_>, iv: [u8; 8]) {
        let Some(sa) = keys.sas.get(job.row as usize) else { return };
        self.iv[..4].copy_from_slice(&sa.salt);
        self.iv[4..12].copy_from_slice(&iv);
        self.iv[12..].copy_from_slice(&[0, 0, 0, 1]);
        self.aad[..8].copy_from_slice(&job.esp[..8]);
        if sa.esn {
            self.aad[4..8].copy_from_slice(&high_half(job.sequence));
            self.aad[8..].copy_from_slice(&job.esp[4..8]);
        }
    }
}

#[cfg(test)]
mod tests;
