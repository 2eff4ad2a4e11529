//! Sensors of `nids` that packets go through, two with every rule set, and what must hold of both.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use warpline_nf::{Outputs, Report};
use warpline_nids::DEFINITION;
use warpline_outputs::{Output, Registry};
use warpline_packet::{Instant, LinkType, Verdict};
use warpline_verify::{Harness, Input};

use crate::frames::{self, ANSWER, FLUSH, QUOTE, TICK};
use crate::functions::{check_made, try_build};

/// How many rule sets of ours there are.
pub const RULE_SETS: usize = SETS.len() + 1;

/// More of the function's table, and rules.
const SETS: &[(&str, &str)] = &[
    ("midstream = true", STREAMS),
    ("midstream = true\noverlap = 'last'", STREAMS),
    ("checksum = 'check'\noverlap = 'linux'", STREAMS),
    ("midstream = true\noverlap = 'first'", ACTIONS),
    ("payload = 0", ACTIONS),
    ("midstream = true", VARIABLES),
    ("midstream = true", HOSTS),
    ("midstream = true", HEADERS),
];

const STREAMS: &str = r#"
alert tcp any any -> any any (content:"|00|"; content:!"ab"; within:9; sid:1;)
alert tcp-stream any any -> any any (content:"ab"; content:"cd"; distance:1; within:20; sid:2;)
alert tcp-pkt any any -> any any (content:"a"; nocase; depth:3; sid:3;)
alert tcp any any <> any 80 (content:"|01 02|"; pcre:"/[a-z]{2,}/R"; sid:4;)
alert udp any any -> any any (byte_test:1,>,3,0; byte_jump:1,1,relative; isdataat:2,relative; \
    sid:5;)
alert tcp any any -> any any (byte_extract:1,0,n; content:"|01|"; distance:n; \
    byte_math:bytes 1, offset 0, oper +, rvalue 1, result m; sid:6;)
alert tcp any any -> any any (flow:established,to_server; content:!"x"; dsize:>2; sid:7;)
alert tcp any any -> any any (flow:to_client; content:"|00 00 00|"; startswith; sid:8;)
alert ip any any -> any any (pcre:"/(.)\1\1/s"; sid:9;)
"#;

const ACTIONS: &str = r#"
pass tcp any any -> any any (content:"pass"; sid:1;)
drop tcp any any -> any any (content:"|00 00|"; sid:2;)
drop udp any any -> any any (content:"|01|"; sid:3;)
reject tcp any any -> any any (content:"a"; sid:4;)
rejectboth udp any any -> any any (content:"|02|"; sid:5;)
rejectdst icmp any any -> any any (itype:8; sid:6;)
drop ip any any -> any any (fragbits:M; content:"b"; sid:7;)
drop ip 10.0.0.3 any -> any any (sid:8;)
drop tcp-pkt any any -> any any (content:"|03|"; dsize:<20; sid:9;)
"#;

const VARIABLES: &str = r#"
alert ip any any -> any any (content:"a"; flowbits:set,a; sid:1;)
alert ip any any -> any any (flowbits:isset,a; flowbits:toggle,b; flowint:n,+,1; sid:2;)
alert ip any any -> any any (flowbits:isset,a|b; flowint:n,>,2; flowbits:unset,a; sid:3;)
alert ip any any -> any any (xbits:set,x,track ip_pair,expire 9; content:"|00|"; sid:4;)
drop ip any any -> any any (xbits:isset,x,track ip_pair; flowint:n,isset; flowint:n,=,0; sid:5;)
alert tcp any any -> any any (stream_size:both,>,1; flowbits:isnotset,b; sid:6;)
alert ip any any -> any any (detection_filter:track by_both,count 2,seconds 9; content:"b"; sid:7;)
alert ip any any -> any any (threshold:type both,track by_flow,count 2,seconds 9; sid:8;)
"#;

const HOSTS: &str = r#"
alert ip any any -> any any (xbits:set,x,track ip_src,expire 9; content:"|00|"; sid:1;)
drop ip any any -> any any (xbits:isset,x,track ip_dst; xbits:unset,x,track ip_dst; sid:2;)
drop tcp any any -> any any (threshold:type limit,track by_src,count 1,seconds 9; content:"a"; \
    sid:3;)
reject udp any any -> any any (detection_filter:track by_dst,count 1,seconds 9; sid:4;)
alert tcp any any -> any any (threshold:type threshold,track by_rule,count 3,seconds 60; sid:5;)
"#;

const HEADERS: &str = r#"
alert pkthdr any any -> any any (sid:1;)
alert ip any any -> any any (flags:S; ttl:>3; sid:2;)
alert ip any any -> any any (fragbits:M; dsize:1<>9; sid:3;)
alert ip any any -> any any (ipopts:any; sid:4;)
alert ip any any -> any any (sameip; sid:5;)
alert icmp any any -> any any (itype:8; icode:0; icmp_seq:1; sid:6;)
alert tcp any any -> any any (window:1; sid:7;)
alert tcp any any -> any any (ack:0; seq:0; tcp.mss:>5; sid:8;)
alert ip any any -> any any (ip_proto:17; fragoffset:>0; id:1; tos:0; sid:9;)
alert ipv6 any any -> any any (content:"|00|"; sid:10;)
alert ip [10.0.0.0/8,!10.0.0.2] !80 -> any [1:1024,!53] (content:"|00|"; sid:11;)
alert ip any any -> any any (http.uri; content:"a"; sid:12;)
"#;

