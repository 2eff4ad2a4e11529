//! The table of neighbours without a kernel: views are published by the tests.

use std::net::IpAddr;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::time::Instant as Clock;

use warpline_packet::{Instant, LinkType};

use super::held::{HELD_MAX, LEN_MAX, OF_NEIGHBOUR_MAX};
use super::table::{ASK_EVERY, ASK_LEN, asked};
use super::view::{NeighbourEntry, Shared, View};
use super::*;
use crate::port::Frame;

const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

const WAITS: Hold = Hold::Waits { lost: 0 };

struct Lab {
    shared: Arc<Shared>,
    table: NeighbourTable,
    asked: UnixDatagram,
    /// The time, which stands still between steps of a test.
    now: Clock,
}

impl Lab {
    fn new() -> Self {
        let shared = Arc::<Shared>::default();
        let (asks, asked) = UnixDatagram::pair().unwrap();
        asks.set_nonblocking(true).unwrap();
        asked.set_nonblocking(true).unwrap();
        let table = NeighbourTable::new(&shared, asks);
        Self { shared, table, asked, now: Clock::now() }
    }

    /// Publishes neighbours of port 0: those that are known, and those that failed so often.
    fn publish(&mut self, known: &[(&str, bool)], failed: &[(&str, u64)]) -> Vec<Vec<u8>> {
        let machine = vec![address("10.0.0.1")];
        let mut view = View { own: vec![Some(OWN)], machine, ..View::default() };
        for (text, is_stale) in known {
            let entry = NeighbourEntry { mac: MAC, is_stale: (*is_stale).into() };
            view.known.insert((0, address(text)), entry);
        }
        view.failed.extend(failed.iter().map(|(text, count)| ((0, address(text)), *count)));
        self.shared.publish(view);
        let mut out = Vec::new();
        self.table.refresh(&mut |settled| match settled {
            Settled::Ready(frame) => out.push(frame.bytes.to_vec()),
            Settled::Lost => out.push(Vec::new()),
        });
        out
    }

    /// The neighbours that the follower was asked for.
    fn asked(&self) -> Vec<String> {
        let mut message = [0; ASK_LEN];
        let next = || {
            let len = self.asked.recv(&mut message).ok()?;
            assert_eq!(len, ASK_LEN);
            let (port, address) = asked(&message)?;
            Some(format!("{port} {address}"))
        };
        std::iter::from_fn(next).collect()
    }

