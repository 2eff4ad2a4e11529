//! Flows one by one.

use super::traffic::{Body, Sent};
use super::*;
use crate::record::{Direction, End};
use warpline_nf::Cell;

const A: &str = "192.0.2.1";
const B: &str = "198.51.100.7";

fn tcp(millis: u64, forward: bool, flags: u8) -> Sent {
    let (src, dst, ports) = if forward { (A, B, (1234, 80)) } else { (B, A, (80, 1234)) };
    Sent::new(millis * 1_000_000, src, dst, Body::Tcp { src: ports.0, dst: ports.1, flags })
}

fn monitor(keys: &str) -> Monitor {
    Monitor::new(keys, Path::new("."))
}

#[test]
fn a_connection_is_one_record_with_what_each_side_did() {
    let mut monitor = monitor("");
    let packets = [
        tcp(1_000, true, 0x02),
        tcp(1_010, false, 0x12),
        tcp(1_020, true, 0x10),
        tcp(1_030, true, 0x11),
        tcp(1_040, false, 0x11),
        tcp(1_050, true, 0x10),
    ];
    monitor.send(&packets, 256);
    assert_eq!(monitor.ended(), []);
    // A new connection of the same endpoints doesn't wait.
    monitor.send(&[tcp(1_500, true, 0x02)], 1);
    let ended = monitor.ended();
    let [record] = &ended[..] else { panic!("{ended:?}") };
    assert_eq!((record.end, record.direction), (End::Detected, Direction::Initiator));
    assert_eq!((record.src().to_string(), record.key.dst_port), (A.to_owned(), 80));
    let (forward, reverse) = (record.forward, record.reverse);
    assert_eq!((forward.packets, forward.bytes, forward.tcp_flags), (4, 200, 0x13));
    assert_eq!((forward.first_us, forward.last_us), (1_000_000, 1_050_000));
    assert_eq!((reverse.packets, reverse.bytes, reverse.tcp_flags), (2, 100, 0x13));
    assert_eq!((reverse.first_us, reverse.last_us), (1_010_000, 1_040_000));
    monitor.close().unwrap();
    assert_eq!(monitor.counter("ended-forced"), 1);
    assert_eq!(monitor.counter("records"), 2);
}

#[test]
fn ticks_end_what_is_over() {
    let mut monitor = monitor("idle_s = 2\nactive_s = 10\nflows = 64");
    monitor.send(&[tcp(0, true, 0x02)], 1);
    monitor.tick(2 * SECOND);
    assert_eq!(monitor.ended(), []);
    monitor.tick(2 * SECOND + 1_000);
    assert_eq!(monitor.ended()[0].end, End::Idle);
    // A closed connection lingers for a second only.
    monitor.send(&[tcp(3_000, true, 0x02), tcp(3_001, false, 0x14)], 2);
    monitor.tick(4 * SECOND);
    assert_eq!(monitor.ended(), []);
    monitor.tick(4 * SECOND + 2_000_000);
    assert_eq!(monitor.ended()[0].end, End::Detected);
}

#[test]
fn a_flow_that_lasts_is_reported_of_in_pieces_with_its_initiator() {
    let mut monitor = monitor("idle_s = 2\nactive_s = 3");
    let answers: Vec<Sent> = (1..8).map(|n| tcp(1_000 + n * 1_000, false, 0x10)).collect();
    monitor.send(&[tcp(1_000, true, 0x02)], 1);
    monitor.send(&answers, 3);
    let ended = monitor.ended();
    let [first] = &ended[..] else { panic!("{ended:?}") };
    assert_eq!((first.end, first.direction), (End::Active, Direction::Initiator));
    assert_eq!((first.forward.packets, first.reverse.packets), (1, 3));
    monitor.close().unwrap();
    // The second piece has the answers alone: seen from who sent them.
    let table = monitor.table("top_flows");
    let cells = |cells: &[Cell]| cells[..7].to_vec();
    let text = |text: &str| Cell::Text(text.into());
    let number = Cell::Number;
    let row = [text(A), number(1234), text(B), number(80), number(6), number(8), number(2)];
    assert_eq!(table.rows.iter().map(|row| cells(row)).collect::<Vec<_>>(), [row.to_vec()]);
}

#[test]
fn an_answer_seen_first_does_not_make_an_initiator() {
    let mut monitor = monitor("idle_s = 2");
    let (echo, reply) =
        (Body::Icmp { kind: 8, code: 0, ident: 5 }, Body::Icmp { kind: 0, code: 0, ident: 5 });
    let packets = [
        tcp(0, false, 0x12),
        tcp(1, true, 0x10),
        Sent::new(2_000_000, B, A, reply),
        Sent::new(3_000_000, A, B, echo),
    ];
    monitor.send(&packets, 4);
    (0..8).for_each(|_| monitor.tick(9 * SECOND));
    let ended = monitor.ended();
    assert_eq!(ended.len(), 2);
    for record in ended {
        assert_eq!(record.src().to_string(), A);
        assert_eq!((record.forward.packets, record.reverse.packets), (1, 1));
        assert!(record.reverse.first_us < record.forward.first_us);
    }
}

