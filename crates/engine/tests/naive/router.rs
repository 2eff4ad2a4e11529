//! The router, from its manual: the longest prefix by looking at all of them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::function::{Counters, Fate, Function};
use crate::prefix::Prefix;
use crate::router_checks::{forbidden, objections};
use crate::router_errors::error;
use crate::sums::mend;
use crate::wire::{Frame, View, link, view};

/// Where a route leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Via(IpAddr),
    Direct,
    Blackhole,
    Unreachable,
    Prohibit,
}

pub(crate) type Mac = [u8; 6];

/// The router's own Ethernet address, and its neighbours'.
pub(crate) type Neighbours = (Mac, Vec<(IpAddr, Mac)>);

/// Configuration of a router.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    pub(crate) routes: Vec<(Prefix, Target)>,
    pub(crate) neighbours: Option<Neighbours>,
    /// The addresses that ICMP errors come from.
    pub(crate) icmp: Option<(Option<Ipv4Addr>, Option<Ipv6Addr>)>,
    /// The port that a route names.
    pub(crate) ports: BTreeMap<Prefix, u16>,
    /// Reasons for which nothing is dropped.
    pub(crate) allowed: Vec<&'static str>,
}

/// The function.
pub(crate) struct Router {
    config: Config,
    /// At the second of two places.
    is_second: bool,
    sent: u64,
    withheld: u64,
}

/// The last address of a connected prefix of IPv4, which means every host of it.
fn last(prefix: &Prefix) -> Option<IpAddr> {
    match prefix.address {
        IpAddr::V4(a) if (1..31).contains(&prefix.len) => {
            Some(IpAddr::from((u32::from(a) | ((1 << (32 - prefix.len)) - 1)).to_be_bytes()))
        }
        _ => None,
    }
}

impl Router {
    /// Routes to fe80::/10, or a part of it, are left out: no router forwards there (RFC 4291,
    /// 2.5.6).
    pub(crate) fn new(mut config: Config) -> Self {
        let link_local =
            Prefix { address: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0).into(), len: 10 };
        config.routes.retain(|(to, _)| to.len < 10 || !link_local.holds(to.address));
        Self { config, is_second: false, sent: 0, withheld: 0 }
    }

    /// At its second place, which routes packets with outer headers.
    pub(crate) fn second(config: Config) -> Self {
        Self { is_second: true, ..Self::new(config) }
    }

    fn longest(&self, dst: IpAddr) -> Option<Target> {
        let fits = self.config.routes.iter().filter(|(prefix, _)| prefix.holds(dst));
        fits.max_by_key(|(prefix, _)| prefix.len).map(|&(_, target)| target)
    }

    /// The port that packets to `dst` leave by, if their route names one.
    fn port(&self, dst: IpAddr) -> Option<u16> {
        let is_held = |to: &&(Prefix, Target)| to.0.holds(dst);
        let routes = &self.config.routes;
        let (prefix, target) = routes.iter().filter(is_held).max_by_key(|(to, _)| to.len)?;
        let own = |prefix: &Prefix| self.config.ports.get(prefix).copied();
        match target {
            Target::Via(hop) => own(prefix).or_else(|| {
                let direct = routes.iter().filter(|(_, target)| *target == Target::Direct);
                let links = direct.filter(|(to, _)| to.holds(*hop) && own(to).is_some());
                links.max_by_key(|(to, _)| to.len).and_then(|(to, _)| own(to))
            }),
            _ => own(prefix),
        }
    }

    /// The port of a link, for packets to all of its hosts that have the address of none.
    fn port_of_link(&self, dst: IpAddr) -> Option<u16> {
        let direct = self.config.routes.iter().filter(|(_, target)| *target == Target::Direct);
        let links = direct.filter(|(to, _)| last(to) == Some(dst));
        let links = links.filter_map(|(to, _)| Some((to.len, *self.config.ports.get(to)?)));
        links.max().map(|(_, port)| port)
    }

    fn mac_of(&self, hop: IpAddr) -> Result<Option<Mac>, &'static str> {
        let Some((_, neighbours)) = &self.config.neighbours else { return Ok(None) };
        let found = neighbours.iter().find(|(address, _)| *address == hop);
        found.map(|&(_, mac)| Some(mac)).ok_or("no-neighbour")
    }

    fn is_allowed(&self, why: &str) -> bool {
        self.config.allowed.contains(&why)
    }

    /// Whether an address means every host of a connected prefix, and no route leads to it alone.
    fn is_broadcast(&self, address: IpAddr) -> bool {
        let routes = &self.config.routes;
        routes.iter().any(|(to, target)| *target == Target::Direct && last(to) == Some(address))
    }

    fn is_host_route(&self, address: IpAddr) -> bool {
        let routes = &self.config.routes;
        routes.iter().any(|(to, _)| to.len == 32 && to.address == address && address.is_ipv4())
    }

    /// The fate of a destination that no table can change.
    fn forbids(&self, dst: IpAddr) -> Result<Option<Mac>, &'static str> {
        if let Some(why) = forbidden(dst).filter(|why| !self.is_allowed(why)) {
            return Err(why);
        }
        if !self.is_broadcast(dst) || self.is_host_route(dst) {
            return Ok(None);
        }
        if !self.is_allowed("directed-broadcast") {
            return Err("directed-broadcast");
        }
        Ok(self.config.neighbours.as_ref().map(|_| [0xff; 6]))
    }

    /// The Ethernet address of the next hop, where one is to be written, or why there is none.
    fn next(&self, dst: IpAddr) -> Result<Option<Mac>, &'static str> {
        if let Some(mac) = self.forbids(dst)? {
            return Ok(Some(mac));
        }
        match self.longest(dst).ok_or("no-route")? {
            Target::Via(hop) => self.mac_of(hop),
            Target::Direct => self.mac_of(dst),
            Target::Blackhole => Err("blackhole"),
            Target::Unreachable => Err("unreachable"),
            Target::Prohibit => Err("prohibited"),
        }
    }

    fn route(&self, frame: &mut Frame, view: &View) -> Result<(), &'static str> {
        if view.version == 0 {
            return Err(if view.cut { "snapped" } else { "non-ip" });
        }
        let against = objections(frame, view).into_iter().find(|why| !self.is_allowed(why));
        if let Some(why) = against {
            return Err(why);
        }
        let mac = self.next(view.addresses(&frame.bytes).1)?;
        if !self.is_second && !decrement(frame, view) {
            return Err("ttl-exceeded");
        }
        let dst = view.addresses(&frame.bytes).1;
        let is_to_link = self.forbids(dst).is_ok_and(|mac| mac.is_some());
        frame.out = if is_to_link { self.port_of_link(dst) } else { self.port(dst) };
        if let (Some(to), Some((own, _)), link::ETHERNET) =
            (mac, &self.config.neighbours, frame.link)
        {
            frame.bytes[..6].copy_from_slice(&to);
            frame.bytes[6..12].copy_from_slice(own);
        }
        Ok(())
    }

    fn answer(&mut self, why: &str, frame: &Frame, view: &View, back: &mut Vec<Frame>) {
        let (Some((v4, v6)), Some(message)) = (self.config.icmp, message(why, view.version)) else {
            return;
        };
        let src = if view.version == 4 { v4.map(IpAddr::V4) } else { v6.map(IpAddr::V6) };
        let (from, to) = view.addresses(&frame.bytes);
        // RFC 1812, 4.3.2.7.
        let silent = !objections(frame, view).is_empty()
            || forbidden(to).is_some()
            || self.is_broadcast(from)
            || self.is_broadcast(to)
            // An answer would show what a function hides.
            || frame.closed;
        match src.filter(|_| !silent).and_then(|src| error(frame, view, src, message)) {
            Some(error) => {
                self.sent += 1;
                back.push(error);
            }
            None => self.withheld += 1,
        }
    }
}

