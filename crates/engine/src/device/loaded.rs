//! A function's kernels and tables on a device, ready to be launched; and which functions may follow each other there.

use std::time::{Duration, Instant};

use warpline_device::{Buffer, Device, Failure, Kernel, Part, Step, Stream, Work};
use warpline_nf::{Function, KernelStep, Kernels};
use warpline_packet::{ArenaLayout, Field, FieldSet, kernel_layout};

use crate::sys::vouched;

/// See the module. Shared by all lanes.
pub(crate) struct Loaded {
    /// The kernels in their order.
    pub(crate) kernels: Vec<LoadedKernel>,
    /// What they read besides packets.
    pub(crate) tables: Vec<Buffer>,
}

/// A kernel with what a launch of it depends on.
pub(crate) struct LoadedKernel {
    pub(crate) kernel: Kernel,
    group: u32,
    items_per_packet: u32,
}

impl LoadedKernel {
    /// Work-groups for `packets` packets.
    pub(crate) fn groups(&self, packets: u32) -> u32 {
        let items = u64::from(packets) * u64::from(self.items_per_packet.max(1));
        items.div_ceil(self.group.max(1).into()).try_into().unwrap_or(u32::MAX)
    }
}

/// For how long tables are copied before it is given up.
const LOAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Compiles a function's text for arenas of `layout` and copies its tables.
///
/// # Errors
/// What the device says, or that it doesn't end.
pub(crate) fn load(
    device: &dyn Device,
    kernels: &Kernels,
    layout: &ArenaLayout,
) -> Result<Loaded, Failure> {
    let mut source = vouched::source(kernels);
    for (name, value) in kernel_layout(layout) {
        source = source.define(name, value);
    }
    for (name, value) in kernels.defines() {
        source = source.define(*name, value);
    }
    let module = device.compile(&source)?;
    let with_kernel = |step: &KernelStep| {
        let kernel = module.kernel(step.name)?;
        Ok(LoadedKernel { kernel, group: step.group, items_per_packet: step.items_per_packet })
    };
    let loaded = kernels.steps().iter().map(with_kernel).collect::<Result<_, Failure>>()?;
    let mut stream = device.stream()?;
    let copy = |table: &Vec<u8>| copy_table(device, &mut *stream, table);
    let tables = kernels.tables().iter().map(copy).collect::<Result<_, Failure>>()?;
    Ok(Loaded { kernels: loaded, tables })
}

fn copy_table(
    device: &dyn Device,
    stream: &mut dyn Stream,
    table: &[u8],
) -> Result<Buffer, Failure> {
    let buffer = device.allocate(table.len())?;
    let mut piece = device.host_memory(table.len())?;
    piece.copy_from_slice(table);
    let step =
        Step::CopyIn { from: Part { piece: 0, range: 0..table.len() }, to: buffer.whole() };
    let work = Work { pieces: vec![piece], steps: vec![step] };
    stream.submit(work).map_err(|refused| refused.why)?;
    let start = Instant::now();
    loop {
        if let Some(done) = stream.poll() {
            return done.outcome.map(|()| buffer);
        }
        if start.elapsed() > LOAD_TIMEOUT {
            return Err(Failure::Launch("copying a table to it does not end".into()));
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Whether `second` may run behind `first` on a device before the CPU has done what is behind `first`: it asks for nothing
/// in front of it, and neither sees what the other's phases do.
pub(crate) fn can_follow(first: &dyn Function, second: &dyn Function) -> bool {
    let (one, two) = (first.access(), second.access());
    let behind_reads = one.after.reads | one.after_flagged.reads;
    let behind_writes = one.after.writes | one.after_flagged.writes;
    let own = two.run.reads | two.run.writes | FieldSet::of(&[Field::Verdict]);
    // Flags and findings are one function's at a time.
    let one_at_a_time = FieldSet::of(&[Field::Flagged]);
    two.before.is_none()
        && (behind_writes & own).is_empty()
        && (behind_reads & two.run.writes & !FieldSet::of(&[Field::Verdict])).is_empty()
        && (one.run.writes & (two.run.writes | two.after.reads) & one_at_a_time).is_empty()
        && second.emits().findings_per_packet == 0
        && first.emits().findings_per_packet == 0
}
