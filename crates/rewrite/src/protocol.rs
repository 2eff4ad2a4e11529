//! Protocols as translators see them.

use warpline_packet::wire::ip_protocol;

/// DCCP (RFC 4340).
const DCCP: u8 = 33;
/// OSPF (RFC 5340).
const OSPF: u8 = 89;
/// PIM (RFC 7761).
const PIM: u8 = 103;
/// VRRP (RFC 9568).
const VRRP: u8 = 112;
/// Mobility header (RFC 6275).
const MOBILITY: u8 = 135;
/// UDP-Lite (RFC 3828).
const UDP_LITE: u8 = 136;
/// HIP (RFC 7401).
const HIP: u8 = 139;

/// Whether addresses of packets of this protocol can change without another change: it has no
/// ports that are translated, and no checksum over addresses.
#[inline]
pub fn is_portless(version: u8, protocol: u8) -> bool {
    match protocol {
        ip_protocol::TCP | ip_protocol::UDP | ip_protocol::ICMP | ip_protocol::ICMPV6 => false,
        // A function of the chain may make these of packets with ports.
        ip_protocol::IPCOMP => false,
        DCCP | UDP_LITE => false,
        OSPF | PIM | VRRP | MOBILITY | HIP => version == 4,
        other => version == 4 && other != 0 || !ip_protocol::is_extension(other),
    }
}

/// A protocol with ports or identifiers, or one without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// Echoes of ICMP and ICMPv6.
    Icmp,
    /// Any other one. Its number in IP headers stands for both ports.
    Other,
}

impl Protocol {
    /// Its number in IP headers, where it has ports.
    pub fn number(self) -> Option<u8> {
        match self {
            Self::Tcp => Some(ip_protocol::TCP),
            Self::Udp => Some(ip_protocol::UDP),
            Self::Icmp | Self::Other => None,
        }
    }
}
