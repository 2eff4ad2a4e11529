//! The reports of a chain's functions. They get notes in the order of the input, and at the end the
//! rest from the state of each shard.

use warpline_nf::{Outputs, Report, State};
use warpline_packet::{Batch, BatchKind, Note, Shard};

use crate::stats::ThreadStats;
use crate::{Chain, Instance, StartError};

/// State of a function on one lane, shard by shard.
pub(crate) type States = Vec<(Shard, State)>;

/// The results of a thread when it ends.
pub(crate) struct Ended {
    /// Its counts.
    pub(crate) part: ThreadStats,
    /// State by function of the chain, where the thread was a lane's.
    pub(crate) states: Vec<States>,
    /// The reports, where it was the one that sends.
    pub(crate) reports: Option<Reports>,
}

impl Ended {
    /// Of a chain with `functions` functions, nothing left yet.
    pub(crate) fn new(functions: usize) -> Self {
        let states = (0..functions).map(|_| Vec::new()).collect();
        Self { part: ThreadStats::new(functions), states, reports: None }
    }

    /// Adds what another thread left; lanes in their order, so that shards are in theirs.
    pub(crate) fn add(&mut self, other: Self) {
        self.part.add(other.part);
        self.states.iter_mut().zip(other.states).for_each(|(all, own)| all.extend(own));
        self.reports = self.reports.take().or(other.reports);
    }

    /// Gives the reports what the state still holds, ends them, and collects the counters of both.
    pub(crate) fn close(mut self, chain: &Chain) -> ThreadStats {
        let mut reports = self.reports.unwrap_or_default().by_function;
        reports.resize_with(chain.instances.len(), || None);
        for (position, (mut report, mut states)) in reports.into_iter().zip(self.states).enumerate()
        {
            if let Some(report) = &mut report {
                for (_, state) in &mut states {
                    state.before.iter_mut().for_each(|half| half.close(&mut **report));
                    state.after.iter_mut().for_each(|half| half.close(&mut **report));
                }
                if let Err(why) = report.finish() {
                    self.part.errors.push(format!("[{}]: {why}", chain.instances[position].name));
                }
            }
            let stats = &mut self.part.functions[position];
            stats.count(&states);
            if let Some(report) = report {
                let counters = &mut stats.counters;
                let mut add = |name: &'static str, n: u64| *counters.entry(name).or_default() += n;
                report.counters(&mut add);
                stats.tables = report.tables();
            }
        }
        self.part
    }
}

/// The reports of a chain, by function.
#[derive(Default)]
pub(crate) struct Reports {
    by_function: Vec<Option<Box<dyn Report>>>,
}

impl Reports {
    /// Opens every report of `chain` that has something to write; `outputs` are those of the chain.
    pub(crate) fn open(chain: &Chain, outputs: &Outputs) -> Result<Self, StartError> {
        let open = |Instance { name, function, .. }: &Instance| {
            let is_needed = function.alerts() || !function.keeps().is_empty();
            if outputs.are_alerts_only() && !is_needed {
                return Ok(None);
            }
            function.report(outputs).map_err(|why| StartError::Report(name.clone(), why))
        };
        let by_function = chain.instances.iter().map(open).collect::<Result<_, _>>()?;
        Ok(Self { by_function })
    }

    /// The function that has one, by its position.
    pub(crate) fn first(&self) -> Option<usize> {
        self.by_function.iter().position(Option::is_some)
    }

    /// Gives the reports the sorted notes of `batch` from index `at` on that are about packets
    /// below `end`. `announced` numbers before theirs were no packets'. Returns the index of the
    /// next note.
    pub(crate) fn take(&mut self, batch: &Batch, mut at: usize, end: u64, announced: u64) -> usize {
        let own = u64::from(batch.kind() == BatchKind::Packets);
        while let Some(Note { ingress, function, bytes, .. }) =
            batch.notes().get(at).filter(|note| note.ingress < end)
        {
            if let Some(Some(report)) = self.by_function.get_mut(usize::from(function)) {
                report.note_about((ingress + own).saturating_sub(announced), bytes);
            }
            at += 1;
        }
        at
    }

    /// The same with the notes of one function about a tick or the end, from number `at` on. They
    /// are sorted by function.
    pub(crate) fn take_of(
        &mut self,
        function: usize,
        batch: &Batch,
        mut at: usize,
        announced: u64,
    ) -> usize {
        let Some(report) = self.by_function.get_mut(function) else { return at };
        let is_own = |note: &Note<'_>| usize::from(note.function) == function;
        while let Some(note) = batch.notes().get(at).filter(is_own) {
            if let Some(report) = report {
                report.note_about(note.ingress.saturating_sub(announced), note.bytes);
            }
            at += 1;
        }
        at
    }

    /// Adds the counters of all reports so far.
    pub(crate) fn add_counters(&self, part: &mut ThreadStats) {
        for (stats, report) in part.functions.iter_mut().zip(&self.by_function) {
            let counters = &mut stats.counters;
            let mut add = |name: &'static str, n: u64| *counters.entry(name).or_default() += n;
            report.iter().for_each(|report| report.counters(&mut add));
        }
    }

    /// How many functions there are.
    pub(crate) fn functions(&self) -> usize {
        self.by_function.len()
    }

    /// Nothing comes for a while.
    pub(crate) fn rest(&mut self) {
        self.by_function.iter_mut().flatten().for_each(|report| report.rest());
    }
}
