//! Packets at a stated rate, whether they are taken or not: what a generator on a wire offers.

use std::time::{Duration, Instant};

use warpline_io::{BURST_MAX, Burst, Frame, Given, Next, Source, SourceError};
use warpline_packet::{Instant as PacketTime, LinkType};

use crate::memory::Frames;

/// How long a source waits for the next packet at most.
const WAIT_MAX: Duration = Duration::from_micros(50);

/// Frames in turn at a rate. Frames that find no room are lost.
pub struct Offered {
    frames: Frames,
    at: usize,
    rate_pps: f64,
    started: Option<Instant>,
    lasts: Duration,
    given: u64,
}

impl Offered {
    /// `rate_pps` packets a second for so long, counted from the first call.
    pub fn new(frames: Frames, rate_pps: f64, lasts: Duration) -> Self {
        Self { frames, at: 0, rate_pps, started: None, lasts, given: 0 }
    }

    /// Frames that are due.
    fn due(&mut self) -> Option<u64> {
        let passed = self.started.get_or_insert_with(Instant::now).elapsed();
        let due = (passed.min(self.lasts).as_secs_f64() * self.rate_pps) as u64;
        (passed < self.lasts || due > self.given).then(|| due.saturating_sub(self.given))
    }
}

impl Source for Offered {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        let mut one = Burst::new();
        Ok(match self.fill(&mut one, 1) {
            Given::Frames => one.frames().first().map_or(Next::End, |frame| Next::Frame(*frame)),
            Given::Idle(wait) => Next::Idle(wait),
            Given::End => Next::End,
        })
    }

    fn burst<'a>(&'a mut self, burst: &mut Burst<'a>) -> Result<Given, SourceError> {
        Ok(self.fill(burst, BURST_MAX as u64))
    }

    fn drops_when_full(&self) -> bool {
        true
    }

    fn is_paced(&self) -> bool {
        true
    }
}

impl Offered {
    fn fill<'a>(&'a mut self, burst: &mut Burst<'a>, most: u64) -> Given {
        let Some(due) = self.due() else { return Given::End };
        if due == 0 {
            return Given::Idle(WAIT_MAX);
        }
        let timestamp = PacketTime::from_nanos((self.given as f64 * 1e9 / self.rate_pps) as u64);
        let count = due.min(most).min((self.frames.len() - self.at) as u64) as usize;
        for index in self.at..self.at + count {
            let bytes = self.frames.get(index);
            let wire_len = bytes.len() as u32;
            burst.push(Frame {
                bytes,
                timestamp,
                wire_len,
                link: LinkType::ETHERNET,
                interface: 0,
            });
        }
        self.at = (self.at + count) % self.frames.len();
        self.given += count as u64;
        Given::Frames
    }
}
