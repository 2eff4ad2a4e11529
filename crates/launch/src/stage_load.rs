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
    in_flight: u32,
    /// When their number last changed.
    changed_ns: u64,
    times: LaunchTimes,
}

/// The time that launches of a stage took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaunchTimes {
    /// Nanoseconds in which a launch was in flight.
    pub busy_ns: u64,
    /// Nanoseconds of all launches together, each from its start to its end.
    pub launch_ns: u64,
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
        self.count_time(now);
        self.in_flight += 1;
    }

    /// A launch is over.
    pub(super) fn end(&mut self, now: u64) {
        self.count_time(now);
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    fn count_time(&mut self, now: u64) {
        self.times = self.times(now);
        self.changed_ns = now;
    }

    /// With the launches in flight, which started before `now`.
    pub(super) fn times(&self, now: u64) -> LaunchTimes {
        let since = now.saturating_sub(self.changed_ns);
        let busy_ns = self.times.busy_ns + since * u64::from(self.in_flight > 0);
        LaunchTimes { busy_ns, launch_ns: self.times.launch_ns + since * u64::from(self.in_flight) }
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
}

#[cfg(test)]
mod tests {
    use warpline_sched::{Closed, LaunchId};

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

    #[test]
    fn the_time_of_launches_counts_those_in_flight() {
        let mut load = StageLoad::default();
        let launch = Launch {
            id: LaunchId(0),
            slot: 0,
            batches: 1,
            packets: 1,
            bytes: 64,
            oldest_ns: 0,
            closed: Closed::Full,
        };
        load.start(&launch, 1_000);
        load.start(&launch, 1_100);
        let times = |busy_ns, launch_ns| LaunchTimes { busy_ns, launch_ns };
        assert_eq!(load.times(1_300), times(300, 500));
        load.end(1_300);
        load.end(1_400);
        assert_eq!(load.times(9_000), times(400, 600), "none in flight since 1,400");
        load.start(&launch, 9_000);
        assert_eq!(load.times(9_050), times(450, 650));
    }
}
