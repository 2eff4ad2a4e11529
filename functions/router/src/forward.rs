//! Looks next hops up and rewrites packets for them, many at once.

use std::ops::Range;

use warpline_packet::{Batch, Flags, LinkType, PacketMut, PlainRun, Reason};

use crate::fib::{Action, reason};
use crate::{CHECKED, Mac, Router, Sends, checks, icmp};

/// Packets whose addresses are looked up together: a batch of the usual size.
pub(crate) const WAVE: usize = 256;

impl Router {
    /// Finds out what to look up. No loop here or below calls what settles a packet: it would have
    /// the columns' places computed anew for each packet, which made the work three times as long.
    pub(crate) fn run_wave(&self, batch: &mut Batch, range: Range<usize>) {
        if self.sends == Sends::Wrapped {
            return self.run_wrapped(batch, range);
        }
        if let Some(run) = batch.plain_v4(range.clone(), LinkType::ETHERNET)
            && !batch.packet(range.start).has(Flags::IP_OPTIONS)
        {
            return self.run_plain(batch, range, &run);
        }
        let (mut rows, mut addresses) = ([0u16; WAVE], [0u32; WAVE]);
        let (mut count, mut others) = (0, 0);
        for row in range.clone() {
            if !batch.is_forward(row) {
                continue;
            }
            let packet = batch.packet(row);
            if packet.version() == 4 && packet.malformed().is_none() && count < WAVE {
                rows[count] = row as u16;
                addresses[count] = packet.dst_v4();
                count += 1;
            } else {
                others += 1;
            }
        }
        let (rows, addresses) = (&rows[..count.min(WAVE)], &addresses[..count.min(WAVE)]);
        // First, while each packet that is IPv4 and whole is still `Forward`.
        if others > 0 {
            self.run_others(batch, range);
        }
        let mut hops = [0; WAVE];
        self.fib.v4.lookup_bulk(addresses, &mut hops);
        self.send(batch, rows, &hops);
    }

    /// The packets with outer headers.
    fn run_wrapped(&self, batch: &mut Batch, range: Range<usize>) {
        let (mut rows, mut hops) = ([[0u16; WAVE]; 2], [[0; WAVE]; 2]);
        let (mut v4, mut v6) = ([0u32; WAVE], [0u128; WAVE]);
        let mut counts = [0; 2];
        for row in range.take(WAVE) {
            let packet = batch.packet(row);
            if !batch.is_forward(row) || !packet.has(Flags::WRAPPED) {
                continue;
            }
            if packet.version() == 0 || packet.malformed().is_some() {
                self.refuse(batch, row);
                continue;
            }
            let is_v6 = usize::from(packet.version() == 6);
            rows[is_v6][counts[is_v6]] = row as u16;
            match is_v6 {
                0 => v4[counts[0]] = packet.dst_v4(),
                _ => v6[counts[1]] = packet.dst_v6(),
            }
            counts[is_v6] += 1;
        }
        self.fib.v4.lookup_bulk(&v4[..counts[0]], &mut hops[0]);
        self.fib.v6.lookup_bulk(&v6[..counts[1]], &mut hops[1]);
        for ((rows, hops), count) in rows.iter().zip(&hops).zip(counts) {
            self.send(batch, &rows[..count], hops);
        }
    }

    /// Whole IPv4 packets in Ethernet, and nothing else.
    fn run_plain(&self, batch: &mut Batch, range: Range<usize>, run: &PlainRun) {
        let (mut addresses, mut hops) = ([0u32; WAVE], [0; WAVE]);
        let count = range.len().min(WAVE);
        batch.read_dst_v4(run, &mut addresses[..count]);
        self.fib.v4.lookup_bulk(&addresses[..count], &mut hops);
        let all_go_on = match self.mac {
            Some(mac) => self.send_plain::<true>(batch, run, &hops, mac),
            None => self.send_plain::<false>(batch, run, &hops, Mac([0; 6])),
        };
        if !all_go_on {
            self.settle_plain(batch, range, &hops);
        }
    }

    /// Rewrites plain packets for their next hops; those that may have to be dropped get none. Says
    /// whether all have one.
    #[inline(always)]
    fn send_plain<const ETHERNET: bool>(
        &self,
        batch: &mut Batch,
        run: &PlainRun,
        hops: &[u16; WAVE],
        src: Mac,
    ) -> bool {
        let mut all_go_on = true;
        let actions = &*self.fib.actions;
        for (mut header, &hop) in batch.plain_v4_mut(run, self.access.run).zip(hops) {
            let action = actions.get(usize::from(hop));
            let known = matches!(action, Some(Action::Forward | Action::Rewrite(_)));
            let is_sound =
                header.header().is_some_and(checks::is_sound_v4) && !header.is_to_group();
            // RFC 1812, 5.3.1: "If the TTL is reduced to zero (or less), the packet MUST be
            // discarded".
            let goes_on = known && is_sound && header.decrement_ttl();
            header.set_next_hop(if goes_on { self.first_hop + hop } else { 0 });
            all_go_on &= goes_on;
            if ETHERNET
                && goes_on
                && let Some(Action::Rewrite(dst)) = action
            {
                header.set_eth_addresses(dst.0, src.0);
            }
        }
        all_go_on
    }

