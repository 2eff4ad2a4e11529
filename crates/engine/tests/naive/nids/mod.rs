//! Intrusion detection packet by packet, from its manual and Suricata's: every rule is asked of
//! every packet, one after the other. Rules on streams, flows and fragments are not drawn.

use std::net::IpAddr;

use crate::function::{Counters, Fate, Function};
use crate::wire::{Frame, TCP, UDP, View, view};

mod content;
pub(crate) mod draw;
mod reject;
mod rule;
mod subject;
mod text;

use reject::{Notices, notices};
pub(crate) use rule::Rule;
use rule::{Action, Whom};
use subject::Subject;

/// Alerts of a packet.
const ALERTS_MAX: usize = 15;
/// Noted matches of a packet that raise no alert.
const SILENT_MAX: usize = 17;

/// Counters that depend on the function's implementation, or that count flows, streams and
/// fragments.
const UNKNOWN: [&str; 48] = [
    "rules-asked",
    "candidates",
    "rescans",
    "waiting-full",
    "flows",
    "flows-evicted",
    "flows-evicted-closed",
    "flows-evicted-unanswered",
    "flows-evicted-half-open",
    "flows-evicted-answered",
    "flows-evicted-established",
    "flows-evicted-with-data",
    "flows-expired",
    "flows-reused",
    "packets-without-flow",
    "streams-picked-up",
    "segments-untracked",
    "segments-held",
    "segments-overlapping",
    "segments-old",
    "segments-changed-delivered",
    "segments-taken-back",
    "segments-mixed",
    "keep-alives",
    "refused-checksum",
    "refused-handshake",
    "refused-window",
    "refused-acknowledgement",
    "refused-reset",
    "refused-time",
    "refused-signature",
    "refused-closed",
    "refused-urgent",
    "urgent-bytes",
    "gaps-acknowledged",
    "gaps-no-room",
    "segments-late",
    "streams-caught-up",
    "gap-bytes",
    "stream-memory-exhausted",
    "windows-cut",
    "stream-memory-peak",
    "fragments",
    "datagrams",
    "fragments-overlap",
    "fragments-refused",
    "datagrams-evicted",
    "datagrams-expired",
];

/// An alert, in the words of the file that it is written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Alert {
    /// The packet's number in the input, from 1.
    pub(crate) packet: u64,
    pub(crate) sid: u64,
    pub(crate) rev: u64,
    pub(crate) severity: u64,
    pub(crate) action: String,
    pub(crate) ends: [(IpAddr, Option<u64>); 2],
    pub(crate) protocol: String,
}

/// The function.
pub(crate) struct Nids {
    /// In the order in which they are asked.
    rules: Vec<Rule>,
    alerts: Vec<Alert>,
    inspected: u64,
    not_ip: u64,
    malformed: u64,
    passed: u64,
    alerts_over: u64,
    matches_over: u64,
    silent: u64,
    resets: u64,
    unreachables: u64,
    withheld: u64,
}

impl Nids {
    /// `pass` before `drop` before `reject` before `alert`, then by priority, then as written.
    pub(crate) fn new(mut rules: Vec<Rule>) -> Self {
        rules.sort_by_key(|rule| (rule.action, rule.rank()));
        Self {
            rules,
            alerts: Vec::new(),
            inspected: 0,
            not_ip: 0,
            malformed: 0,
            passed: 0,
            alerts_over: 0,
            matches_over: 0,
            silent: 0,
            resets: 0,
            unreachables: 0,
            withheld: 0,
        }
    }

    /// The fate of a packet, and whom its rejection is reported to.
    fn ask(&mut self, frame: &Frame, subject: &Subject<'_>) -> (Fate, Option<Whom>) {
        let (mut fate, mut whom) = (Fate::Forward, None);
        let (mut reported, mut silent) = (0, 0);
        for rule in self.rules.iter().filter(|rule| rule.matches(subject)) {
            if rule.action == Action::Reject && fate == Fate::Forward {
                whom = Some(rule.whom);
            }
            if matches!(rule.action, Action::Drop | Action::Reject) {
                fate = Fate::Drop("rule");
            }
            if rule.is_silent || rule.action == Action::Pass {
                silent += 1;
                *(if silent > SILENT_MAX { &mut self.matches_over } else { &mut self.silent }) += 1;
            } else if reported < ALERTS_MAX {
                reported += 1;
                self.alerts.push(alert(rule, frame, subject, fate));
            } else {
                self.alerts_over += 1;
            }
            if rule.action == Action::Pass {
                self.passed += 1;
                break;
            }
        }
        (fate, whom)
    }

