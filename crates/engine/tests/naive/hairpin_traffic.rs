//! Packets from inside hosts to outside ports of others, as those that peers learnt from a server.

use std::net::IpAddr;

use crate::bindings::Endpoint;
use crate::build::{Numbers, Packet, insert_after, tcp, udp};
use crate::chains::{Naive, Spec};
use crate::draw::Draw;
use crate::function::Left;
use crate::prefix::Prefix;
use crate::wire::{Frame, TCP, UDP, view};

/// A protocol and an end.
type End = (u8, Endpoint);

/// Adds packets to outside ports that inside hosts have by translators with two places.
pub(crate) fn add(draw: &mut Draw, frames: &mut Vec<Frame>, specs: &[Spec], left: &[Left]) {
    for spec in specs {
        let Naive::First(own) = &spec.naive else { continue };
        let Naive::Nat(config) = &**own else { continue };
        let held = |all: &[Prefix], address: IpAddr| all.iter().any(|prefix| prefix.holds(address));
        let inside: Vec<(usize, End)> = sources(frames.iter().enumerate())
            .filter(|(_, (_, end))| held(&config.inside, end.0))
            .collect();
        let sent = left.iter().map(|left| (left.cause, &left.frame));
        let mut outside: Vec<(usize, End)> =
            sources(sent).filter(|(_, (_, end))| held(&config.outside, end.0)).collect();
        outside.extend(config.rules.ends().map(|end| (0, end)));
        if inside.is_empty() || outside.is_empty() {
            continue;
        }
        for _ in 0..draw.below(40) {
            let ends = draw_pair(draw, &inside, &outside);
            put(draw, frames, ends);
        }
    }
}

/// The sources of packets with ports, with their places.
fn sources<'a>(
    frames: impl Iterator<Item = (usize, &'a Frame)>,
) -> impl Iterator<Item = (usize, End)> {
    frames.filter_map(|(at, frame)| {
        let seen = view(frame);
        let known = [TCP, UDP].contains(&seen.protocol) && seen.transport && seen.lie.is_none();
        let (port, _) = seen.ports(&frame.bytes).filter(|_| known)?;
        Some((at, (seen.protocol, (seen.addresses(&frame.bytes).0, port))))
    })
}

/// Two ends of one protocol and version, if the draw finds any.
fn draw_pair(
    draw: &mut Draw,
    inside: &[(usize, End)],
    outside: &[(usize, End)],
) -> Option<(usize, u8, [Endpoint; 2])> {
    let (known, (protocol, to)) = draw.of(outside);
    let fits = |end: &&(usize, End)| {
        let (_, (own, from)) = end;
        *own == protocol && from.0.is_ipv4() == to.0.is_ipv4()
    };
    let all: Vec<(usize, End)> = inside.iter().filter(fits).copied().collect();
    (!all.is_empty()).then(|| (known, protocol, [draw.of(&all).1.1, to]))
}

/// Puts a packet after the one that showed its destination.
fn put(draw: &mut Draw, frames: &mut Vec<Frame>, ends: Option<(usize, u8, [Endpoint; 2])>) {
    let Some((known, protocol, [(src, from), (dst, to)])) = ends else { return };
    let len = draw.below(60);
    let payload = draw.bytes(len);
    let body = match protocol {
        TCP => {
            let flags = draw.of(&[0x02, 0x02, 0x12, 0x10, 0x18, 0x11, 0x04]);
            tcp(from, to, flags, &Numbers::PLAIN, &payload)
        }
        _ => udp(from, to, &payload),
    };
    let (ttl, ident) = (draw.of(&[60, 60, 60, 1]), draw.word() as u16);
    let packet = Packet { src, dst, ttl, class: 0, ident, protocol, options: None, body };
    let packet = packet.with_checksum();
    let pieces = match draw.percent(10) {
        true => packet.fragments(24),
        false => vec![packet.bytes()],
    };
    let at = (known + draw.below(30)).min(frames.len() - 1);
    insert_after(frames, at, &pieces);
}
