//! Work for a stream: copies and calls of kernels, done in order, with the host memory they use.

use core::ops::Range;

use crate::{Failure, Kernel, Parameter, Piece, Region, Slice};

/// Work for a stream. The stream owns the pieces until the work is [`Done`], which returns them.
#[derive(Debug, Default)]
pub struct Work {
    /// Host memory that copies read and write.
    pub pieces: Vec<Piece>,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// Items that its kernels work on, packets for instance; 0 if unknown. Tenants of a shared
    /// device may get shares by it.
    pub items: u64,
}

/// One thing that is done.
#[derive(Clone, Debug)]
pub enum Step {
    /// Copies a part of a piece into a buffer; both have the same length.
    CopyIn {
        /// Read.
        from: Part,
        /// Written.
        to: Slice,
    },
    /// Copies from a buffer into a part of a piece; both have the same length.
    CopyOut {
        /// Read.
        from: Slice,
        /// Written.
        to: Part,
    },
    /// Copies rows of a part of a piece into a buffer, each to the same offset. Both have the same
    /// length. Bytes between rows stay as they are.
    RowsIn {
        /// Read.
        from: Part,
        /// Written.
        to: Slice,
        /// The rows.
        rows: Rows,
    },
    /// Copies rows of a buffer into a part of a piece, in the same way.
    RowsOut {
        /// Read.
        from: Slice,
        /// Written.
        to: Part,
        /// The rows.
        rows: Rows,
    },
    /// Runs a kernel.
    Call(KernelCall),
}

impl Step {
    /// Whether it runs a kernel.
    pub fn is_call(&self) -> bool {
        matches!(self, Self::Call(_))
    }
}

/// Rows of equal width at equal distances: the first begins where their memory does, the last ends
/// where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Bytes of a row.
    pub width: usize,
    /// Bytes from where a row begins to where the next one does.
    pub pitch: usize,
}

impl Rows {
    /// How many rows memory of `len` bytes has.
    pub fn count(&self, len: usize) -> usize {
        len.saturating_sub(self.width) / self.pitch.max(1) + 1
    }

    /// Bytes of the rows of memory of `len` bytes.
    pub fn bytes(&self, len: usize) -> usize {
        self.count(len) * self.width
    }

    /// Where each row of memory of `len` bytes lies in it.
    pub(crate) fn each(self, len: usize) -> impl Iterator<Item = Range<usize>> {
        (0..self.count(len)).map(move |row| row * self.pitch..row * self.pitch + self.width)
    }

    fn check(&self, len: usize) -> Result<(), String> {
        let Self { width, pitch } = *self;
        let is_whole =
            width > 0 && width <= pitch && len >= width && (len - width).is_multiple_of(pitch);
        let why = || format!("{len} bytes are no rows of {width} at every {pitch}");
        is_whole.then_some(()).ok_or_else(why)
    }
}

/// A part of one of the work's pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which piece of [`Work::pieces`].
    pub piece: usize,
    /// Which bytes of it.
    pub range: Range<usize>,
}

/// A kernel, how often, and on what.
#[derive(Clone, Debug)]
pub struct KernelCall {
    pub(crate) kernel: Kernel,
    pub(crate) groups: u32,
    pub(crate) arguments: Vec<Argument>,
}

/// A kernel's argument.
#[derive(Clone, Debug)]
pub enum Argument {
    /// For [`Parameter::Reads`].
    Reads(Slice),
    /// For [`Parameter::Writes`]; overlaps no other argument of the call.
    Writes(Slice),
    /// For [`Parameter::Reads`], in host memory, on a device that reaches it.
    HostReads(Part),
    /// For [`Parameter::Writes`], in host memory, on a device that reaches it; overlaps no other
    /// argument of the call.
    HostWrites(Part),
    /// For [`Parameter::Writes`]: a region in which the device works in place
    /// ([`Region::is_in_place`]), from its first byte on. The kernel accesses only the work's
    /// pieces of it.
    InPlace(Region),
    /// For [`Parameter::Writes`]: a region that kernels of the device reach over the bus or
    /// directly ([`Region::is_mapped`]), from its first byte on. The kernel accesses only the
    /// work's pieces of it.
    Mapped(Region),
    /// For [`Parameter::U32`].
    U32(u32),
    /// For [`Parameter::U64`].
    U64(u64),
}

impl Argument {
    fn parameter(&self) -> Parameter {
        match self {
            Self::Reads(_) | Self::HostReads(_) => Parameter::Reads,
            Self::Writes(_) | Self::HostWrites(_) | Self::InPlace(_) | Self::Mapped(_) => {
                Parameter::Writes
            }
            Self::U32(_) => Parameter::U32,
            Self::U64(_) => Parameter::U64,
        }
    }

    fn writes(&self) -> bool {
        matches!(self, Self::Writes(_) | Self::HostWrites(_))
    }

    /// Whether both name a byte of the same memory.
    fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Reads(a) | Self::Writes(a), Self::Reads(b) | Self::Writes(b)) => a.overlaps(b),
            (
                Self::HostReads(a) | Self::HostWrites(a),
                Self::HostReads(b) | Self::HostWrites(b),
            ) => a.piece == b.piece && a.range.start < b.range.end && b.range.start < a.range.end,
            _ => false,
        }
    }
}

