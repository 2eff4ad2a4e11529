//! A shard's bindings: found by inside and by outside endpoint, ended in the order of their time.
//!
//! A binding lies in a slab, in two indexes, in the port bitmap, and in the list of its [`Class`].
//! All bindings of a class have the same idle time, so its list is in order of expiry, and the
//! expired are at its head. [`Bindings::advance`] takes them out before anything else is done at a
//! time: no look-up or allocation ever meets an expired one, whether or not anything swept before.
//! Those that are worth little also lie in the list of their [`BindingKind`], from the one used
//! longest ago. The head of the longest of these lists gives way where there is no place, or no
//! port, for a new binding.

mod ahead;
mod creation;
mod order;

use std::sync::Arc;
use std::time::Duration;

use warpline_nf::PeakHistory;
use warpline_packet::{Instant, Shard, in_small_pages};

use ahead::LATE_MAX;
pub(super) use ahead::Sought;
use order::USED_MAX;

use super::binding::{Binding, BindingKind, Class, Outside, Upper};
use super::config::Config;
use super::conversations::Conversations;
use super::key::Key;
use super::ports::Ports;
use super::remotes::{Other, Remotes};
use warpline_rewrite::Endpoint;
use warpline_rewrite::Fixed;
use warpline_rewrite::Protocol;
use warpline_tables::Sources;
use warpline_tables::fullest;
use warpline_tables::index::Index;
use warpline_tables::keyed::HashKey;
use warpline_tables::list::{Links, List, NONE};

/// Of each kind IPv4 and IPv6: they have different outside addresses, and so ports.
const YIELDING: usize = 2 * BindingKind::ALL.len();

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// The bindings of a shard.
pub(super) struct Bindings {
    slab: Vec<Binding>,
    /// By binding, where addresses may be of IPv6.
    uppers: Vec<Upper>,
    /// So many remotes of each binding as do not lie in it.
    others: Vec<Other>,
    others_each: usize,
    conversations: Conversations,
    capacity: usize,
    free: u32,
    by_inside: Index,
    by_outside: Index,
    /// New bindings that are not in `by_outside` yet, with their hash there.
    late: Vec<(u32, u32)>,
    hash_key: HashKey,
    ports: Ports,
    /// Batches to come in which new bindings are likely.
    opening: u8,
    lists: [List; Class::COUNT],
    yielding: [List; YIELDING],
    /// Bindings that were used first in their second, in that order, and did not move since.
    used: Vec<u32>,
    timeouts: [Duration; Class::COUNT],
    /// When what is refreshed in this second expires, in nanoseconds, by class.
    expiries: [u64; Class::COUNT],
    /// The end of this second, in nanoseconds.
    second_ends: u64,
    sources: Option<Sources>,
    fixed: Arc<Fixed>,
    now: Instant,
    /// No binding expires before this.
    due: u64,
    len: usize,
    /// The most of them since the last tick.
    peak: u64,
    peaks: PeakHistory,
    pub(super) created: u64,
    pub(super) expired: u64,
    /// By kind.
    evicted: [u64; BindingKind::ALL.len()],
}

impl Bindings {
    pub(super) fn new(config: &Config, shard: Shard) -> Self {
        let capacity = shard.share(config.bindings);
        let others_each = config.remotes - 1;
        Self {
            slab: Vec::with_capacity(capacity),
            uppers: Vec::with_capacity(if config.has_v6 { capacity } else { 0 }),
            others: vec![[0; 4]; capacity * others_each],
            others_each,
            conversations: in_small_pages(|| Conversations::new(capacity, capacity * others_each)),
            capacity,
            free: NONE,
            by_inside: Index::new(capacity),
            by_outside: Index::new(capacity),
            late: Vec::with_capacity(LATE_MAX),
            hash_key: HashKey::random(),
            ports: Ports::new(
                config.ports,
                shard,
                &config.outside,
                capacity + config.fixed.ports(),
            ),
            opening: 0,
            lists: [List::EMPTY; Class::COUNT],
            yielding: [List::EMPTY; YIELDING],
            used: Vec::with_capacity(USED_MAX),
            sources: Sources::new(capacity, config.per_source),
            fixed: Arc::clone(&config.fixed),
            timeouts: config.timeouts,
            expiries: [0; Class::COUNT],
            second_ends: 0,
            now: Instant::ZERO,
            due: u64::MAX,
            len: 0,
            peak: 0,
            peaks: PeakHistory::new(),
            created: 0,
            expired: 0,
            evicted: [0; BindingKind::ALL.len()],
        }
    }

    /// How many bindings gave way, by name.
    pub(super) fn evicted(&self) -> impl Iterator<Item = (&'static str, u64)> {
        BindingKind::ALL.iter().map(|&(_, name)| name).zip(self.evicted)
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
    #[inline]
    pub(super) fn expiry(&self, class: Class) -> u64 {
        self.expiries[class as usize]
    }

    /// It is `now`, or was later already: ends every binding whose time is over.
    #[inline]
    pub(super) fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        if self.now.as_nanos() >= self.second_ends {
            self.begin_second();
        }
        if self.now.as_nanos() >= self.due {
            self.reclaim();
        }
    }

