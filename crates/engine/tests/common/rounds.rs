//! Traffic that comes round and round, so that a test can count what threads do when all is warm.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use warpline_engine::{Chain, Deployment, Instance, Place, Site};
use warpline_io::{Frame, Next, Source, SourceError};
use warpline_nf::Function;
use warpline_packet::Instant;

use super::DEFINITION;
use super::frames::{Input, START_NANOS};
use super::ports::Frames;

static WARM: AtomicBool = AtomicBool::new(false);

/// Whether the source of the run gives the packets between the second round and the end.
pub(crate) fn is_warm() -> bool {
    WARM.load(Ordering::Relaxed)
}

/// Repeats its frames, and is warm from the third round to the last: threads after the reader may
/// still have the end of the first round to process when it gives the second.
pub(crate) struct Rounds {
    frames: Frames,
    len: usize,
    given: usize,
    rounds: usize,
    /// Length of a round, in nanoseconds: timestamps of the next are later by that.
    span: u64,
    /// Called on the thread that reads.
    seen: fn(),
}

impl Rounds {
    pub(crate) fn new(inputs: &[Input], rounds: usize, seen: fn()) -> Self {
        let frames = Frames { endless: true, ..Frames::new(inputs) };
        let last = inputs.iter().map(|input| input.nanos).max().unwrap_or(START_NANOS);
        let span = last - START_NANOS + 1_000_000_000;
        Self { frames, len: inputs.len(), given: 0, rounds, span, seen }
    }
}

impl Source for Rounds {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        (self.seen)();
        self.given += 1;
        let is_warm = self.given > 2 * self.len && self.given < self.len * self.rounds;
        WARM.store(is_warm, Ordering::Relaxed);
        if self.given > self.len * self.rounds {
            return Ok(Next::End);
        }
        let later = (self.given - 1) as u64 / self.len as u64 * self.span;
        let next = self.frames.next()?;
        let Next::Frame(frame) = next else { return Ok(next) };
        let timestamp = Instant::from_nanos(frame.timestamp.as_nanos() + later);
        Ok(Next::Frame(Frame { timestamp, ..frame }))
    }
}

/// `deployment` with `function` as its first, on the CPU.
pub(crate) fn behind(function: impl Function + 'static, deployment: Deployment) -> Deployment {
    let Chain { mut instances, scratch_words, .. } = Chain::clone(deployment.chain());
    let mut sites = deployment.sites().to_vec();
    let first = Instance {
        name: "first".into(),
        definition: &DEFINITION,
        function: Arc::new(function),
        fingerprint: 0,
        place: Place::Only,
    };
    instances.insert(0, first);
    sites.insert(0, Site::default());
    let chain = Chain::new("counted", instances, scratch_words).expect("a chain");
    Deployment::new(Arc::new(chain), sites)
}
