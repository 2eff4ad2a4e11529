//! Random sequences of packets, replies and errors, held against the model.

use proptest::prelude::*;
use warpline_packet::{FlowHasher, Headers, LinkType, Steering, Verdict};

use super::model::{Depends, Model, dropped};
use super::*;
use warpline_testkit::frames::{Body, Datagram};

/// The next event; numbers choose among what there is.
#[derive(Clone, Debug)]
enum TrafficEvent {
    Out {
        host: u8,
        port: u8,
        remote: u8,
        kind: u8,
        flags: u8,
        len: usize,
        odd: u8,
    },
    /// An answer to a packet that left: from its remote, another port of it, or another address.
    Reply {
        to: usize,
        from: u8,
        flags: u8,
        len: usize,
        odd: u8,
    },
    ErrorIn {
        about: usize,
        len: usize,
    },
    ErrorOut {
        about: usize,
        len: usize,
        router: u8,
    },
    Stray {
        port: u16,
        kind: u8,
    },
    Wait {
        seconds: u64,
    },
    /// To so many whole seconds after this one, and some nanoseconds more or less. A binding that
    /// was used in this second, and is idle for as long, ends then.
    Edge {
        seconds: u64,
        nanos: i64,
    },
}

/// Steps around the ends of idle times, of few bindings that fill their table: most refresh one.
fn edge_step() -> impl Strategy<Value = TrafficEvent> {
    let flags =
        || prop_oneof![3 => Just(0x10_u8), 2 => Just(0x02), 1 => Just(0x11), 1 => Just(0x04)];
    let ends = || prop_oneof![Just(59), Just(60), Just(240), Just(300), Just(7440)];
    let seconds = prop_oneof![4 => Just(0_u64), 5 => ends()];
    prop_oneof![
        24 => (0..2_u8, 0..8_u8, 0..3_u8, 0..5_u8, flags()).prop_map(
            |(host, port, remote, kind, flags)| {
                TrafficEvent::Out { host, port, remote, kind, flags, len: 0, odd: 0 }
            }
        ),
        2 => (any::<usize>(), 0..4_u8, flags())
            .prop_map(|(to, from, flags)| TrafficEvent::Reply { to, from, flags, len: 0, odd: 0 }),
        1 => (seconds, -1..2_i64)
            .prop_map(|(seconds, nanos)| TrafficEvent::Edge { seconds, nanos }),
    ]
}

fn step() -> impl Strategy<Value = TrafficEvent> {
    let flags = prop_oneof![
        4 => Just(0x10_u8),
        4 => Just(0x02),
        2 => Just(0x12),
        2 => Just(0x11),
        1 => Just(0x04),
        1 => Just(0x14),
    ];
    let seconds = prop_oneof![0..20_u64, Just(59), Just(60), Just(240), Just(300), 0..8000_u64];
    // A checksum that the quote cuts in half stays as it is, so quotes have whole words here.
    let quoted = || (14..45_usize).prop_map(|words| 2 * words);
    prop_oneof![
        6 => (0..6_u8, 0..4_u8, 0..3_u8, 0..6_u8, flags.clone(), 0..40_usize, 0..12_u8).prop_map(
            |(host, port, remote, kind, flags, len, odd)| {
                TrafficEvent::Out { host, port, remote, kind, flags, len, odd }
            }
        ),
        5 => (any::<usize>(), 0..4_u8, flags, 0..40_usize, 0..12_u8)
            .prop_map(|(to, from, flags, len, odd)|
                TrafficEvent::Reply { to, from, flags, len, odd }),
        2 => (any::<usize>(), quoted())
            .prop_map(|(about, len)| TrafficEvent::ErrorIn { about, len }),
        2 => (any::<usize>(), quoted(), 0..3_u8)
            .prop_map(|(about, len, router)| TrafficEvent::ErrorOut { about, len, router }),
        1 => (any::<u16>(), 0..5_u8).prop_map(|(port, kind)| TrafficEvent::Stray { port, kind }),
        1 => seconds.prop_map(|seconds| TrafficEvent::Wait { seconds }),
    ]
}

fn body(kind: u8, src: u16, dst: u16, flags: u8, reply: bool) -> Body {
    match kind {
        0 => Body::Tcp { src, dst, flags },
        1 => Body::Udp { src, dst, unsummed: false },
        2 => Body::Udp { src, dst, unsummed: true },
        3 => Body::Echo { reply, ident: src, seq: 9 },
        _ => Body::Other { protocol: [47, 50][usize::from(kind % 2)] },
    }
}

