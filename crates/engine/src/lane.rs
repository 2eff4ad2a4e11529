//! A lane: one worker with its own stages, queues, shards and arena. [`Lane::breathe`] is its loop.

mod counts;
mod input;
mod moving;
mod output;

use std::sync::Arc;
use std::time::Duration;

use warpline_launch::{Clock, Followed, Transfers};
use warpline_packet::{Batch, BatchKind};

use crate::build::StateOf;
use crate::memory::StageRoom;
use crate::moves::NextLanes;
use crate::pressure::{Pressure, Waiting};
use crate::queue::{Queue, StageQueue};
use crate::routing::Routing;
use crate::stage::{BatchInFlight, Launches, Rooms, Stage, TurnScratch};
use crate::stats::Moves;
use crate::{Chain, Control, Deployment, Settings, StagePlan};

/// How often a lane that an instance downstream pauses looks whether it still does.
const HELD_LOOK: Duration = Duration::from_micros(500);

/// How often a lane that waits for room looks whether there is some.
const ROOM_LOOK: Duration = Duration::from_millis(1);

/// A lane's stages and the queues between them.
pub(crate) struct Lane {
    stages: Vec<Stage>,
    /// By stage.
    inlets: Vec<Inlet>,
    queue_room: usize,
    input: Queue,
    output: Queue,
    /// Idle batches of ingress.
    pool: Queue,
    /// Room to sort rows in.
    order: Vec<u16>,
    rooms: Rooms,
    /// Changes of the observer that it has followed.
    observed: u32,
    /// Slabs that what devices have under way may still fill.
    promised: usize,
    /// Idle scratches: one for each batch of the largest launch, and for those that devices have.
    #[expect(clippy::vec_box, reason = "it is swapped with every batch")]
    scratches: Vec<Box<TurnScratch>>,
    flights: Vec<BatchInFlight>,
    clock: Clock,
    pressure: Pressure,
    routes: Routes,
    /// Packets that the first stage took.
    entered: u64,
    /// Packets that came for the lane, by the last look.
    offered: u64,
    finished: bool,
    number: usize,
    plans: Vec<StagePlan>,
    /// A move that waits until the lane is empty.
    moving: Option<Moving>,
    /// The counts of stages that functions moved from.
    earlier: Earlier,
}

/// The input of a stage, and the room that its work needs.
struct Inlet {
    /// Batches from the stage before; none before the first stage, which takes the lane's input.
    queue: StageQueue,
    /// A tick or an end that waits for its turn alone.
    held: Option<Box<Batch>>,
    /// Slabs that the stage may fill.
    room: StageRoom,
    /// Packets of a launch if the stage is not on a device.
    launch_packets: usize,
}

/// The routes of a chain that has some, and counts of packets.
struct Routes {
    from_ingress: Option<Routing>,
    /// Packets that had none.
    unrouted: u64,
    /// Packets that left, by the number of their path.
    paths: Vec<u64>,
}

/// See [`Lane::moving`].
struct Moving {
    marker: Box<Batch>,
    lanes: Arc<NextLanes>,
    since: u64,
}

/// See [`Lane::earlier`].
#[derive(Default)]
struct Earlier {
    transfers: Transfers,
    moves: Moves,
    warnings: Vec<String>,
    followed: Followed,
}

impl Routes {
    fn of(chain: &Chain) -> Self {
        let from_ingress = Routing::of(chain);
        let paths = from_ingress.as_ref().map_or_else(Vec::new, Routing::counters);
        Self { from_ingress, unrouted: 0, paths }
    }
}

