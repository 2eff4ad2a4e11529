//! Frames that no conversation sends: those that are not IP, and those with wrong headers.

use crate::draw::Draw;
use crate::sums::mend;
use crate::wire::{Frame, link, view};

/// ARP, LLDP, frames of IEEE 802.3, unknown links; a link type and a frame.
pub(crate) fn non_ip(draw: &mut Draw) -> (u16, Vec<u8>) {
    let macs = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1]].concat();
    let body = draw.bytes(46);
    let kinds: [&[u8]; 5] =
        [&[8, 6, 0, 1, 8, 0, 6, 4], &[0x88, 0xcc], &[0, 38], &[0x81, 0, 0, 9, 8, 6], &[0x88, 0x47]];
    match draw.below(8) {
        0 => (147, body),
        1 => (
            link::SLL,
            [&[0, 1, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 8, 6][..], &body[..28]].concat(),
        ),
        2 => (link::RAW, [&[0x70][..], &body].concat()),
        3 => (link::NULL, [&[7, 0, 0, 0][..], &body].concat()),
        _ => (link::ETHERNET, [&macs[..], draw.of(&kinds), &body[..28]].concat()),
    }
}

/// Cuts or shortens a frame, or makes its headers wrong.
pub(crate) fn spoil(draw: &mut Draw, frame: &mut Frame) {
    let len = frame.bytes.len();
    match draw.below(7) {
        0 | 1 => frame.bytes.truncate(draw.below(len + 1)),
        2 => {
            frame.bytes.truncate(draw.below(len.min(70)));
            frame.wire_len = frame.bytes.len();
        }
        3 => {
            let len = draw.below(100);
            (frame.bytes, frame.wire_len) = (draw.bytes(len), len);
        }
        4 => frame.wire_len += draw.below(50),
        5 => unsay(frame),
        _ => {
            let at = draw.below(len.clamp(1, 90));
            let bit = 1 << draw.below(8);
            frame.bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= bit);
        }
    }
}

/// Makes an IP packet look captured before a network card cut it: its length field is 0.
fn unsay(frame: &mut Frame) {
    let found = view(frame);
    let at = found.l3 + if found.version == 4 { 2 } else { 4 };
    let Some(said) = frame.bytes.get(at..at + 2).map(<[u8]>::to_vec) else { return };
    if found.version == 0 {
        return;
    }
    frame.bytes[at..at + 2].fill(0);
    if found.version == 4 {
        mend(&mut frame.bytes, found.l3 + 10, &said, &[0, 0]);
    }
}
