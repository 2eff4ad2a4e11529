//! The limits of a shard's flows, and the times after which flows end.

use core::time::Duration;

use warpline_packet::wire::ip_protocol;

use super::overlap::Overlap;
use super::urgent::{Urgent, UrgentLimit};

/// The limits of the flows of one shard. All memory is taken at the start.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Flows at a time.
    pub flows: usize,
    /// Bytes of each direction that are kept before the newest; 256 MiB at most.
    pub window_len: usize,
    /// How far ahead of its turn data of a direction may come, in bytes; 256 MiB at most.
    pub hold_len: usize,
    /// Bytes of all windows and of all that waits.
    pub stream_memory: usize,
    /// Segments that wait at a time.
    pub held_segments: usize,
    /// Whose bytes count where segments overlap.
    pub overlap: Overlap,
    /// Which urgent bytes are of the stream.
    pub urgent: Urgent,
    /// The policy for urgent bytes of a direction that has too many.
    pub urgent_limit: UrgentLimit,
    /// Whether connections are followed whose handshake was not seen.
    pub midstream: bool,
    /// Whether TCP packets whose checksum is wrong are refused.
    pub checksum: bool,
    /// After which times flows are over.
    pub timeouts: Timeouts,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            flows: 4096,
            window_len: 16 << 10,
            hold_len: 256 << 10,
            stream_memory: 16 << 20,
            held_segments: 4096,
            overlap: Overlap::default(),
            urgent: Urgent::default(),
            urgent_limit: UrgentLimit::default(),
            midstream: false,
            checksum: false,
            timeouts: Timeouts::default(),
        }
    }
}

/// How long after its last packet a flow is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP.
    pub tcp: Timeout,
    /// UDP.
    pub udp: Timeout,
    /// ICMP and ICMPv6.
    pub icmp: Timeout,
    /// All others.
    pub other: Timeout,
}

/// How long after its last packet a flow is over, by its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout {
    /// Not established yet.
    pub new: Duration,
    /// Established.
    pub established: Duration,
    /// A TCP connection that was reset or finished from both ends.
    pub closed: Duration,
}

impl Timeout {
    const fn seconds(new: u64, established: u64, closed: u64) -> Self {
        let of = Duration::from_secs;
        Self { new: of(new), established: of(established), closed: of(closed) }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        let other = Timeout::seconds(30, 300, 0);
        Self { tcp: Timeout::seconds(60, 600, 60), udp: other, icmp: other, other }
    }
}

impl Timeouts {
    /// Those of an IP protocol.
    pub(super) fn of(&self, protocol: u8) -> &Timeout {
        match protocol {
            ip_protocol::TCP => &self.tcp,
            ip_protocol::UDP => &self.udp,
            ip_protocol::ICMP | ip_protocol::ICMPV6 => &self.icmp,
            _ => &self.other,
        }
    }
}
