//! Where threads run: lanes on the cores that they were given, in that order, and others where they
//! ran before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::{fs, thread};

use warpline_engine::sys::allowed;
use warpline_engine::{
    CORE_MAX, Chain, Control, Deployment, Instance, Place, Ports, Settings, StartError, run,
    try_cores,
};
use warpline_io::{Frame, Next, Sink, SinkError, Source, SourceError};
use warpline_nf::Function;
use warpline_packet::{Access, Batch, ReadWrite};

use crate::common::frames::Traffic;
use crate::common::ports::{Frames, SentFrames};
use crate::common::run::in_time;
use crate::common::{DEFINITION, deploy};

/// The cores that threads could run on when they worked, by their names.
#[derive(Clone, Default)]
struct Places(Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>);

impl Places {
    fn note(&self) {
        let name = thread::current().name().unwrap_or("reader").to_owned();
        self.0.lock().expect("places").entry(name).or_default().insert(own_cores());
    }
}

/// The cores that this thread may run on, as the system writes them.
fn own_cores() -> String {
    let status = fs::read_to_string("/proc/thread-self/status").expect("a thread has a status");
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.expect("its cores").trim().into()
}

struct Watched<T>(T, Places);

impl Source for Watched<Frames> {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        self.1.note();
        self.0.next()
    }
}

impl Sink for Watched<SentFrames> {
    fn send(&mut self, frame: &Frame<'_>) -> Result<(), SinkError> {
        self.1.note();
        self.0.send(frame)
    }

    fn close(&mut self) -> Result<(), SinkError> {
        self.1.note();
        self.0.close()
    }
}

impl Function for Watched<Access> {
    fn access(&self) -> &Access {
        &self.0
    }

    fn run(&self, _: &mut Batch) {
        self.1.note();
    }
}

fn watched(places: &Places) -> Deployment {
    let instance = Instance {
        name: "watched".into(),
        definition: &DEFINITION,
        function: Arc::new(Watched(Access::run_only(ReadWrite::NONE), places.clone())),
        fingerprint: 0,
        place: Place::Only,
    };
    Chain::new("test", vec![instance], 0).expect("a chain").into()
}

/// Runs lanes on `cores`, with ports of their own or not; gives where which thread was.
fn places(cores: &str, lanes: usize, per_lane: bool) -> BTreeMap<String, BTreeSet<String>> {
    let places = Places::default();
    let deployment = watched(&places);
    let inputs = Traffic::new(67, 200, 0, 200).take(if per_lane { 0 } else { 4000 });
    let port = |_| -> (Box<dyn Source>, Box<dyn Sink>) {
        let source = Watched(Frames::new(&inputs), places.clone());
        (Box::new(source), Box::new(Watched(SentFrames::default(), places.clone())))
    };
    let ports = if per_lane {
        Ports::PerLane((0..lanes).map(port).collect())
    } else {
        let (source, sink) = port(0);
        Ports::Shared(source, sink)
    };
    let cores = cores.parse().expect("a list");
    let settings = Settings { lanes, cores, batch_packets: 32, ..Settings::default() };
    let report = in_time(move || run(&deployment, &settings, ports, &Control::default()));
    assert_eq!(report.expect("a run").cores, cores.first(lanes));
    places.0.lock().expect("places").clone()
}

#[test]
fn a_lane_runs_on_its_core_and_others_where_they_ran() {
    let before = own_cores();
    let mut cores: Vec<String> = allowed().iter().map(ToString::to_string).collect();
    // The order is the list's, and a core that no lane needs is left alone.
    cores.reverse();
    for lanes in 1..=cores.len().min(2) {
        for per_lane in [false, true] {
            let of = |n: usize| (format!("lane-{n}"), BTreeSet::from([cores[n].clone()]));
            let mut expected: BTreeMap<_, _> = (0..lanes).map(of).collect();
            if !per_lane {
                let others =
                    ["reader", "sender"].map(|name| (name.into(), [before.clone()].into()));
                expected.extend(others);
            }
            assert_eq!(places(&cores.join(","), lanes, per_lane), expected, "{lanes} lanes");
        }
    }
    assert_eq!(own_cores(), before);
}

#[test]
fn a_core_that_is_not_there_is_a_reason_not_to_start() {
    let (mine, none) = (allowed()[0], CORE_MAX);
    assert!(!allowed().contains(&none), "no machine of a test has so many");
    for (cores, lane) in [(format!("{none}"), 0), (format!("{mine},{none}"), 1)] {
        let settings = Settings {
            lanes: lane + 1,
            cores: cores.parse().expect("a list"),
            ..Settings::default()
        };
        let ports = Ports::Shared(Box::new(Frames::default()), Box::new(SentFrames::default()));
        let run = in_time(move || run(&deploy(&[]), &settings, ports, &Control::default()));
        let Err(reported) = run else { panic!("it started") };
        assert_eq!(try_cores(&deploy(&[]), &settings), Err(reported.clone()));
        let StartError::Core(its_lane, core, why) = &reported else { panic!("{reported}") };
        assert_eq!((*its_lane, *core), (lane, none));
        assert!(why.starts_with("there is no such core"), "{why}");
        // One that has no lane is not asked for.
        let fewer = Settings { lanes: lane, ..settings };
        assert!(lane == 0 || try_cores(&deploy(&[]), &fewer).is_ok());
    }
}
