//! Parses a frame once, at ingress, while its header is in the cache.
//!
//! [`Headers::parse`] walks link, IP and transport headers and checks every length that later
//! accessors rely on. It uses the checks of the views of [`wire`](crate::wire), so quoted, inner
//! and reassembled packets are judged like received ones. The results become columns of the batch.
//! A frame with a wrong header is not refused here. It is marked [`Malformed`], and each function's
//! manual states what it does with it.

mod usual;

use core::hint::cold_path;

use crate::link::FAMILY_LEN;
use crate::wire::{
    Esp, Ethernet, Icmpv4, Icmpv6, Ipv4, Ipv6, Malformed, Sll, Sll2, Tcp, Udp, Vlan, esp, ethernet,
    ethertype, icmpv4, icmpv6, ip_protocol, ipv4, ipv6, sll, udp, vlan,
};
use crate::{Flags, LinkType};

/// VLAN tags that are looked through: 802.1Q, QinQ and one more.
const VLAN_TAGS_MAX: usize = 3;

/// Where a frame's headers lie and what they are. Offsets are from the frame's first byte.
///
/// 16 bytes, a column of the batch: what is known of a packet's headers is read and copied as one.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// End of the IP packet as far as it was captured; the frame's where it is not IP.
    pub end: u32,
    /// Start of the IP header; the end of the link header where it is not IP.
    pub l3: u16,
    /// Start of the transport header; where it would be when the packet has none.
    pub l4: u16,
    /// Start of the payload after the transport header.
    pub payload: u16,
    /// Other findings.
    pub flags: Flags,
    /// 4, 6, or 0 for what is not IP.
    pub version: u8,
    /// The protocol after the last IP header, as IANA numbers it; 0 if it is not IP.
    pub protocol: u8,
    /// The number of the malformed header's reason; 0 if there is none.
    lie: u8,
    unused: u8,
}

const _: () = assert!(size_of::<Headers>() == 16);

/// IPv4, and IPv6 on Linux, NetBSD, FreeBSD and macOS.
const IP_FAMILIES: [u32; 5] = [2, 10, 24, 28, 30];

impl Headers {
    /// The headers of `frame`, which was `wire_len` bytes long on the wire.
    #[inline]
    pub fn parse(frame: &[u8], link: LinkType, wire_len: usize) -> Self {
        let mut headers = Self::default();
        headers.find(frame, link, wire_len);
        headers
    }

    /// Finds the headers of `frame`, which was `wire_len` bytes long on the wire; `self` is the
    /// default. They are written in place: copying small pieces that were just written stalls a
    /// processor.
    #[inline(always)]
    pub fn find(&mut self, frame: &[u8], link: LinkType, wire_len: usize) {
        if link != LinkType::ETHERNET || wire_len > frame.len() {
            cold_path();
        } else if let Some(plain) = Self::plain(frame) {
            *self = plain;
            return;
        }
        self.find_any(frame, link, wire_len);
    }

    #[inline(always)]
    fn find_any(&mut self, frame: &[u8], link: LinkType, wire_len: usize) {
        self.end = frame.len() as u32;
        let wire_len = wire_len.max(frame.len());
        if wire_len > frame.len() {
            self.flags.set(Flags::SNAPPED);
        }
        if let Err(what) = self.walk(frame, link, wire_len) {
            self.fail(what);
        }
    }

    fn fail(&mut self, what: Malformed) {
        // A header that the capture cut off is not a header that lies.
        let cut = self.flags.has(Flags::SNAPPED) && is_truncation(what);
        self.lie = if cut { 0 } else { what as u8 };
        if cut && self.version == 0 {
            self.flags.set(Flags::IP_CUT);
        }
    }

    /// Which header lies, if one does.
    #[inline(always)]
    pub fn malformed(&self) -> Option<Malformed> {
        Malformed::from_u8(self.lie)
    }

    /// The identifiers of the VLAN tags of `frame`, whose headers these are: 12 bits each, the
    /// outermost's lowest. 0 if there are none. A tag that only carries a priority has identifier
    /// 0, too (802.1Q, 9.6).
    #[inline(always)]
    pub fn vlan_ids(&self, frame: &[u8]) -> u64 {
        if self.flags.has(Flags::VLAN) { vlan_ids(frame, self.l3) } else { 0 }
    }

