//! Removes the rest of ESP from a packet that the cipher opened (RFC 4303, 3.4.4.1 and 5.2 of RFC
//! 4301).

use warpline_packet::wire::{checksum, ethernet, ip_protocol, ipv4, ipv6, tcp, udp};
use warpline_packet::{Flags, LinkType, PacketMut};

use super::outer::{ECN, Inner, ecn_out};
use super::seal::Stretch;
use super::shape::Shape;
use super::tables::{ESP_HEADER_LEN, TRAILER_LEN};
use warpline_packet::upper::UpperLayer;

/// The outcome of a packet that came by ESP, as a number in its scratch word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum StripOutcome {
    /// Nothing yet, or it did not authenticate: not a byte of it was changed.
    Closed = 0,
    /// It is in the clear.
    Plain = 1,
    /// It carries nothing (RFC 4303, 2.6).
    Dummy = 2,
    /// Its padding is not 1, 2, 3 and so on.
    BadPadding = 3,
    /// Its content is not what its SA carries.
    Malformed = 4,
    /// It experienced congestion that it cannot signal (RFC 6040, 4.2).
    Congestion = 5,
    /// Its link can't carry what is in it.
    Link = 6,
}

impl StripOutcome {
    #[inline]
    pub(super) const fn of(number: u8) -> Self {
        match number {
            1 => Self::Plain,
            2 => Self::Dummy,
            3 => Self::BadPadding,
            4 => Self::Malformed,
            5 => Self::Congestion,
            6 => Self::Link,
            _ => Self::Closed,
        }
    }
}

/// Makes of `packet`, whose text at `esp` is plain, what was sealed.
pub(super) fn strip(packet: &mut PacketMut<'_>, shape: &Shape, esp: Stretch) -> StripOutcome {
    let esp = esp.range();
    let text_at = esp.start + ESP_HEADER_LEN + shape.iv_len();
    let text_end = esp.end - shape.icv_len();
    let text = packet.as_packet().into_frame().get(text_at..text_end).unwrap_or(&[]);
    let (len, protocol) = match payload(text) {
        Ok(found) => found,
        Err(outcome) => return outcome,
    };
    // RFC 4303, 2.6: whatever the mode.
    if protocol == ip_protocol::NO_NEXT_HEADER {
        return StripOutcome::Dummy;
    }
    let is_untagged = packet.l3_offset() == ethernet::HEADER_LEN;
    if protocol == ip_protocol::IPV4
        && is_untagged
        && packet.link() == LinkType::ETHERNET
        && shape.is_plain_v4()
    {
        return strip_plain(packet, shape, text_at, len);
    }
    match shape.outer_len() {
        0 => strip_transport(packet, shape, text_at, len, protocol),
        _ => strip_tunnel(packet, shape, text_at, len, protocol),
    }
}

/// The bytes of a text before its padding, and their protocol.
#[inline(always)]
fn payload(text: &[u8]) -> Result<(usize, u8), StripOutcome> {
    let Some((rest, &[pad_len, protocol])) = text.split_last_chunk::<TRAILER_LEN>() else {
        return Err(StripOutcome::Malformed);
    };
    let Some(len) = rest.len().checked_sub(pad_len.into()) else {
        return Err(StripOutcome::BadPadding);
    };
    let is_right = rest[len..] == PADDING[..pad_len.into()];
    if is_right { Ok((len, protocol)) } else { Err(StripOutcome::BadPadding) }
}

/// RFC 4303, 2.4: padding is 1, 2, 3 and so on.
static PADDING: [u8; 255] = {
    let mut padding = [0; 255];
    let mut at = 0;
    while at < padding.len() {
        padding[at] = at as u8 + 1;
        at += 1;
    }
    padding
};

