//! Counters by port.

use warpline_io::FrameCount;

/// Packets that came in and left by a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets read there, with those lost before.
    pub read: u64,
    /// Their bytes, as captured.
    pub bytes_read: u64,
    /// Packets that its output took.
    pub sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// Packets that the interface lost before they could be read, or had no room to send.
    pub overload: u64,
}

impl PortStats {
    /// Counts packets that were lost before they could be read.
    pub(crate) fn lose(&mut self, count: u64) {
        self.read += count;
        self.overload += count;
    }

    /// Counts a packet that was read.
    #[inline]
    pub(crate) fn read(&mut self, len: usize) {
        self.read += 1;
        self.bytes_read += len as u64;
    }

    /// Counts a packet that was sent.
    #[inline]
    pub(crate) fn send(&mut self, len: usize) {
        self.sent += 1;
        self.bytes_sent += len as u64;
    }

    /// Counts packets as not sent that the output lost later.
    pub(crate) fn lose_sent(&mut self, lost: FrameCount) {
        self.sent = self.sent.saturating_sub(lost.frames);
        self.bytes_sent = self.bytes_sent.saturating_sub(lost.bytes);
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.read += other.read;
        self.bytes_read += other.bytes_read;
        self.sent += other.sent;
        self.bytes_sent += other.bytes_sent;
        self.overload += other.overload;
    }
}