impl Function for Router {
    fn take(&mut self, frame: &mut Frame, _: Option<&[u8]>, back: &mut Vec<Frame>) -> Fate {
        if self.is_second && !frame.wrapped {
            return Fate::Forward;
        }
        let view = view(frame);
        if let Some(what) = view.lie {
            return Fate::Malformed(what);
        }
        match self.route(frame, &view) {
            Ok(()) => Fate::Forward,
            Err(why) => {
                self.answer(why, frame, &view, back);
                Fate::Drop(why)
            }
        }
    }

    fn takes_answers(&self) -> bool {
        self.is_second
    }

    fn counters(&self, _: u64) -> Counters {
        let icmp =
            [("icmp-sent", self.sent), ("icmp-withheld", self.withheld), ("icmp-rate-limited", 0)];
        let all = icmp.map(|(name, count)| (name, (count, count)));
        if self.config.icmp.is_some() { all.into() } else { Counters::new() }
    }
}

/// Type and code of the ICMP error about a drop, of IPv4 or IPv6.
fn message(why: &str, version: u8) -> Option<(u8, u8)> {
    let (v4, v6) = match why {
        "no-route" => ((3, 0), (1, 0)),
        "ttl-exceeded" => ((11, 0), (3, 0)),
        "unreachable" | "no-neighbour" => ((3, 1), (1, 3)),
        "prohibited" => ((3, 13), (1, 1)),
        _ => return None,
    };
    Some(if version == 4 { v4 } else { v6 })
}

/// Takes one off the TTL, where more than one is left.
fn decrement(frame: &mut Frame, view: &View) -> bool {
    let at = view.l3 + if view.version == 4 { 8 } else { 7 };
    let ttl = frame.bytes[at];
    if ttl <= 1 {
        return false;
    }
    frame.bytes[at] = ttl - 1;
    if view.version == 4 {
        let protocol = frame.bytes[at + 1];
        mend(&mut frame.bytes, view.l3 + 10, &[ttl, protocol], &[ttl - 1, protocol]);
    }
    true
}
