//! Dumps: a full table against the longest match by lengths, the choice of a path, and what is
//! wrong.

use std::collections::HashMap;
use std::io::Write;
use std::net::IpAddr;

use super::full_table::{FullRoute, next_hop, record, routes as full_table, to_mrt, to_text};
use super::routes::{Route, Routes, Target, Unsupported};
use super::tests::{Folder, v4, v6};
use super::*;
use warpline_nf::config::unpack::unpack;
use warpline_nf::{Ports, SourceText};
use warpline_verify::{Input, try_build};

fn read(bytes: &[u8], unsupported: Unsupported) -> (Routes<'static>, Vec<String>) {
    let mut reported = Vec::new();
    let note = &mut |mistake: warpline_nf::Diagnostic| reported.push(mistake.message);
    let routes = mrt::read(unpack(bytes).unwrap().into_reader(), "dump", unsupported, note);
    (routes, reported)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut packer = ::bzip2::write::BzEncoder::new(Vec::new(), ::bzip2::Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

/// The longest match by a map for each length, longest first.
struct ByLength {
    bits: u32,
    maps: Vec<(u32, HashMap<u128, u16>)>,
}

impl ByLength {
    fn new(routes: &[FullRoute], is_v4: bool) -> Self {
        let bits = if is_v4 { 32 } else { 128 };
        let mut maps: Vec<_> = (0..=bits).rev().map(|len| (len, HashMap::new())).collect();
        for (prefix, hop) in routes.iter().filter(|(p, _)| p.address().is_ipv4() == is_v4) {
            let len = u32::from(prefix.len());
            let address = match prefix.address() {
                IpAddr::V4(address) => u128::from(address.to_bits()),
                IpAddr::V6(address) => address.to_bits(),
            };
            maps[(bits - len) as usize].1.insert(address >> (bits - len), *hop);
        }
        maps.retain(|(_, map): &(u32, HashMap<u128, u16>)| !map.is_empty());
        Self { bits, maps }
    }

    fn find(&self, address: u128) -> Option<u16> {
        self.maps.iter().find_map(|(len, map)| map.get(&(address >> (self.bits - len))).copied())
    }
}

/// The next hop of each number, as the table's own number; `None` for number 0.
fn numbers(routes: &Routes<'_>, is_v4: bool) -> Vec<Option<u16>> {
    let of = |target: &Target<'_>| {
        let Target::Via { address, .. } = target else { panic!("{target:?}") };
        (0..full_table::HOPS).find(|&hop| next_hop(hop, is_v4) == *address)
    };
    std::iter::once(None).chain(routes.targets.iter().map(of)).collect()
}

#[test]
fn a_full_table_is_found_as_by_each_length() {
    let table = full_table(7, 1_000_000, 200_000);
    let (routes, reported) = read(&to_mrt(&table, 1), Unsupported::Error);
    assert_eq!((reported, routes.routes.len()), (vec![], table.len()));
    let fib = Fib::new(&routes, None, Checks::NONE).unwrap();
    let mut draw = 1u64;
    for is_v4 in [true, false] {
        let (model, numbers) = (ByLength::new(&table, is_v4), numbers(&routes, is_v4));
        let bits = model.bits;
        let most = if is_v4 { u128::from(u32::MAX) } else { u128::MAX };
        let (mut found, mut missed) = (0, 0);
        for (prefix, _) in table.iter().filter(|(p, _)| p.address().is_ipv4() == is_v4) {
            let first = match prefix.address() {
                IpAddr::V4(address) => u128::from(address.to_bits()),
                IpAddr::V6(address) => address.to_bits(),
            };
            let last = first | most.checked_shr(prefix.len().into()).unwrap_or(0);
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let anywhere = u128::from(draw).rotate_left(64 + draw as u32 % 64) >> (128 - bits);
            for address in [first, last, last.wrapping_add(1) & most, anywhere] {
                let expected = model.find(address);
                let hop = match is_v4 {
                    true => fib.v4.lookup(address as u32),
                    false => fib.v6.lookup(address),
                };
                assert_eq!(numbers[usize::from(hop)], expected, "{address:x}");
                (found, missed) = match expected {
                    Some(_) => (found + 1, missed),
                    None => (found, missed + 1),
                };
            }
        }
        assert!(found > 300_000 && missed > 10_000, "{found} {missed}");
    }
}

#[test]
fn text_and_dumps_of_a_table_say_the_same() {
    let table = full_table(3, 3000, 2000);
    let source = SourceText::new("routes", to_text(&table));
    let text = routes::read(&source, Unsupported::Error, &Ports::default(), &mut |mistake| {
        panic!("{mistake}")
    });
    let dump = to_mrt(&table, 9);
    for bytes in [dump.clone(), gzip(&dump), bzip2(&dump)] {
        let (dump, reported) = read(&bytes, Unsupported::Error);
        assert_eq!(reported, [""; 0]);
        let flat = |routes: &Routes<'_>| -> Vec<_> {
            let hop = |hop: u16| format!("{:?}", routes.targets[usize::from(hop) - 1]);
            routes.routes.iter().map(|route| (route.prefix, hop(route.hop))).collect()
        };
        assert_eq!(flat(&dump), flat(&text));
    }
}

