//! Files of rules for the naive translator: whose packets are translated, and which ports are
//! forwarded. The first rule that matches decides about a connection (iptables(8)).

use std::fmt::Write;
use std::net::IpAddr;

use serde_json::{Value, json};

use crate::bindings::{self, Endpoint};
use crate::build::{Numbers, Packet, insert_after, tcp, udp};
use crate::chains::{Naive, Spec};
use crate::draw::{Draw, address};
use crate::prefix::Prefix;
use crate::wire::{Frame, ICMP, TCP, UDP};

/// The content of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct NatRules {
    /// Rules of POSTROUTING. Without any, all packets from inside are translated.
    sources: Vec<SourceRule>,
    forwards: Vec<Forward>,
}

/// A rule that translates, or that accepts.
#[derive(Clone, Copy, Debug)]
struct SourceRule {
    src: Prefix,
    /// May be turned around.
    dst: Option<(bool, Prefix)>,
    protocol: Option<u8>,
    translates: bool,
}

/// Ports of an outside address that lead to an inside host.
#[derive(Clone, Copy, Debug)]
struct Forward {
    protocol: u8,
    outside: IpAddr,
    ports: (u16, u16),
    inside: IpAddr,
    /// One port for all; otherwise each keeps its number.
    to: Option<u16>,
}

impl NatRules {
    pub(crate) fn translates(&self, src: IpAddr, dst: IpAddr, protocol: u8) -> bool {
        let matches = |rule: &&SourceRule| {
            rule.src.holds(src)
                && rule.dst.is_none_or(|(not, prefix)| prefix.holds(dst) != not)
                && rule.protocol.is_none_or(|own| own == protocol)
        };
        self.sources.is_empty() || self.sources.iter().find(matches).is_some_and(|r| r.translates)
    }

    /// The inside end that an outside port of a protocol leads to.
    pub(crate) fn forward(&self, protocol: u8, (address, port): Endpoint) -> Option<Endpoint> {
        let is = |own: &&Forward| {
            (own.protocol, own.outside) == (protocol, address)
                && (own.ports.0..=own.ports.1).contains(&port)
        };
        let own = self.forwards.iter().find(is)?;
        Some((own.inside, own.to.unwrap_or(port)))
    }

