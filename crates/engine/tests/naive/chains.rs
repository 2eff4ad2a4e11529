//! Random chains: the configuration of each function, as a table of a chain file with its files and
//! as the naive function.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::balanced::{self, Mode};
use crate::balancer::Balancer;
use crate::bindings::{self, Dependence};
use crate::chains_balancer::load_balancer;
use crate::chains_firewall::{firewall, firewall_by_ways};
use crate::digest::{Digest, OnDuplicate};
use crate::draw::{Draw, address};
use crate::firewall::{self, Firewall};
use crate::flows::{self, Monitor};
use crate::function::Function;
use crate::ipcomp::{self, Ipcomp};
use crate::ipsec::{self, Stand};
use crate::nat::Nat;
use crate::nat_rules::NatRules;
use crate::nids::{self, Nids};
use crate::prefix::Prefix;
use crate::router::{self, Router, Target};
use crate::rules::{self, PORTS};
use crate::second::{At, Second};

/// A function with its table, its files and its naive counterpart.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) function: &'static str,
    pub(crate) table: String,
    pub(crate) files: Vec<(String, String)>,
    pub(crate) naive: Naive,
}

/// Configuration of the naive function.
#[derive(Clone, Debug)]
pub(crate) enum Naive {
    Router(router::Config),
    Firewall(firewall::Config),
    Digest(OnDuplicate, usize),
    Nat(bindings::Config),
    Ipsec(Box<ipsec::Config>),
    Nids(Vec<nids::Rule>),
    Balancer(balanced::Config),
    Ipcomp(ipcomp::End),
    Monitor(flows::Config),
    /// At the first of two places.
    First(Box<Self>),
    /// At the second; with the number of the first.
    Second(usize, Box<Self>),
}

impl Spec {
    /// Whether the naive function needs to see what the engine's chose.
    pub(crate) fn is_spied_on(&self) -> bool {
        match &self.naive {
            Naive::Nat(_) | Naive::Balancer(_) | Naive::Ipcomp(ipcomp::End::Compress { .. }) => {
                true
            }
            Naive::First(own) => matches!(**own, Naive::Nat(_) | Naive::Balancer(_)),
            // The source of a tunnel, and streams.
            Naive::Second(_, own) => self.tunnels() || matches!(**own, Naive::Ipcomp(_)),
            _ => false,
        }
    }
}

impl Spec {
    /// Whether packets leave it with other addresses than they came with.
    pub(crate) fn moves_addresses(&self) -> bool {
        matches!(self.naive.whole(), Naive::Nat(_) | Naive::Balancer(_) | Naive::Ipsec(_))
    }

    /// Whether what leaves it is carried in other packets.
    pub(crate) fn tunnels(&self) -> bool {
        matches!(self.naive.whole(), Naive::Balancer(own) if matches!(own.mode, Mode::Ipip(..)))
    }
}

/// Whether packets that a router would send back are dropped: a firewall asked, before any router,
/// where they leave.
pub(crate) fn drops_hairpins(specs: &[Spec]) -> bool {
    let before = specs.iter().take_while(|spec| !matches!(spec.naive, Naive::Router(_)));
    let mut before = before.filter_map(|spec| match &spec.naive {
        Naive::Firewall(config) => Some(config),
        _ => None,
    });
    // A rule of which no file has a line asks nothing.
    let asks = |rule: &rules::Rule| {
        rule.ways[1].is_some() && [4, 6].iter().any(|&version| rule.iptables(version).is_some())
    };
    before.any(|config| config.rules.iter().any(asks))
}

impl Naive {
    /// The function, whichever of its places this is.
    pub(crate) fn whole(&self) -> &Self {
        match self {
            Self::First(whole) | Self::Second(_, whole) => whole,
            whole => whole,
        }
    }

