//! Which flow makes room where all places are taken: what is worth least, by kind ([`Worth`]), and of a kind one that nobody used
//! lately, of a client that has several.
//!
//! Each kind is sure of a sixteenth of the places: the first kind with more than that gives way, the last one with any. So no flood
//! of what costs nothing (a datagram, a SYN) takes places from what took an answer or a handshake, but that small share; and while
//! all is full of one kind, others still live long enough to become more.
//!
//! Of that kind the [`LOOKS`] flows are looked at that were queued longest ago. Those with packets since then are queued anew. Of the
//! others goes the oldest of those of the client (with IPv6, its network of 64 bits) that has most of them; what is older is queued
//! anew. A packet of a known flow has nothing to do here.

use warpline_packet::Instant;

use super::table::Flow;

/// What a flow is worth: the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Worth {
    /// TCP that was reset or finished from both ends.
    Closed,
    /// Packets of one direction, without a SYN.
    Unanswered,
    /// TCP whose handshake is not over.
    HalfOpen,
    /// Packets of both directions: other protocols, and TCP that isn't followed.
    Answered,
    /// TCP after the handshake, without data.
    Established,
    /// And with data.
    WithData,
}

/// How many kinds there are.
pub(super) const KINDS: usize = 6;

impl Worth {
    const ALL: [Self; KINDS] = [
        Self::Closed,
        Self::Unanswered,
        Self::HalfOpen,
        Self::Answered,
        Self::Established,
        Self::WithData,
    ];

    /// The part of the places that a kind is sure of: one in so many.
    const SURE: u32 = 16;

    fn is_sure_of(self, places: usize) -> u32 {
        match self {
            // Nothing comes of them; and of the last kind is what the others leave.
            Self::Closed | Self::WithData => 0,
            _ => places as u32 / Self::SURE,
        }
    }
}

/// Flows by place: in a queue for each kind, as they were queued.
pub(super) struct Ranks {
    links: Vec<Link>,
    queues: [Queue; KINDS],
    capacity: usize,
}

#[derive(Clone, Copy)]
struct Link {
    /// When the flow was last used before it was queued.
    used: Instant,
    before: u32,
    next: u32,
    worth: Option<Worth>,
}

#[derive(Clone, Copy)]
struct Queue {
    oldest: u32,
    newest: u32,
    len: u32,
}

/// In the place of a number: none.
const NONE: u32 = u32::MAX;
const EMPTY: Queue = Queue { oldest: NONE, newest: NONE, len: 0 };
const UNQUEUED: Link = Link { used: Instant::ZERO, before: NONE, next: NONE, worth: None };

/// How many flows are looked at for one to make room.
const LOOKS: usize = 8;

impl Ranks {
    /// For `capacity` places.
    pub(super) fn new(capacity: usize) -> Self {
        Self { links: Vec::with_capacity(capacity), queues: [EMPTY; KINDS], capacity }
    }

    /// Bytes of one for `capacity` places.
    pub(super) fn memory_len(capacity: usize) -> usize {
        capacity * size_of::<Link>()
    }

    /// A place that was not in use before, behind the last.
    pub(super) fn push(&mut self) {
        self.links.push(UNQUEUED);
    }

    /// The flow at `place` is worth this, last used at `used`.
    pub(super) fn set(&mut self, place: u32, worth: Worth, used: Instant) {
        if self.links[place as usize].worth != Some(worth) {
            self.requeue(place, worth, used);
        }
    }

    /// There is no flow at `place` now.
    pub(super) fn remove(&mut self, place: u32) {
        let Link { before, next, worth, .. } = self.links[place as usize];
        let Some(worth) = worth else { return };
        let queue = &mut self.queues[worth as usize];
        queue.len -= 1;
        match self.links.get_mut(before as usize) {
            Some(before) => before.next = next,
            None => queue.oldest = next,
        }
        match self.links.get_mut(next as usize) {
            Some(next) => next.before = before,
            None => queue.newest = before,
        }
        self.links[place as usize].worth = None;
    }

    /// The flow to make room, with its kind; `None` where there is none.
    pub(super) fn least<V>(&mut self, flows: &[Flow<V>]) -> Option<(u32, Worth)> {
        let len = |worth: Worth| self.queues[worth as usize].len;
        let worth =
            Worth::ALL.into_iter().find(|worth| len(*worth) > worth.is_sure_of(self.capacity))?;
        let looked = self.oldest(worth);
        let last = |place: u32| flows[place as usize].last;
        let is_used = |own: &Self, place: u32| last(place) > own.links[place as usize].used;
        let (mut unused, mut count) = ([NONE; LOOKS], 0);
        for place in looked.into_iter().filter(|&place| place != NONE) {
            if is_used(self, place) {
                self.requeue(place, worth, last(place));
            } else {
                (unused[count], count) = (place, count + 1);
            }
        }
        let unused = &unused[..count];
        let Some(goes) = of_most(unused, flows) else {
            let looked = looked.into_iter().filter(|&place| place != NONE);
            return Some((looked.min_by_key(|&place| last(place))?, worth));
        };
        for &place in unused.iter().take_while(|&&place| place != goes) {
            self.requeue(place, worth, last(place));
        }
        Some((goes, worth))
    }

