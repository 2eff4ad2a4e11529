//! The outcome of digests: noted for the report, or looked up at once to tag or drop duplicates.

use warpline_packet::wire::checksum;
use warpline_packet::{Batch, PacketMut, Reason, ScratchWord};

use super::md5;
use super::seen::{Payload, Repeated, SeenPayloads, TOP, Top};
use warpline_nf::{After, Cell, Emit, Emits, Report, StateHalf, Table};

/// The notes on packets when duplicates are only counted.
pub(super) const EMITS: Emits = Emits::notes(1, SEEN_LEN);

/// Digest and length of a packet's payload.
const SEEN_LEN: usize = 20;
/// The same and how often it was seen, at the end.
const REPEATED_LEN: usize = 24;

/// The action for a packet whose payload was seen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnDuplicate {
    /// Nothing: the report counts it.
    Count,
    /// Its DSCP becomes this.
    Tag(u8),
    /// It is dropped.
    Drop,
}

/// The scratch words in which `run` leaves the four words of a flagged packet's digest.
pub(super) type Words = [ScratchWord; 4];

fn payload_of(batch: &Batch, row: usize, words: Words) -> Option<Payload> {
    let packet = batch.packet(row);
    let len = packet.ip_end().saturating_sub(packet.payload_offset()) as u32;
    packet.is_flagged().then(|| Payload { digest: words.map(|word| packet.scratch(word)), len })
}

/// Whether `run` rejected a packet: it was not passed on.
fn is_rejected(batch: &Batch, pick: u16) -> bool {
    batch.packet(usize::from(pick)).malformed().is_some()
}

/// Packets that were digested, and those that went by.
#[derive(Default)]
struct Tally {
    digested: u64,
    passed: u64,
}

impl Tally {
    fn count(&mut self, payload: Option<Payload>) {
        self.digested += u64::from(payload.is_some());
        self.passed += u64::from(payload.is_none());
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        visit("digested", self.digested);
        visit("not-digested", self.passed);
    }
}

/// Notes every digest: which are duplicates is decided in the report, over all lanes.
pub(super) struct Noter {
    words: Words,
    tally: Tally,
}

impl Noter {
    pub(super) fn new(words: Words) -> Self {
        Self { words, tally: Tally::default() }
    }
}

impl After for Noter {
    fn after(&mut self, batch: &mut Batch, picks: &[u16], emit: &mut Emit<'_>) {
        for &pick in picks.iter().filter(|&&pick| !is_rejected(batch, pick)) {
            let payload = payload_of(batch, usize::from(pick), self.words);
            self.tally.count(payload);
            if let Some(payload) = payload {
                let mut note = [0; SEEN_LEN];
                write_payload(&mut note, payload);
                emit.note(batch.packet(usize::from(pick)).ingress(), &note);
            }
        }
    }
}

impl StateHalf for Noter {
    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        self.tally.counters(visit);
    }
}

/// Tags or drops duplicates as they come; all packets are its own.
pub(super) struct Decider {
    words: Words,
    on_duplicate: OnDuplicate,
    tally: Tally,
    seen: SeenPayloads,
}

impl Decider {
    pub(super) fn new(words: Words, on_duplicate: OnDuplicate, entries: usize) -> Self {
        Self { words, on_duplicate, tally: Tally::default(), seen: SeenPayloads::new(entries) }
    }
}

impl After for Decider {
    fn after(&mut self, batch: &mut Batch, picks: &[u16], _: &mut Emit<'_>) {
        for &pick in picks {
            if is_rejected(batch, pick) {
                continue;
            }
            let row = usize::from(pick);
            let payload = payload_of(batch, row, self.words);
            self.tally.count(payload);
            if payload.is_some_and(|payload| self.seen.see(payload)) {
                let mut packet = batch.packet_mut(row);
                match self.on_duplicate {
                    OnDuplicate::Count => {}
                    OnDuplicate::Tag(dscp) => tag(&mut packet, dscp),
                    OnDuplicate::Drop => packet.drop(Reason(0)),
                }
            }
        }
    }
}

impl StateHalf for Decider {
    fn close(&mut self, report: &mut dyn Report) {
        for row in self.seen.top().rows() {
            let mut note = [0; REPEATED_LEN];
            write_payload(&mut note, row.payload);
            note[SEEN_LEN..].copy_from_slice(&row.count.to_le_bytes());
            report.note(&note);
        }
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        self.tally.counters(visit);
        self.seen.counters(visit);
    }
}

/// Writes the DSCP and leaves ECN (RFC 2474, 3; RFC 3168, 5).
fn tag(packet: &mut PacketMut<'_>, dscp: u8) {
    let old = packet.traffic_class();
    let new = dscp << 2 | old & 3;
    packet.set_traffic_class(new);
    if packet.version() == 4 {
        let sum = packet.ip_checksum();
        packet.set_ip_checksum(checksum::update16(sum, u16::from(old), u16::from(new)));
    }
}

fn write_payload(note: &mut [u8], payload: Payload) {
    note[..16].copy_from_slice(&md5::bytes(payload.digest));
    note[16..SEEN_LEN].copy_from_slice(&payload.len.to_le_bytes());
}

fn read_payload(note: &[u8; SEEN_LEN]) -> Payload {
    let (words, _) = note.as_chunks();
    let mut words = words.iter().copied().map(u32::from_le_bytes);
    let digest = core::array::from_fn(|_| words.next().unwrap_or(0));
    Payload { digest, len: words.next().unwrap_or(0) }
}

/// Counts payloads over all lanes, and names those that came most often.
pub(super) struct Duplicates {
    /// `None` where duplicates were decided upon as they came.
    seen: Option<SeenPayloads>,
    top: Top,
    /// Rows of the table, at most.
    rows: usize,
}

impl Duplicates {
    pub(super) fn counting(entries: usize, rows: usize) -> Self {
        Self { seen: Some(SeenPayloads::new(entries)), top: Top::default(), rows }
    }

    pub(super) fn reported(rows: usize) -> Self {
        Self { seen: None, top: Top::default(), rows }
    }
}

impl Report for Duplicates {
    fn note(&mut self, note: &[u8]) {
        let Some((payload, count)) = note.split_first_chunk() else { return };
        let payload = read_payload(payload);
        match (&mut self.seen, count.first_chunk()) {
            (_, Some(&count)) => {
                self.top.offer(Repeated { payload, count: u32::from_le_bytes(count) })
            }
            (Some(seen), None) => {
                seen.see(payload);
            }
            (None, None) => {}
        }
    }

    fn finish(&mut self) -> Result<(), String> {
        if let Some(seen) = &self.seen {
            self.top = seen.top();
        }
        Ok(())
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        if let Some(seen) = &self.seen {
            seen.counters(visit);
        }
    }

    fn tables(&self) -> Vec<Table> {
        let hex = |row: &Repeated| -> String {
            md5::bytes(row.payload.digest).iter().map(|byte| format!("{byte:02x}")).collect()
        };
        let row = |row: &Repeated| {
            let len = u64::from(row.payload.len);
            let repeats = u64::from(row.count.saturating_sub(1));
            let numbers = [u64::from(row.count), len, repeats * len];
            [Cell::Text(hex(row))].into_iter().chain(numbers.map(Cell::Number)).collect()
        };
        let columns = vec!["md5", "count", "payload_bytes", "duplicate_bytes"];
        let rows: Vec<_> = self.top.rows().iter().take(self.rows).map(row).collect();
        debug_assert!(rows.len() <= TOP);
        vec![Table { name: "top_payloads", columns, rows }]
    }
}
