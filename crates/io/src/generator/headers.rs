//! The headers of a frame: one template for each kind, in which a flow's fields are set, and then
//! those of a packet.
//!
//! The sums of all fields that a flow's packets have in common are kept, and the payload's sum is
//! known. A checksum therefore costs a few additions and never a pass over the packet.

use super::flow::{Flow, Flows, HeaderKind};
use super::sum::{checksum, halves, words};

/// Room for the headers of any kind, which are copied as one block.
pub(super) const HEADERS_ROOM: usize = HEADERS_MAX.next_multiple_of(16);

/// The headers of one kind with everything that its packets have in common.
#[derive(Clone, Debug)]
struct Template {
    kind: HeaderKind,
    bytes: [u8; HEADERS_ROOM],
    /// The sum over the IPv4 header; 0 for IPv6, which has none.
    ip_sum: u32,
    /// The sum over the transport header and the pseudo header (RFC 768, 9293 and 8200, 8.1).
    transport_sum: u32,
}

/// The fields of one packet, besides its flow's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    /// Bytes that this flow has sent before.
    pub(super) sent: u32,
    /// The IPv4 identification.
    pub(super) id: u16,
    pub(super) payload_len: usize,
    /// The sum of the payload's 16-bit words.
    pub(super) payload_sum: u32,
}

/// What must be known of a flow's headers to complete them for a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    kind: HeaderKind,
    len: u16,
    /// The first TCP sequence number.
    sequence: u32,
    ip_sum: u32,
    transport_sum: u32,
}

/// The headers of all flows. Those of the first flows are kept, so they cost a copy.
#[derive(Clone, Debug)]
pub(super) struct Heads {
    flows: Flows,
    /// By `six` and `tcp`.
    templates: [[Template; 2]; 2],
    kept: Vec<Kept>,
}

#[derive(Clone, Debug)]
#[repr(align(32))]
struct Kept {
    bytes: [u8; HEADERS_ROOM],
    head: Head,
}

/// Flows whose headers are kept, at most: 384 KiB stay in the cache.
const KEPT_MAX: u64 = 4096;

impl Heads {
    pub(super) fn new(flows: Flows, count: u64) -> Self {
        let template = |six, tcp| Template::new(HeaderKind { six, tcp });
        let templates = [false, true].map(|six| [template(six, false), template(six, true)]);
        let mut new = Self { flows, templates, kept: Vec::new() };
        let keep = |number| {
            let mut bytes = [0; HEADERS_ROOM];
            let head = new.compute(number, &mut bytes);
            Kept { bytes, head }
        };
        new.kept = (0..count.min(KEPT_MAX)).map(keep).collect();
        new
    }

    /// Writes the headers of flow `number` to the start of `frame`, all but a packet's own fields.
    #[inline(always)]
    pub(super) fn write(&self, number: u64, frame: &mut [u8]) -> Head {
        let block = block(frame);
        match self.kept.get(number as usize) {
            Some(kept) => {
                *block = kept.bytes;
                kept.head
            }
            None => self.compute(number, block),
        }
    }

    #[inline(never)]
    fn compute(&self, number: u64, block: &mut [u8; HEADERS_ROOM]) -> Head {
        let flow = self.flows.flow(number);
        let HeaderKind { six, tcp } = flow.kind;
        self.templates[usize::from(six)][usize::from(tcp)].write(block, &flow)
    }
}

#[inline]
fn block(frame: &mut [u8]) -> &mut [u8; HEADERS_ROOM] {
    frame.first_chunk_mut().expect("room for any headers")
}

impl Template {
    fn new(kind: HeaderKind) -> Self {
        let mut bytes = [0; HEADERS_ROOM];
        bytes[..6].copy_from_slice(&GATEWAY);
        bytes[6..12].copy_from_slice(&CLIENT);
        let len = kind.headers_len();
        let (ip, transport) = bytes[12..len].split_at_mut(len - 12 - transport_len(kind.tcp));
        let protocol = if kind.tcp { 6 } else { 17 };
        let addresses = if kind.six { six(ip, protocol) } else { four(ip, protocol) };
        let pseudo = words(&ip[addresses..]) + u32::from(protocol);
        if kind.tcp {
            transport[12] = 5 << 4; // words of header
            transport[13] = 0x18; // PSH, ACK
            transport[14..16].copy_from_slice(&64_240u16.to_be_bytes()); // window
        }
        let transport_sum = pseudo + words(transport);
        let ip_sum = if kind.six { 0 } else { words(&ip[2..]) };
        Self { kind, bytes, ip_sum, transport_sum }
    }

    /// Writes the headers of `flow`, all but a packet's own fields.
    #[inline]
    fn write(&self, block: &mut [u8; HEADERS_ROOM], flow: &Flow) -> Head {
        *block = self.bytes;
        let HeaderKind { six, tcp } = self.kind;
        let Flow { inside, outside, .. } = *flow;
        if six {
            set_low(block, 14 + 8 + 12, inside);
            set_low(block, 14 + 24 + 12, outside);
        } else {
            set_low(block, 14 + 12, u32::from_be_bytes(INSIDE_4) | inside);
            set_low(block, 14 + 16, u32::from_be_bytes(OUTSIDE_4) | outside);
        }
        let transport = transport_at(six);
        put(block, transport, flow.inside_port);
        put(block, transport + 2, flow.outside_port);
        // The template's sums already have the high halves of the addresses.
        let addresses = halves(inside) + halves(outside);
        let ports = u32::from(flow.inside_port) + u32::from(flow.outside_port);
        let mut transport_sum = self.transport_sum + addresses + ports;
        if tcp {
            set_low(block, transport + 8, flow.acknowledgment);
            transport_sum += halves(flow.acknowledgment);
        }
        let ip_sum = self.ip_sum + addresses;
        let len = self.kind.headers_len() as u16;
        Head { kind: self.kind, len, sequence: flow.sequence, ip_sum, transport_sum }
    }
}

