//! Measurements of functions on devices: throughput, latency and share of the device, by launch
//! size and packet length, alone and beside other functions. It follows the characterisation of
//! `Pythia` (tables I to III).
//!
//! Functions and devices are indices of the profile's lists, and device 0 is the CPU. Pairs are
//! measured: a function beside a number of instances of another one. A mix of several kinds is
//! modelled, as the sum of the delays that each kind causes.
//!
//! Between measured sizes, times are linear: a launch takes a fixed time and a time for each
//! packet. Throughput then rises or falls evenly between two measurements. A smaller launch than
//! any measured continues the line of the smallest two, down to the time in proportion to the
//! smallest. A larger one has the throughput of the largest.
//!
//! ```
//! use warpline_sched::work_profile::{Figures, Measurement, WorkProfile};
//!
//! let mut profile = WorkProfile::new(&["digest"], &["cpu", "cuda:0"]);
//! for (launch_packets, gbps) in [(1024, 10.0), (4096, 20.0), (16384, 20.2)] {
//!     let figures = Figures { bits_per_s: gbps * 1e9, latency_ns: 1e6, share: 1.0, weight: 10.0 };
//!     let at = Measurement::alone((0, 1), launch_packets, 1500, figures);
//!     profile.merge(&at).expect("sound figures");
//! }
//! let between = profile.alone((0, 1), 2048, 1500).expect("measured at other sizes");
//! assert!((10e9..20e9).contains(&between.bits_per_s));
//! // Launches of 16,384 packets bring 1 % more, which is not worth their delay.
//! assert_eq!(profile.launch_knee((0, 1), 1500), Some(4096));
//! ```

mod break_even;
mod curve;
mod figures;
mod interference;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use break_even::{BreakEven, NoBreakEven};
pub use figures::{Figures, Measurement, Power, ProfiledDevice, Unsound};
pub use interference::{Basis, Beside, SlowDown};

/// A function and a device, as indices of the profile's lists.
pub type WorkPair = (usize, usize);

/// The device of every profile that is the CPU.
pub const CPU: usize = 0;

/// Growth of throughput below which larger launches are not worth their delay.
const KNEE: f64 = 1.02;

/// By packet length, then by launch size.
type Sizes = BTreeMap<(u32, u32), Figures>;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkProfile {
    functions: Vec<String>,
    devices: Vec<ProfiledDevice>,
    work: BTreeMap<(WorkPair, Option<Beside>), Sizes>,
}

impl WorkProfile {
    /// One of these functions and devices without measurements. The first device is the CPU.
    pub fn new(functions: &[&str], devices: &[&str]) -> Self {
        let device = |name: &&str| ProfiledDevice::unmeasured(name);
        Self {
            functions: functions.iter().map(|&name| name.to_owned()).collect(),
            devices: devices.iter().map(device).collect(),
            work: BTreeMap::new(),
        }
    }

    /// The names of its functions.
    pub fn functions(&self) -> &[String] {
        &self.functions
    }

    /// Its devices; the first is the CPU.
    pub fn devices(&self) -> &[ProfiledDevice] {
        &self.devices
    }

    /// Sets the power of a device. An unknown device is ignored.
    pub fn set_power(&mut self, device: usize, power: Power) {
        if let Some(own) = self.devices.get_mut(device) {
            own.power = power;
        }
    }

    /// Sets the cores of the CPU that a busy device takes. An unknown device is ignored.
    pub fn set_cores(&mut self, device: usize, cores: u32) {
        if let Some(own) = self.devices.get_mut(device) {
            own.cores = cores;
        }
    }

    /// The same with other throughputs on these pairs.
    pub(crate) fn slowed(&self, factors: &BTreeMap<WorkPair, f64>) -> Self {
        let mut own = self.clone();
        for ((pair, _), sizes) in &mut own.work {
            let Some(factor) = factors.get(pair) else { continue };
            for figures in sizes.values_mut() {
                figures.bits_per_s *= factor;
                figures.latency_ns /= factor;
            }
        }
        own
    }

    /// All measurements, in a fixed order. [`merge`](Self::merge) of each into an empty profile
    /// gives the same profile.
    pub fn measurements(&self) -> impl Iterator<Item = Measurement> {
        self.work.iter().flat_map(|(&(pair, beside), sizes)| {
            sizes.iter().map(move |(&(packet_len, launch_packets), &figures)| Measurement {
                pair,
                launch_packets,
                packet_len,
                beside,
                figures,
            })
        })
    }

    /// Adds a measurement. Figures of the same sizes become the mean by weight of evidence. The
    /// weight has a bound, so new evidence always counts.
    ///
    /// # Errors
    /// A figure that cannot be a measurement, or an unknown function or device.
    pub fn merge(&mut self, new: &Measurement) -> Result<(), Unsound> {
        new.check(self.functions.len(), self.devices.len())?;
        let sizes = self.work.entry((new.pair, new.beside)).or_default();
        let size = (new.packet_len, new.launch_packets);
        if sizes.len() >= figures::SIZES_MAX && !sizes.contains_key(&size) {
            return Err(Unsound::Sizes);
        }
        let merged = sizes.entry(size);
        merged.and_modify(|old| *old = old.merged(&new.figures)).or_insert(new.figures.bounded());
        Ok(())
    }

    /// Adds the latency of a measurement alone, and no evidence of throughput. Unknown sizes and
    /// unsound figures change nothing.
    pub(crate) fn merge_latency(&mut self, new: &Measurement) {
        let sizes = self.work.get_mut(&(new.pair, new.beside));
        let old = sizes.and_then(|sizes| sizes.get_mut(&(new.packet_len, new.launch_packets)));
        let is_sound = new.check(self.functions.len(), self.devices.len()).is_ok();
        if let (Some(old), true) = (old, is_sound) {
            old.latency_ns = old.merged(&new.figures).latency_ns;
        }
    }

    /// Figures of a function that has the device alone. `None` if it was never measured there.
    pub fn alone(&self, pair: WorkPair, launch_packets: u32, packet_len: u32) -> Option<Figures> {
        curve::figures(self.work.get(&(pair, None))?, launch_packets, packet_len)
    }

    /// The launch sizes that were measured, from the smallest.
    pub fn launch_sizes(&self, pair: WorkPair) -> Vec<u32> {
        let sizes = self.work.get(&(pair, None)).into_iter().flat_map(BTreeMap::keys);
        let mut sizes: Vec<u32> = sizes.map(|&(_, launch)| launch).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// The smallest measured launch size beyond which throughput grows by less than 2 %.
    pub fn launch_knee(&self, pair: WorkPair, packet_len: u32) -> Option<u32> {
        let rate = |&size: &u32| self.alone(pair, size, packet_len).map(|one| one.bits_per_s);
        let sizes = self.launch_sizes(pair);
        let rates: Vec<f64> = sizes.iter().filter_map(rate).collect();
        let best = rates.iter().copied().fold(0.0, f64::max);
        rates.iter().position(|&rate| rate * KNEE > best).map(|at| sizes[at])
    }
}
