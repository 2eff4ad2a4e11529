//! The table `[process]`: the rights of the process, and the address of its metrics.

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
}

impl Default for ProcessTable {
    fn default() -> Self {
        Self { user: None, metrics: None, refuses_calls: true }
    }
}

/// Reads the table.
pub(crate) fn read(section: &mut Section<'_>) -> ProcessTable {
    section.refuse_all_but(&keys::names(keys::PROCESS));
    let refuses_calls = section.boolean("system_call_filter", true);
    ProcessTable { user: user(section), metrics: section.parsed("metrics"), refuses_calls }
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
