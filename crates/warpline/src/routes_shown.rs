//! A chain's routes, for people and for programs.

use serde_json::{Value, json};
use warpline_engine::Chain;
use warpline_sched::RouteTo;

fn name(chain: &Chain, to: RouteTo) -> &str {
    match to {
        RouteTo::Function(position) => &chain.instances[usize::from(position)].name,
        RouteTo::Egress => "egress",
    }
}

/// The places of a chain with the next places of their packets; none if it has no routes.
fn hops(chain: &Chain) -> Vec<(&str, Vec<&str>)> {
    let Some(routes) = chain.routes() else { return Vec::new() };
    let hop = |(from, next): (Option<u8>, Vec<RouteTo>)| {
        let from = from.map_or("ingress", |from| name(chain, RouteTo::Function(from)));
        (from, next.into_iter().map(|to| name(chain, to)).collect())
    };
    routes.hops().map(hop).collect()
}

/// A line for each place.
pub(crate) fn lines(chain: &Chain) -> String {
    let hops = hops(chain);
    let width = hops.iter().map(|(from, _)| from.len()).max().unwrap_or(0);
    let line = |(number, (from, next)): (usize, (&str, Vec<&str>))| {
        let head = if number == 0 { "routes" } else { "" };
        format!("  {head:<9} {from:<width$} -> {}\n", next.join(" or "))
    };
    hops.into_iter().enumerate().map(line).collect()
}

/// The same for programs.
pub(crate) fn json(chain: &Chain) -> Vec<Value> {
    let hop = |(from, next)| json!({ "from": from, "to": next });
    hops(chain).into_iter().map(hop).collect()
}

/// The functions of each path that packets took, with how many did; the most used path first.
pub(crate) fn paths<'a>(chain: &'a Chain, counts: &[u64]) -> Vec<(Vec<&'a str>, u64)> {
    let Some(routes) = chain.routes() else { return Vec::new() };
    let used = (0..).zip(counts).filter(|(_, count)| **count > 0);
    let named = |(path, count): (u32, &u64)| {
        let functions = routes.functions(path).into_iter();
        (functions.map(|at| name(chain, RouteTo::Function(at))).collect(), *count)
    };
    let mut paths: Vec<_> = used.map(named).collect();
    paths.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    paths
}