impl Lane {
    pub(crate) fn new(
        deployment: &Deployment,
        settings: &Settings,
        (lane, state): (usize, StateOf),
        io: (Queue, Queue, Queue),
        (rooms, made): (Rooms, Vec<Batch>),
        launches: Vec<Result<Option<Launches>, u8>>,
        clock: Clock,
    ) -> Self {
        let chain = deployment.chain();
        let shards = chain.shards(lane, settings.lanes);
        let slots = settings.slots(chain);
        let shards = Some(&shards[..]).filter(|_| state == StateOf::Start);
        let stage = |(plan, launches)| Stage::new(chain, plan, shards, slots, launches);
        let stages: Vec<Stage> = deployment.stages().iter().zip(launches).map(stage).collect();
        let keeps = rooms.kept.is_some();
        let capacity = match settings.pressure.is_off() {
            true => settings.batches(deployment),
            false => settings.queue_room(deployment),
        };
        let inlet = |(stage, room): (&Stage, StageRoom)| Inlet {
            queue: StageQueue::with_capacity(capacity),
            held: None,
            room,
            launch_packets: stage.launch_batches * settings.batch_packets,
        };
        let placed = settings.placed(deployment).stages;
        let mut inlets: Vec<Inlet> = stages.iter().zip(placed).map(inlet).collect();
        if let Some(first) = inlets.first_mut() {
            first.launch_packets = first.launch_packets.max(settings.first_launch_packets());
        }
        Self {
            inlets,
            queue_room: settings.queue_room(deployment),
            flights: Vec::with_capacity(made.len()),
            scratches: made
                .into_iter()
                .map(|made| Box::new(TurnScratch::new(made, keeps)))
                .collect(),
            stages,
            input: io.0,
            output: io.1,
            pool: io.2,
            order: Vec::with_capacity(slots),
            rooms,
            observed: 0,
            promised: 0,
            pressure: Pressure::new(deployment, settings, clock.now()),
            clock,
            routes: Routes::of(chain),
            entered: 0,
            offered: 0,
            finished: false,
            number: lane,
            plans: deployment.stages().to_vec(),
            moving: None,
            earlier: Earlier::default(),
        }
    }

    /// One round: every stage, from the last to the first, takes its waiting input as far as there
    /// is room downstream. Returns whether any did.
    pub(crate) fn breathe(&mut self, control: &Control) -> bool {
        let mut worked = false;
        self.follow_observer(control);
        if self.pressure.has_downstream() {
            // A chain that stops drains, whatever pauses it.
            let held = if control.is_stopped() { 0 } else { control.peers.held() };
            self.pressure.hold(held, self.clock.now());
        }
        self.count_arrivals();
        self.gauge(0);
        for stage in (0..self.stages.len()).rev() {
            worked |= self.advance(stage, control);
            while self.may_take(stage) && self.take(stage, control) {
                worked = true;
                // A round of a busy lane may last long.
                self.follow_observer(control);
                if self.is_for_device(stage) {
                    self.admit(stage);
                    self.gauge(stage);
                    continue;
                }
                if self.flights[0].batch.kind() == BatchKind::Reload {
                    self.stages[stage].reload(control);
                }
                self.stages[stage].work(&mut self.flights, &mut self.rooms, &self.clock);
                self.pressure.counts[stage].launches += 1;
                self.gauge(stage);
                self.pass_on(stage);
                // Without pauses stages take turns.
                if self.pressure.is_off() {
                    break;
                }
            }
            worked |= self.begin(stage);
        }
        if self.moving.is_some() {
            worked |= self.move_on(control);
        }
        worked
    }

    #[inline]
    fn follow_observer(&mut self, control: &Control) {
        let changes = control.observation.changes();
        if self.observed != changes {
            self.observed = changes;
            self.rooms.observer = control.observation.observer();
        }
    }

    /// Reports packets that came for the stages on devices, whether they are paused or not.
    fn count_arrivals(&mut self) {
        let waiting = self.input.packets() as u64;
        self.offered = (self.entered + waiting + self.input.lost()).max(self.offered);
        let (offered, entered) = (self.offered, self.entered);
        let launches = self.stages.iter_mut().filter_map(|stage| stage.launches.as_mut());
        launches.for_each(|launches| launches.count_arrivals(offered, entered));
    }

    /// Whether it polls a device.
    pub(crate) fn polls(&self) -> bool {
        self.stages.iter().any(|stage| stage.launches.is_some())
    }

