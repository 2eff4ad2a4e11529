//! Protocols with ports or identifiers.

use warpline_packet::wire::ip_protocol;

/// A protocol with ports, or identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// Echoes of ICMP and ICMPv6.
    Icmp,
}

impl Protocol {
    /// How many there are.
    pub const COUNT: usize = 3;

    /// Its number in IP headers, where it has ports.
    pub fn number(self) -> Option<u8> {
        match self {
            Self::Tcp => Some(ip_protocol::TCP),
            Self::Udp => Some(ip_protocol::UDP),
            Self::Icmp => None,
        }
    }
}
