//! Protocols with ports or identifiers.

/// What has ports, or identifiers, of its own.
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
}
