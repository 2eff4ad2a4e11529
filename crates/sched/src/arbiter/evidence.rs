//! How the device was shared, as plain data.

/// Of one tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantEvidence {
    /// Device time of its launches.
    pub device_ns: u64,
    /// Slices that it owned. One that a debt took whole isn't counted.
    pub slices: u64,
    /// Slices of these in which none of its launches was in flight.
    pub slices_wasted: u64,
    /// Time for which it owned the device: its slices and what its launches took beyond them.
    pub owned_ns: u64,
    /// Time of that in which none of its launches was in flight.
    pub idle_ns: u64,
    /// Time that its launches took beyond its slices, charged to later ones.
    pub overrun_ns: u64,
    /// Launches granted.
    pub grants: u64,
    /// Launches that never ended.
    pub lost: u64,
    /// Time that its requests waited, all together.
    pub waiting_ns: u64,
}

/// Of a device and all its tenants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Time since the first event.
    pub elapsed_ns: u64,
    /// Slices of slots that no tenant has.
    pub unassigned_slices: u64,
    /// Each tenant.
    pub tenants: Vec<TenantEvidence>,
}

impl Evidence {
    /// Device time of `tenant` in millionths of the time elapsed.
    pub fn share_ppm(&self, tenant: usize) -> u64 {
        let device_ns = self.tenants.get(tenant).map_or(0, |tenant| tenant.device_ns);
        ppm(device_ns, self.elapsed_ns)
    }

    /// Slices without work in millionths of all slices.
    pub fn wasted_ppm(&self) -> u64 {
        let sum = |of: fn(&TenantEvidence) -> u64| self.tenants.iter().map(of).sum::<u64>();
        let wasted = sum(|tenant| tenant.slices_wasted) + self.unassigned_slices;
        ppm(wasted, sum(|tenant| tenant.slices) + self.unassigned_slices)
    }
}

fn ppm(part: u64, whole: u64) -> u64 {
    let ppm = (u128::from(part) * 1_000_000).checked_div(whole.into()).unwrap_or(0);
    ppm.min(u64::MAX.into()) as u64
}
