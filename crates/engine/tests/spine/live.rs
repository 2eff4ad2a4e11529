//! Sources that read interfaces: their clock, their losses, and sinks without room.

use std::io::{PipeReader, PipeWriter, Write, pipe};
use std::os::fd::{AsRawFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant as Clock};

use warpline_engine::{
    Chain, Control, Deployment, Instance, Place, Ports, Report, Settings, Site, run,
};
use warpline_io::{Frame, Live, Next, Sink, SinkError, Source, SourceError};
use warpline_nf::{Emits, Function};
use warpline_packet::{Access, Batch, Instant, LinkType};
use warpline_testkit::frames::{Body, Datagram};

use super::causes::greedy;
use crate::common::DEFINITION;
use crate::common::frames::{Input, Traffic};
use crate::common::ports::{Frames, SentFrames};
use crate::common::run::{in_time, run_ports};

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
    /// Frames that may wait at ingress.
    waiting: u64,
    lost_each: u64,
    lost: u64,
    control: Arc<Control>,
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
            waiting: 0,
            lost_each,
            lost: 0,
            control: Arc::clone(control),
            _writer: writer,
            reader,
        }
    }
}

impl Source for Interface {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        let due = START.after(Duration::from_secs(PAUSE_S * self.given));
        if self.now < due || self.control.ended() < self.given {
            return Ok(Next::Idle(Duration::from_millis(1)));
        }
        let Some(input) = self.inputs.get(self.given as usize) else { return Ok(Next::End) };
        self.given += 1;
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
        if self.control.ended() + self.waiting >= self.given {
            self.now = self.now.after(LOOK);
        }
        self.now
    }

    fn losses(&mut self, lost: &mut dyn FnMut(u16, u64)) {
        lost(0, std::mem::take(&mut self.lost));
    }

    fn events(&mut self, report: &mut dyn FnMut(String)) {
        report("the link is up".into());
    }
}

/// Has room for every second frame.
struct Narrow {
    sent: u64,
    may_wait: bool,
}

impl Sink for Narrow {
    fn may_wait(&self) -> bool {
        self.may_wait
    }

    fn send(&mut self, _: &Frame<'_>) -> Result<(), SinkError> {
        self.sent += 1;
        if self.sent.is_multiple_of(2) { Err(SinkError::Full) } else { Ok(()) }
    }
}

/// With threads that have their own work if the sink `may_wait`; on one thread otherwise.
fn run_live(
    deployment: Deployment,
    (count, lost_each): (usize, u64),
    lanes: usize,
    may_wait: bool,
) -> Report {
    let control = Arc::new(Control::default());
    let source = Interface::new(count, lost_each, &control);
    run_source(deployment, source, lanes, may_wait, control)
}

fn run_source(
    deployment: Deployment,
    source: Interface,
    lanes: usize,
    may_wait: bool,
    control: Arc<Control>,
) -> Report {
    in_time(move || {
        let ports = Ports::Shared(Box::new(source), Box::new(Narrow { sent: 0, may_wait }));
        let settings = Settings { lanes, ..Settings::default() };
        run(&deployment, &settings, ports, &control).expect("a chain that starts")
    })
}

#[test]
fn time_passes_without_packets() {
    for (lanes, may_wait) in [(1, false), (3, false), (1, true), (3, true)] {
        let deployment = greedy(&[(1000, Emits::packets(0, 64))], false);
        let report = run_live(deployment, (4, 0), lanes, may_wait);
        let ticks = report.part.functions[0].counters["ticks"] / 2;
        assert!((239..=241).contains(&ticks), "{ticks} ticks in four minutes");
        // No frame after a pause waits for others to vote on its time.
        let time = report.part.time;
        assert_eq!((time.gaps, time.strays, time.steps_back), (0, 0, 0));
    }
}

/// Needs the first fragment of a packet before the others.
struct Following(Access);

impl Function for Following {
    fn access(&self) -> &Access {
        &self.0
    }

    fn run(&self, _: &mut Batch) {}

    fn follows_first_fragment(&self) -> bool {
        true
    }
}

/// A chain of one such function.
fn following() -> Deployment {
    let instance = Instance {
        name: "following".into(),
        definition: &DEFINITION,
        function: Arc::new(Following(Access::default())),
        fingerprint: 0,
        place: Place::Only,
    };
    let chain = Chain::new("following", vec![instance], 0).expect("a chain");
    Deployment::new(Arc::new(chain), vec![Site::default()])
}

/// A later fragment of a packet with this identification.
fn later_fragment(ident: u16) -> Vec<u8> {
    let body = Body::Error { kind: 3, code: 1 };
    let whole = Datagram::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), body).with(&[7; 64]);
    let [_, later] = Datagram { ident, ..whole }.fragments(32);
    later
}

