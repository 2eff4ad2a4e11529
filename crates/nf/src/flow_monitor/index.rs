//! An index from hashes to numbers, four bytes a slot: open addressing, linear probing, backward-shift
//! deletion.
//!
//! A slot is a number and as many upper bits of its hash as there is room for, so that nearly every look-up
//! touches one line of the index and then the one record that it looks for. At most half of the slots are
//! in use. Homes are not kept: whoever removes knows the hashes.

/// Finds numbers by hash.
pub(super) struct Index {
    /// Number + 1 in the lower bits, 0 for none; a tag above it.
    slots: Vec<u32>,
    mask: usize,
    /// The bits that the number has.
    number_bits: u32,
}

impl Index {
    /// With room for numbers below `capacity`, at most 2^30 of them.
    pub(super) fn new(capacity: usize) -> Self {
        let len = (2 * capacity.max(1)).next_power_of_two();
        let number_bits = (capacity as u32 + 1).next_power_of_two() - 1;
        Self { slots: vec![0; len], mask: len - 1, number_bits }
    }

    /// What a slot may hold whose number was inserted with `hash`; it may be another's.
    #[inline(always)]
    pub(super) fn peek(&self, hash: u32) -> u32 {
        self.slots[hash as usize & self.mask]
    }

    /// The number that a slot holds.
    #[inline(always)]
    pub(super) fn number(&self, slot: u32) -> Option<u32> {
        (slot & self.number_bits).checked_sub(1)
    }

    /// The number that was inserted with `hash` and that `is` it.
    #[inline]
    pub(super) fn find(&self, hash: u32, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let tag = hash & !self.number_bits;
        let mut at = hash as usize & self.mask;
        loop {
            let slot = self.slots[at];
            let number = self.number(slot)?;
            if slot & !self.number_bits == tag && is(number) {
                return Some(number);
            }
            at = (at + 1) & self.mask;
        }
    }

    /// Inserts a number that is not in it.
    pub(super) fn insert(&mut self, hash: u32, number: u32) {
        let mut at = hash as usize & self.mask;
        while self.slots[at] != 0 {
            at = (at + 1) & self.mask;
        }
        self.slots[at] = (hash & !self.number_bits) | (number + 1);
    }

    /// Takes out a number that was inserted with `hash`; `hash_of` gives the hashes of the others.
    pub(super) fn remove(&mut self, hash: u32, number: u32, hash_of: impl Fn(u32) -> u32) {
        let mut at = hash as usize & self.mask;
        loop {
            match self.number(self.slots[at]) {
                Some(found) if found == number => break,
                Some(_) => at = (at + 1) & self.mask,
                None => return,
            }
        }
        let mut hole = at;
        loop {
            at = (at + 1) & self.mask;
            let slot = self.slots[at];
            let Some(number) = self.number(slot) else { break };
            // An entry may move back to the hole unless its home lies behind the hole.
            let from_home = at.wrapping_sub(hash_of(number) as usize) & self.mask;
            if from_home >= at.wrapping_sub(hole) & self.mask {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Few hashes, so that clusters form, wrap around and are cut, and tags don't tell them apart.
        #[test]
        fn holds_what_a_map_holds(steps in proptest::collection::vec((0..16u32, 0..6u32), 1..300)) {
            let mut index = Index::new(16);
            let mut held = BTreeMap::new();
            for (number, kind) in steps {
                let hash = (number % 3 * 7 + kind) | kind << 29;
                if let Some(hash) = held.remove(&number) {
                    index.remove(hash, number, |n| held[&n]);
                } else {
                    index.insert(hash, number);
                    held.insert(number, hash);
                }
                for number in 0..16 {
                    for hash in (0..6).flat_map(|kind| (0..3).map(move |n| (n * 7 + kind) | kind << 29)) {
                        let found = index.find(hash, |n| n == number);
                        let holds = held.get(&number) == Some(&hash);
                        // Where tags are alike, a number may be found by another's hash.
                        prop_assert!(found.is_some() || !holds);
                        prop_assert!(found.is_none() || held.contains_key(&number));
                    }
                }
            }
        }
    }
}
