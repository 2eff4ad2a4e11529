//! The application protocol of the current flow, from its first data.

use warpline_packet::wire::ip_protocol;

use super::super::apps::{PackedApps, STREAM_LEN_MAX};
use super::{At, Inspector};
use warpline_streams::flows::Direction;

impl Inspector {
    /// Judges the flow by the packet's data, and gives the judgement before it.
    pub(super) fn note_app(&mut self, at: &At<'_>) -> PackedApps {
        let Some((place, tracked)) = at.tracked.as_ref().and_then(|t| Some((t.place?, t))) else {
            return PackedApps::default();
        };
        let (direction, flows) = (tracked.direction, &mut self.flows);
        let before = flows.vars(place).apps;
        if tracked.is_error || before.is_settled(direction) {
            return before;
        }
        let Some((src, dst)) = at.subject.ports else { return before };
        let port = if direction == Direction::ToServer { dst } else { src };
        let mut apps = before.unpack();
        if at.subject.protocol == ip_protocol::UDP {
            apps.take_datagram(direction, port, at.subject.payload);
        } else if at.grew.is_some() {
            let window = flows.window(place, direction);
            let len = window.bytes.len().min(STREAM_LEN_MAX);
            let start = (window.start == 0).then(|| &window.bytes[..len]);
            apps.take_stream(direction, port, start);
        }
        flows.vars(place).apps = apps.pack();
        before
    }

    /// Takes the judgement back that a dropped packet led to: its receiver never has its data.
    pub(super) fn forget_app(&mut self, at: &At<'_>, before: PackedApps) {
        if let Some(place) = at.place() {
            self.flows.vars(place).apps = before;
        }
    }
}
