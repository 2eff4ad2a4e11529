//! Windows of TCP, case by case: a conversation in words, with the verdict on each segment.

use super::traffic::{Numbers, Sent, Shape};
use super::{Draw, firewall, reported};
use warpline_verify::Input;

const SECOND: u64 = 1_000_000_000;

/// `> SYN 100 0`: way, flags, sequence number, acknowledgment number. Then, as needed, `len=N`,
/// `win=N`, `scale=N`, `sack=A-B`, `sackok`, `part` for a first fragment, and `at=SECONDS`.
fn segment(text: &str) -> Input {
    let mut words = text.split_whitespace();
    let mut word = || words.next().unwrap();
    let forth = word() == ">";
    let flags = match word() {
        "SYN" => 2,
        "SYNACK" => 18,
        "ACK" => 16,
        "FIN" => 17,
        "RST" => 4,
        "RSTACK" => 20,
        other => panic!("{other}"),
    };
    let [seq, ack] = [word(), word()].map(|number| number.parse().unwrap());
    let mut numbers = Numbers { seq, ack, window: 1000, ..Numbers::default() };
    let (mut options, mut shape, mut seconds) = (Vec::new(), Shape::Whole, 0);
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((word, "0"));
        match name {
            "len" => numbers.len = value.parse().unwrap(),
            "win" => numbers.window = value.parse().unwrap(),
            "scale" => options.extend([1, 3, 3, value.parse().unwrap()]),
            "sackok" => options.extend([1, 1, 4, 2]),
            "sack" => {
                let (start, end) = value.split_once('-').unwrap();
                options.extend([1, 1, 5, 10]);
                options.extend(start.parse::<u32>().unwrap().to_be_bytes());
                options.extend(end.parse::<u32>().unwrap().to_be_bytes());
            }
            "part" => shape = Shape::FirstFragment,
            "at" => seconds = value.parse().unwrap(),
            other => panic!("{other}"),
        }
    }
    numbers.options = options.leak();
    let ends = [(0x0a00_0001, 1024), (0x0a00_0002, 80)];
    let [(src, src_port), (dst, dst_port)] = if forth { ends } else { [ends[1], ends[0]] };
    let drawn = Sent::drawn(&mut Draw::new(0));
    let (version, protocol, vlan) = (4, 6, false);
    let sent = Sent {
        version,
        src,
        dst,
        protocol,
        src_port,
        dst_port,
        flags,
        numbers,
        vlan,
        shape,
        ..drawn
    };
    sent.input(seconds * SECOND)
}

/// A handshake from 100 and 500, with windows of 1000 bytes.
const OPEN: &[&str] = &["> SYN 100 0 +", "< SYNACK 500 101 +", "> ACK 101 501 +"];

/// Name, keys, whether the handshake comes first, and segments, each with `+` where it passes.
type Case = (&'static str, &'static str, bool, &'static [&'static str]);

