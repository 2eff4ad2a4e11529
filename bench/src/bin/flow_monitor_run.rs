//! What `flow_monitor` costs at 1 k, 100 k and 1 M flows: nanoseconds a packet, next to a bare loop with one
//! random look-up in a table of the same bytes. The same number of packets each time, of flows drawn at
//! random, so that what the packets themselves cost is the same.

use std::hint::black_box;
use std::path::Path;

use warpline_bench::{median, seconds};
use warpline_nf::{Emit, Emits, Function, State, flow_monitor, harness};
use warpline_packet::hash::mix32;
use warpline_packet::{
    Arena, ArenaLayout, Arrival, BATCH_DEFAULT, Batch, Headers, HeapMemory, Instant, LinkType,
    SHARDS, Shard, Steering,
};

const PACKETS: usize = 1 << 21;
const ROUNDS: usize = 7;
/// What a flow takes of the function's memory: one and a half records and upper parts of IPv6 addresses.
const FLOW_BYTES: usize = (64 + 24) * 3 / 2;
const LINE: usize = 64;
/// A table in as many pieces as the function's.
type Lines = [Vec<[u64; LINE / 8]>; SHARDS];
/// Room for a note.
const NOTE_LEN: usize = 256;

/// Nanoseconds a packet.
struct Cost {
    function: f64,
    bare: f64,
}

fn main() {
    let costs = [1_000, 100_000, 1_000_000].map(|flows| {
        let cost = measure(flows);
        println!(
            "{flows} flows: flow_monitor {:.1}, bare loop {:.1} ns a packet",
            cost.function, cost.bare
        );
        cost
    });
    let [few, _, many] = costs;
    let misses = many.bare - few.bare;
    println!(
        "from 1 k to 1 M: {:.1} ns more, {misses:.1} of them the misses of one look-up; beyond them {:+.0} %",
        many.function - few.function,
        100.0 * ((many.function - misses) / few.function - 1.0)
    );
}

fn measure(flows: usize) -> Cost {
    // Every shard has room for all of its flows.
    let table = format!("flows = {}\n", (flows * 5 / 4).max(8192));
    let (function, words) = harness::build(&flow_monitor::DEFINITION, &table, Path::new("."));
    let mut lane = Lane::new(&*function, words, flows);
    let shard_lines = vec![[0u64; LINE / 8]; flows * FLOW_BYTES / LINE / SHARDS];
    let mut lines: Lines = std::array::from_fn(|_| shard_lines.clone());
    lane.work(&*function);
    let full: u64 = lane.counter("ended_full");
    assert_eq!(full, 0, "the table has room");
    let (mut own, mut grouped, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        own.push(seconds(|| lane.work(&*function)));
        grouped.push(seconds(|| lane.group()));
        bare.push(seconds(|| lane.look_up(&mut lines)));
    }
    black_box(&lines);
    let nanos = |seconds: f64| seconds * 1e9 / PACKETS as f64;
    let grouped = median(grouped);
    Cost { function: nanos(median(own) - grouped), bare: nanos(median(bare) - grouped) }
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
        let count = PACKETS.div_ceil(BATCH_DEFAULT);
        let layout = ArenaLayout {
            slabs: 2 + PACKETS * 64 / (1 << 20) + 8,
            emit_slabs: 1,
            tables: count + 1,
            slots: BATCH_DEFAULT,
            scratch_words,
            headroom: 0,
            tailroom: 0,
        };
        let memory = HeapMemory::new(layout.memory_len()).expect("memory");
        let mut arena = Arena::new(Box::new(memory), &layout).expect("a layout that fits");
        let mut made = Batch::new(arena.tables.remove(0));
        made.take_notes(BATCH_DEFAULT, BATCH_DEFAULT * NOTE_LEN);
        let mut batches: Vec<Batch> = arena.tables.drain(..).map(Batch::new).collect();
        for packet in 0..PACKETS {
            let frame = frame(mix32(packet as u32) % flows as u32);
            let headers = Headers::parse(&frame, LinkType::ETHERNET, frame.len());
            let steered = Steering::AddressPair.steer(&frame, &headers);
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

    fn counter(&self, name: &str) -> u64 {
        let mut sum = 0;
        for half in self.states.iter().filter_map(|state| state.after.as_ref()) {
            half.counters(&mut |own, value| sum += if own == name { value } else { 0 });
        }
        sum
    }

    /// What goes before either, and is taken off: the frames come into the cache as ingress leaves them.
    fn group(&mut self) {
        for batch in &self.batches {
            touch(batch);
            batch.group_by_shard(&mut self.order, &mut self.ends);
            black_box(&self.order);
        }
    }

    fn work(&mut self, function: &dyn Function) {
        let emits = Emits::notes(1, NOTE_LEN);
        for batch in &mut self.batches {
            touch(batch);
            batch.group_by_shard(&mut self.order, &mut self.ends);
            function.run(batch);
            let mut start = 0;
            for (state, &end) in self.states.iter().zip(&self.ends) {
                let picks = &self.order[start..usize::from(end)];
                start = usize::from(end);
                state.after.iter().for_each(|half| half.fetch(batch, picks));
            }
            let mut start = 0;
            for (shard, (state, &end)) in self.states.iter_mut().zip(&self.ends).enumerate() {
                let picks = &self.order[start..usize::from(end)];
                start = usize::from(end);
                let Some(after) = &mut state.after else { continue };
                if !picks.is_empty() {
                    let (shard, placer) = (Shard::new(shard), &mut self.arena.emit);
                    let emit = &mut Emit::new(&mut self.made, placer, emits, shard, &mut []);
                    after.after(batch, picks, emit);
                }
            }
        }
    }

    /// One look-up for each packet, where its addresses and ports say, and a count there.
    fn look_up(&mut self, lines: &mut Lines) {
        for batch in &self.batches {
            touch(batch);
            batch.group_by_shard(&mut self.order, &mut self.ends);
            black_box(&self.order);
            for packet in batch.forward() {
                let bytes = u64::from(packet.src_v4()) << 32 | u64::from(packet.src_port());
                let product = u128::from(bytes ^ 0x9e37_79b9_7f4a_7c15) * 0xbf58_476d_1ce4_e5b9;
                let hash = (product >> 32) as u32 ^ product as u32;
                let lines = &mut lines[usize::from(packet.shard())];
                let at = ((u64::from(hash) * lines.len() as u64) >> 32) as usize;
                lines[at][0] += packet.len() as u64;
            }
        }
    }
}

fn touch(batch: &Batch) {
    let sum: u32 = batch.forward().map(|packet| u32::from(packet.frame()[14])).sum();
    black_box(sum);
}

/// UDP, 64 bytes on Ethernet, from one of 65536 hosts.
fn frame(flow: u32) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0]);
    frame.extend((flow as u16).to_be_bytes());
    frame.extend([198, 51, 100, flow as u8]);
    frame.extend((10_000 + (flow >> 16) as u16).to_be_bytes());
    frame.extend([0, 53, 0, 26, 0x12, 0x34]);
    frame.resize(60, 0);
    frame
}
