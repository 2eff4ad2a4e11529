//! `threshold.config`: thresholds, rate filters and suppressions that apply to the rules of a set.

use std::sync::Arc;

use super::configs::each_line;
use super::group::{Groups, Variables};
use super::piece::{Piece, Read};
use super::rate::{self, Words};
use super::{Action, Addresses, Rate, Rejected, Threshold, ThresholdHow};
use warpline_config::Diagnostics;
use warpline_config::SourceText;

/// A `threshold.config`, in the order of the file within each list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThresholdFile {
    /// Lines that count matches, in their order.
    pub filters: Vec<GlobalFilter>,
    /// `suppress`.
    pub suppressions: Vec<Suppression>,
}

/// A line that counts matches.
#[derive(Clone, Debug, PartialEq)]
pub enum GlobalFilter {
    /// `threshold`, `event_filter`.
    Threshold(GlobalThreshold),
    /// `rate_filter`.
    Rate(RateFilter),
}

impl GlobalFilter {
    /// Of which rules.
    pub fn ids(&self) -> Ids {
        match self {
            Self::Threshold(line) => line.ids,
            Self::Rate(line) => line.ids,
        }
    }
}

/// Which rules a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids {
    /// `gen_id`; 0 for all.
    pub gid: u32,
    /// `sig_id`; 0 for all.
    pub sid: u32,
}

impl Ids {
    /// Whether it is one rule.
    pub fn is_one(self) -> bool {
        self.gid != 0 && self.sid != 0
    }

    /// Whether the rule `gid:sid` is among them.
    pub fn contain(self, gid: u32, sid: u32) -> bool {
        (self.gid == 0 || self.gid == gid) && (self.sid == 0 || self.sid == sid)
    }
}

/// `threshold`, `event_filter`.
#[derive(Clone, Debug, PartialEq)]
pub struct GlobalThreshold {
    /// Of which rules.
    pub ids: Ids,
    /// The threshold that replaces their own.
    pub threshold: Threshold,
}

/// `suppress`: these alerts are not reported; the other actions of the rules still apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Suppression {
    /// Of which rules.
    pub ids: Ids,
    /// Of which packets; `None` for all.
    pub only: Option<(SuppressEnd, Arc<Addresses>)>,
}

/// Which address of a packet a suppression is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuppressEnd {
    /// `by_src`.
    Source,
    /// `by_dst`.
    Destination,
    /// `by_either`.
    Either,
}

/// `rate_filter`: after `rate.count` matches in `rate.seconds` the rules do something else for a
/// while.
#[derive(Clone, Debug, PartialEq)]
pub struct RateFilter {
    /// Of which rules.
    pub ids: Ids,
    /// When it begins.
    pub rate: Rate,
    /// Their action after that.
    pub new_action: Action,
    /// For how long, in seconds.
    pub timeout_s: u32,
}

impl ThresholdFile {
    /// Reads a `threshold.config` ("Global-Thresholds" of the manual): `threshold`, `event_filter`,
    /// `rate_filter` and `suppress`, each in a line, or in several that end with `\`.
    pub fn read(file: &SourceText, variables: &Variables, mistakes: &mut Diagnostics) -> Self {
        let mut found = Self::default();
        let mut addresses = Groups::default();
        each_line(file, mistakes, |line| {
            let (kind, rest) = line.word();
            match kind.text {
                "threshold" | "event_filter" => {
                    found.filters.push(GlobalFilter::Threshold(global_threshold(rest)?));
                }
                "rate_filter" => found.filters.push(GlobalFilter::Rate(rate_filter(rest)?)),
                "suppress" => {
                    found.suppressions.push(suppression(rest, variables, &mut addresses)?)
                }
                other => {
                    let help = "threshold, event_filter, rate_filter, suppress";
                    return Err(kind.expected(format!("`{other}` is not supported"), help));
                }
            }
            Ok(())
        });
        found
    }
}

fn ids(words: &Words<'_>) -> Read<Ids> {
    Ok(Ids { gid: words.get("gen_id")?.decimal()?, sid: words.get("sig_id")?.decimal()? })
}

fn global_threshold(rest: Piece<'_>) -> Read<GlobalThreshold> {
    let words = Words::of(rest)?;
    let threshold = rate::threshold(&words)?;
    if let ThresholdHow::Backoff { .. } = threshold.how {
        return Err(words
            .get("type")?
            .expected("`backoff` is for rules", "limit, threshold, both"));
    }
    Ok(GlobalThreshold { ids: ids(&words)?, threshold })
}

fn rate_filter(rest: Piece<'_>) -> Read<RateFilter> {
    let words = Words::of(rest)?;
    words.only(&["gen_id", "sig_id", "track", "count", "seconds", "new_action", "timeout"])?;
    let action = words.get("new_action")?;
    let new_action = match action.text {
        "alert" => Action::Alert,
        "pass" => Action::Pass,
        "drop" => Action::Drop,
        "reject" => Action::Reject(Rejected::Source),
        other => {
            let help = "alert, pass, drop, reject";
            return Err(
                action.expected(format!("`{other}` is not an action of a rate filter"), help)
            );
        }
    };
    let rate = rate::rate(&words)?;
    Ok(RateFilter {
        ids: ids(&words)?,
        rate,
        new_action,
        timeout_s: words.get("timeout")?.decimal()?,
    })
}

/// The addresses stand last, and have commas of their own.
fn suppression(
    rest: Piece<'_>,
    variables: &Variables,
    addresses: &mut Groups<Addresses>,
) -> Read<Suppression> {
    let ip = rest.text.match_indices(',').map(|(at, _)| at);
    let ip = ip.filter_map(|at| Some((at, rest.behind(at + 1).trim().strip("ip")?))).next();
    let words = Words::of(ip.map_or(rest, |(at, _)| rest.part(0..at)))?;
    words.only(&["gen_id", "sig_id", "track"])?;
    let only = match (words.find("track"), ip) {
        (None, None) => None,
        (Some(track), Some((_, ip))) => Some((end(track)?, addresses.field(ip, variables)?)),
        _ => return Err(rest.expected("one is missing", "both `track` and `ip`, or neither")),
    };
    Ok(Suppression { ids: ids(&words)?, only })
}

fn end(track: Piece<'_>) -> Read<SuppressEnd> {
    match track.text {
        "by_src" => Ok(SuppressEnd::Source),
        "by_dst" => Ok(SuppressEnd::Destination),
        "by_either" => Ok(SuppressEnd::Either),
        other => {
            let help = "by_src, by_dst, by_either";
            Err(track.expected(format!("`{other}` can't be tracked"), help))
        }
    }
}
