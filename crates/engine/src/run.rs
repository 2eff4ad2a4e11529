//! Runs a deployed chain: one thread reads, one works for each lane, and one sends, until the
//! source ends or [`Control::stop`] is called.
//!
//! If each lane has its own source and sink (a NIC's queues, packets in memory), the lane's thread
//! does all three and nothing crosses threads.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use warpline_device::Failure;
use warpline_io::{Sink, Source};
use warpline_launch::Clock;
use warpline_nf::Outputs;
use warpline_packet::ArenaError;

use crate::build::{Builder, Built, StateOf, within_bounds};
use crate::crew::Crew;
use crate::huge_pages::{HugePages, huge_pages};
use crate::idle::Idle;
use crate::ingress::{Ingress, IngressStep, Sampled};
use crate::lane::Lane;
use crate::merge::Merge;
use crate::one_thread::{AnyWork, Posts, Reader};
use crate::peers::PeerReport;
use crate::reports::{Ended, Reports};
use crate::snapshots::Thread;
use crate::stats::{EndedBy, ThreadStats};
use crate::threads::{LaneWork, SenderWork, read};
use crate::{Chain, Control, Cores, Deployment, LaneNeed, PressureOptions, Settings};

/// Where a chain's packets come from and go to.
pub enum Ports {
    /// One source, steered over the lanes, and one sink that gets everything in ingress order.
    Shared(Box<dyn Source>, Box<dyn Sink>),
    /// A source and a sink for each lane; a source gives only packets of its lane's shards.
    PerLane(Vec<(Box<dyn Source>, Box<dyn Sink>)>),
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Everything that was counted.
    pub part: ThreadStats,
    /// Lanes that were used.
    pub lanes: usize,
    /// The cores that they were put on.
    pub cores: Cores,
    /// How its queues paused stages.
    pub pressure: PressureOptions,
    /// The signals of linked instances.
    pub peers: Vec<PeerReport>,
    /// Memory in huge pages at the end, where the system reports it.
    pub huge_pages: Option<HugePages>,
    /// Whether it still runs: the counts are those so far ([`Control::snapshot`]).
    pub is_running: bool,
}

/// Why a run could not start.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartError {
    /// No memory for a lane's arena of this many bytes.
    Memory(usize),
    /// A lane would take more than can be named.
    TooLarge(LaneNeed),
    /// The arena can't be laid out.
    Arena(ArenaError),
    /// There is not one port a lane.
    Ports,
    /// The report of this instance can't be opened, and why.
    Report(String, String),
    /// The operating system gave no thread.
    Thread,
    /// This lane can't run on this core, and why.
    Core(usize, u16, String),
    /// This instance can't run on its device, and why.
    Device(String, Failure),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(bytes) => write!(f, "no memory for an arena of {} MiB", bytes >> 20),
            Self::TooLarge(need) => write!(f, "{}: {need}", LaneNeed::BOUND),
            Self::Arena(error) => write!(f, "{error}"),
            Self::Ports => f.write_str("a chain with ports for each lane needs one for every lane"),
            Self::Report(name, why) => write!(f, "[{name}]: {why}"),
            Self::Device(name, why) => write!(f, "[{name}]: {why}"),
            Self::Core(lane, core, why) => write!(f, "lane {lane} can't run on core {core}: {why}"),
            Self::Thread => f.write_str("cannot spawn thread"),
        }
    }
}

impl std::error::Error for StartError {}

/// Runs `deployment` until its source ends or `control` stops it; everything read is drained.
pub fn run(
    deployment: &Deployment,
    settings: &Settings,
    ports: Ports,
    control: &Control,
) -> Result<Report, StartError> {
    run_to(deployment, settings, ports, &Outputs::default(), control)
}

/// [`run`] with outputs that the reports of several chains share.
pub fn run_to(
    deployment: &Deployment,
    settings: &Settings,
    ports: Ports,
    outputs: &Outputs,
    control: &Control,
) -> Result<Report, StartError> {
    let ran = run_lanes(deployment, settings, ports, outputs, control);
    // After an error, too: `control` holds the memory of all lanes.
    control.end();
    Ok(ran?.report(deployment.chain(), control))
}

/// A run that is over. State and memory of its lanes are still there.
struct Ran {
    ended: Ended,
    /// Messages of its start.
    reported: Vec<String>,
    settings: Settings,
    builder: Arc<Builder>,
    outputs: Outputs,
}

