//! The kernels of `nids`. Its own tests check `run` itself.

use std::fmt::Write as _;
use std::path::PathBuf;

use warpline_device::Device;
use warpline_nf::Function;
use warpline_nids::{DEFINITION, matcher_of};
use warpline_packet::{Field, FieldSet};
use warpline_search::Hits;
use warpline_verify::{Input, build};

use crate::compiled::compile_for_cuda;
use crate::driver::{Tally, compare, compare_staged, devices};
use crate::frames::{Random, ethernet, ipv4, ipv6, random, snapped};

pub(crate) const V4: [u8; 4] = [192, 0, 2, 1];
pub(crate) const V6: [u8; 16] = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
/// Who the rules are about: enough rules each for a group of its own, but for the last ports.
const ABOUT: [&str; 9] = [
    "tcp any any -> any 80",
    "tcp any 25 -> any any",
    "udp any any -> any 53",
    "tcp any any -> any any",
    "udp any any <> any 161",
    "icmp any any -> any any",
    "ip any any -> any any",
    "sctp any any -> any any",
    "tcp any any -> any [7000:7003]",
];
const PORTS: [u16; 8] = [80, 25, 53, 161, 7001, 7003, 40_000, 0];

/// The scan keeps as many literals of a packet.
const KEPT_MAX: usize = 32;

/// Literals, and the function that has a rule for each.
pub(crate) struct Set {
    pub(crate) literals: Vec<Vec<u8>>,
    pub(crate) function: Box<dyn Function>,
    pub(crate) words: usize,
}

impl Set {
    pub(crate) fn new(name: &str, literals: Vec<Vec<u8>>) -> Self {
        Self::beside(name, literals, &[])
    }

    /// Adds rules for `others`, literals that payloads are not built from.
    pub(crate) fn beside(name: &str, literals: Vec<Vec<u8>>, others: &[Vec<u8>]) -> Self {
        let folder = std::env::temp_dir();
        let file = format!("warpline-kernels-nids-{name}-{}", std::process::id());
        let mut text = String::new();
        for (sid, literal) in (1..).zip(literals.iter().chain(others)) {
            let about = ABOUT[sid % ABOUT.len()];
            let case = if (sid / ABOUT.len()).is_multiple_of(3) { " nocase;" } else { "" };
            let hex: Vec<String> = literal.iter().map(|byte| format!("{byte:02x}")).collect();
            let hex = hex.join(" ");
            let _ = writeln!(text, "alert {about} (content:\"|{hex}|\";{case} sid:{sid};)");
        }
        let path: PathBuf = folder.join(&file);
        std::fs::write(&path, text).expect("a file");
        let table = format!(
            "rules = '{file}'\nmatcher = 'compact'\nflows = 64\nstream_memory_mib = 1\n\
             window_kib = 2\n\
             datagrams = 64\nxbits = 64\nthresholds = 64"
        );
        let (function, words) = build(&DEFINITION, &table, &folder);
        let _ = std::fs::remove_file(path);
        Self { literals, function, words }
    }

    /// Of so many [`literals`].
    fn of(count: usize) -> Self {
        Self::new(&count.to_string(), literals(count))
    }

    /// Payloads of noise, of literals in either case with some noise between, and of beginnings of
    /// literals.
    pub(crate) fn payload(&self, from: &mut Random) -> Vec<u8> {
        let (kind, len) = (from.below(4), from.pick(&[0, 1, 3, 20, 64, 200, 1400]));
        let mut payload = Vec::new();
        while payload.len() < len {
            let literal = &self.literals[from.below(self.literals.len())];
            match kind {
                0 => payload.push(from.pick(b"abcdefABCDEF")),
                1 => payload.extend(literal),
                2 => payload.extend(&literal[..from.below(literal.len())]),
                _ => {
                    let noise = from.below(40);
                    payload.extend(from.bytes(noise));
                    payload.extend(literal.to_ascii_uppercase());
                }
            }
        }
        payload.truncate(len);
        payload
    }

    pub(crate) fn traffic(&self, count: usize) -> Vec<Input> {
        let mut from = Random::new(9);
        (0..count).map(|_| frame(&self.payload(&mut from), &mut from)).collect()
    }

