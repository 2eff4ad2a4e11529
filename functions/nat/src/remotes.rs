//! Whom a binding has sent to: a few remotes for each binding, with the state of their connection.

use warpline_packet::wire::tcp;

use super::binding::{Binding, Upper};
use super::config::Dependence;
use warpline_rewrite::Endpoint;

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Remote {
    pub(super) address: u128,
    /// Until when it may send, in nanoseconds; 0 for an unused place.
    pub(super) expires: u64,
    pub(super) port: u16,
    pub(super) seen: u8,
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

/// A remote that is not its binding's first: two words of address, expiry, port and flags.
/// Unused places are zeros, whose memory was never touched.
pub(super) type Other = [u64; 4];

impl Remote {
    fn from_other([high, low, expires, rest]: Other) -> Self {
        let address = u128::from(high) << 64 | u128::from(low);
        Self { address, expires, port: rest as u16, seen: (rest >> 16) as u8 }
    }

    fn to_other(self) -> Other {
        let Self { address, expires, port, seen } = self;
        [(address >> 64) as u64, address as u64, expires, u64::from(port) | u64::from(seen) << 16]
    }
}

/// The remotes of a binding. The first lies in it. The others have places of their own, which are
/// read only once they are used.
pub(super) struct Remotes<'a> {
    pub(super) binding: &'a mut Binding,
    /// Where the binding is of IPv6.
    pub(super) upper: Option<&'a mut Upper>,
    pub(super) others: &'a mut [Other],
}

