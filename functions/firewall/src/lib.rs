//! Firewall: accepts or drops packets by rules, statelessly or with connections.
#![doc = ""]
#![doc = include_str!("manual.txt")]
#![forbid(unsafe_code)]

mod connections;
mod counters;
mod flow_key;
mod kernels;
mod progress;
mod quoted;
mod rule_set;
mod rule_source;
#[cfg(test)]
mod tests;
mod tracker;
mod ways;

use core::any::Any;
use core::time::Duration;
use std::sync::Arc;

use warpline_packet::{
    Access, Batch, Field, FieldSet, Packet, ReadWrite, Reason, ScratchWord, Shard, StateKey,
};

use self::connections::Connections;
use self::progress::TIMEOUTS;
use self::tracker::{Standing, Tracker};
use warpline_nf::{
    Definition, Function, HopPorts, Kernels, Key, Resources, Section, State, TableSize, Traits,
};
use warpline_rewrite::fragments::Fragments;
use warpline_rule_files::Action;
use warpline_tables::keyed::HashKey;
use warpline_tables::tcp::{self, PickUp, Windows};

pub use self::rule_set::{Decision, Policy, RuleSet};

/// The manual.
pub const MANUAL: &str = include_str!("manual.txt");

/// The function `firewall`.
pub const DEFINITION: Definition = Definition {
    name: "firewall",
    summary: "accepts or drops packets by rules, first match, with or without connections",
    manual: MANUAL,
    has_kernels: true,
    keys: KEYS,
    drops: &[
        "rule",
        "default",
        "non-ip",
        "fragment",
        "snapped",
        "invalid",
        "table-full",
        "per-source",
    ],
    counters: counters::COUNTERS,
    access: TRACKED,
    build: |section, resources| Some(Box::new(Firewall::build(section, resources)?)),
    build_pair: None,
};

const RULE: Reason = Reason(0);
const DEFAULT: Reason = Reason(1);
const NON_IP: Reason = Reason(2);
const FRAGMENT: Reason = Reason(3);
const SNAPPED: Reason = Reason(4);
const INVALID: Reason = Reason(5);
const TABLE_FULL: Reason = Reason(6);
const PER_SOURCE: Reason = Reason(7);

/// The fields that the rules read.
const READS: FieldSet = FieldSet::of(&[
    Field::L3Offset,
    Field::L4Offset,
    Field::Kind,
    Field::Len,
    Field::Verdict,
    Field::SrcAddr,
    Field::DstAddr,
    Field::SrcPort,
    Field::DstPort,
    Field::TcpFlags,
    Field::IcmpType,
    Field::IcmpCode,
    Field::IpFragment,
    Field::IpOptions,
]);
const STATELESS: Access =
    Access::run_only(ReadWrite::new(READS, FieldSet::EMPTY.with(Field::Verdict)));
/// The field that gives a later fragment's offset in IPv4. Only `run` reads it.
const PLACED: FieldSet = FieldSet::of(&[Field::IpFragment]);
/// Tracking reads the numbers of TCP, the identifier of an echo, the packet that an error quotes
/// and the key of a fragment. The IP header has the length of a segment that the capture cut.
const TRACKED: Access = Access {
    before: ReadWrite::new(
        READS.without(PLACED).union(FieldSet::of(&[
            Field::Timestamp,
            Field::PayloadOffset,
            Field::IpLen,
            Field::IpIdent,
            Field::IpProtocol,
            Field::TcpSeq,
            Field::TcpAck,
            Field::TcpWindow,
            Field::TcpOptions,
            Field::IcmpIdent,
            Field::Payload,
        ])),
        FieldSet::EMPTY,
    ),
    ..STATELESS
};

struct Firewall {
    rules: Arc<RuleSet>,
    tracking: Option<Tracking>,
    /// Decides which of two fragmented packets is remembered.
    fragment_key: HashKey,
    access: Access,
}

/// The input of tracking.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Tracking {
    word: ScratchWord,
    connections: usize,
    /// Connections that one source may have in a shard; 0: any number.
    per_source: u32,
    timeouts: [Duration; TIMEOUTS],
    tcp: tcp::Policy,
}

impl Function for Firewall {
    fn access(&self) -> &Access {
        &self.access
    }

    fn run(&self, batch: &mut Batch) {
        match &self.tracking {
            None => self.judge(batch, |_| Standing::New),
            Some(Tracking { word, .. }) => {
                self.judge(batch, |packet| Standing::from_word(packet.scratch(*word)));
            }
        }
    }

    /// Without extension headers: packets that hang on them are left to the CPU.
    fn kernel_access(&self) -> ReadWrite {
        let ReadWrite { reads, writes } = self.access.run;
        ReadWrite::new(reads & !FieldSet::of(&[Field::IpOptions]), writes)
    }

