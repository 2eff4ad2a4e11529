//! Routes: which function of a chain a packet goes to next (Simmer, section 4.5).
//!
//! A route leads from a place (ingress or a function) to a later function or to egress. It holds
//! for packets with a destination of its prefix at that place. The longest prefix decides. A packet
//! without a route is dropped.
//!
//! The chain's list gives the functions one order, and every route goes forward in it. So a packet
//! passes a part of the list, and a batch stays whole: functions skip packets that are routed past
//! them. [`Routes`] also numbers the paths from ingress to egress without gaps. Each table entry
//! has a number to add, and the sum along a packet's way is the number of its path (Ball and Larus,
//! "Efficient path profiling", 1996).

mod error;
mod graph;
mod paths;
mod table;
#[cfg(test)]
mod tests;

use warpline_packet::Prefix;

use graph::Graph;
use paths::Paths;

pub use error::{RouteError, RouteMistake};
pub use table::{Destination, RouteEntry, RouteTable};

/// Most paths of a chain.
pub const PATHS_MAX: usize = 1 << 16;

/// The place where a route begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum From {
    /// Ingress; of one port, or of all.
    Ingress(Option<u16>),
    /// The function at this position.
    Function(u8),
}

/// The place that a route leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum To {
    /// The function at this position.
    Function(u8),
    /// The end of the chain.
    Egress,
}

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where it begins.
    pub from: From,
    /// Destinations that it holds for. `None` is every packet, also those without IP.
    pub destination: Option<Prefix>,
    /// Where it leads.
    pub to: To,
}

/// Properties of a function that decide about its routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoutedFunction {
    /// Its name.
    pub name: String,
    /// Whether packets may leave it with another destination than they came with, its own packets
    /// among them.
    pub changes_destination: bool,
    /// If it is the first of two places of a function, the position of the second.
    pub second_place: Option<u8>,
}

/// The routes of a chain, ready for look-ups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    /// Of each port; of all packets if the chain has no ports.
    ingress: Vec<RouteTable>,
    /// By function; `None` if all its packets go to the next function of the list.
    exits: Vec<Option<RouteTable>>,
    /// By function, whether packets come to it from elsewhere than the function before it.
    joins: Vec<bool>,
    paths: Paths,
}

impl Routes {
    /// The routes of a chain of `functions`, with `ports` ports or none.
    ///
    /// # Errors
    /// All mistakes.
    pub fn new(
        functions: &[RoutedFunction],
        ports: usize,
        routes: &[Route],
    ) -> Result<Self, Vec<RouteError>> {
        let graph = Graph::checked(functions, ports, routes)?;
        let paths = Paths::of(&graph).map_err(|mistake| vec![RouteError::of(mistake, &[])])?;
        let count = functions.len() as u8;
        let exit = |function: u8| {
            let table = RouteTable::new(&graph.entries(From::Function(function)), |to| {
                paths.step(Some(function), to)
            });
            (!table.is_straight(next_of(function, count))).then_some(table)
        };
        let of_ingress =
            |port| RouteTable::new(&graph.entries(From::Ingress(port)), |to| paths.step(None, to));
        let joins = |function: u8| graph.sources(function).any(|from| from + 1 != function);
        Ok(Self {
            ingress: match ports {
                0 => vec![of_ingress(None)],
                _ => (0..ports as u16).map(|port| of_ingress(Some(port))).collect(),
            },
            exits: (0..count).map(exit).collect(),
            joins: (0..count)
                .map(|function| joins(function) || function > 0 && graph.starts_at(function))
                .collect(),
            paths,
        })
    }

    /// The table of packets that come in by `port`.
    pub fn ingress(&self, port: u16) -> &RouteTable {
        &self.ingress[usize::from(port).min(self.ingress.len() - 1)]
    }

    /// The table of packets that leave function `position`. `None` if all of them go to the next
    /// function of the list, or to egress after the last.
    pub fn exit(&self, position: u8) -> Option<&RouteTable> {
        self.exits.get(usize::from(position))?.as_ref()
    }

    /// Whether packets come to function `position` from elsewhere than the function before it.
    pub fn is_join(&self, position: u8) -> bool {
        self.joins.get(usize::from(position)).is_some_and(|joins| *joins)
    }

    /// The next places of packets from ingress (`None`) and from each function.
    pub fn hops(&self) -> impl Iterator<Item = (Option<u8>, Vec<To>)> {
        self.paths.hops()
    }

    /// How many paths there are.
    pub fn paths(&self) -> usize {
        self.paths.count()
    }

    /// The number of a path that begins where function `position` makes a packet of its own accord.
    pub fn start(&self, position: u8) -> u32 {
        self.paths.start(position)
    }

    /// The positions of the functions on a path.
    pub fn functions(&self, path: u32) -> Vec<u8> {
        self.paths.functions(path)
    }
}

/// The place after function `position` of `count` in the list.
fn next_of(position: u8, count: u8) -> To {
    if position + 1 < count { To::Function(position + 1) } else { To::Egress }
}
