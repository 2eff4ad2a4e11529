//! The launches of one stage of one lane: collecting, in flight, and ready to leave.

mod settle;

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use warpline_device::{Device, Failure, Loads};
use warpline_packet::{Broken, FieldSet};
use warpline_sched::{Arrivals, Arrived, Batcher, LOOK_NS, Launch, LaunchId, Load};

use crate::executor::Executor;
use crate::flight::{Flight, Flying, How, LaunchState};
use crate::launch_stage::LaunchStage;
use crate::mirror::Mirrors;
use crate::stage_load::{LaunchTimes, StageLoad};
use crate::{Clock, LaunchTarget, OnDevice, Transfers};

const LOOK_EVERY: Duration = Duration::from_nanos(LOOK_NS);

/// See the module. Each batch is here with `T`, memory of the caller.
pub struct Launches<T> {
    device: Arc<dyn Device>,
    executor: Executor,
    batcher: Batcher,
    target: Arc<LaunchTarget>,
    /// Batches that are in no launch yet.
    waiting: VecDeque<Flight<T>>,
    /// Launches that were given out and not released, by the slot that the batcher gave them.
    flying: Vec<Flying<T>>,
    /// Fields that the segment's functions write.
    writes: FieldSet,
    sync: bool,
    /// Names of the segment's functions.
    names: String,
    /// Whether no other lane has the same stage.
    is_alone: bool,
    /// The message about its device, if it failed at this stage.
    failed: Option<String>,
    is_reported: bool,
    /// A warning about its device, and whether it was reported.
    warning: Option<String>,
    is_warned: bool,
    /// The positions of functions whose launches share the mirror.
    mates: Vec<usize>,
    /// No launch is started any more: a reload brought what is not on the device.
    is_retired: bool,
    /// Packets skip functions, so how many a device lacks is not known ahead.
    is_routed: bool,
    /// Packets come from ingress.
    is_first: bool,
    load: StageLoad,
    arrivals: Arrivals,
    /// The counts of the last call of it.
    arrived: Arrived,
    /// Packets that came to the stage, whether it got them or its full queue dropped them.
    reached: u64,
}

impl<T> Launches<T> {
    /// For `stage` on the device of `on`, of the lane that has `mirrors`.
    ///
    /// # Errors
    /// The device's: it may have too little memory.
    pub fn open(
        stage: LaunchStage,
        on: &OnDevice,
        mirrors: &mut Mirrors<'_>,
    ) -> Result<Self, Failure> {
        let executor = Executor::new(on, mirrors.of(&*on.device)?, &stage)?;
        let LaunchStage { names, limits, target, mates, is_first, is_routed, is_alone, .. } = stage;
        let batcher = Batcher::new(&limits);
        let nothing = || Flying {
            id: LaunchId(0),
            flights: Vec::new(),
            state: LaunchState::Over(How::Done),
            loads_ended: 0,
        };
        let warn =
            |why| format!("{names} on {}: the host's memory: {why}", on.device.description().id);
        Ok(Self {
            warning: executor.shortcoming().map(warn),
            is_warned: false,
            device: Arc::clone(&on.device),
            waiting: VecDeque::with_capacity(limits.waiting_batches_max),
            flying: (0..batcher.slots()).map(|_| nothing()).collect(),
            batcher,
            target,
            writes: executor.writes(),
            executor,
            sync: on.launches.sync,
            names,
            is_alone,
            failed: None,
            is_reported: false,
            mates,
            is_retired: false,
            is_routed,
            is_first,
            load: StageLoad::default(),
            arrivals: Arrivals::default(),
            arrived: Arrived::default(),
            reached: 0,
        })
    }

    /// Whether it takes another batch.
    pub fn has_room(&self) -> bool {
        self.batcher.has_room()
    }

    /// Batches that it has.
    pub fn batches(&self) -> usize {
        self.batcher.held_batches()
    }

    /// Packets in no launch that was given out, and the packets of a launch.
    pub fn load(&self) -> (usize, usize) {
        (self.load.waiting_packets(), self.load.launch_packets(self.batcher.limits()))
    }

    /// Its full queue dropped packets.
    pub fn drop_packets(&mut self, packets: u64) {
        self.reached += packets;
    }

    /// So many packets came for the lane until now, of which its first stage took `entered`.
    pub fn count_arrivals(&mut self, offered: u64, entered: u64) {
        let all = Arrived { offered, entered, reached: self.reached };
        if all == self.arrived {
            return;
        }
        self.arrived = all;
        let packets = self.arrivals.handle(all);
        if packets > 0 {
            self.device.announce(packets);
        }
    }

