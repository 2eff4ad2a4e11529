//! The entry to evict from a full table: the oldest of the owner with most entries, where counts
//! are compared by their power of two.
//!
//! So an owner (a source's address, say) evicts its own entries, and no owner can take the table
//! from the others. Among several owners with as many entries, the one evicted first has had so
//! many for longest. Entries may be of kinds, each with owners of its own. Memory is fixed, and no
//! step takes longer with more entries. Nothing depends on how the hash spreads, which is seeded
//! anew for every table.

use crate::index::Index;
use crate::keyed::HashKey;
use crate::list::{Links, List, NONE};

/// The owner of an entry: its kind, and a value that identifies the owner in it.
pub type Owner = (u8, u64);

/// See the module.
pub struct Shares {
    /// By place of the table.
    entries: Vec<OwnerLinks>,
    owners: Vec<Share>,
    index: Index,
    /// The first free place of `owners`.
    free: u32,
    kinds: Vec<OwnerClass>,
    hash_key: HashKey,
}

/// Neighbours among the entries of its owner.
#[derive(Clone, Copy)]
struct OwnerLinks {
    links: Links,
    /// [`NONE`] where it is not in use.
    owner: u32,
}

/// An owner's entries, and its neighbours among owners with as many or among free places.
#[derive(Clone, Copy)]
struct Share {
    owner: Owner,
    entries: List,
    links: Links,
}

/// Owners of a kind, by the logarithm of how many entries they have.
struct OwnerClass {
    len: u32,
    /// Which lists are not empty, as bits.
    used: u32,
    owners: [List; u32::BITS as usize],
}

impl Shares {
    /// For a table of `capacity` entries, of kinds from 0 to below `kinds`.
    pub fn new(capacity: usize, kinds: usize) -> Self {
        let kind = || OwnerClass { len: 0, used: 0, owners: [List::EMPTY; u32::BITS as usize] };
        Self {
            entries: Vec::with_capacity(capacity),
            owners: Vec::with_capacity(capacity),
            index: Index::new(capacity),
            free: NONE,
            kinds: (0..kinds).map(|_| kind()).collect(),
            hash_key: HashKey::random(),
        }
    }

    /// Bytes that one takes for `capacity` entries.
    pub fn memory_len(capacity: usize) -> usize {
        capacity * (size_of::<OwnerLinks>() + size_of::<Share>()) + Index::memory_len(capacity)
    }

    /// Entries of a kind.
    pub fn len(&self, kind: u8) -> u32 {
        self.kinds[usize::from(kind)].len
    }

    /// The kind of the entry at `place`, where there is one.
    fn kind(&self, place: u32) -> Option<u8> {
        let entry = self.entries.get(place as usize)?;
        self.owners.get(entry.owner as usize).map(|share| share.owner.0)
    }

    /// The entry at `place`, which is not in use, is its owner's youngest. Places come into use one
    /// by one.
    pub fn add(&mut self, place: u32, owner: Owner) {
        let number = self.share_of(owner);
        if place as usize == self.entries.len() {
            self.entries.push(OwnerLinks { links: Links::UNUSED, owner: NONE });
        }
        let len = self.append(place, number);
        self.note_len(number, len - 1, len);
        self.kinds[usize::from(owner.0)].len += 1;
    }

    /// The entry at `place` is gone, if there is one.
    pub fn remove(&mut self, place: u32) {
        let Some(kind) = self.kind(place) else { return };
        let number = self.entries[place as usize].owner;
        let len = self.take_out(place);
        self.note_len(number, len + 1, len);
        self.kinds[usize::from(kind)].len -= 1;
        if len == 0 {
            let share = &mut self.owners[number as usize];
            share.links.free(self.free);
            self.free = number;
            let hash = hash(self.hash_key, share.owner);
            self.index.remove(hash, number);
        }
    }

    /// Makes the entry at `place` its owner's youngest, and the owner the last to be asked of those
    /// that have as many.
    pub fn renew(&mut self, place: u32) {
        if self.kind(place).is_none() {
            return;
        }
        let number = self.entries[place as usize].owner;
        self.take_out(place);
        let len = self.append(place, number);
        self.leave(number, len);
        self.join(number, len);
    }

    /// The entry of a kind to evict first.
    pub fn first(&self, kind: u8) -> Option<u32> {
        let kind = &self.kinds[usize::from(kind)];
        let most = kind.used.checked_ilog2()?;
        let number = kind.owners[most as usize].oldest();
        self.owners.get(number as usize).map(|share| share.entries.oldest())
    }

