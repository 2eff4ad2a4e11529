//! Placements and profiles that come from outside.

use super::{Monitor, Placed, PlacementLimits, Reason};
use crate::placement::{ChainDemand, Placement, PlacementError};
use crate::work_profile::{CPU, WorkProfile};

impl Monitor {
    /// Takes a placement that is in force already.
    pub fn handle_placement(&mut self, placement: Placement, now_ns: u64) {
        let (since_ns, reason) = (now_ns, Reason::Start);
        self.placed = Some(Placed { placement, since_ns, reason });
        self.known_load = None;
    }

    /// Functions are on these devices now, by chain and position, and the CPU takes this share of
    /// their flows. With `None` the next tick makes a placement.
    pub fn handle_devices(&mut self, sites: Option<&[Vec<(usize, f64)>]>, now_ns: u64) {
        self.former = None;
        self.placed = None;
        if let Some(placement) = sites.and_then(|sites| self.on(sites).ok()) {
            self.handle_placement(placement, now_ns);
        }
    }

    /// Another profile, other limits, and the same chains described by it. Nothing that it learned
    /// stays, and it decides at the next tick. [`handle_devices`](Self::handle_devices) must
    /// follow, because the profile numbers the devices.
    pub fn handle_profile(
        &mut self,
        profile: WorkProfile,
        limits: PlacementLimits,
        chains: Vec<ChainDemand>,
    ) {
        (self.profile, self.limits) = (profile, limits);
        self.slower.clear();
        self.demand.replace(chains);
        (self.asked, self.refused, self.stays) = (Some(Reason::Profile), None, 1);
        (self.known_load, self.known_launches) = (None, None);
    }

    fn on(&self, sites: &[Vec<(usize, f64)>]) -> Result<Placement, PlacementError> {
        let devices = sites.iter().map(|sites| sites.iter().map(|site| site.0).collect());
        let mut placement = self.solve(Some(devices.collect()), &self.demand.latest())?;
        let own = placement.sites.iter_mut().flatten().zip(sites.iter().flatten());
        own.filter(|(site, _)| site.device != CPU).for_each(|(site, own)| site.cpu_share = own.1);
        Ok(placement)
    }
}
