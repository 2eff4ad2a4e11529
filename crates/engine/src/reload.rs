//! Reload: a chain built anew takes the place of the one that runs, between two batches and at the same place
//! of the input on every lane.
//!
//! Whoever asks builds the new chain beside the old one and makes a [`Successor`] of both, which says what
//! can't change. The engine announces it like a tick; each lane hands its state over when it comes by. The
//! asker keeps the old chain until [`crate::Control::is_reloading`] says that none holds it any more, so that
//! no lane has to free a table.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Chain, Steering};

/// A chain that can take the place of another while packets flow.
#[derive(Clone)]
pub struct Successor {
    chain: Arc<Chain>,
    changed: Vec<String>,
}

impl Successor {
    /// Of `old`, as `new`: functions that are built of the same table and files are kept as they run. The
    /// error says, one by one, what can't change.
    pub fn new(old: &Chain, mut new: Chain) -> Result<Self, Vec<String>> {
        let names = |chain: &Chain| -> Vec<(String, &str)> {
            chain.instances.iter().map(|i| (i.name.clone(), i.definition.name)).collect()
        };
        if names(old) != names(&new) {
            return Err(vec!["the chain's functions can't change while packets flow".into()]);
        }
        let mut refused = Vec::new();
        let mut changed = Vec::new();
        for (old, new) in old.instances.iter().zip(&mut new.instances) {
            if old.fingerprint == new.fingerprint {
                new.function = Arc::clone(&old.function);
                continue;
            }
            changed.push(new.name.clone());
            let (was, is) = (&old.function, &new.function);
            let same_shape = was.access() == is.access()
                && was.growth() == is.growth()
                && was.emits() == is.emits()
                && was.tick() == is.tick();
            if let Err(why) = is.succeeds(&**was) {
                refused.push(format!("[{}]: {why}", new.name));
            } else if !same_shape {
                refused.push(format!("[{}]: what it does to packets can't change", new.name));
            }
        }
        if old.stages != new.stages || old.scratch_words != new.scratch_words {
            refused.push("the chain's stages can't change while packets flow".into());
        }
        let kind = |chain: &Chain| std::mem::discriminant::<Steering>(&chain.steering);
        if kind(old) != kind(&new) {
            refused.push("how state is divided can't change while packets flow".into());
        }
        if refused.is_empty() { Ok(Self { chain: Arc::new(new), changed }) } else { Err(refused) }
    }

    /// The instances that are not kept as they run.
    pub fn changed(&self) -> &[String] {
        &self.changed
    }

    /// The chain.
    pub fn chain(&self) -> &Arc<Chain> {
        &self.chain
    }
}

/// What was asked of a running chain, and how far it is.
#[derive(Default)]
pub(crate) struct Reloads {
    /// Grows by one with each.
    asked: AtomicU32,
    /// Outputs that every reload passes.
    outputs: AtomicUsize,
    pending: Mutex<Option<Pending>>,
}

struct Pending {
    chain: Arc<Chain>,
    outputs_left: usize,
}

impl Reloads {
    /// A chain starts whose lanes end in so many outputs.
    pub(crate) fn start(&self, outputs: usize) {
        self.outputs.store(outputs, Ordering::Relaxed);
    }

    /// Asks for one; says whether none was under way.
    pub(crate) fn ask(&self, successor: &Successor) -> bool {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.is_some() {
            return false;
        }
        let outputs_left = self.outputs.load(Ordering::Relaxed).max(1);
        *pending = Some(Pending { chain: Arc::clone(&successor.chain), outputs_left });
        self.asked.fetch_add(1, Ordering::Release);
        true
    }

    /// Whether one is under way.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// How often one was asked for.
    #[inline]
    pub(crate) fn asked(&self) -> u32 {
        self.asked.load(Ordering::Acquire)
    }

    /// The chain that is under way.
    pub(crate) fn chain(&self) -> Option<Arc<Chain>> {
        let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.as_ref().map(|pending| Arc::clone(&pending.chain))
    }

    /// It came to one of the outputs, behind all that went before it.
    pub(crate) fn passed(&self) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiting) = pending.as_mut() {
            waiting.outputs_left -= 1;
            if waiting.outputs_left == 0 {
                *pending = None;
            }
        }
    }
}
