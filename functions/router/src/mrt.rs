//! Routing tables as route collectors dump them: TABLE_DUMP_V2 of MRT (RFC 6396, 4.3; RFC 8050).
//!
//! A dump has a record for each prefix, with an entry for each peer that announced it. The entry
//! with the shortest AS path is taken (RFC 4271, 9.1.2.2 a), and of several, that of the lowest
//! peer index. Every mistake is reported with its byte offset in the unpacked dump.

use std::collections::HashMap;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use warpline_packet::Prefix;

use super::mrt_path::{Fields, Path};
use super::routes::{HOPS_MAX, ROUTES_MAX, Route, Routes, Target, Unsupported};
use warpline_nf::config::unpack::{UNPACKED_LEN_MAX, fill};
use warpline_nf::{Diagnostic, SourceText};

/// Bytes that a record may have. One of a thousand peers takes a few 100 KiB.
pub const RECORD_LEN_MAX: usize = 1 << 24;

const HEADER_LEN: usize = 12;

/// Types of records (RFC 6396, 4).
mod kind {
    pub(super) const TABLE_DUMP: u16 = 12;
    pub(super) const TABLE_DUMP_V2: u16 = 13;
    pub(super) const BGP4MP: u16 = 16;
    pub(super) const BGP4MP_ET: u16 = 17;
}

/// Subtypes of TABLE_DUMP_V2 (RFC 6396, 4.3; RFC 6397; RFC 8050, 4).
mod subtype {
    pub(super) const PEER_INDEX_TABLE: u16 = 1;
    pub(super) const RIB_IPV4_UNICAST: u16 = 2;
    pub(super) const RIB_IPV4_MULTICAST: u16 = 3;
    pub(super) const RIB_IPV6_UNICAST: u16 = 4;
    pub(super) const RIB_IPV6_MULTICAST: u16 = 5;
    pub(super) const RIB_GENERIC: u16 = 6;
    pub(super) const GEO_PEER_TABLE: u16 = 7;
    pub(super) const RIB_IPV4_UNICAST_ADDPATH: u16 = 8;
    pub(super) const RIB_IPV4_MULTICAST_ADDPATH: u16 = 9;
    pub(super) const RIB_IPV6_UNICAST_ADDPATH: u16 = 10;
    pub(super) const RIB_IPV6_MULTICAST_ADDPATH: u16 = 11;
    pub(super) const RIB_GENERIC_ADDPATH: u16 = 12;
}

/// Whether bytes begin a dump of any kind: no text has such bytes.
pub fn is_mrt(head: &[u8]) -> bool {
    let kinds = [kind::TABLE_DUMP, kind::TABLE_DUMP_V2, kind::BGP4MP, kind::BGP4MP_ET];
    matches!(head,
        [_, _, _, _, high, low, ..] if kinds.contains(&u16::from_be_bytes([*high, *low])))
}

/// Reads a dump called `name`; every mistake goes to `note`.
pub fn read(
    dump: impl Read,
    name: &str,
    unsupported: Unsupported,
    note: &mut dyn FnMut(Diagnostic),
) -> Routes<'static> {
    let mut reader = Reader {
        dump,
        source: SourceText::new(name, ""),
        unsupported,
        note,
        at: 0,
        number: 0,
        has_peers: false,
        found: Routes::default(),
        numbers: HashMap::new(),
        last: None,
        unsupported_hop: None,
    };
    let mut body = Vec::new();
    while reader.record(&mut body) {}
    reader.settle();
    reader.found
}

struct Reader<'n, R> {
    dump: R,
    source: SourceText,
    unsupported: Unsupported,
    note: &'n mut dyn FnMut(Diagnostic),
    /// Where the record begins.
    at: u64,
    /// Its number, from 1.
    number: u32,
    has_peers: bool,
    found: Routes<'static>,
    numbers: HashMap<IpAddr, u16>,
    /// The next hop of the last route, and its number.
    last: Option<(IpAddr, u16)>,
    /// The number of routes that are not supported.
    unsupported_hop: Option<u16>,
}

/// The offset of a mistake in a record, and its description.
type Fault = (usize, String);

