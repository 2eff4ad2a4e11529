//! The demo capture as a whole: its parts, put in time order and written.

use core::time::Duration;

use warpline_io::{Frame, Sink, SinkError};
use warpline_packet::{Instant, LinkType};

use super::summary::{Kind, Summary};
use super::{malformed, odd, site, udp, web};

/// Writes the demo capture to `sink`, the same bytes every time, in time order.
///
/// # Errors
/// Those of the sink.
pub(crate) fn write(sink: &mut dyn Sink) -> Result<Summary, SinkError> {
    let trace = Trace::whole();
    let mut summary = Summary::default();
    for (timestamp, kind, bytes) in trace.frames() {
        let wire_len = bytes.len() as u32;
        let link = LinkType::ETHERNET;
        sink.send(&Frame { bytes, timestamp, wire_len, link, interface: 0 })?;
        summary.count(kind, bytes.len());
    }
    Ok(summary)
}

/// Each adds the traffic of one sort, over the whole time.
const PARTS: [fn(&mut Trace); 19] = [
    odd::neighbours,
    web::visitors,
    web::surfers,
    web::surfers_behind_nat,
    web::guests,
    web::transfers,
    udp::names,
    udp::calls,
    udp::clocks,
    udp::echoes,
    udp::nested_tags,
    odd::routes_traced,
    odd::scans,
    odd::forgeries,
    odd::unrouted,
    odd::unusual_headers,
    malformed::lies,
    site::shoppers,
    site::branch_office,
];

/// Frames, each with its time and kind, in any order until they are [`whole`](Trace::whole).
#[derive(Debug, Default)]
pub(super) struct Trace {
    bytes: Vec<u8>,
    places: Vec<Place>,
    ports: u16,
    idents: u16,
}

#[derive(Debug)]
struct Place {
    at: Instant,
    kind: Kind,
    start: usize,
    len: usize,
}

impl Trace {
    /// The demo capture, in time order.
    pub(super) fn whole() -> Self {
        let mut trace = Self::default();
        for part in PARTS {
            part(&mut trace);
        }
        trace.places.sort_by_key(|place| place.at);
        trace
    }

    /// Adds a frame, up to a microsecond late so that times have digits there too.
    pub(super) fn add(&mut self, at: Instant, kind: Kind, frame: &[u8]) {
        let late_ns = self.places.len() as u64 * 617 % 1_000;
        let at = at.after(Duration::from_nanos(late_ns));
        self.places.push(Place { at, kind, start: self.bytes.len(), len: frame.len() });
        self.bytes.extend_from_slice(frame);
    }

    /// A client's port that no other conversation has.
    pub(super) fn port(&mut self) -> u16 {
        self.ports += 1;
        49_152 + self.ports * 3 % 16_384
    }

    /// An IPv4 identification; the next 65,535 differ from it.
    pub(super) fn ident(&mut self) -> u16 {
        self.idents = self.idents.wrapping_add(0x9e37);
        self.idents
    }

    /// All frames with their times and kinds.
    pub(super) fn frames(&self) -> impl Iterator<Item = (Instant, Kind, &[u8])> {
        let bytes = |place: &Place| &self.bytes[place.start..place.start + place.len];
        self.places.iter().map(move |place| (place.at, place.kind, bytes(place)))
    }
}

/// A moment of the capture, in microseconds from its start.
pub(super) const fn at_us(us: u64) -> Instant {
    START.after(Duration::from_micros(us))
}

/// 2026-01-05T09:00:00Z.
pub(super) const START: Instant = Instant::from_secs(1_767_603_600);
/// When the last conversation may begin, in microseconds from the start.
pub(super) const LAST_START_US: u64 = 18_500_000;
