//! The table of tracked connections of one shard: fixed memory, exact expiry.
//!
//! Entries lie in a slab ([`Slab`]) and are found by hash chains. Each [`ConnectionKind`] has one
//! queue. A full table evicts an expired entry, or the head of the longest queue of a low-value
//! kind ([`ConnectionKind::YIELDING`]). A new connection is refused if and only if other kinds take
//! all places.
//!
//! Use is recorded to the second, rounded up: a busy connection moves in its queue once a second,
//! not with every packet. A move costs three cache misses in a large table. The windows of TCP lie
//! in a second cache line, which only TCP touches. No result depends on how the hash spreads. Every
//! table seeds its hash anew, so that an attacker cannot aim at one chain.

use core::mem::offset_of;
use core::time::Duration;

use warpline_packet::{Instant, prefetch};

use super::flow_key::FlowKey;
use super::progress::{ConnectionKind, KINDS, Progress, TIMEOUTS};
use warpline_tables::keyed::HashKey;
use warpline_tables::list::{Links, NONE};
use warpline_tables::tcp::Conversation;
use warpline_tables::{Slab, Sources, Timed};

/// A connection, in two cache lines.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct ConnectionEntry {
    key: FlowKey,
    /// Expired from here on.
    deadline: Instant,
    /// The next of its hash chain.
    next: u32,
    links: Links,
    /// Whether the low end opened it.
    opened_by_low: bool,
    progress: Progress,
    /// The second line; of TCP alone.
    conversation: Conversation,
}

const _: () =
    assert!(size_of::<ConnectionEntry>() == 128 && offset_of!(ConnectionEntry, conversation) == 64);

impl Timed for ConnectionEntry {
    #[inline]
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }

    #[inline]
    fn queue(&self) -> usize {
        self.progress.kind() as usize
    }

    #[inline]
    fn deadline(&self) -> Instant {
        self.deadline
    }
}

/// The connections of one shard.
pub(super) struct Connections {
    /// In a queue by [`ConnectionKind`].
    entries: Slab<ConnectionEntry, KINDS>,
    buckets: Vec<u32>,
    timeouts: [Duration; TIMEOUTS],
    sources: Option<Sources>,
    hash_key: HashKey,
    count: Counts,
}

/// The events so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// How many there are.
    pub(super) current: u64,
    pub(super) created: u64,
    pub(super) expired: u64,
    pub(super) refused: u64,
    /// In the order of [`ConnectionKind::YIELDING`].
    evicted: [u64; ConnectionKind::YIELDING.len()],
}

impl Counts {
    /// How many connections gave way, by name.
    pub(super) fn evicted(&self) -> impl Iterator<Item = (&'static str, u64)> {
        ConnectionKind::YIELDING.iter().map(|&(_, name)| name).zip(self.evicted)
    }
}

/// Why a connection was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// All places are taken by connections that don't give way.
    TableFull,
    /// Its source has as many as it may.
    PerSource,
}

/// A connection to be added.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opened {
    pub(super) key: FlowKey,
    pub(super) by_low: bool,
    pub(super) progress: Progress,
    pub(super) conversation: Conversation,
}

/// A connection that was found; good until the table changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundConnection {
    entry: u32,
    pub(super) progress: Progress,
    pub(super) opened_by_low: bool,
}

