//! Builds the lanes of a run, at its start and for a move: memory, mirrors, launches, queues.

use std::sync::{Arc, Mutex, PoisonError};

use warpline_launch::{Clock, LaneMemory, Mirrors, Versions};
use warpline_packet::{Arena, Batch, FlowHasher, KeptFrames};

use crate::bell::Bell;
use crate::ingress::LaneWriter;
use crate::lane::Lane;
use crate::launch_stage::{declared, lane_memory, launch_stage};
use crate::planned::takes_out;
use crate::queue::{BatchQueue, Queue};
use crate::stage::{Launches, Rooms};
use crate::{Deployment, Settings, StagePlan, StartError};

/// Wakes a thread; none in a chain without interfaces.
pub(crate) type OwnBell = Option<Arc<Bell>>;

/// A lane with its queues: input, output and the pool of idle batches.
pub(crate) struct Built {
    pub(crate) lane: Lane,
    pub(crate) writer: LaneWriter,
    pub(crate) output: Queue,
    pub(crate) pool: Queue,
    pub(crate) memory: LaneMemory,
}

/// Whether a lane gets state of its own, or that of the lane that it continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateOf {
    /// Its own, empty.
    Start,
    /// That of a running lane. Its memory is touched, so that its first packets do not wait for
    /// pages.
    Running,
}

/// Builds lanes of a run.
pub(crate) struct Builder {
    /// As the run was started, before they fit a deployment.
    settings: Settings,
    clock: Clock,
    sender_bell: OwnBell,
    reader_bell: OwnBell,
    /// By lane.
    bells: Vec<OwnBell>,
    /// By lane, its memory.
    memories: Mutex<Vec<LaneMemory>>,
}

impl Builder {
    /// For lanes by `settings`. With `has_bells` threads wait to be woken.
    pub(crate) fn new(settings: Settings, lanes: usize, clock: Clock, has_bells: bool) -> Self {
        let bell = || has_bells.then(Arc::default);
        let bells = (0..lanes).map(|_| bell()).collect();
        Self {
            settings,
            clock,
            sender_bell: bell(),
            reader_bell: bell(),
            bells,
            memories: Mutex::default(),
        }
    }

    /// Its settings for `deployment`.
    ///
    /// # Errors
    /// A lane would take more than can be named.
    pub(crate) fn settings(&self, deployment: &Deployment) -> Result<Settings, StartError> {
        within_bounds(self.settings.fit(deployment), deployment)
    }

    /// The clock of the run.
    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// The sender's bell.
    pub(crate) fn sender_bell(&self) -> &OwnBell {
        &self.sender_bell
    }

    /// The reader's bell, which rings at the end of a pause.
    pub(crate) fn reader_bell(&self) -> OwnBell {
        self.reader_bell.clone()
    }

    /// The bell of a lane.
    pub(crate) fn bell(&self, lane: usize) -> OwnBell {
        self.bells.get(lane).cloned().flatten()
    }

    /// Builds all lanes for `deployment`, which is loaded. `reported` gets messages about devices.
    ///
    /// # Errors
    /// There is no memory, or a device that is required fails.
    pub(crate) fn lanes(
        &self,
        deployment: &Deployment,
        settings: &Settings,
        state: StateOf,
        reported: &mut Vec<String>,
    ) -> Result<Vec<Built>, StartError> {
        let lanes = 0..settings.lanes;
        lanes.map(|lane| self.lane(deployment, settings, (lane, state), reported)).collect()
    }

    /// Takes the memory of all lanes.
    pub(crate) fn keep(&self, memories: impl Iterator<Item = LaneMemory>) {
        *self.memories() = memories.collect();
    }

    /// The memory of all lanes.
    pub(crate) fn kept(&self) -> Vec<LaneMemory> {
        self.memories().clone()
    }

    /// Lane `lane` continues in `memory`, which becomes its earlier one.
    pub(crate) fn swap(&self, lane: usize, memory: &mut LaneMemory) {
        if let Some(own) = self.memories().get_mut(lane) {
            std::mem::swap(own, memory);
        }
    }

