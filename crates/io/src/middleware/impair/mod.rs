//! A bad link: loses, damages, doubles, reorders, delays and cuts frames, by a seed.
//!
//! [`ImpairConfig`] has the settings. The output is a pure function of the settings and the input.
//! Each impairment draws from a stream of its own, so that turning one on does not change which
//! frames another one hits.
//!
//! Delays are in the packets' own time: only timestamps change, nothing waits. A frame that was
//! held back or whose delay varies leaves no earlier than the one before it, as on a real link.
//! Held frames leave when the source ends or fails, never because it is idle. A frame is cut
//! before a bit of it is flipped. Every frame is copied once; memory is `depth` + 3 frames.
//!
//! ```
//! use warpline_io::generator::{Generator, GeneratorConfig};
//! use warpline_io::middleware::{Impair, ImpairConfig};
//! use warpline_io::{Next, Source};
//!
//! let traffic = GeneratorConfig::parse("packets=1000").expect("good settings");
//! let config = ImpairConfig::parse("drop=0.1,reorder=0.05,seed=7").expect("good settings");
//! let mut source = Impair::new(Generator::new(traffic), config);
//! while !matches!(source.next()?, Next::End) {}
//! let counts = source.counts();
//! assert_eq!(counts.received, counts.sent + counts.dropped);
//! # Ok::<(), warpline_io::SourceError>(())
//! ```

mod config;
mod fate;

use core::fmt;
use core::time::Duration;
use std::collections::VecDeque;

use warpline_packet::{Instant, LinkType};

pub use self::config::ImpairConfig;

use self::fate::{Fate, Streams};
use crate::port::{Frame, InterfaceNames, Live, Next, Source, SourceError};

/// The number of frames with each impairment.
///
/// `received` + `duplicated` = `sent` + `dropped` once the source has ended; before that, the
/// frames held back are missing on the right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImpairCounts {
    /// Frames the source gave.
    pub received: u64,
    /// Frames passed on.
    pub sent: u64,
    /// Frames lost.
    pub dropped: u64,
    /// Frames with a flipped bit.
    pub corrupted: u64,
    /// Frames that come twice.
    pub duplicated: u64,
    /// Frames that were cut.
    pub truncated: u64,
    /// Frames held back.
    pub reordered: u64,
}

/// A source whose frames suffer on their way.
pub struct Impair<S: Source> {
    source: S,
    config: ImpairConfig,
    streams: Streams,
    counts: ImpairCounts,
    /// Frames held back, each with the number of the frame in whose wake it leaves, in that order.
    held: VecDeque<(u64, Stored)>,
    /// Frames that leave before another one is asked for.
    ready: VecDeque<Stored>,
    /// The frame that left last: it lends its bytes until the next call.
    current: Stored,
    /// Buffers to use again.
    spare: Vec<Vec<u8>>,
    ended: bool,
    /// The source's error, returned after the held frames have left.
    error: Option<SourceError>,
}

impl<S: Source> Impair<S> {
    /// Impairs what `source` gives.
    pub fn new(source: S, config: ImpairConfig) -> Self {
        Self {
            source,
            streams: Streams::new(config.seed),
            config,
            counts: ImpairCounts::default(),
            held: VecDeque::new(),
            ready: VecDeque::new(),
            current: Stored::EMPTY,
            spare: Vec::new(),
            ended: false,
            error: None,
        }
    }

    /// The events so far.
    pub fn counts(&self) -> ImpairCounts {
        self.counts
    }

    /// Takes what the source has next; gives for how long that is nothing.
    fn pull(&mut self) -> Option<Duration> {
        match self.source.next() {
            Ok(Next::Frame(frame)) => {
                self.counts.received += 1;
                let fate = self.streams.draw(&self.config);
                if fate.drop {
                    self.counts.dropped += 1;
                } else {
                    let stored = Stored::copy(&frame, self.spare.pop());
                    self.admit(stored, fate);
                }
                self.release(self.counts.received);
            }
            Ok(Next::Idle(wait)) => return Some(wait),
            Ok(Next::End) => self.end(),
            Err(error) => {
                self.error = Some(error);
                self.end();
            }
        }
        None
    }

    /// Applies its fate to a frame and holds it or makes it ready.
    fn admit(&mut self, mut frame: Stored, fate: Fate) {
        let Self { config, counts, .. } = self;
        counts.truncated += u64::from(fate.truncate && frame.truncate(config.snap));
        counts.corrupted += u64::from(fate.corrupt.is_some_and(|place| frame.flip(place)));
        counts.duplicated += u64::from(fate.duplicate);
        frame.twice = fate.duplicate;
        frame.timestamp = frame.timestamp.after(fate.delay);
        frame.in_turn = fate.held.is_some() || !config.jitter.is_zero();
        let Some(later) = fate.held else {
            return self.ready.push_back(frame);
        };
        counts.reordered += 1;
        let leaves = counts.received + later;
        let place = self.held.partition_point(|&(other, _)| other <= leaves);
        self.held.insert(place, (leaves, frame));
    }

    /// Makes those held frames ready that leave by the frame of this number.
    fn release(&mut self, number: u64) {
        while let Some((_, frame)) = self.held.pop_front_if(|(leaves, _)| *leaves <= number) {
            self.ready.push_back(frame);
        }
    }

    fn end(&mut self) {
        self.ended = true;
        self.release(u64::MAX);
    }

