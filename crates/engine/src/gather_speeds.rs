//! How long the host takes to bring single fields of packets together, and to put them back in their places, measured: a cost of plans
//! that send fields.

use std::hint::black_box;
use std::time;

use warpline_packet::{
    Arena, ArenaLayout, Arrival, BATCH_DEFAULT, Batch, Binding, Field, FieldSet, Headers,
    HeapMemory, Instant, LaunchRows, LinkType,
};
use warpline_sched::GatherSpeeds;

/// Fields of a byte or two, and wider ones.
const NARROW: [Field; 4] = [Field::Ttl, Field::SrcPort, Field::DstPort, Field::IpChecksum];
const WIDE: [Field; 4] = [Field::EthDst, Field::EthSrc, Field::SrcAddr, Field::DstAddr];

/// Times that a batch is gathered for one measurement, and measurements of which the median counts, after one that does not.
const REPEATS: usize = 200;
const ROUNDS: usize = 9;

/// Gathers fields of a batch of UDP packets that the caches hold, as ingress leaves them, and puts them back. `None` where there is no memory for it.
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
    let narrow = measured(&mut batch, FieldSet::of(&NARROW))?;
    let wide = measured(&mut batch, FieldSet::of(&WIDE))?;
    // Two lines with a field's time and a byte's as unknowns; where a byte is too short a time to be seen it is none.
    let [narrow_len, wide_len] = [narrow, wide].map(|(_, len)| len as f64 / NARROW.len() as f64);
    let byte = ((wide.0 - narrow.0) / (wide_len - narrow_len)).max(0.0);
    Some(GatherSpeeds { field: (narrow.0 - narrow_len * byte).max(0.0), byte })
}

/// Seconds for each of `fields` one way, and the bytes of all of them.
fn measured(batch: &mut Batch, fields: FieldSet) -> Option<(f64, usize)> {
    let binding = Binding::staged(fields, 0)?;
    let is_v4 = |version| matches!(version, 0 | 4);
    let own = binding.columns().iter().filter(|column| is_v4(column.version));
    let len = own.map(|column| column.width).sum();
    let mut rows = LaunchRows::with_capacity(1, batch.len());
    rows.add(batch);
    let mut to = vec![0; (ArenaLayout::NONE.row_len() + binding.row_len()) * rows.rows()];
    let mut round = || {
        let start = time::Instant::now();
        for _ in 0..REPEATS {
            batch.gather(&binding, fields, rows.of(0), black_box(&mut to));
            batch.scatter(&binding, fields, rows.of(0), black_box(&to));
        }
        start.elapsed().as_secs_f64()
    };
    round();
    let mut rounds: Vec<f64> = (0..ROUNDS).map(|_| round()).collect();
    rounds.sort_by(f64::total_cmp);
    let count = 2 * REPEATS * batch.len() * fields.iter().count();
    Some((rounds[ROUNDS / 2] / count as f64, len))
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
        let GatherSpeeds { field, byte } = gather_speeds().expect("memory");
        assert!(field + byte > 0.0 && field < 1e-3 && byte < 1e-3, "{field}, {byte}");
    }
}
