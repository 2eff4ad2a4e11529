//! The dimensions of the engine. All memory is taken when a chain starts; nothing grows later.

use warpline_launch::{Dimensions, PACKET_LEN};
use warpline_nf::Growth;
use warpline_packet::{
    ALIGN, ArenaLayout, BATCH_DEFAULT, BATCH_MAX, FieldSet, Notes, SHARDS, SLAB_LEN, frame_start,
};

use warpline_sched::{LaunchLimits, PauseMode, Watermarks};

use crate::memory::EMIT_SLABS_MAX;
use crate::reach::Reach;
use crate::{Chain, Cores, Deployment, LaunchOptions, PressureOptions, StagePlan, Streams};

/// The dimensions of a running chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Lanes: worker threads with their own arena, queues and shards.
    pub lanes: usize,
    /// The cores that they run on, one each. A lane beyond these runs wherever the system puts it.
    pub cores: Cores,
    /// Packets of a batch, 1 to 1024.
    pub batch_packets: usize,
    /// Full batches that a queue between stages or threads holds.
    pub queue_batches: usize,
    /// Slabs of 1 MiB for packets from outside, per lane.
    pub slabs: usize,
    /// Whether each lane reads and sends itself, so that hardly more than one batch is in use. Few
    /// are then used, and stay in the cache. Set by the engine.
    pub alone: bool,
    /// Whether versions of fields are followed ([`crate::Followed`]). A run then takes
    /// many times as long.
    pub follows_versions: bool,
    /// Whether the report has the huge pages of the run ([`crate::Report::huge_pages`]). Linux
    /// takes milliseconds to count them in a process with much memory.
    pub counts_huge_pages: bool,
    /// Whether threads without work poll instead of sleeping.
    pub busy: bool,
    /// How full queues pause the stages before them.
    pub pressure: PressureOptions,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lanes: 1,
            cores: Cores::ANY,
            batch_packets: BATCH_DEFAULT,
            queue_batches: 8,
            slabs: 48,
            alone: false,
            follows_versions: false,
            counts_huge_pages: false,
            busy: false,
            pressure: PressureOptions::default(),
        }
    }
}

/// Batches that may wait between threads where they hold few packets.
const SPARSE_BATCHES: usize = 64;
/// Most lanes: one a shard.
pub const LANES_MAX: usize = SHARDS;

/// Bytes of a long frame of Ethernet.
pub(crate) const FRAME_LEN: usize = 1518;
/// Most batches of a launch.
const LAUNCH_BATCHES_MAX: usize = 256;
/// Most batches that a stage on a device has at once.
const HELD_MAX: usize = 1024;
/// The same in a chain that makes packets.
const HELD_MAX_MAKING: usize = 32;
/// Most slabs that launches ask for.
const DEVICE_SLABS_MAX: usize = 1024;
/// Bytes of the tables that a launch has of its own.
const LAUNCH_TABLES_LEN: usize = 64 << 20;
/// The most bytes of a lane's batches together, and of those for made packets, unless a minimum
/// needs more.
const BATCHES_LEN_MAX: usize = 512 << 20;
/// Most of either.
const BATCHES_MAX: usize = 12 << 10;
/// Packets that one batch may become: it has fewer to begin with where they may become many.
const SLOTS_MAX: usize = 4096;
/// Packets of a batch, so far as it is made smaller.
const BATCH_LEAST: usize = 16;

impl Settings {
    /// Packets of a launch of a lane's first stage at least, so that the high mark of its queue is
    /// [`Settings::queue_batches`].
    pub fn first_launch_packets(&self) -> usize {
        let packets = self.queue_batches * self.batch_packets;
        match self.pressure.mode {
            PauseMode::On(marks) => packets * 1_000 / marks.high().max(1) as usize,
            PauseMode::Off => packets * 1_000 / Watermarks::default().high() as usize,
        }
    }