    fn hold(&mut self, to: &str, number: u8) -> Hold {
        let bytes = [number; 60];
        self.table.hold_at(address(to), &frame(&bytes), self.now)
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn frame(bytes: &[u8]) -> Frame<'_> {
    let (timestamp, wire_len) = (Instant::ZERO, bytes.len() as u32);
    Frame { bytes, timestamp, wire_len, link: LinkType::ETHERNET, interface: 0 }
}

#[test]
fn packets_wait_for_their_neighbour_in_order() {
    let mut lab = Lab::new();
    assert!(lab.publish(&[("10.0.0.2", false)], &[]).is_empty());
    assert_eq!(lab.table.addresses(0, address("10.0.0.2")), Some((MAC, OWN)));
    for (to, port) in [("10.0.0.3", 0), ("10.0.0.2", 1)] {
        assert_eq!(lab.table.addresses(port, address(to)), None);
    }
    for (to, number) in [("10.0.0.3", 1), ("2001:db8::3", 2), ("10.0.0.3", 3)] {
        assert_eq!(lab.hold(to, number), WAITS);
    }
    assert_eq!(lab.hold("10.0.0.1", 1), Hold::ToMachine);
    assert_eq!(lab.asked(), ["0 10.0.0.3", "0 2001:db8::3"], "each is asked for once");
    lab.now += ASK_EVERY;
    assert_eq!(lab.hold("2001:db8::3", 4), WAITS);
    assert_eq!(lab.asked(), ["0 2001:db8::3"], "and again, as a question may be lost");
    let out = lab.publish(&[("10.0.0.3", false)], &[("10.0.0.99", 1)]);
    assert_eq!(out.len(), 2);
    for (bytes, number) in out.iter().zip([1, 3]) {
        assert_eq!(bytes[..12], [MAC, OWN].concat(), "addresses");
        assert_eq!(bytes[12..], [number; 48], "the rest stays");
    }
    assert_eq!(lab.publish(&[("2001:db8::3", false)], &[]).len(), 2);
}

#[test]
fn packets_to_a_silent_neighbour_are_lost() {
    let mut lab = Lab::new();
    assert!(lab.publish(&[], &[("10.0.0.3", 4)]).is_empty());
    assert_eq!(lab.hold("10.0.0.3", 1), WAITS);
    assert!(lab.publish(&[], &[("10.0.0.3", 4)]).is_empty(), "that failure was before");
    assert_eq!(lab.publish(&[], &[("10.0.0.3", 5)]), [Vec::<u8>::new()]);
    assert_eq!(lab.hold("10.0.0.4", 1), WAITS);
    let mut lost = 0;
    assert!(lab.table.give_up(&mut |settled| lost += u8::from(matches!(settled, Settled::Lost))));
    assert_eq!(lost, 1);
}

#[test]
fn room_for_held_packets_is_bounded() {
    let mut lab = Lab::new();
    for number in 0..OF_NEIGHBOUR_MAX {
        assert_eq!(lab.hold("10.0.0.3", number as u8), WAITS);
    }
    for number in 0..2 * OF_NEIGHBOUR_MAX {
        let held = lab.hold("10.0.0.3", number as u8);
        assert_eq!(held, Hold::Waits { lost: 1 }, "one neighbour leaves room for others");
    }
    assert_eq!(lab.asked(), ["0 10.0.0.3"]);
    lab.now += ASK_EVERY;
    assert_eq!(lab.hold("10.0.0.3", 99), Hold::Waits { lost: 1 });
    assert_eq!(lab.asked(), ["0 10.0.0.3"], "also while it has no room");
    assert_eq!(lab.table.hold(address("10.0.0.4"), &frame(&[0; LEN_MAX + 1])), Hold::Refused);
    let cut = Frame { wire_len: 61, ..frame(&[0; 60]) };
    assert_eq!(lab.table.hold(address("10.0.0.4"), &cut), Hold::Refused);
    for number in 0..HELD_MAX - OF_NEIGHBOUR_MAX {
        assert_eq!(lab.hold(&format!("10.0.1.{number}"), 0), WAITS);
    }
    assert_eq!(lab.hold("10.0.0.5", 0), Hold::Waits { lost: 1 }, "the oldest makes room");
    let out = lab.publish(&[("10.0.0.3", false)], &[]);
    assert_eq!((out.len(), out[out.len() - 1][12]), (OF_NEIGHBOUR_MAX - 1, 99), "the newest");
}

#[test]
fn addresses_of_the_chain_are_not_the_kernels() {
    let follower = match Follower::start(vec![Some("lo".into())], Vec::new()) {
        Ok(follower) => follower,
        Err(NotFollowed::NotPermitted) => return,
        Err(NotFollowed::Io(error)) => panic!("{error}"),
    };
    let (own, mut local) = (address("127.0.0.1"), follower.local());
    assert!(local.has(own) && !local.has(address("192.0.2.99")));
    let becomes = |local: &mut LocalAddresses, expected: bool| {
        (0..60_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            local.refresh();
            local.has(own) == expected
        })
    };
    let table = follower.table().unwrap();
    table.claim(vec![(address("127.0.0.0"), address("127.0.0.9"))]);
    assert!(becomes(&mut local, false));
    assert_eq!(follower.shared_addresses(), [own]);
    table.claim(Vec::new());
    assert!(becomes(&mut local, true));
}

#[test]
fn a_stale_neighbour_is_confirmed_once_it_is_used() {
    let mut lab = Lab::new();
    lab.publish(&[("10.0.0.2", true), ("10.0.0.3", true)], &[]);
    for _ in 0..3 {
        assert_eq!(lab.table.addresses(0, address("10.0.0.2")), Some((MAC, OWN)));
    }
    assert_eq!(lab.asked(), ["0 10.0.0.2"]);
}
