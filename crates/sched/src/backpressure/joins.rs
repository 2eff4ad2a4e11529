//! Joins: a branch that lacks a piece closes its launches early.

use super::{Backpressure, EdgeId, NodeId};

impl Backpressure {
    /// The node `join` has a piece from another branch and none on `edge`. Call it at each visit
    /// while that is so; it ends with the next piece on `edge`.
    ///
    /// If another edge holds its feeder meanwhile, the pause may reach the node where the branches
    /// part, so the awaited one gets nothing more. Each node of the awaited branch then closes its
    /// launch at once if it can take nothing: it is paused, or one of its queues is empty. Others
    /// close full launches by themselves.
    pub fn handle_join_waits(&mut self, join: NodeId, edge: EdgeId, now_ns: u64) {
        let now_ns = self.advance(now_ns);
        if self.nodes[join.0].awaits != Some(edge) {
            self.set_awaits(join, Some(edge), now_ns);
        }
        let mut inputs = self.graph.inputs(join).iter();
        if inputs.any(|&other| other != edge && self.is_held_by(other)) {
            self.edges[edge.0].awaited.set(true, now_ns);
            self.flush_branch(edge);
        }
    }

    fn flush_branch(&mut self, edge: EdgeId) {
        for &node in self.graph.branch(edge) {
            let lacks_input = self.graph.inputs(node).iter().any(|one| self.is_empty(*one));
            let state = &mut self.nodes[node.0];
            if (lacks_input || state.paused.runs()) && !state.flushes {
                state.flushes = true;
                self.flushes.push_back(node);
            }
        }
    }

    /// The next node that closes its launch at once
    /// ([`Batcher::handle_flush`](crate::Batcher::handle_flush)), if it has one open.
    pub fn poll_flush(&mut self) -> Option<NodeId> {
        let node = self.flushes.pop_front()?;
        self.nodes[node.0].flushes = false;
        Some(node)
    }

    /// Notes the edge that a join waits for now.
    pub(super) fn set_awaits(&mut self, join: NodeId, edge: Option<EdgeId>, now_ns: u64) {
        let before = std::mem::replace(&mut self.nodes[join.0].awaits, edge);
        if let Some(before) = before {
            self.edges[before.0].awaited.set(false, now_ns);
        }
        for at in 0..self.graph.inputs(join).len() {
            self.update_excuse(self.graph.inputs(join)[at], join, now_ns);
        }
    }

    pub(super) fn update_excuse(&mut self, edge: EdgeId, join: NodeId, now_ns: u64) {
        let waits_for_other = self.nodes[join.0].awaits.is_some_and(|awaited| awaited != edge);
        let state = &mut self.edges[edge.0];
        state.excused.set(state.held.runs() && waits_for_other, now_ns);
    }

    fn is_empty(&self, edge: EdgeId) -> bool {
        self.edges[edge.0].occupancy.milli() == 0
    }
}
