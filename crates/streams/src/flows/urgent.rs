//! Urgent bytes, which a receiver hands on beside its stream (RFC 9293, 3.8.5; RFC 6093, 3), by the
//! policies of Suricata 8.
//!
//! A stream takes an urgent byte in with its segment, and removes it once it is delivered. From
//! then on, places of later bytes are one less than their sequence numbers. So the order of
//! segments makes no difference.

use warpline_packet::wire::tcp::flags::URG;

use super::connection::Turn;
use super::half::Half;
use super::memory::{Memory, Wrote};
use super::outcome::{Gap, Stream, Why};
use super::overlap::Overlap;

/// The byte of a segment with the flag URG that is not in the stream: one at most, and none if the
/// urgent pointer is 0 or beyond the segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Urgent {
    /// The segment's last byte.
    #[default]
    OutOfBand,
    /// The byte that the pointer names.
    Pointer,
    /// None: the pointer means nothing.
    Inline,
    /// The segment's last byte, which leaves a gap in the stream.
    Gap,
    /// All: the packet is refused, whatever its pointer says.
    Drop,
}

/// The policy for urgent bytes of a direction beyond `URGENT_MAX`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UrgentLimit {
    /// As with [`Urgent::Inline`].
    Inline,
    /// As with [`Urgent::Gap`].
    Gap,
    /// As with [`Urgent::Drop`].
    #[default]
    Drop,
}

/// Bytes of a direction that are taken out of the stream.
pub(super) const URGENT_MAX: u16 = u16::MAX;
/// Urgent bytes of a direction that may wait for those before them.
const PENDING_MAX: usize = 4;

/// The urgent bytes of one direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct UrgentBytes {
    /// Sequence numbers of those that were not delivered yet.
    pending: [u32; PENDING_MAX],
    pending_len: u8,
    /// How many were taken out.
    taken: u16,
    /// Where the last of them was.
    last: u64,
}

impl UrgentBytes {
    pub(super) const NONE: Self =
        Self { pending: [0; PENDING_MAX], pending_len: 0, taken: 0, last: 0 };

    fn pending(&self) -> &[u32] {
        &self.pending[..usize::from(self.pending_len)]
    }

    /// Notes one that is not delivered yet; `false` where too many are.
    fn add(&mut self, seq: u32) -> bool {
        if self.pending().contains(&seq) {
            return true;
        }
        let Some(room) = self.pending.get_mut(usize::from(self.pending_len)) else { return false };
        *room = seq;
        self.pending_len += 1;
        true
    }

    fn forget(&mut self, seq: u32) {
        if let Some(at) = self.pending().iter().position(|own| *own == seq) {
            self.pending_len -= 1;
            self.pending[at] = self.pending[usize::from(self.pending_len)];
        }
    }
}

impl Half {
    /// Forgets the urgent bytes of a dropped packet, from `start` to `end`.
    pub(super) fn forget_urgent(&mut self, start: u64, end: u64) {
        let own = self.urgent;
        for &seq in own.pending() {
            if (start as i64..end as i64).contains(&self.offset(seq)) {
                self.urgent.forget(seq);
            }
        }
    }

    /// Takes delivered urgent bytes out and returns how many; those before `from` were lost in a
    /// gap.
    fn take_urgent_out(&mut self, memory: &mut Memory, from: u64) -> u64 {
        let mut taken = 0;
        while let Some((place, seq)) = self.next_urgent() {
            self.urgent.forget(seq);
            if place < from || !self.side.take_out(memory, place) {
                continue;
            }
            self.base = self.base.wrapping_add(1);
            self.acked -= u64::from(self.acked > place);
            self.window_end -= u64::from(self.window_end > place);
            self.urgent.taken = self.urgent.taken.saturating_add(1);
            self.urgent.last = place;
            memory.wrote = Wrote::Mixed;
            memory.counters.urgent_bytes += 1;
            taken += 1;
        }
        taken
    }

    /// The first urgent byte that was delivered and is still in the stream: its place and its
    /// number.
    fn next_urgent(&self) -> Option<(u64, u32)> {
        let places = self.urgent.pending().iter().map(|&seq| (self.offset(seq), seq));
        let passed = places.filter(|(place, _)| *place < self.side.next() as i64);
        passed.min().map(|(place, seq)| (place.max(0) as u64, seq))
    }

