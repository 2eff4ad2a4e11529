//! Frames that are handed over in blocks: `TPACKET_V3`.
//!
//! The system packs frames into a block and hands it over when the next one does not fit, or when
//! some wait in it for too long. The block is ours until we write `TP_STATUS_KERNEL` to its status.
//! The system then wakes us once for a block, and the frames lie side by side in its cache.

use core::mem::offset_of;
use std::io;

use libc::{tpacket_block_desc, tpacket_hdr_v1, tpacket_req3, tpacket3_hdr};

use super::{Header, Mapping, Slot, give_back, handed_over, read, request};

/// Bytes of a block: some 850 frames of 64 bytes.
const BLOCK: usize = 1 << 17;
/// How often the system looks whether frames wait in a block, in milliseconds.
const LOOK_MS: u32 = 5;
/// The header of a block, and the status in it.
const HEADER: usize = offset_of!(tpacket_block_desc, hdr);
const STATUS: usize = HEADER + offset_of!(tpacket_hdr_v1, block_status);

/// The blocks of a socket.
pub(super) struct Blocks {
    block_len: usize,
    count: usize,
    /// A frame is cut as in a slot of so many bytes.
    slot_len: usize,
    /// The block that is read.
    at: usize,
    /// Frames in it that were not taken, and where the next one's header is in the memory.
    left: u32,
    next: usize,
    /// Blocks before it that were read and are still ours.
    held: usize,
}

impl Blocks {
    /// About `bytes` of them, and the request for them.
    pub(super) fn new(slot_len: usize, bytes: usize) -> io::Result<(Self, tpacket_req3)> {
        // Two frames of any length fit.
        let block_len = BLOCK.max(2 * slot_len);
        let count = (bytes / block_len).max(2);
        let request = request(block_len, count, (block_len / slot_len * count, slot_len))?;
        let request = tpacket_req3 { tp_retire_blk_tov: LOOK_MS, ..request };
        let own = Self { block_len, count, slot_len, at: 0, left: 0, next: 0, held: 0 };
        Ok((own, request))
    }

    /// When the next frame arrived.
    pub(super) fn next_time(&mut self, memory: &Mapping) -> Option<(u32, u32)> {
        let at = self.find(memory)?;
        read::<tpacket3_hdr>(memory, at).map(|header| (header.tp_sec, header.tp_nsec))
    }

    /// Where the next frame's header is: in the block that is read, or in the next one.
    fn find(&mut self, memory: &Mapping) -> Option<usize> {
        while self.left == 0 {
            self.open(memory)?;
        }
        Some(self.next)
    }

    /// The next frame.
    pub(super) fn take(&mut self, memory: &Mapping) -> Option<Slot> {
        let at = self.find(memory)?;
        let header = read::<tpacket3_hdr>(memory, at);
        self.next = header.map_or(at, |header| at + header.tp_next_offset as usize);
        self.left -= 1;
        if self.left == 0 {
            self.finish();
        }
        let header = header?;
        let end = (at + self.slot_len).min(at - at % self.block_len + self.block_len);
        let header = Header {
            len: size_of::<tpacket3_hdr>(),
            mac: header.tp_mac.into(),
            captured: header.tp_snaplen as usize,
            status: header.tp_status,
            wire_len: header.tp_len,
            time: (header.tp_sec, header.tp_nsec),
            vlan: (header.hv1.tp_vlan_tci as u16, header.hv1.tp_vlan_tpid),
        };
        Slot::new(memory, at, end, &header)
    }

    /// Reads the header of the next block, if the block is ours.
    fn open(&mut self, memory: &Mapping) -> Option<()> {
        if self.held == self.count {
            return None;
        }
        let block = self.at * self.block_len;
        handed_over(memory, block + STATUS)?;
        let header: tpacket_hdr_v1 = read(memory, block + HEADER)?;
        self.left = header.num_pkts;
        self.next = block + header.offset_to_first_pkt as usize;
        if self.left == 0 {
            self.finish();
        }
        Some(())
    }

    /// All frames of the block were taken.
    fn finish(&mut self) {
        self.at = (self.at + 1) % self.count;
        self.held += 1;
    }

    /// Returns all blocks that were read to the system.
    pub(super) fn release(&mut self, memory: &Mapping) {
        let first = self.at + self.count - self.held;
        for block in first..first + self.held {
            give_back(memory, block % self.count * self.block_len + STATUS);
        }
        self.held = 0;
    }
}
