//! A window in two parts, so that it need not move whenever its block is full.
//!
//! When data in order reach the end of the block, they continue at its start, before the older
//! bytes that the window keeps. All other code sees the window in one piece:
//! [`StreamHalf::join`] makes it so first.

use super::super::blocks::Block;
use super::super::held::Span;
use super::super::memory::{Memory, Wrote};
use super::StreamHalf;

impl StreamHalf {
    /// Delivers data in order if nothing waits and there is memory, as with most segments.
    #[inline]
    pub(in super::super) fn extend(&mut self, memory: &mut Memory, payload: &[u8]) -> bool {
        let is_plain = |block: &Block| self.ahead == 0 && block.len() <= memory.full_len;
        if payload.is_empty() || !self.block.as_ref().is_some_and(is_plain) {
            return false;
        }
        self.drop_to(memory.window_len as u32);
        let Some(at) = self.room_for(memory, payload.len()) else { return false };
        let Some(room) = memory.blocks.bytes_mut().get_mut(at..at + payload.len()) else {
            return false;
        };
        room.copy_from_slice(payload);
        let end = self.next + payload.len() as u64;
        memory.wrote = Wrote::Alone(Span { start: self.next, end });
        self.next = end;
        self.kept += payload.len() as u32;
        true
    }

    /// The window's last four bytes as one number, where they lie together.
    #[inline]
    pub(in super::super) fn last_four(&self, memory: &Memory) -> Option<u32> {
        let newer = (self.kept - self.older) as usize;
        let start = if self.older > 0 { 0 } else { self.head as usize };
        let at = self.block?.start() + start + newer.checked_sub(4)?;
        Some(u32::from_be_bytes(*memory.blocks.bytes().get(at..)?.first_chunk()?))
    }

    /// Where `len` bytes go that follow the window; `None` where there is no memory for them.
    #[inline]
    fn room_for(&mut self, memory: &mut Memory, len: usize) -> Option<usize> {
        let block = self.block?;
        let (head, newer) = (self.head as usize, (self.kept - self.older) as usize);
        if self.older > 0 && newer + len <= head {
            return Some(block.start() + newer);
        }
        let is_behind = self.older == 0 && head + newer + len <= block.len();
        if !is_behind && self.older == 0 && len <= head && newer > 0 {
            self.older = self.kept;
            return Some(block.start());
        }
        if !is_behind {
            self.join(memory);
            if !self.reserve(memory, self.next + len as u64) {
                return None;
            }
        }
        Some(self.block?.start() + (self.head + self.kept) as usize)
    }

    /// Makes one part of two.
    #[inline]
    pub(super) fn join(&mut self, memory: &mut Memory) {
        if self.older > 0 {
            self.move_together(memory);
        }
    }

    fn move_together(&mut self, memory: &mut Memory) {
        let (head, older) = (self.head as usize, self.older as usize);
        let newer = self.kept as usize - older;
        let start = self.block.map_or(0, Block::start);
        if let Some(block) = memory.blocks.bytes_mut().get_mut(start..start + head + older) {
            block.copy_within(head.., newer);
            block[..newer + older].rotate_left(newer);
        }
        (self.head, self.older) = (0, 0);
    }

    /// At most `reach` bytes before and after the place in the window where the last `len` bytes
    /// begin, and that place among them. They are copied to `room` if they are not contiguous; it
    /// has twice as many.
    #[inline]
    pub(in super::super) fn around<'a>(
        &self,
        memory: &'a Memory,
        len: usize,
        reach: usize,
        room: &'a mut [u8],
    ) -> (&'a [u8], usize) {
        let Some(block) = self.block else { return (&[], 0) };
        let bytes = memory.blocks.bytes().get(block.start()..block.start() + block.len());
        let bytes = bytes.unwrap_or(&[]);
        let (older, newer) = (self.older as usize, (self.kept - self.older) as usize);
        let start = if older > 0 { 0 } else { self.head as usize };
        let border = start + newer.saturating_sub(len);
        let end = start + newer.min(border - start + reach);
        let missing = (reach + start).saturating_sub(border).min(older);
        let first = border.saturating_sub(reach).max(start);
        if missing == 0 {
            return (bytes.get(first..end).unwrap_or(&[]), border - first);
        }
        let seam = self.head as usize + older;
        let parts = bytes.get(seam - missing..seam).zip(bytes.get(first..end));
        let Some((before, behind)) = parts else { return (&[], 0) };
        let count = before.len() + behind.len();
        let Some((room_before, rest)) = room.split_at_mut_checked(before.len()) else {
            return (&[], 0);
        };
        room_before.copy_from_slice(before);
        let Some(room_behind) = rest.get_mut(..behind.len()) else { return (&[], 0) };
        room_behind.copy_from_slice(behind);
        (&room[..count], missing + border - first)
    }
}
