//! The network function `nids`: intrusion detection by rules. The function's manual follows.
//!
#![doc = include_str!("manual.md")]
#![forbid(unsafe_code)]

pub mod apps;
mod asked;
mod condemned;
mod config;
mod counters;
mod counts;
pub mod detect;
mod fast_pattern;
mod fit;
mod flow_state;
pub mod groups;
mod inspector;
mod kernels;
mod limits;
mod load;
mod offload;
pub mod report;
mod reported;
mod scan;
mod shard;
mod tables;
#[cfg(test)]
mod tests;
mod waiting;

use core::time::Duration;
use std::path::PathBuf;
use std::sync::Arc;

use warpline_packet::{Access, Batch, Field, FieldSet, ReadWrite, ScratchWord, Shard, StateKey};

use self::offload::Judge;
use self::report::{AlertConfig, AlertReport};
use self::shard::NidsShard;
use self::tables::Tables;
use warpline_nf::{
    About, Definition, Emits, Function, Kernels, Outputs, Report, Resources, Sampler, Section,
    State, TableSize, Traits,
};

/// The function's manual.
pub const MANUAL: &str = include_str!("manual.md");

/// The function.
pub const DEFINITION: Definition = Definition {
    name: "nids",
    summary: "intrusion detection: the rules of Suricata and Snort, alerts in EVE's form",
    manual: MANUAL,
    has_kernels: true,
    keys: config::KEYS,
    drops: shard::DROPS,
    counters: counters::COUNTERS,
    access: ACCESS,
    build,
    build_pair: None,
};

const SCANNED: FieldSet =
    FieldSet::HEADERS.union(FieldSet::of(&[Field::SrcPort, Field::DstPort, Field::Payload]));

const ACCESS: Access = Access {
    before: ReadWrite::NONE,
    run: ReadWrite::new(SCANNED, FieldSet::EMPTY),
    after: ReadWrite::new(
        FieldSet::FRAME.union(FieldSet::HEADERS).union(FieldSet::of(&[
            Field::Len,
            Field::Timestamp,
            Field::Ingress,
            Field::FlowHash,
        ])),
        FieldSet::of(&[Field::Verdict]),
    ),
    after_flagged: ReadWrite::NONE,
    flagged_share: 0.0,
};

/// How often the memory of flows that are over is given back, each time by a look at one in four:
/// as long after their end as the shortest timeouts are. Every tick ends a batch.
const TICK: Duration = Duration::from_secs(16);

/// See the module.
pub(crate) struct Nids {
    tables: Arc<Tables>,
    /// Where `run` leaves what it found in a payload.
    word: ScratchWord,
    access: Access,
    about: About,
}

/// The matcher for payloads of packets of `protocol` between these ports. `None` if `function` is
/// of another kind, or no rule about them has a literal.
pub fn matcher_of(
    function: &dyn Function,
    protocol: u8,
    [src, dst]: [u16; 2],
) -> Option<&dyn warpline_search::Matcher> {
    let function: &dyn core::any::Any = function;
    function.downcast_ref::<Nids>()?.tables.groups.of(protocol, src, dst).matcher()
}

fn build(section: &mut Section<'_>, resources: &mut Resources) -> Option<Box<dyn Function>> {
    let (tables, about) = load::tables(section, resources)?;
    let Some([word]) = resources.scratch() else {
        section.mistake("function", "the chain has no scratch word left for the scan results");
        return None;
    };
    let mut access = ACCESS;
    access.run.writes = access.run.writes.with(word.field());
    access.after.reads = access.after.reads.with(word.field());
    Some(Box::new(Nids { tables: Arc::new(tables), word, access, about }))
}

impl Function for Nids {
    fn access(&self) -> &Access {
        &self.access
    }

    fn run(&self, batch: &mut Batch) {
        scan::scan(&self.tables.groups, batch, self.word);
    }

    fn kernels(&self) -> Option<Kernels> {
        Some(kernels::kernels(self)?.declaring(self.kernel_access()))
    }

    fn traits(&self) -> Traits {
        Traits { inspects: true, ..Traits::NONE }
    }

    fn state_key(&self) -> StateKey {
        if self.tables.whole_sid.is_some() { StateKey::Whole } else { StateKey::AddressPair }
    }

    fn state(&self, shard: Shard) -> State {
        State::after(NidsShard::new(&self.tables, self.word, shard))
    }

    fn emits(&self) -> Emits {
        // A rule that rejects sends one to the source, and one that continues to the destination.
        // Without such rules there is room, too, since a reload may bring them.
        Emits {
            forward_per_packet: 1,
            notes_per_packet: inspector::NOTES_MAX,
            note_len_max: self.tables.config.note_len(),
            findings_per_packet: scan::FINDINGS_PER_PACKET,
            ..Emits::answers(2, report::FRAME_LEN_MAX)
        }
    }

    fn about(&self) -> About {
        self.about.clone()
    }

    fn tables(&self) -> Vec<TableSize> {
        let config = &self.tables.config;
        vec![
            TableSize::divided("flows", config.flows),
            TableSize::divided("datagrams", config.datagrams),
        ]
    }

    fn report(&self, outputs: &Outputs) -> Result<Option<Box<dyn Report>>, String> {
        let config = self.tables.config.alerts();
        Ok(Some(Box::new(AlertReport::open(&config, &self.tables.generation, outputs)?)))
    }

    fn sampler(&self) -> Option<Box<dyn Sampler>> {
        let decision = self.tables.offload.as_ref()?;
        Some(Box::new(Judge::new(decision)))
    }

    fn alerts(&self) -> bool {
        true
    }

    fn writes(&self) -> Vec<PathBuf> {
        self.tables.config.alerts().writes().collect()
    }

    /// Other rules and other thresholds may come; what memory is made of, and what is written, may
    /// not.
    fn succeeds(&self, old: &dyn Function) -> Result<(), String> {
        let old: &dyn core::any::Any = old;
        let Some(old) = old.downcast_ref::<Self>() else {
            return Err("it is another function".into());
        };
        let (new, old) = (&*self.tables, &*old.tables);
        if new.config != old.config {
            return Err(
                "only rules, variables and the .config files can change while packets flow".into(),
            );
        }
        if let (Some(sid), None) = (new.whole_sid, old.whole_sid) {
            return Err(format!(
                "rule {sid} counts over several hosts to decide about packets: it needs a chain \
                 with one lane, so a restart"
            ));
        }
        new.generation.follow(&old.generation);
        Ok(())
    }

    fn tick(&self) -> Option<Duration> {
        Some(TICK)
    }
}

impl config::Config {
    fn alerts(&self) -> AlertConfig {
        AlertConfig {
            eve: self.eve.clone(),
            fast_log: self.fast_log.clone(),
            hits: self.hits.clone(),
            options: self.reported,
            thresholds: self.thresholds,
            top: 10,
        }
    }
}