/// An entry of a peer with these attributes.
fn entry(peer: u16, id: &[u8], attributes: &[&[u8]]) -> Vec<u8> {
    let attributes = attributes.concat();
    let len = (attributes.len() as u16).to_be_bytes();
    [&peer.to_be_bytes()[..], &[0, 0, 0, 9], id, &len, &attributes].concat()
}

/// A table of peers, then a record of a prefix with these entries.
fn dump(subtype: u16, prefix: &[u8], entries: &[Vec<u8>]) -> Vec<u8> {
    let mut dump = Vec::new();
    record(&mut dump, 1, &[192, 0, 2, 9, 0, 0, 0, 0]);
    let count = (entries.len() as u16).to_be_bytes();
    let body = [&[0, 0, 0, 1], prefix, &count, &entries.concat()].concat();
    record(&mut dump, subtype, &body);
    dump
}

const TEN: &[u8] = &[8, 10];
const HOP_1: &[u8] = &[0x40, 3, 4, 192, 0, 2, 1];
const HOP_2: &[u8] = &[0x40, 3, 4, 192, 0, 2, 2];
const SHORT: &[u8] = &[0x40, 2, 6, 2, 1, 0, 0, 0, 1];
/// Two of a sequence and a set of three, which counts as one; its length takes two bytes.
const LONG: &[u8] =
    &[0x50, 2, 0, 24, 2, 2, 0, 0, 0, 1, 0, 0, 0, 2, 1, 3, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 5];
const MIDDLE: &[u8] = &[0x40, 2, 10, 2, 2, 0, 0, 0, 1, 0, 0, 0, 2];

#[test]
fn the_shortest_path_is_taken() {
    let id: &[u8] = &[0, 0, 0, 7];
    let v6_hop = [&[0x80, 14, 33, 32][..], &[0x20; 16], &[0xfe; 16]].concat();
    let whole = [&[0x80, 14, 21, 0, 2, 1, 16][..], &[0x20; 16], &[0]].concat();
    type Case<'a> = (u16, &'a [u8], Vec<Vec<u8>>, &'a str);
    let cases: Vec<Case<'_>> = vec![
        (2, TEN, vec![entry(0, &[], &[LONG, HOP_1]), entry(9, &[], &[SHORT, HOP_2])], "192.0.2.2"),
        (2, TEN, vec![entry(0, &[], &[LONG, HOP_1]), entry(9, &[], &[MIDDLE, HOP_2])], "192.0.2.2"),
        (2, TEN, vec![entry(5, &[], &[SHORT, HOP_1]), entry(4, &[], &[SHORT, HOP_2])], "192.0.2.2"),
        (2, TEN, vec![entry(5, &[], &[SHORT]), entry(6, &[], &[HOP_1, LONG])], "192.0.2.1"),
        (8, TEN, vec![entry(0, id, &[SHORT, HOP_1]), entry(0, id, &[SHORT, HOP_2])], "192.0.2.1"),
        (
            4,
            &[16, 0x20, 1],
            vec![entry(0, &[], &[&v6_hop])],
            "2020:2020:2020:2020:2020:2020:2020:2020",
        ),
        (
            10,
            &[16, 0x20, 1],
            vec![entry(0, id, &[&whole])],
            "2020:2020:2020:2020:2020:2020:2020:2020",
        ),
        (2, TEN, vec![entry(0, &[], &[&whole])], "2020:2020:2020:2020:2020:2020:2020:2020"),
        (2, &[4, 0x1f], vec![entry(0, &[], &[HOP_1])], "192.0.2.1"),
        // RFC 4760, 3: NEXT_HOP does not apply to the prefixes of MP_REACH_NLRI.
        (
            4,
            &[16, 0x20, 1],
            vec![entry(0, &[], &[HOP_1, &v6_hop])],
            "2020:2020:2020:2020:2020:2020:2020:2020",
        ),
        (2, TEN, vec![entry(0, &[], &[&v6_hop, HOP_1])], "192.0.2.1"),
    ];
    for (subtype, prefix, entries, expected) in cases {
        let (routes, reported) = read(&dump(subtype, prefix, &entries), Unsupported::Error);
        assert_eq!(reported, [""; 0], "{expected}");
        let address = expected.parse().unwrap();
        assert_eq!(routes.targets, [Target::Via { address, device: None }]);
        assert_eq!(routes.routes.len(), 1);
    }
    let twice =
        [dump(2, TEN, &[entry(0, &[], &[HOP_1])]), dump(2, TEN, &[entry(0, &[], &[HOP_2])])];
    let (routes, _) = read(&twice.concat(), Unsupported::Error);
    assert_eq!((routes.routes.len(), routes.routes[0].hop), (1, 1), "the first holds");
}

