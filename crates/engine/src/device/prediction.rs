//! What a plan says that a launch moves, counted beside what it moved.

use warpline_packet::{Binding, FieldSet};

use super::crossings::{Crossings, RoomsThere};
use crate::stage::Flight;
use crate::stats::Transfers;

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
    /// Whether rooms that go there are of such packets.
    lacks_some: bool,
    /// Of packets that are fetched, as they were flagged.
    fetched_share: f64,
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
    /// Of these those of packets that are expected to be fetched.
    pub(super) fetched: u64,
    lacks_some: bool,
}

/// Bytes of frames that a launch's first work copies.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FrameBytes {
    pub(super) fields_there: u64,
    pub(super) rooms_there: u64,
    pub(super) fields_back: u64,
}

impl Predicted {
    /// Counts a launch whose first work copies `all` there and back, of which `frames` are bytes of frames.
    pub(super) fn count(&self, sum: &mut Transfers, all: [u64; 2], frames: FrameBytes) {
        let FrameBytes { fields_there, rooms_there, fields_back } = frames;
        let frames_there = fields_there + rooms_there;
        sum.frames_to_device_bytes += frames_there;
        sum.frames_to_host_bytes += fields_back;
        // Tables, names and findings are planned as they lie.
        sum.predicted_to_device_bytes += all[0] - frames_there + self.there;
        sum.predicted_to_host_bytes += all[1] - fields_back + self.back;
        sum.predicted_missing_bytes += self.missing;
        sum.predicted_fetched_bytes += self.fetched;
        sum.missing_bytes += if self.lacks_some { rooms_there } else { 0 };
    }
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
            lacks_some: crossings.rooms_there == RoomsThere::Missing,
            fetched_share: crossings.left_there.flagged_share,
        }
    }

    /// For a launch whose table has so many rows. Bytes of fields are those of columns: of an IP version where any packet has it.
    pub(super) fn of_launch(&self, flights: &[Flight], table_rows: usize) -> Predicted {
        let mut counts = [0; 3];
        let mut rooms = 0;
        let shares = self.missing_share + self.fetched_share;
        let has_rooms = self.there.has_rooms || self.back.has_rooms || shares > 0.0;
        for Flight { batch, .. } in flights {
            for (of_version, is_there) in counts.iter_mut().zip(batch.versions_present(VERSIONS)) {
                *of_version = if is_there { table_rows as u64 } else { *of_version };
            }
            rooms += if has_rooms { batch.rooms_len() as u64 } else { 0 };
        }
        let [there, back] = [self.there, self.back].map(|way| {
            let fields: u64 =
                way.fields.iter().zip(counts).map(|(width, count)| width * count).sum();
            fields + if way.has_rooms { rooms } else { 0 }
        });
        let of_rooms = |share: f64| (share * rooms as f64) as u64;
        let (missing, fetched) = (of_rooms(self.missing_share), of_rooms(self.fetched_share));
        let (there, back) = (there + missing, back + fetched);
        Predicted { there, missing, back, fetched, lacks_some: self.lacks_some }
    }
}
