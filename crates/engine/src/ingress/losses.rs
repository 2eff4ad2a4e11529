//! Reports to an operator that the input loses packets.

use std::time::Duration;

use crate::Deployment;

/// The least time between two reports, and from the first loss to its report.
const EVERY: Duration = Duration::from_secs(10);
const AFTER: Duration = Duration::from_millis(300);

/// See the module.
#[derive(Default)]
pub(super) struct Losses {
    /// The names of the stages, of instances downstream, and of the output.
    stages: Vec<String>,
    /// Packets reported so far.
    reported: u64,
    /// The time of the next report.
    due: Option<u64>,
    /// The last stage that a lane waited for.
    stage: Option<usize>,
}

impl Losses {
    /// Of a chain with the stages of `deployment`.
    pub(super) fn of(deployment: &Deployment) -> Self {
        let stages = deployment.stages().iter().map(|stage| deployment.stage_name(stage));
        let none = deployment.stages().is_empty().then(|| "the chain".into());
        let all =
            stages.chain(none).chain(["the instance downstream", "the output"].map(String::from));
        Self { stages: all.collect(), ..Self::default() }
    }

    /// Functions moved: its stages are those of `deployment`.
    pub(super) fn follow(&mut self, deployment: &Deployment) {
        (self.stages, self.stage) = (Self::of(deployment).stages, None);
    }

    /// Whether packets were lost that no report has.
    #[inline]
    pub(super) fn has_more(&self, lost: u64) -> bool {
        lost > self.reported
    }

    /// A report of `lost` packets so far, if one is due; lanes wait for `stage`.
    pub(super) fn report(&mut self, lost: u64, stage: Option<usize>, now: u64) -> Option<String> {
        self.stage = stage.or(self.stage);
        let due = *self.due.get_or_insert(now + AFTER.as_nanos() as u64);
        if lost == self.reported || now < due {
            return None;
        }
        (self.reported, self.due) = (lost, Some(now + EVERY.as_nanos() as u64));
        let stage = self.stage.and_then(|stage| self.stages.get(stage));
        let why = stage.map_or_else(String::new, |name| format!(", waiting for {name}"));
        Some(format!("the input lost {lost} packets so far{why}"))
    }
}
