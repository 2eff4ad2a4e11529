//! Which packets belong to one flow, when it ends, and its reported facts.

use core::time::Duration;

use warpline_packet::Instant;
use warpline_packet::wire::ip_protocol;

use super::super::{Direction, FlowSlot, Limits, Stream};
use super::frames::{ACK, FIN, Frame, RST, SYN};
use super::{Listener, grew};

fn limits(flows: usize) -> Limits {
    Limits { flows, ..Limits::default() }
}

/// A name, where the place is one.
fn id(listener: &Listener, place: Option<FlowSlot>) -> Option<u64> {
    place.map(|place| listener.flows.id(place))
}

#[test]
fn both_directions_are_one_flow() {
    for version in [4, 6] {
        for protocol in [ip_protocol::TCP, ip_protocol::UDP, 47] {
            let of = |frame: Frame| Frame { version, protocol, ..frame }.data(b"data");
            let mut listener = Listener::new(&limits(4));
            let first = listener.take(&of(Frame::to_server()));
            assert!(first.is_new && first.is_first_of_direction && !first.is_established);
            let name = id(&listener, first.place);
            let back = listener.take(&of(Frame::to_client()));
            assert_eq!(back.direction, Direction::ToClient);
            assert!(!back.is_new && back.is_first_of_direction);
            assert_eq!(back.is_established, protocol != ip_protocol::TCP);
            assert_eq!(id(&listener, back.place), name);
            let again = listener.take(&of(Frame::to_server()).seconds(1));
            assert!(!again.is_first_of_direction && again.direction == Direction::ToServer);
            let facts = listener.flows.facts(again.place.expect("a flow"));
            assert_eq!((facts.packets, facts.last), ([2, 1], Instant::from_secs(1)));
            let other = listener.take(&of(Frame { ends: [1, 3], ..Frame::to_server() }));
            assert!(other.is_new && id(&listener, other.place) != name);
            assert_eq!((listener.flows.len(), listener.flows.counters().flows), (2, 2));
        }
    }
}

#[test]
fn data_of_the_caller_are_removed_with_the_flow() {
    let mut listener = Listener::new(&limits(2));
    listener.open(0, 0);
    let tracked = listener.take(&Frame::to_server().seq(1).ack(1).data(b"ab"));
    assert_eq!(tracked.stream, grew(0, 2));
    let place = tracked.place.expect("a flow");
    *listener.flows.vars(place) = 7;
    let (window, vars) = listener.flows.window_and_vars(place, tracked.direction);
    assert_eq!((window.bytes, *vars), (&b"ab"[..], 7));
    let other = listener.take(&Frame::to_server().port(9)).place.expect("a flow");
    assert_eq!(*listener.flows.vars(other), 0);
}

#[test]
fn echoes_and_errors() {
    let icmp = |from: Frame, kind| Frame { protocol: ip_protocol::ICMP, ports: [kind, 0], ..from };
    let mut listener = Listener::new(&limits(8));
    let request = listener.take(&icmp(Frame::to_server(), 8));
    let reply = listener.take(&icmp(Frame::to_client(), 0));
    assert_eq!(id(&listener, request.place), id(&listener, reply.place));
    assert!(reply.is_established && reply.direction == Direction::ToClient);
    // An error about a client's packet goes to the client, from whomever it comes.
    let sent = Frame { protocol: ip_protocol::UDP, ..Frame::to_server() };
    let flow = listener.take(&sent);
    let error = |quoted: &Frame| {
        Frame { ends: [9, 1], ..icmp(Frame::to_server(), 3) }.data(&quoted.bytes())
    };
    let found = listener.take(&error(&sent));
    assert_eq!(id(&listener, found.place), id(&listener, flow.place));
    assert_eq!(found.direction, Direction::ToClient);
    assert!(!found.is_new && !found.is_first_of_direction && !found.is_established);
    // About a packet that was never seen.
    let found = listener.take(&error(&Frame { ports: [1, 2], ..sent }));
    assert_eq!((found.place, listener.flows.counters().packets_without_flow), (None, 1));
}

#[test]
fn packets_without_a_flow() {
    let frame = Frame::to_server();
    let bytes = frame.bytes();
    assert!(frame.packet(&bytes).is_some());
    assert!(frame.packet(&bytes[..30]).is_none(), "no whole TCP header");
    let mut fragment = bytes.clone();
    fragment[6] = 0x20;
    assert!(frame.packet(&fragment).is_none());
    let mut other = bytes;
    other[0] = 0x15;
    assert!(frame.packet(&other).is_none(), "not IP");
    assert_eq!(Listener::new(&limits(0)).take(&frame).place, None);
}

