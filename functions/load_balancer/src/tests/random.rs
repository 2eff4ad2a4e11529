//! Random sequences of packets, answers, errors and reloads, held against the model.

use std::collections::BTreeMap;

use proptest::prelude::*;
use warpline_packet::{FlowHasher, Headers, LinkType, Steering};

use super::model::{At, Model, Server};
use super::*;

/// The next event; numbers choose among what there is.
#[derive(Clone, Debug)]
enum TrafficEvent {
    Client { host: u8, port: u8, vip: u8, flags: u8, len: usize },
    Answer { to: usize, flags: u8, len: usize },
    ErrorIn { about: usize, len: usize },
    ErrorOut { about: usize, len: usize },
    Reload { states: [u8; 5] },
    Wait { seconds: u64 },
}

fn step() -> impl Strategy<Value = TrafficEvent> {
    let flags = || prop_oneof![4 => Just(ACK), 4 => Just(SYN), 2 => Just(FIN), 1 => Just(RST)];
    let seconds = prop_oneof![0..20_u64, Just(119), Just(120), Just(240), 0..8000_u64];
    // A checksum that the quote cuts in half stays as it is, so quotes have whole words here.
    let quoted = || (14..45_usize).prop_map(|words| 2 * words);
    prop_oneof![
        8 => (0..12_u8, 0..3_u8, 0..3_u8, flags(), 0..40_usize)
            .prop_map(|(host, port, vip, flags, len)|
                TrafficEvent::Client { host, port, vip, flags, len }),
        4 => (any::<usize>(), flags(), 0..40_usize)
            .prop_map(|(to, flags, len)| TrafficEvent::Answer { to, flags, len }),
        2 => (any::<usize>(), quoted())
            .prop_map(|(about, len)| TrafficEvent::ErrorIn { about, len }),
        2 => (any::<usize>(), quoted())
            .prop_map(|(about, len)| TrafficEvent::ErrorOut { about, len }),
        1 => [0..6_u8, 0..6, 0..6, 0..6, 0..6].prop_map(|states| TrafficEvent::Reload { states }),
        1 => seconds.prop_map(|seconds| TrafficEvent::Wait { seconds }),
    ]
}

fn vip_address(v6: bool) -> &'static str {
    if v6 { "2001:db8::10" } else { "192.0.2.10" }
}

fn backend(v6: bool, n: usize) -> String {
    if v6 { format!("fd00::{n}") } else { format!("10.0.0.{n}") }
}

/// Two ports of TCP that share a service whose second backend has a port of its own, and one of
/// UDP; a state for each backend.
fn services(v6: bool, states: [u8; 5]) -> (String, BTreeMap<(At, bool), Vec<Server>>) {
    let vip = vip_address(v6);
    let (mut text, mut vips) = (String::new(), BTreeMap::new());
    for (own, tcp) in [(&states[..3], true), (&states[3..], false)] {
        let ports = if tcp { &[80, 443][..] } else { &[53] };
        text += &format!("vip {vip} {}\n", if tcp { "tcp 80,443" } else { "udp 53" });
        for &port in ports {
            vips.insert(((ip(vip), port), tcp), Vec::new());
        }
        for (n, state) in (1..).zip(own) {
            let (word, takes_new, keeps_old) = [
                ("", true, true),
                ("weight 3", true, true),
                ("weight 7", true, true),
                ("drain", false, true),
                ("down", false, false),
                ("", false, false),
            ][usize::from(*state)];
            if *state == 5 {
                continue;
            }
            let fixed = (tcp && n == 2).then_some(8080);
            let port = fixed.map_or(String::new(), |port| format!("port {port}"));
            text += &format!("  backend {} {port} {word}\n", backend(v6, n));
            for &own in ports {
                let at = (ip(&backend(v6, n)), fixed.unwrap_or(own));
                let list = vips.get_mut(&((ip(vip), own), tcp)).unwrap();
                list.push(Server { at, takes_new, keeps_old });
            }
        }
    }
    (text, vips)
}

const KEYS: &str = "addresses = [\"10.0.0.0/24\", \"192.0.2.0/24\", \"2001:db8::/64\", \
                    \"fd00::/64\"]\ntable_size = 251";

/// So many places for each shard.
fn keys(places: usize, bounded: bool) -> String {
    let bound = if bounded { 2 } else { 0 };
    format!("{KEYS}\nconnections = {}\nper_source_max = {bound}", 64 * places)
}

const EVICTED: [&str; 4] =
    ["evicted-closing", "evicted-half-open", "evicted-one-sided", "evicted-udp"];

enum Event {
    Packet(Input),
    File(String),
}

