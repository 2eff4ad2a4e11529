//! Captures whose times jump: what is written has packets' own times, and what is kept ages by a
//! time that no few packets push.

use std::process::Command;

use serde_json::Value;

use crate::harness::{Demo, output_of};
use crate::pcap::{Record, capture, udp};
use crate::stats::{self, whole};

const SECOND: u64 = 1_000_000_000;
/// A moment of the year 2025.
const START: u64 = 1_750_000_000 * SECOND;
/// The last second that a pcap can represent.
const FAR: u64 = 4_294_967_295 * SECOND;

const CHAIN: &str = "[chain]\nfunctions = [\"flow_monitor\", \"nids\"]\ninput = \"times.pcap\"\n\
    [flow_monitor]\ncsv = \"flows.csv\"\nipfix = \"flows.ipfix\"\n\
    [nids]\nrules = \"rules\"\nfast_log = \"fast.log\"\n";
/// Every second packet of a host within a minute.
const RULES: &str = "alert udp any any -> any 53 (msg:\"packet\"; content:\"...\"; sid:1;)\n\
    alert udp any any -> any 53 (msg:\"often\"; content:\"...\"; threshold:type limit, track \
    by_src, count 1, seconds 60; sid:2;)\n";

/// A datagram from this port.
fn from(port: u16, at_ns: u64) -> Record {
    Record::new(at_ns, udp(20, |ip| ip[20..22].copy_from_slice(&port.to_be_bytes())))
}

/// Two datagrams a second of two flows, for 20 seconds.
fn talk(start: u64) -> Vec<Record> {
    (0..40).map(|n| from(1 + n as u16 % 2, start + n * SECOND / 2)).collect()
}

struct Reported {
    /// First, last and source port of each record, with its packets and why it ended; sorted.
    records: Vec<(String, String, u16, u64, String)>,
    /// The times of the alerts of rule 1, and how many rule 2 had.
    alerts: (Vec<String>, usize),
    fast: String,
    chain: Value,
    stderr: String,
}

fn run(demo: &Demo, records: &[Record], more: &str) -> Reported {
    demo.write("times.toml", CHAIN);
    demo.write("rules", RULES);
    demo.write("times.pcap", capture(1, records));
    let ended =
        demo.warpline(&format!("run times.toml --stats s.json --alerts a.json {more}")).expect(0);
    let csv = String::from_utf8(demo.read("flows.csv")).unwrap();
    let record = |line: &str| {
        let part: Vec<&str> = line.split(',').collect();
        let number = |at: usize| part[at].parse::<u64>().unwrap();
        (part[0].to_owned(), part[1].to_owned(), number(5) as u16, number(9), part[17].to_owned())
    };
    let mut records: Vec<_> = csv.lines().skip(1).map(record).collect();
    records.sort();
    let eve = String::from_utf8(demo.read("a.json")).unwrap();
    let eve: Vec<Value> = eve.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |sid: u64| eve.iter().filter(move |alert| alert["alert"]["signature_id"] == sid);
    let times = of(1).map(|alert| alert["timestamp"].as_str().unwrap().to_owned()).collect();
    let stats = stats::read(demo, "s.json");
    Reported {
        records,
        alerts: (times, of(2).count()),
        fast: String::from_utf8(demo.read("fast.log")).unwrap(),
        chain: stats["chains"][0].clone(),
        stderr: ended.stderr,
    }
}

fn seconds(nanos: u64) -> String {
    format!("{}.{:06}", nanos / SECOND, nanos % SECOND / 1000)
}

