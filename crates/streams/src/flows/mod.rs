//! The flows of one shard: their endpoints, the state of TCP connections, and the streams of these.
//!
//! [`Flows::take`] gets packets in order and returns the flow of each and its effect on the stream
//! of its direction ([`Tracked`]). [`Flows::window`] has the stream's last bytes, contiguous.
//! Inspection is inline: data count on the packet that makes them contiguous.
//!
//! [`Limits`] bounds the number of flows (the least valuable one makes room), the bytes kept of
//! each direction before the newest, the memory of all streams together, and the bytes that may
//! wait after gaps. All memory is taken at the start. Packets without room are counted by name and
//! reported, so that they can be inspected alone.
//!
//! The client is the sender of the first packet, unless that is a SYN with ACK. A flow is found by
//! addresses, ports and protocol, and VLANs if they matter. Urgent data follow a policy
//! ([`Urgent`]).

mod blocks;
mod connection;
mod counters;
mod dropped;
mod expected;
mod facts;
mod half;
mod handshake;
mod held;
mod key;
mod limits;
mod memory;
mod outcome;
mod overlap;
mod ranks;
mod segment;
mod side;
mod table;
#[cfg(test)]
mod tests;
mod urgent;

use std::sync::Arc;

use warpline_packet::wire::tcp::flags::URG;
use warpline_packet::{Instant, Seed};

pub use counters::Counters;
pub use expected::{Expected, Grew};
pub use facts::Facts;
pub use limits::{Limits, Timeout, Timeouts};
pub use outcome::{Direction, Fate, FlowSlot, Gap, Stream, TakenBack, Tracked, Why};
pub use overlap::Overlap;
pub use segment::{Ends, FlowPacket};
pub use side::Window;
pub use urgent::{Urgent, UrgentLimit};

use crate::Offload;
use blocks::Blocks;
use connection::End;
use held::Held;
use memory::{Memory, Wrote};
use segment::Segment;
use table::{Flow, Table};
use warpline_tables::keyed::HashKey;

/// The flows of one shard. `V` is what the caller keeps of each; a new flow has the default.
pub struct Flows<V> {
    table: Table<V>,
    memory: Memory,
    timeouts: Timeouts,
    picks_up: bool,
    checks: bool,
    /// Decides whether checksums count after all.
    offload: Option<Arc<Offload>>,
    /// By what flows are named.
    key: HashKey,
    /// Whether the caller must be notified of a flow's end, according to its own data of the flow.
    is_reported: fn(&V) -> bool,
    /// How the connection of the packet at hand had ended before that.
    end_before: Option<End>,
    /// The latest time passed in.
    now: Instant,
    /// The same by the capture's own time.
    captured: Instant,
}

impl<V: Default + Clone> Flows<V> {
    /// None yet, with all memory that there will be. `seed` goes into their names.
    pub fn new(limits: &Limits, seed: Seed) -> Self {
        Self {
            table: Table::new(limits.flows),
            memory: Memory::new(limits),
            timeouts: limits.timeouts,
            picks_up: limits.midstream,
            checks: limits.checksum,
            offload: None,
            key: HashKey::of_seed(seed, FLOW_NAMES),
            is_reported: |_| false,
            end_before: None,
            now: Instant::ZERO,
            captured: Instant::ZERO,
        }
    }

    /// Flows whose caller's data satisfy `is_reported`, like flows with waiting data, don't end
    /// without a notification.
    #[must_use]
    pub fn reporting_ends_of(self, is_reported: fn(&V) -> bool) -> Self {
        Self { is_reported, ..self }
    }

    /// With checksums ignored once `offload` decides that.
    #[must_use]
    pub fn unless(self, offload: Option<Arc<Offload>>) -> Self {
        Self { offload, ..self }
    }

    /// Bytes that [`Flows::new`] takes with these limits.
    pub fn memory_len(limits: &Limits) -> usize {
        let streams = Blocks::memory_len(limits.stream_memory);
        Table::<V>::memory_len(limits.flows) + streams + Held::memory_len(limits.held_segments)
    }

    /// Asks for the memory that [`Flows::take`] will probably read for a packet with this hint.
    #[inline]
    pub fn fetch(&self, hint: u32) {
        self.table.fetch(hint);
    }

    /// Takes a packet in, at its own time. Earlier places become invalid. Data that wait in a flow
    /// that ends with it are forgotten.
    pub fn take(&mut self, packet: &FlowPacket<'_>) -> Tracked {
        if let Some(expected) = self.take_expected(packet) {
            return expected.into();
        }
        loop {
            match self.try_take(packet) {
                Ok(tracked) => return tracked,
                Err(ended) => self.end(ended),
            }
        }
    }

