//! TCP by its numbers: forged segments are dropped, and the binding lives on.

use warpline_testkit::frames::Body;

use super::model::{assert_sent, dropped};
use super::*;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// The next numbers of both ends after the handshake, without data.
const INSIDE: u32 = 1001;
const REMOTE: u32 = 7001;

/// A connection from an inside host.
struct Connection {
    nat: Harness,
    inside: (IpAddr, u16),
    remote: (IpAddr, u16),
    outside: (IpAddr, u16),
}

impl Connection {
    /// After its handshake.
    fn new(keys: &str, v6: bool) -> Self {
        let (host, remote) =
            if v6 { ("fd00::1", "2001:db8:f::1") } else { ("10.0.0.1", "198.51.100.1") };
        let (inside, remote) = ((ip(host), 5000), (ip(remote), 443));
        let mut own = Self { nat: nat(keys), inside, remote, outside: inside };
        let left = own.out(SYN, INSIDE - 1, 0);
        let (at, port) = if v6 { (22..38, 54) } else { (26..30, 34) };
        let address = match v6 {
            true => <[u8; 16]>::try_from(&left.bytes[at]).unwrap().into(),
            false => <[u8; 4]>::try_from(&left.bytes[at]).unwrap().into(),
        };
        own.outside = (address, u16::from_be_bytes([left.bytes[port], left.bytes[port + 1]]));
        own.passes_in(SYN | ACK, REMOTE - 1, INSIDE);
        own.passes_out(ACK, INSIDE, REMOTE);
        own
    }

    fn segment(
        src: (IpAddr, u16),
        dst: (IpAddr, u16),
        flags: u8,
        (seq, ack): (u32, u32),
    ) -> Datagram {
        let body = Body::Tcp { src: src.1, dst: dst.1, flags };
        Datagram::new(src.0, dst.0, body).with(&[]).numbered(seq, ack)
    }

    fn out(&mut self, flags: u8, seq: u32, ack: u32) -> Outcome {
        sent(&mut self.nat, 1, &Self::segment(self.inside, self.remote, flags, (seq, ack)))
    }

    fn came(&mut self, flags: u8, seq: u32, ack: u32) -> Outcome {
        sent(&mut self.nat, 1, &Self::segment(self.remote, self.outside, flags, (seq, ack)))
    }

    fn passes_out(&mut self, flags: u8, seq: u32, ack: u32) {
        let expected = Self::segment(self.outside, self.remote, flags, (seq, ack));
        assert_sent(&self.out(flags, seq, ack), &expected);
    }

    fn passes_in(&mut self, flags: u8, seq: u32, ack: u32) {
        let expected = Self::segment(self.remote, self.inside, flags, (seq, ack));
        assert_sent(&self.came(flags, seq, ack), &expected);
    }

    /// Whether the binding is there after `idle` seconds without a packet.
    fn lasts(&mut self, idle: u64) -> bool {
        tick(&mut self.nat, 2 + idle);
        self.nat.counter("bindings") == 1
    }
}

#[test]
fn a_blind_reset_is_dropped_and_the_connection_lives() {
    for v6 in [false, true] {
        let mut own = Connection::new("", v6);
        for seq in [REMOTE - 1, REMOTE + 100_000, REMOTE.wrapping_add(1 << 31), 0] {
            assert_eq!(dropped(&own.came(RST, seq, 0)), Some("invalid"), "{seq}");
        }
        assert_eq!(dropped(&own.out(RST, INSIDE + 100_000, 0)), Some("invalid"));
        assert_eq!(own.nat.counter("out-of-window"), 5);
        own.passes_in(ACK, REMOTE, INSIDE);
        own.passes_out(ACK, INSIDE, REMOTE);
        assert!(own.lasts(7439));
    }
}

#[test]
fn the_expected_reset_closes() {
    let mut own = Connection::new("", false);
    own.passes_in(RST, REMOTE, 0);
    assert!(own.lasts(239));
    assert!(!own.lasts(240));
}

/// RFC 5961, 3.2: the end answers a reset in its window whose number is not the expected one.
#[test]
fn a_reset_in_the_window_leaves_an_end_that_answers() {
    let mut own = Connection::new("", false);
    own.passes_in(RST, REMOTE + 10, 0);
    own.passes_out(ACK, INSIDE, REMOTE);
    assert!(own.lasts(7439), "it lives");
    let mut own = Connection::new("", false);
    own.passes_in(RST, REMOTE + 10, 0);
    assert!(!own.lasts(240), "no end answers");
}

#[test]
fn both_ends_close() {
    let mut own = Connection::new("", false);
    own.passes_in(FIN | ACK, REMOTE, INSIDE);
    own.passes_out(FIN | ACK, INSIDE, REMOTE + 1);
    own.passes_in(ACK, REMOTE + 1, INSIDE + 1);
    assert!(!own.lasts(240));
    let mut own = Connection::new("", false);
    own.passes_in(FIN | ACK, REMOTE, INSIDE);
    assert!(own.lasts(7439), "half closed");
}

