//! Divides a chain into stages.

use std::ops::Range;

use warpline_sched::{StageMember, stages};

use crate::{Chain, OnDevice, Place, Site};

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
    let launches = |site: &Site| {
        let options = |on: &OnDevice| (on.launches, on.is_required);
        site.on_device.as_ref().map(|on| (site.device_id().to_owned(), options(on)))
    };
    let members = chain.instances.iter().zip(sites).enumerate();
    let members = members.map(|(position, (instance, site))| StageMember {
        launches: launches(site),
        own_stage: site.own_stage,
        is_straight: chain.is_straight(position),
        is_second_place: instance.place == Place::Second,
        access: instance.function.access(),
        makes_packets: instance.function.emits().per_packet > 0,
        has_findings: instance.function.emits().findings_per_packet > 0,
    });
    let members: Vec<_> = members.collect();
    let stage = |positions: Range<usize>| StagePlan {
        first: positions.start,
        count: positions.len(),
        launch_batches: sites[positions.start].launch_batches.max(1),
    };
    let mut stages: Vec<StagePlan> = stages(&members, apart).into_iter().map(stage).collect();
    // A chain without functions still has one stage, which passes packets on.
    if stages.is_empty() {
        stages.push(StagePlan { first: 0, count: 0, launch_batches: 1 });
    }
    stages
}
