//! A chain as the synchronisation plan sees it: what functions declare, where they run, what a packet's fields weigh.

use warpline_packet::FieldSet;
use warpline_sched::{LinkCosts, PlannedFunction, Problem, Widths};

use crate::{Chain, Settings};

/// What a plan is made for, and the devices that it numbers.
#[derive(Clone, Debug)]
pub struct Planned {
    /// See there.
    pub problem: Problem,
    /// Names of the devices with memories of their own, as [`PlannedFunction::device`] counts them.
    pub devices: Vec<String>,
}

/// The problem of `chain`, for frames of `packet_len` bytes that hold UDP in IPv4. Devices that share the host's memory are
/// the host. Links cost what [`LinkCosts::PCIE_4`] says.
pub fn planned(chain: &Chain, settings: &Settings, packet_len: u32) -> Planned {
    let mut devices: Vec<String> = Vec::new();
    let functions = chain.instances.iter().map(|instance| {
        let about = instance.on_device.as_ref().map(|on| on.device.description());
        let device = about.filter(|about| !about.shares_host_memory).map(|about| {
            devices.iter().position(|own| *own == about.id).unwrap_or_else(|| {
                devices.push(about.id.clone());
                devices.len() - 1
            })
        });
        PlannedFunction::new(&instance.name, instance.function.access(), device)
    });
    let functions = functions.collect();
    let room = settings.room_len(chain, packet_len as usize) as u32;
    let problem = Problem {
        functions,
        links: vec![LinkCosts::PCIE_4; devices.len()],
        widths: Widths::of_udp(packet_len, room),
        end_reads: Problem::sink_reads(),
        gathered: FieldSet::FRAME,
        is_recoverable: false,
    };
    Planned { problem, devices }
}
