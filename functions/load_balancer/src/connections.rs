//! The connections of one shard: fixed memory, exact expiry, two ways to find one.
//!
//! A connection takes one cache line of a slab. It is found by its client and VIP. If answers come
//! back through the balancer, it is also found by its client and backend. The connections of one
//! [`ConnectionKind`] share an idle time and one queue, in the order of last use. So a full table
//! can tell at once whether one has expired. If none has, it evicts the head of the longest queue
//! of a low-value kind. A new connection is refused if and only if other kinds take every place.
//! Use is recorded to the second, rounded up: a busy connection moves in its queue once a second.
//!
//! Every table draws a key for its look-ups, so that an attacker cannot aim at one place. No result
//! depends on the key.

use core::time::Duration;

use warpline_packet::Instant;

use super::Refusal;
use super::hash::{client, mix};
use warpline_rewrite::Endpoint;
use warpline_tables::Sources;
use warpline_tables::fullest;
use warpline_tables::index::Index;
use warpline_tables::keyed::HashKey;

/// In the place of a number: none.
const NONE: u32 = u32::MAX;

/// How far a connection is; all that are as far have the same idle time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The client's SYN was seen and nothing else of it.
    Opening,
    Established,
    /// A FIN or RST was seen.
    Closing,
    Udp,
}

/// How many kinds of progress there are.
pub(super) const PROGRESS_KINDS: usize = 4;

/// The value of a connection. Each kind has a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionKind {
    Closing,
    HalfOpen,
    /// TCP without an answer that was taken up without its SYN, or continued after it.
    OneSided,
    /// UDP without an answer.
    Udp,
    Established,
    UdpStream,
}

/// How many kinds there are.
const KINDS: usize = 6;

impl ConnectionKind {
    /// The kinds that a new connection may evict, with their counters.
    const YIELDING: [(Self, &'static str); 4] = [
        (Self::Closing, "evicted-closing"),
        (Self::HalfOpen, "evicted-half-open"),
        (Self::OneSided, "evicted-one-sided"),
        (Self::Udp, "evicted-udp"),
    ];

    const fn of(progress: Progress, is_answered: bool) -> Self {
        match (progress, is_answered) {
            (Progress::Closing, _) => Self::Closing,
            (Progress::Opening, _) => Self::HalfOpen,
            (Progress::Established, false) => Self::OneSided,
            (Progress::Established, true) => Self::Established,
            (Progress::Udp, false) => Self::Udp,
            (Progress::Udp, true) => Self::UdpStream,
        }
    }
}

/// Who opened a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Client {
    /// In halves, which need less alignment than the whole.
    address: [u64; 2],
    port: u16,
    version: u8,
}

impl Client {
    pub(super) const fn new(version: u8, at: Endpoint) -> Self {
        let address = [(at.address >> 64) as u64, at.address as u64];
        Self { address, port: at.port, version }
    }

    fn source(&self) -> (u8, u128) {
        let [upper, lower] = self.address;
        (self.version, u128::from(upper) << 64 | u128::from(lower))
    }

    /// A hash of the client and of the VIP called `name`, the same in every process.
    #[inline]
    pub(super) const fn hash(&self, name: u64) -> u64 {
        mix(client(self.version, self.address, self.kind()), name)
    }

    const fn kind(&self) -> u64 {
        (self.port as u64) << 8 | self.version as u64
    }
}

/// One end of a connection: its name, and the number it had when it was last looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) name: u64,
    pub(super) number: u16,
}

/// A connection.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Connection {
    client: Client,
    progress: Progress,
    /// Whether it was answered or, if answers bypass the balancer, continued.
    is_answered: bool,
    vip: u64,
    backend: u64,
    /// Expired from here on.
    deadline: Instant,
    older: u32,
    /// The next free place, where it is one.
    newer: u32,
    vip_number: u16,
    target_number: u16,
}

const _: () = assert!(size_of::<Connection>() == 64);

