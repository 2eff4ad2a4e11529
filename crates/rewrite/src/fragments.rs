//! Remembers how a function changed the first fragment of a packet, for those that follow it.

use std::time::Duration;

use warpline_packet::wire::{ip_protocol, ipv6_ext};
use warpline_packet::{Instant, PacketMut, Shard};

use warpline_tables::index::scale;
use warpline_tables::keyed::HashKey;

/// Places of all shards together. A place is chosen by hash; who comes later has it.
const PLACES: usize = 16_384;
/// How long the fragments of a packet may take: as long as they are put together (RFC 8200, 4.5).
const LIFETIME: Duration = Duration::from_secs(60);

/// What the fragments of a packet share.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Whole {
    src: u128,
    dst: u128,
    ident: u32,
    version: u8,
    /// RFC 791 tells packets apart by protocol too, RFC 8200 doesn't: 0 there.
    protocol: u8,
}

#[derive(Clone, Copy, Default)]
struct Place<T> {
    whole: Whole,
    expires: u64,
    done: T,
}

/// The fragmented packets of a shard, each with the change of its first fragment.
pub struct Fragments<T> {
    places: Vec<Place<T>>,
    hash_key: HashKey,
}

impl<T: Copy + Default> Fragments<T> {
    /// Those of `shard`; `hash_key` decides which of two packets has a place.
    pub fn new(shard: Shard, hash_key: HashKey) -> Self {
        Self { places: vec![Place::default(); shard.share(PLACES)], hash_key }
    }

    /// Remembers the change of a first fragment between `addresses`.
    pub fn remember(
        &mut self,
        packet: &PacketMut<'_>,
        addresses: (u128, u128),
        done: T,
        now: Instant,
    ) {
        let Some(whole) = Whole::of(packet, addresses) else { return };
        let at = self.place(&whole);
        self.places[at] = Place { whole, done, expires: now.after(LIFETIME).as_nanos() };
    }

    /// The change of the first fragment of a packet, if that one was seen.
    pub fn find(&self, packet: &PacketMut<'_>, addresses: (u128, u128), now: Instant) -> Option<T> {
        let whole = Whole::of(packet, addresses)?;
        let place = &self.places[self.place(&whole)];
        (place.whole == whole && place.expires > now.as_nanos()).then_some(place.done)
    }

    /// Forgets all packets.
    pub fn clear(&mut self) {
        self.places.fill(Place::default());
    }

    fn place(&self, whole: &Whole) -> usize {
        let Whole { src, dst, ident, version, protocol } = *whole;
        let rest = u64::from(ident) << 16 | u64::from(version) << 8 | u64::from(protocol);
        scale(self.hash_key.of([src, dst], rest), self.places.len())
    }
}

impl Whole {
    fn of(packet: &PacketMut<'_>, (src, dst): (u128, u128)) -> Option<Self> {
        let version = packet.version();
        let (ident, protocol) = match version {
            4 => (u32::from(packet.ip_ident()), packet.protocol()),
            _ => (ident_v6(packet.ip_protocol(), packet.ip_options())?, 0),
        };
        Some(Self { src, dst, ident, version, protocol })
    }
}

/// The identification in the fragment header; `headers` are the extension headers, `next` says what
/// the first is. Ingress found them sound.
fn ident_v6(mut next: u8, mut headers: &[u8]) -> Option<u32> {
    while next != ip_protocol::FRAGMENT {
        let header = headers.get(..ipv6_ext::HEADER_LEN)?;
        let units = usize::from(header[ipv6_ext::field::LEN.start]);
        let len = if next == ip_protocol::AH { (units + 2) * 4 } else { (units + 1) * 8 };
        next = header[ipv6_ext::field::NEXT_HEADER.start];
        headers = headers.get(len..)?;
    }
    let ident = headers.get(ipv6_ext::field::IDENT)?;
    Some(u32::from_be_bytes(ident.try_into().ok()?))
}
