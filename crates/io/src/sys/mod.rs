//! Calls to the operating system, and the only `unsafe` code of this crate.

#![allow(unsafe_code)]

mod bpf;
mod bpf_code;
mod link;
mod mapping;
mod packet_socket;
mod pipe;
mod poll;
mod poll_set;
pub(crate) mod privileges;
mod ring;
pub(crate) mod seccomp;
mod xdp_program;
mod xdp_ring;
mod xdp_socket;

pub(crate) use bpf::Attached;
pub(crate) use link::Link;
pub(crate) use packet_socket::PacketSocket;
pub(crate) use pipe::{set_waiting, wait_for_pipe};
pub use poll::wait_readable;
pub(crate) use poll_set::PollSet;
pub(crate) use ring::{Ring, Slot};
pub(crate) use xdp_program::XdpProgram;
pub(crate) use xdp_socket::{Binding, XDP_FRAME_MAX, XdpReceiver, XdpSender, XdpSocket};
