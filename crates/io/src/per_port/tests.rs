//! Merged sources against a sort, and sinks that remember what they got.

use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex};

use core::time::Duration;
use proptest::prelude::*;
use warpline_packet::{Instant, LinkType};

use super::*;
use crate::port::{
    Burst, Frame, Given, InterfaceNames, Live, Next, NullSink, Sink, SinkError, Source, SourceError,
};

/// A frame as a test writes it: interface, timestamp, bytes.
type Written = (u16, u64, Vec<u8>);

/// A source of these frames; a frame without bytes stands for `Idle`.
struct Script {
    frames: VecDeque<Written>,
    now: Written,
    names: InterfaceNames,
    fails: bool,
}

impl Script {
    fn new(frames: impl IntoIterator<Item = Written>) -> Self {
        let (frames, names) = (frames.into_iter().collect(), InterfaceNames::default());
        Self { frames, now: (0, 0, Vec::new()), names, fails: false }
    }

    fn named(self, names: &[&str]) -> Self {
        names.iter().for_each(|name| self.names.push(Some((*name).into())));
        self
    }
}

impl Source for Script {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        let Some(next) = self.frames.pop_front() else {
            return match core::mem::take(&mut self.fails) {
                true => Err(SourceError::Io(io::Error::other("unplugged"))),
                false => Ok(Next::End),
            };
        };
        self.now = next;
        let (interface, at, bytes) = &self.now;
        if bytes.is_empty() {
            return Ok(Next::Idle(Duration::from_nanos(7)));
        }
        let (wire_len, timestamp) = (bytes.len() as u32, Instant::from_nanos(*at));
        let (link, interface) = (LinkType::RAW, *interface);
        Ok(Next::Frame(Frame { bytes, timestamp, wire_len, link, interface }))
    }

    fn warnings(&self) -> Vec<String> {
        vec!["a warning".into()]
    }

    fn interfaces(&self) -> InterfaceNames {
        self.names.clone()
    }
}

fn drain(source: &mut impl Source, by_burst: bool) -> Vec<Written> {
    let mut all = Vec::new();
    let written =
        |frame: &Frame<'_>| (frame.interface, frame.timestamp.as_nanos(), frame.bytes.to_vec());
    loop {
        if by_burst {
            let mut burst = Burst::new();
            match source.burst(&mut burst).unwrap() {
                Given::Frames => all.extend(burst.frames().iter().map(written)),
                Given::Idle(_) => {}
                Given::End => return all,
            }
        } else {
            match source.next().unwrap() {
                Next::Frame(frame) => all.push(written(&frame)),
                Next::Idle(_) => {}
                Next::End => return all,
            }
        }
    }
}

proptest! {
    #[test]
    fn frames_come_in_the_order_of_their_times(
        ports in prop::collection::vec(prop::collection::vec((0..3_u64, 0..4_u8), 0..120), 1..5),
        by_burst in any::<bool>(),
    ) {
        let mut expected = Vec::new();
        let mut feeds = Vec::new();
        for (port, steps) in (0_u16..).zip(&ports) {
            let (mut at, mut script) = (0, Vec::new());
            for (number, (gap, idle)) in steps.iter().enumerate() {
                at += gap;
                if *idle == 0 {
                    script.push((0, 0, Vec::new()));
                }
                let bytes = vec![port as u8 + 1, number as u8];
                script.push((9, at, bytes.clone()));
                expected.push((port, at, bytes));
            }
            feeds.push(PortSource::whole(Box::new(Script::new(script)), format!("p{port}"), port));
        }
        // The sort is stable, so ties keep the order of ports and of each port's frames.
        expected.sort_by_key(|&(port, at, _)| (at, port));
        let mut merged = Merged::new(feeds, (0..ports.len()).map(|port| format!("p{port}")));
        prop_assert_eq!(drain(&mut merged, by_burst), expected);
    }
}

#[test]
fn frames_that_go_back_in_time_keep_their_order() {
    let script = Script::new([(0, 9, vec![1]), (0, 2, vec![2]), (0, 5, vec![3])]);
    let other = Script::new([(0, 4, vec![4]), (0, 9, vec![5])]);
    let feeds = vec![
        PortSource::whole(Box::new(script), "a", 0),
        PortSource::whole(Box::new(other), "b", 1),
    ];
    let all = drain(&mut Merged::new(feeds, ["a".into(), "b".into()]), true);
    let bytes: Vec<u8> = all.iter().map(|(.., bytes)| bytes[0]).collect();
    assert_eq!(bytes, [4, 1, 2, 3, 5]);
}

#[test]
fn interfaces_of_one_capture_feed_ports() {
    let frames = (0..200).map(|n| (n % 4, u64::from(n), vec![n as u8 + 1]));
    let script = Script::new(frames).named(&["eth0", "eth1", "eth2", "eth0"]);
    let wanted = [
        (Wanted::Name("eth0".into()), 1),
        (Wanted::Number(1), 0),
        (Wanted::Name("eth7".into()), 2),
        (Wanted::Number(4), 3),
    ];
    let feed = PortSource::by_interface(Box::new(script), "both.pcapng", wanted);
    let mut merged = Merged::new(vec![feed], ["lan".into(), "wan".into()]);
    let all = drain(&mut merged, true);
    let expected = (0..200_u16).filter(|n| n % 4 != 2).map(|n| match n % 4 {
        1 => (0, u64::from(n), vec![n as u8 + 1]),
        _ => (1, u64::from(n), vec![n as u8 + 1]),
    });
    assert_eq!(all, expected.collect::<Vec<_>>());
    assert_eq!(
        merged.warnings(),
        ["both.pcapng: a warning", "both.pcapng: 50 frames of interfaces without a port"]
    );
    assert_eq!(
        merged.finish(),
        ["both.pcapng: there is no interface \"eth7\"", "both.pcapng: there is no interface 4"]
    );
    assert_eq!(merged.interfaces().name(1).as_deref(), Some("wan"));
}

