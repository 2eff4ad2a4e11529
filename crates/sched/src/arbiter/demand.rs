//! The device time that a tenant's traffic requires: its arrival rate times its measured cost per
//! packet. Both are moving averages in integers.

/// Fraction bits of averages.
const BITS: u32 = 10;
/// A window moves the arrival rate by one in so many.
const RATE_SHARE: u64 = 8;
/// A launch moves the cost by one in so many.
const COST_SHARE: u64 = 16;
/// After so many windows without arrivals the rate is zero.
const WINDOWS_MAX: u64 = 256;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Demand {
    /// Packets of the current window.
    arrived: u64,
    /// Packets in a window, with [`BITS`]; unknown until the first window ends.
    rate: Option<u64>,
    /// Decayed sums over launches. Their ratio is the cost of a packet.
    device_ns: u64,
    /// With [`BITS`].
    packets: u64,
}

impl Demand {
    pub(super) fn add_arrivals(&mut self, packets: u64) {
        self.arrived = self.arrived.saturating_add(packets);
    }

    /// Adds a launch that had `packets` and took `device_ns`.
    pub(super) fn add_launch(&mut self, packets: u64, device_ns: u64) {
        if packets > 0 {
            self.device_ns = decayed(self.device_ns, COST_SHARE).saturating_add(device_ns);
            self.packets = decayed(self.packets, COST_SHARE).saturating_add(scaled(packets));
        }
    }

    /// Ends `windows` windows. Everything that arrived belongs to the first of them.
    pub(super) fn end_windows(&mut self, windows: u64) {
        for _ in 0..windows.min(WINDOWS_MAX) {
            let arrived = scaled(std::mem::take(&mut self.arrived));
            self.rate = match self.rate {
                Some(rate) => Some(decayed(rate, RATE_SHARE).saturating_add(arrived / RATE_SHARE)),
                None => (arrived > 0).then_some(arrived),
            };
        }
        if windows > WINDOWS_MAX {
            self.rate = self.rate.map(|_| 0);
        }
    }

    /// Device time that the packets of a window need, if both averages are known.
    pub(super) fn device_ns_per_window(&self) -> Option<u64> {
        let needed = u128::from(self.rate?) * u128::from(self.device_ns);
        let needed = needed.checked_div(self.packets.into())?;
        Some(needed.min(u64::MAX.into()) as u64)
    }
}

fn scaled(packets: u64) -> u64 {
    packets.saturating_mul(1 << BITS)
}

fn decayed(sum: u64, share: u64) -> u64 {
    sum - sum / share
}
