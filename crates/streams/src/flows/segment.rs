//! The parts of a packet that tracking needs: its flow's key, its TCP header and its payload.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::Range;

use warpline_packet::wire::{
    checksum, icmpv4, icmpv6, ip_protocol, ipv4, ipv6, options::Options, tcp, tcp::Tcp,
};
use warpline_packet::{Flags, Headers, Instant};

use super::key::Key;

/// A packet as [`super::Flows`] sees it.
#[derive(Clone, Copy, Debug)]
pub struct FlowPacket<'a> {
    pub(super) key: Key,
    /// Whether it is an ICMP error; its key is that of the packet it quotes, turned around.
    pub(super) is_error: bool,
    pub(super) segment: Option<Segment<'a>>,
    pub(super) timestamp: Instant,
    /// Its own time, as it was captured.
    pub(super) captured: Instant,
    /// Bytes of its frame, as far as captured.
    pub(super) len: u32,
    pub(super) hint: u32,
}

/// Between whom a TCP or UDP packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// TCP or UDP.
    pub protocol: u8,
    /// Source and destination.
    pub addresses: [IpAddr; 2],
    /// Source and destination.
    pub ports: [u16; 2],
}

/// A TCP segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment<'a> {
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: u16,
    pub(super) window: u16,
    /// The urgent pointer; 0 without the flag.
    pub(super) urgent: u16,
    /// Of a SYN: the shift that it offers, 14 at most (RFC 7323, 2.3).
    pub(super) scale: Option<u8>,
    /// Of a SYN: whether it has the option of RFC 7413.
    pub(super) is_fast_open: bool,
    options: &'a [u8],
    pub(super) payload: &'a [u8],
    /// Header and payload; empty if the capture cut it, so that its checksum can't be verified.
    whole: &'a [u8],
}

impl<'a> FlowPacket<'a> {
    /// Of a frame, by its headers; `by_vlan`: whether VLANs separate flows. `hint` is a value that
    /// packets of a flow share and others mostly don't, such as an existing hash; it affects speed
    /// only. `times` are the time for functions and the packet's own. `None` for a packet without a
    /// flow: not IP, a fragment, malformed.
    #[inline]
    pub fn new(
        frame: &'a [u8],
        headers: &Headers,
        by_vlan: bool,
        times: [Instant; 2],
        hint: u32,
    ) -> Option<Self> {
        let [timestamp, captured] = times;
        let vlans = if by_vlan { headers.vlan_ids(frame) } else { 0 };
        let (packet, l4) = parts(frame, headers)?;
        // Each kind is built at once: building a packet piece by piece moves it through memory for
        // every piece.
        let is_tcp = headers.protocol == ip_protocol::TCP;
        if !is_tcp && headers.protocol != ip_protocol::UDP {
            return Self::without_ports((frame, packet), l4, headers, vlans, times, hint);
        }
        let (src, dst) = addresses(packet, headers.version)?;
        let key = Key::new(headers.version, headers.protocol, [src, dst], vlans);
        let key = key.with_ports(ports(l4)?);
        let len = frame.len() as u32;
        if !is_tcp {
            return Some(Self {
                key,
                is_error: false,
                segment: None,
                timestamp,
                captured,
                len,
                hint,
            });
        }
        let segment = Some(Segment::read(l4, headers.flags.has(Flags::SNAPPED))?);
        Some(Self { key, is_error: false, segment, timestamp, captured, len, hint })
    }

    /// For ICMP, or for protocols without ports.
    #[inline(never)]
    fn without_ports(
        (frame, packet): (&[u8], &[u8]),
        l4: &[u8],
        headers: &Headers,
        vlans: u64,
        [timestamp, captured]: [Instant; 2],
        hint: u32,
    ) -> Option<Self> {
        let (src, dst) = addresses(packet, headers.version)?;
        let own = Key::new(headers.version, headers.protocol, [src, dst], vlans);
        let (key, is_error) = match (headers.version, headers.protocol) {
            (4, ip_protocol::ICMP) => own.of_icmp(l4, icmpv4::message::is_error(*l4.first()?))?,
            (6, ip_protocol::ICMPV6) => own.of_icmp(l4, icmpv6::message::is_error(*l4.first()?))?,
            _ => (own, false),
        };
        let len = frame.len() as u32;
        Some(Self { key, is_error, segment: None, timestamp, captured, len, hint })
    }

    /// Its protocol and its ports, source and destination; `None` where it is neither TCP nor UDP.
    #[inline]
    pub fn ports(&self) -> Option<(u8, [u16; 2])> {
        let protocol = self.key.protocol();
        let is_either = matches!(protocol, ip_protocol::TCP | ip_protocol::UDP) && !self.is_error;
        is_either.then(|| (protocol, self.key.ports()))
    }

    /// Its addresses, source and destination; for an ICMP error those of the quoted packet,
    /// reversed.
    pub fn addresses(&self) -> [IpAddr; 2] {
        self.key.ends().addresses
    }

    /// Whether it is TCP with the flag SYN.
    #[inline]
    pub fn has_syn(&self) -> bool {
        self.segment.as_ref().is_some_and(|segment| segment.has(tcp::flags::SYN))
    }

    /// Bytes of its payload, where it is TCP.
    #[inline]
    pub fn payload_len(&self) -> Option<usize> {
        self.segment.as_ref().map(|segment| segment.payload.len())
    }

    /// Of a TCP packet, whether its checksum is right. `Some(None)` for packets cut by the capture,
    /// resets, and packets with neither data nor SYN: some systems always fill in those checksums.
    pub fn sent(&self) -> Option<Option<bool>> {
        let segment = self.segment.as_ref()?;
        let has_more = !segment.payload.is_empty() || segment.has(tcp::flags::SYN);
        let counts = has_more && !segment.has(tcp::flags::RST) && !segment.whole.is_empty();
        Some(counts.then(|| !self.is_corrupt()))
    }

