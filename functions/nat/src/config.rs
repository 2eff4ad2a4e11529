//! The function's table in the chain file: what was typed, and what it means.

use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use warpline_packet::{AddressBlocks, Prefix};
use warpline_rewrite::{Fixed, Forward, InsideKey, Protocol};

use super::binding::Class;
use super::fixed_keys::{self, ForwardLine, MappedLine, SourceRule, Written};
use super::remarks;
use super::rules::settings::{self, Said};
use super::rules::{ForwardRule, Places, mistake_at};
use warpline_nf::{Resources, Section};
use warpline_rewrite::addresses::{Overlap, Pool, PortRange, address_of, overlaps};
use warpline_tables::keyed::HashKey;
use warpline_tables::tcp::{PickUp, Policy, Windows};

/// How a binding, or the right to send to it, depends on the remote (RFC 4787, 4.1 and 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dependence {
    EndpointIndependent,
    AddressDependent,
    AddressAndPortDependent,
}

const DEPENDENCES: [(&str, Dependence); 3] = [
    ("endpoint-independent", Dependence::EndpointIndependent),
    ("address-dependent", Dependence::AddressDependent),
    ("address-and-port-dependent", Dependence::AddressAndPortDependent),
];

const WINDOWS: &[(&str, Windows)] = &[("strict", Windows::Strict), ("liberal", Windows::Liberal)];

/// The settings of the table.
#[derive(Debug)]
pub(super) struct Config {
    pub(super) outside: Pool,
    pub(super) ports: PortRange,
    pub(super) mapping: Dependence,
    pub(super) filtering: Dependence,
    pub(super) bindings: usize,
    /// Bindings that an inside address may have; 0: any number.
    pub(super) per_source: u32,
    /// The key of the search for outside ports. Others can't predict a binding's port (RFC 6056,
    /// 3.3.3).
    pub(super) port_key: HashKey,
    /// Where first fragments are remembered.
    pub(super) fragment_key: HashKey,
    pub(super) remotes: usize,
    /// By [`Class`].
    pub(super) timeouts: [Duration; Class::COUNT],
    pub(super) inbound_refresh: bool,
    /// How segments of TCP are judged.
    pub(super) tcp: Policy,
    pub(super) key: InsideKey,
    pub(super) fixed: Arc<Fixed>,
    /// Which packets from inside are translated; all where there is none.
    pub(super) rules: Vec<SourceRule>,
    pub(super) has_v6: bool,
}

impl Config {
    /// Whether packets are translated as with `other`, from other keys perhaps.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.translations() == other.translations()
    }

    /// All but the keys of hashes, and `outside`, which `key` has, too.
    fn translations(&self) -> impl PartialEq {
        let Self {
            outside: _,
            port_key: _,
            fragment_key: _,
            ports,
            mapping,
            filtering,
            bindings,
            per_source,
            remotes,
            timeouts,
            inbound_refresh,
            tcp,
            key,
            fixed,
            rules,
            has_v6,
        } = self;
        let sizes = (bindings, per_source, remotes);
        (
            ports,
            mapping,
            filtering,
            sizes,
            timeouts,
            inbound_refresh,
            (tcp, key, fixed, rules, has_v6),
        )
    }
}

/// Reads the table; `None` where mistakes were noted.
pub(super) fn read(section: &mut Section<'_>, resources: &mut Resources) -> Option<Config> {
    let mut said = settings::read(section, resources);
    let [inside, outside] = addresses(section, &mut said);
    let source_rules = source_rules(section, &mut said);
    let said_ports = said.ports;
    let (forwards, fixed) = fixed_translations(section, said, &inside, &outside);
    let fixed = Arc::new(fixed);
    let has_v6 = inside.ranges(6).next().is_some();
    let pool = Pool::new(&outside);
    if pool.is_none() {
        section.mistake("outside", "`outside` has more than 2^64 addresses of IPv6");
    }
    let ports = match section.has("ports") {
        true => section.parsed("ports").unwrap_or(PortRange::DEFAULT),
        false => said_ports.unwrap_or(PortRange::DEFAULT),
    };
    fixed_keys::check_ports(section, &forwards, &outside, ports);
    let mapping = section.choice("mapping", &DEPENDENCES, Dependence::EndpointIndependent);
    let filtering = section.choice("filtering", &DEPENDENCES, Dependence::AddressDependent);
    let bindings = section.integer("bindings", 64..=1 << 22, 1 << 16) as usize;
    let per_source = section.integer("per_source_max", 0..=1 << 22, 0) as u32;
    let remotes = section.integer("remotes", 1..=64, 8) as usize;
    let timeouts = timeouts(section);
    let inbound_refresh = section.boolean("inbound_refresh", false);
    let windows = section.choice("tcp_window", WINDOWS, Windows::Strict);
    if section.is_broken() {
        return None;
    }
    let config = Config {
        outside: pool?,
        ports,
        mapping,
        filtering,
        bindings,
        per_source,
        port_key: HashKey::of_seed(resources.seed(), 0),
        fragment_key: HashKey::of_seed(resources.seed(), 1),
        remotes,
        timeouts,
        inbound_refresh,
        tcp: Policy { windows, pick_up: PickUp::Never },
        has_v6,
        key: InsideKey {
            inside,
            outside,
            port_first: ports.first(),
            ports_per_shard: ports.per_shard(),
            fixed: Arc::clone(&fixed),
        },
        fixed,
        rules: source_rules,
    };
    if section.has("rules") {
        resources.remarks_of(&remarks::remarks(&config));
    }
    Some(config)
}

