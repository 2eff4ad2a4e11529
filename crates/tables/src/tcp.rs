//! TCP conversations as a middlebox follows them: how far each is, and which segments are part of
//! it.
//!
//! A [`Conversation`] takes the [`Segment`]s of both ends, and gives a [`Verdict`] on each. It
//! decides as Linux's connection tracking does, so that rules written for Linux keep their meaning.
//! The windows follow G. van Rooij, "Real Stateful TCP Packet Filtering in IP Filter", 2000.
//!
//! Limits: checksums are not checked, and the caller keeps timeouts. [`Conversation::phase`] names
//! the one that applies.

mod ends;
mod segment;
mod state;

use self::ends::{Context, End, Fit, fit};
pub use self::segment::Segment;
use self::segment::{SegmentKind, SynOptions};
use self::state::{TcpState, Transition};

/// The relation of a segment to its conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It belongs, and the conversation follows it.
    Fits,
    /// It may belong, but nothing is certain: old data again, or the answer to a segment that was
    /// not seen. It doesn't count as use.
    Passes,
    /// It belongs, and ends a conversation that was never answered: forget it at once.
    Ends,
    /// It opens a new conversation in the place of this one, which is over.
    Reopens,
    /// It can't come in this state.
    Unexpected,
    /// Its sequence or acknowledgment number is outside the windows.
    OutOfWindow,
}

/// The phase of a conversation, by which timeouts are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// In the handshake, or picked up from one end and not yet answered.
    HalfOpen,
    /// Established.
    Established,
    /// Established, but a reset came whose number is in the window without being the expected one.
    /// An end that lives answers it (RFC 5961, 3.2).
    Doubted,
    /// One end has finished.
    Finishing,
    /// Both ends have finished, or one has reset.
    Closed,
}

/// How windows are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Windows {
    /// A segment outside the windows is [`Verdict::OutOfWindow`].
    #[default]
    Strict,
    /// Only a reset with a number that was acknowledged before is.
    Liberal,
}

/// Segments that open a conversation besides a SYN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PickUp {
    /// Nothing.
    #[default]
    Never,
    /// An ACK: what began unseen is picked up.
    FromAck,
    /// Everything except a reset: one end's segments may be all that is ever seen.
    OneSided,
}

/// How conversations are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// How windows are checked.
    pub windows: Windows,
    /// Segments that open a conversation besides a SYN.
    pub pick_up: PickUp,
}

/// One conversation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conversation {
    /// The end that opened it, and the other.
    ends: [End; 2],
    last: Last,
    state: TcpState,
    /// Which ends have sent a FIN.
    have_finished: [bool; 2],
    /// One end has closed, and not reset.
    was_closed: bool,
    /// The other end has sent a segment.
    is_answered: bool,
    /// An ACK came after the answer.
    is_assured: bool,
}

const _: () = assert!(size_of::<Conversation>() == 64);

/// The last segment, as far as later ones refer to it.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    kind: Option<SegmentKind>,
    by_opener: bool,
    /// Of the last ACK that fitted, or the last segment that passed.
    end: u32,
    ack: u32,
    window: u16,
    /// Of the opener's last SYN that passed.
    options: SynOptions,
    /// That SYN came while the last ACK was due, so an ACK may be a challenge.
    may_be_challenged: bool,
    /// Both ends sent a SYN.
    is_simultaneous: bool,
}

/// The effect of a reset.
enum Reset {
    /// Its number was acknowledged before.
    Refused,
    /// To this state, if its numbers are in the windows.
    Checked(TcpState),
    /// To this state, whatever its numbers.
    Unchecked(TcpState),
}

impl Conversation {
    /// The conversation that a segment opens, and whether its sender counts as the opener: the
    /// sender of a SYN with ACK doesn't. The windows of a conversation that is picked up are not
    /// checked, as their scale is not known.
    pub fn open(segment: &Segment<'_>, pick_up: PickUp) -> Option<(Self, bool)> {
        let mut opened = Self::default();
        let by_opener = segment.kind != SegmentKind::SynAck;
        if !segment.may_open(pick_up) {
            return None;
        }
        if segment.kind == SegmentKind::Syn {
            opened.ends[0].begin(segment);
        } else {
            opened.ends[usize::from(!by_opener)].pick_up(segment);
            opened.assume_established(pick_up);
        }
        let next = match opened.state.after(segment.kind, by_opener) {
            Transition::To(state) => state,
            _ => opened.state,
        };
        opened.fit(segment, by_opener, Windows::Strict);
        opened.follow(segment, by_opener, next);
        Some((opened, by_opener))
    }

