//! The outcome of a simulation as JSON.

use serde_json::{Value, json};
use warpline_sched::work_profile::Power;

use crate::{ChainOutcome, Ended, Outcome, Scenario};

impl Outcome {
    /// Packets that chains lost, with the name of each place that lost some.
    pub fn drops(&self, scenario: &Scenario, chain: usize) -> Vec<(String, u64)> {
        let total = &self.chains[chain].total;
        let source = std::iter::once(("source (paused)".to_owned(), total.held_back));
        let stages = scenario.chains[chain].stages.iter().zip(&total.stages);
        let stages = stages.map(|(stage, counts)| (stage.name.clone(), counts.drops));
        let unrouted = ("no-chain-route".to_owned(), total.unrouted);
        source.chain(stages).chain([unrouted]).collect()
    }

    /// Watts of a device, or of the CPU with `None`, over the measured time.
    pub fn watts(&self, scenario: &Scenario, device: Option<usize>) -> Option<f64> {
        let (power, used): (&Power, f64) = match device {
            None => (&scenario.cpu_power, self.cpu_share(scenario)),
            Some(at) => {
                let tenants = 0..self.devices[at].busy_ns.len();
                let used = tenants.map(|tenant| self.device_share(at, tenant)).sum();
                (&scenario.devices[at].power, used)
            }
        };
        power.at(used)
    }

    /// The part of the CPU that is busy. Without a number of cores each lane is one.
    fn cpu_share(&self, scenario: &Scenario) -> f64 {
        let (busy_ns, cores) = match (self.cores_busy_ns, scenario.cores) {
            (Some(busy_ns), Some(cores)) => (busy_ns, cores as f64),
            _ => (self.lane_busy_ns.iter().sum(), self.lane_busy_ns.len() as f64),
        };
        busy_ns as f64 / self.measured_ns.max(1) as f64 / cores.max(1.0)
    }

    /// Everything but the trace.
    pub fn json(&self, scenario: &Scenario) -> Value {
        let chains = (0..self.chains.len()).map(|chain| self.chain_json(scenario, chain));
        let devices = scenario.devices.iter().enumerate().map(|(at, model)| {
            let own = &self.devices[at];
            let share = |busy: &u64| *busy as f64 / self.measured_ns.max(1) as f64;
            json!({
                "name": model.name,
                // A sum of nothing is -0.
                "share": own.busy_ns.iter().map(share).sum::<f64>() + 0.0,
                "tenants": own.busy_ns.iter().map(share).collect::<Vec<_>>(),
                "to_device_bytes": own.to_device_bytes,
                "to_host_bytes": own.to_host_bytes,
                "watts": self.watts(scenario, Some(at)),
                "joules": self.joules(scenario, Some(at)),
            })
        });
        let lanes = self.lane_busy_ns.iter();
        let part = |busy: &u64| *busy as f64 / self.measured_ns.max(1) as f64;
        let lanes = lanes.map(part);
        json!({
            "schema": 1,
            "simulated": true,
            "seconds": scenario.lasts_ns as f64 / 1e9,
            "measured_seconds": self.measured_ns as f64 / 1e9,
            "seed": scenario.seed,
            "events": self.events,
            "ended": match self.ended {
                Ended::Drained => "drained",
                Ended::Events => "events",
            },
            "chains": chains.collect::<Vec<_>>(),
            "devices": devices.collect::<Vec<_>>(),
            "cpu": {
                "lanes": lanes.collect::<Vec<_>>(),
                "cores": self.cores_busy_ns.map(|busy| part(&busy)),
                "watts": self.watts(scenario, None),
                "joules": self.joules(scenario, None),
            },
        })
    }

    fn joules(&self, scenario: &Scenario, device: Option<usize>) -> Option<f64> {
        Some(self.watts(scenario, device)? * self.measured_ns as f64 / 1e9)
    }

    fn chain_json(&self, scenario: &Scenario, chain: usize) -> Value {
        let ChainOutcome { total, measured, delay, pauses, .. } = &self.chains[chain];
        let us = |ns: u64| ns as f64 / 1e3;
        let stages = scenario.chains[chain].stages.iter().zip(&measured.stages).enumerate();
        let stages = stages.map(|(at, (model, counts))| {
            let edge = &pauses.edges[at];
            json!({
                "name": model.name,
                "share": model.share,
                "processed": counts.processed,
                "drops": counts.drops,
                "wasted": counts.wasted,
                "launches": counts.launches,
                "work_seconds": counts.work_ns as f64 / 1e9,
                "queue": {
                    "mean": f64::from(pauses.mean(warpline_sched::EdgeId(at))) / 1e3,
                    "peak": f64::from(edge.peak) / 1e3,
                },
                "paused_seconds": pauses.nodes[at + 1].paused_ns as f64 / 1e9,
            })
        });
        json!({
            "name": scenario.chains[chain].name,
            "packets": {
                "offered": total.offered,
                "sent": total.sent,
                "held_back": total.held_back,
                "unrouted": total.unrouted,
                "dropped": total.dropped(),
                "in_flight": total.in_flight(),
            },
            "rate": {
                "offered_mpps": self.per_second(measured.offered) / 1e6,
                "mpps": self.sent_pps(chain) / 1e6,
                "gbps": self.sent_bps(chain) / 1e9,
            },
            "latency_us": {
                "mean": delay.mean() / 1e3,
                "p50": us(delay.quantile(0.5)),
                "p95": us(delay.quantile(0.95)),
                "p99": us(delay.quantile(0.99)),
                "max": us(delay.max()),
            },
            "source": {
                "paused_seconds": pauses.nodes[0].paused_ns as f64 / 1e9,
                "pauses": pauses.nodes[0].pauses,
            },
            "stages": stages.collect::<Vec<_>>(),
            "bottleneck": self.bottleneck(scenario, chain),
        })
    }

    /// The stage of a chain that limits the others, if any paused another.
    pub fn bottleneck<'a>(&self, scenario: &'a Scenario, chain: usize) -> Option<&'a str> {
        let stage = self.chains[chain].pauses.bottleneck()?.0.checked_sub(1)?;
        scenario.chains[chain].stages.get(stage).map(|stage| stage.name.as_str())
    }
}
