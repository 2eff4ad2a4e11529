//! The flows of a shard in fixed memory: found by key; in a full table the least valuable one makes
//! room ([`Ranks`]).

use core::hash::BuildHasher;
use std::hash::RandomState;

use warpline_packet::{Instant, prefetch, prefetch_all};

use super::connection::{Connection, ConnectionState};
use super::key::Key;
use super::limits::Timeouts;
use super::outcome::Direction;
use super::ranks::{Ranks, Worth};
use warpline_tables::index::Index;

/// A flow, and what the caller keeps of it.
#[derive(Clone, Debug)]
pub(super) struct Flow<V> {
    /// As its client sends.
    pub(super) key: Key,
    /// Its number among those of the shard, from 1 on; 0 where there is none.
    pub(super) number: u64,
    /// The own time of the packet that began it.
    pub(super) started: Instant,
    pub(super) last: Instant,
    /// By [`Direction`].
    pub(super) packets: [u32; 2],
    pub(super) bytes: [u64; 2],
    pub(super) connection: Connection,
    pub(super) vars: V,
}

impl<V> Flow<V> {
    /// Whether packets of both directions were seen.
    pub(super) fn is_answered(&self) -> bool {
        self.connection.seen == 0b11
    }

    /// Its value in a full table. A flow that was answered, or finished the handshake, has a real
    /// client; a source can be forged.
    fn worth(&self) -> Worth {
        let Connection { state, halves, .. } = &self.connection;
        let is_empty = || halves.iter().all(|half| half.side.farthest() == 0);
        match state {
            _ if self.connection.is_closed() => Worth::Closed,
            ConnectionState::Opening | ConnectionState::Answered => Worth::HalfOpen,
            _ if !self.is_answered() => Worth::Unanswered,
            ConnectionState::Established if is_empty() => Worth::Established,
            ConnectionState::Established => Worth::WithData,
            _ => Worth::Answered,
        }
    }

    fn is_over(&self, now: Instant, timeouts: &Timeouts) -> bool {
        let of = timeouts.of(self.key.protocol());
        let is_tcp = self.key.protocol() == warpline_packet::wire::ip_protocol::TCP;
        let timeout = match is_tcp {
            true if self.connection.is_closed() => of.closed,
            true if self.connection.is_established() => of.established,
            false if self.is_answered() => of.established,
            _ => of.new,
        };
        now.since(self.last) >= timeout
    }
}

/// The flows of a shard.
pub(super) struct Table<V> {
    flows: Vec<Flow<V>>,
    capacity: usize,
    /// Places that were in use.
    free: Vec<u32>,
    index: Index,
    /// By packets' hints, where the flow of one was found last.
    guesses: Box<[u32]>,
    ranks: Ranks,
    /// Where flows that are over are looked for.
    sweep: usize,
    seed: u64,
    started: u64,
}

impl<V: Default> Table<V> {
    /// Room for `capacity` flows. Every table seeds its look-ups anew, so an attacker can't aim at
    /// one place. No result depends on it.
    pub(super) fn new(capacity: usize) -> Self {
        let capacity = capacity.min(i32::MAX as usize);
        Self {
            flows: Vec::with_capacity(capacity),
            capacity,
            free: Vec::with_capacity(capacity),
            index: Index::new(capacity),
            guesses: vec![0; guesses_of(capacity)].into(),
            ranks: Ranks::new(capacity),
            sweep: 0,
            seed: RandomState::new().hash_one(0_u8),
            started: 0,
        }
    }

    /// Bytes of a table with room for `capacity` flows.
    pub(super) fn memory_len(capacity: usize) -> usize {
        let guesses = guesses_of(capacity) * size_of::<u32>();
        capacity * (size_of::<Flow<V>>() + size_of::<u32>())
            + Ranks::memory_len(capacity)
            + Index::memory_len(capacity)
            + guesses
    }

    pub(super) fn len(&self) -> usize {
        self.flows.len() - self.free.len()
    }

    /// Places that were in use at some time.
    pub(super) fn places(&self) -> usize {
        self.flows.len()
    }

    pub(super) fn get(&self, place: u32) -> &Flow<V> {
        &self.flows[place as usize]
    }

    pub(super) fn get_mut(&mut self, place: u32) -> &mut Flow<V> {
        &mut self.flows[place as usize]
    }

