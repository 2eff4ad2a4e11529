//! A stage: functions between two queues, with their state for the shards of one lane.
//!
//! Batches go through function by function, in three phases. A stage of one function may take
//! several batches through each phase together; `before` of the last then comes before `run` of the
//! first.

mod scratch;
mod slot;

use std::sync::Arc;

use warpline_launch::{Clock, Finished, Flight, LaunchTimes, Transfers, Versions};
use warpline_packet::{FlowHasher, KeptFrames, Placer, Shard};

use self::slot::Slot;
use crate::reports::States;
use crate::stats::FunctionStats;
use crate::{Chain, Control, Observer, StageCounts, StagePlan};

pub(crate) use self::scratch::TurnScratch;

/// Where a lane's functions place frames.
pub(crate) struct Rooms {
    /// The number of the lane.
    pub(crate) lane: usize,
    pub(crate) placer: Placer,
    /// Names the flows of packets that functions make.
    pub(crate) hasher: FlowHasher,
    /// Frames as they were when a function's turn began, where dropped packets are shown.
    pub(crate) kept: Option<KeptFrames>,
    /// Versions of the lane's packets' fields, where they are followed.
    pub(crate) versions: Option<Box<Versions>>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
}

/// A batch on its way through a stage.
pub(crate) type BatchInFlight = Flight<Box<TurnScratch>>;

/// The launches of a stage that is on a device.
pub(crate) type Launches = warpline_launch::Launches<Box<TurnScratch>>;

/// Functions between two queues.
pub(crate) struct Stage {
    slots: Vec<Slot>,
    pub(crate) launch_batches: usize,
    order: Vec<u16>,
    /// Where its functions are on a device.
    pub(crate) launches: Option<Launches>,
    /// Where they were to be and are not, the bits of mirrors that have packets all the same.
    kept_mirrors: Option<u8>,
    /// Nanoseconds that its functions worked before they moved here.
    busy_before: u64,
}

impl Stage {
    /// The functions of `plan`, with state for `shards`; or without functions, which move here.
    pub(crate) fn new(
        chain: &Chain,
        plan: &StagePlan,
        shards: Option<&[Shard]>,
        slots: usize,
        on: Result<Option<Launches>, u8>,
    ) -> Self {
        let (launches, kept_mirrors) = match on {
            Ok(launches) => (launches, None),
            Err(kept) => (None, Some(kept)),
        };
        let mut own = Vec::with_capacity(plan.count);
        if let Some(shards) = shards {
            own.extend(plan.positions().map(|position| Slot::new(chain, position, shards)));
        }
        Self {
            slots: own,
            // Launches for a device are collected batch by batch.
            launch_batches: if launches.is_some() { 1 } else { plan.launch_batches },
            order: Vec::with_capacity(slots),
            kept_mirrors,
            busy_before: 0,
            launches,
        }
    }

    /// The next `count` functions of `slots` move here.
    fn take(&mut self, slots: &mut impl Iterator<Item = Slot>, count: usize) {
        self.slots.extend(slots.take(count));
        self.busy_before = self.busy_ns();
    }

    /// All functions of `old` move to `new`, which has none yet. `counts` are those of `new`, by
    /// stage, and those of `old` are added. Returns the bytes that crossed for `old`.
    pub(crate) fn take_over(
        new: &mut [Self],
        old: &mut [Self],
        (plans, counts): (&[StagePlan], &mut [StageCounts]),
        (earlier, now): (&[StageCounts], u64),
    ) -> Transfers {
        let mut all = Transfers::default();
        for (stage, counted) in old.iter_mut().zip(earlier) {
            let first = usize::from(stage.first());
            let transfers = stage.launches.as_ref().map(Launches::transfers).unwrap_or_default();
            let transfers = Transfers { streams: 0, ..transfers };
            if let Some(at) = plans.iter().position(|plan| plan.positions().contains(&first)) {
                counts[at].add(counted);
                stage.add_time(&mut counts[at], now);
                counts[at].launches += transfers.launches;
            }
            stage.add_transfers(&transfers);
            all.add(&transfers);
        }
        let mut slots = old.iter_mut().flat_map(|stage| stage.slots.drain(..));
        new.iter_mut().zip(plans).for_each(|(stage, plan)| stage.take(&mut slots, plan.count));
        all
    }

