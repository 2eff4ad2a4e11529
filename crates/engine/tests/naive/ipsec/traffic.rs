//! ESP for gateways that open: sealed as by the other end, late, twice, damaged, and with all that
//! is odd inside.

use super::draw::peer;
use super::esp;
use super::sa::Sa;
use super::seal::{headers, in_transport_with, in_tunnel, seal};
use crate::build::{Packet, udp};
use crate::chains::{Naive, Spec};
use crate::draw::Draw;
use crate::router_errors::octets;
use crate::sums::sum;
use crate::traffic::set_clock;
use crate::wire::{Frame, UDP, View, view};

/// An SA and the last number that its other end used.
struct Sender {
    sa: Sa,
    sequence: u64,
}

/// Adds ESP to `frames`, by every SA of `specs` that opens.
pub(crate) fn add(draw: &mut Draw, frames: &mut Vec<Frame>, specs: &[Spec]) {
    let mut senders = Vec::new();
    for spec in specs {
        let config = match &spec.naive {
            Naive::Second(..) => continue,
            own => own.whole(),
        };
        let Naive::Ipsec(config) = config else { continue };
        let inbound = config.sas.iter().filter(|sa| !sa.is_out);
        senders.extend(inbound.map(|sa| Sender { sa: peer(sa), sequence: sa.sequence }));
    }
    if senders.is_empty() {
        return;
    }
    let mut made: Vec<Frame> = Vec::new();
    let mut placed = Vec::new();
    for (at, frame) in frames.iter().enumerate() {
        if !draw.percent(45) {
            continue;
        }
        let which = draw.below(senders.len());
        if let Some(mut esp) = senders[which].send(draw, frame) {
            // Some come late, and some come again.
            let late = if draw.percent(30) { draw.below(60) } else { 0 };
            if draw.percent(12) {
                spoil(draw, &mut esp);
            }
            if draw.percent(10) && !made.is_empty() {
                esp = draw.of(&made);
            }
            made.push(esp.clone());
            placed.push((at + late, esp));
        }
    }
    place(frames, placed);
}

/// Puts each frame after the one with its number, with the time of that one.
fn place(frames: &mut Vec<Frame>, mut placed: Vec<(usize, Frame)>) {
    placed.sort_by_key(|(at, _)| *at);
    let last = frames.len() - 1;
    let mut all = Vec::new();
    let mut placed = placed.into_iter().peekable();
    for (at, frame) in frames.drain(..).enumerate() {
        let nanos = frame.nanos;
        all.push(frame);
        while let Some((_, esp)) = placed.next_if(|(own, _)| *own <= at || at == last) {
            all.push(Frame { nanos, ..esp });
        }
    }
    *frames = all;
    set_clock(frames);
}

impl Sender {
    /// The next packet, which carries that of `frame`.
    fn send(&mut self, draw: &mut Draw, frame: &Frame) -> Option<Frame> {
        let view = view(frame);
        if view.version == 0 || view.lie.is_some() || view.snapped {
            return None;
        }
        let frame = self.addressed(frame, &view)?;
        let sequence = self.number(draw);
        let bytes = match draw.below(20) {
            0 => self.odd(draw, sequence, &frame, &view)?,
            1 => return self.in_udp(draw, &frame, &view),
            _ => seal(&self.sa, sequence, &frame, &view),
        };
        if bytes.len() > 1800 {
            return None;
        }
        let mut made = Frame { wire_len: bytes.len(), bytes, ..frame };
        if draw.percent(15) {
            let ecn = draw.below(4) as u8;
            mark(&mut made, view.l3, ecn);
        }
        Some(made)
    }

    /// The next number, now and then one that is far ahead, or at the lower edge of the window.
    fn number(&mut self, draw: &mut Draw) -> u64 {
        let window = if self.sa.window == 0 { 1 << 31 } else { u64::from(self.sa.window) };
        let step = match draw.below(30) {
            0 | 1 => 2 + draw.below(90) as u64,
            2 => 60 + draw.below(10) as u64,
            3 if self.sa.esn => {
                draw.of(&[1 << 32, (1 << 31) - 9, (1 << 32) - 40, (1 << 32) + 5, (3 << 32) + 5])
            }
            4..7 => return self.sequence.saturating_sub(window + 1 - draw.below(3) as u64),
            _ => 1,
        };
        let last = if self.sa.esn { u64::MAX } else { u32::MAX.into() };
        // The number after the last is 0 again.
        self.sequence = if last - self.sequence < step { 0 } else { self.sequence + step };
        self.sequence
    }

    /// The packet that the other end would seal: in transport mode it goes to the SA's end.
    fn addressed(&self, frame: &Frame, view: &View) -> Option<Frame> {
        let mut frame = frame.clone();
        if !self.sa.is_tunnel {
            if view.fragment || self.sa.src.is_ipv4() != (view.version == 4) {
                return None;
            }
            // Checksums stay those of other addresses, as after a NAT.
            let ends = [octets(self.sa.src), octets(self.sa.dst)].concat();
            let at = view.l3 + if view.version == 4 { 12 } else { 8 };
            frame.bytes[at..at + ends.len()].copy_from_slice(&ends);
        }
        Some(frame)
    }

