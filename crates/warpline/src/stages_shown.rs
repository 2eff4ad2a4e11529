//! The stages of a chain after a run: how full their queues were, which stages they paused, and
//! the work that was wasted on packets dropped later.

use serde_json::{Value, json};
use warpline_engine::stats::ThreadStats;
use warpline_engine::{Deployment, Report, StageCounts, StagePlan};
use warpline_sched::{EdgeId, NodeId, PauseEvidence, PauseMode, StageGraph};

use crate::peers_shown;

/// A run's evidence about its stages. Node 0 of the evidence is the source.
struct Stages<'a> {
    deployment: &'a Deployment,
    report: &'a Report,
    evidence: PauseEvidence,
}

impl<'a> Stages<'a> {
    fn of(deployment: &'a Deployment, report: &'a Report) -> Option<Self> {
        let all = report.part.pressure.as_ref()?;
        let stages = deployment.stages().len().max(1);
        let evidence = match all.nodes.len() == stages + 1 + report.pressure.downstream {
            true => all.clone(),
            false => source_only(all, stages)?,
        };
        Some(Self { deployment, report, evidence })
    }

    fn part(&self) -> &ThreadStats {
        &self.report.part
    }

    fn name(&self, stage: &StagePlan) -> String {
        let name = self.deployment.stage_name(stage);
        if name.is_empty() { "empty".into() } else { name }
    }

    fn counts(&self, number: usize) -> StageCounts {
        self.part().stages.get(number).copied().unwrap_or_default()
    }

    /// The name of the stage that the queue of `edge` is of.
    fn consumer(&self, edge: EdgeId) -> String {
        let node = self.evidence.edges[edge.0].to;
        let stages = self.deployment.stages();
        match stages.get(node.0 - 1) {
            Some(stage) => self.name(stage),
            None => peers_shown::downstream(self.report, node.0 - 1 - stages.len().max(1)),
        }
    }

    fn paused_by(&self, node: NodeId) -> Vec<Value> {
        let one = |(edge, ns)| json!({ "stage": self.consumer(edge), "seconds": seconds(ns) });
        self.evidence.paused_by(node).map(one).collect()
    }

    /// Seconds that a stage worked on packets that a later queue dropped.
    fn wasted_seconds(&self, stage: &StagePlan, counts: &StageCounts) -> f64 {
        let packets = self.part().functions.get(stage.first).map_or(0, |own| own.packets_in);
        seconds(counts.device_ns) * counts.wasted as f64 / packets.max(1) as f64
    }

    fn bottleneck(&self) -> Option<usize> {
        self.evidence.bottleneck()?.0.checked_sub(1)
    }

    /// The largest launch and the longest wait for it as they are now, and the lanes that use the
    /// device; null on the CPU.
    fn launch_json(&self, stage: &StagePlan) -> Value {
        let site = self.deployment.sites().get(stage.first);
        let Some(on) = site.and_then(|site| site.on_device.as_ref()) else { return Value::Null };
        let set = self.deployment.launches_set(stage.first);
        let (bytes, delay) = set.unwrap_or((on.launches.bytes, on.launches.delay));
        let kib = bytes.min(on.launches.bytes) as f64 / 1024.0;
        let lanes = on.launches.lanes.min(self.report.lanes);
        json!({ "kib": kib, "delay_us": delay.as_nanos() as f64 / 1e3, "lanes": lanes })
    }

    fn stage_json(&self, number: usize, stage: &StagePlan) -> Value {
        let (node, edge, counts) = (NodeId(number + 1), EdgeId(number), self.counts(number));
        let launches: u64 = self.part().stages.iter().map(|counts| counts.launches).sum();
        let members = self.deployment.members(stage).iter();
        let site = self.deployment.sites().get(stage.first);
        let pressure = &self.report.pressure;
        let marks = match pressure.mode {
            PauseMode::On(marks) => Some(marks),
            PauseMode::Off => None,
        };
        json!({
            "name": self.name(stage),
            "functions": members.map(|one| one.name.as_str()).collect::<Vec<_>>(),
            "device": site.map_or("cpu", |site| site.device_id()),
            "launch": self.launch_json(stage),
            "queue": {
                "capacity": in_launches(pressure.queue),
                "high": marks.map(|marks| in_launches(marks.high())),
                "low": marks.map(|marks| in_launches(marks.low())),
                "mean": in_launches(self.evidence.mean(edge)),
                "peak": in_launches(self.evidence.edges[edge.0].peak),
            },
            "paused_seconds": seconds(self.evidence.nodes[node.0].paused_ns),
            "paused_by": self.paused_by(node),
            "drops": counts.drops,
            "launches": counts.launches,
            "launch_share": counts.launches as f64 / launches.max(1) as f64,
            "device_seconds": seconds(counts.device_ns),
            "wasted": {
                "packets": counts.wasted,
                "seconds": self.wasted_seconds(stage, &counts),
            },
        })
    }
}

