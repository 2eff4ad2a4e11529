//! Counters by function.

use std::collections::BTreeMap;

use warpline_launch::Transfers;
use warpline_nf::{PeakHistory, PeakSum, State, Table};
use warpline_packet::{Batch, Malformed, REASONS_MAX, Verdict};

use crate::reports::States;

/// The counts of a function, on one lane or all.
#[derive(Clone, Debug)]
pub struct FunctionStats {
    /// Packets that were `Forward` when its turn came.
    pub packets_in: u64,
    /// Packets that it passed on or sent back, those it made not among them.
    pub packets_out: u64,
    /// Drops, by the place of the reason in the function's list.
    pub drops: [u64; REASONS_MAX],
    /// Packets that had no route on from here, those that it made among them.
    pub unrouted: u64,
    /// Packets it rejected as malformed, by the lie.
    pub malformed: [u64; Malformed::ALL.len() + 1],
    /// Packets that went into others.
    pub absorbed: u64,
    /// Packets it made.
    pub generated: u64,
    /// Nanoseconds it worked.
    pub busy_ns: u64,
    /// The part of it before a device's work; 0 for a function on the CPU.
    pub before_ns: u64,
    /// Its own counters.
    pub counters: BTreeMap<&'static str, u64>,
    /// Those of its counters that are peaks, from which `counters` has the highest values.
    pub peaks: BTreeMap<&'static str, PeakSum>,
    /// Tables of its report.
    pub tables: Vec<Table>,
    /// The bytes that crossed for its launches, if it is their first function.
    pub transfers: Transfers,
}

impl Default for FunctionStats {
    fn default() -> Self {
        Self {
            packets_in: 0,
            packets_out: 0,
            drops: [0; REASONS_MAX],
            unrouted: 0,
            malformed: [0; Malformed::ALL.len() + 1],
            absorbed: 0,
            generated: 0,
            busy_ns: 0,
            before_ns: 0,
            counters: BTreeMap::new(),
            peaks: BTreeMap::new(),
            tables: Vec::new(),
            transfers: Transfers::default(),
        }
    }
}

impl FunctionStats {
    /// Counts the packets of `batch` that function `position` settled.
    pub(crate) fn tally(&mut self, batch: &Batch, position: u8) {
        for index in 0..batch.len() {
            let packet = batch.packet(index);
            let verdict = packet.verdict();
            let is_on_way = matches!(verdict, Verdict::Forward | Verdict::Bypass);
            if is_on_way || packet.settled_by() != position {
                continue;
            }
            let reason = usize::from(packet.reason().0);
            match verdict {
                Verdict::Dropped => self.drops[reason.min(REASONS_MAX - 1)] += 1,
                Verdict::Malformed => self.malformed[reason.min(Malformed::ALL.len())] += 1,
                Verdict::Absorbed => self.absorbed += 1,
                Verdict::Forward | Verdict::Bypass | Verdict::Return | Verdict::Overload => {}
            }
        }
    }

    /// All drops.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().sum()
    }

    /// All rejected as malformed.
    pub fn rejected(&self) -> u64 {
        self.malformed.iter().sum()
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.packets_in += other.packets_in;
        self.packets_out += other.packets_out;
        self.absorbed += other.absorbed;
        self.generated += other.generated;
        self.unrouted += other.unrouted;
        self.busy_ns += other.busy_ns;
        self.before_ns += other.before_ns;
        self.drops.iter_mut().zip(other.drops).for_each(|(sum, n)| *sum += n);
        self.malformed.iter_mut().zip(other.malformed).for_each(|(sum, n)| *sum += n);
        for (name, n) in &other.counters {
            *self.counters.entry(name).or_default() += n;
        }
        for (name, peak) in &other.peaks {
            self.peaks.entry(name).or_default().join(peak);
        }
        self.show_peaks();
        self.transfers.add(&other.transfers);
    }

    /// Adds the counters of `states`.
    pub(crate) fn count(&mut self, states: &States) {
        let (counters, peaks) = (&mut self.counters, &mut self.peaks);
        let mut add = |name, n| *counters.entry(name).or_default() += n;
        let mut add_peak = |name, history: &PeakHistory, newest| {
            peaks.entry(name).or_default().add(history, newest);
        };
        for (_, State { before, after }) in states {
            before.iter().for_each(|half| half.counters(&mut add));
            after.iter().for_each(|half| half.counters(&mut add));
            before.iter().for_each(|half| half.peaks(&mut add_peak));
            after.iter().for_each(|half| half.peaks(&mut add_peak));
        }
        self.show_peaks();
    }

    fn show_peaks(&mut self) {
        let peaks = self.peaks.iter().map(|(&name, peak)| (name, peak.highest()));
        self.counters.extend(peaks);
    }
}
