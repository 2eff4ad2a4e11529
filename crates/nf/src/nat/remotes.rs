//! Whom a binding has sent to: a few remotes for each binding, with the state of their connection.
//!
//! Most bindings have one remote, so the first of each lies apart, two in a cache line. The others are read only where
//! there are some.

use warpline_packet::prefetch;
use warpline_packet::wire::tcp;

use super::addresses::Endpoint;
use super::config::Dependence;

/// What was seen of a TCP connection.
const INBOUND_SEEN: u8 = 1;
const FIN_OUT: u8 = 2;
const FIN_IN: u8 = 4;
const RESET: u8 = 8;

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Out,
    In,
}

/// A remote that a binding has sent to.
#[derive(Clone, Copy, Default)]
pub(super) struct Remote {
    address: u128,
    /// Until when it may send, in nanoseconds; 0 for an unused place.
    expires: u64,
    port: u16,
    seen: u8,
    /// In the first place of a binding: how many others were used since the binding was made.
    others: u8,
}

const _: () = assert!(size_of::<Remote>() == 32);

impl Remote {
    /// Whether packets went both ways and the connection was not closed since.
    fn is_established(&self) -> bool {
        let closed = self.seen & (FIN_OUT | FIN_IN) == FIN_OUT | FIN_IN;
        self.seen & (INBOUND_SEEN | RESET) == INBOUND_SEEN && !closed
    }

    /// Notes a segment that goes `way`.
    fn follow(&mut self, flags: u16, way: Way) {
        let has = |flag: u16| flags & flag != 0;
        match way {
            // A connection begins, or is answered, anew.
            Way::Out if has(tcp::flags::SYN) => self.seen = 0,
            // RFC 7857, 2.2: data after a reset show that it wasn't taken.
            Way::Out if !has(tcp::flags::RST) => self.seen &= !RESET,
            Way::In if !has(tcp::flags::RST) => self.seen |= INBOUND_SEEN,
            _ => {}
        }
        if has(tcp::flags::RST) {
            self.seen |= RESET;
        }
        if has(tcp::flags::FIN) {
            self.seen |= if way == Way::Out { FIN_OUT } else { FIN_IN };
        }
    }
}

/// The remotes of all bindings of a shard, by the binding's number. Places are used from the first on.
pub(super) struct Remotes {
    /// Places of a binding besides its first.
    others_each: usize,
    firsts: Vec<Remote>,
    others: Vec<Remote>,
}

impl Remotes {
    /// Room for `each` remotes, 1 to 64, of each of `bindings` bindings.
    pub(super) fn new(bindings: usize, each: usize) -> Self {
        let others_each = each.saturating_sub(1);
        let unused = |len| vec![Remote::default(); len];
        Self { others_each, firsts: unused(bindings), others: unused(bindings * others_each) }
    }

    /// The places of a binding that were used, in their order.
    fn of(&self, binding: u32) -> impl Iterator<Item = &Remote> {
        let first = &self.firsts[binding as usize];
        let others = &self.others[binding as usize * self.others_each..][..first.others.into()];
        core::iter::once(first).chain(others)
    }

    /// Place `at` of a binding.
    fn place_mut(&mut self, binding: u32, at: usize) -> &mut Remote {
        match at.checked_sub(1) {
            None => &mut self.firsts[binding as usize],
            Some(other) => &mut self.others[binding as usize * self.others_each + other],
        }
    }

    /// Asks for the first remote of a binding.
    #[inline]
    pub(super) fn fetch(&self, binding: u32) {
        self.firsts.get(binding as usize).into_iter().for_each(prefetch);
    }

    /// Forgets those of a binding that was made anew.
    pub(super) fn clear(&mut self, binding: u32) {
        self.firsts[binding as usize] = Remote::default();
    }

    /// Whether `remote` may send to the binding at `now`.
    pub(super) fn permits(
        &self,
        binding: u32,
        remote: Endpoint,
        filtering: Dependence,
        now: u64,
    ) -> bool {
        let known = |port: bool| {
            let is = |r: &Remote| r.address == remote.address && (!port || r.port == remote.port);
            self.of(binding).any(|r| r.expires > now && is(r))
        };
        match filtering {
            Dependence::EndpointIndependent => true,
            Dependence::AddressDependent => known(false),
            Dependence::AddressAndPortDependent => known(true),
        }
    }

    /// The remote, remembered until `expires`. Where there is no room, the one that would end first
    /// makes it.
    pub(super) fn remember(&mut self, binding: u32, remote: Endpoint, now: u64, expires: u64) {
        let place = self.place(binding, remote, now);
        place.expires = expires;
    }

    fn place(&mut self, binding: u32, remote: Endpoint, now: u64) -> &mut Remote {
        let at = self.position(binding, remote, now).unwrap_or_else(|| {
            let at = self.first_to_end(binding, now);
            let Endpoint { address, port } = remote;
            let first = &mut self.firsts[binding as usize];
            first.others = first.others.max(at as u8);
            let others = if at == 0 { first.others } else { 0 };
            *self.place_mut(binding, at) = Remote { address, port, others, ..Remote::default() };
            at
        });
        self.place_mut(binding, at)
    }

    /// The place of a remote that is remembered.
    fn position(&self, binding: u32, remote: Endpoint, now: u64) -> Option<usize> {
        let is = |r: &Remote| (r.address, r.port) == (remote.address, remote.port);
        self.of(binding).position(|r| r.expires > now && is(r))
    }

