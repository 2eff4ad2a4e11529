//! The figures of functions on devices, as live launches show them.

use std::sync::Arc;

use warpline_engine::{Deployment, StageCounts, StagePlan};
use warpline_sched::work_profile::{Measurement, WorkPair, WorkProfile};

use super::device_of;
use super::figures::{BUSY, ChainCounts, LEN_APART};

/// The part of a stage's launches in flight from which it waits for the device alone.
const FULL: f64 = 0.75;
/// Launches in flight up to which a launch has the device alone.
const ALONE: f64 = 1.25;
/// A launch may be so many times smaller or larger than all measured ones.
const SIZES_APART: f64 = 4.0;

/// A function that alone uses a device, and its launches in a period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct DevicePeriod {
    /// Its position in the chain.
    pub(super) position: usize,
    /// Packets that it took, and their mean length.
    pub(super) packets: u64,
    pub(super) len: f64,
    /// Of its stage.
    pub(super) counts: StageCounts,
    /// Lanes that launch, and launches that each may have in flight.
    pub(super) lanes: usize,
    pub(super) launches_max: u64,
}

impl DevicePeriod {
    /// The share of a period of `seconds` in which a launch was in flight.
    fn busy(&self, seconds: f64) -> f64 {
        busy_share(&self.counts, (self.lanes, seconds))
    }

    fn in_flight(&self) -> f64 {
        self.counts.launch_ns as f64 / self.counts.device_ns.max(1) as f64
    }

    /// Whether the device was the limit all the time.
    pub(super) fn is_full(&self, seconds: f64) -> bool {
        self.busy(seconds) >= BUSY && self.in_flight() >= FULL * self.launches_max as f64
    }

    /// The time of a launch that has the device alone. If launches overlap, it lies between their
    /// share of the device's time and their mean time. `None` if `expected` lies there, otherwise
    /// the nearer bound.
    fn latency_ns(&self, expected: f64) -> Option<f64> {
        let StageCounts { launches, device_ns, launch_ns, .. } = self.counts;
        let most = launch_ns as f64 / launches as f64;
        // Lanes may have launches at the same time.
        let least = device_ns as f64 / (launches * self.lanes as u64) as f64;
        if self.in_flight() <= ALONE {
            return Some(most);
        }
        Some(expected.clamp(least, most)).filter(|&bound| bound != expected)
    }

    /// The nearest measurement of `pair`, with the throughput of a device that was full and the
    /// time of a launch that has it alone.
    pub(super) fn learned(
        &self,
        profile: &WorkProfile,
        pair: WorkPair,
        seconds: f64,
    ) -> Option<Measurement> {
        let StageCounts { launches, device_ns, .. } = self.counts;
        if self.packets == 0 || launches == 0 || device_ns == 0 {
            return None;
        }
        let launch = self.packets as f64 / launches as f64;
        let own = profile.measurements().filter(|one| one.pair == pair && one.beside.is_none());
        let size_apart = |one: &Measurement| (launch / f64::from(one.launch_packets)).ln().abs();
        let apart = |one: &Measurement| (f64::from(one.packet_len) - self.len).abs();
        let by_both = |a: &Measurement, b: &Measurement| {
            apart(a).total_cmp(&apart(b)).then(size_apart(a).total_cmp(&size_apart(b)))
        };
        let nearest = own.min_by(by_both)?;
        let sizes = profile.launch_sizes(pair);
        let [least, most] = [*sizes.first()?, *sizes.last()?].map(f64::from);
        let is_near = apart(&nearest) <= LEN_APART * f64::from(nearest.packet_len)
            && (least / SIZES_APART..=most * SIZES_APART).contains(&launch);
        let expected = profile.alone(pair, launch.round() as u32, nearest.packet_len)?;
        let is_full = self.is_full(seconds);
        let latency_ns = self.latency_ns(expected.latency_ns);
        if !is_near || !(is_full || latency_ns.is_some()) {
            return None;
        }
        let mut figures = nearest.figures;
        if is_full {
            let bits = f64::from(nearest.packet_len) * 8.0 * self.packets as f64;
            figures.bits_per_s *= bits / seconds / self.busy(seconds) / expected.bits_per_s;
        }
        if let Some(latency_ns) = latency_ns {
            figures.latency_ns *= latency_ns / expected.latency_ns;
        }
        figures.weight = device_ns as f64 / 1e9;
        Some(Measurement { figures, ..nearest })
    }
}

fn busy_share(counts: &StageCounts, (lanes, seconds): (usize, f64)) -> f64 {
    counts.device_ns as f64 / 1e9 / (seconds * lanes as f64)
}

