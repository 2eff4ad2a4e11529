//! Sequence numbers for counter modes, reserved ahead in a file. So no nonce is ever used twice
//! with a key, whatever happens to the process (RFC 3686, 2.1 and 7; RFC 4106, 3.1 and 10).
//!
//! [`NonceState`] is the open file, and belongs to this process alone. [`NonceState::add`] returns
//! a [`Reserve`] for every key, which an SA asks before it uses a number. Numbers are reserved in
//! blocks: the file has the first unreserved number, safely on disk before one of the block is
//! used. After a crash, the rest of a block is lost, and nothing is repeated.
//!
//! An old copy of the file looks valid, so it must never be restored.

use core::cell::Cell;
use core::fmt;
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, Thread};

use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

mod file;
#[cfg(test)]
mod tests;

use file::StateFile;

/// Numbers that are reserved at once.
pub const BLOCK: u64 = 1 << 20;
/// Keys that a file may have.
pub const RECORDS_MAX: usize = 65_536;

/// The fingerprint of a key with its salt in the file; the key can't be derived from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 16]);

impl Fingerprint {
    /// Of a key, salt included: the first 16 bytes of SHA-256 over "warpline nonce" and the key.
    /// The cipher is not included: CTR and GCM make the same counter blocks from the same salt and
    /// number (RFC 3686, 4; RFC 4106, 4).
    pub fn of(key: &[u8]) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"warpline nonce");
        hash.update(key);
        let whole = Zeroizing::new(<[u8; 32]>::from(hash.finalize()));
        let mut first = [0; 16];
        first.copy_from_slice(&whole[..16]);
        Self(first)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A key of which numbers are to be used.
#[derive(Clone, Copy, Debug)]
pub struct NonceKey {
    /// Of the cipher, key and salt.
    pub fingerprint: Fingerprint,
    /// No lower number is used, even if the file does not have the key: 1, or one more than the
    /// last that was used elsewhere.
    pub first: u64,
    /// The last number that there is: 2^32 - 1, or with extended sequence numbers 2^64 - 2.
    pub last: u64,
}

/// The open file of reserved numbers.
#[derive(Debug)]
pub struct NonceState {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    ledger: Mutex<Ledger>,
    /// Held only to sleep on `changed` and to wake the sleepers.
    sleep: Mutex<()>,
    changed: Condvar,
    stopped: AtomicBool,
    block: u64,
}

#[derive(Debug)]
struct Ledger {
    file: StateFile,
    /// The first number of every key that is not reserved.
    records: BTreeMap<Fingerprint, u64>,
    /// Keys that have a [`Reserve`].
    held: HashMap<Fingerprint, Arc<Grant>>,
    /// Why the file could not be written last.
    trouble: Option<String>,
}

/// The data that a lane and the reserving thread share about a key.
#[derive(Debug)]
struct Grant {
    /// Numbers below are safe on disk.
    reserved: AtomicU64,
    /// The number that the lane was at when it asked for more.
    wanted: AtomicU64,
    asked: AtomicBool,
    /// Attempts to reserve that failed.
    failures: AtomicU64,
    last: u64,
}

impl NonceState {
    /// Opens the file at `path`, or creates it. It belongs to this process alone until it and every
    /// [`Reserve`] of it is dropped.
    ///
    /// # Errors
    ///
    /// Another process has it, other users than the owner may read or write it, it is torn or was
    /// changed by hand, or it can't be read or written.
    pub fn open(path: &Path) -> Result<Self, String> {
        Self::open_by_blocks(path, BLOCK)
    }

