//! `Function::run` of the firewall against a hand-written loop over the same packets.
//!
//! `firewall_run [FILE..]`: without files, synthetic ClassBench filters from a seed, 10, 1,000 and
//! 10,000 of them; with files, theirs. Every second filter drops. Packets are 64-byte frames whose
//! headers are drawn from the filters, evenly, some with other ports. The hand-written loop parses
//! the headers at their fixed places, calls the same look-up and sets the verdict. A linear search
//! over the same filters is there for information; all three must decide alike.

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr};

use warpline_bench::{median, seconds};
use warpline_firewall::{DEFINITION, Policy, RuleSet};
use warpline_nf::{Function, SourceText};
use warpline_packet::{
    Arena, ArenaLayout, Arrival, Batch, FlowHasher, Headers, HeapMemory, Instant, LinkType, Placer,
    Prefix, Reason, Steering,
};
use warpline_rule_files::kinds::{NO_PORT, kind_of_message, kind_of_segment};
use warpline_rule_files::{Action, EndMatch, Rule, parse_classbench};
use warpline_tables::classifier::SearchKey;
use warpline_verify as harness;

const BATCHES: usize = 64;
const BATCH: usize = 256;
const PACKETS: usize = BATCHES * BATCH;
const ROUNDS: usize = 41;
/// Passes over all packets in a round; the round's result is their mean.
const PASSES: usize = 4;

fn main() -> Result<(), Box<dyn Error>> {
    println!("filters  memory-KiB  build-ms  run-ns  hand-ns  hand/run  linear-ns  dropped");
    let files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() {
        for count in [10, 1000, 10_000] {
            measure(&synthetic(count), "synthetic")?;
        }
    }
    for file in files {
        measure(&std::fs::read_to_string(&file)?, &file)?;
    }
    Ok(())
}

