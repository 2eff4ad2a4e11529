//! The forwarding tables of both families, and what to do for each next hop.

use std::collections::HashMap;
use std::net::IpAddr;

use warpline_packet::Reason;

use super::dir24_8::Rule4;
use super::fib4::Fib4;
use super::neighbours::{Mac, Neighbours};
use super::poptrie::{Poptrie, Rule6};
use super::routes::{HOPS_MAX, Route, Routes, Target};

/// Places of the drop reasons in [`super::DROPS`].
pub(super) mod reason {
    use super::Reason;
    pub(in crate::router) const NO_ROUTE: Reason = Reason(0);
    pub(in crate::router) const TTL_EXCEEDED: Reason = Reason(1);
    pub(in crate::router) const NON_IP: Reason = Reason(2);
    pub(in crate::router) const SNAPPED: Reason = Reason(3);
    pub(in crate::router) const BLACKHOLE: Reason = Reason(4);
    pub(in crate::router) const UNREACHABLE: Reason = Reason(5);
    pub(in crate::router) const PROHIBITED: Reason = Reason(6);
    pub(in crate::router) const NO_NEIGHBOUR: Reason = Reason(7);
}

/// What happens to the packets of a next hop.
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
}

impl Fib {
    /// Where packets for next hop `hop` go: the Ethernet address to write, if one is known, or why they
    /// are dropped.
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
    /// A neighbour on a connected prefix gets a host route, as packets to it go to itself. The error
    /// says that there are too many of them.
    pub(super) fn new(
        routes: &Routes<'_>,
        neighbours: Option<&Neighbours<'_>>,
    ) -> Result<Self, String> {
        let mut actions = vec![Action::Drop(reason::NO_ROUTE)];
        actions.extend(routes.targets.iter().map(|target| action(target, neighbours)));
        let (v4, mut v6) = split(&routes.routes);
        let mut fib = Self { v4: Fib4::new(&v4), v6: Poptrie::new(&v6), actions: actions.into() };
        if let Some(neighbours) = neighbours {
            fib.add_adjacent(&routes.targets, &mut v6, neighbours)?;
        }
        Ok(fib)
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
        let mut hosts: Vec<(IpAddr, Mac)> = neighbours
            .iter()
            .filter(|&(address, ..)| is_direct(self.lookup(address)))
            .map(|(address, _, mac)| (address, mac))
            .collect();
        hosts.sort_unstable();
        let mut actions = std::mem::take(&mut self.actions).into_vec();
        let mut known: HashMap<Mac, u16> = HashMap::new();
        let routes_v6 = v6.len();
        for (address, mac) in hosts {
            if actions.len() > HOPS_MAX && !known.contains_key(&mac) {
                return Err(format!("next hops and neighbours are more than {HOPS_MAX}"));
            }
            let hop = *known.entry(mac).or_insert_with(|| {
                actions.push(Action::Rewrite(mac));
                (actions.len() - 1) as u16
            });
            match address {
                IpAddr::V4(address) => drop(self.v4.insert((address.to_bits(), 32, hop))),
                IpAddr::V6(address) => v6.push((address.to_bits(), 128, hop)),
            }
        }
        self.actions = actions.into();
        if v6.len() > routes_v6 {
            self.v6 = Poptrie::new(v6);
        }
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
        (_, None) => Action::Forward,
        (Target::Direct { .. }, Some(_)) => Action::Drop(reason::NO_NEIGHBOUR),
        (Target::Via { address, device }, Some(neighbours)) => neighbours
            .mac(address, device)
            .map_or(Action::Drop(reason::NO_NEIGHBOUR), Action::Rewrite),
    }
}

fn split(routes: &[Route]) -> (Vec<Rule4>, Vec<Rule6>) {
    let (mut v4, mut v6) = (Vec::with_capacity(routes.len()), Vec::new());
    for route in routes {
        let (len, hop) = (route.prefix.len(), route.hop);
        match route.prefix.address() {
            IpAddr::V4(address) => v4.push((address.to_bits(), len, hop)),
            IpAddr::V6(address) => v6.push((address.to_bits(), len, hop)),
        }
    }
    (v4, v6)
}
