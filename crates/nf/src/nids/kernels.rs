//! The scan on a device: an item a packet, by one dense automaton of the literals of all groups, which is looked up as the CPU's
//! is. Of what is found, the packet's group keeps what is its own, by its own ids, so that `after` sees what `run` leaves.

use warpline_packet::wire::ip_protocol;

use super::groups::{FlatGroups, Groups};
use super::matcher::Flat;
use super::{Nids, scan};
use crate::kernels::{Element, FINDINGS, KernelStep, KernelTable, Kernels, number_of};

const STEPS: &[KernelStep] =
    &[KernelStep { name: "scan_payloads", group: 128, shared_big: 0, items_per_packet: 1 }];

/// The longest tables that are given to a device, in bytes.
pub(super) const TABLES_LEN_MAX: usize = 64 << 20;

/// `None` where the tables would be too long.
pub(super) fn kernels(nids: &Nids) -> Option<Kernels> {
    let groups = &nids.tables.groups;
    if tables_len(groups) > TABLES_LEN_MAX {
        return None;
    }
    let flat = Flat::new(groups.patterns()).ok()?;
    let flat_groups = FlatGroups::new(groups);
    let cell = if flat.cell_len == 2 { Element::U16 } else { Element::U32 };
    let own = flat_groups.ids.iter();
    let ids = own.flat_map(|ids| flat.patterns.iter().map(|&pattern| ids[pattern as usize]));
    let defines = vec![
        ("WORD", number_of(nids.word)),
        ("KEPT_MAX", scan::KEPT_MAX as u64),
        ("CELL_BITS", 8 * flat.cell_len as u64),
        ("BYTE_CLASSES", flat.class_count as u64),
        ("ACCEPTING", flat.accepting as u64),
        ("ENTRIES", flat.patterns.len() as u64),
        ("PORT_CLASSES", FlatGroups::CLASSES as u64),
        ("IP_PROTOCOL_ICMP", ip_protocol::ICMP.into()),
        ("IP_PROTOCOL_TCP", ip_protocol::TCP.into()),
        ("IP_PROTOCOL_UDP", ip_protocol::UDP.into()),
        ("IP_PROTOCOL_ICMPV6", ip_protocol::ICMPV6.into()),
        ("IP_PROTOCOL_SCTP", ip_protocol::SCTP.into()),
    ];
    let tables = vec![
        table("byte_classes", Element::U8, flat.classes.to_vec()),
        table("ids", Element::U32, words(ids)),
        table("cells", cell, flat.cells),
        table("outputs", Element::U32, words(flat.outputs.into_iter())),
        table("entries", Element::U32, words(flat.entries.into_iter())),
        table("exact", Element::U8, flat.exact),
        table("port_classes", Element::U8, flat_groups.port_classes),
        table("numbers", Element::U32, words(flat_groups.numbers.into_iter())),
    ];
    Some(Kernels {
        name: "nids.cl",
        text: include_str!("kernel.cl"),
        headers: &[FINDINGS],
        defines,
        all_steps: STEPS,
        steps: STEPS.to_vec(),
        tables,
        findings: Some(nids.word),
    })
}

/// Bytes of those tables that grow with the rules.
pub(super) fn tables_len(groups: &Groups) -> usize {
    let patterns = groups.patterns();
    let ids_len = 4 * patterns.len() * groups.len();
    Flat::cells_len(patterns).saturating_add(ids_len).saturating_add(FlatGroups::PORT_CLASSES_LEN)
}

fn words(numbers: impl Iterator<Item = u32>) -> Vec<u8> {
    numbers.flat_map(u32::to_le_bytes).collect()
}

/// No device takes a table without a byte: one that nothing refers to gets some.
fn table(name: &'static str, element: Element, mut bytes: Vec<u8>) -> KernelTable {
    if bytes.is_empty() {
        bytes.resize(16, 0);
    }
    KernelTable { name, element, bytes }
}
