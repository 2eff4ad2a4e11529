//! The one read buffer between the input and the frames: it compacts, and records are borrowed
//! from it.
//!
//! Each read asks for as many bytes as there is room. If a record doesn't fit, its first part is
//! moved to the front. That part is shorter than the record, so a byte is moved at most once on
//! average.

use core::ops::Range;
use core::time::Duration;
use std::io::{self, Read};
use std::{mem, thread};

use super::compression::Compression;
use super::decompress::Decompressed;

/// Bytes `start..end` are read and not yet taken.
pub(super) struct ReadBuffer {
    input: Input,
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes that came from the input in all, which is the offset at `end`.
    bytes_read: u64,
    /// The input has said that it is over; it is not asked again.
    ended: bool,
    /// Ranges that were taken are still in use, so bytes must stay where they are.
    is_held: bool,
}

enum Input {
    Plain(Box<dyn Read + Send>),
    Compressed(Box<Decompressed>),
}

impl ReadBuffer {
    pub(super) fn new(input: Box<dyn Read + Send>) -> Self {
        Self::of(Input::Plain(input))
    }

    fn of(input: Input) -> Self {
        let bytes = vec![0; BUFFER_LEN];
        Self { input, bytes, start: 0, end: 0, bytes_read: 0, ended: false, is_held: false }
    }

    /// From now on the bytes are what the input decompresses to, from the first byte not yet taken
    /// on.
    pub(super) fn decompress(&mut self, compression: Compression) -> io::Result<()> {
        if let Input::Plain(input) = &mut self.input {
            let input = mem::replace(input, Box::new(io::empty()));
            let (chunk, rest) = (mem::take(&mut self.bytes), self.start..self.end);
            let input = Decompressed::new(compression, input, chunk, rest)?;
            *self = Self::of(Input::Compressed(Box::new(input)));
        }
        Ok(())
    }

    /// The input, if it is compressed.
    pub(super) fn compressed(&self) -> Option<&Decompressed> {
        match &self.input {
            Input::Plain(_) => None,
            Input::Compressed(input) => Some(input),
        }
    }

    /// Reads until `want` bytes are ready; false when the input ends before.
    ///
    /// It grows to `want` where it must: the caller bounds that. After an error nothing is lost.
    #[inline]
    pub(super) fn fill(&mut self, want: usize) -> io::Result<bool> {
        if self.ready_len() >= want { Ok(true) } else { self.refill(want) }
    }

    /// While it is held, bytes stay where they are: a fill that needs more than is ready fails as a
    /// read would that blocks.
    #[inline]
    pub(super) fn hold(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    /// As `fill`, but waits for the bytes also when a signal interrupts it or the input is not
    /// blocking.
    pub(super) fn fill_blocking(&mut self, want: usize) -> io::Result<bool> {
        loop {
            match self.fill(want) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(NAP),
                result => return result,
            }
        }
    }

    /// The bytes that are read and not yet taken.
    #[inline]
    pub(super) fn ready(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    #[inline]
    pub(super) fn ready_len(&self) -> usize {
        self.end - self.start
    }

    /// Takes the next `len` ready bytes; returns their place until the next fill.
    #[inline]
    pub(super) fn take(&mut self, len: usize) -> Range<usize> {
        let start = self.start;
        self.start = self.end.min(start + len);
        start..self.start
    }

    /// Bytes taken since the last fill.
    #[inline]
    pub(super) fn slice(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// Drops `left` bytes of the input, counting down; false when the input ends before.
    ///
    /// No more of them is held than the buffer has room for. After an error it can be called again.
    pub(super) fn skip(&mut self, left: &mut u64) -> io::Result<bool> {
        while *left > 0 {
            if !self.fill(1)? {
                return Ok(false);
            }
            let ready = usize::try_from(*left).unwrap_or(usize::MAX).min(self.ready_len());
            *left -= self.take(ready).len() as u64;
        }
        Ok(true)
    }

    /// Offset of the next byte to take: in the input or, where that is compressed, in what it
    /// decompresses to.
    #[inline]
    pub(super) fn offset(&self) -> u64 {
        self.bytes_read - self.ready_len() as u64
    }

    /// Bytes that came so far, counted as `offset` does: the length, once the input has ended.
    pub(super) fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Length of the memory it holds, in bytes.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.bytes.len()
    }

    #[cold]
    fn refill(&mut self, want: usize) -> io::Result<bool> {
        if self.is_held {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.make_room(want);
        while self.ready_len() < want && !self.ended {
            let room = &mut self.bytes[self.end..];
            let room_len = room.len();
            // A reader that claims more than it was given room for is held to that.
            let len = match &mut self.input {
                Input::Plain(input) => input.read(room)?.min(room_len),
                Input::Compressed(input) => input.read(room)?,
            };
            self.ended = len == 0;
            self.end += len;
            self.bytes_read += len as u64;
        }
        Ok(self.ready_len() >= want)
    }

    /// Makes room for `want` bytes from `start` on.
    fn make_room(&mut self, want: usize) {
        if self.start == self.end || self.start + want > self.bytes.len() {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if want > self.bytes.len() {
            self.bytes.resize(want, 0);
        }
    }
}

/// Length of the buffer in bytes: four times the longest pcap record.
const BUFFER_LEN: usize = 1 << 20;
/// How long to wait for an input that has nothing yet and doesn't block.
pub(super) const NAP: Duration = Duration::from_millis(5);
