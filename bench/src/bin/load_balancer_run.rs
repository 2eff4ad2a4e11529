//! The cost of the phases of `load_balancer` in established connections, by their number:
//! nanoseconds a packet, next to a bare loop that does one look-up a packet in tables of the same
//! size. Also: how many flows of other backends move when one backend leaves and returns.
//!
//! Packets are made anew for every batch and lie in the cache, so only the cost of the look-up
//! grows with the connections. The goal allows the cost with the fewest connections, a quarter
//! more, and the extra cost of a bare look-up of one cache miss with as many connections. The cost
//! of a slot and a line, as in the function's own tables, is shown beside it.

use std::hint::black_box;
use std::path::PathBuf;

use warpline_bench::{median, seconds};
use warpline_nf::{Emit, Emits, Function, State};
use warpline_packet::hash::mix32;
use warpline_packet::{
    Arena, ArenaLayout, Arrival, BATCH_DEFAULT, Batch, FlowHasher, Headers, HeapMemory, Instant,
    LinkType, SHARDS, Shard, Steering,
};
use warpline_verify as harness;

const FLOWS: [u32; 3] = [1_000, 100_000, 1_000_000];
/// Room in the tables, whatever there is in them.
const CONNECTIONS: usize = 2_000_000;
const BACKENDS: usize = 16;
const ROUNDS: usize = 21;
/// Packets of a round.
const PACKETS: usize = 1 << 18;

fn main() {
    for (mode, keys) in [("dnat", ""), ("ipip", "")] {
        speed(mode, keys);
    }
    for backends in [10, 100] {
        disruption(backends);
    }
}

fn speed(mode: &str, keys: &str) {
    let files = Files::new();
    let mut first: Option<(f64, f64)> = None;
    for flows in FLOWS {
        let keys = format!("{keys}\nconnections = {CONNECTIONS}");
        let (function, words) = files.function(mode, &keys, &services(BACKENDS, mode, None));
        let mut lane = Lane::new(&*function, words);
        (0..flows).for_each(|flow| lane.open(flow));
        let mut bare = Bare::new(flows);
        let mut columns: [Vec<f64>; 5] = Default::default();
        for round in 0..ROUNDS + 1 {
            let spent = lane.round(&*function, flows, round as u32);
            let (one, two) = bare.round(flows, round as u32);
            if round > 0 {
                let all = [spent.group, spent.before, spent.run, one, two];
                columns.iter_mut().zip(all).for_each(|(column, seconds)| column.push(seconds));
            }
        }
        let nanos = |spent: Vec<f64>| median(spent) * 1e9 / PACKETS as f64;
        let [group, before, run, one, two] = columns.map(nanos);
        let (own, bare) = *first.get_or_insert((before + run, one));
        let allowed = own * 1.25 + one - bare;
        println!(
            "{mode}, {flows} connections: group {group:.1}, before {before:.1}, run {run:.1}, \
             together {:.1} ns a packet (allowed {allowed:.1}); bare: a line {one:.1}, \
             a slot and a line {two:.1}",
            before + run
        );
        lane.check(flows);
    }
}

/// The file of one service; `down` is the number of a backend that is lost.
fn services(backends: usize, mode: &str, down: Option<usize>) -> String {
    let mut text = String::from("vip 192.0.2.10 udp 53\n");
    for n in 0..backends {
        let state = if down == Some(n) { "down" } else { "" };
        let port = if mode == "dnat" { "port 5353" } else { "" };
        text += &format!("  backend 10.0.{}.{} {port} {state}\n", n >> 8, n & 255);
    }
    text
}

/// A folder for the file that the function's table names.
struct Files(PathBuf);

