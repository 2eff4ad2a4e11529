//! Answers to packets that left a chain, as the hosts and routers after it send them. So its
//! functions see both ways.

use crate::build::{Numbers, Packet, icmp, tcp, udp};
use crate::draw::Draw;
use crate::function::Left;
use crate::nat_packets::portless;
use crate::router_errors::octets;
use crate::wire::{Frame, ICMP, ICMPV6, TCP, UDP, View, view};

/// `inputs` with answers to some of the packets that they became, each right after its cause or a
/// little later. If they `expire`, some have a TTL of 1, and some come in fragments.
pub(crate) fn with_answers(
    draw: &mut Draw,
    inputs: &[Frame],
    left: &[Left],
    expire: bool,
) -> Vec<Frame> {
    let mut behind = vec![Vec::new(); inputs.len()];
    for sent in left {
        if draw.percent(if expire { 60 } else { 30 }) {
            let at = (sent.cause + draw.of(&[0, 0, 1, 3, 8])).min(inputs.len() - 1);
            behind[at].extend(answer(draw, &sent.frame, expire));
        }
    }
    let mut all = Vec::new();
    for (input, answers) in inputs.iter().zip(behind) {
        all.push(input.clone());
        all.extend(answers.into_iter().map(|answer| Frame { nanos: input.nanos, ..answer }));
    }
    all
}

fn answer(draw: &mut Draw, frame: &Frame, expires: bool) -> Vec<Frame> {
    let view = view(frame);
    let has_header = [TCP, UDP, ICMP, ICMPV6].contains(&view.protocol);
    let hidden = has_header && !view.transport || view.version == 0;
    if view.lie.is_some() || hidden || view.snapped || view.fragment {
        return Vec::new();
    }
    let (src, dst) = view.addresses(&frame.bytes);
    let packet =
        if draw.percent(20) { Some(error(draw, frame, &view)) } else { reply(draw, frame, &view) };
    let Some(mut packet) = packet.filter(|_| octets(src) != octets(dst)) else {
        return Vec::new();
    };
    if expires && draw.percent(25) {
        packet.ttl = 1;
    }
    let packet = packet.with_checksum();
    let pieces = match expires && draw.percent(6) {
        true => packet.fragments(draw.of(&[24, 40])),
        false => vec![packet.bytes()],
    };
    pieces.iter().map(|piece| framed(frame, &view, piece)).collect()
}

/// A packet with the link header of a frame.
fn framed(frame: &Frame, view: &View, packet: &[u8]) -> Frame {
    let bytes = [&frame.bytes[..view.l3], packet].concat();
    Frame {
        wire_len: bytes.len(),
        bytes,
        nanos: frame.nanos,
        link: frame.link,
        interface: frame.interface,
        ..Frame::default()
    }
}

/// From who got the packet, now and then from another host or port.
fn reply(draw: &mut Draw, frame: &Frame, view: &View) -> Option<Packet> {
    let (src, mut dst) = view.addresses(&frame.bytes);
    let protocol = view.protocol;
    let len = draw.below(60);
    let payload = draw.bytes(len);
    let body = match view.ports(&frame.bytes) {
        Some((from, mut to)) => {
            if draw.percent(10) {
                to = 1 + draw.below(100) as u16;
            }
            let flags = draw.of(&[0x12, 0x12, 0x10, 0x10, 0x18, 0x11, 0x04, 0x02]);
            match protocol {
                TCP => tcp(to, from, flags, &numbers(frame, view), &payload),
                _ => udp(to, from, &payload),
            }
        }
        None if protocol == ICMP || protocol == ICMPV6 => {
            let rest: [u8; 4] = frame.bytes.get(view.l4 + 4..view.l4 + 8)?.try_into().ok()?;
            let kinds = if protocol == ICMP { [0, 0, 0, 8] } else { [129, 129, 129, 128] };
            icmp(draw.of(&kinds), 0, rest, &payload)
        }
        None if portless(view.version, protocol) => {
            [&[0, 0, 1, 0, 0, 0, 0, 1][..], &payload].concat()
        }
        None => return None,
    };
    if draw.percent(8) {
        dst = draw.outside(view.version);
    }
    Some(Packet { src: dst, dst: src, ttl: 63, class: 0, ident: 0, protocol, options: None, body })
}

/// The numbers of the receiver's next segment.
fn numbers(frame: &Frame, view: &View) -> Numbers {
    let header = &frame.bytes[view.l4..view.payload];
    let word =
        |at: usize| header[at..at + 4].iter().fold(0, |sum, &byte| sum << 8 | u32::from(byte));
    let controls = u32::from(header[13] & 1) + u32::from(header[13] >> 1 & 1);
    let len = (view.end - view.payload) as u32 + controls;
    Numbers { seq: word(8), ack: word(4).wrapping_add(len), ..Numbers::PLAIN }
}

/// From any sender, about the packet as it left.
fn error(draw: &mut Draw, frame: &Frame, view: &View) -> Packet {
    let (back, _) = view.addresses(&frame.bytes);
    let quote = &frame.bytes[view.l3..view.end];
    let most = draw.of(&[1500, 1500, 48, 28, 61, 29]);
    let (protocol, kind) = if view.version == 4 { (ICMP, 3) } else { (ICMPV6, 1) };
    let body = icmp(kind, 1, [0; 4], &quote[..quote.len().min(most)]);
    let src = draw.outside(view.version);
    Packet { src, dst: back, ttl: 63, class: 0, ident: 0, protocol, options: None, body }
}
