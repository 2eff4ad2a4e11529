//! The TCP conversations of a shard's bindings: one for each remote that a binding has a place for.
//!
//! That of a binding's first remote has the binding's number. A place for another remote gets one
//! when TCP first uses it, and keeps it. So memory is touched only as far as it is needed.

use warpline_packet::prefetch;
use warpline_tables::tcp::Conversation;

/// In the place of a number: no conversation yet.
const NONE: u32 = 0;

/// A conversation in its own cache line.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Line(Conversation);

/// The conversations of a shard.
pub(super) struct Conversations {
    firsts: Vec<Line>,
    others: Vec<Line>,
}

impl Conversations {
    /// Room for `bindings` bindings with `others` more remotes in all.
    pub(super) fn new(bindings: usize, others: usize) -> Self {
        Self { firsts: Vec::with_capacity(bindings), others: Vec::with_capacity(others) }
    }

    /// Asks for the conversation of a binding's first remote.
    #[inline]
    pub(super) fn fetch(&self, binding: usize) {
        self.firsts.get(binding).into_iter().for_each(prefetch);
    }

    /// The conversation of a binding's first remote.
    #[inline]
    pub(super) fn first(&mut self, binding: usize) -> &mut Conversation {
        if binding >= self.firsts.len() {
            self.firsts.resize(binding + 1, Line::default());
        }
        &mut self.firsts[binding].0
    }

    /// The conversation of another remote, by the number that its place keeps.
    pub(super) fn other(&mut self, number: &mut u32) -> &mut Conversation {
        if *number == NONE {
            self.others.push(Line::default());
            *number = self.others.len() as u32;
        }
        &mut self.others[*number as usize - 1].0
    }
}
