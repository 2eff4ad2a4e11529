//! How far a connection is, and the kind that this makes it: its timeout, and whether it gives way.

use warpline_tables::tcp::Phase;

/// How far a connection is; each belongs to a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Tcp(Phase),
    /// UDP of one side only.
    Udp,
    /// UDP of both sides.
    UdpStream,
    Icmp,
    /// Another protocol, of one side only.
    Other,
    /// And of both sides.
    OtherStream,
}

/// The worth of a connection, and how long it lasts: each kind has a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionKind {
    HalfOpen,
    Established,
    /// TCP that was perhaps reset.
    Doubted,
    Finishing,
    Closed,
    Udp,
    UdpStream,
    Icmp,
    Other,
    OtherStream,
}

/// How many kinds there are.
pub(super) const KINDS: usize = 10;

/// How many different timeouts there are.
pub(super) const TIMEOUTS: usize = 8;

impl ConnectionKind {
    /// Those that give way to a new connection, with the counter's name. Linux, too, first lets go
    /// of those that aren't "assured"; an ICMP echo never is.
    pub(super) const YIELDING: [(Self, &'static str); 6] = [
        (Self::Closed, "evicted-closed"),
        (Self::HalfOpen, "evicted-half-open"),
        (Self::Udp, "evicted-udp"),
        (Self::Icmp, "evicted-icmp"),
        (Self::Other, "evicted-other"),
        (Self::Finishing, "evicted-finishing"),
    ];

    /// The place of its timeout.
    pub(super) const fn timeout(self) -> usize {
        match self {
            Self::HalfOpen => 0,
            Self::Established => 1,
            Self::Finishing => 2,
            Self::Closed | Self::Doubted => 3,
            Self::Udp => 4,
            Self::UdpStream => 5,
            Self::Icmp => 6,
            Self::Other | Self::OtherStream => 7,
        }
    }
}

impl Progress {
    pub(super) const fn kind(self) -> ConnectionKind {
        match self {
            Self::Tcp(Phase::HalfOpen) => ConnectionKind::HalfOpen,
            Self::Tcp(Phase::Established) => ConnectionKind::Established,
            Self::Tcp(Phase::Doubted) => ConnectionKind::Doubted,
            Self::Tcp(Phase::Finishing) => ConnectionKind::Finishing,
            Self::Tcp(Phase::Closed) => ConnectionKind::Closed,
            Self::Udp => ConnectionKind::Udp,
            Self::UdpStream => ConnectionKind::UdpStream,
            Self::Icmp => ConnectionKind::Icmp,
            Self::Other => ConnectionKind::Other,
            Self::OtherStream => ConnectionKind::OtherStream,
        }
    }
}
