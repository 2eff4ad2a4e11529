//! Keeps a capture's own timing: middleware that holds each frame back until it is due.

use core::fmt;
use core::time::Duration;
use std::time::Instant as Clock;

use warpline_packet::{Instant, LinkType};

use crate::port::{Frame, InterfaceNames, Live, Next, Source, SourceError, Wrap};

/// A source with the timing of its frames' timestamps, sped up by a factor.
///
/// The first frame is due at once. A frame that lies `t` after it in the capture is due `t` divided
/// by the factor after it by the clock, and until then the source is `Idle` for what is left. One
/// whose timestamp is before the first's is due at once, and so is one that lies more than a day
/// from the latest: after two such frames in a row the timing restarts from there. A reader that
/// fell behind gets all due frames without pauses until it has caught up.
///
/// A frame that comes too early is copied once, into memory for one frame.
pub struct Paced {
    inner: Box<dyn Source>,
    /// How many times as fast as in the capture.
    factor: f64,
    /// When the first frame was taken, and how frames' timestamps map to that.
    first: Option<(Clock, Timing)>,
    early: Option<Early>,
    early_bytes: Vec<u8>,
}

/// A pace that is not a positive, finite number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BadPace(pub f64);

impl fmt::Display for BadPace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pace {} is not a positive number", self.0)
    }
}

impl std::error::Error for BadPace {}

impl Paced {
    /// Paces `inner`: 1.0 keeps the capture's timing, 2.0 is twice as fast.
    ///
    /// # Errors
    /// [`BadPace`] unless `factor` is positive and finite.
    pub fn new(inner: impl Source + 'static, factor: f64) -> Result<Self, BadPace> {
        if !(factor.is_finite() && factor > 0.0) {
            return Err(BadPace(factor));
        }
        let inner = Box::new(inner);
        Ok(Self { inner, factor, first: None, early: None, early_bytes: Vec::new() })
    }

    fn next_at(&mut self, now: Clock) -> Result<Next<'_>, SourceError> {
        if let Some(early) = self.early {
            let wait = early.due.saturating_sub(elapsed(self.first, now));
            if !wait.is_zero() {
                return Ok(Next::Idle(wait));
            }
            self.early = None;
            return Ok(Next::Frame(early.frame(&self.early_bytes)));
        }
        let frame = match self.inner.next()? {
            Next::Frame(frame) => frame,
            other => return Ok(other),
        };
        let (_, timing) = self.first.get_or_insert((now, Timing::new(frame.timestamp)));
        let due = timing.due(frame.timestamp, self.factor);
        let wait = due.saturating_sub(elapsed(self.first, now));
        if wait.is_zero() {
            return Ok(Next::Frame(frame));
        }
        self.early = Some(Early::new(&frame, due));
        self.early_bytes.clear();
        self.early_bytes.extend_from_slice(frame.bytes);
        Ok(Next::Idle(wait))
    }
}

impl Source for Paced {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        self.next_at(Clock::now())
    }

    fn warnings(&self) -> Vec<String> {
        self.inner.warnings()
    }

    fn finish(&mut self) -> Vec<String> {
        self.inner.finish()
    }

    fn drops_when_full(&self) -> bool {
        self.inner.drops_when_full()
    }

    fn loses_when_full(&self) -> bool {
        self.inner.loses_when_full()
    }

    fn is_paced(&self) -> bool {
        true
    }

    fn take_lost(&mut self, lost: &mut dyn FnMut(u16, u64)) {
        self.inner.take_lost(lost);
    }

    fn live(&mut self) -> Option<&mut dyn Live> {
        self.inner.live()
    }

    fn progress(&self) -> Option<f64> {
        self.inner.progress()
    }

    fn interfaces(&self) -> InterfaceNames {
        self.inner.interfaces()
    }

    fn wrap_unpaced(&mut self, wrap: &mut Wrap<'_>) -> bool {
        let inner = std::mem::replace(&mut self.inner, Box::new(Nothing));
        self.inner = wrap(inner);
        true
    }
}

/// A source without frames, in the place of one that is being wrapped.
struct Nothing;

impl Source for Nothing {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        Ok(Next::End)
    }
}

/// A gap that is longer is not kept.
const GAP_MAX: Duration = Duration::from_secs(24 * 3600);

/// When frames are due, counted from the first.
#[derive(Clone, Copy)]
struct Timing {
    /// A timestamp, and when a frame with that is due.
    base: (Instant, Duration),
    /// The latest timestamp, and when that was due.
    latest: (Instant, Duration),
    /// Whether the frame before lay too far from it.
    was_off: bool,
}

impl Timing {
    fn new(first: Instant) -> Self {
        let first = (first, Duration::ZERO);
        Self { base: first, latest: first, was_off: false }
    }

    fn due(&mut self, at: Instant, factor: f64) -> Duration {
        let (latest, latest_due) = self.latest;
        if at.since(latest).max(latest.since(at)) > GAP_MAX {
            if self.was_off {
                (self.base, self.latest) = ((at, latest_due), (at, latest_due));
            }
            self.was_off = !self.was_off;
            return latest_due;
        }
        self.was_off = false;
        let (base, base_due) = self.base;
        let due = base_due.saturating_add(scaled(at.since(base), factor));
        if at > latest {
            self.latest = (at, due);
        }
        due
    }
}

