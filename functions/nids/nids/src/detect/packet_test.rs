//! Tests of a packet's own headers: manual, "Header Keywords".

use warpline_packet::wire::{Ipv6, ipv4, ipv6, ipv6_ext, options::Options, tcp};

use super::Subject;
use super::subject::{be16, be32};
use warpline_nids_rules::{Bits, BitsHow, PacketTest, Span};

/// Types of ICMP that have an identifier and a sequence number: echo, timestamps, information,
/// address mask.
const ICMPV4_WITH_IDENT: [u8; 8] = [0, 8, 13, 14, 15, 16, 17, 18];
/// Those of ICMPv6: echo.
const ICMPV6_WITH_IDENT: [u8; 2] = [128, 129];

/// Whether the packet is as said. One that lacks the header in question is not.
pub(super) fn holds(test: &PacketTest, subject: &Subject<'_>) -> bool {
    match test {
        PacketTest::SameIp => subject.version != 0 && subject.src == subject.dst,
        PacketTest::Dsize(span) => has_size(span, subject.payload.len()),
        PacketTest::IpProto(spans) => {
            subject.version != 0 && spans.iter().all(|span| span.contains(subject.protocol))
        }
        PacketTest::Ttl(_)
        | PacketTest::Tos(_)
        | PacketTest::Id(_)
        | PacketTest::IpOption(_)
        | PacketTest::FragBits(_)
        | PacketTest::FragOffset(_) => ip(test, subject).unwrap_or(false),
        PacketTest::Seq(_)
        | PacketTest::Ack(_)
        | PacketTest::Window(_)
        | PacketTest::Mss(_)
        | PacketTest::TcpFlags { .. } => tcp(test, subject).unwrap_or(false),
        PacketTest::IcmpType(_)
        | PacketTest::IcmpCode(_)
        | PacketTest::IcmpId(_)
        | PacketTest::IcmpSeq(_) => icmp(test, subject).unwrap_or(false),
    }
}

/// To be of another size than said takes a payload, as with Suricata.
fn has_size(span: &Span<u16>, len: usize) -> bool {
    span.contains(u16::try_from(len).unwrap_or(u16::MAX)) && (len > 0 || !span.is_negated)
}

fn ip(test: &PacketTest, subject: &Subject<'_>) -> Option<bool> {
    let v4 = |at: usize| subject.ipv4_header()?.get(at).copied();
    let v4_word = |at: usize| be16(subject.ipv4_header()?, at);
    let found = match test {
        PacketTest::Ttl(span) => {
            let v6 = || subject.ipv6_header()?.get(ipv6::field::HOP_LIMIT.start).copied();
            span.contains(v4(ipv4::field::TTL.start).or_else(v6)?)
        }
        PacketTest::Tos(span) => span.contains(v4(ipv4::field::DSCP_ECN.start)?),
        PacketTest::Id(span) => span.contains(v4_word(ipv4::field::IDENT.start)?),
        PacketTest::FragBits(bits) => {
            let word = v4_word(ipv4::field::FLAGS_FRAGMENT.start)?;
            has_bits(bits, (word >> 13) as u8)
        }
        PacketTest::FragOffset(span) => {
            let offset = v4_word(ipv4::field::FLAGS_FRAGMENT.start).map(|w| w & ipv4::OFFSET_MASK);
            span.contains(offset.or_else(|| ipv6_fragment_offset(subject))?)
        }
        PacketTest::IpOption(kind) => has_option(subject.ipv4_header()?, *kind),
        _ => return None,
    };
    Some(found)
}

/// In units of 8 bytes, of the fragment header.
fn ipv6_fragment_offset(subject: &Subject<'_>) -> Option<u16> {
    let packet = subject.ipv6_packet()?;
    let next = *packet.get(ipv6::field::NEXT_HEADER.start)?;
    let header = packet.get(..ipv6::HEADER_LEN)?;
    let packet_len = Ipv6::new_unchecked(header).packet_len(packet.len());
    let fragment = ipv6_ext::walk(next, packet, packet_len).ok()?.fragment?;
    Some(fragment.offset / 8)
}

/// Walked by hand: no-operations and the end of the list count as options too.
fn has_option(header: &[u8], kind: Option<u8>) -> bool {
    let mut options = header.get(ipv4::HEADER_LEN..).unwrap_or(&[]);
    while let [first, rest @ ..] = options {
        if kind.is_none_or(|kind| kind == *first) {
            return true;
        }
        let len = match (first, rest) {
            (0, _) => return false,
            (1, _) => 1,
            (_, [len, ..]) if *len >= 2 => usize::from(*len),
            _ => return false,
        };
        options = options.get(len..).unwrap_or(&[]);
    }
    false
}

fn tcp(test: &PacketTest, subject: &Subject<'_>) -> Option<bool> {
    let header = subject.tcp_header()?;
    let found = match test {
        PacketTest::Seq(span) => span.contains(be32(header, tcp::field::SEQ.start)?),
        PacketTest::Ack(span) => span.contains(be32(header, tcp::field::ACK.start)?),
        PacketTest::Window(span) => span.contains(be16(header, tcp::field::WINDOW.start)?),
        PacketTest::TcpFlags { bits, ignored } => {
            let flags = *header.get(tcp::field::OFFSET_FLAGS.start + 1)?;
            // None at all is none at all: as with Suricata, nothing is ignored then.
            let ignored = if bits.bits == 0 { 0 } else { *ignored };
            has_bits(bits, flags & !ignored)
        }
        PacketTest::Mss(span) => {
            let mut options = Options::new(header.get(tcp::HEADER_LEN..)?);
            let is_mss = |kind, len| kind == tcp::option::MAX_SEGMENT_SIZE && len == 2;
            let mss = options.find(|option| is_mss(option.kind, option.data.len()))?;
            span.contains(be16(mss.data, 0)?)
        }
        _ => return None,
    };
    Some(found)
}

fn has_bits(test: &Bits, found: u8) -> bool {
    match test.how {
        BitsHow::Exactly => found == test.bits,
        BitsHow::All => found & test.bits == test.bits,
        BitsHow::AllAndMore => found & test.bits == test.bits && found != test.bits,
        BitsHow::Any => found & test.bits != 0,
        BitsHow::NotAll if test.bits == 0 => found != 0,
        BitsHow::NotAll => found & test.bits != test.bits,
    }
}

fn icmp(test: &PacketTest, subject: &Subject<'_>) -> Option<bool> {
    let (header, with_ident) = match subject.icmpv4_header() {
        Some(header) => (header, &ICMPV4_WITH_IDENT[..]),
        None => (subject.icmpv6_header()?, &ICMPV6_WITH_IDENT[..]),
    };
    let kind = *header.first()?;
    let has_ident = with_ident.contains(&kind);
    let found = match test {
        PacketTest::IcmpType(span) => span.contains(kind),
        PacketTest::IcmpCode(span) => span.contains(*header.get(1)?),
        PacketTest::IcmpId(span) => has_ident && span.contains(be16(header, 4)?),
        PacketTest::IcmpSeq(span) => has_ident && span.contains(be16(header, 6)?),
        _ => return None,
    };
    Some(found)
}
