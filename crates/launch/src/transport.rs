//! Kernels of no function, which carry packets between the host, launches' tables and mirrors.

use warpline_nf::{KernelStep, Kernels};
use warpline_packet::{ALIGN, FieldSet, ReadWrite};

/// The declaration of these kernels; their binding lists the fields that they copy.
const EVERYTHING: ReadWrite = ReadWrite::new(FieldSet::ALL, FieldSet::ALL);

/// Work-items of a group.
const GROUP: u32 = 128;

/// Work-items that copy a room together: those of a GPU that read and write at once.
const ROOM_ITEMS: u32 = 32;

/// The kernels that copy fields between frames and columns, as listed in their
/// [`Binding`](warpline_packet::Binding). The first puts them into frames, the second takes them
/// from there.
pub fn field_copies() -> Kernels {
    const STEPS: &[KernelStep] = &[step("put_fields", 1), step("take_fields", 1)];
    let text = include_str!("../kernels/field_copies.cl");
    Kernels::builder("field_copies.cl", text, STEPS).build().declaring(EVERYTHING)
}

/// The kernel that writes a launch's table from packed rows ([`warpline_packet::RowPacker`]). It
/// finds these where others find the host's arena.
pub fn packed_rows() -> Kernels {
    const STEPS: &[KernelStep] = &[step("unpack_rows", 1)];
    let text = include_str!("../kernels/packed_rows.cl");
    let kernels = Kernels::builder("packed_rows.cl", text, STEPS).reaching_host();
    kernels.defines([("ROOM_ALIGN", ALIGN as u64)]).build().declaring(EVERYTHING)
}

/// The kernels that copy packets' rooms between the arena in the host's memory, which they reach
/// over the bus, and the mirror. The first copies them to the mirror, except packets that
/// [`KernelParameter::Without`](warpline_nf::KernelParameter::Without) excludes. The second copies
/// them to the host.
pub fn room_copies() -> Kernels {
    const STEPS: &[KernelStep] = &[step("pull_rooms", ROOM_ITEMS), step("push_rooms", ROOM_ITEMS)];
    let text = include_str!("../kernels/room_copies.cl");
    let kernels = Kernels::builder("room_copies.cl", text, STEPS).reaching_host();
    kernels.defines([("ROOM_ITEMS", ROOM_ITEMS.into())]).build().declaring(EVERYTHING)
}

const fn step(name: &'static str, items_per_packet: u32) -> KernelStep {
    KernelStep { name, group: GROUP, shared_big: 0, items_per_packet }
}
