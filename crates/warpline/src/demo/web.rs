//! Web traffic and long transfers.

use core::time::Duration;

use super::capture::{LAST_START_US, Trace, at_us};
use super::frame::{Path, Tag};
use super::hosts::{self, WEB};
use super::rng::Rng;
use super::summary::Kind;
use super::tcp::{Conversation, Manner, Side};
use super::tls;

/// Internet clients at the public web server, HTTP and TLS by turns.
pub(super) fn visitors(trace: &mut Trace) {
    let mut rng = Rng::stream(1);
    for index in 0..60 {
        let client = rng.between(2, 120) as u8;
        let client =
            if index % 3 == 0 { hosts::internet(client) } else { hosts::internet_b(client) };
        session(trace, Kind::Web, Path::new(client, WEB), index, &mut rng);
    }
}

/// Inside hosts on the web over IPv6.
pub(super) fn surfers(trace: &mut Trace) {
    let mut rng = Rng::stream(2);
    for index in 0..50 {
        let client = hosts::inside6(rng.between(0, 3) as u8, rng.between(10, 40) as u8);
        let server = hosts::internet6(rng.between(0x101, 0x118) as u16);
        session(trace, Kind::Web, Path::new(client, server), index, &mut rng);
    }
}

/// Inside hosts on the web over IPv4: their own packets only.
pub(super) fn surfers_behind_nat(trace: &mut Trace) {
    let mut rng = Rng::stream(3);
    for index in 0..90 {
        let client = hosts::inside(rng.between(0, 3) as u8, rng.between(10, 40) as u8);
        let server = rng.between(150, 200) as u8;
        let server =
            if index % 2 == 0 { hosts::internet(server) } else { hosts::internet_b(server) };
        session(trace, Kind::Web, Path::new(client, server), index, &mut rng);
    }
}

/// Guests on a VLAN of their own, over both versions.
pub(super) fn guests(trace: &mut Trace) {
    let mut rng = Rng::stream(4);
    for index in 0..24 {
        let number = rng.between(10, 30) as u8;
        let (client, server) = if index % 2 == 0 {
            (hosts::inside(20, number), hosts::internet(rng.between(150, 200) as u8))
        } else {
            (hosts::inside6(20, number), hosts::internet6(rng.between(0x101, 0x118) as u16))
        };
        let path = Path { tags: &GUESTS, ..Path::new(client, server) };
        session(trace, Kind::Vlan, path, index, &mut rng);
    }
}

/// Long transfers of full segments: downloads from the DMZ and over IPv6, uploads through the NAT.
pub(super) fn transfers(trace: &mut Trace) {
    let mut rng = Rng::stream(5);
    let transfers = [
        (Path::new(hosts::internet_b(77), WEB), Side::Server, 300_000, 1_200_000),
        (Path::new(hosts::internet(31), WEB), Side::Client, 220_000, 6_500_000),
        (Path::new(hosts::internet(78), WEB), Side::Server, 260_000, 11_000_000),
        (
            Path::new(hosts::inside6(1, 12), hosts::internet6(0x201)),
            Side::Server,
            480_000,
            3_000_000,
        ),
        (
            Path::new(hosts::inside6(2, 33), hosts::internet6(0x202)),
            Side::Client,
            250_000,
            9_000_000,
        ),
        (Path::new(hosts::inside(0, 21), hosts::internet_b(210)), Side::Client, 350_000, 2_200_000),
        (Path::new(hosts::inside(3, 14), hosts::internet(211)), Side::Client, 200_000, 12_500_000),
    ];
    for (path, from, len, start_us) in transfers {
        let gap = Duration::from_micros(rng.between(9_000, 14_000));
        let manner = Manner { gap, ..manner(Kind::Bulk, path, 443, false) };
        let mut talk = Conversation::new(trace, manner, &mut rng, at_us(start_us));
        talk.open();
        greet(&mut talk, &mut rng);
        talk.send(Side::Client, &tls::sealed(300, &mut rng));
        talk.send(from, &tls::sealed(len, &mut rng));
        talk.finish(Side::Client);
    }
}

