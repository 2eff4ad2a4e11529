//! Keys of a `[plan]` table: how fields of packets are copied to devices and back, for all chains
//! of the file.

use warpline_engine::{FramesBy, PlanOptions};
use warpline_nf::Section;
use warpline_sched::{Mode, Profile};

use crate::{keys, profile_file};

/// The table's name: no function can have it.
pub(crate) const TABLE: &str = "plan";

/// Bytes of a frame that a plan may be made for: the headers of UDP in IPv4 at least.
pub(crate) const PACKET_LENS: core::ops::RangeInclusive<u64> = 42..=65_535;

/// Reads it, with the profile that it names.
pub(crate) fn read(section: &mut Section<'_>) -> (PlanOptions, Profile) {
    section.refuse_all_but(&keys::names(keys::PLAN));
    let default = PlanOptions::default();
    let modes = Mode::ALL.map(|mode| (mode.name(), mode));
    let len = section.integer("packet_len", PACKET_LENS, default.packet_len.into());
    let mode = section.choice("mode", &modes, default.mode);
    let recoverable = section.boolean("recoverable", default.recoverable);
    let ways = FramesBy::ALL.map(|way| (way.name(), way));
    let frames_by = section.choice("frames_by", &ways, default.frames_by);
    let plan = PlanOptions { mode, packet_len: len as u32, recoverable, frames_by, ..default };
    (plan, profile_file::read(section))
}
