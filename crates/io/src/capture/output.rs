//! The end of a writer: collects whole records, compresses them if asked to, writes them out, and
//! leaves a file that can be read whatever happens.
//!
//! Records go out by the buffer, compressed as a piece that can be read once it is there. Where
//! pieces end depends on the records alone, so that the same records make the same file. Without
//! compression a buffer of many short frames goes out before it is full. A file that a full disk
//! ends is cut back to its last whole record or piece, and the frames that it lacks are counted.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::mem;

use super::compression::{Compression, Encoder};
use crate::port::{SinkError, Unwritten};

/// How a format's records follow each other.
pub(super) struct Framing {
    /// Bytes before the first record.
    pub(super) header_len: usize,
    /// Length of the record that begins with these bytes, if they are enough to read it.
    pub(super) record_len: fn(&[u8]) -> Option<usize>,
}

/// Whole records on their way out.
pub(super) struct RecordOutput {
    output: Box<dyn Write + Send>,
    /// The output again, where it is a file that can be cut back.
    file: Option<File>,
    framing: &'static Framing,
    compression: Option<Compression>,
    /// Once something was compressed.
    encoder: Option<Encoder>,
    /// Whole records not yet written, and the file header before the first.
    buffer: Vec<u8>,
    /// Frames in the buffer: where the record of each ends, its bytes and its port.
    frames: Vec<(u32, u32, u16)>,
    /// The most frames that wait in the buffer.
    frames_max: usize,
    /// Frames that were in the buffer when nothing more could be written.
    unwritten: Unwritten,
    /// The buffer compressed.
    piece: Vec<u8>,
    /// Bytes written.
    written: u64,
    /// Bytes of a write that failed later.
    torn: usize,
    /// Why nothing more can be written.
    failed: Option<io::ErrorKind>,
}

impl RecordOutput {
    pub(super) fn new(
        output: Box<dyn Write + Send>,
        file: Option<File>,
        framing: &'static Framing,
    ) -> Self {
        Self {
            output,
            file,
            framing,
            compression: None,
            encoder: None,
            buffer: Vec::with_capacity(BUFFER_LEN),
            frames: Vec::with_capacity(BUFFER_LEN / FRAME_RECORD_LEN),
            frames_max: FRAMES_MAX,
            unwritten: Unwritten::default(),
            piece: Vec::new(),
            written: 0,
            torn: 0,
            failed: None,
        }
    }

    /// To `file`, which is empty.
    pub(super) fn from_file(file: File, framing: &'static Framing) -> Self {
        let handle = file.try_clone().ok();
        Self::new(Box::new(file), handle, framing)
    }

    /// How what is written from now on is compressed.
    pub(super) fn compress(&mut self, compression: Option<Compression>) {
        self.compression = compression;
        self.frames_max = if compression.is_some() { usize::MAX } else { FRAMES_MAX };
    }

    pub(super) fn check_failed(&self) -> Result<(), SinkError> {
        self.failed.map_or(Ok(()), |kind| Err(io::Error::from(kind).into()))
    }

    /// Makes room for a record of `len` bytes, less than [`BUFFER_LEN`].
    #[inline]
    pub(super) fn make_room(&mut self, len: usize) -> Result<(), SinkError> {
        let is_full = self.buffer.len() + len > BUFFER_LEN || self.frames.len() >= self.frames_max;
        if is_full { self.drain() } else { Ok(()) }
    }

    /// Adds bytes to the records.
    #[inline]
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// A frame of `len` bytes that left by `port` was put whole.
    #[inline]
    pub(super) fn framed(&mut self, len: usize, port: u16) {
        self.frames.push((self.buffer.len() as u32, len as u32, port));
    }

    /// Frames that were put and are not in the file.
    pub(super) fn unwritten(&self) -> Unwritten {
        self.unwritten.clone()
    }

    /// Hands all records on; compressed ones when there is a piece of them.
    pub(super) fn flush(&mut self) -> Result<(), SinkError> {
        self.check_failed()?;
        if self.compression.is_none() { self.hand_on() } else { Ok(()) }
    }

    fn hand_on(&mut self) -> Result<(), SinkError> {
        self.drain()?;
        self.output.flush().map_err(|error| self.fail(0, error))
    }

