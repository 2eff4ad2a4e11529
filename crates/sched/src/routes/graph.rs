//! The graph of places and routes, and its checks.

use std::collections::{BTreeMap, BTreeSet};

use warpline_packet::Prefix;

use super::error::{RouteError, RouteMistake};
use super::{From, Route, RoutedFunction, To};

/// Routes that were checked.
#[derive(Debug)]
pub(super) struct Graph<'a> {
    functions: &'a [RoutedFunction],
    ports: usize,
    pub(super) routes: &'a [Route],
}

/// Packets on their way: where they are, the destinations they may have, and the first places
/// that they passed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Crowd {
    at: From,
    destination: Option<Prefix>,
    passed: u64,
}

impl<'a> Graph<'a> {
    /// The graph of a chain's routes.
    ///
    /// # Errors
    /// All mistakes.
    pub(super) fn checked(
        functions: &'a [RoutedFunction],
        ports: usize,
        routes: &'a [Route],
    ) -> Result<Self, Vec<RouteError>> {
        let graph = Self { functions, ports, routes };
        let mut errors = graph.repeated();
        errors.extend(graph.backward());
        if errors.is_empty() {
            errors.extend(graph.without_ingress());
        }
        if errors.is_empty() {
            errors.extend(graph.walked());
        }
        if errors.is_empty() { Ok(graph) } else { Err(errors) }
    }

    pub(super) fn len(&self) -> u8 {
        self.functions.len() as u8
    }

    /// The routes that hold at a place, each destination once. Routes for a port hide those for
    /// all ports.
    pub(super) fn entries(&self, from: From) -> Vec<(Option<Prefix>, To)> {
        self.numbered(from).into_iter().map(|(_, route)| (route.destination, route.to)).collect()
    }

    fn numbered(&self, from: From) -> Vec<(usize, &'a Route)> {
        let all = self.routes.iter().enumerate();
        let own: Vec<_> = all.clone().filter(|(_, route)| route.from == from).collect();
        let From::Ingress(Some(_)) = from else { return own };
        let is_hidden = |route: &Route| own.iter().any(|(_, o)| o.destination == route.destination);
        let general = all.filter(|(_, route)| route.from == From::Ingress(None));
        let general: Vec<_> = general.filter(|(_, route)| !is_hidden(route)).collect();
        own.into_iter().chain(general).collect()
    }

    /// The places that packets come from: ingress, of each port if there are ports.
    fn entrances(&self) -> Vec<From> {
        match self.ports {
            0 => vec![From::Ingress(None)],
            _ => (0..self.ports as u16).map(|port| From::Ingress(Some(port))).collect(),
        }
    }

    /// The functions with a route to function `to`.
    pub(super) fn sources(&self, to: u8) -> impl Iterator<Item = u8> {
        let leads = move |route: &&Route| route.to == To::Function(to);
        self.routes.iter().filter(leads).filter_map(|route| match route.from {
            From::Function(from) => Some(from),
            From::Ingress(_) => None,
        })
    }

    /// Whether packets come from ingress to function `to`.
    pub(super) fn starts_at(&self, to: u8) -> bool {
        let mut all = self.routes.iter();
        all.any(|r| matches!(r.from, From::Ingress(_)) && r.to == To::Function(to))
    }

    fn name(&self, position: u8) -> String {
        self.functions[usize::from(position)].name.clone()
    }

    fn repeated(&self) -> Vec<RouteError> {
        let mut seen = BTreeMap::new();
        let mut errors = Vec::new();
        for (number, route) in self.routes.iter().enumerate() {
            if let Some(earlier) = seen.insert((route.from, route.destination), number) {
                errors.push(RouteError::of(RouteMistake::Twice, &[number, earlier]));
            }
        }
        errors
    }

    /// Routes against the list: loops if packets can come back by them.
    fn backward(&self) -> Vec<RouteError> {
        let mut errors = Vec::new();
        for (number, route) in self.routes.iter().enumerate() {
            let (From::Function(from), To::Function(to)) = (route.from, route.to) else { continue };
            if to > from {
                continue;
            }
            let mistake = match self.way(to, from) {
                Some(way) => {
                    let names = way.into_iter().chain([to]).map(|at| self.name(at));
                    RouteMistake::Loop(names.collect())
                }
                None => RouteMistake::Backward(self.name(to), self.name(from)),
            };
            errors.push(RouteError::of(mistake, &[number]));
        }
        errors
    }

