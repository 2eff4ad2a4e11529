//! The keys that divide functions' state: each function names one, and a chain derives its
//! [`crate::Steering`] from them.

use core::any::Any;
use core::fmt::Debug;
use std::sync::Arc;

use crate::Headers;
use crate::hash::FlowHasher;
use crate::steering::Tuple;

/// The key by which a function's state may be divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateKey {
    /// There is no state, or any division will do.
    None,
    /// Both directions of a flow meet: the unordered pair of addresses serves it, and so does any
    /// key under which a tuple and its reverse fall together.
    AddressPair,
    /// A function's own.
    Own(OwnKey),
    /// It can't be divided: every packet matters to every other.
    Whole,
}

/// How a function divides its state where the pair of addresses will not do.
pub trait Division: Any + Debug + Send + Sync {
    /// Its name in `warpline check`.
    fn name(&self) -> &'static str;

    /// The shard of a frame with these headers, of which `tuple` was read; `None` where the pair of
    /// addresses decides.
    fn shard(
        &self,
        hasher: &FlowHasher,
        tuple: &Tuple,
        frame: &[u8],
        headers: &Headers,
    ) -> Option<u8>;

    /// Whether both directions of every flow share a shard. Then functions that require the address
    /// pair are served, too.
    fn keeps_flows(&self) -> bool;

    /// Whether `other` divides in the same way. Each division equals itself.
    fn is_same(&self, other: &dyn Division) -> bool {
        let _ = other;
        false
    }

    /// One division that serves this and `other`, if there is one.
    fn combine(&self, other: &dyn Division) -> Option<OwnKey> {
        let _ = other;
        None
    }
}

/// See [`StateKey::Own`].
#[derive(Clone, Debug)]
pub struct OwnKey(pub Arc<dyn Division>);

impl OwnKey {
    /// A key that serves this one and `other`, if there is one.
    pub(crate) fn combine(&self, other: &Self) -> Option<Self> {
        if self == other { Some(self.clone()) } else { self.0.combine(&*other.0) }
    }
}

impl PartialEq for OwnKey {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.is_same(&*other.0)
    }
}

impl Eq for OwnKey {}

impl StateKey {
    /// Whether one steering can serve both this and `other`.
    pub(crate) fn agrees(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Own(key), Self::Own(other)) => key.combine(other).is_some(),
            (Self::Own(key), Self::AddressPair) | (Self::AddressPair, Self::Own(key)) => {
                key.0.keeps_flows()
            }
            _ => self == other,
        }
    }
}
