//! The table of tracked connections of one shard: fixed memory, exact expiry.
//!
//! Entries lie in a slab, found by hash chains and held in one queue for each timeout, in the order
//! in which they were last used. As a queue's timeout is the same for all of it and time only goes
//! on, its head is the first to expire; so a full table knows at once whether any entry has expired.
//! A new connection is refused if and only if all places are taken by connections that have not.
//! Use is noted to the second, rounded up, so that a busy connection moves in its queue, which is
//! three cache misses in a large table, once a second and not with every packet.
//! None of this depends on how the hash spreads, which is seeded anew for every table so that nobody
//! can aim at one chain.

use core::hash::{BuildHasher, Hash, Hasher};
use core::time::Duration;
use std::hash::RandomState;

use warpline_packet::{Instant, prefetch};

use super::tcp_state::TcpState;

/// In the place of an entry's number: none.
const NONE: u32 = u32::MAX;

/// Both ends of a connection, in an order that both directions share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowKey {
    /// In halves, which need less alignment than the whole.
    low: [u64; 2],
    high: [u64; 2],
    low_port: u16,
    high_port: u16,
    protocol: u8,
    version: u8,
}

/// In few words, of IPv4 two: hashing is done three times for a packet.
impl Hash for FlowKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let ports = u64::from(self.low_port) << 16 | u64::from(self.high_port);
        let kind = u64::from(self.protocol) << 8 | u64::from(self.version);
        if self.version == 4 {
            state.write_u64(self.low[1] << 32 | self.high[1]);
        } else {
            [self.low, self.high].iter().flatten().for_each(|&word| state.write_u64(word));
        }
        state.write_u64(ports << 16 | kind);
    }
}

impl FlowKey {
    /// The key of a packet, and whether its source is the low end. `src` and `dst` are address and
    /// port; 0 where the protocol has no ports.
    pub(super) fn of(
        version: u8,
        protocol: u8,
        src: (u128, u16),
        dst: (u128, u16),
    ) -> (Self, bool) {
        let from_low = src <= dst;
        let (low, high) = if from_low { (src, dst) } else { (dst, src) };
        let halves = |address: u128| [(address >> 64) as u64, address as u64];
        let (low, low_port, high, high_port) = (halves(low.0), low.1, halves(high.0), high.1);
        (Self { low, high, low_port, high_port, protocol, version }, from_low)
    }

    /// The key of an ICMP echo, and whether who asks is the low end: two ends that ask each other by the
    /// same identifier have two connections.
    pub(super) fn of_echo(
        version: u8,
        protocol: u8,
        asks: u128,
        answers: u128,
        ident: u16,
    ) -> (Self, bool) {
        let (key, asks_low) = Self::of(version, protocol, (asks, ident), (answers, ident));
        (Self { high_port: asks_low.into(), ..key }, asks_low)
    }
}

/// How far a connection is; each belongs to a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Tcp(TcpState),
    /// UDP of one side only.
    Udp,
    /// UDP of both sides.
    UdpStream,
    Icmp,
    Other,
}

/// How many different timeouts there are.
pub(super) const TIMEOUTS: usize = 8;

impl Stage {
    /// The place of its timeout.
    pub(super) const fn timeout(self) -> usize {
        match self {
            Self::Tcp(TcpState::SynSent | TcpState::SynReceived) => 0,
            Self::Tcp(TcpState::Established) => 1,
            Self::Tcp(TcpState::Finishing { .. }) => 2,
            Self::Tcp(TcpState::Closed) => 3,
            Self::Udp => 4,
            Self::UdpStream => 5,
            Self::Icmp => 6,
            Self::Other => 7,
        }
    }
}

/// A connection, in a cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Entry {
    key: FlowKey,
    /// Expired from here on.
    deadline: Instant,
    /// Whether the low end opened it.
    opened_by_low: bool,
    stage: Stage,
    /// The next of its hash chain, or of the free ones.
    next: u32,
    older: u32,
    newer: u32,
}

const _: () = assert!(size_of::<Entry>() == 64);

/// The connections of one shard.
pub(super) struct Connections {
    entries: Vec<Entry>,
    capacity: usize,
    buckets: Vec<u32>,
    free: u32,
    queues: [Queue; TIMEOUTS],
    timeouts: [Duration; TIMEOUTS],
    seed: RandomState,
    count: Counts,
}

/// Entries of one timeout, from the one unused for longest.
#[derive(Clone, Copy, Debug)]
struct Queue {
    oldest: u32,
    newest: u32,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) current: u64,
    pub(super) created: u64,
    pub(super) expired: u64,
    pub(super) refused: u64,
}

/// A connection that was found; good until the table changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    entry: u32,
    pub(super) stage: Stage,
    pub(super) opened_by_low: bool,
}

