//! Virtual machines with a network function each, on one P100.

use warpline_sched::work_profile::Power;
use warpline_sched::{LaunchLimits, PauseMode, Policy};

use crate::{
    Arrivals, ChainModel, Cost, Crossing, DeviceModel, DeviceSharing, DeviceWork, LinkModel,
    Outcome, Scenario, ScenarioError, Size, StageModel, StageSite, Traffic,
};

/// Section V: bytes of the packets whose rates are printed.
pub(super) const LEN: u32 = 1522;

/// Assumed; see the paper's list.
const LAUNCH_PACKETS: u64 = 256;
const STREAMS: usize = 4;
const LINK: f64 = 12e9;
const SLICE_NS: u64 = 2_000_000;
const SWITCH_NS: u64 = 20_000;
const TRAINING_NS: f64 = 400_000.0;
const TRAINING_HOST_NS: f64 = 20_000.0;
const LASTS_NS: u64 = 500_000_000;

/// A network function, with rates in Gb/s that the paper prints.
pub(super) struct Nf {
    pub(super) name: &'static str,
    /// Passthrough without streams and with them (section V-A).
    pub(super) passthrough: [f64; 2],
    /// One vGPU with streams (section V-B).
    pub(super) vgpu: f64,
    /// Percent of one machine that four have, under equal share and best effort (section V-C).
    pub(super) four: [f64; 2],
    /// Whether its work and what comes back are in proportion to the bytes.
    by_byte: bool,
}

pub(super) const IPSEC: Nf = Nf {
    name: "IPsec",
    passthrough: [8.32, 15.0],
    vgpu: 13.55,
    four: [148.0, 256.0],
    by_byte: true,
};
pub(super) const NIDS: Nf = Nf {
    name: "NIDS",
    passthrough: [3.96, 14.29],
    vgpu: 12.9,
    four: [182.0, 288.0],
    by_byte: false,
};
pub(super) const BOTH: [&Nf; 2] = [&IPSEC, &NIDS];

/// Nanoseconds of a packet of [`LEN`] bytes at so many Gb/s.
fn packet_ns(gbps: f64) -> f64 {
    f64::from(LEN) * 8.0 / gbps
}

impl Nf {
    fn kernel_ns(&self) -> f64 {
        packet_ns(self.vgpu * self.four[1] / 100.0)
    }

    fn copies_ns(&self) -> f64 {
        let directions = if self.by_byte { 2.0 } else { 1.0 };
        directions * f64::from(LEN) * 1e9 / LINK
    }

    /// Of a packet, without streams.
    fn latency_ns(&self) -> f64 {
        let [serial, streams] = self.passthrough.map(packet_ns);
        (serial - streams - self.copies_ns() - self.kernel_ns()).max(0.0)
    }

    fn cost(&self, packet_ns: f64) -> Cost {
        let by_byte = self.by_byte;
        #[cfg(test)]
        let by_byte = crate::papers::mutated::by_byte(by_byte);
        match by_byte {
            true => Cost { byte_ps: packet_ns * 1e3 / f64::from(LEN), ..Cost::NONE },
            false => Cost::of_packet(packet_ns),
        }
    }
}

/// A setup of the paper.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) nf: &'static Nf,
    pub(super) machines: usize,
    /// Machines that train.
    pub(super) training: usize,
    pub(super) policy: Policy,
    pub(super) slots: usize,
    pub(super) has_streams: bool,
    pub(super) is_virtual: bool,
    pub(super) len: u32,
}

impl Case {
    /// One machine with streams on a vGPU of profile 4q.
    pub(super) fn one(nf: &'static Nf) -> Self {
        Self {
            nf,
            machines: 1,
            training: 0,
            policy: Policy::BestEffort,
            slots: 4,
            has_streams: true,
            is_virtual: true,
            len: LEN,
        }
    }

    /// Gb/s of all machines with the function.
    pub(super) fn gbps(&self) -> Result<f64, ScenarioError> {
        let outcome = self.run()?;
        Ok((0..self.machines).map(|chain| outcome.sent_bps(chain) / 1e9).sum())
    }

