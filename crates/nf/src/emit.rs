//! The bounded output of a function besides its verdicts: packets, each placed after the packet
//! that caused it, and notes for its report.

use warpline_packet::{
    Arrival, Batch, Flags, FlowHasher, Headers, Instant, LinkType, Note, Packet, Placer,
    ScratchWord, Shard, Steering,
};

use crate::Emits;

/// Packets that one tick, or the end of the input, may cause in one shard of a function.
pub const TICK_MADE_MAX: usize = 4;
/// Notes that one tick, or the end of the input, may cause in one shard of a function.
pub const TICK_NOTES_MAX: usize = 64;

/// How packets that a function makes pass the rest of its chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// Words of functions with a second place still to come. A made packet has those of its cause.
    pub inherited: Vec<ScratchWord>,
    /// The first words of functions that changed the cause and have no place to come. Where one is
    /// not 0, an answer would show what that function hides, so none is made.
    pub closed: Vec<ScratchWord>,
}

/// The passage of a function by itself.
static OPEN: Passage = Passage { inherited: Vec::new(), closed: Vec::new() };

/// A packet of a batch that may cause others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Its number in the input.
    ingress: u64,
    /// Packets made for packets of this number, and how many of them continue to the next function.
    /// Counted at the first packet of the number.
    made: u16,
    forward: u16,
}

impl Cause {
    /// A packet that caused none yet.
    pub const fn new(ingress: u64) -> Self {
        Self { ingress, made: 0, forward: 0 }
    }
}

/// Where a function puts packets that it makes.
///
/// A made packet takes the time, shard and ingress number of its cause and is placed directly after
/// it. The cause is one of the packets at hand. Work left over from an earlier packet is done when
/// another packet or a tick comes. The function declares the number of packets for one cause and
/// their length ([`crate::Function::emits`]). The engine guarantees room for that many, so made
/// packets never depend on the load.
pub struct Emit<'a> {
    batch: &'a mut Batch,
    placer: &'a mut Placer,
    hasher: &'a FlowHasher,
    emits: Emits,
    passage: &'a Passage,
    shard: Shard,
    /// The packets at hand, in ingress order.
    causes: &'a mut [Cause],
    /// The tick, if time itself is the cause.
    tick: Option<Tick>,
}

/// A tick's place in the input, and the number of its packets and notes.
#[derive(Clone, Copy)]
struct Tick {
    ingress: u64,
    /// The capture time of the packet after the tick.
    captured: Option<Instant>,
    made: usize,
    noted: usize,
}

impl<'a> Emit<'a> {
    /// Packets go to `batch`, placed by `placer`, their flows named by `hasher`. `causes` are the
    /// packets of `shard`, in ingress order; for `after`, they count the packets that `before`
    /// made.
    pub fn new(
        batch: &'a mut Batch,
        placer: &'a mut Placer,
        hasher: &'a FlowHasher,
        emits: Emits,
        shard: Shard,
        causes: &'a mut [Cause],
    ) -> Self {
        Self { batch, placer, hasher, emits, passage: &OPEN, shard, causes, tick: None }
    }

    /// For a tick or the end of the input in `shard`, at place `ingress` of the input. At most
    /// [`TICK_MADE_MAX`] packets; none if the function declared that it makes none.
    pub fn at_tick(
        batch: &'a mut Batch,
        placer: &'a mut Placer,
        hasher: &'a FlowHasher,
        emits: Emits,
        ingress: u64,
        shard: Shard,
    ) -> Self {
        let tick = Some(Tick { ingress, captured: None, made: 0, noted: 0 });
        Self { batch, placer, hasher, emits, passage: &OPEN, shard, causes: &mut [], tick }
    }

    /// Sets the capture time of the packet after the tick.
    pub fn set_captured(&mut self, captured: Instant) {
        if let Some(tick) = &mut self.tick {
            tick.captured = Some(captured);
        }
    }

    /// At a tick, its time by the capture's clock. Records that a tick writes bear this time.
    pub fn captured(&self) -> Option<Instant> {
        self.tick?.captured
    }

    /// The arrival of a packet that a tick causes, at `now` and on `link`; `None` outside of
    /// `handle_timeout` and `finish`.
    pub fn tick_arrival(&self, now: Instant, link: LinkType) -> Option<Arrival> {
        self.tick.map(|Tick { ingress, captured, .. }| Arrival {
            timestamp: now,
            captured: captured.unwrap_or(now),
            ingress,
            wire_len: 0,
            link,
            interface: 0,
            shard: self.shard.index() as u8,
            flow_hash: 0,
        })
    }

    /// Made packets pass the rest of the chain according to `passage`.
    #[must_use]
    pub fn passing(self, passage: &'a Passage) -> Self {
        Self { passage, ..self }
    }

    /// Makes a packet of `bytes`, on the link of `cause`, for the next function. It takes the
    /// translation of its cause, and an answer to it would show as much. Returns whether it was
    /// made. If not, the function counts that under a name of its own.
    pub fn forward(&mut self, cause: &Packet<'_>, bytes: &[u8]) -> bool {
        let made = self.make(&cause.arrival(), bytes, true);
        if let Some(index) = made {
            self.batch.inherit(index, cause, &self.passage.inherited);
            self.batch.inherit(index, cause, &self.passage.closed);
        }
        made.is_some()
    }

