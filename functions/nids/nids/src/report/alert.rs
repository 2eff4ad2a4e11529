//! A match on its way from a shard to the report, as a note.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use warpline_packet::wire::ethernet;
use warpline_packet::{Instant, LinkType};

use super::Decision;
use crate::apps::Apps;
use crate::detect::{BITS_MAX, FlowVars, INTS_MAX};
use warpline_nids_rules::Name;

/// A rule matched a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alert<'a> {
    /// The rule, by its place in its rule set.
    pub rule: u32,
    /// The rule set ([`super::Generation::number`]).
    pub generation: u32,
    /// The packet's own time, for reports.
    pub captured: Instant,
    /// The packet's time, which thresholds count by.
    pub now: Instant,
    /// Source and destination; `None` where it is not IP.
    pub ends: Option<(IpAddr, IpAddr)>,
    /// The protocol after the last IP header.
    pub protocol: u8,
    /// Source port, or type of ICMP; 0 where there is none.
    pub src_port: u16,
    /// Destination port, or code of ICMP.
    pub dst_port: u16,
    /// VLAN identifiers, from the outside in.
    pub vlans: [Option<u16>; 3],
    /// Its flow; `None` where it has none.
    pub flow: Option<FlowAt>,
    /// The flow's variables, as rules set them.
    pub vars: FlowVars,
    /// The packet is not let through.
    pub is_blocked: bool,
    /// It matched in the stream, not in the packet alone.
    pub is_stream: bool,
    /// It is the first match noted of a packet, or of the data left when a flow ended.
    pub is_first: bool,
    /// The decision of the shard; `None` leaves it to the report.
    pub decision: Option<Decision>,
    /// The length of all matched data, in bytes.
    pub payload_len: u32,
    /// The part of it for reports.
    pub payload: &'a [u8],
    /// Where the packet came from.
    pub source: Source,
    /// The link type of its frame; of no meaning where a flow ended.
    pub link: LinkType,
    /// The header of its frame, if it is Ethernet, with both addresses.
    pub ether: Option<[u8; ethernet::HEADER_LEN]>,
    /// The part of its frame for reports.
    pub frame: &'a [u8],
}

/// Where what was looked into came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// It is a packet of the input.
    #[default]
    Wire,
    /// It was reassembled from fragments, the last of them a packet of the input.
    Fragments,
    /// It waited in a stream until the flow ended.
    FlowEnd,
}

/// The state of a flow, the packet at hand included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowAt {
    /// Its name ([`warpline_streams::flows::Flows::id`]).
    pub id: u64,
    /// The packet goes to the server.
    pub to_server: bool,
    /// Packets of the client.
    pub packets_to_server: u64,
    /// Packets of the server.
    pub packets_to_client: u64,
    /// Bytes of the client's frames.
    pub bytes_to_server: u64,
    /// Bytes of the server's frames.
    pub bytes_to_client: u64,
    /// The own time of its first packet.
    pub start: Instant,
    /// Its application protocol.
    pub apps: Apps,
}

const BLOCKED: u8 = 1;
const STREAM: u8 = 2;
const FLOW: u8 = 4;
const TO_SERVER: u8 = 8;
const FIRST: u8 = 16;
const ETHER: u8 = 32;
/// No VLAN tag: identifiers have 12 bits.
const NO_VLAN: u16 = 0xffff;

impl<'a> Alert<'a> {
    /// Bytes of a note without payload and frame.
    pub const LEN: usize = 4
        + 4
        + 8
        + 8
        + 1
        + 32
        + 1
        + 4
        + 6
        + 2
        + 48
        + 3
        + VARS_LEN
        + 4
        + 1
        + 2
        + ethernet::HEADER_LEN
        + 4;

    /// Writes it to `out`, with as much of the payload as fits, and then of the frame. Returns its
    /// length; 0 if `out` has less than [`Alert::LEN`] bytes.
    pub fn encode(&self, out: &mut [u8]) -> usize {
        let Some((head, tail)) = out.split_at_mut_checked(Self::LEN) else { return 0 };
        let len = self.payload.len().min(tail.len());
        let (payload, tail) = tail.split_at_mut(len);
        payload.copy_from_slice(&self.payload[..len]);
        self.encode_head(head, len as u32);
        let frame_len = self.frame.len().min(tail.len());
        tail[..frame_len].copy_from_slice(&self.frame[..frame_len]);
        Self::LEN + len + frame_len
    }

    fn encode_head(&self, mut rest: &mut [u8], reported: u32) {
        let rest = &mut rest;
        put(rest, self.rule.to_be_bytes());
        put(rest, self.generation.to_be_bytes());
        put(rest, self.captured.as_nanos().to_be_bytes());
        put(rest, self.now.as_nanos().to_be_bytes());
        let (version, src, dst) = match self.ends {
            Some((IpAddr::V4(src), IpAddr::V4(dst))) => {
                (4, u128::from(src.to_bits()), u128::from(dst.to_bits()))
            }
            Some((IpAddr::V6(src), IpAddr::V6(dst))) => (6, src.to_bits(), dst.to_bits()),
            _ => (0, 0, 0),
        };
        put(rest, [version]);
        put(rest, src.to_be_bytes());
        put(rest, dst.to_be_bytes());
        put(rest, [self.protocol]);
        put(rest, self.src_port.to_be_bytes());
        put(rest, self.dst_port.to_be_bytes());
        self.vlans.iter().for_each(|id| put(rest, id.unwrap_or(NO_VLAN).to_be_bytes()));
        let flow = self.flow.unwrap_or_default();
        let flags = [
            (self.is_blocked, BLOCKED),
            (self.is_stream, STREAM),
            (self.flow.is_some(), FLOW),
            (flow.to_server, TO_SERVER),
            (self.is_first, FIRST),
            (self.ether.is_some(), ETHER),
        ];
        put(rest, [flags.iter().map(|(is, bit)| u8::from(*is) * bit).sum()]);
        put(rest, [self.decision.map_or(0, |decision| decision as u8)]);
        for number in flow.numbers() {
            put(rest, number.to_be_bytes());
        }
        put(rest, flow.apps.to_bytes());
        put_vars(rest, &self.vars);
        put(rest, self.payload_len.to_be_bytes());
        put(rest, [self.source as u8]);
        put(rest, self.link.0.to_be_bytes());
        put(rest, self.ether.unwrap_or_default());
        put(rest, reported.to_be_bytes());
    }

