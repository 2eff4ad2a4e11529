//! From a file of routes to forwarding tables: a full table as text, as a dump in MRT, and packed.
//!
//! `route_build [IPV4 IPV6 PEERS]`: routes of each family, 1,000,000 and 200,000 unless said
//! otherwise, with prefix lengths as in the Internet, from a seed; the dump has an entry of each of
//! PEERS (1) for each. All of it is done by one core; the goal is 2 s for each line's sum.
//! Unpacking is a part of parsing.

use std::io::Read;

use warpline_bench::{median, seconds};
use warpline_nf::config::unpack::unpack;
use warpline_nf::{Ports, SourceText};
use warpline_router::full_table::{routes, to_mrt, to_text};
use warpline_router::routes::{Routes, Unsupported, read};
use warpline_router::{Fib4, Poptrie, Rule4, Rule6, mrt};

const ROUNDS: usize = 5;

fn main() {
    let count = |at, default| {
        std::env::args().nth(at).map_or(default, |text| text.parse().unwrap_or(default))
    };
    let peers = count(3, 1).clamp(1, 100) as u16;
    let table = routes(7, count(1, 1_000_000), count(2, 200_000));
    let source = SourceText::new("routes", to_text(&table));
    let dump = to_mrt(&table, peers);
    println!("text of {} bytes, dump of {} bytes, {peers} peers", source.text.len(), dump.len());
    let from_text = |then: &mut dyn FnMut(&Routes<'_>)| {
        then(&read(&source, Unsupported::Error, &Ports::default(), &mut |mistake| {
            panic!("{mistake}")
        }));
    };
    let from_dump = |bytes: &[u8], then: &mut dyn FnMut(&Routes<'_>)| {
        let unpacked = unpack(bytes).unwrap_or_else(|why| panic!("{why}"));
        let note = &mut |mistake| panic!("{mistake}");
        then(&mrt::read(unpacked.into_reader(), "dump", Unsupported::Error, note));
    };
    report("text", from_text);
    report("mrt", |then| from_dump(&dump, then));
    let packed = gzip(&dump);
    println!("packed with gzip: {} bytes", packed.len());
    report("mrt, gzip", |then| from_dump(&packed, then));
    let packed = bzip2(&dump);
    println!("packed with bzip2: {} bytes", packed.len());
    report("mrt, bzip2", |then| from_dump(&packed, then));
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    let read = flate2::read::GzEncoder::new(bytes, flate2::Compression::default())
        .read_to_end(&mut packed);
    read.map_or_else(|why| panic!("{why}"), |_| packed)
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    let read =
        bzip2::read::BzEncoder::new(bytes, bzip2::Compression::best()).read_to_end(&mut packed);
    read.map_or_else(|why| panic!("{why}"), |_| packed)
}

/// Seconds to parse and to build, medians of some rounds.
fn report(name: &str, parse: impl Fn(&mut dyn FnMut(&Routes<'_>))) {
    let (mut parsed, mut v4_built, mut v6_built) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (mut building, mut sums) = (0.0, [0.0; 2]);
        let all = seconds(|| {
            parse(&mut |routes| building = seconds(|| sums = build(routes)));
        });
        parsed.push(all - building);
        v4_built.push(sums[0]);
        v6_built.push(sums[1]);
    }
    let (parse, v4, v6) = (median(parsed), median(v4_built), median(v6_built));
    let [parse, v4, v6] = [parse, v4, v6].map(|seconds| seconds * 1e3);
    let sum = parse + v4 + v6;
    println!(
        "{name:10} parse {parse:7.1} ms  IPv4 {v4:6.1} ms  IPv6 {v6:6.1} ms  in all {sum:7.1} ms"
    );
}

fn build(routes: &Routes<'_>) -> [f64; 2] {
    let (mut v4, mut v6): (Vec<Rule4>, Vec<Rule6>) = (Vec::new(), Vec::new());
    let mut built = (None, None);
    let first = seconds(|| {
        for route in &routes.routes {
            match route.prefix.address() {
                std::net::IpAddr::V4(a) => v4.push((a.to_bits(), route.prefix.len(), route.hop)),
                std::net::IpAddr::V6(a) => v6.push((a.to_bits(), route.prefix.len(), route.hop)),
            }
        }
        built.0 = Some(Fib4::new(&v4));
    });
    let second = seconds(|| built.1 = Some(Poptrie::new(&v6)));
    std::hint::black_box(built);
    [first, second]
}
