//! The bytes of fields in a frame, found from the table of fields without the accessors.

use std::ops::Range;

use crate::wire::ip_protocol;
use crate::{Field, FieldPlace, FieldSet, Flags, Headers, LinkType, Span};

/// The bytes of `field` in a frame of `len` bytes with these headers. [`Field::Remainder`] is every
/// byte of the frame that no other field has, except the length byte of an IPv4 header.
pub fn places(field: Field, headers: &Headers, link: LinkType, len: usize) -> Vec<Range<usize>> {
    if field == Field::Remainder {
        return remainder(headers, link, len);
    }
    let range = fixed(field, headers, link).or_else(|| stretch(field, headers));
    range.into_iter().filter(|range| !range.is_empty() && range.end <= len).collect()
}

fn fixed(field: Field, headers: &Headers, link: LinkType) -> Option<Range<usize>> {
    let (base, span): (u16, Option<Span>) = match field.place() {
        FieldPlace::Link(span) => {
            let has = field != Field::VlanTci || headers.flags.has(Flags::VLAN);
            (0, Some(span).filter(|_| link == LinkType::ETHERNET && has))
        }
        FieldPlace::Ip { v4, v6 } => match headers.version {
            4 => (headers.l3, v4),
            6 => (headers.l3, v6),
            _ => (0, None),
        },
        FieldPlace::Transport { tcp, udp, icmp, esp } if headers.flags.has(Flags::TRANSPORT) => {
            let span = match headers.protocol {
                ip_protocol::TCP => tcp,
                ip_protocol::UDP => udp,
                ip_protocol::ICMP | ip_protocol::ICMPV6 => icmp,
                ip_protocol::ESP => esp,
                _ => None,
            };
            (headers.l4, span)
        }
        _ => (0, None),
    };
    let (base, span) = (usize::from(base), span?);
    Some(base + span.start..base + span.start + span.len)
}

fn stretch(field: Field, headers: &Headers) -> Option<Range<usize>> {
    let [l3, l4, payload] = [headers.l3, headers.l4, headers.payload].map(usize::from);
    match (field, headers.version) {
        (Field::IpOptions, 4) => Some(l3 + 20..l4),
        (Field::IpOptions, 6) => Some(l3 + 40..l4),
        (Field::TcpOptions, 4 | 6) => {
            let is_tcp =
                headers.protocol == ip_protocol::TCP && headers.flags.has(Flags::TRANSPORT);
            is_tcp.then_some(l4 + 20..payload)
        }
        (Field::Payload, 4 | 6) => Some(payload..headers.end as usize),
        _ => None,
    }
}

fn remainder(headers: &Headers, link: LinkType, len: usize) -> Vec<Range<usize>> {
    let all = fields_at(headers, link, len).into_iter().enumerate();
    all.filter(|(_, fields)| fields.contains(Field::Remainder)).map(|(at, _)| at..at + 1).collect()
}

/// The field of each byte of a frame of `len` bytes with these headers. Each byte has one field,
/// except where headers overlap, and the length byte of an IPv4 header, which has none.
pub fn fields_at(headers: &Headers, link: LinkType, len: usize) -> Vec<FieldSet> {
    let mut all = vec![FieldSet::EMPTY; len];
    for field in FieldSet::FRAME.iter().filter(|&field| field != Field::Remainder) {
        for range in places(field, headers, link, len) {
            all[range].iter_mut().for_each(|fields| *fields = fields.with(field));
        }
    }
    let first = (headers.version != 0).then_some(usize::from(headers.l3));
    let others = all.iter_mut().enumerate().filter(|(_, fields)| fields.is_empty());
    others
        .filter(|(at, _)| Some(*at) != first)
        .for_each(|(_, fields)| *fields = fields.with(Field::Remainder));
    all
}
