//! The states of a conversation, and which segments lead from one to another.

use super::segment::Kind;

/// How far a conversation is (RFC 9293, 3.3.2, as seen from between the ends).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
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
pub(super) enum Step {
    To(State),
    /// To a new conversation in the place of this one.
    Reopen,
    /// No change: only the ends can judge the segment.
    Pass,
    /// It can't come now.
    Refuse,
}

impl State {
    /// A FIN or a reset was seen.
    pub(super) fn is_closing(self) -> bool {
        match self {
            Self::SynSent | Self::BothSynSent | Self::SynReceived | Self::Established => false,
            Self::FinWait | Self::CloseWait | Self::LastAck | Self::TimeWait | Self::Closed => true,
        }
    }

    /// Where a segment leads that the opener or the other end sent.
    pub(super) fn after(self, kind: Kind, by_opener: bool) -> Step {
        let is_opening = matches!(self, Self::SynSent | Self::BothSynSent);
        match (kind, by_opener) {
            (Kind::Syn, true) => match self {
                Self::SynSent | Self::BothSynSent => Step::To(self),
                Self::TimeWait | Self::Closed => Step::Reopen,
                _ => Step::Pass,
            },
            (Kind::Syn, false) => match self {
                Self::SynSent | Self::BothSynSent => Step::To(Self::BothSynSent),
                // The ends may change roles.
                Self::TimeWait => Step::Reopen,
                _ => Step::Refuse,
            },
            (Kind::SynAck, true) => match self {
                Self::BothSynSent | Self::SynReceived => Step::To(Self::SynReceived),
                _ => Step::Refuse,
            },
            (Kind::SynAck, false) if is_opening => Step::To(Self::SynReceived),
            (Kind::SynAck, false) => Step::Pass,
            (Kind::Fin, _) if is_opening => Step::Refuse,
            (Kind::Fin, _) => Step::To(self.after_fin()),
            (Kind::Ack, true) if is_opening => Step::Refuse,
            (Kind::Ack, false) if is_opening => Step::Pass,
            (Kind::Ack, true) if self == Self::SynReceived => Step::To(Self::Established),
            (Kind::Ack, _) => Step::To(self.after_ack()),
            (Kind::Reset, _) => Step::To(Self::Closed),
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
