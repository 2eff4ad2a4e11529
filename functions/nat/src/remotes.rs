//! The remotes that a binding has sent to: a few for each binding, with their TCP conversations.

use super::binding::{Binding, Upper};
use super::config::Dependence;
use super::conversations::Conversations;
use warpline_rewrite::Endpoint;
use warpline_tables::tcp::{Conversation, Phase, PickUp, Policy, Segment, Verdict};

/// The remote has a conversation.
const TRACKED: u8 = 1;
/// The remote opened it.
const OPENED_BY_REMOTE: u8 = 2;
/// A segment of it went out, or came in.
const OUT: u8 = 4;
const IN: u8 = 8;
/// It was answered, and is neither reset nor closed.
const ESTABLISHED: u8 = 16;

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketDirection {
    Out,
    In,
}

/// A remote that a binding has sent to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Remote {
    pub(super) address: u128,
    /// Until when it may send, in nanoseconds; 0 for an unused place.
    pub(super) expires: u64,
    pub(super) port: u16,
    pub(super) seen: u8,
}

impl Remote {
    fn is_established(&self) -> bool {
        self.seen & ESTABLISHED != 0
    }

    /// Notes a segment of its conversation that goes `way`.
    fn note(&mut self, way: PacketDirection, phase: Phase) {
        self.seen |= if way == PacketDirection::Out { OUT } else { IN };
        let lives = matches!(phase, Phase::Established | Phase::Finishing);
        let is_established = lives && self.seen & (OUT | IN) == OUT | IN;
        self.seen = self.seen & !ESTABLISHED | if is_established { ESTABLISHED } else { 0 };
    }
}

/// A remote that is not its binding's first: two words of address, expiry, then port, flags and the
/// number of its conversation. Unused places are zeros, whose memory was never touched.
pub(super) type Other = [u64; 4];

/// The bits of the last word above the number of the conversation.
const CONVERSATION_AT: u32 = 32;

impl Remote {
    fn from_other([high, low, expires, rest]: Other) -> Self {
        let address = u128::from(high) << 64 | u128::from(low);
        Self { address, expires, port: rest as u16, seen: (rest >> 16) as u8 }
    }

    /// Its words; the number of the conversation stays with the place.
    fn to_other(self, [.., rest]: Other) -> Other {
        let Self { address, expires, port, seen } = self;
        let number = rest >> CONVERSATION_AT << CONVERSATION_AT;
        let rest = number | u64::from(port) | u64::from(seen) << 16;
        [(address >> 64) as u64, address as u64, expires, rest]
    }
}

/// The remotes of a binding. The first lies in it. The others have places of their own, which are
/// read only once they are used.
pub(super) struct Remotes<'a> {
    pub(super) number: usize,
    pub(super) binding: &'a mut Binding,
    /// Where the binding is of IPv6.
    pub(super) upper: Option<&'a mut Upper>,
    pub(super) others: &'a mut [Other],
    pub(super) conversations: &'a mut Conversations,
}

/// A TCP segment of a binding.
pub(super) struct Sent<'a> {
    pub(super) remote: Endpoint,
    pub(super) segment: &'a Segment<'a>,
    pub(super) way: PacketDirection,
    /// Which segments open a conversation; none where only a known remote may send.
    pub(super) pick_up: Option<PickUp>,
    pub(super) policy: Policy,
}

/// The effect of a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Followed {
    /// It uses the binding. Any connection of that may be established now.
    Used { is_established: bool },
    /// It passes, and is no use: of no known conversation, old data again, or after the end.
    Passed,
    /// It can't come now.
    Unexpected,
    /// Its numbers are outside the windows.
    OutOfWindow,
}

