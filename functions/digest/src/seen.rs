//! The payloads seen: a set-associative table in fixed memory, and the payloads that came
//! most often.
//!
//! A payload is known by its digest and length. A set has eight places; where all are taken, the
//! payload that was seen longest ago makes room. Nothing depends on time, threads or chance.

use core::cmp::Reverse;

use super::md5::Digest;

/// Payloads that a report names.
pub const TOP: usize = 10;

const WAYS: usize = 8;

/// A payload, by its digest and length in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Payload {
    /// Its MD5 digest.
    pub digest: Digest,
    /// Its length in bytes.
    pub len: u32,
}

/// A payload and how often it was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repeated {
    /// The payload.
    pub payload: Payload,
    /// How often it was seen, up to 2^32 - 1; 0 in an empty place.
    pub count: u32,
}

impl Repeated {
    /// The order of a report: most often first, then the longest, then by digest.
    fn rank(&self) -> (Reverse<u32>, Reverse<u32>, Digest) {
        (Reverse(self.count), Reverse(self.payload.len), self.payload.digest)
    }
}

#[derive(Clone, Copy, Default)]
struct SeenPayload {
    repeated: Repeated,
    /// When it was seen last, in payloads.
    seen: u64,
}

// As the manual says.
const _: () = assert!(size_of::<SeenPayload>() == 32);

/// The payloads seen so far, as many as there is room for.
pub struct SeenPayloads {
    sets: Box<[[SeenPayload; WAYS]]>,
    payloads: u64,
    /// Payloads that were seen before.
    pub duplicates: u64,
    /// Their bytes.
    pub duplicate_bytes: u64,
    /// Payloads that were new, or forgotten since.
    pub unique: u64,
    /// Payloads that made room for others.
    pub evicted: u64,
    top: Top,
}

impl SeenPayloads {
    /// Room for `entries` payloads, rounded up to sets of eight; 32 bytes each.
    pub fn new(entries: usize) -> Self {
        Self {
            sets: vec![[SeenPayload::default(); WAYS]; entries.div_ceil(WAYS).max(1)]
                .into_boxed_slice(),
            payloads: 0,
            duplicates: 0,
            duplicate_bytes: 0,
            unique: 0,
            evicted: 0,
            top: Top::default(),
        }
    }

    /// Counts a payload. Returns whether it was seen before.
    pub fn see(&mut self, payload: Payload) -> bool {
        self.payloads += 1;
        let index = (u64::from(payload.digest[0]) * self.sets.len() as u64) >> 32;
        let Some(set) = self.sets.get_mut(index as usize) else { return false };
        if let Some(place) = set.iter_mut().find(|place| place.holds(payload)) {
            place.repeated.count = place.repeated.count.saturating_add(1);
            place.seen = self.payloads;
            self.duplicates += 1;
            self.duplicate_bytes += u64::from(payload.len);
            return true;
        }
        self.unique += 1;
        // An empty place counts as unused for longest.
        let Some(place) = set.iter_mut().min_by_key(|place| place.seen) else { return false };
        if place.repeated.count > 0 {
            self.evicted += 1;
            self.top.offer(place.repeated);
        }
        *place = SeenPayload { repeated: Repeated { payload, count: 1 }, seen: self.payloads };
        false
    }

    /// The payloads that came most often, at most [`TOP`], most first. Of one that was forgotten in
    /// between what it was seen before counts only as far as it was among the first even then.
    pub fn top(&self) -> Top {
        let mut top = self.top.clone();
        self.sets.as_flattened().iter().for_each(|place| top.offer(place.repeated));
        top
    }

    /// Its counters, by name.
    pub fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        visit("duplicates", self.duplicates);
        visit("duplicate-bytes", self.duplicate_bytes);
        visit("unique", self.unique);
        visit("evicted", self.evicted);
    }
}

impl SeenPayload {
    fn holds(&self, payload: Payload) -> bool {
        self.repeated.payload == payload && self.repeated.count > 0
    }
}

/// Payloads seen more than once, at most [`TOP`], most often first.
#[derive(Clone, Debug, Default)]
pub struct Top {
    rows: [Repeated; TOP],
    len: usize,
}

impl Top {
    /// Those that it holds.
    pub fn rows(&self) -> &[Repeated] {
        &self.rows[..self.len]
    }

    /// Takes one that was seen more than once, or what was seen of one that it has, if it is among
    /// the first.
    pub fn offer(&mut self, repeated: Repeated) {
        let own = self.rows[..self.len].iter_mut().find(|row| row.payload == repeated.payload);
        if let Some(own) = own {
            own.count = own.count.saturating_add(repeated.count);
        } else if repeated.count < 2 {
            return;
        } else if self.len < TOP {
            self.rows[self.len] = repeated;
            self.len += 1;
        } else if repeated.rank() < self.rows[TOP - 1].rank() {
            self.rows[TOP - 1] = repeated;
        } else {
            return;
        }
        self.rows[..self.len].sort_unstable_by_key(Repeated::rank);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(number: u32) -> Payload {
        Payload { digest: [warpline_packet::hash::mix32(number), number, 0, 0], len: 100 }
    }

    #[test]
    fn all_in_one_set_the_one_seen_longest_ago_goes() {
        let mut seen = SeenPayloads::new(1);
        assert!((0..8).all(|number| !seen.see(payload(number))));
        assert!(seen.see(payload(0)));
        assert!(!seen.see(payload(8)), "takes the place of 1");
        assert!(seen.see(payload(0)) && !seen.see(payload(1)), "takes the place of 2");
        assert!((3..9).all(|number| seen.see(payload(number))));
        assert_eq!((seen.unique, seen.duplicates, seen.evicted), (10, 8, 2));
        assert_eq!(seen.duplicate_bytes, 800);
    }

    #[test]
    fn lengths_tell_payloads_apart() {
        let mut seen = SeenPayloads::new(64);
        assert!(!seen.see(Payload { digest: [0; 4], len: 0 }), "an empty place is no payload");
        assert!(!seen.see(Payload { digest: [0; 4], len: 7 }));
        assert!(seen.see(Payload { digest: [0; 4], len: 7 }));
    }

    #[test]
    fn single_copies_of_a_listed_payload_count() {
        let mut seen = SeenPayloads::new(8);
        let repeated = payload(0);
        assert!(!seen.see(repeated) && seen.see(repeated));
        for round in 0..50 {
            (1..=8).for_each(|number| assert!(!seen.see(payload(round * 8 + number))));
            assert!(!seen.see(repeated), "it made room");
        }
        assert_eq!(seen.top().rows(), [Repeated { payload: repeated, count: 52 }]);
    }

    #[test]
    fn the_most_repeated_survive_their_eviction() {
        let mut seen = SeenPayloads::new(8);
        for number in 0..50 {
            for _ in 0..=number {
                seen.see(payload(number));
            }
        }
        // Seen again when it was forgotten: both stays count.
        for _ in 0..3 {
            seen.see(payload(40));
        }
        let top = seen.top();
        let rows: Vec<(u32, u32)> =
            top.rows().iter().map(|r| (r.payload.digest[1], r.count)).collect();
        let most = [(49, 50), (48, 49), (47, 48), (46, 47), (45, 46), (44, 45), (40, 44), (43, 44)];
        assert_eq!(rows.len(), TOP);
        let sorted = |rows: &[(u32, u32)]| {
            let mut rows = rows.to_vec();
            rows.sort_unstable();
            rows
        };
        assert_eq!(sorted(&rows[..8]), sorted(&most));
    }
}