    /// Asks for what [`Table::find`] will probably read.
    pub(super) fn fetch(&self, hint: u32) {
        let guess = self.guesses.get(hint as usize & (self.guesses.len() - 1));
        if let Some(flow) = guess.and_then(|&place| self.flows.get(place as usize)) {
            prefetch_all(flow);
        }
    }

    /// The flow of a key, and the key's direction in it. Packets of a flow mostly have the same
    /// hint, which affects no result.
    #[inline(always)]
    pub(super) fn find(&mut self, key: &Key, hint: u32) -> Option<(u32, Direction)> {
        let at = hint as usize & (self.guesses.len() - 1);
        let guess = self.guesses[at];
        let flow = self.flows.get(guess as usize).filter(|flow| flow.number != 0);
        if let Some(direction) = flow.and_then(|flow| key.direction_in(&flow.key)) {
            return Some((guess, direction));
        }
        self.find_anywhere(key, at)
    }

    /// [`Table::find`] by the index; the next guess at place `at` is what it finds.
    fn find_anywhere(&mut self, key: &Key, at: usize) -> Option<(u32, Direction)> {
        let direction = |place: u32| key.direction_in(&self.flows[place as usize].key);
        let place = self.index.find(key.hash(self.seed), |place| direction(place).is_some())?;
        self.guesses[at] = place;
        Some((place, direction(place)?))
    }

    /// Whether its time is over.
    pub(super) fn is_over(&self, place: u32, now: Instant, timeouts: &Timeouts) -> bool {
        self.flows[place as usize].is_over(now, timeouts)
    }

    /// Starts a flow; `None` without room. [`Table::settle`] must follow, once its packet was taken
    /// in.
    pub(super) fn insert(&mut self, key: Key, now: Instant, started: Instant) -> Option<u32> {
        let place = match self.free.pop() {
            Some(place) => place,
            None if self.flows.len() < self.capacity => self.flows.len() as u32,
            None => return None,
        };
        self.started += 1;
        let flow = Flow {
            key,
            number: self.started,
            started,
            last: now,
            packets: [0; 2],
            bytes: [0; 2],
            connection: Connection::NEW,
            vars: V::default(),
        };
        match self.flows.get_mut(place as usize) {
            Some(old) => *old = flow,
            None => self.flows.push(flow),
        }
        self.index.insert(key.hash(self.seed), place);
        Some(place)
    }

    /// Takes a flow out; gives its connection, whose memory has to be given back.
    pub(super) fn remove(&mut self, place: u32) -> Connection {
        let hash = self.flows[place as usize].key.hash(self.seed);
        self.index.remove(hash, place);
        self.ranks.remove(place);
        self.free.push(place);
        let flow = &mut self.flows[place as usize];
        flow.number = 0;
        flow.connection
    }

    /// The value of a flow may have changed.
    pub(super) fn settle(&mut self, place: u32) {
        let flow = &self.flows[place as usize];
        self.ranks.set(place, flow.worth(), flow.key.client(), flow.last);
    }

    /// Finds a flow to make room in a full table: one of the next few that is over, or else the
    /// least valuable one, which is reported.
    pub(super) fn make_room(
        &mut self,
        now: Instant,
        timeouts: &Timeouts,
    ) -> Option<(u32, Option<Worth>)> {
        let over = (0..SWEPT).find_map(|_| self.next_over(now, timeouts));
        let least = |own: &mut Self| {
            let (place, worth) = own.ranks.least(&own.flows)?;
            Some((place, Some(worth)))
        };
        over.map(|place| (place, None)).or_else(|| least(self))
    }

    /// Checks whether the flow in the next place is over. As many calls as there are places check
    /// all.
    pub(super) fn next_over(&mut self, now: Instant, timeouts: &Timeouts) -> Option<u32> {
        self.sweep = if self.sweep + 1 < self.flows.len() { self.sweep + 1 } else { 0 };
        if let Some(flow) = self.flows.get(self.sweep + AHEAD) {
            prefetch(&flow.number);
            prefetch(&flow.connection);
        }
        let flow = self.flows.get(self.sweep)?;
        (flow.number != 0 && flow.is_over(now, timeouts)).then_some(self.sweep as u32)
    }
}

/// How many guesses there are of a table's flows: a power of two, one a flow at most.
fn guesses_of(capacity: usize) -> usize {
    (capacity.next_power_of_two() / 2).max(1)
}

/// How many places ahead the memory of those to be looked at is asked for.
const AHEAD: usize = 4;

/// At how many places a flow is looked for whose time is over, for it to make room.
const SWEPT: usize = 2;
