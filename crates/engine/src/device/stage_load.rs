//! How much a stage on a device has to do, for backpressure and statistics.

use warpline_sched::{Launch, LaunchLimits, Load};

use crate::settings::PACKET_LEN;

/// The packets and launches of one stage of one lane.
#[derive(Default)]
pub(super) struct StageLoad {
    /// Packets in no launch that was given out.
    waiting_packets: usize,
    /// Packets and bytes taken so far.
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
