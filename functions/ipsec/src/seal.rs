//! Puts ESP around a packet (RFC 4303, 3.3), except for the cipher's work.

use core::hint::cold_path;
use core::ops::Range;

use warpline_packet::wire::{checksum, ethernet, ethertype, ip_protocol, ipv4, ipv6, udp};
use warpline_packet::{Flags, Headers, LinkType, PacketMut};

use super::outer::{self, Inner};
use super::shape::Shape;
use super::tables::{ESP_HEADER_LEN, TRAILER_LEN};
use warpline_packet::upper::UpperLayer;

/// Where ESP lies in a frame: from the SPI to the end of the ICV.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stretch {
    pub(super) at: u32,
    pub(super) len: u32,
}

impl Stretch {
    pub(super) fn range(self) -> Range<usize> {
        self.at as usize..self.at as usize + self.len as usize
    }
}

/// The bytes that go into ESP, and those that stay before it. Offsets are from the frame's first
/// byte.
struct Carried {
    /// Where the bytes begin that go into ESP, and how many there are.
    body: usize,
    len: usize,
    /// Their protocol.
    protocol: u8,
    /// The byte before them that names the next header, in transport mode.
    next_at: Option<usize>,
}

/// Grows `packet` by the bytes of its SA, moves its headers to the front, writes those of the
/// tunnel, of UDP and of ESP, padding and trailer. Returns `None` and does nothing without room, or
/// if ESP cannot carry the packet.
#[inline(always)]
pub(super) fn wrap(packet: &mut PacketMut<'_>, shape: &Shape, sequence: u64) -> Option<Stretch> {
    let is_untagged = packet.l3_offset() == ethernet::HEADER_LEN;
    let stretch = match is_untagged && packet.link() == LinkType::ETHERNET && shape.is_plain_v4() {
        true => wrap_plain(packet, shape, sequence)?,
        false => wrap_any(packet, shape, sequence)?,
    };
    packet.set_opened(false);
    Some(stretch)
}

/// Bytes before the IV: Ethernet, the header of a tunnel, that of ESP.
const PLAIN_HEADS_LEN: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN + ESP_HEADER_LEN;

/// [`wrap`] for the content of untagged Ethernet, for [`Shape::is_plain_v4`]: everything written
/// has a fixed place.
#[inline(always)]
fn wrap_plain(packet: &mut PacketMut<'_>, shape: &Shape, sequence: u64) -> Option<Stretch> {
    const ESP_AT: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN;
    let headers = packet.headers();
    let len = (headers.end as usize).checked_sub(ethernet::HEADER_LEN)?;
    let text_len = shape.text_len(len);
    let text = PLAIN_HEADS_LEN + shape.iv_len();
    // Where the packet begins once the frame has grown at the front.
    let front = text - ethernet::HEADER_LEN;
    // The frame ends where the packet does: what pads a link's shortest frame is not kept.
    let tail = ethernet::HEADER_LEN + text_len + shape.icv_len();
    if !packet.reshape(-(front as isize), tail as isize - packet.len() as isize) {
        return None;
    }
    let frame = packet.frame_mut();
    let frame_len = frame.len();
    state_len(headers.version, frame.get_mut(text..)?, len);
    let inner = Inner::of(headers.version, frame.get(text..)?);
    let link: [u8; ethernet::field::ETHERTYPE.start] = *frame.get(front..)?.first_chunk()?;
    let heads: &mut [u8; PLAIN_HEADS_LEN] = frame.first_chunk_mut()?;
    let ip_len = frame_len - ethernet::HEADER_LEN;
    let head = u64::from(shape.spi) << 32 | sequence & u64::from(u32::MAX);
    heads[..link.len()].copy_from_slice(&link);
    heads[ethernet::field::ETHERTYPE].copy_from_slice(&ethertype::IPV4.to_be_bytes());
    heads[ethernet::HEADER_LEN..ESP_AT].copy_from_slice(&outer::header_v4(
        shape,
        inner,
        ip_len,
        ip_protocol::ESP,
        sequence,
    ));
    heads[ESP_AT..].copy_from_slice(&head.to_be_bytes());
    write_trailer(frame.get_mut(text..)?, text_len, len, payload_protocol(headers.version));
    set_tunnel_headers(packet, headers, 4, ipv4::HEADER_LEN, ip_protocol::ESP);
    Some(Stretch { at: ESP_AT as u32, len: (frame_len - ESP_AT) as u32 })
}

