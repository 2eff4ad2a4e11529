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
use warpline_nf::Outputs;
use warpline_packet::{Arena, ArenaError, Batch, FlowHasher, KeptFrames};

use crate::bell::Bell;
use crate::clock::Clock;
use crate::crew::Crew;
use crate::device::{Launches, Mirrors, lane_memory};
use crate::huge_pages::{HugePages, huge_pages};
use crate::idle::Idle;
use crate::ingress::{Feed, Ingress, Sampled, Step};
use crate::lane::Lane;
use crate::merge::Merge;
use crate::peers::PeerReport;
use crate::queue::{BatchQueue, Queue};
use crate::reports::{Ended, Reports};
use crate::snapshots::Thread;
use crate::stage::Rooms;
use crate::stats::{EndedBy, Part};
use crate::sys::lane_memory::LaneMemory;
use crate::versions::Versions;
use crate::{Chain, Control, Cores, Deployment, LaneNeed, PressureOptions, Settings, StagePlan};

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
    pub part: Part,
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

/// Wakes a thread; none in a chain without interfaces.
type OwnBell = Option<Arc<Bell>>;

/// A lane with its queues: input, output and the pool of idle batches.
struct Built {
    lane: Lane,
    feed: Feed,
    output: Queue,
    pool: Queue,
    memory: LaneMemory,
    /// Wakes the lane's thread.
    bell: OwnBell,
}

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
    mut ports: Ports,
    outputs: &Outputs,
    control: &Control,
) -> Result<Report, StartError> {
    let settings = match &ports {
        Ports::Shared(..) => settings.fit(deployment),
        // A lane that reads and sends itself hands each batch on at once: few, and in the cache.
        Ports::PerLane(_) => {
            Settings { queue_batches: 1, alone: true, ..*settings }.fit(deployment)
        }
    };
    let _ = control.settings.set(settings);
    let need = settings.memory(deployment);
    if !need.fits() {
        return Err(StartError::TooLarge(need));
    }
    let loaded = deployment.load(None);
    let mut told = loaded.map_err(|(name, why)| StartError::Device(name, why))?;
    let chain = deployment.chain();
    let is_live = is_live(&mut ports);
    let reports = Reports::open(chain, &outputs.of_chain(is_live))?;
    let clock = Clock::start();
    let sender_bell = is_live.then(Arc::default);
    let built: Vec<Built> = (0..settings.lanes)
        .map(|lane| build(deployment, &settings, (lane, &sender_bell), clock, &mut told))
        .collect::<Result<_, _>>()?;
    told.iter().for_each(|news| control.tell(news.clone()));
    let arenas: Vec<LaneMemory> = built.iter().map(|built| built.memory.clone()).collect();
    let mut ended = match ports {
        Ports::Shared(source, sink) => {
            control.reloads.start(1);
            let ends = (source, sink, sender_bell);
            run_shared(deployment, &settings, built, ends, reports, control, clock)?
        }
        Ports::PerLane(ports) if ports.len() == built.len() => {
            control.reloads.start(built.len());
            if let Some(position) = reports.first().filter(|_| built.len() > 1) {
                let name = chain.instances[position].name.clone();
                return Err(StartError::Report(name, "it takes one output for all lanes".into()));
            }
            run_per_lane(deployment, &settings, built, ports, reports, control, clock)?
        }
        Ports::PerLane(_) => return Err(StartError::Ports),
    };
    control.end();
    ended.part.warnings.splice(0..0, told);
    let mut seen = std::collections::HashSet::new();
    // Lanes may report the same warning.
    ended.part.warnings.retain(|warning| seen.insert(warning.clone()));
    // The state and the arenas are still there.
    let huge_pages = settings.counts_huge_pages.then(|| huge_pages(&arenas)).flatten();
    let mut part = ended.close(chain);
    if !part.errors.is_empty() {
        part.ended_by = EndedBy::Error;
    }
    if control.is_aborted() {
        part.abort();
    }
    let Settings { lanes, cores, pressure, .. } = settings;
    let peers = control.peers();
    Ok(Report { part, lanes, cores, pressure, peers, huge_pages, is_running: false })
}

/// Whether threads should wait for packets of an interface rather than sleep and look again.
fn is_live(ports: &mut Ports) -> bool {
    match ports {
        Ports::Shared(source, _) => source.live().is_some(),
        Ports::PerLane(_) => false,
    }
}

