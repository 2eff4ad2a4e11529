//! Removes an urgent byte from delivered data.

use super::super::memory::Memory;
use super::StreamHalf;

impl StreamHalf {
    /// Takes the byte at `place` out of the window: later bytes, waiting ones too, move one place
    /// towards the start. `false` if it isn't in the window.
    pub(in super::super) fn take_out(&mut self, memory: &mut Memory, place: u64) -> bool {
        self.join(memory);
        let Some(before) = place.checked_sub(self.window_start()) else { return false };
        let Some(block) = self.block.filter(|_| before < u64::from(self.kept)) else {
            return false;
        };
        // Waiting bytes keep their place in the block: the bytes before the urgent one move.
        let start = block.start() + self.head as usize;
        memory.blocks.bytes_mut().copy_within(start..start + before as usize, start + 1);
        self.head += 1;
        self.kept -= 1;
        self.next -= 1;
        memory.held.move_up(&self.line);
        true
    }
}
