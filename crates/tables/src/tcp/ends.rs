//! The two ends of a conversation, and whether a segment is in their windows.

use super::Windows;
use super::segment::{Segment, SegmentKind, SynOptions};
use super::state::TcpState;

/// So far may an acknowledgment number lag, if no window is larger: some ends keep more in flight
/// than they announced.
const ACK_LAG_MAX: u32 = 66_000;

/// One end, as its segments show it. Numbers are sequence numbers, and wrap.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct End {
    /// After the last byte that it sent.
    end: u32,
    /// After the last byte that the other end has room for.
    limit: u32,
    /// The largest window that it announced, in bytes; 0: it has sent nothing yet.
    window: u32,
    /// The highest number that it acknowledged, if it did.
    acked: u32,
    has_acked: bool,
    options: SynOptions,
    /// Its windows are not known, so nothing is refused for its numbers.
    is_unknown: bool,
}

/// Facts besides the ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context {
    pub(super) state: TcpState,
    pub(super) by_opener: bool,
    pub(super) windows: Windows,
}

/// Where a segment lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    Inside,
    /// Not inside, but not judged by that either. Nothing is learned from it.
    Tolerated,
    /// Below the windows, or a little above: it passes, and is not followed.
    Stale,
    Outside,
}

impl End {
    /// Its SYN.
    pub(super) fn begin(&mut self, segment: &Segment<'_>) {
        (self.end, self.limit) = (segment.end, segment.end);
        self.window = u32::from(segment.window).max(1);
        if !segment.options.is_empty() {
            self.options = SynOptions::of(segment.options);
            self.has_acked = false;
        }
    }

    /// Its first segment that was seen, in the midst of the conversation.
    pub(super) fn pick_up(&mut self, segment: &Segment<'_>) {
        self.end = segment.end;
        self.window = (u32::from(segment.window) << self.options.shift()).max(1);
        self.limit = segment.end.wrapping_add(self.window);
    }

    /// The SYN was not seen: windows may be scaled, and acknowledgments selective.
    pub(super) fn assume_nothing(&mut self) {
        self.is_unknown = true;
        self.options = SynOptions::UNSEEN;
    }

    /// An end of which only the SYN is known.
    pub(super) fn after_syn(end: u32, window: u16, options: SynOptions) -> Self {
        let window = u32::from(window).max(1);
        Self { end, limit: end, window, options, ..Self::default() }
    }

    /// All but whether its windows are unknown.
    pub(super) fn forget(&mut self) {
        *self = Self { is_unknown: self.is_unknown, ..Self::default() };
    }

    /// The highest number that it acknowledged.
    pub(super) fn acked(&self) -> Option<u32> {
        self.has_acked.then_some(self.acked)
    }
}

/// Whether `a` lies before `b`, modulo 2^32 (RFC 9293, 3.4).
pub(super) fn is_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// Whether a segment of `sender` is in the windows; if so, both ends learn from it.
pub(super) fn fit(
    segment: &Segment<'_>,
    sender: &mut End,
    receiver: &mut End,
    context: Context,
) -> Fit {
    if is_first(segment, sender, receiver, context) {
        return Fit::Inside;
    }
    let numbers = Numbers::of(segment, sender, receiver, context);
    let fit = numbers.check(sender, receiver);
    if fit != Fit::Inside {
        let is_liberal = sender.is_unknown || context.windows == Windows::Liberal;
        return if is_liberal { Fit::Tolerated } else { fit };
    }
    numbers.learn(segment, sender, receiver);
    fit
}

