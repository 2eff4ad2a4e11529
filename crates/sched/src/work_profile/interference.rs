//! How much slower a function is beside others on its device.

use super::{WorkPair, WorkProfile};

/// Instances of a function that run on the same device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Beside {
    /// The function.
    pub function: usize,
    /// How many instances.
    pub count: u32,
}

/// Where a slow-down comes from, from the best evidence to the weakest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Basis {
    /// This number of these co-runners was measured.
    Measured,
    /// Other numbers of them were.
    Interpolated,
    /// Each kind was measured, their mix was not.
    Modelled,
    /// A pair was never measured: all get equal parts of the device.
    Assumed,
}

/// See [`WorkProfile::slow_down`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowDown {
    /// The factor by which work takes longer, 1 or more.
    pub factor: f64,
    /// Its evidence.
    pub basis: Basis,
}

impl WorkProfile {
    /// The factor by which a function takes longer beside `others`, for a launch size and a packet
    /// length. Each kind must be listed once.
    pub fn slow_down(
        &self,
        pair: WorkPair,
        (launch_packets, packet_len): (u32, u32),
        others: &[Beside],
    ) -> SlowDown {
        let present = others.iter().filter(|other| other.count > 0);
        let none = SlowDown { factor: 1.0, basis: Basis::Measured };
        let mut kinds = 0;
        let sum = present.fold(none, |sum, &other| {
            let one = self.beside_kind(pair, (launch_packets, packet_len), other);
            kinds += 1;
            SlowDown { factor: sum.factor + one.factor - 1.0, basis: sum.basis.max(one.basis) }
        });
        let mixed = if kinds > 1 { Basis::Modelled } else { Basis::Measured };
        SlowDown { basis: sum.basis.max(mixed), ..sum }
    }

    /// Beside one kind. Between measured numbers of co-runners the factor is linear.
    fn beside_kind(&self, pair: WorkPair, sizes: (u32, u32), other: Beside) -> SlowDown {
        let (mut low, mut slope) = ((0, 1.0), None);
        for (count, factor) in self.measured_beside(pair, sizes, other.function) {
            if count == other.count {
                return SlowDown { factor, basis: Basis::Measured };
            }
            slope = Some((factor - low.1) / f64::from(count - low.0));
            if count > other.count {
                break;
            }
            low = (count, factor);
        }
        let basis = if slope.is_some() { Basis::Interpolated } else { Basis::Assumed };
        let more = f64::from(other.count - low.0) * slope.unwrap_or(1.0);
        SlowDown { factor: (low.1 + more).max(1.0), basis }
    }

    /// Numbers of co-runners that were measured, with the factor of each.
    fn measured_beside(
        &self,
        pair: WorkPair,
        (launch, len): (u32, u32),
        function: usize,
    ) -> Vec<(u32, f64)> {
        let bound = |count| (pair, Some(Beside { function, count }));
        let Some(alone) = self.alone(pair, launch, len) else { return Vec::new() };
        let measured = self.work.range(bound(1)..=bound(u32::MAX));
        measured
            .filter_map(|(&(_, beside), sizes)| {
                let figures = super::curve::figures(sizes, launch, len)?;
                Some((beside?.count, (alone.bits_per_s / figures.bits_per_s).max(1.0)))
            })
            .collect()
    }
}
