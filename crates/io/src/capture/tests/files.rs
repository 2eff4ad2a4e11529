//! Capture files built byte by byte, and readers that hand them out in awkward pieces.

use std::io::{self, Cursor, Read};

/// An integer of so many bytes, in the order of `big`.
fn int(big: bool, value: u64, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|place| (value >> (8 * place)) as u8).collect();
    if big {
        bytes.reverse();
    }
    bytes
}

/// A pcap file under construction.
pub(super) struct PcapFile {
    big: bool,
    pub(super) bytes: Vec<u8>,
}

impl PcapFile {
    pub(super) fn new(big: bool, magic: u32, link: u32) -> Self {
        let fields = [(u64::from(magic), 4), (2, 2), (4, 2), (0, 4), (0, 4), (65535, 4)];
        let mut file = Self { big, bytes: Vec::new() };
        for (value, len) in fields {
            file.bytes.extend(int(big, value, len));
        }
        file.bytes.extend(int(big, u64::from(link), 4));
        file
    }

    pub(super) fn micros() -> Self {
        Self::new(false, 0xa1b2_c3d4, 1)
    }

    /// A record with any header.
    pub(super) fn record(mut self, time: (u32, u32), len: u32, wire: u32, frame: &[u8]) -> Self {
        for value in [time.0, time.1, len, wire] {
            self.bytes.extend(int(self.big, u64::from(value), 4));
        }
        self.bytes.extend_from_slice(frame);
        self
    }

    pub(super) fn packet(self, time: (u32, u32), frame: &[u8]) -> Self {
        let len = frame.len() as u32;
        self.record(time, len, len, frame)
    }
}

/// A pcapng file under construction.
pub(super) struct PcapngFile {
    big: bool,
    pub(super) bytes: Vec<u8>,
}

impl PcapngFile {
    /// A file with one section header.
    pub(super) fn new(big: bool) -> Self {
        Self { big, bytes: Vec::new() }.section(big)
    }

    pub(super) fn section(mut self, big: bool) -> Self {
        self.big = big;
        let body = self.ints(&[(0x1a2b_3c4d, 4), (1, 2), (0, 2), (u64::MAX, 8)]);
        self.block(0x0a0d_0d0a, &body)
    }

    pub(super) fn ints(&self, fields: &[(u64, usize)]) -> Vec<u8> {
        fields.iter().flat_map(|&(value, len)| int(self.big, value, len)).collect()
    }

    /// A block with these lengths at its ends.
    pub(super) fn lying(mut self, kind: u32, body: &[u8], head: u32, tail: u32) -> Self {
        self.bytes.extend(int(self.big, u64::from(kind), 4));
        self.bytes.extend(int(self.big, u64::from(head), 4));
        self.bytes.extend_from_slice(body);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0xee);
        self.bytes.extend(int(self.big, u64::from(tail), 4));
        self
    }

    pub(super) fn block(self, kind: u32, body: &[u8]) -> Self {
        let len = body.len().next_multiple_of(4) as u32 + 12;
        self.lying(kind, body, len, len)
    }

    pub(super) fn interface(self, link: u16, snap_len: u32, options: &[(u16, &[u8])]) -> Self {
        let mut body = self.ints(&[(u64::from(link), 2), (0, 2), (u64::from(snap_len), 4)]);
        for (code, value) in options {
            body.extend(self.ints(&[(u64::from(*code), 2), (value.len() as u64, 2)]));
            body.extend_from_slice(value);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        self.block(1, &body)
    }

    pub(super) fn enhanced(self, interface: u32, time: u64, wire: u32, frame: &[u8]) -> Self {
        self.enhanced_saying(interface, time, (frame.len() as u32, wire), frame)
    }

    pub(super) fn enhanced_saying(
        self,
        interface: u32,
        time: u64,
        (captured, wire): (u32, u32),
        frame: &[u8],
    ) -> Self {
        let mut body = self.ints(&[
            (u64::from(interface), 4),
            (time >> 32, 4),
            (time & 0xffff_ffff, 4),
            (u64::from(captured), 4),
            (u64::from(wire), 4),
        ]);
        body.extend_from_slice(frame);
        self.block(6, &body)
    }

    pub(super) fn simple(self, wire: u32, frame: &[u8]) -> Self {
        let mut body = self.ints(&[(u64::from(wire), 4)]);
        body.extend_from_slice(frame);
        self.block(3, &body)
    }

    pub(super) fn obsolete(self, interface: u16, time: u64, frame: &[u8]) -> Self {
        let len = frame.len() as u64;
        let mut body = self.ints(&[
            (u64::from(interface), 2),
            (77, 2),
            (time >> 32, 4),
            (time & 0xffff_ffff, 4),
            (len, 4),
            (len, 4),
        ]);
        body.extend_from_slice(frame);
        self.block(2, &body)
    }
}

/// How a file is handed out.
#[derive(Clone, Copy, Debug)]
pub(super) enum Manner {
    Whole,
    OneByte,
    /// Pieces of 1 to 37 bytes.
    Short,
    /// As `Short`, with a read that is interrupted or would block before each.
    Stutter,
}

impl Manner {
    pub(super) const ALL: [Self; 4] = [Self::Whole, Self::OneByte, Self::Short, Self::Stutter];

    pub(super) fn reader(self, file: &[u8]) -> Box<dyn Read + Send> {
        let input = Cursor::new(file.to_vec());
        match self {
            Self::Whole => Box::new(input),
            _ => Box::new(Pieces { input, manner: self, reads: 0 }),
        }
    }
}

struct Pieces {
    input: Cursor<Vec<u8>>,
    manner: Manner,
    reads: usize,
}

impl Read for Pieces {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.reads += 1;
        match (self.manner, self.reads % 4) {
            (Manner::Stutter, 1) => return Err(io::ErrorKind::Interrupted.into()),
            (Manner::Stutter, 3) => return Err(io::ErrorKind::WouldBlock.into()),
            _ => {}
        }
        let len = match self.manner {
            Manner::OneByte => 1,
            _ => 1 + self.reads * 7 % 37,
        };
        let len = len.min(room.len());
        self.input.read(&mut room[..len])
    }
}
