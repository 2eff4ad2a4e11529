//! A chain with the sites of its functions. Its stages, the bytes that cross to devices, and the
//! loaded kernels and tables follow from the sites.

mod loading;

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use warpline_device::Device;
use warpline_launch::{Crossings, FailedDevices, LaunchTarget, Loaded, OnDevice, Transport};
use warpline_nf::Kernels;
use warpline_sched::{Mode, Profile};

use crate::cut::{StagePlan, cut};
use crate::planned::crossings;
use crate::{Chain, FramesBy, Instance, PlanOptions};

/// Where one function of a chain runs.
#[derive(Clone)]
pub struct Site {
    /// Its device, if it isn't the CPU; the function has kernels then.
    pub on_device: Option<OnDevice>,
    /// Whether the function has a stage of its own, apart from its neighbours on the same device.
    pub own_stage: bool,
    /// Batches that go through its stage together; 1 unless the stage is its own.
    pub launch_batches: usize,
}

impl Default for Site {
    /// On the CPU, in a stage with its neighbours.
    fn default() -> Self {
        Self { on_device: None, own_stage: false, launch_batches: 1 }
    }
}

impl Site {
    /// The name of its device; `cpu` for the CPU.
    pub fn device_id(&self) -> &str {
        self.on_device.as_ref().map_or("cpu", |on| on.device.description().id.as_str())
    }
}

/// A chain with the sites of its functions, ready to be run.
pub struct Deployment {
    chain: Arc<Chain>,
    /// By function.
    sites: Vec<Site>,
    stages: Vec<StagePlan>,
    /// See [`Deployment::show_drops`].
    shows_drops: bool,
    plan: PlanOptions,
    /// Measurements of the machine, by which plans cost.
    profile: Profile,
    /// By stage, the bytes that cross for its launches; made at the first use.
    pub(crate) crossings: OnceLock<Vec<Crossings>>,
    /// By function, its kernels with their tables, kept until they are on its device.
    kernels: Vec<Mutex<Option<Kernels>>>,
    /// By function, its kernels and tables on its device.
    loaded: Vec<OnceLock<Arc<Loaded>>>,
    /// By the first function of a stage, the kernels that copy single fields for the stage.
    copiers: Vec<OnceLock<Arc<Loaded>>>,
    /// By the first function of a stage, the kernels that carry whole frames for the stage.
    carriers: Vec<OnceLock<Arc<Loaded>>>,
    /// By the first function of a stage, the kernel that writes launches' tables from packed rows.
    unpackers: Vec<OnceLock<Arc<Loaded>>>,
    /// By the first function of a stage, how its launches are closed.
    targets: Vec<Arc<LaunchTarget>>,
    /// The devices that failed in lanes of its run.
    failures: Arc<FailedDevices>,
    /// Set once [`Deployment::load`] was called.
    was_loaded: OnceLock<()>,
}

impl Deployment {
    /// Deploys `chain` on a site for each function, in order. Functions without one run on the CPU.
    pub fn new(chain: Arc<Chain>, mut sites: Vec<Site>) -> Self {
        sites.resize_with(chain.instances.len(), Site::default);
        fn slots<T: Default>(sites: &[Site]) -> Vec<T> {
            sites.iter().map(|_| T::default()).collect()
        }
        Self {
            kernels: slots(&sites),
            loaded: slots(&sites),
            copiers: slots(&sites),
            carriers: slots(&sites),
            unpackers: slots(&sites),
            targets: slots(&sites),
            failures: Arc::default(),
            was_loaded: OnceLock::new(),
            stages: cut(&chain, &sites, false),
            shows_drops: false,
            plan: PlanOptions::default(),
            profile: Profile::default(),
            crossings: OnceLock::new(),
            chain,
            sites,
        }
    }

    /// A deployment of `chain`, which has the same instances, on the same sites; nothing is loaded.
    pub(crate) fn beside(&self, chain: Arc<Chain>) -> Self {
        let mut new = Self::new(chain, self.sites.clone());
        new.set_plan(self.plan);
        new.set_profile(self.profile.clone());
        new.targets.clone_from(&self.targets);
        new.follow(self);
        new
    }

    /// A deployment of the same chain on other sites; nothing is loaded. Functions whose device
    /// stays keep the launches that are set.
    #[must_use]
    pub fn on_sites(&self, sites: Vec<Site>) -> Self {
        let mut new = Self::new(Arc::clone(&self.chain), sites);
        new.set_plan(self.plan);
        new.set_profile(self.profile.clone());
        for (position, target) in new.targets.iter_mut().enumerate() {
            if self.sites[position].device_id() == new.sites[position].device_id() {
                *target = Arc::clone(&self.targets[position]);
            }
        }
        new.follow(self);
        new
    }

    /// The launches of `old`, which has the same sites, keep the sizes and deadlines that were set.
    pub fn keep_launches(&mut self, old: &Self) {
        self.targets.clone_from(&old.targets);
    }

    /// It continues the run of `old`.
    pub(crate) fn follow(&mut self, old: &Self) {
        self.failures = Arc::clone(&old.failures);
    }

    /// The devices that failed in lanes of its run.
    pub(crate) fn failures(&self) -> &FailedDevices {
        &self.failures
    }

    /// A device is required by each function that moves there from `old`, and by each that runs
    /// there already. A function that fell back to the CPU may stay there.
    pub(crate) fn require_devices(&mut self, old: &Self) {
        let moved = old.moved_to(self);
        for (position, site) in self.sites.iter_mut().enumerate() {
            let is_needed = moved.contains(&position) || old.loaded(position).is_some();
            site.on_device.iter_mut().for_each(|on| on.is_required |= is_needed);
        }
        self.cut();
    }

