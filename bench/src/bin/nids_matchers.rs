//! The cost of the matchers of `nids`, of Hyperscan called directly, and of the crates aho-corasick
//! and daachorse, with the same literals.
//!
//! Payloads of 1460 bytes, 256 of them in turn: text-like, random, and made to flood a prefilter,
//! of parts of the literals. The crates search folded bytes, as they have no case by pattern:
//! aho-corasick folds by itself, daachorse takes payloads that were folded before; neither compares
//! case again. All of them note each literal once.
//!
//! `nids_matchers [RULES]`: literals are made by a seeded generator, or taken from the `content`s
//! of a file of rules.

use std::hint::black_box;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use daachorse::DoubleArrayAhoCorasick;
use warpline_bench::payloads::{flood, literal, random, text};
use warpline_bench::{median, seconds};
use warpline_native::hyperscan::{Database, Library, Literal};
use warpline_search::{Choice, Hits, Matcher, Pattern, build};

const LEN: usize = 1460;
const PAYLOADS: usize = 256;
const ROUNDS: usize = 15;

fn main() {
    let file = std::env::args().nth(1).map(|path| std::fs::read(path).expect("the file of rules"));
    for count in [147, 1_000, 10_000] {
        let literals = match &file {
            Some(rules) => contents(rules, count),
            None => (0..count as u32).map(literal).collect(),
        };
        measure(&literals);
    }
}

fn measure(literals: &[Pattern]) {
    let mut searches = searches(literals);
    let payloads: [(&str, Vec<Vec<u8>>); 3] = [
        ("text", (0..PAYLOADS as u32).map(|number| text(number, LEN)).collect()),
        ("random", (0..PAYLOADS as u32).map(|number| random(number, LEN)).collect()),
        ("flood", (0..PAYLOADS as u32).map(|number| flood(number, LEN, literals)).collect()),
    ];
    for (kind, payloads) in &payloads {
        let folded: Vec<_> = payloads.iter().map(|payload| payload.to_ascii_lowercase()).collect();
        let mut times = vec![Vec::new(); searches.len()];
        let mut counts = vec![0; searches.len()];
        for _ in 0..ROUNDS {
            for ((search, times), count) in searches.iter_mut().zip(&mut times).zip(&mut counts) {
                let payloads = if search.wants_folded { &folded } else { payloads };
                *count = 0;
                times.push(seconds(|| payloads.iter().for_each(|p| *count += (search.run)(p))));
            }
        }
        for ((search, own), count) in searches.iter().zip(&times).zip(&counts) {
            let ratio = median(own.iter().zip(&times[0]).map(|(own, base)| base / own).collect());
            let gbps = (PAYLOADS * LEN * 8) as f64 / median(own.clone()) / 1e9;
            println!(
                "{:6} literals, {kind:6}: {:12} {gbps:7.2} Gb/s, ratio {ratio:6.2}; {:.2} hits a \
                 payload",
                literals.len(),
                search.name,
                *count as f64 / PAYLOADS as f64,
            );
        }
    }
}

/// Scans a payload, and returns the number of hits.
type Run = Box<dyn FnMut(&[u8]) -> usize>;

/// One way to search.
struct Search {
    name: &'static str,
    wants_folded: bool,
    /// Searches a payload; gives how many literals were noted.
    run: Run,
}

/// The first is aho-corasick; ratios are relative to it.
fn searches(literals: &[Pattern]) -> Vec<Search> {
    let mut searches = vec![aho_corasick(literals), daachorse(literals)];
    match Library::load() {
        Ok(library) => searches.push(bare_hyperscan(library, literals)),
        Err(missing) => println!("without Hyperscan: {missing}"),
    }
    for choice in [Choice::Hyperscan, Choice::Dense, Choice::Compact] {
        let mut built = None;
        let time = seconds(|| built = build(choice, literals, None).ok());
        let Some(matcher) = built else { continue };
        report(literals, matcher.name(), time, matcher.memory_len());
        searches.push(own(matcher, literals.len()));
    }
    searches
}

fn report(literals: &[Pattern], name: &str, seconds: f64, memory_len: usize) {
    let (count, kib) = (literals.len(), memory_len / 1024);
    println!("{count:6} literals: {name:12} built in {:8.2} ms, {kib:7} KiB", seconds * 1e3);
}

fn own(matcher: Box<dyn Matcher>, count: usize) -> Search {
    let mut hits = Hits::new(count, count);
    let name = matcher.name();
    let run = move |payload: &[u8]| {
        hits.clear();
        matcher.scan(payload, &mut hits);
        black_box(&hits).ids().len()
    };
    Search { name, wants_folded: false, run: Box::new(run) }
}

