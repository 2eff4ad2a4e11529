//! A shard's bindings: found by inside and by outside endpoint, ended in the order of their time.
//!
//! A binding lies in a slab, in two indexes, in the port bitmap, and in the list of its [`Class`].
//! All bindings of a class have the same idle time, so its list is in order of expiry, and the
//! expired are at its head. [`Bindings::advance`] takes them out before anything else is done at a
//! time: no look-up or allocation ever meets an expired one, whether or not anything swept before.

use std::time::Duration;

use warpline_packet::hash::{fold_v6, mix32};
use warpline_packet::{Instant, Shard, prefetch_all};

use super::Refusal;
use super::addresses::Endpoint;
use super::config::{Config, Dependence};
use super::index::{Index, scale};
use super::ports::Ports;

/// What has ports, or identifiers, of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
    /// Echoes of ICMP and ICMPv6.
    Icmp,
}

impl Protocol {
    const COUNT: usize = 3;
}

/// What a binding's idle time depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Udp,
    Established,
    Transitory,
    Icmp,
}

impl Class {
    pub(super) const COUNT: usize = 4;
}

/// What a binding is found by from inside. The remote is zero as far as the mapping does not
/// depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    inside: u128,
    remote: u128,
    inside_port: u16,
    remote_port: u16,
    protocol: Protocol,
    version: u8,
}

impl Key {
    pub(super) fn new(
        version: u8,
        protocol: Protocol,
        inside: Endpoint,
        remote: Endpoint,
        mapping: Dependence,
    ) -> Self {
        let (remote, remote_port) = match mapping {
            Dependence::EndpointIndependent => (0, 0),
            Dependence::AddressDependent => (remote.address, 0),
            Dependence::AddressAndPortDependent => (remote.address, remote.port),
        };
        let Endpoint { address, port } = inside;
        Self { inside: address, remote, inside_port: port, remote_port, protocol, version }
    }

    /// The inside endpoint.
    pub(super) fn inside(&self) -> Endpoint {
        Endpoint { address: self.inside, port: self.inside_port }
    }

    /// To ask for its binding ahead.
    pub(super) fn sought(&self) -> Sought {
        Sought::Inside(self.hash())
    }

    fn hash(&self) -> u32 {
        let ports = u32::from(self.inside_port) << 16 | u32::from(self.remote_port);
        let kind = (self.protocol as u32) << 8 | u32::from(self.version);
        let remote = if self.remote == 0 { 0 } else { fold_v6(self.remote) };
        mix32(mix32(self.home_hash() ^ ports.wrapping_mul(0x9e37_79b1)) ^ remote ^ kind)
    }

    /// A hash of the inside address alone: hosts keep their outside address by it.
    fn home_hash(&self) -> u32 {
        let folded = match self.version {
            4 => self.inside as u32,
            _ => fold_v6(self.inside),
        };
        mix32(folded ^ 0x5bd1_e995)
    }
}

/// What a binding is looked for by, before it is: the index, and the hash there.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sought {
    Inside(u32),
    Outside(u32),
}

impl Sought {
    /// By an outside endpoint.
    pub(super) fn outside(protocol: Protocol, number: u16, port: u16) -> Self {
        Self::Outside(outside_hash(protocol, number, port))
    }
}

fn outside_hash(protocol: Protocol, number: u16, port: u16) -> u32 {
    mix32((u32::from(number) << 16 | u32::from(port)) ^ (protocol as u32) << 28)
}

/// A binding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Binding {
    pub(super) key: Key,
    expires: u64,
    previous: u32,
    next: u32,
    /// The number of its outside address in the pool.
    pub(super) outside: u16,
    /// Its outside port.
    pub(super) port: u16,
    class: Class,
}

const NONE: u32 = u32::MAX;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

const UNUSED: Binding = Binding {
    key: Key {
        inside: 0,
        remote: 0,
        inside_port: 0,
        remote_port: 0,
        protocol: Protocol::Tcp,
        version: 0,
    },
    expires: 0,
    previous: NONE,
    next: NONE,
    outside: 0,
    port: 0,
    class: Class::Udp,
};

#[derive(Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
}

/// The bindings of a shard.
pub(super) struct Bindings {
    slab: Vec<Binding>,
    free: u32,
    by_inside: Index,
    by_outside: Index,
    ports: Ports,
    lists: [List; Class::COUNT],
    timeouts: [Duration; Class::COUNT],
    now: Instant,
    /// No binding expires before this.
    due: u64,
    len: usize,
    pub(super) peak: u64,
    pub(super) created: u64,
    pub(super) expired: u64,
}

impl Bindings {
    pub(super) fn new(config: &Config, shard: Shard) -> Self {
        let capacity = shard.share(config.bindings);
        let mut slab = vec![UNUSED; capacity];
        for (number, binding) in slab.iter_mut().enumerate() {
            binding.next = if number + 1 < capacity { number as u32 + 1 } else { NONE };
        }
        Self {
            slab,
            free: if capacity > 0 { 0 } else { NONE },
            by_inside: Index::new(capacity),
            by_outside: Index::new(capacity),
            ports: Ports::new(config.ports, shard, Protocol::COUNT, config.outside.len()),
            lists: [List { head: NONE, tail: NONE }; Class::COUNT],
            timeouts: config.timeouts,
            now: Instant::ZERO,
            due: u64::MAX,
            len: 0,
            peak: 0,
            created: 0,
            expired: 0,
        }
    }

