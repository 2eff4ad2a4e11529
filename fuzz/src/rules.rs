//! Files of rules and the sets made of them, against a look at every rule.

use core::ops::RangeInclusive;
use std::net::IpAddr;

use warpline_firewall::{Policy, RuleSet};
use warpline_nf::Ports;
use warpline_packet::Prefix;
use warpline_rule_files::kinds::{NO_PORT, kind_of_message, kind_of_segment};
use warpline_rule_files::{Action, EndMatch, Imported, Rule, RuleFile};
use warpline_tables::classifier::SearchKey;

use crate::in_prefix;
use crate::reported::check_reported;

/// Checks a file of rules. A small set is built and classifies packets at its own bounds; a scan of
/// every rule must agree.
pub fn check_rules(file: &RuleFile, text: &str) {
    let lines = text.lines().count();
    for mistake in file.mistakes.iter().chain(file.unsupported.iter()) {
        assert!(mistake.line >= 1 && mistake.line <= lines);
    }
    check_reported(file.mistakes.iter().chain(file.unsupported.iter()), text);
    assert!(file.rules.len() + file.mistakes.count() + file.unsupported.count() <= lines + 1);
    if file.rules.is_empty() || file.rules.len() > 24 {
        return;
    }
    let policy = Policy {
        default: Action::Drop,
        non_ip: Action::Drop,
        drop_fragments: false,
        tracked: true,
    };
    let Ok(set) = RuleSet::build(&file.rules, policy) else { return };
    for (rule, other) in file.rules.iter().zip(file.rules.iter().rev()) {
        for key in keys(rule, other) {
            check_v4(&set, &file.rules, key);
        }
    }
}

/// Source, destination, their ports and the protocol of a packet of IPv4.
type Key = (u32, u32, u16, u16, u8);

/// Packets at and next to the bounds of a rule, with the ports of another.
fn keys(rule: &Rule, other: &Rule) -> Vec<Key> {
    let address = |side: &EndMatch| match side.prefixes.first().map(|prefix| prefix.address()) {
        Some(IpAddr::V4(address)) => address.to_bits(),
        _ => 0x0a00_0001,
    };
    let port = |side: &EndMatch| side.ports.first().map_or(80, |ports| *ports.end());
    let protocol = rule.protocols.first().copied().unwrap_or(17);
    let (src, dst) = (address(&rule.src), address(&rule.dst));
    let (from, to) = (port(&rule.src), port(&rule.dst));
    vec![
        (src, dst, from, to, protocol),
        (src.wrapping_sub(1), dst, from, port(&other.dst), protocol),
        (src, dst.wrapping_add(1), from.wrapping_add(1), to, 17),
        (src, address(&other.dst), from, to.wrapping_add(1), 6),
    ]
}

fn check_v4(set: &RuleSet, rules: &[Rule], key: Key) {
    let (src, dst, src_port, dst_port, protocol) = key;
    let ported = matches!(protocol, 6 | 17);
    let port = |port: u16| if ported { u32::from(port) } else { NO_PORT };
    let kind = match protocol {
        6 => kind_of_segment(0),
        1 => kind_of_message(0, 0),
        other => other.into(),
    };
    let search = SearchKey { src, dst, src_port: port(src_port), dst_port: port(dst_port), kind };
    let matches = |rule: &&Rule| {
        let side = |side: &EndMatch, address: u32, port: u16| {
            let within = |p: &Prefix| in_prefix(IpAddr::V4(address.into()), p.address(), p.len());
            let ports = &side.ports;
            (side.prefixes.is_empty() || side.prefixes.iter().any(within))
                && (ports.is_empty() || ported && ports.iter().any(|range| range.contains(&port)))
        };
        !rule.established
            && (rule.protocols.is_empty() || rule.protocols.contains(&protocol))
            && rule.message.as_ref().is_none_or(|message| {
                let zero = |ranges: &[RangeInclusive<u8>]| ranges.iter().any(|r| r.contains(&0));
                protocol == 1
                    && zero(&message.types)
                    && (message.codes.is_empty() || zero(&message.codes))
            })
            && rule.flags.is_none_or(|flags| protocol == 6 && flags.value == 0)
            && side(&rule.src, src, src_port)
            && side(&rule.dst, dst, dst_port)
    };
    // ICMPv6 in IPv4 is nothing that a rule can name alone.
    if protocol == 58 {
        return;
    }
    let expected = rules.iter().find(matches).map(|rule| rule.action);
    assert_eq!(set.first_v4(&search).map(|(_, action)| action), expected, "{key:?}");
}

/// Checks rules that were made from another firewall's.
pub fn check_imported(found: &Imported, versions: &[u8], text: &str) {
    let reported =
        found.mistakes.iter().chain(found.unsupported.iter()).chain(found.notices.iter());
    check_reported(reported, text);
    assert!(found.rules.is_empty() || found.mistakes.is_empty());
    assert!(found.rules.iter().all(|rule| versions.contains(&rule.region.version())));
    if found.rules.len() > 64 {
        return;
    }
    let policy = Policy {
        default: Action::Drop,
        non_ip: Action::Drop,
        drop_fragments: false,
        tracked: true,
    };
    let Ok(set) = RuleSet::of_regions(&found.rules, policy, &Ports::default(), None) else {
        return;
    };
    let kinds = [17, kind_of_segment(2), kind_of_message(8, 0), 47];
    for (kind, port) in kinds.into_iter().zip([53, 80, NO_PORT, NO_PORT]) {
        let search =
            SearchKey { src: 0x0a00_0001, dst: 0xc000_0201, src_port: port, dst_port: port, kind };
        if let Some((place, action)) = set.first_v4(&search) {
            assert_eq!(found.rules[place as usize].action, action);
            assert_eq!(found.rules[place as usize].region.version(), 4);
        }
    }
}
