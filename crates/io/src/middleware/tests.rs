//! Middleware over a source written by hand and over the generator.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

use core::time::Duration;
use proptest::prelude::*;
use warpline_packet::{Instant, LinkType};

use super::*;
use crate::generator::{Generator, GeneratorConfig};
use crate::port::{Frame, Sink, SinkError};

type SentFrame = (u64, Vec<u8>, u32);

/// Frames 0, 1, 2, ... a microsecond apart, each carrying its number and then nonzero bytes.
struct Numbered {
    number: u32,
    end: u32,
    len: usize,
    frame: Vec<u8>,
    /// Says idle before every third frame.
    idle: bool,
    fails: bool,
}

impl Numbered {
    fn new(end: u32, len: usize) -> Self {
        Self { number: 0, end, len, frame: Vec::new(), idle: false, fails: false }
    }
}

impl Source for Numbered {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        if self.number == self.end {
            return match core::mem::take(&mut self.fails) {
                true => Err(SourceError::Io(io::Error::other("unplugged"))),
                false => Ok(Next::End),
            };
        }
        self.idle = !self.idle && self.number % 3 == 2;
        if self.idle {
            return Ok(Next::Idle(Duration::from_nanos(9)));
        }
        self.frame.clear();
        self.frame.extend(self.number.to_be_bytes());
        self.frame.resize(self.len, 0xa5);
        let timestamp = Instant::from_nanos(u64::from(self.number) * 1000);
        self.number += 1;
        let (bytes, wire_len) = (&self.frame[..], self.len as u32);
        Ok(Next::Frame(Frame { bytes, timestamp, wire_len, link: LinkType::RAW, interface: 3 }))
    }

    fn warnings(&self) -> Vec<String> {
        vec!["numbered".to_owned()]
    }

    fn drops_when_full(&self) -> bool {
        true
    }

    fn progress(&self) -> Option<f64> {
        Some(0.25)
    }
}

fn keep(frame: &Frame<'_>) -> SentFrame {
    (frame.timestamp.as_nanos(), frame.bytes.to_vec(), frame.wire_len)
}

/// Every frame up to the end; an error counts as one.
fn drain(source: &mut impl Source) -> Vec<SentFrame> {
    let mut frames = Vec::new();
    loop {
        match source.next() {
            Ok(Next::Frame(frame)) => frames.push(keep(&frame)),
            Ok(Next::Idle(_)) => {}
            Ok(Next::End) | Err(_) => break,
        }
    }
    assert!(matches!(source.next(), Ok(Next::End)));
    frames
}

fn impair(settings: &str, frames: u32, len: usize) -> (Vec<SentFrame>, ImpairCounts) {
    let config = ImpairConfig::parse(settings).unwrap();
    let mut source = Impair::new(Numbered::new(frames, len), config);
    let out = drain(&mut source);
    let counts = source.counts();
    assert_eq!(counts.received, u64::from(frames));
    assert_eq!(counts.sent, out.len() as u64);
    assert_eq!(counts.received + counts.duplicated, counts.sent + counts.dropped);
    (out, counts)
}

fn numbers(frames: &[SentFrame]) -> Vec<u32> {
    frames.iter().map(|(_, bytes, _)| u32::from_be_bytes(bytes[..4].try_into().unwrap())).collect()
}

#[test]
fn nothing_set_nothing_changed() {
    let (out, counts) = impair("", 1000, 60);
    assert_eq!(out, drain(&mut Numbered::new(1000, 60)));
    assert_eq!(counts, ImpairCounts { received: 1000, sent: 1000, ..ImpairCounts::default() });
}

#[test]
fn pure_function_of_seed_and_input() {
    let all = "drop=0.1,corrupt=0.1,duplicate=0.1,truncate=0.1,snap=20,reorder=0.2,delay_us=3,\
               jitter_us=4,seed=";
    let run = |seed: u32| impair(&format!("{all}{seed}"), 2000, 60);
    assert_eq!(run(4), run(4));
    assert_ne!(run(4).0, run(5).0);
}

