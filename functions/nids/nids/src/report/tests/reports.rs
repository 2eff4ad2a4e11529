//! The report: where notes are written, over several rule sets and when a file fails.

use std::io::{self, ErrorKind, Write};
use std::sync::Mutex;

use serde_json::Value;

use super::*;
use crate::report::{AlertConfig, AlertReport, Decision, EveOptions, Generation, Reported};
use warpline_nf::{Cell, Destination, Output, Outputs, Registry, Report};
use warpline_nids_rules::{Names, Rate, Threshold, ThresholdFile, ThresholdHow, Track};

/// A place that keeps what is written, up to so many bytes.
#[derive(Clone)]
struct Paper(Arc<Mutex<Vec<u8>>>, usize);

impl Paper {
    fn new(room: usize) -> Self {
        Self(Arc::default(), room)
    }

    fn outputs(&self) -> Outputs {
        let alerts = Output::new("paper", Box::new(self.clone()));
        Outputs::of_run(Some(Arc::new(alerts)), Registry::default())
    }

    /// Rule, packet and message of each line.
    fn reported(&self) -> Vec<(u64, u64, String)> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let line = |line: &str| {
            let line: Value = serde_json::from_str(line).unwrap();
            let number = |value: &Value| value.as_u64().unwrap();
            let signature = line["alert"]["signature"].as_str().unwrap().to_owned();
            (number(&line["alert"]["signature_id"]), number(&line["pcap_cnt"]), signature)
        };
        text.lines().map(line).collect()
    }
}

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut taken = self.0.lock().unwrap();
        if taken.len() + bytes.len() > self.1 {
            return Err(ErrorKind::BrokenPipe.into());
        }
        taken.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn config() -> AlertConfig {
    let options = EveOptions::default();
    AlertConfig { eve: None, fast_log: None, hits: None, options, thresholds: 100, top: 2 }
}

fn generation(rules: &[Rule]) -> Generation {
    Generation::new(Reported::of(rules, &ThresholdFile::default()), Names::new())
}

fn note_alert(report: &mut AlertReport, packet: u64, alert: Alert<'_>) {
    let mut note = [0; Alert::LEN];
    let len = alert.encode(&mut note);
    report.note_about(packet, &note[..len]);
}

fn counter(report: &AlertReport, name: &str) -> u64 {
    let mut found = None;
    report.counters(&mut |own, count| found = found.or((own == name).then_some(count)));
    found.expect("a counter")
}

/// Three rules; the second raises one alert in a minute.
fn rules() -> Vec<Rule> {
    let limit = Threshold {
        how: ThresholdHow::Limit,
        rate: Rate { track: Track::Rule, count: 1, seconds: 60 },
    };
    let limited = Rule { threshold: Some(limit), ..rule(2, "limited") };
    vec![rule(1, "first"), limited, rule(3, "third")]
}

