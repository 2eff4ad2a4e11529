//! The block of a direction of a stream: as large as needed, while there is memory.

use super::super::blocks::Block;
use super::super::memory::Memory;
use super::StreamHalf;

impl StreamHalf {
    /// Gives a block back that is larger than needed, now that nothing waits in it.
    pub(super) fn shrink(&mut self, memory: &mut Memory) {
        let full_len = memory.full_len;
        let is_large = |block: Block| block.len() > full_len;
        if self.ahead > 0 || self.kept as usize > full_len || !self.block.is_some_and(is_large) {
            return;
        }
        if let Some(block) = memory.blocks.take(memory.full_len) {
            self.move_to(memory, block);
        }
    }

    /// Makes room for bytes up to `end`; `false` where there is no memory for them.
    #[inline]
    pub(super) fn reserve(&mut self, memory: &mut Memory, end: u64) -> bool {
        let room = self.block.map_or(0, Block::len);
        let ahead = (end.max(self.farthest()) - self.next) as usize;
        (self.head + self.kept) as usize + ahead <= room || self.make_room(memory, room, ahead)
    }

    /// [`StreamHalf::reserve`] if there is none: `ahead` bytes after the window, and the block has
    /// `room` bytes.
    fn make_room(&mut self, memory: &mut Memory, room: usize, ahead: usize) -> bool {
        self.drop_to(memory.window_len as u32);
        let need = self.kept as usize + ahead;
        let is_roomy = need <= room && (room - need >= room / 4 || room >= memory.full_len);
        if !is_roomy && let Some(block) = larger(memory, room, need) {
            self.move_to(memory, block);
            return true;
        }
        if ahead > room {
            return false;
        }
        if need > room {
            memory.counters.windows_cut += 1;
            self.drop_to((room - ahead) as u32);
        }
        if let Some(block) = self.block {
            self.copy_to(memory, block);
        }
        true
    }

    fn move_to(&mut self, memory: &mut Memory, block: Block) {
        self.copy_to(memory, block);
        if let Some(old) = self.block.replace(block) {
            memory.blocks.give(old);
        }
    }

    /// Copies all to the start of a block that has room for it, the own one or another.
    fn copy_to(&mut self, memory: &mut Memory, block: Block) {
        if let Some(own) = self.block {
            let from = own.start() + self.head as usize;
            let len = (self.kept + self.ahead) as usize;
            memory.blocks.bytes_mut().copy_within(from..from + len, block.start());
        }
        self.head = 0;
    }
}

/// A block for `need` bytes, larger than one of `room` bytes, and not needed to be moved from soon.
fn larger(memory: &mut Memory, room: usize, need: usize) -> Option<Block> {
    let exact = |memory: &mut Memory| (need > room).then(|| memory.blocks.take(need)).flatten();
    memory.blocks.take(need.max(2 * room)).or_else(|| exact(memory))
}
