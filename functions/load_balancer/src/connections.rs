//! The connections of one shard: fixed memory, exact expiry, two ways to find one.
//!
//! A connection takes one cache line of a slab ([`Slab`]). It is found by its client and VIP. If
//! answers come back through the balancer, it is also found by its client and backend. The
//! connections of one [`ConnectionKind`] share an idle time and one queue. A full table evicts an
//! expired connection, or the head of the longest queue of a low-value kind. A new connection is
//! refused if and only if other kinds take every place.
//!
//! Use is recorded to the second, rounded up: a busy connection moves in its queue once a second.
//!
//! Every table draws a key for its look-ups, so that an attacker cannot aim at one place. No result
//! depends on the key.

use core::time::Duration;

use warpline_nf::PeakHistory;
use warpline_packet::Instant;

use super::Refusal;
use super::hash::{client, mix};
use warpline_rewrite::Endpoint;
use warpline_tables::index::Index;
use warpline_tables::keyed::HashKey;
use warpline_tables::list::{Links, NONE};
use warpline_tables::{Slab, Sources, Timed};

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
    links: Links,
    vip_number: u16,
    target_number: u16,
}

const _: () = assert!(size_of::<Connection>() == 64);

impl Connection {
    fn kind(&self) -> ConnectionKind {
        ConnectionKind::of(self.progress, self.is_answered)
    }
}

impl Timed for Connection {
    #[inline]
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }

    #[inline]
    fn queue(&self) -> usize {
        self.kind() as usize
    }

    #[inline]
    fn deadline(&self) -> Instant {
        self.deadline
    }
}

