//! A slab of entries that expire: fixed memory, exact expiry.
//!
//! Each entry is in a queue with others that have the same idle time, in the order of last use.
//! Time never runs backwards, so the head of a queue expires first. So a full slab finds out at
//! once whether any entry has expired. If none has, the caller evicts the head of a queue that
//! gives way ([`Slab::yielding`]).

use core::ops::{Index, IndexMut};

use warpline_packet::Instant;

use crate::fullest;
use crate::list::{Links, List, NONE};

/// An entry of a [`Slab`]. Its queue and deadline change in [`Slab::update`] alone.
pub trait Timed {
    /// Its neighbours, which the slab sets.
    fn links(&mut self) -> &mut Links;

    /// The number of its queue.
    fn queue(&self) -> usize;

    /// It has expired from here on.
    fn deadline(&self) -> Instant;
}

/// See the module.
pub struct Slab<T, const QUEUES: usize> {
    entries: Vec<T>,
    capacity: usize,
    len: usize,
    /// The first free place.
    free: u32,
    queues: [List; QUEUES],
    /// No entry expires before this.
    due: Instant,
}

impl<T, const QUEUES: usize> Index<u32> for Slab<T, QUEUES> {
    type Output = T;

    #[inline]
    fn index(&self, number: u32) -> &T {
        &self.entries[number as usize]
    }
}

impl<T, const QUEUES: usize> IndexMut<u32> for Slab<T, QUEUES> {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.entries[number as usize]
    }
}

impl<T: Timed, const QUEUES: usize> Slab<T, QUEUES> {
    /// Room for `capacity` entries, all of it taken now.
    pub fn new(capacity: usize) -> Self {
        Self {
            entries: Vec::with_capacity(capacity),
            capacity,
            len: 0,
            free: NONE,
            queues: [List::EMPTY; QUEUES],
            due: Instant::MAX,
        }
    }

    /// How many entries there are, including those that have expired.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether every place is taken.
    pub fn is_full(&self) -> bool {
        self.len == self.capacity
    }

