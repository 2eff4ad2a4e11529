//! A service chain, built: its functions in order, cut into stages, with the one key that steers it.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use warpline_device::{Device, Failure};
use warpline_nf::{Definition, Function, Growth, Kernels, field_copies, packed_rows, room_copies};
use warpline_packet::{ALIGN, Binding, REASONS_MAX, Seed, Shard, StateKey, Steering, frame_start};
use warpline_sched::{Mode, Profile};

use crate::cut::{StagePlan, cut};
use crate::device::{self, Crossings, DEVICE_LOST, DEVICE_LOST_NAME, Loaded, OnDevice};
use crate::planned::crossings;
use crate::reach::Reach;
use crate::{FramesBy, PlanOptions, StartError};

/// A function of a chain under its own name.
pub struct Instance {
    /// The name of its table in the chain file.
    pub name: String,
    /// What is known of its function.
    pub definition: &'static Definition,
    /// The function.
    pub function: Arc<dyn Function>,
    /// What it was built of, as a hash: one built of the same is the same.
    pub fingerprint: u64,
    /// Whether it has a stage of its own, apart from its neighbours on the same device.
    pub own_stage: bool,
    /// Batches that go through its stage together; 1 unless the stage is its own.
    pub launch_batches: usize,
    /// Where it runs, if not on the CPU; the function has kernels then.
    pub on_device: Option<OnDevice>,
}

impl Instance {
    /// What its device is called.
    pub fn device_id(&self) -> &str {
        self.on_device.as_ref().map_or("cpu", |on| on.device.description().id.as_str())
    }

    /// What it dropped, by the names of the reasons; what devices lost only where they did.
    pub fn named_drops(
        &self,
        drops: &[u64; REASONS_MAX],
    ) -> impl Iterator<Item = (&'static str, u64)> {
        let lost = drops[usize::from(DEVICE_LOST.0)];
        let lost = (lost > 0).then_some((DEVICE_LOST_NAME, lost));
        self.definition.drops.iter().copied().zip(*drops).chain(lost)
    }
}

/// A chain, ready to be run.
pub struct Chain {
    /// Its name.
    pub name: String,
    /// Its functions, in order.
    pub instances: Vec<Instance>,
    /// How they are cut into stages.
    pub stages: Vec<StagePlan>,
    /// The key that sends packets to shards.
    pub steering: Steering,
    /// Two instances whose keys disagree, where the chain runs on one lane because of it.
    pub disagreement: Option<[String; 2]>,
    /// Scratch words handed out.
    pub scratch_words: usize,
    /// What packets are steered by, and flows named.
    seed: Seed,
    /// See [`Chain::show_drops`].
    shows_drops: bool,
    plan: PlanOptions,
    /// Of the machine, by which plans cost.
    profile: Profile,
    /// By stage, what crosses for its launches, from when it is first asked for.
    pub(crate) crossings: OnceLock<Vec<Crossings>>,
    /// By function, its kernels and their tables, from when they are first asked for until they are on its device.
    kernels: Vec<Mutex<Option<Kernels>>>,
    /// By function, what of it is on its device, once the chain runs or is to follow one that runs.
    loaded: Vec<OnceLock<Arc<Loaded>>>,
    /// By the first function of a stage, the kernels that copy single fields for it, where there are such.
    copiers: Vec<OnceLock<Arc<Loaded>>>,
    /// By the same, the kernels that carry whole frames for it, where these and not copies do.
    carriers: Vec<OnceLock<Arc<Loaded>>>,
    /// By the same, the kernel that writes launches' tables from packed rows, where packets are copied.
    unpackers: Vec<OnceLock<Arc<Loaded>>>,
    /// Set once what is on devices was loaded there.
    was_loaded: OnceLock<()>,
}

/// Most instances of a chain.
pub const INSTANCES_MAX: usize = 64;
/// Most packets that one packet may become on its way through a chain.
pub const MULTIPLY_MAX: usize = 16;
/// Most bytes by which a frame may grow at one end on its way through a chain.
pub const GROWTH_MAX: usize = 16 << 10;

/// Why a chain can't be built of functions that each are fine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainError {
    /// More instances than [`INSTANCES_MAX`].
    TooLong,
    /// One packet could become more than [`MULTIPLY_MAX`].
    Multiplies(usize),
    /// A frame could grow by more bytes than [`GROWTH_MAX`].
    Grows(usize),
}

