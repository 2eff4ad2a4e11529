//! Remarks about rules, for `check`.

use warpline_nf::{Diagnostic, Diagnostics};
use warpline_packet::wire::ip_protocol;
use warpline_rewrite::addresses::{address_of, number};

use super::config::Config;
use super::fixed_keys::SourceRule;

/// Remarks that packets between inside addresses keep their source, if rules translate some.
pub(super) fn remarks(config: &Config) -> Diagnostics {
    let mut remarks = Diagnostics::default();
    if let Some((version, [src, dst])) = translated_inside(config) {
        let [src, dst] = [src, dst].map(|address| address_of(version, address));
        remarks.push(Diagnostic::bare(format!(
            "nat: a packet between inside addresses, such as {src} > {dst}, keeps its source \
             whatever the rules say; if {dst} is elsewhere, narrow the sources of the rules"
        )));
    }
    remarks
}

/// Two inside addresses between which rules translate, by the first and last addresses of all
/// prefixes.
fn translated_inside(config: &Config) -> Option<(u8, [u128; 2])> {
    let all = [SourceRule { translates: true, ..SourceRule::default() }];
    let rules = if config.rules.is_empty() { &all[..] } else { &config.rules };
    let listed = |rule: &SourceRule| {
        1 + rule.sources.len() + rule.destinations.len() + rule.not_destinations.len()
    };
    let asks_ports = rules.iter().any(|rule| !rule.came_by.is_all());
    let ports = if asks_ports { PORTS } else { 1 };
    let each = usize::from(ports) * rules.iter().map(listed).sum::<usize>();
    let mut left = (WORK_MAX / each).min(PAIRS_MAX);
    rules.iter().filter(|rule| rule.translates).find_map(|rule| {
        [4, 6].into_iter().find_map(|version| {
            let own = rule.sources.iter().map(|one| number(one.address()));
            let own = own.filter(|(other, _)| *other == version).map(|(_, address)| address);
            let firsts = config.key.inside.ranges(version).map(|(first, _)| first);
            let sources: Vec<_> = match rule.sources.is_empty() {
                true => firsts.collect(),
                false => own.collect(),
            };
            let pairs = sources.into_iter().flat_map(|src| {
                let ends = config.key.inside.ranges(version);
                ends.flat_map(move |(first, last)| [[src, last], [src, first]])
            });
            let mut pairs = pairs.filter(|[src, dst]| src != dst).take(left);
            let found = pairs.find(|pair| {
                left -= 1;
                is_translated(config, rule, (version, ports), *pair)
            });
            found.map(|own| (version, own))
        })
    })
}

/// Pairs of addresses that are tried, and prefixes that they are compared with.
const PAIRS_MAX: usize = 4096;
const WORK_MAX: usize = 1 << 24;
/// Ports of a chain.
const PORTS: u16 = 64;

/// Whether a packet that `rule` is for is translated, by any port of the chain.
fn is_translated(
    config: &Config,
    rule: &SourceRule,
    (version, ports): (u8, u16),
    [src, dst]: [u128; 2],
) -> bool {
    let protocol = rule.protocol.unwrap_or(ip_protocol::UDP);
    let mut ports = (0..ports).filter(|&port| rule.came_by.has(port));
    ports.any(|port| config.translates(version, src, dst, protocol, || port) == Some(true))
}
