//! Runs of plain packets: whole IPv4 in Ethernet that all go on, worked on without asking each.
//!
//! Nearly all traffic is plain. A function that rewrites headers can take a run of such packets through
//! these loops, which read each column once, and everything else through [`crate::PacketMut`].

use core::ops::Range;

use crate::arena::{L3, Link, MalformedOf, NextHop, VerdictOf, Version};
use crate::packet_mut::decrement_v4;
use crate::wire::{ethernet, ipv4};
use crate::{Batch, Field, LinkType, ReadWrite, Verdict};

impl Batch {
    /// Whether all of `rows` are whole IPv4 packets in Ethernet that go to the next function.
    #[inline]
    pub fn is_plain_v4(&self, rows: Range<usize>) -> bool {
        let table = &self.table;
        let (Some(verdicts), Some(versions), Some(malformed), Some(links)) = (
            table.column(VerdictOf).get(rows.clone()),
            table.column(Version).get(rows.clone()),
            table.column(MalformedOf).get(rows.clone()),
            table.column(Link).get(rows),
        ) else {
            return false;
        };
        // Without a branch for each, so that many are compared at once.
        let differ = |column: &[u8], value: u8| column.iter().fold(0, |any, v| any | (v ^ value));
        let other = links.iter().fold(0, |any, link| any | (link ^ LinkType::ETHERNET.0));
        let same =
            differ(verdicts, Verdict::Forward as u8) | differ(versions, 4) | differ(malformed, 0);
        same == 0 && other == 0
    }

    /// The destination addresses of plain IPv4 packets, as many as `addresses` holds.
    #[inline]
    pub fn read_dst_v4(&self, rows: Range<usize>, addresses: &mut [u32]) {
        self.check_read(Field::DstAddr);
        let offsets = self.table.column(L3).get(rows.clone()).unwrap_or(&[]);
        let frames = self.table.frames(rows);
        for ((address, frame), &l3) in addresses.iter_mut().zip(frames).zip(offsets) {
            let header = frame.get(usize::from(l3)..).and_then(<[u8]>::first_chunk);
            *address = header.map_or(0, |header: &[u8; ipv4::HEADER_LEN]| {
                let at = ipv4::field::DST_ADDR.start;
                u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
            });
        }
    }

    /// The headers of plain IPv4 packets, to write what `touches` says.
    #[inline]
    pub fn plain_v4_mut(
        &mut self,
        rows: Range<usize>,
        touches: ReadWrite,
    ) -> impl Iterator<Item = PlainV4<'_>> {
        if cfg!(debug_assertions) {
            touches.reads.iter().for_each(|field| self.check_read(field));
            touches.writes.iter().for_each(|field| self.check_write(field));
        }
        let frames = self.table.frames_mut(rows, (L3, NextHop));
        frames.map(|(frame, l3, next_hop)| PlainV4 { frame, l3, next_hop })
    }
}

/// The headers of a plain IPv4 packet.
#[derive(Debug)]
pub struct PlainV4<'a> {
    frame: &'a mut [u8],
    l3: u16,
    next_hop: &'a mut u16,
}

impl PlainV4<'_> {
    /// Takes one off the TTL and mends the header checksum (RFC 1624). Where the TTL is 1 or 0, nothing
    /// changes and the answer is no.
    #[inline(always)]
    pub fn decrement_ttl(&mut self) -> bool {
        let header = self.frame.get_mut(usize::from(self.l3)..).unwrap_or(&mut []);
        header.first_chunk_mut().is_some_and(decrement_v4)
    }

    /// Writes both Ethernet addresses.
    #[inline(always)]
    pub fn set_eth_addresses(&mut self, dst: [u8; 6], src: [u8; 6]) {
        if let Some(header) = self.frame.first_chunk_mut::<12>() {
            header[ethernet::field::DST].copy_from_slice(&dst);
            header[ethernet::field::SRC].copy_from_slice(&src);
        }
    }

    /// Notes the next hop.
    #[inline(always)]
    pub fn set_next_hop(&mut self, next_hop: u16) {
        *self.next_hop = next_hop;
    }
}