    /// [`Flows::take`], unless another flow ends with the packet and the caller must be notified:
    /// data wait in it, or see [`Flows::reporting_ends_of`]. That flow is the error.
    /// [`Flows::next_gap_at_end`] has its data, and after [`Flows::end`] the caller tries the
    /// packet again. [`Flows::take_expected`] takes most packets in fewer steps; call it first.
    pub fn try_take(&mut self, packet: &FlowPacket<'_>) -> Result<Tracked, FlowSlot> {
        self.set_time(packet.timestamp, packet.captured);
        self.end_before = None;
        let found = self.find(packet)?;
        if packet.is_error {
            return Ok(self.take_error(found));
        }
        let known = if found.is_some() { found } else { self.begin(packet)? };
        Ok(match known {
            Some((place, direction)) => self.track(place, direction, found.is_none(), packet),
            None => self.without_flow(),
        })
    }

    /// Forgets a flow that is over.
    pub fn end(&mut self, place: FlowSlot) {
        self.remove(place.0);
    }

    /// The last bytes of a direction: those that the last packet added, and at most `window_len`
    /// before them.
    pub fn window(&mut self, place: FlowSlot, direction: Direction) -> Window<'_> {
        let connection = &mut self.table.get_mut(place.0).connection;
        connection.halves[direction as usize].side.window(&mut self.memory)
    }

    /// The caller's data of a flow.
    pub fn vars(&mut self, place: FlowSlot) -> &mut V {
        &mut self.table.get_mut(place.0).vars
    }

    /// [`Flows::window`] and [`Flows::vars`] at once.
    pub fn window_and_vars(
        &mut self,
        place: FlowSlot,
        direction: Direction,
    ) -> (Window<'_>, &mut V) {
        let flow = self.table.get_mut(place.0);
        let side = &mut flow.connection.halves[direction as usize].side;
        (side.window(&mut self.memory), &mut flow.vars)
    }

    /// Where [`Flows::window`] would start, and [`Flows::vars`].
    pub fn window_start_and_vars(
        &mut self,
        place: FlowSlot,
        direction: Direction,
    ) -> (u64, &mut V) {
        let flow = self.table.get_mut(place.0);
        (flow.connection.halves[direction as usize].side.window_start(), &mut flow.vars)
    }

    /// At most `reach` bytes of a direction before and after the place where its last `len` bytes
    /// begin, and that place among them. They may be copied to `room`, which has twice as many.
    /// With [`Flows::vars`].
    #[inline]
    pub fn seam_and_vars<'a>(
        &'a mut self,
        place: FlowSlot,
        direction: Direction,
        len: usize,
        reach: usize,
        room: &'a mut [u8],
    ) -> ((&'a [u8], usize), &'a mut V) {
        let flow = self.table.get_mut(place.0);
        let side = &flow.connection.halves[direction as usize].side;
        (side.around(&self.memory, len, reach, room), &mut flow.vars)
    }

    /// Gives up the next gap of a direction that the receiver acknowledged, or that a reset left.
    /// The window begins anew after it. If [`Tracked::gaps`] is set, call it until there is none:
    /// otherwise the data wait for the next packet.
    pub fn next_gap(&mut self, place: FlowSlot, direction: Direction) -> Option<Gap> {
        let connection = &mut self.table.get_mut(place.0).connection;
        let given_up = connection.given_up(direction);
        connection.halves[direction as usize].next_gap(&mut self.memory, given_up)
    }

    /// [`Flows::next_gap`] of a flow that ends: nothing closes any gap now.
    pub fn next_gap_at_end(&mut self, place: FlowSlot, direction: Direction) -> Option<Gap> {
        let connection = &mut self.table.get_mut(place.0).connection;
        connection.halves[direction as usize].next_gap(&mut self.memory, u64::MAX)
    }

    /// Between whom packets of a direction go.
    pub fn ends(&self, place: FlowSlot, direction: Direction) -> Ends {
        let key = self.table.get(place.0).key;
        match direction {
            Direction::ToServer => key.ends(),
            Direction::ToClient => key.reversed().ends(),
        }
    }

    /// The latest time passed in.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The same by the capture's own time: what is written says that.
    pub fn captured(&self) -> Instant {
        self.captured
    }

    /// Advances the time to `now`, and the capture's own to `captured`. It never steps back.
    #[inline(always)]
    pub fn set_time(&mut self, now: Instant, captured: Instant) {
        if now > self.now {
            (self.now, self.captured) = (now, captured);
        }
    }

    /// The name of a flow: a hash of who talks to whom, when it began, and the seed. Of 53 bits,
    /// which all readers of JSON can hold.
    pub fn id(&self, place: FlowSlot) -> u64 {
        let flow = self.table.get(place.0);
        self.key.of_all(flow.key.words(flow.started)) >> 11
    }

    /// The known properties of a flow.
    pub fn facts(&self, place: FlowSlot) -> Facts {
        let flow = self.table.get(place.0);
        let streams = &flow.connection.halves;
        Facts {
            is_established: is_established(flow),
            is_closed: flow.connection.is_closed(),
            started: flow.started,
            last: flow.last,
            packets: flow.packets.map(u64::from),
            bytes: flow.bytes,
            stream_len: [streams[0].side.next(), streams[1].side.next()],
            sequence_len: [streams[0].sequence_len(), streams[1].sequence_len()],
        }
    }

    /// How many flows there are, those that are over and were not noticed yet among them.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Frees flows that are over by `now`, in one place in four each time, and their waiting
    /// data. [`Flows::take`] checks times itself: this only returns memory earlier.
    pub fn handle_timeout(&mut self, now: Instant) {
        let mut left = self.begin_sweep(now);
        while let Some(place) = self.next_over(&mut left) {
            self.end(place);
        }
    }

    /// Begins the work of [`Flows::handle_timeout`] at `now`: returns how many places
    /// [`Flows::next_over`] has to visit.
    pub fn begin_sweep(&mut self, now: Instant) -> usize {
        self.now = self.now.max(now);
        self.table.places().div_ceil(4)
    }

    /// Frees flows that are over in the next of `left` places, up to a flow with waiting data: as
    /// with [`Flows::try_take`]'s error.
    pub fn next_over(&mut self, left: &mut usize) -> Option<FlowSlot> {
        while *left > 0 {
            *left -= 1;
            if let Some(place) = self.table.next_over(self.now, &self.timeouts) {
                self.memory.counters.flows_expired += 1;
                match self.remove_unless_waiting(place) {
                    Ok(()) => {}
                    Err(place) => return Some(place),
                }
            }
        }
        None
    }

    /// The next flow with waiting data, from place `from` on; `from` is then after it.
    pub fn next_waiting(&self, from: &mut u32) -> Option<FlowSlot> {
        while (*from as usize) < self.table.places() {
            let place = *from;
            *from += 1;
            let flow = self.table.get(place);
            if flow.number != 0 && flow.connection.waits() {
                return Some(FlowSlot(place));
            }
        }
        None
    }

    /// The counts so far.
    pub fn counters(&self) -> Counters {
        self.memory.counters
    }

    /// The most bytes of stream memory that were lent since [`Flows::begin_peak`].
    pub fn stream_memory_peak(&self) -> u64 {
        self.memory.blocks.peak() as u64
    }

    /// Forgets how much stream memory was lent before now.
    pub fn begin_peak(&mut self) {
        self.memory.blocks.begin_peak();
    }

    /// The flow of a packet, unless that is over or the packet begins another. The error is as with
    /// [`Flows::try_take`].
    #[inline]
    fn find(&mut self, packet: &FlowPacket<'_>) -> Result<Option<(u32, Direction)>, FlowSlot> {
        let Some((place, direction)) = self.table.find(&packet.key, packet.hint) else {
            return Ok(None);
        };
        let connection = &self.table.get(place).connection;
        let begins = |segment: &Segment<'_>| connection.is_over_for(segment);
        if self.table.is_over(place, self.now, &self.timeouts) {
            self.memory.counters.flows_expired += 1;
        } else if packet.segment.as_ref().is_some_and(begins) && !self.is_corrupt(packet) {
            self.memory.counters.flows_reused += 1;
        } else {
            return Ok(Some((place, direction)));
        }
        self.remove_unless_waiting(place).map(|()| None)
    }

    /// Starts the flow of a packet. The error is as with [`Flows::try_take`].
    fn begin(&mut self, packet: &FlowPacket<'_>) -> Result<Option<(u32, Direction)>, FlowSlot> {
        let answers = packet.segment.is_some_and(|segment| segment.answers());
        let (key, direction) = match answers {
            true => (packet.key.reversed(), Direction::ToClient),
            false => (packet.key, Direction::ToServer),
        };
        let mut place = self.table.insert(key, self.now, packet.captured);
        if place.is_none()
            && let Some((goes, worth)) = self.table.make_room(self.now, &self.timeouts)
        {
            match worth {
                Some(worth) => self.memory.counters.evicted(worth),
                None => self.memory.counters.flows_expired += 1,
            }
            self.remove_unless_waiting(goes)?;
            place = self.table.insert(key, self.now, packet.captured);
        }
        self.memory.counters.flows += u64::from(place.is_some());
        Ok(place.map(|place| (place, direction)))
    }

    /// Removes a flow, unless data wait in it or the caller is to hear of it.
    fn remove_unless_waiting(&mut self, place: u32) -> Result<(), FlowSlot> {
        let flow = self.table.get(place);
        if flow.connection.waits() || (self.is_reported)(&flow.vars) {
            return Err(FlowSlot(place));
        }
        self.remove(place);
        Ok(())
    }

    fn remove(&mut self, place: u32) {
        self.table.remove(place).release(&mut self.memory);
    }

    /// An ICMP error belongs to the flow of the quoted packet, and does not affect its end.
    fn take_error(&mut self, found: Option<(u32, Direction)>) -> Tracked {
        let Some((place, direction)) = found else { return self.without_flow() };
        Tracked {
            place: Some(FlowSlot(place)),
            direction,
            is_established: is_established(self.table.get(place)),
            is_error: true,
            ..NO_FLOW
        }
    }

    fn without_flow(&mut self) -> Tracked {
        self.memory.counters.packets_without_flow += 1;
        NO_FLOW
    }

    fn is_corrupt(&self, packet: &FlowPacket<'_>) -> bool {
        let is_usual = || self.offload.as_ref().is_some_and(|offload| offload.is_usual());
        self.checks && !is_usual() && packet.is_corrupt()
    }

    fn track(
        &mut self,
        place: u32,
        direction: Direction,
        is_new: bool,
        packet: &FlowPacket<'_>,
    ) -> Tracked {
        let is_corrupt = self.is_corrupt(packet);
        let flow = self.table.get_mut(place);
        let was_established = is_established(flow);
        let seen = flow.connection.seen;
        let is_first = count(flow, direction, packet.len, self.now);
        if is_corrupt {
            // Its payload is not inspected: the next packet is still the first.
            flow.connection.seen = seen;
        }
        let mut tracked = Tracked {
            place: Some(FlowSlot(place)),
            direction,
            is_new,
            is_first_of_direction: is_first,
            ..NO_FLOW
        };
        if let Some(segment) = &packet.segment {
            let connection = &mut flow.connection;
            self.memory.wrote = Wrote::Nothing;
            self.end_before = Some(connection.end(direction));
            tracked.stream = if is_corrupt {
                Stream::Refused(Why::Checksum)
            } else if self.memory.urgent == Urgent::Drop && segment.has(URG) {
                Stream::Refused(Why::Urgent)
            } else {
                connection.take(&mut self.memory, direction, segment, self.picks_up)
            };
            tracked.gaps = connection.gaps(&self.memory);
        }
        self.table.settle(place);
        let has_data = packet.segment.is_none_or(|segment| !segment.payload.is_empty());
        let flow = self.table.get(place);
        tracked.is_established = was_established || (has_data && is_established(flow));
        if let Stream::Refused(why) = tracked.stream {
            self.memory.counters.refused(why);
        }
        tracked
    }
}

/// The number of the hash that names flows.
const FLOW_NAMES: u64 = 0x6e69_6473;

const NO_FLOW: Tracked = Tracked {
    place: None,
    direction: Direction::ToServer,
    is_new: false,
    is_first_of_direction: false,
    is_established: false,
    stream: Stream::None,
    is_error: false,
    gaps: [false; 2],
};

fn is_established<V>(flow: &Flow<V>) -> bool {
    match flow.key.protocol() {
        warpline_packet::wire::ip_protocol::TCP => flow.connection.is_established(),
        _ => flow.is_answered(),
    }
}

/// Counts a packet; whether it is the first of its direction.
fn count<V>(flow: &mut Flow<V>, direction: Direction, len: u32, now: Instant) -> bool {
    let at = direction as usize;
    flow.packets[at] = flow.packets[at].saturating_add(1);
    flow.bytes[at] += u64::from(len);
    flow.last = now;
    let seen = flow.connection.seen;
    flow.connection.seen |= 1 << at;
    seen & 1 << at == 0
}