const CASES: &[Case] = &[
    (
        "a blind reset leaves the connection",
        "",
        true,
        &["< RST 90000 0 -", "> RST 90000 0 -", "< ACK 501 101 len=9 +", "> ACK 101 510 len=9 +"],
    ),
    (
        "a reset below the expected number leaves the connection",
        "",
        true,
        &["< ACK 501 101 len=9 +", "> ACK 101 510 +", "< RST 509 0 -", "< ACK 510 101 at=100 +"],
    ),
    (
        "the exact reset closes",
        "",
        true,
        &["< RST 501 0 at=1 +", "< ACK 501 101 at=11 +", "< ACK 501 101 at=12 -"],
    ),
    (
        "a reset after data that was not acknowledged closes",
        "",
        true,
        &["< ACK 501 101 len=9 at=1 +", "< RST 510 0 at=1 +", "< ACK 510 101 at=13 -"],
    ),
    (
        "an inexact reset in the window leaves an end that answers",
        "",
        true,
        &["< RST 600 0 at=1 +", "> ACK 101 501 at=2 +", "< ACK 501 101 at=7000 +"],
    ),
    (
        "an inexact reset in the window ends what stays silent",
        "",
        true,
        &["< RST 600 0 at=1 +", "> ACK 101 501 at=13 -"],
    ),
    (
        "in liberal mode a reset in no window passes, one below the expected number doesn't",
        "tcp_window = 'liberal'",
        true,
        &["< RST 90000 0 +", "> ACK 101 501 +", "< RST 400 0 -", "< ACK 90000 90000 len=9 +"],
    ),
    (
        "data far after the window are dropped, and nothing is learned from them",
        "",
        true,
        &["< ACK 90000 101 len=9 -", "> ACK 101 90009 -", "< ACK 501 101 len=9 +"],
    ),
    (
        "data a little over the window pass, and may be acknowledged",
        "",
        true,
        &["< ACK 1600 101 len=9 +", "> ACK 101 1609 +"],
    ),
    (
        "an acknowledgment of data that were not sent is dropped",
        "",
        true,
        &["> ACK 101 502 -", "< ACK 501 101 len=1 +", "> ACK 101 502 +"],
    ),
    (
        "windows are scaled where both ends scale",
        "",
        false,
        &[
            "> SYN 100 0 scale=3 +",
            "< SYNACK 500 101 scale=2 +",
            "> ACK 101 501 +",
            "< ACK 8501 101 len=9 +",
            "> ACK 16100 501 -",
        ],
    ),
    (
        "windows are not scaled where one end doesn't",
        "",
        false,
        &[
            "> SYN 100 0 scale=3 +",
            "< SYNACK 500 101 +",
            "> ACK 101 501 +",
            "< ACK 8501 101 len=9 -",
        ],
    ),
    (
        "numbers wrap",
        "",
        false,
        &[
            "> SYN 4294967295 0 +",
            "< SYNACK 4294967290 0 +",
            "> ACK 0 4294967291 +",
            "< ACK 4294967291 0 len=100 +",
            "> ACK 0 95 +",
            "< RST 4294967291 0 -",
        ],
    ),
    (
        "a closed window lets one byte in",
        "",
        true,
        &["> ACK 101 501 win=0 +", "< ACK 501 101 len=1 +", "> ACK 101 502 win=0 +"],
    ),
    (
        "keep-alives repeat the byte before the next",
        "",
        true,
        &["> ACK 100 501 +", "< ACK 501 101 +", "< ACK 500 101 len=1 +", "> ACK 101 501 +"],
    ),
    (
        "a selective acknowledgment opens the window beyond the block",
        "",
        false,
        &[
            "> SYN 100 0 sackok win=5000 +",
            "< SYNACK 500 101 sackok win=5000 +",
            "> ACK 101 501 win=5000 +",
            "< ACK 4000 101 len=1000 +",
            "> ACK 101 501 win=5000 sack=4000-5000 +",
            "< ACK 9900 101 len=9 +",
            "< ACK 20000 101 len=9 -",
        ],
    ),
    (
        "a stray SYN passes, and a reset that answers it closes",
        "",
        true,
        &["> SYN 7000 0 +", "< RSTACK 0 7001 at=1 +", "> ACK 101 501 at=13 -"],
    ),
    (
        "a SYN that is answered starts again",
        "",
        true,
        &[
            "> SYN 7000000 0 +",
            "< SYNACK 9000000 7000001 +",
            "> ACK 7000001 9000001 len=9 +",
            "> ACK 101 501 len=9 +",
            "< ACK 900 101 len=9 +",
            "< RST 12000000 0 -",
        ],
    ),
    ("the other side can't open again", "", true, &["< SYN 500 0 -", "> SYNACK 100 501 -"]),
    (
        "both open at once",
        "",
        false,
        &[
            "> SYN 100 0 +",
            "< SYN 500 0 +",
            "> SYNACK 100 501 +",
            "< SYNACK 500 101 +",
            "> ACK 101 501 +",
            "< ACK 501 101 len=9 at=100 +",
        ],
    ),
    (
        "a challenge before the answer, and the reset to it",
        "",
        false,
        &["> SYN 100 0 +", "< ACK 7000 8000 +", "> RST 8000 0 +", "> SYN 100 0 +"],
    ),
    (
        "the window of a connection with fragments is not known",
        "",
        true,
        &["< ACK 501 101 len=500 part +", "> ACK 101 2500 +", "< RST 300 0 -"],
    ),
    (
        "what loose picks up is not checked",
        "tcp_loose = true",
        false,
        &["> ACK 101 501 +", "< ACK 90501 101 +", "> ACK 90000 70000 +"],
    ),
    (
        "loose picks up an ACK only",
        "tcp_loose = true",
        false,
        &["< SYNACK 500 101 -", "> FIN 101 501 -", "> RST 101 0 -", "> ACK 101 501 +"],
    ),
    (
        "what is picked up is half-open until it is answered",
        "tcp_loose = true",
        false,
        &[
            "> ACK 101 501 +",
            "< FIN 501 101 at=62 -",
            "> ACK 101 501 at=62 +",
            "< ACK 501 101 at=63 +",
            "> ACK 101 501 at=7000 +",
        ],
    ),
    (
        "one side of a connection",
        "tcp_one_sided = true",
        false,
        &[
            "> SYN 100 0 +",
            "> ACK 101 501 +",
            "> ACK 101 70000 len=9 +",
            "> FIN 110 80000 at=7000 +",
        ],
    ),
    (
        "the other side of a connection",
        "tcp_one_sided = true",
        false,
        &["< SYNACK 500 101 +", "< SYNACK 500 101 +", "< ACK 501 90000 at=7000 +"],
    ),
    (
        "without one_sided, the opener waits for its answer",
        "tcp_loose = true",
        false,
        &["> SYN 100 0 +", "> ACK 101 501 -", "> FIN 101 501 -"],
    ),
    (
        "a connection that both sides closed is opened again",
        "",
        true,
        &[
            "> FIN 101 501 +",
            "< FIN 501 102 +",
            "> ACK 102 502 +",
            "> SYN 9000 0 +",
            "< SYNACK 70000 9001 +",
            "> ACK 9001 70001 +",
            "< ACK 70001 9001 len=9 at=100 +",
        ],
    ),
    (
        "after a FIN any reset closes",
        "",
        true,
        &["> FIN 101 501 +", "< RST 90000 0 at=1 +", "< ACK 501 102 at=13 -"],
    ),
];

#[test]
fn segments_pass_as_windows_demand() {
    let mut failed = Vec::new();
    for (name, keys, is_open, segments) in CASES {
        let mut harness = firewall("accept tcp\n", &format!("established = true\n{keys}\n"));
        let opening = if *is_open { OPEN } else { &[] };
        for text in opening.iter().chain(*segments) {
            let (segment_text, verdict) = text.rsplit_once(' ').unwrap();
            let reported = reported(&harness.process(&[segment(segment_text)])[0]);
            let expected = if verdict == "+" { "accept" } else { "invalid" };
            if reported != expected {
                failed.push(format!("{name}: {segment_text}: {reported}"));
                break;
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn only_numbers_are_counted_as_out_of_window() {
    let mut harness = firewall("accept tcp\n", "established = true");
    let texts = ["< RST 90000 0", "> ACK 101 9000", "< SYN 500 0", "< ACK 501 101"];
    let inputs: Vec<Input> =
        OPEN.iter().map(|text| text.trim_end_matches(" +")).chain(texts).map(segment).collect();
    harness.process(&inputs);
    assert_eq!(harness.counter("out-of-window"), 2);
    assert_eq!(harness.counter("connections"), 1);
}
