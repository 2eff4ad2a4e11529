//! The numbers of paths.

use std::collections::BTreeMap;

use super::error::RouteMistake;
use super::graph::Graph;
use super::{From, PATHS_MAX, To};

/// A place with hops: ingress, or a function.
type HopSource = Option<u8>;

/// The paths from ingress to egress, and those from each function, numbered without gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Paths {
    /// By place, the hops from there, with the number of the first path over each.
    hops: BTreeMap<HopSource, Vec<(To, u32)>>,
    /// By function, the number of the first path that begins there.
    starts: Vec<u32>,
    count: u32,
}

impl Paths {
    /// The paths of a graph.
    ///
    /// # Errors
    /// There are too many.
    pub(super) fn of(graph: &Graph<'_>) -> Result<Self, RouteMistake> {
        let mut hops: BTreeMap<HopSource, Vec<(To, u32)>> = BTreeMap::new();
        // Paths from each function to egress.
        let mut onward = vec![0u64; usize::from(graph.len())];
        for place in (0..graph.len()).rev().map(Some).chain([None]) {
            let mut own = Vec::new();
            let mut sum = 0u64;
            for to in graph.successors(place) {
                own.push((to, u32::try_from(sum).unwrap_or(u32::MAX)));
                let of_hop = match to {
                    To::Function(next) => onward[usize::from(next)],
                    To::Egress => 1,
                };
                sum = sum.saturating_add(of_hop);
            }
            hops.insert(place, own);
            match place {
                Some(function) => onward[usize::from(function)] = sum,
                None => onward.push(sum),
            }
        }
        let mut count = onward.pop().unwrap_or_default();
        let mut starts = Vec::new();
        for of_function in onward {
            starts.push(u32::try_from(count).unwrap_or(u32::MAX));
            count = count.saturating_add(of_function);
        }
        match u32::try_from(count) {
            Ok(count) if count as usize <= PATHS_MAX => Ok(Self { hops, starts, count }),
            _ => Err(RouteMistake::TooManyPaths(count)),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count as usize
    }

    pub(super) fn hops(&self) -> impl Iterator<Item = (HopSource, Vec<To>)> {
        self.hops.iter().map(|(place, hops)| (*place, hops.iter().map(|(to, _)| *to).collect()))
    }

    /// The number that the hop from `place` to `to` adds.
    pub(super) fn step(&self, place: HopSource, to: To) -> u32 {
        let hops = self.hops.get(&place).into_iter().flatten();
        hops.into_iter().find(|(own, _)| *own == to).map_or(0, |(_, first)| *first)
    }

    pub(super) fn start(&self, function: u8) -> u32 {
        self.starts.get(usize::from(function)).copied().unwrap_or_default()
    }

    /// The functions on path `path`. One that begins at a function has that one first.
    pub(super) fn functions(&self, path: u32) -> Vec<u8> {
        let from = self.starts.iter().rposition(|start| *start <= path);
        let (mut place, mut rest) = match from {
            Some(function) => (Some(function as u8), path - self.starts[function]),
            None => (None, path),
        };
        let mut functions: Vec<u8> = place.into_iter().collect();
        while let Some(hops) = self.hops.get(&place)
            && let Some((To::Function(next), first)) =
                hops.iter().rev().find(|(_, first)| *first <= rest)
        {
            rest -= first;
            functions.push(*next);
            place = Some(*next);
        }
        functions
    }
}

impl Graph<'_> {
    /// The places that packets go to from `place`, each once, in ascending order.
    fn successors(&self, place: HopSource) -> Vec<To> {
        let is_from = |from: From| match (from, place) {
            (From::Ingress(_), None) => true,
            (From::Function(function), Some(own)) => function == own,
            _ => false,
        };
        let mut all: Vec<To> =
            self.routes.iter().filter(|route| is_from(route.from)).map(|route| route.to).collect();
        let order = |to: &To| match to {
            To::Function(position) => u16::from(*position),
            To::Egress => u16::MAX,
        };
        all.sort_by_key(order);
        all.dedup();
        all
    }
}