    /// The place for another remote: the first that is not in use, or else that of the one that would end first.
    fn first_to_end(&self, binding: u32, now: u64) -> usize {
        let ends = self.of(binding).map(|r| if r.expires > now { r.expires } else { 0 });
        let used = 1 + usize::from(self.firsts[binding as usize].others);
        let unused = (used <= self.others_each).then_some(0);
        let ends = ends.chain(unused).enumerate();
        ends.min_by_key(|&(_, ends)| ends).map_or(0, |(at, _)| at)
    }

    /// Follows a TCP segment. Says whether any connection of the binding is established now;
    /// `None` where a segment came in from a remote that is not remembered.
    pub(super) fn follow(
        &mut self,
        binding: u32,
        remote: Endpoint,
        flags: u16,
        way: Way,
        times: SegmentTimes,
    ) -> Option<bool> {
        let now = times.now;
        let place = match way {
            Way::Out => self.place(binding, remote, now),
            Way::In => {
                let at = self.position(binding, remote, now)?;
                self.place_mut(binding, at)
            }
        };
        place.follow(flags, way);
        place.expires = if place.is_established() { times.established } else { times.transitory };
        Some(self.of(binding).any(|r| r.expires > now && r.is_established()))
    }
}

/// The time of a segment, and until when its connection is remembered by what it is then, in
/// nanoseconds.
#[derive(Clone, Copy)]
pub(super) struct SegmentTimes {
    pub(super) now: u64,
    pub(super) established: u64,
    pub(super) transitory: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: SegmentTimes = SegmentTimes { now: 10, established: 1000, transitory: 100 };

    fn at(port: u16) -> Endpoint {
        Endpoint { address: 7, port }
    }

    #[test]
    fn a_connection_opens_and_closes() {
        let mut remotes = Remotes::new(2, 2);
        let mut follow = |flags, way| remotes.follow(1, at(80), flags, way, TIMES);
        assert_eq!(follow(tcp::flags::SYN | tcp::flags::ACK, Way::In), None, "not sent to yet");
        assert_eq!(follow(tcp::flags::SYN, Way::Out), Some(false));
        assert_eq!(follow(tcp::flags::SYN | tcp::flags::ACK, Way::In), Some(true));
        assert_eq!(follow(tcp::flags::FIN | tcp::flags::ACK, Way::In), Some(true), "half closed");
        assert_eq!(follow(tcp::flags::FIN | tcp::flags::ACK, Way::Out), Some(false));
        assert_eq!(follow(tcp::flags::SYN, Way::Out), Some(false));
        assert_eq!(follow(tcp::flags::ACK, Way::In), Some(true), "anew");
        assert_eq!(follow(tcp::flags::RST, Way::In), Some(false));
        assert_eq!(follow(tcp::flags::ACK, Way::Out), Some(true), "the reset wasn't taken");
    }

    #[test]
    fn the_first_to_end_makes_room() {
        let mut remotes = Remotes::new(1, 2);
        remotes.remember(0, at(1), 10, 100);
        remotes.remember(0, at(2), 10, 50);
        remotes.remember(0, at(3), 10, 60);
        let permits = |port| remotes.permits(0, at(port), Dependence::AddressAndPortDependent, 10);
        assert_eq!([1, 2, 3].map(permits), [true, false, true]);
        assert!(!remotes.permits(0, at(3), Dependence::AddressAndPortDependent, 60));
        assert!(remotes.permits(0, at(9), Dependence::AddressDependent, 60));
        assert!(remotes.permits(0, at(9), Dependence::EndpointIndependent, 600));
    }

    /// As [`Remotes`] says, in one plain list for each binding: port and expiry, by place.
    struct Plain(Vec<Vec<(u16, u64)>>);

    impl Plain {
        fn remember(&mut self, binding: usize, port: u16, now: u64, expires: u64) {
            let places = &mut self.0[binding];
            let known = places.iter().position(|&(own, ends)| own == port && ends > now);
            let mut at = known.unwrap_or(0);
            if known.is_none() {
                let ends = |place: usize| if places[place].1 > now { places[place].1 } else { 0 };
                for place in 1..places.len() {
                    if ends(place) < ends(at) {
                        at = place;
                    }
                }
            }
            places[at] = (port, expires);
        }
    }

    proptest::proptest! {
        /// The same remotes are known after any use, whatever the number of places.
        #[test]
        fn places_are_used_as_in_a_plain_list(
            each in 1..6_usize,
            uses in proptest::collection::vec((0..2_usize, 1..8_u16, 0..4_u64, 0..30_u64, 0..20_u8), 1..80),
        ) {
            let (mut remotes, mut plain) = (Remotes::new(2, each), Plain(vec![vec![(0, 0); each]; 2]));
            let mut now = 1;
            for (binding, port, later, lasts, kind) in uses {
                now += later;
                if kind == 0 {
                    remotes.clear(binding as u32);
                    plain.0[binding].fill((0, 0));
                }
                remotes.remember(binding as u32, at(port), now, now + lasts);
                plain.remember(binding, port, now, now + lasts);
                for (binding, places) in plain.0.iter().enumerate() {
                    let dependence = Dependence::AddressAndPortDependent;
                    let permits = |port| remotes.permits(binding as u32, at(port), dependence, now);
                    let known = |port| places.iter().any(|&(own, ends)| own == port && ends > now);
                    for port in 1..8 {
                        proptest::prop_assert_eq!(permits(port), known(port));
                    }
                }
            }
        }
    }
}
