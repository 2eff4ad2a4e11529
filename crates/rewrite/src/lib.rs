//! Packets rewritten: addresses and ports with their checksums, the packets that ICMP errors quote,
//! and ICMP errors.

#![forbid(unsafe_code)]

pub mod addresses;
pub mod fixed;
pub mod fragments;
pub mod icmp;
pub mod icmp_errors;
mod joint_key;
pub mod kernels;
pub mod places;
mod port_set;
mod protocol;
pub mod translate;

pub use addresses::{Endpoint, PortRange};
pub use fixed::{Fixed, Forward, Mapped};
pub use joint_key::{ClientKey, InsideKey, JointKey};
pub use places::{PlaceWords, Refusals, SecondPlace};
pub use port_set::PortSet;
pub use protocol::{Protocol, is_portless};
pub use translate::{Action, Rewrite, Words};
