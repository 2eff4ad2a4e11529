//! Flow tracking: tables of cases, random traffic against models, and limits.

mod bounds;
mod connections;
mod delivery;
mod expected;
mod floods;
mod flows;
mod frames;
mod overlaps;
mod urgent;

use super::{Direction, Facts, Flows, Limits, Stream, Tracked};
use frames::Frame;
use warpline_packet::Seed;

/// Flows that are given frames.
struct Listener {
    flows: Flows<u32>,
}

impl Listener {
    fn new(limits: &Limits) -> Self {
        Self { flows: Flows::new(limits, Seed::new(5)) }
    }

    fn take(&mut self, frame: &Frame) -> Tracked {
        let bytes = frame.bytes();
        let packet = frame.packet(&bytes).expect("a packet of a flow");
        self.flows.fetch(packet.hint);
        self.flows.take(&packet)
    }

    fn stream(&mut self, frame: &Frame) -> Stream {
        self.take(frame).stream
    }

    /// The properties of a frame's flow, and the window of its direction, after it.
    fn seen(&mut self, frame: &Frame) -> (Facts, u64, Vec<u8>) {
        let tracked = self.take(frame);
        let place = tracked.place.expect("a flow");
        let facts = self.flows.facts(place);
        let window = self.flows.window(place, tracked.direction);
        (facts, window.start, window.bytes.to_vec())
    }

    /// Client and server shake hands: from here on both have sent nothing but their SYN.
    fn open(&mut self, client_isn: u32, server_isn: u32) {
        use frames::{ACK, SYN};
        let [client, server] = [Frame::to_server(), Frame::to_client()];
        self.take(&client.seq(client_isn).flags(SYN));
        self.take(&server.seq(server_isn).ack(client_isn.wrapping_add(1)).flags(SYN | ACK));
        let ack = client.seq(client_isn.wrapping_add(1)).ack(server_isn.wrapping_add(1));
        let tracked = self.take(&ack.flags(ACK));
        assert!(self.flows.facts(tracked.place.expect("a flow")).is_established);
        assert!(!tracked.is_established, "it is for what comes after");
    }
}

/// That the stream grew by exactly this packet.
fn grew(from: u64, to: u64) -> Stream {
    Stream::Grew { from, to, is_packet: true, changed: None }
}

/// That it grew by more or less than this packet.
fn grew_otherwise(from: u64, to: u64) -> Stream {
    Stream::Grew { from, to, is_packet: false, changed: None }
}

const BOTH: [Direction; 2] = [Direction::ToServer, Direction::ToClient];