    /// The function at `place` of a chain, which may have one shard.
    pub(crate) fn build(&self, place: usize, is_whole: bool) -> Box<dyn Function> {
        let of = |config: &bindings::Config| bindings::Config { is_whole, ..config.clone() };
        if let Self::First(whole) = self {
            return match &**whole {
                Self::Nat(config) => Box::new(Nat::new(of(config), At::First(place))),
                Self::Balancer(config) => Box::new(Balancer::new(config.clone(), At::First(place))),
                Self::Router(config) => Box::new(Router::new(config.clone())),
                Self::Ipcomp(both) => Box::new(Ipcomp::at(both.clone(), false)),
                Self::Ipsec(config) => {
                    Box::new(ipsec::Gateway::new((**config).clone(), Stand::First(place)))
                }
                other => panic!("{other:?} has one place"),
            };
        }
        match self.clone() {
            Self::Router(config) => Box::new(Router::new(config)),
            Self::Firewall(config) => Box::new(Firewall::new(config)),
            Self::Digest(on_duplicate, min_len) => Box::new(Digest::new(on_duplicate, min_len)),
            Self::Nat(config) => Box::new(Nat::new(of(&config), At::Only)),
            Self::Ipsec(config) => Box::new(ipsec::Gateway::new(*config, Stand::Only)),
            Self::Nids(rules) => Box::new(Nids::new(rules)),
            Self::Balancer(config) => Box::new(Balancer::new(config, At::Only)),
            Self::Ipcomp(end) => Box::new(Ipcomp::new(end)),
            Self::Monitor(config) => Box::new(Monitor::new(config)),
            Self::Second(first, own) => match *own {
                Self::Router(config) => Box::new(Router::second(config)),
                Self::Ipcomp(both) => Box::new(Ipcomp::at(both, true)),
                Self::Ipsec(config) => Box::new(ipsec::Gateway::new(*config, Stand::Second(first))),
                _ => Box::new(Second::new(first)),
            },
            Self::First(_) => unreachable!("it was built"),
        }
    }
}

/// One to five functions.
pub(crate) fn chain(seed: u64, has_ports: bool) -> Vec<Spec> {
    let mut draw = Draw::new(seed);
    let len = draw.of(&[1, 1, 2, 2, 3, 4, 5]);
    let mut specs = Vec::new();
    while specs.len() < len {
        let place = specs.len();
        if draw.percent(12) {
            let between = draw.below(2);
            let [one, other] = ipsec::draw::gateways(&mut draw, [place, place + 1 + between]);
            specs.push(one);
            for _ in 0..between {
                let next = spec(&mut draw, place + 1, &specs, has_ports);
                specs.push(next);
            }
            specs.push(other);
        } else {
            let next = spec(&mut draw, place, &specs, has_ports);
            specs.push(next);
        }
    }
    keep_together(&mut specs);
    flows::draw::divide(&mut specs);
    // Others stay as they were.
    if seed % 4 == 1 {
        nids::draw::refuse(&mut Draw::new(!seed), &mut specs);
    }
    for spec in &mut specs {
        if let Naive::Ipsec(config) = &mut spec.naive {
            config.is_inside = has_ports;
        }
    }
    specs
}

/// If gateways divide state, conversations and packets that earlier functions change may be in
/// other shards than their state (see the gateway's manual). Such chains get a function that keeps
/// everything in one shard.
pub(crate) fn keep_together(specs: &mut Vec<Spec>) {
    let has_gateway = specs.iter().any(|spec| matches!(spec.naive.whole(), Naive::Ipsec(_)));
    let may_part = |spec: &Spec| match &spec.naive {
        Naive::Firewall(config) => config.tracking.is_some(),
        Naive::Router(_) | Naive::Digest(..) | Naive::Ipsec(_) | Naive::Nids(_) => false,
        Naive::Second(..) => false,
        Naive::First(own) => match &**own {
            // Packets of an SA without selectors may be for another peer.
            Naive::Ipsec(config) => config.carries_any(),
            _ => true,
        },
        _ => true,
    };
    if has_gateway && specs.iter().any(may_part) {
        specs.push(digest_of(OnDuplicate::Drop, 100));
    }
}

/// The next function after `before`.
pub(crate) fn spec(draw: &mut Draw, place: usize, before: &[Spec], has_ports: bool) -> Spec {
    let rewritten = before.iter().any(Spec::moves_addresses);
    if has_ports && draw.percent(30) {
        return firewall_by_ways(draw, place);
    }
    if has_ports && draw.percent(30) {
        return router(draw, place, true);
    }
    match draw.below(19) {
        0 | 1 => router(draw, place, has_ports),
        // Packets in tunnels are steered by their inner headers, so those of one pair of tunnel
        // ends have several states.
        2 | 3 => firewall(draw, place, !before.iter().any(Spec::tunnels)),
        4 | 5 => nat(draw),
        6 | 7 => ipsec::draw::gateway(draw, place),
        8 | 9 => nids::draw::nids(draw, place),
        10 | 11 => load_balancer(draw, place, rewritten),
        12..15 => ipcomp::draw::ipcomp(draw),
        15..18 => flows::draw::flow_monitor(draw, place),
        _ => digest(draw),
    }
}

