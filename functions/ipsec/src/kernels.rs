//! ESP on a device: the text of `kernel.cl`, and the numbers that it uses by name.

use warpline_packet::wire::{ip_protocol, ipv4};

use super::at::At;
use super::cipher::{Auth, Cipher};
use super::kernel_table::{self, DSCP_COPY, HEAD, ROW_LEN};
use super::sa::{Direction, DontFragment, Sa};
use super::strip::StripOutcome;
use super::traffic::NAT_T_PORT;
use super::words::Work;
use super::{Ipsec, reason};
use warpline_nf::kernels::{
    BYTES, Element, KernelStep, KernelTable, Kernels, TUNNEL, TUNNEL_NUMBERS, Text, number_of,
};

/// Work-items of a group.
const GROUP: u32 = 64;
/// Copies of a word in a GPU's table of AES: its banks of shared memory. They make a row 256 bytes,
/// as `kernels/aes.h` requires.
const AES_BANKS: u32 = 32;
/// Bytes of such a table: 256 rows of two words.
const AES_TABLE_LEN: u32 = 256 * 2 * 4 * AES_BANKS;

const fn step(name: &'static str) -> KernelStep {
    KernelStep { name, group: GROUP, shared_big: AES_TABLE_LEN, items_per_packet: 1 }
}

/// The kernels that SAs need, an item a packet.
const SEAL: KernelStep = step("ipsec_seal");
const OPEN: KernelStep = step("ipsec_open");
const OPEN_COUNTER: KernelStep = step("ipsec_open_counter");

/// The kernels of a place.
fn steps(at: At) -> &'static [KernelStep] {
    match at {
        At::Only => &[SEAL, OPEN, OPEN_COUNTER],
        At::First => &[OPEN, OPEN_COUNTER],
        At::Second => &[SEAL],
    }
}

/// The one that does the work of `sa`.
fn step_of(sa: &Sa) -> KernelStep {
    match (sa.direction, sa.cipher) {
        (Direction::Out, _) => SEAL,
        (Direction::In, Cipher::Null | Cipher::Cbc) => OPEN,
        (Direction::In, Cipher::Ctr | Cipher::Gcm) => OPEN_COUNTER,
    }
}

macro_rules! headers {
    ($($name:literal $path:literal)*) => {
        &[BYTES, TUNNEL, $(($name, include_str!($path))),*]
    };
}

const HEADERS: &[Text] = headers! {
    "aes.h" "kernel/aes.h"
    "sha_message.h" "kernel/sha_message.h"
    "sha1.h" "kernel/sha1.h"
    "sha256.h" "kernel/sha256.h"
    "ghash.h" "kernel/ghash.h"
    "sa.h" "kernel/sa.h"
    "cipher.h" "kernel/cipher.h"
    "wrap.h" "kernel/wrap.h"
    "strip.h" "kernel/strip.h"
};

const NUMBERS: &[(&str, u64)] = &[
    ("GROUP", GROUP as u64),
    ("AES_BANKS", AES_BANKS as u64),
    ("SA_HEAD", HEAD as u64),
    ("SA_LEN", ROW_LEN as u64),
    ("WORK_SEAL", Work::Seal as u64),
    ("WORK_OPEN", Work::Open as u64),
    ("CIPHER_NULL", Cipher::Null as u64),
    ("CIPHER_CBC", Cipher::Cbc as u64),
    ("CIPHER_CTR", Cipher::Ctr as u64),
    ("CIPHER_GCM", Cipher::Gcm as u64),
    ("AUTH_NONE", Auth::None as u64),
    ("AUTH_SHA1", Auth::Sha1 as u64),
    ("AUTH_SHA256", Auth::Sha256 as u64),
    ("DSCP_COPY", DSCP_COPY as u64),
    ("DONT_FRAGMENT_COPY", DontFragment::Copy as u64),
    ("DONT_FRAGMENT_SET", DontFragment::Set as u64),
    ("IPV4_DONT_FRAGMENT", ipv4::DONT_FRAGMENT as u64),
    ("OUTCOME_PLAIN", StripOutcome::Plain as u64),
    ("OUTCOME_DUMMY", StripOutcome::Dummy as u64),
    ("OUTCOME_BAD_PADDING", StripOutcome::BadPadding as u64),
    ("OUTCOME_MALFORMED", StripOutcome::Malformed as u64),
    ("OUTCOME_CONGESTION", StripOutcome::Congestion as u64),
    ("OUTCOME_LINK", StripOutcome::Link as u64),
    ("REASON_TOO_BIG", reason::TOO_BIG.0 as u64),
    ("NAT_T_PORT", NAT_T_PORT as u64),
    ("IP_PROTOCOL_HOP_BY_HOP", ip_protocol::HOP_BY_HOP as u64),
    ("IP_PROTOCOL_ICMP", ip_protocol::ICMP as u64),
    ("IP_PROTOCOL_IPV4", ip_protocol::IPV4 as u64),
    ("IP_PROTOCOL_TCP", ip_protocol::TCP as u64),
    ("IP_PROTOCOL_UDP", ip_protocol::UDP as u64),
    ("IP_PROTOCOL_IPV6", ip_protocol::IPV6 as u64),
    ("IP_PROTOCOL_ROUTING", ip_protocol::ROUTING as u64),
    ("IP_PROTOCOL_FRAGMENT", ip_protocol::FRAGMENT as u64),
    ("IP_PROTOCOL_ESP", ip_protocol::ESP as u64),
    ("IP_PROTOCOL_AH", ip_protocol::AH as u64),
    ("IP_PROTOCOL_ICMPV6", ip_protocol::ICMPV6 as u64),
    ("IP_PROTOCOL_NO_NEXT_HEADER", ip_protocol::NO_NEXT_HEADER as u64),
    ("IP_PROTOCOL_DESTINATION_OPTIONS", ip_protocol::DESTINATION_OPTIONS as u64),
];

pub(super) fn kernels(ipsec: &Ipsec) -> Kernels {
    let names = ["WORD_WHAT", "WORD_LOW", "WORD_HIGH"];
    let words = names.into_iter().zip(ipsec.words.all().map(number_of));
    let is_needed = |step: &KernelStep| ipsec.tables.sas.iter().any(|sa| step_of(sa) == *step);
    let all = steps(ipsec.at);
    let work = [("OPENS", ipsec.at.opens().into()), ("SEALS", ipsec.at.seals().into())];
    let places = kernel_table::PLACES.iter().map(|&(name, place)| (name, place as u64));
    let bytes = kernel_table::build(&ipsec.tables);
    let sas = KernelTable { name: "sas", element: Element::U8, bytes };
    Kernels::builder("ipsec.cl", include_str!("kernel.cl"), all)
        .headers(HEADERS)
        .defines(
            NUMBERS.iter().copied().chain(TUNNEL_NUMBERS).chain(places).chain(words).chain(work),
        )
        .running(all.iter().copied().filter(is_needed).collect())
        .tables(vec![sas])
        .build()
}
