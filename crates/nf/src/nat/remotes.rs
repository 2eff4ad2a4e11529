//! Whom a binding has sent to: a few remotes for each binding, with the state of their connection.

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
}

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

/// The remotes of all bindings of a shard, by the binding's number.
pub(super) struct Remotes {
    each: usize,
    all: Vec<Remote>,
}

impl Remotes {
    /// Room for `each` remotes of each of `bindings` bindings.
    pub(super) fn new(bindings: usize, each: usize) -> Self {
        Self { each, all: vec![Remote::default(); bindings * each] }
    }

    fn of(&self, binding: u32) -> &[Remote] {
        &self.all[binding as usize * self.each..][..self.each]
    }

    /// Asks for the remotes of a binding.
    #[inline]
    pub(super) fn fetch(&self, binding: u32) {
        self.of(binding).iter().for_each(prefetch);
    }

    fn of_mut(&mut self, binding: u32) -> &mut [Remote] {
        &mut self.all[binding as usize * self.each..][..self.each]
    }

    /// Forgets those of a binding that was made anew.
    pub(super) fn clear(&mut self, binding: u32) {
        self.of_mut(binding).fill(Remote::default());
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
            self.of(binding).iter().any(|r| r.expires > now && is(r))
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
        let remotes = self.of_mut(binding);
        let same = |r: &Remote| (r.address, r.port) == (remote.address, remote.port);
        let known = remotes.iter().position(|r| r.expires > now && same(r));
        let at = known.unwrap_or_else(|| {
            let ends =
                |&at: &usize| if remotes[at].expires > now { remotes[at].expires } else { 0 };
            let at = (0..remotes.len()).min_by_key(ends).unwrap_or(0);
            let Endpoint { address, port } = remote;
            remotes[at] = Remote { address, port, expires: 0, seen: 0 };
            at
        });
        &mut remotes[at]
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
            Way::In => self.of_mut(binding).iter_mut().find(|r| {
                r.expires > now && (r.address, r.port) == (remote.address, remote.port)
            })?,
        };
        place.follow(flags, way);
        place.expires = if place.is_established() { times.established } else { times.transitory };
        Some(self.of(binding).iter().any(|r| r.expires > now && r.is_established()))
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
}
