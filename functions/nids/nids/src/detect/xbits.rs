//! Bits that rules set for hosts and pairs of hosts: [`XBits`].
//!
//! The table belongs to one shard. Packets of a pair of addresses always share a shard, so bits of
//! pairs are exact. A bit of a host is visible to packets of that host in the shard of the packet
//! that set it.
//!
//! It has a fixed number of places. When all are taken, the bit that would expire first makes room.

use core::net::{IpAddr, Ipv6Addr};
use std::collections::HashMap;

use warpline_packet::Instant;

use super::Subject;
use warpline_nids_rules::{Name, XTrack};

/// The `xbits` of one shard.
#[derive(Debug)]
pub struct XBits {
    /// A heap: each expires no later than those at twice its place and one or two more.
    heap: Vec<Bit>,
    places: HashMap<Key, usize>,
    capacity: usize,
    evicted: u64,
}

/// Whose bit; a host's has its address twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    name: Name,
    is_pair: bool,
    ends: [Ipv6Addr; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Bit {
    expires: Instant,
    key: Key,
}

impl XBits {
    /// Room for `capacity` bits, at least one, of about 150 bytes each, all of it taken now.
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        // Twice the room: a hash table that is at most half full never grows.
        let places = HashMap::with_capacity(capacity * 2);
        Self { heap: Vec::with_capacity(capacity), places, capacity, evicted: 0 }
    }

    /// Whether the bit is set.
    pub fn has(&self, name: Name, track: XTrack, subject: &Subject<'_>, now: Instant) -> bool {
        let place = self.places.get(&Key::new(name, track, subject));
        place.is_some_and(|&at| self.heap[at].expires >= now)
    }

    /// Sets the bit until `expires`. One that is set keeps its time.
    pub fn set(
        &mut self,
        name: Name,
        track: XTrack,
        subject: &Subject<'_>,
        now: Instant,
        expires: Instant,
    ) {
        if self.has(name, track, subject, now) {
            return;
        }
        let key = Key::new(name, track, subject);
        self.remove(&key);
        self.make_room(now);
        self.places.insert(key, self.heap.len());
        self.heap.push(Bit { expires, key });
        self.rise(self.heap.len() - 1);
    }

    /// Unsets the bit.
    pub fn unset(&mut self, name: Name, track: XTrack, subject: &Subject<'_>) {
        self.remove(&Key::new(name, track, subject));
    }

    /// How many bits made room for others before their time.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// The number of entries, including expired ones whose room is not reused yet.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    fn make_room(&mut self, now: Instant) {
        if self.heap.len() < self.capacity {
            return;
        }
        let Some(first) = self.heap.first().copied() else { return };
        if first.expires >= now {
            self.evicted += 1;
        }
        self.remove(&first.key);
    }

    fn remove(&mut self, key: &Key) {
        let Some(at) = self.places.remove(key) else { return };
        self.heap.swap_remove(at);
        if at < self.heap.len() {
            self.places.insert(self.heap[at].key, at);
            self.sink(at);
            self.rise(at);
        }
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 && self.heap[at] < self.heap[(at - 1) / 2] {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let below = [2 * at + 1, 2 * at + 2].into_iter().filter(|&next| next < self.heap.len());
            let Some(least) = below.min_by_key(|&next| self.heap[next]) else { return };
            if self.heap[at] <= self.heap[least] {
                return;
            }
            self.swap(at, least);
            at = least;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.places.insert(self.heap[a].key, a);
        self.places.insert(self.heap[b].key, b);
    }
}

impl Key {
    fn new(name: Name, track: XTrack, subject: &Subject<'_>) -> Self {
        let (src, dst) = (long(subject.src), long(subject.dst));
        let ends = match track {
            XTrack::Source => [src, src],
            XTrack::Destination => [dst, dst],
            XTrack::Pair => [src.min(dst), src.max(dst)],
        };
        Self { name, is_pair: track == XTrack::Pair, ends }
    }
}

fn long(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}
