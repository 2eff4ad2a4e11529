//! The read-only tables of kernels.

use core::fmt;

/// A read-only table that kernels are given.
#[derive(Clone)]
pub struct KernelTable {
    /// Its name in the text.
    pub name: &'static str,
    /// The type of its elements.
    pub element: Element,
    /// Its bytes; not empty.
    pub bytes: Vec<u8>,
}

/// The type of a table's elements; little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// Bytes, or rows whose layout only the text defines.
    U8,
    /// Numbers of 16 bits.
    U16,
    /// Numbers of 32 bits.
    U32,
}

impl Element {
    /// Its name in the dialect.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
        }
    }
}

impl fmt::Debug for KernelTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {} bytes", self.element.name(), self.name, self.bytes.len())
    }
}
