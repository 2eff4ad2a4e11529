//! Random rules on packets, and their files. Contents are of the few letters that many payloads are
//! made of.

use super::content::Content;
use super::rule::{Action, End, FlagsHow, Number, Ports, Protocol, Rule, Set, Test, Whom};
use crate::chains::{Naive, Spec};
use crate::draw::Draw;
use crate::prefix::Prefix;
use crate::traffic::LETTERS;

/// The file of alerts, in the folder of a run.
pub(crate) fn eve(place: usize) -> String {
    format!("eve-{place}")
}

/// An instance.
pub(crate) fn nids(draw: &mut Draw, place: usize) -> Spec {
    let count = draw.of(&[1, 3, 8, 8, 20, 60]);
    let narrow = draw.of(&[0, 15, 30]);
    let rules: Vec<Rule> = (0..count).map(|at| rule(draw, narrow, at)).collect();
    let name = format!("rules-{place}");
    let matcher = draw.of(&["auto", "dense", "compact"]);
    let table = format!(
        "rules = '{name}'\nstrict = true\nmatcher = '{matcher}'\ncache = ''\nflows = 4096\n\
         stream_memory_mib = 16\neve = 'KEPT/{}'\n",
        eve(place),
    );
    let text = rules.iter().map(|rule| format!("{rule}\n")).collect();
    Spec { function: "nids", table, files: vec![(name, text)], naive: Naive::Nids(rules) }
}

/// Gives the instances of a chain rules that reject or drop, of TCP too.
pub(crate) fn refuse(draw: &mut Draw, specs: &mut [Spec]) {
    for spec in specs {
        let Naive::Nids(rules) = &mut spec.naive else { continue };
        for rule in rules.iter_mut().filter(|rule| rule.action != Action::Pass) {
            // A refusal in a stream depends on the whole stream.
            let is_whole = [Protocol::Tcp, Protocol::Ip, Protocol::Ipv4, Protocol::Ipv6];
            if is_whole.contains(&rule.protocol) || draw.percent(50) {
                continue;
            }
            rule.action = draw.of(&[Action::Reject, Action::Reject, Action::Drop]);
            rule.whom = draw.of(&[Whom::Source, Whom::Destination, Whom::Both]);
        }
        spec.files[0].1 = rules.iter().map(|rule| format!("{rule}\n")).collect();
    }
}

/// One whose ends are named in `narrow` of a hundred.
fn rule(draw: &mut Draw, narrow: usize, at: u32) -> Rule {
    use Protocol::{Icmp, Icmpv4, Icmpv6, Ip, Ipv4, Ipv6, Tcp, TcpPacket, Udp};
    let protocol =
        draw.of(&[Udp, Udp, Udp, TcpPacket, TcpPacket, Tcp, Icmp, Icmpv4, Icmpv6, Ip, Ipv4, Ipv6]);
    let may_be_tcp = [Tcp, TcpPacket, Ip, Ipv4, Ipv6].contains(&protocol);
    let may_be_icmp = [Icmp, Icmpv4, Icmpv6].contains(&protocol);
    let mut action =
        draw.of(&[Action::Alert, Action::Alert, Action::Alert, Action::Drop, Action::Drop]);
    if draw.percent(6) {
        action = Action::Pass;
    }
    let mut contents = contents(draw);
    let mut tests = tests(draw, protocol);
    if action == Action::Drop && may_be_tcp {
        // A drop in a stream depends on the whole stream.
        action = Action::Alert;
    }
    // Without such a test, rules of TCP are about streams, and without contents about flows.
    if may_be_tcp && protocol != TcpPacket || contents.is_empty() {
        tests.push(Test::Ttl(draw.of(&[Number::Above(0), Number::Above(0), Number::Below(64)])));
    }
    if tests.iter().any(|test| matches!(test, Test::Dsize(_))) {
        // A payload that is too short for the contents is a mistake.
        contents.truncate(0);
    }
    let with_ports = !may_be_icmp;
    Rule {
        action,
        whom: Whom::Source,
        protocol,
        src: end(draw, narrow, with_ports),
        dst: end(draw, narrow, with_ports),
        both_ways: draw.percent(20),
        tests,
        contents,
        sid: at + 1,
        rev: draw.below(4) as u32,
        priority: draw.percent(30).then(|| 1 + draw.below(5) as u8),
        is_silent: draw.percent(8),
    }
}

fn contents(draw: &mut Draw) -> Vec<Content> {
    let count = draw.of(&[0, 1, 1, 1, 2, 2, 3]);
    let mut contents: Vec<Content> = Vec::new();
    let mut has_fast = false;
    for at in 0..count {
        let len = draw.of(&[1, 2, 2, 3, 4, 5]);
        let mut content = Content {
            bytes: (0..len).map(|_| draw.of(&LETTERS)).collect(),
            is_negated: draw.percent(20),
            is_nocase: draw.percent(35),
            is_hex: draw.percent(20),
            ends: draw.percent(8),
            ..Content::default()
        };
        place(draw, &mut content, at > 0);
        content.is_fast = !has_fast && !content.is_negated && draw.percent(15);
        has_fast |= content.is_fast;
        contents.push(content);
    }
    contents
}