/// [`strip_tunnel`] for IPv4 in untagged Ethernet, for [`Shape::is_plain_v4`].
#[inline(always)]
fn strip_plain(
    packet: &mut PacketMut<'_>,
    shape: &Shape,
    text_at: usize,
    len: usize,
) -> StripOutcome {
    const CLASS_AT: usize = ethernet::HEADER_LEN + ipv4::field::DSCP_ECN.start;
    let frame = packet.frame_mut();
    let found =
        frame.get(text_at..text_at + len).and_then(|inner| inside(inner, ip_protocol::IPV4));
    let Some((_, inner_class, inner_len)) = found.filter(|&(_, _, own)| own <= len) else {
        return StripOutcome::Malformed;
    };
    let outer_class = frame.get(CLASS_AT).copied().unwrap_or(0);
    let front = text_at - ethernet::HEADER_LEN;
    let tail = frame.len() - (text_at + inner_len);
    move_to_back(frame, ethernet::HEADER_LEN, front);
    if !packet.reshape(front as isize, -(tail as isize)) {
        return StripOutcome::Malformed;
    }
    reparse(packet, shape, inner_class, outer_class)
}

/// Finds the headers of the inner packet, and copies a mark from the header of the tunnel.
#[inline(always)]
fn reparse(
    packet: &mut PacketMut<'_>,
    shape: &Shape,
    inner_class: u8,
    outer_class: u8,
) -> StripOutcome {
    packet.set_wrapped(false);
    packet.set_opened(true);
    packet.reparse();
    if packet.malformed().is_some() {
        return StripOutcome::Malformed;
    }
    // A mark that both have stays as it is.
    let is_marked = (inner_class ^ outer_class) & ECN != 0;
    match shape.outer.ecn && is_marked {
        true => take_ecn(packet, inner_class, outer_class),
        false => StripOutcome::Plain,
    }
}

/// Leaves the packet of at most `len` bytes at `text_at`; after it may be padding against traffic
/// analysis (RFC 4303, 2.7).
#[inline(never)]
fn strip_tunnel(
    packet: &mut PacketMut<'_>,
    shape: &Shape,
    text_at: usize,
    len: usize,
    protocol: u8,
) -> StripOutcome {
    let (headers, link) = (packet.headers(), packet.link());
    let l3 = usize::from(headers.l3);
    let frame = packet.frame_mut();
    let found = frame.get(text_at..text_at + len).and_then(|inner| inside(inner, protocol));
    let Some((version, inner_class, inner_len)) = found.filter(|&(_, _, own)| own <= len) else {
        return StripOutcome::Malformed;
    };
    if !link.takes(version) {
        return StripOutcome::Link;
    }
    let outer_class = Inner::of(headers.version, &frame[l3..]).traffic_class;
    let front = text_at - l3;
    let tail = frame.len() - (text_at + inner_len);
    move_to_back(frame, l3, front);
    if version != headers.version {
        link.announce(&mut frame[front..front + l3], version);
    }
    if !packet.reshape(front as isize, -(tail as isize)) {
        return StripOutcome::Malformed;
    }
    reparse(packet, shape, inner_class, outer_class)
}

/// Moves the first `moved` bytes, the link header, to `to`.
#[inline]
fn move_to_back(frame: &mut [u8], moved: usize, to: usize) {
    // Nearly always, and it takes no call.
    if moved == ethernet::HEADER_LEN
        && let Some(header) = frame.first_chunk()
    {
        let header: [u8; ethernet::HEADER_LEN] = *header;
        frame[to..to + ethernet::HEADER_LEN].copy_from_slice(&header);
    } else {
        frame.copy_within(..moved, to);
    }
}

/// IP version, traffic class and length of an inner packet, as its header says.
#[inline(always)]
fn inside(inner: &[u8], protocol: u8) -> Option<(u8, u8, usize)> {
    match protocol {
        ip_protocol::IPV4 => {
            let ip = ipv4::Ipv4::new_unchecked(inner.first_chunk::<{ ipv4::HEADER_LEN }>()?);
            let len = usize::from(ip.total_len());
            let is_ip = ip.version() == 4 && len >= ipv4::HEADER_LEN;
            is_ip.then(|| (4, ip.dscp() << 2 | ip.ecn(), len))
        }
        ip_protocol::IPV6 => {
            let ip = ipv6::Ipv6::new_unchecked(inner.first_chunk::<{ ipv6::HEADER_LEN }>()?);
            let len = ipv6::HEADER_LEN + usize::from(ip.payload_len());
            (ip.version() == 6).then(|| (6, ip.traffic_class(), len))
        }
        _ => None,
    }
}

