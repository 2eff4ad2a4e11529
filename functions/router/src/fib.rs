//! The forwarding tables of both families, and what to do for each next hop.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use warpline_packet::{Prefix, Reason};

use super::checks::Checks;
use super::dir24_8::Rule4;
use super::fib4::Fib4;
use super::poptrie::{Poptrie, Rule6};
use super::routes::{HOPS_MAX, Route, Routes, Target};
use warpline_rule_files::neighbours::{Mac, Neighbours};

/// Places of the drop reasons in [`super::DROPS`].
pub(super) mod reason {
    use super::Reason;
    pub(crate) const NO_ROUTE: Reason = Reason(0);
    pub(crate) const TTL_EXCEEDED: Reason = Reason(1);
    pub(crate) const NON_IP: Reason = Reason(2);
    pub(crate) const SNAPPED: Reason = Reason(3);
    pub(crate) const BLACKHOLE: Reason = Reason(4);
    pub(crate) const UNREACHABLE: Reason = Reason(5);
    pub(crate) const PROHIBITED: Reason = Reason(6);
    pub(crate) const NO_NEIGHBOUR: Reason = Reason(7);
    pub(crate) const UNSUPPORTED_ROUTE: Reason = Reason(8);
    pub(crate) const MARTIAN_SOURCE: Reason = Reason(9);
    pub(crate) const MARTIAN_DESTINATION: Reason = Reason(10);
    pub(crate) const MULTICAST: Reason = Reason(11);
    pub(crate) const FRAME_TO_MANY: Reason = Reason(12);
    pub(crate) const BAD_CHECKSUM: Reason = Reason(13);
    pub(crate) const BAD_OPTIONS: Reason = Reason(14);
    pub(crate) const SOURCE_ROUTE: Reason = Reason(15);
    pub(crate) const DIRECTED_BROADCAST: Reason = Reason(16);
}

/// The treatment of the packets of a next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// They go on; their Ethernet addresses stay.
    Forward,
    /// They go on, to this Ethernet address.
    Rewrite(Mac),
    /// They are dropped.
    Drop(Reason),
}

/// The tables, built once.
pub(super) struct Fib {
    pub(super) v4: Fib4,
    pub(super) v6: Poptrie,
    /// By next hop; 0 is that of no route.
    pub(super) actions: Box<[Action]>,
    /// By next hop, the port by which its packets leave.
    pub(super) ports: Vec<Option<u16>>,
    /// By next hop, the address of the router that it is; none for other next hops.
    pub(super) gateways: Vec<Option<IpAddr>>,
    /// The broadcast addresses of connected prefixes of IPv4, sorted.
    pub(super) broadcasts: Arc<[u32]>,
}

impl Fib {
    /// Where packets for next hop `hop` go: the Ethernet address to write, if one is known, or why
    /// they are dropped.
    #[inline(always)]
    pub(super) fn next(&self, hop: u16) -> Result<Option<Mac>, Reason> {
        match self.actions.get(usize::from(hop)) {
            Some(Action::Forward) => Ok(None),
            Some(Action::Rewrite(mac)) => Ok(Some(*mac)),
            Some(&Action::Drop(why)) => Err(why),
            None => Err(reason::NO_ROUTE),
        }
    }

    /// The tables of `routes`; with `neighbours`, next hops have Ethernet addresses.
    ///
    /// A neighbour on a connected prefix gets a host route, as packets to it go to itself. The
    /// error says that there are too many of them.
    pub(super) fn new(
        routes: &Routes<'_>,
        neighbours: Option<&Neighbours<'_>>,
        checks: Checks,
    ) -> Result<Self, String> {
        let mut actions = vec![Action::Drop(reason::NO_ROUTE)];
        actions.extend(routes.targets.iter().map(|target| action(target, neighbours)));
        let mut ports = vec![None];
        ports.extend((0..routes.targets.len()).map(|at| routes.ports.get(at).copied().flatten()));
        let mut gateways = vec![None];
        gateways.extend(routes.targets.iter().map(|target| match *target {
            Target::Via { address, .. } => Some(address),
            _ => None,
        }));
        let allowed =
            |route: &&Route| !forbidden(checks).any(|(prefix, _)| prefix.holds(&route.prefix));
        let (v4, mut v6) = split(routes.routes.iter().filter(allowed));
        let broadcasts = broadcasts(routes);
        let first = if neighbours.is_some() { &v6[..] } else { &[] };
        let (v4, first) = (Fib4::new(&v4), Poptrie::new(first));
        let mut fib = Self { v4, v6: first, actions: actions.into(), ports, gateways, broadcasts };
        if let Some(neighbours) = neighbours {
            fib.add_adjacent(&routes.targets, &mut v6, neighbours)?;
        }
        fib.add_forbidden(checks, routes, &mut v6, neighbours.is_some());
        fib.v6 = Poptrie::new(&v6);
        if fib.actions.len() > usize::from(u16::MAX) + 1 {
            return Err(format!("next hops and neighbours are more than {HOPS_MAX}"));
        }
        Ok(fib)
    }

