//! Runs of plain packets: whole IPv4 in Ethernet that all continue, processed without checking
//! each.
//!
//! Nearly all traffic is plain. A function that rewrites headers can process a run of such packets
//! with these loops, which read each column once, and everything else through [`crate::PacketMut`].

use core::ops::Range;

use crate::arena::{NextHop, VerdictOf};
use crate::packet_mut::decrement_v4;
use crate::wire::{ethernet, ipv4};
use crate::{Batch, Field, LinkType, ReadWrite, Verdict};

/// Rows of a batch that are whole IPv4 packets on one kind of link, with headers in the same place,
/// and that all continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainRun {
    rows: Range<usize>,
    l3: usize,
}

impl Batch {
    /// The run that `rows` are, if they are one, on `link`.
    #[inline]
    pub fn plain_v4(&self, rows: Range<usize>, link: LinkType) -> Option<PlainRun> {
        let (headers, own_link) = self.table.alike()?;
        let verdicts = self.table.column(VerdictOf).get(rows.clone())?;
        // Without a branch for each, so that many are compared at once.
        let settled = verdicts.iter().fold(0, |any, v| any | (v ^ Verdict::Forward as u8));
        let is_whole = headers.version == 4 && headers.malformed().is_none();
        let plain = settled == 0 && is_whole && own_link == link.0;
        plain.then_some(PlainRun { rows, l3: usize::from(headers.l3) })
    }

    /// The destination addresses of a run, as many as `addresses` holds.
    #[inline]
    pub fn read_dst_v4(&self, run: &PlainRun, addresses: &mut [u32]) {
        self.check_read(Field::DstAddr);
        for (address, frame) in addresses.iter_mut().zip(self.table.frames(run.rows.clone())) {
            let header = frame.get(run.l3..).and_then(<[u8]>::first_chunk);
            *address = header.map_or(0, |header: &[u8; ipv4::HEADER_LEN]| {
                let at = ipv4::field::DST_ADDR.start;
                u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
            });
        }
    }

    /// The headers of a run, to write the fields of `touches`.
    #[inline]
    pub fn plain_v4_mut(
        &mut self,
        run: &PlainRun,
        touches: ReadWrite,
    ) -> impl Iterator<Item = PlainV4<'_>> {
        if cfg!(debug_assertions) {
            touches.reads.iter().for_each(|field| self.check_read(field));
            touches.writes.iter().for_each(|field| self.check_write(field));
        }
        let l3 = run.l3;
        let frames = self.table.frames_mut(run.rows.clone(), NextHop);
        frames.map(move |(frame, next_hop)| PlainV4 { frame, l3, next_hop })
    }
}

/// The headers of a plain IPv4 packet.
#[derive(Debug)]
pub struct PlainV4<'a> {
    frame: &'a mut [u8],
    l3: usize,
    next_hop: &'a mut u16,
}