    /// Takes a segment of the end that opened the conversation, or of the other. Only
    /// [`Verdict::Fits`] and [`Verdict::Passes`] leave anything to remember: after other verdicts
    /// the caller keeps the conversation that it had.
    pub fn take(&mut self, segment: &Segment<'_>, by_opener: bool, policy: Policy) -> Verdict {
        let is_unanswered = self.state == TcpState::SynSent && by_opener;
        let is_later = matches!(segment.kind, SegmentKind::Ack | SegmentKind::Fin);
        if policy.pick_up == PickUp::OneSided && is_unanswered && is_later {
            self.assume_established(policy.pick_up);
        }
        let next = match self.state.after(segment.kind, by_opener) {
            Transition::Refuse => return Verdict::Unexpected,
            Transition::Reopen if self.may_reopen(by_opener) => return Verdict::Reopens,
            Transition::Pass if self.answers_passed_syn(segment, by_opener) => {
                self.start_over(by_opener);
                TcpState::SynReceived
            }
            Transition::Reopen | Transition::Pass => return self.pass(segment, by_opener),
            Transition::To(state) => state,
        };
        let next = match (next, segment.kind) {
            (TcpState::TimeWait, SegmentKind::Ack) if self.is_challenge(by_opener) => {
                self.last.may_be_challenged = false;
                self.is_answered |= !by_opener;
                return Verdict::Passes;
            }
            (TcpState::SynReceived, SegmentKind::Ack)
                if !by_opener && self.last.is_simultaneous =>
            {
                TcpState::Established
            }
            (TcpState::Closed, SegmentKind::Reset) => match self.reset(segment, by_opener) {
                Reset::Refused => return Verdict::OutOfWindow,
                Reset::Unchecked(state) => return self.follow(segment, by_opener, state),
                Reset::Checked(state) => state,
            },
            (next, _) => next,
        };
        self.last.is_simultaneous |= next == TcpState::BothSynSent;
        match self.fit(segment, by_opener, policy.windows) {
            Fit::Inside | Fit::Tolerated => self.follow(segment, by_opener, next),
            Fit::Outside => Verdict::OutOfWindow,
            Fit::Stale => {
                self.is_answered |= !by_opener;
                Verdict::Passes
            }
        }
    }

    /// How far it is.
    pub fn phase(&self) -> Phase {
        match self.state {
            TcpState::SynSent | TcpState::BothSynSent | TcpState::SynReceived => Phase::HalfOpen,
            TcpState::Established if self.last.kind == Some(SegmentKind::Reset) => Phase::Doubted,
            TcpState::Established if !self.is_answered => Phase::HalfOpen,
            TcpState::Established => Phase::Established,
            TcpState::Closed => Phase::Closed,
            TcpState::FinWait | TcpState::CloseWait | TcpState::LastAck | TcpState::TimeWait => {
                if self.have_finished == [true; 2] {
                    Phase::Closed
                } else {
                    Phase::Finishing
                }
            }
        }
    }

    /// The handshake was not seen, or not all of it.
    fn assume_established(&mut self, pick_up: PickUp) {
        self.state = TcpState::Established;
        self.ends.iter_mut().for_each(End::assume_nothing);
        self.is_answered = pick_up == PickUp::OneSided;
    }

    fn fit(&mut self, segment: &Segment<'_>, by_opener: bool, windows: Windows) -> Fit {
        let context = Context { state: self.state, by_opener, windows };
        let [opener, other] = &mut self.ends;
        let (sender, receiver) = if by_opener { (opener, other) } else { (other, opener) };
        let fit = fit(segment, sender, receiver, context);
        if let (Fit::Inside, SegmentKind::Ack) = (fit, segment.kind) {
            self.last.end = segment.end;
            self.last.ack = segment.ack;
            self.last.window = segment.window;
        }
        fit
    }