#[test]
fn flows_are_over() {
    let udp = |frame: Frame| Frame { protocol: ip_protocol::UDP, ..frame };
    let end = |flags| Frame::to_server().seq(1).ack(1).flags(flags);
    let open =
        [Frame::to_server().flags(SYN), Frame::to_client().ack(1).flags(SYN | ACK), end(ACK)];
    let both =
        [open.to_vec(), vec![end(FIN | ACK), Frame::to_client().seq(1).ack(2).flags(FIN | ACK)]];
    let reset = [open.to_vec(), vec![end(RST)]];
    let cases = [
        (vec![udp(Frame::to_server())], 30),
        (vec![udp(Frame::to_server()), udp(Frame::to_client())], 300),
        (open[..2].to_vec(), 60),
        (open.to_vec(), 600),
        (both.concat(), 60),
        (reset.concat(), 60),
    ];
    for (frames, seconds) in cases {
        for (wait, is_new) in [(seconds - 1, false), (seconds, true)] {
            let mut listener = Listener::new(&limits(2));
            for frame in &frames {
                listener.take(frame);
            }
            let last = frames[0].clone().flags(ACK).seconds(wait);
            assert_eq!(listener.take(&last).is_new, is_new, "{seconds}: {frames:?}");
            assert_eq!(listener.flows.counters().flows_expired, u64::from(is_new));
            // And without a packet of its own.
            let mut listener = Listener::new(&limits(2));
            for frame in &frames {
                listener.take(frame);
            }
            (0..4).for_each(|_| listener.flows.handle_timeout(Instant::from_secs(wait)));
            assert_eq!(listener.flows.is_empty(), is_new);
        }
    }
    let never = Duration::MAX;
    let mut limits = limits(1);
    limits.timeouts.udp.new = never;
    let mut listener = Listener::new(&limits);
    listener.take(&udp(Frame::to_server()));
    listener.flows.handle_timeout(Instant::MAX);
    assert_eq!(listener.flows.len(), 1);
}

#[test]
fn a_sweep_visits_one_flow_in_four() {
    let mut listener = Listener::new(&limits(64));
    for port in 0..40 {
        listener.take(&Frame { protocol: ip_protocol::UDP, ..Frame::to_server().port(port) });
    }
    listener.flows.handle_timeout(Instant::from_secs(30));
    assert_eq!(listener.flows.len(), 30);
}

/// Places that a flood left empty do not delay the end of the flows after them.
#[test]
fn four_sweeps_visit_all_flows_after_a_flood() {
    let mut listener = Listener::new(&limits(64));
    let datagram = |port| Frame { protocol: ip_protocol::UDP, ..Frame::to_server().port(port) };
    for port in 0..40 {
        listener.take(&datagram(port).seconds(if port < 38 { 0 } else { 100 }));
    }
    (0..4).for_each(|_| listener.flows.handle_timeout(Instant::from_secs(101)));
    assert_eq!(listener.flows.len(), 2);
    (0..4).for_each(|_| listener.flows.handle_timeout(Instant::from_secs(200)));
    assert_eq!(listener.flows.len(), 0);
}

/// A name is of who talks to whom, when that began, and the seed.
#[test]
fn names_tell_flows_apart() {
    let mut names = std::collections::BTreeSet::new();
    let frames = [
        Frame::to_server(),
        Frame::to_server().port(7),
        Frame { ends: [1, 3], ..Frame::to_server() },
        Frame { protocol: ip_protocol::UDP, ..Frame::to_server() },
        Frame { version: 6, ..Frame::to_server() },
        Frame { nanos: 1000, ..Frame::to_server() },
    ];
    for seed in [0, 5] {
        for frame in &frames {
            let of = || {
                let flows = super::Flows::new(&limits(4), warpline_packet::Seed::new(seed));
                let mut listener = Listener { flows };
                let place = listener.take(frame).place;
                id(&listener, place).expect("a flow")
            };
            assert_eq!(of(), of());
            assert!(of() < 1 << 53 && names.insert(of()), "{frame:?}");
        }
    }
}

#[test]
fn ports_are_used_again() {
    for reset in [false, true] {
        let mut listener = Listener::new(&limits(2));
        listener.open(100, 500);
        let syn = Frame::to_server().seq(7000).flags(SYN).seconds(1);
        let first = listener.take(&Frame::to_server().seq(101).ack(501).data(b"a"));
        let name = id(&listener, first.place);
        assert_eq!(listener.stream(&syn), Stream::Refused(super::super::Why::Handshake));
        if reset {
            listener.take(&Frame::to_server().seq(102).ack(501).flags(RST));
        } else {
            listener.take(&Frame::to_server().seq(102).ack(501).flags(FIN | ACK));
            listener.take(&Frame::to_client().seq(501).ack(103).flags(FIN | ACK));
        }
        let next = listener.take(&syn);
        assert!(next.is_new && id(&listener, next.place) != name);
        listener.open(7000, 8000);
        let data = Frame::to_server().seq(7001).ack(8001).data(b"b");
        assert_eq!(listener.stream(&data), grew(0, 1));
        assert_eq!(listener.flows.counters().flows_reused, 1);
    }
}

/// The longest idle makes room, and its memory is free again.
#[test]
fn a_full_table() {
    let mut listener = Listener::new(&limits(3));
    let of = |port: u16| Frame::to_server().port(port);
    for (second, port) in [1_u16, 2, 3, 1, 4, 1].into_iter().enumerate() {
        listener.take(&of(port).seconds(second as u64));
    }
    // The second was idle for longest, then the third.
    assert!(!listener.take(&of(3).seconds(9)).is_new);
    assert!(listener.take(&of(2).seconds(10)).is_new);
    let counters = listener.flows.counters();
    assert_eq!((counters.flows, counters.flows_evicted, listener.flows.len()), (5, 2, 3));
}
