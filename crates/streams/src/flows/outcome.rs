//! What a packet did to its flow and to its stream.

use core::ops::Range;

/// Where a flow lies, until the next packet is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(pub(super) u32);

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

/// What became of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracked {
    /// Its flow; `None` where it has none: an ICMP error about a flow that isn't known, or no room for flows at all.
    pub place: Option<Place>,
    /// Which way it goes. An ICMP error goes against the packet that it quotes.
    pub direction: Direction,
    /// Whether the flow began with it.
    pub is_new: bool,
    /// Whether it is the first of its direction.
    pub is_first_of_direction: bool,
    /// TCP: whether the handshake was over (or the connection picked up) before this packet, or with it where it has
    /// data. Others: whether packets of both directions were seen, this one included.
    pub is_established: bool,
    /// What it did to the stream of its direction.
    pub stream: Stream,
    /// Whether it is an ICMP error: it belongs to the flow, and its addresses need not.
    pub is_error: bool,
    /// By [`Direction`]: data wait behind a gap that won't be closed, as the receiver acknowledged them or the
    /// connection was reset: [`super::Flows::next_gap`] gives them.
    pub gaps: [bool; 2],
}

/// What a packet did to the stream of its direction. Offsets are bytes from the first behind the SYN, or from
/// where the stream was picked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stream {
    /// It is not TCP, or has no payload.
    None,
    /// The stream isn't followed, or there is no memory for it: the payload has to be looked at by itself.
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
        /// Where they end; `from` where none are new.
        to: u64,
        /// Whether the new bytes are this packet's whole payload and nothing else.
        is_packet: bool,
        /// Bytes in the window, before `from`, that this packet replaced ([`super::Overlap::Last`]).
        changed: Option<Range<u64>>,
    },
    /// A gap was given up: the window begins anew behind it.
    Gap(Gap),
}

/// A gap that was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Bytes that nobody saw; 0 where the packet may fill a gap that was given up before, and goes beyond it.
    pub lost: u64,
    /// Where the bytes behind it start: the window's start, or with nothing lost the first that is new or changed.
    pub from: u64,
    /// Where they end.
    pub to: u64,
    /// What became of the packet's own payload.
    pub packet: Fate,
}

/// What became of the payload of a packet at which a gap was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is in the window now.
    Delivered,
    /// It still waits, behind a further gap.
    Held,
    /// It isn't in the stream: there was no room, or others had its bytes. It has to be looked at by itself.
    Alone,
}

/// What is left of a stream when a packet's payload was taken out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenBack {
    /// Nothing of the payload had been delivered.
    Nothing,
    /// The next byte in order is this one again.
    To(u64),
    /// The payload is still there: its bytes are mixed with those of other packets, or a gap was given up for it.
    Mixed,
}

/// Why a TCP packet changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its checksum is wrong.
    Checksum,
    /// A SYN, or the answer to one, that doesn't fit the handshake.
    Handshake,
    /// Its data end behind the window that the receiver announced (RFC 9293, 3.10.7.4).
    Window,
    /// It acknowledges what can't have been sent, or nothing at all (RFC 9293, 3.10.7.4).
    Acknowledgement,
    /// A reset with a sequence number that its receiver wouldn't heed, or with a signature where the connection has none.
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