fn bare_hyperscan(library: &'static Library, literals: &[Pattern]) -> Search {
    let literals: Vec<_> = literals
        .iter()
        .map(|literal| Literal { bytes: &literal.bytes, is_caseless: literal.is_nocase })
        .collect();
    let database = Database::compile(library, &literals).expect("literals that Hyperscan takes");
    let run = move |payload: &[u8]| {
        let mut count = 0;
        let on_hit = |_| {
            count += 1;
            true
        };
        database.scan(payload, on_hit).expect("a scan");
        count
    };
    Search { name: "hs bare", wants_folded: false, run: Box::new(run) }
}

/// Folded literals, each once.
fn folded(literals: &[Pattern]) -> Vec<Vec<u8>> {
    let mut folded: Vec<_> = literals.iter().map(|l| l.bytes.to_ascii_lowercase()).collect();
    folded.sort_unstable();
    folded.dedup();
    folded
}

/// Places, each once.
struct Seen {
    bits: Vec<u64>,
    ids: Vec<u32>,
}

impl Seen {
    fn new(count: usize) -> Self {
        Self { bits: vec![0; count.div_ceil(64)], ids: Vec::with_capacity(count) }
    }

    fn of(&mut self, ids: impl Iterator<Item = u32>) -> usize {
        self.ids.drain(..).for_each(|id| self.bits[id as usize / 64] = 0);
        for id in ids {
            let (word, bit) = (&mut self.bits[id as usize / 64], 1 << (id % 64));
            if *word & bit == 0 {
                *word |= bit;
                self.ids.push(id);
            }
        }
        self.ids.len()
    }
}

fn aho_corasick(literals: &[Pattern]) -> Search {
    let folded = folded(literals);
    let mut built = None;
    let time = seconds(|| {
        built = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .kind(Some(AhoCorasickKind::DFA))
            .build(&folded)
            .ok();
    });
    let automaton = built.expect("literals that aho-corasick takes");
    report(literals, "aho-corasick", time, automaton.memory_usage());
    let mut seen = Seen::new(folded.len());
    let run = move |payload: &[u8]| {
        seen.of(automaton.find_overlapping_iter(payload).map(|found| found.pattern().as_u32()))
    };
    Search { name: "aho-corasick", wants_folded: false, run: Box::new(run) }
}

fn daachorse(literals: &[Pattern]) -> Search {
    let folded = folded(literals);
    let mut built = None;
    let time = seconds(|| built = DoubleArrayAhoCorasick::<u32>::new(&folded).ok());
    let automaton = built.expect("literals that daachorse takes");
    report(literals, "daachorse", time, automaton.heap_bytes());
    let mut seen = Seen::new(folded.len());
    let run = move |payload: &[u8]| {
        seen.of(automaton.find_overlapping_iter(payload).map(|found| found.value()))
    };
    Search { name: "daachorse", wants_folded: true, run: Box::new(run) }
}

/// The longest `content` of each of the first lines that have one, not negated; hexadecimal parts
/// read.
fn contents(rules: &[u8], count: usize) -> Vec<Pattern> {
    let mut literals: Vec<Pattern> = Vec::new();
    let mut known = std::collections::HashSet::new();
    for line in rules.split(|&byte| byte == b'\n') {
        let line = String::from_utf8_lossy(line);
        let values = line.split("content:\"").skip(1).filter_map(|rest| {
            let (value, behind) = rest.split_once("\";")?;
            let options = behind.split("content:").next()?;
            Some((unescape(value)?, options.contains("nocase")))
        });
        let longest = values.max_by_key(|(bytes, _)| bytes.len().min(32));
        let Some((mut bytes, is_nocase)) = longest.filter(|(bytes, _)| !bytes.is_empty()) else {
            continue;
        };
        bytes.truncate(32);
        if literals.len() < count && known.insert(bytes.clone()) {
            literals.push(Pattern { bytes: bytes.into(), is_nocase });
        }
    }
    literals
}

fn unescape(value: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for (place, part) in value.split('|').enumerate() {
        if place % 2 == 1 {
            for byte in part.split_whitespace() {
                bytes.push(u8::from_str_radix(byte, 16).ok()?);
            }
        } else {
            bytes.extend(part.bytes().filter(|&byte| byte != b'\\'));
        }
    }
    Some(bytes)
}
