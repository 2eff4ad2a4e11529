//! The network function `ipcomp`, for IPv4 and IPv6.
//!
#![doc = include_str!("manual.md")]
#![forbid(unsafe_code)]

use warpline_packet::wire::{checksum, ip_protocol, ipv4, ipv6};
use warpline_packet::{
    Access, Batch, Field, FieldSet, Flags, Packet, PacketMut, ReadWrite, Reason, ScratchWord,
    Shard, StateKey,
};

use warpline_nf::{Definition, Function, Growth, Key, Resources, Section, State};

mod adaptive;
mod codec;
mod counters;
mod destinations;
mod outcome;
mod place;

use adaptive::{Adaptive, SKIP};
use codec::{Codec, Refusal, with_codec};
use destinations::Destinations;
use outcome::{CompOutcome, Counter};
use place::{HEADER_LEN, UpperLayer, field};

/// The function's name, keys, counters and access.
pub const DEFINITION: Definition = Definition {
    name: "ipcomp",
    summary: "IP payload compression with DEFLATE (RFC 3173, RFC 2394)",
    manual: include_str!("manual.md"),
    has_kernels: false,
    keys: KEYS,
    drops: &["malformed", "unknown-cpi", "bad-deflate", "too-big"],
    counters: counters::COUNTERS,
    access: ACCESS,
    build,
    build_pair: Some(build_pair),
};

mod reason {
    use warpline_packet::Reason;

    pub(super) const MALFORMED: Reason = Reason(0);
    pub(super) const UNKNOWN_CPI: Reason = Reason(1);
    pub(super) const BAD_DEFLATE: Reason = Reason(2);
    pub(super) const TOO_BIG: Reason = Reason(3);
}

const KEYS: &[Key] = &[
    Key {
        name: "mode",
        allowed: "compress | decompress",
        default: "required with one place",
        help: "the end of the path: compressing or decompressing; not with two places",
    },
    Key {
        name: "level",
        allowed: "1 to 9",
        default: "1",
        help: "effort: 1 is fastest, 9 yields the smallest packets; requires mode = \"compress\"",
    },
    Key {
        name: "min_len",
        allowed: "1 to 65535",
        default: "128",
        help: "shorter IP payloads, in bytes, are not compressed; requires mode = \"compress\"",
    },
    Key {
        name: "adaptive",
        allowed: "true | false",
        default: "true",
        help: "true skips packets that look incompressible; requires mode = \"compress\"",
    },
    Key {
        name: "to",
        allowed: "a list of prefixes",
        default: "everywhere",
        help: "destinations reached through the other end; requires mode = \"compress\"",
    },
    Key {
        name: "cpi",
        allowed: "2, or 256 to 65535",
        default: "2",
        help: "the compression parameter index of DEFLATE",
    },
    Key {
        name: "len_max",
        allowed: "1 to 16384",
        default: "9216",
        help: "the longest decompressed payload, in bytes; requires mode = \"decompress\"",
    },
];

/// RFC 3173, 3.3: the well-known index of DEFLATE.
const CPI_DEFLATE: u16 = 2;

/// Where a payload begins that may be compressed, and whose it is.
const PLACED: FieldSet =
    FieldSet::HEADERS.union(FieldSet::of(&[Field::IpProtocol, Field::IpOptions, Field::DstAddr]));
/// The fields that change: the payload, and its lengths, protocol and checksum in headers.
const CHANGED: FieldSet = FieldSet::CARRIED.union(FieldSet::HEADERS).union(FieldSet::of(&[
    Field::IpChecksum,
    Field::Len,
    Field::IpLen,
    Field::IpProtocol,
    Field::IpOptions,
    Field::Remainder,
]));
const ACCESS: Access = Access {
    before: ReadWrite::new(PLACED.with(Field::Payload).with(Field::FlowHash), FieldSet::EMPTY),
    ..Access::run_only(ReadWrite::new(
        PLACED.union(CHANGED).union(FieldSet::PARSED),
        CHANGED.with(Field::Verdict),
    ))
};

/// Whether packets are compressed or decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Compress { level: u32, min_len: usize, adaptive: bool },
    Decompress { len_max: usize },
}

struct Ipcomp {
    mode: Mode,
    /// Where packets are compressed to.
    to: Destinations,
    cpi: u16,
    /// The message of `before` about a packet.
    decision: ScratchWord,
    /// The answer of `run`.
    outcome: ScratchWord,
    access: Access,
}

fn build(section: &mut Section<'_>, resources: &mut Resources) -> Option<Box<dyn Function>> {
    section.require("mode", "\"compress\" or \"decompress\"");
    let compresses = section.choice("mode", &[("compress", true), ("decompress", false)], true);
    let strange: &[&str] =
        if compresses { &["len_max"] } else { &["level", "min_len", "adaptive", "to"] };
    for key in strange {
        if section.has(key) {
            let mode = if compresses { "decompress" } else { "compress" };
            section.mistake(key, format!("`{key}` needs mode = {mode:?}"));
        }
    }
    let mode = if compresses { Mode::compress(section) } else { Mode::decompress(section) };
    let (cpi, to) = (cpi(section), Destinations::read(section));
    Some(Box::new(Ipcomp::new(mode, to, cpi, section, resources)?))
}