    fn memories(&self) -> std::sync::MutexGuard<'_, Vec<LaneMemory>> {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lane(
        &self,
        deployment: &Deployment,
        settings: &Settings,
        (lane, state): (usize, StateOf),
        reported: &mut Vec<String>,
    ) -> Result<Built, StartError> {
        let chain = deployment.chain();
        let layout = settings.arena(deployment);
        let bytes = layout.memory_len();
        let memory = lane_memory(deployment, bytes, settings.spare_len(deployment));
        let mut memory = memory.ok_or(StartError::Memory(bytes))?;
        if state == StateOf::Running {
            memory.touch(settings.memory(deployment).in_use);
        }
        let first = memory.take_arena().ok_or(StartError::Memory(bytes))?;
        let arena = Arena::new(Box::new(first), &layout).map_err(StartError::Arena)?;
        let mut mirrors = Mirrors::new(&memory, deployment.failures(), lane);
        let launches = launches(deployment, settings, (lane, &mut mirrors), reported)?;
        let mut batches: Vec<Batch> = arena.tables.into_iter().map(Batch::new).collect();
        let (notes, note_bytes) = settings.notes(chain);
        batches.iter_mut().for_each(|batch| batch.take_notes(notes, note_bytes));
        if let Some(word) = chain.way_word() {
            batches.iter_mut().for_each(|batch| batch.set_way(word));
        }
        let made = batches.split_off(settings.batches(deployment));
        let findings = settings.findings(chain);
        batches.iter_mut().for_each(|batch| batch.take_findings_room(findings));
        let [input, output] = self.queues(deployment, settings, lane);
        let pool: Queue = Arc::new(BatchQueue::new(batches.len()));
        for batch in batches {
            let _ = pool.push(Box::new(batch));
        }
        let io = (Arc::clone(&input), Arc::clone(&output), Arc::clone(&pool));
        let writer =
            LaneWriter::new(arena.ingress, Arc::clone(&pool), input, settings.batch_packets);
        let kept = || KeptFrames::new(bytes).ok_or(StartError::Memory(bytes));
        let kept = deployment.shows_drops().then(kept).transpose()?;
        let versions = settings.follows_versions.then(|| {
            let devices = mirrors.copies().map(str::to_owned).collect();
            Box::new(Versions::new(declared(deployment), devices))
        });
        let hasher = FlowHasher::new(chain.seed());
        let rooms = Rooms { lane, placer: arena.emit, hasher, kept, versions, observer: None };
        let own = (lane, state);
        let lane = Lane::new(deployment, settings, own, io, (rooms, made), launches, self.clock);
        Ok(Built { lane, writer, output, pool, memory })
    }

    /// The queues before and after a lane. However small they are asked to be, the first one takes
    /// two launches on the CPU, and the second one all that a stage has at once.
    fn queues(&self, deployment: &Deployment, settings: &Settings, lane: usize) -> [Queue; 2] {
        let queue = |full_batches: usize, bell: OwnBell| {
            let batches = settings.ends_batches(deployment).max(full_batches);
            BatchQueue::holding(batches, full_batches * settings.batch_packets).ringing(bell)
        };
        let deepest = deployment.stages().iter().map(|s| s.launch_batches).max().unwrap_or(1);
        let input = queue(settings.queue_batches.max(2 * deepest), self.bell(lane));
        let output = queue(settings.queue_room(deployment), self.sender_bell.clone());
        [input.resuming(self.reader_bell()), output].map(Arc::new)
    }
}

/// `settings`, which fit `deployment`.
///
/// # Errors
/// A lane would take more than can be named.
pub(crate) fn within_bounds(
    settings: Settings,
    deployment: &Deployment,
) -> Result<Settings, StartError> {
    let need = settings.memory(deployment);
    if need.fits() { Ok(settings) } else { Err(StartError::TooLarge(need)) }
}

/// The launches of a lane by stage, for those that are on devices. An error of a stage is the bits
/// of mirrors that keep its packets on the CPU.
fn launches(
    deployment: &Deployment,
    settings: &Settings,
    (lane, mirrors): (usize, &mut Mirrors<'_>),
    reported: &mut Vec<String>,
) -> Result<Vec<Result<Option<Launches>, u8>>, StartError> {
    let mut open =
        |stage| launches_of(deployment, settings, stage, (lane, &mut *mirrors), reported);
    let launches = deployment.stages().iter().map(&mut open).collect::<Result<Vec<_>, _>>()?;
    let or_kept = |(stage, launches): (&StagePlan, Option<Launches>)| {
        let members = deployment.members(stage);
        match deployment.on_device(stage) {
            Some(on) => launches
                .ok_or_else(|| mirrors.kept_without(&*on.device, members.iter().any(takes_out)))
                .map(Some),
            None => Ok(None),
        }
    };
    Ok(deployment.stages().iter().zip(launches).map(or_kept).collect())
}

/// The launches of a lane for a stage that is on a device.
fn launches_of(
    deployment: &Deployment,
    settings: &Settings,
    stage: &StagePlan,
    (lane, mirrors): (usize, &mut Mirrors<'_>),
    reported: &mut Vec<String>,
) -> Result<Option<Launches>, StartError> {
    let Some(limits) = settings.launch_limits(deployment, stage) else { return Ok(None) };
    let Some(on) = deployment.on_device(stage) else { return Ok(None) };
    let name = &deployment.chain().instances[stage.first].name;
    if lane >= on.launches.lanes || mirrors.has_lost(&*on.device) {
        mirrors.leave(deployment.crossings(stage), &*on.device, name);
        return Ok(None);
    }
    let mut positions = stage.positions();
    if positions.any(|position| deployment.loaded(position).is_none()) {
        reported.extend(mirrors.leave(deployment.crossings(stage), &*on.device, name));
        return Ok(None);
    }
    let opened = launch_stage(deployment, settings, stage, limits)
        .and_then(|stage| Launches::open(stage, on, mirrors));
    match opened {
        Ok(launches) => Ok(Some(launches)),
        // Those of a stage agree in that.
        Err(why) if on.is_required && !mirrors.has_failed(&*on.device) => {
            Err(StartError::Device(name.clone(), why))
        }
        Err(why) => {
            reported.extend(mirrors.leave(deployment.crossings(stage), &*on.device, name));
            reported.push(format!("{name} runs on the CPU: {why}"));
            Ok(None)
        }
    }
}
