//! Packets that a router never forwards: from RFC 1812 (5.2.2, 5.3.4, 5.3.7, 5.3.13), RFC 4291
//! (2.5), and what Linux 6.18 was seen to do between two network namespaces.

use std::net::IpAddr;

use crate::router_errors::{octets, to_all};
use crate::sums::sum;
use crate::wire::{Frame, View, be16};

/// Why it must not go on, whatever its route; reasons in the order in which they are looked for.
pub(crate) fn objections(frame: &Frame, view: &View) -> Vec<&'static str> {
    let (src, dst) = view.addresses(&frame.bytes);
    let packet = &frame.bytes[view.l3..view.end];
    let options = &packet[..view.l4.min(view.end) - view.l3];
    let mut found = Vec::new();
    if view.version == 4 {
        let kinds = options_v4(&options[20..]);
        found.extend((sum(&[options]) != 0xffff).then_some("bad-checksum"));
        found.extend(kinds.is_none().then_some("bad-options"));
        let routed = kinds.is_some_and(|kinds| kinds.contains(&131) || kinds.contains(&137));
        found.extend(routed.then_some("source-route"));
    } else {
        let bad = packet[6] == 0 && view.l4 > view.l3 + 40 && !are_fine_v6(packet);
        found.extend(bad.then_some("bad-options"));
    }
    found.extend(is_martian_source(src).then_some("martian-source"));
    let to_many = to_all(frame) && !is_group(dst);
    found.extend(to_many.then_some("link-broadcast"));
    found
}

/// Why no packet is sent to an address, with any table.
pub(crate) fn forbidden(dst: IpAddr) -> Option<&'static str> {
    let first = octets(dst)[0];
    let is_special = match dst {
        IpAddr::V4(a) => first == 127 || a.is_unspecified() || a.is_broadcast(),
        IpAddr::V6(a) => a.is_unspecified() || a.is_loopback() || is_link_local(dst),
    };
    match (is_special, dst) {
        (true, _) => Some("martian-destination"),
        (_, IpAddr::V4(_)) if (224..240).contains(&first) => Some("multicast"),
        (_, IpAddr::V6(_)) if first == 0xff => Some("multicast"),
        _ => None,
    }
}

fn is_martian_source(src: IpAddr) -> bool {
    match src {
        IpAddr::V4(a) => {
            a.is_loopback() || a.is_unspecified() || a.is_multicast() || a.is_broadcast()
        }
        IpAddr::V6(a) => {
            a.is_loopback() || a.is_unspecified() || a.is_multicast() || is_link_local(src)
        }
    }
}

/// fe80::/10; Linux forwards link-local addresses of IPv4.
fn is_link_local(address: IpAddr) -> bool {
    let bytes = octets(address);
    bytes.len() == 16 && bytes[0] == 0xfe && bytes[1] & 0xc0 == 0x80
}

fn is_group(dst: IpAddr) -> bool {
    match dst {
        IpAddr::V4(a) => a.is_multicast() || a.is_broadcast(),
        IpAddr::V6(a) => a.is_multicast(),
    }
}

/// The kinds of the options of IPv4; `None` where Linux sends or would send a parameter problem.
fn options_v4(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut kinds = Vec::new();
    while let Some(&kind) = rest.first() {
        if kind == 0 {
            break;
        }
        if kind == 1 {
            rest = &rest[1..];
            continue;
        }
        let len = usize::from(*rest.get(1)?);
        if len < 2 || len > rest.len() {
            return None;
        }
        let at = |place: usize| (place < len).then(|| usize::from(rest[place]));
        let is_route = kind == 131 || kind == 137;
        let is_second = kinds.iter().any(|&other| match other {
            131 | 137 => is_route,
            7 | 68 => other == kind,
            _ => false,
        });
        let is_right = match kind {
            131 | 137 => at(2)? >= 4,
            7 => at(2)? >= 4 && (at(2)? > len || at(2)? + 3 <= len),
            68 => {
                let (next, word) = (at(2)?, at(3)?);
                let room = if matches!(word & 15, 1 | 3) { 8 } else { 4 };
                let full = next > len;
                let counts = word & 15 != 3;
                next >= 5 && (full || next - 1 + room <= len) && !(full && counts && word > 0xef)
            }
            148 => len >= 4,
            134 => false,
            _ => true,
        };
        if !is_right || is_second {
            return None;
        }
        kinds.push(kind);
        rest = &rest[len..];
    }
    Some(kinds)
}

/// Whether Linux would let the hop-by-hop options of a packet of IPv6 pass, as far as captured.
fn are_fine_v6(packet: &[u8]) -> bool {
    let Some(&units) = packet.get(41) else { return true };
    let end = 40 + 8 * (1 + usize::from(units));
    let (mut at, mut pads, mut count) = (42, 0, 0);
    while at < end {
        let Some(&kind) = packet.get(at) else { return true };
        let len = match kind {
            0 => 1,
            _ if at + 1 >= end => return false,
            _ => match packet.get(at + 1) {
                Some(&len) => 2 + usize::from(len),
                None => return true,
            },
        };
        if at + len > end {
            return false;
        }
        let Some(option) = packet.get(at..at + len) else { return true };
        pads = if kind < 2 { pads + len } else { 0 };
        count += usize::from(kind > 1);
        let fine = match kind {
            0 => true,
            1 => option[2..].iter().all(|&byte| byte == 0),
            5 => len == 4,
            7 => false,
            0xc2 => {
                let large = len == 6 && option[2..4] != [0, 0];
                large && at % 4 == 2 && be16(packet, 4) == Some(0)
            }
            _ => kind < 0x40,
        };
        if !fine || pads > 7 || count > 8 {
            return false;
        }
        at += len;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::{Fate, Function};
    use crate::prefix::Prefix;
    use crate::router::{Config, Router, Target};
    use crate::wire::link;

    /// See the file; the router and its kernels have the same cases.
    #[test]
    fn the_naive_router_does_what_linux_did() {
        const SEEN: &str = include_str!("../../../../functions/router/src/forwarding_of_linux.txt");
        let prefix = |text: &str, len| Prefix::of(text.parse().expect("an address"), len);
        let via = |text: &str| Target::Via(text.parse().expect("an address"));
        let routes = vec![
            (prefix("0.0.0.0", 0), via("10.0.2.2")),
            (prefix("10.0.1.0", 24), Target::Direct),
            (prefix("10.0.2.0", 24), Target::Direct),
            (prefix("::", 0), via("2001:db8:2::2")),
        ];
        let config = Config { routes, allowed: Vec::new(), ..Config::default() };
        let mut router = Router::new(config);
        for line in SEEN.lines().filter(|line| !line.starts_with('#')) {
            let [name, _, reason, hex] = line.split(';').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("digits");
            let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
            let (wire_len, link) = (bytes.len(), link::ETHERNET);
            let mut frame = Frame { bytes, wire_len, link, ..Frame::default() };
            let expected = if reason == "-" { Fate::Forward } else { Fate::Drop(reason) };
            assert_eq!(router.take(&mut frame, None, &mut Vec::new()), expected, "{name}");
        }
    }
}