/// Decompresses at the first place, and compresses at the second.
fn build_pair(
    section: &mut Section<'_>,
    resources: &mut Resources,
) -> Option<[Box<dyn Function>; 2]> {
    if section.has("mode") {
        let places = "decompresses at the first and compresses at the second";
        section.mistake("mode", format!("`mode` is for one place: with two, ipcomp {places}"));
    }
    let (cpi, to) = (cpi(section), Destinations::read(section));
    let modes = [Mode::decompress(section), Mode::compress(section)];
    let [first, second] = modes.map(|mode| Ipcomp::new(mode, to.clone(), cpi, section, resources));
    Some([Box::new(first?), Box::new(second?)])
}

fn cpi(section: &mut Section<'_>) -> u16 {
    let cpi = section.integer("cpi", 2..=65_535, u64::from(CPI_DEFLATE)) as u16;
    if (3..256).contains(&cpi) {
        section.mistake(
            "cpi",
            "`cpi` must be 2 or 256 to 65535: the others are reserved (RFC 3173, 3.3)",
        );
    }
    cpi
}

impl Mode {
    fn compress(section: &mut Section<'_>) -> Self {
        Self::Compress {
            level: section.integer("level", 1..=9, 1) as u32,
            min_len: section.integer("min_len", 1..=65_535, 128) as usize,
            adaptive: section.boolean("adaptive", true),
        }
    }

    fn decompress(section: &mut Section<'_>) -> Self {
        Self::Decompress { len_max: section.integer("len_max", 1..=16_384, 9216) as usize }
    }
}

fn access(mode: Mode, decision: ScratchWord, outcome: ScratchWord) -> Access {
    let own = |word: ScratchWord| FieldSet::of(&[word.field()]);
    let ReadWrite { reads, writes } = ACCESS.run;
    let adaptive = matches!(mode, Mode::Compress { adaptive: true, .. });
    Access {
        before: if adaptive {
            ReadWrite::new(ACCESS.before.reads, own(decision))
        } else {
            ReadWrite::NONE
        },
        run: ReadWrite::new(reads | own(decision), writes | own(outcome)),
        after: ReadWrite::new(own(outcome), FieldSet::EMPTY),
        ..ACCESS
    }
}

impl Function for Ipcomp {
    fn access(&self) -> &Access {
        &self.access
    }

    fn run(&self, batch: &mut Batch) {
        with_codec(|codec| {
            batch.for_each_forward(|packet| {
                let outcome = self.work(packet, codec);
                packet.set_scratch(self.outcome, outcome.word());
            });
        });
    }

    fn state_key(&self) -> StateKey {
        StateKey::AddressPair
    }

    fn state(&self, _: Shard) -> State {
        let (after, before) = match self.mode {
            Mode::Compress { min_len, adaptive, .. } => {
                let before =
                    adaptive.then(|| Adaptive::new(self.decision, min_len, self.to.clone()));
                (Counter::compressing(self.outcome), before)
            }
            Mode::Decompress { .. } => (Counter::decompressing(self.outcome), None),
        };
        State { before: before.map(|half| Box::new(half) as _), after: Some(Box::new(after)) }
    }

    fn growth(&self) -> Growth {
        match self.mode {
            Mode::Compress { .. } => Growth::NONE,
            Mode::Decompress { len_max } => Growth { head: 0, tail: len_max },
        }
    }
}

