//! Live counts of a chain, and the figures of functions that follow from them.

use warpline_engine::StageCounts;
use warpline_engine::stats::ThreadStats;
use warpline_sched::monitor::{ChainObserved, HeldSource, Observed};
use warpline_sched::work_profile::{CPU, Figures, Measurement, WorkProfile};

/// The part of a period from which a pause counts.
const PAUSED: f64 = 0.05;
/// The part of the packets that were lost for want of room, from which the loss counts.
const LOST: f64 = 0.05;
/// The part of the lanes' time from which a chain had input all the time.
pub(super) const BUSY: f64 = 0.9;
/// How far the mean length of frames may be from that of a measurement, as a part of it.
pub(super) const LEN_APART: f64 = 0.25;

/// Counts of a chain since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ChainCounts {
    pub(super) read: u64,
    /// Of these, lost for want of room.
    lost: u64,
    pub(super) bytes: u64,
    pub(super) elapsed_ns: u64,
    pub(super) paused_ns: u64,
    /// By position, nanoseconds of work and packets.
    pub(super) functions: Vec<(u64, u64)>,
    pub(super) stages: Vec<StageCounts>,
    /// By position, launches that a lane may have in flight; 0 on the CPU.
    pub(super) streams: Vec<u64>,
}

impl ChainCounts {
    pub(super) fn of(part: &ThreadStats) -> Self {
        let pressure = part.pressure.as_ref();
        let source = pressure.and_then(|pressure| pressure.nodes.first());
        Self {
            read: part.packets.read,
            lost: part.packets.overload,
            bytes: part.bytes_read,
            elapsed_ns: pressure.map_or(0, |pressure| pressure.elapsed_ns),
            paused_ns: source.map_or(0, |source| source.paused_ns),
            functions: part.functions.iter().map(|one| (one.busy_ns, one.packets_in)).collect(),
            stages: part.stages.clone(),
            streams: part.functions.iter().map(|one| one.transfers.streams).collect(),
        }
    }

    /// The counts since `before`.
    pub(super) fn since(&self, before: &Self) -> Self {
        let functions = self.functions.iter().enumerate().map(|(at, now)| {
            let old = before.functions.get(at).copied().unwrap_or_default();
            (now.0.saturating_sub(old.0), now.1.saturating_sub(old.1))
        });
        let stages = self.stages.iter().enumerate().map(|(at, now)| {
            let old = before.stages.get(at).copied().unwrap_or_default();
            StageCounts {
                launches: now.launches.saturating_sub(old.launches),
                device_ns: now.device_ns.saturating_sub(old.device_ns),
                launch_ns: now.launch_ns.saturating_sub(old.launch_ns),
                ..StageCounts::default()
            }
        });
        Self {
            stages: stages.collect(),
            streams: self.streams.clone(),
            read: self.read.saturating_sub(before.read),
            lost: self.lost.saturating_sub(before.lost),
            bytes: self.bytes.saturating_sub(before.bytes),
            elapsed_ns: self.elapsed_ns.saturating_sub(before.elapsed_ns),
            paused_ns: self.paused_ns.saturating_sub(before.paused_ns),
            functions: functions.collect(),
        }
    }

    /// The rate and the state of a period of `seconds` on so many lanes. `is_full`: a device was
    /// the limit all the time.
    pub(super) fn observed(
        &self,
        seconds: f64,
        (lanes, is_full): (usize, bool),
        is_paused: bool,
    ) -> ChainObserved {
        let paused = self.paused_ns as f64 / self.elapsed_ns.max(1) as f64;
        let busy_ns: u64 = self.functions.iter().map(|one| one.0).sum();
        let busy = busy_ns as f64 / 1e9 / (seconds * lanes.max(1) as f64);
        let observed = match () {
            () if is_paused || paused > PAUSED => Observed::Paused,
            () if is_full || busy >= BUSY => Observed::Running,
            () => Observed::Starved,
        };
        let carried_per_s = self.read.saturating_sub(self.lost) as f64 / seconds;
        let lost = self.lost as f64 / self.read.max(1) as f64;
        // A user's pause is no load.
        let is_held = !is_paused && (paused > PAUSED || lost > LOST);
        let share = paused.max(lost).min(1.0);
        let held = is_held.then_some(HeldSource { share, carried_per_s });
        ChainObserved { packets_per_s: self.read as f64 / seconds, observed, held }
    }
}

