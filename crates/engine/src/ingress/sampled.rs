//! A source that shows its first frames to samplers ([`Sampler`]) before it hands out any of them.
//!
//! It holds frames until all samplers have enough: at most [`HELD_FRAMES`] frames of [`HELD_BYTES`]
//! together. The decision therefore depends on the frames alone. It is made before a pace delays
//! frames, so a pace does not change it.
//!
//! A pipe may pause. If a pause lasts [`PAUSE_MAX`], samplers decide by the frames so far. The same
//! holds if they don't have enough [`PAUSES_MAX`] after the first pause. The frames continue, and
//! samplers see later ones as they pass. Frames of a network interface do not wait for a pause to
//! end.

use std::time::Duration;

use warpline_io::{
    Burst, FRAME_LEN_MAX, Frame, Given, InterfaceNames, Live, Next, Source, SourceError,
};
use warpline_launch::Clock;
use warpline_nf::Sampler;
use warpline_packet::Instant;

use super::held_frames::HeldFrames;

/// Frames that wait at most, and their bytes.
const HELD_FRAMES: usize = 1 << 14;
const HELD_BYTES: usize = 16 << 20;
/// How long the first frames wait for others: in one pause, and from the first pause on.
const PAUSE_MAX: Duration = Duration::from_millis(200);
const PAUSES_MAX: Duration = Duration::from_secs(1);

pub(crate) struct Sampled {
    source: Box<dyn Source>,
    samplers: Vec<Box<dyn Sampler>>,
    /// Frames that wait, and those given last.
    kept: HeldFrames,
    kept_bytes: usize,
    given: usize,
    state: SamplingState,
    /// How the source ended while frames waited.
    end: Option<Result<(), SourceError>>,
    pauses: Pauses,
    clock: Clock,
}

/// When the source began to pause, in nanoseconds by the clock.
#[derive(Default)]
struct Pauses {
    first: Option<u64>,
    /// The pause that it is in.
    this: Option<u64>,
}

