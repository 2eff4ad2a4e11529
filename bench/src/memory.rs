//! Packets in memory as a source: what a NIC would give, without the NIC.

use std::sync::Arc;

use warpline_io::generator::{Generator, GeneratorConfig};
use warpline_io::{BURST_MAX, Burst, Frame, Given, Next, Source, SourceError};
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

    /// These frames.
    pub fn of(frames: &[Vec<u8>]) -> Self {
        let mut all = Self::default();
        frames.iter().for_each(|frame| all.push(frame));
        all
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

    /// `count` frames from `first` on.
    #[inline]
    fn run(&self, first: usize, count: usize) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.bytes[if first == 0 { 0 } else { self.ends[first - 1] as usize }..];
        let mut start = self.bytes.len() - rest.len();
        self.ends[first..first + count].iter().map(move |&end| {
            let (bytes, behind) = rest.split_at(end as usize - start);
            (rest, start) = (behind, end as usize);
            bytes
        })
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
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        let mut one = Burst::EMPTY;
        self.fill(&mut one, 1);
        Ok(one.frames().first().map_or(Next::End, |frame| Next::Frame(*frame)))
    }

    fn burst<'a>(&'a mut self, burst: &mut Burst<'a>) -> Result<Given, SourceError> {
        self.fill(burst, BURST_MAX);
        Ok(if burst.frames().is_empty() { Given::End } else { Given::Frames })
    }
}

impl MemorySource {
    /// Puts at most `count` frames into `burst`.
    #[inline]
    fn fill<'a>(&'a mut self, burst: &mut Burst<'a>, count: usize) {
        let count = self.left.min(count as u64).min((self.frames.len() - self.at) as u64);
        let first = self.at;
        self.left -= count;
        self.at = (first + count as usize) % self.frames.len();
        let places = burst.room(count as usize).iter_mut();
        let mut now = self.now;
        for (place, bytes) in places.zip(self.frames.run(first, count as usize)) {
            now += 1_000;
            *place = Frame {
                bytes,
                timestamp: Instant::from_nanos(now),
                wire_len: bytes.len() as u32,
                link: LinkType::ETHERNET,
                interface: 0,
            };
        }
        self.now = now;
    }
}