#[test]
fn a_packet_of_another_age_pushes_nobody() {
    let demo = Demo::new();
    let usual = run(&demo, &talk(START), "");
    assert_eq!(usual.records.len(), 2);
    assert_eq!(usual.alerts.1, 1);
    assert!(!usual.stderr.contains("time-stray"), "{}", usual.stderr);
    for (far, is_own_flow) in [(FAR, true), (0, true), (FAR, false), (START + 3600 * SECOND, false)]
    {
        for at in [1, 20, 39] {
            let mut records = talk(START);
            records.insert(at, from(if is_own_flow { 9 } else { 1 }, far));
            let reported = run(&demo, &records, "");
            assert_eq!(whole(&reported.chain["time"]["strays"]), 1, "{far} at {at}");
            assert!(reported.stderr.contains("time-stray"), "{}", reported.stderr);
            // It is in a record of its own, at its own time.
            let own = seconds(far);
            let (strays, others): (Vec<_>, Vec<_>) =
                reported.records.iter().partition(|r| r.0 == own);
            assert_eq!(strays.len(), 1, "{:?}", reported.records);
            assert_eq!((&strays[0].1, strays[0].3), (&own, 1));
            let ends = START + 20 * SECOND;
            assert!(
                others.iter().all(|r| r.0 >= seconds(START) && r.1 < seconds(ends)),
                "{others:?}"
            );
            assert_eq!(others.iter().map(|r| r.3).sum::<u64>(), 40);
            if is_own_flow {
                assert_eq!(others, usual.records.iter().collect::<Vec<_>>(), "as without it");
            }
            assert_eq!(
                (reported.alerts.0.len(), reported.alerts.1),
                (41, 1),
                "the minute is not over"
            );
            let odd =
                reported.alerts.0.iter().filter(|time| !usual.alerts.0.contains(time)).count();
            assert_eq!(odd, 1, "{:?}", reported.alerts.0);
            assert_eq!(reported.fast.lines().count(), 42);
            let again = run(&demo, &records, "--lanes 3 --set chain.batch_packets=7");
            assert_eq!(
                (again.records, again.alerts, again.fast),
                (reported.records, reported.alerts, reported.fast)
            );
        }
    }
}

#[test]
fn ipfix_has_own_times_too() {
    let demo = Demo::new();
    let mut records = talk(START);
    records.insert(5, from(9, FAR));
    run(&demo, &records, "");
    if Command::new("tshark").arg("-v").output().is_err() {
        return;
    }
    let fields = ["-T", "fields", "-e", "cflow.abstimeend"];
    let text =
        output_of(Command::new("tshark").arg("-r").arg(demo.path("flows.ipfix")).args(fields));
    let far = text.matches("2106").count();
    assert_eq!((far, text.matches("2025").count()), (1, 2), "{text}");
}

#[test]
fn real_gaps_age_what_is_kept_and_clocks_set_back_do_not_stop_it() {
    let demo = Demo::new();
    let hour = 3600 * SECOND;
    // A gap of an hour, then two lone packets after as long a gap each.
    let mut records = talk(START);
    records.extend(talk(START + hour));
    records.extend([from(1, START + 2 * hour), from(1, START + 3 * hour)]);
    let reported = run(&demo, &records, "");
    assert_eq!(reported.records.len(), 6, "{:?}", reported.records);
    assert_eq!(reported.alerts.1, 4);
    assert_eq!(
        (whole(&reported.chain["time"]["gaps"]), whole(&reported.chain["time"]["strays"])),
        (3, 0)
    );
    // Two captures of the same period, one after the other; the first packet of all has no time.
    let mut records = vec![from(3, 0)];
    records.extend(
        [talk(START), talk(START + 100 * SECOND), talk(START), talk(START + 100 * SECOND)].concat(),
    );
    let reported = run(&demo, &records, "");
    assert_eq!(reported.alerts.1, 4, "the clock continues after the step back");
    assert_eq!(whole(&reported.chain["time"]["steps_back"]), 1);
    assert!(reported.stderr.contains("time-back"), "{}", reported.stderr);
    let spans: Vec<(&str, u64)> = reported.records.iter().map(|r| (r.0.as_str(), r.3)).collect();
    assert_eq!(reported.records.len(), 9, "{spans:?}");
    for at in [0, 0, 100, 100] {
        assert!(spans.contains(&(seconds(START + at * SECOND).as_str(), 20)), "{spans:?}");
    }
    let again = run(&demo, &records, "--lanes 2 --set chain.batch_packets=1");
    assert_eq!((again.records, again.alerts), (reported.records, reported.alerts));
}
