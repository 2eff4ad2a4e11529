//! Options for which Linux drops a packet that it would forward: `ip_options_compile` for IPv4,
//! `ip6_parse_tlv` of hop-by-hop options for IPv6.

use warpline_packet::wire::ipv4::option as v4;
use warpline_packet::wire::ipv6_ext::{self, option as v6};
use warpline_packet::wire::{Ipv6, ipv6};

const END: u8 = 0;
const NO_OPERATION: u8 = 1;
/// Labels of CIPSO, of which no domain is known.
const CIPSO: u8 = 134;
/// Flags of the timestamp option (RFC 791, 3.1).
mod timestamp {
    pub(super) const WITH_ADDRESS: u8 = 1;
    pub(super) const PRESPECIFIED: u8 = 3;
}

/// The options of an IPv4 header one by one, without the end and no-operations; `Err` where a
/// length lies.
fn each_v4(options: &[u8]) -> impl Iterator<Item = Result<&[u8], ()>> {
    let mut rest = options;
    core::iter::from_fn(move || {
        while let [NO_OPERATION, behind @ ..] = rest {
            rest = behind;
        }
        let &kind = rest.first().filter(|&&kind| kind != END)?;
        debug_assert_ne!(kind, NO_OPERATION);
        let len = rest.get(1).map_or(0, |&len| usize::from(len));
        let Some((option, behind)) = rest.split_at_checked(len).filter(|_| len >= 2) else {
            rest = &[];
            return Some(Err(()));
        };
        rest = behind;
        Some(Ok(option))
    })
}

/// Whether Linux refuses the options of an IPv4 header.
pub(super) fn are_bad_v4(options: &[u8]) -> bool {
    let mut seen = [0u8; 3];
    each_v4(options).any(|option| {
        let Ok(option) = option else { return true };
        let (place, bad) = match option[0] {
            v4::LOOSE_SOURCE_ROUTE | v4::STRICT_SOURCE_ROUTE => {
                (0, option.get(2).is_none_or(|&next| next < 4))
            }
            v4::RECORD_ROUTE => (1, is_bad_record(option)),
            v4::TIMESTAMP => (2, is_bad_timestamp(option)),
            v4::ROUTER_ALERT => return option.len() < 4,
            kind => return kind == CIPSO,
        };
        seen[place] += 1;
        bad || seen[place] > 1
    })
}

/// Whether one of the options of an IPv4 header, none of which lies, is a source route.
pub(super) fn has_source_route(options: &[u8]) -> bool {
    let is = |kind| matches!(kind, v4::LOOSE_SOURCE_ROUTE | v4::STRICT_SOURCE_ROUTE);
    each_v4(options).flatten().any(|option| is(option[0]))
}

fn is_bad_record(option: &[u8]) -> bool {
    let Some(next) = option.get(2).map(|&next| usize::from(next)) else { return true };
    next < 4 || next <= option.len() && next + 3 > option.len()
}

fn is_bad_timestamp(option: &[u8]) -> bool {
    let [_, _, next, flags, ..] = *option else { return true };
    let (next, len, kind) = (usize::from(next), option.len(), flags & 0x0f);
    if next < 5 {
        return true;
    }
    if next > len {
        // It is full: one more router that found no place for its time is counted, up to 15.
        return kind != timestamp::PRESPECIFIED && flags >> 4 == 15;
    }
    let has_address = matches!(kind, timestamp::WITH_ADDRESS | timestamp::PRESPECIFIED);
    let taken = if has_address { 7 } else { 3 };
    next + taken > len
}

/// Options besides padding that Linux reads in one header.
const OPTIONS_MAX: usize = 8;
/// Bytes of padding in a row: more than 7 align nothing.
const PADDING_MAX: usize = 7;

/// Whether Linux refuses the hop-by-hop options that follow the header of `packet`, as far as
/// captured.
pub(super) fn are_bad_v6(packet: &[u8]) -> bool {
    let Some(&[_, units]) = packet.get(ipv6::HEADER_LEN..).and_then(<[u8]>::first_chunk) else {
        return false;
    };
    let end = ipv6::HEADER_LEN + ipv6_ext::HEADER_LEN * (usize::from(units) + 1);
    let (mut at, mut padding, mut options) = (ipv6::HEADER_LEN + 2, 0, 0);
    while at < end {
        let Some(&kind) = packet.get(at) else { return false };
        if kind == v6::PAD1 {
            (at, padding) = (at + 1, padding + 1);
            if padding > PADDING_MAX {
                return true;
            }
            continue;
        }
        if at + 1 == end {
            return true;
        }
        let Some(&len) = packet.get(at + 1) else { return false };
        let behind = at + 2 + usize::from(len);
        if behind > end {
            return true;
        }
        let Some(value) = packet.get(at + 2..behind) else { return false };
        if kind == v6::PADN {
            padding += 2 + value.len();
            if padding > PADDING_MAX || value.iter().any(|&byte| byte != 0) {
                return true;
            }
        } else {
            (padding, options) = (0, options + 1);
            if options > OPTIONS_MAX || is_refused_v6(packet, at, kind, value) {
                return true;
            }
        }
        at = behind;
    }
    false
}

fn is_refused_v6(packet: &[u8], at: usize, kind: u8, value: &[u8]) -> bool {
    match kind {
        v6::ROUTER_ALERT => value.len() != 2,
        v6::CALIPSO => true,
        v6::JUMBO => {
            let len = value.try_into().ok().map(u32::from_be_bytes);
            let says_both = Ipv6::new_unchecked(packet).payload_len() != 0;
            at % 4 != 2 || says_both || len.is_none_or(|len| len <= u16::MAX.into())
        }
        // RFC 8200, 4.2: with one of the upper two bits set, an unknown option has the packet
        // discarded.
        _ => kind >> 6 != 0,
    }
}
