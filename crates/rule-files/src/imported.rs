//! The outcome of reading a file of another firewall.

use warpline_config::Diagnostics;

use crate::RegionRule;

/// The rules of a file of another firewall, and its mistakes.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// Its rules, in order; the first match decides, and what none matches is dropped.
    pub rules: Vec<RegionRule>,
    /// Invalid lines, and unsupported rules that cannot be left out.
    pub mistakes: Diagnostics,
    /// Unsupported rules. Those that accept were left out; those that drop do so without the
    /// unsupported condition.
    pub unsupported: Diagnostics,
    /// Rules without any effect here, such as logging.
    pub notices: Diagnostics,
    /// Whether rules take for granted that packets leave by another port than they came by.
    pub presumes_crossing: bool,
    /// Rules that accept, and were left out.
    pub accepts_left_out: usize,
}
