//! A chain as the synchronisation plan sees it, and what the plan has its launches do.

use std::ops::Range;

use warpline_nf::Function;
use warpline_packet::{Access, Binding, Field, FieldSet, ReadWrite};

use warpline_sched::{Mode, PlannedFunction, Problem, Widths};

use crate::device::Crossings;
use crate::{Chain, Instance, StagePlan};

/// By which rule a chain's fields cross to devices and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanOptions {
    /// The rule.
    pub mode: Mode,
    /// Bytes of the frames that the plan is made for.
    pub packet_len: u32,
}

impl PlanOptions {
    /// Between the short frames of requests and the long ones of transfers.
    pub const PACKET_LEN: u32 = 512;
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self { mode: Mode::Adaptive, packet_len: Self::PACKET_LEN }
    }
}

/// What a plan is made for, and the devices that it numbers.
#[derive(Clone, Debug)]
pub struct Planned {
    /// See there. Functions on a device that share launches are one.
    pub problem: Problem,
    /// By function of the problem, the positions in the chain of those that it is.
    pub positions: Vec<Range<usize>>,
    /// By function of the problem, what it was taken to touch.
    pub declared: Vec<Access>,
    /// Names of the devices with memories of their own, as [`PlannedFunction::device`] counts them.
    pub devices: Vec<String>,
}

/// The problem of `chain`, for frames of `packet_len` bytes that hold UDP in IPv4. Devices that share the host's memory are
/// the host. Links cost what the chain's profile says ([`Chain::set_profile`]). Behind every launch the host has all that anyone will need.
pub fn planned(chain: &Chain, packet_len: u32) -> Planned {
    let mut devices: Vec<String> = Vec::new();
    let positions = launches(chain);
    let mut declared = Vec::new();
    let mut functions = Vec::new();
    for own in &positions {
        let members = &chain.instances[own.clone()];
        let about = members[0].on_device.as_ref().map(|on| on.device.description());
        let device = about.filter(|about| !about.shares_host_memory).map(|about| {
            devices.iter().position(|own| *own == about.id).unwrap_or_else(|| {
                devices.push(about.id.clone());
                devices.len() - 1
            })
        });
        let access = |one: &Instance| access_of(&*one.function, device.is_some());
        let access = members.iter().map(access).reduce(together).unwrap_or(NOTHING);
        let names: Vec<&str> = members.iter().map(|one| one.name.as_str()).collect();
        functions.push(PlannedFunction::new(&names.join(", "), &access, device));
        declared.push(access);
    }
    let room = chain.room_len(packet_len as usize) as u32;
    let problem = Problem {
        functions,
        links: devices.iter().map(|id| chain.profile().costs(id)).collect(),
        widths: Widths::of_udp(packet_len, room),
        end_reads: Problem::sink_reads(),
        gathered: Binding::stageable(),
        is_recoverable: true,
    };
    Planned { problem, positions, declared, devices }
}

/// What a function touches: on a device what its kernels do, and on the host in front of them all that `run` reads of what they leave to it.
/// A payload that only `run` writes it writes in few packets, which no mirror has then ([`warpline_packet::PacketMut::payload_mut`]).
fn access_of(function: &dyn Function, is_on_device: bool) -> Access {
    let access = *function.access();
    if !is_on_device {
        let rare = (access.run.writes & !function.kernel_access().writes)
            & FieldSet::of(&[Field::Payload]);
        let run = ReadWrite::new(access.run.reads | rare, access.run.writes & !rare);
        return Access { run, ..access };
    }
    let fallback = ReadWrite::new(access.run.reads | access.run.writes, FieldSet::EMPTY);
    let before = both(access.before, fallback);
    Access { before, run: function.kernel_access(), ..access }
}

/// What a function touches that does nothing.
const NOTHING: Access = Access::run_only(ReadWrite::NONE);

/// What two functions touch that share launches: nothing happens on the host between them.
fn together(one: Access, next: Access) -> Access {
    Access {
        before: both(one.before, next.before),
        run: both(one.run, next.run),
        after: both(one.after, next.after),
        after_flagged: both(one.after_flagged, next.after_flagged),
        flagged_share: 1.0 - (1.0 - one.flagged_share) * (1.0 - next.flagged_share),
    }
}

fn both(one: ReadWrite, other: ReadWrite) -> ReadWrite {
    ReadWrite::new(one.reads | other.reads, one.writes | other.writes)
}

/// The chain's functions, those on a device together that share launches.
fn launches(chain: &Chain) -> Vec<Range<usize>> {
    let of_stage = |stage: &StagePlan| {
        let all = stage.first..stage.first + stage.count;
        match chain.is_on_device(stage) {
            true => vec![all],
            false => all.map(|position| position..position + 1).collect(),
        }
    };
    chain.stages.iter().flat_map(of_stage).collect()
}

/// What crosses for each of the chain's stages.
pub(crate) fn crossings(chain: &Chain, options: PlanOptions) -> Vec<Crossings> {
    let Planned { problem, positions, devices, .. } = planned(chain, options.packet_len);
    let plan = problem.plan(options.mode).unwrap_or_default();
    let mut is_mirrored = vec![false; devices.len()];
    let of_stage = |stage: &StagePlan| {
        let all = stage.first..stage.first + stage.count;
        let number = positions.iter().position(|own| *own == all);
        match number.and_then(|number| plan.step(number)) {
            Some(step) => {
                let own = Crossings::of(step, problem.widths.room, is_mirrored[step.device]);
                is_mirrored[step.device] = own.keeps_mirror;
                own
            }
            None => {
                let writes = |one: &Instance| one.function.kernel_access().writes & FieldSet::FRAME;
                Crossings::whole(chain.instances[all].iter().any(|one| !writes(one).is_empty()))
            }
        }
    };
    chain.stages.iter().map(of_stage).collect()
}
