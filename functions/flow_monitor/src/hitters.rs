//! Heavy hitters: flows and hosts with the most bytes, packets and peers, as tables of the summary.

use super::distinct::Distinct;
use super::key::FlowKey;
use super::record::{FlowRecord, Half, address};
use super::space_saving::{Counter, CounterLookup, SpaceSaving};
use warpline_packet::Seed;

use warpline_nf::{Cell, Table};
use warpline_tables::keyed::mix;

/// An address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Host {
    bits: u128,
    version: u8,
}

/// Totals of a flow since it took over its counter.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    packets: u64,
    records: u64,
}

/// The heaviest flows and hosts in records.
pub(super) struct Hitters {
    flows: SpaceSaving<FlowKey, Known>,
    bytes: SpaceSaving<Host, ()>,
    packets: SpaceSaving<Host, ()>,
    /// A counter's sketch holds the pairs of host and peer for all hosts that had the counter. Its
    /// estimate is the count, so Space-Saving's bounds hold apart from the sketch's own error.
    peers: SpaceSaving<Host, Distinct>,
    rows: usize,
    /// Of hosts' hashes: estimates depend on it.
    key: u64,
}

impl Hitters {
    /// With `counters` counters of each kind, of which `rows` are shown.
    pub(super) fn new(counters: usize, rows: usize, seed: Seed) -> Self {
        Self {
            flows: SpaceSaving::new(counters),
            bytes: SpaceSaving::new(counters),
            packets: SpaceSaving::new(counters),
            peers: SpaceSaving::new(counters),
            rows,
            key: seed.key(0x201),
        }
    }

    /// Counts a record: what goes each way is its sender's.
    pub(super) fn count(&mut self, record: &FlowRecord) {
        let (key, version) = (&record.key, record.key.version);
        let (src, dst) = (Host { bits: key.src, version }, Host { bits: key.dst, version });
        self.count_half(src, dst, &record.forward);
        self.count_half(dst, src, &record.reverse);
        let at = match self.flows.counter(record.as_initiator().key) {
            CounterLookup::Own(at) => at,
            CounterLookup::Fresh(at) | CounterLookup::TakenOver(at) => {
                *self.flows.extra_mut(at) = Known::default();
                at
            }
        };
        self.flows.add(at, record.forward.bytes + record.reverse.bytes);
        let known = self.flows.extra_mut(at);
        known.packets += record.forward.packets + record.reverse.packets;
        known.records += 1;
    }

    fn count_half(&mut self, sender: Host, receiver: Host, half: &Half) {
        if half.packets == 0 {
            return;
        }
        let at = place(self.bytes.counter(sender));
        self.bytes.add(at, half.bytes);
        let at = place(self.packets.counter(sender));
        self.packets.add(at, half.packets);
        let at = place(self.peers.counter(sender));
        let sketch = self.peers.extra_mut(at);
        if sketch.add(hash(self.key, sender, receiver)) {
            let estimate = sketch.estimate();
            self.peers.raise(at, estimate);
        }
    }

    /// The largest of each kind.
    pub(super) fn tables(&self) -> Vec<Table> {
        let flows = Table {
            name: "top_flows",
            columns: vec![
                "src",
                "src_port",
                "dst",
                "dst_port",
                "protocol",
                "packets",
                "records",
                "bytes",
                "error_bytes",
            ],
            rows: self.flows.top(self.rows).into_iter().map(flow_row).collect(),
        };
        vec![
            flows,
            host_table("top_by_bytes", ["src", "bytes", "error_bytes"], &self.bytes, self.rows),
            host_table(
                "top_by_packets",
                ["src", "packets", "error_packets"],
                &self.packets,
                self.rows,
            ),
            host_table("top_by_peers", ["src", "peers", "error_peers"], &self.peers, self.rows),
        ]
    }
}

fn place(found: CounterLookup) -> usize {
    match found {
        CounterLookup::Own(at) | CounterLookup::Fresh(at) | CounterLookup::TakenOver(at) => at,
    }
}

fn hash(key: u64, sender: Host, receiver: Host) -> u64 {
    let fold = |host: Host, seed: u64| {
        let (high, low) = ((host.bits >> 64) as u64, host.bits as u64);
        mix(
            low ^ seed ^ key,
            high ^ 0xa076_1d64_78bd_642f ^ key.rotate_left(32) ^ u64::from(host.version),
        )
    };
    let (a, b) = (fold(sender, 0xe703_7ed1_a0b4_28db), fold(receiver, 0x8ebc_6af0_9c88_c6e3));
    mix(mix(a, b ^ 0x5896_5cc7_5374_cc35) ^ b, 0x1d8e_4e27_c47d_124f)
}

fn flow_row(counter: &Counter<FlowKey, Known>) -> Vec<Cell> {
    let (key, known) = (&counter.key, counter.extra);
    let port = |port: u16| match key.is_icmp() {
        true => Cell::Text("-".into()),
        false => Cell::Number(port.into()),
    };
    vec![
        Cell::Text(address(key.version, key.src).to_string()),
        port(key.src_port),
        Cell::Text(address(key.version, key.dst).to_string()),
        port(key.dst_port),
        Cell::Number(key.protocol.into()),
        Cell::Number(known.packets),
        Cell::Number(known.records),
        Cell::Number(counter.count),
        Cell::Number(counter.error),
    ]
}

fn host_table<X: Default>(
    name: &'static str,
    columns: [&'static str; 3],
    hosts: &SpaceSaving<Host, X>,
    rows: usize,
) -> Table {
    let row = |counter: &Counter<Host, X>| {
        let host = address(counter.key.version, counter.key.bits).to_string();
        vec![Cell::Text(host), Cell::Number(counter.count), Cell::Number(counter.error)]
    };
    Table { name, columns: columns.to_vec(), rows: hosts.top(rows).into_iter().map(row).collect() }
}