impl<R: Read> Reader<'_, R> {
    fn mistake(&mut self, at: u64, why: impl core::fmt::Display) {
        (self.note)(self.source.whole(format!("byte {at}: {why}")));
    }

    /// Reads a record. Returns whether to continue.
    fn record(&mut self, body: &mut Vec<u8>) -> bool {
        let mut header = [0; HEADER_LEN];
        let len = match fill(&mut self.dump, &mut header) {
            Ok(0) => return false,
            Ok(HEADER_LEN) => u32::from_be_bytes([header[8], header[9], header[10], header[11]]),
            Ok(len) => return self.ends_early(len as u64),
            Err(error) => return self.unreadable(&error),
        };
        if len as usize > RECORD_LEN_MAX {
            self.mistake(self.at, format!("a record of {len} bytes; {RECORD_LEN_MAX} at most"));
            return false;
        }
        body.resize(len as usize, 0);
        match fill(&mut self.dump, body) {
            Ok(read) if read == body.len() => {}
            Ok(read) => return self.ends_early((HEADER_LEN + read) as u64),
            Err(error) => return self.unreadable(&error),
        }
        self.number = self.number.saturating_add(1);
        let kinds = [header[4], header[5], header[6], header[7]];
        let [kind, subtype] = [[kinds[0], kinds[1]], [kinds[2], kinds[3]]].map(u16::from_be_bytes);
        if let Err((at, why)) = self.take(kind, subtype, body) {
            self.mistake(self.at + (HEADER_LEN + at) as u64, why);
        }
        self.at += (HEADER_LEN + body.len()) as u64;
        let (routes, hops) = (self.found.routes.len(), self.found.targets.len());
        routes <= ROUTES_MAX && hops <= HOPS_MAX
    }

    fn ends_early(&mut self, len: u64) -> bool {
        let end = self.at + len;
        if end >= UNPACKED_LEN_MAX {
            self.mistake(end, format!("the dump is longer than {} GiB", UNPACKED_LEN_MAX >> 30));
        } else {
            self.mistake(end, format!("the dump ends in the record that begins at {}", self.at));
        }
        false
    }

    fn unreadable(&mut self, error: &std::io::Error) -> bool {
        let why = warpline_io_error::plain(error);
        self.mistake(self.at, format!("the file can't be unpacked from about here on: {why}"));
        false
    }

    fn take(&mut self, kind: u16, which: u16, body: &[u8]) -> Result<(), Fault> {
        use subtype as s;
        match kind {
            kind::TABLE_DUMP_V2 => {}
            kind::TABLE_DUMP => {
                let what = "the old form of table dumps, TABLE_DUMP";
                return self.unsupported(what, old_prefix(body, which));
            }
            kind::BGP4MP | kind::BGP4MP_ET => return self.left_out("updates, BGP4MP".into()),
            _ => return self.left_out(format!("records of type {kind}")),
        }
        match which {
            s::PEER_INDEX_TABLE => {
                self.has_peers = true;
                Ok(())
            }
            s::GEO_PEER_TABLE => Ok(()),
            s::RIB_IPV4_UNICAST => self.rib(body, 4, false),
            s::RIB_IPV6_UNICAST => self.rib(body, 6, false),
            s::RIB_IPV4_UNICAST_ADDPATH => self.rib(body, 4, true),
            s::RIB_IPV6_UNICAST_ADDPATH => self.rib(body, 6, true),
            s::RIB_IPV4_MULTICAST
            | s::RIB_IPV6_MULTICAST
            | s::RIB_IPV4_MULTICAST_ADDPATH
            | s::RIB_IPV6_MULTICAST_ADDPATH => self.left_out("routes of multicast".into()),
            s::RIB_GENERIC | s::RIB_GENERIC_ADDPATH => match generic_prefix(body) {
                Ok(None) => self.left_out("routes of other address families".into()),
                found => self.unsupported("routes of records RIB_GENERIC", found),
            },
            // It may hold routes: to leave it out might send their packets by others.
            _ => Err((0, format!("not supported: records of TABLE_DUMP_V2 of subtype {which}"))),
        }
    }

    /// A route that the router can't do: what it is for is dropped.
    fn unsupported(
        &mut self,
        what: &str,
        prefix: Result<Option<Prefix>, Fault>,
    ) -> Result<(), Fault> {
        self.left_out(what.into())?;
        let Some(prefix) = prefix? else {
            return Err((0, format!("not supported: {what} of this address family")));
        };
        if self.found.routes.len() >= ROUTES_MAX {
            return Err((0, format!("more than {ROUTES_MAX} routes")));
        }
        let hop = match self.unsupported_hop {
            Some(hop) => hop,
            None => self.target(Target::Unsupported)?,
        };
        self.unsupported_hop = Some(hop);
        self.found.routes.push(Route { prefix, hop, metric: 0, line: self.number });
        Ok(())
    }

    fn left_out(&mut self, what: String) -> Result<(), Fault> {
        self.found.skipped += 1;
        match self.unsupported {
            Unsupported::Skip | Unsupported::Kernel => Ok(()),
            Unsupported::Error => Err((0, format!("not supported: {what}"))),
        }
    }

    /// The entries of a prefix (RFC 6396, 4.3.2 and 4.3.4).
    fn rib(&mut self, body: &[u8], version: u8, has_ids: bool) -> Result<(), Fault> {
        if !self.has_peers {
            return Err((0, "a route before the table of peers".into()));
        }
        let mut fields = Fields::new(body);
        fields.skip(4)?;
        let prefix = prefix(&mut fields, version)?;
        let mut best: Option<((usize, u16), IpAddr)> = None;
        for _ in 0..fields.be16()? {
            let peer = fields.be16()?;
            fields.skip(if has_ids { 8 } else { 4 })?;
            let len = fields.be16()?;
            let mut attributes = fields.part(len.into())?;
            let path = Path::read(&mut attributes, version)?;
            let Some(next_hop) = path.next_hop else { continue };
            let rank = (path.len, peer);
            if best.is_none_or(|(other, _)| rank < other) {
                best = Some((rank, next_hop));
            }
        }
        if !fields.is_empty() {
            return Err((fields.at(), "bytes after the last entry of the record".into()));
        }
        let Some((_, next_hop)) = best else {
            return Err((0, format!("{prefix} has no entry with a next hop")));
        };
        self.keep(prefix, next_hop)
    }

    fn keep(&mut self, prefix: Prefix, next_hop: IpAddr) -> Result<(), Fault> {
        if self.found.routes.len() >= ROUTES_MAX {
            return Err((0, format!("more than {ROUTES_MAX} routes")));
        }
        let hop = match self.last {
            Some((last, hop)) if last == next_hop => hop,
            _ => self.hop(next_hop)?,
        };
        self.last = Some((next_hop, hop));
        self.found.routes.push(Route { prefix, hop, metric: 0, line: self.number });
        Ok(())
    }

    fn hop(&mut self, address: IpAddr) -> Result<u16, Fault> {
        if let Some(&hop) = self.numbers.get(&address) {
            return Ok(hop);
        }
        let hop = self.target(Target::Via { address, device: None })?;
        self.numbers.insert(address, hop);
        Ok(hop)
    }

    fn target(&mut self, target: Target<'static>) -> Result<u16, Fault> {
        if self.found.targets.len() >= HOPS_MAX {
            return Err((0, format!("more than {HOPS_MAX} next hops")));
        }
        self.found.targets.push(target);
        Ok(self.found.targets.len() as u16)
    }

    /// Sorts the routes; of two for one prefix the first in the dump holds, or one that is not
    /// supported.
    fn settle(&mut self) {
        let is_done = |route: &Route| Some(route.hop) != self.unsupported_hop;
        let key = |route: &Route| (route.prefix.address(), route.prefix.len(), is_done(route));
        self.found.routes.sort_by_key(key);
        self.found.routes.dedup_by(|later, kept| later.prefix == kept.prefix);
    }
}