    /// How many there may be.
    pub(super) fn capacity(&self) -> usize {
        self.slab.len()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The time.
    pub(super) fn now(&self) -> Instant {
        self.now
    }

    /// When what is refreshed now expires, in nanoseconds: its idle time after the second ends.
    pub(super) fn expiry(&self, class: Class) -> u64 {
        let second = Instant::from_secs(self.now.as_nanos() / NANOS_PER_SECOND + 1);
        second.after(self.timeouts[class as usize]).as_nanos()
    }

    /// It is `now`, or was later already: ends every binding whose time is over.
    #[inline]
    pub(super) fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        if self.now.as_nanos() >= self.due {
            self.reclaim();
        }
    }

    #[cold]
    fn reclaim(&mut self) {
        self.due = u64::MAX;
        for class in 0..Class::COUNT {
            while let Some(binding) = self.slab.get(self.lists[class].head as usize) {
                if binding.expires > self.now.as_nanos() {
                    self.due = self.due.min(binding.expires);
                    break;
                }
                self.end(self.lists[class].head);
            }
        }
    }

    fn end(&mut self, number: u32) {
        self.unlink(number);
        let Binding { key, outside, port, .. } = self.slab[number as usize];
        self.by_inside.remove(key.hash(), number);
        self.by_outside.remove(outside_hash(key.protocol, outside, port), number);
        self.ports.release(key.protocol as usize, outside, port);
        self.slab[number as usize].next = self.free;
        self.free = number;
        self.len -= 1;
        self.expired += 1;
    }

    /// The binding called `number`.
    pub(super) fn get(&self, number: u32) -> &Binding {
        &self.slab[number as usize]
    }

    fn index_of(&self, sought: &Sought) -> (&Index, u32) {
        match *sought {
            Sought::Inside(hash) => (&self.by_inside, hash),
            Sought::Outside(hash) => (&self.by_outside, hash),
        }
    }

    /// Asks for what a look-up will read first.
    #[inline]
    pub(super) fn fetch(&self, sought: &Sought) {
        let (index, hash) = self.index_of(sought);
        index.fetch(hash);
    }

    /// Asks for the binding that is named there, once that is at hand, and gives its number. It is probably the one.
    #[inline]
    pub(super) fn fetch_next(&self, sought: &Sought) -> Option<u32> {
        let (index, hash) = self.index_of(sought);
        let number = index.glance(hash);
        prefetch_all(self.slab.get(number as usize)?);
        Some(number)
    }

    /// The number of the binding with this key.
    #[inline]
    pub(super) fn find(&self, key: &Key) -> Option<u32> {
        self.by_inside.find(key.hash(), |number| self.slab[number as usize].key == *key)
    }

    /// The number of the binding that has this outside port.
    #[inline]
    pub(super) fn find_outside(&self, protocol: Protocol, outside: u16, port: u16) -> Option<u32> {
        self.by_outside.find(outside_hash(protocol, outside, port), |number| {
            let binding = &self.slab[number as usize];
            (binding.key.protocol, binding.outside, binding.port) == (protocol, outside, port)
        })
    }

    /// Makes a binding and gives its number. It ends with the class it is refreshed in next.
    pub(super) fn create(&mut self, key: Key, config: &Config) -> Result<u32, Refusal> {
        let number = self.free;
        if number == NONE {
            return Err(Refusal::TableFull);
        }
        let among = config.outside.of_version(key.version);
        let hash = key.hash();
        let home = among.start + scale(key.home_hash(), among.len());
        // RFC 4787, REQ-4: "It is RECOMMENDED that a NAT have a "Port parity preservation"
        // behavior of "Yes"": RTP over UDP has even ports and RTCP the next odd ones.
        let like = (key.protocol == Protocol::Udp).then_some(key.inside_port);
        let (outside, port) = self
            .ports
            .take(key.protocol as usize, home, among, mix32(hash), like)
            .ok_or(Refusal::PortsExhausted)?;
        let class = match key.protocol {
            Protocol::Tcp => Class::Transitory,
            Protocol::Udp => Class::Udp,
            Protocol::Icmp => Class::Icmp,
        };
        self.free = self.slab[number as usize].next;
        self.slab[number as usize] = Binding { key, outside, port, class, ..UNUSED };
        self.link(number, class);
        self.by_inside.insert(hash, number);
        self.by_outside.insert(outside_hash(key.protocol, outside, port), number);
        self.len += 1;
        self.peak = self.peak.max(self.len as u64);
        self.created += 1;
        Ok(number)
    }

    /// The binding was used just now and is of this class.
    #[inline]
    pub(super) fn refresh(&mut self, number: u32, class: Class) {
        // All that refresh it in one second agree on its expiry, so that it moves in its list, and
        // touches the memory of its neighbours there, once a second.
        let binding = &self.slab[number as usize];
        if binding.class == class && binding.expires == self.expiry(class) {
            return;
        }
        self.unlink(number);
        self.link(number, class);
    }

    fn unlink(&mut self, number: u32) {
        let Binding { previous, next, class, .. } = self.slab[number as usize];
        let list = &mut self.lists[class as usize];
        match previous {
            NONE => list.head = next,
            _ => self.slab[previous as usize].next = next,
        }
        match next {
            NONE => list.tail = previous,
            _ => self.slab[next as usize].previous = previous,
        }
    }

    fn link(&mut self, number: u32, class: Class) {
        let expires = self.expiry(class);
        let list = &mut self.lists[class as usize];
        let previous = core::mem::replace(&mut list.tail, number);
        match previous {
            NONE => list.head = number,
            _ => self.slab[previous as usize].next = number,
        }
        let binding = &mut self.slab[number as usize];
        (binding.previous, binding.next) = (previous, NONE);
        (binding.class, binding.expires) = (class, expires);
        self.due = self.due.min(expires);
    }
}
