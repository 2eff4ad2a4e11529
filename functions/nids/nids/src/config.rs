//! The function's table in the chain file: the typed values, and their meaning.

use super::report::{Alert, EveOptions};
use warpline_nf::{Destination, Key, Section};
use warpline_search::{Cache, Choice};
use warpline_streams::flows::{Urgent, UrgentLimit};

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "rules",
        allowed: "a file or a list of files",
        default: "none",
        help: "rules in the dialect of Suricata 7 and 8",
    },
    Key {
        name: "snort_rules",
        allowed: "a file or a list of files",
        default: "none",
        help: "rules in the dialect of Snort 2.9",
    },
    Key {
        name: "variables",
        allowed: "a table of texts",
        default: "HOME_NET: private addresses; the rest any, or the usual ports",
        help: "values of $NAME in rules: addresses or ports, as in a rule's header",
    },
    Key {
        name: "classification",
        allowed: "a file",
        default: "none: alerts have no category, and priority 3",
        help: "classification.config: descriptions and priorities of classtypes",
    },
    Key {
        name: "reference",
        allowed: "a file",
        default: "none",
        help: "reference.config: the systems that references may name",
    },
    Key {
        name: "threshold",
        allowed: "a file",
        default: "none",
        help: "threshold.config: thresholds, rate filters and suppressions",
    },
    Key {
        name: "strict",
        allowed: "true or false",
        default: "false",
        help: "true makes an invalid rule an error: no start, and a reload keeps the old rules",
    },
    Key {
        name: "rules_min",
        allowed: "0 to 10000000",
        default: "0",
        help: "the minimum number of active rules; with fewer, no start",
    },
    Key {
        name: "matcher",
        allowed: "auto | hyperscan | dense | compact",
        default: "auto",
        help: "the literal search; auto: Hyperscan if installed, otherwise by the number of \
               literals",
    },
    Key {
        name: "cache",
        allowed: "a folder",
        default: "$XDG_CACHE_HOME/warpline or ~/.cache/warpline",
        help: "a folder for compiled Hyperscan databases, which take seconds to compile; \"\": \
               none",
    },
    Key {
        name: "checksum",
        allowed: "auto | ignore | check",
        default: "auto",
        help: "check: streams exclude TCP packets with wrong checksums; auto: unless they are \
               common",
    },
    Key {
        name: "overlap",
        allowed: "windows | bsd | linux | solaris | first | last",
        default: "windows",
        help: "bytes that count if segments or fragments overlap: the policy of the protected \
               hosts",
    },
    Key {
        name: "urgent",
        allowed: "oob | pointer | inline | gap | drop",
        default: "oob",
        help: "the byte of a TCP segment with the flag URG that its stream excludes",
    },
    Key {
        name: "urgent_limit",
        allowed: "drop | inline | gap",
        default: "drop",
        help: "the action for urgent bytes beyond 65,535 of a direction",
    },
    Key {
        name: "vlan_tracking",
        allowed: "true or false",
        default: "true",
        help: "true separates flows and datagrams of different VLANs",
    },
    Key {
        name: "midstream",
        allowed: "true or false",
        default: "false",
        help: "true tracks TCP flows whose beginning was not seen",
    },
    Key {
        name: "flows",
        allowed: "64 to 16777216",
        default: "262144",
        help: "the most flows at once",
    },
    Key {
        name: "stream_memory_mib",
        allowed: "1 to 65536",
        default: "256",
        help: "memory for stream windows and out-of-order segments",
    },
    Key {
        name: "window_kib",
        allowed: "2 to 64",
        default: "4",
        help: "the part of each direction of a stream that rules see at once",
    },
    Key {
        name: "datagrams",
        allowed: "64 to 65536",
        default: "512",
        help: "the most datagrams reassembled at once",
    },
    Key {
        name: "xbits",
        allowed: "64 to 1048576",
        default: "65536",
        help: "the most xbits set at once",
    },
    Key {
        name: "thresholds",
        allowed: "64 to 16777216",
        default: "262144",
        help: "the most hosts and flows counted by thresholds at once",
    },
    Key {
        name: "eve",
        allowed: "a file, unix:PATH or tcp:HOST:PORT",
        default: "none, in addition to --alerts",
        help: "the output file for alerts as EVE JSON lines",
    },
    Key {
        name: "fast_log",
        allowed: "a file, unix:PATH or tcp:HOST:PORT",
        default: "none",
        help: "the output file for alerts, one line each",
    },
    Key {
        name: "hits",
        allowed: "a file",
        default: "none",
        help: "the output file for matches and alerts by rule, as JSON, written at the end",
    },
    Key {
        name: "payload",
        allowed: "0 to 2048",
        default: "0",
        help: "bytes of the payload in an EVE alert, in base64",
    },
    Key {
        name: "payload_printable",
        allowed: "0 to 2048",
        default: "0",
        help: "bytes of the payload in an EVE alert, as text",
    },
    Key {
        name: "packet",
        allowed: "0 to 2048",
        default: "0",
        help: "bytes of the frame in an EVE alert, in base64",
    },
    Key {
        name: "ether",
        allowed: "true or false",
        default: "false",
        help: "true adds the frame's Ethernet addresses to EVE alerts",
    },
    Key {
        name: "metadata",
        allowed: "true or false",
        default: "true",
        help: "true adds metadata, flowbits and flowints to EVE alerts",
    },
];

