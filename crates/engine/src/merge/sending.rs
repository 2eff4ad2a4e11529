//! Packets whose turn has come: each is counted by its outcome, and sent if it leaves here.

use std::ops::Range;

use warpline_io::{BURST_MAX, Burst, Frame, SinkError};
use warpline_io_error::plain;
use warpline_packet::{Batch, Flags, Packet, Verdict, prefetch};

use super::Merge;
use super::routed::Ways;
use crate::egress::WayOut;
use crate::stats::EndedBy;

/// The most reasons reported for frames that did not suit the sink.
const UNSUITABLE_MAX: usize = 16;

/// The queue of an interface that sends.
const EGRESS_QUEUE: &str = "egress";

impl Merge {
    /// Counts these packets by their outcome, and sends those that leave here.
    pub(super) fn settle(&mut self, batch: &mut Batch, range: Range<usize>) {
        if self.neighbours.is_none() {
            return self.settle_burst(batch, range, None);
        }
        for start in range.clone().step_by(BURST_MAX) {
            let burst = start..range.end.min(start + BURST_MAX);
            let ways = self.address(batch, burst.clone());
            self.settle_burst(batch, burst, Some(&ways));
        }
    }

    /// `ways` are those of the packets if they were looked up before.
    fn settle_burst(&mut self, batch: &Batch, range: Range<usize>, ways: Option<&Ways>) {
        let (mut burst, first) = (Burst::new(), range.start);
        for at in range {
            let packet = batch.packet(at);
            let (packets, verdict) = (&mut self.part.packets, packet.verdict());
            let mut why = None;
            let way = ways.and_then(|ways| ways.get(at - first).copied());
            match verdict {
                Verdict::Forward | Verdict::Bypass | Verdict::Return => {
                    match way.unwrap_or_else(|| self.exit(packet)) {
                        WayOut::Port(port) => {
                            let frame = Frame { interface: port, ..frame_of(packet) };
                            // By the time the burst is full it is at hand.
                            frame.bytes.first().into_iter().for_each(prefetch);
                            burst.push(frame);
                            if burst.frames().len() == BURST_MAX {
                                self.send(burst.frames());
                                burst = Burst::new();
                            }
                        }
                        WayOut::Nowhere => self.part.packets.absorbed += 1,
                        WayOut::Held => {}
                        WayOut::Dropped(reason) => {
                            self.part.dropped_at_egress(reason);
                            why = Some(reason);
                        }
                    }
                }
                Verdict::Absorbed => packets.absorbed += 1,
                Verdict::Dropped => packets.dropped += 1,
                Verdict::Malformed => packets.malformed += 1,
                Verdict::Overload => packets.overload += 1,
            }
            let is_lost = why.is_some()
                || matches!(verdict, Verdict::Dropped | Verdict::Malformed | Verdict::Overload);
            if is_lost && self.comments.is_some() {
                self.send(burst.frames());
                burst = Burst::new();
                self.show_drop(packet, why);
            }
        }
        self.send(burst.frames());
    }

    /// Where a packet goes that came to the end of the chain.
    #[inline]
    pub(super) fn exit(&self, packet: Packet<'_>) -> WayOut {
        match &self.egress {
            Some(egress) => egress.exit(packet),
            None if self.wants_frames => WayOut::Port(packet.interface()),
            None => WayOut::Nowhere,
        }
    }

    /// Shows the sink a packet that is not sent, if the sink asks for those; `at_egress` is the
    /// reason for a drop after the last function.
    fn show_drop(&mut self, packet: Packet<'_>, at_egress: Option<&'static str>) {
        let of_egress = at_egress.map(|reason| format!("dropped at egress: {reason}"));
        let own = self.comments.as_ref().and_then(|comments| comments.of(packet));
        let Some(why) = of_egress.as_deref().or(own) else { return };
        if self.sink_open {
            self.unflushed = true;
            if let Err(error) = self.sink.dropped(&frame_of(packet), why) {
                self.close_sink(&error);
            }
        }
    }

    pub(super) fn send(&mut self, mut frames: &[Frame<'_>]) {
        while !frames.is_empty() {
            let (taken, outcome) = match self.sink_open {
                true => self.sink.send_burst(frames),
                false => (0, Err(SinkError::Closed)),
            };
            let (sent, rest) = frames.split_at(taken);
            if self.egress.is_some() {
                sent.iter()
                    .for_each(|frame| self.part.port(frame.interface).send(frame.bytes.len()));
            }
            self.unflushed |= taken > 0;
            self.part.packets.sent += taken as u64;
            self.part.bytes_sent += sent.iter().map(|frame| frame.bytes.len() as u64).sum::<u64>();
            frames = rest;
            if let Err(error) = outcome {
                self.refused(rest.first(), &error);
                frames = rest.get(1..).unwrap_or_default();
            }
        }
    }

    /// Counts a frame that the sink did not take.
    fn refused(&mut self, frame: Option<&Frame<'_>>, error: &SinkError) {
        match error {
            SinkError::Full => {
                self.part.overloaded(EGRESS_QUEUE, 1);
                if let Some(frame) = frame.filter(|_| self.egress.is_some()) {
                    self.part.port(frame.interface).overload += 1;
                }
            }
            _ => {
                self.part.packets.unwritten += 1;
                self.close_sink(error);
            }
        }
    }

    pub(super) fn close_sink(&mut self, error: &SinkError) {
        match error {
            SinkError::Unsuitable(why) => {
                if self.unsuitable.len() < UNSUITABLE_MAX && !self.unsuitable.contains(why) {
                    self.unsuitable.push(why);
                    let warning = format!("output: {why}; such packets are counted as unwritten");
                    self.part.warnings.push(warning);
                }
                return;
            }
            SinkError::Io(error) if self.sink_open => {
                self.part.errors.push(format!("output: {}", plain(error)));
            }
            SinkError::Closed if self.sink_open => {
                self.part.warnings.push("output: the reader closed the pipe".into());
                self.part.ended_by = EndedBy::Output;
            }
            _ => {}
        }
        self.sink_open = false;
    }
}

pub(super) fn frame_of(packet: Packet<'_>) -> Frame<'_> {
    let wire_len = if packet.has(Flags::SNAPPED) { packet.wire_len() } else { packet.len() };
    Frame {
        bytes: packet.into_frame(),
        timestamp: packet.captured(),
        wire_len: wire_len as u32,
        link: packet.link(),
        interface: packet.interface(),
    }
}