impl Pauses {
    /// The source has nothing at `now`: how long frames may still wait.
    fn left(&mut self, now: u64) -> Duration {
        let waited =
            |since: &mut Option<u64>| Duration::from_nanos(now - *since.get_or_insert(now));
        let (first, this) = (waited(&mut self.first), waited(&mut self.this));
        PAUSE_MAX.saturating_sub(this).min(PAUSES_MAX.saturating_sub(first))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SamplingState {
    /// Frames wait.
    Holding,
    /// Frames are sent on, and samplers ask for more.
    Watching,
    Done,
}

impl Sampled {
    /// `source` with samplers, which see frames before a pace holds them back; without any, itself.
    pub(crate) fn around(
        mut source: Box<dyn Source>,
        mut samplers: Vec<Box<dyn Sampler>>,
        clock: Clock,
    ) -> Box<dyn Source> {
        if samplers.is_empty() {
            return source;
        }
        let mut sample = |source| {
            Box::new(Self::new(source, std::mem::take(&mut samplers), clock)) as Box<dyn Source>
        };
        if source.wrap_unpaced(&mut sample) { source } else { sample(source) }
    }

    fn new(source: Box<dyn Source>, samplers: Vec<Box<dyn Sampler>>, clock: Clock) -> Self {
        Self {
            source,
            samplers,
            kept: HeldFrames::default(),
            kept_bytes: 0,
            given: 0,
            state: SamplingState::Holding,
            end: None,
            pauses: Pauses::default(),
            clock,
        }
    }

    /// Holds the next frames of the source; `Some` is how long to wait if it has none for now.
    fn hold(&mut self) -> Option<Duration> {
        let mut burst = Burst::new();
        let given = self.source.burst(&mut burst);
        let wants_more = show(&mut self.samplers, burst.frames());
        for frame in burst.frames() {
            self.kept.keep(frame, Instant::ZERO);
            self.kept_bytes += frame.bytes.len();
        }
        drop(burst);
        match given {
            Ok(Given::Frames) => {
                let is_full = self.kept.len() >= HELD_FRAMES || self.kept_bytes >= HELD_BYTES;
                self.pauses.this = None;
                if !wants_more || is_full {
                    self.release(SamplingState::Done);
                }
                None
            }
            Ok(Given::Idle(wait)) if self.kept.is_empty() => Some(wait),
            Ok(Given::Idle(_)) if self.source.live().is_some() => {
                self.release(SamplingState::Watching);
                None
            }
            Ok(Given::Idle(wait)) => {
                let left = self.pauses.left(self.clock.now());
                if left.is_zero() {
                    self.release(SamplingState::Watching);
                    return None;
                }
                Some(wait.min(left))
            }
            Ok(Given::End) => self.ended(Ok(())),
            Err(error) => self.ended(Err(error)),
        }
    }

    fn ended(&mut self, end: Result<(), SourceError>) -> Option<Duration> {
        self.end = Some(end);
        self.release(SamplingState::Done);
        None
    }

    fn release(&mut self, state: SamplingState) {
        self.state = state;
        self.samplers.iter_mut().for_each(|sampler| sampler.decide());
    }

    /// Has frames wait as long as they have to; `Some` as with [`Self::hold`].
    fn settle(&mut self) -> Option<Duration> {
        self.kept.forget(std::mem::take(&mut self.given));
        if self.kept.is_empty() && self.state != SamplingState::Holding && self.kept_bytes > 0 {
            (self.kept, self.kept_bytes) = (HeldFrames::default(), 0);
        }
        while self.state == SamplingState::Holding {
            let wait = self.hold();
            if wait.is_some() {
                return wait;
            }
        }
        None
    }
}

/// Shows frames to samplers until all have enough; returns whether some ask for more.
fn show(samplers: &mut [Box<dyn Sampler>], frames: &[Frame<'_>]) -> bool {
    let mut wants_more = true;
    for frame in frames {
        if !wants_more {
            break;
        }
        let bytes = &frame.bytes[..frame.bytes.len().min(FRAME_LEN_MAX)];
        let wire_len = (frame.wire_len as usize).max(frame.bytes.len());
        wants_more = samplers
            .iter_mut()
            .fold(false, |wants, sampler| sampler.take(bytes, frame.link, wire_len) | wants);
    }
    wants_more
}

impl Source for Sampled {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        if let Some(wait) = self.settle() {
            return Ok(Next::Idle(wait));
        }
        if self.kept.is_empty() {
            return match self.end.take() {
                None => self.source.next(),
                Some(end) => end.map(|()| Next::End),
            };
        }
        self.given = 1;
        Ok(self.kept.frames().next().map_or(Next::End, |(frame, _)| Next::Frame(frame)))
    }

    fn burst<'a>(&'a mut self, burst: &mut Burst<'a>) -> Result<Given, SourceError> {
        if let Some(wait) = self.settle() {
            return Ok(Given::Idle(wait));
        }
        if !self.kept.is_empty() {
            let mut bytes = 0;
            let fits = |(frame, _): &(Frame<'a>, Instant)| {
                bytes += frame.bytes.len();
                bytes <= FRAME_LEN_MAX
            };
            let count = &mut self.given;
            for (frame, _) in self.kept.frames().take_while(fits) {
                if !burst.push(frame) {
                    break;
                }
                *count += 1;
            }
            return Ok(Given::Frames);
        }
        if let Some(end) = self.end.take() {
            return end.map(|()| Given::End);
        }
        let given = self.source.burst(burst);
        if self.state == SamplingState::Watching {
            let wants_more = show(&mut self.samplers, burst.frames());
            self.samplers.iter_mut().for_each(|sampler| sampler.decide());
            self.state = if wants_more { SamplingState::Watching } else { SamplingState::Done };
        }
        given
    }

    fn warnings(&self) -> Vec<String> {
        let reported = self.samplers.iter().filter_map(|sampler| sampler.reported());
        self.source.warnings().into_iter().chain(reported).collect()
    }

    fn finish(&mut self) -> Vec<String> {
        self.source.finish()
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use warpline_io::Paced;
    use warpline_packet::LinkType;

    use super::*;

    /// One call of a source: it gives so many frames, pauses or fails.
    #[derive(Clone, Copy, Debug)]
    enum Act {
        Frames(usize),
        Pause,
        Fail,
    }

    #[derive(Default)]
    struct Script {
        acts: Vec<Act>,
        at: usize,
        number: u8,
        room: Vec<[u8; 3]>,
        apart_ns: u64,
    }

    impl Source for Script {
        fn next(&mut self) -> Result<Next<'_>, SourceError> {
            Ok(Next::End)
        }

        fn burst<'a>(&'a mut self, burst: &mut Burst<'a>) -> Result<Given, SourceError> {
            let Some(&act) = self.acts.get(self.at) else { return Ok(Given::End) };
            self.at += 1;
            match act {
                Act::Pause => return Ok(Given::Idle(Duration::from_millis(1))),
                Act::Fail => return Err(SourceError::Io(std::io::ErrorKind::TimedOut.into())),
                Act::Frames(count) => {
                    self.room = (0..count as u8).map(|at| [self.number + at; 3]).collect();
                    self.number += count as u8;
                }
            }
            for bytes in &self.room {
                let timestamp = Instant::from_nanos(u64::from(bytes[0]) * self.apart_ns);
                let link = LinkType::ETHERNET;
                burst.push(Frame { bytes, timestamp, wire_len: 3, link, interface: 0 });
            }
            Ok(Given::Frames)
        }
    }

    /// Takes so many frames, and writes down those that it got and when it decided.
    struct Counting(usize, Arc<Mutex<Vec<String>>>);

    impl Sampler for Counting {
        fn take(&mut self, frame: &[u8], _: LinkType, _: usize) -> bool {
            self.1.lock().unwrap().push(format!("saw {}", frame[0]));
            self.0 -= 1;
            self.0 > 0
        }

        fn decide(&mut self) {
            self.1.lock().unwrap().push("decided".into());
        }