    /// Adds routes to forbidden destinations, so that a look-up always finds them.
    fn add_forbidden(
        &mut self,
        checks: Checks,
        routes: &Routes<'_>,
        v6: &mut Vec<Rule6>,
        rewrites: bool,
    ) {
        let mut actions = std::mem::take(&mut self.actions).into_vec();
        let mut ports = std::mem::take(&mut self.ports);
        let mut hop_of = |action: Action, port: Option<u16>| {
            let is_it = |hop: &usize| actions[*hop] == action && ports[*hop] == port;
            let known = (1..actions.len()).rev().find(is_it);
            let hop = known.unwrap_or(actions.len());
            if known.is_none() {
                actions.push(action);
                ports.push(port);
            }
            hop as u16
        };
        let broadcast = match (checks.has(reason::DIRECTED_BROADCAST), rewrites) {
            (true, _) => Some(Action::Drop(reason::DIRECTED_BROADCAST)),
            (false, true) => Some(TO_ALL),
            (false, false) => None,
        };
        let has_own = |address: u32| {
            let same = |route: &Route| (route.prefix.address(), route.prefix.len());
            let own = (IpAddr::from(address.to_be_bytes()), 32);
            routes.routes.binary_search_by_key(&own, same).is_ok()
        };
        if let Some(action) = broadcast {
            let is_free = |address: &&u32| {
                let own = Prefix::new(IpAddr::from(address.to_be_bytes()), 32);
                let is_own = |own| forbidden(checks).any(|(prefix, _)| prefix.holds(&own));
                !has_own(**address) && !own.is_some_and(is_own)
            };
            let of_links = ports_of_broadcasts(routes);
            for address in self.broadcasts.iter().filter(is_free) {
                let port = of_links.get(address).copied().filter(|_| action == TO_ALL);
                self.v4.insert((*address, 32, hop_of(action, port)));
            }
        }
        for (Covered { address, len }, why) in forbidden(checks) {
            let hop = hop_of(Action::Drop(why), None);
            match address {
                IpAddr::V4(address) => drop(self.v4.insert((address.to_bits(), len, hop))),
                IpAddr::V6(address) => v6.push((address.to_bits(), len, hop)),
            }
        }
        (self.actions, self.ports) = (actions.into(), ports);
    }

    /// Adds host routes to the neighbours that connected prefixes lead to.
    fn add_adjacent(
        &mut self,
        targets: &[Target<'_>],
        v6: &mut Vec<Rule6>,
        neighbours: &Neighbours<'_>,
    ) -> Result<(), String> {
        let is_direct = |hop: u16| {
            let target = usize::from(hop).checked_sub(1).and_then(|index| targets.get(index));
            matches!(target, Some(Target::Direct { .. }))
        };
        let is_broadcast = |address: IpAddr| match address {
            IpAddr::V4(address) => self.broadcasts.binary_search(&address.to_bits()).is_ok(),
            IpAddr::V6(_) => false,
        };
        let port = |address| self.ports.get(usize::from(self.lookup(address))).copied().flatten();
        let mut hosts: Vec<(IpAddr, Mac, Option<u16>)> = neighbours
            .iter()
            .filter(|&(address, ..)| is_direct(self.lookup(address)) && !is_broadcast(address))
            .map(|(address, _, mac)| (address, mac, port(address)))
            .collect();
        hosts.sort_unstable();
        let mut actions = std::mem::take(&mut self.actions).into_vec();
        let mut known: HashMap<(Mac, Option<u16>), u16> = HashMap::new();
        for (address, mac, port) in hosts {
            if actions.len() > HOPS_MAX && !known.contains_key(&(mac, port)) {
                return Err(format!("next hops and neighbours are more than {HOPS_MAX}"));
            }
            let hop = *known.entry((mac, port)).or_insert_with(|| {
                actions.push(Action::Rewrite(mac));
                self.ports.push(port);
                (actions.len() - 1) as u16
            });
            match address {
                IpAddr::V4(address) => drop(self.v4.insert((address.to_bits(), 32, hop))),
                IpAddr::V6(address) => v6.push((address.to_bits(), 128, hop)),
            }
        }
        self.actions = actions.into();
        Ok(())
    }

    fn lookup(&self, address: IpAddr) -> u16 {
        match address {
            IpAddr::V4(address) => self.v4.lookup(address.to_bits()),
            IpAddr::V6(address) => self.v6.lookup(address.to_bits()),
        }
    }
}

fn action(target: &Target<'_>, neighbours: Option<&Neighbours<'_>>) -> Action {
    match (*target, neighbours) {
        (Target::Blackhole, _) => Action::Drop(reason::BLACKHOLE),
        (Target::Unreachable, _) => Action::Drop(reason::UNREACHABLE),
        (Target::Prohibit, _) => Action::Drop(reason::PROHIBITED),
        (Target::Unsupported, _) => Action::Drop(reason::UNSUPPORTED_ROUTE),
        (_, None) => Action::Forward,
        (Target::Direct { .. }, Some(_)) => Action::Drop(reason::NO_NEIGHBOUR),
        (Target::Via { address, device }, Some(neighbours)) => neighbours
            .mac(address, device)
            .map_or(Action::Drop(reason::NO_NEIGHBOUR), Action::Rewrite),
    }
}

/// The treatment of packets for all hosts of a link.
const TO_ALL: Action = Action::Rewrite(Mac([0xff; 6]));

/// A prefix of which no route may be a part.
#[derive(Clone, Copy)]
struct Covered {
    address: IpAddr,
    len: u8,
}

impl Covered {
    const fn v4(address: u32, len: u8) -> Self {
        Self { address: IpAddr::V4(Ipv4Addr::from_bits(address)), len }
    }

