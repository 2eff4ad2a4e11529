//! Frames that wait for the thread of a capture.

use warpline_packet::{Instant, LinkType};

use crate::port::{Frame, Sink, SinkError, Unwritten};

/// Copies of frames.
#[derive(Default)]
pub(super) struct Chunk {
    bytes: Vec<u8>,
    records: Vec<Record>,
}

pub(super) struct Record {
    len: usize,
    /// Bytes of the reason after the frame, of one that was dropped.
    why: Option<usize>,
    timestamp: Instant,
    wire_len: u32,
    link: LinkType,
    interface: u16,
}

impl Record {
    /// Bytes of memory of the frame.
    pub(super) fn memory(&self) -> usize {
        size_of::<Self>() + self.len + self.why.unwrap_or(0)
    }
}

impl Chunk {
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Bytes of memory.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() + self.records.len() * size_of::<Record>()
    }

    /// Moves all frames of `other` to the end.
    pub(super) fn append(&mut self, other: &mut Self) {
        self.bytes.append(&mut other.bytes);
        self.records.append(&mut other.records);
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
    }

    pub(super) fn push(&mut self, frame: &Frame<'_>, why: Option<&str>) {
        let Frame { bytes, timestamp, wire_len, link, interface } = *frame;
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(why.unwrap_or_default().as_bytes());
        let (len, why) = (bytes.len(), why.map(str::len));
        self.records.push(Record { len, why, timestamp, wire_len, link, interface });
    }

    /// Each frame, and why it was dropped if it was.
    pub(super) fn frames(&self) -> impl Iterator<Item = (Frame<'_>, Option<&str>)> {
        let mut rest = &self.bytes[..];
        self.records.iter().map(move |record| {
            let &Record { len, why, timestamp, wire_len, link, interface } = record;
            let (bytes, after) = rest.split_at(len);
            let (text, after) = after.split_at(why.unwrap_or(0));
            rest = after;
            let why = why.map(|_| str::from_utf8(text).unwrap_or_default());
            (Frame { bytes, timestamp, wire_len, link, interface }, why)
        })
    }

    /// Counts its frames from `start` on.
    pub(super) fn count(&self, start: usize, counts: &mut Unwritten) {
        for record in self.records[start..].iter().filter(|record| record.why.is_none()) {
            counts.add(record.interface, record.len);
        }
    }

    /// Writes all frames, and calls `wrote` after each. Counts those that the sink did not take.
    pub(super) fn write(
        &self,
        sink: &mut dyn Sink,
        lost: &mut Unwritten,
        wrote: &mut dyn FnMut(&Record),
    ) -> Result<(), SinkError> {
        for (at, (frame, why)) in self.frames().enumerate() {
            let outcome = match why {
                None => sink.send(&frame),
                Some(why) => sink.dropped(&frame, why),
            };
            match outcome {
                Err(SinkError::Unsuitable(_)) if why.is_none() => {
                    lost.add(frame.interface, frame.bytes.len());
                }
                Ok(()) | Err(SinkError::Unsuitable(_)) => {}
                Err(error) => {
                    self.count(at, lost);
                    return Err(error);
                }
            }
            wrote(&self.records[at]);
        }
        sink.flush()
    }
}
