//! How a chain is cut into stages.

use crate::Instance;
use crate::device::{self, OnDevice};

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

/// Cuts a chain into stages; `apart` has each function on a device in one of its own.
pub(crate) fn cut(instances: &[Instance], apart: bool) -> Vec<StagePlan> {
    let mut stages: Vec<StagePlan> = Vec::new();
    for (position, instance) in instances.iter().enumerate() {
        match stages.last_mut() {
            Some(stage) if can_join(instances, stage, instance, apart) => stage.count += 1,
            _ => stages.push(StagePlan {
                first: position,
                count: 1,
                launch_batches: instance.launch_batches.max(1),
            }),
        }
    }
    // A chain without functions still has one stage, which passes packets on.
    if stages.is_empty() {
        stages.push(StagePlan { first: 0, count: 0, launch_batches: 1 });
    }
    stages
}

/// Whether `instance`, which follows those of `stage`, has no stage of its own.
fn can_join(instances: &[Instance], stage: &StagePlan, instance: &Instance, apart: bool) -> bool {
    let own = &instances[stage.first..stage.first + stage.count];
    let options = |on: &OnDevice| (on.launches, on.is_required);
    let runs_on =
        |one: &Instance| (one.device_id().to_owned(), one.on_device.as_ref().map(options));
    let can_follow = |one: &Instance| {
        runs_on(one) == runs_on(instance)
            && (one.on_device.is_none()
                || !apart && device::can_follow(&*one.function, &*instance.function))
    };
    !instance.own_stage && own.iter().all(|one| !one.own_stage && can_follow(one))
}
