//! Packets that return for those that a function let through.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use warpline_packet::wire::{checksum, ip_protocol as ip};
use warpline_packet::{Flags, Headers, Instant, LinkType, Verdict};

use super::STEP_NANOS;
use super::build::{Packet, framed, icmp};
use crate::{Carried, Harness, Input, Outcome};

/// The ends of an IP packet in a frame.
pub(super) struct Ends {
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    headers: Headers,
}

impl Ends {
    pub(super) fn of(frame: &[u8], link: LinkType, wire_len: usize) -> Option<Self> {
        let headers = Headers::parse(frame, link, wire_len);
        let ip = frame.get(usize::from(headers.l3)..)?;
        let v4 = |at: usize| Some(IpAddr::from(*ip.get(at..)?.first_chunk::<4>()?));
        let v6 = |at: usize| Some(IpAddr::from(*ip.get(at..)?.first_chunk::<16>()?));
        let (src, dst) = match headers.version {
            4 => (v4(12)?, v4(16)?),
            6 => (v6(8)?, v6(24)?),
            _ => return None,
        };
        headers.malformed().is_none().then_some(Self { src, dst, headers })
    }
}

/// Packets that return for those of `inputs` that pass `places`, one after the other, in batches of
/// `batch`: a reply to each that has ports or is an echo, and an error about every third.
pub fn answers(places: &mut [Harness], inputs: &[Input], batch: usize) -> Vec<Input> {
    let Some((last, before)) = places.split_last_mut() else { return Vec::new() };
    let came: Vec<Carried> = inputs.iter().cloned().map(Carried::from).collect();
    let came = before.iter_mut().fold(came, |came, place| place.pass(&came, batch));
    let first = last.ingress;
    let outcomes = came.chunks(batch).flat_map(|batch| last.process_carried(batch));
    let sent = outcomes.filter(|one| one.verdict == Verdict::Forward && !one.made);
    let sent: Vec<Outcome> =
        sent.map(|one| Outcome { ingress: one.ingress - first, ..one }).collect();
    let came: Vec<Input> = came.into_iter().map(|one| one.input).collect();
    returned(&came, &sent, inputs.last().map_or(0, |input| input.timestamp.as_nanos()))
}

/// Those that return for `outcomes` of `inputs`, after time `nanos`.
fn returned(inputs: &[Input], outcomes: &[Outcome], mut nanos: u64) -> Vec<Input> {
    let mut made = Vec::new();
    for (number, outcome) in outcomes.iter().enumerate() {
        let Some(input) = inputs.get(outcome.ingress as usize) else { continue };
        let Some(ends) = Ends::of(&outcome.bytes, input.link, outcome.bytes.len()) else {
            continue;
        };
        let all = [
            reply(&outcome.bytes, &ends),
            reply_to_zero(&outcome.bytes, &ends, input),
            error(&outcome.bytes, &ends, number),
        ];
        for packet in all.into_iter().flatten() {
            nanos += STEP_NANOS;
            let bytes = framed(input.link, false, &packet);
            let (timestamp, wire_len) = (Instant::from_nanos(nanos), bytes.len() as u32);
            made.push(Input { bytes, timestamp, wire_len, link: input.link });
        }
    }
    made
}

fn reply(frame: &[u8], ends: &Ends) -> Option<Vec<u8>> {
    let Headers { l4, end, protocol, .. } = ends.headers;
    if ends.headers.flags.has(Flags::FRAGMENT) || !ends.headers.flags.has(Flags::TRANSPORT) {
        return None;
    }
    let mut packet = Packet::between(ends.dst, ends.src);
    let mut body = frame.get(usize::from(l4)..end as usize)?.to_vec();
    match (protocol, body.first()?) {
        (ip::TCP | ip::UDP, _) => {
            let ports = *body.first_chunk::<4>()?;
            body[..4].copy_from_slice(&[ports[2], ports[3], ports[0], ports[1]]);
            // A SYN is answered by SYN and ACK.
            if protocol == ip::TCP {
                *body.get_mut(13)? |= 0x10;
            }
        }
        (ip::ICMP, 8) => body[0] = 0,
        (ip::ICMPV6, 128) => body[0] = 129,
        _ => return None,
    }
    packet.protocol = protocol;
    packet.body = body;
    packet.finish();
    Some(packet.bytes())
}

/// A reply to an echo whose checksum becomes zero when a translator writes back the echo's
/// identifier. The whole message then decides which of the two zeros it is.
fn reply_to_zero(frame: &[u8], ends: &Ends, echo: &Input) -> Option<Vec<u8>> {
    if ends.headers.protocol != ip::ICMP {
        return None;
    }
    let before = Ends::of(&echo.bytes, echo.link, echo.wire_len as usize)?;
    let ident = *echo.bytes.get(usize::from(before.headers.l4) + 4..)?.first_chunk::<2>()?;
    let mut packet = Packet::between(ends.dst, ends.src);
    let mut body = frame.get(usize::from(ends.headers.l4)..ends.headers.end as usize)?.to_vec();
    if body.first() != Some(&8) || body.len() < 10 {
        return None;
    }
    let sent = [body[4], body[5]];
    (body[0], body[2], body[3]) = (0, 0, 0);
    body[4..6].copy_from_slice(&ident);
    body[8..10].fill(0);
    let rest = !checksum::fold(checksum::sum(&body));
    body[8..10].copy_from_slice(&rest.to_be_bytes());
    body[4..6].copy_from_slice(&sent);
    packet.protocol = ip::ICMP;
    packet.body = body;
    packet.finish();
    Some(packet.bytes())
}

fn error(frame: &[u8], ends: &Ends, number: usize) -> Option<Vec<u8>> {
    if !number.is_multiple_of(3) {
        return None;
    }
    let quote = frame.get(usize::from(ends.headers.l3)..ends.headers.end as usize)?;
    let quote = &quote[..quote.len().min([28, 60, 548][number / 3 % 3])];
    let router = match ends.src {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::new(198, 51, 100, 254)),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0x77, 0, 0, 0, 0, 0xfe)),
    };
    let mut packet = Packet::between(router, ends.src);
    let kinds = if packet.is_v6() { [[1, 0], [3, 0], [2, 0]] } else { [[3, 1], [11, 0], [3, 4]] };
    packet.protocol = if packet.is_v6() { ip::ICMPV6 } else { ip::ICMP };
    packet.body = icmp(kinds[number / 9 % 3], [0, 1300], quote);
    packet.finish();
    Some(packet.bytes())
}
