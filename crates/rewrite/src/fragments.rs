//! Remembers how a function treated the first fragment of a packet, for those that follow it.

use core::ops::Deref;
use std::time::Duration;

use warpline_packet::{Batch, FragmentKey, Instant, PacketView, Shard};

use warpline_tables::index::scale;
use warpline_tables::keyed::HashKey;

/// Places of all shards together. A place is chosen by hash; who comes later has it.
const PLACES: usize = 16_384;
/// How long the fragments of a packet may take: as long as they are put together (RFC 8200, 4.5).
const LIFETIME: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Default)]
struct FragmentSlot<T> {
    key: FragmentKey,
    expires: u64,
    done: T,
}

/// The fragmented packets of a shard, each with the treatment of its first fragment.
pub struct Fragments<T> {
    places: Vec<FragmentSlot<T>>,
    hash_key: HashKey,
}

impl<T: Copy + Default> Fragments<T> {
    /// Those of `shard`; `hash_key` decides which of two packets has a place.
    pub fn new(shard: Shard, hash_key: HashKey) -> Self {
        Self { places: vec![FragmentSlot::default(); shard.share(PLACES)], hash_key }
    }

    /// Remembers the treatment of a first fragment.
    pub fn remember<B: Deref<Target = Batch>>(
        &mut self,
        packet: &PacketView<B>,
        done: T,
        now: Instant,
    ) {
        let Some(key) = FragmentKey::of_packet(packet) else { return };
        let at = self.place(&key);
        self.places[at] = FragmentSlot { key, done, expires: now.after(LIFETIME).as_nanos() };
    }

    /// Forgets an earlier packet with the key of a first fragment that was dropped.
    pub fn forget<B: Deref<Target = Batch>>(&mut self, packet: &PacketView<B>) {
        let Some(key) = FragmentKey::of_packet(packet) else { return };
        let at = self.place(&key);
        if self.places[at].key == key {
            self.places[at].expires = 0;
        }
    }

    /// The treatment of the first fragment of a packet, if that one was seen.
    pub fn find<B: Deref<Target = Batch>>(
        &self,
        packet: &PacketView<B>,
        now: Instant,
    ) -> Option<T> {
        let key = FragmentKey::of_packet(packet)?;
        let place = &self.places[self.place(&key)];
        (place.key == key && place.expires > now.as_nanos()).then_some(place.done)
    }

    fn place(&self, key: &FragmentKey) -> usize {
        let FragmentKey { src, dst, ident, version, protocol } = *key;
        let rest = u64::from(ident) << 16 | u64::from(version) << 8 | u64::from(protocol);
        scale(self.hash_key.of([src, dst], rest), self.places.len())
    }
}
