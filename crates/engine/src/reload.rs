//! Reload: a newly built deployment replaces the running one, between two batches and at the same
//! packet of the input on every lane.
//!
//! The caller builds the new deployment beside the old one and makes a [`Successor`] of both, which
//! refuses impossible changes. The engine announces it like a tick, and each lane hands its state
//! over at that point. The caller keeps the old deployment until [`crate::Control::is_reloading`]
//! is false, so that no lane has to free a table.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::moves::NextLanes;
use crate::{Chain, Deployment, PlanOptions, Steering};
use warpline_nf::{Function, HopPorts};

/// A deployment that can replace another while packets flow.
#[derive(Clone)]
pub struct Successor {
    deployment: Arc<Deployment>,
    changed: Vec<String>,
    /// Lanes that continue the running ones, if functions move.
    lanes: Option<Arc<NextLanes>>,
}

/// The functions of a chain after a reload.
#[derive(Default)]
struct Functions {
    /// The positions of those that stay as they run.
    kept: Vec<usize>,
    /// The tables of the others.
    changed: Vec<String>,
    /// Why others cannot change.
    refused: Vec<String>,
}

impl Functions {
    fn of(old: &Deployment, new: &Deployment) -> Self {
        let mut own = Self::default();
        // Only plans for devices depend on the fields that functions read.
        let is_on_cpu = old.sites().iter().all(|site| site.on_device.is_none());
        let instances = old.chain().instances.iter().zip(&new.chain().instances);
        for (position, (old, new)) in instances.enumerate() {
            if old.fingerprint == new.fingerprint {
                own.kept.push(position);
                continue;
            }
            let table = new.table();
            if !own.changed.iter().any(|name| name == table) {
                own.changed.push(table.to_owned());
            }
            if let Err(why) = succeeds(&*old.function, &*new.function, is_on_cpu) {
                let why = format!("[{table}]: {why}");
                if !own.refused.contains(&why) {
                    own.refused.push(why);
                }
            }
        }
        own
    }
}

/// Whether a function can continue where another of its kind was.
fn succeeds(old: &dyn Function, new: &dyn Function, is_on_cpu: bool) -> Result<(), String> {
    new.succeeds(old)?;
    let has_access =
        old.access() == new.access() || is_on_cpu && old.access().writes_as(new.access());
    let has_shape =
        old.growth() == new.growth() && old.emits() == new.emits() && old.tick() == new.tick();
    match has_access {
        true if has_shape => Ok(()),
        false if !is_on_cpu => Err("the fields that it reads or writes can't change while \
                                    functions run on devices"
            .into()),
        _ => Err("what it does to packets can't change".into()),
    }
}

/// What else can't change.
fn refused_of_chain(old: &Deployment, new: &Deployment) -> Vec<&'static str> {
    let runs_on = |deployment: &Deployment| -> Vec<String> {
        deployment.sites().iter().map(|site| site.device_id().into()).collect()
    };
    let (was, is) = (old.chain(), new.chain());
    let kind = |chain: &Chain| std::mem::discriminant::<Steering>(&chain.steering);
    let stays = [
        (
            (old.plan(), old.profile()) == (new.plan(), new.profile()),
            "`[plan]` can't change while packets flow",
        ),
        (runs_on(old) == runs_on(new), "where functions run can't change while packets flow"),
        (
            old.stages() == new.stages() && was.scratch_words == is.scratch_words,
            "the chain's stages can't change while packets flow",
        ),
        (was.seed() == is.seed(), "`seed` can't change while packets flow"),
        (was.routes() == is.routes(), "`[[route]]` can't change while packets flow"),
        (was.ports() == is.ports(), "`[[port]]` can't change while packets flow"),
        (kind(was) == kind(is), "how state is divided can't change while packets flow"),
    ];
    stays.into_iter().filter(|(stays, _)| !stays).map(|(_, why)| why).collect()
}

impl Successor {
    /// `new` after `old`: functions that are built of the same table and files are kept as they
    /// run. The error lists each thing that can't change.
    pub fn new(old: &Deployment, mut new: Deployment) -> Result<Self, Vec<String>> {
        let names = |chain: &Chain| -> Vec<(String, &str)> {
            chain.instances.iter().map(|i| (i.name.clone(), i.definition.name)).collect()
        };
        if names(old.chain()) != names(new.chain()) {
            return Err(vec!["the chain's functions can't change while packets flow".into()]);
        }
        if old.shows_drops() {
            new.show_drops();
        }
        // The lanes stay as they are, and the plan is theirs.
        new.set_plan(PlanOptions { lanes: old.plan().lanes, ..new.plan() });
        let Functions { kept, changed, mut refused } = Functions::of(old, &new);
        refused.extend(refused_of_chain(old, &new).into_iter().map(str::to_owned));
        let (was, is) = (old.chain(), new.chain());
        let chain = Arc::new(is.keeping(was));
        if chain.hop_ports().is_none() {
            refused
                .push("its routers have too many next hops to get them while packets flow".into());
        }
        new = new.with_chain(chain);
        new.keep_launches(old);
        new.follow(old);
        kept.into_iter().for_each(|position| new.keep_loaded(old, position));
        if old.was_loaded()
            && refused.is_empty()
            && let Err((name, why)) = new.load()
        {
            refused.push(format!("[{name}]: {why}"));
        }
        match refused.is_empty() {
            true => Ok(Self { deployment: Arc::new(new), changed, lanes: None }),
            false => Err(refused),
        }
    }

