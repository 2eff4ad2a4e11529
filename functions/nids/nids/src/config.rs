//! The function's table in the chain file: what was typed, and what it means.

use std::path::PathBuf;

use super::report::{Alert, EveOptions};
use warpline_nf::{Key, Section};
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
        help: "what $NAME stands for in rules: addresses or ports as in a rule's header",
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
        help: "a rule that is wrong is a mistake: nothing starts, and on a reload the rules before go on",
    },
    Key {
        name: "rules_min",
        allowed: "0 to 10000000",
        default: "0",
        help: "how many rules have to be active, or nothing starts",
    },
    Key {
        name: "matcher",
        allowed: "auto | hyperscan | dense | compact",
        default: "auto",
        help: "what looks for literals; auto: Hyperscan where it is installed, else by the number of literals",
    },
    Key {
        name: "cache",
        allowed: "a folder",
        default: "$XDG_CACHE_HOME/warpline or ~/.cache/warpline",
        help: "where Hyperscan's databases are kept, as they take seconds to be made; \"\" for nowhere",
    },
    Key {
        name: "checksum",
        allowed: "auto | ignore | check",
        default: "auto",
        help: "check: streams lack TCP packets with wrong checksums; auto: unless those are usual",
    },
    Key {
        name: "overlap",
        allowed: "windows | bsd | linux | solaris | first | last",
        default: "windows",
        help: "which of overlapping TCP segments and fragments count, as the protected hosts do it",
    },
    Key {
        name: "urgent",
        allowed: "oob | pointer | inline | gap | drop",
        default: "oob",
        help: "which byte of a TCP segment with the flag URG is not of its stream",
    },
    Key {
        name: "urgent_limit",
        allowed: "drop | inline | gap",
        default: "drop",
        help: "what is done with urgent bytes beyond 65,535 of a direction",
    },
    Key {
        name: "vlan_tracking",
        allowed: "true or false",
        default: "true",
        help: "what is in different VLANs is of different flows and datagrams",
    },
    Key {
        name: "midstream",
        allowed: "true or false",
        default: "false",
        help: "a TCP flow whose beginning was not seen counts as established",
    },
    Key {
        name: "flows",
        allowed: "64 to 16777216",
        default: "262144",
        help: "flows that there may be at once",
    },
    Key {
        name: "stream_memory_mib",
        allowed: "1 to 65536",
        default: "256",
        help: "memory of streams' windows and of segments that wait for others",
    },
    Key {
        name: "window_kib",
        allowed: "2 to 64",
        default: "4",
        help: "how much of each direction of a stream rules see at once",
    },
    Key {
        name: "datagrams",
        allowed: "64 to 65536",
        default: "512",
        help: "fragmented datagrams that may be put together at once",
    },
    Key {
        name: "xbits",
        allowed: "64 to 1048576",
        default: "65536",
        help: "xbits that may be set at once",
    },
    Key {
        name: "thresholds",
        allowed: "64 to 16777216",
        default: "262144",
        help: "hosts and flows that thresholds may count for at once",
    },
    Key {
        name: "eve",
        allowed: "a file",
        default: "none, besides what --alerts names",
        help: "where alerts are written as JSON lines in EVE's form",
    },
    Key {
        name: "fast_log",
        allowed: "a file",
        default: "none",
        help: "where alerts are written as a line each",
    },
    Key {
        name: "hits",
        allowed: "a file",
        default: "none",
        help: "where matches and alerts by rule are written as JSON at the end",
    },
    Key {
        name: "payload",
        allowed: "0 to 2048",
        default: "0",
        help: "bytes of the payload that an alert in EVE's form holds, in base 64",
    },
    Key {
        name: "payload_printable",
        allowed: "0 to 2048",
        default: "0",
        help: "bytes of the payload that an alert in EVE's form holds, as text",
    },
    Key {
        name: "packet",
        allowed: "0 to 2048",
        default: "0",
        help: "bytes of the frame that an alert in EVE's form holds, in base 64",
    },
    Key {
        name: "ether",
        allowed: "true or false",
        default: "false",
        help: "an alert in EVE's form holds the frame's Ethernet addresses",
    },
    Key {
        name: "metadata",
        allowed: "true or false",
        default: "true",
        help: "an alert in EVE's form holds metadata, flowbits and flowints",
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

/// What the table means, its rule files aside.
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
    pub(super) eve: Option<PathBuf>,
    pub(super) fast_log: Option<PathBuf>,
    pub(super) hits: Option<PathBuf>,
    pub(super) told: EveOptions,
}

impl Config {
    /// Bytes of the longest note of an alert.
    pub(super) fn note_len(&self) -> usize {
        Alert::LEN + self.told.told_len().iter().sum::<usize>()
    }
}

/// Reads all but the rule files; mistakes are noted in the section.
pub(super) fn read(section: &mut Section<'_>) -> Config {
    section.refuse_unknown(KEYS);
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
        eve: section.output("eve"),
        fast_log: section.output("fast_log"),
        hits: section.output("hits"),
        told: EveOptions {
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

/// Where databases are kept: as the table says, or the user's own.
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
