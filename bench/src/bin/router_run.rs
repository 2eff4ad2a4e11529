//! The router's `run` against a loop written by hand over the same batch: the same look-up, TTL,
//! checksum and Ethernet addresses, and nothing else.
//!
//! Frames of 60 bytes in batches of 256, with destinations over many routes: one batch, which stays
//! in the innermost cache, and 64 in turn, which don't. Packets are sent through again and again;
//! their TTL is put back outside of the timing.

use std::path::Path;
use std::sync::Arc;

use warpline_bench::chains::Pass;
use warpline_bench::{median, seconds};
use warpline_nf::Function;
use warpline_packet::Batch;
use warpline_router::{DEFINITION, Fib4};
use warpline_verify::{Harness, Input, build};

const BATCH: usize = 256;
const ROUTES: usize = 50_000;
const HOPS: usize = 200;
/// Times a batch goes through within a timed round; TTLs begin at 255.
const PASSES: usize = 200;
const ROUNDS: usize = 301;

const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

fn main() {
    let folder = std::env::temp_dir().join(format!("warpline-router-run-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the tables");
    let (prefixes, rules) = tables(&folder);
    for (rewrite, batches) in [(false, 1), (true, 1), (false, 64), (true, 64)] {
        measure(&folder, &prefixes, &Fib4::new(&rules), rewrite, batches);
    }
    let _ = std::fs::remove_dir_all(&folder);
}

/// Writes the files of routes and neighbours; gives the prefixes and their rules.
fn tables(folder: &Path) -> (Vec<u32>, Vec<(u32, u8, u16)>) {
    let mut random = 1u64;
    let mut prefixes: Vec<u32> = (0..ROUTES)
        .map(|_| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            0x0100_0000 + (((random >> 33) as u32 % 0xdf_0000) << 8)
        })
        .collect();
    // A router drops packets to loopbacks, whatever its routes.
    prefixes.retain(|prefix| prefix >> 24 != 127);
    prefixes.sort_unstable();
    prefixes.dedup();
    let line = |(i, prefix): (usize, &u32)| {
        format!("{}/24 192.0.2.{}\n", std::net::Ipv4Addr::from_bits(*prefix), 1 + i % HOPS)
    };
    let routes: String = prefixes.iter().enumerate().map(line).collect();
    let mac = |hop| format!("192.0.2.{} 02:00:00:00:01:{:02x}\n", 1 + hop, 1 + hop);
    let neighbours: String = (0..HOPS).map(mac).collect();
    std::fs::write(folder.join("routes"), routes).expect("room for the routes");
    std::fs::write(folder.join("neighbours"), neighbours).expect("room for the neighbours");
    let rules = prefixes.iter().enumerate().map(|(i, &p)| (p, 24, 1 + (i % HOPS) as u16)).collect();
    (prefixes, rules)
}

fn measure(folder: &Path, prefixes: &[u32], fib: &Fib4, rewrite: bool, batches: usize) {
    let table = if rewrite {
        "routes = \"routes\"\nneighbours = \"neighbours\"\nmac = \"02:00:00:00:00:01\"\n"
    } else {
        "routes = \"routes\"\n"
    };
    let (function, _) = build(&DEFINITION, table, folder);
    let macs: Vec<[u8; 6]> = (0..=HOPS).map(|hop| [2, 0, 0, 0, 1, hop as u8]).collect();
    let inputs: Vec<Vec<Input>> = (0..batches)
        .map(|b| {
            (0..BATCH).map(|i| input(prefixes[(b * BATCH + i) * 7919 % prefixes.len()])).collect()
        })
        .collect();
    let mut harnesses: Vec<Harness> =
        inputs.iter().map(|_| Harness::new(Arc::new(Pass) as Arc<dyn Function>, 0)).collect();
    for (harness, inputs) in harnesses.iter_mut().zip(&inputs) {
        harness.fill(inputs);
    }
    let passes = (PASSES / batches).max(1);
    let mut round = |by_hand: bool| {
        for (harness, inputs) in harnesses.iter_mut().zip(&inputs) {
            let batch = harness.batch_mut();
            (0..BATCH).for_each(|row| {
                batch.packet_mut(row).frame_mut().copy_from_slice(&inputs[row].bytes)
            });
        }
        let time = seconds(|| {
            for _ in 0..passes {
                for harness in &mut harnesses {
                    let batch = harness.batch_mut();
                    if by_hand {
                        route_by_hand(batch, fib, &macs, rewrite)
                    } else {
                        function.run(batch)
                    }
                }
            }
        });
        let mut bytes = Vec::new();
        let mut routed = true;
        for harness in &mut harnesses {
            let batch = harness.batch_mut();
            bytes.extend((0..BATCH).flat_map(|row| batch.packet(row).frame().to_vec()));
            routed &= (0..BATCH).all(|row| batch.packet(row).next_hop() != 0);
        }
        (time, bytes, routed)
    };
    let ((_, bytes, routed), (_, by_hand, _)) = (round(false), round(true));
    assert!(routed && bytes == by_hand, "both do the same");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(round(false).0);
        theirs.push(round(true).0);
    }
    let ratio = median(ours.iter().zip(&theirs).map(|(ours, theirs)| theirs / ours).collect());
    let nanos = |times| median(times) * 1e9 / (BATCH * batches * passes) as f64;
    println!(
        "{batches:2} batches  rewrite {rewrite:5}  run {:5.2} ns/packet  by hand {:5.2} ns/packet  \
         ratio {ratio:.2}",
        nanos(ours),
        nanos(theirs)
    );
}

fn input(prefix: u32) -> Input {
    let mut bytes = vec![0; 60];
    bytes[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0]);
    bytes[14..26].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 255, 17, 0, 0]);
    bytes[26..30].copy_from_slice(&[198, 51, 100, 7]);
    bytes[30..34].copy_from_slice(&(prefix | 9).to_be_bytes());
    bytes[38..40].copy_from_slice(&[0, 26]);
    let sum: u32 = bytes[14..34].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    bytes[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    Input::at(0, &bytes)
}

/// Straightforward code for frames that are all IPv4 in untagged Ethernet.
#[inline(never)]
fn route_by_hand(batch: &mut Batch, fib: &Fib4, macs: &[[u8; 6]], rewrite: bool) {
    let (mut addresses, mut hops) = ([0u32; BATCH], [0u16; BATCH]);
    let len = batch.len().min(BATCH);
    for (row, address) in addresses[..len].iter_mut().enumerate() {
        let frame = batch.packet_mut(row);
        let Some(bytes) = frame.frame().get(30..34) else { continue };
        *address = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    fib.lookup_bulk(&addresses[..len], &mut hops[..len]);
    for (row, &hop) in hops[..len].iter().enumerate() {
        let mut packet = batch.packet_mut(row);
        let Some(frame) = packet.frame_mut().first_chunk_mut::<34>() else { continue };
        if hop == 0 || frame[22] <= 1 {
            continue;
        }
        frame[22] -= 1;
        let sum = u16::from_be_bytes([frame[24], frame[25]]);
        let sum = sum.wrapping_add(0x100).wrapping_add(u16::from(sum >= 0xfeff));
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        if rewrite {
            frame[..6].copy_from_slice(&macs[usize::from(hop)]);
            frame[6..12].copy_from_slice(&OUR_MAC);
        }
        packet.set_next_hop(hop);
    }
}
