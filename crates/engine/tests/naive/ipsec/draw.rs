//! Random gateways: SAs, policies, and their files.

use std::net::IpAddr;

use super::Config;
use super::sa::{Action, Auth, Cipher, DontFragment, Limits, Policy, Sa, Selector, policies};
use crate::chains::{Naive, Spec};
use crate::draw::{Draw, address};
use crate::prefix::Prefix;
use crate::wire::{ICMP, ICMPV6, TCP, UDP};

/// A gateway.
pub(crate) fn gateway(draw: &mut Draw, place: usize) -> Spec {
    let (out, coming) = draw.of(&[(1, 0), (2, 0), (1, 1), (2, 2), (0, 2), (0, 3), (3, 3)]);
    let mut sas: Vec<_> = (0..out).map(|at| sa(draw, at, true)).collect();
    sas.extend((0..coming).map(|at| sa(draw, out + at, false)));
    share_spis(&mut sas);
    let policies = (0..1 + draw.below(6)).map(|_| policy(draw, &sas)).collect::<Vec<_>>();
    let rest = draw.percent(60).then(|| [4, 6].map(|version| last(draw, &sas, version)));
    let config = Config {
        policies: policies.into_iter().chain(rest.into_iter().flatten()).collect(),
        sas,
        bypasses: draw.percent(50),
        forwards_non_ip: draw.percent(70),
        is_inside: false,
        icmp: icmp(draw, place),
    };
    spec(config, place)
}

/// A gateway whose SAs lead to the same peers in both directions.
pub(crate) fn both_ways(draw: &mut Draw, place: usize) -> Spec {
    let mut sas = Vec::new();
    for at in 0..1 + draw.below(2) {
        let out = sa(draw, at, true);
        let window = draw.of(&[0, 32, 33, 64, 100]);
        let (src, dst) = (out.dst, out.src);
        let (name, selectors) = (format!("from-{at}"), selectors_from(draw, &out));
        let (cipher, enc_key, auth, auth_key) = algorithms(draw);
        let keyed = Sa { cipher, enc_key, auth, auth_key, ..out.clone() };
        let back = received(Sa { name, src, dst, window, selectors, ..keyed });
        sas.extend([out, back]);
    }
    let mut policies = Vec::new();
    for (at, sa) in sas.iter().enumerate().filter(|(_, sa)| sa.is_out) {
        policies.extend((0..draw.below(3)).map(|_| policy(draw, &sas)));
        let versions: &[u8] = match sa.is_tunnel {
            true => &[4, 6],
            false if sa.src.is_ipv4() => &[4],
            false => &[6],
        };
        for &version in versions {
            if draw.percent(20) {
                continue;
            }
            let selector = towards(draw, version, sa);
            policies.push(Policy { selector, action: Action::Protect(at) });
        }
    }
    policies.extend((0..draw.below(3)).map(|_| policy(draw, &sas)));
    let config = Config {
        sas,
        policies,
        bypasses: draw.percent(60),
        forwards_non_ip: draw.percent(80),
        is_inside: false,
        icmp: icmp(draw, place),
    };
    spec(config, place)
}

/// Hosts inside to a network of the peer.
fn towards(draw: &mut Draw, version: u8, sa: &Sa) -> Selector {
    let inside = Prefix::of(address(version, [10, 1, 0], 0), if version == 4 { 16 } else { 48 });
    let len = if version == 4 { 32 } else { 128 };
    let dst = match sa.is_tunnel {
        true => Prefix::of(draw.outside(version), if version == 4 { 24 } else { 64 }),
        false => Prefix::of(sa.dst, len),
    };
    let src = draw.percent(70).then_some(inside);
    Selector { src, dst: Some(dst), protocol: None, ports: [None, None] }
}

/// Selectors of the SA for the packets of the peer of `out`.
fn selectors_from(draw: &mut Draw, out: &Sa) -> Vec<Selector> {
    let versions: &[u8] = match out.is_tunnel {
        true => &[4, 6],
        false if out.src.is_ipv4() => &[4],
        false => &[6],
    };
    if draw.percent(35) {
        return Vec::new();
    }
    let mut all = Vec::new();
    for &version in versions {
        let src = Prefix::of(draw.outside(version), if version == 4 { 23 } else { 32 });
        let src = draw.percent(70).then_some(src);
        let dst = Prefix::of(address(version, [10, 1, 0], 0), if version == 4 { 16 } else { 48 });
        let dst = (src.is_none() || draw.percent(50)).then_some(dst);
        all.push(Selector { src, dst, protocol: None, ports: [None, None] });
    }
    all
}

/// SAs at different addresses may have one SPI (RFC 4301, 4.1).
fn share_spis(sas: &mut [Sa]) {
    for at in 1..sas.len() {
        let (before, rest) = sas.split_at_mut(at);
        if before.iter().all(|other| other.dst != rest[0].dst) {
            rest[0].spi = before[0].spi;
        }
    }
}

