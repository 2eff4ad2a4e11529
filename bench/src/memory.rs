//! Packets in memory as a source: what a NIC would give, without the NIC.

use std::sync::Arc;
use std::time::Duration;

use warpline_io::generator::{Generator, GeneratorConfig};
use warpline_io::{BURST_MAX, Burst, Frame, Given, Next, Source, SourceError};
use warpline_packet::{FlowHasher, Headers, Instant, LinkType, Steering};

/// Frames one after another in one block of memory.
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

    /// The frames of each of `lanes` lanes, by `steering`.
    pub fn split(&self, lanes: usize, steering: &Steering) -> Vec<Self> {
        let mut split: Vec<Self> = (0..lanes).map(|_| Self::default()).collect();
        for index in 0..self.len() {
            let frame = self.get(index);
            let headers = Headers::parse(frame, LinkType::ETHERNET, frame.len());
            let shard = steering.steer(&FlowHasher::SEED_0, frame, &headers).shard;
            split[warpline_engine::lane_of(shard, lanes)].push(frame);
        }
        split
    }
}

/// Gives frames in turn, over and over, until so many were given; a microsecond apart.
pub struct MemorySource {
    /// As they are given, but for their time.
    frames: Vec<Frame<'static>>,
    at: usize,
    left: u64,
    now: u64,
}

impl MemorySource {
    /// `count` frames out of `frames`, which are never freed.
    pub fn new(frames: Arc<Frames>, count: u64) -> Self {
        let all: &'static Arc<Frames> = Box::leak(Box::new(frames));
        let frame = |index| {
            let bytes = all.get(index);
            let wire_len = bytes.len() as u32;
            let link = LinkType::ETHERNET;
            Frame { bytes, timestamp: Instant::ZERO, wire_len, link, interface: 0 }
        };
        let frames = (0..all.len()).map(frame).collect();
        Self { frames, at: 0, left: count, now: 1_700_000_000_000_000_000 }
    }
}

impl Source for MemorySource {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        let mut one = Burst::new();
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
        let from = self.at;
        self.left -= count;
        self.at = (from + count as usize) % self.frames.len();
        burst.copy(&self.frames[from..from + count as usize]);
        let mut now = self.now;
        for frame in burst.frames_mut() {
            now += 1_000;
            frame.timestamp = Instant::from_nanos(now);
        }
        self.now = now;
    }
}

/// Packets in memory that come so many a second, by the clock, in bursts.
pub struct PacedSource {
    inner: MemorySource,
    each_ns: f64,
    given: u64,
    started: Option<std::time::Instant>,
}

impl PacedSource {
    /// `frames` over and over, `pps` a second.
    pub fn new(frames: Arc<Frames>, pps: f64) -> Self {
        let inner = MemorySource::new(frames, u64::MAX);
        Self { inner, each_ns: 1e9 / pps, given: 0, started: None }
    }

    /// How long it is until the next is due.
    fn wait(&mut self) -> Option<Duration> {
        let start = *self.started.get_or_insert_with(std::time::Instant::now);
        let due = Duration::from_nanos((self.given as f64 * self.each_ns) as u64);
        due.checked_sub(start.elapsed()).filter(|wait| !wait.is_zero())
    }
}

impl Source for PacedSource {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        if let Some(wait) = self.wait() {
            return Ok(Next::Idle(wait));
        }
        self.given += 1;
        self.inner.next()
    }

    fn burst<'a>(&'a mut self, burst: &mut Burst<'a>) -> Result<Given, SourceError> {
        if let Some(wait) = self.wait() {
            return Ok(Given::Idle(wait));
        }
        self.inner.fill(burst, BURST_MAX);
        self.given += burst.frames().len() as u64;
        Ok(Given::Frames)
    }
}
