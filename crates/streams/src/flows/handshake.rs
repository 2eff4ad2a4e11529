//! How TCP connections begin, or are picked up later (RFC 9293, 3.5; RFC 7413).

use warpline_packet::wire::tcp::flags::{ACK, FIN, RST, SYN};

use super::connection::{ConnectionState, Turn};
use super::half::{FAST_OPEN, TIMED};
use super::outcome::{Direction, Stream, Why};
use super::segment::SCALE_MAX;

impl Turn<'_> {
    /// The stream that starts with a sequence number: its first byte is the next one.
    fn begin(&mut self, direction: Direction, base: u32) {
        self.connection.halves[direction as usize].begin(self.memory, base);
    }

    fn varied(&self, direction: Direction) -> bool {
        self.connection.varied & 1 << direction as u8 != 0
    }

    pub(super) fn first(&mut self) -> Result<Stream, Why> {
        let (segment, direction) = (self.segment, self.direction);
        if segment.opens() && direction == Direction::ToServer {
            self.begin(direction, segment.seq.wrapping_add(1));
            self.note_options();
            self.connection.is_signed = segment.is_signed();
            self.connection.state = ConnectionState::Opening;
            return Ok(self.syn_data());
        }
        let is_end = segment.has(RST) || (segment.has(FIN) && segment.payload.is_empty());
        if !self.picks_up || is_end || !segment.has(ACK) || segment.opens() {
            return Ok(self.untracked());
        }
        self.memory.counters.streams_picked_up += 1;
        self.connection.is_signed = segment.is_signed();
        self.begin(direction.reversed(), segment.ack);
        self.connection.halves.iter_mut().for_each(|half| half.scale = SCALE_MAX);
        if segment.answers() {
            self.begin(direction, segment.seq.wrapping_add(1));
            self.own().scale = segment.scale.map_or(0, |_| SCALE_MAX);
            self.other().scale = self.own().scale;
            self.pick_up_times();
            self.connection.state = ConnectionState::Answered;
            return Ok(self.untracked());
        }
        self.begin(direction, segment.seq);
        self.pick_up_times();
        self.connection.state = ConnectionState::Established;
        self.established()
    }

    /// Reads the window scale and the clock of a SYN's sender.
    fn note_options(&mut self) {
        let time = self.segment.time();
        let scale = self.segment.scale.unwrap_or(NO_SCALE);
        let own = self.own();
        own.scale = scale;
        own.flags = own.flags & !TIMED | if time.is_some() { TIMED } else { 0 };
        own.time = time.unwrap_or(0);
    }

    /// Takes both clocks as stated where a segment between them states its own.
    fn pick_up_times(&mut self) {
        if self.segment.time().is_some() {
            self.connection.halves.iter_mut().for_each(|half| half.flags |= TIMED);
        }
    }

    /// The data of a SYN. They count only if both ends support early data (RFC 7413, 4.1).
    fn syn_data(&mut self) -> Stream {
        if !self.segment.is_fast_open || self.segment.payload.is_empty() {
            return self.untracked();
        }
        self.own().flags |= FAST_OPEN;
        let payload = self.segment.payload;
        self.add(0, payload)
    }

    /// Only the client's SYN was seen.
    pub(super) fn opening(&mut self) -> Result<Stream, Why> {
        let segment = self.segment;
        let is_client = self.direction == Direction::ToServer;
        if segment.has(RST) {
            return self.reset_while_opening(is_client);
        }
        if segment.opens() {
            return Ok(if is_client { self.syn_again() } else { self.syn_from_both() });
        }
        if segment.answers() {
            return if is_client { Err(Why::Handshake) } else { self.answer() };
        }
        let fits = match is_client {
            true => self.own().is_next(segment.seq),
            false => self.other().is_next(segment.ack),
        };
        if !self.picks_up || !segment.has(ACK) || segment.has(SYN) || !fits {
            return Ok(self.untracked());
        }
        // The server's SYN was not seen.
        self.memory.counters.streams_picked_up += 1;
        let base = if is_client { segment.ack } else { segment.seq };
        self.begin(Direction::ToClient, base);
        self.pick_up_times();
        self.connection.halves.iter_mut().for_each(|half| half.scale = SCALE_MAX);
        self.connection.state = ConnectionState::Established;
        self.established()
    }

    /// RFC 9293, 3.10.7.3: a reset has to acknowledge the SYN.
    fn reset_while_opening(&mut self, is_client: bool) -> Result<Stream, Why> {
        let segment = self.segment;
        let fits = match is_client {
            true => self.own().is_next(segment.seq),
            false => segment.has(ACK) && self.other().is_next(segment.ack),
        };
        if !fits || (segment.is_signed() && !self.connection.is_signed) {
            return Err(Why::Reset);
        }
        self.connection.state = ConnectionState::Reset;
        Ok(self.untracked())
    }

    fn syn_again(&mut self) -> Stream {
        let base = self.segment.seq.wrapping_add(1);
        if base == self.own().base {
            return self.syn_data();
        }
        self.connection.varied |= 1 << self.direction as u8;
        self.begin(self.direction, base);
        self.note_options();
        self.syn_data()
    }

    /// Both ends open at the same time (RFC 9293, 3.5).
    fn syn_from_both(&mut self) -> Stream {
        self.begin(self.direction, self.segment.seq.wrapping_add(1));
        self.note_options();
        self.settle_scales();
        self.connection.state = ConnectionState::Answered;
        self.untracked()
    }

    /// The server's SYN. Its acknowledgement shows which of the client's SYNs arrived, and whether
    /// the server took data.
    fn answer(&mut self) -> Result<Stream, Why> {
        let segment = self.segment;
        let acked = self.other().offset(segment.ack);
        let fits = (0..=self.other().side.farthest() as i64).contains(&acked);
        if !fits && !self.varied(self.direction.reversed()) {
            return Err(Why::Handshake);
        }
        let took_data = fits && acked == self.other().side.farthest() as i64;
        if !took_data {
            self.begin(self.direction.reversed(), segment.ack);
        }
        self.begin(self.direction, segment.seq.wrapping_add(1));
        self.note_options();
        self.settle_scales();
        self.connection.state = ConnectionState::Answered;
        self.note_window(0);
        if segment.payload.is_empty() {
            return Ok(Stream::None);
        }
        Ok(if self.other().has(FAST_OPEN) {
            self.add(0, segment.payload)
        } else {
            self.untracked()
        })
    }

    /// Windows are shifted only where both ends said so (RFC 7323, 2.2).
    fn settle_scales(&mut self) {
        let halves = &mut self.connection.halves;
        if halves.iter().any(|half| half.scale == NO_SCALE) {
            halves.iter_mut().for_each(|half| half.scale = 0);
        }
    }

    /// Both SYNs were seen.
    pub(super) fn answered(&mut self) -> Result<Stream, Why> {
        let segment = self.segment;
        if segment.has(RST) {
            return self.reset();
        }
        if segment.has(SYN) {
            return self.syn_while_answered();
        }
        if !segment.has(ACK) {
            return Err(Why::Acknowledgement);
        }
        let acked = self.other().offset(segment.ack);
        let farthest = self.other().side.farthest() as i64;
        if !(0..=farthest + 1).contains(&acked) {
            if self.varied(self.direction.reversed()) {
                self.begin(self.direction.reversed(), segment.ack);
            } else if !self.catches_up() {
                return Err(Why::Handshake);
            }
        }
        // Before its data are looked at: a segment that is out of step doesn't end the handshake.
        self.connection.state = ConnectionState::Established;
        let stream = self.established();
        if stream.is_err() {
            self.connection.state = ConnectionState::Answered;
        }
        stream
    }

    fn syn_while_answered(&mut self) -> Result<Stream, Why> {
        let base = self.segment.seq.wrapping_add(1);
        let is_same = base == self.own().base;
        let is_server = self.direction == Direction::ToClient;
        if self.segment.answers() && is_same && !is_server {
            // The end of a handshake that both began.
            self.connection.state = ConnectionState::Established;
        } else if self.segment.answers() && !is_same && is_server {
            self.connection.varied |= 1 << self.direction as u8;
            let scale = self.own().scale;
            self.begin(self.direction, base);
            self.note_options();
            self.own().scale = scale;
        } else if !is_same {
            return Err(Why::Handshake);
        }
        Ok(self.untracked())
    }
}

/// In the place of a shift: the SYN offered none.
const NO_SCALE: u8 = u8::MAX;
