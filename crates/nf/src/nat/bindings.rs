//! A shard's bindings: found by inside and by outside endpoint, ended in the order of their time.
//!
//! A binding lies in a slab, in two indexes, in the port bitmap, and in the list of its [`Class`].
//! All bindings of a class have the same idle time, so its list is in order of expiry, and the
//! expired are at its head. [`Bindings::advance`] takes them out before anything else is done at a
//! time: no look-up or allocation ever meets an expired one, whether or not anything swept before.
//! What is worth little is besides in the list of its [`Kind`], from the one used longest ago: the head of the longest of
//! them gives way where there is no place, or no port, for a new one.

use std::time::Duration;

use warpline_packet::{Instant, Shard, prefetch_all};

use super::Refusal;
use super::config::Config;
use super::index::Index;
use super::key::{Key, Protocol};
use super::ports::{Ports, Wanted};
use crate::keyed::HashKey;
use crate::sources::Sources;
use crate::tables::fullest;

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

/// What may give way to a new binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// TCP whose connections were answered, and are reset or closed, or open anew.
    Closing,
    /// TCP without an answer.
    HalfOpen,
    /// UDP without an answer.
    Udp,
    Icmp,
}

impl Kind {
    /// In the order in which they give way where there are as many, with what is counted then.
    const ALL: [(Self, &'static str); 4] = [
        (Self::Closing, "evicted_closing"),
        (Self::HalfOpen, "evicted_half_open"),
        (Self::Udp, "evicted_udp"),
        (Self::Icmp, "evicted_icmp"),
    ];

    fn of(binding: &Binding) -> Option<Self> {
        match (binding.class, binding.is_answered) {
            (Class::Transitory, true) => Some(Self::Closing),
            (Class::Transitory, false) => Some(Self::HalfOpen),
            (Class::Udp, false) => Some(Self::Udp),
            (Class::Icmp, _) => Some(Self::Icmp),
            (Class::Established, _) | (Class::Udp, true) => None,
        }
    }

    const fn protocol(self) -> Protocol {
        match self {
            Self::Closing | Self::HalfOpen => Protocol::Tcp,
            Self::Udp => Protocol::Udp,
            Self::Icmp => Protocol::Icmp,
        }
    }
}

/// Of each kind IPv4 and IPv6: they have different outside addresses, and so ports.
const YIELDING: usize = 2 * Kind::ALL.len();

/// What a binding is looked for by, before it is: the index, and the hash there.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sought {
    Inside(u32),
    Outside(u32),
}

/// An outside endpoint of a protocol; its address by the number in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outside {
    pub(super) version: u8,
    pub(super) protocol: Protocol,
    pub(super) address: u64,
    pub(super) port: u16,
}

impl Outside {
    fn hash(&self, key: HashKey) -> u32 {
        let Self { version, protocol, address, port } = *self;
        let endpoint = u128::from(address) << 16 | u128::from(port);
        key.of([endpoint, 0], (protocol as u64) << 8 | u64::from(version))
    }
}

/// A binding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Binding {
    pub(super) key: Key,
    expires: u64,
    previous: u32,
    next: u32,
    /// The neighbours in the list of its kind.
    older: u32,
    newer: u32,
    /// The number of its outside address in the pool.
    pub(super) outside: u64,
    /// Its outside port.
    pub(super) port: u16,
    class: Class,
    /// Whether a packet came in by it.
    is_answered: bool,
    /// The place of the list of its kind; [`NOT_YIELDING`] where it is in none.
    yielding: u8,
}

const NOT_YIELDING: u8 = u8::MAX;
const _: () = assert!(size_of::<Binding>() == 80);

const NONE: u32 = u32::MAX;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

const UNUSED: Binding = Binding {
    key: Key::UNUSED,
    expires: 0,
    previous: NONE,
    next: NONE,
    older: NONE,
    newer: NONE,
    outside: 0,
    port: 0,
    class: Class::Udp,
    is_answered: false,
    yielding: NOT_YIELDING,
};

#[derive(Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
}

/// Bindings of one kind and version, from the one used longest ago.
#[derive(Clone, Copy)]
struct Yielding {
    oldest: u32,
    newest: u32,
    len: u32,
}

impl Binding {
    /// Its outside endpoint.
    fn outside_endpoint(&self) -> Outside {
        let Key { version, protocol, .. } = self.key;
        Outside { version, protocol, address: self.outside, port: self.port }
    }
}

/// The bindings of a shard.
pub(super) struct Bindings {
    slab: Vec<Binding>,
    free: u32,
    by_inside: Index,
    by_outside: Index,
    hash_key: HashKey,
    ports: Ports,
    lists: [List; Class::COUNT],
    yielding: [Yielding; YIELDING],
    timeouts: [Duration; Class::COUNT],
    sources: Option<Sources>,
    now: Instant,
    /// No binding expires before this.
    due: u64,
    len: usize,
    pub(super) peak: u64,
    pub(super) created: u64,
    pub(super) expired: u64,
    /// By kind.
    evicted: [u64; Kind::ALL.len()],
}

impl Bindings {
    /// To ask for a binding ahead.
    pub(super) fn sought(&self, key: &Key) -> Sought {
        Sought::Inside(key.hash(self.hash_key))
    }