    /// Makes the notices of a rejected packet.
    fn tell(&mut self, frame: &Frame, view: &View, whom: Whom, made: &mut Vec<Frame>) {
        let Notices { reset_back, unreachable, reset_onward } = notices(frame, view, whom);
        // An answer would show what a function hides.
        let (reset_back, unreachable) = match frame.closed {
            true => (None, None),
            false => (reset_back, unreachable),
        };
        self.resets += reset_back.iter().chain(&reset_onward).count() as u64;
        self.unreachables += u64::from(unreachable.is_some());
        let all = [reset_back, unreachable, reset_onward];
        self.withheld += u64::from(all.iter().all(Option::is_none));
        made.extend(all.into_iter().flatten());
    }
}

fn alert(rule: &Rule, frame: &Frame, subject: &Subject<'_>, fate: Fate) -> Alert {
    let has_ports = [TCP, UDP, 132].contains(&subject.protocol);
    // An unknown port is written as 0.
    let port = |port: Option<u16>| has_ports.then(|| port.unwrap_or(0).into());
    let name = match subject.protocol {
        TCP => "TCP".to_owned(),
        UDP => "UDP".to_owned(),
        1 => "ICMP".to_owned(),
        58 => "IPv6-ICMP".to_owned(),
        47 => "GRE".to_owned(),
        50 => "ESP".to_owned(),
        // Names of others are for readers alone.
        _ => String::new(),
    };
    Alert {
        packet: frame.number as u64 + 1,
        sid: rule.sid.into(),
        rev: rule.rev.into(),
        severity: rule.rank().into(),
        action: if fate == Fate::Forward { "allowed" } else { "blocked" }.to_owned(),
        ends: subject.ends().map(|(address, own)| (address, port(own))),
        protocol: name,
    }
}

impl Function for Nids {
    fn take(&mut self, frame: &mut Frame, _: Option<&[u8]>, made: &mut Vec<Frame>) -> Fate {
        let view = view(frame);
        if view.version == 0 && view.lie.is_none() {
            self.not_ip += 1;
            return Fate::Forward;
        }
        self.inspected += 1;
        self.malformed += u64::from(view.lie.is_some());
        let Some(subject) = Subject::of(frame, &view) else { return Fate::Forward };
        let (fate, whom) = self.ask(frame, &subject);
        whom.iter().for_each(|&whom| self.tell(frame, &view, whom, made));
        fate
    }

    fn counters(&self, _: u64) -> Counters {
        let blocked = self.alerts.iter().filter(|alert| alert.action == "blocked");
        let alerts = self.alerts.len() as u64;
        let exact = [
            ("inspected", self.inspected),
            ("not-ip", self.not_ip),
            ("malformed", self.malformed),
            ("passed-by-rule", self.passed),
            ("alerts-over", self.alerts_over),
            ("matches-over", self.matches_over),
            ("matches", alerts + self.silent),
            ("alerts", alerts),
            ("alerts-blocked", blocked.count() as u64),
            ("alerts-suppressed", self.silent),
            ("thresholds-evicted", 0),
            ("notes-unknown", 0),
            ("reject-resets", self.resets),
            ("reject-unreachables", self.unreachables),
            ("reject-rate-limited", 0),
            ("reject-withheld", self.withheld),
            ("step-limit", 0),
            ("regex-limit", 0),
            ("xbits-evicted", 0),
        ];
        let exact = exact.map(|(name, count)| (name, (count, count)));
        exact.into_iter().chain(UNKNOWN.map(|name| (name, (0, u64::MAX)))).collect()
    }

    fn alerts(&self) -> &[Alert] {
        &self.alerts
    }
}
