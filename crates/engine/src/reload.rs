//! Reload: a chain built anew takes the place of the one that runs, between two batches and at the same place
//! of the input on every lane.
//!
//! Whoever asks builds the new chain beside the old one and makes a [`Successor`] of both, which says what
//! can't change. The engine announces it like a tick; each lane hands its state over when it comes by. The
//! asker keeps the old chain until [`crate::Control::is_reloading`] says that none holds it any more, so that
//! no lane has to free a table.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
        if old.shows_drops() {
            new.show_drops();
        }
        let mut refused = Vec::new();
        if (old.plan(), old.profile()) != (new.plan(), new.profile()) {
            refused.push("`[plan]` can't change while packets flow".into());
        }
        let mut changed = Vec::new();
        let runs_on = |chain: &Chain| -> Vec<String> {
            chain.instances.iter().map(|i| i.device_id().into()).collect()
        };
        if runs_on(old) != runs_on(&new) {
            refused.push("where functions run can't change while packets flow".into());
        }
        let mut kept = Vec::new();
        for (position, (old, new)) in old.instances.iter().zip(&mut new.instances).enumerate() {
            if old.fingerprint == new.fingerprint {
                new.function = Arc::clone(&old.function);
                kept.push(position);
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
        if old.seed() != new.seed() {
            refused.push("`seed` can't change while packets flow".into());
        }
        let kind = |chain: &Chain| std::mem::discriminant::<Steering>(&chain.steering);
        if kind(old) != kind(&new) {
            refused.push("how state is divided can't change while packets flow".into());
        }
        kept.into_iter().for_each(|position| new.keep_loaded(old, position));
        if old.was_loaded()
            && refused.is_empty()
            && let Err((name, why)) = new.load(Some(old))
        {
            refused.push(format!("[{name}]: {why}"));
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
    course: Mutex<Course>,
}

#[derive(Default)]
struct Course {
    /// Outputs that every reload passes; none are left when the chain has ended.
    outputs: Option<usize>,
    pending: Option<Pending>,
}

struct Pending {
    chain: Arc<Chain>,
    /// Which of those asked for.
    number: u32,
    outputs_left: usize,
}

impl Course {
    fn passed(&mut self) {
        if let Some(waiting) = &mut self.pending {
            waiting.outputs_left = waiting.outputs_left.saturating_sub(1);
            if waiting.outputs_left == 0 {
                self.pending = None;
            }
        }
    }
}

impl Reloads {
    fn course(&self) -> MutexGuard<'_, Course> {
        self.course.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A chain starts whose lanes end in so many outputs; one that was asked for before waits for all.
    pub(crate) fn start(&self, outputs: usize) {
        let mut course = self.course();
        course.outputs = Some(outputs);
        if let Some(waiting) = &mut course.pending {
            waiting.outputs_left = outputs;
        }
    }

    /// Asks for one; says whether none was under way and the chain has not ended.
    pub(crate) fn ask(&self, successor: &Successor) -> bool {
        let mut course = self.course();
        if course.pending.is_some() || course.outputs == Some(0) {
            return false;
        }
        let number = self.asked.load(Ordering::Relaxed).wrapping_add(1);
        let outputs_left = course.outputs.unwrap_or(1);
        course.pending =
            Some(Pending { chain: Arc::clone(&successor.chain), number, outputs_left });
        self.asked.store(number, Ordering::Release);
        true
    }

    /// Whether one is under way.
    pub(crate) fn is_pending(&self) -> bool {
        self.course().pending.is_some()
    }

    /// How often one was asked for.
    #[inline]
    pub(crate) fn asked(&self) -> u32 {
        self.asked.load(Ordering::Acquire)
    }

    /// The chain that is under way.
    pub(crate) fn chain(&self) -> Option<Arc<Chain>> {
        self.course().pending.as_ref().map(|pending| Arc::clone(&pending.chain))
    }

    /// It came to one of the outputs, behind all that went before it. Gives its number.
    pub(crate) fn passed(&self) -> u32 {
        let mut course = self.course();
        let number = course.pending.as_ref().map_or(0, |pending| pending.number);
        course.passed();
        number
    }

    /// An output ends that number `last` was the last to pass: nothing waits for it any more.
    pub(crate) fn leave(&self, last: u32) {
        let mut course = self.course();
        course.outputs = course.outputs.map(|outputs| outputs.saturating_sub(1));
        if course.pending.as_ref().is_some_and(|pending| pending.number != last) {
            course.passed();
        }
    }
}

#[cfg(test)]
mod tests {
    use warpline_sched::Mode;

    use super::*;
    use crate::{FramesBy, PlanOptions};

    fn successor() -> Successor {
        let chain = || Chain::new("none", Vec::new(), 0).expect("a chain");
        Successor::new(&chain(), chain()).expect("a chain that can follow")
    }

    #[test]
    fn one_that_is_asked_for_before_the_start_passes_every_output() {
        let reloads = Reloads::default();
        assert!(reloads.ask(&successor()) && !reloads.ask(&successor()));
        reloads.start(2);
        reloads.passed();
        assert!(reloads.chain().is_some(), "the other lane has still to take it");
        reloads.passed();
        assert!(!reloads.is_pending());
    }

    #[test]
    fn the_plan_stays() {
        let chain = |mode, frames_by| {
            let mut chain = Chain::new("none", Vec::new(), 0).expect("a chain");
            chain.set_plan(PlanOptions { mode, frames_by, ..PlanOptions::default() });
            chain
        };
        let [copies, kernels] = FramesBy::ALL;
        let old = chain(Mode::Local, copies);
        assert!(Successor::new(&old, chain(Mode::Local, copies)).is_ok());
        for other in [chain(Mode::PerNf, copies), chain(Mode::Local, kernels)] {
            let refused = Successor::new(&old, other).err();
            assert!(refused.is_some_and(|told| told.iter().any(|one| one.contains("[plan]"))));
        }
    }

    #[test]
    fn nothing_waits_for_an_output_that_ended() {
        let reloads = Reloads::default();
        reloads.start(3);
        assert!(reloads.ask(&successor()));
        reloads.leave(0);
        let passed = reloads.passed();
        reloads.leave(passed);
        assert!(reloads.is_pending(), "the third lane has still to take it");
        reloads.passed();
        assert!(!reloads.is_pending());
        assert!(reloads.ask(&successor()), "one lane runs");
        reloads.leave(passed);
        assert!(!reloads.is_pending() && !reloads.ask(&successor()), "none runs");
    }
}
