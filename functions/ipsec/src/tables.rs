//! The tables that lanes share: SAs, their keys and shapes, policies, and the search for an SA.

use core::net::IpAddr;
use core::sync::atomic::AtomicU64;

use warpline_packet::hash::mix32;
use warpline_packet::wire::ip_protocol;
use warpline_packet::{
    Flags, FlowHasher, Headers, Packet, PairHash, SHARDS, Seed, Shard, prefetch,
};

use super::access::ASKED;
use super::cipher::{Cipher, KeyTable, icv_len};
use super::sa::{Action, Carriers, Database, Direction, Inbound, Policy, Sa, Selector};
use super::shape::Shape;
use super::spd::{Decision, Spd};
use super::traffic::{Esp, Traffic, addresses};
use warpline_tables::classifier::TooLarge;

/// Bytes of SPI and sequence number.
pub(super) const ESP_HEADER_LEN: usize = 8;
/// Pad length and next header (RFC 4303, 2).
pub(super) const TRAILER_LEN: usize = 2;

/// See the module.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) sas: Vec<Sa>,
    pub(super) keys: KeyTable,
    pub(super) shapes: Vec<Shape>,
    homes: Vec<Home>,
    /// Of each SA's peers.
    hashes: Vec<PairHash>,
    hasher: FlowHasher,
    /// By shard, and of all shards, the rows of the SAs of each direction, by their slot.
    rows: Vec<[Vec<u16>; 2]>,
    spd: Spd,
    /// The policies for packets that an SA opened, if they are others.
    spd_of_opened: Option<Spd>,
    inbound: InboundPolicies,
    /// The traffic allowed by each SA that opens.
    protected: Spd,
    index: SpiIndex,
    /// Addresses that ESP to this gateway has, in order.
    endpoints: Vec<IpAddr>,
    /// Whether some of it may be in UDP.
    takes_udp: bool,
    /// Whether some that is sent is.
    pub(super) sends_udp: bool,
    /// The highest number that each SA received so far: a guess at what comes next, no more. See
    /// [`super::opener`].
    pub(super) highest: Vec<AtomicU64>,
}

/// Where an SA's state is. Apart from its shape, so that both can be fetched at once.
#[derive(Clone, Copy, Debug)]
struct Home {
    shard: u8,
    /// The SA's place among those of its direction in its shard, and among all.
    slots: [u16; 2],
}

/// The inbound policies. The SPD has their numbers.
#[derive(Debug)]
struct InboundPolicies {
    spd: Spd,
    carriers: Vec<Carriers>,
}

impl InboundPolicies {
    fn build(all: Vec<Inbound>) -> Result<Self, TooLarge> {
        let numbered = all.iter().enumerate().map(|(number, own)| Policy {
            selector: own.selector.clone(),
            action: Action::Protect(number),
        });
        let spd = Spd::build(&numbered.collect::<Vec<_>>())?;
        Ok(Self { spd, carriers: all.into_iter().map(|own| own.carriers).collect() })
    }

    /// Whether the first that matches lets the SA of `row` carry the traffic. Without one the
    /// selectors of the SA decide.
    fn admit(&self, row: u16, traffic: &Traffic) -> bool {
        match self.spd.decide(traffic) {
            Decision::Is(Action::Protect(number)) => match &self.carriers[number] {
                Carriers::Any => true,
                Carriers::These(rows) => rows.binary_search(&usize::from(row)).is_ok(),
            },
            Decision::Uncertain => false,
            Decision::Is(_) | Decision::None => true,
        }
    }
}

/// The kind of a packet, and its treatment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    NotIp,
    /// It may be a piece of ESP to this gateway.
    Fragment,
    /// ESP to this gateway, by the SA of this row, with this low half of a sequence number.
    Open(u16, u32),
    /// ESP to this gateway by no SA.
    NoSa,
    /// ESP to this gateway, cut off.
    Cut,
    Keepalive,
    /// In the clear.
    Clear(Decision),
}

