//! The compiled rules, read-only and shared by all lanes; a reload replaces them.

use core::net::IpAddr;
use std::sync::Arc;

use warpline_packet::Seed;
use warpline_packet::wire::tcp;

use super::config::{Checksum, Config};
use super::detect::{self, Broken, Detector, Gate, Nets, Passer, Reach, reach};
use super::fast_pattern;
use super::groups::{Anchor, Groups, When};
use super::report::{Generation, Policy, Reported};
use warpline_nids_rules::{
    Action, Bits, BitsHow, Content, Effect, FlowTest, Names, PacketTest, PayloadTest, Protocol,
    Rule, ThresholdFile, Track, Value, XTrack,
};
use warpline_search::Pattern;
use warpline_streams::Offload;

/// See the module. Rules go by their number, in the order in which they are asked.
pub(super) struct Tables {
    pub(super) config: Config,
    pub(super) detector: Detector,
    pub(super) groups: Groups,
    pub(super) generation: Generation,
    pub(super) known: Box<[Known]>,
    pub(super) gates: Box<[Gate]>,
    pub(super) nets: Nets,
    /// Whether wrong checksums are believed, where the input's first packets decide that.
    pub(super) offload: Option<Arc<Offload>>,
    /// By what flows are named.
    pub(super) seed: Seed,
    /// The `sid` of the first rule that counts over more than the two ends of a flow, so that state
    /// can't be divided.
    pub(super) whole_sid: Option<u32>,
}

/// Properties of a rule besides those in `detect`.
pub(super) struct Known {
    pub(super) action: Action,
    pub(super) reach: Reach,
    /// The literal that it is found by.
    pub(super) literal: Option<Pattern>,
    /// Whether it never looks at TCP packets by themselves, those of no stream among them.
    pub(super) is_stream_only: bool,
    /// Whether what becomes of a packet hangs on a threshold.
    pub(super) decides: bool,
}

impl Tables {
    /// From rules in any order. Rules that cannot be compiled are left out. They are returned by
    /// their number among `rules` in the order afterwards. The error gives the reason for a missing
    /// matcher.
    pub(super) fn new(
        (config, seed): (Config, Seed),
        rules: &mut [Rule],
        names: Names,
        thresholds: &ThresholdFile,
    ) -> Result<(Self, Vec<Broken>), String> {
        rules.sort_by_cached_key(detect::order);
        let (detector, broken) = Detector::new(rules, detect::Limits::default());
        let reported = Reported::of(rules, thresholds);
        let mut anchors: Vec<Anchor> = rules.iter().map(anchor).collect();
        // A broken rule never matches, so no packet looks for it.
        let is_dead = |at: usize| broken.iter().any(|broken| broken.rule == at);
        let known: Box<[Known]> = rules
            .iter()
            .zip(&*reported)
            .zip(&mut anchors)
            .enumerate()
            .map(|(at, ((rule, reported), anchor))| {
                anchor.is_dead = is_dead(at);
                Known {
                    action: rule.action,
                    reach: reach(rule),
                    literal: anchor.pattern.clone(),
                    is_stream_only: rule.flow.stream == Some(true),
                    decides: reported.policy.decides_verdict(rule.action),
                }
            })
            .collect();
        let nets = Nets::of(rules);
        let gates = rules.iter().map(|rule| Gate::new(rule, &nets)).collect();
        let groups = Groups::new(rules, &anchors, config.matcher, config.cache.as_ref())?;
        let mut of_rules = rules.iter().zip(&*reported);
        let whole = of_rules.find(|(rule, own)| is_whole(rule, &own.policy));
        let whole_sid = whole.map(|(rule, _)| rule.about.sid);
        let generation = Generation::new(reported, names);
        let offload = (config.checksum == Checksum::Auto).then(Arc::default);
        let tables = Self {
            config,
            detector,
            groups,
            generation,
            known,
            gates,
            nets,
            offload,
            seed,
            whole_sid,
        };
        Ok((tables, broken))
    }

    /// Whether the rule's gate lets the packet through; it must, if the rule matches.
    #[inline]
    pub(super) fn lets(&self, rule: u32, passer: Passer) -> bool {
        self.gates.get(rule as usize).is_some_and(|gate| gate.lets(passer))
    }

