//! Frames that are handed over one by one: `TPACKET_V2`.
//!
//! The ring is an array of slots. The system fills the next one and sets `TP_STATUS_USER` in its
//! status. From then on the slot is ours until we write `TP_STATUS_KERNEL`.

use std::io;

use libc::{tpacket_req3, tpacket2_hdr};

use super::{Header, Mapping, Slot, give_back, handed_over, read, request};

/// Bytes of a block of slots, which is contiguous memory of the system.
const BLOCK: usize = 1 << 16;

/// The slots of a socket. Those from `start` on, `held` many, are ours.
pub(super) struct Slots {
    slot_len: usize,
    count: usize,
    start: usize,
    held: usize,
}

impl Slots {
    /// About `bytes` of them, and the request for them.
    pub(super) fn new(slot_len: usize, bytes: usize) -> io::Result<(Self, tpacket_req3)> {
        let block = BLOCK.max(slot_len);
        let blocks = (bytes / block).max(2);
        let count = block / slot_len * blocks;
        let request = request(block, blocks, (count, slot_len))?;
        Ok((Self { slot_len, count, start: 0, held: 0 }, request))
    }

    /// When the next frame arrived.
    pub(super) fn next_time(&self, memory: &Mapping) -> Option<(u32, u32)> {
        let (_, _, header) = self.find(memory)?;
        Some((header.tp_sec, header.tp_nsec))
    }

    /// The place, status and header of the next slot, if it is ours. A slot starts with its status.
    fn find(&self, memory: &Mapping) -> Option<(usize, u32, tpacket2_hdr)> {
        if self.held == self.count {
            return None;
        }
        // Blocks are whole slots, so slots lie one after another.
        let at = (self.start + self.held) % self.count * self.slot_len;
        Some((at, handed_over(memory, at)?, read(memory, at)?))
    }

    /// The next slot, if it is ours.
    pub(super) fn take(&mut self, memory: &Mapping) -> Option<Slot> {
        let (at, status, header) = self.find(memory)?;
        self.held += 1;
        let header = Header {
            len: size_of::<tpacket2_hdr>(),
            mac: header.tp_mac.into(),
            captured: header.tp_snaplen as usize,
            status,
            wire_len: header.tp_len,
            time: (header.tp_sec, header.tp_nsec),
            vlan: (header.tp_vlan_tci, header.tp_vlan_tpid),
        };
        Slot::new(memory, at, at + self.slot_len, &header)
    }

    /// Returns all slots to the system.
    pub(super) fn release(&mut self, memory: &Mapping) {
        for _ in 0..self.held {
            give_back(memory, self.start * self.slot_len);
            self.start = (self.start + 1) % self.count;
        }
        self.held = 0;
    }
}