    /// Reads what [`Alert::encode`] wrote; `None` for anything else.
    pub fn decode(note: &'a [u8]) -> Option<Self> {
        let (mut head, tail) = note.split_at_checked(Self::LEN)?;
        let rest = &mut head;
        let (rule, generation) = (get32(rest)?, get32(rest)?);
        let (captured, now) = (get64(rest)?, get64(rest)?);
        let [version] = get(rest)?;
        let (src, dst) = (u128::from_be_bytes(get(rest)?), u128::from_be_bytes(get(rest)?));
        let ends = match version {
            4 => Some((v4(src)?, v4(dst)?)),
            6 => Some((Ipv6Addr::from_bits(src).into(), Ipv6Addr::from_bits(dst).into())),
            _ => None,
        };
        let [protocol] = get(rest)?;
        let (src_port, dst_port) = (get16(rest)?, get16(rest)?);
        let vlans = [get16(rest)?, get16(rest)?, get16(rest)?];
        let [flags, decision] = get(rest)?;
        let flow = FlowAt::read(rest, flags & TO_SERVER != 0)?;
        let vars = get_vars(rest)?;
        let payload_len = get32(rest)?;
        let source = match get(rest)? {
            [0] => Source::Wire,
            [1] => Source::Fragments,
            _ => Source::FlowEnd,
        };
        let (link, ether) = (LinkType(get16(rest)?), get(rest)?);
        let (payload, frame) = tail.split_at_checked(get32(rest)? as usize)?;
        Some(Self {
            rule,
            generation,
            captured: Instant::from_nanos(captured),
            now: Instant::from_nanos(now),
            ends,
            protocol,
            src_port,
            dst_port,
            vlans: vlans.map(|id| (id != NO_VLAN).then_some(id)),
            flow: (flags & FLOW != 0).then_some(flow),
            vars,
            is_blocked: flags & BLOCKED != 0,
            is_stream: flags & STREAM != 0,
            is_first: flags & FIRST != 0,
            decision: Decision::of(decision),
            payload_len,
            payload,
            source,
            link,
            ether: (flags & ETHER != 0).then_some(ether),
            frame,
        })
    }
}

impl FlowAt {
    fn numbers(&self) -> [u64; 6] {
        let packets = [self.packets_to_server, self.packets_to_client];
        let bytes = [self.bytes_to_server, self.bytes_to_client];
        [self.id, packets[0], packets[1], bytes[0], bytes[1], self.start.as_nanos()]
    }

    fn read(rest: &mut &[u8], to_server: bool) -> Option<Self> {
        Some(Self {
            to_server,
            id: get64(rest)?,
            packets_to_server: get64(rest)?,
            packets_to_client: get64(rest)?,
            bytes_to_server: get64(rest)?,
            bytes_to_client: get64(rest)?,
            start: Instant::from_nanos(get64(rest)?),
            apps: Apps::from_bytes(get(rest)?),
        })
    }
}

/// Bytes of flowbits and flowints: how many there are, and room for all that there may be.
const VARS_LEN: usize = 2 + 4 * BITS_MAX + 8 * INTS_MAX;

fn put_vars(rest: &mut &mut [u8], vars: &FlowVars) {
    let (bits, ints) = (vars.bits(), vars.ints());
    put(rest, [bits.len() as u8, ints.len() as u8]);
    let bits = bits.iter().map(|name| name.0).chain(core::iter::repeat(0));
    bits.take(BITS_MAX).for_each(|name| put(rest, name.to_be_bytes()));
    let ints = ints.iter().map(|(name, value)| (name.0, *value)).chain(core::iter::repeat((0, 0)));
    for (name, value) in ints.take(INTS_MAX) {
        put(rest, name.to_be_bytes());
        put(rest, value.to_be_bytes());
    }
}

fn get_vars(rest: &mut &[u8]) -> Option<FlowVars> {
    let mut vars = FlowVars::EMPTY;
    let [bits, ints] = get(rest)?.map(usize::from);
    for at in 0..BITS_MAX {
        let name = Name(get32(rest)?);
        if at < bits {
            vars.set(name);
        }
    }
    for at in 0..INTS_MAX {
        let (name, value) = (Name(get32(rest)?), get32(rest)?);
        if at < ints {
            vars.set_int(name, value);
        }
    }
    Some(vars)
}

fn v4(bits: u128) -> Option<IpAddr> {
    u32::try_from(bits).ok().map(|bits| Ipv4Addr::from_bits(bits).into())
}

fn put<const N: usize>(rest: &mut &mut [u8], bytes: [u8; N]) {
    if let Some((to, behind)) = core::mem::take(rest).split_first_chunk_mut() {
        *to = bytes;
        *rest = behind;
    }
}

fn get<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*bytes)
}

fn get16(rest: &mut &[u8]) -> Option<u16> {
    get(rest).map(u16::from_be_bytes)
}

fn get32(rest: &mut &[u8]) -> Option<u32> {
    get(rest).map(u32::from_be_bytes)
}

fn get64(rest: &mut &[u8]) -> Option<u64> {
    get(rest).map(u64::from_be_bytes)
}
