//! The headers of a frame: one template for each kind, in which a packet's own fields are set.
//!
//! The template keeps the sum of the constant fields, and the payload's sum is known. A checksum
//! therefore costs a few additions and never a pass over the packet.

use super::flow::{Flow, HeaderKind};
use super::sum::{checksum, halves, words};

/// The headers of one kind with everything that its packets have in common.
#[derive(Clone, Debug)]
pub(super) struct Template {
    kind: HeaderKind,
    bytes: [u8; HEADERS_MAX],
    /// The sum over the IPv4 header; 0 for IPv6, which has none.
    ip_sum: u64,
    /// The sum over the transport header and the pseudo header (RFC 768, 9293 and 8200, 8.1).
    transport_sum: u64,
}

/// The fields of one packet, besides its flow's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) flow: Flow,
    /// Bytes that this flow has sent before.
    pub(super) sent: u32,
    /// The IPv4 identification.
    pub(super) id: u16,
    pub(super) payload_len: usize,
    /// The sum of the payload's 16-bit words.
    pub(super) payload_sum: u64,
}

impl Template {
    pub(super) fn new(kind: HeaderKind) -> Self {
        let mut bytes = [0; HEADERS_MAX];
        bytes[..6].copy_from_slice(&GATEWAY);
        bytes[6..12].copy_from_slice(&CLIENT);
        let (ip, transport) =
            bytes[12..].split_at_mut(kind.headers_len() - 12 - transport_len(kind));
        let protocol = if kind.tcp { 6 } else { 17 };
        let addresses = if kind.six { six(ip, protocol) } else { four(ip, protocol) };
        let pseudo = words(&ip[addresses..]) + u64::from(protocol);
        if kind.tcp {
            transport[12] = 5 << 4; // words of header
            transport[13] = 0x18; // PSH, ACK
            transport[14..16].copy_from_slice(&64_240u16.to_be_bytes()); // window
        }
        let transport_sum = pseudo + words(transport);
        let ip_sum = if kind.six { 0 } else { words(&ip[2..]) };
        Self { kind, bytes, ip_sum, transport_sum }
    }

    /// Writes the headers of `packet` to the start of `frame`, which has room for them.
    #[inline]
    pub(super) fn write(&self, frame: &mut [u8], packet: &Packet) {
        let len = self.kind.headers_len();
        frame[..len].copy_from_slice(&self.bytes[..len]);
        let transport_len = transport_len(self.kind) + packet.payload_len;
        let (ip, transport) = frame[14..len].split_at_mut(len - 14 - self.transport_len());
        let Flow { inside, outside, .. } = packet.flow;
        let addresses = if self.kind.six {
            put(ip, 4, transport_len as u16);
            let addresses = [inside, outside];
            set_low(ip, 8 + 12, addresses[0]);
            set_low(ip, 24 + 12, addresses[1]);
            addresses
        } else {
            self.write_four(ip, packet, 20 + transport_len as u16)
        };
        // The template's sum already has the high halves of the addresses.
        let addresses = halves(addresses[0]) + halves(addresses[1]);
        let sum = self.transport_sum + addresses + transport_len as u64 + packet.payload_sum;
        self.write_transport(transport, packet, transport_len as u16, sum);
    }

    /// Sets what differs in an IPv4 header; gives the bits set in the addresses.
    #[inline]
    fn write_four(&self, ip: &mut [u8], packet: &Packet, total_len: u16) -> [u32; 2] {
        let Flow { inside, outside, .. } = packet.flow;
        put(ip, 2, total_len);
        put(ip, 4, packet.id);
        set_low(ip, 12, u32::from_be_bytes(INSIDE_4) | inside);
        set_low(ip, 16, u32::from_be_bytes(OUTSIDE_4) | outside);
        let varying = u64::from(total_len) + u64::from(packet.id);
        put(ip, 10, checksum(self.ip_sum + varying + halves(inside) + halves(outside)));
        [inside, outside]
    }

    #[inline]
    fn write_transport(&self, transport: &mut [u8], packet: &Packet, len: u16, sum: u64) {
        let flow = &packet.flow;
        put(transport, 0, flow.inside_port);
        put(transport, 2, flow.outside_port);
        let sum = sum + u64::from(flow.inside_port) + u64::from(flow.outside_port);
        if self.kind.tcp {
            let sequence = flow.sequence.wrapping_add(packet.sent);
            set_low(transport, 4, sequence);
            set_low(transport, 8, flow.acknowledgment);
            put(transport, 16, checksum(sum + halves(sequence) + halves(flow.acknowledgment)));
        } else {
            put(transport, 4, len);
            // RFC 768: "If the computed checksum is zero, it is transmitted as all ones".
            let field = checksum(sum + u64::from(len));
            put(transport, 6, if field == 0 { 0xffff } else { field });
        }
    }

    const fn transport_len(&self) -> usize {
        transport_len(self.kind)
    }
}

/// The longest headers: Ethernet, IPv6, TCP.
const HEADERS_MAX: usize = HeaderKind { six: true, tcp: true }.headers_len();

const fn transport_len(kind: HeaderKind) -> usize {
    if kind.tcp { 20 } else { 8 }
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
fn put(header: &mut [u8], at: usize, word: u16) {
    header[at..at + 2].copy_from_slice(&word.to_be_bytes());
}

#[inline]
fn set_low(header: &mut [u8], at: usize, number: u32) {
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
            let flow = Flows::new(1, ip, Share::First).flow(0);
            let template = Template::new(flow.kind);
            let mut seen = vec![false; 0x1_0000];
            for payload_sum in 0..0xffff {
                let packet = Packet { flow, sent: 0, id: 0, payload_len: 2, payload_sum };
                let mut frame = [0; HEADERS_MAX];
                template.write(&mut frame, &packet);
                let field = &frame[flow.kind.headers_len() - 2..][..2];
                seen[usize::from(u16::from_be_bytes([field[0], field[1]]))] = true;
            }
            assert!(!seen[0] && seen[1..].iter().all(|&seen| seen));
        }
    }
}
