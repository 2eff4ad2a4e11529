//! A bounded table of counts: when it is full, the entry that expires first makes room.
//!
//! Every slot has one line in a heap with its expiry at the time of writing. Expiries only grow, so
//! a line that is too early is put back with the real one when it comes up.

use core::cmp::Reverse;
use core::hash::Hash;
use std::collections::{BinaryHeap, HashMap};

use warpline_packet::Instant;

/// Entries by key.
pub(super) struct Entries<K, V> {
    slots: Vec<Slot<K, V>>,
    places: HashMap<K, u32>,
    expiries: BinaryHeap<Reverse<(Instant, u32)>>,
    capacity: usize,
    evicted: u64,
}

/// An entry.
pub(super) struct Slot<K, V> {
    key: K,
    /// The last moment at which it is valid. Updates may only make it later.
    pub(super) expiry: Instant,
    pub(super) value: V,
}

impl<K: Hash + Eq + Copy, V> Entries<K, V> {
    /// Room for `capacity` entries, at least one; memory is taken as it is needed.
    pub(super) fn new(capacity: usize) -> Self {
        let capacity = capacity.clamp(1, u32::MAX as usize);
        let (slots, places, expiries) = (Vec::new(), HashMap::new(), BinaryHeap::new());
        Self { slots, places, expiries, capacity, evicted: 0 }
    }

    /// Takes all memory now.
    pub(super) fn reserve(&mut self) {
        let more = self.capacity - self.slots.len();
        self.slots.reserve_exact(more);
        // A map that is at most half full never grows, however often its entries change.
        self.places.reserve(more + self.capacity);
        self.expiries.reserve_exact(more + 1);
    }

    /// Entries that made room before they expired.
    pub(super) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Entries that there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The entry of `key`, where there is one that has not expired by `now`.
    pub(super) fn get(&mut self, key: &K, now: Instant) -> Option<&mut Slot<K, V>> {
        let place = *self.places.get(key)?;
        self.slots.get_mut(place as usize).filter(|slot| slot.expiry >= now)
    }

    /// Makes or replaces the entry of `key`.
    pub(super) fn set(&mut self, key: K, value: V, expiry: Instant, now: Instant) {
        let slot = Slot { key, expiry, value };
        if let Some(old) = self.places.get(&key).and_then(|&at| self.slots.get_mut(at as usize)) {
            // Its line in the heap is no later.
            let expiry = old.expiry.max(expiry);
            *old = Slot { expiry, ..slot };
            return;
        }
        let place = self.free(now).unwrap_or(self.slots.len() as u32);
        match self.slots.get_mut(place as usize) {
            Some(old) => {
                self.places.remove(&old.key);
                *old = slot;
            }
            None => self.slots.push(slot),
        }
        self.places.insert(key, place);
        self.expiries.push(Reverse((expiry, place)));
    }

    /// A slot that may be used again, its line taken from the heap: one that has expired, or where
    /// there is no room for another the one that expires first.
    fn free(&mut self, now: Instant) -> Option<u32> {
        let is_full = self.slots.len() >= self.capacity;
        while let Some(&Reverse((noted, place))) = self.expiries.peek() {
            if noted >= now && !is_full {
                return None;
            }
            let expiry = self.slots.get(place as usize).map_or(noted, |slot| slot.expiry);
            self.expiries.pop();
            if expiry == noted {
                self.evicted += u64::from(expiry >= now);
                return Some(place);
            }
            self.expiries.push(Reverse((expiry, place)));
        }
        None
    }
}
