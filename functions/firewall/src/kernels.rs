//! The firewall on a device: an item a packet, by the searches that the CPU makes. What `kernel.cl`
//! reads is laid out here: a search is an array of little-endian words, which begins with where in
//! it the parts lie.

use warpline_packet::wire::{icmpv4, ip_protocol, ipv4, ipv6, tcp, udp};

use super::rule_set::{RuleSet, Searched};
use super::ways::Ways;
use super::{DEFINITION, Firewall, Standing};
use warpline_nf::kernels::{Element, KernelStep, KernelTable, Kernels, number_of};
use warpline_rule_files::Action;
use warpline_rule_files::kinds::{HIDDEN_PORT, KIND_ESTABLISHED, KIND_ICMP, KIND_TCP, NO_PORT};
use warpline_tables::classifier::{Intervals, Number, Rows};

const STEPS: &[KernelStep] =
    &[KernelStep { name: "filter", group: 128, shared_big: 0, items_per_packet: 1 }];

/// Words before the dimensions, words of each, and how many there are.
const HEAD_LEN: usize = 3;
const DIMENSION_LEN: usize = 6;
const DIMENSIONS: usize = 5;

const NUMBERS: &[(&str, u64)] = &[
    ("NO_PORT", NO_PORT as u64),
    ("HIDDEN_PORT", HIDDEN_PORT as u64),
    ("KIND_TCP", KIND_TCP as u64),
    ("KIND_ICMP", KIND_ICMP as u64),
    ("KIND_ESTABLISHED", KIND_ESTABLISHED as u64),
    ("STANDING_NEW", Standing::New as u64),
    ("STANDING_ESTABLISHED", Standing::Established as u64),
    ("STANDING_INVALID", Standing::Invalid as u64),
    ("STANDING_TABLE_FULL", Standing::TableFull as u64),
    ("STANDING_PER_SOURCE", Standing::PerSource as u64),
    ("STANDING_FIRST_REFUSED", Standing::FirstRefused as u64),
    ("REASON_RULE", super::RULE.0 as u64),
    ("REASON_DEFAULT", super::DEFAULT.0 as u64),
    ("REASON_NON_IP", super::NON_IP.0 as u64),
    ("REASON_FRAGMENT", super::FRAGMENT.0 as u64),
    ("REASON_SNAPPED", super::SNAPPED.0 as u64),
    ("REASON_INVALID", super::INVALID.0 as u64),
    ("REASON_TABLE_FULL", super::TABLE_FULL.0 as u64),
    ("REASON_PER_SOURCE", super::PER_SOURCE.0 as u64),
    ("REASONS", DEFINITION.drops.len() as u64),
    ("HEADER_LEN_V4", ipv4::HEADER_LEN as u64),
    ("HEADER_LEN_V6", ipv6::HEADER_LEN as u64),
    ("HEADER_LEN_TCP", tcp::HEADER_LEN as u64),
    ("HEADER_LEN_UDP", udp::HEADER_LEN as u64),
    // Type and code.
    ("SEEN_LEN_ICMP", icmpv4::field::CODE.end as u64),
    ("IP_PROTOCOL_HOP_BY_HOP", ip_protocol::HOP_BY_HOP as u64),
    ("IP_PROTOCOL_ICMP", ip_protocol::ICMP as u64),
    ("IP_PROTOCOL_TCP", ip_protocol::TCP as u64),
    ("IP_PROTOCOL_UDP", ip_protocol::UDP as u64),
    ("IP_PROTOCOL_ROUTING", ip_protocol::ROUTING as u64),
    ("IP_PROTOCOL_FRAGMENT", ip_protocol::FRAGMENT as u64),
    ("IP_PROTOCOL_AH", ip_protocol::AH as u64),
    ("IP_PROTOCOL_ICMPV6", ip_protocol::ICMPV6 as u64),
    ("IP_PROTOCOL_DESTINATION_OPTIONS", ip_protocol::DESTINATION_OPTIONS as u64),
];

pub(super) fn kernels(firewall: &Firewall) -> Kernels {
    let rules = &*firewall.rules;
    let table = |name, bytes| KernelTable { name, element: Element::U32, bytes };
    let (mut v4, mut v6, mut starts) = (Vec::new(), Vec::new(), Vec::new());
    for searches in rules.searches() {
        starts.push([v4.len() as u32 / 4, v6.len() as u32 / 4]);
        v4.extend(search(&searches.v4));
        v6.extend(search(&searches.v6));
    }
    let mut tables = vec![table("search_v4", v4), table("search_v6", v6)];
    if let Some(ways) = rules.ways() {
        tables.push(table("ways", words(ways_table(ways, &starts))));
        tables.push(table("hop_ports", words(hop_ports(ways))));
    }
    Kernels::builder("firewall.cl", include_str!("kernel.cl"), STEPS)
        .defines(NUMBERS.iter().copied().chain(choices(firewall, rules)))
        .public_tables(tables)
        .build()
}

