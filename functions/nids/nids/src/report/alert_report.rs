//! The report: selects the alerts to write, writes them, and counts each rule's matches.

use std::path::PathBuf;
use std::sync::Arc;

use super::eve::{self, EveOptions, Known};
use super::fast_log;
use super::generations::Generations;
use super::hits::Hits;
use super::{Alert, Decision, Generation, Match, Reported, RuleId, Thresholds};
use warpline_nf::{
    Destination, Format, Outputs, RecordBuffer, Report, SharedRecords, Table, Writer,
};
use warpline_nids_rules::Names;

/// The outputs for alerts, with their files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertConfig {
    /// A file for EVE lines, besides the run's own.
    pub eve: Option<Destination>,
    /// A file for lines of `fast.log`.
    pub fast_log: Option<Destination>,
    /// A file for hits by rule, as JSON, at the end.
    pub hits: Option<Destination>,
    /// The optional parts of EVE lines.
    pub options: EveOptions,
    /// How many counts thresholds keep.
    pub thresholds: usize,
    /// How many rules the summary names.
    pub top: usize,
}

impl AlertConfig {
    /// The files that are written.
    pub fn writes(&self) -> impl Iterator<Item = PathBuf> {
        let all = [&self.eve, &self.fast_log, &self.hits].into_iter().flatten();
        all.filter_map(|destination| destination.path().map(PathBuf::from))
    }
}

/// The most alerts that a packet may cause, as in Suricata by default (`packet-alert-max`). Matches
/// withheld by `noalert`, suppressions and thresholds do not count.
pub const ALERTS_MAX: usize = 15;

/// Takes the notes that [`Alert::encode`] writes.
pub struct AlertReport {
    generations: Arc<Generations>,
    current: Option<Current>,
    thresholds: Thresholds,
    hits: Hits,
    eve: Vec<SharedRecords>,
    fast_log: Option<RecordBuffer>,
    hits_file: Option<Writer>,
    options: EveOptions,
    top: usize,
    /// Alerts of the packet at hand.
    reported: usize,
    /// Those beyond [`ALERTS_MAX`].
    over: u64,
    /// Alerts of packets that were not let through.
    blocked: u64,
    /// Notes that said nothing that is known.
    unknown: u64,
}

/// The rule set that notes are about.
struct Current {
    number: u32,
    rules: Arc<[Reported]>,
    /// The texts of their flowbits and flowints.
    names: Arc<Names>,
    /// The place of each rule among [`Hits`], once it matched.
    places: Vec<Option<u32>>,
}

impl AlertReport {
    /// For a function with the rule set of `generation` and those that follow it. Creates the
    /// files; the error names the file that cannot be created.
    pub fn open(
        config: &AlertConfig,
        generation: &Generation,
        outputs: &Outputs,
    ) -> Result<Self, String> {
        let open = |output: &Option<Destination>, format: Format| {
            output.as_ref().map(|output| outputs.open(output, format)).transpose()
        };
        let eve = open(&config.eve, Format::lines())?.map(SharedRecords::new);
        let eve = [outputs.alerts(), eve];
        let mut report = Self {
            generations: Arc::clone(generation.all()),
            current: None,
            thresholds: Thresholds::new(config.thresholds),
            hits: Hits::default(),
            eve: eve.into_iter().flatten().collect(),
            fast_log: open(&config.fast_log, Format::lines())?.map(RecordBuffer::new),
            hits_file: open(&config.hits, Format::whole())?,
            options: config.options,
            top: config.top,
            reported: 0,
            over: 0,
            blocked: 0,
            unknown: 0,
        };
        report.turn_to(generation.number());
        Ok(report)
    }

