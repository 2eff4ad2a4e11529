//! The table `[process]`: the rights of the process, and the address of its metrics.

use std::time::Duration;

use warpline_io::rights::User;
use warpline_io_error::plain;
use warpline_nf::Section;

use crate::keys;
use crate::metrics::MetricsAddress;

/// The table's name: no function can have it.
pub(crate) const TABLE: &str = "process";

/// The table.
#[derive(Clone, Debug)]
pub(crate) struct ProcessTable {
    /// The user that the process becomes.
    pub(crate) user: Option<User>,
    /// Where metrics are served.
    pub(crate) metrics: Option<MetricsAddress>,
    /// Whether system calls that no chain makes are refused, once the process has given up rights.
    pub(crate) refuses_calls: bool,
    /// How long the end of live chains waits for readers of alerts and records.
    pub(crate) outputs_wait: Duration,
}

/// The default of that, and the longest, in milliseconds.
const OUTPUTS_WAIT: u64 = 5_000;
const OUTPUTS_WAIT_MAX: u64 = 600_000;

impl Default for ProcessTable {
    fn default() -> Self {
        let outputs_wait = Duration::from_millis(OUTPUTS_WAIT);
        Self { user: None, metrics: None, refuses_calls: true, outputs_wait }
    }
}

/// Reads the table.
pub(crate) fn read(section: &mut Section<'_>) -> ProcessTable {
    section.refuse_all_but(&keys::names(keys::PROCESS));
    let refuses_calls = section.boolean("system_call_filter", true);
    let wait = section.integer("outputs_wait_ms", 0..=OUTPUTS_WAIT_MAX, OUTPUTS_WAIT);
    let (user, metrics) = (user(section), section.parsed("metrics"));
    ProcessTable { user, metrics, refuses_calls, outputs_wait: Duration::from_millis(wait) }
}

fn user(section: &mut Section<'_>) -> Option<User> {
    let name = section.string("user")?;
    let text = match User::named(name) {
        Ok(Some(user)) => return Some(user),
        Ok(None) => format!("there is no user {name:?}; create one with `useradd --system {name}`"),
        Err(why) => format!("user {name:?}: {}", plain(&why)),
    };
    section.mistake("user", text);
    None
}