/// The source has no frame before the one that waits has left.
#[test]
fn a_fragment_without_its_first_one_leaves_in_silence() {
    let later = later_fragment(1);
    for (lanes, may_wait) in [(1, false), (3, false), (1, true), (3, true)] {
        let control = Arc::new(Control::default());
        let mut source = Interface::new(2, 0, &control);
        source.inputs[0].wire_len = later.len() as u32;
        source.inputs[0].bytes = later.clone();
        source.waiting = 1;
        let report = run_source(following(), source, lanes, may_wait, control);
        assert_eq!(report.part.packets.read, 2);
        assert!(report.part.packets.balanced());
    }
}

/// The last fragment ends the wait of the one before it, and begins its own.
#[test]
fn fragments_that_wait_at_the_end_leave() {
    let mut inputs = Traffic::new(5, 9, 0, 60).take(3);
    for (ident, input) in (1..).zip(&mut inputs) {
        input.bytes = later_fragment(ident);
        input.wire_len = input.bytes.len() as u32;
        input.nanos = START.as_nanos() + u64::from(ident) * 65_000_000_000;
    }
    for count in 1..=inputs.len() {
        let (inputs, control) = (&inputs[..count], Arc::new(Control::default()));
        let sink = SentFrames::default();
        let outcome =
            run_ports(following(), Settings::default(), Frames::new(inputs), sink, control);
        assert_eq!(outcome.sent.len(), count);
    }
}

#[test]
fn frames_that_interfaces_lose_are_counted() {
    for may_wait in [false, true] {
        let report = run_live(greedy(&[(0, Emits::packets(0, 64))], false), (10, 7), 1, may_wait);
        let packets = &report.part.packets;
        assert_eq!((packets.read, packets.sent, packets.overload), (80, 5, 75));
        assert!(packets.balanced());
        let queues: Vec<_> =
            report.part.overload.iter().map(|(queue, count)| (*queue, *count)).collect();
        assert_eq!(queues, [("egress", 5), ("ring", 70)]);
    }
}

/// Always has another frame until it was asked twice for events.
struct Flooded {
    input: Input,
    given: u64,
    events: Arc<AtomicUsize>,
    pipe: (PipeReader, PipeWriter),
}

impl Flooded {
    fn new(events: &Arc<AtomicUsize>) -> Self {
        Self {
            input: Traffic::new(5, 9, 0, 60).take(1).remove(0),
            given: 0,
            events: Arc::clone(events),
            pipe: pipe().expect("a pipe"),
        }
    }
}

impl Source for Flooded {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        if self.events.load(Ordering::Relaxed) >= 2 {
            return Ok(Next::End);
        }
        self.given += 1;
        let timestamp = START.after(Duration::from_micros(self.given));
        let (bytes, wire_len) = (&self.input.bytes, self.input.wire_len);
        let (link, interface) = (LinkType::ETHERNET, 0);
        Ok(Next::Frame(Frame { bytes, timestamp, wire_len, link, interface }))
    }

    fn drops_when_full(&self) -> bool {
        true
    }

    fn live(&mut self) -> Option<&mut dyn Live> {
        Some(self)
    }
}

impl Live for Flooded {
    fn descriptors(&mut self, all: &mut Vec<RawFd>) {
        all.push(self.pipe.0.as_raw_fd());
    }

    fn now(&mut self) -> Instant {
        START.after(Duration::from_micros(self.given))
    }

    fn losses(&mut self, _: &mut dyn FnMut(u16, u64)) {}

    fn events(&mut self, _: &mut dyn FnMut(String)) {
        self.events.fetch_add(1, Ordering::Relaxed);
    }
}

/// An interface that comes back while another one is busy would stay closed.
#[test]
fn a_busy_reader_examines_its_interfaces() {
    for may_wait in [false, true] {
        let events = Arc::new(AtomicUsize::new(0));
        let source = Flooded::new(&events);
        in_time(move || {
            let ports = Ports::Shared(Box::new(source), Box::new(Narrow { sent: 0, may_wait }));
            let deployment = greedy(&[(0, Emits::packets(0, 64))], false);
            run(&deployment, &Settings::default(), ports, &Control::default()).expect("a start")
        });
        assert!(events.load(Ordering::Relaxed) >= 2, "{may_wait}");
    }
}

/// Panics with its first frame, and counts its ends.
struct Broken(Arc<AtomicUsize>);

impl Sink for Broken {
    fn may_wait(&self) -> bool {
        false
    }

    fn send(&mut self, _: &Frame<'_>) -> Result<(), SinkError> {
        panic!("the sink panics")
    }