    fn open_by_blocks(path: &Path, block: u64) -> Result<Self, String> {
        let (file, records) = StateFile::open(path)?;
        // A file that can't be written is an error now, not at the first packet.
        file.write(&records)?;
        let ledger = Ledger { file, records, held: HashMap::new(), trouble: None };
        let shared = Arc::new(Shared {
            ledger: Mutex::new(ledger),
            sleep: Mutex::new(()),
            changed: Condvar::new(),
            stopped: AtomicBool::new(false),
            block,
        });
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("nonce-state".into())
            .spawn(move || own.serve())
            .map_err(|error| format!("no thread can be started: {error}"))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Reserves first blocks of keys, all or none of them; returns the handles in the order of
    /// `keys`.
    ///
    /// # Errors
    ///
    /// A key appears twice or has a [`Reserve`] already, no number of it is left, the file has
    /// [`RECORDS_MAX`] keys, or it can't be written.
    pub fn add(&self, keys: &[NonceKey]) -> Result<Vec<Reserve>, String> {
        let Some(thread) = &self.thread else { return Err("it is closed".into()) };
        let mut ledger = self.shared.ledger();
        let mut records = ledger.records.clone();
        let mut starts = HashMap::with_capacity(keys.len());
        for key in keys {
            let name = key.fingerprint;
            let known = records.get(&name).copied().unwrap_or(0);
            let start = known.max(key.first);
            if ledger.held.contains_key(&name) || starts.insert(name, start).is_some() {
                return Err(format!("key {name} is in use already"));
            }
            if start > key.last {
                return Err(format!("key {name} has no sequence number left"));
            }
            records.insert(name, end_of_block(start, self.shared.block, key.last));
        }
        if records.len() > RECORDS_MAX {
            let path = ledger.file.path().display();
            return Err(format!(
                "{path}: more than {RECORDS_MAX} keys; start a new file only with new keys"
            ));
        }
        ledger.file.write(&records)?;
        ledger.records = records;
        let mut reserves = Vec::with_capacity(keys.len());
        for key in keys {
            let name = key.fingerprint;
            let (start, end) = (starts[&name], ledger.records[&name]);
            let grant = Arc::new(Grant::new(end, key.last.min(u64::MAX - 1)));
            ledger.held.insert(name, Arc::clone(&grant));
            reserves.push(Reserve {
                next: Cell::new(start),
                calm_up_to: Cell::new(0),
                name,
                grant,
                start,
                asked_at: Cell::new(0),
                thread: thread.thread().clone(),
                shared: Arc::clone(&self.shared),
            });
        }
        Ok(reserves)
    }

    /// Whether a key has a [`Reserve`].
    pub fn is_held(&self, key: Fingerprint) -> bool {
        self.shared.ledger().held.contains_key(&key)
    }

    /// Why numbers could not be reserved, the last time that it was tried.
    pub fn trouble(&self) -> Option<String> {
        self.shared.ledger().trouble.clone()
    }

    /// Writes the exact next number of every key whose [`Reserve`] was dropped. The others use up
    /// their reserved numbers. The last [`Reserve`] to be dropped writes all.
    ///
    /// # Errors
    ///
    /// The file can't be written: the next run begins after the last block.
    pub fn close(mut self) -> Result<(), String> {
        self.stop()
    }

    fn stop(&mut self) -> Result<(), String> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        self.shared.stopped.store(true, Ordering::SeqCst);
        thread.thread().unpark();
        let _ = thread.join();
        self.shared.wake();
        let ledger = self.shared.ledger();
        ledger.file.write(&ledger.records)
    }
}

impl Drop for NonceState {
    fn drop(&mut self) {
        // The file on disk stays correct, only less exact.
        let _ = self.stop();
    }
}

