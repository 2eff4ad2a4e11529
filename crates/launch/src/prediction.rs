//! The bytes that a plan predicts for a launch, counted beside those it moved.

use warpline_packet::{Batch, Binding, FieldSet};

use super::crossings::{Crossings, RoomsThere};
use crate::flight::Flight;
use crate::lengthened::Lengthened;
use crate::sys::lane_memory::Extent;
use crate::transfers::Transfers;

/// Bytes of frames in one direction.
#[derive(Clone, Copy, Debug)]
struct DirectionBytes {
    /// Of a packet's fields: by the IP version whose they are, 0 for any.
    fields: [u64; 3],
    /// Of a packet's row.
    row: f64,
    has_rooms: bool,
}

/// IP versions that columns are for.
const VERSIONS: [u8; 3] = [0, 4, 6];

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Prediction {
    there: DirectionBytes,
    back: DirectionBytes,
    /// Bytes that the functions are expected to add to frames.
    lengthened: Lengthened,
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
    /// To the device, of packets that go the plan's way.
    pub(super) there: u64,
    /// To the device besides, of packets that the mirror is expected to lack.
    pub(super) missing: u64,
    /// To the host, of packets that go the plan's way.
    pub(super) back: u64,
    /// The whole frames among these, as long as the functions are expected to make them.
    rooms_back: u64,
    /// To the host besides, of packets that are expected to be fetched.
    pub(super) fetched: u64,
    /// Of what launches have besides packets' own.
    besides: [u64; 2],
    lacks_some: bool,
}

/// How the table of a launch lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Laid {
    pub(super) packets: usize,
    /// Rows that a column has.
    pub(super) rows: usize,
    /// Bytes of its columns but for those of single fields, there and back, and of findings.
    pub(super) columns: [usize; 2],
}

/// Bytes of frames that a launch's first work copies.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FrameBytes {
    pub(super) fields_there: u64,
    pub(super) rooms_there: u64,
    pub(super) fields_back: u64,
}

impl Predicted {
    /// Counts a launch, whose first work copies these bytes of frames.
    pub(super) fn count(&self, sum: &mut Transfers, frames: FrameBytes) {
        let FrameBytes { fields_there, rooms_there, fields_back } = frames;
        let frames_there = fields_there + rooms_there;
        sum.frames_to_device_bytes += frames_there;
        sum.frames_to_host_bytes += fields_back;
        sum.predicted_to_device_bytes += self.there;
        sum.predicted_to_host_bytes += self.back;
        sum.predicted_rooms_to_host_bytes += self.rooms_back;
        sum.besides_to_device_bytes += self.besides[0];
        sum.besides_to_host_bytes += self.besides[1];
        sum.predicted_missing_bytes += self.missing;
        sum.predicted_fetched_bytes += self.fetched;
        sum.missing_bytes += if self.lacks_some { rooms_there } else { 0 };
    }
}

impl Prediction {
    /// Of `crossings`, whose fields have the columns `fields`, for functions that make frames
    /// longer so.
    pub(super) fn of(crossings: &Crossings, fields: &Binding, lengthened: Lengthened) -> Self {
        let way = |set: FieldSet, row, has_rooms| {
            let width = |version| {
                let of = fields.columns().iter().filter(|column| column.version == version);
                of.filter(|column| set.contains(column.field))
                    .map(|column| column.width as u64)
                    .sum()
            };
            DirectionBytes { fields: VERSIONS.map(width), row, has_rooms }
        };
        Self {
            there: way(crossings.there, crossings.row[0], crossings.rooms_there == RoomsThere::All),
            back: way(crossings.back, crossings.row[1], crossings.rooms_back),
            lengthened,
            missing_share: crossings.missing_share,
            lacks_some: crossings.rooms_there == RoomsThere::Missing,
            fetched_share: crossings.left_there.flagged_share,
        }
    }

    /// For a launch whose table lies so. Fields of an IP version have columns where any packet is
    /// of it.
    pub(super) fn of_launch<T>(
        &self,
        flights: &[Flight<T>],
        laid: &Laid,
        extent: Extent,
    ) -> Predicted {
        let mut is_there = [false; 3];
        let (mut rooms, mut frames) = (0, [0; 2]);
        let has_frames = self.there.has_rooms || self.missing_share > 0.0;
        for Flight { batch, .. } in flights {
            let own = batch.versions_present(VERSIONS);
            is_there.iter_mut().zip(own).for_each(|(all, own)| *all |= own);
            rooms += if self.fetched_share > 0.0 { batch.rooms_len() as u64 } else { 0 };
            let own = [
                has_frames.then(|| Self::frames_there(batch, extent)),
                self.back.has_rooms.then(|| self.frames_back(batch, extent)),
            ];
            frames.iter_mut().zip(own).for_each(|(all, own)| *all += own.unwrap_or(0));
        }
        let ways = [(self.there, frames[0]), (self.back, frames[1])].map(|(way, frames)| {
            let own = way.fields.iter().zip(is_there).filter(|(_, is_there)| *is_there);
            let fields: u64 = own.map(|(width, _)| width).sum();
            (fields, way.row * laid.packets as f64, if way.has_rooms { frames } else { 0 })
        });
        let rooms_back = ways[1].2;
        let [there, back] =
            ways.map(|(fields, row, rooms)| fields * laid.packets as u64 + row as u64 + rooms);
        let filling = (laid.rows - laid.packets) as u64;
        let besides = [0, 1].map(|way| {
            let (fields, row, _) = ways[way];
            (laid.columns[way] as u64).saturating_sub(row as u64) + filling * fields
        });
        let missing = (self.missing_share * frames[0] as f64) as u64;
        let fetched = (self.fetched_share * rooms as f64) as u64;
        Predicted {
            there,
            missing,
            back,
            rooms_back,
            fetched,
            besides,
            lacks_some: self.lacks_some,
        }
    }
    fn frames_there(batch: &Batch, extent: Extent) -> u64 {
        let bytes = match extent {
            Extent::Rooms => batch.rooms_len(),
            Extent::Frames => batch.frames_len(),
        };
        bytes as u64
    }

    fn frames_back(&self, batch: &Batch, extent: Extent) -> u64 {
        let bytes = match extent {
            Extent::Rooms => batch.rooms_len(),
            Extent::Frames => batch.frames_back_len(|len| self.lengthened.of(len)),
        };
        bytes as u64
    }
}