/// The stages of a chain that have one function, on a device that no other stage uses.
pub(super) fn periods(
    deployment: &Deployment,
    in_use: &[String],
    period: &ChainCounts,
    lanes: usize,
) -> Vec<DevicePeriod> {
    let of = |(stage, &counts): (&StagePlan, &StageCounts)| {
        let site = &deployment.sites()[stage.first];
        let on = site.on_device.as_ref()?;
        let users = in_use.iter().filter(|device| **device == device_of(site)).count();
        let lanes = on.launches.lanes.min(lanes).max(1);
        (stage.count == 1 && users == 1).then_some(DevicePeriod {
            position: stage.first,
            packets: period.functions.get(stage.first)?.1,
            len: period.bytes as f64 / period.read.max(1) as f64,
            counts,
            lanes,
            launches_max: (period.streams.get(stage.first)? / lanes as u64).max(1),
        })
    };
    deployment.stages().iter().zip(&period.stages).filter_map(of).collect()
}

/// The part of `seconds` in which stages had a launch in flight, with their devices.
pub(super) fn busy(
    deployment: &Deployment,
    period: &ChainCounts,
    (lanes, seconds): (usize, f64),
) -> Vec<(String, f64)> {
    let of = |(stage, counts): (&StagePlan, &StageCounts)| {
        let site = &deployment.sites()[stage.first];
        let lanes = site.on_device.as_ref()?.launches.lanes.min(lanes).max(1);
        let busy = busy_share(counts, (lanes, seconds));
        Some((device_of(site).to_owned(), busy.min(1.0)))
    };
    deployment.stages().iter().zip(&period.stages).filter_map(of).collect()
}

/// The device of each stage.
pub(super) fn in_use(deployments: &[Arc<Deployment>]) -> Vec<String> {
    let of_chain = |own: &Arc<Deployment>| {
        let sites = own.stages().iter().map(|stage| &own.sites()[stage.first]);
        sites.map(|site| device_of(site).to_owned()).collect::<Vec<_>>()
    };
    deployments.iter().flat_map(of_chain).collect()
}

#[cfg(test)]
mod tests {
    use warpline_sched::work_profile::Figures;

    use super::*;

    /// Launches of 256 packets take 100 us alone, and pass 32 Gb/s with four in flight.
    fn profile() -> WorkProfile {
        let mut profile = WorkProfile::new(&["router"], &["cpu", "gpu"]);
        for (launch, bits_per_s, latency_ns) in [(256, 32e9, 1e5), (1024, 64e9, 2e5)] {
            let figures = Figures { bits_per_s, latency_ns, share: 1.0, weight: 1.0 };
            let one = Measurement::alone((0, 1), launch, 1000, figures);
            profile.merge(&one).expect("sound");
        }
        profile
    }

    /// A second in which a launch was in flight for `device_ns`, and all took `launch_ns`.
    fn period(packets: u64, launches: u64, device_ns: u64, launch_ns: u64) -> DevicePeriod {
        let counts = StageCounts { launches, device_ns, launch_ns, ..StageCounts::default() };
        DevicePeriod { position: 0, packets, len: 1000.0, counts, lanes: 1, launches_max: 4 }
    }

    #[test]
    fn a_full_device_shows_its_throughput_and_a_lone_launch_its_time() {
        let second = 1_000_000_000;
        let learned = |period: DevicePeriod| {
            let one = period.learned(&profile(), (0, 1), 1.0)?;
            Some((
                one.launch_packets,
                one.figures.bits_per_s.round(),
                one.figures.latency_ns.round(),
            ))
        };
        let full = period(2_000_000, 2_000_000 / 256, second, 4 * second);
        let (launch, bits, latency) = learned(full).expect("full");
        assert_eq!((launch, latency), (256, 128_008.0), "7,812 launches in a second");
        assert!((bits / 16e9 - 1.0).abs() < 1e-3, "2 Mpps of 1,000 bytes: {bits}");
        // Launches of 150 us with nothing beside them.
        let lone = period(256_000, 1_000, 150_000_000, 150_000_000);
        assert_eq!(learned(lone), Some((256, 32e9, 1.5e5)));
        // Between two measured sizes, the nearest changes in proportion: 300 us for 200.
        let between = period(640_000, 1_000, 225_000_000, 225_000_000);
        assert_eq!(learned(between).map(|one| (one.0, one.2)), Some((1024, 3e5)));
        // Two in flight: the time of one alone is between its share and its own time.
        let two = |share_ns: u64| period(256_000, 1_000, 1_000 * share_ns, 2_000 * share_ns);
        assert_eq!(learned(two(500_000)), Some((256, 32e9, 5e5)));
        assert_eq!(learned(two(40_000)), Some((256, 32e9, 8e4)));
        let of_two_lanes = DevicePeriod { lanes: 2, ..two(500_000) };
        assert_eq!(learned(of_two_lanes), Some((256, 32e9, 2.5e5)));
        for (why, none) in [
            ("100 us are between 60 and 120", two(60_000)),
            ("no launch", period(0, 0, 0, 0)),
            ("launches of 8 packets", period(8_000, 1_000, 150_000_000, 150_000_000)),
            ("frames of 100 bytes", DevicePeriod { len: 100.0, ..lone }),
        ] {
            assert_eq!(learned(none), None, "{why}");
        }
        let two_lanes = DevicePeriod { lanes: 2, ..period(1, 1, second, 4 * second) };
        assert!(full.is_full(1.0) && !two_lanes.is_full(1.0));
    }
}