#[test]
fn fragments_of_icmp_have_no_type_whoever_sends_them() {
    let mut monitor = monitor("idle_s = 1\nactive_s = 1");
    let piece = |millis: u64, [src, dst]: [&str; 2]| {
        Sent::new(millis * 1_000_000, src, dst, Body::Fragment { protocol: 1 })
    };
    let later = [1_800, 2_600, 3_200].map(|millis| piece(millis, [B, A]));
    monitor.send(&[&[piece(1_000, [A, B])], &later[..]].concat(), 1);
    monitor.tick(9 * SECOND);
    let ended = monitor.ended();
    let [first, second] = &ended[..] else { panic!("{ended:?}") };
    assert_eq!((first.end, first.direction), (End::Active, Direction::Initiator));
    assert_eq!((second.end, second.direction), (End::Idle, Direction::ReverseInitiator));
    assert_eq!((first.key.dst_port, second.key.dst_port), (0, 0));
}

#[test]
fn unmetered_packets_pass_and_are_counted() {
    let mut monitor = monitor("");
    let arp = Input::at(1, &[&[0xff; 12][..], &[8, 6], &[0; 46]].concat());
    let mut lying = tcp(0, true, 2).input();
    lying.bytes[14] = 0x41;
    let mut tagged = tcp(0, true, 2).input();
    tagged.bytes.splice(12..12, [0x81, 0, 0, 7]);
    tagged.wire_len += 4;
    let mut cut = tcp(0, true, 2).input();
    cut.bytes.truncate(14 + 20 + 4);
    let outcomes = monitor.harness.process(&[arp, lying, tagged, cut]);
    assert!(outcomes.iter().all(|outcome| outcome.verdict == Verdict::Forward));
    let counts = ["not-ip", "malformed", "metered", "flows"].map(|name| monitor.counter(name));
    // The one that the capture cut has no ports: a flow of its own.
    assert_eq!(counts, [1, 1, 2, 2]);
}

#[test]
fn heavy_hitters_are_listed_with_their_errors() {
    let mut monitor = monitor("top = 2\nheavy = 16\nflows = 4096");
    let mut packets = Vec::new();
    for n in 0..60u8 {
        let peer = format!("10.1.0.{n}");
        packets.push(Sent::new(0, "10.0.0.1", &peer, Body::Udp { src: 1, dst: 2 }));
        let far = format!("10.2.0.{}", n % 20);
        packets.push(Sent::new(0, &far, "10.9.9.9", Body::Udp { src: 1, dst: u16::from(n) }));
    }
    let big = Sent::new(0, "10.0.0.2", "10.0.0.3", Body::Udp { src: 9, dst: 9 });
    packets.extend([Sent { payload: 1400, ..big }; 40]);
    monitor.send(&packets, 100);
    monitor.close().unwrap();
    let first = |name: &str| {
        let table = monitor.table(name);
        assert_eq!(table.rows.len(), 2);
        assert!(table.rows.iter().all(|row| row.len() == table.columns.len()));
        match &table.rows[0][..] {
            [Cell::Text(src), Cell::Number(count), Cell::Number(error)] => {
                (src.clone(), *count, *error)
            }
            other => panic!("{other:?}"),
        }
    };
    let (src, bytes, error) = first("top_by_bytes");
    assert_eq!(src, "10.0.0.2");
    assert!(bytes >= 40 * 1428 && bytes - error <= 40 * 1428);
    let (src, packets, error) = first("top_by_packets");
    assert!(src == "10.0.0.1" && packets >= 60 && packets - error <= 60, "{packets} {error}");
    let (src, peers, error) = first("top_by_peers");
    assert!(src == "10.0.0.1" && (52..=75).contains(&peers) && error <= 12, "{peers} {error}");
    assert_eq!(monitor.table("top_flows").rows[0][0], Cell::Text("10.0.0.2".into()));
}

#[test]
fn mistakes_are_reported() {
    assert_eq!(
        mistakes(
            "ipfix = \"a\"\ncsv = \"a\"\nidle_s = 30\nactive_s = 20\nipfix_udp = \"host:1\"\n"
        ),
        [
            "`csv` and `ipfix` name the same output",
            "`idle_s` is 30, more than `active_s`, which is 20",
            "`ipfix_udp`: \"host:1\": must be an IP address and a port, such as 192.0.2.7:4739 or \
             [2001:db8::7]:4739; names are not resolved",
        ]
    );
    assert_eq!(mistakes("active_s = 10"), [""; 0], "idle_s follows");
    for address in ["192.0.2.7:0", "[2001:db8::7]:0"] {
        let reported = mistakes(&format!("ipfix_udp = \"{address}\""));
        assert!(
            reported[0].contains("must be an IP address and a port"),
            "{address}: {reported:?}"
        );
    }
}
