//! Random load balancers: hosts that traffic goes to are VIPs, and others serve them.

use std::fmt::Write;
use std::net::IpAddr;

use crate::balanced::{Backend, Config, Mode, Service};
use crate::chains::{Naive, Spec, mac};
use crate::draw::{Draw, address};
use crate::prefix::Prefix;
use crate::wire::{TCP, UDP};

const OWN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x77];

/// A load balancer; `rewritten` where packets have other addresses than they came with.
pub(crate) fn load_balancer(draw: &mut Draw, place: usize, rewritten: bool) -> Spec {
    let mode = match draw.below(6) {
        0 => Mode::Ipip(None, None),
        1 => Mode::Ipip(
            Some([192, 0, 2, 77].into()),
            Some("2001:db8::77".parse().expect("an address")),
        ),
        2 => Mode::Mac(OWN_MAC),
        _ => Mode::Dnat,
    };
    let is_dnat = matches!(mode, Mode::Dnat);
    let mut per_source_max = draw.of(&[0, 0, 0, 1, 1, 3]);
    // The limit counts by shard. Without DNAT, a pair of addresses has one shard. After a
    // translator the shard is the host's, although many hosts share an outside address.
    if rewritten {
        per_source_max = 0;
    }
    let vips = vips(draw, per_source_max > 0 && !is_dnat);
    // If a packet has two reasons to be dropped, its reason depends on the backend that it doesn't
    // get.
    let shares = per_source_max == 0;
    let services: Vec<Service> = services(draw, &mode, &vips, shares);
    let timeouts = [0; 3].map(|_| 1 + draw.below(14) as u64);
    let (addresses, named) = addresses(draw, &services);
    let drops_others = draw.percent(25);
    let config = Config { mode, services, addresses, per_source_max, drops_others, timeouts };
    let name = format!("services-{place}");
    let table = table(&config, &name, named);
    let files = vec![(name, file(&config))];
    Spec { function: "load_balancer", table, files, naive: Naive::Balancer(config) }
}

