//! A chain as the synchronisation plan sees it, and what the plan has its launches do.

use std::ops::Range;

use warpline_packet::{Binding, FieldSet};

use warpline_sched::{LinkCosts, Mode, PlannedFunction, Problem, Widths};

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
    /// Names of the devices with memories of their own, as [`PlannedFunction::device`] counts them.
    pub devices: Vec<String>,
}

/// The problem of `chain`, for frames of `packet_len` bytes that hold UDP in IPv4. Devices that share the host's memory are
/// the host. Links cost what [`LinkCosts::PCIE_4`] says. Behind every launch the host has all that anyone will need.
pub fn planned(chain: &Chain, packet_len: u32) -> Planned {
    let mut devices: Vec<String> = Vec::new();
    let functions: Vec<PlannedFunction> = chain
        .instances
        .iter()
        .map(|instance| {
            let about = instance.on_device.as_ref().map(|on| on.device.description());
            let device = about.filter(|about| !about.shares_host_memory).map(|about| {
                devices.iter().position(|own| *own == about.id).unwrap_or_else(|| {
                    devices.push(about.id.clone());
                    devices.len() - 1
                })
            });
            PlannedFunction::new(&instance.name, instance.function.access(), device)
        })
        .collect();
    let of_launches = launches(chain).into_iter().filter_map(|positions| {
        let (first, rest) = functions[positions].split_first()?;
        Some(rest.iter().fold(first.clone(), PlannedFunction::joined_with))
    });
    let functions = of_launches.collect();
    let room = chain.room_len(packet_len as usize) as u32;
    let problem = Problem {
        functions,
        links: vec![LinkCosts::PCIE_4; devices.len()],
        widths: Widths::of_udp(packet_len, room),
        end_reads: Problem::sink_reads(),
        gathered: Binding::stageable(),
        is_recoverable: true,
    };
    Planned { problem, positions: launches(chain), devices }
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
    let Planned { problem, positions, devices } = planned(chain, options.packet_len);
    let plan = problem.plan(options.mode).unwrap_or_default();
    let mut is_mirrored = vec![false; devices.len()];
    let of_stage = |stage: &StagePlan| {
        let all = stage.first..stage.first + stage.count;
        let number = positions.iter().position(|own| *own == all);
        match number.and_then(|number| plan.step(number)) {
            Some(step) => {
                let own = Crossings::of(step, is_mirrored[step.device]);
                is_mirrored[step.device] = own.keeps_mirror;
                own
            }
            None => {
                let writes = |one: &Instance| one.function.access().run.writes & FieldSet::FRAME;
                Crossings::whole(chain.instances[all].iter().any(|one| !writes(one).is_empty()))
            }
        }
    };
    chain.stages.iter().map(of_stage).collect()
}