impl Head {
    pub(super) fn kind(&self) -> HeaderKind {
        self.kind
    }

    /// Bytes of the headers.
    #[inline]
    pub(super) fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Sets the fields of `packet` in the headers at the start of `frame`.
    #[inline(always)]
    pub(super) fn complete(&self, frame: &mut [u8], packet: &Packet) {
        let block = block(frame);
        match self.kind {
            HeaderKind { six: false, tcp: false } => self.set::<false, false>(block, packet),
            HeaderKind { six: false, tcp: true } => self.set::<false, true>(block, packet),
            HeaderKind { six: true, tcp: false } => self.set::<true, false>(block, packet),
            HeaderKind { six: true, tcp: true } => self.set::<true, true>(block, packet),
        }
    }

    /// The same for one kind, where all places are known when the program is built.
    #[inline(always)]
    fn set<const SIX: bool, const TCP: bool>(
        &self,
        block: &mut [u8; HEADERS_ROOM],
        packet: &Packet,
    ) {
        let len = (transport_len(TCP) + packet.payload_len) as u16;
        if SIX {
            put(block, 14 + 4, len);
        } else {
            let total_len = 20 + len;
            put(block, 14 + 2, total_len);
            put(block, 14 + 4, packet.id);
            let varying = u32::from(total_len) + u32::from(packet.id);
            put(block, 14 + 10, checksum(self.ip_sum + varying));
        }
        let at = transport_at(SIX);
        let sum = self.transport_sum + u32::from(len) + packet.payload_sum;
        if TCP {
            let sequence = self.sequence.wrapping_add(packet.sent);
            set_low(block, at + 4, sequence);
            put(block, at + 16, checksum(sum + halves(sequence)));
        } else {
            put(block, at + 4, len);
            // RFC 768: "If the computed checksum is zero, it is transmitted as all ones".
            let field = checksum(sum + u32::from(len));
            put(block, at + 6, if field == 0 { 0xffff } else { field });
        }
    }
}

/// The longest headers: Ethernet, IPv6, TCP.
const HEADERS_MAX: usize = HeaderKind { six: true, tcp: true }.headers_len();

const fn transport_len(tcp: bool) -> usize {
    if tcp { 20 } else { 8 }
}

/// Where the transport header begins.
const fn transport_at(six: bool) -> usize {
    if six { 14 + 40 } else { 14 + 20 }
}

/// Fills in type and IPv4 header; gives the place of the addresses.
fn four(ip: &mut [u8], protocol: u8) -> usize {
    ip[..2].copy_from_slice(&0x0800u16.to_be_bytes());
    ip[2] = 0x45; // version, words of header
    ip[8] = 0x40; // don't fragment
    ip[10] = 64; // time to live
    ip[11] = protocol;
    ip[14..18].copy_from_slice(&INSIDE_4);
    ip[18..22].copy_from_slice(&OUTSIDE_4);
    14
}

/// Fills in type and IPv6 header; gives the place of the addresses.
fn six(ip: &mut [u8], protocol: u8) -> usize {
    ip[..2].copy_from_slice(&0x86ddu16.to_be_bytes());
    ip[2] = 0x60; // version
    ip[8] = protocol;
    ip[9] = 64; // hop limit
    ip[10..18].copy_from_slice(&INSIDE_6);
    ip[26..34].copy_from_slice(&OUTSIDE_6);
    10
}

#[inline]
fn put(header: &mut [u8; HEADERS_ROOM], at: usize, word: u16) {
    header[at..at + 2].copy_from_slice(&word.to_be_bytes());
}

#[inline]
fn set_low(header: &mut [u8; HEADERS_ROOM], at: usize, number: u32) {
    header[at..at + 4].copy_from_slice(&number.to_be_bytes());
}

/// Locally administered addresses of the two ends of the link.
const CLIENT: [u8; 6] = [0x02, 0, 0, 0, 0, 0x01];
const GATEWAY: [u8; 6] = [0x02, 0, 0, 0, 0, 0x02];

/// 10.0.0.0/8 (RFC 1918) inside and 198.18.0.0/15 (RFC 2544, for benchmarks) outside.
const INSIDE_4: [u8; 4] = [10, 0, 0, 0];
const OUTSIDE_4: [u8; 4] = [198, 18, 0, 0];

/// 2001:db8:1::/64 inside and 2001:db8:2::/64 outside (RFC 3849, for documentation).
const INSIDE_6: [u8; 8] = [0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 0];
const OUTSIDE_6: [u8; 8] = [0x20, 0x01, 0x0d, 0xb8, 0, 2, 0, 0];

#[cfg(test)]
mod tests {
    use super::super::flow::{Flows, Share};
    use super::*;

    /// Every value the sum can take: the field of UDP is never zero, which would mean no checksum,
    /// and otherwise it goes with the payload.
    #[test]
    fn a_udp_checksum_of_zero_is_sent_as_all_ones() {
        for ip in [Share::First, Share::Second] {
            let heads = Heads::new(Flows::new(1, ip, Share::First), 1);
            let mut seen = vec![false; 0x1_0000];
            for payload_sum in 0..0xffff {
                let packet = Packet { sent: 0, id: 0, payload_len: 2, payload_sum };
                let mut frame = [0; HEADERS_ROOM];
                let head = heads.write(0, &mut frame);
                head.complete(&mut frame, &packet);
                let field = &frame[head.len() - 2..][..2];
                seen[usize::from(u16::from_be_bytes([field[0], field[1]]))] = true;
            }
            assert!(!seen[0] && seen[1..].iter().all(|&seen| seen));
        }
    }
}