    /// `deployment`, which runs on `lanes`; functions of these names moved.
    pub(crate) fn with_lanes(
        deployment: Deployment,
        changed: Vec<String>,
        lanes: Arc<NextLanes>,
    ) -> Self {
        Self { deployment: Arc::new(deployment), changed, lanes: Some(lanes) }
    }

    /// The successor of `old` if functions follow something outside the chain that has changed
    /// ([`warpline_nf::Function::renewed`]). `None` if nothing has. `report` gets failures.
    pub fn renewed(
        old: &Deployment,
        report: &mut dyn FnMut(String),
    ) -> Option<Result<Self, Vec<String>>> {
        let mut chain = (**old.chain()).clone();
        let (mut any, mut hops, mut has_new_hops) = (false, HopPorts::default(), false);
        for instance in &mut chain.instances {
            let new = match instance.function.renewed(report) {
                Some(new) => {
                    has_new_hops |= new.hop_ports().is_some();
                    Some(new)
                }
                None if has_new_hops => instance.function.with_hop_ports(&hops),
                None => None,
            };
            if let Some(new) = new {
                instance.function = Arc::from(new);
                // It no longer matches its table.
                instance.fingerprint = instance.fingerprint.wrapping_add(1);
                any = true;
            }
            if let Some(own) = instance.function.hop_ports() {
                hops = hops.with(&own).unwrap_or(own);
            }
        }
        any.then(|| Self::new(old, old.beside(Arc::new(chain))))
    }

    /// Whether it moves functions.
    pub(crate) fn moves(&self) -> bool {
        self.lanes.is_some()
    }

    /// Whether lanes have moved to the new sites; false for a reload, and if the chain ended
    /// before. Once the move is over, lanes that did not move had ended before.
    pub fn has_moved(&self) -> bool {
        self.lanes.as_ref().is_some_and(|lanes| lanes.have_moved())
    }

    /// The tables of the instances that are not kept as they run, or the names of those that move.
    pub fn changed(&self) -> &[String] {
        &self.changed
    }

    /// The deployment.
    pub fn deployment(&self) -> &Arc<Deployment> {
        &self.deployment
    }
}

/// The reloads requested of a running chain, and their progress.
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
    deployment: Arc<Deployment>,
    lanes: Option<Arc<NextLanes>>,
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

    /// A chain starts whose lanes end in this many outputs; an earlier request waits for all.
    pub(crate) fn start(&self, outputs: usize) {
        let mut course = self.course();
        course.outputs = Some(outputs);
        if let Some(waiting) = &mut course.pending {
            waiting.outputs_left = outputs;
        }
    }

    /// Requests one; returns whether none was in progress and the chain has not ended.
    pub(crate) fn ask(&self, successor: &Successor) -> bool {
        let mut course = self.course();
        if course.pending.is_some() || course.outputs == Some(0) {
            return false;
        }
        let number = self.asked.load(Ordering::Relaxed).wrapping_add(1);
        let outputs_left = course.outputs.unwrap_or(1);
        let Successor { deployment, lanes, .. } = successor.clone();
        course.pending = Some(Pending { deployment, lanes, number, outputs_left });
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

    /// The deployment that lanes are to take next.
    pub(crate) fn deployment(&self) -> Option<Arc<Deployment>> {
        self.course().pending.as_ref().map(|pending| Arc::clone(&pending.deployment))
    }

    /// The lanes that continue the running ones, if functions move.
    pub(crate) fn lanes(&self) -> Option<Arc<NextLanes>> {
        self.course().pending.as_ref()?.lanes.clone()
    }

    /// It came to one of the outputs, after everything sent before it. Returns its number.
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
    use crate::FramesBy;

    /// A chain without functions.
    fn empty() -> Deployment {
        let chain = Chain::new("none", Vec::new(), 0).expect("a chain");
        Deployment::new(Arc::new(chain), Vec::new())
    }

    fn successor() -> Successor {
        Successor::new(&empty(), empty()).expect("a deployment that can follow")
    }

    #[test]
    fn one_that_is_asked_for_before_the_start_passes_every_output() {
        let reloads = Reloads::default();
        assert!(reloads.ask(&successor()) && !reloads.ask(&successor()));
        reloads.start(2);
        reloads.passed();
        assert!(reloads.deployment().is_some(), "the other lane has still to take it");
        reloads.passed();
        assert!(!reloads.is_pending());
    }

    #[test]
    fn the_plan_stays() {
        let planned = |mode, frames_by| {
            let mut deployment = empty();
            deployment.set_plan(PlanOptions { mode, frames_by, ..PlanOptions::default() });
            deployment
        };
        let [copies, kernels] = FramesBy::ALL;
        let old = planned(Mode::Local, copies);
        assert!(Successor::new(&old, planned(Mode::Local, copies)).is_ok());
        for other in [planned(Mode::PerNf, copies), planned(Mode::Local, kernels)] {
            let refused = Successor::new(&old, other).err();
            assert!(
                refused.is_some_and(|reported| reported.iter().any(|one| one.contains("[plan]")))
            );
        }
        let mut of_more_lanes = planned(Mode::Local, copies);
        of_more_lanes.set_plan(PlanOptions { lanes: 4, ..old.plan() });
        let successor = Successor::new(&old, of_more_lanes).expect("lanes are no change");
        assert_eq!(successor.deployment.plan(), old.plan());
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
