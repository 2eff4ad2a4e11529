//! Random firewalls: few rules, which traffic meets often.

use std::fmt::Write;
use std::ops::RangeInclusive;

use warpline_testkit::conntrack::Mode;

use crate::chains::{Naive, Spec};
use crate::connections;
use crate::draw::Draw;
use crate::firewall;
use crate::rules::{Rule, Side, Upper};
use crate::wire::{ICMP, ICMPV6, TCP, UDP};

/// A firewall; `may_track` where it may have connections.
pub(crate) fn firewall(draw: &mut Draw, place: usize, may_track: bool) -> Spec {
    let tracked = may_track && draw.percent(60);
    let mut rules: Vec<Rule> = (0..1 + draw.below(7)).map(|_| rule(draw, tracked)).collect();
    // Packets that only connections let through: answers, and errors about packets that were sent.
    let is_usual = tracked && draw.percent(40);
    if is_usual {
        let upper = Upper { protocols: vec![TCP, UDP], ..Upper::default() };
        rules = vec![Rule { accepts: true, upper, ..Rule::default() }];
    }
    let keys = [
        "tcp_syn_s",
        "tcp_established_s",
        "tcp_fin_s",
        "tcp_close_s",
        "udp_s",
        "udp_stream_s",
        "icmp_s",
        "other_s",
    ];
    let tracking = tracked.then(|| {
        let timeouts = keys.map(|key| (key, 1 + draw.below(14) as u64)).into();
        let percent = draw.below(100);
        let (loose, one_sided) = (percent < 30, percent.is_multiple_of(7));
        let mode = Mode { loose, one_sided, liberal: percent.is_multiple_of(5) };
        connections::Config { timeouts, mode }
    });
    let config = firewall::Config {
        rules,
        default_accepts: !is_usual && draw.percent(50),
        non_ip_accepts: draw.percent(60),
        drops_fragments: draw.percent(20),
        tracking,
    };
    let name = format!("rules-{place}");
    let choice = |yes, key, a, b| format!("{key} = '{}'\n", if yes { a } else { b });
    let mut table = format!("rules = '{name}'\n");
    table += &choice(config.default_accepts, "default", "accept", "drop");
    table += &choice(config.non_ip_accepts, "non_ip", "accept", "drop");
    table += &choice(config.drops_fragments, "fragments", "drop", "rules");
    if let Some(tracking) = &config.tracking {
        let Mode { loose, one_sided, liberal } = tracking.mode;
        let _ = writeln!(table, "established = true\nconnections = 8192\ntcp_loose = {loose}");
        let _ = writeln!(table, "tcp_one_sided = {one_sided}");
        table += &choice(liberal, "tcp_window", "liberal", "strict");
        tracking.timeouts.iter().for_each(|(key, s)| table += &format!("{key} = {s}\n"));
    }
    let text = config.rules.iter().map(|rule| format!("{rule}\n")).collect();
    Spec { function: "firewall", table, files: vec![(name, text)], naive: Naive::Firewall(config) }
}

/// A firewall by rules of iptables that ask for ports.
pub(crate) fn firewall_by_ways(draw: &mut Draw, place: usize) -> Spec {
    let rules: Vec<Rule> = (0..1 + draw.below(7)).map(|_| rule_by_ways(draw)).collect();
    let config = firewall::Config {
        rules,
        default_accepts: draw.percent(50),
        non_ip_accepts: draw.percent(60),
        drops_fragments: draw.percent(20),
        tracking: None,
    };
    let choice = |yes, key, a, b| format!("{key} = '{}'\n", if yes { a } else { b });
    let mut table = format!("rules = 'v4-{place}'\nrules_v6 = 'v6-{place}'\n");
    table += &choice(config.non_ip_accepts, "non_ip", "accept", "drop");
    table += &choice(config.drops_fragments, "fragments", "drop", "rules");
    let policy = if config.default_accepts { "ACCEPT" } else { "DROP" };
    let file = |version: u8| {
        let rules: String = config.rules.iter().filter_map(|rule| rule.iptables(version)).collect();
        (format!("v{version}-{place}"), format!("*filter\n:FORWARD {policy}\n{rules}COMMIT\n"))
    };
    let files = vec![file(4), file(6)];
    Spec { function: "firewall", table, files, naive: Naive::Firewall(config) }
}

fn rule_by_ways(draw: &mut Draw) -> Rule {
    let version = draw.version();
    let mut side = || {
        let prefixes = if draw.percent(30) { vec![draw.prefix(version)] } else { Vec::new() };
        Side { prefixes, ports: Vec::new() }
    };
    let (src, dst) = (side(), side());
    let protocols = match draw.below(3) {
        0 => vec![draw.of(&[TCP, UDP, 47, 50, if version == 4 { ICMP } else { ICMPV6 }])],
        _ => Vec::new(),
    };
    let mut way = || draw.percent(60).then(|| (draw.percent(30), draw.below(2) as u16));
    let ways = [way(), way()];
    let upper = Upper { protocols, ..Upper::default() };
    Rule { accepts: draw.percent(60), ways, upper, src, dst, ..Rule::default() }
}

fn rule(draw: &mut Draw, tracked: bool) -> Rule {
    let mut upper = Upper::default();
    match draw.below(10) {
        0 => {
            upper.protocols = vec![TCP];
            let mask = 1 + draw.below(63) as u8;
            upper.flags = Some((draw.word() as u8 & mask, mask));
        }
        1 => {
            upper.protocols = vec![draw.of(&[ICMP, ICMPV6])];
            let types = draw.some(&[0, 3, 8, 11, 1, 128, 129, 135], 3);
            let codes = if draw.percent(50) { draw.some(&[0, 1, 4], 2) } else { Vec::new() };
            upper.message = Some((types, codes));
        }
        2..6 => upper.protocols = draw.some(&[TCP, UDP, ICMP, ICMPV6, 47, 50], 3),
        _ => {}
    }
    let with_ports = upper.protocols.iter().all(|protocol| [TCP, UDP].contains(protocol));
    let with_ports = with_ports && draw.percent(40);
    let only = |protocol| {
        !upper.protocols.is_empty() && upper.protocols.iter().all(|own| *own == protocol)
    };
    let version = match () {
        () if only(ICMP) => 4,
        () if only(ICMPV6) => 6,
        () => draw.version(),
    };
    let (src, dst) = (side(draw, version, with_ports), side(draw, version, with_ports));
    let accepts = draw.percent(60);
    let established = tracked && draw.percent(20);
    Rule { accepts, established, upper, src, dst, ..Rule::default() }
}

fn side(draw: &mut Draw, version: u8, with_ports: bool) -> Side {
    let prefixes = if draw.percent(50) {
        (0..=draw.below(2)).map(|_| draw.prefix(version)).collect()
    } else {
        Vec::new()
    };
    let ranges: [RangeInclusive<u16>; 5] = [80..=80, 0..=1025, 1024..=65_535, 53..=443, 1..=52];
    let ports = if with_ports && draw.percent(60) { draw.some(&ranges, 2) } else { Vec::new() };
    Side { prefixes, ports }
}
