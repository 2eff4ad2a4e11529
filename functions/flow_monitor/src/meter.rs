//! The metering of one shard: counts each packet in its flow, and ends flows.

use warpline_packet::{Batch, Instant, ScratchWord, Shard};

use super::config::Config;
use super::key::{FlowDirection, MeteredPacket, Unmetered};
use super::record::End;
use super::table::{FlowTable, Record};
use warpline_nf::{After, Emit, PeakHistory, Report, StateHalf, TICK_NOTES_MAX};

/// How long a connection that ended stays in the table after its last packet, so that what is still
/// on its way (the last acknowledgement, what is sent again) is no flow of its own.
pub(super) const LINGER_US: u64 = 1_000_000;

/// Places that are looked at with each new flow for one to end, so that the table is gone over the
/// more often the faster flows come.
const LOOKED_AT: usize = 4;
/// The same where the table is full, and a flow has to end.
const LOOKED_AT_FULL: usize = 12;

/// The state of one shard.
pub(super) struct Meter {
    table: FlowTable,
    limits: Limits,
    /// The latest time of any packet or tick.
    now_us: u64,
    counts: Counts,
    peaks: PeakHistory,
    /// Where `run` left the hash of the flow.
    word: ScratchWord,
}

/// How long flows and their records last, in microseconds.
#[derive(Clone, Copy)]
struct Limits {
    idle: u64,
    /// Less than 2^32.
    active: u64,
}

#[derive(Default)]
struct Counts {
    flows: u64,
    /// The most flows at one time since the last tick.
    flows_peak: u64,
    packets: u64,
    not_ip: u64,
    malformed: u64,
    /// By [`End`].
    records: [u64; End::ALL.len()],
    unreported: u64,
}

impl Limits {
    /// Why a flow is over after no packet came for `quiet_us`, if it is.
    #[inline(always)]
    fn end(&self, record: &Record, quiet_us: u64) -> Option<End> {
        let (limit, end) =
            if record.is_closed() { (LINGER_US, End::Detected) } else { (self.idle, End::Idle) };
        (quiet_us > limit).then_some(end)
    }

    /// Why a record ends before a packet of its flow is counted, `quiet_us` after the last, if it
    /// does.
    fn end_before(&self, record: &Record, seen: &MeteredPacket, quiet_us: u64) -> Option<End> {
        // Whether others' packets confirm it or not: no record has two packets between which the
        // flow was over.
        let own_us = seen.own_us.saturating_sub(record.last_us());
        let early_us = record.first_us().saturating_sub(seen.own_us);
        if let Some(end) = self.end(record, quiet_us.max(own_us).max(early_us)) {
            return Some(end);
        }
        if record.is_closed() && seen.opens() {
            return Some(End::Detected);
        }
        let first_us = record.first_us().min(seen.own_us);
        let old = record.last_us().max(seen.own_us) - first_us > self.active;
        (record.is_worn() || old).then_some(End::Active)
    }
}

impl Meter {
    pub(super) fn new(config: &Config, word: ScratchWord, shard: Shard) -> Self {
        Self {
            table: FlowTable::new(shard.share(config.flows)),
            limits: Limits { idle: config.idle_us, active: config.active_us },
            now_us: 0,
            counts: Counts::default(),
            peaks: PeakHistory::new(),
            word,
        }
    }

    /// Counts a packet.
    #[inline(always)]
    fn meter(&mut self, seen: &MeteredPacket, emit: &mut Emit<'_>) {
        self.counts.packets += 1;
        self.now_us = self.now_us.max(seen.now_us);
        let Some((number, way)) = self.table.find(seen) else {
            return self.begin(seen, emit);
        };
        let Limits { idle, active } = self.limits;
        if !self.table.count_next(number, way, seen, (idle, active)) {
            self.meter_odd(number, way, seen, emit);
        }
    }

    /// Counts a packet of a flow that is not simply the next one.
    #[inline(never)]
    fn meter_odd(
        &mut self,
        number: u32,
        way: FlowDirection,
        seen: &MeteredPacket,
        emit: &mut Emit<'_>,
    ) {
        let quiet_us = seen.now_us.saturating_sub(self.table.last_now_us(number));
        match self.limits.end_before(self.table.record(number), seen, quiet_us) {
            None => self.table.count(number, way, seen),
            Some(end) => self.renew(number, end, way, seen, emit),
        }
    }

    /// Ends a record and starts the next one of the same endpoints.
    #[inline(never)]
    fn renew(
        &mut self,
        number: u32,
        end: End,
        way: FlowDirection,
        seen: &MeteredPacket,
        emit: &mut Emit<'_>,
    ) {
        self.report(number, end, seen.ingress, emit);
        if end == End::Active {
            self.table.restart(number, way, seen);
        } else {
            self.table.begin(number, seen);
            self.counts.flows += 1;
        }
    }

