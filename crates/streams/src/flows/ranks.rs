//! Which flow makes room in a full table: the least valuable kind ([`Worth`]), and of that kind one
//! that was not used lately, of a client that has several.
//!
//! Each kind keeps a sixteenth of the places, except closed flows and the most valuable kind. The
//! first kind with more than its share makes room. So a flood of cheap packets (a datagram, a SYN)
//! takes only that share from flows that needed an answer or a handshake. And while the table is
//! full of one kind, others live long enough to become more.
//!
//! Within a kind the client with the most flows, to the power of two, loses its first queued one
//! ([`Shares`]). A client is an IPv4 address or an IPv6 network of 64 bits. A flow that was used
//! since it was queued is queued again, at most [`LOOKS`] times. So one client's flows push out
//! each other. Kinds without an answer count as one client, since their clients may be forged, and
//! so does TCP without data. A packet of a known flow does no work here.

use warpline_packet::Instant;

use super::table::Flow;
use warpline_tables::Shares;

/// The value of a flow, the least first.
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

/// Flows by place: in a queue for each kind and client, as they were queued.
pub(super) struct Ranks {
    shares: Shares,
    queued: Vec<Queued>,
    capacity: usize,
}

/// How a flow is queued.
#[derive(Clone, Copy)]
struct Queued {
    /// When it was last used before.
    used: Instant,
    worth: Option<Worth>,
}

/// How many flows are looked at for one to make room.
const LOOKS: usize = 8;

impl Ranks {
    /// For `capacity` places.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            shares: Shares::new(capacity, KINDS),
            queued: Vec::with_capacity(capacity),
            capacity,
        }
    }

    /// Bytes of one for `capacity` places.
    pub(super) fn memory_len(capacity: usize) -> usize {
        capacity * size_of::<Queued>() + Shares::memory_len(capacity)
    }

    /// Sets the value of the flow at `place`, which may be one after the last; `client` began it,
    /// and it was last used at `used`.
    pub(super) fn set(&mut self, place: u32, worth: Worth, client: u64, used: Instant) {
        let queued = Queued { used, worth: Some(worth) };
        match self.queued.get_mut(place as usize) {
            Some(own) if own.worth == queued.worth => return,
            Some(own) => *own = queued,
            None => self.queued.push(queued),
        }
        self.shares.remove(place);
        let is_by_client = matches!(worth, Worth::Answered | Worth::WithData);
        self.shares.add(place, (worth as u8, if is_by_client { client } else { 0 }));
    }

    /// There is no flow at `place` now.
    pub(super) fn remove(&mut self, place: u32) {
        self.queued[place as usize].worth = None;
        self.shares.remove(place);
    }

    /// The flow to make room, with its kind; `None` where there is none.
    pub(super) fn least<V>(&mut self, flows: &[Flow<V>]) -> Option<(u32, Worth)> {
        let len = |worth: Worth| self.shares.len(worth as u8);
        let worth =
            Worth::ALL.into_iter().find(|worth| len(*worth) > worth.is_sure_of(self.capacity))?;
        let mut least: Option<(Instant, u32)> = None;
        for _ in 0..LOOKS {
            let place = self.shares.first(worth as u8)?;
            let last = flows[place as usize].last;
            if last <= self.queued[place as usize].used {
                return Some((place, worth));
            }
            self.queued[place as usize].used = last;
            self.shares.renew(place);
            if least.is_none_or(|(before, _)| last < before) {
                least = Some((last, place));
            }
        }
        least.map(|(_, place)| (place, worth))
    }
}

#[cfg(test)]
mod tests {
    use super::super::connection::Connection;
    use super::super::key::Key;
    use super::*;

    fn flow(client: u128, last: u64) -> Flow<()> {
        Flow {
            key: Key::new(4, 6, [client, 9], 0),
            number: 1,
            started: Instant::ZERO,
            last: Instant::from_secs(last),
            packets: [0; 2],
            bytes: [0; 2],
            connection: Connection::NEW,
            vars: (),
        }
    }

    /// The order in which flows of this value make room, each with its client, and when it was
    /// queued and last used.
    fn order(capacity: usize, flows: &[(Worth, u128, u64, u64)]) -> Vec<u32> {
        let mut ranks = Ranks::new(capacity);
        for (place, &(worth, client, queued, _)) in (0..).zip(flows) {
            ranks.set(place, worth, client as u64, Instant::from_secs(queued));
        }
        let flows: Vec<_> = flows.iter().map(|&(_, client, _, last)| flow(client, last)).collect();
        let next = || {
            let (place, _) = ranks.least(&flows)?;
            ranks.remove(place);
            Some(place)
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn the_least_valuable_flow_is_evicted_first() {
        let flows: Vec<_> = Worth::ALL.iter().rev().map(|&worth| (worth, 1, 0, 0)).collect();
        assert_eq!(order(15, &flows), [5, 4, 3, 2, 1, 0]);
    }

    #[test]
    fn each_kind_is_sure_of_a_sixteenth() {
        let data = vec![(Worth::WithData, 1, 0, 0); 28];
        let others = [Worth::Unanswered, Worth::Unanswered, Worth::HalfOpen, Worth::HalfOpen];
        let flows = [others.map(|worth| (worth, 1, 0, 0)).to_vec(), data].concat();
        let expected: Vec<u32> = (4..32).chain(0..0).collect();
        assert_eq!(order(32, &flows)[..28], expected);
        let more = [vec![(Worth::Unanswered, 1, 0, 0)], flows].concat();
        assert_eq!(order(32, &more)[..2], [0, 5]);
    }

    #[test]
    fn recently_used_flows_are_queued_again() {
        let kind = Worth::HalfOpen;
        let flows = [(kind, 1, 0, 5), (kind, 2, 1, 1), (kind, 3, 2, 4), (kind, 4, 3, 3)];
        assert_eq!(order(4, &flows), [1, 3, 0, 2]);
        // All were: the one that was used longest ago.
        let flows: Vec<_> = (0..20).map(|at| (kind, 1, at, 40 - at)).collect();
        assert_eq!(order(20, &flows)[0], 7);
    }

    #[test]
    fn the_client_with_most_goes_first() {
        let of = |client| (Worth::WithData, client, 0, 0);
        let flows = [1, 2, 3, 3, 4, 4, 4, 4].map(of);
        assert_eq!(order(8, &flows), [4, 2, 5, 6, 0, 1, 3, 7]);
    }
}