fn vips(draw: &mut Draw, one: bool) -> Vec<IpAddr> {
    let count = if one { 1 } else { 1 + draw.below(12) };
    let nets = [[198, 51, 100], [198, 51, 101], [203, 0, 113]];
    let mut all = Vec::new();
    for version in [4, 6] {
        for _ in 0..count {
            let (net, hosts) = if draw.percent(40) { (nets[0], 2) } else { (draw.of(&nets), 5) };
            all.push(address(version, net, 1 + draw.below(hosts) as u16));
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Of each VIP one or two: of TCP and UDP, or of other ports.
fn services(draw: &mut Draw, mode: &Mode, vips: &[IpAddr], shares: bool) -> Vec<Service> {
    let mut all = Vec::new();
    for (number, &address) in vips.iter().enumerate() {
        let mut ports = vec![53, 80, 443, 2000];
        ports.truncate(1 + draw.below(4));
        for protocol in draw.of(&[&[TCP][..], &[UDP], &[TCP, UDP], &[TCP, UDP]]) {
            let backends = backends(draw, mode, address, vips, (!shares).then_some(number));
            all.push(Service { address, protocol: *protocol, ports: ports.clone(), backends });
        }
    }
    all
}

/// Where they are `apart`, those of VIPs with other numbers have other addresses, and none are
/// others' to another port.
fn backends(
    draw: &mut Draw,
    mode: &Mode,
    vip: IpAddr,
    vips: &[IpAddr],
    apart: Option<usize>,
) -> Vec<Backend> {
    let (is_dnat, is_v4) = (matches!(mode, Mode::Dnat), vip.is_ipv4());
    let mut all: Vec<Backend> = Vec::new();
    for _ in 0..draw.below(5) {
        // IPv4 goes through IPv6 as well.
        let version = match (mode, is_v4) {
            (_, false) => 6,
            (Mode::Dnat, true) => 4,
            (_, true) => draw.of(&[4, 4, 6]),
        };
        let host = draw.of(&[0, 0, 0, 1, 2, 3]);
        let mut address = address(version, [192, 0, 2], 10 + 5 * apart.unwrap_or(0) as u16 + host);
        if apart.is_none() && draw.percent(20) {
            address = if draw.percent(50) { draw.inside(version) } else { draw.outside(version) };
        }
        let is_taken = vips.contains(&address) || all.iter().any(|own| own.address == address);
        if is_taken || !is_host(address) {
            continue;
        }
        // With a port of its own it is the same to all ports of the VIP.
        let port = (is_dnat && apart.is_none() && draw.percent(50)).then_some(8080);
        let weight = draw.of(&[0, 1, 1, 2, 3]);
        all.push(Backend { address, port, weight, mac: [2, 0, 0, 0, 5, all.len() as u8] });
    }
    all
}

fn is_host(address: IpAddr) -> bool {
    let broadcast = address == IpAddr::V4(std::net::Ipv4Addr::BROADCAST);
    !address.is_multicast() && !address.is_unspecified() && !broadcast
}

/// Prefixes that hold VIPs and backends, and whether they are named.
fn addresses(draw: &mut Draw, services: &[Service]) -> (Vec<Prefix>, bool) {
    let backends = services.iter().flat_map(|own| own.backends.iter().map(|own| own.address));
    let hosts = services.iter().map(|own| own.address).chain(backends);
    let named = draw.percent(30);
    let prefix = |host: IpAddr| match (named, host) {
        (true, IpAddr::V4(_)) => Prefix::of(host, 29),
        (true, IpAddr::V6(_)) => Prefix::of(host, 125),
        (false, IpAddr::V4(_)) => Prefix::of(host, 32),
        (false, IpAddr::V6(_)) => Prefix::of(host, 128),
    };
    (hosts.map(prefix).collect(), named)
}

fn table(config: &Config, name: &str, named: bool) -> String {
    let [open, transitory, datagrams] = config.timeouts;
    let mut table = format!(
        "services = '{name}'\ntable_size = 251\nconnections = 8192\nper_source_max = {}\n\
         no_vip = '{}'\ntcp_timeout_s \
         = {open}\n\
         tcp_transitory_timeout_s = {transitory}\nudp_timeout_s = {datagrams}\n",
        config.per_source_max,
        if config.drops_others { "drop" } else { "forward" },
    );
    let _ = match &config.mode {
        Mode::Dnat if named => {
            let all: Vec<_> = config.addresses.iter().map(|p| format!("'{p}'")).collect();
            writeln!(table, "addresses = [{}]", all.join(", "))
        }
        Mode::Dnat => Ok(()),
        Mode::Ipip(v4, v6) => {
            v4.iter().for_each(|src| table += &format!("tunnel_src_v4 = '{src}'\n"));
            v6.iter().for_each(|src| table += &format!("tunnel_src_v6 = '{src}'\n"));
            writeln!(table, "mode = 'ipip'")
        }
        Mode::Mac(own) => writeln!(table, "mode = 'mac'\nmac = '{}'", mac(own)),
    };
    table
}

fn file(config: &Config) -> String {
    let mut text = String::new();
    for service in &config.services {
        let ports: Vec<_> = service.ports.iter().map(u16::to_string).collect();
        let protocol = if service.protocol == TCP { "tcp" } else { "udp" };
        let _ = writeln!(text, "vip {} {protocol} {}", service.address, ports.join(","));
        for backend in &service.backends {
            let _ = write!(text, "  backend {} weight {}", backend.address, backend.weight);
            backend.port.iter().for_each(|port| text += &format!(" port {port}"));
            if matches!(config.mode, Mode::Mac(_)) {
                text += &format!(" mac {}", mac(&backend.mac));
            }
            text.push('\n');
        }
    }
    text
}