/// Each with a key of the table of a chain file.
const DEPENDENCE: [(Dependence, &str); 3] = [
    (Dependence::Nothing, "endpoint-independent"),
    (Dependence::Address, "address-dependent"),
    (Dependence::AddressAndPort, "address-and-port-dependent"),
];

pub(crate) fn nat(draw: &mut Draw) -> Spec {
    let prefix = |text: &str, len| Prefix::of(text.parse().expect("an address"), len);
    let (mut inside, mut outside) = (
        vec![draw.of(&[prefix("10.0.0.0", 8), prefix("10.1.0.0", 24)])],
        vec![draw.of(&[
            prefix("192.0.2.100", 30),
            prefix("192.0.2.100", 32),
            prefix("198.18.0.0", 16),
            prefix("100.64.0.0", 10),
        ])],
    );
    if draw.percent(50) {
        inside.push(prefix("2001:db8:a01::", 48));
        outside.push(prefix("2001:db8:99::", draw.of(&[126, 127, 96, 64])));
    }
    let ((mapping, mapping_name), (filtering, filtering_name)) =
        (draw.of(&DEPENDENCE), draw.of(&DEPENDENCE));
    let config = bindings::Config {
        inside,
        outside,
        ports: draw.of(&[(1024, 65_535), (40_000, 50_001)]),
        mapping,
        filtering,
        per_source_max: draw.of(&[0, 0, 0, 2, 4]),
        timeouts: [0; 7].map(|_| 1 + draw.below(14) as u64),
        inbound_refresh: draw.percent(40),
        rules: NatRules::default(),
        is_whole: false,
    };
    let list = |all: &[Prefix]| all.iter().map(|p| format!("'{p}'")).collect::<Vec<_>>().join(", ");
    let [udp, established, transitory, echo, unanswered, short, other] = config.timeouts;
    let table = format!(
        "inside = [{}]\noutside = [{}]\nports = '{}-{}'\nmapping = '{mapping_name}'\n\
         filtering = '{filtering_name}'\nbindings = 8192\n\
         remotes = 64\nper_source_max = {}\nshort_timeouts = true\nudp_timeout_s = {udp}\n\
         tcp_established_timeout_s = {established}\ntcp_transitory_timeout_s = {transitory}\n\
         icmp_timeout_s = {echo}\nudp_unanswered_timeout_s = {unanswered}\n\
         udp_short_timeout_s = {short}\nother_timeout_s = {other}\ninbound_refresh = {}\n",
        list(&config.inside),
        list(&config.outside),
        config.ports.0,
        config.ports.1,
        config.per_source_max,
        config.inbound_refresh,
    );
    Spec { function: "nat", table, files: Vec::new(), naive: Naive::Nat(config) }
}

fn digest(draw: &mut Draw) -> Spec {
    let min_len = draw.of(&[1, 8, 32, 64, 100]);
    let dscp = draw.below(64) as u8;
    let on_duplicate = draw.of(&[OnDuplicate::Count, OnDuplicate::Tag(dscp), OnDuplicate::Drop]);
    digest_of(on_duplicate, min_len)
}

fn digest_of(on_duplicate: OnDuplicate, min_len: usize) -> Spec {
    let table = match on_duplicate {
        OnDuplicate::Count => "on_duplicate = 'count'\n".to_owned(),
        OnDuplicate::Tag(dscp) => format!("on_duplicate = 'tag'\ntag_dscp = {dscp}\n"),
        OnDuplicate::Drop => "on_duplicate = 'drop'\n".to_owned(),
    };
    let table = format!("{table}min_len = {min_len}\n");
    let naive = Naive::Digest(on_duplicate, min_len);
    Spec { function: "digest", table, files: Vec::new(), naive }
}