impl Connection {
    fn kind(&self) -> ConnectionKind {
        ConnectionKind::of(self.progress, self.is_answered)
    }
}

/// Connections of one kind, from the one unused for longest.
#[derive(Clone, Copy, Debug)]
struct Queue {
    oldest: u32,
    newest: u32,
    len: u32,
}

/// The connections of one shard.
pub(super) struct Connections {
    slab: Vec<Connection>,
    capacity: usize,
    free: u32,
    by_vip: Index,
    by_backend: Option<Index>,
    /// By [`ConnectionKind`].
    queues: [Queue; KINDS],
    timeouts: [Duration; PROGRESS_KINDS],
    /// No connection expires before this.
    due: Instant,
    sources: Option<Sources>,
    hash_key: HashKey,
    current: u64,
    pub(super) peak: u64,
    pub(super) created: u64,
    pub(super) expired: u64,
    /// In the order of [`ConnectionKind::YIELDING`].
    evicted: [u64; ConnectionKind::YIELDING.len()],
}

impl Connections {
    /// Room for `capacity` connections. A client's address may have `per_source` of them (0: any
    /// number). With `both_ways`, connections are found by their backend too.
    pub(super) fn new(
        capacity: usize,
        per_source: u32,
        both_ways: bool,
        timeouts: [Duration; PROGRESS_KINDS],
    ) -> Self {
        Self {
            slab: Vec::with_capacity(capacity),
            capacity,
            free: NONE,
            by_vip: Index::new(capacity),
            by_backend: both_ways.then(|| Index::new(capacity)),
            queues: [Queue { oldest: NONE, newest: NONE, len: 0 }; KINDS],
            timeouts,
            due: Instant::MAX,
            sources: Sources::new(capacity, per_source),
            hash_key: HashKey::random(),
            current: 0,
            peak: 0,
            created: 0,
            expired: 0,
            evicted: [0; ConnectionKind::YIELDING.len()],
        }
    }

    /// How many connections gave way, by name.
    pub(super) fn evicted(&self) -> impl Iterator<Item = (&'static str, u64)> {
        ConnectionKind::YIELDING.iter().map(|&(_, name)| name).zip(self.evicted)
    }

    /// How many there are, those that expired and still have their place among them.
    pub(super) fn len(&self) -> u64 {
        self.current
    }

    /// The look-up key of a connection: a hash of its client and of the name of its VIP or backend.
    #[inline]
    pub(super) fn key(&self, client: &Client, name: u64) -> u32 {
        let (_, address) = client.source();
        self.hash_key.of([address, name.into()], client.kind())
    }

    /// The first place that [`Connections::find`] or [`Connections::find_back`] looks at for `key`.
    /// The result is only for [`Connections::glance_at`].
    #[inline]
    pub(super) fn glance(&self, key: u32, back: bool) -> u32 {
        let index = if back { self.by_backend.as_ref() } else { Some(&self.by_vip) };
        index.map_or(NONE, |index| index.glance(key))
    }

    /// Touches the connection there, so that it is in the cache soon.
    #[inline]
    pub(super) fn glance_at(&self, place: u32) -> u64 {
        self.slab.get(place as usize).map_or(0, |own| own.vip)
    }

    /// The number of a client's connection to the VIP called `name`, by their key.
    #[inline]
    pub(super) fn find(
        &mut self,
        key: u32,
        client: &Client,
        name: u64,
        now: Instant,
    ) -> Option<u32> {
        let found = self.by_vip.find(key, |number| {
            let own = &self.slab[number as usize];
            own.vip == name && own.client == *client
        });
        self.unexpired(found?, now)
    }

    /// The number of a client's connection that the backend called `name` has, by their key.
    #[inline]
    pub(super) fn find_back(
        &mut self,
        key: u32,
        client: &Client,
        name: u64,
        now: Instant,
    ) -> Option<u32> {
        let found = self.by_backend.as_ref()?.find(key, |number| {
            let own = &self.slab[number as usize];
            own.backend == name && own.client == *client
        });
        self.unexpired(found?, now)
    }

