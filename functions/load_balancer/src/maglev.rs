//! Maglev hashing (Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load Balancer",
//! NSDI 2016, section 3.4): a table of prime size in which every backend has its share of the
//! places, nearly the same places whichever other backends there are.
//!
//! Each backend has an order of its own of all places, a permutation made of an offset and a skip.
//! They take turns; whose turn it is gets the first place of its order that is free. With weights,
//! a backend takes part in as many rounds as its weight asks, compared to the largest; where all
//! weigh the same this is the paper's algorithm.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use super::hash::{mix, scale};

/// A backend as the table sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turns {
    /// Determines its order. A backend always has the same name.
    pub(super) name: u64,
    /// How many places it gets compared to the others; 0 for none.
    pub(super) weight: u16,
}

impl Turns {
    /// The first place of its order, and the step to the next (the paper's `offset` and `skip`).
    fn order(self, size: usize) -> (usize, usize) {
        let offset = scale(mix(self.name, 1), size);
        let skip = scale(mix(self.name, 2), size - 1) + 1;
        (offset, skip)
    }
}

/// An unassigned place.
const FREE: u16 = u16::MAX;
/// Backends that a table can tell apart.
pub(super) const BACKENDS_MAX: usize = FREE as usize;

/// Finds a backend for a hash.
#[derive(Debug)]
pub(super) struct Maglev {
    /// The backend of each place, by its number; empty if no backend has any weight.
    places: Vec<u16>,
}

impl Maglev {
    /// A table of `size` places, a prime, for fewer than [`BACKENDS_MAX`] backends.
    pub(super) fn new(size: usize, backends: &[Turns]) -> Self {
        let most = backends.iter().map(|backend| backend.weight).max().unwrap_or(0);
        if most == 0 {
            return Self { places: Vec::new() };
        }
        let mut places = vec![FREE; size];
        let mut cursors: Vec<Cursor> =
            (0..).zip(backends).map(|(n, &own)| Cursor::new(n, own, size)).collect();
        cursors.retain(|cursor| cursor.weight > 0);
        let turn = |at: usize, cursor: &Cursor| Reverse((cursor.round(most.into()), at));
        let mut turns: BinaryHeap<_> =
            cursors.iter().enumerate().map(|(at, cursor)| turn(at, cursor)).collect();
        for _ in 0..size {
            let Some(mut next) = turns.peek_mut() else { break };
            let Reverse((_, at)) = *next;
            cursors[at].take(&mut places);
            *next = turn(at, &cursors[at]);
        }
        Self { places }
    }

    /// The number of the backend for a hash of a flow; `None` where there is none.
    #[inline]
    pub(super) fn find(&self, hash: u64) -> Option<usize> {
        self.places.get(scale(hash, self.places.len())).map(|&number| usize::from(number))
    }

    #[cfg(test)]
    pub(super) fn places(&self) -> &[u16] {
        &self.places
    }
}

/// How far a backend is in its order.
struct Cursor {
    number: u16,
    weight: u64,
    /// Places that it has.
    taken: u64,
    place: usize,
    skip: usize,
}

impl Cursor {
    fn new(number: u16, backend: Turns, size: usize) -> Self {
        let (place, skip) = backend.order(size);
        Self { number, weight: backend.weight.into(), taken: 0, place, skip }
    }

    /// The round of its next turn. After round n it has had n * weight / `most` turns, rounded
    /// down.
    fn round(&self, most: u64) -> u64 {
        ((self.taken + 1) * most).div_ceil(self.weight)
    }

    /// Takes the first free place of its order. There must be one.
    fn take(&mut self, places: &mut [u16]) {
        while places[self.place] != FREE {
            self.place = (self.place + self.skip) % places.len();
        }
        places[self.place] = self.number;
        self.taken += 1;
    }
}

/// Whether `number` has no divisor but 1 and itself.
pub(super) fn is_prime(number: u64) -> bool {
    let mut divisors = (2..).take_while(|divisor| divisor * divisor <= number);
    number >= 2 && divisors.all(|divisor| !number.is_multiple_of(divisor))
}

