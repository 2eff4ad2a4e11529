//! The `run` of a function as kernels: the text, and the read-only tables that it works with. What compiles it and what it
//! runs on is the engine's business.
//!
//! Every kernel of a function has this head, with as many tables as the function has:
//!
//! ```c
//! KERNEL(name, group)(GLOBAL u8 *arena, const GLOBAL u32 *packets, const GLOBAL u8 *table_0, ..., u32 count, u32 place)
//! ```
//!
//! `arena` is the mirror, `packets` names the packets of the launch (`kernels/packet.h`), `count` says how many there are, `place` is the
//! function's place in the chain. A kernel gives each packet the same bytes, verdict and words as `run`, or leaves it to the CPU untouched
//! (`leave`). It ends, whatever the packets hold, and reads and writes only within packets' rooms, their rows and the tables.

use core::fmt;

use warpline_packet::{Field, ScratchWord};
use zeroize::Zeroize;

/// The device form of a function's pure work. Made by functions of this crate only: who loads the text vouches for it.
///
/// Tables may hold keys: they are not shown, and are wiped from memory when they are dropped.
#[derive(Clone)]
pub struct Kernels {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    pub(crate) headers: &'static [KernelHeader],
    pub(crate) defines: Vec<(&'static str, u64)>,
    pub(crate) steps: Vec<KernelStep>,
    pub(crate) tables: Vec<Vec<u8>>,
}

/// Text that several functions' kernels share; it stands before their own.
#[derive(Clone, Copy, Debug)]
pub struct KernelHeader {
    /// What compilers call it in their logs.
    pub name: &'static str,
    /// The text.
    pub text: &'static str,
}

/// A kernel. The kernels of a function run one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelStep {
    /// Its name.
    pub name: &'static str,
    /// Work-items of a group.
    pub group: u32,
    /// Bytes of its `SHARED_BIG`; 0 where it has none.
    pub shared_big: u32,
    /// Work-items that each packet gets.
    pub items_per_packet: u32,
}

/// What every kernel that works on packets needs.
pub(crate) const PACKET: KernelHeader =
    KernelHeader { name: "packet.h", text: include_str!("../kernels/packet.h") };

/// What kernels need that read and write bytes of frames.
pub(crate) const BYTES: KernelHeader =
    KernelHeader { name: "bytes.h", text: include_str!("../kernels/bytes.h") };

/// The number by which kernels ask for a scratch word.
pub(crate) fn number_of(word: ScratchWord) -> u64 {
    word.field() as u64 - Field::Scratch0 as u64
}

/// Most tables of a function.
pub const KERNEL_TABLES_MAX: usize = 8;

impl Drop for Kernels {
    fn drop(&mut self) {
        self.tables.iter_mut().for_each(Zeroize::zeroize);
    }
}

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lens: Vec<usize> = self.tables.iter().map(Vec::len).collect();
        f.debug_struct("Kernels")
            .field("name", &self.name)
            .field("steps", &self.steps)
            .field("table_lens", &lens)
            .finish_non_exhaustive()
    }
}

impl Kernels {
    /// What compilers call the text in their logs.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The text.
    pub fn text(&self) -> &'static str {
        self.text
    }

    /// What stands before it.
    pub fn headers(&self) -> &'static [KernelHeader] {
        self.headers
    }

    /// Numbers by name: what the text needs to know of the function's configuration.
    pub fn defines(&self) -> &[(&'static str, u64)] {
        &self.defines
    }

    /// The kernels, in the order in which they run.
    pub fn steps(&self) -> &[KernelStep] {
        &self.steps
    }

    /// The tables, at most [`KERNEL_TABLES_MAX`], none of them empty.
    pub fn tables(&self) -> &[Vec<u8>] {
        &self.tables
    }
}
