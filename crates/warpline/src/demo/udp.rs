//! Names, calls, clocks and echoes: short messages, most of them answered.

use core::time::Duration;

use warpline_packet::Instant;
use warpline_packet::wire::ethertype;

use super::capture::{LAST_START_US, START, Trace, at_us};
use super::dns::Question;
use super::frame::{self, Path, Tag, Upper};
use super::hosts::{self, CLOCK, Host, NAME_SERVER, SERVERS, TELEPHONY};
use super::rng::Rng;
use super::summary::Kind;

/// DNS: the Internet asks the site's server, inside hosts ask servers outside.
pub(super) fn names(trace: &mut Trace) {
    let mut rng = Rng::stream(6);
    for index in 0..420 {
        let number = rng.between(2, 120) as u8;
        let subnet = rng.between(0, 3) as u8;
        let path = match index % 3 {
            0 => Path::new(hosts::internet(number), NAME_SERVER),
            1 => Path::new(hosts::inside(subnet, number % 30 + 10), hosts::internet_b(253)),
            _ => Path::new(hosts::inside6(subnet, number % 30 + 10), hosts::internet6(0x53)),
        };
        let question = Question::any(&mut rng);
        let records = rng.between(0, 3) as u16;
        let data = (question.query(), question.answer(records, &mut rng));
        let ports = (trace.port(), 53);
        ask(trace, Kind::Dns, &path, ports, &data, &mut rng);
    }
}

/// RTP with G.711 voice, both ways where the other way can be seen.
pub(super) fn calls(trace: &mut Trace) {
    let mut rng = Rng::stream(7);
    let calls = [
        (hosts::internet(45), TELEPHONY, 400_000, 700),
        (hosts::internet_b(46), TELEPHONY, 8_000_000, 400),
        (hosts::inside6(2, 19), hosts::internet6(0x301), 2_500_000, 500),
        (hosts::inside(1, 24), hosts::internet(220), 6_000_000, 450),
    ];
    for (caller, callee, start_us, packets) in calls {
        let path = Path { class: EXPEDITED, ..Path::new(caller, callee) };
        let ports =
            (16_384 + 2 * rng.between(0, 8_000) as u16, 16_384 + 2 * rng.between(0, 8_000) as u16);
        talk(trace, &path, ports, (at_us(start_us), packets), &mut rng);
        if caller.is_reachable() {
            let start = at_us(start_us + 7_300);
            talk(trace, &path.back(), (ports.1, ports.0), (start, packets), &mut rng);
        }
    }
}

/// NTP: the site's clock and inside hosts ask servers outside.
pub(super) fn clocks(trace: &mut Trace) {
    let mut rng = Rng::stream(8);
    for index in 0..36 {
        let number = 10 + index as u8;
        let path = match index % 3 {
            0 => Path::new(CLOCK, hosts::internet(240 + index as u8 % 4)),
            1 => Path::new(hosts::inside(0, number), hosts::internet_b(241)),
            _ => Path::new(hosts::inside6(0, number), hosts::internet6(0x123)),
        };
        let at = at_us(rng.between(0, LAST_START_US));
        let back = at.after(Duration::from_millis(rng.between(9, 60)));
        let ident = trace.ident();
        let port = if index % 3 == 0 { 123 } else { trace.port() };
        let asked = frame::datagram(&path, (port, 123), &ntp(0x23, 0, at));
        trace.add(at, Kind::Ntp, &frame::whole(&path, ident, &asked));
        let answer = frame::datagram(&path.back(), (123, port), &ntp(0x24, 2, back));
        reply(trace, Kind::Ntp, &path, back, &answer);
    }
}

/// Pings of servers in the DMZ from outside, and from inside to outside.
pub(super) fn echoes(trace: &mut Trace) {
    let mut rng = Rng::stream(9);
    for index in 0..24_u8 {
        let path = match index % 3 {
            0 => Path::new(hosts::internet_b(90 + index), rng.pick(&SERVERS)),
            1 => Path::new(hosts::inside(2, 10 + index), hosts::internet(253)),
            _ => Path::new(hosts::inside6(2, 10 + index), hosts::internet6(0x53)),
        };
        ping(trace, Kind::Echo, &path, 5, &mut rng);
    }
}

/// A line of the provider on which customers' tags are nested: pings and names over IPv6.
pub(super) fn nested_tags(trace: &mut Trace) {
    let mut rng = Rng::stream(10);
    for index in 0..4 {
        let tenant = hosts::inside6(40, 10 + index);
        let path = Path { tags: &NESTED, ..Path::new(tenant, hosts::internet6(0x53)) };
        ping(trace, Kind::QinQ, &path, 4, &mut rng);
        for _ in 0..4 {
            let question = Question::any(&mut rng);
            let data = (question.query(), question.answer(1, &mut rng));
            let ports = (trace.port(), 53);
            ask(trace, Kind::QinQ, &path, ports, &data, &mut rng);
        }
    }
}

