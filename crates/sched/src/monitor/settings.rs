//! When the monitor decides, and within which limits.

/// When the monitor decides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MonitorSettings {
    /// Time between ticks.
    pub tick_ns: u64,
    /// How long a placement stays, unless it is overloaded.
    pub stay_ns: u64,
    /// The part by which another placement must be better.
    pub gain: f64,
}

impl Default for MonitorSettings {
    fn default() -> Self {
        Self { tick_ns: 1_000_000_000, stay_ns: 10_000_000_000, gain: 0.1 }
    }
}

/// The limits of placements; see [`PlacementProblem`](crate::placement::PlacementProblem).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlacementLimits {
    /// The longest delay of a packet.
    pub delay_ns_max: Option<f64>,
    /// The most power of all devices.
    pub power_w_max: Option<f64>,
    /// Lanes of the CPU.
    pub lanes_max: usize,
    /// Cores of the CPU.
    pub cores: usize,
}

impl Default for PlacementLimits {
    /// A lane, and no limit of anything else.
    fn default() -> Self {
        Self { delay_ns_max: None, power_w_max: None, lanes_max: 1, cores: usize::MAX }
    }
}