    fn unexpired(&mut self, number: u32, now: Instant) -> Option<u32> {
        if self.slab[number as usize].deadline <= now {
            self.expire(number);
            return None;
        }
        Some(number)
    }

    pub(super) fn vip(&self, number: u32) -> Named {
        let own = &self.slab[number as usize];
        Named { name: own.vip, number: own.vip_number }
    }

    pub(super) fn backend(&self, number: u32) -> Named {
        let own = &self.slab[number as usize];
        Named { name: own.backend, number: own.target_number }
    }

    pub(super) fn progress(&self, number: u32) -> Progress {
        self.slab[number as usize].progress
    }

    /// Adds a client's connection to `vip`, which must not be there.
    pub(super) fn create(
        &mut self,
        client: Client,
        vip: Named,
        backend: Named,
        progress: Progress,
        now: Instant,
    ) -> Result<(), Refusal> {
        let back = self.key(&client, backend.name);
        if self.find_back(back, &client, backend.name, now).is_some() {
            return Err(Refusal::Conflict);
        }
        let at = self.admit(&client, now)?;
        let connection = Connection {
            client,
            progress,
            is_answered: false,
            vip: vip.name,
            backend: backend.name,
            deadline: self.deadline(progress, now),
            older: NONE,
            newer: NONE,
            vip_number: vip.number,
            target_number: backend.number,
        };
        match self.slab.get_mut(at as usize) {
            Some(old) => *old = connection,
            None => self.slab.push(connection),
        }
        self.by_vip.insert(self.key(&client, vip.name), at);
        if let Some(index) = &mut self.by_backend {
            index.insert(back, at);
        }
        if let Some(sources) = &mut self.sources {
            let (version, address) = client.source();
            sources.add(version, address);
        }
        self.enqueue(at);
        self.current += 1;
        self.peak = self.peak.max(self.current);
        self.created += 1;
        Ok(())
    }

    /// Hands a connection to another backend.
    pub(super) fn hand_over(
        &mut self,
        number: u32,
        backend: Named,
        now: Instant,
    ) -> Result<(), Refusal> {
        let Connection { client, backend: old, .. } = self.slab[number as usize];
        let (from, to) = (self.key(&client, old), self.key(&client, backend.name));
        if self.find_back(to, &client, backend.name, now).is_some() {
            return Err(Refusal::Conflict);
        }
        if let Some(index) = &mut self.by_backend {
            index.remove(from, number);
            index.insert(to, number);
        }
        let own = &mut self.slab[number as usize];
        (own.backend, own.target_number) = (backend.name, backend.number);
        Ok(())
    }

    /// Notes the numbers that the ends of a connection have by now.
    #[inline]
    pub(super) fn note_numbers(&mut self, number: u32, vip: usize, target: usize) {
        let own = &mut self.slab[number as usize];
        (own.vip_number, own.target_number) = (vip as u16, target as u16);
    }

    /// Notes that a connection was used, how far it is now, and whether this packet answers it.
    #[inline]
    pub(super) fn touch(&mut self, number: u32, progress: Progress, answers: bool, now: Instant) {
        let deadline = self.deadline(progress, now);
        let own = &self.slab[number as usize];
        let is_answered = own.is_answered || answers;
        if (own.deadline, own.progress, own.is_answered) == (deadline, progress, is_answered) {
            return;
        }
        let kind = ConnectionKind::of(progress, is_answered);
        if own.deadline == deadline && own.kind() == kind {
            let own = &mut self.slab[number as usize];
            (own.progress, own.is_answered) = (progress, is_answered);
            return;
        }
        self.unqueue(number);
        let own = &mut self.slab[number as usize];
        (own.progress, own.is_answered, own.deadline) = (progress, is_answered, deadline);
        self.enqueue(number);
    }

