//! A lane: one worker with its own stages, queues, shards and arena. [`Lane::breathe`] is its loop.

use std::collections::VecDeque;
use std::time::Duration;

use warpline_packet::{Batch, Kind};

use crate::clock::Clock;
use crate::device::Launches;
use crate::memory::StageRoom;
use crate::queue::Queue;
use crate::reports::Ended;
use crate::stage::{Bench, Flight, Rooms, Stage};
use crate::{Chain, Control, Deployment, Settings};

/// A lane's stages and the queues between them.
pub(crate) struct Lane {
    stages: Vec<Stage>,
    /// `queues[i]` stands before stage `i + 1`.
    queues: Vec<VecDeque<Box<Batch>>>,
    queue_batches: usize,
    input: Queue,
    output: Queue,
    rooms: Rooms,
    /// By stage, what it may place.
    stage_rooms: Vec<StageRoom>,
    /// Slabs that what devices have under way may still fill.
    promised: usize,
    /// By stage: a tick or an end that waits for its turn alone.
    held: Vec<Option<Box<Batch>>>,
    /// Idle benches: one for each batch of the largest launch, and for those that devices have.
    #[expect(clippy::vec_box, reason = "it goes to and fro with every batch")]
    benches: Vec<Box<Bench>>,
    flights: Vec<Flight>,
    clock: Clock,
    finished: bool,
}

impl Lane {
    pub(crate) fn new(
        deployment: &Deployment,
        settings: &Settings,
        lane: usize,
        io: (Queue, Queue),
        (rooms, made): (Rooms, Vec<Batch>),
        launches: Vec<Result<Option<Launches>, u8>>,
        clock: Clock,
    ) -> Self {
        let chain = deployment.chain();
        let shards = chain.shards(lane, settings.lanes);
        let slots = settings.slots(chain);
        let stage = |(plan, launches)| Stage::new(chain, plan, &shards, slots, launches);
        let stages: Vec<Stage> = deployment.stages().iter().zip(launches).map(stage).collect();
        let keeps = rooms.kept.is_some();
        let queue = || VecDeque::with_capacity(settings.queue_batches);
        Self {
            queues: stages.iter().skip(1).map(|_| queue()).collect(),
            queue_batches: settings.queue_batches,
            flights: Vec::with_capacity(made.len()),
            held: stages.iter().map(|_| None).collect(),
            benches: made.into_iter().map(|made| Box::new(Bench::new(made, keeps))).collect(),
            stages,
            input: io.0,
            output: io.1,
            rooms,
            stage_rooms: settings.placed(deployment).stages,
            promised: 0,
            clock,
            finished: false,
        }
    }

    /// One round: every stage, from the last to the first, takes its waiting input as far as there
    /// is room downstream. Returns whether any did.
    pub(crate) fn breathe(&mut self, control: &Control) -> bool {
        let mut worked = false;
        for stage in (0..self.stages.len()).rev() {
            worked |= self.advance(stage, control);
            while self.may_take(stage) && self.take(stage) {
                worked = true;
                if self.is_for_device(stage) {
                    self.admit(stage);
                    continue;
                }
                if self.flights[0].batch.kind() == Kind::Reload {
                    self.stages[stage].reload(control);
                }
                self.stages[stage].work(&mut self.flights, &mut self.rooms, &self.clock);
                self.pass_on(stage);
            }
        }
        worked
    }

    /// How long it may rest when it has found nothing to do.
    pub(crate) fn rest_at_most(&self) -> Duration {
        let launches = self.stages.iter().filter_map(|stage| stage.launches.as_ref());
        let now = self.clock.now();
        launches.map(|launches| launches.rest_at_most(now)).min().unwrap_or(Duration::MAX)
    }

