//! Measures how long the host takes to gather single fields of packets and to put them back. Plans
//! that send fields have these costs.

use std::hint::black_box;
use std::time;

use warpline_packet::{
    Arena, ArenaLayout, Arrival, BATCH_DEFAULT, Batch, Binding, Field, FieldSet, Headers,
    HeapMemory, Instant, LaunchRows, LinkType,
};
use warpline_sched::{FieldSpeeds, GatherSpeeds};

/// A field of two bytes, fields of a byte or two, and wider ones.
const ONE: [Field; 1] = [Field::SrcPort];
const NARROW: [Field; 4] = [Field::Ttl, Field::SrcPort, Field::DstPort, Field::IpChecksum];
const WIDE: [Field; 4] = [Field::EthDst, Field::EthSrc, Field::SrcAddr, Field::DstAddr];

/// Times that a batch is gathered for one measurement, and the number of measurements. The median
/// counts, after one warm-up.
const REPEATS: usize = 200;
const ROUNDS: usize = 9;

/// Gathers fields of a batch of UDP packets that are in the caches, as after ingress, and puts them
/// back. `None` without memory.
pub fn gather_speeds() -> Option<GatherSpeeds> {
    let layout = ArenaLayout { slabs: 2, tables: 1, slots: BATCH_DEFAULT, ..ArenaLayout::NONE };
    let mut arena = Arena::new(Box::new(HeapMemory::new(layout.memory_len())?), &layout).ok()?;
    let mut batch = Batch::new(arena.tables.remove(0));
    let frame = udp_frame();
    let headers = Headers::parse(&frame, LinkType::ETHERNET, frame.len());
    for ingress in 0..BATCH_DEFAULT as u64 {
        let arrival = Arrival {
            timestamp: Instant::from_nanos(0),
            captured: Instant::from_nanos(0),
            ingress,
            wire_len: frame.len() as u32,
            link: LinkType::ETHERNET,
            interface: 0,
            shard: 0,
            flow_hash: 0,
        };
        batch.push(&frame, &headers, &arrival, &mut arena.ingress).ok()?;
    }
    let one = measured(&mut batch, FieldSet::of(&ONE))?;
    let narrow = measured(&mut batch, FieldSet::of(&NARROW))?;
    let wide = measured(&mut batch, FieldSet::of(&WIDE))?;
    // A time too short to be seen is none.
    let both = |own: &Measured| own.seconds.iter().sum::<f64>() / 2.0;
    let byte = ((both(&wide) - both(&narrow)) / (wide.len - narrow.len)).max(0.0);
    let way = |at: usize| {
        let [one_s, narrow_s] = [&one, &narrow].map(|own| own.seconds[at] - own.len * byte);
        let field = ((narrow_s - one_s) / (NARROW.len() - ONE.len()) as f64).max(0.0);
        FieldSpeeds { packet: (one_s - field).max(0.0), field }
    };
    Some(GatherSpeeds { gather: way(0), put: way(1), byte })
}

/// Seconds for a packet's fields to gather them and to put them back, and their bytes.
struct Measured {
    seconds: [f64; 2],
    len: f64,
}

fn measured(batch: &mut Batch, fields: FieldSet) -> Option<Measured> {
    let binding = Binding::staged(fields, 0)?;
    let own = binding.columns().iter().filter(|column| column.is_of(4));
    let len = own.map(|column| column.width).sum::<usize>() as f64;
    let mut rows = LaunchRows::with_capacity(1, batch.len());
    rows.add(batch);
    let mut to = vec![0; (ArenaLayout::NONE.row_len() + binding.row_len()) * rows.rows()];
    let mut round = || {
        let start = time::Instant::now();
        for _ in 0..REPEATS {
            batch.gather(&binding, fields, rows.of(0), black_box(&mut to));
        }
        let between = time::Instant::now();
        for _ in 0..REPEATS {
            batch.scatter(&binding, fields, rows.of(0), black_box(&to));
        }
        [between - start, between.elapsed()].map(|spent| spent.as_secs_f64())
    };
    round();
    let rounds: Vec<[f64; 2]> = (0..ROUNDS).map(|_| round()).collect();
    let median = |at: usize| {
        let mut all: Vec<f64> = rounds.iter().map(|round| round[at]).collect();
        all.sort_by(f64::total_cmp);
        all[ROUNDS / 2] / (REPEATS * batch.len()) as f64
    };
    Some(Measured { seconds: [median(0), median(1)], len })
}

/// UDP in IPv4, without payload.
fn udp_frame() -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([0x08, 0x00]);
    frame.extend([0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0x10, 0x00, 0x00, 0x35, 0, 8, 0, 0]);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_takes_some_time() {
        let GatherSpeeds { gather, put, byte } = gather_speeds().expect("memory");
        for FieldSpeeds { packet, field } in [gather, put] {
            let all = [packet, field, byte];
            assert!(packet + field + byte > 0.0 && all.iter().all(|time| *time < 1e-3), "{all:?}");
        }
    }
}