/// The addresses to translate, and those to translate to.
fn addresses(section: &mut Section<'_>, said: &mut Said) -> [AddressBlocks; 2] {
    let inside = said.inside.take();
    let inside =
        inside.unwrap_or_else(|| prefixes(section, "inside", "the addresses to translate"));
    let outside = said.outside.take();
    let outside =
        outside.unwrap_or_else(|| prefixes(section, "outside", "the addresses to translate to"));
    // A list is also empty if none of its items parses, which was reported already.
    if !section.is_broken() {
        for (key, list) in [("inside", &inside), ("outside", &outside)] {
            let may_be_empty = key == "outside" && said.is_fixed;
            if list.is_empty() && !may_be_empty {
                section.mistake(key, format!("`{key}` is empty"));
            }
        }
    }
    check_families(section, &inside, &outside);
    check_overlaps(section, &inside, &outside);
    [AddressBlocks::new(&inside), AddressBlocks::new(&outside)]
}

/// Which packets from inside are translated, by the file of rules and `except`.
fn source_rules(section: &mut Section<'_>, said: &mut Said) -> Vec<SourceRule> {
    let mut rules = std::mem::take(&mut said.source_rules);
    let except: Vec<Prefix> = section.parsed_list("except");
    if !except.is_empty() {
        if rules.is_empty() {
            rules.push(SourceRule { translates: true, ..SourceRule::default() });
        }
        rules.insert(0, SourceRule::exempting(except));
    }
    rules
}

/// Forwards and addresses that hosts have for themselves, of the file of rules and the table.
fn fixed_translations(
    section: &mut Section<'_>,
    mut said: Said,
    inside: &AddressBlocks,
    outside: &AddressBlocks,
) -> (Vec<Forward>, Fixed) {
    let mut forwards = forwards_of_rules(section, &said.forwards, &mut said.places, outside);
    let (own, forward_items) = items(section, "forwards");
    forwards.extend(own.into_iter().map(|line: ForwardLine| line.0));
    let mut mapped = said.mapped;
    let (own, mapped_items) = items(section, "one_to_one");
    mapped.extend(own.into_iter().map(|line: MappedLine| line.0));
    let written_forwards = Written {
        key: "forwards",
        all: &forwards[..],
        rules: &said.places.forwards,
        items: &forward_items,
    };
    let written_mapped = Written {
        key: "one_to_one",
        all: &mapped[..],
        rules: &said.places.mapped,
        items: &mapped_items,
    };
    let fixed = fixed_keys::fixed(section, &written_forwards, &written_mapped, inside, outside);
    (forwards, fixed)
}

/// Forwards of every outside address are so many at most.
pub(super) const OUTSIDE_MAX: u128 = 64;

/// The forwards of rules, for their outside address or for every one.
fn forwards_of_rules(
    section: &mut Section<'_>,
    rules: &[ForwardRule],
    places: &mut Places,
    outside: &AddressBlocks,
) -> Vec<Forward> {
    let mut forwards = Vec::new();
    let of_rules = std::mem::take(&mut places.forwards);
    for (rule, place) in rules.iter().zip(of_rules) {
        let version = if rule.inside.is_ipv4() { 4 } else { 6 };
        let ranges = outside.ranges(version);
        let count: u128 = ranges.map(|(first, last)| (last - first).saturating_add(1)).sum();
        if let Some(outside) = rule.outside {
            forwards.extend(rule.of(outside));
        } else if count == 0 {
            let text = "a forward without a destination, `-d`, needs `outside`";
            section.note(mistake_at(&place, text));
        } else if count > OUTSIDE_MAX {
            let text = "a forward without a destination, `-d`, needs 64 outside addresses at most";
            section.note(mistake_at(&place, text));
        } else {
            for (first, last) in outside.ranges(version) {
                let addresses = (first..=last).map(|number| address_of(version, number));
                forwards.extend(addresses.filter_map(|address| rule.of(address).ok()));
            }
        }
        places.forwards.resize(forwards.len(), place);
    }
    forwards
}