#[test]
fn mistakes_are_reported_with_their_byte() {
    let fine = entry(0, &[], &[HOP_1]);
    let mut early = Vec::new();
    record(&mut early, 2, &[0, 0, 0, 1, 0, 0, 0]);
    let mut huge = vec![0, 0, 0, 0, 0, 13, 0, 2, 0xff, 0xff, 0xff, 0xff];
    huge.extend([0; 100]);
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (dump(2, &[33, 1, 2, 3, 4, 5], &[]), "byte 36: a prefix of 33 bits"),
        (dump(4, &[129; 18], &[]), "byte 36: a prefix of 129 bits"),
        (dump(2, TEN, &[]), "byte 32: 10.0.0.0/8 has no entry with a next hop"),
        (
            dump(2, TEN, &[entry(0, &[], &[SHORT])]),
            "byte 32: 10.0.0.0/8 has no entry with a next hop",
        ),
        (
            dump(2, TEN, &[[fine.clone(), vec![1]].concat()]),
            "byte 55: bytes after the last entry of the record",
        ),
        (dump(2, TEN, &[fine[..12].to_vec()]), "byte 48: 7 bytes are required here, 4 are left"),
        (
            dump(2, TEN, &[entry(0, &[], &[&[0x40, 3, 3, 1, 2, 3]])]),
            "byte 51: a next hop of 3 bytes",
        ),
        (
            dump(2, TEN, &[entry(0, &[], &[&[0x40, 3]])]),
            "byte 50: 1 bytes are required here, 0 are left",
        ),
        (
            dump(2, TEN, &[entry(0, &[], &[&[0x40, 2, 2, 2, 9]])]),
            "byte 53: 36 bytes are required here, 0 are left",
        ),
        (early, "byte 12: a route before the table of peers"),
        (huge, "byte 0: a record of 4294967295 bytes; 16777216 at most"),
    ];
    for (bytes, expected) in cases {
        let (_, reported) = read(&bytes, Unsupported::Error);
        assert_eq!(reported, [expected]);
    }
    let several = [dump(2, TEN, &[]), dump(2, &[33], &[])].concat();
    assert_eq!(read(&several, Unsupported::Error).1.len(), 2, "a record's mistake is not the end");
}

#[test]
fn dumps_that_are_cut_are_reported() {
    let whole = to_mrt(&full_table(1, 6, 4), 2);
    let mut ends = vec![0];
    while *ends.last().unwrap() < whole.len() {
        let at = *ends.last().unwrap();
        let len = u32::from_be_bytes(whole[at + 8..at + 12].try_into().unwrap());
        ends.push(at + 12 + len as usize);
    }
    for len in 0..whole.len() {
        let (_, reported) = read(&whole[..len], Unsupported::Error);
        assert_eq!(reported.is_empty(), ends.contains(&len), "{len}: {reported:?}");
    }
    for packed in [gzip(&whole), bzip2(&whole)] {
        for len in 0..packed.len() {
            let reported = match unpack(&packed[..len]) {
                Ok(_) => read(&packed[..len], Unsupported::Error).1.len(),
                Err(_) => 1,
            };
            assert!(reported > 0 || len < 4, "{len}");
        }
        let mut spoilt = packed.clone();
        let middle = spoilt.len() / 2;
        spoilt[middle] ^= 0x55;
        let reported = unpack(&spoilt).map(|_| read(&spoilt, Unsupported::Error).1);
        assert!(reported.is_err() || !reported.unwrap().is_empty());
    }
}