    fn on(&self, device: &dyn Device, inputs: &[Input]) {
        let tally = compare(&*self.function, self.words, inputs, device);
        assert_eq!(tally, Tally { packets: inputs.len(), left: 0 });
    }

    /// How many literals a search of the CPU finds in a payload, of TCP to port 80.
    pub(crate) fn found(&self, payload: &[u8]) -> usize {
        let matcher = matcher_of(&*self.function, 6, [40_000, 80]).expect("rules about it");
        let mut hits = Hits::new(self.literals.len(), self.literals.len());
        matcher.scan(payload, &mut hits);
        hits.ids().len()
    }
}

/// As many literals of a few letters, in both cases, and of any bytes; short ones and those that
/// begin or end others among them.
pub(crate) fn literals(count: usize) -> Vec<Vec<u8>> {
    let mut from = Random::new(count as u32);
    let mut literals: Vec<Vec<u8>> = Vec::new();
    while literals.len() < count {
        let len = 2 + from.below(4) + from.below(16);
        let alphabet: &[u8] = from.pick(&[&b"abcdefABCDEF"[..], b"\0\xff@`aA", b"getPOST /.:"]);
        let mut literal: Vec<u8> = (0..len).map(|_| from.pick(alphabet)).collect();
        if from.below(4) == 0 && !literals.is_empty() {
            literal.extend_from_slice(&literals[from.below(literals.len())].clone());
            literal.truncate(60);
        }
        literals.push(literal);
    }
    literals
}

pub(crate) fn tcp(src: u16, dst: u16, payload: &[u8]) -> Vec<u8> {
    let rest = [0, 0, 0, 1, 0, 0, 0, 2, 0x50, 16, 1, 0, 0, 0, 0, 0];
    [&src.to_be_bytes()[..], &dst.to_be_bytes(), &rest, payload].concat()
}

fn udp(src: u16, dst: u16, payload: &[u8]) -> Vec<u8> {
    let len = 8 + payload.len() as u16;
    let header = [src, dst, len, 0].map(u16::to_be_bytes).concat();
    [&header, payload].concat()
}

fn frame(payload: &[u8], from: &mut Random) -> Input {
    let (src, dst) = (from.pick(&PORTS), from.pick(&PORTS));
    let (protocol, body) = match from.below(8) {
        0..3 => (6, tcp(src, dst, payload)),
        3..6 => (17, udp(src, dst, payload)),
        6 => (1, [&[8, 0, 0, 0, 0, 1, 0, 1], payload].concat()),
        _ => (132, [&[0, 7, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0], payload].concat()),
    };
    match from.below(4) {
        0 if protocol != 1 => ethernet(&[], &ipv6(V6, 64, protocol, &body)),
        1 => ethernet(&[0x81, 0, 0, 9], &ipv4(V4, 64, protocol, &[1; 4], &body)),
        _ => ethernet(&[], &ipv4(V4, 64, protocol, &[], &body)),
    }
}

/// Runs of one byte, all literals in a row, and all their prefixes, cut into packets of TCP to port
/// 80.
pub(crate) fn hostile(set: &Set) -> Vec<Input> {
    let mut payloads = vec![vec![0; 1400], vec![b'a'; 1400], vec![b'A'; 1400], vec![0xff; 1400]];
    let few = &set.literals[..set.literals.len().min(300)];
    let beginnings = few.iter().flat_map(|one| (1..one.len()).flat_map(|end| one[..end].to_vec()));
    let all = [few.concat(), beginnings.collect()].concat();
    payloads.extend(all.chunks(1400).map(<[u8]>::to_vec));
    let packets = payloads.iter().map(|payload| ipv4(V4, 64, 6, &[], &tcp(40_000, 80, payload)));
    packets.map(|packet| ethernet(&[], &packet)).collect()
}

/// Packets without a payload to search, and packets with a truncated one.
pub(crate) fn edges(set: &Set) -> Vec<Input> {
    let text = set.literals[..8].concat();
    let whole = ethernet(&[], &ipv4(V4, 64, 6, &[], &tcp(25, 80, &text)));
    let with = |at: usize, byte: u8| {
        let mut packet = ipv4(V4, 64, 17, &[], &udp(9, 53, &text));
        packet[at] = byte;
        ethernet(&[], &packet)
    };
    let mut arp = whole.clone();
    arp.bytes[12..14].copy_from_slice(&[8, 6]);
    // Fragments, a length of IP and one of UDP that lie, another version.
    let mut inputs =
        vec![arp, with(6, 0x20), with(7, 4), with(2, 0xff), with(24, 0xff), with(0, 0x55)];
    inputs.extend((0..whole.bytes.len()).step_by(3).map(|len| snapped(&whole, len)));
    inputs
}

