//! The rewrite on a device, of the translator and of a balancer with DNAT: an item a packet. What
//! `before` left in scratch words is written as `run` does.

use warpline_packet::wire::{ip_protocol, ipv4, ipv6, tcp, udp};
use warpline_packet::{Field, FieldSet, ReadWrite, ScratchWord};

use crate::translate::{self, Action, Words};
use warpline_nf::kernels::{BYTES, ENDPOINT, KernelStep, Kernels, number_of};

const STEPS: &[KernelStep] =
    &[KernelStep { name: "translate", group: 128, shared_big: 0, items_per_packet: 1 }];

/// The scratch words, as the text names them; the last three only where there is IPv6.
const WORDS: [&str; 5] = ["WORD_HEAD", "WORD_LOW", "WORD_HIGH_0", "WORD_HIGH_1", "WORD_HIGH_2"];

/// The numbers by which [`ENDPOINT`] asks for `words`.
pub fn words_of(words: &Words) -> Vec<(&'static str, u64)> {
    let has_v6 = words.all().count() == WORDS.len();
    let numbers = WORDS.into_iter().zip(words.all().map(number_of));
    numbers.chain([("HAS_V6", u64::from(has_v6))]).collect()
}

/// `has_echoes`: the identifiers of echoes are written, too.
pub fn kernels(words: &Words, has_echoes: bool) -> Kernels {
    kernels_at(words, has_echoes, None)
}

/// The same for the second place of a translator with two, which leaves packets to the CPU whose
/// source is not what `source` says.
pub fn second_kernels(words: &Words, source: ScratchWord, has_echoes: bool) -> Kernels {
    kernels_at(words, has_echoes, Some(source))
}

fn kernels_at(words: &Words, has_echoes: bool, source: Option<ScratchWord>) -> Kernels {
    let mut defines = words_of(words);
    defines.push(("HAS_ECHOES", has_echoes.into()));
    defines.push(("IS_SECOND", source.is_some().into()));
    defines.extend(source.map(|word| ("WORD_SOURCE", number_of(word))));
    defines.extend(ACTIONS.map(|(name, action)| (name, action as u64 + 1)));
    defines.push(("ACTIONS", ACTIONS.len() as u64));
    defines.push(("TAG_HAIRPIN", translate::HAIRPIN.into()));
    defines.extend(NUMBERS.map(|(name, number)| (name, number as u64)));
    Kernels::builder("nat.cl", include_str!("kernel.cl"), STEPS)
        .headers(&[BYTES, ENDPOINT])
        .defines(defines)
        .build()
}

/// Restricts the access of `run` to the fields that the kernel touches. The kernel touches no
/// payload, and of an ICMP message only the identifier.
pub fn access(run: ReadWrite) -> ReadWrite {
    let others = FieldSet::of(&[Field::Payload, Field::IcmpType, Field::IcmpCode, Field::IcmpSeq]);
    ReadWrite::new(run.reads & !others, run.writes & !others)
}

const ACTIONS: [(&str, Action); 6] = [
    ("ACTION_SOURCE", Action::Source),
    ("ACTION_DESTINATION", Action::Destination),
    ("ACTION_SOURCE_ADDRESS", Action::SourceAddress),
    ("ACTION_ERROR_OUT", Action::ErrorOut),
    ("ACTION_ERROR_IN", Action::ErrorIn),
    ("ACTION_DESTINATION_ADDRESS", Action::DestinationAddress),
];

/// Header constants of the kernel: protocol numbers and lengths.
const NUMBERS: [(&str, usize); 8] = [
    ("IP_PROTOCOL_TCP", ip_protocol::TCP as usize),
    ("IP_PROTOCOL_UDP", ip_protocol::UDP as usize),
    ("IP_PROTOCOL_ICMP", ip_protocol::ICMP as usize),
    ("IP_PROTOCOL_ICMPV6", ip_protocol::ICMPV6 as usize),
    ("HEADER_LEN_V4", ipv4::HEADER_LEN),
    ("HEADER_LEN_V6", ipv6::HEADER_LEN),
    ("HEADER_LEN_TCP", tcp::HEADER_LEN),
    ("HEADER_LEN_UDP", udp::HEADER_LEN),
];