/// The connections of one shard.
pub(super) struct Connections {
    /// In a queue by [`ConnectionKind`].
    slab: Slab<Connection, KINDS>,
    by_vip: Index,
    by_backend: Option<Index>,
    timeouts: [Duration; PROGRESS_KINDS],
    sources: Option<Sources>,
    hash_key: HashKey,
    /// The most of them since the last tick.
    peak: u64,
    peaks: PeakHistory,
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
            slab: Slab::new(capacity),
            by_vip: Index::new(capacity),
            by_backend: both_ways.then(|| Index::new(capacity)),
            timeouts,
            sources: Sources::new(capacity, per_source),
            hash_key: HashKey::random(),
            peak: 0,
            peaks: PeakHistory::new(),
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
        self.slab.len() as u64
    }

    /// The history of their number, and the most of them since the last tick.
    pub(super) fn peaks(&self) -> (&PeakHistory, u64) {
        (&self.peaks, self.peak)
    }

    /// Ends up to `most` that expired by `now`, at a tick.
    pub(super) fn tick(&mut self, most: usize, now: Instant) {
        self.peaks.end_part(now, self.peak);
        self.reclaim(most, now);
        self.peak = self.len();
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
        self.slab.get(place).map_or(0, |own| own.vip)
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
            let own = &self.slab[number];
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
            let own = &self.slab[number];
            own.backend == name && own.client == *client
        });
        self.unexpired(found?, now)
    }

    fn unexpired(&mut self, number: u32, now: Instant) -> Option<u32> {
        if self.slab[number].deadline <= now {
            self.expire(number);
            return None;
        }
        Some(number)
    }

    pub(super) fn vip(&self, number: u32) -> Named {
        let own = &self.slab[number];
        Named { name: own.vip, number: own.vip_number }
    }

    pub(super) fn backend(&self, number: u32) -> Named {
        let own = &self.slab[number];
        Named { name: own.backend, number: own.target_number }
    }

    pub(super) fn progress(&self, number: u32) -> Progress {
        self.slab[number].progress
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
        self.admit(&client, now)?;
        let connection = Connection {
            client,
            progress,
            is_answered: false,
            vip: vip.name,
            backend: backend.name,
            deadline: self.deadline(progress, now),
            links: Links::UNUSED,
            vip_number: vip.number,
            target_number: backend.number,
        };
        let at = self.slab.insert(connection);
        self.by_vip.insert(self.key(&client, vip.name), at);
        if let Some(index) = &mut self.by_backend {
            index.insert(back, at);
        }
        if let Some(sources) = &mut self.sources {
            let (version, address) = client.source();
            sources.add(version, address);
        }
        self.peak = self.peak.max(self.len());
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
        let Connection { client, backend: old, .. } = self.slab[number];
        let (from, to) = (self.key(&client, old), self.key(&client, backend.name));
        if self.find_back(to, &client, backend.name, now).is_some() {
            return Err(Refusal::Conflict);
        }
        if let Some(index) = &mut self.by_backend {
            index.remove(from, number);
            index.insert(to, number);
        }
        let own = &mut self.slab[number];
        (own.backend, own.target_number) = (backend.name, backend.number);
        Ok(())
    }

    /// Notes the numbers that the ends of a connection have by now.
    #[inline]
    pub(super) fn note_numbers(&mut self, number: u32, vip: usize, target: usize) {
        let own = &mut self.slab[number];
        (own.vip_number, own.target_number) = (vip as u16, target as u16);
    }

    /// Notes that a connection was used, how far it is now, and whether this packet answers it.
    #[inline]
    pub(super) fn touch(&mut self, number: u32, progress: Progress, answers: bool, now: Instant) {
        let deadline = self.deadline(progress, now);
        let own = &self.slab[number];
        let is_answered = own.is_answered || answers;
        if (own.deadline, own.progress, own.is_answered) == (deadline, progress, is_answered) {
            return;
        }
        let kind = ConnectionKind::of(progress, is_answered);
        if own.deadline == deadline && own.kind() == kind {
            let own = &mut self.slab[number];
            (own.progress, own.is_answered) = (progress, is_answered);
            return;
        }
        self.slab.update(number, |own| {
            (own.progress, own.is_answered, own.deadline) = (progress, is_answered, deadline);
        });
    }

    /// When a connection that was used now expires.
    fn deadline(&self, progress: Progress, now: Instant) -> Instant {
        const SECOND: u64 = 1_000_000_000;
        let used = Instant::from_secs(now.as_nanos() / SECOND + 1);
        used.after(self.timeouts[progress as usize])
    }

    /// Reclaims up to `most` connections that have expired.
    fn reclaim(&mut self, most: usize, now: Instant) {
        for _ in 0..most {
            let Some(at) = self.slab.expired(now) else { return };
            self.expire(at);
        }
    }

    /// Makes sure of a free place for a client's connection, if it may have one.
    fn admit(&mut self, client: &Client, now: Instant) -> Result<(), Refusal> {
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
        if self.slab.is_full() {
            match self.slab.expired(now) {
                Some(at) => self.expire(at),
                None => self.evict().ok_or(Refusal::TableFull)?,
            }
        }
        Ok(())
    }

    /// Lets the connection go that gives way, where one does.
    fn evict(&mut self) -> Option<()> {
        let kinds = ConnectionKind::YIELDING.iter().map(|&(kind, _)| kind as usize);
        let (place, at) = self.slab.yielding(kinds)?;
        self.remove(at);
        self.evicted[place] += 1;
        Some(())
    }

    fn expire(&mut self, number: u32) {
        self.remove(number);
        self.expired += 1;
    }

    /// Forgets a connection.
    pub(super) fn remove(&mut self, number: u32) {
        let Connection { client, vip, backend, .. } = self.slab[number];
        if let Some(sources) = &mut self.sources {
            let (version, address) = client.source();
            sources.remove(version, address);
        }
        self.by_vip.remove(self.key(&client, vip), number);
        let back = self.key(&client, backend);
        if let Some(index) = &mut self.by_backend {
            index.remove(back, number);
        }
        self.slab.remove(number);
    }
}
