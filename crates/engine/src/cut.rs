//! Divides a chain into stages.

use std::ops::Range;

use crate::device::{self, OnDevice};
use crate::{Chain, Place, Site};

/// Instances between two queues: by default as many as follow each other on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagePlan {
    /// The first instance, by its position in the chain.
    pub first: usize,
    /// How many.
    pub count: usize,
    /// Batches that go through together, on the CPU.
    pub launch_batches: usize,
}

impl StagePlan {
    /// The positions of its instances in the chain.
    pub fn positions(&self) -> Range<usize> {
        self.first..self.first + self.count
    }
}

/// Cuts a chain into stages by the sites of its functions. With `apart`, each function on a device
/// gets a stage of its own.
pub(crate) fn cut(chain: &Chain, sites: &[Site], apart: bool) -> Vec<StagePlan> {
    let mut stages: Vec<StagePlan> = Vec::new();
    for (position, site) in sites.iter().enumerate() {
        match stages.last_mut() {
            Some(stage) if can_join(chain, sites, stage, apart) => stage.count += 1,
            _ => stages.push(StagePlan {
                first: position,
                count: 1,
                launch_batches: site.launch_batches.max(1),
            }),
        }
    }
    // A chain without functions still has one stage, which passes packets on.
    if stages.is_empty() {
        stages.push(StagePlan { first: 0, count: 0, launch_batches: 1 });
    }
    stages
}

/// Whether the instance after those of `stage` can join them.
fn can_join(chain: &Chain, sites: &[Site], stage: &StagePlan, apart: bool) -> bool {
    let next = stage.positions().end;
    let (function, site) = (&*chain.instances[next].function, &sites[next]);
    let takes_answers = |position: usize| chain.instances[position].place == Place::Second;
    let options = |on: &OnDevice| (on.launches, on.is_required);
    let is_straight = chain.is_straight(next - 1);
    let runs_on = |one: &Site| (one.device_id().to_owned(), one.on_device.as_ref().map(options));
    let can_follow = |position: usize| {
        let (own, own_site) = (&*chain.instances[position].function, &sites[position]);
        runs_on(own_site) == runs_on(site)
            && (own_site.on_device.is_none()
                || is_straight && !apart && device::can_follow(own, function))
            // Packets that pass one of them pass all.
            && (own_site.on_device.is_none() || takes_answers(position) == takes_answers(next))
    };
    !site.own_stage
        && stage.positions().all(|position| !sites[position].own_stage && can_follow(position))
}
