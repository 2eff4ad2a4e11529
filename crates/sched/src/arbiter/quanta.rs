//! How long turns are when shares follow the demand.

use super::{Arbiter, Policy};

/// Slices of a window over which arrivals are counted.
const WINDOW_SLICES: u64 = 16;
/// The shortest turn is a slice divided by this, so every tenant progresses.
const SHORTEST: u64 = 64;

impl Arbiter {
    pub(super) fn window_ns(&self) -> u64 {
        WINDOW_SLICES * self.sharing.slice_ns
    }

    /// Ends windows that are over.
    pub(super) fn end_windows(&mut self, now_ns: u64) {
        let Some(late_ns) = now_ns.checked_sub(self.window_end_ns) else { return };
        let windows = late_ns / self.window_ns() + 1;
        self.window_end_ns =
            self.window_end_ns.saturating_add(windows.saturating_mul(self.window_ns()));
        for tenant in &mut self.tenants {
            tenant.demand.end_windows(windows);
        }
    }

    /// Divides a round among the tenants that are present. A tenant whose demand is unknown gets a
    /// slice, which is the mean.
    pub(super) fn set_quanta(&mut self) {
        if self.sharing.policy != Policy::RateProportional {
            return;
        }
        let slice_ns = self.sharing.slice_ns;
        let present = self.tenants.iter().filter(|tenant| tenant.present);
        let needs = present.filter_map(|tenant| tenant.demand.device_ns_per_window());
        let (count, sum) =
            needs.fold((0, 0), |(count, sum), need| (count + 1, sum + u128::from(need)));
        let round_ns = u128::from(slice_ns) * count;
        for tenant in &mut self.tenants {
            let need = tenant.demand.device_ns_per_window().map(u128::from);
            let quantum = need.and_then(|need| (round_ns * need).checked_div(sum));
            let quantum_ns = quantum.map_or(slice_ns, |ns| ns.min(round_ns) as u64);
            tenant.quantum_ns = quantum_ns.max(slice_ns / SHORTEST);
        }
    }
}