/// The balancer, the model and what went through both.
struct Run {
    harness: Harness,
    keys: String,
    model: Model,
    steering: Steering,
    v6: bool,
    now: u64,
    /// Packets of clients, and where they went.
    went: Vec<(Datagram, At)>,
    events: Vec<Event>,
    outcomes: Vec<Outcome>,
}

impl Run {
    fn new(v6: bool, places: usize, bounded: bool) -> Self {
        let (text, vips) = services(v6, [0; 5]);
        let keys = keys(places, bounded);
        let harness = balancer(&keys, &text);
        let steering = Steering::serving(harness.function().state_key());
        let mut model = Model::new(places);
        model.per_source = if bounded { 2 } else { usize::MAX };
        model.reload(vips);
        let (now, events) = (1000 * SECOND + 7, vec![Event::File(text)]);
        let (went, outcomes) = (Vec::new(), Vec::new());
        Self { harness, keys, model, steering, v6, now, went, events, outcomes }
    }

    fn push(&mut self, frame: &[u8]) -> (Outcome, u8) {
        let input = Input::at(self.now, frame);
        let headers = Headers::parse(&input.bytes, LinkType::ETHERNET, input.bytes.len());
        let shard = self.steering.steer(&FlowHasher::SEED_0, &input.bytes, &headers).shard;
        let out = self.harness.process(std::slice::from_ref(&input)).remove(0);
        self.events.push(Event::Packet(input));
        self.outcomes.push(out.clone());
        (out, shard)
    }

    fn step(&mut self, step: &TrafficEvent) {
        match *step {
            TrafficEvent::Client { host, port, vip, flags, len } => {
                let src = if self.v6 {
                    format!("2001:db8:f::{host}")
                } else {
                    format!("198.51.100.{host}")
                };
                let from = (&src[..], 5000 + u16::from(port));
                let vip = (vip_address(self.v6), [80, 443, 53][usize::from(vip)]);
                let datagram = if vip.1 == 53 { udp(from, vip) } else { tcp(from, vip, flags) };
                let datagram = self.numbered(datagram);
                self.client(&datagram.with(&vec![port; len]));
            }
            TrafficEvent::Answer { to, flags, len } if !self.went.is_empty() => {
                let (asked, at) = self.went[to % self.went.len()].clone();
                let datagram = self.numbered(reply(&asked, at, flags));
                self.answer(&datagram.with(&vec![9; len]));
            }
            TrafficEvent::ErrorIn { about, len } if !self.went.is_empty() => {
                self.error_in(about % self.went.len(), len.max(if self.v6 { 48 } else { 28 }));
            }
            TrafficEvent::ErrorOut { about, len } if !self.went.is_empty() => {
                self.error_out(about % self.went.len(), len.max(if self.v6 { 48 } else { 28 }));
            }
            TrafficEvent::Reload { states } => {
                let (text, vips) = services(self.v6, states);
                self.harness.reload(function(&self.keys, &text)).unwrap();
                self.model.reload(vips);
                self.events.push(Event::File(text));
            }
            TrafficEvent::Wait { seconds } => self.now += seconds * SECOND + 1,
            _ => {}
        }
        self.now += 1_000_000;
    }

    /// Each packet has an identification of its own.
    fn numbered(&self, datagram: Datagram) -> Datagram {
        Datagram { ident: self.outcomes.len() as u16, ..datagram }
    }

    fn client(&mut self, datagram: &Datagram) {
        let frames = frames(datagram);
        let (out, shard) = self.push(&frames[0]);
        let got = reason(&out).is_empty().then(|| destination(&out.bytes));
        let expected = self.model.client(datagram, shard, self.now, got);
        match expected {
            Ok(at) => {
                assert_eq!(reason(&out), "", "should go to {at:?}");
                let expected = self::frames(&datagram.clone().to(at.0, at.1));
                assert_eq!(out.bytes, expected[0]);
                self.went.push((datagram.clone(), at));
                self.rest(&frames, &expected);
                return;
            }
            // A full table may hide a conflict, and the other way round: the function knows the
            // server.
            Err(reported @ ("table-full" | "per-source")) => {
                assert!([reported, "conflict"].contains(&reason(&out)));
            }
            Err(why) => assert_eq!(reason(&out), why),
        }
        for frame in &frames[1..] {
            assert_eq!(reason(&self.push(frame).0), "fragment");
        }
    }

    /// The frames after the first one.
    fn rest(&mut self, frames: &[Vec<u8>], expected: &[Vec<u8>]) {
        for (frame, expected) in frames.iter().zip(expected).skip(1) {
            let (out, _) = self.push(frame);
            assert_eq!((reason(&out), &out.bytes), ("", expected));
        }
    }

