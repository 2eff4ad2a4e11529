//! The paper's chains with the fields that it lists for their functions, as problems of `sched`.

use warpline_packet::{Field, FieldSet};
use warpline_sched::{
    Aim, FieldCosts, LinkCosts, Mode, Plan, PlannedFunction, Problem, RowBytes, Touch, Widths,
};

use super::model::{COPY_NS, LAUNCH_PACKETS};
use crate::ScenarioError;

/// Section VI: names with `@` are on the GPU.
pub(super) const C1: &[&str] = &["firewall", "@ipsec", "@nids"];
pub(super) const C2: &[&str] = &["@nids", "nat", "@ipsec"];
pub(super) const C3: &[&str] = &["@ipsec", "lb", "@nids"];
pub(super) const C4: &[&str] = &["@firewall", "@ipsec", "@nids", "router"];
pub(super) const C5: &[&str] = &["@firewall", "monitor", "@nat", "@ipsec", "@nids"];
/// Bytes of packets.
pub(super) const LENS: [u32; 6] = [64, 128, 256, 512, 1024, 1518];

/// Assumed; see the paper's list.
pub(super) const LINK_NS_PER_BYTE: f64 = 1.0 / 12.0;
pub(super) const POINTER: f64 = 8.0;
pub(super) const GATHER: FieldCosts = FieldCosts { packet_ns: 21.0, field_ns: 0.0 };
pub(super) const GATHER_NS_PER_BYTE: f64 = 0.138;

/// Addresses, ports and protocol.
const TUPLE: FieldSet = FieldSet::of(&[
    Field::SrcAddr,
    Field::DstAddr,
    Field::IpProtocol,
    Field::SrcPort,
    Field::DstPort,
]);
const ENDPOINTS: FieldSet =
    FieldSet::of(&[Field::SrcAddr, Field::DstAddr, Field::SrcPort, Field::DstPort]);

/// The fields that a function reads and writes.
fn touch(name: &str) -> Touch {
    #[cfg(test)]
    if crate::papers::mutated::is(crate::papers::mutated::Mutation::WholeFrames) {
        return Touch { needs: FieldSet::FRAME, writes: FieldSet::FRAME };
    }
    let payload = FieldSet::of(&[Field::Payload]);
    let (needs, writes) = match name {
        "firewall" => (TUPLE, FieldSet::EMPTY),
        "ipsec" => (FieldSet::FRAME, FieldSet::FRAME),
        "nids" => (payload, FieldSet::EMPTY),
        "nat" => (ENDPOINTS, ENDPOINTS),
        "lb" => (TUPLE, FieldSet::of(&[Field::DstAddr])),
        "router" => (FieldSet::of(&[Field::DstAddr]), FieldSet::EMPTY),
        "l4-router" => (ENDPOINTS, FieldSet::EMPTY),
        "vpn" => (payload, payload),
        "wan-optimizer" => {
            let all = payload | FieldSet::of(&[Field::IpLen, Field::L4Checksum, Field::IpChecksum]);
            (all, all)
        }
        _ => (TUPLE | FieldSet::of(&[Field::IpLen]), FieldSet::EMPTY),
    };
    Touch { needs, writes }
}

/// The fields of a frame that a function on the GPU writes; none elsewhere.
pub(super) fn writes(name: &str) -> FieldSet {
    name.strip_prefix('@').map_or(FieldSet::EMPTY, |bare| touch(bare).writes & FieldSet::FRAME)
}

/// The input of a plan for frames of `len` bytes.
pub(super) fn problem(names: &[&str], len: u32) -> Problem {
    let function = |name: &&str| {
        let bare = name.trim_start_matches('@');
        let device = (bare != *name).then_some(0);
        let there = if device.is_some() { POINTER } else { 0.0 };
        let run = PlannedFunction::run_only(bare, device, touch(bare));
        PlannedFunction { row: RowBytes { there, back: 0.0 }, ..run }
    };
    let link = LinkCosts {
        to_device_ns_per_byte: LINK_NS_PER_BYTE,
        to_host_ns_per_byte: LINK_NS_PER_BYTE,
        host_copy_ns_per_byte: GATHER_NS_PER_BYTE,
        gather: GATHER,
        put: GATHER,
        transfer_ns: COPY_NS / LAUNCH_PACKETS as f64,
        // The simulation has the other copies.
        traffic: 1.0,
        ..LinkCosts::PCIE_4
    };
    Problem {
        functions: names.iter().map(function).collect(),
        hops: None,
        links: vec![link],
        widths: Widths::of_udp(len, len),
        end_reads: FieldSet::FRAME,
        gathered: FieldSet::FRAME,
        is_recoverable: false,
        // Table I has no copy to the host before an entire packet goes to the device.
        fetches_first: false,
        aim: Aim::TIME,
    }
}

/// The plan of `sched` by a mode.
pub(super) fn plan(names: &[&str], len: u32, mode: Mode) -> Result<Plan, ScenarioError> {
    #[cfg(test)]
    let mode = crate::papers::mutated::mode(mode);
    let plan = problem(names, len).plan(mode).map_err(|why| ScenarioError(why.to_string()))?;
    #[cfg(test)]
    let plan = without_copies(plan);
    Ok(plan)
}

/// The plans of a mode by all aims. The first is that of the least time.
pub(super) fn plans(names: &[&str], len: u32, mode: Mode) -> Result<Vec<Plan>, ScenarioError> {
    #[cfg(test)]
    let mode = crate::papers::mutated::mode(mode);
    let all = problem(names, len).candidates(mode);
    let all = all.map_err(|why| ScenarioError(why.to_string()))?;
    let all = all.into_iter().map(|(_, plan)| plan);
    #[cfg(test)]
    let all = all.map(without_copies);
    Ok(all.collect())
}

/// A plan as the tests mutate it.
#[cfg(test)]
fn without_copies(mut plan: Plan) -> Plan {
    use crate::papers::mutated::{Mutation, is};
    let copied = if is(Mutation::NoCopies) { &mut plan.steps[..] } else { &mut [] };
    for step in copied {
        (step.to_device, step.to_host) = Default::default();
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entire_packet_goes_to_the_device_without_a_copy_to_the_host_before() {
        // The VPN changes payloads on the host after IPsec changed headers on the device.
        let names = &["@firewall", "@ipsec", "vpn", "@nids"];
        for mode in Mode::ALL {
            let plan = plan(names, 1024, mode).expect("a sound chain");
            let bytes = plan.steps.iter().map(|step| step.first_to_host.bytes);
            assert_eq!(bytes.sum::<f64>(), 0.0, "{mode:?}");
        }
    }
}
