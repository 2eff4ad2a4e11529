//! Profiles of virtual GPUs: how many tenants a device can have, and the memory of each. The data
//! is that of the vGPU study (table I) and of Simmer (tables 3 and 4).
//!
//! A device that is shared in time has one profile for all tenants. A device in multi-instance
//! mode (MIG) is divided into compute and memory slices, and its tenants may have different
//! profiles. Some combinations that fit these slices have no placement on a real A100; that is not
//! checked.
//!
//! ```
//! use warpline_sched::{Gpu, VgpuProfile};
//!
//! let profile = VgpuProfile::named(Gpu::P100, "4q")?;
//! let admitted = profile.admits(&[1, 1, 2], 16_000_000_000)?;
//! assert_eq!((admitted.device_slots, admitted.memory_bytes), (4, 16_000_000_000));
//! assert!(profile.admits(&[2, 2, 1], 16_000_000_000).is_err());
//! # Ok::<(), warpline_sched::ProfileError>(())
//! ```

mod error;
#[cfg(test)]
mod tests;

pub use error::ProfileError;

/// Compute slices of an A100 in multi-instance mode.
const COMPUTE_SLICES: usize = 7;
/// Its memory slices, of 5 GB each.
const MEMORY_SLICES: usize = 8;
const GB: u64 = 1_000_000_000;

/// A GPU whose profiles are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gpu {
    /// NVIDIA Tesla P100 with 16 GB.
    P100,
    /// NVIDIA A100 with 40 GB.
    A100,
}

impl Gpu {
    /// All known GPUs.
    pub const ALL: [Self; 2] = [Self::P100, Self::A100];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::P100 => "P100",
            Self::A100 => "A100",
        }
    }
}

/// How a profile divides a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Division {
    /// The tenants share the whole device in time, and each has a fixed part of the memory.
    Time,
    /// Each tenant has an instance with cores and memory of its own (MIG).
    Instances {
        /// Compute slices of an instance, of 7.
        compute: usize,
        /// Memory slices of an instance, of 8.
        memory: usize,
    },
}

/// One of the ways to divide a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VgpuProfile {
    /// The GPU.
    pub gpu: Gpu,
    /// Its name in the tables.
    pub name: &'static str,
    /// Gigabytes of a slot.
    pub memory_gb: u64,
    /// Slots of the device, if all have this profile.
    pub slots_max: usize,
    /// Whether the device is divided in time or into instances.
    pub division: Division,
}

const fn timed(gpu: Gpu, name: &'static str, memory_gb: u64, slots_max: usize) -> VgpuProfile {
    VgpuProfile { gpu, name, memory_gb, slots_max, division: Division::Time }
}

const fn instance(
    name: &'static str,
    (compute, memory): (usize, usize),
    memory_gb: u64,
    slots_max: usize,
) -> VgpuProfile {
    let division = Division::Instances { compute, memory };
    VgpuProfile { gpu: Gpu::A100, name, memory_gb, slots_max, division }
}

/// A device that has room for all its tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// Slots of the device: those of its profile, or its compute slices.
    pub device_slots: usize,
    /// Memory of all tenants.
    pub memory_bytes: u64,
}

impl VgpuProfile {
    /// All known profiles.
    pub const ALL: [Self; 16] = [
        timed(Gpu::P100, "1q", 1, 16),
        timed(Gpu::P100, "2q", 2, 8),
        timed(Gpu::P100, "4q", 4, 4),
        timed(Gpu::P100, "8q", 8, 2),
        timed(Gpu::P100, "16q", 16, 1),
        timed(Gpu::A100, "A100-4C", 4, 10),
        timed(Gpu::A100, "A100-5C", 5, 8),
        timed(Gpu::A100, "A100-8C", 8, 5),
        timed(Gpu::A100, "A100-10C", 10, 4),
        timed(Gpu::A100, "A100-20C", 20, 2),
        timed(Gpu::A100, "A100-40C", 40, 1),
        instance("A100-1-5C", (1, 1), 5, 7),
        instance("A100-2-10C", (2, 2), 10, 3),
        instance("A100-3-20C", (3, 4), 20, 2),
        instance("A100-4-20C", (4, 4), 20, 1),
        instance("A100-7-40C", (7, 8), 40, 1),
    ];

