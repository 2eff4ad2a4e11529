//! Causes of packets and their times: ticks come as often as requested, and functions make no more
//! packets than declared.

use std::sync::Arc;
use std::time::Duration;

use warpline_engine::{Chain, Control, Deployment, Instance, Place, Settings, Site};
use warpline_nf::{After, Before, Emit, Emits, Function, State, StateHalf, TICK_MADE_MAX};
use warpline_packet::{
    Access, Arrival, Batch, FieldSet, Instant, LinkType, ReadWrite, Shard, StateKey,
};

use crate::common::DEFINITION;
use crate::common::frames::{Input, Traffic};
use crate::common::ports::{Frames, SentFrames};
use crate::common::run::{Outcome, run_ports};

/// Asks for the time this often, and tries to make more than it may.
struct Greedy {
    access: Access,
    tick: Option<Duration>,
    emits: Emits,
}

impl Function for Greedy {
    fn access(&self) -> &Access {
        &self.access
    }
    fn run(&self, _: &mut Batch) {}
    fn state_key(&self) -> StateKey {
        StateKey::AddressPair
    }
    fn state(&self, shard: Shard) -> State {
        let is_first = shard.index() == 0;
        let answers_too = self.emits.forward_per_packet < self.emits.per_packet;
        let half = || Box::new(Half { is_first, answers_too, ..Half::default() });
        State { before: Some(half()), after: Some(half()) }
    }
    fn emits(&self) -> Emits {
        self.emits
    }
    fn tick(&self) -> Option<Duration> {
        self.tick
    }
}

#[derive(Default)]
struct Half {
    is_first: bool,
    answers_too: bool,
    ticks: u64,
    of_ticks: u64,
    of_packets: u64,
    answers: u64,
    of_past: u64,
    too_long: u64,
    backward: u64,
    now: Instant,
    past: Option<Arrival>,
}

impl Half {
    fn work(&mut self, batch: &Batch, picks: &[u16], emit: &mut Emit<'_>) {
        for &pick in picks {
            let now = batch.packet(usize::from(pick)).timestamp();
            self.backward += u64::from(now < self.now);
            self.now = now;
        }
        if let Some(past) = self.past {
            self.of_past += u64::from(emit.forward_at_tick(&past, b"past"));
        }
        // Twice over, so that a count that starts anew with each cause shows.
        for &pick in picks.iter().chain(picks) {
            let cause = batch.packet(usize::from(pick));
            self.of_packets += (0..5).filter(|_| emit.forward(&cause, b"made")).count() as u64;
            let answers = if self.answers_too { 0..5 } else { 0..0 };
            self.answers += answers.filter(|_| emit.send_back(&cause, b"back")).count() as u64;
            self.too_long += u64::from(emit.forward(&cause, &[0; 65]));
        }
        if let (None, Some(&first)) = (self.past, picks.first()) {
            self.past = Some(batch.packet(usize::from(first)).arrival());
        }
    }

    fn report(&mut self, now: Instant, emit: &mut Emit<'_>) {
        self.ticks += u64::from(self.is_first);
        self.backward += u64::from(now < self.now);
        let now = emit.tick_arrival(now, LinkType::ETHERNET).expect("a tick");
        for cause in [self.past, Some(now)].into_iter().flatten().cycle().take(10) {
            let made = emit.forward_at_tick(&cause, b"tick");
            let answered = self.answers_too && emit.send_at_tick(&cause, b"tick");
            self.of_ticks += u64::from(made) + u64::from(answered);
        }
    }

    fn visit(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        visit("ticks", self.ticks);
        visit("of-ticks", self.of_ticks);
        visit("of-packets", self.of_packets);
        visit("answers", self.answers);
        visit("of-past", self.of_past);
        visit("too-long", self.too_long);
        visit("backward", self.backward);
    }
}

impl Before for Half {
    fn before(&mut self, batch: &mut Batch, picks: &[u16], emit: &mut Emit<'_>) {
        self.work(batch, picks, emit);
    }
}

impl After for Half {
    fn after(&mut self, batch: &mut Batch, picks: &[u16], emit: &mut Emit<'_>) {
        self.work(batch, picks, emit);
    }
}

