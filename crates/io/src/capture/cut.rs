//! Where a capture was cut short or is wrong, said in terms of the file that the user has.

use super::CutPart;
use super::buffer::ReadBuffer;
use super::format_error;
use crate::port::SourceError;

/// Where a capture was cut short.
pub(super) struct Cut {
    /// Length in bytes of the input, or of the data that `of` names.
    at: u64,
    /// The data whose length `at` is; empty for the input itself.
    of: String,
    /// Number of the packet that would have come next, from 1.
    packet: u64,
    /// The part of the capture that was cut; none if only the compressed data is incomplete.
    part: Option<CutPart>,
}

impl Cut {
    /// Whether and where an input that ended was cut short: in `part`, or within its compressed
    /// data.
    pub(super) fn find(buffer: &ReadBuffer, part: Option<CutPart>, packet: u64) -> Option<Self> {
        let compressed = buffer.compressed();
        if let Some((input, at)) = compressed.and_then(|input| Some((input, input.cut_at()?))) {
            let of = format!(" of its {} data", input.compression().name());
            return Some(Self { at, of, packet, part });
        }
        let part = Some(part?);
        let of = if compressed.is_some() { " of its decompressed data" } else { "" };
        Some(Self { at: buffer.bytes_read(), of: of.to_owned(), packet, part })
    }

    pub(super) fn warning(&self) -> String {
        let Self { at, of, packet, part } = self;
        let place = match part {
            Some(CutPart::Packet) => "in the middle of",
            Some(CutPart::Block) => "in the middle of a block before",
            None => "before",
        };
        format!("capture cut short at byte {at}{of} {place} packet {packet}; read up to there")
    }
}

/// Adds to an error that its offset counts decompressed bytes, if the capture was compressed.
pub(super) fn placed(error: SourceError, buffer: &ReadBuffer) -> SourceError {
    match (error, buffer.compressed()) {
        (SourceError::Format { offset, what }, Some(input)) if !input.has_failed() => {
            let name = input.compression().name();
            format_error(offset, format!("{what} (in the decompressed {name} data)"))
        }
        (error, _) => error,
    }
}

/// The same for an error in the capture's header, which the end of compressed data may be the
/// reason for.
pub(super) fn header_error(error: SourceError, buffer: &ReadBuffer) -> SourceError {
    let cut = buffer.compressed().and_then(|input| Some((input.compression(), input.cut_at()?)));
    match cut {
        Some((compression, at)) => {
            let name = compression.name();
            format_error(at, format!("{name} data cut short in the capture's header"))
        }
        None => placed(error, buffer),
    }
}
