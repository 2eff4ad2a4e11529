//! The `run` of a function as kernels: their text, and the description of their parameters. The
//! engine chooses compiler and device.
//!
//! [`Kernels::parameters`] is the only list of a kernel's parameters. The heads of the kernels are
//! generated from it, and the launcher binds arguments by it. A text has no heads of its own, but
//! only bodies:
//!
//! ```c
//! PACKET_KERNEL(route)
//! {
//!     ITEMS { ... }
//! }
//! ```
//!
//! A body can use `arena`, the mirror; `packets` and `packet_rows`, the table of the launch's
//! packets (`kernels/packet.h`); the function's tables by their names; if it keeps findings,
//! `findings` and `findings_room` (`kernels/findings.h`); `count`, the number of packets; and
//! `place`, the function's place in the chain. Kernels that copy rooms also use `host` and
//! `without`. `host` is the arena that `arena` mirrors, and `without` selects packets whose rooms
//! are skipped. The text reaches fields of frames by the accessors generated from the table of
//! fields ([`warpline_packet::kernel_fields`]), wherever the fields lie. A kernel gives each packet
//! the same bytes, verdict and words as `run`, or leaves it to the CPU untouched (`leave`). It ends
//! for any packets, and reads and writes only packets' rooms, their rows, the tables and the room
//! for findings.

mod builder;
mod headers;
mod table;

use core::fmt;
use core::fmt::Write as _;
use std::borrow::Cow;

use warpline_packet::{Binding, Declared, Field, ReadWrite, ScratchWord, kernel_fields};
use zeroize::Zeroize;

pub use builder::KernelsBuilder;
use headers::PACKET;
pub use headers::{
    BYTES, ENDPOINT, FINDINGS, KernelHeader, MAC, TUNNEL, TUNNEL_NUMBERS, Text, own_mac,
};
pub use table::{Element, KernelTable};

/// The device form of a function's pure work, made by [`Kernels::builder`].
///
/// Tables may hold keys: their bytes are not shown, and are zeroed when dropped unless they are
/// public.
#[derive(Clone)]
pub struct Kernels {
    name: &'static str,
    text: &'static str,
    /// Headers of the text, after those of every kernel.
    headers: &'static [Text],
    defines: Vec<(&'static str, u64)>,
    /// The kernels that the text has.
    all_steps: &'static [KernelStep],
    /// Those of them that run.
    steps: Vec<KernelStep>,
    tables: Vec<KernelTable>,
    /// Whether the tables hold no keys.
    are_public: bool,
    /// The scratch word with the place of a packet's findings, if the kernels keep some.
    findings: Option<ScratchWord>,
    /// Whether they reach the arena in the host's memory, too.
    reaches_host: bool,
    /// The fields that have accessors: [`Kernels::declaring`].
    declared: ReadWrite,
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

/// One parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelParameter {
    /// The mirror, which is read and written.
    Arena,
    /// The arena itself in the host's memory, in which kernels read and write the rooms lent to
    /// their work; or packed rows.
    Host,
    /// The table of the launch's packets, which is read and written
    /// ([`warpline_packet::LaunchRows`]).
    Packets,
    /// The function's table of this number.
    Table(usize),
    /// The lists of findings in the launch's packets, which are read and written. They are empty at
    /// the launch.
    Findings,
    /// Numbers for which the lists have room.
    FindingsRoom,
    /// Rows that a column of that table has.
    PacketRows,
    /// How many packets there are.
    Count,
    /// The function's place in the chain.
    Place,
    /// Mirror bits. Packets with one of them in their column of mirrors are not copied
    /// ([`warpline_packet::mirror_bit`]).
    Without,
}

/// The number by which kernels ask for a scratch word.
pub fn number_of(word: ScratchWord) -> u64 {
    word.field() as u64 - Field::Scratch0 as u64
}

impl Drop for Kernels {
    fn drop(&mut self) {
        self.zero_secrets();
    }
}

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernels")
            .field("name", &self.name)
            .field("steps", &self.steps)
            .field("tables", &self.tables)
            .finish_non_exhaustive()
    }
}