    /// Takes in a new flow, in the place of another where the table is full, or is where it would
    /// lie.
    #[inline(never)]
    fn begin(&mut self, seen: &MeteredPacket, emit: &mut Emit<'_>) {
        if let Some(number) = self.table.crowded(seen.hash) {
            let end = self.end_for_room(number, seen.now_us);
            self.report(number, end, seen.ingress, emit);
            self.table.begin(number, seen);
        } else {
            if let Some((number, end)) = self.choose(seen.now_us) {
                self.report(number, end, seen.ingress, emit);
                self.table.remove(number);
            }
            self.table.insert(seen);
        }
        self.counts.flows += 1;
        self.counts.flows_peak = self.counts.flows_peak.max(self.table.len() as u64);
    }

    /// A flow to end before a new one is taken in: one that is over, or where the table is full
    /// any, of those at the hand that which ended, or else that which was idle longest.
    fn choose(&mut self, now_us: u64) -> Option<(u32, End)> {
        let (full, mut chosen) = (self.table.is_full(), None);
        for looked_at in 0..self.table.places() {
            if looked_at >= LOOKED_AT && (!full || looked_at >= LOOKED_AT_FULL && chosen.is_some())
            {
                break;
            }
            let Some(number) = self.table.advance() else { continue };
            let record = self.table.record(number);
            if let Some(end) = self.end_by(number, now_us) {
                return Some((number, end));
            }
            let rank = (!record.is_closed(), self.table.last_now_us(number), number);
            chosen = Some(chosen.map_or(rank, |best| rank.min(best)));
        }
        let (_, _, number) = chosen.filter(|_| full)?;
        Some((number, self.end_for_room(number, now_us)))
    }

    /// Why a flow ends that has to make room.
    fn end_for_room(&self, number: u32, now_us: u64) -> End {
        let is_closed = self.table.record(number).is_closed();
        let closed = if is_closed { End::Detected } else { End::LackOfResources };
        self.end_by(number, now_us).unwrap_or(closed)
    }

    /// Why a flow is over by `now_us`, if it is.
    fn end_by(&self, number: u32, now_us: u64) -> Option<End> {
        let quiet_us = now_us.saturating_sub(self.table.last_now_us(number));
        self.limits.end(self.table.record(number), quiet_us)
    }

    fn report(&mut self, number: u32, end: End, ingress: u64, emit: &mut Emit<'_>) {
        let note = self.table.finished(number, end).encode();
        self.counts.records[end as usize - 1] += 1;
        if !emit.note(ingress, &note) {
            self.counts.unreported += 1;
        }
    }
}

impl After for Meter {
    fn after(&mut self, batch: &mut Batch, picks: &[u16], emit: &mut Emit<'_>) {
        for &pick in picks {
            let packet = batch.packet(usize::from(pick));
            match MeteredPacket::read(&packet, packet.scratch(self.word)) {
                Ok(seen) => self.meter(&seen, emit),
                Err(Unmetered::NotIp) => self.counts.not_ip += 1,
                Err(Unmetered::Malformed) => self.counts.malformed += 1,
            }
        }
    }
}

impl StateHalf for Meter {
    fn fetch(&self, batch: &Batch, picks: &[u16]) {
        for &pick in picks {
            self.table.fetch(batch.packet(usize::from(pick)).scratch(self.word));
        }
    }

    /// Goes over a quarter of the table, and ends as many flows as a tick has room for.
    fn handle_timeout(&mut self, now: Instant, emit: &mut Emit<'_>) {
        let now_us = now.as_nanos() / 1000;
        self.now_us = self.now_us.max(now_us);
        self.peaks.end_part(now, self.counts.flows_peak);
        let mut room = TICK_NOTES_MAX;
        for _ in 0..self.table.places().div_ceil(4) {
            if room == 0 {
                break;
            }
            let Some(number) = self.table.advance() else { continue };
            if let Some(end) = self.end_by(number, now_us) {
                self.report(number, end, 0, emit);
                self.table.remove(number);
                room -= 1;
            }
        }
        self.counts.flows_peak = self.table.len() as u64;
    }

    fn close(&mut self, report: &mut dyn Report) {
        for number in self.table.used() {
            let record = self.table.record(number);
            let over = self.end_by(number, self.now_us);
            let end = match over {
                None if record.is_closed() => End::Detected,
                None => End::Forced,
                Some(end) => end,
            };
            self.counts.records[end as usize - 1] += 1;
            report.note(&self.table.finished(number, end).encode());
        }
        self.table = FlowTable::new(0);
    }

    fn peaks(&self, visit: &mut dyn FnMut(&'static str, &PeakHistory, u64)) {
        visit("flows-peak", &self.peaks, self.counts.flows_peak);
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        visit("flows", self.counts.flows);
        visit("metered", self.counts.packets);
        visit("not-ip", self.counts.not_ip);
        visit("malformed", self.counts.malformed);
        let names = ["ended-idle", "ended-active", "ended-detected", "ended-forced", "ended-full"];
        for (name, count) in names.into_iter().zip(self.counts.records) {
            visit(name, count);
        }
        visit("unreported", self.counts.unreported);
    }
}
