//! Routes between functions, looked up one by one.

use warpline_packet as packet;
use warpline_sched::{Route, RouteFrom, RouteTo};

use crate::draw::Draw;
use crate::prefix::Prefix;
use crate::wire::{Frame, view};

/// A route from ingress (`None`) or a function, for destinations or all packets, to a function or
/// egress (`None`).
#[derive(Clone, Copy, Debug)]
struct Own {
    from: Option<usize>,
    destination: Option<Prefix>,
    to: Option<usize>,
}

/// The routes of a chain; of none without.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routes(Vec<Own>);

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Function(usize),
    Egress,
    Nowhere,
}

impl Routes {
    /// Between `count` functions, mostly on to the next one.
    pub(crate) fn draw(draw: &mut Draw, count: usize) -> Self {
        let mut all = Vec::new();
        for place in 0..=count {
            let from = place.checked_sub(1);
            let to = |at: usize| (at < count).then_some(at);
            for _ in 0..draw.below(3) {
                let version = draw.version();
                let destination = Some(draw.prefix(version));
                let ahead = place + draw.below(count + 1 - place);
                if !all.iter().any(|own: &Own| own.from == from && own.destination == destination) {
                    all.push(Own { from, destination, to: to(ahead) });
                }
            }
            if draw.percent(85) || all.iter().all(|own| own.from != from) {
                all.push(Own { from, destination: None, to: to(place) });
            }
        }
        Self(all)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The way of a frame from ingress (`None`) or from function `from` of `count`.
    pub(crate) fn next(&self, from: Option<usize>, count: usize, frame: &Frame) -> Next {
        let after = from.map_or(0, |from| from + 1);
        if self.0.is_empty() {
            return if after < count { Next::Function(after) } else { Next::Egress };
        }
        let seen = view(frame);
        let address = (seen.version > 0).then(|| seen.addresses(&frame.bytes).1);
        let holds = |own: &&Own| match (own.destination, address) {
            (Some(prefix), Some(address)) => prefix.holds(address),
            (destination, _) => destination.is_none(),
        };
        let own = self.0.iter().filter(|own| own.from == from).filter(holds);
        let longest = own.max_by_key(|own| own.destination.map_or(0, |prefix| prefix.len + 1));
        match longest.map(|own| own.to) {
            Some(Some(to)) => Next::Function(to),
            Some(None) => Next::Egress,
            None => Next::Nowhere,
        }
    }

    /// The same for a chain in which each function has a first and a last position, and `first`
    /// positions come before all of them.
    pub(crate) fn engine(&self, first: usize, positions: &[(usize, usize)]) -> Vec<Route> {
        let straight = |from: RouteFrom, to: usize| Route {
            from,
            destination: None,
            to: RouteTo::Function(to as u8),
        };
        let mut routes = Vec::new();
        let mut door = RouteFrom::Ingress(None);
        for at in 0..first {
            routes.push(straight(door, at));
            door = RouteFrom::Function(at as u8);
        }
        for &(own, last) in positions {
            routes.extend((own..last).map(|at| straight(RouteFrom::Function(at as u8), at + 1)));
        }
        routes.extend(self.0.iter().map(|own| Route {
            from: own.from.map_or(door, |at| RouteFrom::Function(positions[at].1 as u8)),
            destination: own.destination.map(|own| {
                packet::Prefix::new(own.address, own.len as u8).expect("a length that fits")
            }),
            to: own.to.map_or(RouteTo::Egress, |at| RouteTo::Function(positions[at].0 as u8)),
        }));
        routes
    }
}