    const fn v6(address: u128, len: u8) -> Self {
        Self { address: IpAddr::V6(Ipv6Addr::from_bits(address)), len }
    }

    fn holds(&self, prefix: &Prefix) -> bool {
        let own = Prefix::new(self.address, self.len);
        prefix.len() >= self.len && own.is_some_and(|own| own.contains(prefix.address()))
    }
}

/// Destinations that are never forwarded to, as far as they are checked.
fn forbidden(checks: Checks) -> impl Iterator<Item = (Covered, Reason)> {
    const ALL: [(Covered, Reason); 8] = [
        (Covered::v4(0, 32), reason::MARTIAN_DESTINATION),
        (Covered::v4(0x7f00_0000, 8), reason::MARTIAN_DESTINATION),
        (Covered::v4(u32::MAX, 32), reason::MARTIAN_DESTINATION),
        (Covered::v4(0xe000_0000, 4), reason::MULTICAST),
        (Covered::v6(0, 128), reason::MARTIAN_DESTINATION),
        (Covered::v6(1, 128), reason::MARTIAN_DESTINATION),
        (Covered::v6(0xfe80 << 112, 10), reason::MARTIAN_DESTINATION),
        (Covered::v6(0xff << 120, 8), reason::MULTICAST),
    ];
    ALL.into_iter().filter(move |&(_, why)| checks.has(why))
}

/// Whether nothing may be forwarded to an address, whatever is checked.
pub(super) fn is_forbidden(address: IpAddr) -> bool {
    let host = Prefix::new(address, if address.is_ipv4() { 32 } else { 128 });
    host.is_some_and(|host| forbidden(Checks::EVERY).any(|(covered, _)| covered.holds(&host)))
}

/// The addresses that mean every host of a connected prefix (RFC 1812, 4.2.3.1). A prefix of 31
/// bits has none (RFC 3021).
fn broadcasts(routes: &Routes<'_>) -> Arc<[u32]> {
    let of = |route: &Route| {
        let target = usize::from(route.hop).checked_sub(1).and_then(|at| routes.targets.get(at));
        match (route.prefix.address(), route.prefix.len(), target) {
            (IpAddr::V4(address), len @ 1..=30, Some(Target::Direct { .. })) => {
                Some(address.to_bits() | u32::MAX >> len)
            }
            _ => None,
        }
    };
    let mut all: Vec<u32> = routes.routes.iter().filter_map(of).collect();
    all.sort_unstable();
    all.dedup();
    all.into()
}

/// The port of each connected prefix's broadcast address, in a chain with ports.
fn ports_of_broadcasts(routes: &Routes<'_>) -> HashMap<u32, u16> {
    let of = |route: &Route| match (route.prefix.address(), route.prefix.len()) {
        (IpAddr::V4(address), len @ 1..=30) => {
            let at = usize::from(route.hop).checked_sub(1)?;
            let is_direct = matches!(routes.targets.get(at), Some(Target::Direct { .. }));
            let port = routes.ports.get(at).copied().flatten().filter(|_| is_direct)?;
            Some((address.to_bits() | u32::MAX >> len, port))
        }
        _ => None,
    };
    routes.routes.iter().filter_map(of).collect()
}

fn split<'a>(routes: impl Iterator<Item = &'a Route>) -> (Vec<Rule4>, Vec<Rule6>) {
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for route in routes {
        let (len, hop) = (route.prefix.len(), route.hop);
        match route.prefix.address() {
            IpAddr::V4(address) => v4.push((address.to_bits(), len, hop)),
            IpAddr::V6(address) => v6.push((address.to_bits(), len, hop)),
        }
    }
    (v4, v6)
}