#[inline(never)]
fn wrap_any(packet: &mut PacketMut<'_>, shape: &Shape, sequence: u64) -> Option<Stretch> {
    let headers = packet.headers();
    let carried = carried(packet, &headers, shape)?;
    let (l3, end) = (usize::from(headers.l3), headers.end as usize);
    let text_len = shape.text_len(carried.len);
    let (front, moved) = (shape.outer_len() + shape.head_len(), carried.body);
    // The frame ends where the packet does: what pads a link's shortest frame is not kept.
    let new_end = end + (text_len - carried.len) + shape.icv_len();
    let (old_len, link) = (packet.len(), packet.link());
    if !packet.reshape(-(front as isize), new_end as isize - old_len as isize) {
        return None;
    }
    let frame = packet.frame_mut();
    move_to_front(frame, front, moved);
    let headers_at = if carried.next_at.is_some() { moved } else { l3 + shape.outer_len() };
    let len = frame.len() - l3;
    if let Some(next_at) = carried.next_at {
        frame[next_at] = shape.outer_protocol();
    } else {
        state_len(headers.version, &mut frame[front + l3..], carried.len);
        let inner = Inner::of(headers.version, &frame[front + l3..]);
        outer::write(&mut frame[l3..], shape, inner, len, sequence);
        if shape.outer_version() != headers.version {
            link.announce(&mut frame[..l3], shape.outer_version());
        }
    }
    if shape.udp_len() > 0 {
        let udp = &mut frame[headers_at..];
        let len = udp.len();
        outer::write_udp(udp, shape.udp_ports, len);
    }
    let at = headers_at + shape.udp_len();
    let head = u64::from(shape.spi) << 32 | sequence & u64::from(u32::MAX);
    frame[at..at + ESP_HEADER_LEN].copy_from_slice(&head.to_be_bytes());
    let text = at + ESP_HEADER_LEN + shape.iv_len();
    write_trailer(&mut frame[text..], text_len, carried.len, carried.protocol);
    let stretch = Stretch { at: at as u32, len: (frame.len() - at) as u32 };
    match carried.next_at {
        Some(next_at) => mend_ip_header(packet, len, next_at, carried.protocol),
        None => {
            let (version, protocol) = (shape.outer_version(), shape.outer_protocol());
            set_tunnel_headers(packet, headers, version, shape.outer_len(), protocol);
        }
    }
    Some(stretch)
}

/// Moves the `moved` bytes at `from`, link header and the headers that stay after it, to the start.
#[inline]
fn move_to_front(frame: &mut [u8], from: usize, moved: usize) {
    // Nearly always, and it takes no call.
    if moved == ethernet::HEADER_LEN
        && let Some(header) = frame.get(from..).and_then(<[u8]>::first_chunk)
    {
        let header: [u8; ethernet::HEADER_LEN] = *header;
        frame[..ethernet::HEADER_LEN].copy_from_slice(&header);
    } else {
        frame.copy_within(from..from + moved, 0);
    }
}

/// Sets the headers as parsing would find them: of a tunnel of this IP version with this header
/// length, and of the content. `headers` are the inner packet's, which are valid: malformed packets
/// don't get here.
#[inline(always)]
fn set_tunnel_headers(
    packet: &mut PacketMut<'_>,
    mut headers: Headers,
    version: u8,
    outer_len: usize,
    protocol: u8,
) {
    headers.end = packet.len() as u32;
    headers.l4 = headers.l3 + outer_len as u16;
    const _: () = assert!(udp::HEADER_LEN == ESP_HEADER_LEN);
    headers.payload = headers.l4 + ESP_HEADER_LEN as u16;
    headers.version = version;
    headers.protocol = protocol;
    headers.flags.clear(Flags::FRAGMENT | Flags::LATER_FRAGMENT | Flags::IP_OPTIONS);
    headers.flags.set(Flags::TRANSPORT | Flags::WRAPPED);
    packet.set_headers(&headers);
    debug_assert_eq!(
        {
            packet.reparse();
            packet.headers()
        },
        headers
    );
}

