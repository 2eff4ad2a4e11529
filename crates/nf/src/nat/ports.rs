//! A shard's outside ports: a bitmap for each protocol and outside address.

use core::ops::Range;

use warpline_packet::{SHARDS, Shard};

use super::addresses::PortRange;
use super::index::scale;

/// Which ports of the shard's block are taken.
pub(super) struct Ports {
    first: u16,
    count: usize,
    words: usize,
    addresses: usize,
    bits: Vec<u64>,
    used: Vec<u16>,
}

impl Ports {
    /// The ports that `shard` has of each of `addresses` addresses, for `protocols` protocols: its
    /// block, or all 64 blocks where there is one shard.
    pub(super) fn new(range: PortRange, shard: Shard, protocols: usize, addresses: usize) -> Self {
        let block = usize::from(range.per_shard());
        let count = block * (SHARDS / shard.of());
        let first = range.first() + (shard.index() * block) as u16;
        let words = count.div_ceil(64);
        let mut bits = vec![0; words * protocols * addresses];
        if !count.is_multiple_of(64) {
            // What the last word has too many is taken for good.
            bits.chunks_mut(words).for_each(|block| block[words - 1] = u64::MAX << (count % 64));
        }
        let used = vec![0; protocols * addresses];
        Self { first, count, words, addresses, bits, used }
    }

    /// Takes a free port: the first from a place that `hash` names on, of the home address or of
    /// those behind it in `among`; one as even or odd as `like`, where it is given, before others.
    pub(super) fn take(
        &mut self,
        protocol: usize,
        home: usize,
        among: Range<usize>,
        hash: u32,
        like: Option<u16>,
    ) -> Option<(u16, u16)> {
        let start = scale(hash, self.count);
        for address in (home..among.end).chain(among.start..home) {
            let set = protocol * self.addresses + address;
            if usize::from(self.used[set]) == self.count {
                continue;
            }
            let alike = like.and_then(|like| self.search(set, start, self.parity_mask(like)));
            let Some(bit) = alike.or_else(|| self.search(set, start, u64::MAX)) else { continue };
            self.used[set] += 1;
            self.bits[set * self.words + bit / 64] |= 1 << (bit % 64);
            return Some((address as u16, self.first + bit as u16));
        }
        None
    }

    /// Gives back a port that was taken.
    pub(super) fn release(&mut self, protocol: usize, address: u16, port: u16) {
        let set = protocol * self.addresses + usize::from(address);
        let bit = usize::from(port - self.first);
        self.used[set] -= 1;
        self.bits[set * self.words + bit / 64] &= !(1 << (bit % 64));
    }

    /// The bits of a word whose ports are as even or odd as `like`.
    fn parity_mask(&self, like: u16) -> u64 {
        const EVEN_BITS: u64 = 0x5555_5555_5555_5555;
        EVEN_BITS << ((like ^ self.first) & 1)
    }

    fn search(&self, set: usize, start: usize, mask: u64) -> Option<usize> {
        let words = &self.bits[set * self.words..][..self.words];
        let (first, skipped) = (start / 64, u64::MAX << (start % 64));
        let free = |word: usize, mask: u64| {
            let free = !words[word] & mask;
            (free != 0).then(|| word * 64 + free.trailing_zeros() as usize)
        };
        free(first, mask & skipped)
            .or_else(|| (first + 1..self.words).find_map(|word| free(word, mask)))
            .or_else(|| (0..first).find_map(|word| free(word, mask)))
            .or_else(|| free(first, mask & !skipped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// 100 ports a shard, so that a word is cut.
    const RANGE: &str = "1001-7400";

    #[test]
    fn every_port_is_handed_out_once() {
        let mut ports = Ports::new(RANGE.parse().unwrap(), Shard::new(3), 3, 2);
        let mut seen = HashSet::new();
        for i in 0..200u32 {
            let hash = i.wrapping_mul(0x9e37_79b1);
            let (address, port) = ports.take(1, 1, 0..2, hash, Some(i as u16)).unwrap();
            assert!((1301..1401).contains(&port), "{port}");
            assert_eq!(address, if i < 100 { 1 } else { 0 }, "the home address first");
            assert!(seen.insert((address, port)));
        }
        assert_eq!(ports.take(1, 1, 0..2, 0, None), None);
        assert!(ports.take(2, 1, 0..2, 0, None).is_some(), "protocols are apart");
        ports.release(1, 0, 1350);
        assert_eq!(ports.take(1, 1, 0..2, u32::MAX, Some(1)), Some((0, 1350)), "any parity");
    }

    #[test]
    fn parity_is_kept_while_it_can_be() {
        let mut ports = Ports::new(RANGE.parse().unwrap(), Shard::new(0), 1, 1);
        for i in 0..50 {
            let (_, port) = ports.take(0, 0, 0..1, i << 26, Some(7)).unwrap();
            assert_eq!(port % 2, 1);
        }
        assert_eq!(ports.take(0, 0, 0..1, 0, Some(7)).unwrap().1 % 2, 0);
    }

    #[test]
    fn one_shard_has_all_blocks() {
        let mut ports = Ports::new(RANGE.parse().unwrap(), Shard::WHOLE, 1, 1);
        let mut take = || ports.take(0, 0, 0..1, 1 << 31, None);
        let all: HashSet<_> = std::iter::from_fn(&mut take).collect();
        assert_eq!(all.len(), 6400);
    }
}
