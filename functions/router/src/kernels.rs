//! The router on a device: an item a packet, by the tables that the CPU looks up. What `kernel.cl`
//! reads is laid out here: numbers are little-endian, arrays have no gaps.

use warpline_packet::LinkType;
use warpline_packet::wire::{ipv4, ipv6};

use super::fib::{Action, reason};
use super::fib4::Fib4;
use super::{Mac, Node, Router, Sends, icmp};
use warpline_nf::kernels::{Element, KernelStep, KernelTable, Kernels, MAC, own_mac};

const STEPS: &[KernelStep] =
    &[KernelStep { name: "route", group: 128, shared_big: 0, items_per_packet: 1 }];

/// Bytes of an action.
const ACTION_LEN: usize = 8;
/// Bytes of a node.
const NODE_LEN: usize = 32;

pub(super) fn kernels(router: &Router) -> Kernels {
    let (entry, tbl24, tbl8) = match &router.fib.v4 {
        Fib4::Narrow(fib) => (Element::U16, shorts(fib.tbl24()), shorts(fib.tbl8())),
        Fib4::Wide(fib) => (Element::U32, words(fib.tbl24()), words(fib.tbl8())),
    };
    let v6 = &router.fib.v6;
    let actions = router.fib.actions.iter().flat_map(action_bytes).collect();
    let nodes = v6.nodes().iter().flat_map(node_bytes).collect();
    let tables = vec![
        table("actions", Element::U32, actions),
        table("tbl24", entry, tbl24),
        table("tbl8", entry, tbl8),
        table("direct", Element::U32, words(v6.direct())),
        table("nodes", Element::U8, nodes),
        table("leaves", Element::U16, shorts(v6.leaves())),
    ];
    let entry_bits = if entry == Element::U16 { 16 } else { 32 };
    Kernels::builder("router.cl", include_str!("kernel.cl"), STEPS)
        .headers(if router.mac.is_some() { &[MAC] } else { &[] })
        .defines(defines(router, entry_bits))
        .public_tables(tables)
        .build()
}

fn defines(router: &Router, entry_bits: u64) -> Vec<(&'static str, u64)> {
    let Mac(mac) = router.mac.unwrap_or_default();
    let answered = (0..super::DROPS.len() as u8)
        .filter(|&number| router.icmp.is_some() && icmp::is_answered(super::Reason(number)))
        .fold(0, |all, number| all | 1 << number);
    let own = [
        ("ENTRY_BITS", entry_bits),
        ("REASONS", super::DROPS.len() as u64),
        ("HOPS", router.fib.actions.len() as u64),
        ("FIRST_HOP", router.first_hop.into()),
        ("HAS_MAC", u64::from(router.mac.is_some())),
        ("ONLY_WRAPPED", u64::from(router.sends == Sends::Wrapped)),
        ("ANSWERED", answered),
        ("CHECKED", router.checks.bits().into()),
        ("REASON_MARTIAN_SOURCE", reason::MARTIAN_SOURCE.0.into()),
        ("REASON_FRAME_TO_MANY", reason::FRAME_TO_MANY.0.into()),
        ("REASON_BAD_CHECKSUM", reason::BAD_CHECKSUM.0.into()),
        ("LINKTYPE_LINUX_SLL", LinkType::LINUX_SLL.0.into()),
        ("LINKTYPE_LINUX_SLL2", LinkType::LINUX_SLL2.0.into()),
        ("HEADER_LEN_V4", ipv4::HEADER_LEN as u64),
        ("HEADER_LEN_V6", ipv6::HEADER_LEN as u64),
        ("REASON_NO_ROUTE", reason::NO_ROUTE.0.into()),
        ("REASON_TTL_EXCEEDED", reason::TTL_EXCEEDED.0.into()),
        ("REASON_NON_IP", reason::NON_IP.0.into()),
        ("REASON_SNAPPED", reason::SNAPPED.0.into()),
    ];
    own.into_iter().chain(own_mac(mac)).collect()
}

/// The Ethernet address, the kind (0 drops, 1 forwards, 2 rewrites) and the reason, each zero where
/// there is none.
fn action_bytes(action: &Action) -> [u8; ACTION_LEN] {
    match *action {
        Action::Drop(reason) => [0, 0, 0, 0, 0, 0, 0, reason.0],
        Action::Forward => [0, 0, 0, 0, 0, 0, 1, 0],
        Action::Rewrite(Mac([a, b, c, d, e, f])) => [a, b, c, d, e, f, 2, 0],
    }
}

/// Both vectors, the first child, the place before the leaves, and zeros.
fn node_bytes(node: &Node) -> [u8; NODE_LEN] {
    let mut bytes = [0; NODE_LEN];
    bytes[..8].copy_from_slice(&node.children.to_le_bytes());
    bytes[8..16].copy_from_slice(&node.runs.to_le_bytes());
    bytes[16..20].copy_from_slice(&node.first_child.to_le_bytes());
    bytes[20..24].copy_from_slice(&node.before_leaves.to_le_bytes());
    bytes
}

fn shorts(numbers: &[u16]) -> Vec<u8> {
    let mut bytes = vec![0; size_of_val(numbers)];
    let both = bytes.as_chunks_mut().0.iter_mut().zip(numbers);
    both.for_each(|(to, number)| *to = number.to_le_bytes());
    bytes
}

fn words(numbers: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0; size_of_val(numbers)];
    let both = bytes.as_chunks_mut().0.iter_mut().zip(numbers);
    both.for_each(|(to, number)| *to = number.to_le_bytes());
    bytes
}

/// No device takes a table without a byte: one that nothing refers to gets some.
fn table(name: &'static str, element: Element, mut bytes: Vec<u8>) -> KernelTable {
    if bytes.is_empty() {
        bytes.resize(NODE_LEN, 0);
    }
    KernelTable { name, element, bytes }
}