/// A prefix length and as many bytes as hold it; bits past the length are ignored.
fn prefix(fields: &mut Fields<'_>, version: u8) -> Result<Prefix, Fault> {
    let at = fields.at();
    let len = fields.u8()?;
    let bytes = fields.part(usize::from(len).div_ceil(8))?.rest();
    let address = if version == 4 { to_v4(bytes) } else { to_v6(bytes) };
    address
        .and_then(|address| Prefix::new(address, len))
        .ok_or_else(|| (at, format!("a prefix of {len} bits")))
}

/// The prefix of a record of TABLE_DUMP (RFC 6396, 4.2); `None` of an unknown subtype.
fn old_prefix(body: &[u8], which: u16) -> Result<Option<Prefix>, Fault> {
    let mut fields = Fields::new(body);
    fields.skip(4)?;
    let address = match which {
        1 => to_v4(fields.part(4)?.rest()),
        2 => to_v6(fields.part(16)?.rest()),
        _ => return Ok(None),
    };
    let (at, len) = (fields.at(), fields.u8()?);
    let prefix = address.and_then(|address| Prefix::new(address, len));
    prefix.map(Some).ok_or_else(|| (at, format!("a prefix of {len} bits")))
}

/// The prefix of a record RIB_GENERIC (RFC 6396, 4.3.3) of unicast in IPv4 or IPv6; `None` of all
/// else, which is another table.
fn generic_prefix(body: &[u8]) -> Result<Option<Prefix>, Fault> {
    const UNICAST: u8 = 1;
    let mut fields = Fields::new(body);
    fields.skip(4)?;
    match (fields.be16()?, fields.u8()?) {
        (1, UNICAST) => prefix(&mut fields, 4).map(Some),
        (2, UNICAST) => prefix(&mut fields, 6).map(Some),
        _ => Ok(None),
    }
}

fn to_v4(bytes: &[u8]) -> Option<IpAddr> {
    let mut octets = [0; 4];
    octets.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(Ipv4Addr::from(octets).into())
}

fn to_v6(bytes: &[u8]) -> Option<IpAddr> {
    let mut octets = [0; 16];
    octets.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(Ipv6Addr::from(octets).into())
}