impl Connections {
    /// Room for `capacity` connections, all of it taken now. A source may have `per_source` of
    /// them; 0: any number.
    pub(super) fn new(capacity: usize, per_source: u32, timeouts: [Duration; TIMEOUTS]) -> Self {
        Self {
            entries: Slab::new(capacity),
            buckets: vec![NONE; capacity.next_power_of_two()],
            timeouts,
            sources: Sources::new(capacity, per_source),
            hash_key: HashKey::random(),
            count: Counts::default(),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        Counts { current: self.entries.len() as u64, ..self.count }
    }

    /// Asks for what a look-up will read first.
    pub(super) fn fetch(&self, key: &FlowKey) {
        prefetch(&self.buckets[self.bucket(key)]);
    }

    /// Asks for the connection that is named there, once that is at hand. It is probably the one.
    pub(super) fn fetch_next(&self, key: &FlowKey) {
        let first = self.buckets[self.bucket(key)];
        if let Some(entry) = self.entries.get(first) {
            prefetch(entry);
            if key.is_tcp() {
                prefetch(&entry.conversation);
            }
        }
    }

    /// The connection with this key, unless it has expired.
    pub(super) fn find(&mut self, key: &FlowKey, now: Instant) -> Option<FoundConnection> {
        let mut at = self.buckets[self.bucket(key)];
        while at != NONE {
            let entry = &self.entries[at];
            if entry.key == *key {
                if entry.deadline <= now {
                    self.expire(at);
                    return None;
                }
                let (progress, opened_by_low) = (entry.progress, entry.opened_by_low);
                return Some(FoundConnection { entry: at, progress, opened_by_low });
            }
            at = entry.next;
        }
        None
    }

    /// Adds a connection, which must not be there.
    pub(super) fn insert(&mut self, opened: Opened, now: Instant) -> Result<(), NoPlace> {
        let Opened { key, by_low: opened_by_low, progress, conversation } = opened;
        let admitted = self.admit(&key, opened_by_low, now);
        admitted.inspect_err(|_| self.count.refused += 1)?;
        let bucket = self.bucket(&key);
        let entry = ConnectionEntry {
            key,
            deadline: self.deadline(progress, now),
            next: self.buckets[bucket],
            links: Links::UNUSED,
            opened_by_low,
            progress,
            conversation,
        };
        self.buckets[bucket] = self.entries.insert(entry);
        if let Some(sources) = &mut self.sources {
            let (version, address) = key.source(opened_by_low);
            sources.add(version, address);
        }
        self.count.created += 1;
        Ok(())
    }

    /// How far a connection of TCP is.
    pub(super) fn conversation(&self, found: FoundConnection) -> &Conversation {
        &self.entries[found.entry].conversation
    }

    pub(super) fn set_conversation(&mut self, found: FoundConnection, conversation: Conversation) {
        self.entries[found.entry].conversation = conversation;
    }

    /// Notes that a connection was used, and how far it is now.
    pub(super) fn touch(&mut self, found: FoundConnection, progress: Progress, now: Instant) {
        let deadline = self.deadline(progress, now);
        let entry = &mut self.entries[found.entry];
        if entry.deadline == deadline && entry.progress.kind() == progress.kind() {
            entry.progress = progress;
            return;
        }
        self.entries.update(found.entry, |entry| {
            (entry.progress, entry.deadline) = (progress, deadline);
        });
    }

    /// When a connection that was used now expires.
    fn deadline(&self, progress: Progress, now: Instant) -> Instant {
        const SECOND: u64 = 1_000_000_000;
        let used = Instant::from_secs(now.as_nanos() / SECOND + 1);
        used.after(self.timeouts[progress.kind().timeout()])
    }

    /// Forgets a connection.
    pub(super) fn remove(&mut self, found: FoundConnection) {
        self.forget(found.entry);
    }

    /// Reclaims up to `most` connections that have expired.
    pub(super) fn reclaim(&mut self, most: usize, now: Instant) {
        for _ in 0..most {
            let Some(at) = self.entries.expired(now) else { return };
            self.expire(at);
        }
    }

    /// Makes sure of a free place for a connection, if it may have one.
    fn admit(&mut self, key: &FlowKey, opened_by_low: bool, now: Instant) -> Result<(), NoPlace> {
        if self.sources.is_some() {
            let (version, address) = key.source(opened_by_low);
            let is_full =
                |own: &Self| own.sources.as_ref().is_some_and(|s| s.is_full(version, address));
            if is_full(self) {
                self.reclaim(usize::MAX, now);
            }
            if is_full(self) {
                return Err(NoPlace::PerSource);
            }
        }
        if self.entries.is_full() {
            match self.entries.expired(now) {
                Some(at) => self.expire(at),
                None => self.evict().ok_or(NoPlace::TableFull)?,
            }
        }
        Ok(())
    }

    /// Lets the connection go that gives way, where one does.
    fn evict(&mut self) -> Option<()> {
        let kinds = ConnectionKind::YIELDING.iter().map(|&(kind, _)| kind as usize);
        let (place, at) = self.entries.yielding(kinds)?;
        self.forget(at);
        self.count.evicted[place] += 1;
        Some(())
    }

    fn expire(&mut self, at: u32) {
        self.forget(at);
        self.count.expired += 1;
    }

    fn forget(&mut self, at: u32) {
        self.unchain(at);
        if let Some(sources) = &mut self.sources {
            let ConnectionEntry { key, opened_by_low, .. } = &self.entries[at];
            let (version, address) = key.source(*opened_by_low);
            sources.remove(version, address);
        }
        self.entries.remove(at);
    }

    fn bucket(&self, key: &FlowKey) -> usize {
        key.hash(self.hash_key) as usize & (self.buckets.len() - 1)
    }

    fn unchain(&mut self, at: u32) {
        let ConnectionEntry { key, next, .. } = self.entries[at];
        let bucket = self.bucket(&key);
        if self.buckets[bucket] == at {
            self.buckets[bucket] = next;
            return;
        }
        let mut before = self.buckets[bucket];
        while before != NONE {
            let entry = &mut self.entries[before];
            if entry.next == at {
                entry.next = next;
                return;
            }
            before = entry.next;
        }
    }
}