    /// The same at a tick.
    pub(super) fn tick(&mut self, now: Instant) {
        self.peaks.end_part(now, self.peak);
        self.advance(now);
        self.peak = self.len as u64;
    }

    /// The history of their number, and the most of them since the last tick.
    pub(super) fn peaks(&self) -> (&PeakHistory, u64) {
        (&self.peaks, self.peak)
    }

    #[cold]
    fn begin_second(&mut self) {
        let end = Instant::from_secs(self.now.as_nanos() / NANOS_PER_SECOND + 1);
        self.second_ends = end.as_nanos();
        self.expiries = self.timeouts.map(|idle| end.after(idle).as_nanos());
    }

    #[cold]
    fn reclaim(&mut self) {
        self.move_used();
        self.due = u64::MAX;
        for class in 0..Class::COUNT {
            while let Some(binding) = self.slab.get(self.lists[class].oldest() as usize) {
                if binding.expires > self.now.as_nanos() {
                    self.due = self.due.min(binding.expires);
                    break;
                }
                self.end(self.lists[class].oldest());
                self.expired += 1;
            }
        }
    }

    fn end(&mut self, number: u32) {
        self.index_late();
        self.unlink(number);
        let binding = &self.slab[number as usize];
        let upper = self.upper(number);
        let (key, outside) = (binding.key(upper), binding.outside_endpoint(upper));
        let is_forwarded = binding.is_forwarded();
        self.by_inside.remove(key.hash(self.hash_key), number);
        if !is_forwarded {
            self.by_outside.remove(outside.hash(self.hash_key), number);
            if key.protocol != Protocol::Other {
                if let Some(sources) = &mut self.sources {
                    sources.remove(key.version, key.inside_address());
                }
                self.ports.release(&outside);
            }
        }
        self.slab[number as usize].by_class.free(self.free);
        self.free = number;
        self.len -= 1;
    }

    /// Ends the binding that gives way, of all or of those that have ports like `key`.
    /// `None` where there is none.
    fn evict(&mut self, like: Option<&Key>) -> Option<()> {
        self.move_used();
        let fits = |place: usize| {
            let (kind, v6) = (BindingKind::ALL[place / 2].0, place % 2 == 1);
            like.is_none_or(|key| (kind.protocol(), v6) == (key.protocol, key.version == 6))
        };
        let lists = self.yielding.iter().enumerate().filter(|&(place, _)| fits(place));
        let place = fullest(lists.map(|(place, list)| (place, list.len())))?;
        self.end(self.yielding[place].oldest());
        self.evicted[place / 2] += 1;
        Some(())
    }

    /// The binding called `number`.
    pub(super) fn get(&self, number: u32) -> &Binding {
        &self.slab[number as usize]
    }

    /// The inside endpoint of the binding called `number`.
    #[inline]
    pub(super) fn inside(&self, number: u32) -> Endpoint {
        self.slab[number as usize].inside(self.upper(number))
    }

    /// Whether `remote` is the first of a binding's remotes, which is then remembered until
    /// `expires`.
    #[inline]
    pub(super) fn keeps_first(
        &mut self,
        number: u32,
        remote: Endpoint,
        now: u64,
        expires: u64,
    ) -> bool {
        let at = number as usize;
        let binding = &mut self.slab[at];
        let upper = if binding.is_v6() { self.uppers.get(at) } else { None };
        let is_first = binding.sends_first_to(upper, remote, now);
        if is_first {
            binding.keep_first(expires);
        }
        is_first
    }

    /// The remotes of the binding called `number`.
    #[inline]
    pub(super) fn remotes(&mut self, number: u32) -> Remotes<'_> {
        let (at, each) = (number as usize, self.others_each);
        let binding = &mut self.slab[at];
        let upper = if binding.is_v6() { self.uppers.get_mut(at) } else { None };
        Remotes {
            number: at,
            binding,
            upper,
            others: &mut self.others[at * each..][..each],
            conversations: &mut self.conversations,
        }
    }

    fn upper(&self, number: u32) -> Option<&Upper> {
        let at = number as usize;
        if self.slab[at].is_v6() { self.uppers.get(at) } else { None }
    }

    /// The number of the binding with this key.
    #[inline]
    pub(super) fn find(&self, key: &Key) -> Option<u32> {
        self.by_inside
            .find(key.hash(self.hash_key), |number| self.get(number).is_of(key, self.upper(number)))
    }

    /// The number of the binding that has this outside port.
    #[inline]
    pub(super) fn find_outside(&mut self, outside: &Outside) -> Option<u32> {
        self.index_late();
        self.find_indexed(outside)
    }

    #[inline]
    fn find_indexed(&self, outside: &Outside) -> Option<u32> {
        self.by_outside.find(outside.hash(self.hash_key), |number| {
            self.slab[number as usize].has_outside(outside, self.upper(number))
        })
    }
}