/// An interface without frames.
struct Quiet;

impl Source for Quiet {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        Ok(Next::Idle(Duration::from_millis(3)))
    }

    fn live(&mut self) -> Option<&mut dyn Live> {
        Some(self)
    }
}

impl Live for Quiet {
    fn descriptors(&mut self, all: &mut Vec<RawFd>) {
        all.push(0);
    }

    fn now(&mut self) -> Instant {
        Instant::from_secs(7)
    }

    fn losses(&mut self, lost: &mut dyn FnMut(u16, u64)) {
        lost(0, 5);
    }

    fn events(&mut self, report: &mut dyn FnMut(String)) {
        report("down".into());
    }
}

#[test]
fn a_quiet_interface_holds_no_others() {
    let script = Script::new([(0, 1, vec![1]), (0, 2, vec![2])]);
    let feeds = vec![
        PortSource::whole(Box::new(Quiet), "lan", 4),
        PortSource::whole(Box::new(script), "wan", 1),
    ];
    let mut merged = Merged::new(feeds, ["a".into(), "b".into()]);
    for by_burst in [false, true, true] {
        let mut burst = Burst::new();
        let given = match by_burst {
            true => merged.burst(&mut burst).unwrap(),
            false => match merged.next().unwrap() {
                Next::Frame(frame) => {
                    burst.push(frame);
                    Given::Frames
                }
                Next::Idle(wait) => Given::Idle(wait),
                Next::End => Given::End,
            },
        };
        if let Some(frame) = burst.frames().first() {
            assert_eq!((frame.interface, given), (1, Given::Frames));
        } else {
            assert_eq!(given, Given::Idle(Duration::from_millis(3)));
        }
        drop(burst);
        let emptied = merged.live().expect("an interface").emptied();
        let all_idle = matches!(given, Given::Idle(_));
        assert!(emptied & 1 << 4 != 0, "the quiet one has no frame");
        assert_eq!(emptied & 1 << 1 != 0, all_idle, "the other one");
    }
    let live = merged.live().expect("an interface");
    let (mut all, mut lost, mut events) = (Vec::new(), Vec::new(), Vec::new());
    live.descriptors(&mut all);
    live.losses(&mut |port, count| lost.push((port, count)));
    live.events(&mut |event| events.push(event));
    assert_eq!((all, live.now(), lost), (vec![0], Instant::from_secs(7), vec![(4, 5)]));
    assert_eq!(events, ["lan: down"]);
}

#[test]
fn an_error_names_its_source() {
    let bad = Script { fails: true, ..Script::new([]) };
    let feeds = vec![
        PortSource::whole(Box::new(Script::new([(0, 1, vec![1])])), "a", 0),
        PortSource::whole(Box::new(bad), "b.pcap", 1),
    ];
    let mut merged = Merged::new(feeds, ["a".into(), "b".into()]);
    assert_eq!(merged.next().unwrap_err().to_string(), "b.pcap: unplugged");
    assert!(matches!(merged.next(), Ok(Next::End)));
}

/// Remembers the first byte of each frame, and fails at one.
struct Heard(Arc<Mutex<Vec<u8>>>, Option<u8>);

impl Sink for Heard {
    fn send(&mut self, frame: &Frame<'_>) -> Result<(), SinkError> {
        if self.1 == Some(frame.bytes[0]) {
            return Err(SinkError::Closed);
        }
        self.0.lock().unwrap().push(frame.bytes[0]);
        Ok(())
    }
}

#[test]
fn each_frame_goes_to_the_sink_of_its_port() {
    let heard = [(); 2].map(|()| Arc::new(Mutex::new(Vec::new())));
    let sink = |number: usize, fails_at| -> Box<dyn Sink> {
        Box::new(Heard(Arc::clone(&heard[number]), fails_at))
    };
    let own = [None, Some(sink(1, Some(7))), None, Some(Box::new(NullSink) as Box<dyn Sink>)];
    let mut sinks = PortSinks::new(sink(0, None), own);
    let bytes: Vec<[u8; 1]> = (0..10).map(|n| [n]).collect();
    let ports = [0, 0, 1, 1, 2, 3, 1, 1, 0, 5];
    let frames: Vec<Frame<'_>> = bytes
        .iter()
        .zip(ports)
        .map(|(bytes, interface)| Frame {
            bytes,
            timestamp: Instant::ZERO,
            wire_len: 1,
            link: LinkType::RAW,
            interface,
        })
        .collect();
    let (taken, outcome) = sinks.send_burst(&frames);
    assert_eq!(taken, 7);
    assert!(matches!(outcome, Err(SinkError::Closed)));
    sinks.send_burst(&frames[8..]).1.unwrap();
    assert_eq!(*heard[0].lock().unwrap(), [0, 1, 4, 8, 9]);
    assert_eq!(*heard[1].lock().unwrap(), [2, 3, 6]);
    assert_eq!([0, 1, 3].map(|port| sinks.wants_frames_of(port)), [true, true, false]);
}
