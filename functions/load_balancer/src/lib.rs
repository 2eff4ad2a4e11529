//! Load balancing over backends: Maglev tables and connections. The manual of the function follows.
//!
#![doc = include_str!("manual.md")]
#![forbid(unsafe_code)]

mod balance;
mod config;
mod connections;
mod counters;
mod directory;
mod encap;
mod flow;
mod former;
mod fragments;
mod hash;
mod kernels;
mod maglev;
mod services;
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

pub use config::Mode;
pub use services::{Backend, SERVICES_MAX, Service, ServiceFile, VIPS_MAX};

use config::Config;
use shard::BalancerShard;
use warpline_nf::{
    Definition, Function, Growth, Kernels, Resources, Section, State, TableSize, Traits,
};
use warpline_rewrite::addresses::address_of;
use warpline_rewrite::translate;
use warpline_rewrite::{JointKey, PlaceWords, Refusals, SecondPlace};
use warpline_tables::keyed::HashKey;

/// The function's manual.
pub const MANUAL: &str = include_str!("manual.md");

/// The function.
pub const DEFINITION: Definition = Definition {
    name: "load_balancer",
    summary: "spreads connections to VIPs over backends (Maglev): DNAT, IP in IP, or by MAC",
    manual: MANUAL,
    has_kernels: true,
    keys: config::KEYS,
    drops: Refusal::NAMES,
    counters: counters::COUNTERS,
    access: access(RUN_DNAT),
    build,
    build_pair: Some(build_pair),
};

/// Why a packet is dropped; its number is its place in [`Refusal::NAMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    NoBackend,
    NoVip,
    TableFull,
    Conflict,
    Hairpin,
    Fragment,
    NoConnection,
    BadQuote,
    Snapped,
    TooLong,
    Link,
    PerSource,
    UnsupportedProtocol,
}

impl Refusal {
    const NAMES: &[&str] = &[
        "no-backend",
        "no-vip",
        "table-full",
        "conflict",
        "hairpin",
        "fragment",
        "no-connection",
        "bad-quote",
        "snapped",
        "too-long",
        "link",
        "per-source",
        "unsupported-protocol",
    ];
}

const fn access(run: ReadWrite) -> Access {
    let before = ReadWrite::new(
        FieldSet::of(&[
            Field::SrcAddr,
            Field::DstAddr,
            Field::IpLen,
            Field::IpIdent,
            // Where a header says no length.
            Field::Len,
            Field::IpProtocol,
            Field::IpOptions,
            Field::SrcPort,
            Field::DstPort,
            Field::TcpFlags,
            Field::IcmpType,
            Field::Payload,
            Field::Timestamp,
        ])
        .union(FieldSet::HEADERS),
        FieldSet::of(&[Field::Verdict]),
    );
    Access { before, ..Access::run_only(run) }
}

/// Fields of the two endpoints and of the checksums over them.
const REWRITTEN: FieldSet = FieldSet::of(&[
    Field::SrcAddr,
    Field::DstAddr,
    Field::SrcPort,
    Field::DstPort,
    Field::IpChecksum,
    Field::L4Checksum,
    Field::Payload,
]);
const RUN_DNAT: ReadWrite = ReadWrite::new(REWRITTEN.union(FieldSet::HEADERS), REWRITTEN);
const RUN_IPIP: ReadWrite = ReadWrite::new(
    FieldSet::of(&[
        Field::TrafficClass,
        Field::IpLen,
        Field::IpIdent,
        Field::IpFragment,
        Field::FlowHash,
    ])
    .union(FieldSet::PARSED)
    .union(FieldSet::GEOMETRY),
    FieldSet::FRAME.union(FieldSet::GEOMETRY).with(Field::Verdict),
);
const RUN_MAC: ReadWrite =
    ReadWrite::new(FieldSet::HEADERS, FieldSet::of(&[Field::EthDst, Field::EthSrc]));

/// How often expired connections are removed when no packet causes it.
const TICK: Duration = Duration::from_secs(1);

/// Where an instance stands in its chain.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    /// At its only place.
    Only,
    /// At the first of two, which chooses backends and rewrites destinations.
    First,
    /// At the second of two, which puts packets into others or gives them Ethernet addresses. With
    /// DNAT that place is a [`SecondPlace`].
    Second,
}

struct LoadBalancer {
    config: Arc<Config>,
    at: At,
    words: PlaceWords,
    /// Decides which of two fragmented packets is remembered.
    fragment_key: HashKey,
    access: Access,
}

impl LoadBalancer {
    fn new(config: &Arc<Config>, words: PlaceWords, at: At, fragment_key: HashKey) -> Self {
        let run = match config.fixed.mode {
            Mode::Dnat => RUN_DNAT,
            _ if at == At::First => ReadWrite::NONE,
            Mode::Ipip => RUN_IPIP,
            Mode::Mac => RUN_MAC,
        };
        let mut access = access(run);
        access.before.writes = access.before.writes | words.fields();
        if run != ReadWrite::NONE {
            access.run.reads = access.run.reads | words.first().fields();
        }
        if at == At::Second {
            access.before = ReadWrite::NONE;
        }
        Self { config: Arc::clone(config), at, words, fragment_key, access }
    }
}

fn build(section: &mut Section<'_>, resources: &mut Resources) -> Option<Box<dyn Function>> {
    let config = Arc::new(config::read(section, resources)?);
    let words = PlaceWords::one(resources, config.has_v6, section)?;
    Some(Box::new(LoadBalancer::new(&config, words, At::Only, fragment_key(resources))))
}

