//! Tables of the Internet's size and shape, from a seed: for tests and benches.
//!
//! Prefix lengths have the shares that they have in the Internet's default-free zone; addresses are
//! drawn so that about as many prefixes as there lie in others. A table is given as routes, as the
//! text of a route file, or as a dump in MRT.

use std::collections::HashSet;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use warpline_packet::Prefix;

/// Shares of the lengths of IPv4 prefixes, in 100,000; the rest are /24.
const LENGTHS_V4: [(u8, u64); 19] = [
    (8, 2),
    (9, 1),
    (10, 4),
    (11, 10),
    (12, 31),
    (13, 62),
    (14, 125),
    (15, 215),
    (16, 1_400),
    (17, 860),
    (18, 1_450),
    (19, 2_560),
    (20, 4_600),
    (21, 5_350),
    (22, 11_600),
    (23, 10_500),
    (25, 60),
    (29, 30),
    (32, 100),
];
/// Of IPv6 prefixes; the rest are /48.
const LENGTHS_V6: [(u8, u64); 14] = [
    (20, 10),
    (28, 110),
    (29, 2_700),
    (30, 400),
    (32, 13_200),
    (33, 1_200),
    (36, 4_600),
    (38, 900),
    (40, 8_700),
    (42, 1_100),
    (44, 10_300),
    (46, 2_700),
    (56, 250),
    (64, 350),
];

/// A route: its prefix and the number of its next hop, from 0.
pub type FullRoute = (Prefix, u16);

/// Next hops that a table has.
pub const HOPS: u16 = 200;

/// A table of `v4` and `v6` routes, sorted.
pub fn routes(seed: u64, v4: usize, v6: usize) -> Vec<FullRoute> {
    let mut draw = Draw(seed);
    let mut seen = HashSet::with_capacity(v4 + v6);
    let mut routes = Vec::with_capacity(v4 + v6);
    while routes.len() < v4 + v6 {
        let prefix = if routes.len() < v4 { draw.prefix_v4() } else { draw.prefix_v6() };
        if let Some(prefix) = prefix
            && seen.insert(prefix)
        {
            routes.push((prefix, (draw.next() % u64::from(HOPS)) as u16));
        }
    }
    routes.sort_unstable_by_key(|&(prefix, _)| (prefix.address(), prefix.len()));
    routes
}

/// The address of a next hop.
pub fn next_hop(number: u16, is_v4: bool) -> IpAddr {
    if is_v4 {
        Ipv4Addr::from_bits(0xc000_0200 + u32::from(number)).into()
    } else {
        Ipv6Addr::from_bits((0x2001_0db8 << 96) + 1 + u128::from(number)).into()
    }
}

/// A table as a route file.
pub fn to_text(routes: &[FullRoute]) -> String {
    let mut text = String::with_capacity(routes.len() * 32);
    for &(prefix, hop) in routes {
        let _ = writeln!(text, "{prefix} {}", next_hop(hop, prefix.address().is_ipv4()));
    }
    text
}

/// A table as a dump in MRT (RFC 6396), with an entry for each of `peers`. The first has the route;
/// the paths of the others are longer.
pub fn to_mrt(routes: &[FullRoute], peers: u16) -> Vec<u8> {
    let mut dump = Vec::with_capacity(routes.len() * (32 + 64 * usize::from(peers)));
    let mut table = vec![192, 0, 2, 9, 0, 0];
    table.extend(peers.to_be_bytes());
    for peer in 0..peers {
        // An IPv4 address and an AS number of 4 bytes.
        table.extend([2, 198, 51, 100, peer as u8, 192, 0, 2, peer as u8, 0, 0, 0xfd, peer as u8]);
    }
    record(&mut dump, 1, &table);
    let mut body = Vec::new();
    for (number, &(prefix, hop)) in (0u32..).zip(routes) {
        body.clear();
        body.extend(number.to_be_bytes());
        body.push(prefix.len());
        let bytes = usize::from(prefix.len()).div_ceil(8);
        let is_v4 = match prefix.address() {
            IpAddr::V4(address) => {
                body.extend(&address.octets()[..bytes]);
                true
            }
            IpAddr::V6(address) => {
                body.extend(&address.octets()[..bytes]);
                false
            }
        };
        body.extend(peers.to_be_bytes());
        for peer in 0..peers {
            body.extend(peer.to_be_bytes());
            body.extend([0x65, 0, 0, 0]);
            let hop = (hop + peer) % HOPS;
            entry(&mut body, next_hop(hop, is_v4), 3 + (peer % 60) as u8);
        }
        record(&mut dump, if is_v4 { 2 } else { 4 }, &body);
    }
    dump
}

/// Adds a record of TABLE_DUMP_V2.
pub fn record(dump: &mut Vec<u8>, subtype: u16, body: &[u8]) {
    dump.extend([0x65, 0, 0, 0, 0, 13]);
    dump.extend(subtype.to_be_bytes());
    dump.extend((body.len() as u32).to_be_bytes());
    dump.extend(body);
}

/// Adds the attributes of an entry: origin, AS path, next hop, communities.
fn entry(body: &mut Vec<u8>, next_hop: IpAddr, path_len: u8) {
    let mut attributes = vec![0x40, 1, 1, 0, 0x40, 2, 2 + path_len * 4, 2, path_len];
    (0..path_len).for_each(|hop| attributes.extend([0, 1, 0x10, hop]));
    match next_hop {
        IpAddr::V4(address) => {
            attributes.extend([0x40, 3, 4]);
            attributes.extend(address.octets());
        }
        IpAddr::V6(address) => {
            attributes.extend([0x80, 14, 17, 16]);
            attributes.extend(address.octets());
        }
    }
    attributes.extend([0xc0, 8, 8, 0xfd, 0xe8, 0, 1, 0xfd, 0xe8, 0, 2]);
    body.extend((attributes.len() as u16).to_be_bytes());
    body.extend(attributes);
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn len(&mut self, lengths: &[(u8, u64)], other: u8) -> u8 {
        let mut at = self.next() % 100_000;
        for &(len, share) in lengths {
            if at < share {
                return len;
            }
            at -= share;
        }
        other
    }

    /// In 1.0.0.0 to 223.255.255.255; the long ones in a third of it, so that they crowd.
    fn prefix_v4(&mut self) -> Option<Prefix> {
        let len = self.len(&LENGTHS_V4, 24);
        let address = 0x0100_0000 + (self.next() % 0xdf00_0000) as u32;
        let crowded =
            if len >= 22 { address & !0x0030_0000 | (address & 0x10) << 16 } else { address };
        Prefix::new(IpAddr::V4(crowded.into()), len)
    }

    /// In 2000::/3, in 32,768 blocks of /32.
    fn prefix_v6(&mut self) -> Option<Prefix> {
        let len = self.len(&LENGTHS_V6, 48);
        let block = u128::from(self.next() % 32_768);
        let spread = 0x2001_0000 + block * 0x0101;
        let low = u128::from(self.next()) << 32;
        Prefix::new(IpAddr::V6((spread << 96 | low).into()), len)
    }
}
