//! The counters of a shard's flows, by name.

use super::outcome::Why;
use super::ranks::Worth;

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident = $shown:literal,)*) => {
        /// The counts.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $name: u64,)*
        }

        impl Counters {
            /// Gives each by its name.
            pub fn visit(&self, visit: &mut dyn FnMut(&'static str, u64)) {
                $(visit($shown, self.$name);)*
            }
        }
    };
}

counters! {
    /// Flows that began.
    flows = "flows",
    /// Flows that made room for others before their time was over.
    flows_evicted = "flows-evicted",
    /// The closed ones of them. The next five are the others: one direction without a SYN; before
    /// the end of the handshake; both directions, but not TCP that is followed; established TCP
    /// without data; established TCP with data.
    flows_evicted_closed = "flows-evicted-closed",
    /// See `flows_evicted_closed`.
    flows_evicted_unanswered = "flows-evicted-unanswered",
    /// See `flows_evicted_closed`.
    flows_evicted_half_open = "flows-evicted-half-open",
    /// See `flows_evicted_closed`.
    flows_evicted_answered = "flows-evicted-answered",
    /// See `flows_evicted_closed`.
    flows_evicted_established = "flows-evicted-established",
    /// See `flows_evicted_closed`.
    flows_evicted_with_data = "flows-evicted-with-data",
    /// Flows whose time was over.
    flows_expired = "flows-expired",
    /// Flows whose ports were used again by a new connection.
    flows_reused = "flows-reused",
    /// Packets that have no flow.
    packets_without_flow = "packets-without-flow",
    /// Connections picked up after their handshake.
    streams_picked_up = "streams-picked-up",
    /// Payloads of TCP packets whose stream isn't followed.
    segments_untracked = "segments-untracked",
    /// Segments that came ahead of their turn and were kept.
    segments_held = "segments-held",
    /// Segments that overlapped one that waited.
    segments_overlapping = "segments-overlapping",
    /// Segments without a new byte.
    segments_old = "segments-old",
    /// Segments that replaced bytes that had been delivered.
    segments_changed_delivered = "segments-changed-delivered",
    /// Segments that were dropped, and taken out of their streams.
    segments_taken_back = "segments-taken-back",
    /// Segments that were dropped and could not be taken out.
    segments_mixed = "segments-mixed",
    /// Keep-alives with a byte of data.
    keep_alives = "keep-alives",
    /// Packets refused, by [`Why`].
    refused_checksum = "refused-checksum",
    /// See `refused_checksum`.
    refused_handshake = "refused-handshake",
    /// See `refused_checksum`.
    refused_window = "refused-window",
    /// See `refused_checksum`.
    refused_acknowledgement = "refused-acknowledgement",
    /// See `refused_checksum`.
    refused_reset = "refused-reset",
    /// See `refused_checksum`.
    refused_time = "refused-time",
    /// See `refused_checksum`.
    refused_signature = "refused-signature",
    /// See `refused_checksum`.
    refused_closed = "refused-closed",
    /// See `refused_checksum`.
    refused_urgent = "refused-urgent",
    /// Urgent bytes that were taken out of their streams.
    urgent_bytes = "urgent-bytes",
    /// Gaps given up, as the receiver had acknowledged what was missing.
    gaps_acknowledged = "gaps-acknowledged",
    /// Gaps given up because there was no room for more waiting data.
    gaps_no_room = "gaps-no-room",
    /// Segments that may fill a gap which was given up for lack of room.
    segments_late = "segments-late",
    /// Times that both ends agreed on a position far ahead of the data seen.
    streams_caught_up = "streams-caught-up",
    /// Bytes that were missing in gaps.
    gap_bytes = "gap-bytes",
    /// Segments that found no stream memory.
    stream_memory_exhausted = "stream-memory-exhausted",
    /// Windows that were made shorter as there was no more stream memory.
    windows_cut = "windows-cut",
}

impl Counters {
    /// A flow made room that was worth this.
    pub(super) fn evicted(&mut self, worth: Worth) {
        self.flows_evicted += 1;
        *match worth {
            Worth::Closed => &mut self.flows_evicted_closed,
            Worth::Unanswered => &mut self.flows_evicted_unanswered,
            Worth::HalfOpen => &mut self.flows_evicted_half_open,
            Worth::Answered => &mut self.flows_evicted_answered,
            Worth::Established => &mut self.flows_evicted_established,
            Worth::WithData => &mut self.flows_evicted_with_data,
        } += 1;
    }

    pub(super) fn refused(&mut self, why: Why) {
        *match why {
            Why::Checksum => &mut self.refused_checksum,
            Why::Handshake => &mut self.refused_handshake,
            Why::Window => &mut self.refused_window,
            Why::Acknowledgement => &mut self.refused_acknowledgement,
            Why::Reset => &mut self.refused_reset,
            Why::Time => &mut self.refused_time,
            Why::Signature => &mut self.refused_signature,
            Why::Closed => &mut self.refused_closed,
            Why::Urgent => &mut self.refused_urgent,
        } += 1;
    }
}