#[test]
fn shares_are_as_asked() {
    let (_, counts) =
        impair("drop=0.1,corrupt=0.02,duplicate=0.05,truncate=0.3,snap=40,reorder=0.2", 50_000, 60);
    // Of 45 000 frames that were not lost; the widest standard deviation is 100.
    assert!(counts.dropped.abs_diff(5000) < 350, "{counts}");
    assert!(counts.corrupted.abs_diff(900) < 150, "{counts}");
    assert!(counts.duplicated.abs_diff(2250) < 240, "{counts}");
    assert!(counts.truncated.abs_diff(13_500) < 500, "{counts}");
    assert!(counts.reordered.abs_diff(9000) < 450, "{counts}");
}

#[test]
fn corrupt_flips_one_bit_anywhere() {
    let clean = drain(&mut Numbered::new(20_000, 30));
    let (out, counts) = impair("corrupt=1", 20_000, 30);
    assert_eq!(counts.corrupted, 20_000);
    let mut bits = vec![false; 240];
    for ((_, clean, _), (_, bytes, _)) in clean.iter().zip(&out) {
        let flipped: Vec<usize> = (0..240)
            .filter(|bit| (clean[bit / 8] ^ bytes[bit / 8]) & (1 << (bit % 8)) != 0)
            .collect();
        assert_eq!(flipped.len(), 1);
        bits[flipped[0]] = true;
    }
    assert!(bits.iter().all(|&hit| hit));
    let (_, counts) = impair("corrupt=1", 10, 4);
    assert_eq!(counts.corrupted, 10);
}

#[test]
fn truncate_keeps_the_length_on_the_wire() {
    let (out, counts) = impair("truncate=1,snap=20", 100, 60);
    assert!(out.iter().all(|(_, bytes, wire)| bytes.len() == 20 && *wire == 60));
    assert_eq!(counts.truncated, 100);
    let (out, counts) = impair("truncate=1,snap=60", 100, 60);
    assert!(out.iter().all(|(_, bytes, _)| bytes.len() == 60));
    assert_eq!(counts.truncated, 0);
}

#[test]
fn reorder_keeps_every_frame_within_its_depth() {
    for (settings, depth) in
        [("reorder=0.3", 8), ("reorder=1,depth=5", 5), ("reorder=0.5,depth=1", 1)]
    {
        let (out, counts) = impair(settings, 5000, 60);
        let order = numbers(&out);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert!(sorted.iter().copied().eq(0..5000), "{settings}");
        assert!(order != sorted || depth == 1 && counts.reordered == 5000, "{settings}");
        for (place, &number) in order.iter().enumerate() {
            // At most `depth` frames came in after it, and at most as many are held before it.
            assert!(place.abs_diff(number as usize) <= depth, "{settings}: {number} at {place}");
        }
        assert!(out.is_sorted_by_key(|&(time, _, _)| time), "{settings}");
        assert!(out.iter().zip(&order).all(|((time, ..), n)| *time >= u64::from(*n) * 1000));
    }
}

#[test]
fn duplicates_follow_their_frame() {
    let (out, counts) = impair("duplicate=0.2,reorder=0.3,jitter_us=2", 3000, 60);
    let order = numbers(&out);
    let pairs = order.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert_eq!(pairs as u64, counts.duplicated);
    assert!(counts.duplicated > 400);
    assert!(out.is_sorted_by_key(|&(time, _, _)| time));
}

#[test]
fn delays_are_added_to_timestamps() {
    let (out, _) = impair("delay_us=100", 50, 60);
    assert!(out.iter().zip(0u64..).all(|((time, ..), n)| *time == n * 1000 + 100_000));
    let (out, _) = impair("delay_us=100,jitter_us=20", 5000, 60);
    let late: Vec<u64> =
        out.iter().zip(0u64..).map(|((time, ..), n)| time - n * 1000 - 100_000).collect();
    assert!(late.iter().all(|&late| late <= 20_000));
    assert!(late.iter().any(|&late| late > 19_000) && late.iter().min() < Some(&12_000));
    assert!(out.is_sorted_by_key(|&(time, _, _)| time));
}

