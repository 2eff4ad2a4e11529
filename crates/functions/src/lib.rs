//! The functions that the program ships, the only place that names them all.

#![forbid(unsafe_code)]

use warpline_nf::Definition;

/// Every function, in the order of their names.
pub const FUNCTIONS: &[&Definition] = &[
    &warpline_digest::DEFINITION,
    &warpline_firewall::DEFINITION,
    &warpline_flow_monitor::DEFINITION,
    &warpline_ipcomp::DEFINITION,
    &warpline_ipsec::DEFINITION,
    &warpline_load_balancer::DEFINITION,
    &warpline_nat::DEFINITION,
    &warpline_nids::DEFINITION,
    &warpline_router::DEFINITION,
];

/// The function called `name`.
pub fn definition(name: &str) -> Option<&'static Definition> {
    FUNCTIONS.iter().copied().find(|definition| definition.name == name)
}
