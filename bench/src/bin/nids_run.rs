//! The cost of all of `nids` next to the bare matcher of the same group over the same bytes.
//!
//! Payloads of 1460 bytes, in UDP packets and in TCP segments that come in order on established
//! flows; 147, 1,000 and 10,000 rules of one content each, made by a seeded generator, about all
//! addresses and ports. The bare matcher is that of the rules' group; it scans each payload and
//! does nothing else. The function does what a lane does: `run`, packets by shard, `fetch`, `after`
//! with flows, streams, rules and notes. Text-like and random payloads match few rules; floods are
//! parts of the literals and show the floor.
//!
//! `nids_run [WORD...]`: only the cases with all of the words, such as `udp`, `text`, `1000` or
//! `dense`. For a profile: `valgrind --tool=callgrind --toggle-collect='*NidsShard*after*' nids_run
//! tcp text 1000 hyperscan`.

use std::hint::black_box;
use std::path::{Path, PathBuf};

use warpline_bench::lane::Lane;
use warpline_bench::payloads::{flood, literal, random, text};
use warpline_bench::{median, seconds};
use warpline_search::{Choice, Hits, Pattern};
use warpline_verify::build;

const LEN: usize = 1460;
const FLOWS: usize = 64;
/// Of each flow in a round.
const SEGMENTS: usize = 8;
const PACKETS: usize = FLOWS * SEGMENTS;
const ROUNDS: usize = 41;

const MATCHERS: [(&str, Choice); 3] =
    [("hyperscan", Choice::Hyperscan), ("dense", Choice::Dense), ("compact", Choice::Compact)];
const PROTOCOLS: [&str; 2] = ["udp", "tcp"];
const KINDS: [&str; 3] = ["text", "random", "flood"];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let is_wanted = |cell: &[&str]| words.iter().all(|word| cell.contains(&word.as_str()));
    let folder = std::env::temp_dir().join(format!("warpline-nids-run-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for rules");
    for count in [147, 1_000, 10_000] {
        let literals: Vec<Pattern> = (0..count).map(literal).collect();
        for (name, choice) in MATCHERS {
            for protocol in PROTOCOLS {
                let number = count.to_string();
                let kinds =
                    KINDS.into_iter().filter(|kind| is_wanted(&[&number, name, protocol, kind]));
                let kinds: Vec<&str> = kinds.collect();
                if !kinds.is_empty() {
                    measure(&folder, &literals, (name, choice), protocol, &kinds);
                }
            }
        }
    }
    std::fs::remove_dir_all(&folder).expect("a folder to remove");
}

fn measure(
    folder: &Path,
    literals: &[Pattern],
    (name, choice): (&str, Choice),
    protocol: &str,
    kinds: &[&str],
) {
    let mut built = None;
    let time = seconds(|| built = warpline_search::build(choice, literals, None).ok());
    let Some(matcher) = built else { return println!("{name} is missing") };
    let count = literals.len();
    println!(
        "{count:6} rules, {name:9}: literals built in {:7.1} ms, {:6} KiB",
        time * 1e3,
        matcher.memory_len() / 1024
    );
    let table = format!(
        "rules = {:?}\nmatcher = {name:?}\ncache = \"\"",
        rules(folder, protocol, literals)
    );
    for kind in kinds {
        let (function, scratch_words) = build(&warpline_nids::DEFINITION, &table, folder);
        let payloads: Vec<Vec<u8>> = (0..PACKETS as u32)
            .map(|number| match *kind {
                "text" => text(number, LEN),
                "random" => random(number, LEN),
                _ => flood(number, LEN, literals),
            })
            .collect();
        let mut traffic = Traffic { is_tcp: protocol == "tcp", payloads, sent: 0 };
        let mut lane = Lane::new(function, scratch_words, &traffic.frames());
        let what = format!("{count:6} rules, {name:9}, {protocol}, {kind:6}");
        compare(&mut lane, &mut traffic, count, &what);
    }
}

/// A file of a rule for each literal.
fn rules(folder: &Path, protocol: &str, literals: &[Pattern]) -> PathBuf {
    let rule = |(sid, literal): (usize, &Pattern)| {
        let bytes: Vec<String> = literal.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let nocase = if literal.is_nocase { " nocase;" } else { "" };
        let content = format!("content:\"|{}|\";{nocase}", bytes.join(" "));
        format!("alert {protocol} any any -> any any (msg:\"{sid}\"; {content} sid:{};)\n", sid + 1)
    };
    let path = folder.join(format!("{protocol}.rules"));
    let text: String = literals.iter().enumerate().map(rule).collect();
    std::fs::write(&path, text).expect("a file of rules");
    path
}

