//! Properties of a packet in the columns of its batch: lengths, positions of headers, times,
//! verdict.

use core::ops::Deref;

use super::{PacketView, ScratchWord};
use crate::arena::{
    Captured, DroppedBy, Flagged, FlowHash, Ingress, Interface, Link, NextHop, ReasonOf, ShardOf,
    Timestamp, VerdictOf, WireLen,
};
use crate::wire::{Ipv6, Malformed, ipv6};
use crate::{Arrival, Batch, Field, FieldSet, Headers, Instant, LinkType, Reason, Verdict};

impl<B: Deref<Target = Batch>> PacketView<B> {
    /// Length of the frame in bytes.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.check(Field::Len);
        self.batch.table.frame_len(self.index)
    }

    /// Whether the frame has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Length on the wire in bytes.
    pub fn wire_len(&self) -> usize {
        self.check(Field::Len);
        self.batch.table.column(WireLen)[self.index] as usize
    }

    /// Bytes of the IP packet on the wire, its header included. The frame must carry IP.
    #[inline(always)]
    pub fn ip_wire_len(&self) -> usize {
        let fixed = if self.version() == 6 { ipv6::HEADER_LEN } else { 0 };
        match usize::from(self.ip_len()) {
            0 => self.unsaid_len(),
            len => fixed + len,
        }
    }

    /// The length of a packet without a length in its header, as ingress found it.
    #[cold]
    fn unsaid_len(&self) -> usize {
        let l3 = self.l3_offset();
        let wire_len = self.wire_len().max(self.len()).saturating_sub(l3);
        let read = FieldSet::of(&[Field::IpLen, Field::IpProtocol, Field::IpOptions]);
        match (self.version(), self.frame_for(read).get(l3..)) {
            (6, Some(packet)) if packet.len() >= ipv6::HEADER_LEN => {
                Ipv6::new_unchecked(packet).packet_len(wire_len)
            }
            _ => wire_len,
        }
    }

    /// Start of the IP header in the frame.
    #[inline(always)]
    pub fn l3_offset(&self) -> usize {
        self.check(Field::L3Offset);
        usize::from(self.batch.headers(self.index).l3)
    }

    /// Start of the transport header in the frame.
    #[inline(always)]
    pub fn l4_offset(&self) -> usize {
        self.check(Field::L4Offset);
        usize::from(self.batch.headers(self.index).l4)
    }

    /// Start of the payload in the frame.
    #[inline(always)]
    pub fn payload_offset(&self) -> usize {
        self.check(Field::PayloadOffset);
        usize::from(self.batch.headers(self.index).payload)
    }

    /// End of the IP packet in the frame, as far as captured.
    #[inline(always)]
    pub fn ip_end(&self) -> usize {
        self.check(Field::PayloadOffset);
        self.batch.headers(self.index).end as usize
    }

    /// 4, 6, or 0 for what is not IP.
    #[inline(always)]
    pub fn version(&self) -> u8 {
        self.check(Field::Kind);
        self.batch.headers(self.index).version
    }

    /// Source and destination of an IP packet.
    #[inline]
    pub fn addresses(&self) -> (u128, u128) {
        match self.version() {
            4 => (self.src_v4().into(), self.dst_v4().into()),
            _ => (self.src_v6(), self.dst_v6()),
        }
    }

    /// The protocol after the last IP header; 0 for packets that are not IP.
    #[inline(always)]
    pub fn protocol(&self) -> u8 {
        self.check(Field::Kind);
        self.batch.headers(self.index).protocol
    }

    /// Whether any of these [`Flags`](crate::Flags) was found.
    #[inline(always)]
    pub fn has(&self, bits: u16) -> bool {
        self.check(Field::Kind);
        self.batch.flags(self.index).has(bits)
    }

    /// Which header lies, if one does.
    #[inline(always)]
    pub fn malformed(&self) -> Option<Malformed> {
        self.check(Field::Kind);
        self.batch.headers(self.index).malformed()
    }

    /// The kind of the first header.
    #[inline(always)]
    pub fn link(&self) -> LinkType {
        self.check(Field::Kind);
        LinkType(self.batch.table.column(Link)[self.index])
    }

    /// The packet's time.
    #[inline(always)]
    pub fn timestamp(&self) -> Instant {
        self.check(Field::Timestamp);
        Instant::from_nanos(self.batch.table.column(Timestamp)[self.index])
    }

    /// The packet's own time, as it was captured.
    pub fn captured(&self) -> Instant {
        self.check(Field::Timestamp);
        Instant::from_nanos(self.batch.table.column(Captured)[self.index])
    }

    /// The packet's number in the chain's input; a packet that was made has its cause's.
    #[inline(always)]
    pub fn ingress(&self) -> u64 {
        self.check(Field::Ingress);
        self.batch.table.column(Ingress)[self.index]
    }

    /// The interface it came in on.
    pub fn interface(&self) -> u16 {
        self.check(Field::Ingress);
        self.batch.table.column(Interface)[self.index]
    }

    /// The shard that serves it.
    pub fn shard(&self) -> u8 {
        self.check(Field::Shard);
        self.batch.table.column(ShardOf)[self.index]
    }

    /// The flow's name: a hash that both directions share.
    #[inline(always)]
    pub fn flow_hash(&self) -> u32 {
        self.check(Field::FlowHash);
        self.batch.table.column(FlowHash)[self.index]
    }

    /// The next hop that a router chose; 0 for none.
    #[inline(always)]
    pub fn next_hop(&self) -> u16 {
        self.batch.check_read_of(self.index, Field::NextHop);
        self.batch.table.column(NextHop)[self.index]
    }

    /// A scratch word; 0 where the chain handed out fewer.
    #[inline(always)]
    pub fn scratch(&self, word: ScratchWord) -> u32 {
        self.batch.check_read_of(self.index, word.field());
        self.batch.table.scratch(word.0 as usize).get(self.index).copied().unwrap_or(0)
    }

    /// Whether it was flagged for `after`.
    #[inline(always)]
    pub fn is_flagged(&self) -> bool {
        self.batch.check_read_of(self.index, Field::Flagged);
        self.batch.table.column(Flagged)[self.index] != 0
    }

    /// How it left the functions so far.
    #[inline(always)]
    pub fn verdict(&self) -> Verdict {
        self.check(Field::Verdict);
        Verdict::from_u8(self.batch.table.column(VerdictOf)[self.index])
    }

    /// Why it was dropped, where it was.
    pub fn reason(&self) -> Reason {
        self.check(Field::Verdict);
        Reason(self.batch.table.column(ReasonOf)[self.index])
    }

    /// The function that settled it, by its position in the chain.
    pub fn settled_by(&self) -> u8 {
        self.check(Field::Verdict);
        self.batch.table.column(DroppedBy)[self.index]
    }

    /// Whether any of `words` is not 0.
    pub fn has_any(&self, words: &[ScratchWord]) -> bool {
        let value = |word: &ScratchWord| self.batch.table.scratch(word.0.into()).get(self.index);
        words.iter().filter_map(value).any(|&value| value != 0)
    }

    /// Its arrival, for a packet that it causes. Shard and flow hash are 0: the made packet gets
    /// its own.
    pub fn arrival(&self) -> Arrival {
        Arrival {
            timestamp: self.timestamp(),
            captured: self.captured(),
            ingress: self.ingress(),
            wire_len: self.wire_len() as u32,
            link: self.link(),
            interface: self.interface(),
            shard: 0,
            flow_hash: 0,
        }
    }

    /// The headers as ingress found them, or as a function changed them.
    pub fn headers(&self) -> Headers {
        self.check_all(FieldSet::HEADERS);
        *self.batch.headers(self.index)
    }
}
