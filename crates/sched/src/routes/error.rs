//! Mistakes in a chain's routes.

use std::fmt;

use super::PATHS_MAX;

/// A mistake, and the routes that it concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteError {
    /// The mistake.
    pub mistake: RouteMistake,
    /// The numbers of the routes that show it, the first of them where it should be mended. Empty
    /// if it concerns the chain's list.
    pub routes: Vec<usize>,
}

impl RouteError {
    pub(super) fn of(mistake: RouteMistake, routes: &[usize]) -> Self {
        Self { mistake, routes: routes.to_vec() }
    }
}

/// A mistake in a chain's routes, with the names of functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteMistake {
    /// Routes lead around in a circle through these functions.
    Loop(Vec<String>),
    /// A route leads from the second to the first of these functions, against the list.
    Backward(String, String),
    /// Two routes have the same start and the same destinations.
    Twice,
    /// No route begins at ingress, or at ingress of the port with this number.
    NoIngress(Option<u16>),
    /// Packets come to this function, and no route leads on.
    DeadEnd(String),
    /// No packet comes to this function.
    Unreachable(String),
    /// A path passes one of these two places of a function and not the other.
    HalfPair {
        /// The place that it passes.
        passed: String,
        /// The place that it leaves out.
        left_out: String,
    },
    /// There are so many paths, at least.
    TooManyPaths(u64),
}

impl fmt::Display for RouteMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loop(names) => write!(f, "routes form a loop: {}", names.join(" -> ")),
            Self::Backward(to, from) => {
                write!(f, "`{to}` comes before `{from}` in `functions`; routes go forward only")
            }
            Self::Twice => f.write_str("a second route with the same `from` and `destination`"),
            Self::NoIngress(None) => f.write_str("no route begins at \"ingress\""),
            Self::NoIngress(Some(port)) => {
                write!(f, "no route begins at \"ingress\" for port number {port}")
            }
            Self::DeadEnd(name) => write!(f, "no route leads on from `{name}`"),
            Self::Unreachable(name) => write!(f, "no route leads to `{name}`"),
            Self::HalfPair { passed, left_out } => write!(
                f,
                "packets pass `{passed}` and not `{left_out}`: a path has both places or neither"
            ),
            Self::TooManyPaths(count) => {
                write!(f, "at least {count} paths through the chain; at most {PATHS_MAX}")
            }
        }
    }
}
