//! Formats times, addresses, protocols and bytes in alerts, as Suricata does.
//!
//! Writing to a `Vec` can't fail, so results of `write!` are dropped here and in the files beside
//! this one.

use core::net::IpAddr;
use std::io::Write;

use warpline_packet::Instant;
use warpline_packet::wire::ip_protocol;

/// A moment of UTC, by the calendar.
struct Civil {
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
    micros: u64,
}

impl Civil {
    fn of(time: Instant) -> Self {
        let (seconds, nanos) = (time.as_nanos() / 1_000_000_000, time.as_nanos() % 1_000_000_000);
        let (days, in_day) = (seconds / 86_400, seconds % 86_400);
        // Years begin in March, so that the day that is only sometimes there comes last; in 400 of
        // them there are 146,097 days, and 1970-01-01 is day 719,468 of year 0.
        let since = days + 719_468;
        let (era, of_era) = (since / 146_097, since % 146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        Self {
            year: era * 400 + year_of_era + u64::from(month <= 2),
            month,
            day: of_year - (153 * from_march + 2) / 5 + 1,
            hour: in_day / 3600,
            minute: in_day / 60 % 60,
            second: in_day % 60,
            micros: nanos / 1000,
        }
    }
}

/// `2024-01-02T03:04:05.678901+0000`.
pub(super) fn iso_time(out: &mut Vec<u8>, time: Instant) {
    let Civil { year, month, day, hour, minute, second, micros } = Civil::of(time);
    let _ = write!(
        out,
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}+0000"
    );
}

/// `01/02/2024-03:04:05.678901`, of UTC.
pub(super) fn fast_time(out: &mut Vec<u8>, time: Instant) {
    let Civil { year, month, day, hour, minute, second, micros } = Civil::of(time);
    let _ =
        write!(out, "{month:02}/{day:02}/{year:04}-{hour:02}:{minute:02}:{second:02}.{micros:06}");
}

/// An address; of IPv6 all eight groups with all their digits.
pub(super) fn address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            let _ = write!(out, "{address}");
        }
        IpAddr::V6(address) => {
            for (place, group) in address.segments().into_iter().enumerate() {
                let colon = if place > 0 { ":" } else { "" };
                let _ = write!(out, "{colon}{group:04x}");
            }
        }
    }
}

/// The keyword of a protocol in IANA's registry of protocol numbers, as it is usually spelled.
pub(super) fn protocol_name(protocol: u8) -> Option<&'static str> {
    Some(match protocol {
        ip_protocol::ICMP => "ICMP",
        2 => "IGMP",
        4 => "IP-in-IP",
        ip_protocol::TCP => "TCP",
        8 => "EGP",
        ip_protocol::UDP => "UDP",
        33 => "DCCP",
        41 => "IPv6",
        43 => "IPv6-Route",
        44 => "IPv6-Frag",
        46 => "RSVP",
        47 => "GRE",
        ip_protocol::ESP => "ESP",
        51 => "AH",
        ip_protocol::ICMPV6 => "IPv6-ICMP",
        59 => "IPv6-NoNxt",
        60 => "IPv6-Opts",
        88 => "EIGRP",
        89 => "OSPF",
        97 => "ETHERIP",
        103 => "PIM",
        108 => "IPComp",
        112 => "VRRP",
        115 => "L2TP",
        SCTP => "SCTP",
        135 => "Mobility",
        136 => "UDPLite",
        137 => "MPLS-in-IP",
        139 => "HIP",
        140 => "Shim6",
        _ => return None,
    })
}

/// SCTP (RFC 9260).
pub(super) const SCTP: u8 = 132;

/// Whether alerts of a protocol name ports.
pub(super) fn has_ports(protocol: u8) -> bool {
    matches!(protocol, ip_protocol::TCP | ip_protocol::UDP | SCTP)
}

/// Whether alerts of a protocol name a type and a code.
pub(super) fn is_icmp(protocol: u8) -> bool {
    matches!(protocol, ip_protocol::ICMP | ip_protocol::ICMPV6)
}

/// Base 64 with padding (RFC 4648, 4).
pub(super) fn base64(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for three in bytes.chunks(3) {
        let word = three.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
        let word = word << (8 * (3 - three.len()));
        for place in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * place)) as usize & 63];
            out.push(if place <= three.len() { digit } else { b'=' });
        }
    }
}

/// A text of JSON, quotes around it.
pub(super) fn json_text(out: &mut Vec<u8>, text: &str) {
    let _ = serde_json::to_writer(out, text);
}

/// Bytes as a text of JSON: what can't be printed is a full stop, line ends aside.
pub(super) fn json_printable(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    for byte in bytes {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b' '..=b'~' => out.push(*byte),
            _ => out.push(b'.'),
        }
    }
    out.push(b'"');
}