impl Connections {
    /// Room for `capacity` connections, all of it taken now.
    pub(super) fn new(capacity: usize, timeouts: [Duration; TIMEOUTS]) -> Self {
        Self {
            entries: Vec::with_capacity(capacity),
            capacity,
            buckets: vec![NONE; capacity.next_power_of_two()],
            free: NONE,
            queues: [Queue { oldest: NONE, newest: NONE }; TIMEOUTS],
            timeouts,
            seed: RandomState::new(),
            count: Counts::default(),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        self.count
    }

    /// Asks for what a look-up will read first.
    pub(super) fn fetch(&self, key: &FlowKey) {
        prefetch(&self.buckets[self.bucket(key)]);
    }

    /// Asks for the connection that is named there, once that is at hand. It is probably the one.
    pub(super) fn fetch_next(&self, key: &FlowKey) {
        let first = self.buckets[self.bucket(key)];
        self.entries.get(first as usize).into_iter().for_each(prefetch);
    }

    /// The connection with this key, unless it has expired.
    pub(super) fn find(&mut self, key: &FlowKey, now: Instant) -> Option<Found> {
        let mut at = self.buckets[self.bucket(key)];
        while at != NONE {
            let entry = &self.entries[at as usize];
            if entry.key == *key {
                if entry.deadline <= now {
                    self.expire(at);
                    return None;
                }
                let (stage, opened_by_low) = (entry.stage, entry.opened_by_low);
                return Some(Found { entry: at, stage, opened_by_low });
            }
            at = entry.next;
        }
        None
    }

    /// Adds a connection, which must not be there. Says whether there was a place for it.
    pub(super) fn insert(
        &mut self,
        key: FlowKey,
        opened_by_low: bool,
        stage: Stage,
        now: Instant,
    ) -> bool {
        let Some(at) = self.place(now) else {
            self.count.refused += 1;
            return false;
        };
        let bucket = self.bucket(&key);
        let next = core::mem::replace(&mut self.buckets[bucket], at);
        let deadline = self.deadline(stage, now);
        let (older, newer) = (NONE, NONE);
        let entry = Entry { key, deadline, opened_by_low, stage, next, older, newer };
        match self.entries.get_mut(at as usize) {
            Some(old) => *old = entry,
            None => self.entries.push(entry),
        }
        self.enqueue(at);
        self.count.current += 1;
        self.count.created += 1;
        true
    }

    /// Notes that a connection was used, and how far it is now.
    pub(super) fn touch(&mut self, found: Found, stage: Stage, now: Instant) {
        let deadline = self.deadline(stage, now);
        let entry = &mut self.entries[found.entry as usize];
        if entry.deadline == deadline && entry.stage.timeout() == stage.timeout() {
            entry.stage = stage;
            return;
        }
        self.unqueue(found.entry);
        let entry = &mut self.entries[found.entry as usize];
        (entry.stage, entry.deadline) = (stage, deadline);
        self.enqueue(found.entry);
    }

    /// When a connection that was used now expires.
    fn deadline(&self, stage: Stage, now: Instant) -> Instant {
        const SECOND: u64 = 1_000_000_000;
        let used = Instant::from_secs(now.as_nanos().div_ceil(SECOND));
        used.after(self.timeouts[stage.timeout()])
    }

    /// Forgets a connection.
    pub(super) fn remove(&mut self, found: Found) {
        self.forget(found.entry);
    }

    /// Reclaims up to `most` connections that have expired.
    pub(super) fn reclaim(&mut self, most: usize, now: Instant) {
        for _ in 0..most {
            let Some(at) = self.any_expired(now) else { return };
            self.expire(at);
        }
    }

    /// The number of a free entry, where there is or can be one; it may be one behind the last.
    fn place(&mut self, now: Instant) -> Option<u32> {
        if self.count.current as usize == self.capacity {
            let at = self.any_expired(now)?;
            self.expire(at);
        }
        if self.free == NONE {
            return Some(self.entries.len() as u32);
        }
        let at = self.free;
        self.free = self.entries[at as usize].next;
        Some(at)
    }

    fn any_expired(&self, now: Instant) -> Option<u32> {
        let oldest = self.queues.iter().filter_map(|queue| self.entries.get(queue.oldest as usize));
        let at = oldest.filter(|entry| entry.deadline <= now).map(|entry| entry.stage.timeout());
        at.map(|timeout| self.queues[timeout].oldest).next()
    }

    fn expire(&mut self, at: u32) {
        self.forget(at);
        self.count.expired += 1;
    }

    fn forget(&mut self, at: u32) {
        self.unqueue(at);
        self.unchain(at);
        self.entries[at as usize].next = core::mem::replace(&mut self.free, at);
        self.count.current -= 1;
    }

    fn bucket(&self, key: &FlowKey) -> usize {
        self.seed.hash_one(key) as usize & (self.buckets.len() - 1)
    }

    fn unchain(&mut self, at: u32) {
        let Entry { key, next, .. } = self.entries[at as usize];
        let bucket = self.bucket(&key);
        if self.buckets[bucket] == at {
            self.buckets[bucket] = next;
            return;
        }
        let mut before = self.buckets[bucket];
        while let Some(entry) = self.entries.get_mut(before as usize) {
            if entry.next == at {
                entry.next = next;
                return;
            }
            before = entry.next;
        }
    }

    fn enqueue(&mut self, at: u32) {
        let queue = &mut self.queues[self.entries[at as usize].stage.timeout()];
        let older = core::mem::replace(&mut queue.newest, at);
        if older == NONE {
            queue.oldest = at;
        } else {
            self.entries[older as usize].newer = at;
        }
        let entry = &mut self.entries[at as usize];
        (entry.older, entry.newer) = (older, NONE);
    }

    fn unqueue(&mut self, at: u32) {
        let Entry { older, newer, stage, .. } = self.entries[at as usize];
        let queue = &mut self.queues[stage.timeout()];
        match self.entries.get_mut(older as usize) {
            Some(entry) => entry.newer = newer,
            None => queue.oldest = newer,
        }
        match self.entries.get_mut(newer as usize) {
            Some(entry) => entry.older = older,
            None => queue.newest = older,
        }
    }
}
