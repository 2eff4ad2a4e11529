//! The network functions: configuration, access, CPU work, state.
//!
//! [`Function`] is the interface, [`FUNCTIONS`] the list. Each function is a folder: `mod.rs` is its manual,
//! configuration, access and work; tables are in files named after their algorithm.

#![forbid(unsafe_code)]

mod about;
pub mod config;
mod diagnostic;
pub mod digest;
mod emit;
pub mod firewall;
pub mod flow_monitor;
mod function;
pub mod harness;
mod icmp_errors;
pub mod ipcomp;
pub mod ipsec;
mod kernels;
mod keyed;
pub mod load_balancer;
pub mod nat;
pub mod nids;
mod outputs;
pub mod reassembly;
mod report;
pub mod router;
mod sampler;
mod shares;
mod sources;
mod tables;
mod upper;

use warpline_packet::Access;

pub use about::About;
pub use config::{Key, Resources, Section};
pub use diagnostic::{Diagnostic, Diagnostics, LISTED_MAX, SourceText, is_deceptive};
pub use emit::{Cause, Emit, TICK_MADE_MAX, TICK_NOTES_MAX};
pub use function::{After, Before, Emits, Function, Growth, State};
pub use kernels::{
    Element, KernelHeader, KernelParameter, KernelStep, KernelTable, Kernels, field_copies,
    packed_rows, room_copies,
};
pub use outputs::{LineBuffer, Lines, Outputs, SharedLines};
pub use report::{Cell, Report, Table};
pub use sampler::Sampler;
pub use tables::TableSize;

/// What is known of a function before one is built.
pub struct Definition {
    /// Its name in chain files.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Its manual, as text.
    pub manual: &'static str,
    /// Whether instances have kernels for devices ([`Function::kernels`]).
    pub has_kernels: bool,
    /// Keys of its table.
    pub keys: &'static [Key],
    /// Its drop reasons; a [`warpline_packet::Reason`] is a place in this list.
    pub drops: &'static [&'static str],
    /// What it touches; an instance adds the scratch words it was handed.
    pub access: Access,
    /// Builds an instance. `None` only when mistakes were noted in the section.
    pub build: fn(&mut Section<'_>, &mut Resources) -> Option<Box<dyn Function>>,
}

/// Every function there is.
pub const FUNCTIONS: &[Definition] = &[
    digest::DEFINITION,
    firewall::DEFINITION,
    flow_monitor::DEFINITION,
    ipcomp::DEFINITION,
    ipsec::DEFINITION,
    load_balancer::DEFINITION,
    nat::DEFINITION,
    nids::DEFINITION,
    router::DEFINITION,
];

/// The function called `name`.
pub fn definition(name: &str) -> Option<&'static Definition> {
    FUNCTIONS.iter().find(|definition| definition.name == name)
}
