//! Packets that leave by ports that forward by routes: they get the Ethernet addresses of their
//! next hops, or wait for these.

use std::ops::Range;

use warpline_io::neighbours::{Hold, Settled};
use warpline_io::{BURST_MAX, Frame};
use warpline_packet::{Batch, Verdict};

use super::Merge;
use super::sending::frame_of;
use crate::egress::{NO_NEIGHBOUR, TO_MACHINE, WayOut};

/// The ways of a burst of packets.
pub(super) type Ways = [WayOut; BURST_MAX];

impl Merge {
    /// Looks up the ways of up to [`BURST_MAX`] packets, and writes their Ethernet addresses.
    pub(super) fn address(&mut self, batch: &mut Batch, range: Range<usize>) -> Ways {
        let mut ways = [WayOut::Nowhere; BURST_MAX];
        for (at, way) in range.zip(&mut ways) {
            let packet = batch.packet(at);
            if !matches!(packet.verdict(), Verdict::Forward | Verdict::Bypass | Verdict::Return) {
                continue;
            }
            *way = self.exit(packet);
            let (WayOut::Port(port), Some(egress)) = (*way, &self.egress) else { continue };
            let next = egress.next_hop(packet, port);
            let (Some(next), Some(neighbours)) = (next, &mut self.neighbours) else { continue };
            if let Some((dst, src)) = neighbours.addresses(port, next) {
                batch.packet_mut(at).set_eth_addresses(dst, src);
                continue;
            }
            let frame = Frame { interface: port, ..frame_of(packet) };
            *way = match neighbours.hold(next, &frame) {
                Hold::Waits { lost } => {
                    (0..lost).for_each(|_| self.part.dropped_at_egress(NO_NEIGHBOUR));
                    WayOut::Held
                }
                Hold::Refused => WayOut::Dropped(NO_NEIGHBOUR),
                Hold::ToMachine => WayOut::Dropped(TO_MACHINE),
            };
        }
        ways
    }

    /// Sends held packets whose next hop is known by now. Those that waited for too long are
    /// dropped; at the end, all. Returns whether there were any.
    pub(super) fn send_held(&mut self, is_end: bool) -> bool {
        let Some(mut neighbours) = self.neighbours.take() else { return false };
        let mut any = neighbours.refresh(&mut |settled| self.send_settled(&settled));
        if is_end {
            any |= neighbours.give_up(&mut |settled| self.send_settled(&settled));
        }
        self.neighbours = Some(neighbours);
        any
    }

    fn send_settled(&mut self, settled: &Settled<'_>) {
        match settled {
            Settled::Ready(frame) => self.send(&[*frame]),
            Settled::Lost => self.part.dropped_at_egress(NO_NEIGHBOUR),
        }
        self.unreported += 1;
    }
}
