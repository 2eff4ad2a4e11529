//! Moves: functions of a running chain continue on other devices, with the state that they have.
//!
//! The caller builds all lanes anew beside the running ones, with memory, mirrors, kernels and
//! launches ([`Successor::moved`]). The engine announces the move like a reload. Ingress puts all
//! later packets in the new memory. A lane finishes all earlier packets, launches included, takes
//! its functions with their state to the new stages, and continues. The merge takes later packets
//! from the new queues. Nothing of a packet is in two places, so plans may be different ones.
//!
//! Threads leave their old parts here, and the caller frees them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use warpline_launch::LaneMemory;

use crate::build::{Built, StateOf};
use crate::ingress::LaneWriter;
use crate::lane::Lane;
use crate::queue::Queue;
use crate::{Control, Deployment, Settings, Successor};

/// Lanes that are ready to continue the running ones, and later what these left.
pub(crate) struct NextLanes {
    settings: Settings,
    /// How many lanes have moved.
    moved: AtomicUsize,
    /// By lane.
    lanes: Vec<NextLane>,
}

#[derive(Default)]
struct NextLane {
    writer: Mutex<Option<Box<LaneWriter>>>,
    lane: Mutex<Option<(Box<Lane>, LaneMemory)>>,
    exit: Mutex<Option<(Queue, Queue)>>,
}

/// Puts `new` in place of the content of `slot`, which is returned.
fn put<T>(slot: Option<&Mutex<Option<T>>>, new: Option<T>) -> Option<T> {
    let mut slot = slot?.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::replace(&mut *slot, new)
}

impl NextLanes {
    fn new(settings: Settings, built: Vec<Built>) -> Self {
        let lane = |Built { lane, writer, output, pool, memory }| NextLane {
            writer: Mutex::new(Some(Box::new(writer))),
            lane: Mutex::new(Some((Box::new(lane), memory))),
            exit: Mutex::new(Some((output, pool))),
        };
        let lanes = built.into_iter().map(lane).collect();
        Self { settings, moved: AtomicUsize::new(0), lanes }
    }

    /// Their dimensions.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The entrance of lane `number`.
    pub(crate) fn take_writer(&self, number: usize) -> Option<Box<LaneWriter>> {
        put(self.lanes.get(number).map(|own| &own.writer), None)
    }

    /// Takes the earlier entrance of lane `number`.
    pub(crate) fn leave_writer(&self, number: usize, writer: Box<LaneWriter>) {
        put(self.lanes.get(number).map(|own| &own.writer), Some(writer));
    }

    /// Lane `number`, with its memory.
    pub(crate) fn take_lane(&self, number: usize) -> Option<(Box<Lane>, LaneMemory)> {
        put(self.lanes.get(number).map(|own| &own.lane), None)
    }

    /// Stores the old lane `number`, for the caller to free.
    pub(crate) fn leave_lane(&self, number: usize, lane: (Box<Lane>, LaneMemory)) {
        put(self.lanes.get(number).map(|own| &own.lane), Some(lane));
        self.moved.fetch_add(1, Ordering::Release);
    }

    /// Whether lanes have moved. Once the move is over, lanes that did not had ended before.
    pub(crate) fn have_moved(&self) -> bool {
        self.moved.load(Ordering::Acquire) > 0
    }

    /// Exchanges the output and the pool of lane `number`.
    pub(crate) fn swap_exit(&self, number: usize, output: &mut Queue, pool: &mut Queue) {
        let Some(own) = self.lanes.get(number) else { return };
        let mut exit = own.exit.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((own_output, own_pool)) = &mut *exit {
            std::mem::swap(output, own_output);
            std::mem::swap(pool, own_pool);
        }
    }
}

impl Successor {
    /// `new` after `old`, which runs by `control`: the same chain on other sites, or by another
    /// plan. Loads kernels and tables, and takes the memory of all lanes once more, until the lanes
    /// have moved. Then [`Successor::has_moved`].
    ///
    /// # Errors
    /// The chain does not run or is another one, a device cannot be used, or there is too little
    /// memory. Nothing has changed then.
    pub fn moved(
        old: &Deployment,
        mut new: Deployment,
        control: &Control,
    ) -> Result<Self, Vec<String>> {
        let one = |why: String| vec![why];
        let builder = control.builder().ok_or_else(|| one("the chain does not run".into()))?;
        if !Arc::ptr_eq(old.chain(), new.chain()) {
            return Err(one("functions of one chain can't move to another".into()));
        }
        // A function that can't run on its device refuses the move.
        new.follow(old);
        new.require_devices(old);
        if old.shows_drops() {
            new.show_drops();
        }
        let moved = old.moved_to(&new);
        let named = |(name, why)| one(format!("{name} can't run there: {why}"));
        let lost = |new: &Deployment| {
            let device = |&at: &usize| new.sites()[at].device_id();
            let lost = moved.iter().find(|at| new.failures().has_failed(device(at)));
            lost.map_or(Ok(()), |at| {
                let name = &new.chain().instances[*at].name;
                Err(one(format!("{name}: {} failed earlier", device(at))))
            })
        };
        lost(&new)?;
        let mut reported = new.load().map_err(named)?;
        lost(&new)?;
        let settings = builder.settings(&new).map_err(|why| one(why.to_string()))?;
        let built = builder.lanes(&new, &settings, StateOf::Running, &mut reported);
        let built = built.map_err(|why| one(why.to_string()))?;
        reported.into_iter().for_each(|message| control.report(message));
        let changed = moved.iter().map(|&at| new.chain().instances[at].name.clone()).collect();
        Ok(Self::with_lanes(new, changed, Arc::new(NextLanes::new(settings, built))))
    }
}
