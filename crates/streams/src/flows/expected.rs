//! The fast path for most packets: the next segment or acknowledgement of an established
//! connection, or one more packet of another flow.
//!
//! Header prediction, as receivers do it (V. Jacobson, "4BSD TCP Header Prediction", 1990). A few
//! comparisons show that nothing begins, ends, waits, overlaps or is lost. Then [`Flows::try_take`]
//! would only copy the payload and move three numbers.

use warpline_packet::wire::tcp::flags::{ACK, PSH};

use super::connection::{Connection, ConnectionState, Turn};
use super::half::{FINISHED, LOST};
use super::memory::{Memory, Wrote};
use super::outcome::{Direction, FlowSlot, Stream, Tracked};
use super::segment::{FlowPacket, Segment};
use super::{Flows, NO_FLOW, count, is_established};

/// [`Tracked`] of a packet that was as expected, in fewer words: it began nothing, and nothing
/// waits that could be given up.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// As in [`Tracked`].
    pub place: FlowSlot,
    /// As in [`Tracked`].
    pub direction: Direction,
    /// As in [`Tracked`].
    pub is_established: bool,
    /// The packet's payload, where that made the stream grow.
    pub grew: Option<Grew>,
}

/// By what a stream grew.
#[derive(Clone, Copy, Debug)]
pub struct Grew {
    /// Where the new bytes start in the stream.
    pub from: u64,
    /// Where they end.
    pub to: u64,
    /// The last three bytes before them and their first five, as one number; `None` where there are
    /// fewer than four or eight, or they don't lie together.
    pub seam: Option<u64>,
}

impl From<Expected> for Tracked {
    fn from(expected: Expected) -> Self {
        let Expected { place, direction, is_established, grew } = expected;
        let stream = grew.map_or(Stream::None, |Grew { from, to, .. }| Stream::Grew {
            from,
            to,
            is_packet: true,
            changed: None,
        });
        Self { place: Some(place), direction, is_established, stream, ..NO_FLOW }
    }
}

impl Tracked {
    /// The same of a packet that was not as expected, where it left the streams of its flow as they
    /// were and was not its direction's first.
    #[inline]
    pub fn unchanged(&self) -> Option<Expected> {
        let &Self { place, direction, is_established, is_first_of_direction, .. } = self;
        let has_grown = matches!(self.stream, Stream::Grew { .. } | Stream::Gap(_));
        let is_plain = !has_grown && !self.is_error && self.gaps == [false; 2];
        let place = place.filter(|_| is_plain && !is_first_of_direction)?;
        Some(Expected { place, direction, is_established, grew: None })
    }
}

impl<V: Default + Clone> Flows<V> {
    /// [`Flows::try_take`] of a packet that is as expected. `None`: it may be otherwise, and
    /// nothing was done.
    #[inline]
    pub fn take_expected(&mut self, packet: &FlowPacket<'_>) -> Option<Expected> {
        if packet.is_error {
            return None;
        }
        let (place, direction) = self.table.find(&packet.key, packet.hint)?;
        let now = self.now.max(packet.timestamp);
        let connection = &self.table.get(place).connection;
        let expects = |segment: &Segment<'_>| connection.expects(direction, segment);
        if self.table.is_over(place, now, &self.timeouts)
            || connection.seen & 1 << direction as usize == 0
            || !packet.segment.as_ref().is_none_or(expects)
            || self.is_corrupt(packet)
        {
            return None;
        }
        let flow = self.table.get_mut(place);
        let (grew, end) = match &packet.segment {
            None => (None, None),
            Some(segment) => {
                let end = flow.connection.end(direction);
                let connection = &mut flow.connection;
                (connection.take_expected(&mut self.memory, direction, segment)?, Some(end))
            }
        };
        if now > self.now {
            self.captured = packet.captured;
        }
        (self.now, self.end_before) = (now, end);
        count(flow, direction, packet.len, now);
        let is_established = is_established(flow);
        if grew.is_some_and(|grew| grew.from == 0) {
            self.table.settle(place);
        }
        Some(Expected { place: FlowSlot(place), direction, is_established, grew })
    }
}

impl Connection {
    /// Whether a segment has data that come in order, or is an acknowledgement, while nothing waits
    /// and neither end has finished.
    #[inline]
    fn expects(&self, direction: Direction, segment: &Segment<'_>) -> bool {
        let is_plain = segment.flags & !PSH == ACK && self.state == ConnectionState::Established;
        let own = &self.halves[direction as usize];
        is_plain
            && !own.has(FINISHED | LOST)
            && !self.waits()
            && own.offset(segment.seq) == own.side.next() as i64
    }

    /// [`Connection::take`] of a segment that it expects; gives the bytes that the stream gained.
    #[inline]
    fn take_expected(
        &mut self,
        memory: &mut Memory,
        direction: Direction,
        segment: &Segment<'_>,
    ) -> Option<Option<Grew>> {
        let from = self.halves[direction as usize].side.next();
        let to = from + segment.payload.len() as u64;
        let mut turn = Turn { connection: self, memory, direction, segment, picks_up: false };
        turn.check(from as i64, to as i64).ok()?;
        if turn.is_outdated() || turn.has_odd_signature() {
            return None;
        }
        turn.note_time(from as i64);
        turn.memory.wrote = Wrote::Nothing;
        if segment.payload.is_empty() {
            turn.note_ack();
            return Some(None);
        }
        let Turn { connection, memory, .. } = &mut turn;
        let side = &mut connection.halves[direction as usize].side;
        let before = side.last_four(memory);
        if !side.extend(memory, segment.payload) {
            return None;
        }
        turn.note_ack();
        let behind = segment.payload.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        let seam = before.zip(behind);
        let seam = seam.map(|(before, behind)| u64::from(before) << 40 | behind >> 24);
        Some(Some(Grew { from, to, seam }))
    }
}