impl Tables {
    /// # Errors
    /// [`TooLarge`]: too many policies, too different ones.
    pub(super) fn build(database: Database, seed: Seed) -> Result<Self, TooLarge> {
        let hasher = FlowHasher::new(seed);
        let Database { sas, policies, policies_of_opened, inbound: admitted } = database;
        let mut rows = vec![[Vec::new(), Vec::new()]; SHARDS + 1];
        let home = |(row, sa): (usize, &Sa)| {
            let shard = usize::from(hasher.shard(hasher.addresses(sa.src, sa.dst)));
            let slots = [shard, SHARDS].map(|shard| {
                let own: &mut Vec<u16> = &mut rows[shard][sa.direction as usize];
                own.push(row as u16);
                own.len() as u16 - 1
            });
            Home { shard: shard as u8, slots }
        };
        let homes = sas.iter().enumerate().map(home).collect();
        let mut endpoints: Vec<IpAddr> = inbound(&sas).map(|sa| sa.dst).collect();
        endpoints.sort_unstable();
        endpoints.dedup();
        let selectors = |(row, sa): (usize, &Sa)| {
            let of =
                move |s: &Selector| Policy { selector: s.clone(), action: Action::Protect(row) };
            sa.selectors.iter().map(of).collect::<Vec<_>>()
        };
        let opens = |(_, sa): &(usize, &Sa)| sa.direction == Direction::In;
        let protected: Vec<Policy> =
            sas.iter().enumerate().filter(opens).flat_map(selectors).collect();
        let takes_udp = inbound(&sas).any(|sa| sa.encap.is_some());
        let has_inbound = !admitted.is_empty();
        let spd_of_opened = policies_of_opened.map(|own| Spd::build(&own)).transpose()?;
        Ok(Self {
            spd: Spd::build(&policies)?,
            spd_of_opened,
            inbound: InboundPolicies::build(admitted)?,
            protected: Spd::build(&protected)?,
            keys: KeyTable::new(&sas),
            index: SpiIndex::build(&sas),
            takes_udp,
            sends_udp: sas.iter().any(|sa| sa.direction == Direction::Out && sa.encap.is_some()),
            rows,
            highest: sas.iter().map(|sa| AtomicU64::new(sa.sequence)).collect(),
            endpoints,
            homes,
            hashes: sas.iter().map(|sa| hasher.addresses(sa.src, sa.dst)).collect(),
            hasher,
            shapes: sas.iter().map(|sa| Shape::of(sa, has_inbound)).collect(),
            sas,
        })
    }

    /// The rows of the SAs of `direction` whose state is in `shard`, by their slot.
    pub(super) fn rows(&self, shard: Shard, direction: Direction) -> impl Iterator<Item = usize> {
        let place = if shard == Shard::WHOLE { SHARDS } else { shard.index() };
        self.rows[place][direction as usize].iter().map(|&row| row.into())
    }

    /// The SA of a row, which is one that the tables gave.
    pub(super) fn row(&self, row: u16) -> (&Sa, &Shape) {
        (&self.sas[usize::from(row)], &self.shapes[usize::from(row)])
    }

    /// The same, without the SA.
    #[inline(always)]
    pub(super) fn shape(&self, row: u16) -> &Shape {
        &self.shapes[usize::from(row)]
    }

    /// Whether there are so many SAs and policies that what is known of them lies far away.
    pub(super) fn is_large(&self) -> bool {
        self.sas.len() > 256
    }

    /// Asks for what [`Tables::classify`] will read of a packet's SA or policy.
    #[inline]
    pub(super) fn fetch(&self, frame: &[u8], headers: &Headers) {
        let Some((_, dst)) = addresses(frame, headers) else { return };
        match Esp::find(frame, headers) {
            Esp::At(place) => prefetch(&self.index.slots[self.index.start(place.spi)]),
            _ => self.spd.fetch(dst),
        }
    }

