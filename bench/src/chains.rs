//! Chains for the benches, built from the text of their functions' tables.

use std::path::Path;
use std::sync::Arc;

use warpline_engine::{
    Chain, Control, Deployment, Instance, OnDevice, Place, Ports, Settings, Site, run,
};
use warpline_functions::definition;
use warpline_io::{NullSink, Sink, Source};
use warpline_nf::{Function, Resources};
use warpline_packet::{Access, Batch, ReadWrite};
use warpline_verify as harness;

use crate::memory::{Frames, MemorySource};

/// A function that does nothing.
pub struct Pass;

impl Function for Pass {
    fn access(&self) -> &Access {
        const NONE: Access = Access::run_only(ReadWrite::NONE);
        &NONE
    }

    fn run(&self, _: &mut Batch) {}
}

/// A chain of at most one function, `name`, with its table and its files in `folder`; "empty" has
/// none.
pub fn deploy(name: &str, table: &str, folder: &Path) -> Deployment {
    if name == "empty" {
        return Chain::new("empty", Vec::new(), 0).expect("an empty chain").into();
    }
    deploy_members(name, &[Member { name, function: name, table, on: None }], folder)
}

/// A function of a chain.
pub struct Member<'a> {
    /// Its name in the chain.
    pub name: &'a str,
    /// Its function's name.
    pub function: &'a str,
    /// Its table.
    pub table: &'a str,
    /// Where it runs, if not on the CPU.
    pub on: Option<OnDevice>,
}

/// A chain of `members`, whose files are in `folder`. A name that occurs twice is one function at
/// two places.
pub fn deploy_members(name: &str, members: &[Member<'_>], folder: &Path) -> Deployment {
    let mut resources = Resources::default();
    let mut second_places = Vec::new();
    let mut instances = Vec::new();
    for (at, member) in members.iter().enumerate() {
        let definition = definition(member.function).expect("a function of that name");
        let is_same = |other: &Member<'_>| other.name == member.name;
        let second = second_places.iter().position(|(name, _)| *name == member.name);
        let (place, function) = if let Some(second) = second {
            (Place::Second, second_places.swap_remove(second).1)
        } else if members[at + 1..].iter().any(is_same) {
            let pair = harness::build_pair_with(definition, member.table, folder, &mut resources);
            let [first, second] = pair.unwrap_or_else(|why| panic!("{}: {why}", member.name));
            second_places.push((member.name, second));
            (Place::First, first)
        } else {
            let built = harness::build_with(definition, member.table, folder, &mut resources);
            (Place::Only, built.unwrap_or_else(|why| panic!("{}: {why}", member.name)))
        };
        let (name, function) = (member.name.into(), Arc::from(function));
        instances.push(Instance { name, definition, function, fingerprint: 0, place });
    }
    let chain = Chain::new(name, instances, resources.scratch_words()).expect("a chain of few");
    let sites = members.iter().map(|one| Site { on_device: one.on.clone(), ..Site::default() });
    Deployment::new(Arc::new(chain), sites.collect())
}

/// Seconds in which `deployment` takes `count` packets of `frames` on each lane. Each lane has
/// packets in memory and a sink of its own. Panics when the packets don't balance.
pub fn seconds_in_memory(deployment: &Deployment, frames: &[Arc<Frames>], count: u64) -> f64 {
    let settings = Settings { lanes: frames.len(), ..Settings::default() };
    let port = |frames: &Arc<Frames>| -> (Box<dyn Source>, Box<dyn Sink>) {
        (Box::new(MemorySource::new(Arc::clone(frames), count)), Box::new(NullSink))
    };
    let ports = Ports::PerLane(frames.iter().map(port).collect());
    let report = run(deployment, &settings, ports, &Control::default()).expect("a run");
    assert!(report.part.packets.balanced());
    assert_eq!(report.part.packets.read, count * frames.len() as u64);
    let (first, last) = report.part.span_ns.expect("packets");
    (last - first) as f64 / 1e9
}
