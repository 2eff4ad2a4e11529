//! Records copies and kernels of launches for [`crate::versions`], from the steps given to streams.

use warpline_device::{Kernel, Step};
use warpline_packet::{FieldSet, mirror_bit};

use super::{Executor, PULL, PUSH, PUT, RoomsThere, TAKE};
use crate::launch_buffers::There;
use crate::versions::Launched;
use crate::versions::trace::{Act, Known};

impl Executor {
    /// Records the effect on fields of `steps`, which a stream gets for the launch of `slot`, if
    /// versions are followed.
    pub(super) fn follow(&mut self, slot: usize, steps: &[Step]) {
        if self.slots[slot].acts.is_some() {
            let read = self.known(slot).read(steps);
            self.slots[slot].acts.iter_mut().for_each(|acts| acts.extend(read.iter().cloned()));
        }
    }

    /// All that was done to fields for the launch of `slot`, where that is followed.
    pub(crate) fn launched(&self, slot: usize) -> Option<Launched<'_>> {
        let columns = self.fields.columns().iter().map(|column| column.field);
        Some(Launched {
            acts: self.slots[slot].acts.as_deref()?,
            mirror: (!self.is_in_place()).then_some(self.mirror.number),
            staged: match self.crossings.is_direct() {
                true => columns.collect(),
                false => FieldSet::EMPTY,
            },
        })
    }

    fn known(&self, slot: usize) -> Known<'_> {
        let own = &self.slots[slot];
        let (table, packed) = match &own.there {
            There::Copied { table, packed, .. } => (Some(table), Some(packed)),
            There::InPlace => (None, None),
        };
        let functions = self.segment.iter().flat_map(|member| {
            member.loaded.kernels.iter().map(|own| (member.position, &own.kernel))
        });
        Known {
            mirror: self.mirror.copy.as_ref(),
            table,
            packed,
            rows: own.rows.rows(),
            binding: &self.fields,
            helpers: self.helpers(slot),
            functions: functions.collect(),
        }
    }

    /// Kernels of no function, each with its effect on fields.
    fn helpers(&self, slot: usize) -> Vec<(&Kernel, Act)> {
        let is_missing = self.crossings.rooms_there == RoomsThere::Missing;
        let without = if is_missing { mirror_bit(self.mirror.number) } else { 0 };
        let carrier = self.carrier.as_ref().map(|(carrier, _)| &**carrier);
        let (copier, unpacker) = (self.copier.as_deref(), self.unpacker.as_deref());
        let all = [
            (copier, PUT, Act::Put(self.crossings.there)),
            (copier, TAKE, Act::Took(self.crossings.back)),
            (carrier, PULL, Act::Pulled(without)),
            (carrier, PUSH, Act::Pushed),
            (unpacker, 0, Act::Unpacked(self.slots[slot].packed_fields())),
        ];
        all.into_iter()
            .filter_map(|(loaded, at, act)| Some((&loaded?.kernels.get(at)?.kernel, act)))
            .collect()
    }
}
