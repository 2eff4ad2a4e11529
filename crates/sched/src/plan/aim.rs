//! The resources that copies take, and how much a plan saves of each.
//!
//! Host, copies to a device and copies from it work at the same time. A chain under full load is as
//! fast as the one that has most to do, so a plan for throughput may spend time on the others.

use std::ops::{Add, Mul};

use super::{Misfit, Mode, Plan, Problem};

/// The time of a packet's copies, by resource.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CopyTimes {
    /// The host: to gather fields, to put them in their places, to start transfers.
    pub host_ns: f64,
    /// The link to the device.
    pub to_device_ns: f64,
    /// The link from the device.
    pub to_host_ns: f64,
}

impl CopyTimes {
    /// All of them, one after the other.
    pub fn total(&self) -> f64 {
        self.host_ns + self.to_device_ns + self.to_host_ns
    }

    /// The same on a link without other copies, which is the share of the link that they take.
    /// `traffic` is the factor of the link ([`crate::LinkCosts::traffic`]).
    pub(crate) fn without_traffic(self, traffic: f64) -> Self {
        let of = |ns: f64| ns / traffic.max(f64::MIN_POSITIVE);
        let (to_device_ns, to_host_ns) = (of(self.to_device_ns), of(self.to_host_ns));
        Self { to_device_ns, to_host_ns, ..self }
    }
}

impl Add for CopyTimes {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            host_ns: self.host_ns + other.host_ns,
            to_device_ns: self.to_device_ns + other.to_device_ns,
            to_host_ns: self.to_host_ns + other.to_host_ns,
        }
    }
}

impl Mul<CopyTimes> for f64 {
    type Output = CopyTimes;

    fn mul(self, times: CopyTimes) -> CopyTimes {
        CopyTimes {
            host_ns: self * times.host_ns,
            to_device_ns: self * times.to_device_ns,
            to_host_ns: self * times.to_host_ns,
        }
    }
}

/// How much a nanosecond of each resource counts in the choice of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aim {
    /// Its name in what people and programs read.
    pub name: &'static str,
    /// Of the host.
    pub host: u32,
    /// Of the link to the device.
    pub to_device: u32,
    /// Of the link from the device.
    pub to_host: u32,
    /// Percent by which the weighed time may exceed the shortest for a plan that moves fewer bytes.
    pub margin: u32,
}

/// The weight of a resource that has most to do.
const MUCH: u32 = 8;

const fn aim(name: &'static str, host: u32, to_device: u32, to_host: u32) -> Aim {
    Aim { name, host, to_device, to_host, margin: 0 }
}

impl Aim {
    /// The shortest time of a packet.
    pub const TIME: Self = aim("time", 1, 1, 1);

    /// The fewest bytes of the plans that take at most a tenth longer than the cheapest. Estimates
    /// of time are off by about as much, and other chains use the links, too.
    pub const BYTES: Self = Self { margin: 10, ..aim("bytes", 1, 1, 1) };

    /// All that a placement compares. Those after the first spare one resource or two.
    pub const ALL: [Self; 7] = [
        Self::TIME,
        aim("host", MUCH, 1, 1),
        aim("to_device", 1, MUCH, 1),
        aim("to_host", 1, 1, MUCH),
        aim("links", 1, MUCH, MUCH),
        aim("host_and_to_device", MUCH, MUCH, 1),
        aim("host_and_to_host", MUCH, 1, MUCH),
    ];

    /// The same, with so much more weight on links.
    pub(super) const fn sparing_links(self, weight: u32) -> Self {
        let (to_device, to_host) = (weight * self.to_device, weight * self.to_host);
        Self { to_device, to_host, margin: 0, ..self }
    }

    pub(super) fn of(&self, times: &CopyTimes) -> f64 {
        f64::from(self.host) * times.host_ns
            + f64::from(self.to_device) * times.to_device_ns
            + f64::from(self.to_host) * times.to_host_ns
    }
}

impl Default for Aim {
    fn default() -> Self {
        Self::BYTES
    }
}

impl Problem {
    /// The time of a plan's copies on each link.
    pub fn copy_times(&self, plan: &Plan) -> Vec<CopyTimes> {
        let mut all = vec![CopyTimes::default(); self.links.len()];
        for step in &plan.steps {
            all[step.device] = all[step.device] + self.times(step);
        }
        all
    }

    /// The plans of `mode` that are worth a comparison: for [`Mode::Adaptive`] the cheapest by each
    /// aim, without those that came before, otherwise the one there is.
    ///
    /// # Errors
    /// As for [`Problem::plan`].
    pub fn candidates(&self, mode: Mode) -> Result<Vec<(Aim, Plan)>, Misfit> {
        let aims = if mode == Mode::Adaptive { &Aim::ALL[..] } else { &Aim::ALL[..1] };
        let mut all: Vec<(Aim, Plan)> = Vec::new();
        for &aim in aims {
            let plan = Self { aim, ..self.clone() }.plan(mode)?;
            if all.iter().all(|(_, other)| other.steps != plan.steps) {
                all.push((aim, plan));
            }
        }
        Ok(all)
    }
}