        fn reported(&self) -> Option<String> {
            None
        }
    }

    /// All that happens, in order; every pause is looked at again until it is over.
    fn reported(wanted: usize, acts: &[Act]) -> Vec<String> {
        let reported = Arc::new(Mutex::new(Vec::new()));
        let script = Script { acts: acts.to_vec(), apart_ns: 1, ..Script::default() };
        let samplers: Vec<Box<dyn Sampler>> =
            vec![Box::new(Counting(wanted, Arc::clone(&reported)))];
        let mut source = Sampled::around(Box::new(script), samplers, Clock::start());
        loop {
            let mut burst = Burst::new();
            let given = source.burst(&mut burst);
            let mut reported = reported.lock().unwrap();
            reported.extend(burst.frames().iter().map(|frame| {
                assert_eq!(frame.timestamp.as_nanos(), u64::from(frame.bytes[0]));
                format!("gave {}", frame.bytes[0])
            }));
            match given {
                Ok(Given::End) => break,
                Ok(_) => {}
                Err(_) => reported.push("failed".into()),
            }
        }
        std::mem::take(&mut *reported.lock().unwrap())
    }

    #[test]
    fn nothing_continues_before_it_is_decided() {
        use Act::{Fail, Frames, Pause};
        let cases: &[(usize, &[Act], &str)] = &[
            (
                3,
                &[Frames(2), Frames(2), Frames(1)],
                "saw 0,saw 1,saw 2,decided,gave 0,gave 1,gave 2,gave 3,gave 4",
            ),
            (9, &[Frames(2), Frames(1)], "saw 0,saw 1,saw 2,decided,gave 0,gave 1,gave 2"),
            (2, &[Pause, Frames(1), Pause, Frames(1)], "saw 0,saw 1,decided,gave 0,gave 1"),
            (9, &[Frames(1), Fail, Frames(1)], "saw 0,decided,gave 0,failed,gave 1"),
            (9, &[], "decided"),
        ];
        for (wanted, acts, expected) in cases {
            let reported = reported(*wanted, acts);
            assert_eq!(reported.join(","), *expected, "{acts:?}");
        }
    }

    /// An hour lies between its frames.
    #[test]
    fn a_pace_delays_no_sample_and_no_first_frame() {
        const HOUR_NS: u64 = 3_600_000_000_000;
        for (wanted, seen) in
            [(3, "saw 0,saw 1,saw 2,decided"), (9, "saw 0,saw 1,saw 2,saw 3,decided")]
        {
            let acts = vec![Act::Frames(2), Act::Frames(2)];
            let script = Script { acts, apart_ns: HOUR_NS, ..Script::default() };
            let reported = Arc::new(Mutex::new(Vec::new()));
            let samplers: Vec<Box<dyn Sampler>> =
                vec![Box::new(Counting(wanted, Arc::clone(&reported)))];
            let paced = Box::new(Paced::new(script, 1.0).unwrap());
            let mut source = Sampled::around(paced, samplers, Clock::start());
            let mut burst = Burst::new();
            assert_eq!(source.burst(&mut burst).unwrap(), Given::Frames);
            assert_eq!(burst.frames().iter().map(|frame| frame.bytes[0]).collect::<Vec<_>>(), [0]);
            drop(burst);
            assert_eq!(reported.lock().unwrap().join(","), seen);
            let Ok(Next::Idle(wait)) = source.next() else { panic!("the next frame is early") };
            assert!(wait > Duration::from_secs(1800));
        }
    }

    #[test]
    fn frames_wait_neither_for_a_long_pause_nor_for_many_short_ones() {
        let ms = |ms: u64| ms * 1_000_000;
        let mut one = Pauses::default();
        let left = [0, 50, 199, 200, 900].map(|at| one.left(ms(7 + at)).as_millis());
        assert_eq!(left, [200, 150, 1, 0, 0]);
        // Frames come every 100 ms.
        let mut many = Pauses::default();
        let waits = (0..=10).map(|at| {
            many.this = None;
            (many.left(ms(100 * at)), many.left(ms(100 * at + 90))).0.as_millis()
        });
        assert_eq!(
            waits.collect::<Vec<_>>(),
            [200, 200, 200, 200, 200, 200, 200, 200, 200, 100, 0]
        );
    }

    #[test]
    fn a_pause_lets_frames_continue() {
        let script = Script { acts: vec![Act::Frames(1)], ..Script::default() };
        let reported = Arc::new(Mutex::new(Vec::new()));
        let samplers: Vec<Box<dyn Sampler>> = vec![Box::new(Counting(3, Arc::clone(&reported)))];
        let mut source = Sampled::new(Box::new(script), samplers, Clock::start());
        assert_eq!(source.hold(), None);
        source.release(SamplingState::Watching);
        let mut burst = Burst::new();
        assert!(matches!(source.burst(&mut burst), Ok(Given::Frames)));
        assert_eq!(burst.frames().len(), 1);
        assert_eq!(*reported.lock().unwrap(), ["saw 0", "decided"]);
    }
}
