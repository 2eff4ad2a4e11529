//! An open file, pipe or connection.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::sockopt;

use crate::descriptor::continued;
use crate::{Destination, Format};

/// How long a connection may take, and how long its other end may take or acknowledge nothing.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
const SEND_PATIENCE: Duration = Duration::from_secs(30);
/// When an idle connection is probed, and how often; after three lost probes it ends.
const PROBE_AFTER: Duration = Duration::from_secs(15);
const PROBE_EVERY: Duration = Duration::from_secs(5);

/// Writes whole records to a destination, which is opened again as often as needed.
pub(crate) struct Stream {
    destination: Option<Destination>,
    format: Format,
    open: Option<Open>,
    /// Whether the next record is the first of a later file or connection.
    is_new: bool,
}

enum Open {
    File(File),
    Pipe(File),
    Unix(UnixStream),
    Tcp(TcpStream),
    Other(Box<dyn Write + Send>),
}

/// Why bytes were not written.
pub(crate) struct Failed {
    /// How many of them were, in whole records.
    pub(crate) written: usize,
    pub(crate) error: io::Error,
}

impl Stream {
    /// A stream to `writer`, which can't be opened again.
    pub(crate) fn of_writer(writer: Box<dyn Write + Send>, format: Format) -> Self {
        Self { destination: None, format, open: Some(Open::Other(writer)), is_new: false }
    }

    /// A stream to the end of `file`, which can be opened as `destination`.
    pub(crate) fn of_file(
        destination: Destination,
        file: File,
        format: Format,
    ) -> io::Result<Self> {
        let open = Some(Open::of(file)?);
        Ok(Self { destination: Some(destination), format, open, is_new: false })
    }

    /// A stream that will be opened.
    pub(crate) fn closed(destination: Destination, format: Format) -> Self {
        Self { destination: Some(destination), format, open: None, is_new: false }
    }

    /// Whether it is a file that has records already.
    pub(crate) fn has_records(&self) -> bool {
        let Some(Open::File(file)) = &self.open else { return false };
        file.metadata().is_ok_and(|about| about.len() > 0)
    }

    pub(crate) fn format(&self) -> &Format {
        &self.format
    }

    /// Creates the file or connects, unless it is open.
    pub(crate) fn open(&mut self) -> io::Result<()> {
        if self.open.is_none() {
            let destination = self.destination.as_ref().ok_or(ErrorKind::BrokenPipe)?;
            self.open = Some(Open::at(destination)?);
        }
        Ok(())
    }

    /// Opens a file by its name again, which may stand for another file now.
    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        if let (Some(Open::File(_)), Some(destination)) = (&self.open, &self.destination) {
            let open = Open::at(destination)?;
            self.is_new = matches!(&open, Open::File(file) if file.metadata()?.len() == 0);
            self.open = Some(open);
        }
        Ok(())
    }

    /// Writes `bytes`, whole records.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        let failed = |error| Failed { written: 0, error };
        self.open().map_err(failed)?;
        let Some(open) = &mut self.open else { return Ok(()) };
        if open.is_closed() {
            return Err(self.lost(0, ErrorKind::ConnectionReset.into()));
        }
        if self.is_new {
            let preamble = self.format.preamble(bytes);
            // The first record may be that of column names itself.
            let preamble = if bytes.starts_with(&preamble) { Vec::new() } else { preamble };
            if let Err((done, error)) = write_all(open.writer(), &preamble) {
                open.take_back(done);
                return Err(self.lost(0, error));
            }
            self.is_new = false;
        }
        match write_all(open.writer(), bytes) {
            Ok(()) => Ok(()),
            Err((done, error)) => {
                let (written, _) = self.format.whole_in(bytes, done);
                open.take_back(done - written);
                Err(self.lost(written, error))
            }
        }
    }

    /// Closes a connection that failed. A file stays open: its disk may get room.
    fn lost(&mut self, written: usize, error: io::Error) -> Failed {
        if !matches!(self.open, Some(Open::File(_) | Open::Other(_))) {
            self.open = None;
            self.is_new = true;
        }
        Failed { written, error }
    }
}

