//! The function's table in the chain file: what was typed, and what it means.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use std::collections::BTreeSet;

use warpline_packet::Prefix;
use warpline_rewrite::ClientKey;

use super::connections::{PROGRESS_KINDS, Progress};
use super::directory::{Directory, addresses};
use super::encap::Source;
use super::maglev::{is_prime, next_prime};
use super::services::{Service, ServiceFile};
use warpline_nf::{Diagnostics, Key, Resources, Section, SourceText};
use warpline_rule_files::neighbours::Mac;

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "services",
        allowed: "a file",
        default: "required",
        help: "`vip` lines, each followed by its `backend` lines",
    },
    Key {
        name: "mode",
        allowed: "dnat | ipip | mac",
        default: "dnat",
        help: "the way to the backend: a new destination, a tunnel, an Ethernet address",
    },
    Key {
        name: "addresses",
        allowed: "a list of prefixes, with mode = \"dnat\"",
        default: "those in `services`",
        help: "prefixes of all VIPs and backends, including those of later reloads",
    },
    Key {
        name: "connections",
        allowed: "64 to 16777216",
        default: "65536",
        help: "the most connections remembered at once",
    },
    Key {
        name: "per_source_max",
        allowed: "0 to 16777216",
        default: "0",
        help: "connections of one client address in a shard; 0: no limit",
    },
    Key {
        name: "table_size",
        allowed: "a prime, 3 to 5000011",
        default: "65537",
        help: "entries of each Maglev table; with 100 for each backend, shares are within 1 %",
    },
    Key {
        name: "no_vip",
        allowed: "forward | drop",
        default: "forward",
        help: "the action for IP packets that belong to no VIP",
    },
    Key {
        name: "tcp_timeout_s",
        allowed: "1 to 604800",
        default: "7440",
        help: "idle timeout of an established TCP connection",
    },
    Key {
        name: "tcp_transitory_timeout_s",
        allowed: "1 to 604800",
        default: "240",
        help: "idle timeout of a TCP connection that opens or closes",
    },
    Key {
        name: "udp_timeout_s",
        allowed: "1 to 604800",
        default: "120",
        help: "idle timeout of a UDP connection",
    },
    Key {
        name: "tunnel_src_v4",
        allowed: "an IPv4 address, with mode = \"ipip\"",
        default: "172.16.0.0/16 and 16 bits of the flow's hash",
        help: "source of outer IPv4 headers",
    },
    Key {
        name: "tunnel_src_v6",
        allowed: "an IPv6 address, with mode = \"ipip\"",
        default: "100::/64 and 32 bits of the flow's hash",
        help: "source of outer IPv6 headers",
    },
    Key {
        name: "mac",
        allowed: "an Ethernet address",
        default: "required with mode = \"mac\"",
        help: "its own Ethernet address, the source of frames to backends",
    },
];

/// How a packet gets to its backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Its destination is rewritten, and so is the source of the backend's answers.
    Dnat,
    /// It is carried in another IP packet; the backend answers the client itself.
    Ipip,
    /// It is sent to the backend's Ethernet address; the backend answers the client itself.
    Mac,
}

const MODES: [(&str, Mode); 3] = [("dnat", Mode::Dnat), ("ipip", Mode::Ipip), ("mac", Mode::Mac)];

/// The treatment of IP packets that belong to no VIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoVip {
    Forward,
    Drop,
}

const NO_VIPS: [(&str, NoVip); 2] = [("forward", NoVip::Forward), ("drop", NoVip::Drop)];

/// Settings that a shard's state is built with. They can't change while it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fixed {
    pub(super) mode: Mode,
    pub(super) connections: usize,
    /// Connections that a client's address may have in a shard; 0: any number.
    pub(super) per_source: u32,
    /// By [`Progress`].
    pub(super) timeouts: [Duration; PROGRESS_KINDS],
    table_size: usize,
}

/// The settings of the table.
#[derive(Debug)]
pub(super) struct Config {
    pub(super) fixed: Fixed,
    pub(super) no_vip: NoVip,
    /// The source of tunnels.
    pub(super) source: Source,
    pub(super) mac: [u8; 6],
    pub(super) directory: Directory,
    /// With [`Mode::Dnat`]: who is a service, and not a client.
    pub(super) key: Option<ClientKey>,
    /// Whether addresses of IPv6 go from `before` to `run`.
    pub(super) has_v6: bool,
}