    /// The number of an owner's share; a new one is of no entries.
    fn share_of(&mut self, owner: Owner) -> u32 {
        let hash = hash(self.hash_key, owner);
        let is = |number: u32| self.owners[number as usize].owner == owner;
        if let Some(number) = self.index.find(hash, is) {
            return number;
        }
        let share = Share { owner, entries: List::EMPTY, links: Links::UNUSED };
        let mut number = self.free;
        if let Some(free) = self.owners.get_mut(number as usize) {
            self.free = free.links.newer();
            *free = share;
        } else {
            number = self.owners.len() as u32;
            self.owners.push(share);
        }
        self.index.insert(hash, number);
        number
    }

    /// Gives the owner's number of entries, with this one.
    fn append(&mut self, place: u32, number: u32) -> u32 {
        self.entries[place as usize].owner = number;
        let list = &mut self.owners[number as usize].entries;
        list.append(&mut self.entries, |entry| &mut entry.links, place);
        list.len()
    }

    /// Gives the owner's number of entries, without this one.
    fn take_out(&mut self, place: u32) -> u32 {
        let number = core::mem::replace(&mut self.entries[place as usize].owner, NONE);
        let list = &mut self.owners[number as usize].entries;
        list.remove(&mut self.entries, |entry| &mut entry.links, place);
        list.len()
    }

    fn note_len(&mut self, number: u32, old: u32, len: u32) {
        if old.checked_ilog2() != len.checked_ilog2() {
            self.leave(number, old);
            self.join(number, len);
        }
    }

    /// Puts an owner after those with as many entries; one without entries is in no list.
    fn join(&mut self, number: u32, len: u32) {
        let Some(log) = len.checked_ilog2() else { return };
        let kind = &mut self.kinds[usize::from(self.owners[number as usize].owner.0)];
        kind.used |= 1 << log;
        kind.owners[log as usize].append(&mut self.owners, |share| &mut share.links, number);
    }

    /// Takes an owner from those that have as many as it had.
    fn leave(&mut self, number: u32, len: u32) {
        let Some(log) = len.checked_ilog2() else { return };
        let kind = &mut self.kinds[usize::from(self.owners[number as usize].owner.0)];
        let list = &mut kind.owners[log as usize];
        list.remove(&mut self.owners, |share| &mut share.links, number);
        if list.is_empty() {
            kind.used &= !(1 << log);
        }
    }
}

fn hash(key: HashKey, (kind, value): Owner) -> u32 {
    key.of_all([u64::from(kind), value]) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// The rules of the module's documentation, with entries and owners in maps.
    #[derive(Default)]
    struct Model {
        /// By place: whose it is, and since when.
        entries: BTreeMap<u32, (Owner, usize)>,
        /// Since when an owner has as many.
        owners: BTreeMap<Owner, usize>,
    }

    impl Model {
        fn log(&self, owner: Owner) -> Option<u32> {
            let len = self.entries.values().filter(|entry| entry.0 == owner).count();
            len.checked_ilog2()
        }

        fn change(&mut self, owner: Owner, step: usize, what: impl Fn(&mut Self)) {
            let before = self.log(owner);
            what(self);
            if self.log(owner) != before {
                self.owners.insert(owner, step);
            }
        }

        fn first(&self, kind: u8) -> Option<u32> {
            let owners = self.owners.keys().filter(|owner| owner.0 == kind);
            let most = owners.clone().filter_map(|&owner| self.log(owner)).max()?;
            let as_many = owners.filter(|&&owner| self.log(owner) == Some(most));
            let owner = *as_many.min_by_key(|&owner| self.owners[owner])?;
            let own = self.entries.iter().filter(|(_, entry)| entry.0 == owner);
            own.min_by_key(|(_, entry)| entry.1).map(|(&place, _)| place)
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_model(
            steps in prop::collection::vec((0..24_u32, 0..4_u8, 0..2_u8, 0..5_u64), 1..400),
        ) {
            let (mut shares, mut model) = (Shares::new(24, 2), Model::default());
            for (step, (place, what, kind, owner)) in steps.into_iter().enumerate() {
                let place = place.min(shares.entries.len() as u32);
                let known = model.entries.get(&place).copied();
                match (what, known) {
                    (0 | 1, None) => {
                        let owner = (kind, owner);
                        shares.add(place, owner);
                        model.change(owner, step, |model| {
                            model.entries.insert(place, (owner, step));
                        });
                    }
                    (2, Some((owner, _))) => {
                        shares.renew(place);
                        model.entries.insert(place, (owner, step));
                        model.owners.insert(owner, step);
                    }
                    (3, Some((owner, _))) => {
                        shares.remove(place);
                        model.change(owner, step, |model| {
                            model.entries.remove(&place);
                        });
                    }
                    _ => shares.remove(24),
                }
                for kind in 0..2 {
                    prop_assert_eq!(shares.first(kind), model.first(kind));
                    let of_kind = model.entries.values().filter(|entry| entry.0.0 == kind);
                    prop_assert_eq!(shares.len(kind) as usize, of_kind.count());
                }
            }
        }
    }
}