/// The first segment of an end begins its windows. True for a SYN without ACK, which settles it.
fn is_first(segment: &Segment<'_>, sender: &mut End, receiver: &mut End, context: Context) -> bool {
    let is_opening = matches!(context.state, TcpState::SynSent | TcpState::SynReceived);
    let is_again = sender.window > 0;
    if segment.has_syn() && (!is_again || is_before(sender.end, segment.end) && is_opening) {
        sender.begin(segment);
        // RFC 7323, 2.2: windows are scaled if both ends said so.
        let both_scale = sender.options.has_shift() && receiver.options.has_shift();
        if !context.by_opener && !both_scale {
            sender.options.drop_shift();
            receiver.options.drop_shift();
        }
        return !(segment.has_ack || is_again && context.by_opener);
    }
    if !is_again {
        sender.pick_up(segment);
        let ack = acknowledged(segment, receiver);
        if receiver.window == 0 {
            (receiver.end, receiver.limit) = (ack, ack);
        } else if ack == receiver.end.wrapping_add(1) {
            // The answer to a keep-alive, which repeats the byte before the next.
            receiver.end = ack;
        }
    }
    false
}

/// The highest number that a segment acknowledges.
fn acknowledged(segment: &Segment<'_>, receiver: &End) -> u32 {
    if receiver.options.has_sack() { segment.highest_ack() } else { segment.ack }
}

/// The numbers of a segment by which it is judged.
struct Numbers {
    seq: u32,
    end: u32,
    ack: u32,
    /// The highest of `ack` and the blocks.
    highest_ack: u32,
}

impl Numbers {
    fn of(segment: &Segment<'_>, sender: &End, receiver: &End, context: Context) -> Self {
        let is_reset = segment.kind == SegmentKind::Reset;
        let has_ack = segment.has_ack && !(is_reset && segment.ack == 0);
        let (ack, highest_ack) = match has_ack {
            true => (segment.ack, acknowledged(segment, receiver)),
            false => (receiver.end, receiver.end),
        };
        // RFC 9293, 3.5.2: the answer to a SYN has number 0.
        let answers_syn = is_reset && segment.seq == 0 && context.state == TcpState::SynSent;
        let (seq, end) =
            if answers_syn { (sender.end, sender.end) } else { (segment.seq, segment.end) };
        Self { seq, end, ack, highest_ack }
    }

    /// I to IV of van Rooij's paper.
    fn check(&self, sender: &mut End, receiver: &End) -> Fit {
        let lag_max = sender.window.max(ACK_LAG_MAX);
        let lag = receiver.end.wrapping_sub(self.highest_ack);
        let acks_unsent = is_before(receiver.end, self.highest_ack);
        let acks_late = (lag_max.wrapping_sub(lag) as i32) < 0;
        let lowest = sender.end.wrapping_sub(receiver.window);
        let is_old = is_before(self.end, lowest);
        if is_before(sender.limit, self.seq) {
            let excess = self.end.wrapping_sub(sender.limit).wrapping_add(1);
            let is_near = receiver.window > 0 && !is_old && excess <= receiver.window;
            if is_near && !acks_unsent && !acks_late {
                // More than the receiver has room for. It may be acknowledged all the same.
                sender.end = self.end;
                return Fit::Stale;
            }
            return Fit::Outside;
        }
        match () {
            () if acks_unsent => Fit::Outside,
            () if receiver.window > 0 && is_old || acks_late => Fit::Stale,
            () => Fit::Inside,
        }
    }

    fn learn(&self, segment: &Segment<'_>, sender: &mut End, receiver: &mut End) {
        let scale = if segment.has_syn() { 0 } else { sender.options.shift() };
        let window = u32::from(segment.window) << scale;
        let beyond_ack = self.highest_ack.wrapping_sub(self.ack);
        sender.window = sender.window.max(window.wrapping_add(beyond_ack));
        if is_before(sender.end, self.end) {
            sender.end = self.end;
        }
        if segment.has_ack && (!sender.has_acked || is_before(sender.acked, self.ack)) {
            (sender.acked, sender.has_acked) = (self.ack, true);
        }
        if receiver.window > 0 && is_before(sender.limit, self.end) {
            let excess = self.end.wrapping_sub(sender.limit);
            receiver.window = receiver.window.wrapping_add(excess);
        }
        let limit = self.highest_ack.wrapping_add(window);
        if !is_before(limit, receiver.limit) {
            receiver.limit = limit.wrapping_add(u32::from(window == 0));
        }
        if segment.is_part {
            (sender.is_unknown, receiver.is_unknown) = (true, true);
        }
    }
}
