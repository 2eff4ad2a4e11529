//! Reports and reloads: both come in the order of the input, and don't depend on lanes and batches.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use warpline_engine::{
    Chain, Control, Deployment, Instance, Place, Ports, Report, Settings, Site, StartError,
    Successor, run, run_to,
};
use warpline_io::{Next, NullSink, Sink, Source, SourceError};
use warpline_nf::{Output, Outputs, Registry};

use crate::common::frames::{Input, Traffic};
use crate::common::noter::{Note, Noter, Notes};
use crate::common::ports::{Frames, Sent, SentFrames};
use crate::common::real::{deploy_forms, forms, traffic};
use crate::common::run::in_time;
use crate::common::talk::Talk;
use crate::common::{DEFINITION, NAT, Spec, deploy};

const SETTINGS: [(usize, usize); 6] = [(1, 1), (1, 256), (2, 1), (2, 256), (4, 256), (4, 1024)];

/// A noter between two functions that make, absorb and drop packets.
fn noting(noter: Noter, fingerprint: u64) -> Deployment {
    among(&[Spec::EmitAbsorb, NAT], 1, noter, fingerprint)
}

/// A noter at `place` among functions.
fn among(specs: &[Spec], place: usize, noter: Noter, fingerprint: u64) -> Deployment {
    let deployment = deploy(specs);
    let instance = Instance {
        name: "noter".into(),
        definition: &DEFINITION,
        function: Arc::new(noter),
        fingerprint,
        place: Place::Only,
    };
    let Chain { mut instances, scratch_words, .. } = Chain::clone(deployment.chain());
    let mut sites = deployment.sites().to_vec();
    instances.insert(place, instance);
    sites.insert(place, Site::default());
    let chain = Chain::new("test", instances, scratch_words).expect("a chain");
    Deployment::new(Arc::new(chain), sites)
}

fn settings((lanes, batch_packets): (usize, usize)) -> Settings {
    Settings { lanes, batch_packets, ..Settings::default() }
}

/// Runs a noting chain over `inputs`; with frames kept or not.
fn note(inputs: &[Input], settings: Settings, keep: bool) -> (Vec<Note>, Report) {
    let noter = Noter::new(1);
    let notes = Arc::clone(&noter.notes);
    let (deployment, source) = (noting(noter, 0), Frames::new(inputs));
    let report = in_time(move || {
        let sink: Box<dyn Sink> =
            if keep { Box::new(SentFrames::default()) } else { Box::new(NullSink) };
        let ports = Ports::Shared(Box::new(source), sink);
        run(&deployment, &settings, ports, &Control::default()).expect("a chain that starts")
    });
    (std::mem::take(&mut *notes.lock().expect("notes")), report)
}

#[test]
fn notes_come_in_input_order_on_any_lanes() {
    let inputs = Traffic::new(11, 60, 10, 600).take(4000);
    let (reference, _) = note(&inputs, settings((1, 256)), true);
    let numbers = reference.iter().filter_map(|note| match note {
        Note::Packet { ingress, .. } => Some(*ingress),
        _ => None,
    });
    assert!(numbers.is_sorted());
    let ticks = reference.iter().filter(|note| matches!(note, Note::Tick { .. })).count();
    assert!(ticks >= 64 && ticks.is_multiple_of(64), "{ticks}");
    let ends = reference.iter().filter(|note| matches!(note, Note::End { .. })).count();
    assert_eq!(ends, 64, "one for each shard, and behind all others");
    for one in SETTINGS {
        for keep in [true, false] {
            let (notes, report) = note(&inputs, settings(one), keep);
            let first = notes.iter().zip(&reference).position(|(a, b)| a != b);
            assert_eq!((notes.len(), first), (reference.len(), None), "{one:?}");
            let stats = &report.part.functions[1];
            assert_eq!(stats.counters["notes"], reference.len() as u64);
            assert_eq!(stats.counters["counted"], stats.packets_in);
            assert_eq!(stats.tables[0].name, "all");
            assert_eq!(report.part.errors, ["[noter]: the disk is full"]);
            assert!(report.part.packets.balanced());
        }
    }
}

