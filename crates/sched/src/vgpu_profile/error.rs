//! Why a device has no room for its tenants.

use std::fmt;

use super::{COMPUTE_SLICES, GB, Gpu, MEMORY_SLICES, VgpuProfile};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileError {
    /// The GPU has no such profile.
    Unknown {
        /// The GPU.
        gpu: Gpu,
        /// The name.
        name: String,
    },
    /// The profile has fewer slots than there are tenants.
    Tenants {
        /// The profile.
        profile: &'static str,
        /// Tenants that it allows.
        allowed: usize,
        /// The number of tenants.
        tenants: usize,
    },
    /// A tenant has no slot.
    NoSlot {
        /// The tenant.
        tenant: usize,
    },
    /// The tenants have more slots than the profile.
    Slots {
        /// The profile.
        profile: &'static str,
        /// Slots that it allows.
        allowed: usize,
        /// Slots of all tenants.
        slots: usize,
    },
    /// The device has too little memory.
    Memory {
        /// Memory of all tenants.
        memory_bytes: u64,
        /// Memory of the device.
        device_bytes: u64,
    },
    /// These two profiles cannot be on one device.
    Mixed {
        /// That of the first tenant.
        first: &'static str,
        /// That of another one.
        other: &'static str,
    },
    /// The instances need too many compute slices.
    ComputeSlices {
        /// The slices.
        slices: usize,
    },
    /// The instances need too many memory slices.
    MemorySlices {
        /// The slices.
        slices: usize,
    },
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { gpu, name } => {
                let names: Vec<&str> = VgpuProfile::of(*gpu).map(|profile| profile.name).collect();
                let (gpu, names) = (gpu.name(), names.join(", "));
                write!(f, "{gpu} has no vGPU profile \"{name}\"; it has {names}")
            }
            Self::Tenants { profile, allowed, tenants } => {
                write!(f, "profile {profile} allows at most {allowed} tenants, found {tenants}")
            }
            Self::NoSlot { tenant } => {
                write!(f, "tenant {tenant} has no slot; it needs 1 or more")
            }
            Self::Slots { profile, allowed, slots } => {
                write!(f, "profile {profile} allows at most {allowed} slots, found {slots}")
            }
            Self::Memory { memory_bytes, device_bytes } => {
                let (needed, most) = (tenths(*memory_bytes), tenths(*device_bytes));
                write!(f, "the tenants need {needed} GB of device memory, at most {most} GB exist")
            }
            Self::Mixed { first, other } => {
                write!(f, "profiles {first} and {other} cannot share a device; ")?;
                write!(f, "all tenants need one profile, except for MIG profiles of one GPU")
            }
            Self::ComputeSlices { slices } => {
                write!(
                    f,
                    "at most {COMPUTE_SLICES} compute slices exist, the profiles need {slices}"
                )
            }
            Self::MemorySlices { slices } => {
                write!(f, "at most {MEMORY_SLICES} memory slices exist, the profiles need {slices}")
            }
        }
    }
}

/// Gigabytes with one decimal.
fn tenths(bytes: u64) -> String {
    format!("{}.{}", bytes / GB, bytes % GB / (GB / 10))
}

impl std::error::Error for ProfileError {}