fn measure(filters: &str, name: &str) -> Result<(), Box<dyn Error>> {
    let mut rules = parse_classbench(&SourceText::new(name, filters), Action::Accept).rules;
    rules.iter_mut().step_by(2).for_each(|rule| rule.action = Action::Drop);
    let folder = std::env::temp_dir().join(format!("warpline-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("rules"), rules.iter().map(line).collect::<String>())?;
    let (function, _) = harness::build(&DEFINITION, "rules = \"rules\"", &folder);
    std::fs::remove_dir_all(&folder)?;
    let (default, non_ip) = (Action::Drop, Action::Drop);
    let policy = Policy { default, non_ip, drop_fragments: false, tracked: false };
    let started = std::time::Instant::now();
    let set = RuleSet::build(&rules, policy)?;
    let build_ms = started.elapsed().as_secs_f64() * 1e3;
    let times = Bench::new(&rules)?.rounds(&*function, &set, &rules);
    println!(
        "{:7}  {:10}  {build_ms:8.1}  {:6.1}  {:7.1}  {:8.3}  {:9.1}  {:6.1}%  {name}",
        rules.len(),
        set.memory_len() >> 10,
        times.run,
        times.hand,
        times.ratio,
        times.linear,
        100.0 * times.dropped as f64 / PACKETS as f64,
    );
    Ok(())
}

/// A filter of ClassBench in the readable form, with its action.
fn line(rule: &Rule) -> String {
    let mut text = String::from(if rule.action == Action::Accept { "accept" } else { "drop" });
    match rule.protocols[..] {
        [protocol] => text += &format!(" {protocol}"),
        _ => text += " any",
    }
    if let Some(message) = &rule.message {
        text += &format!(" type {}", message.types[0].start());
        message.codes.iter().for_each(|code| text += &format!(" code {}", code.start()));
    }
    if let Some(flags) = rule.flags {
        let names = |bits: u8| {
            let all = ["fin", "syn", "rst", "psh", "ack", "urg"];
            let set: Vec<&str> = (0..6).filter(|i| bits >> i & 1 == 1).map(|i| all[i]).collect();
            if set.is_empty() { String::from("none") } else { set.join(",") }
        };
        text += &format!(" flags {}/{}", names(flags.value), names(flags.mask));
    }
    for (word, side) in [("from", &rule.src), ("to", &rule.dst)] {
        text += &format!(" {word} {}", side.prefixes[0]);
        side.ports.iter().for_each(|p| text += &format!(" port {}-{}", p.start(), p.end()));
    }
    text + "\n"
}

struct Times {
    run: f64,
    hand: f64,
    linear: f64,
    ratio: f64,
    dropped: usize,
}

/// Packets in an arena, placed anew before each timed pass, since verdicts are part of them.
struct Bench {
    frames: Vec<[u8; 60]>,
    placer: Placer,
    batches: Vec<Batch>,
}

impl Bench {
    fn new(rules: &[Rule]) -> Result<Self, Box<dyn Error>> {
        let layout = ArenaLayout {
            slabs: 8,
            emit_slabs: 1,
            tables: BATCHES,
            slots: BATCH,
            scratch_words: 0,
            headroom: 0,
            tailroom: 0,
        };
        let memory = HeapMemory::new(layout.memory_len()).ok_or("no memory for the arena")?;
        let arena = Arena::new(Box::new(memory), &layout)?;
        let mut draw = Draw(7);
        let frames = (0..PACKETS).map(|_| frame(&mut draw, rules)).collect();
        let batches = arena.tables.into_iter().map(Batch::new).collect();
        Ok(Self { frames, placer: arena.ingress, batches })
    }

    fn place(&mut self) {
        self.batches.iter_mut().for_each(Batch::clear);
        for (i, frame) in self.frames.iter().enumerate() {
            let headers = Headers::parse(frame, LinkType::ETHERNET, frame.len());
            let steered = Steering::AddressPair.steer(&FlowHasher::SEED_0, frame, &headers);
            let arrival = Arrival {
                timestamp: Instant::ZERO,
                captured: Instant::ZERO,
                ingress: i as u64,
                wire_len: frame.len() as u32,
                link: LinkType::ETHERNET,
                interface: 0,
                shard: steered.shard,
                flow_hash: steered.flow_hash,
            };
            let batch = &mut self.batches[i / BATCH];
            let placed = batch.push(frame, &headers, &arrival, &mut self.placer);
            placed.expect("an arena that holds the packets");
        }
    }

    /// Nanoseconds a packet, and which packets were not dropped.
    fn time(&mut self, passes: usize, mut work: impl FnMut(&mut Batch)) -> (f64, Vec<bool>) {
        let mut sum = 0.0;
        for _ in 0..passes {
            self.place();
            sum += seconds(|| self.batches.iter_mut().for_each(&mut work));
        }
        let forward = self.batches.iter().flat_map(|b| (0..b.len()).map(|i| b.is_forward(i)));
        (sum * 1e9 / (PACKETS * passes) as f64, forward.collect())
    }

    fn rounds(mut self, function: &dyn Function, set: &RuleSet, rules: &[Rule]) -> Times {
        let flat: Vec<Flat> = rules.iter().map(Flat::of).collect();
        let (linear, expected) = self.time(1, |batch| search_linearly(&flat, batch));
        let (mut runs, mut hands, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=ROUNDS {
            let (run, by_run) = self.time(PASSES, |batch| function.run(batch));
            let (hand, by_hand) = self.time(PASSES, |batch| run_by_hand(set, batch));
            assert!(by_run == expected && by_hand == expected, "all three decide alike");
            if round > 0 {
                runs.push(run);
                hands.push(hand);
                ratios.push(hand / run);
            }
        }
        let dropped = expected.iter().filter(|forward| !**forward).count();
        Times { run: median(runs), hand: median(hands), linear, ratio: median(ratios), dropped }
    }
}

/// The loop one would write for Ethernet, IPv4 without options, and these protocols alone.
fn run_by_hand(set: &RuleSet, batch: &mut Batch) {
    for index in 0..batch.len() {
        let Some(key) = key_of(batch.packet(index).frame()) else { continue };
        match set.first_v4(&key) {
            Some((_, Action::Accept)) => {}
            Some((_, Action::Drop)) => batch.packet_mut(index).drop(Reason(0)),
            None => batch.packet_mut(index).drop(Reason(1)),
        }
    }
}

#[inline(always)]
fn key_of(frame: &[u8]) -> Option<SearchKey<u32>> {
    let header = frame.first_chunk::<54>()?;
    if header[12..14] != [8, 0] || header[14] != 0x45 {
        return None;
    }
    let be16 = |at: usize| u32::from(u16::from_be_bytes([header[at], header[at + 1]]));
    let be32 = |at: usize| be16(at) << 16 | be16(at + 2);
    let (src_port, dst_port, kind) = match header[23] {
        6 => (be16(34), be16(36), kind_of_segment(header[47])),
        17 => (be16(34), be16(36), 17),
        1 => (NO_PORT, NO_PORT, kind_of_message(header[34], header[35])),
        protocol => (NO_PORT, NO_PORT, u32::from(protocol)),
    };
    Some(SearchKey { src: be32(26), dst: be32(30), src_port, dst_port, kind })
}

/// A filter of ClassBench, flat, for the linear search.
struct Flat {
    src: (u32, u32),
    dst: (u32, u32),
    src_port: (u16, u16),
    dst_port: (u16, u16),
    ported: bool,
    protocol: Option<u8>,
    /// Mask and value of flags, or of type and code, in the columns of ClassBench.
    more: (u16, u16),
    action: Action,
}

impl Flat {
    fn of(rule: &Rule) -> Self {
        let ports =
            |side: &EndMatch| side.ports.first().map_or((0, u16::MAX), |p| (*p.start(), *p.end()));
        let more = match (&rule.flags, &rule.message) {
            (Some(flags), _) => (u16::from(flags.mask) << 8, u16::from(flags.value) << 8),
            (_, Some(message)) => {
                let kind = u16::from(*message.types[0].start()) << 8;
                let code = message.codes.first().map(|code| u16::from(*code.start()));
                code.map_or((0xff00, kind), |code| (0xffff, kind | code))
            }
            _ => (0, 0),
        };
        Self {
            src: bits_and_mask(rule.src.prefixes[0]),
            dst: bits_and_mask(rule.dst.prefixes[0]),
            src_port: ports(&rule.src),
            dst_port: ports(&rule.dst),
            ported: !rule.src.ports.is_empty() || !rule.dst.ports.is_empty(),
            protocol: rule.protocols.first().copied(),
            more,
            action: rule.action,
        }
    }

    #[inline(always)]
    fn matches(&self, frame: &[u8; 54]) -> bool {
        let be16 = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        let be32 = |at: usize| u32::from(be16(at)) << 16 | u32::from(be16(at + 2));
        let more = match frame[23] {
            6 => u16::from(frame[47]) << 8,
            1 => be16(34),
            _ => 0,
        };
        let within = |(first, last): (u16, u16), at| (first..=last).contains(&be16(at));
        let ports = || within(self.src_port, 34) && within(self.dst_port, 36);
        be32(26) & self.src.1 == self.src.0
            && be32(30) & self.dst.1 == self.dst.0
            && self.protocol.is_none_or(|protocol| protocol == frame[23])
            && (!self.ported || matches!(frame[23], 6 | 17) && ports())
            && more & self.more.0 == self.more.1
    }
}

fn bits_and_mask(prefix: Prefix) -> (u32, u32) {
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix.len())).unwrap_or(0);
    match prefix.address() {
        IpAddr::V4(address) => (address.to_bits(), mask),
        // No IPv4 address has a bit that the mask leaves out.
        IpAddr::V6(_) => (1, 0),
    }
}

fn search_linearly(rules: &[Flat], batch: &mut Batch) {
    for index in 0..batch.len() {
        let packet = batch.packet(index);
        let Some(header) = packet.frame().first_chunk::<54>() else { continue };
        match rules.iter().find(|rule| rule.matches(header)) {
            Some(rule) if rule.action == Action::Accept => {}
            Some(_) => batch.packet_mut(index).drop(Reason(0)),
            None => batch.packet_mut(index).drop(Reason(1)),
        }
    }
}

/// SplitMix64.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    fn address(&mut self, within: Prefix) -> [u8; 4] {
        let (bits, mask) = bits_and_mask(within);
        (bits | (self.next() as u32 & !mask)).to_be_bytes()
    }

    /// A port in a side's range; every fourth is any port.
    fn port(&mut self, within: &EndMatch) -> [u8; 2] {
        let any = self.next() as u16;
        let range = within.ports.first().cloned().unwrap_or(0..=u16::MAX);
        let size = u64::from(range.end() - range.start()) + 1;
        let inside = range.start() + self.below(size) as u16;
        if self.below(4) == 0 { any } else { inside }.to_be_bytes()
    }
}

