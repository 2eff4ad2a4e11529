//! The network function `flow_monitor`: flow records. The function's manual follows.
//!
#![doc = include_str!("manual.md")]
#![forbid(unsafe_code)]

mod config;
mod counters;
mod csv;
mod distinct;
mod export;
mod hitters;
mod ipfix;
mod kernels;
mod key;
mod meter;
mod record;
mod space_saving;
mod table;
#[cfg(test)]
mod tests;

use core::time::Duration;
use std::path::PathBuf;

use warpline_packet::{
    Access, Batch, Field, FieldSet, ReadWrite, ScratchWord, Seed, Shard, StateKey,
};

use config::Config;
use export::Exporter;
use key::FlowHashKey;
use key::FlowKey;
use meter::Meter;
use warpline_nf::{
    Definition, Emits, Function, Kernels, Outputs, Report, Resources, Section, State, TableSize,
};

/// The function's manual.
pub const MANUAL: &str = include_str!("manual.md");

/// The function.
pub const DEFINITION: Definition = Definition {
    name: "flow_monitor",
    summary: "meters bidirectional flows: IPFIX and CSV records, heavy hitters",
    manual: MANUAL,
    has_kernels: true,
    keys: config::KEYS,
    drops: &[],
    counters: counters::COUNTERS,
    access: ACCESS,
    build,
    build_pair: None,
};

/// The fields that a flow's endpoints are read from.
const ENDPOINTS: FieldSet = FieldSet::of(&[
    Field::SrcAddr,
    Field::DstAddr,
    Field::SrcPort,
    Field::DstPort,
    Field::IcmpType,
    Field::IcmpCode,
    Field::IcmpIdent,
])
.union(FieldSet::HEADERS);

const ACCESS: Access = Access {
    before: ReadWrite::NONE,
    run: ReadWrite::new(ENDPOINTS, FieldSet::EMPTY),
    after: ReadWrite::new(
        ENDPOINTS.union(FieldSet::of(&[
            Field::IpLen,
            // Where a header says no length.
            Field::Len,
            Field::IpProtocol,
            Field::IpOptions,
            Field::TcpFlags,
            Field::Timestamp,
            Field::Ingress,
        ])),
        FieldSet::EMPTY,
    ),
    after_flagged: ReadWrite::NONE,
    flagged_share: 0.0,
};

/// How often flows are ended that no packet comes for.
const TICK: Duration = Duration::from_secs(1);

struct FlowMonitor {
    /// Where `run` leaves the hash of the flow.
    word: ScratchWord,
    access: Access,
    config: Config,
    seed: Seed,
    hash_key: FlowHashKey,
}

fn build(section: &mut Section<'_>, resources: &mut Resources) -> Option<Box<dyn Function>> {
    let config = config::read(section)?;
    let Some([word]) = resources.scratch() else {
        section.mistake("function", "the chain has no scratch word left for the flow's hash");
        return None;
    };
    let mut access = ACCESS;
    access.run.writes = access.run.writes.with(word.field());
    access.after.reads = access.after.reads.with(word.field());
    let seed = resources.seed();
    Some(Box::new(FlowMonitor { config, word, access, seed, hash_key: FlowHashKey::new(seed) }))
}

impl Function for FlowMonitor {
    fn access(&self) -> &Access {
        &self.access
    }

    /// Hashes the flow's endpoints. A monitor changes nothing; what it counts, it counts in
    /// `after`.
    fn run(&self, batch: &mut Batch) {
        batch.for_each_forward(|packet| {
            let hash =
                FlowKey::of(&packet.as_packet()).map_or(0, |(key, _)| key.hash(self.hash_key));
            packet.set_scratch(self.word, hash);
        });
    }

    fn kernels(&self) -> Option<Kernels> {
        Some(kernels::kernels(self.word, self.hash_key).declaring(self.kernel_access()))
    }

    fn state_key(&self) -> StateKey {
        StateKey::AddressPair
    }

    fn state(&self, shard: Shard) -> State {
        State::after(Meter::new(&self.config, self.word, shard))
    }

    fn tables(&self) -> Vec<TableSize> {
        vec![TableSize::divided("flows", self.config.flows)]
    }

    /// A packet ends one record at most: its own flow's, or another's where it begins a flow.
    fn emits(&self) -> Emits {
        Emits::notes(1, record::NOTE_LEN)
    }

    fn report(&self, outputs: &Outputs) -> Result<Option<Box<dyn Report>>, String> {
        Ok(Some(Box::new(Exporter::open(&self.config, self.seed, outputs)?)))
    }

    fn writes(&self) -> Vec<PathBuf> {
        let outputs = self.config.ipfix.iter().chain(&self.config.csv);
        outputs.filter_map(|output| output.path().map(PathBuf::from)).collect()
    }

    fn tick(&self) -> Option<Duration> {
        Some(TICK)
    }
}