/// Reads the table; `None` where mistakes were noted.
pub(super) fn read(section: &mut Section<'_>, resources: &mut Resources) -> Option<Config> {
    let mode = section.choice("mode", &MODES, Mode::Dnat);
    section.require("services", "what clients send to, and who serves it");
    let fixed = Fixed {
        mode,
        connections: section.integer("connections", 64..=1 << 24, 1 << 16) as usize,
        per_source: section.integer("per_source_max", 0..=1 << 24, 0) as u32,
        timeouts: timeouts(section),
        table_size: table_size(section),
    };
    let no_vip = section.choice("no_vip", &NO_VIPS, NoVip::Forward);
    let source = Source {
        v4: section.parsed::<Ipv4Addr>("tunnel_src_v4").map(Ipv4Addr::to_bits),
        v6: section.parsed::<Ipv6Addr>("tunnel_src_v6").map(Ipv6Addr::to_bits),
    };
    let mac = section.parsed::<Mac>("mac").unwrap_or_default();
    let blocks = section.parsed_list::<Prefix>("addresses");
    check_mode(section, mode);
    let text = section.file("services")?;
    let file = ServiceFile::read(&text, mode);
    file.mistakes.iter().for_each(|mistake| section.note(mistake.clone()));
    let services = file.services;
    if file.mistakes.is_empty() {
        check_file(section, &text, &services, fixed);
    }
    let key = (mode == Mode::Dnat).then(|| key(section, &text, &services, blocks));
    if section.is_broken() {
        return None;
    }
    let Some(directory) = Directory::new(&services, fixed.table_size) else {
        section.mistake("services", "two of its addresses and ports have the same hash");
        return None;
    };
    resources.remarks_of(&without_backends(&text, &services));
    let backends = services.iter().flat_map(|service| &service.backends);
    let has_v6 = mode != Mode::Mac && backends.into_iter().any(|own| own.address.is_ipv6());
    let has_v6 = has_v6 || (mode == Mode::Dnat && services.iter().any(|s| s.address.is_ipv6()));
    Some(Config { fixed, no_vip, source, mac: mac.0, directory, key, has_v6 })
}

/// Remarks about services that no backend accepts connections for.
fn without_backends(text: &SourceText, services: &[Service]) -> Diagnostics {
    let mut remarks = Diagnostics::default();
    let is_served = |one: &&Service| one.backends.iter().any(|backend| backend.weight > 0);
    for service in services.iter().filter(|one| !is_served(one)) {
        let line = text.text.lines().nth(service.line - 1).unwrap_or_default();
        let reported = "no backend takes connections: clients' packets are dropped as no-backend";
        remarks.push(text.in_line(service.line, line, 0, line.len(), reported));
    }
    remarks
}

fn timeouts(section: &mut Section<'_>) -> [Duration; PROGRESS_KINDS] {
    let mut read = |key, default| Duration::from_secs(section.integer(key, 1..=604_800, default));
    // RFC 5382, REQ-5, has the times that endpoints count on.
    let (established, udp) = (read("tcp_timeout_s", 7440), read("udp_timeout_s", 120));
    let transitory = read("tcp_transitory_timeout_s", 240);
    let mut timeouts = [transitory; PROGRESS_KINDS];
    timeouts[Progress::Established as usize] = established;
    timeouts[Progress::Udp as usize] = udp;
    timeouts
}

fn table_size(section: &mut Section<'_>) -> usize {
    let size = section.integer("table_size", 3..=5_000_011, 65_537);
    if !is_prime(size) {
        let next = next_prime(size);
        section.mistake("table_size", format!("{size} is not a prime; the next one is {next}"));
    }
    size as usize
}

/// Keys that are some mode's alone.
fn check_mode(section: &mut Section<'_>, mode: Mode) {
    let of_modes = [
        ("addresses", Mode::Dnat, "dnat"),
        ("tunnel_src_v4", Mode::Ipip, "ipip"),
        ("tunnel_src_v6", Mode::Ipip, "ipip"),
        ("mac", Mode::Mac, "mac"),
    ];
    for (key, own, name) in of_modes {
        if own != mode && section.has(key) {
            section.mistake(key, format!("`{key}` requires mode = {name:?}"));
        }
    }
    if mode == Mode::Mac {
        section.require("mac", "the source of frames to backends");
    }
}

/// Places of all Maglev tables together, two bytes each.
const PLACES_MAX: usize = 1 << 27;

fn check_file(section: &mut Section<'_>, text: &SourceText, services: &[Service], fixed: Fixed) {
    let size = fixed.table_size;
    if services.is_empty() {
        section.note(text.whole("no `vip` line"));
    }
    if services.len() * size > PLACES_MAX {
        let reported = format!("{} services with {size} places each are too many", services.len());
        section.mistake("table_size", reported);
    }
    let mut vips = BTreeSet::new();
    for service in services {
        vips.insert(service.address);
        let count = service.backends.len();
        if count > size {
            let reported = format!("{count} backends take a `table_size` of more than {size}");
            section.note(in_line(text, service.line, reported));
        }
    }
    if fixed.mode == Mode::Dnat {
        for backend in services.iter().flat_map(|service| &service.backends) {
            if vips.contains(&backend.address) {
                let reported = format!("{} is a VIP and can't be a backend", backend.address);
                section.note(in_line(text, backend.line, reported));
            }
        }
    }
}

/// The key of VIPs and backends: `blocks`, which must hold all of them, or just them.
fn key(
    section: &mut Section<'_>,
    text: &SourceText,
    services: &[Service],
    blocks: Vec<Prefix>,
) -> ClientKey {
    if !section.has("addresses") {
        let host = |address: IpAddr| Prefix::new(address, if address.is_ipv4() { 32 } else { 128 });
        let hosts: Vec<Prefix> = addresses(services).filter_map(|(a, _)| host(a)).collect();
        return ClientKey::new(&hosts);
    }
    let key = ClientKey::new(&blocks);
    for (address, line) in addresses(services).filter(|&(address, _)| !key.is_service(address)) {
        section.note(in_line(text, line, format!("{address} is not in `addresses`")));
    }
    key
}

fn in_line(text: &SourceText, line: usize, reported: String) -> warpline_nf::Diagnostic {
    let own = text.text.lines().nth(line - 1).unwrap_or_default();
    let start = own.len() - own.trim_start().len();
    text.in_line(line, own, start, own.trim().len(), reported)
}
