//! The state of a tracked TCP connection, as far as a firewall that doesn't check sequence numbers
//! tells it (after RFC 9293, 3.3.2).

use warpline_packet::wire::tcp::flags::{ACK, FIN, RST, SYN};

/// What a segment says, by its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    /// SYN alone: opens.
    Syn,
    /// SYN and ACK: answers.
    SynAck,
    /// ACK, with or without data.
    Ack,
    /// FIN: this side has said all.
    Fin,
    /// RST: over.
    Rst,
}

impl Segment {
    /// What these flags say; `None` for flags that no segment has: SYN with FIN or RST, or none of
    /// SYN, ACK, FIN and RST.
    pub(super) fn of(flags: u16) -> Option<Self> {
        let has = |bit| flags & bit != 0;
        match (has(SYN), has(FIN), has(RST), has(ACK)) {
            (true, true, ..) | (true, _, true, _) | (false, false, false, false) => None,
            (_, _, true, _) => Some(Self::Rst),
            (true, _, _, ack) => Some(if ack { Self::SynAck } else { Self::Syn }),
            (_, true, ..) => Some(Self::Fin),
            (_, _, _, true) => Some(Self::Ack),
        }
    }
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TcpState {
    /// The opener's SYN was seen.
    SynSent,
    /// And the answer to it.
    SynReceived,
    /// And the opener's ACK.
    Established,
    /// One side has finished: the opener or the other.
    Finishing {
        /// Whether it is the opener.
        opener: bool,
    },
    /// Both have finished, or one has reset.
    Closed,
}

impl TcpState {
    /// The state after a segment of the opener or of the other side; `None` where the segment is
    /// not one that may come now. `loose` lets in what comes without its handshake having been seen.
    pub(super) fn after(self, segment: Segment, opener: bool, loose: bool) -> Option<Self> {
        match (self, segment) {
            (_, Segment::Rst) | (Self::Closed, _) => Some(Self::Closed),
            (Self::SynSent, Segment::Syn) if opener => Some(self),
            (Self::SynSent, Segment::Syn | Segment::SynAck) if !opener => Some(Self::SynReceived),
            (Self::SynSent, _) if !loose => None,
            (Self::SynReceived, Segment::Ack) if !opener => Some(self),
            (Self::Finishing { opener: first }, Segment::Fin) if first != opener => {
                Some(Self::Closed)
            }
            (Self::Finishing { .. }, _) => Some(self),
            (_, Segment::Fin) => Some(Self::Finishing { opener }),
            (Self::SynSent | Self::SynReceived, Segment::Ack) => Some(Self::Established),
            (_, Segment::Syn | Segment::SynAck | Segment::Ack) => Some(self),
        }
    }
}
