//! The arbiter shares one device between tenants, in slices of time. It follows the schedulers of
//! virtual GPUs (vGPU study, section III) and the rate-proportional sharing of Simmer (3.1).
//!
//! A tenant requests to start the kernels of a launch and starts them when it gets the grant.
//! Copies need none, so those of other tenants overlap with the kernels of the owner. A slice
//! belongs to one tenant. Within it the tenant may have up to `in_flight_max` launches granted at
//! once. [`Policy`] decides whose slice is next.
//!
//! No launch is preempted. The next slice starts when the launches of the last one have ended, so
//! kernels of two tenants never share the device. The time that they took beyond their slice is a
//! debt: it makes later slices of the tenant shorter, or takes them whole. A launch that is longer
//! than a slice therefore changes no share. The caller reports a launch that never ends with
//! [`Arbiter::handle_lost`]; until then it holds the device, as it would on a GPU.
//!
//! The caller keeps the launches of a tenant that wait in a queue. A grant is for the first.
//!
//! ```
//! use warpline_sched::{Arbiter, Sharing, Spent};
//!
//! let sharing = Sharing { slice_ns: 1_000_000, in_flight_max: 1, ..Sharing::default() };
//! let mut arbiter = Arbiter::new(&sharing, &[1, 1]).expect("two tenants with a slot each");
//! for tenant in [0, 1] {
//!     arbiter.handle_present(tenant, true, 0);
//!     arbiter.handle_request(tenant, 0);
//! }
//! let first = arbiter.poll_grant(0).expect("the device is free");
//! assert_eq!((first.tenant, arbiter.poll_grant(0)), (0, None));
//!
//! // The first tenant has no more work, so it yields.
//! assert!(arbiter.handle_done(first.id, &Spent::default(), 50_000));
//! let second = arbiter.poll_grant(50_000).expect("the device is free again");
//! assert_eq!(second.tenant, 1);
//! assert_eq!(arbiter.evidence(50_000).tenants[0].device_ns, 50_000);
//! ```

mod demand;
mod evidence;
mod flights;
mod quanta;
mod quota;
mod sharing;
mod tenant;
#[cfg(test)]
mod tests;
mod turns;

pub use evidence::{Evidence, TenantEvidence};
pub use quota::{MemoryQuota, QuotaExceeded};
pub use sharing::{Policy, Sharing, SharingError};

use flights::Flights;
use tenant::Tenant;
use turns::Slice;

/// A grant, different from all others of an arbiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GrantId(u64);

/// The right to start the kernels of one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Names it when the launch ends.
    pub id: GrantId,
    /// The tenant whose first waiting launch starts.
    pub tenant: usize,
}

/// The use that a launch made of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Packets of the launch.
    pub packets: u64,
    /// Device time of its kernels, if the device measures it. Otherwise it is the time since the
    /// grant, or since the tenant's launch before it ended.
    pub device_ns: Option<u64>,
}

/// Shares a device; see the module. Allocates nothing after [`Arbiter::new`], except for
/// [`Arbiter::evidence`].
#[derive(Clone, Debug)]
pub struct Arbiter {
    sharing: Sharing,
    tenants: Vec<Tenant>,
    /// The tenant of each turn of a round.
    turns: Vec<Option<usize>>,
    /// The current turn, or the last one.
    turn: usize,
    /// None while the device has no work.
    slice: Option<Slice>,
    /// All of the slice's owner.
    flights: Flights,
    now_ns: u64,
    started_ns: Option<u64>,
    window_end_ns: u64,
    /// Turns without a tenant.
    unassigned: u64,
    unassigned_slices: u64,
}

impl Arbiter {
    /// One for as many tenants as there are `slots`, each with so many. All are absent at first.
    pub fn new(sharing: &Sharing, slots: &[usize]) -> Result<Self, SharingError> {
        sharing.check(slots)?;
        let turns_of = |slots| match sharing.policy {
            Policy::RateProportional => 1,
            _ => slots,
        };
        let mut turns: Vec<Option<usize>> = Vec::new();
        for (tenant, &slots) in slots.iter().enumerate() {
            turns.extend(std::iter::repeat_n(Some(tenant), turns_of(slots)));
        }
        let assigned = turns.len();
        if sharing.policy == Policy::FixedShare {
            turns.resize(sharing.slots, None);
        }
        let tenant = |&slots: &usize| Tenant::new(turns_of(slots) as u64, sharing.slice_ns);
        Ok(Self {
            tenants: slots.iter().map(tenant).collect(),
            turn: turns.len() - 1,
            slice: None,
            flights: Flights::new(sharing.in_flight_max),
            now_ns: 0,
            started_ns: None,
            window_end_ns: u64::MAX,
            unassigned: (turns.len() - assigned) as u64,
            unassigned_slices: 0,
            turns,
            sharing: *sharing,
        })
    }

    /// Its limits.
    pub fn sharing(&self) -> &Sharing {
        &self.sharing
    }

    /// Launches granted that have not ended.
    pub fn in_flight(&self) -> usize {
        self.flights.count()
    }

    /// Launches of `tenant` that wait for a grant.
    pub fn waiting(&self, tenant: usize) -> u64 {
        self.tenants.get(tenant).map_or(0, |tenant| tenant.waiting)
    }