    /// Nanoseconds that its functions worked.
    pub(crate) fn busy_ns(&self) -> u64 {
        self.slots.iter().map(|slot| slot.stats.busy_ns).sum()
    }

    /// The position of its first function.
    pub(crate) fn first(&self) -> u8 {
        self.slots.first().map_or(0, |slot| slot.position)
    }

    /// Takes `flights` through every function: batches of packets, or one tick or end of input.
    pub(crate) fn work(&mut self, flights: &mut [BatchInFlight], rooms: &mut Rooms, clock: &Clock) {
        let mut then = clock.now();
        if let Some(kept) = self.kept_mirrors {
            let first = self.first();
            for flight in &mut *flights {
                flight.batch.enter(first);
                flight.batch.keep_mirrors(kept);
            }
        }
        for slot in &mut self.slots {
            slot.work(flights, rooms, &mut self.order);
            let now = clock.now();
            slot.stats.busy_ns += now - then;
            then = now;
        }
    }

    /// Takes a batch of packets through `before` and hands it to the launches.
    pub(crate) fn admit(&mut self, mut flight: BatchInFlight, rooms: &mut Rooms, clock: &Clock) {
        let (Some(launches), Some(slot)) = (&mut self.launches, self.slots.first_mut()) else {
            return;
        };
        let then = clock.now();
        slot.enter(&mut flight);
        slot.begin_apart(&mut flight, rooms);
        flight.batch.leave_phase();
        launches.push(flight, clock);
        let spent = clock.now() - then;
        slot.stats.busy_ns += spent;
        slot.stats.before_ns += spent;
    }

    /// Takes the batches of a finished launch through the rest of their turns, whether or not the
    /// device did the work.
    pub(crate) fn settle(
        &mut self,
        finished: &mut Finished<Box<TurnScratch>>,
        rooms: &mut Rooms,
        clock: &Clock,
    ) {
        let Some(launches) = &self.launches else { return };
        for index in 0..finished.flights.len() {
            let versions = rooms.versions.as_deref_mut();
            let output = launches.apply(finished, index, &mut rooms.placer, versions);
            let flight = &mut finished.flights[index];
            let mut then = clock.now();
            for (at, slot) in self.slots.iter_mut().enumerate() {
                if at > 0 {
                    slot.enter(flight);
                    slot.begin_apart(flight, rooms);
                }
                slot.finish(flight, output.as_ref(), rooms, &mut self.order);
                let now = clock.now();
                slot.stats.busy_ns += now - then;
                then = now;
            }
        }
    }

    /// Puts the functions that were built anew where the old ones were.
    pub(crate) fn reload(&mut self, control: &Control) {
        if let Some(deployment) = control.reloads.deployment() {
            let loaded = |position| deployment.loaded(position);
            let launches = self.launches.iter_mut();
            launches.for_each(|launches| launches.reload(loaded, deployment.failures()));
            self.slots.iter_mut().for_each(|slot| slot.reload(deployment.chain()));
        }
    }

    /// Notes what crossed for its launches.
    pub(crate) fn add_transfers(&mut self, transfers: &Transfers) {
        self.slots.iter_mut().take(1).for_each(|slot| slot.stats.transfers.add(transfers));
    }

    /// Adds the time that its device had launches of it, or that its functions worked on the CPU.
    pub(crate) fn add_time(&self, counts: &mut StageCounts, now: u64) {
        match &self.launches {
            Some(launches) => {
                let LaunchTimes { busy_ns, launch_ns } = launches.times(now);
                counts.device_ns += busy_ns;
                counts.launch_ns += launch_ns;
            }
            None => counts.device_ns += self.busy_ns() - self.busy_before,
        }
    }

    /// The counts of its functions so far, by their position in the chain. `transfers` are those of
    /// its launches.
    pub(crate) fn counts(
        &self,
        transfers: &Transfers,
    ) -> impl Iterator<Item = (usize, FunctionStats)> {
        self.slots.iter().enumerate().map(|(at, slot)| {
            let mut stats = slot.counts();
            if at == 0 {
                stats.transfers.add(transfers);
            }
            stats.count(&slot.states);
            (usize::from(slot.position), stats)
        })
    }

    /// Statistics and state of its functions, by their position in the chain.
    pub(crate) fn finish(self) -> impl Iterator<Item = (usize, FunctionStats, States)> {
        self.slots.into_iter().map(|slot| (usize::from(slot.position), slot.counts(), slot.states))
    }
}
