//! Launches of batches on devices: loading, copies to the device and to the host, and launches in
//! flight.
//!
//! The engine takes batches through `before` on the CPU and pushes them to the [`Launches`] of a
//! stage. These collect batches into launches and give each launch to a stream. Meanwhile the
//! caller does other work. When the kernels are done, [`Launches::advance`] checks the tables they
//! wrote and copies written frames to the host. [`Launches::take_finished`] returns launches in the
//! order in which they were closed, and [`Launches::apply`] applies the outcome to each batch. The
//! CPU does the work that kernels left to it.
//!
//! Nothing on the host is written before all kernels of a launch are done. If anything fails before
//! that, the CPU does the work of the launch with the host's data. If copying frames to the host
//! fails, the packets of the launch are lost ([`DEVICE_LOST`]). After the first failure the lane
//! does not use the device again. Other lanes do.
//!
//! A device that shares the host's memory works on the packets themselves, without copies. If its
//! kernels write frames, a failure loses the packets of the launch. If they only read, the CPU does
//! the work. Packets that may still be read late are moved to other rooms first.
//!
//! This crate knows no threads, ports or functions. It gets them as plain data ([`LaunchStage`]).

#![deny(unsafe_code)]

mod clock;
mod crossings;
mod executor;
mod failed_devices;
mod flight;
mod launch_buffers;
mod launch_stage;
mod launch_target;
mod launches;
mod lengthened;
mod loaded;
mod mirror;
mod options;
mod prediction;
mod stage_load;
mod sys;
mod transfers;
mod transport;
mod versions;

use warpline_packet::{REASONS_MAX, Reason};

pub use clock::Clock;
pub use crossings::{Crossings, LeftThere, RoomsThere};
pub use failed_devices::FailedDevices;
pub use flight::{Finished, Flight, Output, Scratch};
pub use launch_buffers::Dimensions;
pub use launch_stage::{LaunchStage, Member, Transport, takes_out_of_mirrors};
pub use launch_target::LaunchTarget;
pub use launches::Launches;
pub use lengthened::Lengthened;
pub use loaded::{Loaded, load};
pub use mirror::{Mirrors, reach};
pub use options::{LaunchOptions, OnDevice, Streams};
pub use stage_load::{LaunchTimes, PACKET_LEN};
pub use sys::lane_memory::{ArenaMemory, LaneMemory};
pub use sys::vouched::{Given, source as kernel_source};
pub use transfers::Transfers;
pub use transport::{field_copies, packed_rows, room_copies};
pub use versions::{Declared, Followed, Reader, StaleRead, Versions};

/// The drop reason of packets whose only current copy was on a failed device. It is the last of the
/// reasons that a function may name; no function's list is as long.
pub const DEVICE_LOST: Reason = Reason(REASONS_MAX as u8 - 1);
/// Its name.
pub const DEVICE_LOST_NAME: &str = "device-lost";
