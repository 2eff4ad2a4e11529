//! How much memory a chain asks of its devices.

use std::fmt;

use super::lot::NAME_LEN;
use crate::{Chain, Settings};

/// What a chain asks of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The device.
    pub device: String,
    /// Its memory, in bytes; 0 where it doesn't say.
    pub memory: u64,
    /// Bytes of the mirrors of all lanes.
    pub mirrors: u64,
    /// Bytes of the functions' tables and of what launches need besides.
    pub others: u64,
}

impl Demand {
    /// Whether the mirrors take at most half of the device's memory, and all of it there is room for.
    pub fn fits(&self) -> bool {
        self.memory == 0
            || (self.mirrors <= self.memory / 2
                && self.mirrors.saturating_add(self.others) <= self.memory)
    }
}

impl fmt::Display for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let Self { device, memory, mirrors, others } = self;
        write!(
            f,
            "the lanes' packets take {} MiB on {device} and tables and launches {} MiB; it has {} MiB, \
             of which packets may take half",
            mib(*mirrors),
            mib(*others),
            mib(*memory)
        )
    }
}

/// What `chain` asks of each device that it uses, run with `settings`.
pub fn demands(chain: &Chain, settings: &Settings) -> Vec<Demand> {
    let settings = settings.fit(chain);
    let layout = settings.arena(chain);
    let (lanes, arena) = (settings.lanes as u64, layout.memory_len() as u64);
    let mut all: Vec<Demand> = Vec::new();
    for stage in &chain.stages {
        let Some(limits) = settings.launch_limits(chain, stage) else { continue };
        let Some(on) = &chain.instances[stage.first].on_device else { continue };
        let description = on.device.description();
        let kernels = chain.instances[stage.first..stage.first + stage.count].iter();
        let kernels = kernels.filter_map(|instance| instance.function.kernels());
        let tables: usize =
            kernels.flat_map(|k| k.tables().iter().map(Vec::len).collect::<Vec<_>>()).sum();
        // Names of packets, in as many places as launches take in turn.
        let places = (2 * limits.launches_max * limits.batches_max) as u64;
        let names = places.saturating_mul((layout.slots * NAME_LEN) as u64);
        let others = lanes.saturating_mul(names).saturating_add(tables as u64);
        match all.iter_mut().find(|one| one.device == description.id) {
            Some(one) => one.others = one.others.saturating_add(others),
            None => all.push(Demand {
                device: description.id.clone(),
                memory: description.memory,
                mirrors: lanes.saturating_mul(arena),
                others,
            }),
        }
    }
    all
}