    /// The same for `deployment`: no more lanes than it can use, and the cores of those.
    #[must_use]
    pub fn fit(&self, deployment: &Deployment) -> Self {
        let lanes = deployment.chain().lanes(self.lanes.clamp(1, LANES_MAX));
        let batch_packets = self.batch_packets.clamp(1, BATCH_MAX);
        let mut own = Self { lanes, cores: self.cores.first(lanes), batch_packets, ..*self };
        // The worst case of made packets grows with the packets of a batch, so batches are smaller
        // if it is large.
        while own.batch_packets > BATCH_LEAST && !own.is_moderate(deployment) {
            own.batch_packets = (own.batch_packets / 2).max(BATCH_LEAST);
        }
        let slabs = self.slabs.max(2).max(own.device_slabs(deployment));
        Self { slabs, ..own }
    }

    /// Batches that a queue has room for: [`Settings::queue_batches`], and twice those that a stage
    /// of `deployment` has at once, so that queues take its launches whole.
    pub(crate) fn queue_room(&self, deployment: &Deployment) -> usize {
        let held = |stage| self.stage_batches(deployment, stage);
        let held = deployment.stages().iter().map(held).max().unwrap_or(1);
        self.queue_batches.max(held.saturating_mul(2))
    }

    /// Batches of a lane: those in its queues and stages, and those being filled and sent. There
    /// are fewer if they would take too much memory. Batches always get to the end of a lane,
    /// however few there are: a stage without one waits.
    pub fn batches(&self, deployment: &Deployment) -> usize {
        let in_stages = self.stages_sum(deployment, |stage| self.stage_batches(deployment, stage));
        let between_stages = deployment.stages().len().saturating_sub(1);
        let in_queues = self
            .queue_room(deployment)
            .saturating_mul(between_stages)
            .saturating_add(2 * self.ends_batches(deployment));
        let all = if self.alone { in_stages } else { in_queues.saturating_add(in_stages) };
        let room = BATCHES_LEN_MAX / self.batch_len(deployment.chain()).max(1);
        all.saturating_add(4).min(room.max(self.batches_least(deployment))).min(BATCHES_MAX)
    }

    /// Batches with which all stages are at work: launches that take several take fewer then.
    fn batches_least(&self, deployment: &Deployment) -> usize {
        2 * deployment.stages().len() + 4
    }

    pub(crate) fn stages_sum(
        &self,
        deployment: &Deployment,
        of: impl Fn(&StagePlan) -> usize,
    ) -> usize {
        deployment.stages().iter().map(of).fold(0, usize::saturating_add)
    }

    /// Bytes of a batch: its table, its notes and its findings.
    pub(crate) fn batch_len(&self, chain: &Chain) -> usize {
        self.made_len(chain).saturating_add(4 * self.findings(chain))
    }

    /// Bytes of a batch that holds what a function makes.
    pub(crate) fn made_len(&self, chain: &Chain) -> usize {
        let (notes, bytes) = self.notes(chain);
        self.table_len(chain).saturating_add(Notes::room_len(notes, bytes))
    }

    fn table_len(&self, chain: &Chain) -> usize {
        let (slots, scratch_words) = (self.slots(chain), chain.scratch_words);
        ArenaLayout { slots, scratch_words, ..ArenaLayout::NONE }.table_len()
    }

    /// Whether what a batch may become at worst takes no more memory than is set aside for that.
    fn is_moderate(&self, deployment: &Deployment) -> bool {
        let least = self.batches_least(deployment);
        self.slots(deployment.chain()) <= SLOTS_MAX
            && self.placed(deployment).all <= EMIT_SLABS_MAX
            && self.batch_len(deployment.chain()).saturating_mul(least) <= BATCHES_LEN_MAX
    }

    /// The most batches that wait before a lane, and after it, if they are not full.
    pub(crate) fn ends_batches(&self, deployment: &Deployment) -> usize {
        let room = self.queue_room(deployment);
        if self.alone { room } else { room.max(SPARSE_BATCHES) }
    }

    /// Batches for packets made while stages work: those on the CPU work one after the other, those
    /// on devices all at once, as far as there is memory. A stage without one waits.
    pub fn made_batches(&self, deployment: &Deployment) -> usize {
        let on_devices = |stage: &StagePlan| {
            self.launch_limits(deployment, stage).map_or(0, |limits| limits.waiting_batches_max)
        };
        let all = cpu_batches(deployment).saturating_add(self.stages_sum(deployment, on_devices));
        let room = BATCHES_LEN_MAX / self.made_len(deployment.chain()).max(1);
        all.min(room.max(1)).min(BATCHES_MAX)
    }

