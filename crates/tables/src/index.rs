//! An index from hashes to numbers: open addressing, linear probing, backward-shift deletion.
//!
//! It is half empty at most, so that probes are short and always end. Entries keep their hash, so
//! that a probe touches what is indexed only where the hashes agree.

use warpline_packet::prefetch;

/// A place from 0 to below `len` that a hash names by its upper bits.
#[inline]
pub fn scale(hash: u32, len: usize) -> usize {
    ((u64::from(hash) * len as u64) >> 32) as usize
}

/// Finds numbers by hash.
pub struct Index {
    slots: Vec<Slot>,
    mask: usize,
}

#[derive(Clone, Copy)]
struct Slot {
    hash: u32,
    number: u32,
}

const EMPTY: Slot = Slot { hash: 0, number: u32::MAX };

impl Slot {
    fn is_empty(self) -> bool {
        self.number == u32::MAX
    }
}

/// Slots for `capacity` numbers: at most half of them are used.
fn slots_of(capacity: usize) -> usize {
    (2 * capacity.max(1)).next_power_of_two()
}

impl Index {
    /// With room for `capacity` numbers; no more may be inserted.
    pub fn new(capacity: usize) -> Self {
        let len = slots_of(capacity);
        Self { slots: vec![EMPTY; len], mask: len - 1 }
    }

    /// Bytes of one with room for `capacity` numbers.
    pub fn memory_len(capacity: usize) -> usize {
        slots_of(capacity) * size_of::<Slot>()
    }

    /// The number that was inserted with `hash` and that `is` it.
    #[inline]
    pub fn find(&self, hash: u32, is: impl Fn(u32) -> bool) -> Option<u32> {
        let mut at = hash as usize & self.mask;
        loop {
            let slot = self.slots[at];
            if slot.is_empty() {
                return None;
            }
            if slot.hash == hash && is(slot.number) {
                return Some(slot.number);
            }
            at = (at + 1) & self.mask;
        }
    }

    /// Asks for the first place that is looked at for `hash`.
    #[inline]
    pub fn fetch(&self, hash: u32) {
        prefetch(&self.slots[hash as usize & self.mask]);
    }

    /// The number in the first slot probed for `hash`, read to load it into the cache.
    #[inline]
    pub fn glance(&self, hash: u32) -> u32 {
        self.slots[hash as usize & self.mask].number
    }

    /// Adds `number` under `hash`.
    pub fn insert(&mut self, hash: u32, number: u32) {
        let mut at = hash as usize & self.mask;
        while !self.slots[at].is_empty() {
            at = (at + 1) & self.mask;
        }
        self.slots[at] = Slot { hash, number };
    }

    /// Takes out a number that was inserted with `hash`.
    pub fn remove(&mut self, hash: u32, number: u32) {
        let mut at = hash as usize & self.mask;
        while self.slots[at].number != number {
            if self.slots[at].is_empty() {
                return;
            }
            at = (at + 1) & self.mask;
        }
        let mut hole = at;
        loop {
            at = (at + 1) & self.mask;
            let slot = self.slots[at];
            if slot.is_empty() {
                break;
            }
            // An entry may move back to the hole unless its home is after the hole.
            let from_home = at.wrapping_sub(slot.hash as usize) & self.mask;
            if from_home >= at.wrapping_sub(hole) & self.mask {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = EMPTY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Few hashes, so that clusters form, wrap around and are cut.
        #[test]
        fn holds_what_a_set_holds(steps in proptest::collection::vec((0..32u32, 0..6u32), 1..300)) {
            let mut index = Index::new(16);
            let mut set = BTreeSet::new();
            let hash_of = |number: u32, kind: u32| (number % 3 * 7 + kind) | 0x1000;
            for (number, kind) in steps {
                let hash = hash_of(number, kind);
                if set.remove(&(hash, number)) {
                    index.remove(hash, number);
                } else if set.len() < 16 && set.iter().all(|&(_, other)| other != number) {
                    index.insert(hash, number);
                    set.insert((hash, number));
                }
                for number in 0..32 {
                    for kind in 0..6 {
                        let hash = hash_of(number, kind);
                        let found = index.find(hash, |n| n == number);
                        prop_assert_eq!(found.is_some(), set.contains(&(hash, number)));
                    }
                }
            }
        }
    }
}
