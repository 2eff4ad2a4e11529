//! Flow records of what goes by. The manual of the function follows.
//!
#![doc = include_str!("manual.md")]

mod config;
mod csv;
mod distinct;
mod export;
mod hitters;
mod ipfix;
mod key;
mod meter;
mod record;
mod space_saving;
mod table;
#[cfg(test)]
mod tests;

use core::time::Duration;
use std::path::PathBuf;

use warpline_packet::{Access, Batch, Field, FieldSet, ReadWrite, Shard, StateKey};

use crate::{Definition, Emits, Function, Report, Resources, Section, State};
use config::Config;
use export::Exporter;
use meter::Meter;

/// The function's manual.
pub const MANUAL: &str = include_str!("manual.md");

/// The function.
pub const DEFINITION: Definition = Definition {
    name: "flow_monitor",
    summary: "meters bidirectional flows: IPFIX and CSV records, heavy hitters",
    manual: MANUAL,
    keys: config::KEYS,
    drops: &[],
    access: ACCESS,
    build,
};

const ACCESS: Access = Access {
    before: ReadWrite::NONE,
    run: ReadWrite::NONE,
    after: ReadWrite::new(
        FieldSet::of(&[
            Field::SrcAddr,
            Field::DstAddr,
            Field::IpLen,
            Field::SrcPort,
            Field::DstPort,
            Field::TcpFlags,
            Field::IcmpType,
            Field::IcmpCode,
            Field::IcmpIdent,
            Field::Timestamp,
            Field::Ingress,
        ])
        .union(FieldSet::HEADERS),
        FieldSet::EMPTY,
    ),
    after_flagged: ReadWrite::NONE,
    flagged_share: 0.0,
};

/// How often flows are ended that no packet comes for.
const TICK: Duration = Duration::from_secs(1);

struct FlowMonitor {
    config: Config,
}

fn build(section: &mut Section<'_>, _: &mut Resources) -> Option<Box<dyn Function>> {
    let config = config::read(section)?;
    Some(Box::new(FlowMonitor { config }))
}

impl Function for FlowMonitor {
    fn access(&self) -> &Access {
        &ACCESS
    }

    /// Everything is done in `after`: a monitor changes nothing.
    fn run(&self, _: &mut Batch) {}

    fn state_key(&self) -> StateKey {
        StateKey::AddressPair
    }

    fn state(&self, shard: Shard) -> State {
        State::after(Meter::new(&self.config, shard))
    }

    /// A packet ends one record at most: its own flow's, or another's where it begins a flow.
    fn emits(&self) -> Emits {
        Emits::notes(1, record::NOTE_LEN)
    }

    fn report(&self) -> Result<Option<Box<dyn Report>>, String> {
        Ok(Some(Box::new(Exporter::open(&self.config)?)))
    }

    fn writes(&self) -> Vec<PathBuf> {
        self.config.ipfix.iter().chain(&self.config.csv).cloned().collect()
    }

    fn tick(&self) -> Option<Duration> {
        Some(TICK)
    }
}
