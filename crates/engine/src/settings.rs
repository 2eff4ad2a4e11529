//! How the engine is dimensioned. Everything is taken when a chain starts; nothing grows later.

use warpline_nf::{Growth, TICK_MADE_MAX, TICK_NOTES_MAX};
use warpline_packet::{
    ALIGN, ArenaLayout, BATCH_DEFAULT, BATCH_MAX, FieldSet, SHARDS, SLAB_LEN, frame_start,
};

use warpline_sched::LaunchLimits;

use crate::device::Dimensions;
use crate::{Chain, Cores, LaunchOptions, StagePlan, Streams};

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
    /// Whether each lane reads and sends itself, so that hardly more than one batch is under way: few are
    /// used, and stay in the cache. Set by the engine.
    pub alone: bool,
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
        }
    }
}

/// Batches that may wait between threads where they hold few packets.
const SPARSE_BATCHES: usize = 64;
/// Most lanes: one a shard.
pub const LANES_MAX: usize = SHARDS;

/// Bytes of a long frame of Ethernet.
const FRAME_LEN: usize = 1518;
/// Bytes of the shortest packets.
const PACKET_LEN: usize = 64;
/// Most batches of a launch.
const LAUNCH_BATCHES_MAX: usize = 256;
/// Most batches that a stage on a device has at once.
const HELD_MAX: usize = 1024;
/// The same in a chain that makes packets.
const HELD_MAX_MAKING: usize = 32;
/// Most slabs that launches ask for.
const DEVICE_SLABS_MAX: usize = 1024;

impl Settings {
    /// The same for `chain`: no more lanes than it can use, the cores of those, queues that take its launches whole.
    #[must_use]
    pub fn fit(&self, chain: &Chain) -> Self {
        let lanes = chain.lanes(self.lanes.clamp(1, LANES_MAX));
        Self {
            lanes,
            cores: self.cores.first(lanes),
            batch_packets: self.batch_packets.clamp(1, BATCH_MAX),
            queue_batches: self.queue_batches.max(2 * self.made_batches(chain)),
            slabs: self.slabs.max(2).max(self.device_slabs(chain)),
            alone: self.alone,
        }
    }

    /// Batches of a lane: what its queues and stages hold, and those being filled and sent.
    pub fn batches(&self, chain: &Chain) -> usize {
        let in_stages: usize = chain.stages.iter().map(|s| self.stage_batches(chain, s)).sum();
        let between_stages = chain.stages.len().saturating_sub(1);
        let in_queues = self.queue_batches * between_stages + 2 * self.ends_batches();
        // Batches always get to the end of a lane, however few there are.
        if self.alone { in_stages + 2 } else { in_queues + in_stages + 4 }
    }

    /// Batches that wait before a lane at most, and behind it, where they are not full.
    pub(crate) fn ends_batches(&self) -> usize {
        if self.alone { self.queue_batches } else { self.queue_batches.max(SPARSE_BATCHES) }
    }

    /// Batches that hold what functions make while stages work: those on the CPU work one after the other, those on devices
    /// all at once.
    pub fn made_batches(&self, chain: &Chain) -> usize {
        let on_devices = chain.stages.iter().filter_map(|stage| self.launch_limits(chain, stage));
        cpu_batches(chain) + on_devices.map(|limits| limits.waiting_batches_max).sum::<usize>()
    }

    /// Batches that a stage has at once.
    pub(crate) fn stage_batches(&self, chain: &Chain, stage: &StagePlan) -> usize {
        let limits = self.launch_limits(chain, stage);
        limits.map_or(stage.launch_batches, |limits| limits.waiting_batches_max)
    }

    /// How launches of a stage on a device are made.
    pub(crate) fn launch_limits(&self, chain: &Chain, stage: &StagePlan) -> Option<LaunchLimits> {
        let LaunchOptions { bytes, delay, streams, sync, timeout, graphs: _ } =
            chain.instances.get(stage.first)?.on_device.as_ref()?.launches;
        let streams = if sync { Streams::Count(1) } else { streams };
        let launches_max = streams.most().max(1);
        // As many as fill a launch with the shortest packets.
        let batches_max =
            (bytes / (self.batch_packets.max(1) * PACKET_LEN)).clamp(1, LAUNCH_BATCHES_MAX);
        // What functions make needs room for every batch that is there.
        let held_max = if chain.multiply() > 1 { HELD_MAX_MAKING } else { HELD_MAX };
        Some(LaunchLimits {
            bytes_max: bytes,
            packets_max: batches_max * self.slots(chain),
            batches_max,
            delay_max_ns: delay.as_nanos() as u64,
            launches_max,
            measures: streams == Streams::Measured,
            waiting_bytes_max: bytes.saturating_mul(launches_max + 2),
            waiting_batches_max: (batches_max * (launches_max + 2)).min(held_max),
            timeout_ns: timeout.as_nanos() as u64,
        })
    }

