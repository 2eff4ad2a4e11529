//! Decides whether a rule matches.
//!
//! A [`Detector`] has the compiled rules. A packet is a [`Subject`], with facts about its flow
//! ([`FlowFacts`], [`FlowVars`]) and its hosts ([`XBits`]). The decision has two parts:
//! [`Detector::header_matches`] for all tests except the payload, and [`Detector::payload_matches`]
//! for the payload of a packet or a part of a stream; [`reach()`] returns which. A match then
//! changes flow and hosts by [`Detector::apply`].
//!
//! Every option has the meaning of Suricata's manual, or of Suricata 8 if the manual is silent.
//! There are two differences. If a rule has several contents, Suricata gives up some combinations
//! early; here all are tried. And `flags:!S` and the like also match packets without any of SYN,
//! FIN and RST, which Suricata never tests.
//!
//! Only [`Detector::new`], [`Scratch::new`] and [`XBits::new`] allocate, and an expression that
//! does not run as machine code, until its memory is as large as it needs.

use warpline_native::regex;
use warpline_packet::Instant;

use self::header::HeaderTest;
use warpline_nids_rules::{Effect, FlowTests, PacketTest, Rule};

mod chain;
mod compile;
mod facts;
mod flow_test;
mod flow_vars;
mod gate;
mod header;
mod nets;
mod numbers;
mod packet_test;
mod reach;
mod searcher;
mod subject;
mod xbits;

#[cfg(test)]
mod tests;

pub use chain::{Buffer, Scratch};
pub use facts::FlowFacts;
pub use flow_vars::{BITS_MAX, FlowVars, INTS_MAX};
pub use gate::{Gate, Passer};
pub use nets::Nets;
pub use reach::{Reach, order, reach};
pub(super) use searcher::contains;
pub use subject::Subject;
pub use xbits::XBits;

/// How much work one rule may be on one payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Tests that are run, over all places that they are tried at. For each there are 256 bytes
    /// that searches may go over, besides the whole payload once for each test of the rule.
    pub steps: u32,
    /// Of each search of an expression.
    pub regex: regex::Limits,
}

/// Those that Suricata has by default.
impl Default for Limits {
    fn default() -> Self {
        Self { steps: 3000, regex: regex::Limits::default() }
    }
}

/// A rule that can't be decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Its number among those given.
    pub rule: usize,
    /// The fault, in a sentence.
    pub message: String,
}

/// Compiled rules, by their number among those given. A rule that is missing or broken never
/// matches.
#[derive(Debug)]
pub struct Detector {
    rules: Vec<Option<Compiled>>,
    steps_max: u32,
}

#[derive(Debug)]
struct Compiled {
    header: HeaderTest,
    packet: Box<[PacketTest]>,
    flow: FlowTests,
    payload: chain::Chain,
    effects: Box<[Effect]>,
}

impl Detector {
    /// Compiles the rules. Also returns those that cannot be compiled.
    pub fn new(rules: &[Rule], limits: Limits) -> (Self, Vec<Broken>) {
        let mut broken = Vec::new();
        let mut compile = |(number, rule): (usize, &Rule)| match Compiled::new(rule, limits) {
            Ok(compiled) => Some(compiled),
            Err(message) => {
                broken.push(Broken { rule: number, message });
                None
            }
        };
        let rules = rules.iter().enumerate().map(&mut compile).collect();
        (Self { rules, steps_max: limits.steps }, broken)
    }

    /// Whether the packet, its flow and its hosts satisfy the rule. `vars` are those of the flow;
    /// they are unused if `facts` has no flow.
    pub fn header_matches(
        &self,
        rule: usize,
        subject: &Subject<'_>,
        facts: &FlowFacts,
        vars: &FlowVars,
        xbits: &XBits,
        now: Instant,
    ) -> bool {
        let Some(rule) = self.rule(rule) else { return false };
        let known = flow_test::Known { subject, facts, vars, xbits, now };
        rule.header.matches(subject)
            && rule.packet.iter().all(|test| packet_test::holds(test, subject))
            && flow_test::holds(&rule.flow, &known)
    }

    /// Whether the payload satisfies the rule. A rule without payload tests accepts any payload;
    /// all others need at least one byte.
    pub fn payload_matches(&self, rule: usize, buffer: Buffer<'_>, scratch: &mut Scratch) -> bool {
        let Some(rule) = self.rule(rule) else { return false };
        chain::holds(&rule.payload, buffer, self.steps_max, scratch)
    }

    /// Changes flow and hosts as a match of the rule does. `vars` is `None` where the packet has no
    /// flow.
    pub fn apply(
        &self,
        rule: usize,
        subject: &Subject<'_>,
        vars: Option<&mut FlowVars>,
        xbits: &mut XBits,
        now: Instant,
    ) {
        if let Some(rule) = self.rule(rule) {
            flow_test::apply(&rule.effects, subject, vars, xbits, now);
        }
    }

    fn rule(&self, rule: usize) -> Option<&Compiled> {
        self.rules.get(rule)?.as_ref()
    }
}

impl Compiled {
    fn new(rule: &Rule, limits: Limits) -> Result<Self, String> {
        Ok(Self {
            header: HeaderTest::new(&rule.header),
            packet: rule.packet.clone().into(),
            flow: rule.flow.clone(),
            payload: compile::compile(&rule.payload, limits.regex)?,
            effects: rule.effects.clone().into(),
        })
    }
}