    /// Prefetches the second step, once the first is loaded, and returns the row of the probable
    /// SA.
    #[inline]
    pub(super) fn fetch_next(&self, frame: &[u8], headers: &Headers) -> Option<u16> {
        let (_, dst) = addresses(frame, headers)?;
        let row = match Esp::find(frame, headers) {
            Esp::At(place) => {
                self.index.slots[self.index.start(place.spi)].1.checked_sub(1)? as u16
            }
            _ => self.spd.fetch_policy(dst)?,
        };
        self.shapes.get(usize::from(row)).into_iter().for_each(prefetch);
        Some(row)
    }

    /// The index of a row's SA among those of its direction whose state is in `shard`; `None` if
    /// its state is elsewhere.
    #[inline(always)]
    pub(super) fn slot(&self, row: u16, shard: Shard) -> Option<usize> {
        let home = &self.homes[usize::from(row)];
        let is_whole = shard == Shard::WHOLE;
        let is_here = is_whole || shard.index() == usize::from(home.shard);
        is_here.then_some(home.slots[usize::from(is_whole)].into())
    }

    #[inline(always)]
    pub(super) fn classify(&self, frame: &[u8], headers: &Headers) -> Class {
        if self.may_be_esp(headers)
            && let Some(class) = self.classify_esp(frame, headers)
        {
            return class;
        }
        self.spd.decide_packet(frame, headers).map_or(Class::NotIp, Class::Clear)
    }

    /// The decision about a packet in the clear that leaves; `None` if it is not IP or cut in its
    /// IP header.
    #[inline(always)]
    pub(super) fn decide_outbound(
        &self,
        frame: &[u8],
        headers: &Headers,
        was_opened: bool,
    ) -> Option<Decision> {
        let of_opened = self.spd_of_opened.as_ref().filter(|_| was_opened);
        of_opened.unwrap_or(&self.spd).decide_packet(frame, headers)
    }

    /// Whether the SA of `row` may carry such traffic (RFC 4301, 5.2, 4).
    pub(super) fn carries(&self, row: u16, traffic: &Traffic) -> bool {
        let selectors = &self.sas[usize::from(row)].selectors;
        let is_selected =
            selectors.is_empty() || selectors.iter().any(|selector| traffic.is_of(selector));
        is_selected && self.inbound.admit(row, traffic)
    }

    /// The decision about such traffic.
    pub(super) fn decide(&self, traffic: &Traffic) -> Decision {
        self.spd.decide(traffic)
    }

    /// `None`: it is not ESP to this gateway.
    #[inline(always)]
    fn classify_esp(&self, frame: &[u8], headers: &Headers) -> Option<Class> {
        let is_fragment = headers.flags.has(Flags::FRAGMENT);
        let esp = if is_fragment { Esp::None } else { Esp::find(frame, headers) };
        if let Esp::At(place) = esp
            && let Some((row, shape)) = self.find(place.spi, frame, headers)
            && (shape.udp_len() > 0) == place.in_udp
        {
            return Some(Class::Open(row, place.low));
        }
        self.classify_others(frame, headers, esp)
    }

    /// The class of a packet without an SA; `None` if it is not ESP for this gateway.
    #[inline(never)]
    fn classify_others(&self, frame: &[u8], headers: &Headers, esp: Esp) -> Option<Class> {
        let (_, dst) = addresses(frame, headers)?;
        let is_fragment = headers.flags.has(Flags::FRAGMENT);
        self.endpoints.binary_search(&dst).ok()?;
        match esp {
            Esp::None if is_fragment => Some(Class::Fragment),
            Esp::None => None,
            Esp::Keepalive => Some(Class::Keepalive),
            Esp::Cut => Some(Class::Cut),
            Esp::At(_) => Some(Class::NoSa),
        }
    }

