//! The function's pure work: finds the literals of the packet's group in each payload.

use core::cell::RefCell;

use warpline_packet::wire::ip_protocol;
use warpline_packet::{Batch, Findings, Flags, Packet, ScratchWord, prefetch};

use super::fit::Fit;
use super::groups::{Group, Groups};
use warpline_search::Hits;

/// Literals of a packet that are kept; where more are found, `after` looks again.
pub(super) const KEPT_MAX: usize = 32;
/// Numbers of findings that there is room for, for each packet of a batch.
pub(super) const FINDINGS_PER_PACKET: usize = KEPT_MAX;
/// Batches after which memory that none of them needed is given back.
const ROUND: u32 = 1 << 10;
/// Packets ahead of the scan whose payloads are asked for.
const AHEAD: usize = 4;
const CACHE_LINE: usize = 64;

thread_local! {
    /// The matcher's output. Each thread has its own, as all threads share `run`.
    static HITS: RefCell<(Fit, Hits)> = RefCell::new((Fit::new(ROUND), Hits::new(0, 0)));
}

/// Scans every packet that is still `Forward`, and leaves in `word` where what was found is kept.
pub(super) fn scan(groups: &Groups, batch: &mut Batch, word: ScratchWord) {
    let mut findings = batch.take_findings();
    HITS.with_borrow_mut(|(patterns, hits)| {
        if let Some(len) = patterns.again(groups.patterns_max()) {
            *hits = Hits::new(KEPT_MAX, len);
        }
        for index in 0..batch.len() {
            fetch(batch, index + AHEAD);
            if batch.is_forward(index) {
                let found = scan_one(groups, &batch.packet(index), hits, &mut findings);
                batch.packet_mut(index).set_scratch(word, found);
            }
        }
    });
    batch.set_findings(findings);
}

/// Asks for the payload of a packet that is scanned soon: another core wrote its first bytes.
#[inline]
fn fetch(batch: &Batch, index: usize) {
    if index < batch.len() && batch.is_forward(index) {
        let packet = batch.packet(index);
        packet.payload().iter().step_by(CACHE_LINE).take(2).for_each(prefetch);
    }
}

fn scan_one(groups: &Groups, packet: &Packet<'_>, hits: &mut Hits, findings: &mut Findings) -> u32 {
    let Some(group) = group_of(groups, packet).filter(|group| group.matcher().is_some()) else {
        return findings.keep(&[]);
    };
    hits.clear();
    group.scan_packet(packet.payload(), hits);
    if hits.is_full() { Findings::NO_ROOM } else { findings.keep(hits.ids()) }
}

/// The group of a packet that has a payload to look into.
fn group_of<'a>(groups: &'a Groups, packet: &Packet<'_>) -> Option<&'a Group> {
    let is_whole = packet.has(Flags::TRANSPORT) && !packet.has(Flags::FRAGMENT);
    let is_sctp = packet.protocol() == ip_protocol::SCTP && !packet.has(Flags::FRAGMENT);
    if packet.malformed().is_some() || !(is_whole || is_sctp) || packet.payload().is_empty() {
        return None;
    }
    Some(groups.of(packet.protocol(), packet.src_port(), packet.dst_port()))
}