impl std::fmt::Display for ChainError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLong => write!(f, "a chain has at most {INSTANCES_MAX} functions"),
            Self::Multiplies(n) => {
                write!(
                    f,
                    "one packet could become {n} in this chain; at most {MULTIPLY_MAX} are handled"
                )
            }
            Self::Grows(n) => {
                write!(f, "a frame could grow by {n} bytes; at most {GROWTH_MAX} are handled")
            }
        }
    }
}

impl std::error::Error for ChainError {}

impl Chain {
    /// Builds a chain of `instances`, to which `scratch_words` scratch words were handed.
    pub fn new(
        name: impl Into<String>,
        instances: Vec<Instance>,
        scratch_words: usize,
    ) -> Result<Self, ChainError> {
        if instances.len() > INSTANCES_MAX {
            return Err(ChainError::TooLong);
        }
        let keys: Vec<(String, StateKey)> =
            instances.iter().map(|i| (i.name.clone(), i.function.state_key())).collect();
        let (steering, disagreement) = match Steering::derive(&keys) {
            Ok(steering) => (steering, None),
            Err(names) => (Steering::Single, Some(names)),
        };
        let stages = cut(&instances, false);
        let chain = Self {
            name: name.into(),
            kernels: instances.iter().map(|_| Mutex::default()).collect(),
            loaded: instances.iter().map(|_| OnceLock::new()).collect(),
            copiers: instances.iter().map(|_| OnceLock::new()).collect(),
            carriers: instances.iter().map(|_| OnceLock::new()).collect(),
            unpackers: instances.iter().map(|_| OnceLock::new()).collect(),
            was_loaded: OnceLock::new(),
            instances,
            stages,
            steering,
            disagreement,
            scratch_words,
            seed: Seed::default(),
            shows_drops: false,
            plan: PlanOptions::default(),
            profile: Profile::default(),
            crossings: OnceLock::new(),
        };
        let Growth { head, tail } = chain.growth();
        match (chain.multiply(), head.max(tail)) {
            (n, _) if n > MULTIPLY_MAX => Err(ChainError::Multiplies(n)),
            (_, n) if n > GROWTH_MAX => Err(ChainError::Grows(n)),
            _ => Ok(chain),
        }
    }

    /// The same with the seed that its functions were built with; it is 0 otherwise.
    #[must_use]
    pub fn with_seed(mut self, seed: Seed) -> Self {
        self.seed = seed;
        self
    }

    /// What its packets are steered by, and their flows named.
    pub fn seed(&self) -> Seed {
        self.seed
    }

    /// Has every packet that a function drops be, from there on, what it was when that function got it, for a sink that is shown such
    /// packets ([`warpline_io::Sink::wants_dropped`]): functions change frames and then drop them. That takes a copy of every frame
    /// for every function, and functions on a device don't share launches.
    pub fn show_drops(&mut self) {
        self.shows_drops = true;
        self.cut();
    }

    /// Has its fields cross to devices by this plan. Where each function is for itself, functions on a device don't share launches.
    pub fn set_plan(&mut self, plan: PlanOptions) {
        self.plan = plan;
        self.cut();
    }

    /// The plan by which its fields cross.
    pub fn plan(&self) -> PlanOptions {
        self.plan
    }

    /// Has its plans made by what was measured on the machine.
    pub fn set_profile(&mut self, profile: Profile) {
        self.profile = profile;
        self.crossings = OnceLock::new();
    }

