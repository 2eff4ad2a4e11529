//! One packet of a batch, for writing: everything that [`crate::Packet`] reads, and more.
//!
//! Writing a field that the packet doesn't have does nothing. This type also sets verdicts.

use crate::arena::{DroppedBy, Flagged, HeadersOf, Link, Mirrored, NextHop, ReasonOf, VerdictOf};
use crate::wire::{ethernet, ipv4, ipv6};
use crate::{Field, FieldSet, Flags, Headers, LinkType, PacketMut, Reason, ScratchWord, Verdict};

impl PacketMut<'_> {
    #[inline(always)]
    pub(crate) fn set_bytes<const N: usize>(&mut self, field: Field, value: [u8; N]) {
        self.batch.check_write_of(self.index, field);
        let Some(range) = self.locate(field) else { return };
        if range.end - range.start != N {
            return;
        }
        if let Some(bytes) = self.batch.table.frame_mut(self.index).get_mut(range) {
            bytes.copy_from_slice(&value);
        }
    }

    /// Writes the Ethernet destination address.
    #[inline(always)]
    pub fn set_eth_dst(&mut self, address: [u8; 6]) {
        self.set_bytes(Field::EthDst, address);
    }

    /// Writes the Ethernet source address.
    #[inline(always)]
    pub fn set_eth_src(&mut self, address: [u8; 6]) {
        self.set_bytes(Field::EthSrc, address);
    }

    /// Writes both Ethernet addresses.
    #[inline(always)]
    pub fn set_eth_addresses(&mut self, dst: [u8; 6], src: [u8; 6]) {
        self.batch.check_write_of(self.index, Field::EthDst);
        self.batch.check_write_of(self.index, Field::EthSrc);
        if self.batch.table.column(Link)[self.index] != LinkType::ETHERNET.0 {
            return;
        }
        if let Some(header) = self.batch.table.frame_mut(self.index).first_chunk_mut::<12>() {
            header[ethernet::field::DST].copy_from_slice(&dst);
            header[ethernet::field::SRC].copy_from_slice(&src);
        }
    }

    /// Decrements the TTL or hop limit and updates the IPv4 header checksum (RFC 1624), as a router
    /// does. Returns false and changes nothing if it is 1 or 0, or the packet is not IP.
    #[inline(always)]
    #[must_use]
    pub fn decrement_ttl(&mut self) -> bool {
        for field in [Field::Ttl, Field::IpChecksum] {
            self.batch.check_read_of(self.index, field);
            self.batch.check_write_of(self.index, field);
        }
        let (l3, version) = (self.l3_offset(), self.version());
        let frame = self.batch.table.frame_mut(self.index).get_mut(l3..).unwrap_or(&mut []);
        match version {
            4 => frame.first_chunk_mut().is_some_and(decrement_v4),
            6 => frame.first_chunk_mut().is_some_and(decrement_v6),
            _ => false,
        }
    }

    /// Writes the traffic class: DSCP in the upper six bits, ECN in the lower two. The IPv4 header
    /// checksum is not mended.
    pub fn set_traffic_class(&mut self, value: u8) {
        if self.version() == 6 {
            let word = u32::from_be_bytes(self.bytes(Field::TrafficClass));
            let word = word & !(0xff << 20) | u32::from(value) << 20;
            self.set_bytes(Field::TrafficClass, word.to_be_bytes());
        } else {
            self.set_bytes(Field::TrafficClass, [value]);
        }
    }

    /// The payload, to write, as far as captured. No mirror has the packet any more.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        self.batch.check_write_of(self.index, Field::Payload);
        self.batch.table.column_mut(Mirrored)[self.index] = 0;
        let (start, end) = (self.payload_offset(), self.ip_end());
        self.batch.table.frame_mut(self.index).get_mut(start..end).unwrap_or(&mut [])
    }

    /// The whole frame, to write.
    #[inline(always)]
    pub fn frame_mut(&mut self) -> &mut [u8] {
        self.frame_mut_for(FieldSet::FRAME)
    }

    /// The whole frame, for callers that write only `fields` of it.
    #[inline(always)]
    pub fn frame_mut_for(&mut self, fields: FieldSet) -> &mut [u8] {
        self.check_writes(fields);
        self.batch.table.frame_mut(self.index)
    }

    /// Moves the frame's start by `head` bytes and its end by `tail`: negative `head` grows at the
    /// front, positive `tail` at the back, within the room from the chain's growth. New bytes of
    /// the frame are arbitrary. Returns whether there was room. Write the headers next
    /// ([`PacketMut::set_headers`], [`PacketMut::reparse`]).
    #[inline(always)]
    #[must_use]
    pub fn reshape(&mut self, head: isize, tail: isize) -> bool {
        if head != 0 {
            self.batch.check_write_of(self.index, Field::Start);
        }
        self.batch.check_write_of(self.index, Field::Len);
        self.batch.table.reshape(self.index, head, tail)
    }

    /// Notes where the headers lie after a change. The flags of [`Flags::KEPT`] stay.
    #[inline(always)]
    pub fn set_headers(&mut self, headers: &Headers) {
        self.check_writes(FieldSet::HEADERS);
        let kept = self.batch.headers(self.index).flags.0 & Flags::KEPT;
        let mut headers = *headers;
        headers.flags.set(kept);
        self.batch.set_headers(self.index, &headers);
    }

    /// Notes whether a function of the chain put an outer IP header before the packet's own.
    #[inline(always)]
    pub fn set_wrapped(&mut self, is_wrapped: bool) {
        self.set_flag(Flags::WRAPPED, is_wrapped);
    }

    /// Notes whether the packet was opened, and not sealed since.
    #[inline(always)]
    pub fn set_opened(&mut self, is_opened: bool) {
        self.set_flag(Flags::OPENED, is_opened);
    }

    #[inline(always)]
    fn set_flag(&mut self, flag: u16, is_set: bool) {
        self.batch.check_write_of(self.index, Field::Kind);
        let flags = &mut self.batch.table.column_mut(HeadersOf)[self.index].flags;
        if is_set { flags.set(flag) } else { flags.clear(flag) }
    }

    /// Finds the headers of a changed frame anew. The flags of [`Flags::KEPT`] stay.
    pub fn reparse(&mut self) {
        self.check_writes(FieldSet::HEADERS);
        self.check_all(FieldSet::PARSED);
        self.batch.find_headers(self.index);
    }

    #[inline(always)]
    fn check_writes(&self, fields: FieldSet) {
        if cfg!(debug_assertions) {
            fields.iter().for_each(|field| self.batch.check_write_of(self.index, field));
        }
    }

    /// Notes the next hop.
    #[inline(always)]
    pub fn set_next_hop(&mut self, next_hop: u16) {
        self.batch.check_write_of(self.index, Field::NextHop);
        self.batch.table.column_mut(NextHop)[self.index] = next_hop;
    }

    /// Writes a scratch word that the instance was handed.
    #[inline(always)]
    pub fn set_scratch(&mut self, word: ScratchWord, value: u32) {
        self.batch.check_write_of(self.index, word.field());
        if let Some(slot) = self.batch.table.scratch_mut(word.0 as usize).get_mut(self.index) {
            *slot = value;
        }
    }

    /// Flags the packet for `after`.
    #[inline(always)]
    pub fn flag(&mut self) {
        self.batch.check_write_of(self.index, Field::Flagged);
        self.batch.has_flagged = true;
        self.batch.table.column_mut(Flagged)[self.index] = 1;
    }

    /// Drops the packet for a reason from the function's list.
    #[inline(always)]
    pub fn drop(&mut self, reason: Reason) {
        self.settle(Verdict::Dropped, reason.0);
    }

    /// Rejects the packet because its headers lie, as ingress found; one whose headers don't is
    /// left alone. Says whether it was rejected.
    #[inline(always)]
    pub fn reject_malformed(&mut self) -> bool {
        match self.malformed() {
            Some(what) => {
                self.settle(Verdict::Malformed, what as u8);
                true
            }
            None => false,
        }
    }

    /// Ends the packet: what it held went into another.
    pub fn absorb(&mut self) {
        self.settle(Verdict::Absorbed, 0);
    }

    /// Sends the packet to the sender of its cause. Of the functions that remain it passes second
    /// places only.
    pub fn send_back(&mut self) {
        self.batch.has_answers = true;
        self.batch.table.column_mut(HeadersOf)[self.index].flags.set(Flags::ANSWER);
        self.settle(Verdict::Return, 0);
    }

    /// The first verdict holds: what left the way is no other function's any more.
    fn settle(&mut self, verdict: Verdict, reason: u8) {
        self.batch.check_write_of(self.index, Field::Verdict);
        if self.batch.table.column(VerdictOf)[self.index] != Verdict::Forward as u8 {
            return;
        }
        self.batch.settled += 1;
        let function = self.batch.function;
        self.batch.table.column_mut(VerdictOf)[self.index] = verdict as u8;
        self.batch.table.column_mut(ReasonOf)[self.index] = reason;
        self.batch.table.column_mut(DroppedBy)[self.index] = function;
    }
}