fn build(
    deployment: &Deployment,
    settings: &Settings,
    (lane, sender_bell): (usize, &OwnBell),
    clock: Clock,
    told: &mut Vec<String>,
) -> Result<Built, StartError> {
    let chain = deployment.chain();
    let layout = settings.arena(deployment);
    let bytes = layout.memory_len();
    let memory = lane_memory(deployment, bytes, settings.spare_len(deployment));
    let memory = memory.ok_or(StartError::Memory(bytes))?;
    let arena = Arena::new(Box::new(memory.clone()), &layout).map_err(StartError::Arena)?;
    let mut mirrors = Mirrors::new(&memory);
    let mut open = |stage| launches_of(deployment, settings, stage, &mut mirrors, told);
    let launches = deployment.stages().iter().map(&mut open).collect::<Result<Vec<_>, _>>()?;
    let or_kept = |(stage, launches): (&StagePlan, Option<Launches>)| {
        let members = deployment.members(stage);
        match deployment.on_device(stage) {
            Some(on) => {
                launches.ok_or_else(|| mirrors.kept_without(&*on.device, members)).map(Some)
            }
            None => Ok(None),
        }
    };
    let launches = deployment.stages().iter().zip(launches).map(or_kept).collect();
    let mut batches: Vec<Batch> = arena.tables.into_iter().map(Batch::new).collect();
    let (notes, note_bytes) = settings.notes(chain);
    batches.iter_mut().for_each(|batch| batch.take_notes(notes, note_bytes));
    if let Some(word) = chain.way_word() {
        batches.iter_mut().for_each(|batch| batch.set_way(word));
    }
    let made = batches.split_off(settings.batches(deployment));
    let findings = settings.findings(chain);
    batches.iter_mut().for_each(|batch| batch.take_findings_room(findings));
    // A queue takes a launch of its stage whole, however small it is asked to be.
    let deepest = deployment.stages().iter().map(|s| s.launch_batches).max().unwrap_or(1);
    let packets_max = settings.queue_batches * settings.batch_packets;
    let queue = |least, bell: &OwnBell| {
        let batches = settings.ends_batches().max(least);
        let packets_max = packets_max.max(least * settings.batch_packets);
        Arc::new(BatchQueue::holding(batches, packets_max).ringing(bell.clone()))
    };
    let bell = sender_bell.as_ref().map(|_| Arc::default());
    let (input, output) = (queue(1, &bell), queue(deepest, sender_bell));
    let pool: Queue = Arc::new(BatchQueue::new(batches.len()));
    for batch in batches {
        let _ = pool.push(Box::new(batch));
    }
    let io = (Arc::clone(&input), Arc::clone(&output));
    let feed = Feed::new(arena.ingress, Arc::clone(&pool), input, settings.batch_packets);
    let kept = || KeptFrames::new(bytes).ok_or(StartError::Memory(bytes));
    let kept = deployment.shows_drops().then(kept).transpose()?;
    let versions = settings.follows_versions.then(|| {
        let devices = mirrors.copies().map(str::to_owned).collect();
        Box::new(Versions::new(deployment, devices))
    });
    let hasher = FlowHasher::new(chain.seed());
    let rooms = Rooms { placer: arena.emit, hasher, kept, versions };
    let lane = Lane::new(deployment, settings, lane, io, (rooms, made), launches, clock);
    Ok(Built { lane, feed, output, pool, memory, bell })
}

/// The launches of a lane for a stage that is on a device.
fn launches_of(
    deployment: &Deployment,
    settings: &Settings,
    stage: &StagePlan,
    mirrors: &mut Mirrors<'_>,
    told: &mut Vec<String>,
) -> Result<Option<Launches>, StartError> {
    let Some(limits) = settings.launch_limits(deployment, stage) else { return Ok(None) };
    let Some(on) = deployment.on_device(stage) else { return Ok(None) };
    let name = &deployment.chain().instances[stage.first].name;
    let mut positions = stage.positions();
    if positions.any(|position| deployment.loaded(position).is_none()) {
        told.extend(mirrors.leave(deployment.crossings(stage), &*on.device, name));
        return Ok(None);
    }
    match Launches::open(deployment, settings, stage, on, &limits, mirrors) {
        Ok(launches) => Ok(Some(launches)),
        // Those of a stage agree in that.
        Err(why) if on.is_required => Err(StartError::Device(name.clone(), why)),
        Err(why) => {
            told.extend(mirrors.leave(deployment.crossings(stage), &*on.device, name));
            told.push(format!("{name} runs on the CPU: {why}"));
            Ok(None)
        }
    }
}

fn run_shared(
    deployment: &Deployment,
    settings: &Settings,
    built: Vec<Built>,
    (source, sink, sender_bell): (Box<dyn Source>, Box<dyn Sink>, OwnBell),
    reports: Reports,
    control: &Control,
    clock: Clock,
) -> Result<Ended, StartError> {
    let chain = &**deployment.chain();
    let functions = chain.instances.len();
    let (mut feeds, mut exits, mut lanes) = (Vec::new(), Vec::new(), Vec::new());
    for Built { lane, feed, output, pool, bell, .. } in built {
        feeds.push(feed);
        exits.push((output, pool));
        lanes.push((lane, bell));
    }
    let samplers = chain.instances.iter().filter_map(|i| i.function.sampler()).collect();
    let source = Sampled::around(source, samplers, clock);
    let ingress = Ingress::new(source, feeds, None, chain, settings, clock);
    let ingress = ingress.naming(deployment);
    let merge =
        Merge::new(sink, exits, reports, functions, settings.slots(chain), clock).naming(chain);
    let busy = settings.busy;
    thread::scope(|scope| {
        let mut crew = Crew::new(scope, control);
        for (number, (lane, bell)) in lanes.into_iter().enumerate() {
            let (lane, idle) = ((number, lane), Idle::with(bell).busy(busy));
            crew.hire_lane(number, settings, move || work(lane, idle, chain, control))?;
        }
        let idle = Idle::with(sender_bell).busy(busy);
        crew.hire("sender".into(), move || send(merge, idle, control))?;
        let mut ended = Ended::new(functions);
        ended.part.add(read(ingress, busy, control));
        crew.join(&mut ended);
        Ok(ended)
    })
}