/// So many rules about each of a few ports that these have groups of their own.
fn of_ports() -> String {
    let rule = |number: usize| {
        let (port, protocol) = ([80, 443, 53, 8080][number % 4], ["tcp", "udp"][number / 4 % 2]);
        let content = number % 256;
        format!(
            "alert {protocol} any any <> any {port} (content:\"|{content:02x}|\"; sid:{};)\n",
            number + 1
        )
    };
    (0..200).map(rule).collect()
}

/// Two sensors with the same rules, which look for literals in different ways.
pub struct Pair([Sensor; 2]);

impl Pair {
    /// With a rule set of ours.
    pub fn of_rule_set(number: usize) -> Self {
        match SETS.get(number) {
            Some((table, rules)) => Self::new(table, rules),
            None => Self::new("midstream = true", &of_ports()),
        }
    }

    /// With `rules`; `table` is more of the function's table.
    pub fn new(table: &str, rules: &str) -> Self {
        Self(["dense", "compact"].map(|matcher| Sensor::new(table, rules, matcher)))
    }

    /// Sends the packets that `data` has through both, which know of nothing before.
    pub fn run(&mut self, data: &[u8]) {
        let [dense, compact] = self.0.each_mut().map(|sensor| sensor.run(data));
        assert!(dense == compact, "alerts hang on the matcher");
        for line in dense.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            serde_json::from_slice::<serde_json::Value>(line).expect("an alert that is JSON");
        }
    }
}

struct Sensor {
    harness: Harness,
    outputs: Outputs,
    written: Shared,
    /// The last packet of this input that was sent on.
    last: Option<(Vec<u8>, LinkType)>,
}

impl Sensor {
    fn new(more: &str, rules: &str, matcher: &str) -> Self {
        let payload = if more.contains("payload") { "" } else { "payload = 100\n" };
        let table = format!(
            "rules = 'r'\nsnort_rules = 'r'\nmatcher = '{matcher}'\nflows = 128\nstream_memory_mib \
             = 1\nwindow_kib = 2\n\
             datagrams = 64\nxbits = 64\nthresholds = 64\n{payload}{more}\n"
        );
        let build = |rules: &str| try_build(&DEFINITION, &table, &[("r", rules)]).expect("TOML");
        // A file without a rule is refused: then one that matches little.
        let built =
            build(rules).or_else(|_| build("alert ip any any -> any any (dsize:>1500; sid:1;)"));
        let (function, words) = built.unwrap_or_else(|mistakes| panic!("{mistakes}"));
        assert!(!function.about().lines.is_empty());
        let written = Shared::default();
        let alerts = Output::new("alerts", Box::new(written.clone()));
        let outputs = Outputs::of_run(Some(Arc::new(alerts)), Registry::default());
        Self { harness: Harness::small(function, words), outputs, written, last: None }
    }

    /// Sends packets through; gives the alerts.
    fn run(&mut self, data: &[u8]) -> Vec<u8> {
        self.harness.restart();
        let opened = self.harness.function().report(&self.outputs);
        let mut report: Box<dyn Report> = opened.expect("nothing to open").expect("a report");
        let mut waiting: Vec<Input> = Vec::new();
        self.last = None;
        for cut in frames::cut(data, 1) {
            if cut.has(FLUSH | TICK | ANSWER | QUOTE) {
                self.send(&mut waiting);
            }
            if cut.has(TICK) {
                assert!(self.harness.tick(Instant::from_nanos(cut.nanos)).is_empty());
            }
            waiting.push(cut.input(self.last.as_ref().map(|(bytes, link)| (&bytes[..], *link))));
        }
        self.send(&mut waiting);
        self.harness.close(&mut *report).expect("a place that takes all");
        self.written.take()
    }

    fn send(&mut self, waiting: &mut Vec<Input>) {
        let inputs = std::mem::take(waiting);
        if inputs.is_empty() {
            return;
        }
        let (made, own): (Vec<_>, Vec<_>) =
            self.harness.process(&inputs).into_iter().partition(|outcome| outcome.made);
        assert_eq!(own.len(), inputs.len(), "every packet has one outcome");
        for (input, outcome) in inputs.iter().zip(&own) {
            assert_eq!(input.bytes, outcome.bytes, "it looks only");
            match outcome.verdict {
                Verdict::Dropped => assert!(usize::from(outcome.reason) < DEFINITION.drops.len()),
                verdict => {
                    assert_eq!(verdict, Verdict::Forward);
                    self.last = Some((outcome.bytes.clone(), input.link));
                }
            }
        }
        let first = own[0].ingress;
        for outcome in &made {
            check_made(&inputs[(outcome.ingress - first) as usize], outcome);
        }
    }
}

/// Written output that two owners share.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
