//! The memory that chains need on their devices.

use std::fmt;

use warpline_device::Device;
use warpline_packet::ALIGN;

use crate::launch_stage::lane_memory;
use crate::{Deployment, Settings};

/// The memory that chains need on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The device.
    pub device: String,
    /// Its memory, in bytes; 0 if it doesn't report it.
    pub memory: u64,
    /// The names of the chains.
    pub chains: Vec<String>,
    /// Bytes of the mirrors of all lanes; lanes whose memory it uses in place have none.
    pub mirrors: u64,
    /// Bytes of the functions' tables and of launches.
    pub others: u64,
}

impl Demand {
    /// Whether the mirrors take at most half of the device's memory, and everything fits.
    pub fn fits(&self) -> bool {
        self.memory == 0
            || (self.mirrors <= self.memory / 2
                && self.mirrors.saturating_add(self.others) <= self.memory)
    }
}

impl fmt::Display for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let Self { device, memory, mirrors, others, .. } = self;
        write!(
            f,
            "the lanes' packets take {} MiB on {device} and tables and launches {} MiB; it has {} \
             MiB, of which packets may take half",
            mib(*mirrors),
            mib(*others),
            mib(*memory)
        )
    }
}

/// The memory that `deployments`, run beside each other with their settings, need on each device
/// that they use.
pub fn demands<'a>(
    deployments: impl IntoIterator<Item = (&'a Deployment, &'a Settings)>,
) -> Vec<Demand> {
    let mut all = Vec::new();
    for (deployment, settings) in deployments {
        demand(deployment, &settings.fit(deployment), &mut all);
    }
    all
}

/// Adds what `deployment` asks to `all`.
fn demand(deployment: &Deployment, settings: &Settings, all: &mut Vec<Demand>) {
    let layout = settings.arena(deployment);
    let lanes = settings.lanes as u64;
    let mut seen = Vec::new();
    for stage in deployment.stages() {
        let Some(limits) = settings.launch_limits(deployment, stage) else { continue };
        let Some(on) = deployment.on_device(stage) else { continue };
        let each = stage.positions().map(|position| deployment.kernel_tables_len(position));
        let tables: usize = each.sum();
        let is_in_place = works_in_place(deployment, settings, &*on.device);
        // Memory of each lane's launches, unless the device works in the lane's own memory.
        let copies = if is_in_place { 0 } else { lanes };
        let own = settings.dimensions(deployment, stage, &limits);
        let launches = copies.saturating_mul(own.launches_len() as u64);
        let one = of(all, &*on.device);
        one.others = one.others.saturating_add(launches).saturating_add(tables as u64);
        // Its stages share a mirror.
        if !seen.contains(&one.device) {
            seen.push(one.device.clone());
            one.chains.push(deployment.chain().name.clone());
            let mirrors = copies.saturating_mul(layout.memory_len() as u64);
            one.mirrors = one.mirrors.saturating_add(mirrors);
        }
    }
}

/// Whether `device` works in place in the memory of the chain's lanes: a small test region works,
/// and it can have all of the memory.
fn works_in_place(deployment: &Deployment, settings: &Settings, device: &dyn Device) -> bool {
    let about = device.description();
    let len = settings.arena(deployment).memory_len().saturating_add(settings.spare_len(deployment))
        as u64;
    let little = || lane_memory(deployment, ALIGN, ALIGN);
    about.shares_host_memory
        && len <= about.buffer_max.min(u32::MAX.into())
        && little().is_some_and(|memory| memory.known_to(device).is_ok_and(|(_, is)| is))
}

/// The one of `all` that is of `device`.
fn of<'a>(all: &'a mut Vec<Demand>, device: &dyn Device) -> &'a mut Demand {
    let about = device.description();
    let at = all.iter().position(|one| one.device == about.id).unwrap_or_else(|| {
        let (device, memory) = (about.id.clone(), about.memory);
        all.push(Demand { device, memory, chains: Vec::new(), mirrors: 0, others: 0 });
        all.len() - 1
    });
    &mut all[at]
}
