//! The datagrams in progress, by key, by age and by source, in fixed memory.

use core::time::Duration;

use warpline_packet::Instant;

use super::piece::Key;
use warpline_tables::Shares;
use warpline_tables::index::Index;
use warpline_tables::keyed::HashKey;
use warpline_tables::list::{Links, List, NONE};

/// A fixed number of places, each of one datagram; found by key, oldest first by IP version.
pub(super) struct Table {
    index: Index,
    hash_key: HashKey,
    entries: Box<[DatagramEntry]>,
    /// The first free place.
    free: u32,
    /// Places in use, oldest first: of IPv4, of IPv6.
    orders: [List; 2],
    shares: Shares,
}

#[derive(Clone, Copy)]
struct DatagramEntry {
    key: Key,
    hash: u32,
    started: Instant,
    /// In its order, or in the list of free places.
    links: Links,
}

impl DatagramEntry {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl Table {
    pub(super) fn new(places: usize) -> Self {
        let entry = |at: usize| {
            let mut links = Links::UNUSED;
            links.free(if at + 1 < places { at as u32 + 1 } else { NONE });
            DatagramEntry { key: Key::default(), hash: 0, started: Instant::ZERO, links }
        };
        Self {
            index: Index::new(places),
            hash_key: HashKey::random(),
            entries: (0..places).map(entry).collect(),
            free: if places == 0 { NONE } else { 0 },
            orders: [List::EMPTY; 2],
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
        self.free = entry.links.newer();
        (entry.key, entry.hash) = (key, key.hash(self.hash_key));
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
        entry.started = now;
        let order = &mut self.orders[order_of(&entry.key)];
        order.append(&mut self.entries, DatagramEntry::links, place);
    }

    /// Frees a place that is in use.
    pub(super) fn remove(&mut self, place: usize) {
        self.index.remove(self.entries[place].hash, place as u32);
        self.unlink(place);
        self.shares.remove(place as u32);
        self.entries[place].links.free(self.free);
        self.free = place as u32;
    }

    /// Takes a place out of its order.
    fn unlink(&mut self, place: usize) {
        let order = &mut self.orders[order_of(&self.entries[place].key)];
        order.remove(&mut self.entries, DatagramEntry::links, place as u32);
    }

    /// The place that makes room: of the source with the most datagrams, as [`Shares`] counts, the
    /// one in use for longest.
    pub(super) fn least(&self) -> Option<usize> {
        self.shares.first(0).map(|place| place as usize)
    }

    /// A place whose time is over: `timeouts` are those of IPv4 and of IPv6.
    pub(super) fn expired(&self, now: Instant, timeouts: [Duration; 2]) -> Option<usize> {
        self.orders.iter().zip(timeouts).find_map(|(order, timeout)| {
            let entry = self.entries.get(order.oldest() as usize)?;
            (now.since(entry.started) >= timeout).then_some(order.oldest() as usize)
        })
    }
}

fn order_of(key: &Key) -> usize {
    usize::from(key.version == 6)
}