/// The items of a list, and their places.
fn items<T: FromStr<Err = String>>(
    section: &mut Section<'_>,
    key: &str,
) -> (Vec<T>, Vec<Range<usize>>) {
    section.parsed_items(key).into_iter().unzip()
}

fn prefixes(section: &mut Section<'_>, key: &str, what: &str) -> Vec<Prefix> {
    section.require(key, what);
    section.parsed_list(key)
}

fn check_families(section: &mut Section<'_>, inside: &[Prefix], outside: &[Prefix]) {
    let has = |list: &[Prefix], v4: bool| list.iter().any(|p| p.address().is_ipv4() == v4);
    if inside.is_empty() || outside.is_empty() {
        return;
    }
    for (v4, name) in [(true, "IPv4"), (false, "IPv6")] {
        match (has(inside, v4), has(outside, v4)) {
            (true, false) => {
                let text = format!("`inside` has {name} prefixes, `outside` has no {name} address");
                section.mistake("outside", text);
            }
            (false, true) => {
                let text = format!("`outside` has {name} addresses, `inside` has no {name} prefix");
                section.mistake("inside", text);
            }
            _ => {}
        }
    }
}

fn check_overlaps(section: &mut Section<'_>, inside: &[Prefix], outside: &[Prefix]) {
    for overlap in overlaps(inside, outside) {
        let text = match overlap {
            Overlap::Inside(own, other) => {
                format!("{own} in `outside` overlaps {other} in `inside`")
            }
            Overlap::Outside(own, other) => {
                format!("`outside` has {own} and {other}, which overlap")
            }
        };
        section.mistake("outside", text);
    }
}

impl Config {
    /// Whether the rules translate a packet from inside; `None` if no rule matches.
    #[inline]
    pub(super) fn translates(
        &self,
        version: u8,
        src: u128,
        dst: u128,
        protocol: u8,
        port: impl Fn() -> u16,
    ) -> Option<bool> {
        if self.rules.is_empty() {
            return Some(true);
        }
        let mut rules = self.rules.iter();
        let matches = |rule: &&SourceRule| rule.matches((version, protocol), (src, dst), &port);
        rules.find(matches).map(|rule| rule.translates)
    }

    /// Whether rules ask by which port of the chain a packet came.
    pub(super) fn asks_ports(&self) -> bool {
        self.fixed.asks_ports() || self.rules.iter().any(|rule| !rule.came_by.is_all())
    }

    /// Whether bindings to different remotes may have one outside endpoint.
    #[inline]
    pub(super) fn shares(&self, protocol: Protocol) -> bool {
        protocol == Protocol::Other || self.mapping == Dependence::AddressAndPortDependent
    }

    /// Whether an address is translated.
    #[inline]
    pub(super) fn is_inside(&self, version: u8, address: u128) -> bool {
        self.key.inside.contains_number(version, address)
    }
}

/// Idle times by class. RFC 4787, REQ-5: "MUST NOT expire in less than two minutes"; RFC 5382,
/// REQ-5: "2 hours 4 minutes", "4 minutes"; RFC 5508, REQ-1: "60 seconds". SCTP as in Linux;
/// its idle ends send a heartbeat every 30 s (RFC 9260, 8.3 and 16).
fn timeouts(section: &mut Section<'_>) -> [Duration; Class::COUNT] {
    let short = section.boolean("short_timeouts", false);
    let mut read = |key, least: u64, default| {
        let least = if short { 1 } else { least };
        Duration::from_secs(section.integer(key, least..=604_800, default))
    };
    let mut timeouts = [Duration::ZERO; Class::COUNT];
    timeouts[Class::Udp as usize] = read("udp_timeout_s", 120, 300);
    timeouts[Class::UdpOpening as usize] = read("udp_unanswered_timeout_s", 120, 120);
    timeouts[Class::UdpShort as usize] = read("udp_short_timeout_s", 1, 30);
    timeouts[Class::Established as usize] = read("tcp_established_timeout_s", 7440, 7440);
    timeouts[Class::Transitory as usize] = read("tcp_transitory_timeout_s", 240, 240);
    timeouts[Class::Icmp as usize] = read("icmp_timeout_s", 60, 60);
    timeouts[Class::Other as usize] = read("other_timeout_s", 1, 600);
    timeouts[Class::Sctp as usize] = read("sctp_timeout_s", 1, 210);
    timeouts
}