/// Two gateways; the second opens the packets that the first seals.
pub(crate) fn gateways(draw: &mut Draw, places: [usize; 2]) -> [Spec; 2] {
    let sas: Vec<_> = (0..1 + draw.below(3)).map(|at| sa(draw, at, true)).collect();
    let policies = (0..draw.below(4)).map(|_| policy(draw, &sas)).collect::<Vec<_>>();
    let rest = [4, 6].map(|version| last(draw, &sas, version));
    let first = Config {
        policies: policies.into_iter().chain(rest).collect(),
        bypasses: draw.percent(50),
        forwards_non_ip: draw.percent(70),
        is_inside: false,
        icmp: icmp(draw, places[0]),
        sas: sas.clone(),
    };
    let second = Config {
        sas: sas.iter().map(|sa| other_end(draw, sa)).collect(),
        policies: Vec::new(),
        bypasses: draw.percent(80),
        forwards_non_ip: true,
        is_inside: false,
        icmp: None,
    };
    [spec(first, places[0]), spec(second, places[1])]
}

/// The SA that opens what `sa` seals.
fn other_end(draw: &mut Draw, sa: &Sa) -> Sa {
    let selectors = if draw.percent(25) { selectors(draw, sa.src, sa.is_tunnel) } else { vec![] };
    let window = draw.of(&[0, 32, 33, 64, 100]);
    received(Sa { window, selectors, hard: Limits::default(), ..sa.clone() })
}

/// The SA that seals what `sa` opens.
pub(super) fn peer(sa: &Sa) -> Sa {
    Sa { is_out: true, hard: Limits::default(), ..sa.clone() }
}

fn spec(config: Config, place: usize) -> Spec {
    let choice = |yes, key, a, b| format!("{key} = '{}'\n", if yes { a } else { b });
    let names = ["sas", "policies"].map(|name| format!("{name}-{place}"));
    let [sas, policies_name] = &names;
    let mut table = format!("sas = '{sas}'\npolicies = '{policies_name}'\nreassembly = 0\n");
    table += &choice(config.bypasses, "default", "bypass", "discard");
    table += &choice(config.forwards_non_ip, "non_ip", "forward", "drop");
    table += &format!("nonce_state = 'KEPT/nonces-{place}'\n");
    if let Some((v4, v6)) = config.icmp {
        table += "icmp = 'on'\nicmp_rate_pps = 100000\n";
        v4.iter().for_each(|src| table += &format!("icmp_src_v4 = '{src}'\n"));
        v6.iter().for_each(|src| table += &format!("icmp_src_v6 = '{src}'\n"));
    }
    let text = config.sas.iter().map(ToString::to_string).collect();
    let files = [text, policies(&config.policies, &config.sas)];
    let files = names.into_iter().zip(files).collect();
    Spec { function: "ipsec", table, files, naive: Naive::Ipsec(Box::new(config)) }
}

/// A packet becomes 16 at most, and every function that answers doubles it.
fn icmp(
    draw: &mut Draw,
    place: usize,
) -> Option<(Option<std::net::Ipv4Addr>, Option<std::net::Ipv6Addr>)> {
    let (v4, v6) = draw.of(&[(true, true), (true, false), (false, true)]);
    let v4 = v4.then(|| "192.0.2.254".parse().expect("IPv4"));
    let v6 = v6.then(|| "2001:db8::fe".parse().expect("IPv6"));
    (place < 4 && draw.percent(50)).then_some((v4, v6))
}

/// The port of ESP in UDP that comes in.
const RECEIVED_AT: u16 = 4500;

/// An SA of packets that come in.
fn received(sa: Sa) -> Sa {
    Sa { is_out: false, encap: sa.encap.map(|[from, _]| [from, RECEIVED_AT]), ..sa }
}

fn sa(draw: &mut Draw, at: usize, is_out: bool) -> Sa {
    let version = draw.version();
    let is_tunnel = draw.percent(70);
    let own = address(version, [192, 0, 2], 1 + draw.below(2) as u16);
    let other = address(version, [203, 0, 113], 200 + draw.below(3) as u16);
    let (mut src, mut dst) = if is_out { (own, other) } else { (other, own) };
    if !is_tunnel {
        (src, dst) = (draw.inside(version), far_host(draw, version));
    }
    let (cipher, enc_key, auth, auth_key) = algorithms(draw);
    let esn = draw.percent(40);
    let most = u64::from(u32::MAX);
    let starts = [0, 0, 0, 7, most - 20, most - 1];
    let long = [0, 0, most - 20, most, 5 << 32, (7 << 32) - 30];
    let limits = |draw: &mut Draw| Limits {
        bytes: draw.percent(40).then(|| 1 + draw.below(3000) as u64),
        packets: draw.percent(40).then(|| 1 + draw.below(30) as u64),
        seconds: draw.percent(40).then(|| 1 + draw.below(60) as u64),
    };
    Sa {
        name: format!("sa-{at}"),
        is_out,
        spi: 0x1000 + at as u32,
        src,
        dst,
        is_tunnel,
        cipher,
        enc_key,
        auth,
        auth_key,
        esn,
        window: draw.of(&[0, 32, 33, 64, 64, 100]),
        encap: draw.percent(25).then(|| {
            let [from, to] = [draw.of(&[4500, 1025]), draw.of(&[4500, 4500, 4501])];
            [from, if is_out { to } else { RECEIVED_AT }]
        }),
        selectors: if draw.percent(40) { selectors(draw, src, is_tunnel) } else { Vec::new() },
        hard: if draw.percent(30) { limits(draw) } else { Limits::default() },
        sequence: if esn { draw.of(&long) } else { draw.of(&starts) },
        dscp: draw.percent(30).then(|| draw.below(64) as u8),
        ecn: draw.percent(75),
        df: draw.of(&[DontFragment::Copy, DontFragment::Set, DontFragment::Clear]),
        hops: draw.of(&[64, 1, 255, 9]),
        mtu: draw.of(&[65_535, 65_535, 1400, 576, 600]),
    }
}