impl StateHalf for Half {
    fn handle_timeout(&mut self, now: Instant, emit: &mut Emit<'_>) {
        self.report(now, emit);
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        self.visit(visit);
    }
}

/// Runs a chain of functions that tick every so many ms (0 for never) and declare so many packets.
fn run(functions: &[(u64, usize)], settings: Settings, inputs: &[Input]) -> Outcome {
    run_in_stages(functions, false, settings, inputs)
}

/// The same, each in a stage of its own if `apart`.
fn run_in_stages(
    functions: &[(u64, usize)],
    apart: bool,
    settings: Settings,
    inputs: &[Input],
) -> Outcome {
    let emits = |&(every_ms, made): &(u64, usize)| (every_ms, Emits::packets(made, 64));
    let functions: Vec<_> = functions.iter().map(emits).collect();
    run_deployed(greedy(&functions, apart), settings, inputs)
}

/// A chain of functions that tick every so many ms (0 for never) and declare these packets.
pub(super) fn greedy(functions: &[(u64, Emits)], apart: bool) -> Deployment {
    let instances = functions.iter().map(|&(every_ms, emits)| Instance {
        name: format!("{every_ms}"),
        definition: &DEFINITION,
        function: Arc::new(Greedy {
            access: Access {
                before: ReadWrite::new(FieldSet::ALL, FieldSet::EMPTY),
                after: ReadWrite::new(FieldSet::ALL, FieldSet::EMPTY),
                ..Access::default()
            },
            tick: (every_ms > 0).then(|| Duration::from_millis(every_ms)),
            emits,
        }),
        fingerprint: 0,
        place: Place::Only,
    });
    let chain = Chain::new("greedy", instances.collect(), 0).expect("a chain");
    let site = Site { own_stage: apart, ..Site::default() };
    Deployment::new(Arc::new(chain), vec![site; functions.len()])
}

fn run_deployed(deployment: Deployment, settings: Settings, inputs: &[Input]) -> Outcome {
    let (source, control) = (Frames::new(inputs), Arc::new(Control::default()));
    let sink = SentFrames { slow: Duration::from_micros(100), ..SentFrames::default() };
    run_ports(deployment, settings, source, sink, control)
}

/// A packet a millisecond.
fn steady(count: usize) -> Vec<Input> {
    let mut inputs = Traffic::new(61, 30, 0, 60).take(count);
    for (at, input) in inputs.iter_mut().enumerate() {
        input.nanos = 1_000_000 * (at as u64 + 1);
    }
    inputs
}

#[test]
fn functions_get_the_time_as_often_as_they_ask() {
    let inputs = steady(1001);
    for lanes in [1, 4] {
        let settings = Settings { lanes, batch_packets: 16, ..Settings::default() };
        let outcome = run(&[(100, 0), (2, 0), (0, 0)], settings, &inputs);
        // Two halves of the first shard; the first tick of all comes with the chain's first.
        let ticks = |function| outcome.counter(function, "ticks") / 2;
        assert_eq!((ticks(0), ticks(1), ticks(2)), (10, 500, 0));
    }
}

#[test]
fn no_more_is_made_than_was_declared() {
    let inputs = steady(300);
    for (lanes, batch_packets) in [(1, 1), (1, 1024), (3, 16)] {
        let settings = Settings { lanes, batch_packets, ..Settings::default() };
        let outcome = run(&[(100, 2), (0, 1), (10, 0)], settings, &inputs);
        let counter = |function, name| outcome.counter(function, name);
        for function in 0..3 {
            assert_eq!(counter(function, "too-long"), 0);
        }
        // Whatever is asked for a cause from the past, there is nothing once it is not at hand.
        assert_eq!(counter(0, "of-packets") + counter(0, "of-past"), 2 * 300);
        let ticks = counter(0, "ticks") / 2;
        assert_eq!((ticks, counter(0, "of-ticks")), (3, 3 * 64 * TICK_MADE_MAX as u64));
        let second = &outcome.report.part.functions[1];
        assert_eq!(second.generated, second.packets_in, "one for each, the made ones too");
        assert_eq!(counter(2, "of-packets") + counter(2, "of-ticks"), 0);
    }
}

