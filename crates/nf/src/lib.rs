//! The interface of network functions: phases, access, emitted packets, reports, and kernels.
//!
//! Start at [`Function`]. This crate knows no single function.

#![forbid(unsafe_code)]

mod about;
mod counter;
mod emit;
mod function;
pub mod kernels;
mod outputs;
mod peak;
mod ports;
mod report;
mod resources;
mod sampler;
mod tables;

use warpline_packet::Access;

pub use about::About;
pub use counter::{Counter, CounterKind};
pub use emit::{Cause, Emit, Passage, TICK_MADE_MAX, TICK_NOTES_MAX};
pub use function::{After, Before, Emits, Function, Growth, State, StateHalf, Traits};
pub use kernels::{Element, KernelHeader, KernelParameter, KernelStep, KernelTable, Kernels};
pub use outputs::{Outputs, RecordBuffer, SharedRecords};
pub use peak::{PeakHistory, PeakSum};
pub use ports::{HopPorts, PORTS_MAX, Port, Ports, Side};
pub use report::{Cell, Report, Table};
pub use resources::{Resources, Skipped};
pub use sampler::Sampler;
pub use tables::TableSize;
pub use warpline_config as config;
pub use warpline_config::{
    Diagnostic, Diagnostics, Key, LISTED_MAX, Section, SourceText, is_deceptive,
};
pub use warpline_outputs::{
    Counts, Destination, Format, LINKS_MAX, Output, Registry, STDIN, STDOUT, Writer, continued,
    descriptor_of, is_inherited, link_target, note_inherited,
};

/// The static description of a function.
pub struct Definition {
    /// Its name in chain files.
    pub name: &'static str,
    /// Its purpose, in a line.
    pub summary: &'static str,
    /// Its manual, as text.
    pub manual: &'static str,
    /// Whether instances have kernels for devices ([`Function::kernels`]).
    pub has_kernels: bool,
    /// Keys of its table.
    pub keys: &'static [Key],
    /// Its drop reasons; a [`warpline_packet::Reason`] is a place in this list.
    pub drops: &'static [&'static str],
    /// All that its state and its report count ([`StateHalf::counters`], [`Report::counters`]).
    pub counters: &'static [Counter],
    /// The fields that it accesses; an instance adds the scratch words it was handed.
    pub access: Access,
    /// Builds an instance. `None` only when mistakes were noted in the section.
    pub build: fn(&mut Section<'_>, &mut Resources) -> Option<Box<dyn Function>>,
    /// Builds an instance for two places of a chain, the first and the second; `None` for a
    /// function that has one place only.
    pub build_pair: Option<BuildPair>,
}

impl Definition {
    /// The declaration of the counter called `name`.
    pub fn counter(&self, name: &str) -> Option<&'static Counter> {
        self.counters.iter().find(|counter| counter.name == name)
    }
}

/// Builds the functions of an instance's first and second place, which share tables and scratch
/// words. `None` only when mistakes were noted in the section.
pub type BuildPair = fn(&mut Section<'_>, &mut Resources) -> Option<[Box<dyn Function>; 2]>;