fn compare(lane: &mut Lane, traffic: &mut Traffic, count: usize, what: &str) {
    let mut hits = Hits::new(32, count);
    let mut times: [Vec<f64>; 3] = Default::default();
    traffic.open(lane);
    let counters = ["rules-asked", "candidates", "alerts-over"];
    let start = counters.map(|name| lane.counter(name));
    let noted = lane.noted;
    for _ in 0..ROUNDS {
        traffic.refill(lane);
        // Once before, so that the matcher's tables are in the caches for both.
        bare(lane, traffic, &mut hits);
        times[0].push(seconds(|| bare(lane, traffic, &mut hits)));
        times[1].push(seconds(|| lane.all()));
        times[2].push(seconds(|| lane.run()));
    }
    let per_packet = |sum: u64| sum as f64 / (ROUNDS * PACKETS) as f64;
    let ratio = median(times[0].iter().zip(&times[1]).map(|(bare, all)| bare / all).collect());
    let nanos = times.map(|times| median(times) * 1e9 / PACKETS as f64);
    let gbps = nanos.map(|nanos| (LEN * 8) as f64 / nanos);
    let [asked, candidates, over] =
        [0, 1, 2].map(|at| per_packet(lane.counter(counters[at]) - start[at]));
    println!(
        "{what}: bare {:6.2} Gb/s, {:6.0} ns; function {:6.2} Gb/s, {:6.0} ns, {:6.0} ns of it \
         `run`; ratio {ratio:.3}; a packet: rules asked {asked:.2}, candidates {candidates:.2}, \
         matches {:.2}",
        gbps[0],
        nanos[0],
        gbps[1],
        nanos[1],
        nanos[2],
        per_packet(lane.noted - noted) + over,
    );
}

#[inline(never)]
fn bare(lane: &Lane, traffic: &Traffic, hits: &mut Hits) {
    let protocol = if traffic.is_tcp { 6 } else { 17 };
    let matcher = warpline_nids::matcher_of(lane.function(), protocol, [CLIENT_PORT, SERVER_PORT]);
    let matcher = matcher.expect("rules with literals");
    for packet in lane.batches.iter().flat_map(|batch| batch.forward()) {
        hits.clear();
        matcher.scan(packet.payload(), hits);
        black_box(&hits);
    }
}

/// Packets of [`FLOWS`] flows, a round of them at a time.
struct Traffic {
    is_tcp: bool,
    payloads: Vec<Vec<u8>>,
    /// Bytes that each flow's client has sent.
    sent: u32,
}

impl Traffic {
    /// The next packets, with each flow's in order.
    fn frames(&self) -> Vec<Vec<u8>> {
        let frame = |(number, payload): (usize, &Vec<u8>)| {
            let (flow, segment) = (number % FLOWS, number / FLOWS);
            let seq = 1 + self.sent + (segment * LEN) as u32;
            self.frame(flow, true, (seq, 1), ACK, payload)
        };
        self.payloads.iter().enumerate().map(frame).collect()
    }

    /// Has the function see handshakes, and packets until its memory is warm.
    fn open(&mut self, lane: &mut Lane) {
        if self.is_tcp {
            // The server's last segment announces its scaled window; the window of a SYN is never
            // scaled.
            for (is_client, numbers, flags) in [
                (true, (0, 0), SYN),
                (false, (0, 1), SYN | ACK),
                (true, (1, 1), ACK),
                (false, (1, 1), ACK),
            ] {
                let frame = |flow| self.frame(flow, is_client, numbers, flags, &[]);
                lane.fill(&(0..FLOWS).map(frame).collect::<Vec<_>>());
                lane.all();
            }
        }
        for _ in 0..5 {
            self.refill(lane);
            lane.all();
        }
    }

    fn refill(&mut self, lane: &mut Lane) {
        lane.fill(&self.frames());
        self.sent += (SEGMENTS * LEN) as u32;
    }

    /// Ethernet and IPv4 before UDP or TCP; SYNs offer the widest window.
    fn frame(
        &self,
        flow: usize,
        is_client: bool,
        numbers: (u32, u32),
        flags: u8,
        payload: &[u8],
    ) -> Vec<u8> {
        let option: &[u8] = if flags & SYN == 0 { &[] } else { &[3, 3, 14, 1] };
        let header_len = if self.is_tcp { 20 + option.len() } else { 8 };
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
        frame.extend(((20 + header_len + payload.len()) as u16).to_be_bytes());
        frame.extend([0, 0, 0, 0, 64, if self.is_tcp { 6 } else { 17 }, 0, 0]);
        let mut ends =
            [([10, 0, 0, flow as u8], CLIENT_PORT + flow as u16), ([198, 51, 100, 7], SERVER_PORT)];
        if !is_client {
            ends.reverse();
        }
        frame.extend(ends.iter().flat_map(|(address, _)| address));
        frame.extend(ends.iter().flat_map(|(_, port)| port.to_be_bytes()));
        if self.is_tcp {
            frame.extend(numbers.0.to_be_bytes());
            frame.extend(numbers.1.to_be_bytes());
            frame.extend([(header_len as u8 / 4) << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
            frame.extend(option);
        } else {
            frame.extend(((8 + payload.len()) as u16).to_be_bytes());
            frame.extend([0, 0]);
        }
        frame.extend(payload);
        frame
    }
}

/// Of the first flow; rules are about all of them.
const CLIENT_PORT: u16 = 40_000;
const SERVER_PORT: u16 = 9;
const SYN: u8 = 2;
const ACK: u8 = 16;
