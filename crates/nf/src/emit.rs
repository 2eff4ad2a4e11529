//! Packets that a function makes, bounded, each in the place of the packet that caused it.

use warpline_packet::{Arrival, Batch, Flags, Headers, Instant, LinkType, Placer, Shard, Steering};

/// Packets that one tick, or the end of the input, may cause in one shard of a function.
pub const TICK_MADE_MAX: usize = 4;

/// Where a function puts packets that it makes.
///
/// A made packet takes the time, shard and ingress number of its cause and is placed right behind it.
/// How many there may be for one cause is what the function declared
/// ([`crate::Function::emits`]); the engine makes sure that so many always find room, so that what is made
/// never depends on how full things are.
pub struct Emit<'a> {
    batch: &'a mut Batch,
    placer: &'a mut Placer,
    per_cause: usize,
    cause: u64,
    of_cause: usize,
    /// The number in the input and the shard of what time itself causes.
    tick: Option<(u64, Shard)>,
}

impl<'a> Emit<'a> {
    /// Packets go to `batch`, placed by `placer`, at most `per_cause` for each cause.
    pub fn new(batch: &'a mut Batch, placer: &'a mut Placer, per_cause: usize) -> Self {
        Self { batch, placer, per_cause, cause: u64::MAX, of_cause: 0, tick: None }
    }

    /// For what time or the end of the input causes in `shard`, at place `ingress` of the input; at
    /// most [`TICK_MADE_MAX`] packets.
    pub fn at_tick(
        batch: &'a mut Batch,
        placer: &'a mut Placer,
        ingress: u64,
        shard: Shard,
    ) -> Self {
        Self { tick: Some((ingress, shard)), ..Self::new(batch, placer, TICK_MADE_MAX) }
    }

    /// What stands for the cause of a packet that time itself causes, at `now` and on `link`; `None`
    /// outside of `handle_timeout` and `finish`.
    pub fn tick_arrival(&self, now: Instant, link: LinkType) -> Option<Arrival> {
        self.tick.map(|(ingress, shard)| Arrival {
            timestamp: now,
            captured: now,
            ingress,
            wire_len: 0,
            link,
            interface: 0,
            shard: shard.index() as u8,
            flow_hash: 0,
        })
    }

    /// Makes a packet of `bytes`, on the link of `cause`, that goes on to the next function. Says
    /// whether it was made; where not, the function counts that under a name of its own.
    pub fn forward(&mut self, cause: &Arrival, bytes: &[u8]) -> bool {
        self.make(cause, bytes).is_some()
    }

    /// Makes a packet of `bytes`, on the link of `cause`, that is sent past the functions that remain.
    pub fn send_back(&mut self, cause: &Arrival, bytes: &[u8]) -> bool {
        let made = self.make(cause, bytes);
        if let Some(index) = made {
            self.batch.packet_mut(index).send_back();
        }
        made.is_some()
    }

    fn make(&mut self, cause: &Arrival, bytes: &[u8]) -> Option<usize> {
        if cause.ingress != self.cause {
            (self.cause, self.of_cause) = (cause.ingress, 0);
        }
        if self.of_cause == self.per_cause {
            return None;
        }
        let mut headers = Headers::parse(bytes, cause.link, bytes.len());
        headers.flags.set(Flags::GENERATED);
        let flow_hash = Steering::AddressPair.steer(bytes, &headers).flow_hash;
        let arrival = Arrival { wire_len: bytes.len() as u32, flow_hash, ..*cause };
        let index = self.batch.push(bytes, &headers, &arrival, self.placer).ok()?;
        self.of_cause += 1;
        Some(index)
    }
}
