//! The ways of packets through a chain with routes, and the part of the packets on each.
//!
//! As in the engine, a batch stays whole and passes all stages. A stage works on the packets that
//! are routed to it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use warpline_sched::{Destination, PlanHops, RouteTo, Routes};

/// A place that packets leave; `None` is ingress.
type HopSource = Option<u8>;

/// A way: the functions on it as bits, and whether packets have no route at its end.
type Way = (u64, bool);

/// The part of the packets at a place that take one of its routes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HopShare {
    /// Where the route begins; `None` is ingress.
    pub from: Option<u8>,
    /// Where it leads.
    pub to: RouteTo,
    /// From 0 to 1.
    pub part: f64,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Ways {
    routes: Arc<Routes>,
    functions: u8,
    parts: BTreeMap<Way, f64>,
    sum: f64,
}

impl Ways {
    /// Those of a chain of so many functions, without packets.
    pub fn new(routes: Arc<Routes>, functions: u8) -> Self {
        Self { routes, functions, parts: BTreeMap::new(), sum: 0.0 }
    }

    /// Adds a packet from ingress. Its destination stays as it is. It came by the first port.
    pub fn add(&mut self, destination: Destination) {
        let mut to = self.routes.ingress(0).find(destination).to;
        let mut passed = 0;
        while let Some(RouteTo::Function(function)) = to {
            passed |= 1 << function;
            to = match self.routes.exit(function) {
                Some(exit) => exit.find(destination).to,
                None => Some(self.after(function)),
            };
        }
        self.count((passed, to.is_none()), 1.0);
    }

    /// The ways if the packets at a place are divided into these parts. The rest is divided equally
    /// among the other routes there.
    ///
    /// # Errors
    /// A share of a route that does not exist, and parts that are more or less than all packets.
    pub fn divide(&mut self, shares: &[HopShare]) -> Result<(), Misdivided> {
        let hops: BTreeMap<HopSource, Vec<RouteTo>> = self.routes.hops().collect();
        let has = |one: &&HopShare| hops.get(&one.from).is_some_and(|all| all.contains(&one.to));
        if let Some(at) = shares.iter().position(|one| !has(&one)) {
            return Err(Misdivided::NoRoute(at));
        }
        let mut parts = BTreeMap::new();
        for (from, all) in &hops {
            parts.insert(*from, divided(*from, all, shares)?);
        }
        self.follow(&parts, None, (0, 1.0));
        Ok(())
    }

    fn follow(
        &mut self,
        parts: &BTreeMap<HopSource, Vec<(RouteTo, f64)>>,
        place: HopSource,
        (passed, part): (u64, f64),
    ) {
        for &(to, own) in parts.get(&place).into_iter().flatten().filter(|(_, own)| *own > 0.0) {
            match to {
                RouteTo::Egress => self.count((passed, false), part * own),
                RouteTo::Function(next) => {
                    self.follow(parts, Some(next), (passed | 1 << next, part * own));
                }
            }
        }
    }

    fn after(&self, function: u8) -> RouteTo {
        match function + 1 {
            next if next < self.functions => RouteTo::Function(next),
            _ => RouteTo::Egress,
        }
    }

    fn count(&mut self, way: Way, part: f64) {
        *self.parts.entry(way).or_default() += part;
        self.sum += part;
    }

    /// The part of the packets that pass any of these functions.
    pub(crate) fn share(&self, functions: Range<usize>) -> f64 {
        let mask = functions.fold(0u64, |mask, function| mask | 1 << function);
        self.part_of(|(passed, _)| passed & mask != 0)
    }

    /// The part of the packets that are dropped because they have no route.
    pub(crate) fn unrouted(&self) -> f64 {
        self.part_of(|(_, is_unrouted)| is_unrouted)
    }

    fn part_of(&self, is_counted: impl Fn(Way) -> bool) -> f64 {
        let counted = self.parts.iter().filter(|(way, _)| is_counted(**way));
        // A sum of nothing is -0.
        let sum = counted.map(|(_, part)| part).sum::<f64>() + 0.0;
        if self.sum > 0.0 { (sum / self.sum).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// The routes as a plan takes them.
    pub(crate) fn hops(&self) -> PlanHops {
        let count = usize::from(self.functions);
        let place = |to: RouteTo| match to {
            RouteTo::Function(next) => usize::from(next),
            RouteTo::Egress => count,
        };
        let mut own = PlanHops { ingress: Vec::new(), functions: vec![Vec::new(); count] };
        for (from, next) in self.routes.hops() {
            let next = next.into_iter().map(place).collect();
            match from {
                None => own.ingress = next,
                Some(from) => own.functions[usize::from(from)] = next,
            }
        }
        own
    }

    /// Whether packets from `function` may go to other places than the next function.
    pub(crate) fn parts_after(&self, function: usize) -> bool {
        self.routes.exit(function as u8).is_some()
    }

    /// Whether all packets that pass `function` continue with the next one, and no others come
    /// there.
    pub(crate) fn is_straight(&self, function: usize) -> bool {
        !self.parts_after(function) && !self.routes.is_join(function as u8 + 1)
    }
}

/// The places after `from`, each with its part.
fn divided(
    from: HopSource,
    all: &[RouteTo],
    shares: &[HopShare],
) -> Result<Vec<(RouteTo, f64)>, Misdivided> {
    // The last one counts.
    let given = |to: RouteTo| {
        let own = shares.iter().rfind(|one| (one.from, one.to) == (from, to));
        own.map(|one| one.part)
    };
    let sum: f64 = all.iter().filter_map(|&to| given(to)).sum();
    let others = all.iter().filter(|&&to| given(to).is_none()).count();
    let is_whole = (sum - 1.0).abs() < 1e-6;
    if sum > 1.0 + 1e-6 || others == 0 && !is_whole {
        return Err(Misdivided::Sum(from, sum));
    }
    let rest = (1.0 - sum).max(0.0) / others.max(1) as f64;
    Ok(all.iter().map(|&to| (to, given(to).unwrap_or(rest))).collect())
}

/// Why packets cannot be divided so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Misdivided {
    /// The share at this position is of no route.
    NoRoute(usize),
    /// The parts of a place add up to this.
    Sum(Option<u8>, f64),
}
