//! A shard's outside ports: those that it has of each outside address, for each protocol.
//!
//! An address and protocol has a [`Set`] while a port of it is taken. So memory is bounded by the
//! bindings, however many addresses there are. Where one shard has all ports, a set has a bitmap
//! for each block of them.

use warpline_packet::{SHARDS, Shard, prefetch};

use super::binding::Outside;
use super::port_bitmaps::{NO_BITMAP, PortBitmaps};
use warpline_rewrite::addresses::{Pool, PortRange};
use warpline_rewrite::{Endpoint, Protocol};
use warpline_tables::index::{Index, scale};
use warpline_tables::keyed::HashKey;
use warpline_tables::list::{Links, List, NONE};

/// Addresses after a full one that are tried in turn. After these, any address with ports in use
/// and ports left will do: no flood makes a search long.
pub(super) const TRIED_IN_TURN: u128 = 64;

/// Addresses, and ports of the home address and of each other one, that a shared binding tries.
const SHARED_ADDRESSES: u128 = 16;
const SHARED_TRIES_HOME: usize = 256;
const SHARED_TRIES: usize = 16;

/// The port that a binding asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) version: u8,
    pub(super) protocol: Protocol,
    /// The number of the address that it should be of.
    pub(super) home: u64,
    /// Names the port from which the search begins.
    pub(super) hash: u32,
    /// A port as even or odd as the one that it should be.
    pub(super) like: Option<u16>,
}

impl Wanted {
    fn group(&self) -> usize {
        group(self.version, self.protocol)
    }
}

/// Addresses of one version for one protocol have ports of their own.
const GROUPS: usize = 2 * WITH_PORTS;

/// Protocols with ports to assign.
const WITH_PORTS: usize = 3;

fn group(version: u8, protocol: Protocol) -> usize {
    2 * protocol as usize + usize::from(version == 6)
}

/// An address and protocol with taken ports.
struct Set {
    address: u64,
    /// Ports that are taken: at least one.
    used: u32,
    group: u8,
    /// In the list of sets with free ports.
    links: Links,
}

/// The sets of a group.
#[derive(Clone, Copy)]
struct Group {
    addresses: u128,
    /// Sets without a free port.
    full: u128,
    /// Sets with free ports, from the one that has been so for longest.
    usable: List,
}

/// Which ports of the shard are taken.
pub(super) struct Ports {
    first: u16,
    /// Ports in a block, and blocks in a set.
    block: usize,
    blocks: usize,
    hash_key: HashKey,
    index: Index,
    sets: Vec<Set>,
    free: Vec<u32>,
    /// By set and block.
    bitmap_of: Vec<u32>,
    bitmaps: PortBitmaps,
    groups: [Group; GROUPS],
}

impl Ports {
    /// The ports that `shard` has of each address of `pool`: its block, or all 64 blocks where
    /// there is one shard. No more than `bindings` ports, and one besides, may be taken at once.
    pub(super) fn new(range: PortRange, shard: Shard, pool: &Pool, bindings: usize) -> Self {
        let block = usize::from(range.per_shard());
        let blocks = SHARDS / shard.of();
        let most = |count: u128| count.min(bindings as u128 + 1) as usize;
        let pairs = WITH_PORTS as u128 * (pool.len(4) + pool.len(6));
        let (sets, bitmaps) = (most(pairs), most(pairs * blocks as u128));
        let group = |version| {
            let addresses = pool.len(version);
            Group { addresses, full: 0, usable: List::EMPTY }
        };
        Self {
            first: range.first() + (shard.index() * block) as u16,
            block,
            blocks,
            hash_key: HashKey::random(),
            index: Index::new(sets),
            sets: Vec::with_capacity(sets),
            free: Vec::with_capacity(sets),
            bitmap_of: Vec::with_capacity(sets * blocks),
            bitmaps: PortBitmaps::new(block, bitmaps),
            groups: core::array::from_fn(|at| group(if at % 2 == 0 { 4 } else { 6 })),
        }
    }