    fn close(&mut self) -> Result<(), SinkError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn no_thread_continues_work_that_panicked_on_the_reader() {
    let closed = Arc::new(AtomicUsize::new(0));
    let (source, sink) = (Flooded::new(&Arc::default()), Broken(Arc::clone(&closed)));
    in_time(move || {
        let ports = Ports::Shared(Box::new(source), Box::new(sink));
        let run = || run(&greedy(&[], false), &Settings::default(), ports, &Control::default());
        catch_unwind(AssertUnwindSafe(run)).expect_err("a panic")
    });
    assert_eq!(closed.load(Ordering::Relaxed), 0);
}

/// Gives `rush` frames as fast as they are taken. Before and after them some have pauses.
struct Waves {
    inputs: Vec<Input>,
    given: usize,
    rush: usize,
    paused: Option<Clock>,
    pipe: (PipeReader, PipeWriter),
}

/// Frames before and after the rush, and the pause before each.
const SLOW: usize = 20;
const PAUSE: Duration = Duration::from_millis(15);

impl Source for Waves {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        if self.given == self.rush + 2 * SLOW {
            return Ok(Next::End);
        }
        if !(SLOW..SLOW + self.rush).contains(&self.given) {
            let since = *self.paused.get_or_insert_with(Clock::now);
            if since.elapsed() < PAUSE {
                return Ok(Next::Idle(Duration::from_millis(1)));
            }
            self.paused = None;
        }
        let input = &self.inputs[self.given % self.inputs.len()];
        let timestamp = START.after(Duration::from_micros(self.given as u64));
        self.given += 1;
        let (bytes, wire_len) = (&input.bytes, input.wire_len);
        Ok(Next::Frame(Frame {
            bytes,
            timestamp,
            wire_len,
            link: LinkType::ETHERNET,
            interface: 0,
        }))
    }

    fn live(&mut self) -> Option<&mut dyn Live> {
        Some(self)
    }
}

impl Live for Waves {
    fn descriptors(&mut self, all: &mut Vec<RawFd>) {
        all.push(self.pipe.0.as_raw_fd());
    }

    fn now(&mut self) -> Instant {
        START.after(Duration::from_micros(self.given as u64))
    }

    fn losses(&mut self, _: &mut dyn FnMut(u16, u64)) {}

    fn events(&mut self, _: &mut dyn FnMut(String)) {}
}

/// The names of the threads that sent, in order, each with the number of frames in a row.
#[derive(Clone, Default)]
struct Senders(Arc<Mutex<Vec<(String, usize)>>>);

struct Watched {
    senders: Senders,
    inputs: Vec<Input>,
    sent: usize,
}

impl Sink for Watched {
    fn may_wait(&self) -> bool {
        false
    }

    fn send(&mut self, frame: &Frame<'_>) -> Result<(), SinkError> {
        assert_eq!(frame.bytes, self.inputs[self.sent % self.inputs.len()].bytes, "{}", self.sent);
        self.sent += 1;
        let own = thread::current().name().unwrap_or_default().to_owned();
        let mut all = self.senders.0.lock().expect("no panic");
        match all.last_mut() {
            Some((name, count)) if *name == own => *count += 1,
            _ => all.push((own, 1)),
        }
        Ok(())
    }
}

/// The threads that sent a rush of frames and a few after it.
fn waves(settings: Settings) -> Vec<(String, usize)> {
    let rush = 150_000;
    let inputs = Traffic::new(5, 9, 0, 60).take(512);
    let source = Waves {
        inputs: inputs.clone(),
        given: 0,
        rush,
        paused: None,
        pipe: pipe().expect("a pipe"),
    };
    let senders = Senders::default();
    let sink = Watched { senders: senders.clone(), inputs, sent: 0 };
    let report = in_time(move || {
        let ports = Ports::Shared(Box::new(source), Box::new(sink));
        let deployment = greedy(&[(0, Emits::packets(0, 64))], false);
        let run = move || run(&deployment, &settings, ports, &Control::default());
        let reader = thread::Builder::new().name("reader".into()).spawn(run).expect("a thread");
        reader.join().expect("no panic").expect("a chain that starts")
    });
    assert_eq!(report.part.packets.sent, (rush + 2 * SLOW) as u64);
    assert!(report.part.packets.balanced());
    senders.0.lock().expect("no panic").clone()
}

/// Frames stay in order whichever thread does the work.
#[test]
fn a_chain_runs_on_one_thread_while_one_is_enough() {
    for lanes in [1, 3] {
        let senders = waves(Settings { lanes, ..Settings::default() });
        let is_sender = |run: &&(String, usize)| run.0 == "sender";
        let first = senders.iter().take_while(is_sender).map(|run| run.1);
        assert!(first.sum::<usize>() < SLOW, "it starts on one thread: {senders:?}");
        let any = senders.iter().any(|run| is_sender(&run));
        assert!(any, "one is not enough for the rush: {senders:?}");
        let last = senders.iter().rev().take_while(is_sender).map(|run| run.1);
        assert!(last.sum::<usize>() < SLOW, "one is enough again: {senders:?}");
    }
}

#[test]
fn a_lane_stays_on_its_core() {
    let Some(&core) = warpline_engine::sys::allowed().first() else { return };
    let cores = core.to_string().parse().expect("a core");
    let senders = waves(Settings { cores, ..Settings::default() });
    assert!(matches!(&senders[..], [(name, _)] if name == "sender"), "{senders:?}");
    let senders = waves(Settings { busy: true, ..Settings::default() });
    assert!(matches!(&senders[..], [(name, _)] if name == "sender"), "{senders:?}");
}
