//! The states of a conversation, and which segments lead from one to another.

use super::segment::SegmentKind;

/// How far a conversation is (RFC 9293, 3.3.2, as seen from between the ends).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TcpState {
    /// The opener's SYN was seen.
    #[default]
    SynSent,
    /// And a SYN of the other end: both open at once.
    BothSynSent,
    /// The SYN was answered.
    SynReceived,
    Established,
    /// A FIN was seen.
    FinWait,
    /// And an ACK after it.
    CloseWait,
    /// A second FIN was seen.
    LastAck,
    /// And an ACK after it.
    TimeWait,
    /// Reset.
    Closed,
}

/// Where a segment leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transition {
    To(TcpState),
    /// To a new conversation in the place of this one.
    Reopen,
    /// No change: only the ends can judge the segment.
    Pass,
    /// It can't come now.
    Refuse,
}

impl TcpState {
    /// A FIN or a reset was seen.
    pub(super) fn is_closing(self) -> bool {
        match self {
            Self::SynSent | Self::BothSynSent | Self::SynReceived | Self::Established => false,
            Self::FinWait | Self::CloseWait | Self::LastAck | Self::TimeWait | Self::Closed => true,
        }
    }

    /// Where a segment leads that the opener or the other end sent.
    pub(super) fn after(self, kind: SegmentKind, by_opener: bool) -> Transition {
        let is_opening = matches!(self, Self::SynSent | Self::BothSynSent);
        match (kind, by_opener) {
            (SegmentKind::Syn, true) => match self {
                Self::SynSent | Self::BothSynSent => Transition::To(self),
                Self::TimeWait | Self::Closed => Transition::Reopen,
                _ => Transition::Pass,
            },
            (SegmentKind::Syn, false) => match self {
                Self::SynSent | Self::BothSynSent => Transition::To(Self::BothSynSent),
                // The ends may change roles.
                Self::TimeWait => Transition::Reopen,
                _ => Transition::Refuse,
            },
            (SegmentKind::SynAck, true) => match self {
                Self::BothSynSent | Self::SynReceived => Transition::To(Self::SynReceived),
                _ => Transition::Refuse,
            },
            (SegmentKind::SynAck, false) if is_opening => Transition::To(Self::SynReceived),
            (SegmentKind::SynAck, false) => Transition::Pass,
            (SegmentKind::Fin, _) if is_opening => Transition::Refuse,
            (SegmentKind::Fin, _) => Transition::To(self.after_fin()),
            (SegmentKind::Ack, true) if is_opening => Transition::Refuse,
            (SegmentKind::Ack, false) if is_opening => Transition::Pass,
            (SegmentKind::Ack, true) if self == Self::SynReceived => {
                Transition::To(Self::Established)
            }
            (SegmentKind::Ack, _) => Transition::To(self.after_ack()),
            (SegmentKind::Reset, _) => Transition::To(Self::Closed),
        }
    }

    fn after_fin(self) -> Self {
        match self {
            Self::FinWait | Self::CloseWait | Self::LastAck => Self::LastAck,
            Self::TimeWait | Self::Closed => self,
            _ => Self::FinWait,
        }
    }

    fn after_ack(self) -> Self {
        match self {
            Self::FinWait => Self::CloseWait,
            Self::LastAck => Self::TimeWait,
            _ => self,
        }
    }
}
