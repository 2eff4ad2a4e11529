//! Memory that a batch will need, asked for before the work on it begins.
//!
//! A look-up reads a slot of an index and then the binding there. A packet of a new flow finds the
//! slot empty, and needs a port: a slot of the ports' index, a set and its bitmap. The binding's
//! slot by outside endpoint is known only with its port. So that slot is asked for when the binding
//! is made, and filled a batch later, or before anything reads or changes that index.

use warpline_packet::prefetch;

use super::{Bindings, Key, Outside, Protocol};

/// Bindings whose slot by outside endpoint is filled later.
pub(super) const LATE_MAX: usize = 16;

/// Ports are asked for ahead in so many batches after one in which a binding was made.
pub(super) const OPENING_BATCHES: u8 = 8;

/// The key by which a packet will be looked up.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Sought {
    /// The hash of its inside endpoint; where it may need a port, also the hash of the home
    /// address.
    Inside(u32, Option<u32>),
    /// The hash of its outside endpoint.
    Outside(u32),
}

impl Bindings {
    /// To ask for the binding of a key ahead. `home` names the number of its home address.
    pub(in super::super) fn sought(&self, key: &Key, home: impl FnOnce() -> u64) -> Sought {
        let needs_port = self.opening > 0 && key.protocol != Protocol::Icmp;
        let port = needs_port.then(|| self.ports.sought(key.version, key.protocol, home()));
        Sought::Inside(key.hash(self.hash_key), port)
    }

    /// The same by an outside endpoint.
    pub(in super::super) fn sought_outside(&self, outside: &Outside) -> Sought {
        Sought::Outside(outside.hash(self.hash_key))
    }

    /// Asks for what a look-up will read first.
    #[inline]
    pub(in super::super) fn fetch(&self, sought: &Sought) {
        match *sought {
            Sought::Inside(hash, home) => {
                self.by_inside.fetch(hash);
                home.into_iter().for_each(|home| self.ports.fetch(home));
            }
            Sought::Outside(hash) => self.by_outside.fetch(hash),
        }
    }

    /// Asks for what lies there, once that is at hand: a binding, which is probably the one, or
    /// ports for a new one.
    #[inline]
    pub(in super::super) fn fetch_next(&self, sought: &Sought) {
        let (index, hash) = match *sought {
            Sought::Inside(hash, _) => (&self.by_inside, hash),
            Sought::Outside(hash) => (&self.by_outside, hash),
        };
        let number = index.glance(hash) as usize;
        match (self.slab.get(number), sought) {
            (Some(binding), _) => {
                prefetch(binding);
                self.uppers.get(number).into_iter().for_each(prefetch);
                self.conversations.fetch(number);
            }
            (None, Sought::Inside(_, Some(home))) => self.ports.fetch_next(*home),
            (None, _) => {}
        }
    }

    /// A batch begins.
    #[inline]
    pub(in super::super) fn begin_batch(&mut self) {
        self.opening = self.opening.saturating_sub(1);
        self.index_late();
    }

    /// Has the slot of a new binding by its outside endpoint filled later.
    pub(super) fn index_later(&mut self, hash: u32, number: u32) {
        if self.late.len() == LATE_MAX {
            self.index_late();
        }
        self.by_outside.fetch(hash);
        self.late.push((hash, number));
    }

    /// Fills the slots that were left for later.
    #[inline]
    pub(super) fn index_late(&mut self) {
        for (hash, number) in self.late.drain(..) {
            self.by_outside.insert(hash, number);
        }
    }
}