    /// A segment that belongs leads to a state.
    fn follow(&mut self, segment: &Segment<'_>, by_opener: bool, next: TcpState) -> Verdict {
        self.last.kind = Some(segment.kind);
        self.last.by_opener = by_opener;
        let old = core::mem::replace(&mut self.state, next);
        self.was_closed |= next == TcpState::FinWait && old != next;
        self.have_finished[usize::from(!by_opener)] |= segment.kind == SegmentKind::Fin;
        if !self.is_answered && segment.kind == SegmentKind::Reset {
            return Verdict::Ends;
        }
        let handshake = matches!(old, TcpState::SynReceived | TcpState::Established);
        self.is_assured |= self.is_answered && handshake && next == TcpState::Established;
        self.is_answered |= !by_opener;
        Verdict::Fits
    }

    /// A segment that only the ends can judge: it is noted, and passes.
    fn pass(&mut self, segment: &Segment<'_>, by_opener: bool) -> Verdict {
        let last = &mut self.last;
        (last.kind, last.by_opener) = (Some(segment.kind), by_opener);
        (last.end, last.ack, last.window) = (segment.end, segment.ack, segment.window);
        if segment.kind == SegmentKind::Syn && by_opener {
            last.options = SynOptions::of(segment.options);
            last.may_be_challenged = self.state == TcpState::LastAck;
            last.is_simultaneous = false;
        }
        self.is_answered |= !by_opener;
        Verdict::Passes
    }

    /// RFC 9293, 3.6.1: a SYN may open again what is over. Else the ends may still hold it.
    fn may_reopen(&self, by_opener: bool) -> bool {
        let was_reset =
            self.last.kind == Some(SegmentKind::Reset) && self.last.by_opener == by_opener;
        was_reset || self.was_closed
    }

    /// Whether this answers a SYN that passed. Then the ends have a conversation whose beginning
    /// was not seen.
    fn answers_passed_syn(&self, segment: &Segment<'_>, by_opener: bool) -> bool {
        segment.kind == SegmentKind::SynAck
            && self.last.kind == Some(SegmentKind::Syn)
            && self.last.by_opener != by_opener
            && self.last.end == segment.ack
    }

    /// Begins anew with the SYN that passed, which `by_opener`'s end answers.
    fn start_over(&mut self, by_opener: bool) {
        let Last { end, window, options, .. } = self.last;
        self.ends[usize::from(by_opener)] = End::after_syn(end, window, options);
        self.ends[usize::from(!by_opener)].forget();
        self.last.may_be_challenged = false;
        (self.have_finished, self.was_closed) = ([false; 2], false);
    }

    /// RFC 5961, 4.2: an end answers a SYN out of place with an ACK. That is not the last ACK.
    fn is_challenge(&self, by_opener: bool) -> bool {
        self.state == TcpState::LastAck
            && self.last.kind == Some(SegmentKind::Syn)
            && self.last.by_opener != by_opener
            && self.last.may_be_challenged
    }

    /// RFC 5961, 3.2: only a reset with the expected number ends an established conversation.
    fn reset(&self, segment: &Segment<'_>, by_opener: bool) -> Reset {
        if self.state.is_closing() {
            return Reset::Unchecked(TcpState::Closed);
        }
        let is_established = self.state == TcpState::Established && self.is_assured;
        let by_same = self.last.by_opener == by_opener;
        let mut next = TcpState::Closed;
        let receiver = &self.ends[usize::from(by_opener)];
        let expected = receiver.acked().filter(|_| self.last.kind != Some(SegmentKind::Syn));
        if let Some(expected) = expected {
            if segment.seq == 0 && !is_established {
                return Reset::Checked(TcpState::Closed);
            }
            if ends::is_before(segment.seq, expected) {
                return Reset::Refused;
            }
            let after_data = self.last.kind == Some(SegmentKind::Ack) && by_same;
            let is_exact = segment.seq == expected || after_data && segment.seq == self.last.end;
            if !is_established || is_exact {
                return Reset::Checked(TcpState::Closed);
            }
            next = self.state;
        }
        if self.answers_passed(segment) {
            return Reset::Unchecked(next);
        }
        Reset::Checked(next)
    }

    /// Whether a reset answers a SYN or an ACK that passed.
    fn answers_passed(&self, segment: &Segment<'_>) -> bool {
        let last = &self.last;
        let may_answer = match last.kind {
            Some(SegmentKind::Syn) => self.is_answered,
            Some(SegmentKind::Ack) => !self.is_assured,
            _ => false,
        };
        let of_challenge = self.state == TcpState::SynSent
            && last.kind == Some(SegmentKind::Ack)
            && !last.by_opener
            && segment.seq == last.ack;
        may_answer && segment.ack == last.end || of_challenge
    }
}
