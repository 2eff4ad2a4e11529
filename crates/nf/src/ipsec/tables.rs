//! All that lanes share: SAs, their keys and shapes, policies, and how to find an SA.

use core::net::IpAddr;
use core::sync::atomic::AtomicU64;

use warpline_packet::hash::{fold_v6, mix_pair, mix32};
use warpline_packet::wire::{ip_protocol, ipv4, ipv6, udp};
use warpline_packet::{Flags, Headers, SHARDS, Shard};

use super::cipher::{Cipher, KeyTable, icv_len};
use super::sa::{Action, Database, Direction, Mode, Policy, Sa, Selector};
use super::spd::{Decision, Spd};
use super::traffic::{Esp, EspPlace, Traffic, addresses};
use crate::firewall::TooLarge;

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
    /// By shard, and of all shards, the rows of the SAs of each direction, by their slot.
    rows: Vec<[Vec<u16>; 2]>,
    spd: Spd,
    /// What may come by an SA that opens, and by which.
    protected: Spd,
    index: SpiIndex,
    /// Addresses that ESP to this gateway has, in order.
    endpoints: Vec<IpAddr>,
    /// Whether some of it may be in UDP.
    takes_udp: bool,
    /// The highest number that each SA received so far: a guess at what comes next, no more. See
    /// [`super::opener`].
    pub(super) highest: Vec<AtomicU64>,
}

/// What ESP by an SA looks like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Bytes of the header of a tunnel.
    pub(super) outer_len: usize,
    /// Bytes from there to the text: UDP, ESP header, IV.
    pub(super) head_len: usize,
    pub(super) udp_len: usize,
    pub(super) iv_len: usize,
    pub(super) icv_len: usize,
    /// Text and trailer are a multiple of so many bytes.
    pub(super) block_len: usize,
    /// Of the SA's peers.
    hash: u32,
    /// The SA's place among those of its direction in its shard, and among all.
    slots: [u32; 2],
}

impl Shape {
    fn of(sa: &Sa) -> Self {
        let outer_len = match (sa.mode, sa.src) {
            (Mode::Transport, _) => 0,
            (Mode::Tunnel, IpAddr::V4(_)) => ipv4::HEADER_LEN,
            (Mode::Tunnel, IpAddr::V6(_)) => ipv6::HEADER_LEN,
        };
        let udp_len = if sa.encap.is_some() { udp::HEADER_LEN } else { 0 };
        let iv_len = sa.cipher.iv_len();
        Self {
            outer_len,
            head_len: udp_len + ESP_HEADER_LEN + iv_len,
            udp_len,
            iv_len,
            icv_len: icv_len(sa.cipher, sa.auth),
            block_len: sa.cipher.block_len(),
            hash: peers_hash(sa.src, sa.dst),
            slots: [0; 2],
        }
    }

    /// Bytes of text, padding and trailer for `len` bytes of payload.
    pub(super) fn text_len(&self, len: usize) -> usize {
        (len + TRAILER_LEN).next_multiple_of(self.block_len)
    }

    /// Bytes of an IP packet with ESP of one of `len` bytes, of which `kept` stay in front in transport mode.
    pub(super) fn sealed_len(&self, kept: usize, len: usize) -> usize {
        let (kept, carried) = if self.outer_len > 0 { (0, len) } else { (kept, len - kept) };
        self.outer_len + kept + self.head_len + self.text_len(carried) + self.icv_len
    }

    /// The longest packet that has at most `mtu` bytes with ESP.
    pub(super) fn len_max(&self, kept: usize, mtu: usize) -> usize {
        let kept = if self.outer_len > 0 { 0 } else { kept };
        let around = self.outer_len + kept + self.head_len + self.icv_len;
        let text = mtu.saturating_sub(around) / self.block_len * self.block_len;
        kept + text.saturating_sub(TRAILER_LEN)
    }

    /// The SA's place among those of its direction whose state is in `shard`; `None` where its state is elsewhere.
    pub(super) fn slot(&self, shard: Shard) -> Option<usize> {
        let is_whole = shard == Shard::WHOLE;
        let is_here = is_whole || shard.index() == self.shard();
        is_here.then_some(self.slots[usize::from(is_whole)] as usize)
    }

    fn shard(&self) -> usize {
        shard_of(self.hash)
    }
}

/// The top six bits, as [`warpline_packet::Division::hash`] says.
fn shard_of(hash: u32) -> usize {
    (hash >> 26) as usize % SHARDS
}

/// Both ends of a tunnel, in any order: all SAs between two gateways fall together, with the fragments of what
/// they exchange and with the flows inside.
fn peers_hash(a: IpAddr, b: IpAddr) -> u32 {
    let fold = |address: IpAddr| match address {
        IpAddr::V4(address) => address.to_bits(),
        IpAddr::V6(address) => fold_v6(address.to_bits()),
    };
    mix_pair(fold(a), fold(b))
}