#[inline(never)]
fn take_ecn(packet: &mut PacketMut<'_>, class: u8, outer_class: u8) -> StripOutcome {
    let Some(ecn) = ecn_out(class, outer_class) else { return StripOutcome::Congestion };
    let new = class & !3 | ecn;
    if new != class {
        packet.set_traffic_class(new);
        if packet.version() == 4 {
            let sum = checksum::update16(packet.ip_checksum(), class.into(), new.into());
            packet.set_ip_checksum(sum);
        }
    }
    StripOutcome::Plain
}

/// Leaves the `len` bytes at `text_at` after the headers before ESP.
#[inline(never)]
fn strip_transport(
    packet: &mut PacketMut<'_>,
    shape: &Shape,
    text_at: usize,
    len: usize,
    protocol: u8,
) -> StripOutcome {
    let Some(place) = UpperLayer::last(&packet.as_packet()) else { return StripOutcome::Malformed };
    let (l3, was, old_len) = (packet.l3_offset(), place.protocol, packet.ip_len());
    let front = text_at - place.body;
    let tail = packet.len() - (text_at + len);
    let frame = packet.frame_mut();
    frame[place.next_at] = protocol;
    frame.copy_within(0..place.body, front);
    if !packet.reshape(front as isize, -(tail as isize)) {
        return StripOutcome::Malformed;
    }
    let ip_len = packet.len() - l3;
    if packet.version() == 4 {
        packet.set_ip_len(ip_len as u16);
        let sum = checksum::update16(packet.ip_checksum(), old_len, ip_len as u16);
        packet.set_ip_checksum(checksum::update16(sum, was.into(), protocol.into()));
    } else {
        packet.set_ip_len((ip_len - ipv6::HEADER_LEN) as u16);
    }
    packet.set_opened(true);
    packet.reparse();
    if packet.malformed().is_some() {
        return StripOutcome::Malformed;
    }
    if shape.udp_len() > 0 {
        sum_anew(packet);
    }
    StripOutcome::Plain
}

/// A NAT on the path changed the addresses in the sender's checksum. An authentic packet is known
/// to be intact (RFC 3948, 3.1.2).
fn sum_anew(packet: &mut PacketMut<'_>) {
    let is_whole = packet.has(Flags::TRANSPORT) && !packet.has(Flags::FRAGMENT | Flags::SNAPPED);
    let at = match packet.protocol() {
        ip_protocol::TCP => tcp::field::CHECKSUM.start,
        // RFC 768: none was made.
        ip_protocol::UDP if packet.l4_checksum() == 0 && packet.version() == 4 => return,
        ip_protocol::UDP => udp::field::CHECKSUM.start,
        _ => return,
    };
    if !is_whole {
        return;
    }
    let (l4, protocol) = (packet.l4_offset(), packet.protocol());
    let mut end = packet.ip_end();
    if protocol == ip_protocol::UDP {
        // RFC 768: the datagram may end before its packet does.
        let datagram = udp::Udp::new_unchecked(&packet.as_packet().into_frame()[l4..end]);
        end = end.min(l4 + usize::from(datagram.length()));
    }
    let len = end - l4;
    let pseudo = match packet.version() {
        4 => {
            let (src, dst) = (packet.src_v4().into(), packet.dst_v4().into());
            checksum::pseudo_v4(src, dst, protocol, len as u16)
        }
        _ => {
            let (src, dst) = (packet.src_v6().into(), packet.dst_v6().into());
            checksum::pseudo_v6(src, dst, protocol, len as u32)
        }
    };
    let segment = &mut packet.frame_mut()[l4..end];
    segment[at..at + 2].fill(0);
    let sum = !checksum::fold(pseudo + checksum::sum(segment));
    // RFC 768: zero would say that there is no sum.
    let sum = if sum == 0 && protocol == ip_protocol::UDP { 0xffff } else { sum };
    segment[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}