    /// Where the number of the header that lies is in its 16 bytes.
    pub(crate) const LIE_AT: usize = core::mem::offset_of!(Self, lie);

    /// The number of the header that lies, or 0.
    #[inline(always)]
    pub(crate) fn lie(&self) -> u8 {
        self.lie
    }

    /// Headers from 16 bytes, as they lie in memory.
    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l, version, protocol, lie, unused] = bytes;
        Self {
            end: u32::from_ne_bytes([a, b, c, d]),
            l3: u16::from_ne_bytes([e, f]),
            l4: u16::from_ne_bytes([g, h]),
            payload: u16::from_ne_bytes([i, j]),
            flags: Flags(u16::from_ne_bytes([k, l])),
            version,
            protocol,
            lie,
            unused,
        }
    }

    /// All of it in two words, as they lie in memory.
    pub(crate) fn words(&self) -> [u64; 2] {
        let [a, b, c, d] = self.end.to_ne_bytes();
        let ([e, f], [g, h]) = (self.l3.to_ne_bytes(), self.l4.to_ne_bytes());
        let ([i, j], [k, l]) = (self.payload.to_ne_bytes(), self.flags.0.to_ne_bytes());
        let low = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
        let kinds = [self.version, self.protocol, self.lie, self.unused];
        [low, u64::from_ne_bytes([i, j, k, l, kinds[0], kinds[1], kinds[2], kinds[3]])]
    }

    /// Its part for [`crate::Field::Kind`], in 40 bits.
    pub(crate) fn kind(&self) -> u64 {
        let flags = self.flags.0.to_le_bytes();
        u64::from_le_bytes([self.version, self.protocol, self.lie, flags[0], flags[1], 0, 0, 0])
    }

    /// Writes what [`Headers::kind`] gave.
    pub(crate) fn set_kind(&mut self, kind: u64) {
        let [version, protocol, lie, low, high, ..] = kind.to_le_bytes();
        (self.version, self.protocol, self.lie) = (version, protocol, lie);
        self.flags = Flags(u16::from_le_bytes([low, high]));
    }

    /// Whether fields of fixed length lie in the same places as in a frame with these headers.
    #[inline(always)]
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let ([a, b], [c, d]) = (self.words(), other.words());
        ((a ^ c) & Self::PLACES[0]) | ((b ^ d) & Self::PLACES[1]) == 0
    }

    /// The bits of [`Headers::words`] with the positions of fields of fixed length: the starts of
    /// headers, flags, version and protocol.
    const PLACES: [u64; 2] = [
        u64::from_ne_bytes([0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]),
        u64::from_ne_bytes([0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0]),
    ];

    /// The bits of [`Headers::words`] that distinguish packets whose headers are read in different
    /// ways: version, start and error.
    pub(crate) const SHAPE: [u64; 2] = [
        u64::from_ne_bytes([0, 0, 0, 0, 0xff, 0xff, 0, 0]),
        u64::from_ne_bytes([0, 0, 0, 0, 0xff, 0, 0xff, 0]),
    ];

    #[inline(always)]
    fn walk(&mut self, frame: &[u8], link: LinkType, wire_len: usize) -> Result<(), Malformed> {
        let kind = match link {
            LinkType::ETHERNET => self.ethernet(frame)?,
            _ => self.other_link(frame, link)?,
        };
        match kind {
            ethertype::IPV4 => self.ipv4(frame, wire_len),
            ethertype::IPV6 => self.ipv6(frame, wire_len),
            _ => Ok(()),
        }
    }

    /// The ethertype of the header after the link header; 0 if it has none.
    #[inline(never)]
    fn other_link(&mut self, frame: &[u8], link: LinkType) -> Result<u16, Malformed> {
        let (header_len, kind) = match link {
            LinkType::LINUX_SLL => (sll::HEADER_LEN, Some(Sll::new_checked(frame)?.ethertype())),
            LinkType::LINUX_SLL2 => {
                (sll::HEADER_LEN_V2, Some(Sll2::new_checked(frame)?.ethertype()))
            }
            LinkType::IPV4 => (0, Some(ethertype::IPV4)),
            LinkType::IPV6 => (0, Some(ethertype::IPV6)),
            LinkType::RAW => (0, frame.first().map(version_kind)),
            LinkType::NULL | LinkType::LOOP => (FAMILY_LEN, loopback_kind(frame)),
            _ => return Ok(0),
        };
        if frame.len() < header_len {
            return Err(Malformed::LinkTruncated);
        }
        self.l3 = header_len as u16;
        kind.ok_or(Malformed::LinkTruncated)
    }

    #[inline(always)]
    fn ethernet(&mut self, frame: &[u8]) -> Result<u16, Malformed> {
        let kind = Ethernet::new_checked(frame)?.ethertype();
        self.l3 = ethernet::HEADER_LEN as u16;
        if kind == ethertype::IPV4 || !ethertype::is_vlan(kind) {
            return Ok(kind);
        }
        self.vlan_tags(frame, kind)
    }

    #[inline(never)]
    fn vlan_tags(&mut self, frame: &[u8], mut kind: u16) -> Result<u16, Malformed> {
        let mut at = ethernet::HEADER_LEN;
        for _ in 0..VLAN_TAGS_MAX {
            if !ethertype::is_vlan(kind) {
                break;
            }
            self.flags.set(Flags::VLAN);
            let tag = Vlan::new_checked(&frame[at..]).inspect_err(|_| self.l3 = 0)?;
            kind = tag.ethertype();
            at += vlan::HEADER_LEN;
        }
        self.l3 = at as u16;
        Ok(kind)
    }

    #[inline(always)]
    fn ipv4(&mut self, frame: &[u8], wire_len: usize) -> Result<(), Malformed> {
        let l3 = self.l3 as usize;
        let packet = Ipv4::new_unchecked(&frame[l3..]);
        packet.check_within(wire_len - l3)?;
        let (header_len, total_len) = (packet.header_len(), packet.packet_len(wire_len - l3));
        self.version = 4;
        self.protocol = packet.protocol();
        if header_len > ipv4::HEADER_LEN {
            self.flags.set(Flags::IP_OPTIONS);
        }
        self.ip_body(l3 + header_len, l3 + total_len, frame);
        self.fragment(packet.fragment_offset(), packet.more_fragments());
        self.transport(frame, l3 + total_len)
    }

    #[inline]
    fn ipv6(&mut self, frame: &[u8], wire_len: usize) -> Result<(), Malformed> {
        let l3 = self.l3 as usize;
        let packet = Ipv6::new_unchecked(&frame[l3..]);
        packet.check_within(wire_len - l3)?;
        let whole = packet.packet_len(wire_len - l3);
        self.version = 6;
        self.protocol = packet.next_header();
        self.ip_body(l3 + ipv6::HEADER_LEN, l3 + whole, frame);
        // Nothing follows the header, whatever was to come: no header lies there.
        if whole == ipv6::HEADER_LEN {
            return Ok(());
        }
        if ip_protocol::is_extension(self.protocol) && !self.extensions(&packet, wire_len - l3)? {
            return Ok(());
        }
        self.transport(frame, l3 + whole)
    }

    /// Says whether the capture has what follows the extension headers.
    #[cold]
    fn extensions(&mut self, packet: &Ipv6<&[u8]>, wire_len: usize) -> Result<bool, Malformed> {
        let chain = packet.extensions_within(wire_len)?;
        self.flags.set(Flags::IP_OPTIONS);
        self.protocol = chain.protocol;
        self.l4 = (usize::from(self.l3) + chain.offset) as u16;
        self.payload = self.l4;
        if let Some(fragment) = chain.fragment {
            self.fragment(usize::from(fragment.offset), fragment.more);
        }
        Ok(!chain.cut)
    }

    fn ip_body(&mut self, l4: usize, end: usize, frame: &[u8]) {
        self.l4 = l4 as u16;
        self.payload = self.l4;
        self.end = end.min(frame.len()) as u32;
    }

    fn fragment(&mut self, offset: usize, more: bool) {
        if offset > 0 || more {
            self.flags.set(Flags::FRAGMENT);
        }
        if offset > 0 {
            self.flags.set(Flags::LATER_FRAGMENT);
        }
    }

    /// The transport header; `wire_end` is where the IP packet ends on the wire.
    #[inline(always)]
    fn transport(&mut self, frame: &[u8], wire_end: usize) -> Result<(), Malformed> {
        if self.flags.has(Flags::LATER_FRAGMENT) {
            return Ok(());
        }
        let l4 = usize::from(self.l4);
        let body = &frame[l4.min(self.end as usize)..self.end as usize];
        let wire_len = wire_end.saturating_sub(l4);
        let header_len = match self.protocol {
            ip_protocol::TCP => {
                let segment = Tcp::new_unchecked(body);
                segment.check_within(wire_len)?;
                segment.header_len()
            }
            ip_protocol::UDP => {
                // Of a first fragment the rest comes later.
                let is_whole = !self.flags.has(Flags::FRAGMENT);
                let len_max = if is_whole { wire_len } else { usize::from(u16::MAX) };
                Udp::new_unchecked(body).check_within(len_max)?;
                udp::HEADER_LEN
            }
            ip_protocol::ICMP if self.version == 4 => {
                Icmpv4::new_unchecked(body).check_len()?;
                icmpv4::HEADER_LEN
            }
            ip_protocol::ICMPV6 if self.version == 6 => {
                Icmpv6::new_unchecked(body).check_len()?;
                icmpv6::HEADER_LEN
            }
            ip_protocol::ESP => {
                Esp::new_unchecked(body).check_len()?;
                esp::HEADER_LEN
            }
            _ => return Ok(()),
        };
        self.flags.set(Flags::TRANSPORT);
        self.payload = (l4 + header_len) as u16;
        Ok(())
    }
}

