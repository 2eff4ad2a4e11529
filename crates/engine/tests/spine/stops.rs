//! The ends of a run: by the end of its input, on request, with an error, or in a panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use warpline_engine::{
    Chain, Control, Deployment, Instance, Machine, Member, MemberError, Place, Ports, Report,
    Settings, StartError, Successor, run,
};
use warpline_nf::{Function, Outputs};
use warpline_packet::{Access, Batch, ReadWrite};

use crate::common::frames::{Input, Traffic};
use crate::common::ports::{Failure, Frames, LAST_WORDS, SentFrames};
use crate::common::run::run_specs;
use crate::common::run::{Outcome, assert_same, check_flows, check_functions, in_time, run_ports};
use crate::common::{DEFINITION, all_four, deploy};

fn inputs() -> Vec<Input> {
    Traffic::new(31, 50, 5, 600).take(4000)
}

fn settings(lanes: usize) -> Settings {
    Settings { lanes, batch_packets: 32, queue_batches: 2, slabs: 4, ..Settings::default() }
}

fn with(lanes: usize, source: Frames, sink: SentFrames) -> Outcome {
    run_ports(deploy(&all_four(2)), settings(lanes), source, sink, Arc::new(Control::default()))
}

#[test]
fn a_stop_drains_and_balances() {
    for lanes in [1, 2, 4] {
        let mut source = Frames::new(&inputs());
        (source.endless, source.idle_every) = (true, 50);
        let control = Arc::new(Control::default());
        let stopper = {
            let control = Arc::clone(&control);
            std::thread::spawn(move || {
                while control.ended() < 2000 {
                    std::thread::sleep(Duration::from_millis(1));
                }
                control.stop();
            })
        };
        let sink = SentFrames::default();
        let closed = Arc::clone(&sink.closed);
        let outcome = run_ports(deploy(&all_four(2)), settings(lanes), source, sink, control);
        stopper.join().expect("the stopper");
        assert!(outcome.report.part.packets.sent > 0);
        check_functions(&outcome, &all_four(2));
        assert_eq!(*closed.lock().expect("closed"), 1);
    }
}

#[test]
fn a_stop_before_the_start_reads_nothing_and_closes_the_sink() {
    let control = Arc::new(Control::default());
    control.stop();
    let sink = SentFrames::default();
    let closed = Arc::clone(&sink.closed);
    let outcome =
        run_ports(deploy(&all_four(1)), settings(2), Frames::new(&inputs()), sink, control);
    assert_eq!(outcome.report.part.packets.read, 0);
    assert_eq!(*closed.lock().expect("closed"), 1);
    assert_eq!(outcome.report.part.span_ns, None);
}

#[test]
fn an_empty_input_ends() {
    for lanes in [1, 4] {
        let outcome = run_specs(&all_four(4), settings(lanes), &[]);
        assert!(outcome.sent.is_empty());
        assert_eq!(outcome.report.part.warnings, [LAST_WORDS]);
    }
}

#[test]
fn packets_before_a_failure_of_the_source_are_sent() {
    let inputs = inputs();
    let whole = run_specs(&all_four(2), settings(2), &inputs[..1234]);
    let source = Frames { fails_at: Some(1234), ..Frames::new(&inputs) };
    let outcome = with(2, source, SentFrames::default());
    assert_eq!(outcome.report.part.errors, ["input: the disk is gone"]);
    assert_same(&whole.summary(), &outcome.summary(), "the packets before the error");
}

#[test]
fn a_closed_pipe_ends_the_run_cleanly() {
    for lanes in [1, 2] {
        let source = Frames { endless: true, ..Frames::new(&inputs()) };
        let outcome = with(
            lanes,
            source,
            SentFrames { fails: Some((700, Failure::Closed)), ..SentFrames::default() },
        );
        let part = &outcome.report.part;
        assert_eq!(part.packets.sent, 700);
        assert!(part.errors.is_empty());
        assert!(part.warnings.contains(&"output: the reader closed the pipe".into()));
        assert!(part.packets.unwritten > 0 && part.packets.overload == 0, "{:?}", part.packets);
    }
}

#[test]
fn a_full_disk_ends_the_run_with_an_error() {
    let source = Frames { endless: true, ..Frames::new(&inputs()) };
    let outcome =
        with(2, source, SentFrames { fails: Some((700, Failure::Io)), ..SentFrames::default() });
    assert_eq!(outcome.report.part.errors, ["output: no space left"]);
    let packets = &outcome.report.part.packets;
    assert!(packets.unwritten > 0 && packets.overload == 0, "{packets:?}");
    let outcome =
        with(1, Frames::new(&inputs()), SentFrames { close_fails: true, ..SentFrames::default() });
    assert_eq!(outcome.report.part.errors, ["output: no space left"]);
}

#[test]
fn frames_that_do_not_suit_the_sink_are_counted_and_the_rest_is_sent() {
    let unsuitable = SentFrames { fails: Some((0, Failure::Unsuitable)), ..SentFrames::default() };
    let outcome = with(2, Frames::new(&inputs()), unsuitable);
    let part = &outcome.report.part;
    assert_eq!(part.packets.unwritten, (part.packets.sent + part.packets.unwritten) / 2);
    assert_eq!(part.packets.overload, 0);
    assert_eq!(part.warnings.len(), 2, "{:?}", part.warnings);
    assert!(part.errors.is_empty());
    check_flows(&outcome.sent);
}

/// Gives some frames, and no end before the sink handed them on.
struct Waits(Frames, Arc<std::sync::atomic::AtomicUsize>);

