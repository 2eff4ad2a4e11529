//! The properties of a flow: [`Facts`].

use warpline_packet::Instant;

/// The known properties of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// See [`super::Tracked::is_established`], without regard to the packet.
    pub is_established: bool,
    /// Whether a TCP connection was reset or finished from both ends.
    pub is_closed: bool,
    /// The time of its first packet.
    pub started: Instant,
    /// The time of its last packet.
    pub last: Instant,
    /// Packets, by [`super::Direction`].
    pub packets: [u64; 2],
    /// Bytes of frames as they were captured, by [`super::Direction`].
    pub bytes: [u64; 2],
    /// Bytes of the streams that were delivered, gaps included, by [`super::Direction`].
    pub stream_len: [u64; 2],
    /// The sequence numbers that those take, with SYN and FIN; 0 before the first segment of a
    /// direction. By [`super::Direction`].
    pub sequence_len: [u64; 2],
}