/// One session of the given number: every second in the clear, every tenth broken off.
fn session(trace: &mut Trace, kind: Kind, path: Path, number: u32, rng: &mut Rng) {
    let in_clear = number.is_multiple_of(2);
    let manner = manner(kind, path, if in_clear { 80 } else { 443 }, number % 4 != 3);
    let now = at_us(rng.between(5_000, LAST_START_US));
    let mut talk = Conversation::new(trace, manner, rng, now);
    talk.open();
    if !in_clear {
        greet(&mut talk, rng);
    }
    for _ in 0..rng.between(1, 3) {
        // Most pages are small, a few are not.
        let len = rng.between(200, 4_000) * if rng.between(0, 5) == 0 { 6 } else { 1 };
        exchange(&mut talk, in_clear, len as usize, rng);
    }
    match number % 10 {
        9 => talk.reset(Side::Client),
        0..5 => talk.finish(Side::Client),
        _ => talk.finish(Side::Server),
    }
}

fn greet(talk: &mut Conversation<'_>, rng: &mut Rng) {
    talk.send(Side::Client, &tls::client_hello(rng.pick(&SITES), rng));
    let certificate_len = rng.between(900, 2_800) as usize;
    talk.send(Side::Server, &tls::server_flight(certificate_len, rng));
    talk.send(Side::Client, &tls::client_finish(rng));
}

fn exchange(talk: &mut Conversation<'_>, in_clear: bool, len: usize, rng: &mut Rng) {
    let thinking = Duration::from_micros(rng.between(300, 20_000));
    let reading = Duration::from_micros(rng.between(5_000, 250_000));
    let (request, response) = if in_clear {
        (request(rng), response(len, rng))
    } else {
        let asked = rng.between(120, 700) as usize;
        (tls::sealed(asked, rng), tls::sealed(len, rng))
    };
    talk.send(Side::Client, &request);
    talk.wait(thinking);
    talk.send(Side::Server, &response);
    talk.wait(reading);
}

pub(super) fn request(rng: &mut Rng) -> Vec<u8> {
    let (site, page, agent) = (rng.pick(&SITES), rng.pick(&PAGES), rng.pick(&AGENTS));
    let number = rng.between(1, 999);
    format!(
        "GET /{page}?id={number} HTTP/1.1\r\nHost: {site}\r\nUser-Agent: {agent}\r\n\
         Accept: text/html,text/plain;q=0.8\r\nAccept-Language: en\r\n\r\n"
    )
    .into_bytes()
}

pub(super) fn response(len: usize, rng: &mut Rng) -> Vec<u8> {
    let mut body = String::from("<!doctype html>\n<title>Notes</title>\n<p>");
    while body.len() < len {
        body += rng.pick(&WORDS);
        body += if rng.between(0, 11) == 0 { ".\n<p>" } else { " " };
    }
    let len = body.len();
    format!(
        "HTTP/1.1 200 OK\r\nServer: small-site\r\nContent-Type: text/html; charset=utf-8\r\n\
         Content-Length: {len}\r\n\r\n{body}"
    )
    .into_bytes()
}

pub(super) const fn manner(kind: Kind, path: Path, server_port: u16, timestamps: bool) -> Manner {
    let gap = Duration::from_micros(130);
    Manner { kind, path, server_port, timestamps, gap, backend: None }
}

const GUESTS: [Tag; 1] = [Tag(warpline_packet::wire::ethertype::VLAN, 20)];
const SITES: [&str; 5] = [
    "www.example.com",
    "shop.example.net",
    "static.example.org",
    "news.example.com",
    "mail.example.net",
];
const PAGES: [&str; 6] =
    ["index.html", "news", "catalogue/page", "search", "style.css", "account/login"];
const AGENTS: [&str; 3] = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "curl/8.14.1",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15",
];
const WORDS: [&str; 24] = [
    "harbour", "the", "a", "of", "morning", "ship", "cargo", "tide", "and", "under", "crane",
    "slow", "rope", "with", "north", "light", "pier", "for", "captain", "water", "by", "old",
    "wind", "signal",
];
