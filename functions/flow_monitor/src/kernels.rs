//! The monitor on a device: an item a packet, whose flow is hashed. All that counts is the CPU's.

use warpline_packet::ScratchWord;
use warpline_packet::wire::{icmpv4, icmpv6, ip_protocol, ipv4, ipv6};

use super::key::FlowHashKey;
use warpline_nf::kernels::{Element, KernelStep, KernelTable, Kernels, number_of};

const STEPS: &[KernelStep] =
    &[KernelStep { name: "hash_flows", group: 128, shared_big: 0, items_per_packet: 1 }];

/// The key goes as a table: what is compiled does not depend on it, and it lies in no cache on
/// disk.
pub(super) fn kernels(word: ScratchWord, key: FlowHashKey) -> Kernels {
    let bytes = key.to_le_bytes().to_vec();
    Kernels::builder("flow_monitor.cl", include_str!("kernel.cl"), STEPS)
        .defines(NUMBERS.into_iter().chain([("WORD", number_of(word))]))
        .tables(vec![KernelTable { name: "key", element: Element::U32, bytes }])
        .build()
}

const NUMBERS: [(&str, u64); 11] = [
    ("IP_PROTOCOL_TCP", ip_protocol::TCP as u64),
    ("IP_PROTOCOL_UDP", ip_protocol::UDP as u64),
    ("IP_PROTOCOL_ICMP", ip_protocol::ICMP as u64),
    ("IP_PROTOCOL_ICMPV6", ip_protocol::ICMPV6 as u64),
    ("ECHO_REQUEST", icmpv4::message::ECHO_REQUEST as u64),
    ("ECHO_REPLY", icmpv4::message::ECHO_REPLY as u64),
    ("ECHO_REQUEST_V6", icmpv6::message::ECHO_REQUEST as u64),
    ("ECHO_REPLY_V6", icmpv6::message::ECHO_REPLY as u64),
    ("HEADER_LEN_V4", ipv4::HEADER_LEN as u64),
    ("HEADER_LEN_V6", ipv6::HEADER_LEN as u64),
    // Ports, and type, code and identifier.
    ("SEEN_OF_TRANSPORT", icmpv4::field::IDENT.end as u64),
];