/// So it causes nothing there, and room is kept for no more than there can be.
#[test]
fn answers_skip_later_functions() {
    let inputs = steady(300);
    let mixed = Emits { forward_per_packet: 1, ..Emits::answers(3, 64) };
    let functions =
        [(100, Emits::answers(2, 64)), (0, mixed), (100, Emits::packets(1, 64)), (0, Emits::NONE)];
    for (batch_packets, apart) in [(1, true), (1, false), (16, true), (1024, false)] {
        let deployment = greedy(&functions, apart);
        assert_eq!(deployment.chain().multiply(), 1 + 2 + 3 + 2);
        let settings = Settings { batch_packets, ..Settings::default() };
        let outcome = run_deployed(deployment, settings, &inputs);
        let made = |function| {
            let of = ["of-packets", "of-past", "answers"].map(|of| outcome.counter(function, of));
            (of[0] + of[1], of[2])
        };
        assert_eq!([made(0), made(1), made(2)], [(0, 600), (300, 600), (600, 0)]);
        // Both halves count each tick and share its limit.
        let of_ticks = outcome.counter(0, "ticks") / 2 * 64 * TICK_MADE_MAX as u64;
        assert_eq!([0, 2].map(|at| outcome.counter(at, "of-ticks")), [of_ticks; 2]);
        let got = outcome.report.part.functions.iter().map(|function| function.packets_in);
        assert_eq!(got.collect::<Vec<_>>(), [300, 300, 600, 1200 + of_ticks]);
    }
}

#[test]
fn made_packets_find_room_while_the_sink_is_full() {
    let inputs = steady(20_000);
    let settings = Settings { batch_packets: 1024, ..Settings::default() };
    let outcome = run(&[(0, 15)], settings, &inputs);
    assert_eq!(outcome.report.part.packets.generated, 15 * 20_000);
}

/// Packets made by one stage may not take the room that the next needs for packets that it makes of
/// them.
#[test]
fn stages_that_make_packets_leave_those_behind_them_room() {
    let inputs = steady(1500);
    for functions in [&[(0, 7), (0, 1)][..], &[(0, 3), (0, 0), (0, 1), (0, 1)], &[(5, 1), (0, 7)]] {
        let make: usize = functions.iter().map(|(_, per_packet)| 1 + per_packet).product();
        for (batch_packets, queue_batches) in [(1024, 64), (64, 8), (1, 1)] {
            let settings = Settings { batch_packets, queue_batches, ..Settings::default() };
            let outcome = run_in_stages(functions, true, settings, &inputs);
            let all = outcome.report.part.packets.generated as usize + inputs.len();
            assert!(all >= make * inputs.len(), "{functions:?}, {settings:?}: {all}");
        }
    }
}

#[test]
fn a_time_that_cannot_go_on_moves_no_clock() {
    let ticks = |inputs: &[Input]| {
        let outcome = run(&[(1, 0)], Settings::default(), inputs);
        assert_eq!(outcome.sent.len(), 500);
        outcome.counter(0, "ticks")
    };
    let mut inputs = steady(500);
    let usual = ticks(&inputs);
    inputs[10].nanos = u64::MAX;
    assert!(usual.abs_diff(ticks(&inputs)) <= 2, "{usual} {}", ticks(&inputs));
    // Nor where all are so late: it can't go on from there.
    inputs.iter_mut().for_each(|input| input.nanos = u64::MAX);
    assert!(ticks(&inputs) <= 2);
}

#[test]
fn time_never_goes_back_for_a_function() {
    let inputs = Traffic::new(71, 30, 60, 100).take(2000);
    let back = inputs.windows(2).filter(|pair| pair[1].nanos < pair[0].nanos).count();
    assert!(back > 100, "the frames' own times do: {back}");
    let settings = Settings { lanes: 2, batch_packets: 16, ..Settings::default() };
    assert_eq!(run(&[(1, 0)], settings, &inputs).counter(0, "backward"), 0);
}
