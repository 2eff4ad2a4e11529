//! Stages on devices as plain data for their launches, and the memory of lanes.

use std::sync::Arc;

use warpline_device::{Device, Failure};
use warpline_launch::{Declared, LaneMemory, LaunchStage, Lengthened, Member};
use warpline_sched::LaunchLimits;

use crate::{Deployment, Instance, Settings, Site, StagePlan};

/// The launches of `stage`, which has these limits.
///
/// # Errors
/// A function is not loaded.
pub(crate) fn launch_stage(
    deployment: &Deployment,
    settings: &Settings,
    stage: &StagePlan,
    limits: LaunchLimits,
) -> Result<LaunchStage, Failure> {
    let member = |position: usize| {
        let none = || Failure::Refused("its kernels are not loaded".into());
        let function = &*deployment.chain().instances[position].function;
        Ok(Member {
            position: position as u8,
            access: *function.access(),
            kernels: function.kernel_access(),
            loaded: Arc::clone(deployment.loaded(position).ok_or_else(none)?),
        })
    };
    let crossings = deployment.crossings(stage).clone();
    let lengthens = |one: &Instance| {
        let function = Arc::clone(&one.function);
        move |len| function.lengthens(len)
    };
    let lengthened = match crossings.rooms_back {
        true => Lengthened::by(deployment.members(stage).iter().map(lengthens)),
        false => Lengthened::default(),
    };
    Ok(LaunchStage {
        names: deployment.stage_name(stage),
        members: stage.positions().map(member).collect::<Result<_, Failure>>()?,
        transport: deployment.transport(stage),
        crossings,
        scratch_words: settings.arena(deployment).scratch_words,
        lengthened,
        limits,
        dimensions: settings.dimensions(deployment, stage, &limits),
        target: Arc::clone(deployment.launch_target(stage)),
        mates: deployment.loaded_on(deployment.sites()[stage.first].device_id()),
        is_first: stage.first == 0,
        is_routed: deployment.chain().routes().is_some(),
        is_alone: settings.lanes == 1,
        follows_versions: settings.follows_versions,
    })
}

/// The declarations of the functions of `deployment`, by which versions of fields are followed.
pub(crate) fn declared(deployment: &Deployment) -> Vec<Declared> {
    let of = |(one, site): (&Instance, &Site)| {
        let function = &one.function;
        Declared::new(&one.name, site.device_id(), *function.access(), function.kernel_access())
    };
    deployment.instances().map(of).collect()
}

/// Takes memory for a lane of `deployment`: `arena_len` bytes, and `spare_len` after them for
/// launches in place. If one of its devices shares memory, or its kernels carry frames, the memory
/// is made by that device.
pub(crate) fn lane_memory(
    deployment: &Deployment,
    arena_len: usize,
    spare_len: usize,
) -> Option<LaneMemory> {
    let devices = deployment.sites().iter().filter_map(|site| site.on_device.as_ref());
    let is_made_for =
        |one: &&dyn Device| one.description().shares_host_memory || deployment.has_carried(*one);
    let sharing = devices.map(|on| &*on.device).filter(is_made_for);
    LaneMemory::new(arena_len, spare_len, sharing)
}