    /// The entry at a place that was ever used.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&T> {
        self.entries.get(number as usize)
    }

    /// Adds an entry to a slab that is not full. Returns its number.
    pub fn insert(&mut self, entry: T) -> u32 {
        debug_assert!(!self.is_full(), "an entry too many");
        let number = match self.entries.get_mut(self.free as usize) {
            Some(place) => {
                let number = self.free;
                self.free = place.links().newer();
                *place = entry;
                number
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
        self.len += 1;
        self.append(number);
        number
    }

    /// Removes an entry.
    pub fn remove(&mut self, number: u32) {
        self.take_out(number);
        self.entries[number as usize].links().free(self.free);
        self.free = number;
        self.len -= 1;
    }

    /// Changes an entry, which is then the last used one of its queue.
    #[inline(never)]
    pub fn update(&mut self, number: u32, change: impl FnOnce(&mut T)) {
        self.take_out(number);
        change(&mut self.entries[number as usize]);
        self.append(number);
    }

    /// An entry that has expired.
    #[inline]
    pub fn expired(&mut self, now: Instant) -> Option<u32> {
        if now < self.due { None } else { self.first_expired(now) }
    }

    fn first_expired(&mut self, now: Instant) -> Option<u32> {
        self.due = Instant::MAX;
        for queue in &self.queues {
            let Some(entry) = self.entries.get(queue.oldest() as usize) else { continue };
            self.due = self.due.min(entry.deadline());
            if entry.deadline() <= now {
                return Some(queue.oldest());
            }
        }
        None
    }

    /// The entry unused for longest in the longest of `queues`, with the place of that queue among
    /// them. `None` if all are empty.
    pub fn yielding(&self, queues: impl Iterator<Item = usize> + Clone) -> Option<(usize, u32)> {
        let lens = queues.clone().map(|queue| self.queues[queue].len());
        let place = fullest(lens.enumerate())?;
        let mut queues = queues;
        Some((place, self.queues[queues.nth(place)?].oldest()))
    }

    fn append(&mut self, number: u32) {
        let entry = &self.entries[number as usize];
        self.due = self.due.min(entry.deadline());
        self.queues[entry.queue()].append(&mut self.entries, T::links, number);
    }

    fn take_out(&mut self, number: u32) {
        let queue = self.entries[number as usize].queue();
        self.queues[queue].remove(&mut self.entries, T::links, number);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy)]
    struct Entry {
        links: Links,
        queue: usize,
        name: u64,
        deadline: u64,
    }

    impl Timed for Entry {
        fn links(&mut self) -> &mut Links {
            &mut self.links
        }

        fn queue(&self) -> usize {
            self.queue
        }

        fn deadline(&self) -> Instant {
            Instant::from_secs(self.deadline)
        }
    }

    const IDLE: [u64; 2] = [5, 9];
    const CAPACITY: usize = 6;

    /// Entries by the order of their last use: their names, queues and deadlines.
    #[derive(Default)]
    struct Model(Vec<(u64, usize, u64)>);

    impl Model {
        fn expired(&self, now: u64) -> Vec<u64> {
            self.0.iter().filter(|own| own.2 <= now).map(|own| own.0).collect()
        }

        /// The first of the longest queue; of two as long, either.
        fn yielding(&self) -> Vec<u64> {
            let of = |queue| self.0.iter().filter(move |own| own.1 == queue);
            let most = [0, 1].map(|queue| of(queue).count()).into_iter().max().unwrap_or(0);
            let longest = [0, 1].into_iter().filter(|&queue| of(queue).count() == most);
            longest.filter_map(|queue| of(queue).next()).map(|own| own.0).collect()
        }
    }

    proptest! {
        #[test]
        fn entries_expire_and_give_way_in_the_order_of_use(
            steps in prop::collection::vec((0..4_u8, 0..2_usize, 0..8_u64, 0..4_u64), 1..300),
        ) {
            let (mut slab, mut model) = (Slab::<Entry, 2>::new(CAPACITY), Model::default());
            let (mut now, mut next) = (0, 0);
            let mut numbers = std::collections::HashMap::new();
            for (action, queue, pick, seconds) in steps {
                now += seconds;
                let picked = model.0.get(pick as usize % model.0.len().max(1)).copied();
                match (action, picked) {
                    (0 | 1, _) if model.0.len() < CAPACITY => {
                        let deadline = now + IDLE[queue];
                        let links = Links::UNUSED;
                        let entry = Entry { links, queue, name: next, deadline };
                        numbers.insert(next, slab.insert(entry));
                        model.0.push((next, queue, deadline));
                        next += 1;
                    }
                    (2, Some((name, ..))) => {
                        slab.remove(numbers[&name]);
                        model.0.retain(|own| own.0 != name);
                    }
                    (3, Some((name, ..))) => {
                        let deadline = now + IDLE[queue];
                        slab.update(numbers[&name], |own| {
                            (own.queue, own.deadline) = (queue, deadline);
                        });
                        model.0.retain(|own| own.0 != name);
                        model.0.push((name, queue, deadline));
                    }
                    _ => {}
                }
                prop_assert_eq!(slab.len(), model.0.len());
                prop_assert_eq!(slab.is_full(), model.0.len() == CAPACITY);
                for (name, ..) in &model.0 {
                    prop_assert_eq!(slab[numbers[name]].name, *name);
                    prop_assert!((numbers[name] as usize) < CAPACITY, "places are used again");
                }
                let yielding = slab.yielding([0, 1].into_iter());
                let yielding = yielding.map(|(_, number)| slab[number].name);
                let expected = model.yielding();
                prop_assert!(
                    yielding.map_or(expected.is_empty(), |name| expected.contains(&name)));
                let expired = slab.expired(Instant::from_secs(now));
                let expired = expired.map(|number| slab[number].name);
                let expected = model.expired(now);
                prop_assert!(
                    expired.map_or(expected.is_empty(), |name| expected.contains(&name)));
            }
        }
    }
}
