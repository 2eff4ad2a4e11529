//! Reports of matches: alerts as notes, thresholds and suppression, the files for alerts, and the
//! packets that answer rejected ones.
//!
//! A match is noted where it happens ([`Alert`]). [`AlertReport`] gets the notes in the order of
//! the input, decides which to report ([`Thresholds`]), and writes them. If the verdict depends on
//! a threshold ([`Policy::decides_verdict`]), a shard decides with a [`Thresholds`] of its own and
//! records the decision in the note.

mod alert;
mod alert_report;
mod entries;
mod eve;
mod fast_log;
mod generations;
mod hits;
mod policy;
mod reject;
#[cfg(test)]
mod tests;
mod text;
mod thresholds;

pub use alert::{Alert, FlowAt, Source};
pub use alert_report::{ALERTS_MAX, AlertConfig, AlertReport};
pub use eve::EveOptions;
pub use generations::{Generation, Reported};
pub use policy::{Filter, Policies, Policy};
pub use reject::{FRAME_LEN_MAX, Rejecter};
pub use thresholds::{Decision, Match, RuleId, Thresholds};