    /// The row and the shape of the SA that opens the packet with these headers and this SPI (RFC
    /// 4301, 4.1).
    #[inline(always)]
    fn find(&self, spi: u32, frame: &[u8], headers: &Headers) -> Option<(u16, &Shape)> {
        let mut at = self.index.start(spi);
        loop {
            let (own, number) = self.index.slots[at];
            let row = number.checked_sub(1)?;
            if own == spi {
                let shape = self.shapes.get(row as usize)?;
                if shape.is_for(frame, headers) {
                    return Some((row as u16, shape));
                }
            }
            at = (at + 1) & (self.index.slots.len() - 1);
        }
    }

    fn may_be_esp(&self, headers: &Headers) -> bool {
        match headers.protocol {
            ip_protocol::ESP => true,
            ip_protocol::UDP => self.takes_udp,
            _ => false,
        }
    }

    /// The two ends of a tunnel, in any order, which determine a packet's shard. All SAs between
    /// two gateways share one, with the fragments of their traffic and the flows inside. `None` if
    /// any shard will do.
    pub(super) fn hash(&self, frame: &[u8], headers: &Headers) -> Option<PairHash> {
        match self.classify(frame, headers) {
            Class::Open(row, _) => Some(self.hashes[usize::from(row)]),
            Class::Clear(Decision::Is(Action::Protect(row))) => Some(self.hashes[row]),
            Class::Fragment => {
                addresses(frame, headers).map(|(src, dst)| self.hasher.addresses(src, dst))
            }
            // Both directions of a flow fall together, also where one of them alone is protected.
            Class::Clear(_) => {
                let back = Traffic::of(frame, headers)?.reversed();
                let row = [&self.spd, &self.protected].iter().find_map(|spd| {
                    match spd.decide(&back) {
                        Decision::Is(Action::Protect(row)) => Some(row),
                        _ => None,
                    }
                })?;
                Some(self.hashes[row])
            }
            _ => None,
        }
    }

    /// Whether a packet in the clear should have come by an SA (RFC 4301, 5.2, 3a).
    pub(super) fn wants_protection(&self, packet: Packet<'_>) -> bool {
        let headers = packet.headers();
        let traffic = Traffic::of(packet.into_frame_for(ASKED), &headers);
        traffic.is_some_and(|traffic| self.protected.decide(&traffic) != Decision::None)
    }

    /// The SAs that seal with a cipher that must not see a number twice, each with its row.
    pub(super) fn counters(&self) -> impl Iterator<Item = (usize, &Sa)> {
        let is_one =
            |(_, sa): &(usize, &Sa)| sa.direction == Direction::Out && sa.cipher.is_counter();
        self.sas.iter().enumerate().filter(is_one)
    }
}

fn inbound(sas: &[Sa]) -> impl Iterator<Item = &Sa> {
    sas.iter().filter(|sa| sa.direction == Direction::In)
}

/// SAs by SPI and destination (RFC 4301, 4.1), in an open table that is at most half full.
#[derive(Debug)]
struct SpiIndex {
    /// An SPI, and a row plus one; 0 where there is none.
    slots: Vec<(u32, u32)>,
}

impl SpiIndex {
    fn build(sas: &[Sa]) -> Self {
        let mut index = Self { slots: vec![(0, 0); (2 * sas.len()).next_power_of_two().max(2)] };
        for (row, sa) in sas.iter().enumerate().filter(|(_, sa)| sa.direction == Direction::In) {
            let mut at = index.start(sa.spi);
            while index.slots[at].1 != 0 {
                at = (at + 1) & (index.slots.len() - 1);
            }
            index.slots[at] = (sa.spi, row as u32 + 1);
        }
        index
    }

    fn start(&self, spi: u32) -> usize {
        mix32(spi) as usize & (self.slots.len() - 1)
    }
}

/// Whether what comes by an SA is authenticated.
pub(super) fn is_authenticated(sa: &Sa) -> bool {
    sa.cipher == Cipher::Gcm || icv_len(sa.cipher, sa.auth) > 0
}
