//! The copies of a launch's table: packed rows, columns, columns of single fields, and their bytes.

use std::ops::Range;

use warpline_device::{Argument, Part, Step, Work};
use warpline_packet::{Columns, FieldSet, FoundLists};

use super::{Executor, TABLE, first_found_len, found_len};
use crate::flight::Flight;
use crate::launch_buffers::There;
use crate::loaded::LaunchData;
use crate::prediction::Laid;

impl Executor {
    /// How the table of the launch of `slot` lies.
    pub(super) fn laid(&self, slot: usize) -> Laid {
        let own = &self.slots[slot];
        let (packets, rows) = (own.rows.count(), own.rows.rows());
        let packed = own.packed.as_ref().map_or(0, Range::len);
        let [head, first] = match self.by.has_findings() {
            true => {
                let room = found_len(self.by.findings_room(packets));
                [FoundLists::HEAD_LEN, first_found_len(packets).min(room)]
            }
            false => [0; 2],
        };
        let there = own.columns.stretched_len() * rows + packed + head;
        let back = self.written.stretched_len() * rows + first;
        Laid { packets, rows, columns: [there, back] }
    }

    /// Adds the packed rows of the launch of `slot`, if any, and the kernel that writes its table
    /// from them.
    pub(super) fn add_packed(&self, work: &mut Work, slot: usize, on: &LaunchData) {
        let own = &self.slots[slot];
        let (There::Copied { packed, .. }, Some(unpacker)) = (&own.there, &self.unpacker) else {
            return;
        };
        let Some(range) = own.packed.clone() else { return };
        let there = packed.at(0..range.len());
        work.steps.push(Step::CopyIn { from: Part { piece: TABLE, range }, to: there.clone() });
        let on = LaunchData { host: Some(Argument::Writes(there)), ..on.clone() };
        work.steps.push(Step::Call(unpacker.call(&unpacker.kernels[0], &on, 0)));
    }

    /// Copies columns of the launch's table, and those of fields of frames, between the launch's
    /// own memory and the memory of its kernels. Returns the bytes of the latter.
    pub(super) fn copy_table<T>(
        &self,
        work: &mut Work,
        (slot, flights): (usize, &[Flight<T>]),
        (columns, fields): (Columns, FieldSet),
        step: impl Fn(Range<usize>) -> Step,
    ) -> u64 {
        let rows = self.slots[slot].rows.rows();
        columns.stretches(rows, |bytes| work.steps.push(step(bytes)));
        if fields.is_empty() {
            return 0;
        }
        let met = |version| {
            flights.iter().any(|Flight { batch, .. }| batch.versions_present([version]) == [true])
        };
        let mut field_bytes = 0;
        self.fields.stretches(fields, rows, met, |bytes| {
            field_bytes += bytes.len() as u64;
            work.steps.push(step(bytes));
        });
        field_bytes
    }
}