    /// Batches that a stage has at once.
    pub(crate) fn stage_batches(&self, deployment: &Deployment, stage: &StagePlan) -> usize {
        let limits = self.launch_limits(deployment, stage);
        limits.map_or(stage.launch_batches, |limits| limits.waiting_batches_max)
    }

    /// How launches of a stage on a device are made.
    pub(crate) fn launch_limits(
        &self,
        deployment: &Deployment,
        stage: &StagePlan,
    ) -> Option<LaunchLimits> {
        let LaunchOptions { bytes, delay, streams, sync, timeout, graphs: _, lanes: _ } =
            deployment.on_device(stage)?.launches;
        let streams = if sync { Streams::Count(1) } else { streams };
        // Without backpressure a stage has one launch in flight (Simmer, section 3.4).
        let launches_max = if self.pressure.is_off() { 1 } else { streams.most().max(1) };
        // As many as fill a launch with the shortest packets.
        let batches_max =
            (bytes / (self.batch_packets.max(1) * PACKET_LEN)).clamp(1, LAUNCH_BATCHES_MAX);
        // Each launch has tables of its own.
        let batches_max =
            batches_max.min(LAUNCH_TABLES_LEN / self.table_len(deployment.chain()).max(1)).max(1);
        // Packets that functions make need room for every batch in use.
        let held_max = if deployment.chain().multiply() > 1 { HELD_MAX_MAKING } else { HELD_MAX };
        // All stages on devices together have half of the batches.
        let on_devices = deployment
            .stages()
            .iter()
            .filter(|stage| deployment.is_on_device(stage))
            .count()
            .max(1);
        let batches =
            (BATCHES_LEN_MAX / self.batch_len(deployment.chain()).max(1)).min(BATCHES_MAX);
        let held_max = held_max.min(batches / (2 * on_devices)).max(1);
        // No launch has more batches than the stage holds.
        let batches_max = batches_max.min(held_max);
        Some(LaunchLimits {
            bytes_max: bytes,
            packets_max: batches_max * self.slots(deployment.chain()),
            batches_max,
            delay_max_ns: delay.as_nanos() as u64,
            foresees: true,
            launches_max,
            measures: streams == Streams::Measured && launches_max > 1,
            waiting_bytes_max: bytes.saturating_mul(launches_max + 2),
            waiting_batches_max: (batches_max * (launches_max + 2)).min(held_max),
            timeout_ns: timeout.as_nanos() as u64,
        })
    }

