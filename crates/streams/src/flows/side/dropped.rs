//! Removes the bytes of a dropped packet from a stream.

use super::super::held::Span;
use super::super::memory::Memory;
use super::super::outcome::TakenBack;
use super::StreamHalf;

impl StreamHalf {
    /// Removes bytes that one segment alone had; bytes delivered after them wait again. Returns
    /// `None` without room, and then nothing is changed.
    pub(in super::super) fn take_back(
        &mut self,
        memory: &mut Memory,
        span: Span,
    ) -> Option<TakenBack> {
        self.join(memory);
        let farthest = self.farthest();
        let is_delivered = span.start < self.next;
        if is_delivered {
            let behind = Span { start: span.end, end: self.next };
            if behind.start < behind.end && !memory.held.insert(&mut self.line, behind) {
                return None;
            }
            // Where there was no memory the window is empty.
            self.kept = self.kept.saturating_sub((self.next - span.start) as u32);
            self.next = span.start;
        } else {
            memory.held.remove(&mut self.line, span);
        }
        let ends = memory.held.spans(&self.line).map(|span| span.end);
        let end = if is_delivered && self.waits() { Some(farthest) } else { ends.max() };
        self.ahead = end.map_or(0, |end| (end - self.next) as u32);
        Some(if is_delivered { TakenBack::To(self.next) } else { TakenBack::Nothing })
    }
}
