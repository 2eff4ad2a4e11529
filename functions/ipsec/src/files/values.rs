//! Single values of both kinds of files: keys, ports, protocols, window sizes.

use core::ops::RangeInclusive;

use warpline_packet::wire::ip_protocol;
use zeroize::Zeroizing;

use crate::cipher::{Auth, Cipher};
use crate::sa::{Secret, Selector};

/// Reads `0x` and an even number of hexadecimal digits. The error doesn't show them.
pub(super) fn key(text: &str) -> Result<Secret, &'static str> {
    const WRONG: &str = "must be 0x and an even number of hexadecimal digits";
    let digits = text.strip_prefix("0x").ok_or(WRONG)?.as_bytes();
    if digits.len() % 2 != 0 || digits.len() > 1024 {
        return Err(WRONG);
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(digits.len() / 2));
    for pair in digits.chunks_exact(2) {
        let digit = |byte: u8| char::from(byte).to_digit(16).ok_or(WRONG);
        bytes.push((digit(pair[0])? << 4 | digit(pair[1])?) as u8);
    }
    Ok(Secret(bytes))
}

/// Whether a cipher takes a key of `len` bytes; otherwise what it takes.
pub(super) fn check_cipher_key(cipher: Cipher, len: usize) -> Result<(), &'static str> {
    let (fits, takes) = match cipher {
        Cipher::Null => (len == 0, "null must have no key"),
        Cipher::Cbc => {
            (matches!(len, 16 | 24 | 32), "aes-cbc requires a key of 16, 24 or 32 bytes")
        }
        Cipher::Ctr => (
            matches!(len, 20 | 28 | 36),
            "aes-ctr requires a key of 16, 24 or 32 bytes and 4 of nonce",
        ),
        Cipher::Gcm => (
            matches!(len, 20 | 28 | 36),
            "aes-gcm requires a key of 16, 24 or 32 bytes and 4 of salt",
        ),
    };
    if fits { Ok(()) } else { Err(takes) }
}

/// The same for an authentication.
pub(super) fn check_auth_key(auth: Auth, len: usize) -> Result<(), &'static str> {
    let (fits, takes) = match auth {
        Auth::None => (len == 0, "a key requires authentication"),
        Auth::Sha1 => (len == 20, "hmac-sha1-96 requires a key of 20 bytes"),
        Auth::Sha256 => (len == 32, "hmac-sha2-256-128 requires a key of 32 bytes"),
    };
    if fits { Ok(()) } else { Err(takes) }
}

/// Names of protocols as `/etc/protocols` has them, and those that people use.
const PROTOCOLS: &[(&str, u8)] = &[
    ("icmp", 1),
    ("igmp", 2),
    ("ipencap", 4),
    ("tcp", 6),
    ("udp", 17),
    ("dccp", 33),
    ("ipv6", 41),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("ipv6-icmp", 58),
    ("icmpv6", 58),
    ("ospf", 89),
    ("pim", 103),
    ("vrrp", 112),
    ("sctp", 132),
    ("udplite", 136),
];

/// A protocol by name or number; 0 and "any" are every one.
pub(super) fn protocol(text: &str) -> Option<Option<u8>> {
    if text == "any" {
        return Some(None);
    }
    let known = PROTOCOLS.iter().find(|(name, _)| *name == text).map(|(_, number)| *number);
    let number = known.or_else(|| text.parse().ok())?;
    Some((number != 0).then_some(number))
}

/// The error in the ports of a selector, if any.
pub(super) fn check_ports(selector: &Selector) -> Result<(), &'static str> {
    let any = ANY_PORTS;
    if selector.src_ports == any && selector.dst_ports == any {
        return Ok(());
    }
    match selector.protocol {
        Some(ip_protocol::TCP | ip_protocol::UDP | ip_protocol::SCTP) => Ok(()),
        Some(ip_protocol::ICMP | ip_protocol::ICMPV6) => {
            let in_range = |ports: &RangeInclusive<u16>| *ports == any || *ports.end() <= 255;
            if in_range(&selector.src_ports) && in_range(&selector.dst_ports) {
                Ok(())
            } else {
                Err("types and codes of ICMP go from 0 to 255")
            }
        }
        _ => Err(
            "ports take the protocol tcp, udp or sctp; or icmp or icmpv6, whose type and code they \
             are",
        ),
    }
}

/// Every port, and packets that have none.
pub(super) const ANY_PORTS: RangeInclusive<u16> = 0..=u16::MAX;

/// Reads `80` or `1-1023`.
pub(super) fn ports(text: &str) -> Option<RangeInclusive<u16>> {
    let number = |text: &str| {
        let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if plain { text.parse::<u16>().ok() } else { None }
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first.trim())?, number(last.trim())?);
    (first <= last).then_some(first..=last)
}

/// The packets that match both of two selectors that overlap.
pub(super) fn both(a: &Selector, b: &Selector) -> Selector {
    let prefix = |a: warpline_packet::Prefix, b: warpline_packet::Prefix| {
        if a.len() >= b.len() { a } else { b }
    };
    let range = |a: &RangeInclusive<u16>, b: &RangeInclusive<u16>| {
        *a.start().max(b.start())..=*a.end().min(b.end())
    };
    Selector {
        src: prefix(a.src, b.src),
        dst: prefix(a.dst, b.dst),
        protocol: a.protocol.or(b.protocol),
        src_ports: range(&a.src_ports, &b.src_ports),
        dst_ports: range(&a.dst_ports, &b.dst_ports),
    }
}

/// Whether packets may match both.
pub(super) fn overlap(a: &Selector, b: &Selector) -> bool {
    let prefixes = |a: warpline_packet::Prefix, b: warpline_packet::Prefix| {
        a.contains(b.address()) || b.contains(a.address())
    };
    let ranges = |a: &RangeInclusive<u16>, b: &RangeInclusive<u16>| {
        a.start() <= b.end() && b.start() <= a.end()
    };
    let protocols = a.protocol.is_none() || b.protocol.is_none() || a.protocol == b.protocol;
    protocols
        && prefixes(a.src, b.src)
        && prefixes(a.dst, b.dst)
        && ranges(&a.src_ports, &b.src_ports)
        && ranges(&a.dst_ports, &b.dst_ports)
}
