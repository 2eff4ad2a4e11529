//! The memory of a device that one tenant may use.

use std::fmt;

/// Bytes that a tenant may have on a device, and has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryQuota {
    allowed: u64,
    used: u64,
}

impl MemoryQuota {
    /// One of `allowed` bytes, all free.
    pub fn new(allowed: u64) -> Self {
        Self { allowed, used: 0 }
    }

    /// Bytes that may be used.
    pub fn allowed(&self) -> u64 {
        self.allowed
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Bytes that can still be taken.
    pub fn free(&self) -> u64 {
        self.allowed - self.used
    }

    /// Takes all of `bytes`, or none of them.
    pub fn take(&mut self, bytes: u64) -> Result<(), QuotaExceeded> {
        let (free, allowed) = (self.free(), self.allowed);
        if bytes > free {
            return Err(QuotaExceeded { bytes, free, allowed });
        }
        self.used += bytes;
        Ok(())
    }

    /// Returns `bytes` that were taken. Any more than are in use are ignored.
    pub fn give(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.used, "gives {bytes} of {} bytes", self.used);
        self.used = self.used.saturating_sub(bytes);
    }
}

/// A tenant asked for more memory than it may still take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaExceeded {
    /// Bytes asked for.
    pub bytes: u64,
    /// Bytes free.
    pub free: u64,
    /// Bytes that the tenant may have in all.
    pub allowed: u64,
}

impl fmt::Display for QuotaExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, free, allowed } = self;
        write!(f, "{bytes} bytes of device memory exceed the quota: {free} of {allowed} are free")
    }
}

impl std::error::Error for QuotaExceeded {}
