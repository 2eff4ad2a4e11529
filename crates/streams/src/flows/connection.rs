//! A TCP connection as a passive listener sees it: handshake, sequence numbers, windows, end (RFC
//! 9293, 3.10.7).
//!
//! The listener checks what the receiver of a segment checks, as far as it can know that. A segment
//! that a receiver would not take is refused and changes nothing. Sequence numbers become offsets
//! of 64 bits on input.

use warpline_packet::wire::tcp::flags::{ACK, FIN, RST, SYN};

use super::half::{AHEAD, FINISHED, HAS_WINDOW, Half, LOST, TIMED};
use super::memory::{Memory, Wrote};
use super::outcome::{Direction, Fate, Gap, Stream, Why};
use super::overlap::Overlap;
use super::segment::Segment;

/// A connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    /// By the [`Direction`] of the data it sends.
    pub(super) halves: [Half; 2],
    pub(super) state: ConnectionState,
    /// SYNs with other sequence numbers came before it was answered: by [`Direction`], bits.
    pub(super) varied: u8,
    /// The directions with packets so far, as bits.
    pub(super) seen: u8,
    /// Its first packet had a signature. A packet without one, or with one if the first had none,
    /// does not belong to it.
    pub(super) is_signed: bool,
}

/// How a connection ended, as far as one direction tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    state: ConnectionState,
    is_finished: bool,
    fin: u32,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionState {
    /// Its start was not seen, and it wasn't picked up.
    Unknown,
    /// The client's SYN was seen.
    Opening,
    /// And the server's.
    Answered,
    Established,
    Reset,
}

impl Connection {
    pub(super) const NEW: Self = Self {
        halves: [Half::EMPTY; 2],
        state: ConnectionState::Unknown,
        varied: 0,
        seen: 0,
        is_signed: false,
    };

    /// Whether the handshake is over.
    pub(super) fn is_established(&self) -> bool {
        matches!(self.state, ConnectionState::Established | ConnectionState::Reset)
    }

    /// Whether it was reset, or both ends have finished.
    pub(super) fn is_closed(&self) -> bool {
        self.state == ConnectionState::Reset || self.halves.iter().all(|half| half.has(FINISHED))
    }

    /// Whether a SYN opens another connection with the same ports, whether its number is that of
    /// the last one or not.
    pub(super) fn is_over_for(&self, segment: &Segment<'_>) -> bool {
        segment.opens() && (self.state == ConnectionState::Unknown || self.is_closed())
    }

    /// Whether data wait after a gap.
    pub(super) fn waits(&self) -> bool {
        self.halves.iter().any(|half| half.side.waits())
    }

    /// By [`Direction`]: whether data wait after a gap that will never close.
    pub(super) fn gaps(&self, memory: &Memory) -> [bool; 2] {
        let is_hopeless = |direction: Direction| {
            let side = &self.halves[direction as usize].side;
            side.is_gap_acknowledged(memory, self.given_up(direction))
        };
        [Direction::ToServer, Direction::ToClient].map(is_hopeless)
    }

    /// The end of missing data that will never be sent: data that the receiver acknowledged, or all
    /// after a reset.
    pub(super) fn given_up(&self, direction: Direction) -> u64 {
        match self.state {
            ConnectionState::Reset => u64::MAX,
            _ => self.halves[direction as usize].acked,
        }
    }

    /// The state of the connection's end that a packet of a direction may change.
    pub(super) fn end(&self, direction: Direction) -> End {
        let own = &self.halves[direction as usize];
        End { state: self.state, is_finished: own.has(FINISHED), fin: own.fin }
    }

    /// Undoes an end that was reported since this state.
    pub(super) fn take_end_back(&mut self, direction: Direction, before: &End) {
        if self.state == ConnectionState::Reset {
            self.state = before.state;
        }
        let own = &mut self.halves[direction as usize];
        own.flags = own.flags & !FINISHED | if before.is_finished { FINISHED } else { 0 };
        own.fin = before.fin;
    }

    pub(super) fn release(&mut self, memory: &mut Memory) {
        self.halves.iter_mut().for_each(|half| half.side.release(memory));
    }

    /// Takes a segment in. `picks_up`: whether connections are followed whose handshake was not
    /// seen.
    pub(super) fn take(
        &mut self,
        memory: &mut Memory,
        direction: Direction,
        segment: &Segment<'_>,
        picks_up: bool,
    ) -> Stream {
        let mut turn = Turn { connection: self, memory, direction, segment, picks_up };
        turn.take().unwrap_or_else(Stream::Refused)
    }
}

/// One segment on its way in.
pub(super) struct Turn<'a> {
    pub(super) connection: &'a mut Connection,
    pub(super) memory: &'a mut Memory,
    pub(super) direction: Direction,
    pub(super) segment: &'a Segment<'a>,
    pub(super) picks_up: bool,
}