/// Literals that end each other, in both kinds of case more than are kept: of every length two
/// about the same packets.
pub(crate) fn nested() -> Set {
    Set::new("nested", (0..837).map(|n| vec![b'a'; 1 + n / 27]).collect())
}

/// The cases written by hand.
pub(crate) fn edges_on(device: &dyn Device) {
    let set = Set::of(147);
    set.on(device, &edges(&set));
    set.on(device, &set.traffic(200));
}

#[test]
fn literals_of_every_group_are_found() {
    let set = Set::of(147);
    let mut random_frames = Random::new(3);
    let more = (0..500).map(|_| random(&mut random_frames, &[V4], &[V6]));
    let inputs: Vec<Input> = set.traffic(2500).into_iter().chain(more).collect();
    devices().iter().for_each(|device| set.on(&**device, &inputs));
}

#[test]
fn edges_are_what_run_makes_of_them() {
    devices().iter().for_each(|device| edges_on(&**device));
}

#[test]
fn hostile_payloads_are_searched() {
    let set = Set::of(147);
    devices().iter().for_each(|device| set.on(&**device, &hostile(&set)));
}

#[test]
fn more_literals_than_are_kept_are_looked_for_again() {
    let set = nested();
    // Of the longest list that is kept, and of one that is not.
    let counts = [16, 17].map(|len| set.found(&vec![b'a'; len]));
    assert_eq!(counts, [KEPT_MAX, KEPT_MAX + 2]);
    let lens = (0..60).chain([1400]);
    let inputs: Vec<Input> = lens
        .flat_map(|len| [b'a', b'A'].map(|byte| tcp(25, 80, &vec![byte; len])))
        .map(|body| ethernet(&[], &ipv4(V4, 64, 6, &[], &body)))
        .collect();
    devices().iter().for_each(|device| set.on(&**device, &inputs));
}

#[test]
fn large_sets_are_searched() {
    for count in [1000, 10_000] {
        let set = Set::of(count);
        assert!(set.found(&set.literals[..400].concat()) > KEPT_MAX);
        let inputs = [set.traffic(500), hostile(&set)].concat();
        devices().iter().for_each(|device| set.on(&**device, &inputs));
    }
}

#[test]
fn ports_are_found_in_columns() {
    let set = Set::of(147);
    let inputs = [set.traffic(300), edges(&set)].concat();
    let fields = FieldSet::of(&[Field::SrcPort, Field::DstPort]);
    for device in devices() {
        let twins = [&*set.function, &*set.function];
        let tally = compare_staged(twins, set.words, &inputs, &*device, fields);
        assert_eq!(tally, Tally { packets: inputs.len(), left: 0 });
    }
}

#[test]
fn kernels_compile_for_gpus() {
    let set = Set::of(147);
    compile_for_cuda(&*set.function);
}

/// Literals that share nothing: more states than one automaton may have.
#[test]
fn the_search_method_of_a_set_is_reported() {
    let mut from = Random::new(4);
    let many = Set::new("long", (0..1300).map(|_| from.bytes(40)).collect());
    let kinds = [
        (many, "filter_payloads", "a filter by grams"),
        (Set::of(147), "scan_payloads", "an automaton"),
    ];
    for (set, kernel, reported_as) in kinds {
        let kernels = set.function.kernels().expect("kernels");
        assert_eq!(kernels.steps()[0].name, kernel);
        let about = set.function.about();
        let reported = about.lines.iter().find(|(what, _)| *what == "devices");
        assert!(
            reported.is_some_and(|(_, reported)| reported.starts_with(reported_as)),
            "{about:?}"
        );
        let tables: usize = kernels.tables().iter().map(|table| table.bytes.len()).sum();
        let bytes = about.json["devices"]["bytes"].as_u64().expect("a number") as usize;
        assert!(bytes <= tables && tables < bytes + bytes / 10 + 20_000, "{bytes}, {tables}");
    }
}
