//! Readers that rest. One that has read everything naps, or waits for the next packet, and timers
//! wake it late.

use super::{Event, Run, Work};
use crate::traffic::Batch;

/// Packets that a source gives at once.
const BURST: u64 = 32;

impl Run<'_> {
    /// Whether a chain has a reader that rests.
    pub(super) fn reader_rests(&self, chain: usize) -> bool {
        self.lane_rests() && self.chains[chain].model.reader.is_some()
    }

    pub(super) fn reader_wakes(&mut self, chain: usize, now_ns: u64) {
        let own = &mut self.chains[chain].reader;
        (own.has_woken, own.is_first, own.rested_ns) = (true, true, now_ns);
        self.reads(chain, now_ns);
    }

    /// A pause ended, or there is room again.
    pub(super) fn resume_reader(&mut self, chain: usize, now_ns: u64) {
        if self.reader_rests(chain) {
            self.events.add(now_ns + self.scenario.wake_late_ns, Event::Resumes { chain });
        }
    }

    /// A reader takes the packets that wait, and those that come meanwhile.
    pub(super) fn reads(&mut self, chain: usize, now_ns: u64) {
        let own = &mut self.chains[chain];
        let Some(reader) = own.model.reader else { return };
        own.lose_beyond_ring(now_ns);
        let Some(mut batch) = own.source.take(now_ns) else {
            return self.rest_reader(chain, now_ns);
        };
        own.reader.naps.handle_work(|| now_ns);
        let each = own.busy(now_ns).map_or(reader.cost, |busy| busy.cost);
        let cost = |batch: &Batch| each.ns(batch.packets, batch.bytes);
        let mut taken = 0;
        while taken < batch.packets {
            taken = batch.packets;
            let until_ns = now_ns + cost(&batch);
            own.source.fill(&mut batch, until_ns);
        }
        own.reader.packets += batch.packets;
        // A batch is begun when its first packets were found.
        let begun_ns = now_ns + each.ns(batch.packets.min(BURST), 0) / 2;
        (batch.oldest_ns, batch.newest_ns) = (begun_ns, begun_ns);
        let thread = self.scenario.lanes + reader.thread;
        self.occupy((thread, 0), cost(&batch), Work::Read { chain, batch }, now_ns);
    }

    /// A batch was handed over, or waits for room. It woke the lane if that waited, which it does
    /// for the first batch after a rest and the last one. In between, lanes nap.
    pub(super) fn after_read(
        &mut self,
        chain: usize,
        (lane_waited, is_full): (bool, bool),
        now_ns: u64,
    ) {
        if !self.reader_rests(chain) || self.chains[chain].kept.is_some() {
            return;
        }
        let own = &mut self.chains[chain];
        let Some(reader) = own.model.reader else { return };
        let is_first = std::mem::take(&mut own.reader.is_first);
        if lane_waited && (is_first || !is_full) && self.scenario.ring_ns > 0 {
            let thread = (self.scenario.lanes + reader.thread, 0);
            let rang = Work::Rang { chain, is_full };
            return self.occupy(thread, self.scenario.ring_ns, rang, now_ns);
        }
        self.reads_on(chain, is_full, now_ns);
    }

    /// A batch that is not full had all packets that waited, so the reader rests.
    pub(super) fn reads_on(&mut self, chain: usize, is_full: bool, now_ns: u64) {
        match is_full {
            true => self.reads(chain, now_ns),
            false => self.rest_reader(chain, now_ns),
        }
    }

    fn rest_reader(&mut self, chain: usize, now_ns: u64) {
        let own = &mut self.chains[chain];
        let Some(reader) = own.model.reader else { return };
        if own.source.next_ns().is_none() {
            own.source_ended = true;
            return self.ring(chain, now_ns);
        }
        let packets = std::mem::take(&mut own.reader.packets);
        let nap_ns = own.reader.naps.poll_nap(packets, now_ns);
        let wake_ns = reader.wake_ns.saturating_sub(self.scenario.ring_ns);
        if !std::mem::take(&mut own.reader.has_woken) || wake_ns == 0 {
            return self.reader_rests_for(chain, nap_ns, now_ns);
        }
        let thread = (self.scenario.lanes + reader.thread, 0);
        self.occupy(thread, wake_ns, Work::ReaderRests { chain, nap_ns }, now_ns);
    }

    pub(super) fn reader_rests_for(&mut self, chain: usize, nap_ns: Option<u64>, now_ns: u64) {
        let next_ns = self.chains[chain].source.next_ns().unwrap_or(now_ns);
        if nap_ns.is_none() && next_ns <= now_ns {
            return self.reads(chain, now_ns);
        }
        let at_ns = nap_ns.map_or(next_ns.max(now_ns), |nap_ns| now_ns + nap_ns);
        let late_ns = self.late_ns();
        self.events.add(at_ns + late_ns, Event::Reads { chain });
    }
}