    /// A tenant came or left. The requests of one that leaves are forgotten; launches that were
    /// granted still have to end.
    pub fn handle_present(&mut self, tenant: usize, present: bool, now_ns: u64) {
        self.advance(now_ns);
        let Some(tenant) = self.tenants.get_mut(tenant) else { return };
        tenant.present = present;
        if !present {
            tenant.set_waiting(0, self.now_ns);
        }
    }

    /// A tenant requests to start the kernels of a launch. Returns false and does nothing if the
    /// tenant is absent.
    pub fn handle_request(&mut self, tenant: usize, now_ns: u64) -> bool {
        self.advance(now_ns);
        let Some(tenant) = self.tenants.get_mut(tenant).filter(|tenant| tenant.present) else {
            return false;
        };
        tenant.set_waiting(tenant.waiting.saturating_add(1), self.now_ns);
        true
    }

    /// A tenant takes back one request. Returns false if none waits.
    pub fn handle_withdraw(&mut self, tenant: usize, now_ns: u64) -> bool {
        self.advance(now_ns);
        let Some(tenant) = self.tenants.get_mut(tenant).filter(|tenant| tenant.waiting > 0) else {
            return false;
        };
        tenant.set_waiting(tenant.waiting - 1, self.now_ns);
        true
    }

    /// Packets came for a tenant; needed for [`Policy::RateProportional`] only. Count them before
    /// any backpressure ([`Arrivals`](crate::Arrivals)), or the shares follow the past shares.
    pub fn handle_arrivals(&mut self, tenant: usize, packets: u64, now_ns: u64) {
        self.advance(now_ns);
        if let Some(tenant) = self.tenants.get_mut(tenant) {
            tenant.demand.add_arrivals(packets);
        }
    }

    /// The kernels of a launch have ended. Returns false and does nothing if they did before.
    pub fn handle_done(&mut self, grant: GrantId, spent: &Spent, now_ns: u64) -> bool {
        self.advance(now_ns);
        let Some(ended) = self.flights.end(grant, self.now_ns) else { return false };
        let tenant = &mut self.tenants[ended.tenant];
        let measured = spent.device_ns.map(|device_ns| device_ns.min(ended.granted_ns));
        let device_ns = measured.unwrap_or(ended.alone_ns);
        tenant.evidence.device_ns = tenant.evidence.device_ns.saturating_add(device_ns);
        tenant.demand.add_launch(spent.packets, device_ns);
        true
    }

    /// A launch was given up: it did not end in time. It counts as device time until now. Returns
    /// false and does nothing if it ended before.
    pub fn handle_lost(&mut self, grant: GrantId, now_ns: u64) -> bool {
        self.advance(now_ns);
        let Some(ended) = self.flights.end(grant, self.now_ns) else { return false };
        let evidence = &mut self.tenants[ended.tenant].evidence;
        evidence.device_ns = evidence.device_ns.saturating_add(ended.alone_ns);
        evidence.lost += 1;
        true
    }

    /// The next launch that may start.
    pub fn poll_grant(&mut self, now_ns: u64) -> Option<Grant> {
        self.advance(now_ns);
        let owner = self.granted_next()?;
        Some(self.grant(owner))
    }

    /// The same for a caller that starts launches of `tenant` only. A tenant that does not poll
    /// wastes its slices and takes no more from others.
    pub fn poll_grant_for(&mut self, tenant: usize, now_ns: u64) -> Option<Grant> {
        self.advance(now_ns);
        let owner = self.granted_next().filter(|&owner| owner == tenant)?;
        Some(self.grant(owner))
    }

    fn grant(&mut self, owner: usize) -> Grant {
        if let Some(slice) = &mut self.slice {
            slice.used = true;
        }
        let tenant = &mut self.tenants[owner];
        tenant.set_waiting(tenant.waiting - 1, self.now_ns);
        tenant.evidence.grants += 1;
        self.flights.add(owner, self.now_ns)
    }

    /// When to poll again if nothing happens before: at the end of the slice while a launch waits.
    /// It is 0 while there is something to poll already.
    pub fn poll_timeout(&self) -> Option<u64> {
        if self.tenants.iter().all(|tenant| tenant.waiting == 0) {
            return None;
        }
        let Some(slice) = self.slice else { return Some(0) };
        match self.flights.is_empty() {
            _ if self.granted_next().is_some() => Some(0),
            true if self.yields(slice) => Some(0),
            true => Some(slice.end_ns),
            // The next slice starts when these have ended.
            false => (slice.end_ns > self.now_ns).then_some(slice.end_ns),
        }
    }

    /// How the device was shared until now.
    pub fn evidence(&mut self, now_ns: u64) -> Evidence {
        self.advance(now_ns);
        for tenant in &mut self.tenants {
            tenant.set_waiting(tenant.waiting, self.now_ns);
        }
        Evidence {
            elapsed_ns: self.now_ns - self.started_ns.unwrap_or(self.now_ns),
            unassigned_slices: self.unassigned_slices,
            tenants: self.tenants.iter().map(|tenant| tenant.evidence).collect(),
        }
    }

    /// The tenant that gets a grant now.
    fn granted_next(&self) -> Option<usize> {
        let slice = self.slice.filter(|slice| slice.end_ns > self.now_ns)?;
        let has_work = |&owner: &usize| self.tenants[owner].waiting > 0;
        slice.tenant.filter(has_work).filter(|_| self.flights.has_room())
    }
}
