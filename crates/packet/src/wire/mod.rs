//! Views of the headers in a frame: one file per protocol, no copy and no allocation.
//!
//! A view wraps bytes that begin at its header (`T: AsRef<[u8]>`; setters need `AsMut` too).
//! `new_checked` checks once that the header is complete and its lengths are right; after that no
//! getter panics. `check_within` does the same for a frame cut by the capture. It compares lengths
//! with those on the wire, and a `*Truncated` error then means that the capture, not the sender,
//! cut the header.
//!
//! Each file's `field` module is the one place with the byte offsets of its header. This folder
//! also has the Internet [`checksum`], the walk over IPv6 extension headers ([`ipv6_ext`]), and
//! builders of ICMP errors ([`icmp_error`]).
//!
//! Not supported: reassembly, 802.3 LLC frames.
//!
//! ```
//! use warpline_packet::wire::{Malformed, Udp};
//!
//! let bytes = [0x04, 0xd2, 0x00, 0x35, 0x00, 0x0a, 0x00, 0x00, b'h', b'i'];
//! let udp = Udp::new_checked(&bytes)?;
//! assert_eq!((udp.src_port(), udp.dst_port(), udp.payload()), (1234, 53, &b"hi"[..]));
//! assert_eq!(Udp::new_checked(&bytes[..9]).err(), Some(Malformed::UdpLength));
//! # Ok::<(), Malformed>(())
//! ```

#[macro_use]
mod view;

mod be;
pub mod checksum;
pub mod esp;
pub mod ethernet;
pub mod icmp_error;
pub mod icmpv4;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv6;
pub mod ipv6_ext;
mod malformed;
pub mod options;
mod protocol;
pub mod sll;
pub mod tcp;
pub mod udp;
pub mod vlan;

#[cfg(test)]
mod tests;

pub use esp::Esp;
pub use ethernet::Ethernet;
pub use icmpv4::Icmpv4;
pub use icmpv6::Icmpv6;
pub use ipv4::Ipv4;
pub use ipv6::Ipv6;
pub use malformed::Malformed;
pub use protocol::{ethertype, ip_protocol};
pub use sll::{Sll, Sll2};
pub use tcp::Tcp;
pub use udp::Udp;
pub use vlan::Vlan;
