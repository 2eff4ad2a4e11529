//! The effect of a packet on its flow and its stream.

use core::ops::Range;

/// Where a flow lies, until the next packet is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSlot(pub(super) u32);

/// A direction of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// From the client: the one that began.
    #[default]
    ToServer = 0,
    /// From the server.
    ToClient = 1,
}

impl Direction {
    /// The other one.
    #[must_use]
    pub const fn reversed(self) -> Self {
        match self {
            Self::ToServer => Self::ToClient,
            Self::ToClient => Self::ToServer,
        }
    }
}

/// The outcome of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracked {
    /// Its flow; `None` for an ICMP error about an unknown flow, or without room for flows.
    pub place: Option<FlowSlot>,
    /// Which way it goes. An ICMP error goes against the packet that it quotes.
    pub direction: Direction,
    /// Whether the flow began with it.
    pub is_new: bool,
    /// Whether it is the first of its direction.
    pub is_first_of_direction: bool,
    /// TCP: whether the handshake was over (or the connection picked up) before this packet, or
    /// with it if it has data. Others: whether both directions had packets, including this one.
    pub is_established: bool,
    /// Its effect on the stream of its direction.
    pub stream: Stream,
    /// Whether it is an ICMP error: it belongs to the flow, and its addresses need not.
    pub is_error: bool,
    /// By [`Direction`]: data wait after a gap that won't close, since the receiver acknowledged
    /// them or the connection was reset. [`super::Flows::next_gap`] returns them.
    pub gaps: [bool; 2],
}

/// The effect of a packet on the stream of its direction. Offsets are bytes from the first after
/// the SYN, or from where the stream was picked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stream {
    /// It is not TCP, or has no payload.
    None,
    /// The stream isn't followed, or there is no memory for it: the payload must be inspected
    /// alone.
    Untracked,
    /// It is out of step with its connection and changed nothing.
    Refused(Why),
    /// It came ahead of its turn and waits.
    Held,
    /// Nothing in it is new.
    Old,
    /// The stream grew, or bytes of it changed.
    Grew {
        /// Where the new bytes start.
        from: u64,
        /// Their end; `from` if none are new.
        to: u64,
        /// Whether the new bytes are this packet's whole payload and nothing else.
        is_packet: bool,
        /// Bytes in the window, before `from`, that this packet replaced
        /// ([`super::Overlap::Last`]).
        changed: Option<Range<u64>>,
    },
    /// A gap was given up: the window begins anew after it.
    Gap(Gap),
}

/// A gap that was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Bytes that were never seen; 0 if the packet may fill a gap that was given up before, and
    /// extends beyond it.
    pub lost: u64,
    /// The start of the bytes after it: the window's start, or with nothing lost the first new or
    /// changed byte.
    pub from: u64,
    /// Where they end.
    pub to: u64,
    /// The outcome of the packet's own payload.
    pub packet: Fate,
}

/// The outcome of the payload of a packet at which a gap was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is in the window now.
    Delivered,
    /// It still waits, after a further gap.
    Held,
    /// It isn't in the stream: there was no room, or other segments had its bytes. It must be
    /// inspected alone.
    Alone,
}

/// The state of a stream after a packet's payload was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenBack {
    /// Nothing of the payload had been delivered.
    Nothing,
    /// The next byte in order is this one again.
    To(u64),
    /// The payload is still there: its bytes are mixed with those of other packets, or a gap was
    /// given up for it.
    Mixed,
}

/// Why a TCP packet changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its checksum is wrong.
    Checksum,
    /// A SYN, or the answer to one, that doesn't fit the handshake.
    Handshake,
    /// Its data end after the window that the receiver announced (RFC 9293, 3.10.7.4).
    Window,
    /// It acknowledges what can't have been sent, or nothing at all (RFC 9293, 3.10.7.4).
    Acknowledgement,
    /// A reset with a sequence number that its receiver wouldn't heed, or with a signature if the
    /// connection has none.
    Reset,
    /// Its sender's clock was later before (RFC 7323, 5.3).
    Time,
    /// It has a signature where the connection has none, or none where it has (RFC 2385, RFC 5925).
    Signature,
    /// The connection was reset, or its sender said before that it had ended.
    Closed,
    /// It has the flag URG, and such packets are dropped.
    Urgent,
}