    /// Makes a packet of `bytes`, on the link of `cause`, for the sender of `cause`. Second places
    /// that remain undo in it what their first places did to `cause`. None is made where
    /// [`Self::is_closed`].
    pub fn send_back(&mut self, cause: &Packet<'_>, bytes: &[u8]) -> bool {
        if self.is_closed(cause) {
            return false;
        }
        let made = self.make(&cause.arrival(), bytes, false);
        if let Some(index) = made {
            self.batch.inherit(index, cause, &self.passage.inherited);
            self.batch.packet_mut(index).send_back();
        }
        made.is_some()
    }

    /// Whether a function that changed `cause` has no place to come that would undo the change in
    /// an answer.
    pub fn is_closed(&self, cause: &Packet<'_>) -> bool {
        cause.has_any(&self.passage.closed)
    }

    /// At a tick, makes a packet of `bytes` for the next function.
    pub fn forward_at_tick(&mut self, origin: &Arrival, bytes: &[u8]) -> bool {
        self.tick.is_some() && self.make(origin, bytes, true).is_some()
    }

    /// At a tick, makes a packet of `bytes` that is sent past the functions that remain.
    pub fn send_at_tick(&mut self, origin: &Arrival, bytes: &[u8]) -> bool {
        let made = if self.tick.is_some() { self.make(origin, bytes, false) } else { None };
        if let Some(index) = made {
            self.batch.packet_mut(index).send_back();
        }
        made.is_some()
    }

    /// Gives packet `index` of `batch`, one of those at hand in `before`, the frame `bytes` in
    /// place of its own, as [`Batch::replace`]. Returns whether it was replaced. There is room for
    /// one such frame for each packet, of the length that the function declared.
    #[must_use]
    pub fn replace(&mut self, batch: &mut Batch, index: usize, bytes: &[u8]) -> bool {
        bytes.len() <= self.emits.replace_len_max && batch.replace(index, bytes, self.placer)
    }

    /// Notes something about packet `ingress`, one of those at hand, for the function's
    /// [`crate::Report`]. A tick ignores `ingress`. Returns whether there was room. There is room
    /// for as many notes as the function declared, and for [`TICK_NOTES_MAX`] at a tick.
    pub fn note(&mut self, ingress: u64, note: &[u8]) -> bool {
        if note.len() > self.emits.note_len_max {
            return false;
        }
        let ingress = match &mut self.tick {
            Some(tick) if tick.noted == TICK_NOTES_MAX => return false,
            Some(tick) => {
                tick.noted += 1;
                tick.ingress
            }
            None => ingress,
        };
        let (function, shard) = (self.batch.function(), self.shard.index() as u8);
        self.batch.notes_mut().push(Note { ingress, function, shard, bytes: note })
    }

    fn make(&mut self, cause: &Arrival, bytes: &[u8], is_onward: bool) -> Option<usize> {
        let (wire_len, shard) = (bytes.len() as u32, self.shard.index() as u8);
        let mut arrival = Arrival { wire_len, shard, ..*cause };
        if let Some(tick) = self.tick {
            arrival.ingress = tick.ingress;
        }
        if bytes.len() > self.emits.len_max || !self.is_due(arrival.ingress, is_onward) {
            return None;
        }
        let mut headers = Headers::parse(bytes, cause.link, bytes.len());
        headers.flags.set(Flags::GENERATED);
        arrival.flow_hash = Steering::AddressPair.steer(self.hasher, bytes, &headers).flow_hash;
        let index = self.batch.push(bytes, &headers, &arrival, self.placer).ok()?;
        self.count(arrival.ingress, is_onward);
        Some(index)
    }

    /// Whether packet `ingress` may cause one more. Packets that were made share the number of
    /// their cause, and so what they may cause.
    fn is_due(&self, ingress: u64, is_onward: bool) -> bool {
        let Emits { per_packet, forward_per_packet, .. } = self.emits;
        if let Some(tick) = self.tick {
            let declared = if is_onward { forward_per_packet } else { per_packet };
            return declared > 0 && tick.made < TICK_MADE_MAX;
        }
        let same = &self.causes[self.first(ingress)..];
        let count = same.iter().take_while(|cause| cause.ingress == ingress).count();
        same.first().is_some_and(|cause| {
            usize::from(cause.made) < per_packet * count
                && (!is_onward || usize::from(cause.forward) < forward_per_packet * count)
        })
    }

    fn count(&mut self, ingress: u64, is_onward: bool) {
        let first = self.first(ingress);
        if let Some(tick) = &mut self.tick {
            tick.made += 1;
        } else if let Some(cause) = self.causes.get_mut(first) {
            cause.made += 1;
            cause.forward += u16::from(is_onward);
        }
    }

    fn first(&self, ingress: u64) -> usize {
        self.causes.partition_point(|cause| cause.ingress < ingress)
    }
}
