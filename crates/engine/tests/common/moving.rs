//! A source that moves functions while it gives packets, in a run.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use warpline_engine::{Control, Deployment, Settings, Site, Successor};
use warpline_io::{Next, Source, SourceError};

use super::frames::Input;
use super::ports::{Frames, SentFrames};
use super::run::{Outcome, run_ports};

/// Moves of a run: before which frame, and to where.
pub(crate) type Moves = VecDeque<(usize, Vec<Site>)>;

/// Gives frames, and asks for each move before its frame. Lanes are built as soon as the move
/// before has ended, so that batches are on their way when the move is announced.
pub(crate) struct Moving {
    frames: Frames,
    control: Arc<Control>,
    /// As it runs.
    deployment: Arc<Deployment>,
    moves: Moves,
    built: Option<(usize, Successor)>,
    /// The one that lanes are taking up.
    asked: Option<Successor>,
    /// Why moves were refused.
    refused: Arc<std::sync::Mutex<Vec<String>>>,
}

impl Moving {
    pub(crate) fn new(
        frames: Frames,
        control: &Arc<Control>,
        deployment: &Arc<Deployment>,
        moves: Moves,
    ) -> Self {
        Self {
            frames,
            control: Arc::clone(control),
            deployment: Arc::clone(deployment),
            moves,
            built: None,
            asked: None,
            refused: Arc::default(),
        }
    }

    fn build(&mut self) {
        if let Some((at, sites)) = self.moves.pop_front() {
            let new = self.deployment.on_sites(sites);
            match Successor::moved(&self.deployment, new, &self.control) {
                Ok(successor) => self.built = Some((at, successor)),
                Err(why) => self.refused.lock().expect("refusals").extend(why),
            }
        }
    }
}

impl Source for Moving {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        if !self.control.is_reloading() {
            if let Some(asked) = self.asked.take() {
                assert!(asked.has_moved());
                self.deployment = Arc::clone(asked.deployment());
            }
            if self.built.is_none() {
                self.build();
            }
            let due = self.built.take_if(|(at, _)| *at <= self.frames.next);
            if let Some((_, successor)) = due {
                assert!(self.control.reload(&successor));
                self.asked = Some(successor);
                return Ok(Next::Idle(Duration::ZERO));
            }
        } else if self.moves.front().is_some_and(|(at, _)| *at <= self.frames.next) {
            return Ok(Next::Idle(Duration::ZERO));
        }
        self.frames.next()
    }
}

/// Runs `deployment` over `inputs`, with `moves`. Gives the refusals too.
pub(crate) fn run_moving(
    deployment: Deployment,
    settings: Settings,
    inputs: &[Input],
    moves: Moves,
) -> (Outcome, Vec<String>) {
    let (deployment, control) = (Arc::new(deployment), Arc::new(Control::default()));
    let source = Moving::new(Frames::new(inputs), &control, &deployment, moves);
    let refused = Arc::clone(&source.refused);
    let outcome = run_ports(deployment, settings, source, SentFrames::default(), control);
    let refused = std::mem::take(&mut *refused.lock().expect("refusals"));
    (outcome, refused)
}