    /// The positions of functions that `new` has on another device.
    pub(crate) fn moved_to(&self, new: &Self) -> Vec<usize> {
        let both = self.sites.iter().zip(&new.sites).enumerate();
        let moved = both.filter(|(_, (own, new))| own.device_id() != new.device_id());
        moved.map(|(position, _)| position).collect()
    }

    /// The same sites, of a chain with the same instances.
    pub(crate) fn with_chain(self, chain: Arc<Chain>) -> Self {
        Self { chain, ..self }
    }

    /// How a stage closes its launches.
    pub(crate) fn launch_target(&self, stage: &StagePlan) -> &Arc<LaunchTarget> {
        &self.targets[stage.first]
    }

    /// From now on the stage that begins with the function at `position` closes its launches at so
    /// many bytes of frames, and at a wait of `delay`. A launch is never larger than
    /// [`LaunchOptions::bytes`](crate::LaunchOptions::bytes).
    pub fn set_launches(&self, position: usize, bytes: usize, delay: Duration) {
        if let Some(target) = self.targets.get(position) {
            target.set(bytes, delay);
        }
    }

    /// The bytes and the delay of launches that were set for the stage that begins there.
    pub fn launches_set(&self, position: usize) -> Option<(usize, Duration)> {
        self.targets.get(position)?.get()
    }

    /// The chain.
    pub fn chain(&self) -> &Arc<Chain> {
        &self.chain
    }

    /// Where its functions run, by position.
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// Its functions with their sites, in order.
    pub fn instances(&self) -> impl Iterator<Item = (&Instance, &Site)> {
        self.chain.instances.iter().zip(&self.sites)
    }

    /// Replaces the device of each function that has one, by position, before anything is loaded:
    /// for a tenant's seat at the same device ([`crate::SharedDevice::seat`]).
    pub fn replace_devices(&mut self, seat: impl Fn(usize, &Arc<dyn Device>) -> Arc<dyn Device>) {
        for (position, site) in self.sites.iter_mut().enumerate() {
            site.on_device.iter_mut().for_each(|on| on.device = seat(position, &on.device));
        }
    }

    /// How it is cut into stages.
    pub fn stages(&self) -> &[StagePlan] {
        &self.stages
    }

    /// The functions of one of its stages.
    pub fn members(&self, stage: &StagePlan) -> &[Instance] {
        &self.chain.instances[stage.positions()]
    }

    /// The names of the functions of one of its stages.
    pub fn stage_name(&self, stage: &StagePlan) -> String {
        let names = self.members(stage).iter().map(|one| one.name.as_str());
        names.collect::<Vec<_>>().join(", ")
    }

    /// Where one of its stages runs, if not on the CPU.
    pub(crate) fn on_device(&self, stage: &StagePlan) -> Option<&OnDevice> {
        self.sites.get(stage.first)?.on_device.as_ref()
    }

    /// Whether one of its stages is on a device.
    pub(crate) fn is_on_device(&self, stage: &StagePlan) -> bool {
        self.on_device(stage).is_some()
    }

    /// Restores each packet that a function drops to the frame that the function got. Sinks that
    /// are shown dropped packets need that ([`warpline_io::Sink::wants_dropped`]), because
    /// functions change frames and then drop them. Each frame is copied for each function, and
    /// functions on a device don't share launches.
    pub fn show_drops(&mut self) {
        self.shows_drops = true;
        self.cut();
    }

    /// Sets the plan by which fields cross to devices. With a plan for each function alone,
    /// functions on a device don't share launches.
    pub fn set_plan(&mut self, plan: PlanOptions) {
        self.plan = plan;
        self.cut();
    }

    /// The plan by which its fields cross.
    pub fn plan(&self) -> PlanOptions {
        self.plan
    }

    /// Sets the measurements of the machine that plans are made by.
    pub fn set_profile(&mut self, profile: Profile) {
        self.profile = profile;
        self.crossings = OnceLock::new();
    }

    /// Measurements of the machine; empty without any.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    fn cut(&mut self) {
        let apart = self.shows_drops || self.plan.mode == Mode::PerNf;
        self.stages = cut(&self.chain, &self.sites, apart);
        self.crossings = OnceLock::new();
    }

    /// The bytes that cross for the launches of one of its stages.
    pub(crate) fn crossings(&self, stage: &StagePlan) -> &Crossings {
        let all = self.crossings.get_or_init(|| crossings(self, self.plan));
        let at = self.stages.iter().position(|own| own == stage);
        at.and_then(|at| all.get(at)).expect("a stage of this deployment")
    }

    /// The kernels that carry packets for a stage. It has no copier if no single fields are copied,
    /// no carrier if copies carry whole frames, and no unpacker if its device works in place.
    pub(crate) fn transport(&self, stage: &StagePlan) -> Transport {
        let of = |all: &[OnceLock<Arc<Loaded>>]| all.get(stage.first)?.get().cloned();
        Transport {
            copier: of(&self.copiers),
            carrier: of(&self.carriers),
            unpacker: of(&self.unpackers),
        }
    }

    /// Whether kernels carry whole frames for stages on `device`. Only devices with a memory of
    /// their own need that.
    pub(crate) fn has_carried(&self, device: &dyn Device) -> bool {
        self.plan.frames_by == FramesBy::Kernels && !device.description().shares_host_memory
    }

    /// See [`Deployment::show_drops`].
    pub(crate) fn shows_drops(&self) -> bool {
        self.shows_drops
    }
}

impl From<Chain> for Deployment {
    /// With every function on the CPU.
    fn from(chain: Chain) -> Self {
        Self::new(Arc::new(chain), Vec::new())
    }
}
