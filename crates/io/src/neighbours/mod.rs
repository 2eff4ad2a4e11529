//! The kernel's neighbours, for ports that forward by routes.
//!
//! A [`Follower`] is a thread that receives the kernel's changes and publishes a view of them.
//! A [`NeighbourTable`] gives the sender the Ethernet addresses of a packet. If the next hop is
//! unknown, the table holds the packet and the follower makes the kernel ask. [`LocalAddresses`]
//! tells a source which packets are the kernel's own.

mod follower;
mod held;
mod selection;
mod table;
#[cfg(test)]
mod tests;
mod view;

pub use follower::{Follower, NotFollowed};
pub(crate) use selection::{DISCOVERY, ICMPV6, is_forwarded};
pub use table::{Hold, NeighbourTable, Settled};
pub use view::LocalAddresses;
