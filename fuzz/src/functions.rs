//! Functions under a stream of fuzzed packets, and checks of the packets that come out.

use std::cell::RefCell;

use toml::de::DeTable;
use warpline_nf::config::{Folder, Layer};
use warpline_nf::{Definition, Diagnostics, Function, Resources, Section, SourceText};
use warpline_packet::{Flags, Headers, Instant, LinkType, Verdict};
use warpline_verify::{Harness, Input, Outcome};

use crate::frames::{self, ANSWER, FLUSH, QUOTE, TICK};
use crate::sum16;

/// A function, and how many scratch words it was handed.
pub type Built = (Box<dyn Function>, usize);

/// Builds a function from the text of its table and files that are not on disk. `None` for a text
/// that isn't TOML.
pub fn try_build(
    definition: &Definition,
    table: &str,
    files: &[(&str, &str)],
) -> Option<Result<Built, Diagnostics>> {
    let source = SourceText::new("chain.toml", table);
    let parsed = DeTable::parse(&source.text).ok()?;
    let (mut mistakes, mut resources) = (Diagnostics::default(), Resources::default());
    let layer = Layer { source: &source, table: parsed.get_ref(), span: parsed.span() };
    let folder = Folder::Bundled(files);
    let mut section = Section::new(vec![layer], definition.name, folder, &mut mistakes);
    section.refuse_unknown(definition.keys);
    let function = (definition.build)(&mut section, &mut resources);
    Some(match function {
        Some(function) if mistakes.is_empty() => Ok((function, resources.scratch_words())),
        None if mistakes.is_empty() => panic!("refused without a mistake"),
        _ => Err(mistakes),
    })
}

/// One function that every input of a target goes through.
pub struct FunctionHarness {
    definition: &'static Definition,
    table: &'static str,
    files: &'static [(&'static str, &'static str)],
    state: RefCell<Option<Running>>,
}

struct Running {
    harness: Harness,
    /// The next input's first packet.
    start: u64,
    /// Packets sent so far.
    sent: u64,
    /// The last packet of this input that was sent on.
    last: Option<(Vec<u8>, LinkType)>,
}

/// Between the packets of two inputs: longer than any timeout, so that state doesn't carry over.
const PAUSE: u64 = 10_000 * 1_000_000_000;

impl FunctionHarness {
    /// Of a function with this table; the files that it names are given.
    pub const fn new(
        definition: &'static Definition,
        table: &'static str,
        files: &'static [(&'static str, &'static str)],
    ) -> Self {
        Self { definition, table, files, state: RefCell::new(None) }
    }

    /// Sends the packets of an input through the function and checks what becomes of them.
    pub fn run(&self, data: &[u8]) {
        let mut state = self.state.borrow_mut();
        let running = state.get_or_insert_with(|| self.start());
        let cuts = frames::cut(data, running.start);
        let mut waiting: Vec<Input> = Vec::new();
        for cut in cuts {
            if cut.has(FLUSH | TICK | ANSWER | QUOTE) {
                self.send(running, &mut waiting);
            }
            if cut.has(TICK) {
                let made = running.harness.tick(Instant::from_nanos(cut.nanos));
                assert!(made.iter().all(|outcome| outcome.made));
            }
            running.start = cut.nanos;
            waiting.push(cut.input(running.last.as_ref().map(|(bytes, link)| (&bytes[..], *link))));
        }
        self.send(running, &mut waiting);
        running.start = running.start.saturating_add(PAUSE);
        running.last = None;
        running.harness.tick(Instant::from_nanos(running.start));
        // Long before times can't grow further.
        if running.start > u64::MAX / 2 {
            *state = None;
        }
    }

    fn start(&self) -> Running {
        let built = try_build(self.definition, self.table, self.files).expect("TOML");
        let (function, words) = built.unwrap_or_else(|mistakes| panic!("{mistakes}"));
        Running { harness: Harness::new(function, words), start: PAUSE, sent: 0, last: None }
    }

    fn send(&self, running: &mut Running, waiting: &mut Vec<Input>) {
        let inputs = std::mem::take(waiting);
        if inputs.is_empty() {
            return;
        }
        let outcomes = running.harness.process(&inputs);
        let first = running.sent;
        running.sent += inputs.len() as u64;
        let own: Vec<&Outcome> = outcomes.iter().filter(|outcome| !outcome.made).collect();
        assert_eq!(own.len(), inputs.len(), "every packet has one outcome");
        for (number, (input, outcome)) in (first..).zip(inputs.iter().zip(own)) {
            assert_eq!(outcome.ingress, number, "packets keep their order");
            check(self.definition, input, outcome);
            if outcome.verdict == Verdict::Forward {
                running.last = Some((outcome.bytes.clone(), input.link));
            }
        }
        for outcome in outcomes.iter().filter(|outcome| outcome.made) {
            let cause = outcome.ingress.checked_sub(first).and_then(|at| inputs.get(at as usize));
            check_made(cause.expect("what is made has a cause in its batch"), outcome);
        }
    }
}

