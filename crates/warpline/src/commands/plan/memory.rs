//! The bytes that are in flight at a rate and a delay, beside the memory for them.

use serde_json::{Value, json};

use super::link::Traffic;
use crate::chain_file::Loaded;
use crate::commands::advise::units;
use crate::commands::devices::size;

/// Without a limit the monitor lets no packet wait longer.
const DELAY_US: f64 = 1000.0;

/// The buffer that `AdaptChain` gives a chain: its rate times its longest delay (section V-A).
pub(super) struct InFlight {
    gbps: f64,
    delay_us: f64,
    /// Of one lane. A mirror has the same size.
    arena_bytes: usize,
    lanes: usize,
}

impl InFlight {
    pub(super) fn of(loaded: &Loaded, traffic: Traffic) -> Self {
        let need = loaded.settings.fit(&loaded.deployment).memory(&loaded.deployment);
        Self {
            gbps: traffic.gbps,
            delay_us: traffic.delay_us.or(loaded.table.delay_us_max()).unwrap_or(DELAY_US),
            arena_bytes: need.arena,
            lanes: need.lanes,
        }
    }

    fn bytes(&self) -> f64 {
        self.gbps * self.delay_us * 125.0
    }

    pub(super) fn line(&self) -> String {
        let lanes = if self.lanes == 1 { "lane" } else { "lanes" };
        format!(
            "  in flight {:.3} MB at {} Gb/s for {}; the arena of each of {} {lanes} has {}\n",
            self.bytes() / 1e6,
            self.gbps,
            units::delay(self.delay_us),
            self.lanes,
            size(self.arena_bytes as u64),
        )
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "bytes": self.bytes(),
            "gbps": self.gbps,
            "delay_us": self.delay_us,
            "arena_lane_bytes": self.arena_bytes,
            "lanes": self.lanes,
        })
    }
}