impl Turn<'_> {
    fn take(&mut self) -> Result<Stream, Why> {
        match self.connection.state {
            ConnectionState::Unknown => self.first(),
            ConnectionState::Opening => self.opening(),
            ConnectionState::Answered => self.answered(),
            ConnectionState::Established => self.established(),
            ConnectionState::Reset => Err(Why::Closed),
        }
    }

    pub(super) fn own(&mut self) -> &mut Half {
        &mut self.connection.halves[self.direction as usize]
    }

    pub(super) fn other(&mut self) -> &mut Half {
        &mut self.connection.halves[self.direction.reversed() as usize]
    }

    pub(super) fn untracked(&mut self) -> Stream {
        if self.segment.payload.is_empty() {
            return Stream::None;
        }
        self.memory.counters.segments_untracked += 1;
        Stream::Untracked
    }

    pub(super) fn established(&mut self) -> Result<Stream, Why> {
        let segment = self.segment;
        if segment.has(RST) {
            return self.reset();
        }
        if segment.has(SYN) {
            let is_same = segment.seq.wrapping_add(1) == self.own().base;
            return if is_same { Ok(self.untracked()) } else { Err(Why::Handshake) };
        }
        if !segment.has(ACK) {
            return Err(Why::Acknowledgement);
        }
        if self.has_odd_signature() {
            return Err(Why::Signature);
        }
        let (start, end) = self.span();
        if self.is_outdated() {
            // A late copy of data that was delivered: no decoy.
            let is_known = start >= 0 && start < end && end <= self.own().side.next() as i64;
            return if is_known { Ok(self.old()) } else { Err(Why::Time) };
        }
        match self.check(start, end) {
            Err(Why::Window | Why::Acknowledgement) if self.catches_up() => {
                self.check(start, end)?
            }
            checked => checked?,
        }
        self.note_time(start);
        self.note_ack();
        let is_keep_alive = self.is_keep_alive(start);
        self.note_end(end);
        if segment.payload.is_empty() {
            return Ok(Stream::None);
        }
        if is_keep_alive {
            self.memory.counters.keep_alives += 1;
            return Ok(Stream::Old);
        }
        Ok(if start < 0 { self.add_rest(start) } else { self.add(start as u64, segment.payload) })
    }

    fn old(&mut self) -> Stream {
        self.memory.counters.segments_old += 1;
        Stream::Old
    }

    /// Whether the sender's earlier segments had a later time: the receiver drops this one (RFC
    /// 7323, 5.3). Linux forgives one tick.
    pub(super) fn is_outdated(&mut self) -> bool {
        let is_linux = matches!(self.memory.overlap, Overlap::Linux | Overlap::OldLinux);
        if !self.connection.halves.iter().all(|half| half.has(TIMED)) {
            return false;
        }
        let last = self.own().time;
        let time = self.segment.time().filter(|_| last != 0);
        time.is_some_and(|time| (time.wrapping_sub(last) as i32) < -i32::from(is_linux))
    }

    /// RFC 7323, 4.3: counts for segments that start no later than the other end's last
    /// acknowledgement.
    pub(super) fn note_time(&mut self, start: i64) {
        let own = &mut self.connection.halves[self.direction as usize];
        if own.has(TIMED)
            && start <= own.acked as i64
            && let Some(time) = self.segment.time()
            && (own.time == 0 || time.wrapping_sub(own.time) as i32 > 0)
        {
            own.time = time;
        }
    }

    /// Whether a segment has a signature that its receiver doesn't expect, or lacks an expected
    /// one: Linux drops it.
    #[inline]
    pub(super) fn has_odd_signature(&self) -> bool {
        let is_asked = matches!(self.memory.overlap, Overlap::Linux | Overlap::OldLinux);
        is_asked && self.segment.is_signed() != self.connection.is_signed
    }

    /// Records the position of both streams according to a refused segment; returns whether the
    /// ends now agree ([`Half::catches_up`]).
    pub(super) fn catches_up(&mut self) -> bool {
        let Segment { seq, ack, payload, .. } = *self.segment;
        let Self { connection, direction, .. } = self;
        let own = &mut connection.halves[*direction as usize];
        (own.ahead[0], own.flags) = (seq.wrapping_add(payload.len() as u32), own.flags | AHEAD[0]);
        let other = &mut connection.halves[direction.reversed() as usize];
        (other.ahead[1], other.flags) = (ack, other.flags | AHEAD[1]);
        let mut catches_up = false;
        for half in &mut connection.halves {
            catches_up |= half.catches_up();
        }
        self.memory.counters.streams_caught_up += u64::from(catches_up);
        catches_up
    }

    /// Adds the bytes after the stream's first position; earlier ones belong to the handshake.
    fn add_rest(&mut self, start: i64) -> Stream {
        let payload = self.segment.payload;
        let before = start.unsigned_abs().min(payload.len() as u64) as usize;
        if before == payload.len() {
            return self.untracked();
        }
        match self.add(0, &payload[before..]) {
            Stream::Grew { from, to, changed, .. } => {
                Stream::Grew { from, to, changed, is_packet: false }
            }
            other => other,
        }
    }

    /// Records a FIN, unless it is an old one. More data after an unacknowledged FIN show that it
    /// never arrived.
    fn note_end(&mut self, end: i64) {
        let (has_fin, has_data) = (self.segment.has(FIN), !self.segment.payload.is_empty());
        let fin = self.segment.seq.wrapping_add(self.segment.payload.len() as u32);
        let own = self.own();
        if has_fin && end >= own.side.next() as i64 {
            own.flags |= FINISHED;
            own.fin = fin;
        } else if own.has(FINISHED) && end > own.offset(own.fin) && has_data {
            own.flags &= !FINISHED;
        }
    }

    /// Where the payload starts and ends in the stream.
    fn span(&mut self) -> (i64, i64) {
        let (seq, len) = (self.segment.seq, self.segment.payload.len() as i64);
        let start = self.own().offset(seq);
        (start, start + len)
    }

    /// RFC 9293, 3.8.4: the byte before the next one, or none.
    fn is_keep_alive(&mut self, start: i64) -> bool {
        let is_short = self.segment.payload.len() <= 1 && !self.segment.has(FIN);
        is_short && start == self.own().side.next() as i64 - 1
    }

    pub(super) fn check(&mut self, start: i64, end: i64) -> Result<(), Why> {
        let ack = self.segment.ack;
        let other = self.other();
        let acked = other.offset(ack);
        // Behind the last byte is the FIN.
        let known = other.side.farthest().max(other.window_end) as i64 + 1;
        // RFC 5961, 5.2: nor what was acknowledged more than a window ago.
        let outdated = other.acked as i64 - i64::from(other.window_max);
        if other.has(HAS_WINDOW) && (acked > known.max(other.acked as i64) || acked < outdated) {
            return Err(Why::Acknowledgement);
        }
        let own = self.own();
        let fin = own.offset(own.fin);
        // An empty segment's number counts the FIN.
        if own.has(FINISHED) && own.acked as i64 > fin && end > fin && end > start {
            return Err(Why::Closed);
        }
        let is_probe = end - start == 1 && start == own.side.next() as i64;
        if own.has(HAS_WINDOW) && end > own.window_end as i64 && !is_probe {
            return Err(Why::Window);
        }
        Ok(())
    }

    /// Notes what the segment acknowledges and the window that it announces.
    pub(super) fn note_ack(&mut self) {
        let ack = self.segment.ack;
        let other = self.other();
        let acked = other.offset(ack).max(0) as u64;
        other.acked = other.acked.max(acked);
        let shift = self.own().scale;
        self.note_window(shift);
    }

    pub(super) fn note_window(&mut self, shift: u8) {
        let (ack, window) = (self.segment.ack, u64::from(self.segment.window) << shift);
        let other = self.other();
        other.window_max = other.window_max.max(window as u32);
        let end = other.offset(ack).max(0) as u64 + window;
        other.window_end = other.window_end.max(end);
        other.flags |= HAS_WINDOW;
    }

    /// A reset counts if its receiver would heed it: at the next byte, or with Linux and Solaris in
    /// the window. It needs a signature exactly if the connection has one.
    pub(super) fn reset(&mut self) -> Result<Stream, Why> {
        let segment = self.segment;
        if segment.is_signed() && !self.connection.is_signed {
            return Err(Why::Reset);
        }
        let (start, end) = self.span();
        let is_lenient =
            !matches!(self.memory.overlap, Overlap::First | Overlap::Last | Overlap::Bsd);
        let own = self.own();
        let window_end = own.window_end.max(own.side.farthest()) as i64;
        let is_in_window = end >= own.acked as i64 && start <= window_end;
        let is_heeded = own.is_next(segment.seq) || (is_lenient && is_in_window);
        if !is_heeded {
            return Err(Why::Reset);
        }
        self.connection.state = ConnectionState::Reset;
        Ok(self.untracked())
    }

    /// Adds a payload as it is.
    pub(super) fn add_inline(&mut self, start: u64, payload: &[u8]) -> Stream {
        let Half { side, acked, flags, .. } = &mut self.connection.halves[self.direction as usize];
        let is_late = *flags & LOST != 0
            && start < side.window_start()
            && start + payload.len() as u64 > *acked;
        let stream = side.add(self.memory, start, payload, *acked);
        if matches!(&stream, Stream::Gap(gap) if gap.lost > 0 && gap.from > *acked) {
            *flags |= LOST;
            self.memory.wrote = Wrote::Mixed;
        }
        if is_late { self.late(stream) } else { stream }
    }

    /// Data that may belong in a gap that was given up without an acknowledgement. The receiver
    /// still takes them, so they must be inspected alone.
    fn late(&mut self, stream: Stream) -> Stream {
        self.memory.counters.segments_late += 1;
        match stream {
            Stream::Old => self.untracked(),
            Stream::Grew { from, to, changed, .. } => {
                let from = changed.map_or(from, |changed| changed.start.min(from));
                Stream::Gap(Gap { lost: 0, from, to, packet: Fate::Alone })
            }
            other => other,
        }
    }
}