#[inline]
fn carried(packet: &PacketMut<'_>, headers: &Headers, shape: &Shape) -> Option<Carried> {
    let end = headers.end as usize;
    if shape.outer_len() > 0 {
        let body = usize::from(headers.l3);
        let protocol = payload_protocol(headers.version);
        return Some(Carried { body, len: end.checked_sub(body)?, protocol, next_at: None });
    }
    let UpperLayer { next_at, body, protocol } = UpperLayer::end_to_end(&packet.as_packet())?;
    Some(Carried { body, len: end.checked_sub(body)?, protocol, next_at: Some(next_at) })
}

/// Writes the length of a packet that states none, as one that was captured before segmentation.
#[inline(always)]
fn state_len(version: u8, packet: &mut [u8], len: usize) {
    let (field, fixed) = match version {
        4 => (ipv4::field::TOTAL_LEN, 0),
        _ => (ipv6::field::PAYLOAD_LEN, ipv6::HEADER_LEN),
    };
    let stated = packet.get(field.clone());
    if stated != Some(&[0, 0]) || len <= fixed {
        return;
    }
    cold_path();
    let Ok(real) = u16::try_from(len - fixed) else { return };
    packet[field].copy_from_slice(&real.to_be_bytes());
    if version == 4
        && let Some(sum) = packet.get_mut(ipv4::field::CHECKSUM)
    {
        let was = u16::from_be_bytes([sum[0], sum[1]]);
        sum.copy_from_slice(&checksum::update16(was, 0, real).to_be_bytes());
    }
}

/// Writes padding and trailer to the end of a text of `text_len` bytes, after the payload. Bytes
/// after the text in `out` are written later, and may be overwritten. RFC 4303, 2.4: padding is 1,
/// 2, 3 and so on.
#[inline(always)]
fn write_trailer(out: &mut [u8], text_len: usize, payload_len: usize, protocol: u8) {
    let Some(pad_len) = text_len.checked_sub(payload_len + TRAILER_LEN) else { return };
    match out.get_mut(payload_len..).and_then(<[u8]>::first_chunk_mut::<8>) {
        // Eight at once take no loop.
        Some(first) if pad_len <= 8 => *first = [1, 2, 3, 4, 5, 6, 7, 8],
        _ => {
            let pad = out.get_mut(payload_len..payload_len + pad_len).unwrap_or(&mut []);
            pad.iter_mut().zip(1u8..).for_each(|(byte, number)| *byte = number);
        }
    }
    if let Some(trailer) = out.get_mut(payload_len + pad_len..text_len) {
        trailer.copy_from_slice(&[pad_len as u8, protocol]);
    }
}

/// The parts of a whole packet of this version for ESP.
#[inline(always)]
fn payload_protocol(version: u8) -> u8 {
    if version == 4 { ip_protocol::IPV4 } else { ip_protocol::IPV6 }
}

/// Updates the IP header before ESP: the packet's new length, `len` bytes with it, and the new
/// protocol; and the positions of headers.
fn mend_ip_header(packet: &mut PacketMut<'_>, len: usize, next_at: usize, was: u8) {
    if packet.version() == 4 {
        let old_len = packet.ip_len();
        let is = packet.as_packet().into_frame().get(next_at).copied().unwrap_or(0);
        packet.set_ip_len(len as u16);
        let sum = checksum::update16(packet.ip_checksum(), old_len, len as u16);
        packet.set_ip_checksum(checksum::update16(sum, u16::from(was), u16::from(is)));
    } else {
        packet.set_ip_len((len - ipv6::HEADER_LEN) as u16);
    }
    packet.reparse();
}

/// The part written after encryption: the sum of UDP over IPv6.
#[inline]
pub(super) fn finish(packet: &mut PacketMut<'_>, shape: &Shape) {
    if shape.udp_len() > 0 && packet.version() == 6 {
        let (src, dst) = (packet.src_v6().into(), packet.dst_v6().into());
        let (start, end) = (packet.l4_offset(), packet.ip_end());
        outer::fill_udp_checksum(
            packet.frame_mut().get_mut(start..end).unwrap_or(&mut []),
            src,
            dst,
        );
    }
}