#[test]
fn unsupported_rules_are_errors_or_skipped() {
    let mut bytes = dump(2, TEN, &[entry(0, &[], &[HOP_1])]);
    for subtype in [3, 5, 9, 11] {
        record(&mut bytes, subtype, &[1, 2, 3]);
    }
    for kind in [16, 17, 48] {
        bytes.extend([0, 0, 0, 0, 0, kind, 0, 1, 0, 0, 0, 0]);
    }
    // VPNs of IPv4, and IPv4 itself.
    record(&mut bytes, 6, &[0, 0, 0, 0, 0, 1, 128, 0, 0, 0]);
    record(&mut bytes, 6, &[0, 0, 0, 0, 0, 1, 1, 16, 10, 7, 0, 0]);
    record(&mut bytes, 12, &[0, 0, 0, 0, 0, 2, 1, 16, 0x20, 1, 0, 0]);
    for (subtype, address) in
        [(1, &[10, 8, 0, 0][..]), (2, &[0x20, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])]
    {
        bytes.extend([0, 0, 0, 0, 0, 12, 0, subtype, 0, 0, 0, 5 + address.len() as u8]);
        bytes.extend([&[0; 4], address, &[15]].concat());
    }
    record(&mut bytes, 7, &[]);
    let (_, reported) = read(&bytes, Unsupported::Error);
    assert_eq!(reported.len(), 12);
    assert!(reported[0].contains("not supported: routes of multicast"), "{}", reported[0]);
    let (routes, reported) = read(&bytes, Unsupported::Skip);
    assert_eq!((routes.skipped, &reported[..]), (12, &[][..]));
    let unsupported =
        |route: &&Route| routes.targets[usize::from(route.hop) - 1] == Target::Unsupported;
    let held: Vec<_> =
        routes.routes.iter().filter(unsupported).map(|r| r.prefix.to_string()).collect();
    assert_eq!(held, ["10.7.0.0/16", "10.8.0.0/15", "2001::/16", "2002::/15"]);
    assert_eq!(routes.routes.len(), 5);
    record(&mut bytes, 99, &[1, 2, 3]);
    let (_, reported) = read(&bytes, Unsupported::Skip);
    assert_eq!(reported.len(), 1, "an unknown record may hold routes: {reported:?}");
}

#[test]
fn a_router_takes_any_of_them() {
    let table = full_table(2, 50, 50);
    let (text, dump) = (to_text(&table), to_mrt(&table, 1));
    let text = text.as_bytes();
    let forms = [text.to_vec(), gzip(text), bzip2(text), dump.clone(), gzip(&dump), bzip2(&dump)];
    for bytes in forms {
        let folder = Folder::new("dumps", &[]);
        std::fs::write(folder.0.join("routes"), &bytes).unwrap();
        let mut harness = folder.harness("routes = \"routes\"");
        for (prefix, _) in &table {
            let frame = match prefix.address() {
                IpAddr::V4(address) => v4(address.octets(), 64),
                IpAddr::V6(address) => v6(address.segments(), 64),
            };
            assert!(harness.process(&[Input::at(0, &frame)])[0].next_hop > 0, "{prefix}");
        }
    }
    let reported = |bytes: &[u8]| {
        let folder = Folder::new("dumps-wrong", &[]);
        std::fs::write(folder.0.join("routes"), bytes).unwrap();
        match try_build(&DEFINITION, "routes = \"routes\"", &folder.0) {
            Ok(_) => String::new(),
            Err(mistakes) => mistakes.to_string(),
        }
    };
    assert!(
        reported(&dump[..dump.len() - 3]).contains("the dump ends in the record that begins at")
    );
    assert!(reported(&gzip(text)[..40]).contains("can't be unpacked"));
    assert!(reported(b"BZh9 not packed").contains("can't be unpacked"));
    assert!(reported(&gzip(&[0xff; 100])).contains("byte 0 is not UTF-8"));
}

/// Files that pack a thousandfold are refused: at the bound on their fold, or at their first
/// unknown record.
#[test]
fn bombs_do_no_harm() {
    let folder = Folder::new("bombs", &[]);
    // Packed once, as repeated bytes take bzip2 long.
    let many = |part: &[u8]| bzip2(part).repeat(65);
    let line = b"192.0.2.0/24 198.51.100.1\n".repeat(1 << 15);
    let dumped = [0, 0, 0, 0, 0, 13, 0, 99, 0, 0, 0, 0].repeat(1 << 16);
    let zeros = vec![0; (1 << 26) + 1];
    let bound = "it unpacks to more than";
    for (packed, skip, why) in [
        (gzip(&zeros), "", bound),
        (bzip2(&zeros), "", bound),
        (many(&line), "", bound),
        (many(&dumped), "unsupported = \"skip\"\n", ""),
    ] {
        assert!(packed.len() < 1 << 20, "{}", packed.len());
        std::fs::write(folder.0.join("routes"), &packed).unwrap();
        let reported = try_build(&DEFINITION, &format!("{skip}routes = \"routes\""), &folder.0);
        let reported = reported.err().unwrap().to_string();
        assert!(reported.contains(why), "{reported}");
    }
    let peers = dump(1, &[], &[]);
    let record = [0, 0, 0, 0, 0, 13, 0, 3, 0, 0, 0, 0].repeat(1 << 20);
    let (_, reported) = read(&gzip(&[peers, record].concat()), Unsupported::Skip);
    assert_eq!(reported, [""; 0]);
}
