//! The counters that a function declares.

/// A counter of a function, which its state or its report counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Its name in statistics, in kebab-case.
    pub name: &'static str,
    /// How its value changes.
    pub kind: CounterKind,
    /// The things it counts, in the plural: `packets`, `bytes`.
    pub unit: &'static str,
    /// Its meaning, in a line.
    pub help: &'static str,
}

/// How the value of a counter changes while packets flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterKind {
    /// It only rises.
    Total,
    /// It rises and falls.
    Gauge,
    /// The highest sum of a gauge over all shards, to a tick ([`crate::PeakSum`]). It does not
    /// depend on lanes and batches.
    Peak,
}

impl CounterKind {
    /// Its name in manuals.
    pub fn name(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Gauge => "gauge",
            Self::Peak => "peak",
        }
    }
}

impl Counter {
    /// A counter that only rises.
    pub const fn total(name: &'static str, unit: &'static str, help: &'static str) -> Self {
        Self { name, kind: CounterKind::Total, unit, help }
    }

    /// A value that rises and falls.
    pub const fn gauge(name: &'static str, unit: &'static str, help: &'static str) -> Self {
        Self { name, kind: CounterKind::Gauge, unit, help }
    }

    /// The highest value of a gauge.
    pub const fn peak(name: &'static str, unit: &'static str, help: &'static str) -> Self {
        Self { name, kind: CounterKind::Peak, unit, help }
    }
}
