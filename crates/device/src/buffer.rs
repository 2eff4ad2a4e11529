//! Memory on a device: a [`Buffer`], and its [`Slice`]s, which copies and kernels use.

use core::any::Any;
use core::fmt;
use core::ops::Range;
use std::sync::Arc;

/// Memory on one device. Copies share it. It is freed when the last of them is dropped, and not
/// while work uses it. Its initial contents are undefined.
#[derive(Clone)]
pub struct Buffer {
    pub(crate) device: u64,
    pub(crate) len: usize,
    pub(crate) memory: Arc<dyn Any + Send + Sync>,
    /// See [`Buffer::keeping`].
    _kept: Option<Arc<dyn Any + Send + Sync>>,
}

impl Buffer {
    /// Memory of `len` bytes on the device of that number.
    pub(crate) fn new(device: u64, len: usize, memory: Arc<dyn Any + Send + Sync>) -> Self {
        Self { device, len, memory, _kept: None }
    }

    /// The same buffer, which drops `kept` when its memory is freed: what a tenant pays for it.
    #[must_use]
    pub fn keeping(self, kept: Arc<dyn Any + Send + Sync>) -> Self {
        Self { _kept: Some(kept), ..self }
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes `range` of it. Whether they lie within is asked when work is submitted.
    pub fn at(&self, range: Range<usize>) -> Slice {
        Slice { buffer: self.clone(), range }
    }

    /// All of it.
    pub fn whole(&self) -> Slice {
        self.at(0..self.len)
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("len", &self.len).finish_non_exhaustive()
    }
}

/// A range of a buffer, in bytes.
#[derive(Clone, Debug)]
pub struct Slice {
    pub(crate) buffer: Buffer,
    pub(crate) range: Range<usize>,
}

impl Slice {
    /// How many bytes.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Bytes `range` of it.
    pub(crate) fn part(&self, range: Range<usize>) -> Self {
        let start = self.range.start;
        Self { buffer: self.buffer.clone(), range: start + range.start..start + range.end }
    }

    /// The bytes of `buffer` that it names; none where it is of another buffer.
    pub fn of(&self, buffer: &Buffer) -> Option<Range<usize>> {
        Arc::ptr_eq(&self.buffer.memory, &buffer.memory).then(|| self.range.clone())
    }

    /// Whether both name a byte of the same buffer.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.buffer.memory, &other.buffer.memory)
            && self.range.start < other.range.end
            && other.range.start < self.range.end
    }
}