#[test]
fn notes_come_with_the_number_of_their_packet_whatever_ticks_there_are() {
    for one in SETTINGS {
        let noter = Noter::new(1);
        let notes = Arc::clone(&noter.notes);
        let deployment = among(&[], 0, noter, 0);
        let ports = Ports::Shared(
            Box::new(Frames::new(&Traffic::new(11, 60, 10, 600).take(4000))),
            Box::new(NullSink),
        );
        let settings = settings(one);
        in_time(move || run(&deployment, &settings, ports, &Control::default()).expect("a start"));
        let (mut last, mut ticks) = (0, 0);
        for note in notes.lock().expect("notes").iter() {
            match *note {
                Note::Packet { packet, .. } => {
                    assert_eq!(packet, last + 1, "{one:?}");
                    last = packet;
                }
                Note::Tick { packets, .. } => {
                    assert_eq!(packets, last, "{one:?}");
                    ticks += 1;
                }
                Note::End { .. } => {}
            }
        }
        assert!(last == 4000 && ticks >= 64, "{last} {ticks}");
    }
}

/// A file in memory.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("paper").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Lines of two functions with alerts about the same packets, ticks and the end.
fn alerts(inputs: &[Input], settings: Settings) -> String {
    let deployment = deploy_forms(&forms(&["sensor", "sensor-of-words"]));
    let (paper, source) = (Paper::default(), Frames::new(inputs));
    let alerts = Output::new("paper", Box::new(paper.clone()));
    let outputs = Outputs::of_run(Some(Arc::new(alerts)), Registry::default());
    in_time(move || {
        let ports = Ports::Shared(Box::new(source), Box::<SentFrames>::default());
        run_to(&deployment, &settings, ports, &outputs, &Control::default()).expect("a start")
    });
    String::from_utf8(std::mem::take(&mut *paper.0.lock().expect("paper"))).expect("text")
}

#[test]
fn alerts_of_two_functions_come_in_input_order_on_any_lanes() {
    let inputs =
        traffic(&forms(&["sensor", "sensor-of-words"]), Talk::new(5, 60, 600).take(2500), 5, 10);
    let reference = alerts(&inputs, settings((1, 256)));
    let packets = reference.lines().filter_map(|line| {
        let number = line.split_once("\"pcap_cnt\":")?.1;
        number.split(',').next()?.parse::<u64>().ok()
    });
    assert!(packets.is_sorted() && reference.len() > 1 << 18, "{}", reference.len());
    for one in SETTINGS {
        let reported = alerts(&inputs, settings(one));
        let differs = reported.lines().zip(reference.lines()).find(|(own, other)| own != other);
        assert_eq!((differs, reported.len()), (None, reference.len()), "{one:?}");
    }
}

#[test]
fn a_report_that_can_t_be_opened_ends_the_run_before_it_starts() {
    let mut noter = Noter::new(1);
    noter.fails = true;
    let ports = Ports::Shared(Box::new(Frames::default()), Box::new(NullSink));
    let started = run(&noting(noter, 0), &Settings::default(), ports, &Control::default());
    let why = StartError::Report("noter".into(), "no such folder".into());
    assert_eq!(started.map(|_| ()), Err(why));
}

/// Asks for reloads on the way.
struct Reloading {
    frames: Frames,
    control: Arc<Control>,
    /// Successors, each with the frame at which it takes over.
    successors: Vec<(usize, Successor)>,
}

impl Source for Reloading {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        let due = self.successors.iter().position(|(at, _)| *at == self.frames.next);
        if let Some(place) = due {
            // It is announced between two bursts: here, once nothing else is under way.
            if self.control.reload(&self.successors[place].1) {
                self.successors.remove(place);
            }
            return Ok(Next::Idle(Duration::ZERO));
        }
        self.frames.next()
    }
}

type Outcome = (Vec<Sent>, Vec<Note>, [Vec<u64>; 3]);

