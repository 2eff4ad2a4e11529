//! Full tables: cheap flows don't push out more valuable ones.

use warpline_packet::wire::ip_protocol::UDP;

use super::super::Limits;
use super::frames::{ACK, FIN, Frame, RST, SYN};
use super::{Listener, grew};

/// From another client than that of [`Listener::open`].
fn client(ports: [u16; 2]) -> Frame {
    Frame { ends: [3, 2], ports, ..Frame::to_server() }
}

fn back(frame: &Frame) -> Frame {
    let ([a, b], [c, d]) = (frame.ends, frame.ports);
    Frame { ends: [b, a], ports: [d, c], ..frame.clone() }
}

/// Flows that a host can make without an answer, and those that need one.
fn floods(ports: [u16; 2]) -> Vec<(&'static str, Vec<Frame>)> {
    let tcp = client(ports);
    let udp = Frame { protocol: UDP, ..tcp.clone() };
    let syn = tcp.flags(SYN);
    let answer = back(&tcp).ack(1).flags(SYN | ACK);
    let open = vec![syn.clone(), answer.clone(), tcp.seq(1).ack(1)];
    let data = [open.clone(), vec![tcp.seq(1).ack(1).data(b"GET /")]].concat();
    let reset = [data.clone(), vec![tcp.seq(6).ack(1).flags(RST)]].concat();
    let fin = [tcp.seq(6).ack(1), back(&tcp).seq(1).ack(7)].map(|frame| frame.flags(FIN | ACK));
    let ended = [data.clone(), fin.to_vec()].concat();
    vec![
        ("unanswered", vec![udp.data(b"a")]),
        ("unanswered", vec![tcp.clone()]),
        ("half-open", vec![syn.clone()]),
        ("half-open", vec![syn, answer]),
        ("answered", vec![udp.data(b"a"), back(&udp).data(b"b")]),
        ("answered", vec![tcp.clone(), back(&tcp)]),
        ("established", open),
        ("closed", reset),
        ("closed", ended),
        ("with-data", data),
    ]
}

/// The second half of a connection's data is joined with the first, whatever came between.
#[test]
fn connections_with_data_outlive_floods() {
    for (kind, _) in floods([0; 2]) {
        let mut listener = Listener::new(&Limits { flows: 64, ..Limits::default() });
        listener.open(0, 0);
        assert_eq!(listener.stream(&Frame::to_server().seq(1).ack(1).data(b"att")), grew(0, 3));
        for number in 0..1000_u16 {
            for (own, frames) in floods([1000 + number, 80]) {
                for frame in frames.iter().filter(|_| own == kind) {
                    listener.take(&frame.seconds(u64::from(number) / 50));
                }
            }
        }
        let last = Frame::to_server().seq(4).ack(1).data(b"ack").seconds(20);
        let (facts, _, window) = listener.seen(&last);
        assert_eq!((facts.packets[0], &window[..]), (4, &b"attack"[..]), "{kind}");
        let counters = listener.flows.counters();
        let mut evicted = 0;
        counters.visit(&mut |name, count| {
            if name == format!("flows-evicted-{kind}") {
                evicted = count;
            }
        });
        assert!(evicted > 900 && evicted == counters.flows_evicted, "{kind}: {counters:?}");
    }
}

/// A table full of connections with data leaves the others room to become such.
#[test]
fn new_connections_come_into_a_full_table() {
    let mut listener = Listener::new(&Limits { flows: 64, ..Limits::default() });
    for number in 0..200_u16 {
        let mut kinds = floods([1000 + number, 80]);
        let (_, data) = kinds.pop().expect("the last");
        for frame in &data {
            listener.take(frame);
        }
    }
    assert_eq!(listener.flows.counters().flows_evicted_with_data, 200 - 64);
    // Each is answered when three others came in between.
    let of = |number: u16| {
        let udp = Frame { protocol: UDP, ..client([9000 + number, 53]) };
        (udp.data(b"ask"), back(&udp).data(b"tell"))
    };
    for number in 0..100 {
        assert!(listener.take(&of(number).0).is_new);
        if number >= 3 {
            assert!(!listener.take(&of(number - 3).1).is_new, "{number}");
        }
    }
}

/// One client's connections push out each other, however many they are and however long they were
/// idle.
#[test]
fn one_client_does_not_push_out_the_others() {
    let mut listener = Listener::new(&Limits { flows: 256, ..Limits::default() });
    let open = |of: &Frame| {
        let data = of.seq(1).ack(1).data(b"GET /");
        [of.flags(SYN), back(of).ack(1).flags(SYN | ACK), of.seq(1).ack(1), data]
    };
    let other = |number: u8| Frame { ends: [number, 2], ..client([5000, 80]) };
    let others = || (10..110).map(other);
    for frame in others().flat_map(|of| open(&of)) {
        listener.take(&frame);
    }
    for number in 0..5000_u16 {
        for frame in open(&client([10_000 + number, 80])) {
            listener.take(&frame.seconds(1));
        }
    }
    let known = others().filter(|of| !listener.take(&of.seq(6).ack(1).seconds(2)).is_new).count();
    assert_eq!(known, 100);
}

/// Whose time is over makes room before any other, where one is found soon.
#[test]
fn expired_flows_make_room() {
    let mut listener = Listener::new(&Limits { flows: 2, ..Limits::default() });
    listener.take(&Frame { protocol: UDP, ..client([1, 2]) });
    listener.open(0, 0);
    listener.take(&Frame { protocol: UDP, ..client([3, 4]) }.seconds(30));
    let counters = listener.flows.counters();
    assert_eq!((counters.flows_expired, counters.flows_evicted), (1, 0));
}
