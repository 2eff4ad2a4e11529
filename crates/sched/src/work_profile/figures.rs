//! One measurement and its checks.

use std::fmt;

use super::{Beside, WorkPair};

/// Launch sizes and packet lengths of a function on a device.
pub(super) const SIZES_MAX: usize = 1024;

/// Evidence that a figure keeps at most, so that it follows a machine that changes.
const WEIGHT_MAX: f64 = 60.0;

/// The figures of a function on a device, for one launch size and one packet length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Bits of frames a second, without copies between memories. Those of one lane on the CPU.
    pub bits_per_s: f64,
    /// From the submission of a launch until it is done.
    pub latency_ns: f64,
    /// The share of the device that it takes at this rate, 0 to 1.
    pub share: f64,
    /// Seconds for which it was measured.
    pub weight: f64,
}

impl Figures {
    /// Time for a packet of `packet_len` bytes.
    pub fn packet_ns(&self, packet_len: u32) -> f64 {
        f64::from(packet_len) * 8e9 / self.bits_per_s
    }

    pub(super) fn bounded(self) -> Self {
        Self { weight: self.weight.min(WEIGHT_MAX), ..self }
    }

    /// The mean by weight. Rates are averaged over time.
    pub(super) fn merged(self, new: &Self) -> Self {
        let (old, new) = (self.bounded(), new.bounded());
        let weight = old.weight + new.weight;
        let part = new.weight / weight;
        let mean = |old: f64, new: f64| old + (new - old) * part;
        Self {
            bits_per_s: mean(old.bits_per_s, new.bits_per_s),
            latency_ns: mean(old.latency_ns, new.latency_ns),
            share: mean(old.share, new.share),
            weight,
        }
        .bounded()
    }
}

/// Figures with the circumstances in which they were measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// The function and the device.
    pub pair: WorkPair,
    /// Packets of a launch; of a batch on the CPU.
    pub launch_packets: u32,
    /// Bytes of a frame.
    pub packet_len: u32,
    /// The functions that ran on the device at the same time.
    pub beside: Option<Beside>,
    /// The results.
    pub figures: Figures,
}

/// A measurement that cannot be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsound {
    /// The profile has no such function.
    Function(usize),
    /// The profile has no such device.
    Device(usize),
    /// A launch without packets, or packets without bytes.
    Size,
    /// Co-runners without an instance.
    Beside,
    /// A function has too many sizes on a device.
    Sizes,
    /// A figure that is not finite or out of its range: its name.
    Figure(&'static str),
}

impl fmt::Display for Unsound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Function(index) => write!(f, "the profile has no function {index}"),
            Self::Device(index) => write!(f, "the profile has no device {index}"),
            Self::Size => write!(f, "launch size and packet length must be at least 1"),
            Self::Sizes => write!(f, "a function has {SIZES_MAX} sizes on a device at most"),
            Self::Beside => write!(f, "co-runners need at least one instance"),
            Self::Figure(name) => write!(f, "{name} is out of range"),
        }
    }
}

impl std::error::Error for Unsound {}

impl Measurement {
    /// Of a function that has the device alone.
    pub fn alone(pair: WorkPair, launch_packets: u32, packet_len: u32, figures: Figures) -> Self {
        Self { pair, launch_packets, packet_len, beside: None, figures }
    }

    /// The same beside `count` instances of `function`.
    #[must_use]
    pub fn beside(self, function: usize, count: u32) -> Self {
        Self { beside: Some(Beside { function, count }), ..self }
    }

    pub(super) fn check(&self, functions: usize, devices: usize) -> Result<(), Unsound> {
        let others = self.beside.map(|beside| beside.function);
        for function in [self.pair.0].into_iter().chain(others) {
            if function >= functions {
                return Err(Unsound::Function(function));
            }
        }
        if self.pair.1 >= devices {
            return Err(Unsound::Device(self.pair.1));
        }
        if self.launch_packets == 0 || self.packet_len == 0 {
            return Err(Unsound::Size);
        }
        if self.beside.is_some_and(|beside| beside.count == 0) {
            return Err(Unsound::Beside);
        }
        let figures = self.figures;
        let checks = [
            ("throughput", (1.0..=1e15).contains(&figures.bits_per_s)),
            ("latency", (0.0..=1e12).contains(&figures.latency_ns)),
            ("share", (0.0..=1.0).contains(&figures.share)),
            ("weight", (1e-9..=1e9).contains(&figures.weight)),
        ];
        match checks.into_iter().find(|(_, is_sound)| !is_sound) {
            Some((name, _)) => Err(Unsound::Figure(name)),
            None => Ok(()),
        }
    }
}

/// The power of a device. An unmeasured value is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Power {
    /// Watts without work.
    pub idle_w: Option<f64>,
    /// Watts with as much work as it can do.
    pub busy_w: Option<f64>,
}

impl Power {
    /// Watts at a utilisation of 0 to 1, linear between idle and busy.
    pub fn at(&self, utilisation: f64) -> Option<f64> {
        let (idle, busy) = (self.idle_w?, self.busy_w?);
        Some(idle + (busy - idle) * utilisation.clamp(0.0, 1.0))
    }
}

/// A device of a profile.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfiledDevice {
    /// Its name in chain files.
    pub name: String,
    /// Its power.
    pub power: Power,
    /// Cores of the CPU that it takes while it is busy; 0 for one with hardware of its own.
    pub cores: u32,
}

impl ProfiledDevice {
    pub(super) fn unmeasured(name: &str) -> Self {
        Self { name: name.to_owned(), power: Power::default(), cores: 0 }
    }
}