impl Shared {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        drop(self.sleep.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// Reserves blocks for keys that ask, until it is stopped.
    fn serve(&self) {
        while !self.stopped.load(Ordering::SeqCst) {
            if self.ledger().reserve(self.block) {
                self.wake();
            } else {
                std::thread::park();
            }
        }
    }
}

impl Ledger {
    /// Reserves a block for every key that asks, all in one write. Says whether any did.
    fn reserve(&mut self, block: u64) -> bool {
        let asking =
            self.held.iter().filter(|(_, grant)| grant.asked.swap(false, Ordering::SeqCst));
        let asking: Vec<_> = asking.map(|(name, grant)| (*name, Arc::clone(grant))).collect();
        if asking.is_empty() {
            return false;
        }
        let mut records = self.records.clone();
        for (name, grant) in &asking {
            let end = end_of_block(grant.wanted.load(Ordering::SeqCst), block, grant.last);
            records.entry(*name).and_modify(|record| *record = end.max(*record));
        }
        self.trouble = self.file.write(&records).err();
        if self.trouble.is_none() {
            self.records = records;
        }
        for (name, grant) in &asking {
            match (&self.trouble, self.records.get(name)) {
                (None, Some(end)) => grant.reserved.store(*end, Ordering::Release),
                _ => drop(grant.failures.fetch_add(1, Ordering::SeqCst)),
            }
        }
        true
    }
}

/// The first number after a block that begins at `start`.
fn end_of_block(start: u64, block: u64, last: u64) -> u64 {
    start.saturating_add(block).min(last.saturating_add(1))
}

impl Grant {
    fn new(reserved: u64, last: u64) -> Self {
        Self {
            reserved: AtomicU64::new(reserved),
            wanted: AtomicU64::new(0),
            asked: AtomicBool::new(false),
            failures: AtomicU64::new(0),
            last,
        }
    }
}

/// The right to use numbers of one key. One lane has it. What every number asks for comes first.
#[repr(C)]
pub struct Reserve {
    /// First: an `Option` of this type reads it to tell whether there is a value.
    grant: Arc<Grant>,
    /// The first number that was not used.
    next: Cell<u64>,
    /// Numbers below it are reserved, and so many that no more have to be asked for.
    calm_up_to: Cell<u64>,
    start: u64,
    /// The reserved end when more was requested.
    asked_at: Cell<u64>,
    name: Fingerprint,
    thread: Thread,
    shared: Arc<Shared>,
}

impl Reserve {
    /// Bytes that every number reads.
    pub(super) const FRONT_LEN: usize = offset_of!(Self, start);

    /// The first number to be used: after everything that was ever reserved for this key.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Whether `sequence`, and every number from the last one requested up to it, may be used now.
    /// A number is given once: `false` if it is not above all earlier ones.
    ///
    /// Waits if the next block is not on disk yet. Also `false` if it can't be written, or no
    /// number is left: the packet must not be sent.
    #[inline]
    pub fn covers(&self, sequence: u64) -> bool {
        let is_new = sequence >= self.next.get();
        if is_new && sequence < self.calm_up_to.get() {
            self.next.set(sequence + 1);
            return true;
        }
        is_new && self.is_granted(sequence)
    }

    fn is_granted(&self, sequence: u64) -> bool {
        if sequence > self.grant.last {
            return false;
        }
        let reserved = self.grant.reserved.load(Ordering::Acquire);
        if sequence >= reserved {
            if !self.wait(sequence) {
                return false;
            }
        } else if reserved - sequence <= self.shared.block / 2 && self.asked_at.get() != reserved {
            self.asked_at.set(reserved);
            self.ask(sequence);
        } else {
            self.calm_up_to.set(reserved.saturating_sub(self.shared.block / 2));
        }
        self.next.set(sequence + 1);
        true
    }

    fn ask(&self, sequence: u64) {
        self.grant.wanted.store(sequence, Ordering::SeqCst);
        self.grant.asked.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }

    #[cold]
    fn wait(&self, sequence: u64) -> bool {
        let failures = self.grant.failures.load(Ordering::SeqCst);
        self.ask(sequence);
        let mut sleep = self.shared.sleep.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if sequence < self.grant.reserved.load(Ordering::Acquire) {
                return true;
            }
            let failed = self.grant.failures.load(Ordering::SeqCst) != failures;
            if failed || self.shared.stopped.load(Ordering::SeqCst) {
                return false;
            }
            sleep = self.shared.changed.wait(sleep).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl fmt::Debug for Reserve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {} from number {}", self.name, self.next.get())
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        let mut ledger = self.shared.ledger();
        ledger.held.remove(&self.name);
        ledger.records.insert(self.name, self.next.get());
        if ledger.held.is_empty() {
            // The last writes for all, since the process may end without dropping the file's owner.
            // If that fails, the disk still has the ends of the blocks.
            let _ = ledger.file.write(&ledger.records);
        }
    }
}