fn place(draw: &mut Draw, content: &mut Content, is_behind: bool) {
    let len = content.bytes.len();
    match draw.below(8) {
        0 => content.starts = true,
        1 => content.offset = Some(draw.below(12)),
        2 => content.depth = Some(len + draw.below(12)),
        3 => {
            content.offset = Some(draw.below(6));
            content.depth = Some(len + draw.below(6));
        }
        4..7 if is_behind => {
            let distance = draw.below(8) as i64 - 3;
            content.distance = draw.percent(70).then_some(distance);
            // Contents that begin before the payload are left out: the manual doesn't define their
            // bounds.
            let least = (len as i64).max(-content.distance.unwrap_or(0));
            let within = least + draw.below(8) as i64;
            content.within = (content.distance.is_none() || draw.percent(50)).then_some(within);
        }
        _ => {}
    }
}

fn number(draw: &mut Draw, all: &[u32]) -> Number {
    let own = draw.of(all);
    match draw.below(6) {
        0 => Number::Not(own),
        1 => Number::Below(own.max(1)),
        2 => Number::Above(own),
        3 => Number::Between(own, own + 2 + draw.below(9) as u32),
        _ => Number::Is(own),
    }
}

fn tests(draw: &mut Draw, protocol: Protocol) -> Vec<Test> {
    use Protocol::{Icmp, Icmpv4, Icmpv6, Ip, Ipv4, Ipv6, Tcp, TcpPacket, Udp};
    let mut tests = Vec::new();
    if draw.percent(15) {
        tests.push(Test::Dsize(number(draw, &[0, 1, 8, 20, 60])));
    }
    if draw.percent(10) {
        tests.push(Test::Ttl(number(draw, &[1, 2, 63, 64])));
    }
    if draw.percent(4) {
        tests.push(Test::Tos(draw.of(&[0, 0, 4])));
    }
    if draw.percent(4) {
        tests.push(Test::Id(number(draw, &[0, 30_000])));
    }
    if draw.percent(2) {
        tests.push(Test::SameIp);
    }
    match protocol {
        Tcp | TcpPacket if draw.percent(45) => {
            let how = [
                FlagsHow::Exactly,
                FlagsHow::Exactly,
                FlagsHow::All,
                FlagsHow::Any,
                FlagsHow::NotAll,
            ];
            let bits = draw.of(&[0x02, 0x12, 0x10, 0x18, 0x11, 0x04, 0x08, 0x01]);
            tests.push(Test::Flags(draw.of(&how), bits, draw.of(&[0, 0, 0x08, 0xc0])));
        }
        Icmp | Icmpv4 | Icmpv6 if draw.percent(60) => {
            tests.push(match draw.below(5) {
                0 => Test::Icode(number(draw, &[0, 1])),
                1 => Test::IcmpId(number(draw, &[0, 1, 2])),
                2 => Test::IcmpSeq(number(draw, &[0, 3, 9])),
                _ => Test::Itype(number(draw, &[0, 3, 8, 11, 128, 129, 1])),
            });
        }
        Ip | Ipv4 | Ipv6 if draw.percent(40) => {
            tests.push(Test::IpProto(draw.of(&[1, 6, 17, 47, 50, 58])));
        }
        Udp | Icmp | Icmpv4 | Icmpv6 | Ip | Ipv4 | Ipv6 | Tcp | TcpPacket => {}
    }
    tests
}

fn end(draw: &mut Draw, narrow: usize, with_ports: bool) -> End {
    let addresses = if draw.percent(narrow) { addresses(draw) } else { Set::any() };
    let ports = if with_ports && draw.percent(narrow) { ports(draw) } else { Set::any() };
    End { addresses, ports }
}

/// No set is empty. None excludes prefixes of one version and includes prefixes of another.
fn addresses(draw: &mut Draw) -> Set<Prefix> {
    let mut prefix = || {
        let version = draw.version();
        draw.prefix(version)
    };
    let all = [prefix(), prefix(), prefix()];
    if draw.percent(25) {
        let lacks = all[..2].iter().filter(|prefix| prefix.len > 0).copied().collect();
        return Set { has: Vec::new(), lacks };
    }
    let [one, other, without] = all;
    let has = if draw.percent(40) { vec![one, other] } else { vec![one] };
    let is_inside = |own: &Prefix| own.holds(without.address) && own.len < without.len;
    let lacks = if has.iter().any(is_inside) { vec![without] } else { Vec::new() };
    Set { has, lacks }
}

fn ports(draw: &mut Draw) -> Set<Ports> {
    let all =
        [(80, 80), (53, 53), (0, 1025), (1024, u16::MAX), (1024, 1026), (53, 443), (2000, 2000)];
    match draw.below(4) {
        0 => Set { has: Vec::new(), lacks: draw.some(&all, 1) },
        1 => Set { has: vec![(0, 1025)], lacks: vec![draw.of(&[(80, 80), (53, 443)])] },
        _ => Set { has: draw.some(&all, 2), lacks: Vec::new() },
    }
}