    /// How launches are made of the stages whose devices share the host's memory.
    pub(crate) fn in_place<'a>(
        &'a self,
        deployment: &'a Deployment,
    ) -> impl Iterator<Item = (&'a StagePlan, LaunchLimits)> {
        let shares = |stage: &&StagePlan| {
            deployment.on_device(stage).is_some_and(|on| on.device.description().shares_host_memory)
        };
        let stages = deployment.stages().iter().filter(shares);
        stages.filter_map(|stage| Some((stage, self.launch_limits(deployment, stage)?)))
    }

    /// Bytes of a lane's memory after its arena: the launches' own memory on devices that work in
    /// place.
    pub(crate) fn spare_len(&self, deployment: &Deployment) -> usize {
        let own = |(stage, limits)| self.dimensions(deployment, stage, &limits).launches_len();
        self.in_place(deployment).map(own).sum()
    }

    /// The dimensions of launches of a stage with these limits.
    pub(crate) fn dimensions(
        &self,
        deployment: &Deployment,
        stage: &StagePlan,
        limits: &LaunchLimits,
    ) -> Dimensions {
        let own = deployment.members(stage);
        let findings = own.iter().map(|one| one.function.emits().findings_per_packet);
        let layout = self.arena(deployment);
        let crossings = deployment.crossings(stage);
        let columns = crossings.columns(layout.scratch_words).row_len();
        let own = (columns, findings.max().unwrap_or(0), crossings.kept_len());
        Dimensions::new(limits, &layout, own)
    }

    /// Bytes that launches on devices take of a lane's own: tables of packets, and findings.
    pub(crate) fn launches_len(&self, deployment: &Deployment) -> usize {
        let own = |stage: &StagePlan| {
            let limits = self.launch_limits(deployment, stage)?;
            Some(self.dimensions(deployment, stage, &limits).launches_len())
        };
        deployment.stages().iter().filter_map(own).fold(0, usize::saturating_add)
    }

    /// Slabs for the packets of launches that are given up, from rooms that a device may still read
    /// in place.
    pub(crate) fn refuge_slabs(&self, deployment: &Deployment) -> usize {
        let reads_frames = |stage: &StagePlan| {
            let own = deployment.members(stage);
            let writes = |one: &crate::Instance| one.function.kernel_access().writes;
            own.iter().all(|one| (writes(one) & FieldSet::FRAME).is_empty())
        };
        let bytes = self.in_place(deployment).filter(|(stage, _)| reads_frames(stage)).map(
            |(_, limits)| {
                let batch_len = self.batch_packets * FRAME_LEN;
                let bytes = limits.launches_max * limits.bytes_max.max(batch_len);
                self.rooms_len(deployment.chain(), bytes, limits.launches_max * limits.packets_max)
            },
        );
        let bytes = bytes.fold(0, usize::saturating_add);
        if bytes == 0 { 0 } else { (bytes / SLAB_LEN + 2).min(DEVICE_SLABS_MAX) }
    }

    /// Bytes of rooms for so many packets with so many bytes of frames.
    pub(crate) fn rooms_len(&self, chain: &Chain, bytes: usize, packets: usize) -> usize {
        let Growth { head, tail } = chain.growth();
        let around = frame_start(head) + tail + ALIGN;
        bytes.saturating_add(packets.saturating_mul(around))
    }

    /// Slabs for what stages on devices have under way: rooms are longer than frames.
    fn device_slabs(&self, deployment: &Deployment) -> usize {
        let limits =
            deployment.stages().iter().filter_map(|stage| self.launch_limits(deployment, stage));
        let rooms = limits.map(|limits| {
            let packets = limits.waiting_batches_max * self.batch_packets.max(1);
            self.rooms_len(deployment.chain(), limits.waiting_bytes_max, packets)
        });
        let bytes = rooms.fold(0, usize::saturating_add);
        if bytes == 0 { 0 } else { (bytes / SLAB_LEN + 16).min(DEVICE_SLABS_MAX) }
    }

    /// Packets that a batch may become on its way.
    pub fn slots(&self, chain: &Chain) -> usize {
        let each = Reach::of(chain, self.batch_packets).map(|reach| reach.rows());
        each.into_iter().fold(1, usize::max)
    }

    /// Notes that a batch's functions may make on its way, and their bytes.
    pub fn notes(&self, chain: &Chain) -> (usize, usize) {
        let each = Reach::of(chain, self.batch_packets).map(|reach| {
            let own = reach.turns.iter().filter(|turn| turn.emits.note_len_max > 0);
            own.fold((0, 0), |(notes, bytes): (usize, usize), turn| {
                let len = turn.notes.saturating_mul(turn.emits.note_len_max);
                (notes.saturating_add(turn.notes), bytes.saturating_add(len))
            })
        });
        each.into_iter().fold((0, 0), |most, own| (most.0.max(own.0), most.1.max(own.1)))
    }

    /// Numbers that a function of the chain may find in a batch.
    pub fn findings(&self, chain: &Chain) -> usize {
        let turns = Reach::of(chain, self.batch_packets).into_iter().flat_map(|reach| reach.turns);
        let each = turns.map(|turn| turn.packets.saturating_mul(turn.emits.findings_per_packet));
        each.max().unwrap_or(0)
    }

    /// The layout of a lane's arena.
    pub fn arena(&self, deployment: &Deployment) -> ArenaLayout {
        let chain = deployment.chain();
        let growth = chain.growth();
        ArenaLayout {
            slabs: self.slabs,
            emit_slabs: self.placed(deployment).slabs.saturating_add(self.refuge_slabs(deployment)),
            tables: self.batches(deployment).saturating_add(self.made_batches(deployment)),
            slots: self.slots(chain),
            scratch_words: chain.scratch_words,
            headroom: growth.head,
            tailroom: growth.tail,
        }
    }
}

/// Batches that a stage works on at once on the CPU.
fn cpu_batches(deployment: &Deployment) -> usize {
    deployment.stages().iter().map(|stage| stage.launch_batches).max().unwrap_or(1)
}
