//! Heavy hitters in fixed memory: Space-Saving (Metwally, Agrawal, El Abbadi, "Efficient
//! Computation of Frequent and Top-k Elements in Data Streams", ICDT 2005), with weights.
//!
//! There are `m` counters. A key without one takes over the smallest counter and starts from its
//! count, which becomes the key's error. So a count is never too low, and too high by at most its
//! error. No error exceeds the sum of all weights / `m`. Every key whose weights sum to more than
//! that has a counter.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use warpline_tables::keyed::mix;

/// A counter.
#[derive(Clone, Debug)]
pub(super) struct Counter<K, X> {
    pub(super) key: K,
    /// Never less than the sum of the key's weights.
    pub(super) count: u64,
    /// How much more than the sum it can be.
    pub(super) error: u64,
    /// The remaining knowledge of the key since it took over the counter, or of the counter.
    pub(super) extra: X,
}

/// The counters.
pub(super) struct SpaceSaving<K, X> {
    counters: Vec<Counter<K, X>>,
    /// Places of the counters, the smallest count first: a binary heap.
    heap: Vec<u32>,
    /// By counter: its place in the heap.
    places: Vec<u32>,
    found: HashMap<K, u32, HashedBy>,
    limit: usize,
}

/// The result of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CounterLookup {
    /// The key had the counter.
    Own(usize),
    /// The key got an unused counter.
    Fresh(usize),
    /// It took over another key's.
    TakenOver(usize),
}

impl<K: Copy + Eq + Hash, X: Default> SpaceSaving<K, X> {
    /// With `limit` counters, at least one. All memory is taken here.
    pub(super) fn new(limit: usize) -> Self {
        let limit = limit.max(1);
        // Room for twice as many keys: a map at most half full reclaims the places of removed keys
        // without an allocation.
        let found = HashMap::with_capacity_and_hasher(2 * limit + 2, HashedBy::new());
        Self {
            counters: Vec::with_capacity(limit),
            heap: Vec::with_capacity(limit),
            places: Vec::with_capacity(limit),
            found,
            limit,
        }
    }

    /// The counter of `key`, its own from now on.
    pub(super) fn counter(&mut self, key: K) -> CounterLookup {
        if let Some(&at) = self.found.get(&key) {
            return CounterLookup::Own(at as usize);
        }
        if self.counters.len() < self.limit {
            let at = self.counters.len();
            self.counters.push(Counter { key, count: 0, error: 0, extra: X::default() });
            self.heap.push(at as u32);
            self.places.push(at as u32);
            self.found.insert(key, at as u32);
            self.rise(at);
            return CounterLookup::Fresh(at);
        }
        let at = self.heap[0] as usize;
        let counter = &mut self.counters[at];
        self.found.remove(&counter.key);
        self.found.insert(key, at as u32);
        (counter.key, counter.error) = (key, counter.count);
        CounterLookup::TakenOver(at)
    }

    /// The remaining knowledge of a counter.
    pub(super) fn extra_mut(&mut self, at: usize) -> &mut X {
        &mut self.counters[at].extra
    }

    /// Adds to a counter.
    pub(super) fn add(&mut self, at: usize, weight: u64) {
        let count = self.counters[at].count;
        self.raise(at, count.saturating_add(weight));
    }

    /// Sets a counter to `count`, if that is more.
    pub(super) fn raise(&mut self, at: usize, count: u64) {
        if count > self.counters[at].count {
            self.counters[at].count = count;
            self.sink(self.places[at] as usize);
        }
    }

    /// The `rows` largest, the largest first.
    pub(super) fn top(&self, rows: usize) -> Vec<&Counter<K, X>> {
        let mut all: Vec<(usize, &Counter<K, X>)> = self.counters.iter().enumerate().collect();
        all.sort_by_key(|(at, counter)| (std::cmp::Reverse(counter.count), *at));
        all.into_iter().take(rows).map(|(_, counter)| counter).collect()
    }