pub(crate) fn router(draw: &mut Draw, place: usize, has_ports: bool) -> Spec {
    let hops: Vec<_> =
        [4, 6].iter().flat_map(|&v| (1..4).map(move |n| address(v, [192, 0, 2], n))).collect();
    let mut routes = BTreeMap::new();
    for _ in 0..1 + draw.below(12) {
        let version = draw.version();
        let target = match draw.below(12) {
            0 => Target::Blackhole,
            1 => Target::Unreachable,
            2 => Target::Prohibit,
            3 | 4 => Target::Direct,
            _ => Target::Via(draw.of(&hops)),
        };
        routes.insert(draw.prefix(version), target);
    }
    let routes: Vec<_> = routes.into_iter().collect();
    let neighbours = draw.percent(60).then(|| {
        let mut all: BTreeMap<_, [u8; 6]> = BTreeMap::new();
        for _ in 0..1 + draw.below(12) {
            let version = draw.version();
            let host = if draw.percent(50) { draw.outside(version) } else { draw.of(&hops) };
            let host = if draw.percent(20) { draw.inside(version) } else { host };
            all.insert(host, [2, 0, 0, 0, 1, draw.below(5) as u8]);
        }
        all.retain(|host, _| !host.is_multicast() && !host.is_unspecified());
        ([2, 0, 0, 0, 0, 99], all.into_iter().collect::<Vec<_>>())
    });
    let neighbours = neighbours.filter(|(_, all)| !all.is_empty());
    // A packet becomes 16 at most, and every function that answers doubles it.
    let icmp = (place < 4 && draw.percent(60))
        .then(|| draw.of(&[(true, true), (true, false), (false, true)]));
    let icmp = icmp.map(|(v4, v6)| {
        let v4 = v4.then(|| "192.0.2.254".parse().expect("IPv4"));
        (v4, v6.then(|| "2001:db8::fe".parse().expect("IPv6")))
    });
    let allowed = [
        "martian-source",
        "martian-destination",
        "multicast",
        "link-broadcast",
        "bad-checksum",
        "bad-options",
        "source-route",
        "directed-broadcast",
    ];
    let allowed = allowed.into_iter().filter(|_| draw.percent(25)).collect();
    let mut ports = BTreeMap::new();
    for (prefix, target) in &routes {
        if has_ports && matches!(target, Target::Via(_) | Target::Direct) && draw.percent(50) {
            ports.insert(*prefix, draw.below(2) as u16);
        }
    }
    router_spec(router::Config { routes, neighbours, icmp, ports, allowed }, place)
}

pub(crate) fn router_spec(config: router::Config, place: usize) -> Spec {
    let (routes, neighbours) = (format!("routes-{place}"), format!("neighbours-{place}"));
    let mut table = format!("routes = '{routes}'\n");
    let mut text = String::new();
    for (prefix, target) in &config.routes {
        let dev = config.ports.get(prefix);
        let dev = dev.map_or(String::new(), |&port| format!(" dev {}", PORTS[usize::from(port)]));
        let _ = match target {
            Target::Via(hop) if hop.is_ipv4() == prefix.address.is_ipv4() => {
                writeln!(text, "{prefix} {hop}{dev}")
            }
            Target::Via(hop) => writeln!(
                text,
                "{prefix} via {} {hop}{dev}",
                if hop.is_ipv4() { "inet" } else { "inet6" }
            ),
            Target::Direct => writeln!(text, "{prefix} direct{dev}"),
            Target::Blackhole => writeln!(text, "blackhole {prefix}"),
            Target::Unreachable => writeln!(text, "unreachable {prefix}"),
            Target::Prohibit => writeln!(text, "prohibit {prefix}"),
        };
    }
    let mut files = vec![(routes, text)];
    if let Some((own, all)) = &config.neighbours {
        let _ = writeln!(table, "neighbours = '{neighbours}'\nmac = '{}'", mac(own));
        let lines = all.iter().map(|(host, to)| format!("{host} {}\n", mac(to)));
        files.push((neighbours, lines.collect()));
    }
    for why in &config.allowed {
        table += &format!("{} = 'forward'\n", why.replace('-', "_"));
    }
    if let Some((v4, v6)) = config.icmp {
        table += "icmp = 'on'\nicmp_rate_pps = 100000\n";
        v4.iter().for_each(|src| table += &format!("icmp_src_v4 = '{src}'\n"));
        v6.iter().for_each(|src| table += &format!("icmp_src_v6 = '{src}'\n"));
    }
    Spec { function: "router", table, files, naive: Naive::Router(config) }
}

pub(crate) fn mac(bytes: &[u8; 6]) -> String {
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}