#[test]
fn alerts_go_to_every_file_and_hits_count_the_rest() {
    let folder = std::env::temp_dir().join(format!("warpline-alerts-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| Some(Destination::File(folder.join(name)));
    let config = AlertConfig {
        eve: path("eve.json"),
        fast_log: path("fast.log"),
        hits: path("hits.json"),
        ..config()
    };
    assert_eq!(config.writes().count(), 3);
    let (paper, generation) = (Paper::new(usize::MAX), generation(&rules()));
    let mut report = AlertReport::open(&config, &generation, &paper.outputs()).unwrap();
    for (packet, rule, decision) in [
        (10, 1, None),
        (11, 1, None),
        (12, 0, None),
        (13, 1, Some(Decision::Reported)),
        (14, 0, Some(Decision::Silent)),
        (15, 0, Some(Decision::Nothing)),
    ] {
        note_alert(
            &mut report,
            packet,
            Alert { rule, decision, is_blocked: packet == 12, ..alert() },
        );
    }
    note_alert(&mut report, 16, Alert { rule: 3, ..alert() });
    note_alert(&mut report, 17, Alert { generation: 5, ..alert() });
    report.note(b"nonsense");
    assert!(paper.reported().is_empty(), "lines are gathered");
    report.rest();
    let expected = [(2, 10, "limited"), (1, 12, "first"), (2, 13, "limited")];
    let expected = expected.map(|(sid, packet, msg)| (sid, packet, msg.to_owned()));
    assert_eq!(paper.reported(), expected);
    report.finish().unwrap();
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!(read("eve.json").as_bytes(), &paper.0.lock().unwrap()[..]);
    assert_eq!(read("fast.log").lines().count(), 3);
    let hits: Value = serde_json::from_str(&read("hits.json")).unwrap();
    let hit = |sid: u32, msg: &str, alerts: u32| {
        serde_json::json!({"gid": 1, "sid": sid, "rev": 3, "msg": msg, "matches": 3,
            "alerts": alerts, "suppressed": 3 - alerts})
    };
    let totals = serde_json::json!({"rules": 2, "matches": 6, "alerts": 3, "suppressed": 3});
    let expected =
        serde_json::json!({"rules": [hit(1, "first", 1), hit(2, "limited", 2)], "totals": totals});
    assert_eq!(hits, expected);
    for (name, count) in [
        ("matches", 6),
        ("alerts", 3),
        ("alerts-blocked", 1),
        ("alerts-suppressed", 3),
        ("notes-unknown", 3),
        ("thresholds-evicted", 0),
    ] {
        assert_eq!(counter(&report, name), count, "{name}");
    }
    let [table] = &report.tables()[..] else { panic!("one table") };
    assert_eq!(table.rows[1][..2], [Cell::Text("1:2:3".into()), Cell::Number(3)]);
    std::fs::remove_dir_all(folder).unwrap();
    let missing = AlertConfig {
        fast_log: Some(Destination::File("/missing/folder/fast.log".into())),
        ..config
    };
    assert!(AlertReport::open(&missing, &generation, &Outputs::default()).is_err());
}

#[test]
fn rule_sets_follow_each_other_and_counts_go_on() {
    let paper = Paper::new(usize::MAX);
    let first = generation(&rules());
    let mut report = AlertReport::open(&config(), &first, &paper.outputs()).unwrap();
    note_alert(&mut report, 1, Alert { rule: 1, ..alert() });
    // The same rules at other places, one with another message.
    let second = generation(&[rule(9, "new"), rule(1, "renamed"), rules()[1].clone()]);
    second.follow(&first);
    // One that was built and refused; one that follows after all.
    generation(&rules()).follow(&second);
    let third = generation(&[rule(4, "last")]);
    third.follow(&second);
    assert_eq!([&first, &second, &third].map(Generation::number), [0, 1, 3]);
    drop(first);
    for rule in 0..3 {
        note_alert(&mut report, 2, Alert { rule, generation: 1, ..alert() });
    }
    drop(second);
    note_alert(&mut report, 3, Alert { generation: 3, ..alert() });
    note_alert(&mut report, 4, Alert { generation: 2, ..alert() });
    report.finish().unwrap();
    let expected = [(2, 1, "limited"), (9, 2, "new"), (1, 2, "renamed"), (4, 3, "last")];
    let expected = expected.map(|(sid, packet, msg)| (sid, packet, msg.to_owned()));
    assert_eq!(paper.reported(), expected, "the limited rule is not reported again");
    assert_eq!((counter(&report, "matches"), counter(&report, "notes-unknown")), (5, 1));
}

#[test]
fn a_file_that_fails_fails_the_run_and_nothing_else() {
    let (paper, generation) = (Paper::new(1000), generation(&rules()));
    let mut report = AlertReport::open(&config(), &generation, &paper.outputs()).unwrap();
    for packet in 0..3000 {
        note_alert(&mut report, packet, alert());
    }
    let why = report.finish().unwrap_err();
    assert!(why.starts_with("can't write paper: "), "{why}");
    assert_eq!(counter(&report, "alerts"), 3000);
}
