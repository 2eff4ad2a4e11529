//! How much a stage on a device has to do, for backpressure and statistics.

use warpline_sched::{Launch, LaunchLimits, Load};

/// Bytes of the shortest packets.
pub const PACKET_LEN: usize = 64;

/// Packets whose mean length counts. Launches fill by bytes, so a queue measured by long frames is
/// too short for a launch of short ones.
const MEAN_OVER: u64 = 1024;

/// The packets and launches of one stage of one lane.
#[derive(Default)]
pub(super) struct StageLoad {
    /// Packets in no launch that was given out.
    waiting_packets: usize,
    /// Packets and bytes taken, of which later ones count more.
    taken: (u64, u64),
    /// When the first of the launches in flight started.
    busy_since: Option<u64>,
    /// Nanoseconds of earlier ones.
    busy_ns: u64,
}

impl StageLoad {
    pub(super) fn take(&mut self, load: &Load) {
        self.waiting_packets += load.packets;
        self.taken = (self.taken.0 + load.packets as u64, self.taken.1 + load.bytes as u64);
        if self.taken.0 > MEAN_OVER {
            self.taken = (self.taken.0 / 2, self.taken.1 / 2);
        }
    }

    pub(super) fn start(&mut self, launch: &Launch, now: u64) {
        self.waiting_packets = self.waiting_packets.saturating_sub(launch.packets);
        self.busy_since.get_or_insert(now);
    }

    /// No launch is in flight any more.
    pub(super) fn rest(&mut self, now: u64) {
        if let Some(since) = self.busy_since.take() {
            self.busy_ns += now.saturating_sub(since);
        }
    }

    pub(super) fn waiting_packets(&self) -> usize {
        self.waiting_packets
    }

    /// Packets of a launch, by the mean length of frames; at first they are the shortest.
    pub(super) fn launch_packets(&self, limits: &LaunchLimits) -> usize {
        let (packets, bytes) = self.taken;
        let len = bytes.checked_div(packets).unwrap_or(0) as usize;
        (limits.bytes_max / len.max(PACKET_LEN)).clamp(1, limits.packets_max)
    }

    /// Nanoseconds in which launches were in flight.
    pub(super) fn busy_ns(&self) -> u64 {
        self.busy_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_are_measured_by_the_frames_of_late() {
        let default = LaunchLimits::default();
        let limits = LaunchLimits { bytes_max: 1 << 20, packets_max: 1 << 16, ..default };
        let mut load = StageLoad::default();
        let mut take = |packets: usize, len: usize| {
            for _ in 0..packets / 64 {
                load.take(&Load { packets: 64, bytes: 64 * len, oldest_ns: 0 });
            }
            load.launch_packets(&limits)
        };
        assert_eq!(take(64_000, 1_500), 699);
        assert!(take(2_048, 64) > 2 * 699);
        assert!(take(8_192, 64) > 12_000);
    }
}
