//! NAPT: many inside addresses share a few outside ones. The manual of the function follows.
//!
#![doc = include_str!("manual.md")]
#![forbid(unsafe_code)]

mod binding;
mod bindings;
mod config;
mod content;
mod conversations;
mod counters;
mod fixed_keys;
mod key;
mod keys;
mod port_bitmaps;
mod ports;
mod remarks;
mod remotes;
mod rules;
mod shard;
#[cfg(test)]
mod tests;

use core::any::Any;
use core::net::IpAddr;
use core::time::Duration;
use std::sync::Arc;

use warpline_packet::{
    Access, Batch, Field, FieldSet, ReadWrite, Reason, ScratchWord, Shard, StateKey,
};

pub use fixed_keys::SourceRule;
pub use rules::iptables::parse_iptables;
pub use rules::nft::parse_nft;
pub use rules::ports::RulePorts;
pub use rules::{NatRules, Translation};
pub use warpline_rewrite::PortRange;

use config::Config;
use shard::NatShard;
use warpline_nf::{Definition, Function, Kernels, Resources, Section, State, TableSize, Traits};
use warpline_rewrite::addresses::address_of;
use warpline_rewrite::{JointKey, PlaceWords, Refusals, SecondPlace, kernels, translate};

/// The function's manual.
pub const MANUAL: &str = include_str!("manual.md");

/// The function.
pub const DEFINITION: Definition = Definition {
    name: "nat",
    summary: "translates inside addresses and ports to outside ones and back (NAPT)",
    manual: MANUAL,
    has_kernels: true,
    keys: keys::KEYS,
    drops: Refusal::NAMES,
    counters: counters::COUNTERS,
    access: ACCESS,
    build,
    build_pair: Some(build_pair),
};

/// Why a packet is dropped; its number is its place in [`Refusal::NAMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    NoBinding,
    Filtered,
    PortsExhausted,
    TableFull,
    Hairpin,
    Fragment,
    UnsupportedProtocol,
    Multicast,
    BadQuote,
    Snapped,
    PerSource,
    Invalid,
    RemoteInUse,
}

impl Refusal {
    const NAMES: &[&str] = &[
        "no-binding",
        "filtered",
        "ports-exhausted",
        "table-full",
        "hairpin",
        "fragment",
        "unsupported-protocol",
        "multicast",
        "bad-quote",
        "snapped",
        "per-source",
        "invalid",
        "remote-in-use",
    ];
}

/// Fields of the two endpoints and of the checksums over them.
const REWRITTEN: FieldSet = FieldSet::of(&[
    Field::SrcAddr,
    Field::DstAddr,
    Field::SrcPort,
    Field::DstPort,
    Field::IcmpIdent,
    Field::IpChecksum,
    Field::L4Checksum,
    Field::Payload,
]);

const ACCESS: Access = Access {
    before: ReadWrite::new(
        FieldSet::of(&[
            Field::SrcAddr,
            Field::DstAddr,
            Field::IpProtocol,
            Field::IpIdent,
            Field::IpOptions,
            Field::SrcPort,
            Field::DstPort,
            Field::TcpFlags,
            Field::TcpSeq,
            Field::TcpAck,
            Field::TcpWindow,
            Field::TcpOptions,
            Field::IpLen,
            Field::Len,
            Field::IcmpType,
            Field::IcmpIdent,
            Field::Payload,
            Field::Timestamp,
        ])
        .union(FieldSet::HEADERS),
        FieldSet::of(&[Field::Verdict]),
    ),
    run: ReadWrite::new(
        REWRITTEN.union(FieldSet::HEADERS).union(FieldSet::of(&[
            Field::IcmpType,
            Field::IcmpCode,
            Field::IcmpSeq,
        ])),
        REWRITTEN,
    ),
    after: ReadWrite::NONE,
    after_flagged: ReadWrite::NONE,
    flagged_share: 0.0,
};

/// How often expired bindings are removed when no packet causes it.
const TICK: Duration = Duration::from_secs(1);

/// The only place, or the first of two.
struct Nat {
    config: Arc<Config>,
    words: PlaceWords,
    access: Access,
}

impl Nat {
    fn new(config: Config, words: PlaceWords) -> Self {
        let mut access = ACCESS;
        access.before.writes = access.before.writes | words.fields();
        access.run.reads = access.run.reads | words.first().fields();
        if config.asks_ports() {
            access.before.reads = access.before.reads.with(Field::Ingress);
        }
        Self { config: Arc::new(config), words, access }
    }
}

fn build(section: &mut Section<'_>, resources: &mut Resources) -> Option<Box<dyn Function>> {
    let config = config::read(section, resources)?;
    let words = PlaceWords::one(resources, config.has_v6, section)?;
    Some(Box::new(Nat::new(config, words)))
}

fn build_pair(
    section: &mut Section<'_>,
    resources: &mut Resources,
) -> Option<[Box<dyn Function>; 2]> {
    let config = config::read(section, resources)?;
    let words = PlaceWords::two(resources, config.has_v6, section)?;
    let refusals = Refusals {
        bad_quote: Reason(Refusal::BadQuote as u8),
        hidden: Reason(Refusal::UnsupportedProtocol as u8),
    };
    let second = SecondPlace::new(&words, ACCESS.run, true, refusals)?;
    Some([Box::new(Nat::new(config, words)), Box::new(second)])
}

impl Function for Nat {
    fn access(&self) -> &Access {
        &self.access
    }

    fn own_addresses(&self) -> Vec<(IpAddr, IpAddr)> {
        let shared = &self.config.key.outside;
        let ranges =
            |version| shared.ranges(version).map(move |(first, last)| (version, first, last));
        let mut all: Vec<(u8, u128, u128)> = [4, 6].into_iter().flat_map(ranges).collect();
        for own @ (version, first, last) in self.config.fixed.outside() {
            if !all.iter().any(|&(of, from, to)| of == version && from <= first && last <= to) {
                all.push(own);
            }
        }
        let range =
            |(version, first, last)| (address_of(version, first), address_of(version, last));
        all.into_iter().map(range).collect()
    }

    fn run(&self, batch: &mut Batch) {
        translate::run(batch, self.words.first());
    }

    fn kernels(&self) -> Option<Kernels> {
        Some(kernels::kernels(self.words.first(), true).declaring(self.kernel_access()))
    }

    fn kernel_access(&self) -> ReadWrite {
        kernels::access(self.access.run)
    }

    fn state_key(&self) -> StateKey {
        JointKey::of_translator(self.config.key.clone()).state_key()
    }

    fn state(&self, shard: Shard) -> State {
        State::before(NatShard::new(&self.config, self.words.clone(), shard))
    }

    fn follows_first_fragment(&self) -> bool {
        true
    }

    fn change_words(&self) -> &[ScratchWord] {
        self.words.change_words()
    }

    fn traits(&self) -> Traits {
        Traits { translates: true, ..Traits::NONE }
    }

    fn tables(&self) -> Vec<TableSize> {
        vec![TableSize::divided("bindings", self.config.bindings)]
    }

    /// The file of its rules may be the firewall's, too, and change for that one alone.
    fn succeeds(&self, old: &dyn Function) -> Result<(), String> {
        match (old as &dyn Any).downcast_ref::<Self>() {
            Some(old) if old.config.is_like(&self.config) && old.words == self.words => Ok(()),
            Some(_) => Err("its translations can't be changed while packets flow".into()),
            None => Err("it is another function".into()),
        }
    }

    fn tick(&self) -> Option<Duration> {
        Some(TICK)
    }
}