impl Files {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("warpline-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for a file");
        Self(path)
    }

    fn function(&self, mode: &str, keys: &str, services: &str) -> (Box<dyn Function>, usize) {
        std::fs::write(self.0.join("services"), services).expect("a file");
        let table = format!("services = \"services\"\nmode = {mode:?}\n{keys}\n");
        harness::build(&warpline_load_balancer::DEFINITION, &table, &self.0)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Seconds of a round.
#[derive(Default)]
struct Spent {
    group: f64,
    before: f64,
    run: f64,
}

/// A lane that makes its packets itself, one batch at a time.
struct Lane {
    states: Vec<State>,
    batch: Batch,
    made: Batch,
    arena: Arena,
    steering: Steering,
    order: Vec<u16>,
    ends: [u16; SHARDS],
    frame: Vec<u8>,
}

impl Lane {
    fn new(function: &dyn Function, scratch_words: usize) -> Self {
        let growth = function.growth();
        let layout = ArenaLayout {
            slabs: 2,
            emit_slabs: 1,
            tables: 2,
            slots: BATCH_DEFAULT,
            scratch_words,
            headroom: growth.head,
            tailroom: growth.tail,
        };
        let memory = HeapMemory::new(layout.memory_len()).expect("memory");
        let mut arena = Arena::new(Box::new(memory), &layout).expect("a layout that fits");
        let made = Batch::new(arena.tables.remove(0));
        let batch = Batch::new(arena.tables.remove(0));
        let states = (0..SHARDS).map(|shard| function.state(Shard::new(shard))).collect();
        let steering = Steering::serving(function.state_key());
        let (order, ends, frame) = (Vec::new(), [0; SHARDS], frame());
        Self { states, batch, made, arena, steering, order, ends, frame }
    }

    fn push(&mut self, flow: u32) {
        // 65,536 hosts at most, and for each as many ports as it takes.
        self.frame[28..30].copy_from_slice(&(flow as u16).to_be_bytes());
        self.frame[34..36].copy_from_slice(&(10_000 + (flow >> 16) as u16).to_be_bytes());
        let headers = Headers::parse(&self.frame, LinkType::ETHERNET, self.frame.len());
        let steered = self.steering.steer(&FlowHasher::SEED_0, &self.frame, &headers);
        let arrival = Arrival {
            timestamp: Instant::from_secs(1),
            captured: Instant::from_secs(1),
            ingress: 0,
            wire_len: self.frame.len() as u32,
            link: LinkType::ETHERNET,
            interface: 0,
            shard: steered.shard,
            flow_hash: steered.flow_hash,
        };
        let placed = self.batch.push(&self.frame, &headers, &arrival, &mut self.arena.ingress);
        placed.expect("room");
    }

    /// Opens a connection.
    fn open(&mut self, flow: u32) {
        self.batch.clear();
        self.push(flow);
        self.group();
        self.before();
    }

    fn group(&mut self) {
        self.batch.group_by_shard(&mut self.order, &mut self.ends);
    }

    fn before(&mut self) {
        let mut start = 0;
        for (shard, (state, &end)) in self.states.iter_mut().zip(&self.ends).enumerate() {
            let picks = &self.order[start..usize::from(end)];
            start = usize::from(end);
            let Some(before) = &mut state.before else { continue };
            if !picks.is_empty() {
                let (shard, placer) = (Shard::new(shard), &mut self.arena.emit);
                let emit = &mut Emit::new(
                    &mut self.made,
                    placer,
                    &FlowHasher::SEED_0,
                    Emits::NONE,
                    shard,
                    &mut [],
                );
                before.before(&mut self.batch, picks, emit);
            }
        }
    }

    /// Packets of connections drawn at random.
    fn round(&mut self, function: &dyn Function, flows: u32, round: u32) -> Spent {
        let mut spent = Spent::default();
        for batch in 0..PACKETS / BATCH_DEFAULT {
            self.batch.clear();
            for packet in 0..BATCH_DEFAULT {
                self.push(draw(round, batch * BATCH_DEFAULT + packet, flows));
            }
            spent.group += seconds(|| self.group());
            spent.before += seconds(|| self.before());
            spent.run += seconds(|| function.run(&mut self.batch));
        }
        assert_eq!(self.batch.forward_count(), BATCH_DEFAULT);
        spent
    }

    /// Every packet was of a connection that was open.
    fn check(&self, flows: u32) {
        let mut created = 0;
        for state in &self.states {
            if let Some(before) = &state.before {
                before.counters(&mut |name, value| {
                    created += if name == "created" { value } else { 0 };
                });
            }
        }
        assert_eq!(created, u64::from(flows));
    }
}

fn draw(round: u32, packet: usize, flows: u32) -> u32 {
    let hash = mix32(packet as u32 ^ round << 20);
    ((u64::from(hash) * u64::from(flows)) >> 32) as u32
}

/// One look-up: a slot of an index that is half full at most, and the cache line that it names.
struct Bare {
    index: Vec<[u32; 2]>,
    lines: Vec<[u64; 8]>,
    picks: Vec<u32>,
}

impl Bare {
    /// Of the size of the function's, and as full.
    fn new(flows: u32) -> Self {
        let len = (2 * CONNECTIONS).next_power_of_two();
        let mut index = vec![[0; 2]; len];
        for flow in 0..flows {
            index[mix32(flow) as usize & (len - 1)] = [mix32(flow), flow];
        }
        let mut lines = Vec::with_capacity(CONNECTIONS);
        lines.extend((0..u64::from(flows)).map(|flow| [flow; 8]));
        Self { index, lines, picks: Vec::new() }
    }

    /// Seconds of a line, and of a slot and a line, for each packet.
    fn round(&mut self, flows: u32, round: u32) -> (f64, f64) {
        let (mut one, mut two) = (0.0, 0.0);
        for batch in 0..PACKETS / BATCH_DEFAULT {
            self.picks.clear();
            let first = batch * BATCH_DEFAULT;
            let drawn = (first..first + BATCH_DEFAULT).map(|packet| draw(round, packet, flows));
            self.picks.extend(drawn);
            // Other lines than those that the second loop looks at.
            let turned = |pick: u32| (flows - 1 - pick) as usize;
            one += seconds(|| self.one_by_one(|own, pick| own.lines[turned(pick)][3]));
            two += seconds(|| {
                self.one_by_one(|own, pick| {
                    let [_, line] = own.index[mix32(pick) as usize & (own.index.len() - 1)];
                    own.lines[line as usize][3]
                });
            });
        }
        (one, two)
    }

    /// Each look-up waits for the one before, as packets are worked on one after the other.
    fn one_by_one(&self, look_up: impl Fn(&Self, u32) -> u64) {
        let wait = |last: u32, pick: &u32| (look_up(self, pick ^ last) >> 32) as u32;
        black_box(self.picks.iter().fold(0, wait));
    }
}

/// Flows of the backends that stay, and how many of them move when one goes and when it comes back:
/// by the tables alone, and with connections.
fn disruption(backends: usize) {
    const COUNT: u32 = 200_000;
    let files = Files::new();
    let keys = "connections = 1000000";
    let make = |down| files.function("dnat", keys, &services(backends, "dnat", down));
    let gone = backends / 3;
    let all = |function: &dyn Function, lane: &mut Lane| -> Vec<u32> {
        let to = |flow| {
            lane.open(flow);
            function.run(&mut lane.batch);
            lane.batch.packet(0).dst_v4()
        };
        (0..COUNT).map(to).collect()
    };
    let fresh = |down| {
        let (function, words) = make(down);
        all(&*function, &mut Lane::new(&*function, words))
    };
    let (up, down) = (fresh(None), fresh(Some(gone)));
    let lost = 0x0a00_0000 | gone as u32;
    let moved = |before: &[u32], after: &[u32]| {
        let others = before.iter().zip(after).filter(|&(&before, _)| before != lost);
        let (others, moved) =
            others.fold((0, 0), |(all, moved), (a, b)| (all + 1, moved + u32::from(a != b)));
        100.0 * f64::from(moved) / f64::from(others)
    };
    println!(
        "{backends} backends, one goes: {:.3} % of the others' flows move by the table alone",
        moved(&up, &down)
    );
    let (function, words) = make(None);
    let mut lane = Lane::new(&*function, words);
    let first = all(&*function, &mut lane);
    let mut reload = |down| {
        let (function, _) = make(down);
        for state in &mut lane.states {
            state.before.iter_mut().for_each(|before| before.reload(&*function));
        }
        all(&*function, &mut lane)
    };
    let (then, back) = (reload(Some(gone)), reload(None));
    println!(
        "{backends} backends, with connections: {:.3} % move when it goes, {:.3} % when it comes \
         back",
        moved(&first, &then),
        moved(&then, &back)
    );
}

/// UDP, 64 bytes on Ethernet, to the VIP.
fn frame() -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 198, 51, 0, 0, 192, 0, 2, 10]);
    frame.extend([0, 0, 0, 53, 0, 26, 0x12, 0x34]);
    frame.resize(60, 0);
    frame
}
