//! An input that may be silent for long: read by a thread of its own. The thread that pulls frames
//! can do other work or end while the input is silent.

use std::io::{self, ErrorKind, Read};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;

/// A pipe or terminal. A read of it never waits: it returns `WouldBlock` when no bytes have
/// arrived.
///
/// Its thread ends with the input, at the first error, or with the first bytes that come after the
/// pipe was dropped; until then it stays blocked, which does not keep the program from ending.
pub(super) struct Pipe {
    chunks: Receiver<io::Result<Vec<u8>>>,
    /// The latest chunk, and how many of its bytes were read.
    chunk: Vec<u8>,
    read: usize,
}

impl Pipe {
    /// # Errors
    /// The operating system's where it has no thread to give.
    pub(super) fn new(input: impl Read + Send + 'static) -> io::Result<Self> {
        let (sender, chunks) = sync_channel(CHUNKS);
        let name = "input".to_owned();
        thread::Builder::new().name(name).spawn(move || pump(input, &sender))?;
        Ok(Self { chunks, chunk: Vec::new(), read: 0 })
    }
}

impl Read for Pipe {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.read == self.chunk.len() {
            match self.chunks.try_recv() {
                Ok(chunk) => (self.chunk, self.read) = (chunk?, 0),
                Err(TryRecvError::Empty) => return Err(ErrorKind::WouldBlock.into()),
                Err(TryRecvError::Disconnected) => return Ok(0),
            }
        }
        let mut rest = &self.chunk[self.read..];
        let len = rest.read(room)?;
        self.read += len;
        Ok(len)
    }
}

/// Sends on the bytes of `input` until it ends or fails, or the receiver is dropped.
fn pump(mut input: impl Read, chunks: &SyncSender<io::Result<Vec<u8>>>) {
    let mut buffer = vec![0; CHUNK_LEN];
    loop {
        let chunk = match input.read(&mut buffer) {
            Ok(0) => return,
            Ok(len) => Ok(buffer[..len.min(CHUNK_LEN)].to_vec()),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let failed = chunk.is_err();
        if chunks.send(chunk).is_err() || failed {
            return;
        }
    }
}

/// The most that is read at once, in bytes.
const CHUNK_LEN: usize = 1 << 18;
/// Chunks that may wait.
const CHUNKS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives each piece in a read of its own, as soon as it is sent.
    struct Pieces(Receiver<io::Result<Vec<u8>>>);

    impl Read for Pieces {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            let Ok(piece) = self.0.recv() else { return Ok(0) };
            (&piece?[..]).read(room)
        }
    }

    /// Reads when something is there.
    fn read(pipe: &mut Pipe, room: &mut [u8]) -> io::Result<usize> {
        loop {
            match pipe.read(room) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::yield_now(),
                result => return result,
            }
        }
    }

    #[test]
    fn a_silent_input_would_block_and_nothing_is_lost() {
        let (sender, pieces) = sync_channel(1);
        let mut pipe = Pipe::new(Pieces(pieces)).unwrap();
        let mut room = [0; 4];
        assert_eq!(pipe.read(&mut room).unwrap_err().kind(), ErrorKind::WouldBlock);
        sender.send(Ok(b"abcdef".to_vec())).unwrap();
        assert_eq!((read(&mut pipe, &mut room).unwrap(), &room), (4, b"abcd"));
        assert_eq!((pipe.read(&mut room).unwrap(), &room[..2]), (2, &b"ef"[..]));
        assert_eq!(pipe.read(&mut room).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(sender);
        assert_eq!(read(&mut pipe, &mut room).unwrap(), 0);
        assert_eq!(read(&mut pipe, &mut room).unwrap(), 0);
    }

    #[test]
    fn an_error_is_reported_behind_what_came_before_it() {
        let (sender, pieces) = sync_channel(3);
        sender.send(Ok(vec![1])).unwrap();
        sender.send(Err(ErrorKind::Interrupted.into())).unwrap();
        sender.send(Err(ErrorKind::TimedOut.into())).unwrap();
        let mut pipe = Pipe::new(Pieces(pieces)).unwrap();
        assert_eq!(read(&mut pipe, &mut [0; 4]).unwrap(), 1);
        assert_eq!(read(&mut pipe, &mut [0; 4]).unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(read(&mut pipe, &mut [0; 4]).unwrap(), 0);
    }
}
