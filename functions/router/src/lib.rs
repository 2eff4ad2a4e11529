//! The network function `router`, for IPv4 and IPv6.
//!
#![doc = include_str!("manual.md")]
#![forbid(unsafe_code)]

use std::any::Any;
use std::sync::Arc;

use warpline_packet::{Access, Batch, Field, FieldSet, ReadWrite, Reason, Shard};

use warpline_nf::{Definition, Emits, Function, HopPorts, Kernels, State, Traits};
use warpline_rewrite::icmp_errors::{self, Errors};

mod checks;
mod config;
mod counters;
mod dir24_8;
mod fib;
mod fib4;
mod forward;
pub mod full_table;
mod icmp;
mod kernel_routes;
mod kernels;
pub mod mrt;
mod mrt_path;
mod options;
mod poptrie;
mod route_line;
pub mod routes;

pub use dir24_8::{Dir24_8, Entry, Rule4, TooNarrow};
pub use fib4::Fib4;
pub use poptrie::{Node, Poptrie, Rule6};

use checks::Checks;
use fib::Fib;
use forward::WAVE;
use kernel_routes::{KernelRoutes, Tables};
use warpline_rule_files::neighbours::Mac;

/// The function's name, keys, counters and access.
pub const DEFINITION: Definition = Definition {
    name: "router",
    summary: "forwards IPv4 and IPv6 by longest match; TTL, Ethernet addresses, ICMP errors",
    manual: include_str!("manual.md"),
    has_kernels: true,
    keys: config::KEYS,
    drops: DROPS,
    counters: counters::COUNTERS,
    access: Access { run: ReadWrite::new(READS, WRITES), ..ACCESS },
    build: config::build,
    build_pair: Some(config::build_pair),
};

const DROPS: &[&str] = &[
    "no-route",
    "ttl-exceeded",
    "non-ip",
    "snapped",
    "blackhole",
    "unreachable",
    "prohibited",
    "no-neighbour",
    "unsupported-route",
    "martian-source",
    "martian-destination",
    "multicast",
    "link-broadcast",
    "bad-checksum",
    "bad-options",
    "source-route",
    "directed-broadcast",
];

/// Fields that decide whether a packet may be forwarded.
const CHECKED: FieldSet = FieldSet::of(&[
    Field::EthDst,
    Field::TrafficClass,
    Field::IpLen,
    Field::IpIdent,
    Field::IpFragment,
    Field::Ttl,
    Field::IpProtocol,
    Field::IpChecksum,
    Field::SrcAddr,
    Field::DstAddr,
])
.union(LEFT);
/// Fields that only the CPU reads, in packets that kernels leave to it.
const LEFT: FieldSet = FieldSet::of(&[Field::IpOptions, Field::Remainder]);
const READS: FieldSet = CHECKED.union(FieldSet::of(&[
    Field::Kind,
    Field::Len,
    Field::L3Offset,
    Field::L4Offset,
    Field::PayloadOffset,
    Field::NextHop,
]));
const WRITES: FieldSet = FieldSet::of(&[
    Field::Ttl,
    Field::IpChecksum,
    Field::NextHop,
    Field::Verdict,
    Field::EthDst,
    Field::EthSrc,
    Field::Flagged,
]);
const ACCESS: Access = Access {
    after: ReadWrite::new(FieldSet::of(&[Field::Flagged]), FieldSet::EMPTY),
    after_flagged: ReadWrite::new(
        FieldSet::FRAME.union(FieldSet::HEADERS).union(FieldSet::of(&[
            Field::Len,
            Field::Timestamp,
            Field::Ingress,
            Field::Verdict,
        ])),
        FieldSet::EMPTY,
    ),
    flagged_share: 0.001,
    ..Access::run_only(ReadWrite::NONE)
};

/// Which packets a place of the router sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sends {
    /// All, each with one TTL less.
    All,
    /// Those that have got an outer header since the first place, with their TTL as it is.
    Wrapped,
}

