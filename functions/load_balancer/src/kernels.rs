//! The balancer on a device: an item a packet. With DNAT it is the translator's rewrite; the other
//! modes have kernels of their own.

use warpline_packet::wire::{ip_protocol, ipv4, ipv6};

use super::Refusal;
use super::config::{Config, Mode};
use super::encap::{DERIVED_V4, DERIVED_V6, HOPS, Source, TO_MAC};
use warpline_nf::kernels::{
    BYTES, ENDPOINT, KernelStep, Kernels, MAC, TUNNEL, TUNNEL_NUMBERS, own_mac,
};
use warpline_rewrite::kernels as nat_kernels;
use warpline_rewrite::translate::Words;

const fn step(name: &'static str) -> KernelStep {
    KernelStep { name, group: 128, shared_big: 0, items_per_packet: 1 }
}

const TUNNEL_STEPS: &[KernelStep] = &[step("tunnel")];
const MAC_STEPS: &[KernelStep] = &[step("readdress")];

/// Each mode has a text of its own: that of the tunnel makes headers in frames, and fields of those
/// can't lie in columns.
pub(super) fn kernels(config: &Config, words: &Words) -> Kernels {
    let (name, text, steps, headers): (_, _, _, &'static [_]) = match config.fixed.mode {
        Mode::Dnat => return nat_kernels::kernels(words, false),
        Mode::Ipip => {
            let text = include_str!("tunnel.cl");
            ("load_balancer_tunnel.cl", text, TUNNEL_STEPS, &[BYTES, ENDPOINT, TUNNEL])
        }
        Mode::Mac => {
            let text = include_str!("readdress.cl");
            ("load_balancer_readdress.cl", text, MAC_STEPS, &[BYTES, ENDPOINT, MAC])
        }
    };
    let defines = nat_kernels::words_of(words).into_iter().chain(NUMBERS).chain(TUNNEL_NUMBERS);
    Kernels::builder(name, text, steps)
        .headers(headers)
        .defines(defines.chain(own_mac(config.mac)).chain(sources(config.source)))
        .build()
}

/// Sources of outer headers: what all have, and which bits of the flow's hash there are besides.
fn sources(Source { v4, v6 }: Source) -> [(&'static str, u64); 7] {
    let of_hash = |given: bool, bits: u32| u64::from(if given { 0 } else { bits });
    let word = |shift: u32| u64::from((v6.unwrap_or(DERIVED_V6) >> shift) as u32);
    [
        ("SRC_V4", v4.unwrap_or(DERIVED_V4).into()),
        ("SRC_V4_OF_HASH", of_hash(v4.is_some(), 0xffff)),
        ("SRC_V6_0", word(96)),
        ("SRC_V6_1", word(64)),
        ("SRC_V6_2", word(32)),
        ("SRC_V6_3", word(0)),
        ("SRC_V6_OF_HASH", of_hash(v6.is_some(), u32::MAX)),
    ]
}

const NUMBERS: [(&str, u64); 9] = [
    ("TO_MAC", TO_MAC as u64),
    ("HOPS", HOPS as u64),
    ("DONT_FRAGMENT", ipv4::DONT_FRAGMENT as u64),
    ("FRAGMENT_OFFSET", ipv4::OFFSET_MASK as u64),
    ("HEADER_LEN_V4", ipv4::HEADER_LEN as u64),
    ("HEADER_LEN_V6", ipv6::HEADER_LEN as u64),
    ("IP_PROTOCOL_IPV4", ip_protocol::IPV4 as u64),
    ("IP_PROTOCOL_IPV6", ip_protocol::IPV6 as u64),
    ("REASON_TOO_LONG", Refusal::TooLong as u64),
];