    /// The places that were queued longest ago, as far as there are any.
    fn oldest(&self, worth: Worth) -> [u32; LOOKS] {
        let mut next = self.queues[worth as usize].oldest;
        let mut places = [NONE; LOOKS];
        for place in &mut places {
            *place = next;
            next = self.links.get(next as usize).map_or(NONE, |link| link.next);
        }
        places
    }

    fn requeue(&mut self, place: u32, worth: Worth, used: Instant) {
        self.remove(place);
        let queue = &mut self.queues[worth as usize];
        queue.len += 1;
        let before = core::mem::replace(&mut queue.newest, place);
        match self.links.get_mut(before as usize) {
            Some(before) => before.next = place,
            None => queue.oldest = place,
        }
        self.links[place as usize] = Link { used, before, next: NONE, worth: Some(worth) };
    }
}

/// Of flows from the oldest on, the oldest of those of the client that has most of them.
fn of_most<V>(places: &[u32], flows: &[Flow<V>]) -> Option<u32> {
    let mut clients = [0; LOOKS];
    for (client, &place) in clients.iter_mut().zip(places) {
        *client = flows[place as usize].key.client();
    }
    let clients = clients.get(..places.len())?;
    let count = |at: usize| clients.iter().filter(|&&other| other == clients[at]).count();
    // Of several the first is the greatest that comes last.
    let at = (0..places.len()).rev().max_by_key(|&at| count(at))?;
    Some(places[at])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::connection::Connection;
    use super::super::key::Key;
    use super::*;

    /// What the module says, with flows in lists.
    #[derive(Default)]
    struct Model {
        /// By kind, as they were queued: which, and when it was last used before that.
        queues: [Vec<(u32, Instant)>; KINDS],
    }

    impl Model {
        fn remove(&mut self, place: u32) {
            self.queues.iter_mut().for_each(|queue| queue.retain(|one| one.0 != place));
        }

        fn set(&mut self, place: u32, worth: Worth, used: Instant) {
            if !self.queues[worth as usize].iter().any(|one| one.0 == place) {
                self.remove(place);
                self.queues[worth as usize].push((place, used));
            }
        }

        fn least(&mut self, capacity: usize, flows: &[Flow<()>]) -> Option<(u32, Worth)> {
            let gives = |worth: Worth| {
                let len = self.queues[worth as usize].len();
                let is_sure = !matches!(worth, Worth::Closed | Worth::WithData);
                len > if is_sure { capacity / 16 } else { 0 }
            };
            let worth = Worth::ALL.into_iter().find(|&worth| gives(worth))?;
            let queue = &mut self.queues[worth as usize];
            let last = |place: u32| flows[place as usize].last;
            let rest = queue.split_off(queue.len().min(8));
            let looked = core::mem::replace(queue, rest);
            let (used, unused): (Vec<_>, Vec<_>) =
                looked.iter().copied().partition(|&(place, used)| last(place) > used);
            let client = |place: u32| flows[place as usize].key.client();
            let count = |place| unused.iter().filter(|one| client(one.0) == client(place)).count();
            let most = unused.iter().map(|one| count(one.0)).max();
            let goes = unused.iter().position(|one| Some(count(one.0)) == most);
            let (older, younger) = unused.split_at(goes.unwrap_or(0));
            queue.splice(0..0, younger.iter().copied());
            queue.extend(used.iter().chain(older).map(|&(place, _)| (place, last(place))));
            let least = || looked.iter().map(|one| one.0).min_by_key(|&place| last(place));
            Some((younger.first().map(|one| one.0).or_else(least)?, worth))
        }
    }

    fn flow(client: u128) -> Flow<()> {
        Flow {
            key: Key::new(4, 6, [client, 9], 0),
            number: 1,
            started: Instant::ZERO,
            last: Instant::ZERO,
            packets: [0; 2],
            bytes: [0; 2],
            connection: Connection::NEW,
            vars: (),
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_model(
            capacity in 1..70_usize,
            steps in prop::collection::vec((any::<u32>(), 0..9_usize, 0..4_u128), 1..600),
        ) {
            let mut ranks = Ranks::new(capacity);
            let (mut model, mut flows) = (Model::default(), Vec::new());
            for _ in 0..capacity {
                ranks.push();
                flows.push(flow(0));
            }
            for (at, (place, what, client)) in steps.into_iter().enumerate() {
                let place = place % capacity as u32;
                let now = Instant::from_secs(at as u64 / 3);
                match what {
                    // A few get most, as with real traffic.
                    0..6 => {
                        let worth = Worth::ALL[what.min(place as usize % KINDS)];
                        let own = &mut flows[place as usize];
                        if !model.queues.iter().flatten().any(|one| one.0 == place) {
                            *own = flow(client);
                        }
                        own.last = now;
                        model.set(place, worth, now);
                        ranks.set(place, worth, now);
                    }
                    6 => flows[place as usize].last = now,
                    7 => {
                        model.remove(place);
                        ranks.remove(place);
                    }
                    _ => {
                        let goes = ranks.least(&flows);
                        prop_assert_eq!(goes, model.least(capacity, &flows));
                        if let Some((place, _)) = goes {
                            model.remove(place);
                            ranks.remove(place);
                        }
                    }
                }
            }
        }
    }
}