#[inline(always)]
pub(crate) fn decrement_v4(header: &mut [u8; ipv4::HEADER_LEN]) -> bool {
    let ttl = header[ipv4::field::TTL.start];
    if ttl <= 1 {
        return false;
    }
    header[ipv4::field::TTL.start] = ttl - 1;
    let at = ipv4::field::CHECKSUM.start;
    let old = u16::from_be_bytes([header[at], header[at + 1]]);
    // As `checksum::update16(old, 1 << 8, 0)` in fewer steps: TTL is the upper half of its word,
    // and a carry goes round from 0xfeff on.
    let new = old.wrapping_add(1 << 8).wrapping_add(u16::from(old >= 0xfeff));
    [header[at], header[at + 1]] = new.to_be_bytes();
    true
}

#[inline(always)]
fn decrement_v6(header: &mut [u8; ipv6::HEADER_LEN]) -> bool {
    let hop_limit = &mut header[ipv6::field::HOP_LIMIT.start];
    let has_hops_left = *hop_limit > 1;
    *hop_limit -= u8::from(has_hops_left);
    has_hops_left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_less_is_the_checksum_updated() {
        for old in 0..=u16::MAX {
            let mut header = [0; ipv4::HEADER_LEN];
            header[ipv4::field::TTL.start] = 2;
            header[ipv4::field::CHECKSUM].copy_from_slice(&old.to_be_bytes());
            assert!(decrement_v4(&mut header));
            let new = crate::wire::checksum::update16(old, 1 << 8, 0);
            assert_eq!(header[ipv4::field::CHECKSUM], new.to_be_bytes(), "{old:04x}");
            assert_eq!(header[ipv4::field::TTL], [1]);
            assert!(!decrement_v4(&mut header));
        }
    }
}
