//! What tracking costs: `Before` of the firewall over UDP packets of known and of new connections.
//!
//! `firewall_track`: connections of one shard that holds them all, met at random, in both directions.
//! Only `before` is timed, with what asks for its memory ahead.

use std::error::Error;

use warpline_bench::seconds;
use warpline_firewall::DEFINITION;
use warpline_nf::{Emit, Emits};
use warpline_packet::{
    Arena, ArenaLayout, Arrival, Batch, FlowHasher, Headers, HeapMemory, Instant, LinkType, Shard,
    Steering,
};
use warpline_verify as harness;

const BATCH: usize = 256;
const ROUNDS: usize = 4000;

fn main() -> Result<(), Box<dyn Error>> {
    println!("connections  new-ns  known-ns  counted");
    for connections in [1000, 16_000, 250_000] {
        measure(connections)?;
    }
    Ok(())
}

fn measure(connections: u32) -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("warpline-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("rules"), "accept udp from 10.0.0.0/8 to any\n")?;
    let table = "rules = \"rules\"\nestablished = true";
    let (function, scratch_words) = harness::build(&DEFINITION, table, &folder);
    std::fs::remove_dir_all(&folder)?;
    let mut before = function.state(Shard::WHOLE).before.ok_or("a firewall that tracks")?;
    let layout = ArenaLayout {
        slabs: 4,
        emit_slabs: 1,
        tables: 2,
        slots: BATCH,
        scratch_words,
        headroom: 0,
        tailroom: 0,
    };
    let memory = HeapMemory::new(layout.memory_len()).ok_or("no memory for the arena")?;
    let mut arena = Arena::new(Box::new(memory), &layout)?;
    let mut tables = arena.tables.into_iter().map(Batch::new);
    let (Some(mut batch), Some(mut made)) = (tables.next(), tables.next()) else {
        return Err("two tables were asked for".into());
    };
    let picks: Vec<u16> = (0..BATCH as u16).collect();
    let mut time = |flows: &mut dyn FnMut() -> (u32, bool)| {
        batch.clear();
        for _ in 0..BATCH {
            let (flow, back) = flows();
            let frame = frame(flow, back);
            let headers = Headers::parse(&frame, LinkType::ETHERNET, frame.len());
            let placed =
                batch.push(&frame, &headers, &arrival(&frame, &headers), &mut arena.ingress);
            placed.expect("an arena that holds a batch");
        }
        let mut emit = Emit::new(
            &mut made,
            &mut arena.emit,
            &FlowHasher::SEED_0,
            Emits::NONE,
            Shard::WHOLE,
            &mut [],
        );
        seconds(|| {
            before.fetch(&batch, &picks);
            before.fetch_next(&batch, &picks);
            before.before(&mut batch, &picks, &mut emit);
        })
    };
    let (mut next, mut opening) = (0, 0.0);
    let batches = connections as usize / BATCH;
    for _ in 0..batches {
        opening += time(&mut || {
            next += 1;
            (next - 1, false)
        });
    }
    let (mut x, mut known) = (1u32, 0.0);
    for _ in 0..ROUNDS {
        known += time(&mut || {
            x ^= x << 13;
            x ^= x >> 17;
            x ^= x << 5;
            (x % next, x >> 31 == 1)
        });
    }
    let mut counted = 0;
    before.counters(&mut |name, value| counted += if name == "connections" { value } else { 0 });
    let per_packet = |sum: f64, batches: usize| sum * 1e9 / (batches * BATCH) as f64;
    println!(
        "{connections:11}  {:6.1}  {:8.1}  {counted}",
        per_packet(opening, batches),
        per_packet(known, ROUNDS),
    );
    assert_eq!(counted, u64::from(next), "every connection was made, once");
    Ok(())
}

fn arrival(frame: &[u8], headers: &Headers) -> Arrival {
    let steered = Steering::AddressPair.steer(&FlowHasher::SEED_0, frame, headers);
    Arrival {
        timestamp: Instant::ZERO,
        captured: Instant::ZERO,
        ingress: 0,
        wire_len: frame.len() as u32,
        link: LinkType::ETHERNET,
        interface: 0,
        shard: steered.shard,
        flow_hash: steered.flow_hash,
    }
}

/// A UDP packet of 64 bytes with its check sequence, of connection `flow`, or back.
fn frame(flow: u32, back: bool) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[12..18].copy_from_slice(&[8, 0, 0x45, 0, 0, 46]);
    frame[22..24].copy_from_slice(&[64, 17]);
    let inside = (0x0a00_0000 | flow & 0xffff, 1024 + (flow >> 16) as u16);
    let outside = (0xc000_0201u32, 53u16);
    let (src, dst) = if back { (outside, inside) } else { (inside, outside) };
    frame[26..30].copy_from_slice(&src.0.to_be_bytes());
    frame[30..34].copy_from_slice(&dst.0.to_be_bytes());
    frame[34..36].copy_from_slice(&src.1.to_be_bytes());
    frame[36..38].copy_from_slice(&dst.1.to_be_bytes());
    frame[38..40].copy_from_slice(&26u16.to_be_bytes());
    frame
}