/// Runs over `inputs`, with reloads to other stamps on the way.
fn reload(inputs: &[Input], settings: Settings) -> Outcome {
    let first = Noter::new(1);
    let notes: Notes = Arc::clone(&first.notes);
    let (deployment, control) = (noting(first, 0), Arc::new(Control::default()));
    let later = |stamp| {
        let new = noting(Noter::new(stamp), 1 + u64::from(stamp));
        Successor::new(&deployment, new).expect("a chain that can follow")
    };
    let successors = vec![(1000, later(0)), (1001, later(1)), (2500, later(2))];
    assert_eq!(successors[0].1.changed(), ["noter"]);
    let source =
        Reloading { frames: Frames::new(inputs), control: Arc::clone(&control), successors };
    let (sink, watched) = (SentFrames::default(), Arc::clone(&control));
    let sent: Arc<Mutex<Vec<Sent>>> = Arc::clone(&sink.sent);
    let report = in_time(move || {
        let ports = Ports::Shared(Box::new(source), Box::new(sink));
        run(&deployment, &settings, ports, &control).expect("a chain that starts")
    });
    assert!(report.part.packets.balanced() && !watched.is_reloading());
    let drops = [0, 1, 2].map(|place: usize| report.part.functions[place].drops.to_vec());
    (
        std::mem::take(&mut sent.lock().expect("sent")),
        std::mem::take(&mut notes.lock().expect("notes")),
        drops,
    )
}

#[test]
fn a_reload_is_at_one_place_of_the_input_and_state_stays() {
    let inputs = Traffic::new(13, 60, 0, 600).take(4000);
    let reference = reload(&inputs, settings((1, 256)));
    let stamps = reference.1.iter().filter_map(|note| match note {
        Note::Packet { stamp, .. } => Some(*stamp),
        _ => None,
    });
    let mut changes: Vec<u8> = stamps.collect();
    changes.dedup();
    assert_eq!(changes, [1, 0, 1, 2], "the reload before one packet holds for that packet");
    assert!(
        (1..3).all(|stamp| reference.2[1][stamp] > 0),
        "every stamp dropped: {:?}",
        reference.2
    );
    let counted: u64 =
        reference.1.iter().map(|n| if let Note::End { count } = n { *count } else { 0 }).sum();
    let packets = reference.1.iter().filter(|note| matches!(note, Note::Packet { .. })).count();
    assert_eq!(counted, packets as u64, "what was counted before a reload is counted still");
    for one in SETTINGS {
        let outcome = reload(&inputs, settings(one));
        assert!(outcome == reference, "{one:?}");
    }
}

#[test]
fn unchangeable_settings_are_refused_by_name() {
    let refused =
        |new: Deployment| Successor::new(&noting(Noter::new(1), 0), new).err().unwrap_or_default();
    assert_eq!(refused(deploy(&[NAT])), ["the chain's functions can't change while packets flow"]);
    let chain = Arc::clone(noting(Noter::new(1), 0).chain());
    let staged = Deployment::new(chain, vec![Site { own_stage: true, ..Site::default() }]);
    assert_eq!(refused(staged), ["the chain's stages can't change while packets flow"]);
    let mut other = Chain::clone(noting(Noter::new(1), 0).chain());
    other.instances[2].fingerprint = 1;
    let name = &other.instances[2].name;
    let why = format!("[{name}]: it can't be changed while packets flow");
    assert_eq!(refused(other.into()), [why]);
    assert!(refused(noting(Noter::new(3), 3)).is_empty());
}

#[test]
fn a_chain_that_ended_takes_no_reload_and_owes_none() {
    let same = || Successor::new(&deploy(&[NAT]), deploy(&[NAT]));
    // A successor without any difference may follow any chain.
    let same = same().expect("a chain that can follow");
    for lanes in [1, 2] {
        let (control, deployment) = (Arc::new(Control::default()), deploy(&[NAT]));
        let ports = (0..lanes).map(|_| {
            let source: Box<dyn Source> = Box::new(Frames::new(&[]));
            (source, Box::new(NullSink) as Box<dyn Sink>)
        });
        let ports = Ports::PerLane(ports.collect());
        assert!(control.reload(&same));
        let watched = Arc::clone(&control);
        in_time(move || {
            run(&deployment, &settings((lanes, 64)), ports, &control).expect("a chain that starts")
        });
        assert!(!watched.is_reloading() && !watched.reload(&same), "{lanes} lanes");
    }
}
