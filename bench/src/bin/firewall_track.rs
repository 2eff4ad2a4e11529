//! The cost of tracking: `Before` of the firewall over UDP and TCP packets of known and of new
//! connections.
//!
//! `firewall_track`: one shard holds all connections. Packets pick connections at random, in both
//! directions. Only `before` is timed, together with its prefetches.

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
    println!("connections  protocol  new-ns  known-ns  counted");
    for connections in [1000, 16_000, 250_000] {
        measure(connections, Protocol::Udp)?;
        measure(connections, Protocol::Tcp)?;
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Udp,
    Tcp,
}

/// The segments of a connection, as flags: both sides of its handshake, then data.
const SYN: u8 = 0x02;
const SYN_ACK: u8 = 0x12;
const ACK: u8 = 0x10;

fn measure(connections: u32, protocol: Protocol) -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("warpline-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("rules"), "accept tcp,udp from 10.0.0.0/8 to any\n")?;
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
    let mut time = |flags: u8, flows: &mut dyn FnMut() -> (u32, bool)| {
        batch.clear();
        for _ in 0..BATCH {
            let (flow, back) = flows();
            let frame = match protocol {
                Protocol::Udp => udp_frame(flow, back),
                Protocol::Tcp => tcp_frame(flow, back, flags),
            };
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
    let mut opening = 0.0;
    let batches = connections as usize / BATCH;
    let next = (batches * BATCH) as u32;
    for (flags, back) in [(SYN, false), (SYN_ACK, true), (ACK, false)] {
        let mut flow = 0;
        for _ in 0..batches {
            let taken = time(flags, &mut || {
                flow += 1;
                (flow - 1, back)
            });
            opening += if flags == SYN { taken } else { 0.0 };
        }
    }
    let (mut x, mut known) = (1u32, 0.0);
    for _ in 0..ROUNDS {
        known += time(ACK, &mut || {
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
        "{connections:11}  {:8}  {:6.1}  {:8.1}  {counted}",
        if protocol == Protocol::Udp { "UDP" } else { "TCP" },
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
fn udp_frame(flow: u32, back: bool) -> [u8; 60] {
    let mut frame = frame(flow, back, 17);
    frame[38..40].copy_from_slice(&26u16.to_be_bytes());
    frame
}

/// A segment of TCP as long: six bytes of data where it is not of the handshake.
fn tcp_frame(flow: u32, back: bool, flags: u8) -> [u8; 60] {
    let mut frame = frame(flow, back, 6);
    let is_syn = flags & SYN != 0;
    let numbers = [u32::from(!is_syn), u32::from(flags & ACK != 0)].map(u32::to_be_bytes);
    frame[38..46].copy_from_slice(numbers.as_flattened());
    frame[46..50].copy_from_slice(&[0x50, flags, 0x40, 0]);
    if is_syn || !back {
        // The opener sends no data, so that nothing is acknowledged that was not sent.
        frame[17] = 40;
    }
    frame
}

fn frame(flow: u32, back: bool, protocol: u8) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[12..18].copy_from_slice(&[8, 0, 0x45, 0, 0, 46]);
    frame[22..24].copy_from_slice(&[64, protocol]);
    let inside = (0x0a00_0000 | flow & 0xffff, 1024 + (flow >> 16) as u16);
    let outside = (0xc000_0201u32, 53u16);
    let (src, dst) = if back { (outside, inside) } else { (inside, outside) };
    frame[26..30].copy_from_slice(&src.0.to_be_bytes());
    frame[30..34].copy_from_slice(&dst.0.to_be_bytes());
    frame[34..36].copy_from_slice(&src.1.to_be_bytes());
    frame[36..38].copy_from_slice(&dst.1.to_be_bytes());
    frame
}
