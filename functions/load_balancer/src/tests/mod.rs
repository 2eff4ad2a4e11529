//! Tests of the whole function: case by case, against a model, and under reload.

mod cases;
mod config;
mod dissect;
mod model;
mod order;
mod random;
mod tunnels;

use std::net::IpAddr;

use warpline_packet::{Instant, Verdict};

use super::DEFINITION;
use warpline_nf::config::{Folder, Layer};
use warpline_nf::{Diagnostics, Function, Resources, Section, SourceText};
use warpline_testkit::frames::{Body, Datagram, naive_checksum};
use warpline_verify::{Harness, Input, Outcome};

const SECOND: u64 = 1_000_000_000;

/// Two services of IPv4 that share backends, and one of IPv6.
const SERVICES: &str = "\
vip 192.0.2.10 tcp 80,443
 backend 10.0.0.1
 backend 10.0.0.2 port 8080
 backend 10.0.0.3 weight 2
vip 192.0.2.10 udp 53
 backend 10.0.0.1
 backend 10.0.0.2
vip 2001:db8::10 tcp 80
 backend fd00::1
 backend fd00::2
 backend fd00::3 port 8080
";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The function of a table and a file of services, or what is wrong with them.
fn try_function(table: &str, services: &str) -> Result<(Box<dyn Function>, usize), Diagnostics> {
    try_build(table, services, DEFINITION.build)
}

type Build<T> = fn(&mut Section<'_>, &mut Resources) -> Option<T>;

/// The result of `build` for a table and a file of services, with the scratch words that it takes.
fn try_build<T>(table: &str, services: &str, build: Build<T>) -> Result<(T, usize), Diagnostics> {
    let table = format!("services = \"services\"\n{table}\n");
    let source = SourceText::new("chain.toml", table);
    let parsed = toml::de::DeTable::parse(&source.text).unwrap();
    let (mut mistakes, mut resources) = (Diagnostics::default(), Resources::default());
    let layer = Layer { source: &source, table: parsed.get_ref(), span: parsed.span() };
    let files = [("services", services)];
    let folder = Folder::Bundled(&files);
    let mut section = Section::new(vec![layer], DEFINITION.name, folder, &mut mistakes);
    section.refuse_unknown(DEFINITION.keys);
    match build(&mut section, &mut resources) {
        Some(built) if mistakes.is_empty() => Ok((built, resources.scratch_words())),
        None if mistakes.is_empty() => panic!("refused without a mistake"),
        _ => Err(mistakes),
    }
}

fn function(table: &str, services: &str) -> Box<dyn Function> {
    try_function(table, services).unwrap_or_else(|mistakes| panic!("{mistakes}")).0
}

fn balancer(table: &str, services: &str) -> Harness {
    let (function, words) =
        try_function(table, services).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    Harness::new(function, words)
}

/// Both places of a balancer that stands twice.
fn places(table: &str, services: &str) -> [Harness; 2] {
    let (places, words) = try_build(table, services, DEFINITION.build_pair.unwrap())
        .unwrap_or_else(|mistakes| panic!("{mistakes}"));
    places.map(|place| Harness::new(place, words))
}

fn send(harness: &mut Harness, seconds: u64, datagram: &Datagram) -> Outcome {
    harness.process(&[Input::at(seconds * SECOND, &datagram.frame())]).remove(0)
}

/// The name of the reason for which a packet was dropped; empty where it was not.
fn reason(outcome: &Outcome) -> &'static str {
    match outcome.verdict {
        Verdict::Forward => "",
        Verdict::Dropped => DEFINITION.drops[usize::from(outcome.reason)],
        Verdict::Malformed => "malformed",
        other => panic!("{other:?}"),
    }
}

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const FIN: u8 = 0x11;
const RST: u8 = 0x04;

fn tcp(src: (&str, u16), dst: (&str, u16), flags: u8) -> Datagram {
    Datagram::new(ip(src.0), ip(dst.0), Body::Tcp { src: src.1, dst: dst.1, flags })
}

fn udp(src: (&str, u16), dst: (&str, u16)) -> Datagram {
    Datagram::new(ip(src.0), ip(dst.0), Body::Udp { src: src.1, dst: dst.1, unsummed: false })
}

/// The destination of a frame with a plain IP header, or of a first fragment, with ports: address
/// and port.
fn destination(frame: &[u8]) -> (IpAddr, u16) {
    let port = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    match frame[14] >> 4 {
        4 => (IpAddr::from(<[u8; 4]>::try_from(&frame[30..34]).unwrap()), port(36)),
        _ => {
            let l4 = if frame[20] == 44 { 62 } else { 54 };
            (IpAddr::from(<[u8; 16]>::try_from(&frame[38..54]).unwrap()), port(l4 + 2))
        }
    }
}
