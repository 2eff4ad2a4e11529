//! The layout of ESP packets, by SA.

use core::net::IpAddr;

use warpline_packet::Headers;
use warpline_packet::wire::{ip_protocol, ipv4, ipv6, udp};

use super::cipher::icv_len;
use super::outer::ECN;
use super::sa::{Direction, Lifetime, Mode, Outer, Sa};
use super::tables::{ESP_HEADER_LEN, TRAILER_LEN};

/// The layout of an SA's ESP, and the data of the SA that every packet reads: one cache line.
#[repr(align(64))]
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Source and destination, as they lie in a header of `version`.
    pub(super) addresses: [u8; 32],
    pub(super) spi: u32,
    /// See [`Sa::outer`].
    pub(super) outer: Outer,
    /// Source and destination of UDP.
    pub(super) udp_ports: [u16; 2],
    /// IP version of its two ends.
    version: u8,
    /// Bytes of the header of a tunnel.
    outer_len: u8,
    udp_len: u8,
    iv_len: u8,
    icv_len: u8,
    /// Text and trailer are a multiple of so many bytes, a power of two.
    block_len: u8,
    pub(super) esn: bool,
    /// Whether it has limits or `is_checked`.
    pub(super) has_terms: bool,
    /// Whether selectors or inbound policies decide which packets it may carry.
    pub(super) is_checked: bool,
    /// The longest packet that is not too long for the way once it is in a tunnel.
    pub(super) tunnelled_len_max: u16,
    /// The bits of an inner traffic class that are copied to the header of a tunnel, and those that
    /// are always set there.
    pub(super) class_kept: u8,
    pub(super) class_set: u8,
}

const _: () = assert!(size_of::<Shape>() == 64);

impl Shape {
    /// The shape of an SA, beside inbound policies or without.
    pub(super) fn of(sa: &Sa, has_inbound_policies: bool) -> Self {
        let mut addresses = [0; 32];
        let (version, header_len) = match (sa.src, sa.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                addresses[..4].copy_from_slice(&src.octets());
                addresses[4..8].copy_from_slice(&dst.octets());
                (4, ipv4::HEADER_LEN)
            }
            (src, dst) => {
                addresses[..16].copy_from_slice(&in_v6(src));
                addresses[16..].copy_from_slice(&in_v6(dst));
                (6, ipv6::HEADER_LEN)
            }
        };
        let outer_len = if sa.mode == Mode::Tunnel { header_len } else { 0 };
        let has_limits = sa.lifetime != Lifetime::default();
        let by_policy = has_inbound_policies && sa.direction == Direction::In;
        let is_checked = by_policy || !sa.selectors.is_empty();
        let mut shape = Self {
            addresses,
            spi: sa.spi,
            outer: sa.outer,
            udp_ports: sa.encap.map_or([0; 2], |encap| [encap.src_port, encap.dst_port]),
            version,
            outer_len: outer_len as u8,
            udp_len: if sa.encap.is_some() { udp::HEADER_LEN as u8 } else { 0 },
            iv_len: sa.cipher.iv_len() as u8,
            icv_len: icv_len(sa.cipher, sa.auth) as u8,
            block_len: sa.cipher.block_len() as u8,
            esn: sa.esn,
            has_terms: has_limits || is_checked,
            is_checked,
            tunnelled_len_max: 0,
            // RFC 6040, 4.1: normal mode copies the mark, compatibility mode doesn't.
            class_kept: if sa.outer.dscp.is_some() { 0 } else { !ECN }
                | if sa.outer.ecn { ECN } else { 0 },
            class_set: sa.outer.dscp.unwrap_or(0) << 2,
        };
        shape.tunnelled_len_max = shape.len_max(0, sa.outer.mtu.into()) as u16;
        shape
    }

    /// Bytes of the header of a tunnel; 0 in transport mode.
    pub(super) fn outer_len(&self) -> usize {
        self.outer_len.into()
    }

    /// The IP version of that header; 0 in transport mode.
    pub(super) fn outer_version(&self) -> u8 {
        if self.outer_len > 0 { self.version } else { 0 }
    }

    /// Whether its ESP directly follows a tunnel's IPv4 header, as it mostly does.
    pub(super) fn is_plain_v4(&self) -> bool {
        usize::from(self.outer_len) == ipv4::HEADER_LEN && self.udp_len == 0
    }

    /// A word of the addresses of IPv4, source and destination.
    #[inline(always)]
    pub(super) fn address_word(&self, word: usize) -> u32 {
        u32::from_be_bytes(self.addresses.as_chunks().0[word])
    }

    /// Whether it is of an SA that ends where the packet with these headers goes.
    #[inline(always)]
    pub(super) fn is_for(&self, frame: &[u8], headers: &Headers) -> bool {
        let packet = frame.get(usize::from(headers.l3)..).unwrap_or(&[]);
        self.version == headers.version
            && match self.version {
                4 => packet.get(ipv4::field::DST_ADDR) == Some(&self.addresses[4..8]),
                _ => packet.get(ipv6::field::DST_ADDR) == Some(&self.addresses[16..]),
            }
    }

    /// The bytes after the header of a tunnel.
    pub(super) fn outer_protocol(&self) -> u8 {
        if self.udp_len > 0 { ip_protocol::UDP } else { ip_protocol::ESP }
    }

    pub(super) fn udp_len(&self) -> usize {
        self.udp_len.into()
    }

    pub(super) fn iv_len(&self) -> usize {
        self.iv_len.into()
    }

    pub(super) fn icv_len(&self) -> usize {
        self.icv_len.into()
    }

    /// Whether the cipher is one that must not see a number twice: those have IVs of 8 bytes.
    pub(super) fn is_counter(&self) -> bool {
        self.iv_len == 8
    }

    pub(super) fn block_len(&self) -> usize {
        self.block_len.into()
    }

    /// Bytes from the end of a tunnel's header to the text: UDP, ESP header, IV.
    pub(super) fn head_len(&self) -> usize {
        self.udp_len() + ESP_HEADER_LEN + self.iv_len()
    }

    /// Bytes of text, padding and trailer for `len` bytes of payload.
    pub(super) fn text_len(&self, len: usize) -> usize {
        let over = self.block_len() - 1;
        (len + TRAILER_LEN + over) & !over
    }

    /// Bytes of an IP packet with ESP around one of `len` bytes; `kept` of these stay before it in
    /// transport mode.
    pub(super) fn sealed_len(&self, kept: usize, len: usize) -> usize {
        let (kept, carried) = if self.outer_len > 0 { (0, len) } else { (kept, len - kept) };
        self.outer_len() + kept + self.head_len() + self.text_len(carried) + self.icv_len()
    }

    /// The longest packet that has at most `mtu` bytes with ESP.
    pub(super) fn len_max(&self, kept: usize, mtu: usize) -> usize {
        let kept = if self.outer_len > 0 { 0 } else { kept };
        let around = self.outer_len() + kept + self.head_len() + self.icv_len();
        let text = mtu.saturating_sub(around) / self.block_len() * self.block_len();
        kept + text.saturating_sub(TRAILER_LEN)
    }
}

/// The bytes of an address of IPv6.
fn in_v6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}