impl Kernels {
    /// The name by which compilers call the text in their logs.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The text.
    pub fn text(&self) -> &'static str {
        self.text
    }

    /// Headers of the text, for fields at the places of `binding`.
    pub fn headers(&self, binding: &Binding) -> Vec<KernelHeader> {
        let given = |&(name, text): &Text| KernelHeader { name, text: Cow::Borrowed(text) };
        let made = |name, text| KernelHeader { name, text: Cow::Owned(text) };
        let common = [
            given(&PACKET),
            made("fields.h", kernel_fields(binding, &self.declared())),
            made("heads.h", self.heads()),
        ];
        common.into_iter().chain(self.headers.iter().map(given)).collect()
    }

    /// The same kernels of a function that declares `access` of them
    /// ([`crate::Function::kernel_access`]). No accessor of another field compiles.
    #[must_use]
    pub fn declaring(mut self, access: ReadWrite) -> Self {
        self.declared = access;
        self
    }

    fn declared(&self) -> Declared<'_> {
        let function = self.name.strip_suffix(".cl").unwrap_or(self.name);
        Declared { function, access: self.declared }
    }

    /// Numbers by name: the function's configuration for the text.
    pub fn defines(&self) -> &[(&'static str, u64)] {
        &self.defines
    }

    /// The kernels, in the order in which they run.
    pub fn steps(&self) -> &[KernelStep] {
        &self.steps
    }

    /// The tables.
    pub fn tables(&self) -> &[KernelTable] {
        &self.tables
    }

    /// The scratch word with the place of a packet's findings ([`warpline_packet::FoundLists`]), if
    /// the kernels keep some.
    pub fn findings(&self) -> Option<Field> {
        self.findings.map(ScratchWord::field)
    }

    /// The arguments of each kernel, in order.
    pub fn parameters(&self) -> Vec<KernelParameter> {
        use KernelParameter::{
            Arena, Count, Findings, FindingsRoom, Host, PacketRows, Packets, Place, Table, Without,
        };
        let is_copier = |_: &KernelParameter| self.reaches_host;
        let (host, without) = (Some(Host).filter(is_copier), Some(Without).filter(is_copier));
        let tables = (0..self.tables.len()).map(Table);
        let findings = self.findings.iter().flat_map(|_| [Findings, FindingsRoom]);
        let memories = [Arena].into_iter().chain(host).chain([Packets]).chain(tables);
        let numbers = [PacketRows, Count, Place].into_iter().chain(without);
        memories.chain(findings).chain(numbers).collect()
    }

    /// Zeroes the tables that may hold keys.
    fn zero_secrets(&mut self) {
        if !self.are_public {
            self.tables.iter_mut().for_each(|table| table.bytes.zeroize());
        }
    }

    /// A macro for the head of each kernel.
    fn heads(&self) -> String {
        let parameters: Vec<String> =
            self.parameters().into_iter().map(|one| self.declare(one)).collect();
        let parameters = parameters.join(", ");
        let mut text = String::new();
        for KernelStep { name, group, .. } in self.all_steps {
            let _ = writeln!(text, "#define HEAD_OF_{name} KERNEL({name}, {group})({parameters})");
        }
        text
    }

    /// A parameter as the dialect declares it.
    fn declare(&self, parameter: KernelParameter) -> String {
        match parameter {
            KernelParameter::Arena => "GLOBAL u8 *arena".into(),
            KernelParameter::Host => "GLOBAL u8 *host".into(),
            KernelParameter::Packets => "GLOBAL u8 *packets".into(),
            KernelParameter::Table(number) => {
                let KernelTable { name, element, .. } = &self.tables[number];
                format!("const GLOBAL {} *{name}", element.name())
            }
            KernelParameter::Findings => "GLOBAL u32 *findings".into(),
            KernelParameter::FindingsRoom => "u32 findings_room".into(),
            KernelParameter::PacketRows => "u32 packet_rows".into(),
            KernelParameter::Count => "u32 count".into(),
            KernelParameter::Place => "u32 place".into(),
            KernelParameter::Without => "u32 without".into(),
        }
    }
}

#[cfg(test)]
mod tests;
