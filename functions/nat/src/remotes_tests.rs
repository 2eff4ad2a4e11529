//! Tests of the remotes of a binding.

use super::super::binding::{Class, Outside};
use super::super::key::Key;
use super::*;
use warpline_rewrite::Protocol;

fn at(port: u16) -> Endpoint {
    Endpoint { address: 7 << 100 | 7, port }
}

/// A new binding of IPv6.
fn unused() -> (Binding, Upper) {
    let key = Key::of(6, Protocol::Tcp, at(1), at(0));
    let remote = Endpoint::default();
    let outside = Outside { version: 6, protocol: Protocol::Tcp, address: 0, port: 9, remote };
    (Binding::new(&key, &outside, Class::Transitory), Upper::of(&key))
}

/// Does something with the remotes of a new binding that has places for some others.
fn with<R>(others: &mut [Other], work: impl FnOnce(Remotes<'_>) -> R) -> R {
    let (mut binding, mut upper) = unused();
    let mut conversations = Conversations::new(1, others.len());
    let (binding, upper) = (&mut binding, Some(&mut upper));
    work(Remotes { number: 0, binding, upper, others, conversations: &mut conversations })
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
    let left = Remote { address: at(5).address, expires: 99, port: 5, seen: ESTABLISHED };
    with(&mut [left.to_other([0; 4]); 3], |mut remotes| {
        assert!(!remotes.permits(at(5), Dependence::AddressDependent, 10), "of an ended binding");
        remotes.remember(at(1), 10, 100);
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
        let mut conversations = Conversations::new(2, 0);
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
                let mut own = Remotes {
                    number,
                    binding: &mut bindings[number],
                    upper,
                    others,
                    conversations: &mut conversations,
                };
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
    let remote = Remote { address: u128::MAX - 5, expires: u64::MAX - 1, port: 0xfffe, seen: 0xff };
    let words = remote.to_other([0, 0, 0, u64::MAX]);
    assert_eq!(Remote::from_other(words), remote);
    assert_eq!(words[3] >> 32, u64::from(u32::MAX), "the place keeps its conversation");
}
