//! Notices of rejected packets: resets (RFC 9293, 3.10.7.1; RFC 5961, 3.2) and ICMP errors (RFC
//! 1812, 5.3.9; RFC 4443, 3.1).

use std::net::IpAddr;

use super::rule::Whom;
use crate::router_errors::{error, is_host, link_back, octets, to_all};
use crate::sums::sum;
use crate::wire::{Frame, TCP, View};

const ACK: u8 = 0x10;
const RST: u8 = 0x04;
const SYN: u8 = 0x02;
const FIN: u8 = 0x01;
/// The longest link header that is copied.
const LINK_MAX: usize = 32;

/// Notices of one packet.
#[derive(Default)]
pub(super) struct Notices {
    pub(super) reset_back: Option<Frame>,
    pub(super) unreachable: Option<Frame>,
    /// To the destination, in the place of the packet.
    pub(super) reset_onward: Option<Frame>,
}

/// The notices that standards permit.
pub(super) fn notices(frame: &Frame, view: &View, whom: Whom) -> Notices {
    let none = Notices::default();
    if view.lie.is_some() || view.version == 0 || view.fragment || to_all(frame) {
        return none;
    }
    let (src, dst) = view.addresses(&frame.bytes);
    if !is_host(src) || !is_host(dst) || view.l3 > LINK_MAX {
        return none;
    }
    let (to_source, to_destination) = (whom != Whom::Destination, whom != Whom::Source);
    if view.protocol != TCP {
        let message = if view.version == 4 { (3, 13) } else { (1, 1) };
        let unreachable = error(frame, view, dst, message).filter(|_| to_source);
        return Notices { unreachable, ..none };
    }
    if !view.transport {
        return none;
    }
    let flags = frame.bytes[view.l4 + 13];
    if flags & RST != 0 {
        return none;
    }
    let reset_onward = (to_destination && flags & (SYN | ACK) != SYN).then(|| onward(frame, view));
    let reset_back = to_source.then(|| back(frame, view));
    Notices { reset_back, reset_onward, ..none }
}

fn word(frame: &Frame, at: usize) -> u32 {
    u32::from_be_bytes(frame.bytes[at..at + 4].try_into().expect("four"))
}

/// As a host without the connection answers.
fn back(frame: &Frame, view: &View) -> Frame {
    let (src, dst) = view.addresses(&frame.bytes);
    let flags = frame.bytes[view.l4 + 13];
    let controls = u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
    let len = (view.wire_end - view.payload) as u32 + controls;
    let (seq, ack, flags) = match flags & ACK {
        0 => (0, word(frame, view.l4 + 4).wrapping_add(len), RST | ACK),
        _ => (word(frame, view.l4 + 8), 0, RST),
    };
    let ports = &frame.bytes[view.l4..view.l4 + 4];
    let ports = [&ports[2..], &ports[..2]].concat();
    reset(frame, &link_back(frame, view), (dst, src), &ports, (seq, ack, flags))
}

/// With the number that the destination expects next.
fn onward(frame: &Frame, view: &View) -> Frame {
    let ends = view.addresses(&frame.bytes);
    let acks = frame.bytes[view.l4 + 13] & ACK;
    let ack = if acks == 0 { 0 } else { word(frame, view.l4 + 8) };
    let ports = &frame.bytes[view.l4..view.l4 + 4];
    let numbers = (word(frame, view.l4 + 4), ack, RST | acks);
    let made = reset(frame, &frame.bytes[..view.l3], ends, ports, numbers);
    Frame { onward: true, ..made }
}

fn reset(
    frame: &Frame,
    link: &[u8],
    (src, dst): (IpAddr, IpAddr),
    ports: &[u8],
    (seq, ack, flags): (u32, u32, u8),
) -> Frame {
    let numbers = [seq.to_be_bytes(), ack.to_be_bytes()].concat();
    let mut segment = [ports, &numbers, &[0x50, flags, 0, 0, 0, 0, 0, 0]].concat();
    let ends = [octets(src), octets(dst)].concat();
    let check = !sum(&[&ends, &[0, TCP, 0, 20], &segment]);
    segment[16..18].copy_from_slice(&check.to_be_bytes());
    let head: &[u8] = match src {
        // RFC 6864: never fragmented, so without identification.
        IpAddr::V4(_) => &[0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, TCP, 0, 0],
        IpAddr::V6(_) => &[0x60, 0, 0, 0, 0, 20, TCP, 64],
    };
    let mut ip = [head, &ends].concat();
    if src.is_ipv4() {
        let check = !sum(&[&ip]);
        ip[10..12].copy_from_slice(&check.to_be_bytes());
    }
    let bytes = [link, &ip, &segment].concat();
    Frame { wire_len: bytes.len(), bytes, ..frame.clone() }
}