    /// The profiles of `gpu`.
    pub fn of(gpu: Gpu) -> impl Iterator<Item = &'static Self> {
        Self::ALL.iter().filter(move |profile| profile.gpu == gpu)
    }

    /// The profile of `gpu` called `name`.
    pub fn named(gpu: Gpu, name: &str) -> Result<&'static Self, ProfileError> {
        let unknown = || ProfileError::Unknown { gpu, name: name.to_owned() };
        Self::of(gpu).find(|profile| profile.name == name).ok_or_else(unknown)
    }

    /// The profile of `gpu` with the most tenants of `memory_bytes` each that share it in time.
    /// With more tenants a device waits less for copies (vGPU study, section VI).
    pub fn smallest(gpu: Gpu, memory_bytes: u64) -> Option<&'static Self> {
        Self::smallest_of(memory_bytes, move |own| own.gpu == gpu && own.division == Division::Time)
    }

    /// The same of instances with cores and memory of their own.
    pub fn smallest_instance(gpu: Gpu, memory_bytes: u64) -> Option<&'static Self> {
        Self::smallest_of(memory_bytes, move |own| own.gpu == gpu && own.division != Division::Time)
    }

    fn smallest_of(memory_bytes: u64, is_meant: impl Fn(&Self) -> bool) -> Option<&'static Self> {
        let all = Self::ALL.iter().filter(|own| is_meant(own));
        let fitting = all.filter(|own| own.memory_bytes() >= memory_bytes);
        // Of equal memory, the instance with fewer cores.
        fitting.min_by_key(|own| (own.memory_gb, std::cmp::Reverse(own.slots_max)))
    }

    /// Memory of a slot.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_gb * GB
    }

    /// Checks whether a device with `device_bytes` of memory has room for tenants that have so many
    /// `slots` each.
    pub fn admits(&self, slots: &[usize], device_bytes: u64) -> Result<Admitted, ProfileError> {
        let (profile, allowed, tenants) = (self.name, self.slots_max, slots.len());
        if tenants > allowed {
            return Err(ProfileError::Tenants { profile, allowed, tenants });
        }
        if let Some(tenant) = slots.iter().position(|&slots| slots == 0) {
            return Err(ProfileError::NoSlot { tenant });
        }
        let taken = slots.iter().fold(0, |sum: usize, &slots| sum.saturating_add(slots));
        if taken > allowed {
            return Err(ProfileError::Slots { profile, allowed, slots: taken });
        }
        let memory_bytes = self.memory_bytes() * taken as u64;
        if memory_bytes > device_bytes {
            return Err(ProfileError::Memory { memory_bytes, device_bytes });
        }
        let device_slots = match self.division {
            Division::Time => self.slots_max,
            Division::Instances { .. } => COMPUTE_SLICES,
        };
        Ok(Admitted { device_slots, memory_bytes })
    }

    /// The same for tenants with a profile each. Only instances may have different profiles.
    pub fn admit_all(
        tenants: &[(&Self, usize)],
        device_bytes: u64,
    ) -> Result<Admitted, ProfileError> {
        Self::check_mix(tenants)?;
        let mut admitted = Admitted { device_slots: 0, memory_bytes: 0 };
        for profile in &Self::ALL {
            let own = tenants.iter().filter(|(own, _)| *own == profile);
            let slots: Vec<usize> = own.map(|&(_, slots)| slots).collect();
            if !slots.is_empty() {
                let one = profile.admits(&slots, device_bytes)?;
                admitted.device_slots = one.device_slots;
                admitted.memory_bytes += one.memory_bytes;
            }
        }
        Self::check_slices(tenants)?;
        let memory_bytes = admitted.memory_bytes;
        match memory_bytes <= device_bytes {
            true => Ok(admitted),
            false => Err(ProfileError::Memory { memory_bytes, device_bytes }),
        }
    }

    /// Whether the profiles may be on one device.
    fn check_mix(tenants: &[(&Self, usize)]) -> Result<(), ProfileError> {
        for (tenant, &(profile, slots)) in tenants.iter().enumerate() {
            let first = tenants[0].0;
            if slots == 0 {
                return Err(ProfileError::NoSlot { tenant });
            }
            if first != profile && !first.mixes_with(profile) {
                return Err(ProfileError::Mixed { first: first.name, other: profile.name });
            }
        }
        Ok(())
    }

    fn mixes_with(&self, other: &Self) -> bool {
        let divided = |of: &Self| matches!(of.division, Division::Instances { .. });
        self.gpu == other.gpu && divided(self) && divided(other)
    }

    /// Compute and memory slices of all instances.
    fn check_slices(tenants: &[(&Self, usize)]) -> Result<(), ProfileError> {
        let (mut compute, mut memory) = (0, 0);
        for &(profile, slots) in tenants {
            if let Division::Instances { compute: cores, memory: banks } = profile.division {
                compute += slots * cores;
                memory += slots * banks;
            }
        }
        if compute > COMPUTE_SLICES {
            return Err(ProfileError::ComputeSlices { slices: compute });
        }
        match memory <= MEMORY_SLICES {
            true => Ok(()),
            false => Err(ProfileError::MemorySlices { slices: memory }),
        }
    }
}