/// A frame held back, less its bytes.
#[derive(Clone, Copy)]
struct Early {
    /// When it is due, counted from when the first frame was taken.
    due: Duration,
    timestamp: Instant,
    wire_len: u32,
    link: LinkType,
    interface: u16,
}

impl Early {
    fn new(frame: &Frame<'_>, due: Duration) -> Self {
        let Frame { timestamp, wire_len, link, interface, .. } = *frame;
        Self { due, timestamp, wire_len, link, interface }
    }

    fn frame(self, bytes: &[u8]) -> Frame<'_> {
        let Self { timestamp, wire_len, link, interface, .. } = self;
        Frame { bytes, timestamp, wire_len, link, interface }
    }
}

fn elapsed<T>(first: Option<(Clock, T)>, now: Clock) -> Duration {
    first.map_or(Duration::ZERO, |(start, _)| now.saturating_duration_since(start))
}

fn scaled(span: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(span.as_secs_f64() / factor).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames that bear their own number, at these times in milliseconds.
    struct Script {
        times_ms: Vec<u64>,
        given: usize,
        bytes: [u8; 1],
    }

    impl Source for Script {
        fn next(&mut self) -> Result<Next<'_>, SourceError> {
            let Some(&time) = self.times_ms.get(self.given) else { return Ok(Next::End) };
            self.bytes = [self.given as u8];
            self.given += 1;
            Ok(Next::Frame(Frame {
                bytes: &self.bytes,
                timestamp: Instant::from_nanos(time * 1_000_000),
                wire_len: 60,
                link: LinkType::ETHERNET,
                interface: 3,
            }))
        }

        fn warnings(&self) -> Vec<String> {
            vec!["script".to_owned()]
        }

        fn progress(&self) -> Option<f64> {
            Some(0.5)
        }
    }

    fn paced(times_ms: &[u64], factor: f64) -> Paced {
        let script = Script { times_ms: times_ms.to_vec(), given: 0, bytes: [0] };
        Paced::new(script, factor).unwrap()
    }

    /// The source's answers at these times in milliseconds: a frame's number, or a wait.
    fn ask(source: &mut Paced, at_ms: &[u64]) -> Vec<String> {
        let start = Clock::now();
        let say = |next: Next<'_>| match next {
            Next::Frame(frame) => {
                assert_eq!((frame.wire_len, frame.interface), (60, 3));
                format!("frame {}", frame.bytes[0])
            }
            Next::Idle(wait) => format!("wait {}", wait.as_millis()),
            Next::End => "end".to_owned(),
        };
        let moment = |&at| start + Duration::from_millis(at);
        at_ms.iter().map(|at| say(source.next_at(moment(at)).unwrap())).collect()
    }

    #[test]
    fn frames_come_when_they_are_due() {
        let mut source = paced(&[5_000, 5_010, 5_010, 5_030], 1.0);
        let said = ask(&mut source, &[100, 100, 104, 110, 110, 111, 129, 130, 131]);
        let expected =
            ["frame 0", "wait 10", "wait 6", "frame 1", "frame 2", "wait 19", "wait 1", "frame 3"];
        assert_eq!(said[..8], expected);
        assert_eq!(said[8], "end");
        assert_eq!((source.warnings().len(), source.progress()), (1, Some(0.5)));
    }

    #[test]
    fn factors() {
        assert_eq!(ask(&mut paced(&[0, 100], 4.0), &[0, 0, 25])[1..], ["wait 25", "frame 1"]);
        assert_eq!(ask(&mut paced(&[0, 100], 0.5), &[0, 0, 200])[1..], ["wait 200", "frame 1"]);
        for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let script = Script { times_ms: Vec::new(), given: 0, bytes: [0] };
            assert!(Paced::new(script, factor).is_err());
        }
        // A wait too long for `Duration` becomes the longest one.
        assert_eq!(scaled(Duration::MAX, f64::MIN_POSITIVE), Duration::MAX);
    }

    #[test]
    fn a_time_of_another_age_is_not_waited_for() {
        const AGE: u64 = 1 << 40;
        let mut source = paced(&[0, 10, AGE, 20, 30, 5], 1.0);
        let said = ask(&mut source, &[0, 10, 10, 10, 10, 20, 20, 30, 30]);
        let expected = [
            "frame 0", "frame 1", "frame 2", "wait 10", "wait 10", "frame 3", "wait 10", "frame 4",
            "frame 5",
        ];
        assert_eq!(said, expected);
        // From the second such frame on, it is kept to.
        let mut source = paced(&[0, AGE, AGE + 5, AGE + 15, 0, 1, 11], 1.0);
        let said = ask(&mut source, &[0, 0, 0, 0, 10, 10, 10, 10, 20]);
        let expected = [
            "frame 0", "frame 1", "frame 2", "wait 10", "frame 3", "frame 4", "frame 5", "wait 10",
            "frame 6",
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn backward_times_and_late_readers_wait_for_nothing() {
        let mut source = paced(&[50, 10, 60, 20, 70], 1.0);
        let said = ask(&mut source, &[0, 0, 500, 500, 500]);
        assert_eq!(said, ["frame 0", "frame 1", "frame 2", "frame 3", "frame 4"]);
    }
}
