//! The keys of `[backpressure]`: how full queues pause the stages before them.

use warpline_engine::{PeerLink, PressureOptions};
use warpline_nf::Section;
use warpline_sched::{PauseMode, WatermarkError, Watermarks};

use crate::keys;
use crate::peer_keys::PeerKeys;

/// The table's name: no function can have it.
pub(crate) const TABLE: &str = "backpressure";

const QUEUE: f64 = PressureOptions::QUEUE as f64 / 1_000.0;
const QUEUE_MAX: f64 = 64.0;

/// The table of a file.
pub(crate) struct PressureTable {
    /// How queues pause stages.
    pub(crate) options: PressureOptions,
    /// Whether chains read nothing until they are resumed.
    pub(crate) starts_paused: bool,
    /// The links of the file's only chain.
    pub(crate) links: Vec<PeerLink>,
}

/// Reads the table of a file with as many chains.
pub(crate) fn read(
    section: &mut Section<'_>,
    chains: usize,
    peers: &mut PeerKeys,
) -> PressureTable {
    section.refuse_all_but(&keys::names(keys::BACKPRESSURE));
    let is_on = section.choice("mode", &[("on", true), ("off", false)], true);
    let default = Watermarks::default();
    let launches = section.decimal("queue", QUEUE);
    if !(1.0..=QUEUE_MAX).contains(&launches) {
        let text = format!("`queue` is {launches} launches; allowed are 1 to {QUEUE_MAX}");
        section.mistake("queue", text);
    }
    let queue = milli(launches.clamp(1.0, QUEUE_MAX)) as u32;
    let mark = |section: &mut Section<'_>, key, default: u32| {
        milli(section.decimal(key, f64::from(default) / 1_000.0))
    };
    // A shorter queue takes the high mark with it, and that takes the low one.
    let high = mark(section, "high", default.high().min(queue));
    let low = i64::from(default.low()).min(high);
    let low = mark(section, "low", u32::try_from(low).unwrap_or_default());
    let mode = match (Watermarks::checked(high, low, queue), is_on) {
        (Ok(_), false) => PauseMode::Off,
        (Ok(marks), true) => PauseMode::On(marks),
        (Err(why), _) => {
            let is_low = matches!(
                why,
                WatermarkError::LowAboveHigh { .. } | WatermarkError::LowNotPositive { .. }
            );
            section.mistake(if is_low { "low" } else { "high" }, why.to_string());
            PauseMode::On(default)
        }
    };
    let starts = [("running", false), ("paused", true)];
    let starts_paused = section.choice("start", &starts, false);
    let links = peers.read_shared(section, chains, !is_on);
    let options = PressureOptions { mode, queue, ..PressureOptions::default() };
    PressureTable { options, starts_paused, links }
}

/// Thousandths.
fn milli(launches: f64) -> i64 {
    (launches * 1_000.0).round() as i64
}