    /// The same by an outside endpoint.
    pub(super) fn sought_outside(&self, outside: &Outside) -> Sought {
        Sought::Outside(outside.hash(self.hash_key))
    }

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
            hash_key: HashKey::new(),
            ports: Ports::new(config.ports, shard, &config.outside, capacity),
            lists: [List { head: NONE, tail: NONE }; Class::COUNT],
            yielding: [Yielding { oldest: NONE, newest: NONE, len: 0 }; YIELDING],
            sources: Sources::new(capacity, config.per_source),
            timeouts: config.timeouts,
            now: Instant::ZERO,
            due: u64::MAX,
            len: 0,
            peak: 0,
            created: 0,
            expired: 0,
            evicted: [0; Kind::ALL.len()],
        }
    }

    /// How many bindings gave way, by name.
    pub(super) fn evicted(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Kind::ALL.iter().map(|&(_, name)| name).zip(self.evicted)
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
                self.expired += 1;
            }
        }
    }

    fn end(&mut self, number: u32) {
        self.unlink(number);
        self.unlist(number);
        let binding = &self.slab[number as usize];
        let (key, outside) = (binding.key, binding.outside_endpoint());
        if let Some(sources) = &mut self.sources {
            sources.remove(key.version, key.inside_address());
        }
        self.by_inside.remove(key.hash(self.hash_key), number);
        self.by_outside.remove(outside.hash(self.hash_key), number);
        self.ports.release(&outside);
        self.slab[number as usize].next = self.free;
        self.free = number;
        self.len -= 1;
    }

    /// Ends the binding that gives way, of all or of those that have ports like `key`, where there is one.
    fn evict(&mut self, like: Option<&Key>) -> Option<()> {
        let fits = |place: usize| {
            let (kind, v6) = (Kind::ALL[place / 2].0, place % 2 == 1);
            like.is_none_or(|key| (kind.protocol(), v6) == (key.protocol, key.version == 6))
        };
        let lists = self.yielding.iter().enumerate().filter(|&(place, _)| fits(place));
        let place = fullest(lists.map(|(place, list)| (place, list.len)))?;
        self.end(self.yielding[place].oldest);
        self.evicted[place / 2] += 1;
        Some(())
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
        self.by_inside
            .find(key.hash(self.hash_key), |number| self.slab[number as usize].key == *key)
    }

    /// The number of the binding that has this outside port.
    #[inline]
    pub(super) fn find_outside(&self, outside: &Outside) -> Option<u32> {
        self.by_outside.find(outside.hash(self.hash_key), |number| {
            self.slab[number as usize].outside_endpoint() == *outside
        })
    }

    /// Makes a binding and gives its number. It ends with the class it is refreshed in next.
    pub(super) fn create(&mut self, key: Key, config: &Config) -> Result<u32, Refusal> {
        let source = (key.version, key.inside_address());
        if self.sources.as_ref().is_some_and(|sources| sources.is_full(source.0, source.1)) {
            return Err(Refusal::PerSource);
        }
        let outside = match self.take_port(&key, config) {
            Some(taken) => taken,
            None => {
                self.evict(Some(&key)).ok_or(Refusal::PortsExhausted)?;
                self.take_port(&key, config).ok_or(Refusal::PortsExhausted)?
            }
        };
        if self.free == NONE && self.evict(None).is_none() {
            self.ports.release(&outside);
            return Err(Refusal::TableFull);
        }
        let number = self.free;
        let class = match key.protocol {
            Protocol::Tcp => Class::Transitory,
            Protocol::Udp => Class::Udp,
            Protocol::Icmp => Class::Icmp,
        };
        self.free = self.slab[number as usize].next;
        let (address, port) = (outside.address, outside.port);
        self.slab[number as usize] = Binding { key, outside: address, port, class, ..UNUSED };
        self.link(number, class);
        self.by_inside.insert(key.hash(self.hash_key), number);
        self.by_outside.insert(outside.hash(self.hash_key), number);
        if let Some(sources) = &mut self.sources {
            sources.add(source.0, source.1);
        }
        self.len += 1;
        self.peak = self.peak.max(self.len as u64);
        self.created += 1;
        Ok(number)
    }

    /// A free outside port for a binding with this key, taken.
    fn take_port(&mut self, key: &Key, config: &Config) -> Option<Outside> {
        let wanted = Wanted {
            version: key.version,
            protocol: key.protocol,
            home: config.outside.named(key.version, key.home_hash()),
            hash: key.hash(config.port_key),
            // RFC 4787, REQ-4: "It is RECOMMENDED that a NAT have a "Port parity preservation"
            // behavior of "Yes"": RTP over UDP has even ports and RTCP the next odd ones.
            like: (key.protocol == Protocol::Udp).then_some(key.inside_port),
        };
        self.ports.take(&wanted)
    }

    /// A packet came in by the binding.
    #[inline]
    pub(super) fn answer(&mut self, number: u32) {
        if !self.slab[number as usize].is_answered {
            self.slab[number as usize].is_answered = true;
            self.enlist(number);
        }
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
        self.enlist(number);
    }

    /// Puts a binding at the end of the list of its kind.
    fn enlist(&mut self, number: u32) {
        self.unlist(number);
        let Some(kind) = Kind::of(&self.slab[number as usize]) else { return };
        let place = 2 * kind as usize + usize::from(self.slab[number as usize].key.version == 6);
        let list = &mut self.yielding[place];
        let older = core::mem::replace(&mut list.newest, number);
        list.len += 1;
        match older {
            NONE => list.oldest = number,
            _ => self.slab[older as usize].newer = number,
        }
        let binding = &mut self.slab[number as usize];
        (binding.older, binding.newer, binding.yielding) = (older, NONE, place as u8);
    }

    fn unlist(&mut self, number: u32) {
        let Binding { older, newer, yielding, .. } = self.slab[number as usize];
        let Some(list) = self.yielding.get_mut(usize::from(yielding)) else { return };
        list.len -= 1;
        match older {
            NONE => list.oldest = newer,
            _ => self.slab[older as usize].newer = newer,
        }
        match newer {
            NONE => list.newest = older,
            _ => self.slab[newer as usize].older = older,
        }
        self.slab[number as usize].yielding = NOT_YIELDING;
    }
}
