//! The time of a batch on the CPU, or of a launch on a device.

use crate::model::Cost;

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub enum BatchCost {
    /// A time for the batch, and one for each packet and byte.
    Linear(Cost),
    /// Packets and picoseconds of measured batches, in ascending order. The time between two of
    /// them is linear.
    Measured(Vec<(f64, f64)>),
}

impl From<Cost> for BatchCost {
    fn from(cost: Cost) -> Self {
        Self::Linear(cost)
    }
}

impl BatchCost {
    /// Nanoseconds for so many packets. A measured batch without packets takes no time.
    pub(crate) fn ns(&self, packets: u64, bytes: u64) -> u64 {
        (self.ps(packets, bytes) / 1e3).round() as u64
    }

    /// The same in picoseconds.
    pub(crate) fn ps(&self, packets: u64, bytes: u64) -> f64 {
        match self {
            Self::Linear(cost) => cost.ps(packets, bytes),
            Self::Measured(points) => time_ps(points, packets as f64),
        }
    }

    pub(crate) fn is_sound(&self) -> bool {
        match self {
            Self::Linear(cost) => cost.is_sound(),
            Self::Measured(points) => {
                let is_sound = |&(packets, ps): &(f64, f64)| {
                    Cost { packet_ps: ps, ..Cost::NONE }.is_sound()
                        && (1.0..=1e9).contains(&packets)
                };
                points.iter().all(is_sound) && points.windows(2).all(|two| two[0].0 < two[1].0)
            }
        }
    }
}

/// The time of a batch between measured ones. Outside of them the line continues: below with at
/// least the time in proportion, and with no more than that of the smallest.
pub(crate) fn time_ps(points: &[(f64, f64)], packets: f64) -> f64 {
    let Some(&first) = points.first().filter(|_| packets > 0.0) else { return 0.0 };
    let after = points.partition_point(|point| point.0 <= packets);
    let high = after.clamp(1, (points.len() - 1).max(1));
    let Some(&(high_packets, high_ps)) = points.get(high) else {
        return first.1 * packets / first.0;
    };
    let (low_packets, low_ps) = points[high - 1];
    let slope = (high_ps - low_ps) / (high_packets - low_packets);
    let time = low_ps + slope * (packets - low_packets);
    match packets < first.0 {
        true => time.clamp(first.1 * packets / first.0, first.1),
        false => time.max(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_between_measured_ones_take_times_between_theirs() {
        let points = [(1.0, 100e3), (16.0, 250e3), (256.0, 2_650e3)];
        let cost = BatchCost::Measured(points.to_vec());
        let found = [0, 1, 6, 16, 136, 256, 512].map(|packets| cost.ns(packets, 0));
        assert_eq!(found, [0, 100, 150, 250, 1_450, 2_650, 5_210]);
        // From the line of the two smallest: 330 ns for a batch and 10 for a packet. With one size
        // the time is in proportion, and a falling line gives no more than the smallest.
        let of = |points: &[(f64, f64)]| BatchCost::Measured(points.to_vec()).ns(64, 0);
        assert_eq!(of(&[(256.0, 2_890e3), (1024.0, 10_570e3)]), 970);
        assert_eq!(of(&[(256.0, 2_560e3)]), 640);
        assert_eq!(of(&[(256.0, 2_560e3), (1024.0, 2_000e3)]), 2_560);
        // A line that would start below zero gives the time in proportion.
        assert_eq!(of(&[(256.0, 2_560e3), (1024.0, 20_480e3)]), 640);
        assert!(cost.is_sound());
        for wrong in
            [[(2.0, 1.0), (1.0, 1.0)], [(1.0, 1.0), (2.0, f64::NAN)], [(0.0, 1.0), (1.0, 1.0)]]
        {
            assert!(!BatchCost::Measured(wrong.to_vec()).is_sound());
        }
    }
}