    /// How launches are made of the stages whose devices share the host's memory.
    fn in_place<'a>(
        &'a self,
        chain: &'a Chain,
    ) -> impl Iterator<Item = (&'a StagePlan, LaunchLimits)> {
        let shares = |stage: &&StagePlan| {
            let on = chain.instances.get(stage.first).and_then(|one| one.on_device.as_ref());
            on.is_some_and(|on| on.device.description().shares_host_memory)
        };
        let stages = chain.stages.iter().filter(shares);
        stages.filter_map(|stage| Some((stage, self.launch_limits(chain, stage)?)))
    }

    /// Bytes of a lane's memory behind its arena: what launches need of their own on devices that work in place.
    pub(crate) fn spare_len(&self, chain: &Chain) -> usize {
        let layout = self.arena(chain);
        let each = self.in_place(chain).map(|(_, limits)| Dimensions::new(&limits, &layout));
        each.map(|dimensions| dimensions.spare_len()).sum()
    }

    /// Slabs for the packets of launches that are given up, from rooms that a device may still read in place.
    fn refuge_slabs(&self, chain: &Chain) -> usize {
        let reads_frames = |stage: &StagePlan| {
            let own = &chain.instances[stage.first..stage.first + stage.count];
            let writes = |one: &crate::Instance| one.function.access().run.writes;
            own.iter().all(|one| (writes(one) & FieldSet::FRAME).is_empty())
        };
        let bytes =
            self.in_place(chain).filter(|(stage, _)| reads_frames(stage)).map(|(_, limits)| {
                let batch_len = self.batch_packets * FRAME_LEN;
                let bytes = limits.launches_max * limits.bytes_max.max(batch_len);
                self.rooms_len(chain, bytes, limits.launches_max * limits.packets_max)
            });
        let bytes = bytes.fold(0, usize::saturating_add);
        if bytes == 0 { 0 } else { (bytes / SLAB_LEN + 2).min(DEVICE_SLABS_MAX) }
    }

    /// Bytes of rooms for so many packets with so many bytes of frames.
    fn rooms_len(&self, chain: &Chain, bytes: usize, packets: usize) -> usize {
        let Growth { head, tail } = chain.growth();
        let around = frame_start(head) + tail + ALIGN;
        bytes.saturating_add(packets.saturating_mul(around))
    }

    /// Slabs for what stages on devices have under way: rooms are longer than frames.
    fn device_slabs(&self, chain: &Chain) -> usize {
        let limits = chain.stages.iter().filter_map(|stage| self.launch_limits(chain, stage));
        let rooms = limits.map(|limits| {
            let packets = limits.waiting_batches_max * self.batch_packets.max(1);
            self.rooms_len(chain, limits.waiting_bytes_max, packets)
        });
        let bytes = rooms.fold(0, usize::saturating_add);
        if bytes == 0 { 0 } else { (bytes / SLAB_LEN + 16).min(DEVICE_SLABS_MAX) }
    }

    /// Slabs that one launch may fill at worst with packets that functions make and frames that they give others.
    pub fn launch_slabs(&self, chain: &Chain) -> usize {
        // Frames are replaced before their packets go to a device.
        self.placed_slabs(chain, cpu_batches(chain))
    }

    /// Slabs for what functions place: as many as keep launches going, and as many as devices may hold.
    fn emit_slabs(&self, chain: &Chain) -> usize {
        let launch = self.launch_slabs(chain);
        let held = self.placed_slabs(chain, self.made_batches(chain));
        2 * launch + held.min(DEVICE_SLABS_MAX).max(launch)
    }

    /// Slabs for all packets that functions make at worst, and for the frames that they give others in as many batches as
    /// `replaced`.
    fn placed_slabs(&self, chain: &Chain, replaced: usize) -> usize {
        let Growth { head, tail } = chain.growth();
        let around = frame_start(head) + tail;
        let room = |len: usize| (around + len).next_multiple_of(ALIGN);
        let slots = self.slots(chain);
        let made = (chain.multiply() > 1)
            .then(|| (room(chain.made_len_max()), slots * self.made_batches(chain)));
        let replaced = chain.replace_lens().map(|len| (room(len), slots * replaced));
        let (longest, bytes) = made
            .into_iter()
            .chain(replaced)
            .fold((0, 0), |(longest, bytes), (room, n)| (room.max(longest), bytes + room * n));
        if bytes == 0 {
            return 0;
        }
        // A slab's end may stay empty for want of one room.
        let filled = (SLAB_LEN + ALIGN).saturating_sub(longest).max(ALIGN);
        bytes.div_ceil(filled) + 1
    }

    /// Packets that a batch may become on its way.
    pub fn slots(&self, chain: &Chain) -> usize {
        let multiply = chain.multiply();
        if multiply == 1 {
            return self.batch_packets;
        }
        // A tick's batch holds what it causes in every shard.
        self.batch_packets.max(SHARDS * TICK_MADE_MAX) * multiply
    }

    /// Notes that a batch's functions may make on its way, and their bytes.
    pub fn notes(&self, chain: &Chain) -> (usize, usize) {
        let slots = self.slots(chain);
        let each =
            chain.instances.iter().map(|i| i.function.emits()).filter(|e| e.note_len_max > 0);
        each.fold((0, 0), |(notes, bytes), emits| {
            // A tick's batch holds what it causes in every shard.
            let own = (slots * emits.notes_per_packet).max(SHARDS * TICK_NOTES_MAX);
            (notes + own, bytes + own * emits.note_len_max)
        })
    }

    /// Numbers that a function of the chain may find in a batch.
    pub fn findings(&self, chain: &Chain) -> usize {
        let each = chain.instances.iter().map(|i| i.function.emits().findings_per_packet);
        self.slots(chain) * each.max().unwrap_or(0)
    }

    /// The layout of a lane's arena.
    pub fn arena(&self, chain: &Chain) -> ArenaLayout {
        let growth = chain.growth();
        ArenaLayout {
            slabs: self.slabs,
            emit_slabs: self.emit_slabs(chain) + self.refuge_slabs(chain),
            tables: self.batches(chain) + self.made_batches(chain),
            slots: self.slots(chain),
            scratch_words: chain.scratch_words,
            headroom: growth.head,
            tailroom: growth.tail,
        }
    }
}

/// Batches that a stage works on at once on the CPU.
fn cpu_batches(chain: &Chain) -> usize {
    chain.stages.iter().map(|stage| stage.launch_batches).max().unwrap_or(1)
}
