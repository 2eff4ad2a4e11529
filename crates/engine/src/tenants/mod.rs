//! Devices that tenants share. The decisions are those of [`warpline_sched::Arbiter`].
//!
//! Each tenant has the device in a wrapper, a [`seat`](SharedDevice::seat). A work of its streams
//! takes up to three steps there:
//!
//! 1. The copies before the first kernel go to the device at once.
//! 2. The kernels go when the gate grants them. Until they end they count as one launch in flight.
//! 3. The copies after the last kernel follow at once.
//!
//! So copies of one tenant overlap with kernels of another. A grant is given only to a stream that
//! asks for it. A tenant that stops asking wastes its own slices, and no others. Memory that a
//! tenant allocates counts against its quota.

mod background;
mod device;
mod gate;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Instant;

use warpline_device::Device;
use warpline_sched::{Evidence, MemoryQuota, Sharing, SharingError};

pub use background::Background;
use device::SeatDevice;
use gate::{Gate, Seat};

/// A tenant of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// Slots of the device that it has.
    pub slots: usize,
    /// Bytes of device memory that it may have; all of them if `None`.
    pub memory: Option<u64>,
}

/// A device, its tenants and their gate.
pub struct SharedDevice {
    id: String,
    sharing: Sharing,
    tenants: Vec<Tenant>,
    gate: Arc<Gate>,
}

impl SharedDevice {
    /// The device called `id`, shared by `tenants` from now on.
    ///
    /// # Errors
    /// The tenants and `sharing` contradict each other.
    pub fn new(id: String, sharing: Sharing, tenants: Vec<Tenant>) -> Result<Self, SharingError> {
        let started = Instant::now();
        Self::with_clock(id, sharing, tenants, move || started.elapsed().as_nanos() as u64)
    }

    /// The same by another clock, in nanoseconds.
    fn with_clock(
        id: String,
        sharing: Sharing,
        tenants: Vec<Tenant>,
        clock: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Result<Self, SharingError> {
        let slots: Vec<usize> = tenants.iter().map(|tenant| tenant.slots).collect();
        let quota = |tenant: &Tenant| MemoryQuota::new(tenant.memory.unwrap_or(u64::MAX));
        let quotas = tenants.iter().map(quota);
        let gate = Arc::new(Gate::new(&sharing, &slots, quotas, Box::new(clock))?);
        Ok(Self { id, sharing, tenants, gate })
    }

    /// Its name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How its tenants share it.
    pub fn sharing(&self) -> &Sharing {
        &self.sharing
    }

    /// Its tenants.
    pub fn tenants(&self) -> &[Tenant] {
        &self.tenants
    }

    /// `device` as the tenant of that number uses it: this device, or the same with a memory of its
    /// own ([`warpline_device::apart`]).
    pub fn seat(&self, tenant: usize, device: Arc<dyn Device>) -> Arc<dyn Device> {
        Arc::new(SeatDevice::new(device, Seat::new(Arc::clone(&self.gate), tenant)))
    }

    /// How it was shared until now.
    pub fn report(&self) -> SharedReport {
        let (evidence, memory_peaks) = self.gate.report();
        SharedReport { evidence, memory_peaks }
    }
}

/// How a device was shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedReport {
    /// Slices, launches and times of all tenants.
    pub evidence: Evidence,
    /// By tenant, the most bytes of device memory that it had at once.
    pub memory_peaks: Vec<u64>,
}
