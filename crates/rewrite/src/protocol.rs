//! Protocols with ports or identifiers.

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
}