    /// Nothing more will come: hands all records on, and what compressed data ends with.
    pub(super) fn close(&mut self) -> Result<(), SinkError> {
        self.check_failed()?;
        self.drain()?;
        if let Some(mut encoder) = self.encoder.take() {
            encoder.finish(&mut self.piece).map_err(|error| self.fail(0, error))?;
            self.write_piece()?;
        }
        self.hand_on()
    }

    /// Writes the buffer out.
    fn drain(&mut self) -> Result<(), SinkError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        if let Some(compression) = self.compression {
            return self.drain_compressed(compression);
        }
        let buffer = mem::take(&mut self.buffer);
        let outcome = self.write(&buffer);
        self.buffer = buffer;
        if let Err((done, error)) = outcome {
            return Err(self.fail(self.whole_records(done), error));
        }
        self.buffer.clear();
        self.frames.clear();
        Ok(())
    }

    fn drain_compressed(&mut self, compression: Compression) -> Result<(), SinkError> {
        let mut encoder = match self.encoder.take() {
            Some(encoder) => encoder,
            None => Encoder::new(compression).map_err(|error| self.fail(0, error))?,
        };
        let encoded = encoder.encode(&self.buffer, &mut self.piece);
        encoded.map_err(|error| self.fail(0, error))?;
        self.encoder = Some(encoder);
        self.write_piece()?;
        self.buffer.clear();
        self.frames.clear();
        Ok(())
    }

    fn write_piece(&mut self) -> Result<(), SinkError> {
        let mut piece = mem::take(&mut self.piece);
        // Part of a piece is nothing.
        self.write(&piece).map_err(|(_, error)| self.fail(0, error))?;
        piece.clear();
        self.piece = piece;
        Ok(())
    }

    /// Writes all of `bytes`. An error comes with the number of bytes written before it.
    fn write(&mut self, bytes: &[u8]) -> Result<(), (usize, io::Error)> {
        let mut done = 0;
        while done < bytes.len() {
            let failed = match self.output.write(&bytes[done..]) {
                Ok(0) => io::ErrorKind::WriteZero.into(),
                Ok(len) => {
                    done = bytes.len().min(done + len);
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            self.torn = done;
            return Err((done, failed));
        }
        self.written += done as u64;
        Ok(())
    }

    /// Gives up. The first `whole` bytes after `written` are whole records and can stay.
    fn fail(&mut self, whole: usize, error: io::Error) -> SinkError {
        if let Some(file) = &self.file {
            // The bytes after it are lost in any case, and readers would stop there.
            let torn = self.torn.saturating_sub(whole) as u64;
            let end = (&*file).stream_position().map(|end| end.saturating_sub(torn));
            let _ = end.and_then(|end| file.set_len(end));
        }
        self.failed = Some(error.kind());
        for &(_, len, port) in self.frames.iter().filter(|&&(end, ..)| end as usize > whole) {
            self.unwritten.add(port, len as usize);
        }
        (self.buffer, self.frames) = (Vec::new(), Vec::new());
        error.into()
    }

    /// Length of the whole records (and the file header) in the first `done` bytes of the buffer.
    fn whole_records(&self, done: usize) -> usize {
        let mut end = 0;
        let mut next = if self.written == 0 { self.framing.header_len } else { 0 };
        while next <= done {
            end = next;
            let Some(len) = self.buffer.get(end..).and_then(self.framing.record_len) else { break };
            next += len;
        }
        end
    }
}

/// Bytes of the shortest record of a frame, as good as always: more frames than that make room of
/// their own.
const FRAME_RECORD_LEN: usize = 64;

/// The most frames written at once without compression. Until they are written the sender frees no
/// batches, and a lane's batches hold some 5,000 packets. A write of more short frames leaves the
/// reader none to fill: the empty chain wrote 16 million frames of 64 bytes a second with 13,000 at
/// once, 21 million with 2,000.
const FRAMES_MAX: usize = 2048;

/// Length of the buffer in bytes: room for a file header and the longest record, and enough at once
/// for a compressor.
pub(super) const BUFFER_LEN: usize = 1 << 20;