    /// When a connection that was used now expires.
    fn deadline(&self, progress: Progress, now: Instant) -> Instant {
        const SECOND: u64 = 1_000_000_000;
        let used = Instant::from_secs(now.as_nanos() / SECOND + 1);
        used.after(self.timeouts[progress as usize])
    }

    /// Reclaims up to `most` connections that have expired.
    pub(super) fn reclaim(&mut self, most: usize, now: Instant) {
        for _ in 0..most {
            let Some(at) = self.any_expired(now) else { return };
            self.expire(at);
        }
    }

    /// Returns the number of a free place for a client's connection, if it may have one. The number
    /// may be one past the last place.
    fn admit(&mut self, client: &Client, now: Instant) -> Result<u32, Refusal> {
        if self.sources.is_some() {
            let (version, address) = client.source();
            let is_full =
                |own: &Self| own.sources.as_ref().is_some_and(|s| s.is_full(version, address));
            if is_full(self) {
                self.reclaim(usize::MAX, now);
            }
            if is_full(self) {
                return Err(Refusal::PerSource);
            }
        }
        if self.current as usize == self.capacity {
            match self.any_expired(now) {
                Some(at) => self.expire(at),
                None => self.evict().ok_or(Refusal::TableFull)?,
            }
        }
        if self.free == NONE {
            return Ok(self.slab.len() as u32);
        }
        let at = self.free;
        self.free = self.slab[at as usize].newer;
        Ok(at)
    }

    /// Lets the connection go that gives way, where one does.
    fn evict(&mut self) -> Option<()> {
        let len = |kind: ConnectionKind| self.queues[kind as usize].len;
        let kinds = ConnectionKind::YIELDING.iter().enumerate();
        let place = fullest(kinds.map(|(place, &(kind, _))| (place, len(kind))))?;
        self.remove(self.queues[ConnectionKind::YIELDING[place].0 as usize].oldest);
        self.evicted[place] += 1;
        Some(())
    }

    fn any_expired(&mut self, now: Instant) -> Option<u32> {
        if now < self.due {
            return None;
        }
        self.due = Instant::MAX;
        for queue in &self.queues {
            let Some(own) = self.slab.get(queue.oldest as usize) else { continue };
            self.due = self.due.min(own.deadline);
            if own.deadline <= now {
                return Some(queue.oldest);
            }
        }
        None
    }

    fn expire(&mut self, number: u32) {
        self.remove(number);
        self.expired += 1;
    }

    /// Forgets a connection.
    pub(super) fn remove(&mut self, number: u32) {
        self.unqueue(number);
        let Connection { client, vip, backend, .. } = self.slab[number as usize];
        if let Some(sources) = &mut self.sources {
            let (version, address) = client.source();
            sources.remove(version, address);
        }
        self.by_vip.remove(self.key(&client, vip), number);
        let back = self.key(&client, backend);
        if let Some(index) = &mut self.by_backend {
            index.remove(back, number);
        }
        self.slab[number as usize].newer = core::mem::replace(&mut self.free, number);
        self.current -= 1;
    }

    fn enqueue(&mut self, at: u32) {
        let own = &self.slab[at as usize];
        let queue = &mut self.queues[own.kind() as usize];
        self.due = self.due.min(own.deadline);
        queue.len += 1;
        let older = core::mem::replace(&mut queue.newest, at);
        match self.slab.get_mut(older as usize) {
            Some(own) => own.newer = at,
            None => queue.oldest = at,
        }
        let own = &mut self.slab[at as usize];
        (own.older, own.newer) = (older, NONE);
    }

    fn unqueue(&mut self, at: u32) {
        let own = &self.slab[at as usize];
        let (older, newer) = (own.older, own.newer);
        let queue = &mut self.queues[own.kind() as usize];
        queue.len -= 1;
        match self.slab.get_mut(older as usize) {
            Some(own) => own.newer = newer,
            None => queue.oldest = newer,
        }
        match self.slab.get_mut(newer as usize) {
            Some(own) => own.older = older,
            None => queue.newest = older,
        }
    }
}
