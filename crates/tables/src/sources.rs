//! The number of entries that each source address has in a table, to bound it: fixed memory.

use crate::index::Index;
use crate::keyed::HashKey;

/// In the place of a number: none.
const NONE: u32 = u32::MAX;

/// An address with entries; the next free place, where it is one.
#[derive(Clone, Copy, Default)]
struct Source {
    /// In halves, which need less alignment than the whole.
    address: [u64; 2],
    count: u32,
    next: u32,
    version: u8,
}

/// The sources of the entries of one shard's table.
pub struct Sources {
    bound: u32,
    slots: Vec<Source>,
    index: Index,
    free: u32,
    hash_key: HashKey,
}

impl Sources {
    /// For a table of `capacity` entries in which one source may have `bound`. `None` if `bound` is
    /// 0, which allows any number.
    pub fn new(capacity: usize, bound: u32) -> Option<Self> {
        (bound > 0).then(|| Self {
            bound,
            slots: Vec::with_capacity(capacity),
            index: Index::new(capacity),
            free: NONE,
            hash_key: HashKey::random(),
        })
    }

    /// Whether a source has as many entries as it may.
    pub fn is_full(&self, version: u8, address: u128) -> bool {
        let found = self.find(self.hash(version, address), version, address);
        found.is_some_and(|number| self.slots[number as usize].count >= self.bound)
    }

    /// Counts an entry of a source. There must be no more than the table holds.
    pub fn add(&mut self, version: u8, address: u128) {
        let hash = self.hash(version, address);
        if let Some(number) = self.find(hash, version, address) {
            self.slots[number as usize].count += 1;
            return;
        }
        let own = Source { address: halves(address), count: 1, next: NONE, version };
        let number = self.free;
        let number = match self.slots.get_mut(number as usize) {
            Some(slot) => {
                self.free = slot.next;
                *slot = own;
                number
            }
            None => {
                self.slots.push(own);
                self.slots.len() as u32 - 1
            }
        };
        self.index.insert(hash, number);
    }

    /// Takes back what [`Sources::add`] counted.
    pub fn remove(&mut self, version: u8, address: u128) {
        let hash = self.hash(version, address);
        let Some(number) = self.find(hash, version, address) else { return };
        let slot = &mut self.slots[number as usize];
        slot.count -= 1;
        if slot.count == 0 {
            slot.next = core::mem::replace(&mut self.free, number);
            self.index.remove(hash, number);
        }
    }

    fn find(&self, hash: u32, version: u8, address: u128) -> Option<u32> {
        let address = halves(address);
        self.index.find(hash, |number| {
            let own = &self.slots[number as usize];
            own.address == address && own.version == version
        })
    }

    fn hash(&self, version: u8, address: u128) -> u32 {
        self.hash_key.of([address, 0], version.into())
    }
}

fn halves(address: u128) -> [u64; 2] {
    [(address >> 64) as u64, address as u64]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn counts_what_a_map_counts(
            steps in prop::collection::vec((0..9_u128, any::<bool>(), any::<bool>()), 1..300)) {
            let mut sources = Sources::new(16, 3).expect("a bound");
            let mut counts: HashMap<(u8, u128), u32> = HashMap::new();
            for (address, v6, add) in steps {
                let (version, address) = if v6 { (6, address << 90) } else { (4, address) };
                let sum: u32 = counts.values().sum();
                let count = counts.entry((version, address)).or_default();
                if add && sum < 16 {
                    sources.add(version, address);
                    *count += 1;
                } else if !add && *count > 0 {
                    sources.remove(version, address);
                    *count -= 1;
                }
                for (&(version, address), &count) in &counts {
                    prop_assert_eq!(sources.is_full(version, address), count >= 3);
                }
            }
        }
    }

    #[test]
    fn no_bound_counts_nothing() {
        assert!(Sources::new(16, 0).is_none());
    }
}