    /// Takes a batch that has been through `before`. Its packets wait for a launch since they were
    /// read, or since they came here if an earlier stage had them.
    pub fn push(&mut self, flight: Flight<T>, clock: &Clock) {
        let batch = &flight.batch;
        let oldest_ns = if self.is_first { batch.opened() } else { clock.now() };
        // A launch has no row for packets that are dropped or routed past it.
        let forward = batch.forward_count();
        let (packets, bytes) = match forward {
            0 => (0, 0),
            _ => (batch.len(), batch.frame_bytes()),
        };
        self.reached += forward as u64;
        let load = Load { packets, bytes, oldest_ns };
        self.target.apply(&mut self.batcher);
        self.batcher.handle_batch(&load);
        self.load.take(&load);
        self.waiting.push_back(flight);
    }

    /// Closes the launch that is being collected: nothing may overtake what comes next.
    pub fn flush(&mut self) {
        self.batcher.handle_flush();
    }

    /// Polls the launches under way. Returns whether anything happened.
    pub fn advance(&mut self, clock: &Clock) -> bool {
        let happened = self.look(clock);
        self.wait(clock);
        happened
    }

    /// Whether a launch is full and was not started.
    pub fn has_full(&self) -> bool {
        self.batcher.has_closed()
    }

    /// Starts launches that are closed or due. Call it when the stage took what it could, so that a
    /// due launch has all of that. Returns whether there were any.
    pub fn begin(&mut self, clock: &Clock) -> bool {
        let mut happened = false;
        while !(self.sync && self.batcher.in_flight() > 0)
            && let Some(launch) = self.batcher.poll_launch(clock.now())
        {
            self.start(&launch, clock);
            happened = true;
            self.wait(clock);
        }
        happened
    }

    /// If the lane waits for each launch, waits for the one in flight. Its turn on a shared device
    /// may come after launches of the lane's other stages, so the lane does not wait for that.
    fn wait(&mut self, clock: &Clock) {
        while self.sync
            && self.batcher.in_flight() > 0
            && self.executor.waiting_slots().next().is_none()
        {
            self.look(clock);
            std::thread::yield_now();
        }
    }

    /// Takes completions, and gives up what takes too long.
    fn look(&mut self, clock: &Clock) -> bool {
        let mut happened = false;
        while let Some((slot, outcome)) = self.executor.poll() {
            self.completed(slot, outcome, clock);
            happened = true;
        }
        // Time at the gate is none of the launch's.
        for slot in self.executor.waiting_slots() {
            self.batcher.handle_next_work(self.flying[slot].id, clock.now());
        }
        while let Some(launch) = self.batcher.poll_expired(clock.now()) {
            if self.has_waited_for_load(launch.slot) {
                self.batcher.handle_excuse(launch.id, clock.now());
            } else {
                self.expired(launch.slot, clock);
                happened = true;
            }
        }
        happened
    }

    fn completed(&mut self, slot: usize, outcome: Result<(), Failure>, clock: &Clock) {
        let state = self.flying[slot].state;
        // A device that is lost may still use what it was given.
        let is_used = matches!(outcome, Err(Failure::Lost(_)));
        let next = match (outcome, state) {
            (Ok(()), LaunchState::Running) => self.ran(slot),
            (Ok(()), LaunchState::Fetching) => self.fetched(slot),
            (Ok(()), LaunchState::FetchingLeft) => {
                self.executor.restore_newer(slot, &mut self.flying[slot].flights);
                Ok(LaunchState::Over(How::Done))
            }
            (Ok(()), _) => Ok(LaunchState::Over(How::Done)),
            (Err(why), LaunchState::CopyingBack | LaunchState::FetchingLeft) => {
                return self.fail(slot, How::Lost { is_used }, &why, clock);
            }
            (Err(why), _) => return self.fail(slot, self.without_kernels(is_used), &why, clock),
        };
        match next {
            Ok(LaunchState::Over(how)) => self.end(slot, how, clock),
            Ok(state) => {
                self.flying[slot].state = state;
                self.batcher.handle_next_work(self.flying[slot].id, clock.now());
            }
            Err(why) => self.fail(slot, self.without_kernels(false), &why, clock),
        }
    }

    /// The outcome of a launch whose kernels failed; `is_used` means that they may still be
    /// running.
    fn without_kernels(&self, is_used: bool) -> How {
        match self.executor.spoils_frames() {
            true => How::Lost { is_used },
            // Copies are the mirror's, and nothing more is taken from it.
            false => How::OnCpu { is_used: is_used && self.executor.is_in_place() },
        }
    }

    /// The kernels of a launch are done: fetches the rest of their findings, or continues. On an
    /// error nothing was written on the host.
    fn ran(&mut self, slot: usize) -> Result<LaunchState, Failure> {
        match self.executor.fetch_found(slot)? {
            true => Ok(LaunchState::Fetching),
            false => self.fetched(slot),
        }
    }