/// Work that was done, or failed.
#[derive(Debug)]
pub struct Done {
    /// The work as it was submitted, with its pieces.
    pub work: Work,
    /// Whether all of it was done. After a failure, the contents of buffers and pieces that it
    /// writes are undefined.
    pub outcome: Result<(), Failure>,
}

/// Work that a stream did not take.
#[derive(Debug)]
pub struct Refused {
    /// The work, untouched.
    pub work: Work,
    /// Why.
    pub why: Failure,
}

impl Work {
    /// Work of `steps` with the host memory that they use.
    pub fn new(pieces: Vec<Piece>, steps: Vec<Step>) -> Self {
        Self { pieces, steps, items: 0 }
    }

    /// Checks every range, argument and owner. Copies of a work that passes stay within their
    /// memory.
    ///
    /// # Errors
    /// [`Failure::Refused`] with the step and its error.
    pub(crate) fn check(&self, device: u64, reaches_host: bool) -> Result<(), Failure> {
        for (number, step) in self.steps.iter().enumerate() {
            self.check_step(step, device, reaches_host)
                .map_err(|why| Failure::Refused(format!("step {}: {why}", number + 1)))?;
        }
        Ok(())
    }

    fn check_step(&self, step: &Step, device: u64, reaches_host: bool) -> Result<(), String> {
        match step {
            Step::CopyIn { from: part, to: slice } | Step::CopyOut { from: slice, to: part } => {
                self.check_copy(part, slice, device)
            }
            Step::RowsIn { from: part, to: slice, rows }
            | Step::RowsOut { from: slice, to: part, rows } => {
                self.check_copy(part, slice, device)?;
                rows.check(slice.len())
            }
            Step::Call(call) => {
                call.check(device)?;
                let mut arguments = call.arguments.iter();
                arguments.try_for_each(|one| self.check_argument(one, device, reaches_host))
            }
        }
    }

    fn check_copy(&self, part: &Part, slice: &Slice, device: u64) -> Result<(), String> {
        self.check_part(part)?;
        check_slice(slice, device)?;
        let (host, there) = (part.range.len(), slice.len());
        match host == there {
            true => Ok(()),
            false => Err(format!("a copy between {host} and {there} bytes")),
        }
    }

    fn check_argument(
        &self,
        one: &Argument,
        device: u64,
        reaches_host: bool,
    ) -> Result<(), String> {
        match one {
            Argument::Reads(slice) | Argument::Writes(slice) if slice.is_empty() => {
                Err(EMPTY.into())
            }
            Argument::Reads(slice) | Argument::Writes(slice) => check_slice(slice, device),
            Argument::HostReads(_) | Argument::HostWrites(_) | Argument::Mapped(_)
                if !reaches_host =>
            {
                Err("the device does not reach host memory".into())
            }
            Argument::HostReads(part) | Argument::HostWrites(part) if part.range.is_empty() => {
                Err(EMPTY.into())
            }
            Argument::HostReads(part) | Argument::HostWrites(part) => self.check_part(part),
            Argument::InPlace(region) if !region.is_in_place_for(device) => {
                Err("the device does not work in the region in place".into())
            }
            Argument::Mapped(region) if !region.is_mapped_for(device) => {
                Err("the device does not reach the region".into())
            }
            Argument::InPlace(_) | Argument::Mapped(_) => Ok(()),
            Argument::U32(_) | Argument::U64(_) => Ok(()),
        }
    }

    fn check_part(&self, part: &Part) -> Result<(), String> {
        let Some(piece) = self.pieces.get(part.piece) else {
            return Err(format!("piece {} of {}", part.piece, self.pieces.len()));
        };
        check_range(&part.range, piece.len())
    }
}

/// Some devices have no empty memory.
const EMPTY: &str = "an argument without a byte";

impl KernelCall {
    /// Whether it is a call of `kernel`.
    pub fn is_of(&self, kernel: &Kernel) -> bool {
        self.kernel.is(kernel)
    }

    fn check(&self, device: u64) -> Result<(), String> {
        let spec = self.kernel.spec();
        if self.kernel.module.device != device {
            return Err(format!("kernel {} was compiled for another device", spec.name));
        }
        if self.groups == 0 {
            return Err(format!("kernel {} without a group", spec.name));
        }
        let kinds = self.arguments.iter().map(Argument::parameter);
        if !kinds.eq(spec.parameters.iter().copied()) {
            return Err(format!("kernel {} takes {:?}", spec.name, spec.parameters));
        }
        self.check_overlaps()
    }

    fn check_overlaps(&self) -> Result<(), String> {
        for (index, written) in self.arguments.iter().enumerate().filter(|(_, one)| one.writes()) {
            let mut others = self.arguments.iter().enumerate().filter(|(other, _)| *other != index);
            if others.any(|(_, other)| other.overlaps(written)) {
                return Err(format!("argument {} is written and overlaps another", index + 1));
            }
        }
        Ok(())
    }
}

fn check_slice(slice: &Slice, device: u64) -> Result<(), String> {
    if slice.buffer.device != device {
        return Err("a buffer of another device".into());
    }
    check_range(&slice.range, slice.buffer.len)
}

fn check_range(range: &Range<usize>, len: usize) -> Result<(), String> {
    match range.start <= range.end && range.end <= len {
        true => Ok(()),
        false => Err(format!("bytes {}..{} of {len}", range.start, range.end)),
    }
}