/// A frame of 64 bytes, 60 without its check sequence, whose headers are drawn from a filter.
fn frame(draw: &mut Draw, rules: &[Rule]) -> [u8; 60] {
    let rule = &rules[draw.below(rules.len() as u64) as usize];
    let protocol = rule.protocols.first().copied().unwrap_or_else(|| draw.pick(&[6, 17]));
    let mut frame = [0; 60];
    frame[12..18].copy_from_slice(&[8, 0, 0x45, 0, 0, 46]);
    frame[22..24].copy_from_slice(&[64, protocol]);
    frame[26..30].copy_from_slice(&draw.address(rule.src.prefixes[0]));
    frame[30..34].copy_from_slice(&draw.address(rule.dst.prefixes[0]));
    frame[34..36].copy_from_slice(&draw.port(&rule.src));
    frame[36..38].copy_from_slice(&draw.port(&rule.dst));
    let flags = rule.flags.map_or(0x10, |f| f.value | draw.next() as u8 & !f.mask);
    match (protocol, &rule.message) {
        (6, _) => frame[46..48].copy_from_slice(&[0x50, flags]),
        (17, _) => frame[38..40].copy_from_slice(&26u16.to_be_bytes()),
        (1, Some(message)) => frame[34] = *message.types[0].start(),
        _ => {}
    }
    frame
}