/// The reading thread.
fn read(mut ingress: Ingress, busy: bool, control: &Control) -> Part {
    let _guard = control.guard();
    let mut idle = Idle::default().busy(busy);
    let mut place = control.snapshots.join(Thread::Reader);
    while !control.has_failed() {
        match ingress.step(control) {
            Step::Worked => idle.reset(),
            Step::Idle(limit) if !busy && idle.is_long() && ingress.is_live() => {
                ingress.wait(limit, control);
            }
            Step::Idle(limit) | Step::Blocked(limit) => {
                if idle.is_long() {
                    ingress.look(control);
                }
                idle.wait(limit);
            }
            Step::Finished => break,
        }
        control.snapshots.answer(&mut place, || ingress.counts());
    }
    control.snapshots.leave(&place, ingress.counts());
    ingress.finish()
}

/// A lane's thread.
fn work(
    (number, mut lane): (usize, Lane),
    mut idle: Idle,
    chain: &Chain,
    control: &Control,
) -> Ended {
    let _guard = control.guard();
    let mut place = control.snapshots.join(Thread::Lane(number));
    while !lane.is_finished() && !control.has_failed() {
        if lane.breathe(control) {
            idle.reset()
        } else {
            idle.wait(lane.rest_at_most())
        }
        control.snapshots.answer(&mut place, || lane.counts(chain));
    }
    control.snapshots.leave(&place, lane.counts(chain));
    lane.finish(chain)
}

/// The sending thread.
fn send(mut merge: Merge, mut idle: Idle, control: &Control) -> Ended {
    let _guard = control.guard();
    let mut place = control.snapshots.join(Thread::Sender);
    while !merge.is_finished() && !control.has_failed() {
        control.snapshots.answer(&mut place, || merge.counts());
        if merge.step(control) {
            idle.reset()
        } else {
            if idle.is_long() {
                merge.rest();
            }
            idle.wait(Duration::MAX)
        }
        if merge.is_sink_closed() {
            control.stop();
        }
    }
    control.snapshots.leave(&place, merge.counts());
    merge.finish()
}

fn run_per_lane(
    deployment: &Deployment,
    settings: &Settings,
    built: Vec<Built>,
    ports: Vec<(Box<dyn Source>, Box<dyn Sink>)>,
    reports: Reports,
    control: &Control,
    clock: Clock,
) -> Result<Ended, StartError> {
    let chain = &**deployment.chain();
    let functions = chain.instances.len();
    // There are some on a single lane only.
    let mut reports = Some(reports);
    thread::scope(|scope| {
        let mut crew = Crew::new(scope, control);
        for (lane, (built, (source, sink))) in built.into_iter().zip(ports).enumerate() {
            let (feeds, own) = (vec![built.feed], Some((lane, settings.lanes)));
            let ingress = Ingress::new(source, feeds, own, chain, settings, clock);
            let ingress = ingress.naming(deployment);
            let (exits, slots) = (vec![(built.output, built.pool)], settings.slots(chain));
            let reports = reports.take().unwrap_or_default();
            let merge = Merge::new(sink, exits, reports, functions, slots, clock).naming(chain);
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
    let counts = |ingress: &Ingress, lane: &Lane, merge: &Merge| {
        let mut part = lane.counts(chain);
        part.add(ingress.counts());
        part.add(merge.counts());
        part
    };
    while !merge.is_finished() && !control.has_failed() {
        control.snapshots.answer(&mut place, || counts(&ingress, &lane, &merge));
        let step = ingress.step(control);
        let worked = lane.breathe(control) | merge.step(control) | (step == Step::Worked);
        if !worked && idle.is_long() {
            merge.rest();
        }
        match step {
            _ if worked => idle.reset(),
            Step::Idle(limit) | Step::Blocked(limit) => {
                idle.wait(limit.min(lane.rest_at_most()));
            }
            Step::Worked | Step::Finished => {
                idle.wait(lane.rest_at_most().min(Duration::from_millis(1)))
            }
        }
        if merge.is_sink_closed() {
            control.stop();
        }
    }
    control.snapshots.leave(&place, counts(&ingress, &lane, &merge));
    let mut ended = lane.finish(chain);
    ended.part.add(ingress.finish());
    ended.add(merge.finish());
    ended
}
