//! The naive gateway's parser for the plaintext of ESP (RFC 4303, 3.4.4.1; RFC 6040, 4.2; RFC 3948,
//! 3.1.2).

use super::sa::Sa;
use super::seal::{announced, carry, class, headers};
use crate::router_errors::octets;
use crate::sums::{mend, sum};
use crate::wire::{Frame, TCP, UDP, View, view};

const NO_NEXT_HEADER: u8 = 59;

/// The content of a plaintext.
pub(crate) enum Inside {
    Packet(Frame),
    Dummy,
    /// It is dropped.
    Wrong(&'static str),
}

/// The content of `text`, which came in `frame` by `sa`.
pub(crate) fn strip(sa: &Sa, frame: &Frame, view: &View, text: &[u8]) -> Inside {
    let found = payload(text).and_then(|(payload, next)| match next {
        NO_NEXT_HEADER => Ok(None),
        _ if sa.is_tunnel => from_tunnel(sa, frame, view, payload, next).map(Some),
        _ => from_transport(sa, frame, view, payload, next).map(Some),
    });
    match found {
        Ok(Some(frame)) => Inside::Packet(frame),
        Ok(None) => Inside::Dummy,
        Err(why) => Inside::Wrong(why),
    }
}

/// The payload before the padding, and its protocol.
fn payload(text: &[u8]) -> Result<(&[u8], u8), &'static str> {
    let [rest @ .., pad_len, next] = text else { return Err("malformed") };
    let len = rest.len().checked_sub((*pad_len).into()).ok_or("bad-padding")?;
    let (payload, padding) = rest.split_at(len);
    let counts = padding.iter().enumerate().all(|(at, &byte)| usize::from(byte) == at + 1);
    if counts { Ok((payload, *next)) } else { Err("bad-padding") }
}

fn from_tunnel(
    sa: &Sa,
    frame: &Frame,
    view: &View,
    payload: &[u8],
    next: u8,
) -> Result<Frame, &'static str> {
    let word = |at: usize| Some(usize::from(*payload.get(at)?) << 8 | usize::from(payload[at + 1]));
    let (version, least, len) = match next {
        4 if payload.len() >= 20 => (4, 20, word(2)),
        41 if payload.len() >= 40 => (6, 40, word(4).map(|len| len + 40)),
        _ => return Err("malformed"),
    };
    // Bytes after the packet are padding, too (RFC 4303, 2.7).
    let fits = |len: &usize| (least..=payload.len()).contains(len) && payload[0] >> 4 == version;
    let len = len.filter(fits).ok_or("malformed")?;
    let bytes = [&announced(frame, view, version)[..], &payload[..len]].concat();
    let mut inner = whole(frame, bytes)?;
    let outer_class = class(&frame.bytes, view.l3, view.version);
    if sa.ecn {
        mark(&mut inner, view.l3, version, outer_class & 3)?;
    }
    Ok(inner)
}

/// A frame of these bytes, whose headers must not lie.
fn whole(frame: &Frame, bytes: Vec<u8>) -> Result<Frame, &'static str> {
    let frame = Frame { wire_len: bytes.len(), bytes, ..frame.clone() };
    if view(&frame).lie.is_some() { Err("malformed") } else { Ok(frame) }
}

/// RFC 6040, figure 4.
fn mark(frame: &mut Frame, l3: usize, version: u8, outer: u8) -> Result<(), &'static str> {
    const NOT_ECT: u8 = 0;
    const ECT_1: u8 = 1;
    const CE: u8 = 3;
    let old = class(&frame.bytes, l3, version);
    let ecn = match (old & 3, outer) {
        (NOT_ECT, CE) => return Err("congestion"),
        (NOT_ECT, _) => NOT_ECT,
        (_, CE) => CE,
        (CE, _) => CE,
        (_, ECT_1) => ECT_1,
        (own, _) => own,
    };
    let new = old & !3 | ecn;
    if version == 4 {
        let first = frame.bytes[l3];
        frame.bytes[l3 + 1] = new;
        if new != old {
            mend(&mut frame.bytes, l3 + 10, &[first, old], &[first, new]);
        }
    } else {
        frame.bytes[l3 + 1] = new << 4 | frame.bytes[l3 + 1] & 15;
    }
    Ok(())
}

fn from_transport(
    sa: &Sa,
    frame: &Frame,
    view: &View,
    payload: &[u8],
    next: u8,
) -> Result<Frame, &'static str> {
    let place = *headers(frame, view).last().ok_or("malformed")?;
    let mut bytes = [&frame.bytes[..place.body], payload].concat();
    carry(&mut bytes, view, place, next);
    let mut inner = whole(frame, bytes)?;
    if sa.encap.is_some() {
        sum_anew(&mut inner);
    }
    Ok(inner)
}

/// The checksums of TCP and UDP as they are without what a NAT did to the addresses.
fn sum_anew(frame: &mut Frame) {
    let view = view(frame);
    let at = match view.protocol {
        TCP => 16,
        UDP => 6,
        _ => return,
    };
    if !view.transport || view.fragment {
        return;
    }
    let (src, dst) = view.addresses(&frame.bytes);
    let mut end = view.end;
    if view.protocol == UDP {
        let len =
            usize::from(frame.bytes[view.l4 + 4]) << 8 | usize::from(frame.bytes[view.l4 + 5]);
        end = end.min(view.l4 + len);
    }
    let segment = &mut frame.bytes[view.l4..end];
    // RFC 768: none was made.
    if view.protocol == UDP && view.version == 4 && segment[6..8] == [0, 0] {
        return;
    }
    segment[at..at + 2].fill(0);
    let len = (segment.len() as u16).to_be_bytes();
    let check = !sum(&[&octets(src), &octets(dst), &[0, view.protocol], &len, segment]);
    let check = if check == 0 && view.protocol == UDP { 0xffff } else { check };
    segment[at..at + 2].copy_from_slice(&check.to_be_bytes());
}