impl Ran {
    fn report(mut self, chain: &Chain, control: &Control) -> Report {
        self.ended.part.warnings.splice(0..0, self.reported);
        let mut seen = std::collections::HashSet::new();
        // Lanes may report the same warning.
        self.ended.part.warnings.retain(|warning| seen.insert(warning.clone()));
        let Settings { lanes, cores, pressure, counts_huge_pages, .. } = self.settings;
        let huge_pages = counts_huge_pages.then(|| huge_pages(&self.builder.kept())).flatten();
        self.outputs.end_of_chain();
        let mut part = self.ended.close(chain);
        if !part.errors.is_empty() {
            part.ended_by = EndedBy::Error;
        }
        if control.is_aborted() {
            part.abort();
        }
        let peers = control.peers();
        Report { part, lanes, cores, pressure, peers, huge_pages, is_running: false }
    }
}

fn run_lanes(
    deployment: &Deployment,
    settings: &Settings,
    mut ports: Ports,
    outputs: &Outputs,
    control: &Control,
) -> Result<Ran, StartError> {
    let own = match &ports {
        Ports::Shared(..) => *settings,
        // A lane that reads and sends itself hands each batch on at once: few, and in the cache.
        Ports::PerLane(_) => Settings { queue_batches: 1, alone: true, ..*settings },
    };
    let (is_live, is_paced) = is_live(&mut ports);
    let settings = within_bounds(own.fit(deployment), deployment)?;
    let _ = control.settings.set(settings);
    let builder = Builder::new(own, settings.lanes, Clock::start(), is_live || is_paced);
    deployment.failures().clear();
    let loaded = deployment.load();
    let mut reported = loaded.map_err(|(name, why)| StartError::Device(name, why))?;
    let chain = deployment.chain();
    let outputs = outputs.of_chain(is_live);
    let reports = Reports::open(chain, &outputs)?;
    let built = builder.lanes(deployment, &settings, StateOf::Start, &mut reported)?;
    reported.iter().for_each(|message| control.report(message.clone()));
    builder.keep(built.iter().map(|built| built.memory.clone()));
    let builder = control.start(builder);
    let ended = match ports {
        Ports::Shared(source, sink) => {
            control.reloads.start(1);
            run_shared(deployment, &settings, built, (source, sink), reports, control, &builder)?
        }
        Ports::PerLane(ports) if ports.len() == built.len() => {
            control.reloads.start(built.len());
            if let Some(position) = reports.first().filter(|_| built.len() > 1) {
                let name = chain.instances[position].name.clone();
                return Err(StartError::Report(name, "it takes one output for all lanes".into()));
            }
            run_per_lane(deployment, &settings, built, ports, reports, control, &builder)?
        }
        Ports::PerLane(_) => return Err(StartError::Ports),
    };
    Ok(Ran { ended, reported, settings, builder, outputs })
}

/// Whether one thread may do all the work while it is enough. Lanes with cores keep theirs, and no
/// packet waits for a disk that another one needs.
fn may_be_alone(settings: &Settings, sink: &dyn Sink) -> bool {
    !settings.busy && settings.cores.numbers().is_empty() && !sink.may_wait()
}

/// Whether packets come from an interface, and whether they come in real time. With either, threads
/// wait for packets rather than sleep and look again.
fn is_live(ports: &mut Ports) -> (bool, bool) {
    match ports {
        Ports::Shared(source, _) => (source.live().is_some(), source.is_paced()),
        Ports::PerLane(_) => (false, false),
    }
}

fn run_shared(
    deployment: &Deployment,
    settings: &Settings,
    built: Vec<Built>,
    (source, sink): (Box<dyn Source>, Box<dyn Sink>),
    reports: Reports,
    control: &Control,
    builder: &Builder,
) -> Result<Ended, StartError> {
    let chain = &**deployment.chain();
    let functions = chain.instances.len();
    let clock = builder.clock();
    let (mut writers, mut exits, mut lanes) = (Vec::new(), Vec::new(), Vec::new());
    for Built { lane, writer, output, pool, .. } in built {
        writers.push(writer);
        exits.push((output, pool));
        lanes.push(lane);
    }
    let samplers = chain.instances.iter().filter_map(|i| i.function.sampler()).collect();
    let source = Sampled::around(source, samplers, clock);
    let ingress = Ingress::new(source, writers, None, chain, settings, clock);
    let ingress = ingress.naming(deployment);
    let may = builder.sender_bell().is_some() && may_be_alone(settings, &*sink);
    let merge =
        Merge::new(sink, exits, reports, functions, settings.slots(chain), clock).naming(chain);
    let sender = lanes.len();
    let posts = &Posts::new(works(lanes, merge, chain, control), may, clock);
    let busy = settings.busy;
    thread::scope(|scope| {
        let mut crew = Crew::new(scope, control);
        // It gives the works back at its end, so the others end if a thread does not start.
        let reader = Reader::new(posts);
        for number in 0..sender {
            let idle = Idle::with(builder.bell(number)).busy(busy);
            crew.hire_lane(number, settings, move || posts.work(number, idle, control))?;
        }
        let idle = Idle::with(builder.sender_bell().clone()).busy(busy);
        crew.hire("sender".into(), move || posts.work(sender, idle, control))?;
        let mut ended = Ended::new(functions);
        ended.part.add(read(ingress, reader, (busy, builder.reader_bell()), control));
        crew.join(&mut ended);
        Ok(ended)
    })
}