/// The measurement of a function on the CPU that is nearest to frames of `len` bytes in batches of
/// `batch` packets, with the time that a packet took.
pub(super) fn learned(
    profile: &WorkProfile,
    function: usize,
    (batch, len): (u32, f64),
    (busy_ns, packets): (u64, u64),
) -> Option<Measurement> {
    let own =
        profile.measurements().filter(|one| one.pair == (function, CPU) && one.beside.is_none());
    let apart = |one: &Measurement| {
        let len_apart = (f64::from(one.packet_len) - len).abs();
        (len_apart as u64, one.launch_packets.abs_diff(batch))
    };
    let nearest = own.min_by_key(apart)?;
    let near = f64::from(nearest.packet_len);
    if packets == 0 || busy_ns == 0 || (near - len).abs() > LEN_APART * near {
        return None;
    }
    let bits_per_s = near * 8e9 * packets as f64 / busy_ns as f64;
    let figures = Figures { bits_per_s, weight: busy_ns as f64 / 1e9, ..nearest.figures };
    Some(Measurement { figures, ..nearest })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(read: u64, paused_ns: u64, busy_ns: u64) -> ChainCounts {
        let functions = vec![(busy_ns, read)];
        let (bytes, elapsed_ns) = (read * 100, 1_000_000_000);
        ChainCounts { read, bytes, elapsed_ns, paused_ns, functions, ..ChainCounts::default() }
    }

    #[test]
    fn a_period_has_a_rate_and_a_state() {
        let period =
            |paused_ns, busy_ns| seen(500, paused_ns, busy_ns).observed(0.5, (2, false), false);
        assert_eq!(period(0, 950_000_000).observed, Observed::Running);
        assert_eq!(period(0, 800_000_000).observed, Observed::Starved);
        assert_eq!(period(60_000_000, 950_000_000).observed, Observed::Paused);
        assert_eq!(seen(1, 0, 0).observed(1.0, (1, true), false).observed, Observed::Running);
        assert_eq!(period(0, 0).packets_per_s, 1000.0);
        assert_eq!(seen(1, 0, 0).observed(1.0, (1, false), true).observed, Observed::Paused);
        let held = ChainCounts { lost: 100, ..seen(500, 250_000_000, 0) };
        let expected = HeldSource { share: 0.25, carried_per_s: 800.0 };
        assert_eq!(held.observed(0.5, (1, false), false).held, Some(expected));
        assert_eq!((held.observed(0.5, (1, false), true).held, period(0, 0).held), (None, None));
        // A lane that waits for a core loses packets without a pause.
        let lost = |lost| ChainCounts { lost, ..seen(500, 0, 0) }.observed(0.5, (1, false), false);
        let expected = HeldSource { share: 0.9, carried_per_s: 100.0 };
        assert_eq!((lost(450).held, lost(450).packets_per_s), (Some(expected), 1000.0));
        assert_eq!((lost(450).observed, lost(20).held), (Observed::Starved, None));
        let before = ChainCounts { functions: Vec::new(), ..seen(400, 10, 0) };
        let since = seen(500, 60, 70).since(&before);
        assert_eq!((since.read, since.bytes, since.paused_ns), (100, 10_000, 50));
        assert_eq!(since.functions, [(70, 500)]);
    }

    #[test]
    fn live_figures_are_those_of_the_nearest_measurement() {
        let mut profile = WorkProfile::new(&["router"], &["cpu", "host"]);
        let figures = Figures { bits_per_s: 1e9, latency_ns: 7.0, share: 0.5, weight: 1.0 };
        for (device, launch, len) in [(0, 64, 100), (0, 256, 100), (0, 256, 1000), (1, 256, 500)] {
            let one = Measurement::alone((0, device), launch, len, figures);
            profile.merge(&one).expect("sound");
        }
        let of = |len: f64, work| learned(&profile, 0, (200, len), work);
        // 40 ns a packet of 100 bytes.
        let one = of(110.0, (4_000, 100)).expect("near 100 bytes");
        assert_eq!((one.pair, one.launch_packets, one.packet_len), ((0, 0), 256, 100));
        assert!((one.figures.bits_per_s - 20e9).abs() < 1.0, "{one:?}");
        assert_eq!((one.figures.latency_ns, one.figures.weight), (7.0, 4e-6));
        assert_eq!(of(500.0, (4_000, 100)), None, "far from both");
        assert_eq!((of(100.0, (0, 100)), of(100.0, (100, 0))), (None, None));
        assert_eq!(learned(&profile, 1, (256, 100.0), (1, 1)), None, "never measured");
    }
}