    fn answer(&mut self, datagram: &Datagram) {
        let frames = frames(datagram);
        let (out, _) = self.push(&frames[0]);
        let expected = match self.model.server(datagram, self.now) {
            Some(vip) => self::frames(&datagram.clone().from(vip.0, vip.1)),
            None if self.model.is_of_former(datagram, self.now) => {
                assert_eq!(reason(&out), "no-connection");
                return;
            }
            None => frames.clone(),
        };
        assert_eq!((reason(&out), &out.bytes), ("", &expected[0]));
        self.rest(&frames, &expected);
    }

    /// From the client's side, about what the VIP sent.
    fn error_in(&mut self, about: usize, len: usize) {
        let (asked, _) = self.went[about].clone();
        let ((src, dst), ports) = ((asked.src, asked.dst), asked.ports());
        let answered = reply(&asked, (dst, ports.1), ACK);
        let (out, _) = self.push(&answered.error(src, len).frame());
        let tcp = matches!(asked.body, Body::Tcp { .. });
        match self.model.known((src, ports.0), (dst, ports.1), tcp, self.now) {
            Some(at) => {
                let expected = reply(&asked, at, ACK).error(src, len);
                assert_eq!((reason(&out), &out.bytes), ("", &expected.frame()));
            }
            None => assert_eq!(reason(&out), "no-connection"),
        }
    }

    /// From the backend's side, about what the client sent.
    fn error_out(&mut self, about: usize, len: usize) {
        let (asked, at) = self.went[about].clone();
        let error = asked.clone().to(at.0, at.1).error(at.0, len);
        let (out, _) = self.push(&error.frame());
        let answer = reply(&asked, at, ACK);
        let expected = match self.model.peek(&answer, self.now) {
            Some(vip) => asked.to(vip.0, vip.1).error(vip.0, len),
            None if self.model.is_of_former(&answer, self.now) => {
                assert_eq!(reason(&out), "no-connection");
                return;
            }
            None => error,
        };
        assert_eq!((reason(&out), &out.bytes), ("", &expected.frame()));
    }

    /// The same packets in batches of `size`, cut where the file changed.
    fn again(&self, size: usize) -> Vec<Outcome> {
        let mut harness: Option<Harness> = None;
        let (mut waiting, mut out) = (Vec::new(), Vec::new());
        let mut flush = |harness: &mut Option<Harness>, waiting: &mut Vec<Input>| {
            if let Some(harness) = harness {
                waiting.chunks(size).for_each(|chunk| out.extend(harness.process(chunk)));
            }
            waiting.clear();
        };
        for event in &self.events {
            match event {
                Event::Packet(input) => waiting.push(input.clone()),
                Event::File(text) => {
                    flush(&mut harness, &mut waiting);
                    match &mut harness {
                        Some(harness) => harness.reload(function(&self.keys, text)).unwrap(),
                        None => harness = Some(balancer(&self.keys, text)),
                    }
                }
            }
        }
        flush(&mut harness, &mut waiting);
        out
    }
}

/// A packet, or its fragments.
fn frames(datagram: &Datagram) -> Vec<Vec<u8>> {
    match datagram.payload.len() % 3 == 1 && datagram.payload.len() > 8 {
        true => datagram.fragments(if is_tcp(datagram) { 24 } else { 16 }).to_vec(),
        false => vec![datagram.frame()],
    }
}

fn is_tcp(datagram: &Datagram) -> bool {
    matches!(datagram.body, Body::Tcp { .. })
}

/// The answer to a client's packet, sent from `at`.
fn reply(asked: &Datagram, at: At, flags: u8) -> Datagram {
    let ports = asked.ports();
    let body = match asked.body {
        Body::Tcp { .. } => Body::Tcp { src: at.1, dst: ports.0, flags },
        _ => Body::Udp { src: at.1, dst: ports.0, unsummed: false },
    };
    Datagram::new(at.0, asked.src, body)
}

proptest! {
    #[test]
    fn does_what_the_model_does(
        (v6, places, bounded) in (any::<bool>(), 1..5_usize, any::<bool>()),
        steps in proptest::collection::vec(step(), 1..250),
    ) {
        let mut run = Run::new(v6, places, bounded);
        steps.iter().for_each(|step| run.step(step));
        prop_assert_eq!(run.harness.counter("moved"), run.model.moved);
        prop_assert_eq!(run.harness.counter("created"), run.model.created);
        for name in EVICTED {
            let expected = run.model.evicted.get(name).copied().unwrap_or(0);
            prop_assert_eq!(run.harness.counter(name), expected, "{}", name);
        }
        for size in [7, 256] {
            prop_assert_eq!(&run.again(size), &run.outcomes, "batches of {}", size);
        }
    }
}
