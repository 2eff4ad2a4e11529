//! The measured time, and the outcome.

use warpline_sched::PauseEvidence;

use super::Run;
use super::on_cores::Work;
use crate::outcome::{ChainCounts, ChainOutcome, DeviceOutcome, Ended, Outcome};

/// Counts at one moment.
pub(super) struct Sums {
    chains: Vec<(ChainCounts, u128)>,
    pauses: Vec<PauseEvidence>,
    devices: Vec<DeviceOutcome>,
    lane_busy_ns: Vec<u64>,
    cores_busy_ns: Option<u64>,
}

impl Run<'_> {
    pub(super) fn measure(&mut self, begins: bool, now_ns: u64) {
        for at in 0..self.devices.len() {
            self.poll_device(at, now_ns);
        }
        let sums = Sums {
            chains: self.chains.iter_mut().map(|one| one.measure(begins, now_ns)).collect(),
            pauses: self.chains.iter().map(|one| one.pauses(now_ns)).collect(),
            devices: (0..self.devices.len()).map(|at| self.device_use(at, now_ns)).collect(),
            lane_busy_ns: (0..self.lanes.len()).map(|lane| self.lane_use(lane, now_ns)).collect(),
            cores_busy_ns: self.cores.as_ref().map(|cores| cores.sum_ns(now_ns)),
        };
        match begins {
            true => self.before = Some(sums),
            false => self.measured = Some(sums),
        }
    }

    /// Without the work that is left.
    fn lane_use(&mut self, lane: usize, now_ns: u64) -> u64 {
        let is_lane = |work: &Work| matches!(work, Work::Stage { .. } | Work::After(_));
        let left_ns = self.cores.as_mut().map_or(0, |cores| cores.left_ns(lane, is_lane, now_ns));
        self.lanes[lane].busy_ns(now_ns).saturating_sub(left_ns)
    }

    fn device_use(&mut self, at: usize, now_ns: u64) -> DeviceOutcome {
        let mut outcome = self.devices[at].outcome(now_ns);
        if !self.is_on_cores(at) {
            return outcome;
        }
        let threads = self.kernel_threads(at);
        let Some(cores) = self.cores.as_mut() else { return outcome };
        for (tenant, busy_ns) in outcome.busy_ns.iter_mut().enumerate() {
            let is_own = |work: &Work| match work {
                Work::Kernel { ticket, .. } => {
                    let stage = &self.chains[ticket.chain].stages[ticket.stage];
                    stage.device.as_ref().is_some_and(|device| device.work.tenant == tenant)
                }
                _ => false,
            };
            let left = threads.clone().map(|thread| cores.left_ns(thread, is_own, now_ns));
            *busy_ns = busy_ns.saturating_sub(left.sum());
        }
        outcome
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
        let pauses = until.pauses.into_iter().zip(&before.pauses);
        let pauses = pauses.map(|(until, before)| until.since(before));
        let sums = before.chains.iter().zip(&until.chains).zip(pauses);
        let last_ns = self.chains.iter().map(|chain| chain.left_ns).max().unwrap_or(0);
        let chains = self.chains.iter_mut().zip(sums);
        let chains = chains.map(|(chain, ((before, until), pauses))| ChainOutcome {
            total: chain.counts.clone(),
            measured: until.0.since(&before.0),
            delay: std::mem::take(&mut chain.delay),
            packet_ns: until.1 - before.1,
            pauses,
        });
        let chains = chains.collect();
        let devices = before.devices.iter().zip(&until.devices);
        let until_ns = match self.scenario.measures_drain {
            true => last_ns,
            false => ends_ns.min(self.scenario.lasts_ns),
        };
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
    let both = before.iter().zip(until);
    both.map(|(before, until)| until.saturating_sub(*before)).collect()
}