    /// Takes a free port: the first from the place that the hash names on, of the home address if
    /// that has one; one as even or odd as asked before others.
    pub(super) fn take(&mut self, wanted: &Wanted) -> Option<Outside> {
        let (address, set) = self.choose(wanted)?;
        let port = self.search(set, wanted)?;
        let set = if set == NONE { self.open(address, wanted.group()) } else { set };
        let (block, bit) = (port / self.block, port % self.block);
        self.bitmaps.take(&mut self.bitmap_of[set as usize * self.blocks + block], bit);
        self.sets[set as usize].used += 1;
        if self.is_full(set) {
            self.unlist(set);
            self.groups[wanted.group()].full += 1;
        }
        let Wanted { version, protocol, .. } = *wanted;
        let (port, remote) = (self.first + port as u16, Endpoint::default());
        Some(Outside { version, protocol, address, port, remote })
    }

    /// Ports that a shared binding may try, of the home address and then of the next ones.
    pub(super) fn candidates(&self, wanted: &Wanted) -> impl Iterator<Item = (u64, u16)> {
        let (addresses, ports) = (self.groups[wanted.group()].addresses, self.block * self.blocks);
        let (start, home) = (scale(wanted.hash, ports), u128::from(wanted.home));
        let wanted = *wanted;
        (0..addresses.min(SHARED_ADDRESSES)).flat_map(move |turn| {
            let address = ((home + turn) % addresses) as u64;
            let tries = ports.min(if turn == 0 { SHARED_TRIES_HOME } else { SHARED_TRIES });
            let port = move |step: usize| self.first + ((start + step) % ports) as u16;
            let is_alike = move |port: u16| wanted.like.is_none_or(|like| (like ^ port) & 1 == 0);
            let alike = (0..2 * tries).map(port).filter(move |&port| is_alike(port)).take(tries);
            let others = (0..2 * tries).map(port).filter(move |&port| !is_alike(port)).take(tries);
            alike.chain(others).map(move |port| (address, port))
        })
    }

    /// The key by which ports of an address are found.
    pub(super) fn sought(&self, version: u8, protocol: Protocol, address: u64) -> u32 {
        self.hash(address, group(version, protocol))
    }

    /// Asks for what such a look-up reads first.
    #[inline]
    pub(super) fn fetch(&self, sought: u32) {
        self.index.fetch(sought);
    }

    /// Asks for what lies there, once that is at hand: probably the set, with its first bitmap.
    #[inline]
    pub(super) fn fetch_next(&self, sought: u32) {
        let set = self.index.glance(sought) as usize;
        if let (Some(set), Some(bitmap)) =
            (self.sets.get(set), self.bitmap_of.get(set * self.blocks))
        {
            prefetch(set);
            self.bitmaps.fetch(*bitmap);
        }
    }

    /// Gives back a port that was taken.
    pub(super) fn release(&mut self, outside: &Outside) {
        let group = group(outside.version, outside.protocol);
        let set = self.find(outside.address, group);
        if set == NONE {
            return;
        }
        if self.is_full(set) {
            self.groups[group].full -= 1;
            self.enlist(set);
        }
        let port = usize::from(outside.port - self.first);
        let (block, bit) = (port / self.block, port % self.block);
        self.bitmaps.release(&mut self.bitmap_of[set as usize * self.blocks + block], bit);
        self.sets[set as usize].used -= 1;
        if self.sets[set as usize].used == 0 {
            self.unlist(set);
            self.index.remove(self.hash(outside.address, group), set);
            self.free.push(set);
        }
    }