    /// Drops what was left without a next hop, or sends it all the same.
    #[cold]
    fn settle_plain(&self, batch: &mut Batch, range: Range<usize>, hops: &[u16; WAVE]) {
        for (row, &hop) in range.zip(hops) {
            let mut packet = batch.packet_mut(row);
            if packet.next_hop() == 0
                && let Err(why) = self.rewrite(&mut packet, hop)
            {
                self.drop(&mut packet, why);
            }
        }
    }

    /// IPv6, and what can't be routed.
    #[inline(never)]
    fn run_others(&self, batch: &mut Batch, range: Range<usize>) {
        let (mut rows, mut addresses) = ([0u16; WAVE], [0u128; WAVE]);
        let mut count = 0;
        for row in range {
            let packet = batch.packet(row);
            let is_whole = packet.malformed().is_none();
            match packet.version() {
                _ if !batch.is_forward(row) => {}
                4 if is_whole => {}
                6 if is_whole && count < WAVE => {
                    rows[count] = row as u16;
                    addresses[count] = packet.dst_v6();
                    count += 1;
                }
                _ => self.refuse(batch, row),
            }
        }
        let mut hops = [0; WAVE];
        self.fib.v6.lookup_bulk(&addresses[..count.min(WAVE)], &mut hops);
        self.send(batch, &rows[..count.min(WAVE)], &hops);
    }

    /// Rewrites packets for their next hops, or drops them.
    #[inline(always)]
    fn send(&self, batch: &mut Batch, rows: &[u16], hops: &[u16; WAVE]) {
        let (mut dropped, mut reasons) = ([0u16; WAVE], [reason::NO_ROUTE; WAVE]);
        let mut count = 0;
        for (&row, &hop) in rows.iter().zip(hops) {
            let mut packet = batch.packet_mut(usize::from(row));
            match self.rewrite(&mut packet, hop) {
                Ok(()) => {}
                Err(why) if count < WAVE => {
                    dropped[count] = row;
                    reasons[count] = why;
                    count += 1;
                }
                Err(_) => {}
            }
        }
        for (&row, &why) in dropped.iter().zip(&reasons).take(count) {
            self.drop(&mut batch.packet_mut(usize::from(row)), why);
        }
    }

    #[inline(always)]
    fn rewrite(&self, packet: &mut PacketMut<'_>, hop: u16) -> Result<(), Reason> {
        if !is_sound(packet)
            && let Some(why) = self.checks.objection(&packet.as_packet())
        {
            return Err(why);
        }
        let dst = self.fib.next(hop)?;
        // RFC 1812, 5.3.1: "If the TTL is reduced to zero (or less), the packet MUST be discarded".
        if self.sends == Sends::All && !packet.decrement_ttl() {
            return Err(reason::TTL_EXCEEDED);
        }
        if let (Some(dst), Some(src)) = (dst, self.mac) {
            packet.set_eth_addresses(dst.0, src.0);
        }
        packet.set_next_hop(self.first_hop + hop);
        Ok(())
    }

    #[cold]
    fn drop(&self, packet: &mut PacketMut<'_>, why: Reason) {
        if self.icmp.is_some() && icmp::is_answered(why) {
            packet.flag();
        }
        packet.set_next_hop(0);
        packet.drop(why);
    }

    /// Settles a packet that can't be routed.
    #[cold]
    fn refuse(&self, batch: &mut Batch, row: usize) {
        let mut packet = batch.packet_mut(row);
        if packet.reject_malformed() {
            return;
        }
        let is_cut = packet.has(Flags::IP_CUT);
        self.drop(&mut packet, if is_cut { reason::SNAPPED } else { reason::NON_IP });
    }
}

/// Whether nothing is to be looked at more closely.
#[inline(always)]
fn is_sound(packet: &PacketMut<'_>) -> bool {
    let (link, frame) = (packet.link(), packet.frame_for(CHECKED));
    if packet.has(Flags::IP_OPTIONS) || checks::may_be_to_many(frame, link) {
        return false;
    }
    match packet.version() {
        4 => frame
            .get(packet.l3_offset()..)
            .and_then(<[u8]>::first_chunk)
            .is_some_and(checks::is_sound_v4),
        _ => checks::is_sound_v6(packet.src_v6()),
    }
}