impl warpline_io::Source for Waits {
    fn next(&mut self) -> Result<warpline_io::Next<'_>, warpline_io::SourceError> {
        let all = self.0.inputs.len();
        if self.0.next == all && self.1.load(std::sync::atomic::Ordering::Relaxed) < all {
            return Ok(warpline_io::Next::Idle(Duration::from_secs(1)));
        }
        self.0.next()
    }
}

#[test]
fn sent_packets_are_flushed_while_the_source_is_idle() {
    for per_lane in [false, true] {
        let sink = SentFrames::default();
        let source = Waits(Frames::new(&inputs()[..100]), Arc::clone(&sink.flushed));
        let report = in_time(move || {
            let (source, sink) = (Box::new(source), Box::new(sink));
            let ports = match per_lane {
                true => Ports::PerLane(vec![(source, sink)]),
                false => Ports::Shared(source, sink),
            };
            run(&deploy(&[]), &settings(1), ports, &Control::default()).expect("a start")
        });
        assert_eq!(report.part.packets.sent, 100);
    }
}

/// Panics at some batch.
struct Panics(Access, std::sync::atomic::AtomicUsize);

impl Function for Panics {
    fn access(&self) -> &Access {
        &self.0
    }
    fn run(&self, _: &mut Batch) {
        let left = self.1.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        assert!(left > 0, "the function panics");
    }
}

fn panicking(batches: usize) -> Deployment {
    let access = Access::run_only(ReadWrite::NONE);
    let function = Arc::new(Panics(access, batches.into()));
    let instance = Instance {
        name: "panics".into(),
        definition: &DEFINITION,
        function,
        fingerprint: 0,
        place: Place::Only,
    };
    Chain::new("test", vec![instance], 0).expect("a chain").into()
}

fn panic_of(deployment: Deployment, source: Frames, sink: SentFrames, per_lane: bool) -> String {
    let panic = in_time(move || {
        let control = Control::default();
        let ports: (Box<dyn warpline_io::Source>, Box<dyn warpline_io::Sink>) =
            (Box::new(source), Box::new(sink));
        let ports =
            if per_lane { Ports::PerLane(vec![ports]) } else { Ports::Shared(ports.0, ports.1) };
        let settings = settings(if per_lane { 1 } else { 2 });
        let run = || run(&deployment, &settings, ports, &control);
        catch_unwind(AssertUnwindSafe(run)).expect_err("a panic")
    });
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

#[test]
fn a_panic_gets_out_wherever_it_happens() {
    let endless = || Frames { endless: true, ..Frames::new(&inputs()) };
    for per_lane in [false, true] {
        let text = panic_of(panicking(20), endless(), SentFrames::default(), per_lane);
        assert_eq!(text, "the function panics");
        let sink = SentFrames { fails: Some((50, Failure::Panic)), ..SentFrames::default() };
        assert_eq!(panic_of(deploy(&all_four(1)), endless(), sink, per_lane), "the sink panics");
        let source = Frames { panics_at: Some(3000), ..Frames::new(&inputs()) };
        let text = panic_of(deploy(&all_four(1)), source, SentFrames::default(), per_lane);
        assert_eq!(text, "the source panics");
    }
}

#[test]
fn a_chain_that_cannot_start_says_why() {
    let control = Control::default();
    let start = |settings: Settings, ports| run(&deploy(&[]), &settings, ports, &control);
    let none = Ports::PerLane(Vec::new());
    assert_eq!(start(settings(1), none).expect_err("no port"), StartError::Ports);
    let ports = Ports::Shared(Box::new(Frames::default()), Box::new(SentFrames::default()));
    let huge = Settings { slabs: 1 << 40, ..settings(1) };
    start(huge, ports).expect_err("an arena of an exabyte");
}

#[test]
fn a_chain_that_fails_stops_no_other_beside_it() {
    let shared =
        || Ports::Shared(Box::new(Frames::new(&inputs())), Box::new(SentFrames::default()));
    let members = [
        (deploy(&all_four(1)), shared()),
        (panicking(3), shared()),
        (deploy(&[]), Ports::PerLane(Vec::new())),
        (deploy(&[]), shared()),
    ];
    let member = |(deployment, ports)| Member::new(Arc::new(deployment), settings(1), ports);
    let members = members.into_iter().map(member).collect();
    let machine = Machine::new(members, Outputs::default(), Vec::new());
    let of = |ended: &Result<Report, MemberError>| match ended {
        Ok(report) => Ok(report.part.packets.read),
        Err(why) => Err(why.clone()),
    };
    let read = inputs().len() as u64;
    let failed = [Err(MemberError::Panicked), Err(MemberError::Start(StartError::Ports))];
    let expected = [Ok(read), failed[0].clone(), failed[1].clone(), Ok(read)];
    assert!(!machine.is_over());
    assert_eq!(machine.run().iter().map(of).collect::<Vec<_>>(), expected);
    assert!(machine.is_over() && machine.chains().iter().all(|own| own.state() == "ended"));
    assert!(machine.run().iter().map(of).all(|again| again == Err(MemberError::Twice)));
}

/// A chain that can't start takes no successor, and no caller waits for it.
#[test]
fn a_machine_that_never_runs_keeps_no_one_waiting() {
    let ports = Ports::Shared(Box::new(Frames::default()), Box::new(SentFrames::default()));
    let member = Member::new(Arc::new(deploy(&[])), settings(1), ports);
    let machine = Machine::new(vec![member], Outputs::default(), Vec::new());
    let chain = Arc::clone(&machine.chains()[0]);
    let reloader = std::thread::spawn(move || {
        let successor = Successor::new(&chain.deployment(), deploy(&[])).expect("a successor");
        in_time(move || chain.replace(&successor))
    });
    while !machine.chains()[0].control.is_reloading() {
        std::thread::yield_now();
    }
    drop(machine.over_at_drop());
    reloader.join().expect("it ends");
    assert!(machine.is_over());
}
