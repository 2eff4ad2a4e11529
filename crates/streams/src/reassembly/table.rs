//! The datagrams in progress, by key, by age and by source, in fixed memory.

use core::time::Duration;

use warpline_packet::Instant;

use super::piece::Key;
use warpline_tables::Shares;
use warpline_tables::index::Index;
use warpline_tables::keyed::HashKey;

/// A fixed number of places, each of one datagram; found by key, oldest first by IP version.
pub(super) struct Table {
    index: Index,
    hash_key: HashKey,
    entries: Box<[DatagramEntry]>,
    /// The first free place.
    free: u32,
    /// Places in use, oldest first: of IPv4, of IPv6.
    orders: [Order; 2],
    shares: Shares,
}

#[derive(Clone, Copy, Default)]
struct DatagramEntry {
    key: Key,
    hash: u32,
    started: Instant,
    /// Neighbours in its order; `next` also in the list of free places.
    before: u32,
    next: u32,
}

#[derive(Clone, Copy)]
struct Order {
    first: u32,
    last: u32,
}

const NONE: u32 = u32::MAX;

impl Table {
    pub(super) fn new(places: usize) -> Self {
        let entry = |at: usize| {
            let next = if at + 1 < places { at as u32 + 1 } else { NONE };
            DatagramEntry { next, ..DatagramEntry::default() }
        };
        Self {
            index: Index::new(places),
            hash_key: HashKey::random(),
            entries: (0..places).map(entry).collect(),
            free: if places == 0 { NONE } else { 0 },
            orders: [Order { first: NONE, last: NONE }; 2],
            shares: Shares::new(places, 1),
        }
    }

    pub(super) fn find(&self, key: &Key) -> Option<usize> {
        let is = |place: u32| self.entries[place as usize].key == *key;
        self.index.find(key.hash(self.hash_key), is).map(|place| place as usize)
    }

    /// A place for a datagram whose first fragment came at `now`; `None` where all are taken.
    pub(super) fn insert(&mut self, key: Key, now: Instant) -> Option<usize> {
        let place = self.free;
        let entry = self.entries.get_mut(place as usize)?;
        self.free = entry.next;
        *entry = DatagramEntry { key, hash: key.hash(self.hash_key), ..DatagramEntry::default() };
        self.index.insert(entry.hash, place);
        self.append(place, now);
        self.shares.add(place, (0, key.source()));
        Some(place as usize)
    }

    /// Has the time of a place that is in use begin anew.
    pub(super) fn renew(&mut self, place: usize, now: Instant) {
        self.unlink(place);
        self.append(place as u32, now);
        self.shares.renew(place as u32);
    }

    /// Makes a place the youngest of its order.
    fn append(&mut self, place: u32, now: Instant) {
        let entry = &mut self.entries[place as usize];
        let order = &mut self.orders[order_of(&entry.key)];
        let last = core::mem::replace(&mut order.last, place);
        (entry.started, entry.before, entry.next) = (now, last, NONE);
        match self.entries.get_mut(last as usize) {
            Some(last) => last.next = place,
            None => order.first = place,
        }
    }

    /// Frees a place that is in use.
    pub(super) fn remove(&mut self, place: usize) {
        self.index.remove(self.entries[place].hash, place as u32);
        self.unlink(place);
        self.shares.remove(place as u32);
        self.entries[place].next = core::mem::replace(&mut self.free, place as u32);
    }

    /// Takes a place out of its order.
    fn unlink(&mut self, place: usize) {
        let DatagramEntry { key, before, next, .. } = self.entries[place];
        let order = &mut self.orders[order_of(&key)];
        match self.entries.get_mut(before as usize) {
            Some(before) => before.next = next,
            None => order.first = next,
        }
        match self.entries.get_mut(next as usize) {
            Some(next) => next.before = before,
            None => order.last = before,
        }
    }

    /// The place that makes room: of the source with the most datagrams, as [`Shares`] counts, the
    /// one in use for longest.
    pub(super) fn least(&self) -> Option<usize> {
        self.shares.first(0).map(|place| place as usize)
    }

    /// A place whose time is over: `timeouts` are those of IPv4 and of IPv6.
    pub(super) fn expired(&self, now: Instant, timeouts: [Duration; 2]) -> Option<usize> {
        self.orders.iter().zip(timeouts).find_map(|(order, timeout)| {
            let entry = self.entries.get(order.first as usize)?;
            (now.since(entry.started) >= timeout).then_some(order.first as usize)
        })
    }
}

fn order_of(key: &Key) -> usize {
    usize::from(key.version == 6)
}