/// The settings of the chain file's table, as constants of the kernel.
fn choices(firewall: &Firewall, rules: &RuleSet) -> impl Iterator<Item = (&'static str, u64)> {
    let policy = rules.policy();
    let accepts = |action| u64::from(action == Action::Accept);
    let word = firewall.tracking.map(|tracking| ("WORD", number_of(tracking.word)));
    let choices = [
        ("IS_TRACKED", u64::from(firewall.tracking.is_some())),
        ("ACCEPTS_ESTABLISHED", u64::from(rules.accepts_established())),
        ("ACCEPTS_BY_DEFAULT", accepts(policy.default)),
        ("ACCEPTS_NON_IP", accepts(policy.non_ip)),
        ("DROPS_FRAGMENTS", u64::from(policy.drop_fragments)),
    ];
    let ways = rules.ways().into_iter().flat_map(|ways| {
        [
            ("HAS_WAYS", 1),
            ("PORTS", ways.ports() as u64),
            ("WAYS_OUT", ways.outs() as u64),
            ("ASKS_WAY_OUT", u64::from(ways.hops().is_some())),
            ("HOPS", ways.hops().map_or(0, |hops| hops.all().len()) as u64),
        ]
    });
    choices.into_iter().chain(word).chain(ways)
}

/// By way in the way out without a route; then by way in and out where the searches begin.
fn ways_table(ways: &Ways, starts: &[[u32; 2]]) -> Vec<u32> {
    let mut table: Vec<u32> =
        (0..=ways.ports()).map(|way_in| ways.way_out(way_in, None) as u32).collect();
    let of_way = |&search: &u32| starts.get(search as usize).copied().unwrap_or_default();
    table.extend(ways.searches().iter().flat_map(of_way));
    table
}

/// The port of each next hop; no device takes a table without a byte.
fn hop_ports(ways: &Ways) -> Vec<u32> {
    let hops = ways.hops().map_or(&[][..], |hops| hops.all());
    let port = |port: &Option<u16>| port.map_or(u32::MAX, u32::from);
    let ports: Vec<u32> = hops.iter().map(port).collect();
    if ports.is_empty() { vec![u32::MAX] } else { ports }
}

fn words(words: Vec<u32>) -> Vec<u8> {
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// The bytes of a search.
fn search<A: Number + Into<u128>>(of: &Searched<A>) -> Vec<u8> {
    let space = &of.space;
    let [src, dst, rest @ ..] = &space.rows;
    let mut table = Table::new();
    table.set(0, space.words as u32);
    table.set(1, src.summary_words as u32);
    let accepting = of.rules.chunks(32).map(|rules| {
        let bits = rules.iter().enumerate().map(|(i, rule)| (rule.1 == Action::Accept, i));
        bits.fold(0, |all, (accepts, i)| all | u32::from(accepts) << i)
    });
    let at = table.push(accepting);
    table.set(2, at);
    table.addresses(0, &space.src, src);
    table.addresses(1, &space.dst, dst);
    let maps = [&space.src_port, &space.dst_port, &space.kind];
    for ((number, map), rows) in (2..).zip(maps).zip(rest) {
        let pairs = map
            .chunks(2)
            .map(|pair| u32::from(pair[0]) | u32::from(pair.get(1).copied().unwrap_or(0)) << 16);
        let at = table.push(pairs);
        table.dimension(number, [at, 0, 0, 0], rows);
    }
    table.bytes
}

/// A search that is being laid out.
struct Table {
    bytes: Vec<u8>,
}

impl Table {
    fn new() -> Self {
        Self { bytes: vec![0; 4 * (HEAD_LEN + DIMENSIONS * DIMENSION_LEN)] }
    }

    fn set(&mut self, word: usize, value: u32) {
        self.bytes[4 * word..4 * word + 4].copy_from_slice(&value.to_le_bytes());
    }

    /// Gives where they lie.
    fn push(&mut self, words: impl Iterator<Item = u32>) -> u32 {
        let at = self.bytes.len() / 4;
        words.for_each(|word| self.bytes.extend_from_slice(&word.to_le_bytes()));
        at as u32
    }

    fn push_long(&mut self, words: &[u64]) -> u32 {
        let at = self.bytes.len() / 4;
        words.iter().for_each(|word| self.bytes.extend_from_slice(&word.to_le_bytes()));
        at as u32
    }

    fn addresses<A: Number + Into<u128>>(&mut self, number: usize, of: &Intervals<A>, rows: &Rows) {
        // Words of an address, the leading one first.
        let words = |start: &A| {
            let start: u128 = (*start).into();
            (0..A::BITS / 32).rev().map(move |word| (start >> (32 * word)) as u32)
        };
        let starts = self.push(of.starts.iter().flat_map(words));
        let classes = self.push(of.classes.iter().copied());
        let index = self.push(of.index.iter().copied());
        self.dimension(number, [starts, classes, index, of.shift + 32 - A::BITS], rows);
    }

    fn dimension(&mut self, number: usize, parts: [u32; 4], rows: &Rows) {
        let rows = [self.push_long(&rows.rows), self.push_long(&rows.summaries)];
        let first = HEAD_LEN + DIMENSION_LEN * number;
        for (word, part) in (first..).zip(parts.into_iter().chain(rows)) {
            self.set(word, part);
        }
    }
}