/// See [`Headers::vlan_ids`]; the tags end at `l3`.
#[cold]
fn vlan_ids(frame: &[u8], l3: u16) -> u64 {
    let tags = frame.get(ethernet::HEADER_LEN..l3.into()).unwrap_or(&[]);
    tags.chunks_exact(vlan::HEADER_LEN)
        .rev()
        .fold(0, |ids, tag| ids << 12 | u64::from(Vlan::new_unchecked(tag).vid()))
}

fn is_truncation(what: Malformed) -> bool {
    use Malformed::*;
    matches!(
        what,
        LinkTruncated
            | VlanTruncated
            | Ipv4Truncated
            | Ipv6Truncated
            | TcpTruncated
            | UdpTruncated
            | IcmpTruncated
            | EspTruncated
    )
}

/// The ethertype of an IP packet by its first byte.
fn version_kind(byte: &u8) -> u16 {
    match byte >> 4 {
        4 => ethertype::IPV4,
        6 => ethertype::IPV6,
        _ => 0,
    }
}

/// The protocol that a loopback carries. Numbers of IP families differ between systems; the
/// packet's version doesn't.
fn loopback_kind(frame: &[u8]) -> Option<u16> {
    let family: [u8; FAMILY_LEN] = *frame.first_chunk()?;
    let is_ip = |family: u32| IP_FAMILIES.contains(&family);
    if !is_ip(u32::from_le_bytes(family)) && !is_ip(u32::from_be_bytes(family)) {
        return Some(0);
    }
    frame.get(FAMILY_LEN).map(version_kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vlan_ids_are_those_of_all_tags() {
        let ids = |tags: &[u8]| {
            let ip = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 253, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
            let frame = [&[0; 12], tags, &[8, 0], &ip].concat();
            Headers::parse(&frame, LinkType::ETHERNET, frame.len()).vlan_ids(&frame)
        };
        assert_eq!(ids(&[]), 0);
        assert_eq!(ids(&[0x81, 0, 0xef, 0xff]), 0xfff);
        assert_eq!(ids(&[0x81, 0, 0xe0, 0]), 0);
        assert_eq!(ids(&[0x88, 0xa8, 0, 2, 0x81, 0, 0x20, 3]), 0x3002);
        assert_eq!(ids(&[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 0x81, 0, 0, 3]), 0x0300_2001);
    }

    #[test]
    fn loopbacks_carry_ip_by_the_family_of_any_system() {
        let v4 = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 253, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let version = |family: [u8; 4], link| {
            let frame = [&family[..], &v4].concat();
            let headers = Headers::parse(&frame, link, frame.len());
            (headers.version, headers.l3, headers.malformed())
        };
        for (family, link) in [
            ([2, 0, 0, 0], LinkType::NULL),
            ([0, 0, 0, 2], LinkType::NULL),
            ([0, 0, 0, 2], LinkType::LOOP),
            ([30, 0, 0, 0], LinkType::NULL),
        ] {
            assert_eq!(version(family, link), (4, 4, None));
        }
        assert_eq!(version([7, 0, 0, 0], LinkType::NULL), (0, 4, None));
        let short = Headers::parse(&[2, 0, 0], LinkType::NULL, 3);
        assert_eq!(short.malformed(), Some(Malformed::LinkTruncated));
        assert_eq!(
            Headers::parse(&[2, 0, 0, 0], LinkType::NULL, 4).malformed(),
            Some(Malformed::LinkTruncated)
        );
    }

    /// IPv4 with a total length of 0, and IPv6 with a payload length of 0 with and without the
    /// option of RFC 2675.
    #[test]
    fn segments_that_a_card_was_to_cut_end_with_their_frames() {
        let tcp = [&[0; 12][..], &[0x50], &[0; 7]].concat();
        let v4 = [&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6][..], &[9; 10], &tcp].concat();
        let v6 = [&[0x60, 0, 0, 0, 0, 0, 6, 64][..], &[9; 32], &tcp].concat();
        let jumbo = |len: u32| {
            let fixed = [&[0x60, 0, 0, 0, 0, 0, 0, 64][..], &[9; 32], &[6, 0, 0xc2, 4]].concat();
            [&fixed[..], &len.to_be_bytes(), &tcp].concat()
        };
        for body in [0, 1, 1400, 65_515, 65_535, 100_000_u32] {
            let option = jumbo(28 + body);
            for (packet, l4) in [(&v4, 20), (&v6, 40), (&option, 48)] {
                for tags in [&[][..], &[0x81, 0, 0, 7], &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8]] {
                    let kind = if l4 == 20 { [8, 0] } else { [0x86, 0xdd] };
                    let mut frame = [&[2; 12], tags, &kind, packet].concat();
                    let l3 = 14 + tags.len();
                    let whole = l3 + packet.len() + body as usize;
                    for kept in [l3 + packet.len(), whole.min(l3 + 100), whole] {
                        frame.resize(kept, 7);
                        let found = Headers::parse(&frame, LinkType::ETHERNET, whole);
                        let at = [l3 + l4, l3 + l4 + 20].map(|at| at as u16);
                        assert_eq!((found.malformed(), [found.l4, found.payload]), (None, at));
                        assert_eq!((found.end as usize, found.protocol), (kept, 6), "{whole}");
                        assert_eq!(found.flags.has(Flags::SNAPPED), kept < whole);
                    }
                }
            }
        }
        let ends = |packet: &[u8]| {
            let found = Headers::parse(packet, LinkType::RAW, packet.len());
            (found.end, found.malformed())
        };
        assert_eq!(ends(&[&jumbo(28)[..], &[0; 5]].concat()), (68, None), "padding");
        assert_eq!(ends(&jumbo(29)), (68, Some(Malformed::Ipv6PayloadLen)));
    }

    /// The frame's length is the packet's, as in Wireshark and tcpdump. Bytes no longer than the
    /// padding of a minimum frame are no packet.
    #[test]
    fn ipv6_without_a_length_ends_with_its_frame() {
        for (next, len) in (0..=u8::MAX).flat_map(|next| (40..=90).map(move |len| (next, len))) {
            let mut frame = vec![0; len];
            (frame[0], frame[6], frame[7]) = (0x60, next, 64);
            let headers = Headers::parse(&frame, LinkType::RAW, frame.len());
            if len > 50 {
                assert_eq!(headers.end as usize, len, "next header {next}");
                continue;
            }
            let bare = Headers { version: 6, protocol: next, l4: 40, payload: 40, ..headers };
            assert_eq!(headers, Headers { end: 40, ..bare }, "next header {next}");
            assert_eq!((headers.flags, headers.malformed()), (Flags::default(), None));
        }
    }
}
