//! A stream of the driver, which gets steps one by one.

use core::ffi::c_void;
use core::ptr;
use std::sync::Arc;

use super::api::{self, CopyRows, Handle, RowsMemory};
use super::context::{Allocation, Context, Kernels};
use super::pages::RegisteredPages;
use crate::{Argument, Failure, KernelCall, Part, Piece, Region, Rows, Slice, Step, Work};

/// See the module. The owner destroys the stream, or leaks it.
pub(super) struct Queue {
    pub(super) context: Arc<Context>,
    pub(super) stream: Handle,
}

impl Queue {
    pub(super) fn new(context: &Arc<Context>) -> Result<Self, Failure> {
        let mut stream = Handle::NULL;
        // SAFETY: one handle is written.
        context.call(|driver| unsafe {
            (driver.create_stream)(&mut stream, api::STREAM_NON_BLOCKING)
        })?;
        Ok(Self { context: context.clone(), stream })
    }

    /// Gives the driver a step of `work`, which was checked and is kept until the event after it is
    /// done. A copy uses memory at `staged` in place of its piece, if that is given: as much, and
    /// kept as long.
    pub(super) fn enqueue(
        &self,
        step: &Step,
        work: &Work,
        staged: Option<*mut u8>,
    ) -> Result<(), Failure> {
        let stream = self.stream;
        let part_base = |part: &Part| staged.unwrap_or_else(|| part_base(&work.pieces, part));
        match step {
            Step::CopyIn { from, to } => {
                let (host, there) = (part_base(from), address(to)?);
                // SAFETY: both ranges were checked; the piece and the buffer are the flying work's
                // until the event after it is done.
                self.context.call(|driver| unsafe {
                    (driver.copy_in)(there, host.cast(), to.len(), stream)
                })
            }
            Step::CopyOut { from, to } => {
                let (host, there) = (part_base(to), address(from)?);
                // SAFETY: as above; nothing else accesses the piece.
                self.context.call(|driver| unsafe {
                    (driver.copy_out)(host.cast(), there, from.len(), stream)
                })
            }
            Step::RowsIn { from, to, rows } => {
                let host = RowsMemory::host(part_base(from).cast(), rows.pitch);
                let there = RowsMemory::device(address(to)?, rows.pitch);
                self.copy_rows(host, there, *rows, to.len())
            }
            Step::RowsOut { from, to, rows } => {
                let host = RowsMemory::host(part_base(to).cast(), rows.pitch);
                let there = RowsMemory::device(address(from)?, rows.pitch);
                self.copy_rows(there, host, *rows, from.len())
            }
            Step::Call(call) => self.call_kernel(call, &work.pieces),
        }
    }

    /// Copies rows of `len` bytes.
    fn copy_rows(
        &self,
        from: RowsMemory,
        to: RowsMemory,
        rows: Rows,
        len: usize,
    ) -> Result<(), Failure> {
        let copy = CopyRows { from, to, width: rows.width, count: rows.count(len) };
        // SAFETY: the rows are within ranges of the same length, which were checked. The piece and
        // the buffer are the flying work's until the event after it is done. The driver copies
        // `copy`.
        self.context.call(|driver| unsafe { (driver.copy_rows)(&copy, self.stream) })
    }

    fn call_kernel(&self, call: &KernelCall, pieces: &[Piece]) -> Result<(), Failure> {
        let loaded = call.kernel.module.loaded.downcast_ref::<Kernels>();
        let kernels =
            loaded.ok_or_else(|| Failure::Refused("the module is none of CUDA's".into()))?;
        let function = kernels.functions[call.kernel.index];
        let values = call.arguments.iter().map(|one| self.value(one, pieces));
        let mut values: Vec<u64> = values.collect::<Result<_, _>>()?;
        // A u32 lies in the low half of its word, at its address.
        let mut pointers: Vec<*mut c_void> =
            values.iter_mut().map(|one| ptr::from_mut(one).cast()).collect();
        let (spec, groups) = (call.kernel.spec(), call.groups);
        // SAFETY: number and kinds of the values are the kernel's, and are copied by the call.
        // Their memory stays until the event is done. The caller vouches for the
        // kernel's accesses.
        self.context.call(|driver| unsafe {
            (driver.launch)(
                function,
                groups,
                1,
                1,
                spec.group,
                1,
                1,
                spec.shared_big,
                self.stream,
                pointers.as_mut_ptr(),
                ptr::null_mut(),
            )
        })
    }

    fn value(&self, argument: &Argument, pieces: &[Piece]) -> Result<u64, Failure> {
        match argument {
            Argument::Reads(slice) | Argument::Writes(slice) => address(slice),
            Argument::HostReads(part) | Argument::HostWrites(part) => {
                let piece = &pieces[part.piece];
                let (_, start) = piece.place();
                Ok(self.address_in(piece.region())? + (start + part.range.start) as u64)
            }
            Argument::InPlace(region) | Argument::Mapped(region) => self.address_in(region),
            Argument::U32(value) => Ok(u64::from(*value)),
            Argument::U64(value) => Ok(*value),
        }
    }

    /// Where kernels find a region.
    fn address_in(&self, region: &Region) -> Result<u64, Failure> {
        let pages: Option<&RegisteredPages> = region.registered_as();
        let address = pages.and_then(|pages| pages.address_in(&self.context));
        address.ok_or_else(|| Failure::Refused("the device does not reach the region".into()))
    }
}

fn address(slice: &Slice) -> Result<u64, Failure> {
    let memory = slice.buffer.memory.downcast_ref::<Allocation>();
    let memory = memory.ok_or_else(|| Failure::Refused("the buffer is none of CUDA's".into()))?;
    Ok(memory.address + slice.range.start as u64)
}

fn part_base(pieces: &[Piece], part: &Part) -> *mut u8 {
    pieces[part.piece].base().as_ptr().wrapping_add(part.range.start)
}
