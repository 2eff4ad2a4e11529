//! Neighbours and addresses as they were at one time, shared between threads.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// An Ethernet address.
pub(super) type Mac = [u8; 6];
/// First and last address.
pub(super) type Range = (IpAddr, IpAddr);
/// A neighbour's port and address.
pub(super) type Key = (u16, IpAddr);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct View {
    /// By port, the Ethernet address of its interface.
    pub(super) own: Vec<Option<Mac>>,
    pub(super) known: HashMap<Key, NeighbourEntry>,
    /// Neighbours that did not answer, with the number of the failure.
    pub(super) failed: HashMap<Key, u64>,
    /// The machine's addresses, sorted.
    pub(super) machine: Vec<IpAddr>,
    /// Those whose packets are the kernel's.
    pub(super) local: Vec<IpAddr>,
}

#[derive(Debug)]
pub(super) struct NeighbourEntry {
    pub(super) mac: Mac,
    /// Whether the kernel should confirm it once it is used.
    pub(super) is_stale: AtomicBool,
}

/// The current view.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Ranges of the chain's own addresses, until the follower has taken them up.
    claimed: Mutex<Option<Vec<Range>>>,
    /// Grows with each view.
    version: AtomicU64,
    view: Mutex<Arc<View>>,
}

impl Shared {
    /// Sets the chain's own addresses. The follower must be woken.
    pub(super) fn claim(&self, ranges: Vec<Range>) {
        *self.claimed.lock().unwrap_or_else(PoisonError::into_inner) = Some(ranges);
    }

    /// The chain's own addresses, if they were set since the last call.
    pub(super) fn take_claimed(&self) -> Option<Vec<Range>> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Puts `view` in place. Returns the one before.
    pub(super) fn publish(&self, view: View) -> Arc<View> {
        let mut current = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        let old = core::mem::replace(&mut *current, Arc::new(view));
        self.version.fetch_add(1, Ordering::Release);
        old
    }
}

/// The view of a reader.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    pub(super) shared: Arc<Shared>,
    version: u64,
    pub(super) view: Arc<View>,
}

impl Reader {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        // A number that no view has.
        let mut reader =
            Self { shared: Arc::clone(shared), version: u64::MAX, view: Arc::default() };
        reader.refresh();
        reader
    }

    /// Takes the current view if there is another one. Returns whether there was.
    #[inline]
    pub(super) fn refresh(&mut self) -> bool {
        let version = self.shared.version.load(Ordering::Acquire);
        if version == self.version {
            return false;
        }
        let current = self.shared.view.lock().unwrap_or_else(PoisonError::into_inner);
        (self.version, self.view) = (version, Arc::clone(&current));
        true
    }
}

/// The addresses of this machine, without those of the chain's functions.
#[derive(Clone, Debug)]
pub struct LocalAddresses(Reader);

impl LocalAddresses {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self(Reader::new(shared))
    }

    #[cfg(test)]
    pub(crate) fn of(mut local: Vec<IpAddr>) -> Self {
        let shared = Arc::<Shared>::default();
        local.sort();
        drop(shared.publish(View { local, ..View::default() }));
        Self::new(&shared)
    }

    /// Takes up changes since the last call. Returns whether there may be some.
    pub fn refresh(&mut self) -> bool {
        self.0.refresh()
    }

    /// All of them, sorted.
    pub(crate) fn all(&self) -> &[IpAddr] {
        &self.0.view.local
    }

    /// Whether packets to `address` are the kernel's.
    pub fn has(&self, address: IpAddr) -> bool {
        self.0.view.local.binary_search(&address).is_ok()
    }
}
