//! How tenants share a device: the policy and its limits.

use std::fmt;

/// Who gets the next slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Slots of tenants with work take turns. A tenant without work yields at once.
    BestEffort,
    /// Slots of present tenants take turns. The slice of an idle tenant is wasted.
    EqualShare,
    /// All slots of the device take turns, with or without a tenant.
    FixedShare,
    /// Tenants with work take turns. A slice is as long as the tenant's arrival rate times its
    /// measured cost per packet requires.
    RateProportional,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::BestEffort, Self::EqualShare, Self::FixedShare, Self::RateProportional];

    /// Its name in chain files.
    pub fn name(self) -> &'static str {
        match self {
            Self::BestEffort => "best_effort",
            Self::EqualShare => "equal_share",
            Self::FixedShare => "fixed_share",
            Self::RateProportional => "rate_proportional",
        }
    }

    /// The policy called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// Whether a tenant without work yields its slice.
    pub fn is_work_conserving(self) -> bool {
        matches!(self, Self::BestEffort | Self::RateProportional)
    }
}

/// Limits of an [`Arbiter`](super::Arbiter).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// Who gets the next slice.
    pub policy: Policy,
    /// Nanoseconds of a slice, see [`Sharing::SLICE_NS`].
    pub slice_ns: u64,
    /// Launches of one tenant granted at once, up to [`Sharing::IN_FLIGHT_MAX`].
    pub in_flight_max: usize,
    /// Slots of the device, up to [`Sharing::SLOTS_MAX`]. Tenants may have fewer in all.
    pub slots: usize,
}

impl Default for Sharing {
    /// Slices of 2 ms. Two launches in flight, so the device has the next one when one ends.
    fn default() -> Self {
        Self { policy: Policy::BestEffort, slice_ns: 2_000_000, in_flight_max: 2, slots: 16 }
    }
}

impl Sharing {
    /// The shortest and the longest slice.
    pub const SLICE_NS: std::ops::RangeInclusive<u64> = 1_000_000..=30_000_000;
    /// Tenants of one device, at most.
    pub const TENANTS_MAX: usize = 64;
    /// Slots of one device, at most.
    pub const SLOTS_MAX: usize = 256;
    /// Launches granted at once, at most.
    pub const IN_FLIGHT_MAX: usize = 64;

    /// Checks the limits, and the slots of each tenant.
    pub(super) fn check(&self, slots: &[usize]) -> Result<(), SharingError> {
        if !Self::SLICE_NS.contains(&self.slice_ns) {
            return Err(SharingError::Slice { slice_ns: self.slice_ns });
        }
        if !(1..=Self::IN_FLIGHT_MAX).contains(&self.in_flight_max) {
            return Err(SharingError::InFlight { in_flight_max: self.in_flight_max });
        }
        if !(1..=Self::SLOTS_MAX).contains(&self.slots) {
            return Err(SharingError::DeviceSlots { slots: self.slots });
        }
        if !(1..=Self::TENANTS_MAX).contains(&slots.len()) {
            return Err(SharingError::Tenants { tenants: slots.len() });
        }
        if let Some(tenant) = slots.iter().position(|&slots| slots == 0) {
            return Err(SharingError::NoSlot { tenant });
        }
        let taken = slots.iter().fold(0, |sum: usize, &slots| sum.saturating_add(slots));
        match taken <= self.slots {
            true => Ok(()),
            false => Err(SharingError::TenantSlots { taken, slots: self.slots }),
        }
    }
}

/// Why a device cannot be shared as requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharingError {
    /// The slice is too short or too long.
    Slice {
        /// The slice.
        slice_ns: u64,
    },
    /// No launch may be granted, or too many.
    InFlight {
        /// The limit.
        in_flight_max: usize,
    },
    /// The device has no slot, or too many.
    DeviceSlots {
        /// Slots of the device.
        slots: usize,
    },
    /// There is no tenant, or too many.
    Tenants {
        /// The number of tenants.
        tenants: usize,
    },
    /// A tenant has no slot.
    NoSlot {
        /// The tenant.
        tenant: usize,
    },
    /// The tenants have more slots than the device.
    TenantSlots {
        /// Slots of all tenants.
        taken: usize,
        /// Slots of the device.
        slots: usize,
    },
}

impl fmt::Display for SharingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slice { slice_ns } => {
                let range = Sharing::SLICE_NS;
                let (least, most) = (range.start() / 1_000_000, range.end() / 1_000_000);
                write!(f, "a slice must be {least} to {most} ms, found {slice_ns} ns")
            }
            Self::InFlight { in_flight_max } => {
                write!(
                    f,
                    "1 to {} launches may be in flight, found {in_flight_max}",
                    Sharing::IN_FLIGHT_MAX
                )
            }
            Self::DeviceSlots { slots } => {
                write!(f, "a device must have 1 to {} slots, found {slots}", Sharing::SLOTS_MAX)
            }
            Self::Tenants { tenants } => {
                write!(
                    f,
                    "a device must have 1 to {} tenants, found {tenants}",
                    Sharing::TENANTS_MAX
                )
            }
            Self::NoSlot { tenant } => {
                write!(f, "tenant {tenant} has no slot; it needs 1 or more")
            }
            Self::TenantSlots { taken, slots } => {
                write!(f, "tenants have {taken} slots of a device that has {slots}")
            }
        }
    }
}

impl std::error::Error for SharingError {}
