//! The function's state for one shard: reassembly of fragments, and the inspector.

use std::sync::Arc;

use warpline_packet::{Batch, Flags, Found, Headers, Instant, Reason, ScratchWord, Shard};

use super::condemned::{Condemned, Key};
use super::inspector::{InspectedPacket, Inspector, Verdict};
use super::tables::Tables;
use super::{Nids, limits};
use warpline_nf::{After, Emit, Function, PeakHistory, StateHalf};
use warpline_streams::reassembly::{Reassembly, Taken};

/// Why a packet is dropped: a place in the function's list.
pub(super) const DROPS: &[&str] = &["rule", "flow", "urgent"];
const BY_RULE: Reason = Reason(0);
const BY_FLOW: Reason = Reason(1);
const URGENT: Reason = Reason(2);

/// See the module.
pub(super) struct NidsShard {
    inspector: Inspector,
    reassembly: Reassembly,
    condemned: Condemned,
    by_vlan: bool,
    word: ScratchWord,
}

impl NidsShard {
    /// For a shard, with the findings of `run` in `word`.
    pub(super) fn new(tables: &Arc<Tables>, word: ScratchWord, shard: Shard) -> Self {
        Self {
            inspector: Inspector::new(tables, shard),
            reassembly: limits::reassembly(&tables.config, shard),
            condemned: Condemned::new(shard.share(tables.config.datagrams)),
            by_vlan: tables.config.by_vlan,
            word,
        }
    }

    fn look(&mut self, batch: &Batch, pick: usize, emit: &mut Emit<'_>) -> Verdict {
        let packet = batch.packet(pick);
        let counts = &mut self.inspector.counts;
        if packet.version() == 0 && packet.malformed().is_none() {
            counts.not_ip += 1;
            return Verdict::Forward;
        }
        counts.malformed += u64::from(packet.malformed().is_some());
        let found = batch.findings().get(packet.scratch(self.word));
        let headers = packet.headers();
        let seen = InspectedPacket {
            packet: batch.packet(pick),
            frame: packet.into_frame(),
            headers,
            is_reassembled: false,
        };
        let verdict = self.inspector.inspect(&seen, found, emit);
        // A first fragment too short for the header after that of IP is a fragment as well.
        if !headers.flags.has(Flags::FRAGMENT) {
            return verdict;
        }
        let now = seen.packet.timestamp();
        let by_vlan = self.by_vlan;
        let key = || Key::of(seen.frame, &headers, by_vlan);
        if !self.condemned.is_empty()
            && let Some(before) = key().and_then(|key| self.condemned.verdict(&key, now))
        {
            return if verdict == Verdict::Forward { before } else { verdict };
        }
        if verdict != Verdict::Forward {
            // Its receiver won't put it together with the others.
            return verdict;
        }
        let Taken::Complete(frame) = self.reassembly.take(&seen.packet) else { return verdict };
        let whole = InspectedPacket {
            packet: seen.packet,
            frame,
            headers: Headers::parse(frame, seen.packet.link(), frame.len()),
            is_reassembled: true,
        };
        let dropped = self.inspector.inspect(&whole, Found::NoRoom, emit);
        if dropped == Verdict::Forward {
            return verdict;
        }
        if let Some(key) = key() {
            self.condemned.add(key, dropped, now);
        }
        dropped
    }
}

impl After for NidsShard {
    fn after(&mut self, batch: &mut Batch, picks: &[u16], emit: &mut Emit<'_>) {
        for &pick in picks {
            let pick = usize::from(pick);
            match self.look(batch, pick, emit) {
                Verdict::Forward => {}
                Verdict::ByRule => batch.packet_mut(pick).drop(BY_RULE),
                Verdict::ByFlow => batch.packet_mut(pick).drop(BY_FLOW),
                Verdict::Urgent => batch.packet_mut(pick).drop(URGENT),
            }
        }
    }
}

impl StateHalf for NidsShard {
    fn fetch(&self, batch: &Batch, picks: &[u16]) {
        picks.iter().for_each(|&pick| self.inspector.fetch(&batch.packet(usize::from(pick))));
    }

    fn handle_timeout(&mut self, now: Instant, emit: &mut Emit<'_>) {
        self.inspector.handle_timeout(now, emit);
    }

    fn finish(&mut self, emit: &mut Emit<'_>) {
        self.inspector.finish(emit);
    }

    fn reload(&mut self, function: &dyn Function) {
        let function: &dyn core::any::Any = function;
        if let Some(nids) = function.downcast_ref::<Nids>() {
            self.inspector.reload(&nids.tables);
        }
    }

    fn peaks(&self, visit: &mut dyn FnMut(&'static str, &PeakHistory, u64)) {
        let (history, newest) = self.inspector.memory_peaks();
        visit("stream-memory-peak", history, newest);
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        self.inspector.counters(visit);
        let fragments = self.reassembly.counters();
        visit("fragments", fragments.fragments);
        visit("datagrams", fragments.complete);
        visit("fragments-overlap", fragments.overlap);
        visit("fragments-refused", fragments.too_long + fragments.malformed + fragments.ecn);
        visit("datagrams-evicted", fragments.evicted);
        visit("datagrams-expired", fragments.expired);
    }
}
