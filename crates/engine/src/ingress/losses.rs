//! Reports to an operator that the input loses packets.

use std::time::Duration;

use crate::Deployment;
use crate::pressure::{DOWNSTREAM, OUTPUT};

/// The least time between two reports, and from the first loss to its report.
const EVERY: Duration = Duration::from_secs(10);
const AFTER: Duration = Duration::from_millis(300);

/// See the module.
#[derive(Default)]
pub(super) struct Losses {
    /// The names of the stages.
    stages: Vec<String>,
    /// Packets reported so far.
    reported: u64,
    /// The time of the next report.
    due: Option<u64>,
    /// The last place that a lane waited for since the last report.
    stage: Option<usize>,
}

impl Losses {
    /// Of a chain with the stages of `deployment`.
    pub(super) fn of(deployment: &Deployment) -> Self {
        let stages = deployment.stages().iter().map(|stage| deployment.stage_name(stage));
        Self { stages: stages.collect(), ..Self::default() }
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
        let place = self.stage.take().and_then(|place| match place {
            OUTPUT => Some("the output".into()),
            DOWNSTREAM => Some("the instance downstream".into()),
            stage => self.stages.get(stage).map(|name| format!("{name:?}")),
        });
        let why = place.map_or_else(String::new, |name| format!(", waiting for {name}"));
        Some(format!("the input lost {lost} packets so far{why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_only_what_lanes_waited_for_since_the_last_one() {
        let mut losses = Losses { stages: vec!["nat".into()], ..Losses::default() };
        let mut at =
            |seconds: u64, lost, stage| losses.report(lost, stage, seconds * 1_000_000_000);
        assert_eq!(at(0, 5, Some(0)), None, "the first waits");
        assert_eq!(
            at(1, 5, None).as_deref(),
            Some("the input lost 5 packets so far, waiting for \"nat\"")
        );
        assert_eq!(at(12, 9, None).as_deref(), Some("the input lost 9 packets so far"));
    }
}