    /// Lends a frame that leaves now.
    fn lend(&mut self, mut frame: Stored) -> Frame<'_> {
        if frame.in_turn {
            frame.timestamp = frame.timestamp.max(self.current.timestamp);
        }
        if frame.twice {
            frame.twice = false;
            let copy = Stored::copy(&frame.lend(), self.spare.pop());
            self.ready.push_front(copy);
        }
        self.counts.sent += 1;
        self.spare.push(core::mem::replace(&mut self.current, frame).bytes);
        self.current.lend()
    }
}

/// Frames taken in one call before an idle answer gives the caller a chance to stop.
const PULLS_MAX: usize = 256;

impl<S: Source> Source for Impair<S> {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        for _ in 0..PULLS_MAX {
            if let Some(frame) = self.ready.pop_front() {
                return Ok(Next::Frame(self.lend(frame)));
            }
            if self.ended {
                return self.error.take().map_or(Ok(Next::End), Err);
            }
            if let Some(wait) = self.pull() {
                return Ok(Next::Idle(wait));
            }
        }
        Ok(Next::Idle(Duration::ZERO))
    }

    fn finish(&mut self) -> Vec<String> {
        self.source.finish()
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = self.source.warnings();
        if self.counts.harmed() > 0 {
            warnings.push(format!("impair: {}", self.counts));
        }
        warnings
    }

    fn drops_when_full(&self) -> bool {
        self.source.drops_when_full()
    }

    fn loses_when_full(&self) -> bool {
        self.source.loses_when_full()
    }

    fn is_paced(&self) -> bool {
        self.source.is_paced()
    }

    fn take_lost(&mut self, lost: &mut dyn FnMut(u16, u64)) {
        self.source.take_lost(lost);
    }

    fn live(&mut self) -> Option<&mut dyn Live> {
        self.source.live()
    }

    fn progress(&self) -> Option<f64> {
        self.source.progress()
    }

    fn interfaces(&self) -> InterfaceNames {
        self.source.interfaces()
    }
}

impl ImpairCounts {
    fn parts(&self) -> [(u64, &'static str); 5] {
        [
            (self.dropped, "dropped"),
            (self.corrupted, "corrupted"),
            (self.duplicated, "duplicated"),
            (self.truncated, "truncated"),
            (self.reordered, "reordered"),
        ]
    }

    fn harmed(&self) -> u64 {
        self.parts().iter().map(|(count, _)| count).sum()
    }
}

impl fmt::Display for ImpairCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "of {} frames", self.received)?;
        for (place, (count, what)) in self.parts().into_iter().enumerate() {
            write!(f, "{} {count} {what}", if place == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// A frame with bytes of its own.
struct Stored {
    bytes: Vec<u8>,
    timestamp: Instant,
    wire_len: u32,
    link: LinkType,
    interface: u16,
    /// It leaves no earlier than the frame before it.
    in_turn: bool,
    twice: bool,
}

impl Stored {
    const EMPTY: Self = Self {
        bytes: Vec::new(),
        timestamp: Instant::ZERO,
        wire_len: 0,
        link: LinkType::ETHERNET,
        interface: 0,
        in_turn: false,
        twice: false,
    };

    fn copy(frame: &Frame<'_>, buffer: Option<Vec<u8>>) -> Self {
        let &Frame { timestamp, wire_len, link, interface, .. } = frame;
        let mut bytes = buffer.unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(frame.bytes);
        Self { bytes, timestamp, wire_len, link, interface, in_turn: false, twice: false }
    }

    /// Cuts it to `snap` bytes; returns whether it was longer.
    fn truncate(&mut self, snap: usize) -> bool {
        let longer = self.bytes.len() > snap;
        self.bytes.truncate(snap);
        longer
    }

    /// Flips the bit at a part of its length in [0, 1); returns whether it has a bit there.
    fn flip(&mut self, place: f64) -> bool {
        let bit = (place * (self.bytes.len() * 8) as f64) as usize;
        let byte = self.bytes.get_mut(bit / 8);
        byte.map(|byte| *byte ^= 0x80 >> (bit % 8)).is_some()
    }

    fn lend(&self) -> Frame<'_> {
        let &Self { ref bytes, timestamp, wire_len, link, interface, .. } = self;
        Frame { bytes, timestamp, wire_len, link, interface }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::{Generator, GeneratorConfig};

    #[test]
    fn frames_that_leave_together_leave_in_the_order_in_which_they_came() {
        let traffic = Generator::new(GeneratorConfig::parse("").unwrap());
        let mut impair = Impair::new(traffic, ImpairConfig::parse("").unwrap());
        let fate = impair.streams.draw(&impair.config);
        for (interface, later) in [(0, 3), (1, 2), (2, 1), (3, 1)] {
            impair.counts.received += 1;
            let frame = Stored { interface, ..Stored::EMPTY };
            impair.admit(frame, Fate { held: Some(later), ..fate });
        }
        let order = |ready: &VecDeque<Stored>| -> Vec<u16> {
            ready.iter().map(|frame| frame.interface).collect()
        };
        impair.release(3);
        assert_eq!(order(&impair.ready), []);
        impair.release(4);
        assert_eq!(order(&impair.ready), [0, 1, 2]);
        impair.release(5);
        assert_eq!(order(&impair.ready), [0, 1, 2, 3]);
    }
}