/// A datagram and its answer some time later.
fn ask(
    trace: &mut Trace,
    kind: Kind,
    path: &Path,
    ports: (u16, u16),
    (query, answer): &(Vec<u8>, Vec<u8>),
    rng: &mut Rng,
) {
    let at = at_us(rng.between(0, LAST_START_US));
    let ident = trace.ident();
    let asked = frame::datagram(path, ports, query);
    trace.add(at, kind, &frame::whole(path, ident, &asked));
    let back = at.after(answer_time(path.to, rng));
    let answer = frame::datagram(&path.back(), (ports.1, ports.0), answer);
    reply(trace, kind, path, back, &answer);
}

/// How long `host` takes to answer, the way there and back from the link included.
pub(super) fn answer_time(host: Host, rng: &mut Rng) -> Duration {
    let is_far = host.mac == hosts::PROVIDER;
    let (low, high) = if is_far { (6_000, 70_000) } else { (200, 900) };
    Duration::from_micros(rng.between(low, high))
}

/// Adds the answer to what came along `path`, if it can be seen.
fn reply(trace: &mut Trace, kind: Kind, path: &Path, at: Instant, answer: &Upper) {
    let ident = trace.ident();
    if path.from.is_reachable() {
        trace.add(at, kind, &frame::whole(&path.back(), ident, answer));
    }
}

/// `count` echo requests, one in 400 ms, with their replies.
fn ping(trace: &mut Trace, kind: Kind, path: &Path, count: u16, rng: &mut Rng) {
    let ident = rng.bits() as u16;
    let start = rng.between(0, LAST_START_US - 400_000 * u64::from(count));
    for number in 1..=count {
        let at = at_us(start + 400_000 * u64::from(number));
        let data: Vec<u8> = (0..56).map(|byte| byte ^ number as u8).collect();
        let ip_ident = trace.ident();
        let request = frame::echo(path, true, (ident, number), &data);
        trace.add(at, kind, &frame::whole(path, ip_ident, &request));
        let answer = frame::echo(&path.back(), false, (ident, number), &data);
        reply(trace, kind, path, at.after(answer_time(path.to, rng)), &answer);
    }
}

/// One direction of a call: `packets` of 20 ms from `start` on (RFC 3550, RFC 3551).
fn talk(
    trace: &mut Trace,
    path: &Path,
    ports: (u16, u16),
    (start, packets): (Instant, u16),
    rng: &mut Rng,
) {
    let source = rng.bits() as u32;
    let (first, clock) = (rng.bits() as u16, rng.bits() as u32);
    for number in 0..packets {
        // Packets leave each 20 ms and arrive up to 2 ms late.
        let late = rng.between(0, 2_000);
        let at = start.after(Duration::from_micros(u64::from(number) * 20_000 + late));
        let marker = if number == 0 { 0x80 } else { 0 };
        let mut data = vec![0x80, marker];
        data.extend(first.wrapping_add(number).to_be_bytes());
        data.extend(clock.wrapping_add(u32::from(number) * SAMPLES).to_be_bytes());
        data.extend(source.to_be_bytes());
        // Quiet voice: small values in the mu-law code.
        data.extend((0..SAMPLES).map(|_| rng.bits() as u8 | 0x70));
        let ident = trace.ident();
        let upper = frame::datagram(path, ports, &data);
        trace.add(at, Kind::Voip, &frame::whole(path, ident, &upper));
    }
}

/// A message of 48 bytes (RFC 5905, 7.3) sent at `at`: leap, version and mode as given.
fn ntp(mode: u8, stratum: u8, at: Instant) -> Vec<u8> {
    let mut message = vec![mode, stratum, 6, 0xec];
    message.resize(16, 0);
    if stratum > 0 {
        message[12..16].copy_from_slice(&[192, 0, 2, 240]);
    }
    for moment in [START, at, at, at] {
        let (seconds, nanos) =
            (moment.as_nanos() / 1_000_000_000, moment.as_nanos() % 1_000_000_000);
        message.extend((seconds as u32).wrapping_add(NTP_EPOCH).to_be_bytes());
        message.extend((((nanos << 32) / 1_000_000_000) as u32).to_be_bytes());
    }
    message
}

/// Expedited forwarding (RFC 3246): 46, shifted by 2.
const EXPEDITED: u8 = 46 << 2;
/// Samples in 20 ms of 8 kHz.
const SAMPLES: u32 = 160;
/// From 1900, where NTP's time begins, to 1970.
const NTP_EPOCH: u32 = 2_208_988_800;
const NESTED: [Tag; 2] = [Tag(ethertype::QINQ, 100), Tag(ethertype::VLAN, 40)];