impl PlainV4<'_> {
    /// The IP header without options.
    #[inline(always)]
    pub fn header(&self) -> Option<&[u8; ipv4::HEADER_LEN]> {
        self.frame.get(self.l3..)?.first_chunk()
    }

    /// Whether the frame is for a group of hosts or all of them, where its link is Ethernet.
    #[inline(always)]
    pub fn is_to_group(&self) -> bool {
        self.frame.first().is_some_and(|byte| byte & 1 == 1)
    }

    /// Decrements the TTL and updates the header checksum (RFC 1624). Returns false and changes
    /// nothing if the TTL is 1 or 0.
    #[inline(always)]
    pub fn decrement_ttl(&mut self) -> bool {
        let header = self.frame.get_mut(self.l3..).unwrap_or(&mut []);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arena, ArenaLayout, Arrival, FieldSet, Headers, HeapMemory, Instant};

    const COUNT: usize = 5;

    fn frame(last: u8, ttl: u8) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        frame.extend([0x45, 0, 0, 28, 0, 0, 0, 0, ttl, 17, 0, 0, 10, 0, 0, 1, 192, 0, 2, last]);
        frame.extend([0, 53, 0, 53, 0, 8, 0, 0]);
        frame
    }

    fn batch(frames: &[Vec<u8>]) -> (Batch, Arena) {
        let layout = ArenaLayout {
            slabs: 1,
            emit_slabs: 0,
            tables: 1,
            slots: 64,
            scratch_words: 0,
            headroom: 0,
            tailroom: 0,
        };
        let memory = HeapMemory::new(layout.memory_len()).unwrap();
        let mut arena = Arena::new(Box::new(memory), &layout).unwrap();
        let mut batch = Batch::new(arena.tables.remove(0));
        for (number, bytes) in frames.iter().enumerate() {
            let arrival = Arrival {
                timestamp: Instant::ZERO,
                captured: Instant::ZERO,
                ingress: number as u64,
                wire_len: bytes.len() as u32,
                link: LinkType::ETHERNET,
                interface: 0,
                shard: 0,
                flow_hash: 0,
            };
            let headers = Headers::parse(bytes, LinkType::ETHERNET, bytes.len());
            batch.push(bytes, &headers, &arrival, &mut arena.ingress).unwrap();
        }
        (batch, arena)
    }

    #[test]
    fn a_run_is_worked_on_as_its_packets_would_be() {
        let frames: Vec<_> = (0..COUNT).map(|i| frame(i as u8, i as u8)).collect();
        let (mut batch, _arena) = batch(&frames);
        let run = |batch: &Batch, rows| batch.plain_v4(rows, LinkType::ETHERNET);
        let mut addresses = [0; COUNT];
        batch.read_dst_v4(&run(&batch, 1..COUNT).unwrap(), &mut addresses);
        assert_eq!(addresses, [0xc000_0201, 0xc000_0202, 0xc000_0203, 0xc000_0204, 0]);
        let all = ReadWrite::new(FieldSet::EMPTY, FieldSet::EMPTY);
        assert_eq!(run(&batch, 0..COUNT + 9), None);
        let whole = run(&batch, 0..COUNT).unwrap();
        let mut headers: Vec<_> = batch.plain_v4_mut(&whole, all).collect();
        assert_eq!(headers.len(), COUNT);
        let went_on: Vec<bool> = headers.iter_mut().map(PlainV4::decrement_ttl).collect();
        assert_eq!(went_on, [false, false, true, true, true]);
        headers.iter_mut().for_each(|header| header.set_eth_addresses([7; 6], [8; 6]));
        headers[3].set_next_hop(9);
        drop(headers);
        for index in 0..COUNT {
            let packet = batch.packet(index);
            assert_eq!((packet.eth_dst(), packet.eth_src()), ([7; 6], [8; 6]));
            assert_eq!(usize::from(packet.ttl()), if index < 2 { index } else { index - 1 });
            assert_eq!(packet.next_hop(), if index == 3 { 9 } else { 0 });
        }
    }

    #[test]
    fn one_that_differs_makes_a_run_not_plain() {
        let mut others = vec![frame(1, 9); 3];
        others[0][12..14].copy_from_slice(&[0x86, 0xdd]);
        others[1][14] = 0x44;
        others[2].truncate(13);
        for other in others {
            let (batch, _arena) = batch(&[frame(0, 9), other]);
            assert_eq!(batch.plain_v4(0..1, LinkType::ETHERNET), None, "the batch is not alike");
        }
        let (mut batch, _arena) = batch(&[frame(0, 9), frame(1, 9)]);
        assert_eq!(batch.plain_v4(0..2, LinkType::RAW), None);
        assert!(batch.plain_v4(0..2, LinkType::ETHERNET).is_some());
        batch.packet_mut(1).send_back();
        assert!(batch.plain_v4(0..1, LinkType::ETHERNET).is_some());
        assert_eq!(batch.plain_v4(0..2, LinkType::ETHERNET), None);
        batch.packet_mut(0).reparse();
        assert_eq!(batch.plain_v4(0..1, LinkType::ETHERNET), None, "its headers may have changed");
    }
}