    /// [`super::side::StreamHalf::next_gap`], with urgent bytes after the gap taken out.
    pub(super) fn next_gap(&mut self, memory: &mut Memory, given_up: u64) -> Option<Gap> {
        let gap = self.side.next_gap(memory, given_up)?;
        Some(Gap { to: gap.to - self.take_urgent_out(memory, gap.from), ..gap })
    }
}

impl Turn<'_> {
    /// Adds the payload of a segment, or the end of it, to the stream.
    #[inline]
    pub(super) fn add(&mut self, start: u64, payload: &[u8]) -> Stream {
        let is_usual = !self.segment.has(URG) && self.own().urgent.pending_len == 0;
        if is_usual && self.own().urgent.taken == 0 {
            return self.add_inline(start, payload);
        }
        self.add_urgent(start, payload)
    }

    #[cold]
    fn add_urgent(&mut self, start: u64, payload: &[u8]) -> Stream {
        let Some(at) = self.urgent_byte(payload) else { return self.add_around(start, payload) };
        let is_full = self.own().urgent.taken == URGENT_MAX;
        let policy = match (self.memory.urgent, self.memory.urgent_limit) {
            (Urgent::OutOfBand | Urgent::Pointer, UrgentLimit::Inline) if is_full => Urgent::Inline,
            (Urgent::OutOfBand | Urgent::Pointer, UrgentLimit::Gap) if is_full => Urgent::Gap,
            (Urgent::OutOfBand | Urgent::Pointer, UrgentLimit::Drop) if is_full => Urgent::Drop,
            (policy, _) => policy,
        };
        match policy {
            Urgent::Inline => self.add_around(start, payload),
            Urgent::Drop => Stream::Refused(Why::Urgent),
            Urgent::Gap if at == 0 => self.untracked(),
            Urgent::Gap => in_part(self.add_around(start, &payload[..at])),
            Urgent::OutOfBand | Urgent::Pointer => {
                let place = start + at as u64;
                let own = self.own();
                let seq = own.base.wrapping_add(place as u32);
                if place >= own.side.next() && !own.urgent.add(seq) {
                    return self.untracked();
                }
                self.add_around(start, payload)
            }
        }
    }

    /// Which byte of `payload`, the segment's payload or the end of it, is urgent.
    fn urgent_byte(&self, payload: &[u8]) -> Option<usize> {
        let (pointer, len) = (usize::from(self.segment.urgent), self.segment.payload.len());
        if pointer == 0 || pointer > len {
            return None;
        }
        let named = if self.memory.urgent == Urgent::Pointer { pointer } else { len };
        (named + payload.len()).checked_sub(len + 1)
    }

    /// Adds a payload and takes out of the stream what is urgent of all that was delivered.
    fn add_around(&mut self, start: u64, payload: &[u8]) -> Stream {
        let own = self.own();
        let (next, last) = (own.side.next(), own.urgent.last);
        let mut stream = if own.urgent.taken > 0 && start < last && self.replaces() {
            // Where bytes before the last urgent one lie isn't known any more.
            match payload.get((next - start) as usize..) {
                Some(rest) if !rest.is_empty() => self.add_inline(next, rest),
                _ => return self.untracked(),
            }
        } else {
            self.add_inline(start, payload)
        };
        let Turn { connection, memory, direction, .. } = self;
        let own = &mut connection.halves[*direction as usize];
        let from = if let Stream::Gap(gap) = &stream { gap.from } else { next };
        let taken = own.take_urgent_out(memory, from);
        if taken == 0 {
            return stream;
        }
        match &mut stream {
            Stream::Grew { to, is_packet, .. } => (*to, *is_packet) = (*to - taken, false),
            Stream::Gap(gap) => gap.to -= taken,
            _ => {}
        }
        match stream {
            Stream::Grew { from, to, changed: None, .. } if from == to => self.untracked(),
            stream => stream,
        }
    }

    /// Whether later segments replace what was delivered.
    fn replaces(&self) -> bool {
        self.memory.overlap == Overlap::Last
    }
}

/// The outcome for a payload of which only the beginning was added.
fn in_part(stream: Stream) -> Stream {
    match stream {
        Stream::Grew { from, to, changed, .. } => {
            Stream::Grew { from, to, changed, is_packet: false }
        }
        stream => stream,
    }
}