#[test]
fn data_outside_the_windows_is_dropped() {
    let mut own = Connection::new("", false);
    assert_eq!(dropped(&own.came(ACK, REMOTE + 200_000, INSIDE)), Some("invalid"));
    assert_eq!(dropped(&own.came(ACK, REMOTE, INSIDE + 9)), Some("invalid"), "of unsent data");
    assert_eq!(dropped(&own.out(ACK, INSIDE + 200_000, REMOTE)), Some("invalid"));
    let mut own = Connection::new("tcp_window = \"liberal\"", false);
    own.passes_in(ACK, REMOTE + 200_000, INSIDE);
    assert_eq!(dropped(&own.came(RST, REMOTE - 1, 0)), Some("invalid"), "resets are checked");
}

#[test]
fn contradictory_flags_open_nothing() {
    let mut nat = nat("");
    for flags in [0, FIN, SYN | FIN, SYN | RST, FIN | RST, 0x3f] {
        let ends = ((ip("10.0.0.1"), 5000), (ip("198.51.100.1"), 443));
        let packet = Connection::segment(ends.0, ends.1, flags, (1, 1));
        assert_eq!(dropped(&sent(&mut nat, 1, &packet)), Some("invalid"), "{flags:02x}");
    }
    assert_eq!(nat.counter("created"), 0);
}

/// A binding keeps the connections of several remotes apart.
#[test]
fn each_remote_has_a_conversation_of_its_own() {
    let mut own = Connection::new("filtering = \"endpoint-independent\"", false);
    let (inside, outside) = (own.inside, own.outside);
    let remotes: Vec<_> = (2..9).map(|host| (ip(&format!("198.51.100.{host}")), 80)).collect();
    let base = |at: usize| 100_000 * (1 + at as u32);
    let expect = |own: &mut Connection, src, dst, flags, numbers, expected: Option<&str>| {
        let out = sent(&mut own.nat, 1, &Connection::segment(src, dst, flags, numbers));
        assert_eq!(dropped(&out), expected, "{src:?} {dst:?} {flags:02x} {numbers:?}");
    };
    for (at, &remote) in remotes.iter().enumerate() {
        expect(&mut own, inside, remote, SYN, (base(at), 0), None);
        expect(&mut own, remote, outside, SYN | ACK, (50 + base(at), base(at) + 1), None);
        expect(&mut own, inside, remote, ACK, (base(at) + 1, base(at) + 51), None);
    }
    for (at, &remote) in remotes.iter().enumerate() {
        let next = base((at + 1) % remotes.len());
        expect(&mut own, remote, outside, RST, (next + 51, 0), Some("invalid"));
        expect(&mut own, remote, outside, ACK, (base(at) + 51, base(at) + 1), None);
    }
    // A remote that the binding never sent to has no part in any of them.
    expect(&mut own, (ip("192.0.2.77"), 1), outside, RST, (1, 0), None);
    own.passes_in(ACK, REMOTE, INSIDE);
    assert!(own.lasts(7439));
}

/// A forwarded connection is tracked from its first segment.
#[test]
fn forwarded_connections_are_tracked() {
    let mut nat = nat("forwards = [\"tcp 203.0.113.1 80 to 10.0.0.5 8080\"]");
    let (remote, outside) = ((ip("198.51.100.1"), 5000), (ip("203.0.113.1"), 80));
    let inside = (ip("10.0.0.5"), 8080);
    for (src, dst, flags, numbers, expected) in [
        (remote, outside, FIN | ACK, (1, 1), Some("no-binding")),
        (remote, outside, SYN, (1, 0), None),
        (remote, outside, ACK, (2, 9), Some("invalid")),
        (inside, remote, SYN | ACK, (8, 2), None),
        (remote, outside, ACK, (2, 9), None),
        (remote, outside, RST, (90_000, 0), Some("invalid")),
        (inside, remote, RST, (90_000, 0), Some("invalid")),
        (inside, remote, ACK, (9, 2), None),
    ] {
        let out = sent(&mut nat, 1, &Connection::segment(src, dst, flags, numbers));
        assert_eq!(dropped(&out), expected, "{src:?} {flags:02x} {numbers:?}");
    }
    tick(&mut nat, 7440);
    assert_eq!(nat.counter("bindings"), 1);
    let reset = Connection::segment(remote, outside, RST, (2, 0));
    assert_eq!(dropped(&sent(&mut nat, 7440, &reset)), None);
    tick(&mut nat, 7440 + 242);
    assert_eq!(nat.counter("bindings"), 0);
}

/// The answer to a connection that an allowed stranger opens is picked up.
#[test]
fn a_stranger_opens_where_any_may() {
    let mut own = Connection::new("filtering = \"endpoint-independent\"", false);
    let (inside, outside, remote) = (own.inside, own.outside, (ip("192.0.2.9"), 99));
    for (src, dst, flags, numbers) in [
        (remote, outside, SYN, (1, 0)),
        (inside, remote, SYN | ACK, (8, 2)),
        (remote, outside, ACK, (2, 9)),
        (inside, remote, ACK, (9, 2)),
    ] {
        let out = sent(&mut own.nat, 1, &Connection::segment(src, dst, flags, numbers));
        assert_eq!(dropped(&out), None, "{src:?} {flags:02x}");
    }
    let reset = Connection::segment(remote, outside, RST, (1, 0));
    assert_eq!(dropped(&sent(&mut own.nat, 1, &reset)), Some("invalid"));
}