    /// An address with a free port, and its set; [`NONE`] where all its ports are free.
    fn choose(&self, wanted: &Wanted) -> Option<(u64, u32)> {
        let group = &self.groups[wanted.group()];
        if group.full == group.addresses {
            return None;
        }
        let after = |n: u128| {
            let place = u128::from(wanted.home) + n;
            let address = if place < group.addresses { place } else { place - group.addresses };
            let set = self.find(address as u64, wanted.group());
            (set == NONE || !self.is_full(set)).then_some((address as u64, set))
        };
        let in_turn = group.addresses.min(TRIED_IN_TURN);
        let oldest = || {
            let oldest = group.usable.oldest();
            Some((self.sets.get(oldest as usize)?.address, oldest))
        };
        let near = (0..in_turn).find_map(after);
        near.or_else(oldest).or_else(|| (in_turn..group.addresses).find_map(after))
    }

    /// A free port of a set, counted from the shard's first one.
    fn search(&self, set: u32, wanted: &Wanted) -> Option<usize> {
        let start = scale(wanted.hash, self.block * self.blocks);
        let alike = wanted.like.and_then(|like| self.search_from(set, start, Some(like)));
        alike.or_else(|| self.search_from(set, start, None))
    }

    fn search_from(&self, set: u32, start: usize, like: Option<u16>) -> Option<usize> {
        let (own, at) = (start / self.block, start % self.block);
        let rest = (own + 1..self.blocks).chain(0..own).map(|block| (block, 0..self.block));
        let mut parts = [(own, at..self.block)].into_iter().chain(rest).chain([(own, 0..at)]);
        parts.find_map(|(block, among)| {
            let bitmap = match set {
                NONE => NO_BITMAP,
                _ => self.bitmap_of[set as usize * self.blocks + block],
            };
            let mask = like.map_or(u64::MAX, |like| self.parity_mask(block, like));
            let found = self.bitmaps.search(bitmap, among, mask)?;
            Some(block * self.block + found)
        })
    }

    /// The bits of a word of a block whose ports are as even or odd as `like`.
    fn parity_mask(&self, block: usize, like: u16) -> u64 {
        const EVEN_BITS: u64 = 0x5555_5555_5555_5555;
        let first = self.first.wrapping_add((block * self.block) as u16);
        EVEN_BITS << ((like ^ first) & 1)
    }

    fn is_full(&self, set: u32) -> bool {
        self.sets[set as usize].used as usize == self.block * self.blocks
    }

    fn hash(&self, address: u64, group: usize) -> u32 {
        self.hash_key.of([address.into(), 0], group as u64)
    }

    /// The set of an address in a group; [`NONE`] where it has none.
    fn find(&self, address: u64, group: usize) -> u32 {
        let is = |set: u32| {
            let set = &self.sets[set as usize];
            (set.address, usize::from(set.group)) == (address, group)
        };
        self.index.find(self.hash(address, group), is).unwrap_or(NONE)
    }

    /// Makes a set. Its caller takes a port of it at once.
    fn open(&mut self, address: u64, group: usize) -> u32 {
        let made = Set { address, used: 0, group: group as u8, links: Links::UNUSED };
        let set = match self.free.pop() {
            Some(set) => set,
            None => {
                self.bitmap_of.resize(self.bitmap_of.len() + self.blocks, NO_BITMAP);
                self.sets.len() as u32
            }
        };
        match self.sets.get_mut(set as usize) {
            Some(old) => *old = made,
            None => self.sets.push(made),
        }
        self.index.insert(self.hash(address, group), set);
        self.enlist(set);
        set
    }

    /// Puts a set at the end of the list of those with free ports.
    fn enlist(&mut self, set: u32) {
        let group = &mut self.groups[usize::from(self.sets[set as usize].group)];
        group.usable.append(&mut self.sets, |set| &mut set.links, set);
    }

    fn unlist(&mut self, set: u32) {
        let group = &mut self.groups[usize::from(self.sets[set as usize].group)];
        group.usable.remove(&mut self.sets, |set| &mut set.links, set);
    }
}

#[cfg(test)]
#[path = "ports_tests.rs"]
mod tests;