impl Remotes<'_> {
    fn get(&self, at: usize) -> Remote {
        match at {
            0 => self.binding.first(self.upper.as_deref()),
            _ => Remote::from_other(self.others[at - 1]),
        }
    }

    fn set(&mut self, at: usize, remote: &Remote) {
        match at {
            0 => self.binding.set_first(self.upper.as_deref_mut(), remote),
            _ => {
                self.others[at - 1] = remote.to_other(self.others[at - 1]);
                self.binding.others = self.binding.others.max(at as u8);
            }
        }
    }

    /// Those that were used.
    fn used(&self) -> impl Iterator<Item = Remote> {
        (0..=usize::from(self.binding.others)).map(|at| self.get(at))
    }

    /// Whether the first is `remote`, and still remembered.
    #[inline]
    fn is_first(&self, remote: Endpoint, now: u64) -> bool {
        self.binding.sends_first_to(self.upper.as_deref(), remote, now)
    }

    fn position(&self, remote: Endpoint, now: u64) -> Option<usize> {
        let is =
            |r: Remote| r.expires > now && (r.address, r.port) == (remote.address, remote.port);
        if self.is_first(remote, now) { Some(0) } else { self.used().position(is) }
    }

    /// Whether `remote` may send to the binding at `now`.
    pub(super) fn permits(&self, remote: Endpoint, filtering: Dependence, now: u64) -> bool {
        let known = |port: bool| {
            let is = |r: &Remote| r.address == remote.address && (!port || r.port == remote.port);
            self.used().any(|r| r.expires > now && is(&r))
        };
        match filtering {
            Dependence::EndpointIndependent => true,
            Dependence::AddressDependent => known(false),
            Dependence::AddressAndPortDependent => known(true),
        }
    }

    /// The remote, remembered until `expires`. Where there is no room, the one that would end first
    /// makes it.
    #[inline]
    pub(super) fn remember(&mut self, remote: Endpoint, now: u64, expires: u64) {
        if self.is_first(remote, now) {
            self.binding.keep_first(expires);
        } else {
            self.remember_other(remote, now, expires);
        }
    }

    #[inline(never)]
    fn remember_other(&mut self, remote: Endpoint, now: u64, expires: u64) {
        let known = self.position(remote, now).map(|at| (at, self.get(at)));
        let (at, own) = known.unwrap_or_else(|| self.new_place(remote, now));
        self.set(at, &Remote { expires, ..own });
    }

    /// The place of a new remote, and what will lie there.
    fn new_place(&self, remote: Endpoint, now: u64) -> (usize, Remote) {
        let Endpoint { address, port } = remote;
        let new = Remote { address, expires: 0, port, seen: 0 };
        let ends = |own: Remote| if own.expires > now { own.expires } else { 0 };
        let first = self.used().map(ends).enumerate().min_by_key(|&(_, ends)| ends);
        let unused = usize::from(self.binding.others) + 1;
        match first {
            Some((at, ends)) if ends == 0 || unused > self.others.len() => (at, new),
            _ => (unused, new),
        }
    }

    /// Follows a TCP segment.
    pub(super) fn follow(&mut self, sent: &Sent<'_>, times: SegmentTimes) -> Followed {
        let known = self.position(sent.remote, times.now).map(|at| (at, self.get(at)));
        let (at, own) = known.unwrap_or_else(|| self.new_place(sent.remote, times.now));
        match own.seen & TRACKED != 0 {
            true => self.follow_known(at, own, sent, times),
            false => self.open(at, own, sent, times),
        }
    }

    fn follow_known(
        &mut self,
        at: usize,
        mut own: Remote,
        sent: &Sent<'_>,
        times: SegmentTimes,
    ) -> Followed {
        let by_opener = (sent.way == PacketDirection::In) == (own.seen & OPENED_BY_REMOTE != 0);
        let place = self.conversation(at);
        let mut conversation = *place;
        let verdict = conversation.take(sent.segment, by_opener, sent.policy);
        match verdict {
            Verdict::Fits | Verdict::Passes => {}
            Verdict::Unexpected => return Followed::Unexpected,
            Verdict::OutOfWindow => return Followed::OutOfWindow,
            Verdict::Reopens => return self.open(at, own, sent, times),
            Verdict::Ends => {
                own.seen = 0;
                return self.use_place(at, own, times);
            }
        }
        let (old, phase) = (place.phase(), conversation.phase());
        *place = conversation;
        let is_over = old == Phase::Closed && phase == Phase::Closed;
        if verdict == Verdict::Passes || is_over {
            return Followed::Passed;
        }
        own.note(sent.way, phase);
        self.use_place(at, own, times)
    }

    /// Opens a conversation, if the segment does.
    fn open(
        &mut self,
        at: usize,
        mut own: Remote,
        sent: &Sent<'_>,
        times: SegmentTimes,
    ) -> Followed {
        let pick_up = sent.pick_up.or((own.seen & TRACKED != 0).then_some(PickUp::Never));
        let opened = pick_up.and_then(|pick_up| Conversation::open(sent.segment, pick_up));
        let Some((conversation, by_opener)) = opened else { return Followed::Passed };
        let by_remote = (sent.way == PacketDirection::In) == by_opener;
        own.seen = TRACKED | if by_remote { OPENED_BY_REMOTE } else { 0 };
        own.note(sent.way, conversation.phase());
        *self.conversation(at) = conversation;
        self.use_place(at, own, times)
    }

    /// Keeps a remote for as long as its conversation lasts now.
    fn use_place(&mut self, at: usize, mut own: Remote, times: SegmentTimes) -> Followed {
        own.expires = if own.is_established() { times.established } else { times.transitory };
        self.set(at, &own);
        let is_established = self.used().any(|r| r.expires > times.now && r.is_established());
        Followed::Used { is_established }
    }

    fn conversation(&mut self, at: usize) -> &mut Conversation {
        let Some(place) = at.checked_sub(1).and_then(|other| self.others.get_mut(other)) else {
            return self.conversations.first(self.number);
        };
        let mut number = (place[3] >> CONVERSATION_AT) as u32;
        let conversation = self.conversations.other(&mut number);
        place[3] = u64::from(number) << CONVERSATION_AT | u64::from(place[3] as u32);
        conversation
    }
}

/// The time of a segment, and when its connection expires if established or if transitory, in
/// nanoseconds.
#[derive(Clone, Copy)]
pub(super) struct SegmentTimes {
    pub(super) now: u64,
    pub(super) established: u64,
    pub(super) transitory: u64,
}

#[cfg(test)]
#[path = "remotes_tests.rs"]
mod tests;
