//! What a plan says that frames of a launch move, beside which what they moved is shown.

use warpline_packet::{Binding, FieldSet};

use super::crossings::{Crossings, RoomsThere};
use crate::stage::Flight;

/// Bytes of frames in one direction.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// Of a packet's fields: by the IP version whose they are, 0 for any.
    fields: [u64; 3],
    has_rooms: bool,
}

/// IP versions that columns are for.
const VERSIONS: [u8; 3] = [0, 4, 6];

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prediction {
    there: Way,
    back: Way,
    /// Of packets whose rooms go there although not all do.
    missing_share: f64,
}

/// Bytes of a launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Predicted {
    /// Of frames to the device.
    pub(super) there: u64,
    /// Of these those of packets that the mirror is expected to lack.
    pub(super) missing: u64,
    /// Of frames to the host.
    pub(super) back: u64,
}

impl Prediction {
    /// Of `crossings`, whose fields have the columns `fields`.
    pub(super) fn of(crossings: &Crossings, fields: &Binding) -> Self {
        let way = |set: FieldSet, has_rooms| {
            let width = |version| {
                let of = fields.columns().iter().filter(|column| column.version == version);
                of.filter(|column| set.contains(column.field))
                    .map(|column| column.width as u64)
                    .sum()
            };
            Way { fields: VERSIONS.map(width), has_rooms }
        };
        Self {
            there: way(crossings.there, crossings.rooms_there == RoomsThere::All),
            back: way(crossings.back, crossings.rooms_back),
            missing_share: crossings.missing_share,
        }
    }

    /// For a launch. Bytes of fields are rows of columns, as for tables: those of dropped packets among them, and
    /// of an IP version where any packet of the batch has it.
    pub(super) fn of_launch(&self, flights: &[Flight]) -> Predicted {
        let mut counts = [0; 3];
        let mut rooms = 0;
        let has_rooms = self.there.has_rooms || self.back.has_rooms || self.missing_share > 0.0;
        for Flight { batch, .. } in flights {
            for (count, is_there) in counts.iter_mut().zip(batch.versions_present(VERSIONS)) {
                *count += if is_there { batch.len() as u64 } else { 0 };
            }
            rooms += if has_rooms { batch.rooms_len() as u64 } else { 0 };
        }
        let [there, back] = [self.there, self.back].map(|way| {
            let fields: u64 =
                way.fields.iter().zip(counts).map(|(width, count)| width * count).sum();
            fields + if way.has_rooms { rooms } else { 0 }
        });
        let missing = (self.missing_share * rooms as f64) as u64;
        Predicted { there: there + missing, missing, back }
    }
}
