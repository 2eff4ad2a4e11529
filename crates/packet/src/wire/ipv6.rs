//! The IPv6 header (RFC 8200). [`ipv6_ext`] walks the headers after it.

use super::be::{Value, clamped, clamped_mut};
use super::{Malformed, ip_protocol, ipv6_ext};
use core::net::Ipv6Addr;

/// Bytes of the header, without extension headers.
pub const HEADER_LEN: usize = 40;

/// Bytes that may follow a header with no payload: a minimum Ethernet frame of 64 bytes has 10 with
/// its checksum.
const PADDING_MAX: usize = 10;

view! {
    /// A view of an IPv6 packet.
    Ipv6 in field;
    /// Version (4 bits), traffic class (8 bits), flow label (20 bits).
    VER_TC_FLOW = 0..4;
    /// Bytes after this header, extension headers included, as it has them; see `packet_len` for 0.
    PAYLOAD_LEN payload_len / set_payload_len: u16 = 4..6;
    /// The bytes after this header (see `ip_protocol`).
    NEXT_HEADER next_header / set_next_header: u8 = 6..7;
    /// Hop limit.
    HOP_LIMIT hop_limit / set_hop_limit: u8 = 7..8;
    /// Source address.
    SRC_ADDR src_addr / set_src_addr: Ipv6Addr = 8..24;
    /// Destination address.
    DST_ADDR dst_addr / set_dst_addr: Ipv6Addr = 24..40;
}

impl<T: AsRef<[u8]>> Ipv6<T> {
    /// Checks that the packet is all there; link padding may follow it.
    #[inline]
    pub fn check_len(&self) -> Result<(), Malformed> {
        self.check_within(self.buffer.as_ref().len())
    }

    /// Checks a packet that had `wire_len` bytes on the wire, link padding included. The buffer may
    /// hold fewer but must include the header.
    #[inline(always)]
    pub fn check_within(&self, wire_len: usize) -> Result<(), Malformed> {
        self.check_start()?;
        let lies = self.packet_len(wire_len) > wire_len;
        if lies { Err(Malformed::Ipv6PayloadLen) } else { Ok(()) }
    }

    /// Checks the header alone. That is all that can be checked of a packet quoted by an ICMP
    /// error, which may end anywhere after.
    #[inline(always)]
    pub fn check_start(&self) -> Result<(), Malformed> {
        if self.buffer.as_ref().len() < HEADER_LEN {
            return Err(Malformed::Ipv6Truncated);
        }
        if self.version() != 6 { Err(Malformed::Ipv6Version) } else { Ok(()) }
    }

    /// Version, 6 if it is IPv6.
    #[inline]
    pub fn version(&self) -> u8 {
        (self.ver_tc_flow() >> 28) as u8
    }

    /// Traffic class: differentiated services and congestion notification.
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        (self.ver_tc_flow() >> 20) as u8
    }

    /// Flow label, 20 bits.
    #[inline]
    pub fn flow_label(&self) -> u32 {
        self.ver_tc_flow() & 0x000f_ffff
    }

    /// Bytes of this header and the rest of the packet. The packet had `wire_len` bytes on the
    /// wire.
    ///
    /// If the payload length is 0, the jumbo payload option counts (RFC 2675, 2). Without the
    /// option the frame counts, as for [`Ipv4::packet_len`](super::Ipv4::packet_len). A few bytes
    /// are padding, not a packet.
    #[inline(always)]
    pub fn packet_len(&self, wire_len: usize) -> usize {
        match usize::from(self.payload_len()) {
            0 => self.unsaid_len(wire_len),
            payload_len => HEADER_LEN + payload_len,
        }
    }

    #[cold]
    fn unsaid_len(&self, wire_len: usize) -> usize {
        if let Some(jumbo_len) = self.jumbo_len() {
            return HEADER_LEN.saturating_add(jumbo_len as usize);
        }
        if wire_len <= HEADER_LEN + PADDING_MAX { HEADER_LEN } else { wire_len }
    }

    /// The value of the jumbo payload option, if the buffer has it.
    fn jumbo_len(&self) -> Option<u32> {
        if self.next_header() != ip_protocol::HOP_BY_HOP {
            return None;
        }
        let header = self.buffer.as_ref().get(HEADER_LEN..)?;
        let len = ipv6_ext::HEADER_LEN * (usize::from(*header.get(1)?) + 1);
        let mut options = ipv6_ext::options(header.get(2..len.min(header.len()))?);
        let (_, value) = options.find(|&(kind, _)| kind == ipv6_ext::option::JUMBO)?;
        value.try_into().ok().map(u32::from_be_bytes)
    }

    /// The bytes after this header, as much as belongs to the packet and the buffer has.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        let bytes = self.buffer.as_ref();
        clamped(bytes, HEADER_LEN, self.packet_len(bytes.len()))
    }

    /// Walks over the extension headers of a complete packet to the header after them.
    ///
    /// # Errors
    /// Those of [`ipv6_ext::walk`].
    #[inline]
    pub fn extensions(&self) -> Result<ipv6_ext::Chain, Malformed> {
        self.extensions_within(self.buffer.as_ref().len())
    }

    /// The same for a packet that had `wire_len` bytes on the wire. One without payload has no
    /// extension headers, whatever the next header is.
    ///
    /// # Errors
    /// Those of [`ipv6_ext::walk`].
    #[inline]
    pub fn extensions_within(&self, wire_len: usize) -> Result<ipv6_ext::Chain, Malformed> {
        let packet_len = self.packet_len(wire_len);
        if packet_len == HEADER_LEN {
            return Ok(ipv6_ext::Chain::of_none(self.next_header()));
        }
        ipv6_ext::walk(self.next_header(), self.buffer.as_ref(), packet_len)
    }

    #[inline]
    fn ver_tc_flow(&self) -> u32 {
        Value::get(self.buffer.as_ref(), field::VER_TC_FLOW)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Ipv6<T> {
    /// Sets version 6, the traffic class and the low 20 bits of the flow label.
    #[inline]
    pub fn set_class_and_flow(&mut self, traffic_class: u8, flow_label: u32) {
        let word = 6_u32 << 28 | u32::from(traffic_class) << 20 | flow_label & 0x000f_ffff;
        word.set(self.buffer.as_mut(), field::VER_TC_FLOW);
    }

    /// The bytes after this header, to write.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let end = self.packet_len(self.buffer.as_ref().len());
        clamped_mut(self.buffer.as_mut(), HEADER_LEN, end)
    }
}