    /// ESP with text that is not what it should be.
    fn odd(&self, draw: &mut Draw, sequence: u64, frame: &Frame, view: &View) -> Option<Vec<u8>> {
        let place = *headers(frame, view).last()?;
        let (payload, next) = match (self.sa.is_tunnel, view.version) {
            (true, 4) => (&frame.bytes[view.l3..view.end], 4),
            (true, _) => (&frame.bytes[view.l3..view.end], 41),
            (false, _) => (&frame.bytes[place.body.min(view.end)..view.end], place.protocol),
        };
        let len = 4 * draw.below(12);
        let noise = draw.bytes(len);
        let padded = |next| esp::text(&self.sa, &[payload, &noise].concat(), next);
        let text = match draw.below(9) {
            0 => padded(59),
            1 => esp::text(&self.sa, &[], 59),
            // Padding against traffic analysis.
            2 | 3 => padded(next),
            4 => esp::text(&self.sa, &payload[..draw.below(payload.len())], next),
            5 => esp::text(&self.sa, payload, draw.of(&[4, 41, 17, 0, 50])),
            6 => esp::text(&self.sa, &noise, draw.of(&[4, 41, 6])),
            7 => {
                // One of the bytes of the padding, or their number.
                let mut text = esp::text(&self.sa, payload, next);
                let at = text.len() - 2 - draw.below(4);
                text[at] ^= 1 << draw.below(8);
                text
            }
            _ => padded(draw.word() as u8),
        };
        if self.sa.is_tunnel {
            return Some(in_tunnel(&self.sa, sequence, frame, view, &text));
        }
        Some(in_transport_with(&self.sa, sequence, frame, view, place, &text))
    }

    /// Other packets to the port of ESP in UDP: a keepalive, IKE, a few bytes.
    fn in_udp(&self, draw: &mut Draw, frame: &Frame, view: &View) -> Option<Frame> {
        if self.sa.src.is_ipv4() != (view.version == 4) {
            return None;
        }
        let few = draw.below(12);
        let noise = draw.bytes(few);
        let payload = draw.of(&[
            vec![0xff],
            [&[0xff][..], &noise].concat(),
            [&[0; 4][..], &noise].concat(),
            noise,
            vec![0; 3],
        ]);
        let packet = Packet {
            src: self.sa.src,
            dst: self.sa.dst,
            ttl: 60,
            class: 0,
            ident: 0,
            protocol: UDP,
            options: None,
            body: udp(4500, 4500, &payload),
        };
        let bytes = [&frame.bytes[..view.l3], &packet.with_checksum().bytes()].concat();
        Some(Frame { wire_len: bytes.len(), bytes, ..frame.clone() })
    }
}

/// A router on the way set the mark of congestion.
fn mark(frame: &mut Frame, l3: usize, ecn: u8) {
    if frame.bytes[l3] >> 4 == 6 {
        frame.bytes[l3 + 1] = frame.bytes[l3 + 1] & !0x30 | ecn << 4;
        return;
    }
    frame.bytes[l3 + 1] = frame.bytes[l3 + 1] & !3 | ecn;
    let len = usize::from(frame.bytes[l3] & 15) * 4;
    frame.bytes[l3 + 10..l3 + 12].fill(0);
    let check = !sum(&[&frame.bytes[l3..l3 + len]]);
    frame.bytes[l3 + 10..l3 + 12].copy_from_slice(&check.to_be_bytes());
}

/// Turns a bit over, mostly in ESP, or cuts the end off: by the capture, or as the sender of a
/// shorter packet.
fn spoil(draw: &mut Draw, frame: &mut Frame) {
    let found = view(frame);
    let len = frame.bytes.len();
    match draw.below(10) {
        0..6 if found.l4 < len => {
            let room = if draw.percent(50) { 10 } else { len };
            let at = found.l4 + draw.below(room.min(len - found.l4));
            frame.bytes[at] ^= 1 << draw.below(8);
        }
        0..8 => frame.bytes.truncate(len - draw.below(20).min(len)),
        _ => shorten(draw, frame, &found),
    }
}

fn shorten(draw: &mut Draw, frame: &mut Frame, found: &View) {
    let less = draw.below(found.end - found.l4.min(found.end) + 1);
    frame.bytes.truncate(found.end - less);
    frame.wire_len = frame.bytes.len();
    let len = (frame.bytes.len() - found.l3) as u16;
    let (at, len) = if found.version == 4 { (2, len) } else { (4, len.saturating_sub(40)) };
    frame.bytes[found.l3 + at..found.l3 + at + 2].copy_from_slice(&len.to_be_bytes());
}