    /// The protocols and ends of forwarded ports.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (u8, Endpoint)> {
        self.forwards.iter().map(|own| (own.protocol, (own.outside, own.ports.0)))
    }

    fn draw(draw: &mut Draw, outside: Prefix) -> Self {
        let sources: Vec<_> = (0..1 + draw.below(4)).map(|_| SourceRule::draw(draw)).collect();
        let mut own = Self { sources, forwards: Vec::new() };
        // Hosts that forwards lead to have to be inside.
        let all = Prefix::of(address(4, [10, 1, 0], 0), draw.of(&[16, 24]));
        let last = SourceRule { src: all, dst: None, protocol: None, translates: true };
        let last = if draw.percent(50) { SourceRule::draw(draw).of(all) } else { last };
        own.sources.push(SourceRule { translates: true, ..last });
        for _ in 0..draw.below(4) {
            let protocol = draw.of(&[TCP, TCP, UDP]);
            let ports = draw.of(&[(53, 53), (80, 80), (1024, 1027), (40_000, 40_003)]);
            let host = draw.below(4);
            let forward = Forward {
                protocol,
                outside: nth(outside, host),
                ports,
                inside: address(4, [10, 1, 0], 1 + draw.below(4) as u16),
                to: draw.of(&[None, None, Some(80), Some(1024)]),
            };
            let is_new = |other: &Forward| {
                (other.protocol, other.outside) != (forward.protocol, forward.outside)
            };
            if own.forwards.iter().all(is_new) {
                own.forwards.push(forward);
            }
        }
        own
    }

    /// Whether packets from some inside hosts may leave as they are.
    pub(crate) fn choose(&self) -> bool {
        !self.sources.is_empty()
    }

    /// The sources of all rules that translate.
    fn inside(&self) -> Vec<Prefix> {
        self.sources.iter().filter(|rule| rule.translates).map(|rule| rule.src).collect()
    }

    /// The output of iptables-save.
    fn iptables(&self, (first, last): (IpAddr, IpAddr), (low, high): (u16, u16)) -> String {
        let mut text = String::from("*nat\n:PREROUTING ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n");
        for Forward { protocol, outside, ports: (from, to), inside, to: port } in &self.forwards {
            let name = if *protocol == TCP { "tcp" } else { "udp" };
            let port = port.map_or(String::new(), |port| format!(":{port}"));
            let _ = writeln!(
                text,
                "-A PREROUTING -d {outside}/32 -p {name} -m {name} --dport {from}:{to} \
                 -j DNAT --to-destination {inside}{port}"
            );
        }
        for rule in &self.sources {
            let _ = write!(text, "-A POSTROUTING -s {}", rule.src);
            if let Some((not, dst)) = rule.dst {
                let _ = write!(text, "{} -d {dst}", if not { " !" } else { "" });
            }
            let protocol = rule.protocol.map_or(String::new(), |number| format!(" -p {number}"));
            let _ = match rule.translates {
                true => {
                    writeln!(text, "{protocol} -j SNAT --to-source {first}-{last}:{low}-{high}")
                }
                false => writeln!(text, "{protocol} -j ACCEPT"),
            };
        }
        text + "COMMIT\n"
    }

    /// The output of `nft -j list ruleset`.
    fn nft(&self, (first, last): (IpAddr, IpAddr), (low, high): (u16, u16)) -> String {
        let of = |kind: &str, mut rest: Value| {
            (rest["family"], rest["table"]) = ("ip".into(), "nat".into());
            json!({ kind: rest })
        };
        let is = |op: &str, field: &str, right: Value| {
            let (protocol, field) = field.split_once(' ').expect("two words");
            let left = json!({"payload": {"protocol": protocol, "field": field}});
            json!({"match": {"op": op, "left": left, "right": right}})
        };
        let prefix = |one: Prefix| json!({"prefix": {"addr": one.address, "len": one.len}});
        let mut all = Vec::new();
        for hook in ["prerouting", "postrouting"] {
            all.push(of("chain", json!({"name": hook, "type": "nat", "hook": hook})));
        }
        for own in &self.forwards {
            let name = if own.protocol == TCP { "tcp dport" } else { "udp dport" };
            let mut to = json!({"addr": own.inside});
            if let Some(port) = own.to {
                to["port"] = port.into();
            }
            let expr = json!([
                is("==", "ip daddr", json!(own.outside)),
                is("==", name, json!({"range": [own.ports.0, own.ports.1]})),
                { "dnat": to }
            ]);
            all.push(of("rule", json!({"chain": "prerouting", "expr": expr})));
        }
        for rule in &self.sources {
            let mut expr = vec![is("==", "ip saddr", prefix(rule.src))];
            let dst = rule.dst.map(|(not, dst)| (if not { "!=" } else { "==" }, dst));
            expr.extend(dst.map(|(op, dst)| is(op, "ip daddr", prefix(dst))));
            expr.extend(rule.protocol.map(|number| is("==", "ip protocol", json!(number))));
            let to = json!({"addr": {"range": [first, last]}, "port": {"range": [low, high]}});
            expr.push(if rule.translates {
                json!({ "snat": to })
            } else {
                json!({"accept": null})
            });
            all.push(of("rule", json!({"chain": "postrouting", "expr": expr})));
        }
        json!({ "nftables": all }).to_string()
    }
}

impl SourceRule {
    fn draw(draw: &mut Draw) -> Self {
        let dst = draw.percent(50).then(|| {
            let to = Prefix::of(draw.outside(4), draw.of(&[16, 24, 32]));
            (draw.percent(30), to)
        });
        Self {
            src: Prefix::of(draw.inside(4), draw.of(&[8, 16, 24, 32])),
            dst,
            protocol: draw.of(&[None, None, Some(TCP), Some(UDP), Some(ICMP), Some(47)]),
            translates: draw.percent(50),
        }
    }

