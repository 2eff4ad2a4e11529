//! Calls to the operating system, and the only `unsafe` code of this crate.

#![allow(unsafe_code)]

mod link;
mod packet_socket;
mod poll;
pub(crate) mod privileges;
mod ring;

pub(crate) use link::Link;
pub(crate) use packet_socket::PacketSocket;
pub use poll::wait_readable;
pub(crate) use ring::{Ring, Slot};