impl Open {
    fn at(destination: &Destination) -> io::Result<Self> {
        match destination {
            Destination::File(path) if is_pipe(path) => pipe(path).map(Self::Pipe),
            Destination::File(path) => {
                let append = || OpenOptions::new().append(true).create(true).open(path);
                Self::of(continued(path).unwrap_or_else(append)?)
            }
            Destination::Unix(path) => UnixStream::connect(path).map(Self::Unix),
            Destination::Tcp(address) => connect(address).map(Self::Tcp),
        }
    }

    fn of(file: File) -> io::Result<Self> {
        let is_file = file.metadata()?.is_file();
        Ok(if is_file { Self::File(file) } else { Self::Pipe(file) })
    }

    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::File(file) | Self::Pipe(file) => file,
            Self::Unix(stream) => stream,
            Self::Tcp(stream) => stream,
            Self::Other(writer) => writer,
        }
    }

    /// Whether the other end of a connection closed it. Otherwise the system would take the next
    /// records and lose them.
    fn is_closed(&self) -> bool {
        let mut byte = [0; 64];
        let read = match self {
            Self::Unix(stream) => stream.set_nonblocking(true).and_then(|()| {
                let read = (&*stream).read(&mut byte);
                stream.set_nonblocking(false).and(read)
            }),
            Self::Tcp(stream) => stream.set_nonblocking(true).and_then(|()| {
                let read = (&*stream).read(&mut byte);
                stream.set_nonblocking(false).and(read)
            }),
            Self::File(_) | Self::Pipe(_) | Self::Other(_) => return false,
        };
        match read {
            Ok(len) => len == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    /// Removes the last `len` bytes of a file, which are part of a record.
    fn take_back(&mut self, len: usize) {
        if let (Self::File(file), 1..) = (self, len) {
            let end = file.stream_position().unwrap_or(0).saturating_sub(len as u64);
            // A torn record stays in either case.
            let _ = file.set_len(end).and_then(|()| file.seek(SeekFrom::Start(end)));
        }
    }
}

/// Whether there is a pipe at `path`, or something else that a reader reads.
pub(crate) fn is_pipe(path: &Path) -> bool {
    path.metadata().is_ok_and(|about| about.file_type().is_fifo())
}

/// Opens a pipe that has a reader. Opening it to wait would not end without one.
fn pipe(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new().write(true).custom_flags(flags).open(path);
    let pipe = opened.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NXIO) => io::Error::other("the pipe has no reader"),
        _ => error,
    })?;
    // A second open would leave the reader without a writer for a moment: its end of the file.
    fcntl_setfl(&pipe, OFlags::empty())?;
    Ok(pipe)
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let mut last = ErrorKind::NotFound.into();
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_PATIENCE) {
            Ok(stream) => {
                stream.set_write_timeout(Some(SEND_PATIENCE))?;
                sockopt::set_tcp_user_timeout(&stream, SEND_PATIENCE.as_millis() as u32)?;
                sockopt::set_socket_keepalive(&stream, true)?;
                sockopt::set_tcp_keepidle(&stream, PROBE_AFTER)?;
                sockopt::set_tcp_keepintvl(&stream, PROBE_EVERY)?;
                sockopt::set_tcp_keepcnt(&stream, 3)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Writes all of `bytes`, or returns how many were written before the error.
fn write_all(to: &mut dyn Write, bytes: &[u8]) -> Result<(), (usize, io::Error)> {
    let mut done = 0;
    while done < bytes.len() {
        match to.write(&bytes[done..]) {
            Ok(0) => return Err((done, ErrorKind::WriteZero.into())),
            Ok(len) => done += len,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err((done, error)),
        }
    }
    to.flush().map_err(|error| (done, error))
}
