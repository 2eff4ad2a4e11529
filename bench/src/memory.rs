//! Packets in memory as a source: what a NIC would give, without the NIC.

use std::sync::Arc;

use warpline_io::generator::{Generator, GeneratorConfig};
use warpline_io::{Frame, Next, Source, SourceError};
use warpline_packet::{Headers, Instant, LinkType, Steering};

/// Frames behind each other in one block of memory.
#[derive(Default)]
pub struct Frames {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Frames {
    /// The frames that the generator makes of `config`.
    pub fn generate(config: &str) -> Self {
        let config = GeneratorConfig::parse(config).unwrap_or_else(|p| panic!("{}", p[0]));
        let mut generator = Generator::new(config);
        let mut frames = Self::default();
        while let Ok(Next::Frame(frame)) = generator.next() {
            frames.push(frame.bytes);
        }
        frames
    }

    fn push(&mut self, frame: &[u8]) {
        self.bytes.extend_from_slice(frame);
        self.ends.push(self.bytes.len() as u32);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Frame `index`.
    #[inline]
    pub fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.bytes[start..self.ends[index] as usize]
    }

    /// The frames of each of `lanes` lanes, by `steering`.
    pub fn split(&self, lanes: usize, steering: &Steering) -> Vec<Self> {
        let mut split: Vec<Self> = (0..lanes).map(|_| Self::default()).collect();
        for index in 0..self.len() {
            let frame = self.get(index);
            let headers = Headers::parse(frame, LinkType::ETHERNET, frame.len());
            let shard = steering.steer(frame, &headers).shard;
            split[warpline_engine::lane_of(shard, lanes)].push(frame);
        }
        split
    }
}

/// Gives frames in turn, over and over, until so many were given; a microsecond apart.
pub struct MemorySource {
    frames: Arc<Frames>,
    at: usize,
    left: u64,
    now: u64,
}

impl MemorySource {
    /// `count` frames out of `frames`.
    pub fn new(frames: Arc<Frames>, count: u64) -> Self {
        Self { frames, at: 0, left: count, now: 1_700_000_000_000_000_000 }
    }
}

impl Source for MemorySource {
    #[inline]
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        if self.left == 0 {
            return Ok(Next::End);
        }
        self.left -= 1;
        self.now += 1_000;
        let at = self.at;
        self.at = if at + 1 == self.frames.len() { 0 } else { at + 1 };
        let bytes = self.frames.get(at);
        Ok(Next::Frame(Frame {
            bytes,
            timestamp: Instant::from_nanos(self.now),
            wire_len: bytes.len() as u32,
            link: LinkType::ETHERNET,
            interface: 0,
        }))
    }
}