    fn of(self, src: Prefix) -> Self {
        Self { src, ..self }
    }
}

/// The address of a prefix of IPv4 with this number, or its last one.
fn nth(prefix: Prefix, number: usize) -> IpAddr {
    let IpAddr::V4(first) = prefix.address else { return prefix.address };
    let last = (prefix.addresses() - 1).min(number as u128) as u32;
    IpAddr::V4((first.to_bits() + last).into())
}

/// Gives translators rules in the place of keys.
pub(crate) fn put(draw: &mut Draw, specs: &mut [Spec]) {
    for place in 0..specs.len() {
        if let Naive::Second(first, _) = specs[place].naive {
            let Spec { table, files, naive, .. } = specs[first].clone();
            let own = Box::new(naive.whole().clone());
            specs[place].naive = Naive::Second(first, own);
            (specs[place].table, specs[place].files) = (table, files);
            continue;
        }
        let spec = &mut specs[place];
        let config = match &mut spec.naive {
            Naive::Nat(config) => config,
            Naive::First(own) => match &mut **own {
                Naive::Nat(config) => config,
                _ => continue,
            },
            _ => continue,
        };
        config.outside.retain(Prefix::is_v4);
        let outside = config.outside[0];
        config.rules = NatRules::draw(draw, outside);
        config.inside = config.rules.inside();
        let range = (outside.address, nth(outside, usize::MAX));
        let text = match draw.percent(50) {
            true => config.rules.iptables(range, config.ports),
            false => config.rules.nft(range, config.ports),
        };
        let of_rules = |line: &&str| {
            !["inside ", "outside ", "ports ", "mapping "].iter().any(|key| line.starts_with(key))
        };
        let kept: Vec<&str> = spec.table.lines().filter(of_rules).collect();
        let mapping = match config.mapping {
            bindings::Dependence::Nothing => "endpoint-independent",
            bindings::Dependence::Address => "address-dependent",
            bindings::Dependence::AddressAndPort => "address-and-port-dependent",
        };
        let name = format!("nat-{place}");
        spec.table = format!("rules = '{name}'\nmapping = '{mapping}'\n{}\n", kept.join("\n"));
        spec.files.push((name, text));
    }
}

/// Adds packets from outside to forwarded ports, some in fragments.
pub(crate) fn add(draw: &mut Draw, frames: &mut Vec<Frame>, specs: &[Spec]) {
    let forwards = |spec: &Spec| match spec.naive.whole() {
        Naive::Nat(config) => config.rules.forwards.clone(),
        _ => Vec::new(),
    };
    let all: Vec<Forward> = specs.iter().flat_map(forwards).collect();
    if all.is_empty() || frames.is_empty() {
        return;
    }
    for _ in 0..draw.below(60) {
        let to = draw.of(&all);
        let port = to.ports.0 + draw.below(usize::from(to.ports.1 - to.ports.0) + 2) as u16;
        let (from, len) = (draw.of(&[53, 1024, 1024, 2000]), draw.below(40));
        let payload = draw.bytes(len);
        let body = match to.protocol {
            TCP => {
                let flags = draw.of(&[0x02, 0x02, 0x02, 0x10, 0x18, 0x11, 0x12, 0x04]);
                tcp(from, port, flags, &Numbers::PLAIN, &payload)
            }
            _ => udp(from, port, &payload),
        };
        let (src, ident) = (address(4, [198, 51, 100], 1 + draw.below(3) as u16), draw.word());
        let packet = Packet {
            src,
            dst: to.outside,
            ttl: 60,
            class: 0,
            ident: ident as u16,
            protocol: to.protocol,
            options: None,
            body,
        };
        let packet = packet.with_checksum();
        let pieces = match draw.percent(10) {
            true => packet.fragments(24),
            false => vec![packet.bytes()],
        };
        let at = draw.below(frames.len());
        insert_after(frames, at, &pieces);
    }
}