    /// Counts the match and returns whether it is reported; `None` for an unknown rule.
    fn is_reported(&mut self, alert: &Alert<'_>) -> Option<bool> {
        let current = self.current.as_mut().filter(|current| current.number == alert.generation)?;
        let place = current.places.get_mut(alert.rule as usize)?;
        let rule = current.rules.get(alert.rule as usize)?;
        let place = *place.get_or_insert_with(|| self.hits.place(&rule.about) as u32);
        let decision = alert.decision.unwrap_or_else(|| {
            let (gid, sid, rev) = (rule.about.gid, rule.about.sid, rule.about.rev);
            let Alert { ends, now, .. } = *alert;
            let flow = alert.flow.map(|flow| flow.id);
            let ports = (alert.src_port, alert.dst_port);
            let what = Match { rule: RuleId { gid, sid, rev }, ends, ports, flow, now };
            self.thresholds.decide(&rule.policy, rule.action, &what).0
        });
        let is_reported = decision == Decision::Reported && self.reported < ALERTS_MAX;
        self.over += u64::from(decision == Decision::Reported && !is_reported);
        self.reported += usize::from(is_reported);
        let hit = self.hits.at(place as usize)?;
        hit.matches += 1;
        hit.alerts += u64::from(is_reported);
        Some(is_reported)
    }

    /// Turns to the rule set that `number` names, where it is another. All memory that its matches
    /// may need is taken here: when the report is opened, and with the first match of rules that a
    /// reload brought.
    fn turn_to(&mut self, number: u32) {
        if self.current.as_ref().is_some_and(|current| current.number == number) {
            return;
        }
        let Some((rules, names)) = self.generations.get(number) else {
            self.current = None;
            return;
        };
        self.hits.reserve(rules.len());
        self.thresholds.reserve(rules.iter().map(|rule| &rule.policy));
        self.current = Some(Current { number, names, places: vec![None; rules.len()], rules });
    }

    fn write(&mut self, alert: &Alert<'_>, packet: u64) {
        let Some(Current { rules, names, .. }) = &self.current else { return };
        let Some(rule) = rules.get(alert.rule as usize) else { return };
        let known = Known { packet, about: &rule.about, names };
        for lines in &self.eve {
            lines.add(|out| eve::write_line(out, alert, &known, self.options));
        }
        if let Some(lines) = &mut self.fast_log {
            lines.add(|out| fast_log::write_line(out, alert, &rule.about));
        }
    }
}

impl Report for AlertReport {
    fn note(&mut self, note: &[u8]) {
        self.note_about(0, note);
    }

    fn note_about(&mut self, packet: u64, note: &[u8]) {
        let Some(alert) = Alert::decode(note) else {
            self.unknown += 1;
            return;
        };
        self.turn_to(alert.generation);
        if alert.is_first {
            self.reported = 0;
        }
        match self.is_reported(&alert) {
            None => self.unknown += 1,
            Some(false) => {}
            Some(true) => {
                self.blocked += u64::from(alert.is_blocked);
                self.write(&alert, packet);
            }
        }
    }

    fn rest(&mut self) {
        self.eve.iter().for_each(SharedRecords::flush);
        self.fast_log.iter_mut().for_each(RecordBuffer::flush);
    }

    fn finish(&mut self) -> Result<(), String> {
        let eve = self.eve.iter().filter_map(SharedRecords::finish);
        let fast_log = self.fast_log.iter_mut().filter_map(RecordBuffer::finish);
        let mut errors: Vec<String> = eve.chain(fast_log).collect();
        if let Some(file) = &self.hits_file {
            let mut text = serde_json::to_vec_pretty(&self.hits.json()).unwrap_or_default();
            text.push(b'\n');
            file.write(&text);
            errors.extend(file.finish());
        }
        if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        let (matches, alerts) = self.hits.totals();
        visit("matches", matches);
        visit("alerts", alerts);
        visit("alerts-blocked", self.blocked);
        visit("alerts-suppressed", matches - alerts - self.over);
        visit("alerts-over", self.over);
        visit("thresholds-evicted", self.thresholds.evicted());
        visit("notes-unknown", self.unknown);
    }

    fn tables(&self) -> Vec<Table> {
        vec![self.hits.table(self.top)]
    }
}
