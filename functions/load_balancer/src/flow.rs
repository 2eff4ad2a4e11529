//! The flow of a packet, and its progress, as seen without the connection.

use core::ops::Deref;

use warpline_packet::wire::{ip_protocol, tcp};
use warpline_packet::{Batch, Flags, Packet, PacketView};

use super::connections::Progress;
use warpline_rewrite::Endpoint;

/// A packet of TCP or UDP, or one that an ICMP error quotes, turned around.
pub(super) struct Flow {
    pub(super) version: u8,
    pub(super) protocol: u8,
    pub(super) src: Endpoint,
    pub(super) dst: Endpoint,
    /// `None` for what is no packet of the flow itself.
    pub(super) tcp_flags: Option<u16>,
}

impl Flow {
    /// That of a whole packet of TCP or UDP with its ports; `None` of other packets.
    #[inline]
    pub(super) fn of(packet: &Packet<'_>) -> Option<Self> {
        if packet.has(Flags::FRAGMENT) { None } else { Self::shown(packet) }
    }

    /// The same, also of a first fragment.
    #[inline]
    pub(super) fn shown<B: Deref<Target = Batch>>(packet: &PacketView<B>) -> Option<Self> {
        let (version, protocol) = (packet.version(), packet.protocol());
        let is_flow = matches!(protocol, ip_protocol::TCP | ip_protocol::UDP);
        if !is_flow || !packet.has(Flags::TRANSPORT) {
            return None;
        }
        let (src, dst) = packet.addresses();
        Some(Self {
            version,
            protocol,
            src: Endpoint { address: src, port: packet.src_port() },
            dst: Endpoint { address: dst, port: packet.dst_port() },
            tcp_flags: Some(packet.tcp_flags()),
        })
    }

    /// Whether any of these TCP flags is set.
    pub(super) fn has(&self, flags: u16) -> bool {
        self.tcp_flags.is_some_and(|own| own & flags != 0)
    }

    /// How far a connection at `progress` is with this packet.
    pub(super) fn next(&self, progress: Option<Progress>, from_client: bool) -> Progress {
        if self.protocol == ip_protocol::UDP {
            return Progress::Udp;
        }
        let ends = self.has(tcp::flags::FIN | tcp::flags::RST);
        let syn = self.has(tcp::flags::SYN);
        match progress {
            _ if ends => Progress::Closing,
            None if syn => Progress::Opening,
            None => Progress::Established,
            Some(Progress::Opening) if from_client && !syn => Progress::Established,
            Some(progress) => progress,
        }
    }
}
