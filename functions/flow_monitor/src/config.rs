//! The function's table in the chain file: what was typed, and what it means.

use std::net::SocketAddr;
use std::str::FromStr;

use super::record::Form;
use warpline_nf::{Destination, Key, Section};

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "ipfix",
        allowed: "a file, unix:PATH or tcp:HOST:PORT",
        default: "none",
        help: "the output for records as IPFIX (RFC 5655, RFC 7011)",
    },
    Key {
        name: "ipfix_udp",
        allowed: "ADDRESS:PORT",
        default: "none",
        help: "the collector of records as IPFIX over UDP",
    },
    Key {
        name: "csv",
        allowed: "a file, unix:PATH or tcp:HOST:PORT",
        default: "none",
        help: "the output for records as CSV",
    },
    Key {
        name: "export",
        allowed: "biflow | uniflow",
        default: "biflow",
        help: "one record for both directions of a flow, or one for each direction with packets",
    },
    Key {
        name: "active_s",
        allowed: "1 to 3600",
        default: "300",
        help: "the longest duration of a record; a longer flow continues in a new one",
    },
    Key {
        name: "idle_s",
        allowed: "1 to 3600, at most active_s",
        default: "30",
        help: "the time without packets after which a flow ends",
    },
    Key {
        name: "flows",
        allowed: "64 to 4194304",
        default: "65536",
        help: "the most flows at once",
    },
    Key {
        name: "top",
        allowed: "0 to 1000",
        default: "10",
        help: "rows of each table in the summary",
    },
    Key {
        name: "heavy",
        allowed: "16 to 65536",
        default: "1024",
        help: "counters for each kind of heavy hitter; the maximum error is the total / heavy",
    },
    Key {
        name: "domain",
        allowed: "0 to 4294967295",
        default: "1",
        help: "the observation domain of IPFIX messages",
    },
];

const FORMS: [(&str, Form); 2] = [("biflow", Form::Biflow), ("uniflow", Form::Uniflow)];

/// The settings of the table.
#[derive(Clone, Debug)]
pub(super) struct Config {
    pub(super) ipfix: Option<Destination>,
    pub(super) ipfix_udp: Option<SocketAddr>,
    pub(super) csv: Option<Destination>,
    pub(super) form: Form,
    pub(super) active_us: u64,
    pub(super) idle_us: u64,
    pub(super) flows: usize,
    pub(super) top: usize,
    pub(super) heavy: usize,
    pub(super) domain: u32,
}

/// The address of a collector.
struct Collector(SocketAddr);

impl FromStr for Collector {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let reported = "must be an IP address and a port, such as 192.0.2.7:4739 or \
                        [2001:db8::7]:4739; names are not resolved";
        let address = text.parse().ok().filter(|address: &SocketAddr| address.port() > 0);
        address.map(Self).ok_or(reported)
    }
}

/// Reads the table; `None` where mistakes were noted.
pub(super) fn read(section: &mut Section<'_>) -> Option<Config> {
    let (ipfix, csv) = (section.destination("ipfix"), section.destination("csv"));
    if ipfix.is_some() && ipfix == csv {
        section.mistake("csv", "`csv` and `ipfix` name the same output");
    }
    let active_s = section.integer("active_s", 1..=3600, 300);
    let idle_s = section.integer("idle_s", 1..=3600, active_s.min(30));
    if idle_s > active_s {
        let text = format!("`idle_s` is {idle_s}, more than `active_s`, which is {active_s}");
        section.mistake("idle_s", text);
    }
    let config = Config {
        ipfix,
        ipfix_udp: section.parsed("ipfix_udp").map(|Collector(address)| address),
        csv,
        form: section.choice("export", &FORMS, Form::Biflow),
        active_us: active_s * 1_000_000,
        idle_us: idle_s * 1_000_000,
        flows: section.integer("flows", 64..=1 << 22, 1 << 16) as usize,
        top: section.integer("top", 0..=1000, 10) as usize,
        heavy: section.integer("heavy", 16..=1 << 16, 1024) as usize,
        domain: section.integer("domain", 0..=u32::MAX.into(), 1) as u32,
    };
    if section.is_broken() { None } else { Some(config) }
}