    /// What was measured on the machine; empty where nothing was.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    fn cut(&mut self) {
        let apart = self.shows_drops || self.plan.mode == Mode::PerNf;
        self.stages = cut(&self.instances, apart);
        self.crossings = OnceLock::new();
    }

    /// What crosses for the launches of one of its stages.
    pub(crate) fn crossings(&self, stage: &StagePlan) -> &Crossings {
        let all = self.crossings.get_or_init(|| crossings(self, self.plan));
        let at = self.stages.iter().position(|own| own == stage);
        at.and_then(|at| all.get(at)).expect("a stage of this chain")
    }

    /// The kernels that copy single fields for a stage, where there are such and they are on its device.
    pub(crate) fn copier(&self, stage: &StagePlan) -> Option<&Arc<Loaded>> {
        self.copiers.get(stage.first)?.get()
    }

    /// The kernels that carry whole frames for a stage, where these and not copies do.
    pub(crate) fn carrier(&self, stage: &StagePlan) -> Option<&Arc<Loaded>> {
        self.carriers.get(stage.first)?.get()
    }

    /// The kernel that writes launches' tables from packed rows for a stage, where packets are copied.
    pub(crate) fn unpacker(&self, stage: &StagePlan) -> Option<&Arc<Loaded>> {
        self.unpackers.get(stage.first)?.get()
    }

    /// Whether kernels are to carry whole frames for stages on `device`: it has a memory of its own.
    pub(crate) fn has_carried(&self, device: &dyn Device) -> bool {
        self.plan.frames_by == FramesBy::Kernels && !device.description().shares_host_memory
    }

    /// Bytes of the room of a frame of `len` bytes.
    pub fn room_len(&self, len: usize) -> usize {
        let Growth { head, tail } = self.growth();
        (frame_start(head) + len + tail).next_multiple_of(ALIGN)
    }

    /// See [`Chain::show_drops`].
    pub(crate) fn shows_drops(&self) -> bool {
        self.shows_drops
    }

    /// Bytes by which a frame may grow on its way.
    pub fn growth(&self) -> Growth {
        let all = self.instances.iter().map(|i| i.function.growth());
        all.fold(Growth::NONE, |sum, g| Growth { head: sum.head + g.head, tail: sum.tail + g.tail })
    }

    /// Packets that one packet may become on its way, itself among them.
    pub fn multiply(&self) -> usize {
        let [of_packets, _] = Reach::of(self, 1);
        of_packets.rows()
    }

    /// Bytes of the longest frame that a function may make.
    pub fn made_len_max(&self) -> usize {
        self.instances.iter().map(|i| i.function.emits().len_max).max().unwrap_or(0)
    }

    /// Bytes of the longest frame that each of its functions may give a packet, of those that give any.
    pub fn replace_lens(&self) -> impl Iterator<Item = usize> {
        self.instances.iter().map(|i| i.function.emits().replace_len_max).filter(|&len| len > 0)
    }

    /// Whether `stage` is on a device.
    pub(crate) fn is_on_device(&self, stage: &StagePlan) -> bool {
        self.instances.get(stage.first).is_some_and(|instance| instance.on_device.is_some())
    }

    /// Lanes that it can use of the `asked`.
    pub fn lanes(&self, asked: usize) -> usize {
        if self.steering == Steering::Single { 1 } else { asked }
    }

    /// The shards that lane `lane` of `lanes` holds.
    pub fn shards(&self, lane: usize, lanes: usize) -> Vec<Shard> {
        match self.steering {
            Steering::Single => vec![Shard::WHOLE],
            _ => (0..warpline_packet::SHARDS)
                .filter(|&shard| lane_of(shard as u8, lanes) == lane)
                .map(Shard::new)
                .collect(),
        }
    }

    /// Compiles what is on devices, and copies tables there, where that was not done yet. What is to follow a
    /// chain that gave a device up stays on the CPU, as that does.
    ///
    /// Gives what is to be told of those that stay on the CPU, as nobody said that they must not.
    ///
    /// # Errors
    /// The instance, and what its device says.
    pub(crate) fn load(&self, old: Option<&Self>) -> Result<Vec<String>, (String, Failure)> {
        let _ = self.was_loaded.set(());
        let mut told = Vec::new();
        let positions = |stage: &StagePlan| stage.first..stage.first + stage.count;
        let all = self.stages.iter().flat_map(|stage| positions(stage).map(move |at| (stage, at)));
        for (stage, position) in all {
            let (instance, slot) = (&self.instances[position], &self.loaded[position]);
            let (Some(on), None) = (&instance.on_device, slot.get()) else { continue };
            if old.is_some_and(|old| old.has_given_up(instance.device_id())) {
                continue;
            }
            match self.load_one(on, stage, position) {
                Ok(loaded) => {
                    let _ = slot.set(Arc::new(loaded));
                }
                Err(why) if on.is_required => return Err((instance.name.clone(), why)),
                Err(why) => told.push(format!("{} runs on the CPU: {why}", instance.name)),
            }
        }
        Ok(told)
    }

    /// Compiles function `position` of `stage` and copies its tables; with the first what the stage needs besides.
    fn load_one(
        &self,
        on: &OnDevice,
        stage: &StagePlan,
        position: usize,
    ) -> Result<Loaded, Failure> {
        let crossings = self.crossings(stage);
        if let Some(copies) = crossings.copies(self.scratch_words)
            && self.copiers[stage.first].get().is_none()
        {
            let copier = device::load(&on.device, &field_copies(), &copies)?;
            let _ = self.copiers[stage.first].set(Arc::new(copier));
        }
        if self.has_carried(&*on.device) && self.carriers[stage.first].get().is_none() {
            device::reach(&*on.device)?;
            if crossings.has_rooms() {
                let carrier = device::load(&on.device, &room_copies(), &Binding::MIRROR)?;
                let _ = self.carriers[stage.first].set(Arc::new(carrier));
            }
        }
        let is_copied = !on.device.description().shares_host_memory;
        if is_copied && self.unpackers[stage.first].get().is_none() {
            let unpacker = device::load(&on.device, &packed_rows(), &Binding::MIRROR)?;
            let _ = self.unpackers[stage.first].set(Arc::new(unpacker));
        }
        let kernels = self.kept_kernels(position).take();
        let kernels = kernels.or_else(|| self.instances[position].function.kernels());
        let none = || Failure::Refused("it has no kernels".into());
        let binding = crossings.binding(self.scratch_words);
        device::load(&on.device, &kernels.ok_or_else(none)?, &binding)
    }

    /// Bytes of the tables that kernels of function `position` read, which are built for it and kept for [`Chain::load`].
    pub(crate) fn kernel_tables_len(&self, position: usize) -> usize {
        let mut kept = self.kept_kernels(position);
        if kept.is_none() {
            *kept = self.instances[position].function.kernels();
        }
        kept.iter().flat_map(Kernels::tables).map(|table| table.bytes.len()).sum()
    }

    fn kept_kernels(&self, position: usize) -> std::sync::MutexGuard<'_, Option<Kernels>> {
        self.kernels[position].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What of function `position` is on its device.
    pub(crate) fn loaded(&self, position: usize) -> Option<&Arc<Loaded>> {
        self.loaded.get(position)?.get()
    }

    /// Whether a lane of this chain, which runs or ran, uses device `id` no more.
    fn has_given_up(&self, id: &str) -> bool {
        let mut all = self.instances.iter().zip(&self.loaded).filter(|(i, _)| i.device_id() == id);
        all.any(|(instance, slot)| match slot.get() {
            Some(loaded) => loaded.is_given_up(),
            // The chain could not have started like this: a reload left it out.
            None => instance.on_device.as_ref().is_some_and(|on| on.is_required),
        })
    }

    /// Takes over from `old` what of function `position` is on its device: it is the same function.
    pub(crate) fn keep_loaded(&mut self, old: &Self, position: usize) {
        for (own, kept) in [
            (&self.loaded, &old.loaded),
            (&self.copiers, &old.copiers),
            (&self.carriers, &old.carriers),
            (&self.unpackers, &old.unpackers),
        ] {
            if let Some(loaded) = kept.get(position).and_then(OnceLock::get) {
                let _ = own[position].set(Arc::clone(loaded));
            }
        }
    }

    /// The positions of functions that are loaded on device `id`.
    pub(crate) fn loaded_on(&self, id: &str) -> Vec<usize> {
        let is_own = |position: &usize| {
            self.instances[*position].device_id() == id && self.loaded(*position).is_some()
        };
        (0..self.instances.len()).filter(is_own).collect()
    }

    /// Whether it runs or ran.
    pub(crate) fn was_loaded(&self) -> bool {
        self.was_loaded.get().is_some()
    }

    /// Looks whether the devices on which it insists can have whole frames carried as its plan says.
    ///
    /// # Errors
    /// The first instance whose device can't, and what that says.
    pub fn try_frames(&self) -> Result<(), StartError> {
        let all = self.instances.iter().filter_map(|one| Some((one, one.on_device.as_ref()?)));
        let carried =
            |(_, on): &(&Instance, &OnDevice)| on.is_required && self.has_carried(&*on.device);
        all.filter(carried).try_for_each(|(one, on)| {
            device::reach(&*on.device).map_err(|why| StartError::Device(one.name.clone(), why))
        })
    }

    /// How often time has to be told, in packet time: the shortest that any function asks for.
    pub fn tick(&self) -> Option<Duration> {
        self.instances.iter().filter_map(|i| i.function.tick()).min()
    }
}

/// The lane that holds shard `shard`.
#[inline]
pub fn lane_of(shard: u8, lanes: usize) -> usize {
    usize::from(shard) * lanes / warpline_packet::SHARDS
}
