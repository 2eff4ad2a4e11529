//! The chains of the paper with the fields it lists for their functions, and helpers to write
//! others.

use warpline_packet::{Field, FieldSet};

use super::super::problem::{PlannedFunction, Problem, Touch};
use super::super::{Aim, FieldCosts, LinkCosts, Widths};

/// Addresses, ports and protocol.
pub(super) const TUPLE: FieldSet = FieldSet::of(&[
    Field::SrcAddr,
    Field::DstAddr,
    Field::IpProtocol,
    Field::SrcPort,
    Field::DstPort,
]);
/// The fields that an address translator rewrites.
pub(super) const ENDPOINTS: FieldSet =
    FieldSet::of(&[Field::SrcAddr, Field::DstAddr, Field::SrcPort, Field::DstPort]);

/// A link as the paper's costs describe it: bytes, and nothing for each field.
pub(super) const PAPER: LinkCosts =
    LinkCosts { gather: FieldCosts::NONE, put: FieldCosts::NONE, ..LinkCosts::PCIE_4 };

/// One of the paper's functions, by its name there.
fn of_paper(name: &str, device: Option<usize>) -> PlannedFunction {
    let one = FieldSet::of;
    let (needs, writes) = match name {
        "firewall" => (TUPLE, FieldSet::EMPTY),
        "ipsec" => (FieldSet::FRAME, FieldSet::FRAME),
        "nids" => (one(&[Field::Payload]), FieldSet::EMPTY),
        "nat" => (ENDPOINTS, ENDPOINTS),
        "lb" => (TUPLE, one(&[Field::DstAddr])),
        "router" => (one(&[Field::DstAddr]), FieldSet::EMPTY),
        _ => (TUPLE | one(&[Field::IpLen]), FieldSet::EMPTY),
    };
    PlannedFunction::run_only(name, device, Touch { needs, writes })
}

/// A chain of the paper's functions for frames of `len` bytes. Those whose names begin with `@` are
/// on the device.
pub(super) fn paper(names: &[&str], len: u32) -> Problem {
    let of = |name: &&str| match name.strip_prefix('@') {
        Some(name) => of_paper(name, Some(0)),
        None => of_paper(name, None),
    };
    Problem {
        functions: names.iter().map(of).collect(),
        hops: None,
        links: vec![PAPER],
        widths: Widths::of_udp(len, len),
        end_reads: FieldSet::FRAME,
        gathered: FieldSet::FRAME,
        is_recoverable: false,
        fetches_first: true,
        aim: Aim::TIME,
    }
}