#[test]
fn an_error_comes_after_the_frames_before_it() {
    let mut numbered = Numbered::new(5, 10);
    numbered.fails = true;
    let config = ImpairConfig::parse("reorder=1,depth=1024").unwrap();
    let mut source = Impair::new(numbered, config);
    let mut frames = 0;
    let error = loop {
        match source.next() {
            Ok(Next::Frame(_)) => frames += 1,
            Ok(Next::Idle(_)) => {}
            Ok(Next::End) => panic!("the error is lost"),
            Err(error) => break error,
        }
    };
    assert_eq!((frames, error.to_string().as_str()), (5, "unplugged"));
    assert!(matches!(source.next(), Ok(Next::End)));
}

#[test]
fn losing_everything_still_lets_the_caller_in() {
    let mut source =
        Impair::new(Numbered::new(u32::MAX, 4), ImpairConfig::parse("drop=1").unwrap());
    assert!(matches!(source.next(), Ok(Next::Idle(_))));
}

#[test]
fn warnings_and_answers_come_through() {
    let config = ImpairConfig::parse("drop=1").unwrap();
    let mut source = Impair::new(Box::new(Numbered::new(10, 4)) as Box<dyn Source>, config);
    assert_eq!(source.warnings(), ["numbered"]);
    drain(&mut source);
    let reported =
        "impair: of 10 frames 10 dropped, 0 corrupted, 0 duplicated, 0 truncated, 0 reordered";
    assert_eq!(source.warnings(), ["numbered", reported]);
    assert!(source.drops_when_full());
    assert_eq!(source.progress(), Some(0.25));
}

/// A sink whose frames and flushes can be seen from outside, and which answers by a script.
#[derive(Clone, Default)]
struct Shelf(Arc<Mutex<RecorderState>>);

#[derive(Default)]
struct RecorderState {
    frames: Vec<SentFrame>,
    flushes: u32,
    answers: VecDeque<Result<(), SinkError>>,
    flush_fails: bool,
}

impl Sink for Shelf {
    fn send(&mut self, frame: &Frame<'_>) -> Result<(), SinkError> {
        let mut state = self.0.lock().unwrap();
        state.answers.pop_front().unwrap_or(Ok(()))?;
        state.frames.push(keep(frame));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        let mut state = self.0.lock().unwrap();
        state.flushes += 1;
        if state.flush_fails { Err(SinkError::Closed) } else { Ok(()) }
    }
}

#[test]
fn a_tap_sees_what_passes() {
    let shelf = Shelf::default();
    let mut tap = Tap::new(Numbered::new(100, 20), Box::new(shelf.clone()));
    let passed = drain(&mut tap);
    assert_eq!(passed, drain(&mut Numbered::new(100, 20)));
    assert_eq!((tap.written(), tap.warnings()), (100, vec!["numbered".to_owned()]));
    let state = shelf.0.lock().unwrap();
    assert_eq!(state.frames, passed);
    assert!(state.flushes > 0);
}

#[test]
fn a_tap_copies_bursts() {
    let shelf = Shelf::default();
    let generator = |settings| Generator::new(GeneratorConfig::parse(settings).expect("settings"));
    let mut tap = Tap::new(generator("packets=100"), Box::new(shelf.clone()));
    let given = [(); 5].map(|()| {
        let mut burst = Burst::new();
        (tap.burst(&mut burst).expect("a burst"), burst.frames().len())
    });
    let frames = |count| (Given::Frames, count);
    assert_eq!(given, [frames(32), frames(32), frames(32), frames(4), (Given::End, 0)]);
    let state = shelf.0.lock().expect("a shelf");
    assert_eq!(state.frames, drain(&mut generator("packets=100")));
    assert!(state.flushes > 0);
}

