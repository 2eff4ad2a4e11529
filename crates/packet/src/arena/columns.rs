//! The columns of a table: their types and positions.
//!
//! Safety: tables reach a column's values by its type and by the bytes before it. Both come from
//! the one list in `columns!` here, which sums up the widths. So no two columns overlap, and all
//! together have [`ROW_LEN`] bytes.

#![allow(unsafe_code)]

use crate::Headers;

/// A column of the table: its value, and the bytes of the columns before it in a row.
///
/// # Safety
/// `Value` is the type that the table stores after `BEFORE` bytes of a row: integers, for which
/// zeroes are a value. Only `columns!` implements this trait.
pub(crate) unsafe trait Column: Copy {
    type Value: Copy + 'static;
    const BEFORE: usize;
    /// Its place among the columns.
    const INDEX: usize;
}

macro_rules! columns {
    ($($vis:vis $name:ident: $value:ty;)*) => {
        columns!(@step [0usize] [0usize] $($vis $name: $value;)*);
        /// Bytes of a row before each column, in order.
        pub(super) const BEFORE: &[usize] = &[$($name::BEFORE),*];
        /// Bytes of a row without its scratch words.
        pub(crate) const ROW_LEN: usize = 0 $(+ size_of::<$value>())*;
        /// The width of every column, in order.
        pub(crate) const WIDTHS: &[usize] = &[$(size_of::<$value>()),*];
        /// The name of every column, and the bytes of a row before it.
        pub(crate) const COLUMNS: &[(&str, usize)] = &[$((stringify!($name), $name::BEFORE)),*];
    };
    (@step [$before:expr] [$index:expr] $vis:vis $name:ident: $value:ty; $($rest:tt)*) => {
        #[derive(Clone, Copy)]
        $vis struct $name;
        // SAFETY: `BEFORE` sums up the columns before this one.
        unsafe impl Column for $name {
            type Value = $value;
            const BEFORE: usize = $before;
            const INDEX: usize = $index;
        }
        columns!(@step [$before + size_of::<$value>()] [$index + 1] $($rest)*);
    };
    (@step [$before:expr] [$index:expr]) => {};
}

// Every column is aligned, as rows are a multiple of 64. The order suits devices: unused columns,
// then read ones, then written ones, so that each group is one range. `RoomAt`, `RoomLen`, `Start`
// and `FrameLen` name memory: only the arena can write them.
columns! {
    pub(crate) Timestamp: u64;
    pub(crate) Captured: u64;
    pub(crate) Ingress: u64;
    pub(crate) FlowHash: u32;
    pub(crate) Interface: u16;
    pub(crate) ShardOf: u8;
    pub(crate) Mirrored: u8;
    pub(super) RoomLen: u32;
    pub(crate) Link: u16;
    pub(super) RoomAt: u32;
    pub(crate) HeadersOf: Headers;
    pub(crate) WireLen: u32;
    pub(super) FrameLen: u32;
    pub(super) Start: u16;
    pub(crate) NextHop: u16;
    pub(crate) Left: u8;
    pub(crate) VerdictOf: u8;
    pub(crate) ReasonOf: u8;
    pub(crate) DroppedBy: u8;
    pub(crate) Flagged: u8;
}
