//! Sources that read interfaces: their clock, their losses, and sinks without room.

use std::io::{PipeReader, PipeWriter, Write, pipe};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

use warpline_engine::{Control, Deployment, Ports, Report, Settings, run};
use warpline_io::{Frame, Live, Next, Sink, SinkError, Source, SourceError};
use warpline_nf::Emits;
use warpline_packet::{Instant, LinkType};

use super::causes::greedy;
use crate::common::frames::{Input, Traffic};
use crate::common::run::in_time;

const START: Instant = Instant::from_secs(1_700_000_000);
/// Seconds between two frames, in which the source has none.
const PAUSE_S: u64 = 60;
/// The source's time that passes with each look at its clock.
const LOOK: Duration = Duration::from_millis(500);

/// Gives a frame, then waits for the chain to send it and for time to pass.
struct Interface {
    inputs: Vec<Input>,
    given: u64,
    now: Instant,
    lost_each: u64,
    lost: u64,
    control: Arc<Control>,
    since: Clock,
    _writer: PipeWriter,
    reader: PipeReader,
}

impl Interface {
    fn new(count: usize, lost_each: u64, control: &Arc<Control>) -> Self {
        let (reader, mut writer) = pipe().expect("a pipe");
        // Every wait for it ends at once.
        writer.write_all(b"x").expect("a byte");
        Self {
            inputs: Traffic::new(5, 9, 0, 60).take(count),
            given: 0,
            now: START,
            lost_each,
            lost: 0,
            control: Arc::clone(control),
            since: Clock::now(),
            _writer: writer,
            reader,
        }
    }
}

impl Source for Interface {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        let due = START.after(Duration::from_secs(PAUSE_S * self.given));
        if self.now < due || self.control.ended() < self.given {
            assert!(self.since.elapsed() < Duration::from_millis(900), "a frame is held back");
            return Ok(Next::Idle(Duration::from_millis(1)));
        }
        let Some(input) = self.inputs.get(self.given as usize) else { return Ok(Next::End) };
        (self.given, self.since) = (self.given + 1, Clock::now());
        self.lost += self.lost_each;
        let (bytes, wire_len) = (&input.bytes, input.wire_len);
        let (link, interface) = (LinkType::ETHERNET, 0);
        Ok(Next::Frame(Frame { bytes, timestamp: self.now, wire_len, link, interface }))
    }

    fn live(&mut self) -> Option<&mut dyn Live> {
        Some(self)
    }
}

impl Live for Interface {
    fn descriptors(&mut self, all: &mut Vec<RawFd>) {
        all.push(self.reader.as_raw_fd());
    }

    fn now(&mut self) -> Instant {
        // Only as long as the frame before was sent, or no frame would come late.
        if self.control.ended() >= self.given {
            self.now = self.now.after(LOOK);
        }
        self.now
    }

    fn losses(&mut self, lost: &mut dyn FnMut(u16, u64)) {
        lost(0, std::mem::take(&mut self.lost));
    }

    fn events(&mut self, tell: &mut dyn FnMut(String)) {
        tell("the link is up".into());
    }
}

/// Has room for every second frame.
struct Narrow(u64);

impl Sink for Narrow {
    fn send(&mut self, _: &Frame<'_>) -> Result<(), SinkError> {
        self.0 += 1;
        if self.0.is_multiple_of(2) { Err(SinkError::Full) } else { Ok(()) }
    }
}

fn run_live(deployment: Deployment, count: usize, lost_each: u64, lanes: usize) -> Report {
    let control = Arc::new(Control::default());
    let source = Interface::new(count, lost_each, &control);
    in_time(move || {
        let ports = Ports::Shared(Box::new(source), Box::new(Narrow(0)));
        let settings = Settings { lanes, ..Settings::default() };
        run(&deployment, &settings, ports, &control).expect("a chain that starts")
    })
}

#[test]
fn time_passes_without_packets() {
    for lanes in [1, 3] {
        let report = run_live(greedy(&[(1000, Emits::packets(0, 64))], false), 4, 0, lanes);
        let ticks = report.part.functions[0].counters["ticks"] / 2;
        assert!((239..=241).contains(&ticks), "{ticks} ticks in four minutes");
        // No frame after a pause waits for others to vote on its time.
        let time = report.part.time;
        assert_eq!((time.gaps, time.strays, time.steps_back), (0, 0, 0));
    }
}

#[test]
fn frames_that_interfaces_lose_are_counted() {
    let report = run_live(greedy(&[(0, Emits::packets(0, 64))], false), 10, 7, 1);
    let packets = &report.part.packets;
    assert_eq!((packets.read, packets.sent, packets.overload), (80, 5, 75));
    assert!(packets.balanced());
    let queues: Vec<_> =
        report.part.overload.iter().map(|(queue, count)| (*queue, *count)).collect();
    assert_eq!(queues, [("egress", 5), ("ring", 70)]);
}
