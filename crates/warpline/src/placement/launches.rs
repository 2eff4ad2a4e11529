//! The launches of functions on devices, as a placement or the monitor decides them.

use std::time::Duration;

use warpline_sched::placement::Site;
use warpline_sched::work_profile::WorkProfile;

/// The launches of a function on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Launches<'a> {
    pub(crate) device: &'a str,
    pub(crate) packets: u32,
    /// The packets of the largest launch that the monitor may choose later.
    pub(crate) packets_max: u32,
    pub(crate) delay: Duration,
    /// Lanes that use the device; the CPU does the work of the others.
    pub(crate) lanes: usize,
}

/// [`Launches::lanes`] of a decision for a chain of so many lanes.
pub(super) fn lanes_of(site: &Site, lanes: usize) -> usize {
    let own = site.device_lanes(lanes);
    if own == lanes { usize::MAX } else { own }
}

/// The packets of the largest launch of a function that a placement would choose on its device.
pub(super) fn launch_max(
    profile: &WorkProfile,
    function: usize,
    site: &Site,
    packet_len: u32,
) -> u32 {
    let knee = profile.launch_knee((function, site.device), packet_len);
    knee.unwrap_or(0).max(site.launch_packets)
}

/// The longest wait for a launch of a decision, up to 10 s.
pub(super) fn delay(deadline_ns: f64) -> Duration {
    Duration::from_nanos(deadline_ns.clamp(0.0, 1e10) as u64)
}
