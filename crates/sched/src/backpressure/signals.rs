//! Signals: the states of edges, for feeders elsewhere.

use super::{Backpressure, EdgeId, NodeId, PauseMode};

/// The state of an edge, for the node that feeds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// The edge.
    pub edge: EdgeId,
    /// The node that takes from it.
    pub from: NodeId,
    /// The node that feeds it.
    pub to: NodeId,
    /// Whether the edge holds its feeder.
    pub pause: bool,
    /// The number of this state of the edge. Later states have larger numbers.
    pub sequence: u64,
}

impl Backpressure {
    /// The queue of `edge` is on another host: only signals change its state.
    pub fn mark_remote(&mut self, edge: EdgeId) {
        self.edges[edge.0].is_remote = true;
    }

    /// A signal came from another host. Returns whether it changed the state of its edge. Signals
    /// of unknown or local edges, and those that are not newer, change nothing.
    pub fn handle_signal(&mut self, signal: &Signal, now_ns: u64) -> bool {
        let now_ns = self.advance(now_ns);
        let Some(state) = self.edges.get_mut(signal.edge.0) else { return false };
        let applies = state.is_remote && self.mode != PauseMode::Off;
        if !applies || signal.sequence <= state.sequence {
            return false;
        }
        state.sequence = signal.sequence;
        let changes = signal.pause != state.held.runs();
        self.set_held(signal.edge, signal.pause, now_ns);
        changes
    }

    /// Signals the state of every local edge again, with the number it has.
    pub fn handle_repeat(&mut self) {
        (0..self.edges.len()).map(EdgeId).for_each(|edge| self.signal(edge));
    }

    /// No signal of a remote `edge` came for so long that its host may be gone. Its hold ends, and
    /// the next signal applies whatever its number is.
    pub fn handle_silence(&mut self, edge: EdgeId, now_ns: u64) {
        let now_ns = self.advance(now_ns);
        if self.edges[edge.0].is_remote {
            self.edges[edge.0].sequence = 0;
            self.set_held(edge, false, now_ns);
        }
    }

    /// The next change of an edge. Several changes since the last poll are one, to the state now.
    pub fn poll_signal(&mut self) -> Option<Signal> {
        let edge = self.signals.pop_front()?;
        let state = &mut self.edges[edge.0];
        state.signals = false;
        let (pause, sequence) = (state.held.runs(), state.sequence);
        Some(Signal { edge, from: state.to, to: state.from, pause, sequence })
    }

    pub(super) fn signal(&mut self, edge: EdgeId) {
        let state = &mut self.edges[edge.0];
        if !state.signals && !state.is_remote {
            state.signals = true;
            self.signals.push_back(edge);
        }
    }
}