    /// The functions on a way from one to another, both among them.
    fn way(&self, from: u8, to: u8) -> Option<Vec<u8>> {
        let mut ways = vec![vec![from]];
        let mut seen = BTreeSet::from([from]);
        while let Some(way) = ways.pop() {
            let last = *way.last()?;
            if last == to {
                return Some(way);
            }
            for route in self.routes.iter().filter(|route| route.from == From::Function(last)) {
                if let To::Function(next) = route.to
                    && seen.insert(next)
                {
                    ways.push(way.iter().copied().chain([next]).collect());
                }
            }
        }
        None
    }

    fn without_ingress(&self) -> Vec<RouteError> {
        let entrances = self.entrances().into_iter();
        let closed = entrances.filter(|&from| self.numbered(from).is_empty());
        let error = |from| match from {
            From::Ingress(port) => Some(RouteError::of(RouteMistake::NoIngress(port), &[])),
            From::Function(_) => None,
        };
        closed.filter_map(error).collect()
    }

    /// Follows packets along all ways that they can take.
    fn walked(&self) -> Vec<RouteError> {
        let mut errors: Vec<RouteError> = Vec::new();
        let mut reached = BTreeSet::new();
        let enter = |at| Crowd { at, destination: None, passed: 0 };
        let mut crowds: Vec<Crowd> = self.entrances().into_iter().map(enter).collect();
        let mut seen: BTreeSet<Crowd> = crowds.iter().copied().collect();
        while let Some(crowd) = crowds.pop() {
            for (number, to, destination) in self.branches(&crowd) {
                if let Some(mistake) = self.half_pair(&crowd, to) {
                    let error = RouteError::of(mistake, &[number]);
                    if !errors.contains(&error) {
                        errors.push(error);
                    }
                }
                let To::Function(next) = to else { continue };
                if reached.insert(next) && self.numbered(From::Function(next)).is_empty() {
                    let mistake = RouteMistake::DeadEnd(self.name(next));
                    errors.push(RouteError::of(mistake, &[number]));
                }
                let own = &self.functions[usize::from(next)];
                let next = Crowd {
                    at: From::Function(next),
                    destination: destination.filter(|_| !own.changes_destination),
                    passed: crowd.passed | u64::from(own.second_place.is_some()) << next,
                };
                if seen.insert(next) {
                    crowds.push(next);
                }
            }
        }
        let lost = (0..self.len()).filter(|function| !reached.contains(function));
        let unreachable = |function| {
            let from = |(_, route): &(usize, &Route)| route.from == From::Function(function);
            let own = self.routes.iter().enumerate().find(from).map(|(number, _)| number);
            let mistake = RouteMistake::Unreachable(self.name(function));
            RouteError { mistake, routes: own.into_iter().collect() }
        };
        errors.extend(lost.map(unreachable));
        errors
    }

    /// The routes that packets can take, with the destinations of those that do.
    fn branches(&self, crowd: &Crowd) -> Vec<(usize, To, Option<Prefix>)> {
        let routes = self.numbered(crowd.at);
        let Some(all) = crowd.destination else {
            return routes.iter().map(|(n, route)| (*n, route.to, route.destination)).collect();
        };
        let is_within = |inner: Prefix, outer: Prefix| {
            inner.len() >= outer.len() && outer.contains(inner.address())
        };
        let mut branches = Vec::new();
        // The route of all packets for which there is no longer prefix.
        let mut rest: Option<(usize, &Route)> = None;
        for (number, route) in routes {
            match route.destination {
                Some(own) if is_within(own, all) && own != all => {
                    branches.push((number, route.to, Some(own)));
                }
                own if own.is_none_or(|own| is_within(all, own)) => {
                    let len = |route: &Route| route.destination.map(|prefix| prefix.len());
                    if rest.is_none_or(|(_, other)| len(other) < len(route)) {
                        rest = Some((number, route));
                    }
                }
                _ => {}
            }
        }
        branches.extend(rest.map(|(number, route)| (number, route.to, Some(all))));
        branches
    }

    /// Whether packets that go from where they are to `to` pass one place of a pair alone.
    fn half_pair(&self, crowd: &Crowd, to: To) -> Option<RouteMistake> {
        let from = match crowd.at {
            From::Ingress(_) => -1,
            From::Function(position) => i16::from(position),
        };
        let to = match to {
            To::Function(position) => i16::from(position),
            To::Egress => i16::from(self.len()),
        };
        for (first, function) in (0u8..).zip(self.functions) {
            let Some(second) = function.second_place else { continue };
            let has_passed = crowd.passed >> first & 1 == 1;
            let at = i16::from(second);
            if has_passed && from < at && at < to {
                let [passed, left_out] = [first, second].map(|at| self.name(at));
                return Some(RouteMistake::HalfPair { passed, left_out });
            }
            if !has_passed && to == at {
                let [left_out, passed] = [first, second].map(|at| self.name(at));
                return Some(RouteMistake::HalfPair { passed, left_out });
            }
        }
        None
    }
}
