//! The statements of a rule of nftables, one after the other.

use serde_json::Value;

use crate::chains::Then;
use crate::nft_match::Conditions;
use crate::nft_value::{Fault, Sets, list, short};
use crate::rules::Action;

/// An action of a rule on the packets that match its conditions; a verdict map gives several.
pub(crate) struct MatchAction<'a> {
    pub(crate) conditions: Conditions,
    pub(crate) verdict: Verdict<'a>,
}

/// The destination of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict<'a> {
    Is(Then),
    /// To another chain of the table, and back or not.
    To {
        chain: &'a str,
        back: bool,
    },
}

/// The parsed statements of a rule.
#[derive(Default)]
pub(crate) struct NftRule<'a> {
    pub(crate) outcomes: Vec<MatchAction<'a>>,
    /// Statements that are not supported, each with its number from 1.
    pub(crate) unsupported: Vec<(usize, String)>,
    /// Statements that do nothing here.
    pub(crate) silent: Vec<(usize, &'static str)>,
    /// Whether an element of its verdict map leads to the statements after the map.
    continues: bool,
    /// Whether its verdict map has an element for all other values.
    catches_all: bool,
}

/// Statements that let a packet go on, and change or limit something.
const PASSING: [&str; 16] = [
    "limit",
    "quota",
    "mangle",
    "set",
    "map",
    "notrack",
    "dup",
    "flow",
    "last",
    "secmark",
    "meter",
    "ct count",
    "ct helper",
    "ct timeout",
    "ct expectation",
    "xt",
];

/// Reads the statements of a rule in a table (family, name). The error has the statement's number.
pub(crate) fn read<'a>(
    statements: &'a [Value],
    sets: &mut Sets<'a>,
    table: (&'a str, &'a str),
    tracked: bool,
) -> Result<NftRule<'a>, (usize, String)> {
    let (mut rule, mut conditions) = (NftRule::default(), Conditions::of_family(table.0));
    let mut is_opaque = false;
    for (number, statement) in (1..).zip(statements) {
        let Some((name, value)) = statement.as_object().and_then(|fields| fields.iter().next())
        else {
            return Err((number, "not a statement".into()));
        };
        let read = match &name[..] {
            "match" => conditions.add_match(value, sets, table, tracked),
            "counter" | "comment" => Ok(()),
            "log" => {
                rule.silent.push((number, "log"));
                Ok(())
            }
            "vmap" => verdict_map(&mut rule, &conditions, value, sets, table, tracked),
            _ if PASSING.contains(&&name[..]) => {
                // The extension that iptables left may decide itself.
                is_opaque |= name == "xt";
                Err(Fault::unsupported(short(name)))
            }
            _ => match verdict(name, value) {
                Some(verdict) => {
                    narrow_to_answer(&mut conditions, name, value);
                    rule.outcomes.push(MatchAction { conditions, verdict });
                    return Ok(rule);
                }
                None => Err(Fault::wrong(format!("not supported: {}", short(name)))),
            },
        };
        match read {
            Ok(()) => {}
            Err(Fault::Unsupported(what)) if name == "vmap" => {
                return Err((number, format!("not supported: {what}, in a verdict map")));
            }
            Err(Fault::Unsupported(what)) => rule.unsupported.push((number, what)),
            Err(Fault::Wrong(why)) => return Err((number, why)),
        }
        if name == "vmap" {
            return end_with_map(rule, statements, number);
        }
    }
    if is_opaque {
        return Err((statements.len(), "not supported: a target of iptables".into()));
    }
    Ok(rule)
}

/// Ends a rule with the verdict map of this number. A packet without an element leaves the rule, so
/// nothing after the map has an effect but for an element that says `continue`.
fn end_with_map<'a>(
    mut rule: NftRule<'a>,
    statements: &[Value],
    number: usize,
) -> Result<NftRule<'a>, (usize, String)> {
    if rule.catches_all {
        rule.unsupported.push((number, "`*` in a verdict map".into()));
    }
    let is_neutral = |statement: &Value| {
        let names = statement.as_object().map(|fields| fields.keys());
        names.is_some_and(|mut names| {
            names.all(|name| matches!(&name[..], "counter" | "comment" | "log"))
        })
    };
    match statements[number..].iter().position(|statement| !is_neutral(statement)) {
        Some(at) if rule.continues => {
            let why = "not supported: a statement after a verdict map that has `continue`";
            Err((number + at + 1, why.into()))
        }
        _ => Ok(rule),
    }
}

/// An ICMP message answers packets of one IP version. nft prints no other condition on it.
fn narrow_to_answer(conditions: &mut Conditions, name: &str, value: &Value) {
    match value.get("type").and_then(Value::as_str) {
        Some("icmp") if name == "reject" => conditions.keep(4),
        Some("icmpv6") if name == "reject" => conditions.keep(6),
        _ => {}
    }
}

fn verdict<'a>(name: &str, value: &'a Value) -> Option<Verdict<'a>> {
    let chain = value.get("target").and_then(Value::as_str);
    Some(match name {
        "accept" => Verdict::Is(Then::Decide(Action::Accept)),
        "drop" | "reject" => Verdict::Is(Then::Decide(Action::Drop)),
        "return" => Verdict::Is(Then::Return),
        "jump" => Verdict::To { chain: chain?, back: true },
        "goto" => Verdict::To { chain: chain?, back: false },
        _ => return None,
    })
}

fn verdict_map<'a>(
    rule: &mut NftRule<'a>,
    conditions: &Conditions,
    value: &'a Value,
    sets: &mut Sets<'a>,
    table: (&'a str, &'a str),
    tracked: bool,
) -> Result<(), Fault> {
    let key = value.get("key").unwrap_or(&Value::Null);
    let elements = match value.get("data") {
        Some(Value::String(name)) => sets.named(table, name.trim_start_matches('@'))?,
        Some(data) => list(data.get("set")),
        None => &[],
    };
    for element in elements {
        let [from, to] = list(Some(element)) else {
            return Err(Fault::wrong("an element of a verdict map is a pair"));
        };
        let mut narrowed = conditions.clone();
        if is_catch_all(from) {
            rule.catches_all = true;
        } else {
            narrowed.add_key(key, from, sets, table, tracked)?;
        }
        let to = to.as_object().and_then(|fields| fields.iter().next());
        if to.is_some_and(|(name, _)| name == "continue") {
            rule.continues = true;
            continue;
        }
        if let Some((name, value)) = to {
            narrow_to_answer(&mut narrowed, name, value);
        }
        let verdict = to.and_then(|(name, value)| verdict(name, value));
        let verdict = verdict.ok_or_else(|| Fault::wrong("an element that has no verdict"))?;
        sets.hold(narrowed.ranges())?;
        rule.outcomes.push(MatchAction { conditions: narrowed, verdict });
        if rule.outcomes.len() > super::RULES_MAX {
            return Err(Fault::wrong("a verdict map of too many elements"));
        }
    }
    Ok(())
}

/// Whether a key of a map is `*`, by itself or with a counter or comment.
fn is_catch_all(from: &Value) -> bool {
    from.get("elem").and_then(|element| element.get("val")).unwrap_or(from) == "*"
}
