//! Packets from inside to inside by an outside address, through both places.

use warpline_testkit::frames::Body;
use warpline_verify::build_pair;

use super::model::{assert_sent, dropped};
use super::*;

const SYN: u8 = 2;
const ACK: u8 = 16;

const TABLE: &str = "inside = [\"10.0.0.0/8\"]\noutside = [\"203.0.113.1\"]\n\
    forwards = [\"tcp 203.0.113.1 80 to 10.0.0.5 8080\"]\n\
    one_to_one = [\"203.0.113.40 to 10.0.0.40\"]\n";

/// Both places of a translator.
struct Pair {
    first: Harness,
    second: Harness,
}

impl Pair {
    fn new() -> Self {
        let ([first, second], words) = build_pair(&DEFINITION, TABLE, Path::new("."));
        Self { first: Harness::new(first, words), second: Harness::new(second, words) }
    }

    /// The packet after both places, if the first lets it through.
    fn crosses(&mut self, datagram: &Datagram) -> Option<Outcome> {
        let input = Input::at(SECOND, &datagram.frame());
        let carried = self.first.pass(&[input.into()], 1);
        self.second.process_carried(&carried).pop()
    }

    fn sent(&mut self, datagram: &Datagram) -> Outcome {
        self.crosses(datagram).expect("the first place drops it")
    }

    fn passes(&mut self, datagram: &Datagram, expected: &Datagram) {
        assert_sent(&self.sent(datagram), expected);
    }
}

fn end(out: &Outcome, at: usize) -> u16 {
    assert_eq!(dropped(out), None);
    u16::from_be_bytes([out.bytes[at], out.bytes[at + 1]])
}

fn segment(src: (&str, u16), dst: (&str, u16), flags: u8, numbers: (u32, u32)) -> Datagram {
    let body = Body::Tcp { src: src.1, dst: dst.1, flags };
    Datagram::new(ip(src.0), ip(dst.0), body).numbered(numbers.0, numbers.1)
}

const OUTSIDE: &str = "203.0.113.1";

/// A connection of an inside host to a forwarded port, and errors about both directions.
#[test]
fn a_forwarded_port_is_reached_from_inside() {
    let mut pair = Pair::new();
    let (client, server, service) = (("10.0.0.7", 5000), ("10.0.0.5", 8080), (OUTSIDE, 80));
    let asks = segment(client, service, SYN, (1, 0));
    let port = end(&pair.sent(&asks), 34);
    let seen = segment((OUTSIDE, port), server, SYN, (1, 0));
    pair.passes(&asks, &seen);
    let answers = segment(server, (OUTSIDE, port), SYN | ACK, (1, 9));
    let told = segment(service, client, SYN | ACK, (1, 9));
    pair.passes(&answers, &told);
    // The server's error about the question, and one of a router beside it.
    for router in [server.0, "10.0.9.9"] {
        let mut expected = asks.error(ip(router), 48);
        expected.src = ip(OUTSIDE);
        pair.passes(&seen.error(ip(router), 48), &expected);
    }
    // The client's error about the answer.
    let mut expected = answers.error(ip(client.0), 48);
    expected.src = ip(OUTSIDE);
    pair.passes(&told.error(ip(client.0), 48), &expected);
    let strange = segment((OUTSIDE, port + 64), server, ACK, (1, 1)).error(ip(server.0), 48);
    assert!(pair.crosses(&strange).is_none(), "of no binding");
}

/// An echo to a host with an outside address of its own, the reply, and errors about both.
#[test]
fn a_mapped_host_answers_echoes_from_inside() {
    let mut pair = Pair::new();
    let (client, server, outside) = (ip("10.0.0.7"), ip("10.0.0.40"), ip("203.0.113.40"));
    let echo = |src, dst, reply, ident| {
        Datagram::new(src, dst, Body::Echo { reply, ident, seq: 1 }).with(&[7; 24])
    };
    let asks = echo(client, outside, false, 7);
    let ident = end(&pair.sent(&asks), 38);
    let seen = echo(ip(OUTSIDE), server, false, ident);
    pair.passes(&asks, &seen);
    let answers = echo(server, ip(OUTSIDE), true, ident);
    let told = echo(outside, client, true, 7);
    pair.passes(&answers, &told);
    let mut expected = asks.error(server, 48);
    expected.src = outside;
    pair.passes(&seen.error(server, 48), &expected);
    let mut expected = answers.error(client, 48);
    expected.src = ip(OUTSIDE);
    pair.passes(&told.error(client, 48), &expected);
    let to_none = echo(client, ip(OUTSIDE), false, 9);
    assert!(pair.crosses(&to_none).is_none(), "no host has this address");
}

/// A mapped host reaches another one's service, and each sees the other's outside address.
#[test]
fn a_mapped_host_reaches_a_forwarded_port() {
    let mut pair = Pair::new();
    let (client, server, service) = (("10.0.0.40", 5000), ("10.0.0.5", 8080), (OUTSIDE, 80));
    let asks = segment(client, service, SYN, (1, 0));
    let seen = segment(("203.0.113.40", 5000), server, SYN, (1, 0));
    pair.passes(&asks, &seen);
    let answers = segment(server, ("203.0.113.40", 5000), SYN | ACK, (1, 9));
    pair.passes(&answers, &segment(service, client, SYN | ACK, (1, 9)));
    let mut expected = asks.error(ip(server.0), 48);
    expected.src = ip(OUTSIDE);
    pair.passes(&seen.error(ip(server.0), 48), &expected);
}
