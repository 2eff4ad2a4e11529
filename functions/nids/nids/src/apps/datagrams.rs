//! Datagrams of UDP.

use super::app::App::{self, *};
use super::bytes::{Fit, be16, be32, ber, ber_integer, byte, has};
use super::{dns, text};
use warpline_streams::flows::Direction;

/// The protocol of a datagram. `port` is the server's.
pub(super) fn guess(direction: Direction, port: u16, payload: &[u8]) -> Option<App> {
    if is_sip(direction, payload) {
        return Some(Sip);
    }
    // BEP 5: a query, with its sender's identifier first.
    if has(payload, 0, b"d1:ad2:id20:", false) == Fit::Yes {
        return Some(BittorrentDht);
    }
    let (app, is) = match port {
        53 => (Dns, dns::is_message(payload)),
        67 | 68 => (Dhcp, payload.len() >= DHCP_LEN_MIN),
        69 => (Tftp, is_tftp(payload)),
        80 | 443 => (Quic, is_quic(payload)),
        88 => (Krb5, is_krb5(payload) == Fit::Yes),
        123 => (Ntp, is_ntp(payload)),
        161 | 162 => (Snmp, is_snmp(payload).unwrap_or(false)),
        389 | 3268 => (Ldap, is_ldap(payload) == Fit::Yes),
        500 => (Ike, is_ike(payload).unwrap_or(false)),
        2049 => (Nfs, is_nfs(payload)),
        5353 => (Mdns, dns::is_multicast(payload)),
        _ => return None,
    };
    is.then_some(app)
}

/// RFC 2131, 2: the fields of fixed length, and the cookie.
const DHCP_LEN_MIN: usize = 240;

fn is_sip(direction: Direction, payload: &[u8]) -> bool {
    let fit = match direction {
        Direction::ToServer => text::is_sip_request(payload),
        Direction::ToClient => has(payload, 0, b"SIP/2.0 ", false),
    };
    fit == Fit::Yes
}

/// RFC 1350, 5 and RFC 2347: an opcode, and something after it.
fn is_tftp(payload: &[u8]) -> bool {
    payload.len() >= 4 && be16(payload, 0).is_some_and(|opcode| (1..=6).contains(&opcode))
}

/// RFC 5905, 7.3: version 3 or 4, and a header of 48 bytes that extensions or a digest follow.
fn is_ntp(payload: &[u8]) -> bool {
    const HEADER_LEN: usize = 48;
    let version = payload.first().map(|first| first >> 3 & 7);
    let more = payload.len().checked_sub(HEADER_LEN);
    matches!(version, Some(3 | 4)) && more.is_some_and(|more| more % 4 == 0)
}

/// RFC 1157, 4; RFC 1901, 3; RFC 3412, 6: a version, then a community or global data.
fn is_snmp(payload: &[u8]) -> Option<bool> {
    let (tag, len, rest) = ber(payload)?;
    if tag != 0x30 || len > rest.len() {
        return Some(false);
    }
    let (version, rest) = ber_integer(rest)?;
    let (tag, len, rest) = ber(rest)?;
    Some(match version {
        0 | 1 => tag == 4 && rest.get(len).is_some_and(|pdu| (0xa0..=0xa8).contains(pdu)),
        3 => tag == 0x30,
        _ => false,
    })
}

/// RFC 2408, 3.1; RFC 7296, 3.1: versions 1 and 2, exchanges that there are, and the length.
fn is_ike(payload: &[u8]) -> Option<bool> {
    let (version, exchange) = (*payload.get(17)?, *payload.get(18)?);
    let is_exchange = match version >> 4 {
        1 => matches!(exchange, 0..=6 | 32..=34),
        2 => matches!(exchange, 34..=44),
        _ => false,
    };
    Some(is_exchange && be32(payload, 24)? as usize == payload.len())
}

/// RFC 4120, 5.10: an application tag, a sequence, and version 5.
pub(super) fn is_krb5(bytes: &[u8]) -> Fit {
    let is_tag = |tag| matches!(tag, 0x6a..=0x6f | 0x74..=0x76 | 0x7e);
    byte(bytes, 0, is_tag).and(|| krb5_version(bytes).map_or(Fit::Maybe, Fit::of))
}

fn krb5_version(bytes: &[u8]) -> Option<bool> {
    let (_, _, rest) = ber(bytes)?;
    let (sequence, _, rest) = ber(rest)?;
    let (context, _, rest) = ber(rest)?;
    // The version is the first field of some messages and the second of others.
    let is_field = sequence == 0x30 && matches!(context, 0xa0 | 0xa1);
    Some(is_field && ber_integer(rest)?.0 == 5)
}

/// RFC 4511, 4.1.1: a sequence of a message's number and an operation.
pub(super) fn is_ldap(bytes: &[u8]) -> Fit {
    byte(bytes, 0, |tag| tag == 0x30).and(|| ldap_operation(bytes).map_or(Fit::Maybe, Fit::of))
}

fn ldap_operation(bytes: &[u8]) -> Option<bool> {
    let (_, _, rest) = ber(bytes)?;
    let (tag, len, rest) = ber(rest)?;
    if tag != 2 || !(1..=4).contains(&len) {
        return Some(false);
    }
    let operation = *rest.get(len)?;
    Some(operation & 0xc0 == 0x40 && operation & 0x1f <= 25)
}

/// RFC 5531, 9: a call of program 100003.
fn is_nfs(payload: &[u8]) -> bool {
    has(payload, 4, &[0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0x86, 0xa3], false) == Fit::Yes
}

/// RFC 8999, 5, and for what follows the identifiers RFC 9000, 17.2. Short headers prove nothing:
/// all that is sent to QUIC's ports with one counts, as with Suricata.
fn is_quic(payload: &[u8]) -> bool {
    const LONG: u8 = 0x80;
    const FIXED: u8 = 0x40;
    match payload {
        [first, ..] if first & LONG != 0 => is_long_header(payload).unwrap_or(false),
        [first] => first & FIXED != 0,
        payload => !payload.is_empty(),
    }
}

/// Versions before IETF's: "Q" and three digits.
const GOOGLE: u8 = b'Q';
/// RFC 9000, 17.2: bytes of an identifier in version 1.
const ID_LEN_MAX: usize = 20;

fn is_long_header(payload: &[u8]) -> Option<bool> {
    let (first, version) = (payload[0], be32(payload, 1)?);
    if version == 0 {
        return Some(false);
    }
    if version.to_be_bytes()[0] == GOOGLE {
        return Some(true);
    }
    let (to, rest) = identifier(payload.get(5..)?)?;
    let (from, rest) = identifier(rest)?;
    if version == 1 && to.max(from) > ID_LEN_MAX {
        return Some(false);
    }
    let rest = match first >> 4 & 3 {
        0 => {
            let (len, rest) = integer(rest)?;
            rest.get(usize::try_from(len).ok()?..)?
        }
        // A retry has no length.
        3 => return Some(true),
        _ => rest,
    };
    let (len, rest) = integer(rest)?;
    Some(len <= rest.len() as u64)
}

/// The length of a connection identifier, and what follows it.
fn identifier(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (&len, rest) = bytes.split_first()?;
    Some((len.into(), rest.get(usize::from(len)..)?))
}

/// RFC 9000, 16.
fn integer(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let first = *bytes.first()?;
    let (own, rest) = bytes.split_at_checked(1 << (first >> 6))?;
    let value = own.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    Some((value & !(3 << (8 * own.len() - 2)), rest))
}