impl Remotes<'_> {
    fn get(&self, at: usize) -> Remote {
        match at {
            0 => self.binding.first(self.upper.as_deref()),
            _ => Remote::from_other(self.others[at - 1]),
        }
    }

    fn set(&mut self, at: usize, remote: &Remote) {
        match at {
            0 => self.binding.set_first(self.upper.as_deref_mut(), remote),
            _ => {
                self.others[at - 1] = remote.to_other();
                self.binding.others = self.binding.others.max(at as u8);
            }
        }
    }

    /// Those that were used.
    fn used(&self) -> impl Iterator<Item = Remote> {
        (0..=usize::from(self.binding.others)).map(|at| self.get(at))
    }

    /// Whether the first is `remote`, and still remembered.
    #[inline]
    fn is_first(&self, remote: Endpoint, now: u64) -> bool {
        self.binding.sends_first_to(self.upper.as_deref(), remote, now)
    }

    fn position(&self, remote: Endpoint, now: u64) -> Option<usize> {
        let is =
            |r: Remote| r.expires > now && (r.address, r.port) == (remote.address, remote.port);
        if self.is_first(remote, now) { Some(0) } else { self.used().position(is) }
    }

    /// Whether `remote` may send to the binding at `now`.
    pub(super) fn permits(&self, remote: Endpoint, filtering: Dependence, now: u64) -> bool {
        let known = |port: bool| {
            let is = |r: &Remote| r.address == remote.address && (!port || r.port == remote.port);
            self.used().any(|r| r.expires > now && is(&r))
        };
        match filtering {
            Dependence::EndpointIndependent => true,
            Dependence::AddressDependent => known(false),
            Dependence::AddressAndPortDependent => known(true),
        }
    }

    /// The remote, remembered until `expires`. Where there is no room, the one that would end first
    /// makes it.
    #[inline]
    pub(super) fn remember(&mut self, remote: Endpoint, now: u64, expires: u64) {
        if self.is_first(remote, now) {
            self.binding.keep_first(expires);
        } else {
            self.remember_other(remote, now, expires);
        }
    }

    #[inline(never)]
    fn remember_other(&mut self, remote: Endpoint, now: u64, expires: u64) {
        let (at, own) = self.place(remote, now);
        self.set(at, &Remote { expires, ..own });
    }

    /// The place of a remote, and what lies there or will.
    fn place(&self, remote: Endpoint, now: u64) -> (usize, Remote) {
        if let Some(at) = self.position(remote, now) {
            return (at, self.get(at));
        }
        let Endpoint { address, port } = remote;
        let new = Remote { address, expires: 0, port, seen: 0 };
        let ends = |own: Remote| if own.expires > now { own.expires } else { 0 };
        let first = self.used().map(ends).enumerate().min_by_key(|&(_, ends)| ends);
        let unused = usize::from(self.binding.others) + 1;
        match first {
            Some((at, ends)) if ends == 0 || unused > self.others.len() => (at, new),
            _ => (unused, new),
        }
    }

    /// Follows a TCP segment. Says whether any connection of the binding is established now;
    /// `None` where a segment came in from a remote that is not remembered.
    pub(super) fn follow(
        &mut self,
        remote: Endpoint,
        flags: u16,
        way: Way,
        times: SegmentTimes,
    ) -> Option<bool> {
        let now = times.now;
        let (at, mut own) = match way {
            Way::Out => self.place(remote, now),
            Way::In => self.position(remote, now).map(|at| (at, self.get(at)))?,
        };
        own.follow(flags, way);
        own.expires = if own.is_established() { times.established } else { times.transitory };
        self.set(at, &own);
        Some(self.used().any(|r| r.expires > now && r.is_established()))
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
    use super::super::binding::{Class, Outside};
    use super::super::key::Key;
    use super::*;
    use warpline_rewrite::Protocol;

    const TIMES: SegmentTimes = SegmentTimes { now: 10, established: 1000, transitory: 100 };

    fn at(port: u16) -> Endpoint {
        Endpoint { address: 7 << 100 | 7, port }
    }

    /// A new binding of IPv6.
    fn unused() -> (Binding, Upper) {
        let key = Key::of(6, Protocol::Tcp, at(1), at(0));
        let outside = Outside { version: 6, protocol: Protocol::Tcp, address: 0, port: 9 };
        (Binding::new(&key, &outside, Class::Transitory), Upper::of(&key))
    }

    /// Does something with the remotes of a new binding that has places for some others.
    fn with<R>(others: &mut [Other], work: impl FnOnce(Remotes<'_>) -> R) -> R {
        let (mut binding, mut upper) = unused();
        work(Remotes { binding: &mut binding, upper: Some(&mut upper), others })
    }

    #[test]
    fn a_connection_opens_and_closes() {
        for is_first in [true, false] {
            with(&mut [[0; 4]; 1], |mut remotes| {
                if !is_first {
                    remotes.remember(at(81), 10, 11);
                }
                let mut follow = |flags, way| remotes.follow(at(80), flags, way, TIMES);
                assert_eq!(follow(tcp::flags::SYN | tcp::flags::ACK, Way::In), None, "not sent to");
                assert_eq!(follow(tcp::flags::SYN, Way::Out), Some(false));
                assert_eq!(follow(tcp::flags::SYN | tcp::flags::ACK, Way::In), Some(true));
                let fin = tcp::flags::FIN | tcp::flags::ACK;
                assert_eq!(follow(fin, Way::In), Some(true), "half closed");
                assert_eq!(follow(fin, Way::Out), Some(false));
                assert_eq!(follow(tcp::flags::SYN, Way::Out), Some(false));
                assert_eq!(follow(tcp::flags::ACK, Way::In), Some(true), "anew");
                assert_eq!(follow(tcp::flags::RST, Way::In), Some(false));
                assert_eq!(follow(tcp::flags::ACK, Way::Out), Some(true), "the reset wasn't taken");
            });
        }
    }

    #[test]
    fn the_first_to_end_makes_room() {
        with(&mut [[0; 4]; 1], |mut remotes| {
            remotes.remember(at(1), 10, 100);
            remotes.remember(at(2), 10, 50);
            remotes.remember(at(3), 10, 60);
            let permits = |port| remotes.permits(at(port), Dependence::AddressAndPortDependent, 10);
            assert_eq!([1, 2, 3].map(permits), [true, false, true]);
            assert!(!remotes.permits(at(3), Dependence::AddressAndPortDependent, 60));
            assert!(remotes.permits(at(9), Dependence::AddressDependent, 60));
            assert!(remotes.permits(at(9), Dependence::EndpointIndependent, 600));
        });
    }

    #[test]
    fn places_that_were_never_used_count_for_nothing() {
        let left = Remote { address: at(5).address, expires: 99, port: 5, seen: INBOUND_SEEN };
        with(&mut [left.to_other(); 3], |mut remotes| {
            assert!(
                !remotes.permits(at(5), Dependence::AddressDependent, 10),
                "of an ended binding"
            );
            assert_eq!(remotes.follow(at(1), tcp::flags::SYN, Way::Out, TIMES), Some(false));
            remotes.remember(at(2), 10, 50);
            assert_eq!(remotes.binding.others, 1);
            assert_eq!(
                remotes.get(1),
                Remote { address: at(2).address, expires: 50, port: 2, seen: 0 }
            );
        });
    }

    /// In one plain list for each binding: port and expiry, by place.
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
            uses in proptest::collection::vec(
                (0..2_usize, 1..8_u16, 0..4_u64, 0..30_u64, 0..20_u8), 1..80),
        ) {
            let (new, upper) = unused();
            let (mut bindings, mut uppers) = ([new; 2], [upper; 2]);
            let mut others = [vec![[0; 4]; each - 1], vec![[0; 4]; each - 1]];
            let mut plain = Plain(vec![vec![(0, 0); each]; 2]);
            let mut now = 1;
            for (binding, port, later, lasts, kind) in uses {
                now += later;
                if kind == 0 {
                    (bindings[binding], uppers[binding]) = (new, upper);
                    plain.0[binding].fill((0, 0));
                }
                plain.remember(binding, port, now, now + lasts);
                for (number, places) in plain.0.iter().enumerate() {
                    let upper = Some(&mut uppers[number]);
                    let others = &mut others[number];
                    let mut own = Remotes { binding: &mut bindings[number], upper, others };
                    if number == binding {
                        own.remember(at(port), now, now + lasts);
                    }
                    let permits =
                        |port| own.permits(at(port), Dependence::AddressAndPortDependent, now);
                    let known = |port| places.iter().any(|&(own, ends)| own == port && ends > now);
                    for port in 1..8 {
                        proptest::prop_assert_eq!(permits(port), known(port));
                    }
                }
            }
        }
    }

    #[test]
    fn remotes_go_to_words_and_back() {
        let remote =
            Remote { address: u128::MAX - 5, expires: u64::MAX - 1, port: 0xfffe, seen: 0xf };
        assert_eq!(Remote::from_other(remote.to_other()), remote);
    }
}