/// With the numbers of TCP that are due, or with odd ones: too far, a little ahead, old.
fn numbered(datagram: Datagram, out: bool, flags: u8, odd: u8) -> Datagram {
    let (own, other) = if out { (1_u32, 5001) } else { (5001, 1_u32) };
    let due = own + u32::from(flags & 2 == 0);
    let seq = match odd {
        9 => due + 1_000_000,
        10 => due + 2000,
        11 => due.wrapping_sub(500),
        _ => due,
    };
    datagram.numbered(seq, if flags & 16 != 0 { other + 1 } else { 0 })
}

fn host(v6: bool, number: u8) -> IpAddr {
    ip(&if v6 { format!("fd00::{number:x}") } else { format!("10.0.0.{number}") })
}

fn remote(v6: bool, number: u8) -> IpAddr {
    ip(&if v6 { format!("2001:db8:f::{number:x}") } else { format!("198.51.100.{number}") })
}

/// The translator, the model and what went through both.
struct Run {
    harness: Harness,
    steering: Steering,
    model: Model,
    v6: bool,
    now: u64,
    left: Vec<Datagram>,
    came: Vec<Datagram>,
    inputs: Vec<Input>,
    outcomes: Vec<Outcome>,
}

impl Run {
    fn shard(&self, datagram: &Datagram) -> u8 {
        let frame = datagram.frame();
        let headers = Headers::parse(&frame, LinkType::ETHERNET, frame.len());
        self.steering.steer(&FlowHasher::SEED_0, &frame, &headers).shard
    }

    fn push(&mut self, datagram: &Datagram) -> Outcome {
        let input = Input::at(self.now, &datagram.frame());
        let out = self.harness.process(std::slice::from_ref(&input)).remove(0);
        self.inputs.push(input);
        self.outcomes.push(out.clone());
        out
    }

    fn step(&mut self, step: &TrafficEvent) {
        let (v6, now) = (self.v6, self.now);
        match *step {
            TrafficEvent::Out { host: number, port, remote: far, kind, flags, len, odd } => {
                let body =
                    body(kind, 5000 + u16::from(port), 80 + u16::from(far), flags, flags == 4);
                let datagram = Datagram::new(host(v6, number), remote(v6, far / 2), body);
                let datagram = datagram.with(&vec![port; len + 8]);
                let datagram = numbered(datagram, true, flags, odd);
                let shard = self.shard(&datagram);
                let out = self.push(&datagram);
                self.left.extend(self.model.outbound(&datagram, shard, now, &out));
            }
            TrafficEvent::Reply { to, from, flags, len, odd } => {
                let Some(first) = self.left.get(to % self.left.len().max(1)).cloned() else {
                    return;
                };
                let ((src, dst), far) = (first.ports(), first.dst);
                let (far, port) = match from {
                    0 => (far, dst.wrapping_add(1)),
                    1 => (remote(v6, 77), dst),
                    _ => (far, dst),
                };
                let body = match first.body {
                    Body::Tcp { .. } => Body::Tcp { src: port, dst: src, flags },
                    Body::Udp { unsummed, .. } => Body::Udp { src: port, dst: src, unsummed },
                    Body::Other { protocol } => Body::Other { protocol },
                    _ => Body::Echo { reply: flags != 4, ident: src, seq: 9 },
                };
                let datagram = Datagram::new(far, first.src, body).with(&vec![flags; len + 8]);
                let datagram = numbered(datagram, false, flags, odd);
                let out = self.push(&datagram);
                self.came.extend(self.model.inbound(&datagram, now, &out));
            }
            TrafficEvent::ErrorIn { about, len } => {
                let Some(first) = self.left.get(about % self.left.len().max(1)).cloned() else {
                    return;
                };
                let (router, len) = (remote(v6, 200), if v6 { len + 20 } else { len });
                let out = self.push(&first.error(router, len));
                self.model.error_in(router, &first, len, now, &out);
            }
            TrafficEvent::ErrorOut { about, len, router } => {
                let Some(first) = self.came.get(about % self.came.len().max(1)).cloned() else {
                    return;
                };
                let router = [first.dst, host(v6, 250), remote(v6, 200)][usize::from(router)];
                let len = if v6 { len + 20 } else { len };
                // An error goes to who sent the packet: it quotes what came, turned to its source.
                let out = self.push(&first.error(router, len));
                self.model.error_out(router, &first, len, now, &out);
            }
            TrafficEvent::Stray { port, kind } => {
                let to = outside()[usize::from(port) % 2 + if v6 { 3 } else { 0 }];
                let body = body(kind, if kind == 3 { port } else { 53 }, port, 2, false);
                let datagram = Datagram::new(remote(v6, 9), to, body);
                let out = self.push(&datagram);
                self.came.extend(self.model.inbound(&datagram, now, &out));
            }
            TrafficEvent::Wait { seconds } => self.now += seconds * SECOND,
            TrafficEvent::Edge { seconds, nanos } => {
                let edge = (now / SECOND + 1 + seconds) * SECOND;
                self.now = edge.saturating_add_signed(nanos).max(now);
                return;
            }
        }
        self.now += 1_000_000;
    }
}