    fn rank(&self, place: usize) -> (u64, u32) {
        let at = self.heap[place];
        (self.counters[at as usize].count, at)
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.places[self.heap[a] as usize] = a as u32;
        self.places[self.heap[b] as usize] = b as u32;
    }

    /// Moves what is in a place of the heap towards its end, as far as it belongs.
    fn sink(&mut self, mut place: usize) {
        loop {
            let children = [2 * place + 1, 2 * place + 2];
            let in_heap = children.into_iter().filter(|&child| child < self.heap.len());
            let Some(least) = in_heap.min_by_key(|&child| self.rank(child)) else { return };
            if self.rank(least) > self.rank(place) {
                return;
            }
            self.swap(place, least);
            place = least;
        }
    }

    /// The same towards its start.
    fn rise(&mut self, mut place: usize) {
        while place > 0 && self.rank((place - 1) / 2) > self.rank(place) {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
    }
}

/// Another hash for every map: no count depends on it.
struct HashedBy(u64);

impl HashedBy {
    fn new() -> Self {
        Self(RandomState::new().hash_one(0_u8))
    }
}

impl BuildHasher for HashedBy {
    type Hasher = KeyHasher;

    fn build_hasher(&self) -> KeyHasher {
        KeyHasher { sum: self.0, key: self.0.rotate_left(32) ^ 0x9e37_79b9_7f4a_7c15 }
    }
}

/// Hashes keys that are a few integers.
struct KeyHasher {
    sum: u64,
    key: u64,
}

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u64(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        self.sum = mix(self.sum ^ value ^ 0x2545_f491_4f6c_dd1d, self.key);
    }

    fn write_u128(&mut self, value: u128) {
        self.write_u64(value as u64);
        self.write_u64((value >> 64) as u64);
    }

    fn finish(&self) -> u64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn check(stream: &[(u64, u64)], limit: usize) {
        let (mut exact, mut sketch) = (BTreeMap::new(), SpaceSaving::<u64, ()>::new(limit));
        for &(key, weight) in stream {
            *exact.entry(key).or_insert(0) += weight;
            let (CounterLookup::Own(at) | CounterLookup::Fresh(at) | CounterLookup::TakenOver(at)) =
                sketch.counter(key);
            sketch.add(at, weight);
        }
        let total: u64 = exact.values().sum();
        let top = sketch.top(usize::MAX);
        assert!(top.len() <= limit && top.is_sorted_by(|a, b| a.count >= b.count));
        for counter in &top {
            let own = exact[&counter.key];
            assert!(own <= counter.count && counter.count - own <= counter.error);
            assert!(counter.error <= total / limit as u64);
        }
        assert_eq!(top.iter().map(|counter| counter.count).sum::<u64>(), total);
        for (key, own) in exact {
            let listed = top.iter().any(|counter| counter.key == key);
            assert!(listed || own <= total / limit as u64, "{key} of {own} is missing");
        }
    }

    proptest! {
        #[test]
        fn bounds_hold(
            stream in proptest::collection::vec((0..40u64, 0..9u64), 1..400),
            limit in 1..20usize,
        ) {
            check(&stream, limit);
        }
    }

    #[test]
    fn bounds_hold_on_zipf() {
        let mut seed = 1u64;
        let stream: Vec<(u64, u64)> = (0..60_000)
            .map(|_| {
                seed = mix(seed ^ 0x1234_5678_9abc_def0, 0x9e37_79b9_7f4a_7c15) | 1;
                let uniform = (seed >> 11) as f64 / (1u64 << 53) as f64;
                // Ranks of a Zipf law with exponent 1: uniform in the logarithm.
                ((100_000f64.powf(uniform)) as u64, 40 + seed % 1460)
            })
            .collect();
        for limit in [16, 100, 1024] {
            check(&stream, limit);
        }
    }
}