    fn run(&self) -> Result<Outcome, ScenarioError> {
        let tenants = self.machines + self.training;
        let mut scenario = Scenario::new(LASTS_NS, 1);
        scenario.lanes = tenants;
        scenario.devices.push(DeviceModel {
            name: "P100".into(),
            sharing: DeviceSharing::Slices {
                policy: self.policy,
                slice_ns: SLICE_NS,
                switch_ns: SWITCH_NS,
                slots: self.slots.max(tenants),
            },
            tenants,
            to_device: Some(LinkModel::of_rate(LINK, 0.0)),
            to_host: Some(LinkModel::of_rate(LINK, 0.0)),
            power: Power::default(),
            is_on_cores: false,
        });
        scenario.chains = (0..tenants).map(|tenant| self.chain(tenant)).collect();
        scenario.simulate()
    }

    fn chain(&self, tenant: usize) -> ChainModel {
        let work = match tenant < self.machines {
            true => self.function(tenant),
            false => training(tenant),
        };
        let launch = work.limits.packets_max as u64;
        let stage = StageModel {
            name: self.nf.name.into(),
            share: 1.0,
            launch_packets: launch,
            place: StageSite::Device(work),
        };
        // Packets are in memory, so there are always more (section V): 20 Gb/s for each machine.
        let rate = if launch == 1 { 1e4 } else { 20e9 / 8.0 / f64::from(self.len) };
        let arrivals = Arrivals::Constant(rate);
        ChainModel {
            name: format!("vm-{tenant}"),
            traffic: Traffic { arrivals, size: Size::Fixed(self.len) },
            batch_packets: launch,
            batch_delay_ns: u64::MAX,
            stages: vec![stage],
            pressure: PauseMode::Off,
            queue: 4_000,
            full_drops: false,
            signal_ns: 0,
            source_waits: false,
            ring: None,
            reader: None,
            sender: None,
            unrouted: 0.0,
        }
    }

    fn function(&self, tenant: usize) -> DeviceWork {
        let nf = self.nf;
        let own_ns = match self.is_virtual {
            true => packet_ns(nf.vgpu),
            false => packet_ns(nf.passthrough[1]),
        };
        let streams = if self.has_streams { STREAMS } else { 1 };
        let latency_ns = if self.has_streams { 0.0 } else { nf.latency_ns() };
        DeviceWork {
            lane: tenant,
            before: nf.cost(own_ns),
            to_device: Crossing::FRAMES,
            kernel: nf.cost(nf.kernel_ns()).into(),
            latency_ns: (latency_ns * LAUNCH_PACKETS as f64) as u64,
            to_host: if nf.by_byte { Crossing::FRAMES } else { Crossing::of_packet(4.0) },
            ..work(tenant, LAUNCH_PACKETS, streams)
        }
    }
}

/// Assumed; see the paper's list. One kernel after the other, with work of the host between them.
fn training(tenant: usize) -> DeviceWork {
    let (kernel, before) = (TRAINING_NS, TRAINING_HOST_NS);
    DeviceWork {
        kernel: Cost::of_packet(kernel).into(),
        before: Cost::of_packet(before),
        lane: tenant,
        ..work(tenant, 1, 1)
    }
}

/// Each launch is one batch. Without a second stream nothing overlaps.
fn work(tenant: usize, launch_packets: u64, streams: usize) -> DeviceWork {
    DeviceWork {
        device: 0,
        tenant,
        limits: LaunchLimits {
            bytes_max: usize::MAX,
            packets_max: launch_packets as usize,
            batches_max: 1,
            delay_max_ns: u64::MAX,
            foresees: false,
            launches_max: streams,
            measures: false,
            waiting_bytes_max: usize::MAX,
            waiting_batches_max: streams,
            timeout_ns: u64::MAX,
        },
        counts_from_stage: false,
        lane: tenant,
        before: Cost::NONE,
        to_device: Crossing::NONE,
        kernel: Cost::NONE.into(),
        latency_ns: 0,
        to_host: Crossing::NONE,
        after: Cost::NONE,
    }
}
