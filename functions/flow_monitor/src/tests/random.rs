//! Random packets: what comes out is what the naive meter says, in any batches, and nothing is
//! lost.

use super::model::{Model, Row};
use super::reader::rows;
use super::traffic::{Body, Sent, packets};
use super::*;
use proptest::prelude::*;

const LIMITS: &str = "idle_s = 5\nactive_s = 20\n";

/// Long after the last packet; enough ticks for all flows.
fn end(monitor: &mut Monitor, after: &[Sent]) {
    let nanos = after.last().unwrap().nanos + 1000 * SECOND;
    for _ in 0..40 {
        monitor.tick(nanos);
    }
}

fn metered(packets: &[Sent], keys: &str, batch: usize) -> Vec<Row> {
    let folder = Folder::new();
    let table = format!("{LIMITS}ipfix = \"flows.ipfix\"\n{keys}\n");
    let mut monitor = Monitor::new(&table, &folder.0);
    monitor.send(packets, batch);
    end(&mut monitor, packets);
    monitor.close().unwrap();
    assert_eq!(monitor.counter("metered"), packets.len() as u64);
    assert_eq!(monitor.counter("unreported"), 0);
    assert_eq!(monitor.counter("ended-forced"), 0, "every flow was over");
    rows(&folder.read("flows.ipfix"))
}

/// Packets and bytes in both directions together.
fn sum(rows: &[Row]) -> (u64, u64) {
    rows.iter().fold((0, 0), |(packets, bytes), row| {
        let (forward, reverse) = (row.forward, row.reverse);
        (packets + forward.packets + reverse.packets, bytes + forward.bytes + reverse.bytes)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn records_are_those_of_the_naive_meter(packets in packets(250)) {
        let mut model = Model::new(5, 20);
        packets.iter().for_each(|packet| model.meter(packet));
        let mut found = metered(&packets, "", 256);
        found.sort();
        prop_assert_eq!(found, model.end());
    }

    /// Also where the table is full all the time: every packet is in a record.
    #[test]
    fn batches_are_alike_and_nothing_is_lost(packets in packets(250), small in any::<bool>()) {
        let keys = if small { "flows = 64" } else { "" };
        let whole = metered(&packets, keys, 256);
        let bytes = packets.iter().map(Sent::len).sum();
        prop_assert_eq!(sum(&whole), (packets.len() as u64, bytes));
        for batch in [1, 7] {
            prop_assert_eq!(&metered(&packets, keys, batch), &whole);
        }
    }
}

#[test]
fn a_small_table_ends_flows_for_lack_of_room() {
    let packets: Vec<Sent> = (0..500u16)
        .map(|n| {
            let body = Body::Udp { src: 1 + n % 9, dst: 53 };
            Sent::new(u64::from(n) * 1_000_000, "10.0.0.1", "10.0.0.2", body)
        })
        .collect();
    // One shard has all of them, and room for four.
    let whole = metered(&packets, "flows = 256", 256);
    assert!(whole.iter().any(|row| row.reason == 5));
    assert_eq!(sum(&whole).0, 500);
    assert_eq!(whole, metered(&packets, "flows = 256", 7));
    assert!(whole.iter().all(|row| row.reason == 5 || row.reason == 1));
}