    /// All output except frames has arrived: checks it, and starts copying frames back. On an error
    /// nothing was written on the host, and packets with fields only in the mirror are lost.
    fn fetched(&mut self, slot: usize) -> Result<LaunchState, Failure> {
        let flights = &self.flying[slot].flights;
        let broken = |broken: Broken| Failure::Work(format!("invalid kernel output: {broken}"));
        let found = self.executor.found(slot);
        for (index, Flight { batch, .. }) in flights.iter().enumerate() {
            let returned = self.executor.returned(slot, index);
            batch.check_returned(&returned, self.writes).map_err(broken)?;
            batch.check_left(&returned, self.executor.last_position()).map_err(broken)?;
            found
                .iter()
                .try_for_each(|found| batch.check_found(&returned, found))
                .map_err(broken)?;
        }
        if self.executor.copies_back() {
            return self.executor.copy_back(slot, flights).map(|()| LaunchState::CopyingBack);
        }
        match self.executor.fetch_left(slot, flights)? {
            true => Ok(LaunchState::FetchingLeft),
            false => Ok(LaunchState::Over(How::Done)),
        }
    }

    /// Whether a load on the device held up a launch since it started, or since this was asked.
    fn has_waited_for_load(&mut self, slot: usize) -> bool {
        let Some(loads) = self.device.loads() else { return false };
        // One that ends in between is then among those that ended.
        let is_loading = loads.any();
        let ended = loads.ended();
        is_loading | (mem::replace(&mut self.flying[slot].loads_ended, ended) != ended)
    }

    /// A launch takes too long: its stream is given up, and the device with it.
    fn expired(&mut self, slot: usize, clock: &Clock) {
        let how = match self.flying[slot].state {
            LaunchState::Running | LaunchState::Fetching => self.without_kernels(true),
            LaunchState::CopyingBack | LaunchState::FetchingLeft => How::Lost { is_used: true },
            LaunchState::Over(_) => return,
        };
        self.executor.give_up(slot);
        let why = Failure::Work("it took longer than `launch_timeout_ms`".into());
        self.fail(slot, how, &why, clock);
    }

    fn start(&mut self, launch: &Launch, clock: &Clock) {
        let slot = launch.slot;
        let Flying { id, flights, state, loads_ended } = &mut self.flying[slot];
        (*id, *state) = (launch.id, LaunchState::Running);
        *loads_ended = self.device.loads().map_or(0, Loads::ended);
        flights.extend(self.waiting.drain(..launch.batches.min(self.waiting.len())));
        self.load.start(launch, clock.now());
        flights.iter_mut().for_each(|flight| flight.batch.leave_none());
        if self.is_retired || self.executor.failed().is_some() {
            return self.end(slot, How::ON_CPU, clock);
        }
        match self.executor.start(slot, flights) {
            Ok(true) => {}
            // All its packets were dropped before.
            Ok(false) => self.end(slot, How::ON_CPU, clock),
            Err(why) => self.fail(slot, How::ON_CPU, &why, clock),
        }
    }

    fn fail(&mut self, slot: usize, how: How, why: &Failure, clock: &Clock) {
        self.give_up(why.to_string());
        self.end(slot, how, clock);
    }

    /// The lane uses the device no more.
    fn give_up(&mut self, why: String) {
        if self.executor.failed().is_none() {
            let place = if self.is_alone { "" } else { " in at least one lane" };
            self.failed = Some(format!("{} fell back to the CPU{place}: {why}", self.names));
        }
        self.executor.fail(why);
    }

    /// The message about its device; once.
    pub fn take_messages(&mut self) -> Option<String> {
        if !mem::replace(&mut self.is_warned, true) && self.warning.is_some() {
            return self.warning.clone();
        }
        let message = self.failed.clone().filter(|_| !self.is_reported);
        self.is_reported |= message.is_some();
        message
    }

    fn end(&mut self, slot: usize, how: How, clock: &Clock) {
        self.flying[slot].state = LaunchState::Over(how);
        let now = clock.now();
        self.batcher.handle_done(self.flying[slot].id, now);
        self.load.end(now);
    }

    /// The bytes that were copied so far.
    pub fn transfers(&self) -> Transfers {
        Transfers { streams: self.batcher.streams() as u64, ..self.executor.transfers }
    }

    /// The time that launches took until `now`.
    pub fn times(&self, now: u64) -> LaunchTimes {
        self.load.times(now)
    }

    /// How long the lane may rest.
    pub fn rest_at_most(&self, now: u64) -> Duration {
        let next = self
            .batcher
            .poll_timeout()
            .map_or(Duration::MAX, |next| Duration::from_nanos(next.saturating_sub(now)));
        if self.batcher.in_flight() > 0 { next.min(LOOK_EVERY) } else { next }
    }
}
