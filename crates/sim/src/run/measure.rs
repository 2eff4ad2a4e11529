//! The measured time, and the outcome.

use super::Run;
use crate::device::Device;
use crate::outcome::{ChainCounts, ChainOutcome, DeviceOutcome, Ended, Outcome};

/// Counts at one moment.
pub(super) struct Sums {
    chains: Vec<(ChainCounts, u128)>,
    devices: Vec<DeviceOutcome>,
    lane_busy_ns: Vec<u64>,
    cores_busy_ns: Option<u64>,
}

impl Run<'_> {
    pub(super) fn measure(&mut self, begins: bool, now_ns: u64) {
        let integrals: Vec<u128> =
            self.chains.iter_mut().map(|chain| chain.measure(begins, now_ns)).collect();
        let sums = Sums {
            chains: self.chains.iter().map(|one| one.counts.clone()).zip(integrals).collect(),
            devices: self.devices.iter().map(Device::outcome).collect(),
            lane_busy_ns: self.lanes.iter().map(|lane| lane.busy_ns).collect(),
            cores_busy_ns: self.cores.as_ref().map(|cores| cores.sum_ns(now_ns)),
        };
        match begins {
            true => self.before = Some(sums),
            false => self.measured = Some(sums),
        }
    }

    pub(super) fn outcome(mut self, ended: Ended, events: u64, ends_ns: u64) -> Outcome {
        for (begins, is_missing) in
            [(true, self.before.is_none()), (false, self.measured.is_none())]
        {
            if is_missing {
                self.measure(begins, ends_ns);
            }
        }
        let (Some(before), Some(until)) = (self.before.take(), self.measured.take()) else {
            unreachable!("both were measured");
        };
        let sums = before.chains.iter().zip(&until.chains);
        let chains =
            self.chains.iter_mut().zip(sums).map(|(chain, (before, until))| ChainOutcome {
                total: chain.counts.clone(),
                measured: until.0.since(&before.0),
                delay: std::mem::take(&mut chain.delay),
                packet_ns: until.1 - before.1,
                pauses: chain.pauses(ends_ns),
            });
        let chains = chains.collect();
        let devices = before.devices.iter().zip(&until.devices);
        let until_ns = ends_ns.min(self.scenario.lasts_ns);
        Outcome {
            chains,
            devices: devices.map(|(before, until)| until.since(before)).collect(),
            lane_busy_ns: differences(&before.lane_busy_ns, &until.lane_busy_ns),
            cores_busy_ns: until
                .cores_busy_ns
                .zip(before.cores_busy_ns)
                .map(|(to, from)| to - from),
            measured_ns: until_ns.saturating_sub(self.scenario.warm_up_ns),
            ends_ns,
            events,
            ended,
            spans: self.spans.all,
            spans_left_out: self.spans.left_out,
        }
    }
}

impl DeviceOutcome {
    fn since(&self, before: &Self) -> Self {
        Self {
            busy_ns: differences(&before.busy_ns, &self.busy_ns),
            to_device_bytes: self.to_device_bytes - before.to_device_bytes,
            to_host_bytes: self.to_host_bytes - before.to_host_bytes,
        }
    }
}

fn differences(before: &[u64], until: &[u64]) -> Vec<u64> {
    before.iter().zip(until).map(|(before, until)| until - before).collect()
}