fn fragment_key(resources: &Resources) -> HashKey {
    HashKey::of_seed(resources.seed(), 3)
}

fn build_pair(
    section: &mut Section<'_>,
    resources: &mut Resources,
) -> Option<[Box<dyn Function>; 2]> {
    let config = Arc::new(config::read(section, resources)?);
    if config.fixed.mode != Mode::Dnat {
        let words = PlaceWords::one(resources, config.has_v6, section)?;
        let place = |at| LoadBalancer::new(&config, words.clone(), at, fragment_key(resources));
        return Some([Box::new(place(At::First)), Box::new(place(At::Second))]);
    }
    let words = PlaceWords::two(resources, config.has_v6, section)?;
    let refusals = Refusals {
        bad_quote: Reason(Refusal::BadQuote as u8),
        hidden: Reason(Refusal::UnsupportedProtocol as u8),
    };
    let second = SecondPlace::new(&words, RUN_DNAT, false, refusals)?;
    let first = LoadBalancer::new(&config, words, At::First, fragment_key(resources));
    Some([Box::new(first), Box::new(second)])
}

impl Function for LoadBalancer {
    fn access(&self) -> &Access {
        &self.access
    }

    fn own_addresses(&self) -> Vec<(IpAddr, IpAddr)> {
        let vips = self.config.directory.vip_addresses();
        vips.map(|(version, number)| address_of(version, number)).map(|vip| (vip, vip)).collect()
    }

    fn run(&self, batch: &mut Batch) {
        let words = self.words.first();
        match self.config.fixed.mode {
            Mode::Dnat => translate::run(batch, words),
            _ if self.at == At::First => {}
            Mode::Ipip => encap::tunnel(batch, words, self.config.source),
            Mode::Mac => encap::readdress(batch, words, self.config.mac),
        }
    }

    fn kernels(&self) -> Option<Kernels> {
        if self.at == At::First && self.config.fixed.mode != Mode::Dnat {
            return None;
        }
        let kernels = kernels::kernels(&self.config, self.words.first());
        Some(kernels.declaring(self.kernel_access()))
    }

    fn kernel_access(&self) -> ReadWrite {
        match self.config.fixed.mode {
            Mode::Dnat => warpline_rewrite::kernels::access(self.access.run),
            Mode::Ipip | Mode::Mac => self.access.run,
        }
    }

    /// Only DNAT sees what comes back, from another address than the client sent to.
    fn state_key(&self) -> StateKey {
        match &self.config.key {
            _ if self.at == At::Second => StateKey::None,
            Some(key) => JointKey::of_balancer(key.clone()).state_key(),
            None => StateKey::AddressPair,
        }
    }

    fn state(&self, shard: Shard) -> State {
        match self.at {
            At::Second => State::NONE,
            At::Only | At::First => {
                let (words, key) = (self.words.clone(), self.fragment_key);
                State::before(BalancerShard::new(&self.config, words, shard, key))
            }
        }
    }

    fn follows_first_fragment(&self) -> bool {
        self.at != At::Second
    }

    /// A packet that got another Ethernet address shows nothing of it in a quote.
    fn change_words(&self) -> &[ScratchWord] {
        match self.config.fixed.mode {
            Mode::Mac => &[],
            Mode::Dnat | Mode::Ipip => self.words.change_words(),
        }
    }

    fn carried_words(&self) -> &[ScratchWord] {
        self.words.change_words()
    }

    fn traits(&self) -> Traits {
        let mode = self.config.fixed.mode;
        let wraps = mode == Mode::Ipip && self.at != At::First;
        Traits { translates: mode == Mode::Dnat, wraps, ..Traits::NONE }
    }

    fn growth(&self) -> Growth {
        match self.config.fixed.mode {
            _ if self.at == At::First => Growth::NONE,
            Mode::Ipip => Growth { head: encap::outer_len(6), tail: 0 },
            Mode::Dnat | Mode::Mac => Growth::NONE,
        }
    }

    fn lengthens(&self, _: usize) -> [i32; 2] {
        match self.config.fixed.mode {
            _ if self.at == At::First => [0; 2],
            Mode::Ipip => [encap::outer_len(4) as i32, 0],
            Mode::Dnat | Mode::Mac => [0; 2],
        }
    }

    fn succeeds(&self, old: &dyn Function) -> Result<(), String> {
        let Some(old) = (old as &dyn Any).downcast_ref::<Self>() else {
            return Err("it is another function".into());
        };
        if self.config.fixed != old.config.fixed {
            let keys = "`mode`, `connections`, `per_source_max`, `table_size` and timeouts";
            return Err(format!("{keys} can't be changed while packets flow"));
        }
        if self.config.key != old.config.key {
            return Err("VIPs and backends have other addresses than before: a chain that is to \
                        take new ones while packets flow names them in `addresses`"
                .into());
        }
        if self.words != old.words {
            return Err("IPv6 can't come in or go while packets flow".into());
        }
        Ok(())
    }

    fn tables(&self) -> Vec<TableSize> {
        match self.at {
            At::Second => Vec::new(),
            _ => vec![TableSize::divided("connections", self.config.fixed.connections)],
        }
    }

    fn tick(&self) -> Option<Duration> {
        (self.at != At::Second).then_some(TICK)
    }
}