/// Which of overlapping bytes count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overlap {
    First,
    Last,
    Bsd,
    Linux,
    Windows,
    Solaris,
}

/// Which checksums of TCP are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checksum {
    Auto,
    Ignore,
    Check,
}

/// The parsed table, without its rule files.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Config {
    pub(super) is_strict: bool,
    pub(super) rules_min: usize,
    pub(super) matcher: Choice,
    pub(super) cache: Option<Cache>,
    pub(super) checksum: Checksum,
    pub(super) overlap: Overlap,
    pub(super) urgent: Urgent,
    pub(super) urgent_limit: UrgentLimit,
    pub(super) by_vlan: bool,
    pub(super) midstream: bool,
    pub(super) flows: usize,
    pub(super) stream_memory: usize,
    pub(super) window_len: usize,
    pub(super) datagrams: usize,
    pub(super) xbits: usize,
    pub(super) thresholds: usize,
    pub(super) eve: Option<Destination>,
    pub(super) fast_log: Option<Destination>,
    pub(super) hits: Option<Destination>,
    pub(super) reported: EveOptions,
}

impl Config {
    /// Bytes of the longest note of an alert.
    pub(super) fn note_len(&self) -> usize {
        Alert::LEN + self.reported.reported_len().iter().sum::<usize>()
    }
}

/// Parses the table except the rule files; mistakes are noted in the section.
pub(super) fn read(section: &mut Section<'_>) -> Config {
    let config = Config {
        is_strict: section.boolean("strict", false),
        rules_min: section.integer("rules_min", 0..=10_000_000, 0) as usize,
        matcher: section.choice("matcher", MATCHERS, Choice::Auto),
        cache: cache(section),
        checksum: section.choice("checksum", CHECKSUMS, Checksum::Auto),
        overlap: section.choice("overlap", OVERLAPS, Overlap::Windows),
        urgent: section.choice("urgent", URGENT, Urgent::default()),
        urgent_limit: section.choice("urgent_limit", URGENT_LIMITS, UrgentLimit::default()),
        by_vlan: section.boolean("vlan_tracking", true),
        midstream: section.boolean("midstream", false),
        flows: section.integer("flows", 64..=1 << 24, 1 << 18) as usize,
        stream_memory: (section.integer("stream_memory_mib", 1..=1 << 16, 256) as usize) << 20,
        window_len: (section.integer("window_kib", 2..=64, 4) as usize) << 10,
        datagrams: section.integer("datagrams", 64..=1 << 16, 512) as usize,
        xbits: section.integer("xbits", 64..=1 << 20, 1 << 16) as usize,
        thresholds: section.integer("thresholds", 64..=1 << 24, 1 << 18) as usize,
        eve: section.destination("eve"),
        fast_log: section.destination("fast_log"),
        hits: section.output("hits").map(Destination::File),
        reported: EveOptions {
            payload: section.integer("payload", 0..=2048, 0) as usize,
            payload_printable: section.integer("payload_printable", 0..=2048, 0) as usize,
            packet: section.integer("packet", 0..=2048, 0) as usize,
            ether: section.boolean("ether", false),
            metadata: section.boolean("metadata", true),
        },
    };
    let outputs = [("eve", &config.eve), ("fast_log", &config.fast_log), ("hits", &config.hits)];
    for (at, (name, path)) in outputs.iter().enumerate() {
        let other = outputs[..at].iter().find(|(_, other)| path.is_some() && other == path);
        if let Some((other, _)) = other {
            section.mistake(name, format!("`{name}` and `{other}` name the same file"));
        }
    }
    config
}

/// The folder for databases: the one of the table, or the user's own.
fn cache(section: &mut Section<'_>) -> Option<Cache> {
    match section.string("cache") {
        Some("") => None,
        Some(_) => section.output("cache").map(Cache::new),
        None => Cache::of_user(),
    }
}

const MATCHERS: &[(&str, Choice)] = &[
    ("auto", Choice::Auto),
    ("hyperscan", Choice::Hyperscan),
    ("dense", Choice::Dense),
    ("compact", Choice::Compact),
];
const URGENT: &[(&str, Urgent)] = &[
    ("oob", Urgent::OutOfBand),
    ("pointer", Urgent::Pointer),
    ("inline", Urgent::Inline),
    ("gap", Urgent::Gap),
    ("drop", Urgent::Drop),
];
const URGENT_LIMITS: &[(&str, UrgentLimit)] =
    &[("drop", UrgentLimit::Drop), ("inline", UrgentLimit::Inline), ("gap", UrgentLimit::Gap)];
const CHECKSUMS: &[(&str, Checksum)] =
    &[("auto", Checksum::Auto), ("ignore", Checksum::Ignore), ("check", Checksum::Check)];
const OVERLAPS: &[(&str, Overlap)] = &[
    ("first", Overlap::First),
    ("last", Overlap::Last),
    ("bsd", Overlap::Bsd),
    ("linux", Overlap::Linux),
    ("windows", Overlap::Windows),
    ("solaris", Overlap::Solaris),
];