    fn kernels(&self) -> Option<Kernels> {
        Some(kernels::kernels(self).declaring(self.kernel_access()))
    }

    fn state_key(&self) -> StateKey {
        if self.tracking.is_some() { StateKey::AddressPair } else { StateKey::None }
    }

    fn traits(&self) -> Traits {
        Traits { tracks: self.tracking.is_some(), ..Traits::NONE }
    }

    fn state(&self, shard: Shard) -> State {
        let Some(tracking) = &self.tracking else { return State::NONE };
        let Tracking { per_source, timeouts, .. } = *tracking;
        let connections = Connections::new(shard.share(tracking.connections), per_source, timeouts);
        let rules = Arc::clone(&self.rules);
        let fragments = Fragments::new(shard, self.fragment_key);
        State::before(Tracker::new(rules, connections, fragments, *tracking))
    }

    fn follows_first_fragment(&self) -> bool {
        // Whatever `fragments` says, which a reload may change.
        self.tracking.is_some()
    }

    fn tables(&self) -> Vec<TableSize> {
        let tracking = self.tracking.iter();
        tracking.map(|own| TableSize::divided("connections", own.connections)).collect()
    }

    fn with_hop_ports(&self, hops: &HopPorts) -> Option<Box<dyn Function>> {
        let rules = Arc::new(self.rules.with_hop_ports(hops)?);
        let Self { tracking, fragment_key, access, .. } = *self;
        Some(Box::new(Self { rules, tracking, fragment_key, access }))
    }

    fn succeeds(&self, old: &dyn Function) -> Result<(), String> {
        match (old as &dyn Any).downcast_ref::<Self>() {
            Some(old) if old.tracking == self.tracking => Ok(()),
            Some(_) => {
                Err("its tracking of connections can't be changed while packets flow".into())
            }
            None => Err("it replaces another function".into()),
        }
    }

    fn tick(&self) -> Option<Duration> {
        self.tracking.map(|_| Duration::from_secs(1))
    }
}

/// Drops or rejects a packet that isn't to go on.
#[inline]
fn settle(batch: &mut Batch, index: usize, decision: Decision, standing: Standing) {
    let mut packet = batch.packet_mut(index);
    packet.drop(match (decision, standing) {
        (Decision::Malformed, _) => {
            packet.reject_malformed();
            return;
        }
        (_, Standing::Invalid) => INVALID,
        (_, Standing::TableFull) => TABLE_FULL,
        (_, Standing::PerSource) => PER_SOURCE,
        (_, Standing::FirstRefused) => FRAGMENT,
        (Decision::NonIp, _) => NON_IP,
        (Decision::Fragment, _) => FRAGMENT,
        (Decision::Snapped, _) => SNAPPED,
        (Decision::Rule, _) => RULE,
        (Decision::Default | Decision::Accept, _) => DEFAULT,
    });
}