    /// Whether one of the rules may match a packet between these addresses, which are looked at
    /// last.
    #[inline]
    pub(super) fn lets_any(
        &self,
        rules: impl Iterator<Item = u32>,
        passer: Passer,
        addresses: impl FnOnce() -> [IpAddr; 2],
    ) -> bool {
        let mut rules = rules.filter(|&rule| self.lets(rule, passer)).peekable();
        rules.peek().is_some() && {
            let passer = passer.between(&self.nets, addresses());
            rules.any(|rule| self.lets(rule, passer))
        }
    }

    /// All rules, as they are reported.
    pub(super) fn reported(&self) -> &Arc<[Reported]> {
        self.generation.rules()
    }
}

/// How a rule is found.
fn anchor(rule: &Rule) -> Anchor {
    let reach = reach(rule);
    let chosen = fast_pattern::choose(rule).and_then(|chosen| {
        let PayloadTest::Content(content) = rule.payload.get(chosen.test)? else { return None };
        let bytes = content.bytes.get(chosen.part.clone())?;
        let pattern = Pattern { bytes: bytes.into(), is_nocase: content.is_nocase };
        let place = place(rule, reach, content).map(|place| place + chosen.part.start);
        Some((pattern, place))
    });
    let (pattern, place) = chosen.unzip();
    let when = match reach {
        Reach::IpOnly => When::Direction,
        _ if rule.packet.iter().any(needs_syn) => When::Syn,
        _ => When::Packet,
    };
    Anchor { pattern, place: place.flatten(), when, is_dead: false }
}

/// The only offset in a packet's payload at which `content` may be. `None` of rules that look at
/// streams, too, and of protocols whose payload begins elsewhere for rules than for the scan.
fn place(rule: &Rule, reach: Reach, content: &Content) -> Option<usize> {
    let is_scanned =
        matches!(rule.header.protocol, Protocol::Tcp | Protocol::TcpPacket | Protocol::Udp);
    if reach != Reach::Packet || !is_scanned {
        return None;
    }
    if content.starts {
        return Some(0);
    }
    let Some(Value::Number(depth)) = content.depth.filter(|_| !content.is_relative()) else {
        return None;
    };
    let offset = match content.offset {
        None => 0,
        Some(Value::Number(offset)) => usize::try_from(offset).ok()?,
        Some(_) => return None,
    };
    (depth == content.bytes.len() as i64).then_some(offset)
}

/// Whether only packets with SYN satisfy the test.
fn needs_syn(test: &PacketTest) -> bool {
    const SYN: u8 = tcp::flags::SYN as u8;
    let PacketTest::TcpFlags { bits: Bits { how, bits }, .. } = *test else { return false };
    match how {
        BitsHow::Exactly | BitsHow::All | BitsHow::AllAndMore => bits & SYN != 0,
        BitsHow::Any => bits == SYN,
        BitsHow::NotAll => false,
    }
}

/// Whether a rule needs state of hosts, or has its verdict hang on what several pairs of hosts did.
fn is_whole(rule: &Rule, policy: &Policy) -> bool {
    let of_host = |track: XTrack| track != XTrack::Pair;
    let asks = rule.flow.tests.iter().any(|test| match test {
        FlowTest::XBits { track, .. } => of_host(*track),
        _ => false,
    });
    let changes = rule.effects.iter().any(|effect| match effect {
        Effect::XBit { track, .. } => of_host(*track),
        _ => false,
    });
    let counts = policy.filter.is_some_and(|filter| {
        let track = filter.rate().track;
        matches!(track, Track::Source | Track::Destination | Track::Rule)
    });
    asks || changes || (counts && policy.decides_verdict(rule.action))
}

impl Known {
    /// How many of `bytes` to skip after the rule matched within the first `matched_len` of them:
    /// all of those, or up to where its literal begins if that straddles their end.
    pub(super) fn old_len(&self, bytes: &[u8], matched_len: usize) -> usize {
        let Some(Pattern { bytes: literal, is_nocase }) = &self.literal else { return matched_len };
        let from = (matched_len + 1).saturating_sub(literal.len());
        let to = (matched_len + literal.len()).saturating_sub(1).min(bytes.len());
        let is_literal = |at: &[u8]| match is_nocase {
            true => at.eq_ignore_ascii_case(literal),
            false => at == &**literal,
        };
        let around = bytes.get(from..to).unwrap_or(&[]);
        let begins = around.windows(literal.len().max(1)).position(is_literal);
        begins.map_or(matched_len, |at| from + at)
    }
}
