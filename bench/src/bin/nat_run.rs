//! What the phases of `nat` cost in established flows: nanoseconds a packet, next to a bare loop
//! that sums a byte of every packet.

use std::hint::black_box;
use std::path::Path;

use warpline_bench::{median, seconds};
use warpline_nf::{Emit, Emits, Function, State, harness, nat};
use warpline_packet::hash::mix32;
use warpline_packet::{
    Arena, ArenaLayout, Arrival, BATCH_DEFAULT, Batch, Headers, HeapMemory, Instant, LinkType,
    SHARDS, Shard, StateKey, Steering,
};

const TABLE: &str = "inside = \"10.0.0.0/8\"\noutside = \"203.0.113.0/29\"\nbindings = 262144\n";
const ROUNDS: usize = 15;

fn main() {
    for flows in [1_000, 100_000] {
        measure(flows);
    }
}

/// Two packets for each flow, of flows drawn at random, in batches; the same packets again and again. Only `before` looks at the
/// addresses to decide, so all of its rounds come before those of `run`, which rewrites them.
fn measure(flows: usize) {
    let (function, scratch_words) = harness::build(&nat::DEFINITION, TABLE, Path::new("."));
    let mut lane = Lane::new(&*function, scratch_words, flows);
    lane.before();
    let before = rounds(|| lane.before());
    let group = rounds(|| lane.group());
    let run = rounds(|| lane.batches.iter_mut().for_each(|batch| function.run(batch)));
    let bare = rounds(|| lane.batches.iter().for_each(touch));
    let sent: usize = lane.batches.iter().map(|batch| batch.forward().count()).sum();
    let nanos = |seconds: f64| seconds * 1e9 / (2 * flows) as f64;
    println!(
        "{flows} flows: group {:.1}, before {:.1}, run {:.1}, bare loop {:.1} ns a packet; {sent} sent",
        nanos(group),
        nanos(before - group),
        nanos(run),
        nanos(bare),
    );
}

fn rounds(mut work: impl FnMut()) -> f64 {
    work();
    median((0..ROUNDS).map(|_| seconds(&mut work)).collect())
}

fn touch(batch: &Batch) {
    let sum: u32 = batch.forward().map(|packet| u32::from(packet.frame()[14])).sum();
    black_box(sum);
}

struct Lane {
    states: Vec<State>,
    batches: Vec<Batch>,
    made: Batch,
    arena: Arena,
    order: Vec<u16>,
    ends: [u16; SHARDS],
}

impl Lane {
    fn new(function: &dyn Function, scratch_words: usize, flows: usize) -> Self {
        let count = (2 * flows).div_ceil(BATCH_DEFAULT);
        let layout = ArenaLayout {
            slabs: 2 + count,
            emit_slabs: 1,
            tables: count + 1,
            slots: BATCH_DEFAULT,
            scratch_words,
            headroom: 0,
            tailroom: 0,
        };
        let memory = HeapMemory::new(layout.memory_len()).expect("memory");
        let mut arena = Arena::new(Box::new(memory), &layout).expect("a layout that fits");
        let made = Batch::new(arena.tables.remove(0));
        let mut batches: Vec<Batch> = arena.tables.drain(..).map(Batch::new).collect();
        let StateKey::Inside(key) = function.state_key() else { panic!("nat steers by inside") };
        let steering = Steering::Inside(key);
        for packet in 0..2 * flows {
            let frame = frame(mix32(packet as u32) % flows as u32);
            let headers = Headers::parse(&frame, LinkType::ETHERNET, frame.len());
            let steered = steering.steer(&frame, &headers);
            let arrival = Arrival {
                timestamp: Instant::from_secs(1),
                captured: Instant::from_secs(1),
                ingress: packet as u64,
                wire_len: frame.len() as u32,
                link: LinkType::ETHERNET,
                interface: 0,
                shard: steered.shard,
                flow_hash: steered.flow_hash,
            };
            let batch = &mut batches[packet / BATCH_DEFAULT];
            batch.push(&frame, &headers, &arrival, &mut arena.ingress).expect("room");
        }
        let states = (0..SHARDS).map(|shard| function.state(Shard::new(shard))).collect();
        Self { states, batches, made, arena, order: Vec::new(), ends: [0; SHARDS] }
    }

    fn group(&mut self) {
        for batch in &self.batches {
            batch.group_by_shard(&mut self.order, &mut self.ends);
            black_box(&self.order);
        }
    }

    fn before(&mut self) {
        for batch in &mut self.batches {
            batch.group_by_shard(&mut self.order, &mut self.ends);
            let mut start = 0;
            for (shard, (state, &end)) in self.states.iter_mut().zip(&self.ends).enumerate() {
                let picks = &self.order[start..usize::from(end)];
                start = usize::from(end);
                let Some(before) = &mut state.before else { continue };
                if !picks.is_empty() {
                    let (shard, placer) = (Shard::new(shard), &mut self.arena.emit);
                    let emit = &mut Emit::new(&mut self.made, placer, Emits::NONE, shard, &mut []);
                    before.before(batch, picks, emit);
                }
            }
        }
    }
}

/// UDP, 64 bytes on Ethernet, from one of 4096 hosts for each 25 flows or so.
fn frame(flow: u32) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0]);
    frame.extend((flow as u16 & 0xfff).to_be_bytes());
    frame.extend([198, 51, 100, flow as u8]);
    frame.extend((10_000 + (flow >> 12) as u16).to_be_bytes());
    frame.extend([0, 53, 0, 26, 0x12, 0x34]);
    frame.resize(60, 0);
    frame
}