#[test]
fn a_failing_tap_ends_once_and_traffic_continues() {
    let shelf = Shelf::default();
    let full = io::Error::other("disk full");
    let answers =
        [Ok(()), Err(SinkError::Unsuitable("link type")), Ok(()), Err(SinkError::Io(full))];
    shelf.0.lock().unwrap().answers = answers.into();
    let mut tap = Tap::new(Numbered::new(50, 20), Box::new(shelf.clone()));
    assert_eq!(drain(&mut tap).len(), 50);
    assert_eq!(tap.warnings(), ["numbered", "tap: 1 frames were left out: link type"]);
    assert_eq!(tap.finish(), ["tap: ended after 2 frames: disk full"]);
    drop(tap);
    let state = shelf.0.lock().unwrap();
    assert_eq!((state.frames.len(), state.flushes), (2, 0));
}

#[test]
fn a_tap_that_cannot_flush_says_so() {
    let shelf = Shelf::default();
    shelf.0.lock().unwrap().flush_fails = true;
    let mut tap = Tap::new(Numbered::new(3, 20), Box::new(shelf));
    drain(&mut tap);
    // The reader of the copy may go away.
    assert_eq!(tap.warnings()[1..], ["tap: ended after 3 frames: the reader closed the pipe"]);
    assert!(tap.finish().is_empty());
}

#[test]
fn a_limit_gives_the_first_frames() {
    for count in [0, 1, 3, 9, 10, 11, u64::MAX] {
        let expected = usize::try_from(count).unwrap_or(usize::MAX).min(10);
        let all = drain(&mut Numbered::new(10, 20));
        let mut limited = Limit::new(Box::new(Numbered::new(10, 20)), count);
        assert_eq!(drain(&mut limited), all[..expected]);
        assert!(matches!(limited.next(), Ok(Next::End)));
        let settings = GeneratorConfig::parse("packets=100,size=64").unwrap();
        let mut limited = Limit::new(Box::new(Generator::new(settings)), count);
        let mut frames = 0;
        loop {
            let mut burst = Burst::new();
            match limited.burst(&mut burst).unwrap() {
                Given::End => break,
                Given::Frames => frames += burst.frames().len() as u64,
                Given::Idle(_) => {}
            }
        }
        assert_eq!(frames, count.min(100));
    }
}

#[test]
fn a_dropped_tap_is_flushed() {
    let shelf = Shelf::default();
    let mut tap = Tap::new(Numbered::new(3, 20), Box::new(shelf.clone()));
    assert!(matches!(tap.next(), Ok(Next::Frame(_))));
    drop(tap);
    assert_eq!(shelf.0.lock().unwrap().flushes, 1);
}

proptest! {
    #[test]
    fn conservation_for_any_settings(
        shares in prop::array::uniform5(0.0f64..=1.0),
        depth in 1u32..40, snap in 1u32..80, jitter in 0u32..10, seed: u64, frames in 0u32..300,
    ) {
        let [drop, corrupt, duplicate, truncate, reorder] = shares;
        let settings = format!(
            "drop={drop},corrupt={corrupt},duplicate={duplicate},truncate={truncate},\
             reorder={reorder},depth={depth},snap={snap},jitter_us={jitter},seed={seed}"
        );
        let before = Shelf::default();
        let after = Shelf::default();
        let traffic = format!("packets={frames},ip=mix,protocol=mix,size=imix");
        let generator = Generator::new(GeneratorConfig::parse(&traffic).unwrap());
        let tap = Tap::new(generator, Box::new(before.clone()));
        let mut source = Tap::new(
            Impair::new(tap, ImpairConfig::parse(&settings).unwrap()),
            Box::new(after.clone()),
        );
        let out = drain(&mut source);
        let (before, after) = (before.0.lock().unwrap(), after.0.lock().unwrap());
        prop_assert_eq!(before.frames.len(), frames as usize);
        prop_assert_eq!(&after.frames, &out);
        // Every frame that comes out is one that went in, but for one bit and its cut end.
        for (_, bytes, wire) in &out {
            let from = |(_, original, len): &&SentFrame| {
                let pairs = original.iter().zip(bytes);
                let flipped: u32 = pairs.map(|(a, b)| (a ^ b).count_ones()).sum();
                len == wire && flipped <= 1
            };
            prop_assert!(before.frames.iter().any(|frame| from(&frame)));
        }
    }
}