fn far_host(draw: &mut Draw, version: u8) -> IpAddr {
    let net = draw.of(&[[198, 51, 100], [198, 51, 101], [203, 0, 113]]);
    address(version, net, 1 + draw.below(5) as u16)
}

fn algorithms(draw: &mut Draw) -> (Cipher, Vec<u8>, Auth, Vec<u8>) {
    let cipher = draw.of(&[Cipher::Null, Cipher::Cbc, Cipher::Ctr, Cipher::Gcm, Cipher::Gcm]);
    let len = draw.of(&[16, 24, 32]);
    let len = match cipher {
        Cipher::Null => 0,
        Cipher::Cbc => len,
        Cipher::Ctr | Cipher::Gcm => len + 4,
    };
    let (auth, auth_len) = match (cipher, draw.percent(50)) {
        (Cipher::Gcm, _) => (Auth::None, 0),
        (_, true) => (Auth::Sha1, 20),
        (_, false) => (Auth::Sha256, 32),
    };
    (cipher, draw.bytes(len), auth, draw.bytes(auth_len))
}

/// Selectors of an SA: in transport mode of its own version.
fn selectors(draw: &mut Draw, end: IpAddr, is_tunnel: bool) -> Vec<Selector> {
    let own = if end.is_ipv4() { 4 } else { 6 };
    let one = |draw: &mut Draw| {
        let version = if is_tunnel { draw.version() } else { own };
        selector(draw, version)
    };
    (0..=draw.below(2)).map(|_| one(draw)).collect()
}

fn selector(draw: &mut Draw, version: u8) -> Selector {
    let ends = draw.of(&[(true, true), (true, false), (true, false), (false, true)]);
    let src = ends.0.then(|| draw.prefix(version));
    let dst = ends.1.then(|| draw.prefix(version));
    let icmp = if version == 4 { ICMP } else { ICMPV6 };
    let protocol = draw.percent(40).then(|| draw.of(&[TCP, TCP, UDP, icmp, 47, 50]));
    let mut ports = [None, None];
    let ranges = match protocol {
        Some(TCP | UDP) => [80..=80, 0..=1025, 53..=443, 1..=52],
        Some(ICMP | ICMPV6) => [0..=0, 8..=8, 128..=128, 0..=200],
        _ => return Selector { src, dst, protocol, ports },
    };
    for range in &mut ports {
        *range = draw.percent(35).then(|| draw.of(&ranges));
    }
    Selector { src, dst, protocol, ports }
}

/// SAs that protect packets of this version.
fn protecting(sas: &[Sa], version: u8) -> Vec<usize> {
    let fits = |sa: &Sa| sa.is_out && (sa.is_tunnel || sa.src.is_ipv4() == (version == 4));
    (0..sas.len()).filter(|&at| fits(&sas[at])).collect()
}

fn policy(draw: &mut Draw, sas: &[Sa]) -> Policy {
    let version = draw.version();
    let mut selector = selector(draw, version);
    let found = protecting(sas, version);
    let action = match draw.below(10) {
        0..7 if !found.is_empty() => Action::Protect(draw.of(&found)),
        0..9 => Action::Bypass,
        _ => Action::Discard,
    };
    if let Action::Protect(at) = action
        && !sas[at].is_tunnel
    {
        let len = if version == 4 { 32 } else { 128 };
        selector.dst = Some(Prefix::of(sas[at].dst, len));
    }
    Policy { selector, action }
}

/// The policy for everything.
fn last(draw: &mut Draw, sas: &[Sa], version: u8) -> Policy {
    let src = if version == 4 { "0.0.0.0" } else { "::" };
    let src = Some(Prefix::of(src.parse().expect("an address"), 0));
    let selector = Selector { src, dst: None, protocol: None, ports: [None, None] };
    let mut found = protecting(sas, version);
    found.retain(|&at| sas[at].is_tunnel || draw.percent(30));
    let action = match draw.below(10) {
        0..8 if !found.is_empty() => Action::Protect(draw.of(&found)),
        _ => Action::Bypass,
    };
    Policy { selector, action }
}