impl Firewall {
    #[inline(always)]
    fn judge(&self, batch: &mut Batch, standing: impl Fn(&Packet<'_>) -> Standing) {
        for index in 0..batch.len() {
            if !batch.is_forward(index) {
                continue;
            }
            let packet = batch.packet(index);
            let standing = standing(&packet);
            let decision = self.rules.decide(&packet, standing == Standing::Established);
            if decision != Decision::Accept || !standing.is_judged() {
                settle(batch, index, decision, standing);
            }
        }
    }

    fn build(section: &mut Section<'_>, resources: &mut Resources) -> Option<Self> {
        let established = section.boolean("established", false);
        let policy = policy(section, established);
        let tracking = established.then(|| tracking(section, resources));
        if !established {
            refuse_without_tracking(section);
        }
        let rules = Arc::new(rule_source::read(section, resources, policy)?);
        let tracking = match tracking {
            Some(tracking) => Some(tracking?),
            None => None,
        };
        let mut access = tracking.map_or(STATELESS, |tracking| with_word(tracking.word));
        if let Some(ways) = rules.ways() {
            access.run.reads = access.run.reads | ways.reads();
            if tracking.is_some() {
                access.before.reads = access.before.reads | ways.reads();
            }
        }
        let fragment_key = HashKey::of_seed(resources.seed(), 2);
        Some(Self { rules, tracking, fragment_key, access })
    }
}

fn with_word(word: ScratchWord) -> Access {
    let mut access = TRACKED;
    access.before.writes = access.before.writes.with(word.field());
    access.run.reads = access.run.reads.with(word.field());
    access
}

const ACTIONS: &[(&str, Action)] = &[("drop", Action::Drop), ("accept", Action::Accept)];

fn policy(section: &mut Section<'_>, tracked: bool) -> Policy {
    Policy {
        default: section.choice("default", ACTIONS, Action::Drop),
        non_ip: section.choice("non_ip", ACTIONS, Action::Drop),
        drop_fragments: section.choice("fragments", &[("rules", false), ("drop", true)], false),
        tracked,
    }
}

fn tracking(section: &mut Section<'_>, resources: &mut Resources) -> Option<Tracking> {
    let connections = section.integer("connections", 64..=1 << 24, 262_144) as usize;
    let per_source = section.integer("per_source_max", 0..=1 << 24, 0) as u32;
    let tcp = tcp_policy(section);
    let timeouts = TIMEOUT_KEYS
        .map(|(key, default)| Duration::from_secs(section.integer(key, 1..=31_536_000, default)));
    let Some([word]) = resources.scratch() else {
        section.mistake("established", "the chain has no scratch word left for tracking");
        return None;
    };
    Some(Tracking { word, connections, per_source, timeouts, tcp })
}

fn tcp_policy(section: &mut Section<'_>) -> tcp::Policy {
    let windows = section.choice("tcp_window", WINDOWS, Windows::Strict);
    let is_loose = section.boolean("tcp_loose", false);
    let is_one_sided = section.boolean("tcp_one_sided", false);
    let pick_up = match (is_loose, is_one_sided) {
        (_, true) => PickUp::OneSided,
        (true, false) => PickUp::FromAck,
        (false, false) => PickUp::Never,
    };
    tcp::Policy { windows, pick_up }
}

const WINDOWS: &[(&str, Windows)] = &[("strict", Windows::Strict), ("liberal", Windows::Liberal)];

/// In the order of [`progress::ConnectionKind`]'s timeouts.
const TIMEOUT_KEYS: [(&str, u64); TIMEOUTS] = [
    ("tcp_syn_s", 60),
    ("tcp_established_s", 7440),
    ("tcp_fin_s", 120),
    ("tcp_close_s", 10),
    ("udp_s", 30),
    ("udp_stream_s", 180),
    ("icmp_s", 30),
    ("other_s", 600),
];

/// Keys of tracking that would do nothing.
fn refuse_without_tracking(section: &mut Section<'_>) {
    let keys = TIMEOUT_KEYS.iter().map(|&(key, _)| key).chain([
        "connections",
        "per_source_max",
        "tcp_window",
        "tcp_loose",
        "tcp_one_sided",
    ]);
    for key in keys {
        if section.has(key) {
            section.mistake(key, format!("`{key}` requires established = true"));
        }
    }
}

const KEYS: &[Key] = &[
    key(
        "rules",
        "a file",
        "required",
        "the rules, in lines, ClassBench, iptables-save or nft format",
    ),
    key("rules_v6", "a file", "none", "the rules of ip6tables-save"),
    key("format", "auto | lines | classbench | iptables | nft", "auto", "the format of the rules"),
    key(
        "chain",
        "a chain",
        "the forward chain",
        "the chain where packets enter, with iptables or nft",
    ),
    key("classbench_action", "accept | drop", "accept", "the action of ClassBench filters"),
    key("unsupported", "error | skip", "error", "unsupported rules: an error, or skipped"),
    key("default", "drop | accept", "drop", "packets that match no rule"),
    key("non_ip", "drop | accept", "drop", "packets that are not IP, such as ARP"),
    key("fragments", "rules | drop", "rules", "later fragments"),
    key(
        "established",
        "true | false",
        "false",
        "true tracks connections and accepts their packets",
    ),
    key("connections", "64 to 16777216", "262144", "connections tracked at once"),
    key(
        "per_source_max",
        "0 to 16777216",
        "0",
        "connections of one source in a shard; 0: no limit",
    ),
    key(
        "tcp_window",
        "strict | liberal",
        "strict",
        "strict drops TCP outside the windows; liberal only resets",
    ),
    key("tcp_loose", "true | false", "false", "true lets an ACK start a connection"),
    key(
        "tcp_one_sided",
        "true | false",
        "false",
        "true tracks connections of which only one side is seen",
    ),
    key("tcp_syn_s", SECONDS, "60", "timeout during the handshake"),
    key("tcp_established_s", SECONDS, "7440", "timeout of established TCP"),
    key("tcp_fin_s", SECONDS, "120", "timeout after FIN from one side"),
    key("tcp_close_s", SECONDS, "10", "timeout after FIN from both sides, or RST"),
    key("udp_s", SECONDS, "30", "timeout of UDP without a reply"),
    key("udp_stream_s", SECONDS, "180", "timeout of UDP with a reply"),
    key("icmp_s", SECONDS, "30", "timeout of ICMP echoes"),
    key("other_s", SECONDS, "600", "timeout of other protocols"),
];

const SECONDS: &str = "1 to 31536000";

const fn key(
    name: &'static str,
    allowed: &'static str,
    default: &'static str,
    help: &'static str,
) -> Key {
    Key { name, allowed, default, help }
}
