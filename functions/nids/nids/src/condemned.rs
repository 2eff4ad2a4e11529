//! Datagrams that were dropped after reassembly: [`Condemned`].
//!
//! Their other fragments had already been forwarded, so the last one alone, sent again, would
//! complete the datagram at its receiver. So all later fragments of it are dropped for the
//! reassembly timeout. The number of such datagrams is bounded: the oldest makes room.

use warpline_packet::wire::{Ipv4, Ipv6};
use warpline_packet::{Headers, Instant};

use super::inspector::Verdict;
use warpline_streams::reassembly::TIMEOUT_LISTENING;
use warpline_tables::index::Index;
use warpline_tables::keyed::HashKey;

/// See the module.
pub(super) struct Condemned {
    entries: Vec<Condemnation>,
    capacity: usize,
    /// Where the oldest is, once all places are in use.
    oldest: usize,
    index: Index,
    hash_key: HashKey,
}

/// The fields that all fragments of a datagram share.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    version: u8,
    /// Of IPv4 (RFC 791, 3.2); 0 with IPv6 (RFC 8200, 4.5).
    protocol: u8,
    ident: u32,
    src: u128,
    dst: u128,
    /// See [`Headers::vlan_ids`]; 0 where it doesn't matter.
    vlans: u64,
}

struct Condemnation {
    key: Key,
    verdict: Verdict,
    until: Instant,
}

impl Condemned {
    /// With room for `capacity` datagrams, at least one.
    pub(super) fn new(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        Self {
            entries: Vec::with_capacity(capacity),
            capacity,
            oldest: 0,
            index: Index::new(capacity),
            hash_key: HashKey::random(),
        }
    }

    /// Whether none was dropped so far.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The verdict on a fragment's datagram, if that was dropped.
    pub(super) fn verdict(&self, key: &Key, now: Instant) -> Option<Verdict> {
        let entry = self.entries.get(self.place(key)?)?;
        (now < entry.until).then_some(entry.verdict)
    }

    /// A datagram was dropped.
    pub(super) fn add(&mut self, key: Key, verdict: Verdict, now: Instant) {
        let entry = Condemnation { key, verdict, until: now.after(TIMEOUT_LISTENING) };
        if let Some(place) = self.place(&key) {
            self.entries[place] = entry;
            return;
        }
        let place = if self.entries.len() < self.capacity {
            self.entries.push(entry);
            self.entries.len() - 1
        } else {
            let place = self.oldest;
            self.oldest = (place + 1) % self.capacity;
            let old = core::mem::replace(&mut self.entries[place], entry);
            self.index.remove(old.key.hash(self.hash_key), place as u32);
            place
        };
        self.index.insert(key.hash(self.hash_key), place as u32);
    }

    fn place(&self, key: &Key) -> Option<usize> {
        let is = |place: u32| self.entries[place as usize].key == *key;
        self.index.find(key.hash(self.hash_key), is).map(|place| place as usize)
    }
}

impl Key {
    /// Of a fragment, in its VLAN where that matters; `None` where its headers lie.
    pub(super) fn of(frame: &[u8], headers: &Headers, by_vlan: bool) -> Option<Self> {
        let vlans = if by_vlan { headers.vlan_ids(frame) } else { 0 };
        let packet = frame.get(usize::from(headers.l3)..headers.end as usize)?;
        if headers.version == 4 {
            let ip = Ipv4::new_checked(packet).ok()?;
            let [src, dst] = [ip.src_addr(), ip.dst_addr()].map(|ip| u128::from(ip.to_bits()));
            let (protocol, ident) = (ip.protocol(), ip.ident().into());
            return Some(Self { version: 4, protocol, ident, src, dst, vlans });
        }
        let ip = Ipv6::new_checked(packet).ok()?;
        let ident = ip.extensions().ok()?.fragment?.ident;
        let [src, dst] = [ip.src_addr(), ip.dst_addr()].map(|ip| ip.to_bits());
        Some(Self { version: 6, protocol: 0, ident, src, dst, vlans })
    }

    fn hash(&self, key: HashKey) -> u32 {
        let kind = u64::from(self.version) << 8 | u64::from(self.protocol);
        key.of([self.src, self.dst], u64::from(self.ident) << 32 ^ self.vlans << 16 ^ kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_makes_room() {
        let key = |ident| Key { version: 4, protocol: 17, ident, src: 1, dst: 2, vlans: 0 };
        let mut condemned = Condemned::new(3);
        let now = Instant::from_secs(1);
        for ident in [1, 2, 3, 2, 4] {
            condemned.add(key(ident), Verdict::ByRule, now);
        }
        let kept: Vec<u32> =
            (0..9).filter(|&ident| condemned.verdict(&key(ident), now).is_some()).collect();
        assert_eq!(kept, [2, 3, 4]);
        let later = now.after(TIMEOUT_LISTENING);
        assert_eq!(condemned.verdict(&key(4), later), None);
        condemned.add(key(4), Verdict::ByFlow, later);
        assert_eq!(condemned.verdict(&key(4), later), Some(Verdict::ByFlow));
    }
}