fn check(definition: &Definition, input: &Input, outcome: &Outcome) {
    let tunnels = definition.name == "load_balancer" && outcome.verdict == Verdict::Forward;
    if tunnels && outcome.bytes.len() != input.bytes.len() {
        check_tunnel(input, outcome);
        return;
    }
    assert_eq!(outcome.bytes.len(), input.bytes.len(), "no other function changes a length");
    match outcome.verdict {
        Verdict::Dropped => assert!(usize::from(outcome.reason) < definition.drops.len()),
        Verdict::Malformed => assert_eq!(outcome.bytes, input.bytes, "rejected as it came"),
        Verdict::Forward | Verdict::Return => check_sums(input, outcome),
        Verdict::Absorbed | Verdict::Overload | Verdict::Bypass => {
            panic!("no function gives {:?}", outcome.verdict)
        }
    }
    let before = Headers::parse(&input.bytes, input.link, input.wire_len as usize);
    let after = Headers::parse(&outcome.bytes, input.link, input.wire_len as usize);
    if outcome.verdict.is_sent() {
        assert_eq!(before, after, "headers lie where they were");
    }
}

/// Checks a packet that was put in another one, after the same link header except for its type.
fn check_tunnel(input: &Input, outcome: &Outcome) {
    let headers = Headers::parse(&input.bytes, input.link, input.wire_len as usize);
    assert!(headers.malformed().is_none() && headers.version != 0);
    let (l3, more) = (usize::from(headers.l3), outcome.bytes.len() - input.bytes.len());
    let (outer, inner) = outcome.bytes[l3..].split_at(more);
    assert_eq!(inner, &input.bytes[l3..], "what is inside is what came");
    let differ = outcome.bytes[..l3].iter().zip(&input.bytes[..l3]).filter(|(a, b)| a != b);
    assert!(differ.count() <= 2, "the type of the link header alone");
    // Its own field may be zero.
    let inner_len = headers.end as usize - l3;
    let word = |at: usize| usize::from(u16::from_be_bytes([outer[at], outer[at + 1]]));
    let protocol = if headers.version == 4 { 4 } else { 41 };
    match (outer[0] >> 4, more) {
        (4, 20) => {
            assert_eq!((word(2), outer[9]), (20 + inner_len, protocol));
            assert_eq!(sum16(outer, 0), 0xffff);
        }
        (6, 40) => assert_eq!((word(4), outer[6]), (inner_len, protocol)),
        other => panic!("{other:?} is no outer header"),
    }
}

/// Checksums that were right are right.
fn check_sums(input: &Input, outcome: &Outcome) {
    let headers = Headers::parse(&input.bytes, input.link, input.wire_len as usize);
    let (l3, l4, end) = (headers.l3 as usize, headers.l4 as usize, headers.end as usize);
    if headers.malformed().is_some() || headers.version == 0 {
        assert_eq!(outcome.bytes[l3..], input.bytes[l3..], "apparently not IP");
        return;
    }
    let fixed = if headers.version == 4 {
        let ihl = usize::from(input.bytes[l3] & 15) * 4;
        let right = |bytes: &[u8]| sum16(&bytes[l3..l3 + ihl], 0) == 0xffff;
        assert!(!right(&input.bytes) || right(&outcome.bytes), "the header checksum broke");
        12..20
    } else {
        8..40
    };
    if headers.flags.has(Flags::FRAGMENT | Flags::SNAPPED) || !headers.flags.has(Flags::TRANSPORT) {
        return;
    }
    let pseudo = match (headers.version, headers.protocol) {
        (_, 6 | 17 | 58) => true,
        (4, 1) => false,
        _ => return,
    };
    // A UDP datagram without a checksum stays without.
    if headers.protocol == 17 && input.bytes[l4 + 6..l4 + 8] == [0, 0] {
        assert_eq!(outcome.bytes[l4 + 6..l4 + 8], [0, 0]);
        return;
    }
    let len = if headers.protocol == 17 {
        usize::from(u16::from_be_bytes([input.bytes[l4 + 4], input.bytes[l4 + 5]]))
    } else {
        end - l4
    };
    let right = |bytes: &[u8]| {
        let body = &bytes[l4..(l4 + len).min(end)];
        let addresses = u64::from(sum16(&bytes[l3 + fixed.start..l3 + fixed.end], 0));
        let start = addresses + u64::from(headers.protocol) + len as u64;
        sum16(body, if pseudo { start } else { 0 }) == 0xffff
    };
    assert!(!right(&input.bytes) || right(&outcome.bytes), "the transport checksum broke");
}

/// A packet that was made is a packet, with right checksums.
pub fn check_made(cause: &Input, outcome: &Outcome) {
    let headers = Headers::parse(&outcome.bytes, cause.link, outcome.bytes.len());
    assert_eq!(headers.malformed(), None, "made packets are well-formed");
    let l3 = usize::from(headers.l3);
    match headers.version {
        4 => {
            let ihl = usize::from(outcome.bytes[l3] & 15) * 4;
            assert_eq!(sum16(&outcome.bytes[l3..l3 + ihl], 0), 0xffff);
        }
        version => assert_eq!(version, 6),
    }
}