/// Filters in the columns of ClassBench: hosts and nets of few sites, ports any, known or a range.
fn synthetic(count: usize) -> String {
    let mut draw = Draw(count as u64);
    let sites: Vec<u32> = (0..20).map(|_| draw.next() as u32).collect();
    let prefix = |draw: &mut Draw| {
        let len = draw.pick(&[0, 16, 24, 24, 24, 28, 30, 32, 32, 32, 32, 32, 32, 32, 32, 32]);
        let address = draw.pick(&sites) ^ (draw.next() as u32 & 0x000f_ffff);
        let mask = u32::MAX.checked_shl(32 - len).unwrap_or(0);
        (format!("{}/{len}", Ipv4Addr::from_bits(address & mask)), 32 - len)
    };
    let ports = |draw: &mut Draw, any: u64| match draw.below(10) {
        n if n < any => "0 : 65535".to_owned(),
        9 => draw.pick(&["1024 : 65535", "0 : 1023", "6000 : 6063"]).to_owned(),
        _ => {
            let port = draw.pick(&[22, 25, 53, 80, 110, 123, 161, 443, 1521, 8080]);
            format!("{port} : {port}")
        }
    };
    let line = |_| {
        let (src, dst) = (prefix(&mut draw), prefix(&mut draw));
        let (src_port, dst_port) = (ports(&mut draw, 9), ports(&mut draw, 3));
        let rest = draw.pick(&[
            "0x06/0xFF\t0x0000/0x0000",
            "0x06/0xFF\t0x0000/0x0200",
            "0x06/0xFF\t0x1000/0x1000",
            "0x11/0xFF\t0x0000/0x0000",
            "0x00/0x00\t0x0000/0x0000",
        ]);
        let wide = src.1 + dst.1;
        (wide, format!("@{}\t{}\t{src_port}\t{dst_port}\t{rest}\n", src.0, dst.0))
    };
    let mut lines: Vec<(u32, String)> = (0..count).map(line).collect();
    // Narrow filters come first, as they do where people write them: none is shadowed by design.
    lines.sort_by_key(|&(wide, _)| wide);
    lines.into_iter().map(|(_, line)| line).collect()
}
