//! Links, addresses, neighbours and routes of the Linux kernel, by rtnetlink(7).
//!
//! [`Requests`] reads whole tables and resolves neighbours. [`Changes`] receives what changes.
//! Sockets and the division into attributes are those of `netlink-sys` and `netlink-packet-core`.
//! [`read`] takes the few attributes that Warpline needs, so an unknown one spoils no message.

#![forbid(unsafe_code)]

mod message;
mod route;
mod socket;
#[cfg(test)]
mod tests;

pub use message::{Address, Link, Message, Neighbour, Reach, read};
pub use route::{NextHop, Route, RouteKind};
pub use socket::{Changes, Groups, Requests};