/// The evidence for a chain of so many stages while lanes move and have others.
fn source_only(other: &PauseEvidence, stages: usize) -> Option<PauseEvidence> {
    let mut evidence = PauseEvidence::new(&StageGraph::list(stages).ok()?);
    evidence.add_source(other);
    Some(evidence)
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn in_launches(milli: u32) -> f64 {
    f64::from(milli) / 1e3
}

/// The stages of a run, for programs.
pub(crate) fn json(deployment: &Deployment, report: &Report) -> Vec<Value> {
    let Some(all) = Stages::of(deployment, report) else { return Vec::new() };
    let stages = deployment.stages().iter().enumerate();
    stages.map(|(number, stage)| all.stage_json(number, stage)).collect()
}

/// The pauses of the source, for programs.
pub(crate) fn source_json(deployment: &Deployment, report: &Report) -> Value {
    let Some(all) = Stages::of(deployment, report) else { return Value::Null };
    let source = &all.evidence.nodes[0];
    json!({
        "paused_seconds": seconds(source.paused_ns),
        "pauses": source.pauses,
        "paused_by": all.paused_by(NodeId(0)),
    })
}

/// The stage that limited the others.
pub(crate) fn bottleneck(deployment: &Deployment, report: &Report) -> Option<String> {
    let all = Stages::of(deployment, report)?;
    let stage = deployment.stages().get(all.bottleneck()?)?;
    Some(all.name(stage))
}

/// Packets that each full queue dropped, by stage; stages without drops are left out.
pub(crate) fn drops(deployment: &Deployment, report: &Report) -> Vec<(String, u64)> {
    let Some(all) = Stages::of(deployment, report) else { return Vec::new() };
    let stages = deployment.stages().iter().enumerate();
    let drops = stages.map(|(number, stage)| (all.name(stage), all.counts(number).drops));
    drops.filter(|(_, drops)| *drops > 0).collect()
}

/// The line of the summary that names the bottleneck of a chain with several stages.
pub(crate) fn bottleneck_line(deployment: &Deployment, report: &Report) -> Option<String> {
    let all = Stages::of(deployment, report).filter(|_| deployment.stages().len() > 1)?;
    let number = all.bottleneck()?;
    let held = seconds(all.evidence.edges[number].held_ns);
    let mean = in_launches(all.evidence.mean(EdgeId(number)));
    let name = all.name(deployment.stages().get(number)?);
    Some(format!("{name}: {mean:.1} launches waited for it, others were paused {held:.2} s"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use warpline_engine::{Chain, Cores, Instance, Place, PressureOptions, Site};
    use warpline_nf::Function;
    use warpline_packet::{Access, Batch, ReadWrite};
    use warpline_sched::{Backpressure, Watermarks};

    use super::*;

    struct Empty(Access);

    impl Function for Empty {
        fn access(&self) -> &Access {
            &self.0
        }

        fn run(&self, _: &mut Batch) {}
    }

    fn instance(name: &str) -> Instance {
        Instance {
            name: name.into(),
            definition: warpline_functions::FUNCTIONS[0],
            function: Arc::new(Empty(Access::run_only(ReadWrite::NONE))),
            fingerprint: 0,
            place: Place::Only,
        }
    }

    /// The queue of the last of so many stages was full for 40 of 50 ns.
    fn report(stages: usize) -> Report {
        let graph = StageGraph::list(stages).expect("a list");
        let mut machine = Backpressure::new(&graph, PauseMode::On(Watermarks::default()), 0);
        machine.handle_occupancy(EdgeId(stages - 1), 3_000, 10);
        Report {
            part: ThreadStats { pressure: Some(machine.evidence(50)), ..ThreadStats::new(2) },
            lanes: 1,
            cores: Cores::ANY,
            pressure: PressureOptions::default(),
            peers: Vec::new(),
            huge_pages: None,
            is_running: true,
        }
    }

    #[test]
    fn lanes_with_other_stages_show_the_pauses_of_the_source() {
        let chain = Chain::new("test", ["a", "b"].map(instance).into(), 0).expect("a chain");
        let own = Site { own_stage: true, ..Site::default() };
        let deployment = Deployment::new(Arc::new(chain), vec![own; 2]);
        for (stages, bottleneck, source_ns) in [(1, Some("a"), 40), (2, Some("b"), 0), (3, None, 0)]
        {
            let report = report(stages);
            assert_eq!(super::bottleneck(&deployment, &report).as_deref(), bottleneck);
            assert_eq!(json(&deployment, &report).len(), 2, "{stages} stages");
            let source = source_json(&deployment, &report);
            assert_eq!(source["paused_seconds"], seconds(source_ns), "{stages} stages");
        }
    }
}