/// What a packet is, and what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    NotIp,
    /// It may be a piece of ESP to this gateway.
    Fragment,
    /// ESP to this gateway, by the SA of this row.
    Open(u16, EspPlace),
    /// ESP to this gateway by no SA.
    NoSa,
    /// ESP to this gateway, cut off.
    Cut,
    Keepalive,
    /// In the clear.
    Clear(Decision, Traffic),
}

impl Tables {
    /// # Errors
    /// [`TooLarge`]: too many policies, too different ones.
    pub(super) fn build(database: Database) -> Result<Self, TooLarge> {
        let Database { sas, policies } = database;
        let mut shapes: Vec<Shape> = sas.iter().map(Shape::of).collect();
        let mut rows = vec![[Vec::new(), Vec::new()]; SHARDS + 1];
        for ((row, shape), sa) in shapes.iter_mut().enumerate().zip(&sas) {
            for (to, shard) in [shape.shard(), SHARDS].into_iter().enumerate() {
                let own: &mut Vec<u16> = &mut rows[shard][sa.direction as usize];
                shape.slots[to] = own.len() as u32;
                own.push(row as u16);
            }
        }
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
        Ok(Self {
            spd: Spd::build(&policies)?,
            protected: Spd::build(&protected)?,
            keys: KeyTable::new(&sas),
            index: SpiIndex::build(&sas),
            takes_udp,
            rows,
            highest: sas.iter().map(|sa| AtomicU64::new(sa.sequence)).collect(),
            endpoints,
            shapes,
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

    pub(super) fn classify(&self, frame: &[u8], headers: &Headers) -> Class {
        let Some((_, dst)) = addresses(frame, headers) else { return Class::NotIp };
        if self.may_be_esp(headers) && self.endpoints.binary_search(&dst).is_ok() {
            if headers.flags.has(Flags::FRAGMENT) {
                return Class::Fragment;
            }
            match Esp::find(frame, headers) {
                Esp::None => {}
                Esp::Keepalive => return Class::Keepalive,
                Esp::Cut => return Class::Cut,
                Esp::At(place) => {
                    return match self.index.find(&self.sas, place.spi, dst) {
                        Some(row) if self.row(row).0.encap.is_some() == place.in_udp => {
                            Class::Open(row, place)
                        }
                        _ => Class::NoSa,
                    };
                }
            }
        }
        match Traffic::of(frame, headers) {
            Some(traffic) => Class::Clear(self.spd.decide(&traffic), traffic),
            None => Class::NotIp,
        }
    }

    fn may_be_esp(&self, headers: &Headers) -> bool {
        match headers.protocol {
            ip_protocol::ESP => true,
            ip_protocol::UDP => self.takes_udp,
            _ => false,
        }
    }

    /// The hash that a packet's shard is made of; `None` where any will do.
    pub(super) fn hash(&self, frame: &[u8], headers: &Headers) -> Option<u32> {
        match self.classify(frame, headers) {
            Class::Open(row, _) => Some(self.row(row).1.hash),
            Class::Clear(Decision::Is(Action::Protect(row)), _) => Some(self.shapes[row].hash),
            Class::Fragment => addresses(frame, headers).map(|(src, dst)| peers_hash(src, dst)),
            // Both directions of a flow fall together, also where one of them alone is protected.
            Class::Clear(_, traffic) => {
                let back = traffic.reversed();
                let row = [&self.spd, &self.protected].iter().find_map(|spd| {
                    match spd.decide(&back) {
                        Decision::Is(Action::Protect(row)) => Some(row),
                        _ => None,
                    }
                })?;
                Some(self.shapes[row].hash)
            }
            _ => None,
        }
    }

    /// Whether a packet in the clear should have come by an SA (RFC 4301, 5.2, 3a).
    pub(super) fn wants_protection(&self, traffic: &Traffic) -> bool {
        self.protected.decide(traffic) != Decision::None
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
    /// A row plus one; 0 where there is none.
    slots: Vec<u32>,
}

impl SpiIndex {
    fn build(sas: &[Sa]) -> Self {
        let mut index = Self { slots: vec![0; (2 * sas.len()).next_power_of_two().max(2)] };
        for (row, sa) in sas.iter().enumerate().filter(|(_, sa)| sa.direction == Direction::In) {
            let mut at = index.start(sa.spi);
            while index.slots[at] != 0 {
                at = (at + 1) & (index.slots.len() - 1);
            }
            index.slots[at] = row as u32 + 1;
        }
        index
    }

    fn start(&self, spi: u32) -> usize {
        mix32(spi) as usize & (self.slots.len() - 1)
    }

    fn find(&self, sas: &[Sa], spi: u32, dst: IpAddr) -> Option<u16> {
        let mut at = self.start(spi);
        loop {
            let row = self.slots[at].checked_sub(1)?;
            let sa = sas.get(row as usize)?;
            if sa.spi == spi && sa.dst == dst {
                return Some(row as u16);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }
}

/// Whether what comes by an SA is authenticated.
pub(super) fn is_authenticated(sa: &Sa) -> bool {
    sa.cipher == Cipher::Gcm || icv_len(sa.cipher, sa.auth) > 0
}