/// The works of all lanes, and the sender's.
fn works<'a>(
    lanes: Vec<Lane>,
    merge: Merge,
    chain: &'a Chain,
    control: &Control,
) -> Vec<AnyWork<'a>> {
    let of_lane =
        |(number, lane)| -> AnyWork<'a> { Box::new(LaneWork::new(number, lane, chain, control)) };
    let mut works: Vec<_> = lanes.into_iter().enumerate().map(of_lane).collect();
    works.push(Box::new(SenderWork::new(merge, control)));
    works
}

fn run_per_lane(
    deployment: &Deployment,
    settings: &Settings,
    built: Vec<Built>,
    ports: Vec<(Box<dyn Source>, Box<dyn Sink>)>,
    reports: Reports,
    control: &Control,
    builder: &Builder,
) -> Result<Ended, StartError> {
    let (chain, clock) = (&**deployment.chain(), builder.clock());
    let functions = chain.instances.len();
    // There are some on a single lane only.
    let mut reports = Some(reports);
    thread::scope(|scope| {
        let mut crew = Crew::new(scope, control);
        for (lane, (built, (source, sink))) in built.into_iter().zip(ports).enumerate() {
            let (writers, own) = (vec![built.writer], Some((lane, settings.lanes)));
            let ingress = Ingress::new(source, writers, own, chain, settings, clock);
            let ingress = ingress.naming(deployment);
            let (exits, slots) = (vec![(built.output, built.pool)], settings.slots(chain));
            let reports = reports.take().unwrap_or_default();
            let merge = Merge::new(sink, exits, reports, functions, slots, clock).naming(chain);
            let merge = merge.of_lane(lane);
            let lane_work = move || work_alone(ingress, (lane, built.lane), merge, control, chain);
            crew.hire_lane(lane, settings, lane_work)?;
        }
        let mut ended = Ended::new(functions);
        crew.join(&mut ended);
        Ok(ended)
    })
}

/// A lane's thread that also reads and sends.
fn work_alone(
    mut ingress: Ingress,
    (number, mut lane): (usize, Lane),
    mut merge: Merge,
    control: &Control,
    chain: &Chain,
) -> Ended {
    let _guard = control.guard();
    let mut idle = Idle::default();
    let mut place = control.snapshots.join(Thread::Lane(number));
    let counts = |ingress: &Ingress, lane: &Lane, merge: &mut Merge| {
        let mut part = lane.counts(chain);
        part.add(ingress.counts());
        part.add(merge.counts());
        part
    };
    while !merge.is_finished() && !control.has_failed() {
        control.snapshots.answer(&mut place, || counts(&ingress, &lane, &mut merge));
        let step = ingress.step(control);
        let has_read = matches!(step, IngressStep::Worked | IngressStep::Emptied(_));
        let worked = lane.breathe(control) | merge.step(control) | has_read;
        if !worked && idle.take_long() {
            merge.rest();
        }
        match step {
            _ if worked => idle.reset(),
            IngressStep::Idle(limit) | IngressStep::Blocked(limit) => {
                idle.wait(limit.min(lane.rest_at_most()));
            }
            IngressStep::Worked | IngressStep::Emptied(_) | IngressStep::Finished => {
                idle.wait(lane.rest_at_most().min(Duration::from_millis(1)))
            }
        }
        if merge.is_sink_closed() {
            control.stop();
        }
    }
    ingress.end(control);
    control.snapshots.leave(&place, counts(&ingress, &lane, &mut merge));
    let mut ended = lane.finish(chain);
    ended.part.add(ingress.finish());
    ended.add(merge.finish());
    ended
}