fn keys(model: &Model, scarce: bool) -> String {
    format!(
        "mapping = \"{}\"\nfiltering = \"{}\"\ninbound_refresh = {}\n{}",
        model.mapping.name(),
        model.filtering.name(),
        model.inbound_refresh,
        if scarce { "ports = \"2000-2063\"\nbindings = 192" } else { "bindings = 8192" },
    )
}

/// Takes the steps, and compares counters with the model and outcomes with those in other batches.
fn agree(keys: &str, model: Model, v6: bool, steps: &[TrafficEvent]) -> Result<(), TestCaseError> {
    let (left, came, inputs, outcomes) = Default::default();
    let harness = nat(keys);
    let steering = Steering::serving(harness.function().state_key());
    let mut run = Run { harness, steering, model, v6, now: SECOND, left, came, inputs, outcomes };
    for step in steps {
        run.step(step);
    }
    let now = Instant::from_nanos(run.now);
    run.harness.tick(now);
    run.model.expire(run.now);
    prop_assert_eq!(run.harness.counter("bindings"), run.model.len());
    let (created, expired) = (run.harness.counter("created"), run.harness.counter("expired"));
    let mut evicted = 0;
    for name in
        ["evicted-closing", "evicted-half-open", "evicted-udp", "evicted-icmp", "evicted-other"]
    {
        let expected = run.model.evicted.get(name).copied().unwrap_or(0);
        prop_assert_eq!(run.harness.counter(name), expected, "{}", name);
        evicted += expected;
    }
    prop_assert_eq!(created - expired - evicted, run.model.len());

    // The same, whatever the batches, and whether or not ticks come between them.
    for (size, ticks) in [(1, true), (7, false), (256, true)] {
        let mut again = nat(keys);
        let mut outcomes = Vec::new();
        for inputs in run.inputs.chunks(size) {
            if ticks {
                again.tick(inputs[0].timestamp);
            }
            outcomes.extend(again.process(inputs));
        }
        prop_assert_eq!(&outcomes, &run.outcomes, "batches of {}, ticks {}", size, ticks);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn agrees_with_the_model(
        steps in proptest::collection::vec(step(), 1..120),
        (mapping, filtering) in (0..3_usize, 0..3_usize),
        (v6, refresh, scarce, bounded) in any::<(bool, bool, bool, bool)>(),
    ) {
        let mut model = Model::new(Depends::ALL[mapping], Depends::ALL[filtering], refresh);
        model.outside = outside();
        model.ports = if scarce { 2000..=2063 } else { 1024..=65535 };
        model.scarce = scarce;
        (model.places, model.ports_per_shard) = if scarce { (3, 1) } else { (128, 1008) };
        model.per_source = if bounded { 4 } else { usize::MAX };
        let bound = if bounded { "\nper_source_max = 4" } else { "" };
        let keys = keys(&model, scarce) + bound;
        agree(&keys, model, v6, &steps)?;
    }

    /// Bindings of a full shard, used in the same and in other seconds, to the nanosecond of their
    /// end.
    #[test]
    fn bindings_end_and_give_way_as_in_the_model(
        steps in proptest::collection::vec(edge_step(), 100..500),
        (filtering, v6, refresh) in (0..3_usize, any::<bool>(), any::<bool>()),
        places in prop_oneof![Just(6_usize), Just(12), Just(48)],
    ) {
        let mut model = Model::new(Depends::Both, Depends::ALL[filtering], refresh);
        model.outside = outside();
        model.ports = 1024..=65535;
        (model.places, model.ports_per_shard) = (places, 1008);
        let keys = keys(&model, false).replace("8192", &(64 * places).to_string());
        agree(&keys, model, v6, &steps)?;
    }

    /// Packets cut, overwritten and snapped: no panic, and no inside source gets out.
    #[test]
    fn survives_anything(
        cases in proptest::collection::vec(
            (step(), any::<bool>(), proptest::collection::vec((any::<usize>(), any::<u8>()), 0..4),
             0..140_usize, any::<bool>()),
            1..60,
        ),
    ) {
        let mut harness = nat("ports = \"2000-2127\"\nbindings = 128");
        for (number, (step, v6, damage, len, snap)) in cases.iter().enumerate() {
            let Some(mut frame) = some_frame(step, *v6) else { continue };
            for (at, byte) in damage {
                let at = at % frame.len();
                frame[at] = *byte;
            }
            let wire_len = frame.len() as u32;
            frame.truncate((*len).max(1));
            let mut input = Input::at(number as u64, &frame);
            if *snap {
                input.wire_len = wire_len.max(input.wire_len);
            }
            let out = harness.process(&[input]).remove(0);
            prop_assert_eq!(out.bytes.len(), frame.len());
            if out.verdict == Verdict::Forward && out.bytes.len() >= 34
                && out.bytes[12..14] == [8, 0] {
                let inside = |at: usize| out.bytes[at] == 10;
                let link = out.bytes[30..33] == [224, 0, 0]
                    || out.bytes[30..32] == [169, 254]
                    || out.bytes[30..34] == [255; 4];
                let leaks = inside(26) && !inside(30) && !link;
                prop_assert!(!leaks, "{:x?}", out.bytes);
            }
        }
    }

    #[test]
    fn survives_noise(frames in proptest::collection::vec(
        proptest::collection::vec(any::<u8>(), 1..120), 1..40))
    {
        let mut harness = nat("bindings = 64");
        for mut frame in frames {
            if frame.len() > 30 {
                // Often enough it is IP from inside.
                let v4 = frame[0] % 2 == 0;
                frame[12..15].copy_from_slice(if v4 { &[8, 0, 0x45] } else { &[0x86, 0xdd, 0x60] });
                frame[if v4 { 26 } else { 22 }] = if v4 { 10 } else { 0xfd };
                frame[if v4 { 23 } else { 20 }] %= 60;
            }
            let out = harness.process(&[Input::at(5, &frame)]).remove(0);
            if out.verdict == Verdict::Dropped {
                prop_assert!(dropped(&out).is_some());
            }
        }
    }
}

fn some_frame(step: &TrafficEvent, v6: bool) -> Option<Vec<u8>> {
    let (inside, outside) = (host(v6, 1), if v6 { outside()[3] } else { outside()[0] });
    let far = remote(v6, 1);
    let datagram = match *step {
        TrafficEvent::Out { kind, flags, len, port, .. } => {
            Datagram::new(inside, far, body(kind, u16::from(port), 80, flags, false))
                .with(&vec![1; len])
        }
        TrafficEvent::Reply { flags, .. } => {
            Datagram::new(far, outside, Body::Tcp { src: 80, dst: 2000, flags })
        }
        TrafficEvent::ErrorIn { len, .. } => {
            Datagram::new(outside, far, body(1, 2001, 80, 0, false)).error(remote(v6, 2), len)
        }
        TrafficEvent::ErrorOut { len, .. } => {
            Datagram::new(far, inside, body(1, 80, 1, 0, false)).error(inside, len)
        }
        TrafficEvent::Stray { port, .. } => {
            let whole = Datagram::new(inside, far, body(1, port, 80, 0, false));
            return Some(whole.fragments(8)[usize::from(port % 2)].clone());
        }
        TrafficEvent::Wait { .. } | TrafficEvent::Edge { .. } => return None,
    };
    Some(datagram.frame())
}

/// A packet cut within its IP options reads as not IP. It must not get out all the same.
#[test]
fn a_header_cut_in_its_options_does_not_get_out() {
    let mut frame =
        vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x4b, 0, 0, 70, 0, 0, 0, 0, 64, 6];
    frame.extend([0, 0, 10, 0, 0, 1, 198, 51, 100, 1]);
    frame.resize(54, 1);
    let mut input = Input::at(0, &frame);
    input.wire_len = 90;
    let out = nat("bindings = 64").process(&[input]).remove(0);
    assert_eq!(out.verdict, Verdict::Dropped);
}