    /// How long it may rest when it has found nothing to do.
    pub(crate) fn rest_at_most(&self) -> Duration {
        let launches = self.stages.iter().filter_map(|stage| stage.launches.as_ref());
        let now = self.clock.now();
        // Neither the end of a pause nor room rings a bell.
        let is_waited_for = || (0..self.stages.len()).any(|stage| self.is_waited_for(stage));
        let most = match () {
            () if self.pressure.is_held() => HELD_LOOK,
            () if self.moving.is_some() || is_waited_for() => ROOM_LOOK,
            () => Duration::MAX,
        };
        launches.map(|launches| launches.rest_at_most(now)).min().unwrap_or(most).min(most)
    }

    /// Polls the launches of a stage on a device, and passes finished ones on. There is room
    /// downstream for all that it has.
    fn advance(&mut self, stage: usize, control: &Control) -> bool {
        let Some(launches) = &mut self.stages[stage].launches else { return false };
        let mut worked = launches.advance(&self.clock);
        if worked {
            self.gauge(stage);
        }
        let Some(launches) = &mut self.stages[stage].launches else { return false };
        if let Some(message) = launches.take_messages() {
            control.report(message);
        }
        while let Some(mut finished) =
            self.stages[stage].launches.as_mut().and_then(Launches::take_finished)
        {
            self.stages[stage].settle(&mut finished, &mut self.rooms, &self.clock);
            self.promised -= finished.flights.len() * self.inlets[stage].room.promised;
            std::mem::swap(&mut self.flights, &mut finished.flights);
            self.pass_on(stage);
            std::mem::swap(&mut self.flights, &mut finished.flights);
            if let Some(launches) = &mut self.stages[stage].launches {
                launches.recycle(finished);
            }
            worked = true;
        }
        worked
    }

    /// Whether what was taken is for a device: packets are, ticks and ends are not.
    fn is_for_device(&self, stage: usize) -> bool {
        self.stages[stage].launches.is_some() && self.flights[0].batch.kind() == BatchKind::Packets
    }

    fn admit(&mut self, stage: usize) {
        for flight in self.flights.drain(..) {
            self.promised += self.inlets[stage].room.promised;
            self.stages[stage].admit(flight, &mut self.rooms, &self.clock);
        }
        if self.stages[stage].launches.as_ref().is_some_and(Launches::has_full) {
            self.begin(stage);
        }
    }

    /// Starts launches of a stage on a device.
    fn begin(&mut self, stage: usize) -> bool {
        let Some(launches) = &mut self.stages[stage].launches else { return false };
        let has_begun = launches.begin(&self.clock);
        if has_begun {
            self.gauge(stage);
        }
        has_begun
    }

    /// Whether the end of the input passed the last stage.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Packets that wait for `stage`; of none where there is no such stage.
    fn waiting(&self, stage: usize) -> Waiting {
        let Some(own) = self.stages.get(stage) else { return Waiting { packets: 0, launch: 1 } };
        let queued = match stage.checked_sub(1) {
            None => self.input.packets(),
            Some(_) => self.inlets[stage].queue.packets,
        };
        match &own.launches {
            None => Waiting { packets: queued, launch: self.inlets[stage].launch_packets },
            Some(launches) => {
                let (collected, launch) = launches.load();
                // Ingress fills its queue before it is paused.
                let least = if stage == 0 { self.inlets[0].launch_packets } else { 1 };
                Waiting { packets: queued + collected, launch: launch.max(least) }
            }
        }
    }

    /// Reports how much waits for `stage`.
    fn gauge(&mut self, stage: usize) {
        let waiting = self.waiting(stage);
        let is_feeder_paused = self.pressure.set(stage, waiting, self.clock.now());
        if stage == 0 && is_feeder_paused != self.input.held_by().is_some() {
            let is_output_full = self.is_output_full();
            let held_by = is_feeder_paused.then(|| self.pressure.pause_ingress(is_output_full));
            self.input.hold(held_by);
        }
    }
}
