//! Copies and kernels of a launch as they affected fields. They come from the steps given to a
//! stream, and from the lane's copies between batches and the launch's table.

use core::ops::Range;

use warpline_device::{Buffer, Kernel, KernelCall, Rows, Slice, Step};
use warpline_packet::{Binding, Columns, Field, FieldSet};

/// One thing that was done, in order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Act {
    /// The lane filled the launch's table with these fields of its batches.
    Filled(FieldSet),
    /// Bytes of the lane's memory were copied to the mirror.
    RoomsThere(Copied),
    /// The same back.
    RoomsBack(Copied),
    /// A kernel read the rooms of packets that no mirror of these bits is marked as having.
    Pulled(u8),
    /// A kernel wrote all rooms back.
    Pushed,
    /// Columns of the launch's table were copied to the device.
    TableThere(InTable),
    /// The same back.
    TableBack(InTable),
    /// A kernel wrote these fields from packed rows, which the lane filled.
    Unpacked(FieldSet),
    /// A kernel put columns into frames in the mirror.
    Put(FieldSet),
    /// A kernel took columns from frames in the mirror.
    Took(FieldSet),
    /// The kernels of the function at this position ran.
    Ran(u8),
    /// The lane kept these fields of packets that are fetched.
    Kept(FieldSet),
    /// It put them back.
    Restored(FieldSet),
}

/// Bytes of a lane's memory that were copied: all, or rows of them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Copied {
    bytes: Range<usize>,
    rows: Option<Rows>,
}

impl Copied {
    /// The row, or all, in which the byte at `at` lies or before which it lies next.
    fn piece(&self, at: usize) -> Range<usize> {
        let Some(Rows { width, pitch }) = self.rows else { return self.bytes.clone() };
        let start = self.bytes.start + at.saturating_sub(self.bytes.start) / pitch.max(1) * pitch;
        start..(start + width).min(self.bytes.end)
    }

    /// Whether these bytes are among them.
    pub(super) fn has(&self, frame: &Range<usize>) -> bool {
        let own = self.piece(frame.start);
        frame.is_empty() || own.start <= frame.start && frame.end <= own.end
    }

    /// Whether any byte of a room is among them.
    pub(super) fn touches(&self, room: &Range<usize>) -> bool {
        let overlaps = |own: Range<usize>| own.start < room.end && room.start < own.end;
        overlaps(self.piece(room.start)) || overlaps(self.piece(room.end.saturating_sub(1)))
    }
}

/// Fields with columns in some bytes of a launch's table: for packets of IPv4, of IPv6, and others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InTable([FieldSet; 3]);

impl InTable {
    /// Those of a packet of this IP version.
    pub(super) fn of(&self, version: u8) -> FieldSet {
        self.0[match version {
            4 => 0,
            6 => 1,
            _ => 2,
        }]
    }

    /// Those in `bytes` of a table whose columns have `rows` rows, with the fields' places in
    /// `binding`.
    fn within(bytes: &Range<usize>, rows: usize, binding: &Binding) -> Self {
        let holds = |before: usize, width: usize| {
            bytes.start <= before * rows && (before + width) * rows <= bytes.end
        };
        let metadata = metadata_in(|columns| columns.iter().all(|(at, width)| holds(at, width)));
        Self([4, 6, 0].map(|version| {
            let columns = || binding.columns().iter();
            let lacks = columns().filter(|own| own.is_of(version) && !holds(own.before, own.width));
            let lacking: FieldSet = lacks.map(|own| own.field).collect();
            let staged: FieldSet = columns().map(|own| own.field).collect();
            let staged = staged & !lacking;
            metadata | staged
        }))
    }
}

/// Fields of metadata with whose columns it is so.
fn metadata_in(is_so: impl Fn(Columns) -> bool) -> FieldSet {
    let of = |&field: &Field| Columns::of(FieldSet::of(&[field]));
    (!FieldSet::FRAME).iter().filter(|field| is_so(of(field))).collect()
}

/// Fields of metadata whose columns are among these.
pub(crate) fn fields_of(columns: Columns) -> FieldSet {
    metadata_in(|own| columns.covers(own))
}

/// Memory and kernels of a launch, by which its steps are read.
pub(crate) struct Known<'a> {
    pub(crate) mirror: Option<&'a Buffer>,
    pub(crate) table: Option<&'a Buffer>,
    pub(crate) packed: Option<&'a Buffer>,
    pub(crate) rows: usize,
    pub(crate) binding: &'a Binding,
    /// Kernels that do one thing to all packets, each with that thing.
    pub(crate) helpers: Vec<(&'a Kernel, Act)>,
    /// Kernels of functions, by position.
    pub(crate) functions: Vec<(u8, &'a Kernel)>,
}

impl Known<'_> {
    /// The actions of `steps` on fields.
    pub(crate) fn read(&self, steps: &[Step]) -> Vec<Act> {
        let bytes_of = |slice: &Slice, own: Option<&Buffer>| own.and_then(|own| slice.of(own));
        let in_table = |bytes| InTable::within(&bytes, self.rows, self.binding);
        let mut functions = self.functions.iter();
        let (mut acts, mut has_packed) = (Vec::new(), false);
        for step in steps {
            match step {
                Step::CopyIn { to, .. } => {
                    has_packed |= bytes_of(to, self.packed).is_some();
                    let whole = |bytes| Act::RoomsThere(Copied { bytes, rows: None });
                    acts.extend(bytes_of(to, self.mirror).map(whole));
                    acts.extend(bytes_of(to, self.table).map(in_table).map(Act::TableThere));
                }
                Step::CopyOut { from, .. } => {
                    let whole = |bytes| Act::RoomsBack(Copied { bytes, rows: None });
                    acts.extend(bytes_of(from, self.mirror).map(whole));
                    acts.extend(bytes_of(from, self.table).map(in_table).map(Act::TableBack));
                }
                Step::RowsIn { to, rows, .. } => {
                    let some = |bytes| Act::RoomsThere(Copied { bytes, rows: Some(*rows) });
                    acts.extend(bytes_of(to, self.mirror).map(some));
                }
                Step::RowsOut { from, rows, .. } => {
                    let some = |bytes| Act::RoomsBack(Copied { bytes, rows: Some(*rows) });
                    acts.extend(bytes_of(from, self.mirror).map(some));
                }
                Step::Call(call) => {
                    let act = match self.helper(call) {
                        Some(Act::Unpacked(_)) if !has_packed => None,
                        Some(act) => Some(act),
                        // Functions run in their order; one may have several kernels.
                        None => functions
                            .find(|(_, kernel)| call.is_of(kernel))
                            .map(|(position, _)| Act::Ran(*position)),
                    };
                    let is_new = |act: &Act| acts.last() != Some(act);
                    let act = act.filter(is_new);
                    acts.extend(act);
                }
            }
        }
        acts
    }

    fn helper(&self, call: &KernelCall) -> Option<Act> {
        let own = self.helpers.iter().find(|(kernel, _)| call.is_of(kernel));
        own.map(|(_, act)| act.clone())
    }
}