/// Where to work on a packet that is whole, well-formed, no fragment, and has a payload of at least
/// `min_len` bytes.
fn eligible(
    packet: &Packet<'_>,
    min_len: usize,
    place: fn(&Packet<'_>) -> Option<UpperLayer>,
) -> Option<UpperLayer> {
    if packet.malformed().is_some() || packet.has(Flags::SNAPPED | Flags::FRAGMENT) {
        return None;
    }
    let longest = packet.ip_end().saturating_sub(packet.l3_offset());
    let place = (longest >= min_len).then(|| place(packet))??;
    (place.body <= packet.ip_end() && packet.ip_end() - place.body >= min_len).then_some(place)
}

impl Ipcomp {
    fn new(
        mode: Mode,
        to: Destinations,
        cpi: u16,
        section: &mut Section<'_>,
        resources: &mut Resources,
    ) -> Option<Self> {
        let Some([decision, outcome]) = resources.scratch() else {
            section.mistake("function", "the chain has no two scratch words left for it");
            return None;
        };
        let access = access(mode, decision, outcome);
        Some(Self { mode, to, cpi, decision, outcome, access })
    }

    fn work(&self, packet: &mut PacketMut<'_>, codec: &mut Codec) -> CompOutcome {
        if packet.reject_malformed() {
            return CompOutcome::LEFT;
        }
        match self.mode {
            Mode::Compress { level, min_len, adaptive } => {
                let view = packet.as_packet();
                match self.to.compressible(&view, min_len) {
                    Some(_) if adaptive && view.scratch(self.decision) == SKIP => {
                        CompOutcome::SKIPPED
                    }
                    Some(place) => self.compress(packet, place, level, codec),
                    None => CompOutcome::LEFT,
                }
            }
            Mode::Decompress { len_max } => {
                match eligible(&packet.as_packet(), 0, place::to_decompress) {
                    Some(place) => self.decompress(packet, place, len_max, codec),
                    None => CompOutcome::LEFT,
                }
            }
        }
    }

    fn compress(
        &self,
        packet: &mut PacketMut<'_>,
        place: UpperLayer,
        level: u32,
        codec: &mut Codec,
    ) -> CompOutcome {
        let body = body_of(packet.as_packet(), place);
        // RFC 3173, 2.2: "If the total size of a compressed payload and the IPComp header [...] is
        // not smaller than the size of the original payload, the IP datagram MUST be sent in the
        // original non-compressed form."
        let before = body.len();
        let Some(len_max) = before.checked_sub(HEADER_LEN + 1) else { return CompOutcome::LEFT };
        let Some(made) = codec.compress(body, level, len_max) else {
            return CompOutcome::INCOMPRESSIBLE;
        };
        let mut header = [place.protocol, 0, 0, 0];
        header[field::CPI].copy_from_slice(&self.cpi.to_be_bytes());
        match replace(packet, place, ip_protocol::IPCOMP, [&header, made]) {
            Some(after) => CompOutcome::reshaped(before - after),
            None => CompOutcome::INCOMPRESSIBLE,
        }
    }

    fn decompress(
        &self,
        packet: &mut PacketMut<'_>,
        place: UpperLayer,
        len_max: usize,
        codec: &mut Codec,
    ) -> CompOutcome {
        let body = body_of(packet.as_packet(), place);
        let Some((header, stream)) = body.split_first_chunk::<HEADER_LEN>() else {
            return refuse(packet, reason::MALFORMED);
        };
        // RFC 3173, 3.3: flags "MUST be ignored by the receiving node".
        let protocol = header[field::NEXT_HEADER.start];
        let cpi = u16::from_be_bytes([header[field::CPI.start], header[field::CPI.start + 1]]);
        if cpi != self.cpi && cpi != CPI_DEFLATE {
            return refuse(packet, reason::UNKNOWN_CPI);
        }
        let before = body.len();
        let made = match codec.decompress(stream, len_max) {
            Ok(made) => made,
            Err(Refusal::TooBig) => return refuse(packet, reason::TOO_BIG),
            Err(Refusal::BadDeflate) => return refuse(packet, reason::BAD_DEFLATE),
        };
        let Some(after) = replace(packet, place, protocol, [&[], made]) else {
            return refuse(packet, reason::TOO_BIG);
        };
        packet.reject_malformed();
        CompOutcome::reshaped(after.saturating_sub(before))
    }
}

/// The bytes from a place to the end of the IP packet.
fn body_of<'a>(packet: Packet<'a>, place: UpperLayer) -> &'a [u8] {
    let end = packet.ip_end();
    packet.into_frame_for(FieldSet::CARRIED).get(place.body..end).unwrap_or(&[])
}

fn refuse(packet: &mut PacketMut<'_>, why: Reason) -> CompOutcome {
    packet.drop(why);
    CompOutcome::LEFT
}

/// Replaces the bytes at `place` with `parts` and the byte that names their protocol with
/// `protocol`. Updates lengths and the IPv4 header checksum. The frame then ends with the packet:
/// padding is removed. Returns the length of `parts`. Returns `None` and changes nothing if the
/// packet would be longer than IP allows or there is no room.
fn replace(
    packet: &mut PacketMut<'_>,
    place: UpperLayer,
    protocol: u8,
    parts: [&[u8]; 2],
) -> Option<usize> {
    let [first, second] = parts;
    let new = first.len() + second.len();
    // Where the header said no length, it says one now.
    let fixed = if packet.version() == 6 { ipv6::HEADER_LEN } else { 0 };
    let ip_len = u16::try_from(place.body + new - packet.l3_offset() - fixed).ok()?;
    let tail = (place.body + new) as isize - packet.len() as isize;
    if !packet.reshape(0, tail) {
        return None;
    }
    let (before, l3) = (packet.ip_len(), packet.l3_offset());
    let frame = packet.frame_mut_for(CHANGED & FieldSet::FRAME);
    let named = core::mem::replace(frame.get_mut(place.next_at)?, protocol);
    let (to_first, to_second) = frame.get_mut(place.body..)?.split_at_mut_checked(first.len())?;
    to_first.copy_from_slice(first);
    to_second.copy_from_slice(second);
    packet.set_ip_len(ip_len);
    if packet.version() == 4 {
        debug_assert_eq!(place.next_at, l3 + ipv4::field::PROTOCOL.start);
        let sum = checksum::update16(packet.ip_checksum(), before, ip_len);
        packet.set_ip_checksum(checksum::update16(sum, u16::from(named), u16::from(protocol)));
    }
    packet.reparse();
    Some(new)
}

#[cfg(test)]
mod tests;