    /// Whether its TCP checksum is wrong, if it can be verified.
    pub(super) fn is_corrupt(&self) -> bool {
        let Some(whole) = self.segment.map(|segment| segment.whole) else { return false };
        let len = whole.len() as u32;
        let [src, dst] = self.key.addresses();
        let pseudo = match self.key.version() {
            4 => {
                let [src, dst] = [src, dst].map(|address| Ipv4Addr::from_bits(address as u32));
                checksum::pseudo_v4(src, dst, ip_protocol::TCP, len as u16)
            }
            _ => {
                let [src, dst] = [src, dst].map(Ipv6Addr::from_bits);
                checksum::pseudo_v6(src, dst, ip_protocol::TCP, len)
            }
        };
        !whole.is_empty() && !Tcp::new_unchecked(whole).verify_checksum(pseudo)
    }
}

impl<'a> Segment<'a> {
    #[inline(always)]
    fn read(l4: &'a [u8], is_cut: bool) -> Option<Self> {
        let tcp = Tcp::new_checked(l4).ok()?;
        let flags = tcp.flags();
        let options = l4.get(tcp::HEADER_LEN..tcp.header_len())?;
        let (scale, is_fast_open) = match flags & tcp::flags::SYN {
            0 => (None, false),
            _ => syn_options(options),
        };
        Some(Self {
            seq: tcp.seq(),
            ack: tcp.ack(),
            flags,
            window: tcp.window(),
            urgent: if flags & tcp::flags::URG == 0 { 0 } else { tcp.urgent() },
            scale,
            is_fast_open,
            options,
            payload: l4.get(tcp.header_len()..)?,
            whole: if is_cut { &[] } else { l4 },
        })
    }

    /// Its sender's clock, where it says that (RFC 7323, 3.2).
    #[inline]
    pub(super) fn time(&self) -> Option<u32> {
        // Most senders put it so (RFC 7323, appendix A).
        if let Some((&[1, 1, tcp::option::TIMESTAMPS, 10], rest)) = self.options.split_first_chunk()
        {
            return rest.first_chunk().map(|value| u32::from_be_bytes(*value));
        }
        let mut options = Options::new(self.options);
        let option = options.find(|option| option.kind == tcp::option::TIMESTAMPS)?;
        let value: [u8; 8] = option.data.try_into().ok()?;
        value.first_chunk().map(|value| u32::from_be_bytes(*value))
    }

    /// Whether it has a signature that only those who know its key can check (RFC 2385, RFC 5925).
    pub(super) fn is_signed(&self) -> bool {
        Options::new(self.options).any(|option| matches!(option.kind, MD5 | AUTHENTICATION))
    }

    /// Whether any of these flags is set.
    pub(super) fn has(&self, flags: u16) -> bool {
        self.flags & flags != 0
    }

    /// Whether it asks for a new connection and for nothing else.
    pub(super) fn opens(&self) -> bool {
        use tcp::flags::{ACK, FIN, RST, SYN};
        self.flags & (SYN | ACK | FIN | RST) == SYN
    }

    /// Whether it answers one that does.
    pub(super) fn answers(&self) -> bool {
        use tcp::flags::{ACK, FIN, RST, SYN};
        self.flags & (SYN | ACK | FIN | RST) == SYN | ACK
    }
}

/// The IP packet, and what is behind its headers.
#[inline(always)]
fn parts<'a>(frame: &'a [u8], headers: &Headers) -> Option<(&'a [u8], &'a [u8])> {
    if headers.flags.has(Flags::FRAGMENT) || headers.malformed().is_some() {
        return None;
    }
    let packet = frame.get(usize::from(headers.l3)..headers.end as usize)?;
    Some((packet, frame.get(usize::from(headers.l4)..headers.end as usize)?))
}

/// Of the options of a SYN: [`Segment::scale`] and [`Segment::is_fast_open`].
fn syn_options(options: &[u8]) -> (Option<u8>, bool) {
    let (mut scale, mut is_fast_open) = (None, false);
    for option in Options::new(options) {
        match (option.kind, option.data) {
            (tcp::option::WINDOW_SCALE, &[shift]) => scale = Some(shift.min(SCALE_MAX)),
            (FAST_OPEN, _) => is_fast_open = true,
            _ => {}
        }
    }
    (scale, is_fast_open)
}

fn addresses(packet: &[u8], version: u8) -> Option<(u128, u128)> {
    let narrow = |range: Range<usize>| {
        let bytes: [u8; 4] = packet.get(range)?.try_into().ok()?;
        Some(u128::from(u32::from_be_bytes(bytes)))
    };
    let wide = |range: Range<usize>| Some(u128::from_be_bytes(packet.get(range)?.try_into().ok()?));
    Some(match version {
        4 => (narrow(ipv4::field::SRC_ADDR)?, narrow(ipv4::field::DST_ADDR)?),
        6 => (wide(ipv6::field::SRC_ADDR)?, wide(ipv6::field::DST_ADDR)?),
        _ => return None,
    })
}

fn ports(l4: &[u8]) -> Option<[u16; 2]> {
    let [a, b, c, d] = *l4.first_chunk::<4>()?;
    Some([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])])
}

/// The greatest shift of a window (RFC 7323, 2.3).
pub(super) const SCALE_MAX: u8 = 14;
/// TCP Fast Open (RFC 7413, 4.1.1).
const FAST_OPEN: u8 = 34;
/// A signature with MD5 (RFC 2385, 3.0).
const MD5: u8 = 19;
/// TCP-AO (RFC 5925, 2.2).
const AUTHENTICATION: u8 = 29;