#[derive(Clone)]
struct Router {
    fib: Arc<Fib>,
    sends: Sends,
    mac: Option<Mac>,
    icmp: Option<icmp_errors::Config>,
    checks: Checks,
    access: Access,
    /// The number that next hop 0 of `fib` has in packets.
    first_hop: u16,
    /// The port of each next hop, in a chain with ports.
    hop_ports: Option<HopPorts>,
    /// The routes that it follows.
    kernel: Option<Arc<KernelRoutes>>,
}

impl Function for Router {
    fn access(&self) -> &Access {
        &self.access
    }

    fn run(&self, batch: &mut Batch) {
        for start in (0..batch.len()).step_by(WAVE) {
            self.run_wave(batch, start..(start + WAVE).min(batch.len()));
        }
    }

    fn kernels(&self) -> Option<Kernels> {
        Some(kernels::kernels(self).declaring(self.kernel_access()))
    }

    /// Without what lies in packets that kernels leave to the CPU.
    fn kernel_access(&self) -> ReadWrite {
        let ReadWrite { reads, writes } = self.access.run;
        let left = LEFT.union(FieldSet::of(&[Field::L4Offset, Field::PayloadOffset]));
        ReadWrite::new(reads & !left, writes)
    }

    fn traits(&self) -> Traits {
        Traits { routes: true, ..Traits::NONE }
    }

    fn state(&self, _: Shard) -> State {
        let answers = |config| icmp::Answers::new(Errors::new(config), &self.fib);
        self.icmp.map_or(State::NONE, |config| State::after(answers(config)))
    }

    fn succeeds(&self, old: &dyn Function) -> Result<(), String> {
        let Some(old) = (old as &dyn Any).downcast_ref::<Self>() else {
            return Err("it replaces another function".into());
        };
        if old.icmp != self.icmp {
            return Err("its ICMP errors can't be changed while packets flow".into());
        }
        if old.mac.is_some() != self.mac.is_some() {
            return Err("`mac` can't come or go while packets flow".into());
        }
        Ok(())
    }

    fn renewed(&self, report: &mut dyn FnMut(String)) -> Option<Box<dyn Function>> {
        let Tables { fib, hop_ports } = self.kernel.as_ref()?.after(&self.fib, report)?;
        if config::first_hop(usize::from(self.first_hop), hop_ports.all().len()).is_none() {
            report("the kernel's routes are not taken up: too many next hops".into());
            return None;
        }
        let numbered = || hop_ports.numbered_from(self.first_hop);
        let hop_ports = self.hop_ports.as_ref().map(|_| numbered());
        Some(Box::new(Self { fib, hop_ports, ..self.clone() }))
    }

    fn hop_ports(&self) -> Option<HopPorts> {
        self.hop_ports.clone()
    }

    fn emits(&self) -> Emits {
        self.icmp.map_or(Emits::NONE, |_| icmp_errors::EMITS)
    }
}

impl Router {
    fn new(settings: &config::Settings, sends: Sends) -> Self {
        let &config::Settings { ref fib, mac, icmp, checks, first_hop, ref hop_ports, ref kernel } =
            settings;
        let mut writes = WRITES;
        if sends == Sends::Wrapped {
            writes = writes & !FieldSet::of(&[Field::Ttl, Field::IpChecksum]);
        }
        if mac.is_none() {
            writes = writes & !FieldSet::of(&[Field::EthDst, Field::EthSrc]);
        }
        if icmp.is_none() {
            writes = writes & !FieldSet::of(&[Field::Flagged]);
        }
        let base = if icmp.is_some() { ACCESS } else { Access::default() };
        let access = Access { run: ReadWrite::new(READS, writes), ..base };
        Self {
            fib: Arc::clone(fib),
            sends,
            mac,
            icmp,
            checks,
            access,
            first_hop,
            hop_ports: hop_ports.clone(),
            kernel: kernel.clone(),
        }
    }
}

#[cfg(test)]
mod forwarding_tests;
#[cfg(test)]
mod mrt_tests;
#[cfg(test)]
mod ports_tests;
#[cfg(test)]
mod reload_tests;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;
