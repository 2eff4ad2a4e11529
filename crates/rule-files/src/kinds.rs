//! The kind of a packet as a number: protocol, TCP flags or ICMP type and code, and whether it is
//! part of a connection.

/// In the place of a port: the packet has none.
pub const NO_PORT: u32 = 1 << 16;
/// In the place of a port: the packet has one that can't be seen, as in a later fragment.
pub const HIDDEN_PORT: u32 = NO_PORT + 1;
/// Ports, and the two numbers in place of one.
pub const PORTS: usize = HIDDEN_PORT as usize + 1;

/// Kinds below are protocols; a TCP or ICMP packet there is one whose header can't be seen.
pub const KIND_TCP: u32 = 256;
/// Kinds of ICMP messages begin here.
pub const KIND_ICMP: u32 = KIND_TCP + 256;
/// Kinds of packets of connections begin here.
pub const KIND_ESTABLISHED: u32 = KIND_ICMP + (1 << 16);
/// How many kinds there are.
pub const KINDS: u32 = 2 * KIND_ESTABLISHED;

/// The kind of a TCP segment with these flags (the 14th byte of its header).
#[inline(always)]
pub const fn kind_of_segment(flags: u8) -> u32 {
    KIND_TCP + flags as u32
}

/// The kind of an ICMP or ICMPv6 message.
#[inline(always)]
pub const fn kind_of_message(message_type: u8, code: u8) -> u32 {
    KIND_ICMP + ((message_type as u32) << 8 | code as u32)
}