    /// Polls the launches of a stage on a device, and passes finished ones on. There is room
    /// downstream for all that it has.
    fn advance(&mut self, stage: usize, control: &Control) -> bool {
        let own = &mut self.stages[stage];
        let Some(launches) = &mut own.launches else { return false };
        let mut worked = launches.advance(&self.clock);
        if let Some(news) = launches.take_news() {
            control.tell(news);
        }
        while let Some(mut finished) =
            self.stages[stage].launches.as_mut().and_then(Launches::take_finished)
        {
            self.stages[stage].settle(&mut finished, &mut self.rooms, &self.clock);
            self.promised -= finished.flights.len() * self.stage_rooms[stage].promised;
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
        self.stages[stage].launches.is_some() && self.flights[0].batch.kind() == Kind::Packets
    }

    fn admit(&mut self, stage: usize) {
        for flight in self.flights.drain(..) {
            self.promised += self.stage_rooms[stage].promised;
            self.stages[stage].admit(flight, &mut self.rooms, &self.clock);
        }
        if let Some(launches) = &mut self.stages[stage].launches {
            launches.advance(&self.clock);
        }
    }

    /// Whether the end of the input passed the last stage.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Whether `stage` may take a batch. If that waits for launches, these stop waiting for more.
    fn may_take(&mut self, stage: usize) -> bool {
        if !self.has_room_behind(stage) {
            return false;
        }
        if !self.benches.is_empty() && self.has_slabs(stage, 0) {
            return true;
        }
        if self.is_waited_for(stage) {
            let launches = self.stages.iter_mut().filter_map(|stage| stage.launches.as_mut());
            launches.for_each(Launches::flush);
        }
        false
    }

    /// Whether a batch waits before `stage`.
    fn is_waited_for(&self, stage: usize) -> bool {
        let queued = match stage.checked_sub(1) {
            None => self.input.len(),
            Some(before) => self.queues[before].len(),
        };
        queued > 0 || self.held[stage].is_some()
    }

    fn has_room_behind(&self, stage: usize) -> bool {
        let room = match self.queues.get(stage) {
            Some(queue) => self.queue_batches - queue.len(),
            None => self.output.room(),
        };
        let has = self.stages[stage].launches.as_ref();
        if has.is_some_and(|launches| !launches.has_room()) {
            return false;
        }
        let held = has.map_or(0, Launches::batches);
        room >= held + self.stages[stage].launch_batches
    }

    /// Whether `stage` may take another batch besides `taken`: in the worst case everything that it
    /// and later stages place must fit. Otherwise it waits for slabs to return.
    fn has_slabs(&self, stage: usize, taken: usize) -> bool {
        let StageRoom { each, free, .. } = self.stage_rooms[stage];
        each == 0 || self.rooms.placer.has_free(free + self.promised + taken * each)
    }

    /// Takes a launch for `stage`: batches of packets, or one tick or end.
    fn take(&mut self, stage: usize) -> bool {
        while self.flights.len() < self.stages[stage].launch_batches
            && !self.benches.is_empty()
            && (self.flights.is_empty() || self.has_slabs(stage, self.flights.len()))
        {
            let Some(batch) = self.held[stage].take().or_else(|| self.pop(stage)) else { break };
            let alone = batch.kind() != Kind::Packets;
            if alone && !self.is_drained(stage) {
                self.held[stage] = Some(batch);
                break;
            }
            let Some(bench) = self.benches.pop() else { unreachable!("one is idle") };
            self.flights.push(Flight { batch, bench });
            if alone {
                break;
            }
        }
        !self.flights.is_empty()
    }

    /// Whether nothing that a tick or an end may not overtake is in `stage`.
    fn is_drained(&mut self, stage: usize) -> bool {
        let Some(launches) = &mut self.stages[stage].launches else {
            return self.flights.is_empty();
        };
        if launches.batches() > 0 {
            launches.flush();
        }
        launches.batches() == 0 && self.flights.is_empty()
    }

    fn pop(&mut self, stage: usize) -> Option<Box<Batch>> {
        match stage.checked_sub(1) {
            None => {
                let batch = self.input.pop()?;
                self.rooms.versions.iter_mut().for_each(|versions| versions.arrive(&batch));
                Some(batch)
            }
            Some(before) => self.queues[before].pop_front(),
        }
    }

    fn pass_on(&mut self, stage: usize) {
        for Flight { batch, bench } in self.flights.drain(..) {
            self.benches.push(bench);
            match self.queues.get_mut(stage) {
                Some(queue) => queue.push_back(batch),
                None => {
                    self.rooms.versions.iter_mut().for_each(|versions| versions.leave(&batch));
                    self.finished |= batch.kind() == Kind::Finish;
                    let pushed = self.output.push(batch);
                    debug_assert!(pushed.is_ok(), "room was asked for");
                }
            }
        }
    }

    /// The counts of its functions, and their state.
    pub(crate) fn finish(mut self, chain: &Chain) -> Ended {
        let mut ended = Ended::new(chain.instances.len());
        if let Some(versions) = self.rooms.versions.take() {
            ended.part.versions = versions.into_followed();
        }
        for stage in &mut self.stages {
            if let Some((transfers, failed)) = stage.launches.take().map(Launches::finish) {
                ended.part.transfers.add(&transfers);
                ended.part.warnings.extend(failed);
                stage.set_transfers(transfers);
            }
        }
        for (position, stats, states) in self.stages.into_iter().flat_map(Stage::finish) {
            ended.part.packets.generated += stats.generated;
            ended.part.functions[position] = stats;
            ended.states[position] = states;
        }
        ended
    }
}