/// The least prime that is not below `number`.
pub(super) fn next_prime(number: u64) -> u64 {
    (number..).find(|&candidate| is_prime(candidate)).unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::collections::BTreeSet;

    use super::super::connections::{Client, Connections, PROGRESS_KINDS};
    use super::*;
    use warpline_rewrite::Endpoint;

    fn backends(weights: &[u16]) -> Vec<Turns> {
        (0..).zip(weights).map(|(n, &weight)| Turns { name: mix(n, 77), weight }).collect()
    }

    /// The paper's pseudo-code 1 on a permutation written out, with the rounds of a weight counted
    /// from the start each time.
    fn slow(size: usize, backends: &[Turns]) -> Vec<u16> {
        let orders: Vec<Vec<usize>> = backends
            .iter()
            .map(|backend| {
                let (offset, skip) = backend.order(size);
                (0..size).map(|j| (offset + j * skip) % size).collect()
            })
            .collect();
        let most = backends.iter().map(|b| u64::from(b.weight)).max().unwrap();
        let mut entry = vec![-1_i64; size];
        let mut next = vec![0; backends.len()];
        let mut n = 0;
        for round in 1_u64.. {
            for i in 0..backends.len() {
                let due = |round: u64| round * u64::from(backends[i].weight) / most;
                if due(round) == due(round - 1) {
                    continue;
                }
                let mut c = orders[i][next[i]];
                while entry[c] >= 0 {
                    next[i] += 1;
                    c = orders[i][next[i]];
                }
                entry[c] = i as i64;
                next[i] += 1;
                n += 1;
                if n == size {
                    return entry.into_iter().map(|e| e as u16).collect();
                }
            }
        }
        unreachable!()
    }

    fn counts(table: &[u16], backends: usize) -> Vec<usize> {
        let mut counts = vec![0; backends];
        table.iter().for_each(|&n| counts[usize::from(n)] += 1);
        counts
    }

    #[test]
    fn equals_the_pseudo_code_of_the_paper() {
        for size in [2, 3, 7, 13, 251, 1009] {
            for weights in [&[1][..], &[5, 5], &[1, 2, 3], &[0, 9, 1, 4], &[65_535, 1], &[3; 7]] {
                let backends = backends(weights);
                let table = Maglev::new(size, &backends);
                assert_eq!(table.places(), slow(size, &backends), "{size} {weights:?}");
            }
        }
    }

    #[test]
    fn every_order_goes_over_every_place() {
        for backend in backends(&[1; 50]) {
            let (offset, skip) = backend.order(251);
            let mut seen = [false; 251];
            (0..251).for_each(|j| seen[(offset + j * skip) % 251] = true);
            assert!(seen.iter().all(|&seen| seen) && offset < 251 && (1..251).contains(&skip));
        }
    }

    /// Section 3.4: "Maglev hashing's load imbalance is bounded": a table a hundred times the
    /// number of backends has no share more than 1 % above the mean.
    #[test]
    fn shares_are_balanced() {
        for (size, count) in [(251, 2), (65_537, 100), (65_537, 655), (655_373, 1000)] {
            let table = Maglev::new(size, &backends(&vec![10; count]));
            let counts = counts(table.places(), count);
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            let mean = size as f64 / count as f64;
            assert!(*most as f64 / mean <= 1.01 && most - least <= 1, "{least} to {most}");
        }
    }

    #[test]
    fn weights_are_shares() {
        let weights = [1, 2, 3, 10, 100, 7, 0];
        let table = Maglev::new(65_537, &backends(&weights));
        let counts = counts(table.places(), weights.len());
        for (count, weight) in counts.iter().zip(weights) {
            let due = 65_537.0 * f64::from(weight) / 123.0;
            assert!((*count as f64 - due).abs() <= due * 0.01 + 2.0, "{count} for {weight}");
        }
    }

    /// Rounds in which hardly a backend has a turn cost nothing.
    #[test]
    fn a_heavy_backend_among_many_light_ones() {
        let mut weights = vec![1; 20_000];
        weights[7] = 65_535;
        let table = Maglev::new(1_000_003, &backends(&weights));
        let counts = counts(table.places(), weights.len());
        // In 85,534 turns the heavy one has 65,535, the first before the others.
        let whole = 1_000_003 / 85_534;
        assert_eq!(counts[7], whole * 65_535 + 1_000_003 % 85_534);
    }

    /// Section 5.3 finds that few entries change besides those of the backend that goes.
    #[test]
    fn one_that_goes_disturbs_few_others() {
        for count in [5_usize, 50, 500] {
            let all = backends(&vec![1; count]);
            let before = Maglev::new(65_537, &all);
            for gone in [0, count / 2, count - 1] {
                let mut left = all.clone();
                left[gone].weight = 0;
                let after = Maglev::new(65_537, &left);
                let pairs = before.places().iter().zip(after.places());
                let others = pairs.filter(|&(&a, _)| usize::from(a) != gone);
                let moved = others.filter(|(a, b)| a != b).count() as f64 / 65_537.0;
                assert!(moved < 0.03, "{moved} of {count}");
                assert!(after.places().iter().all(|&n| usize::from(n) != gone));
            }
        }
    }

    /// Clients that differ in few bits, by the hash that flows are found by.
    #[test]
    fn neighbouring_clients_are_spread() {
        let table = Maglev::new(65_537, &backends(&[1; 16]));
        for version in [4, 6] {
            let base = if version == 4 { 0x0a00_0000 } else { 0x2001_0db8_u128 << 96 };
            let mut counts = [0_u32; 16];
            for n in 0..1_000_000 {
                let at = Endpoint { address: base + n % 1000, port: 1024 + (n / 1000) as u16 };
                let found = table.find(Client::new(version, at).hash(mix(5, 6)));
                counts[found.unwrap()] += 1;
            }
            let most = *counts.iter().max().unwrap();
            assert!(f64::from(most) / 62_500.0 <= 1.02, "{counts:?}");
        }
    }

    /// Half of this address is the constant of [`mix`]: it once hid the port.
    #[test]
    fn no_client_hides_its_port() {
        let address = 0x2001_0db8_u128 << 96 | 0x9e37_79b9_7f4a_7c15;
        let clients = (0..10_000).map(|port| Client::new(6, Endpoint { address, port }));
        let clients: Vec<Client> = clients.collect();
        let connections = Connections::new(16, 0, true, [Duration::ZERO; PROGRESS_KINDS]);
        let keys: BTreeSet<u32> = clients.iter().map(|one| connections.key(one, 7)).collect();
        assert!(keys.len() > 9_990, "{}", keys.len());
        let table = Maglev::new(65_537, &backends(&[1; 16]));
        let mut counts = [0_u32; 16];
        clients.iter().for_each(|one| counts[table.find(one.hash(mix(5, 6))).unwrap()] += 1);
        // 625 on average; 100 are four standard deviations.
        assert!(counts.iter().all(|count| (525..725).contains(count)), "{counts:?}");
    }

    #[test]
    fn primes_are_found() {
        let primes: Vec<u64> = (0..30).filter(|&n| is_prime(n)).collect();
        assert_eq!(primes, [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]);
        assert_eq!((next_prime(65_536), next_prime(65_537), next_prime(0)), (65_537, 65_537, 2));
    }

    #[test]
    fn nobody_to_find() {
        for weights in [&[][..], &[0], &[0, 0]] {
            assert_eq!(Maglev::new(13, &backends(weights)).find(u64::MAX), None);
        }
        let one = Maglev::new(13, &backends(&[0, 4]));
        assert!([0, 1 << 40, u64::MAX].iter().all(|&hash| one.find(hash) == Some(1)));
    }
}
