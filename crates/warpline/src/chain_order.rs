//! Orders of functions that can't work, with the order to write instead.

use warpline_engine::{Instance, Place};
use warpline_nf::Traits;

/// Why an order of functions can't work.
pub(crate) struct Objection {
    pub(crate) text: String,
    pub(crate) help: String,
}

/// A function of a chain, as its order is judged.
struct Member<'a> {
    /// The name of its table.
    name: &'a str,
    traits: Traits,
    place: Place,
}

fn members(instances: &[Instance]) -> Vec<Member<'_>> {
    let member = |one: &Instance| (one.function.traits(), one.place);
    let named = instances.iter().map(|one| (one.table(), member(one)));
    named.map(|(name, (traits, place))| Member { name, traits, place }).collect()
}

/// Orders that stop packets in one direction.
pub(crate) fn objections(instances: &[Instance]) -> Vec<Objection> {
    let all = members(instances);
    let help = format!("write functions = {}", better(&all));
    let object = |text: String| Objection { text, help: help.clone() };
    let mut found: Vec<Objection> = crossed(&all).into_iter().map(object).collect();
    for (at, own) in all.iter().enumerate() {
        if own.traits.routes && own.place == Place::Second && !has_wrapped(&all, at) {
            let name = own.name;
            found.push(object(format!(
                "the second place of `{name}` routes only packets that got outer headers since the \
                 first, and no second place of a function that adds them stands between"
            )));
        }
        for (other_at, other) in all.iter().enumerate().filter(|(_, other)| other.traits.translates)
        {
            let (name, translator) = (own.name, other.name);
            if own.traits.tracks
                && !is_between(&all, at, translator)
                && other.place != Place::Second
            {
                found.push(object(format!(
                    "`{name}` tracks connections and sees answers under other addresses than \
                     requests, because it isn't between two places of `{translator}`"
                )));
            }
            if own.traits.routes && other_at > at && other.place != Place::Second {
                found.push(object(format!(
                    "`{name}` routes packets before `{translator}` restores their destination"
                )));
            }
        }
    }
    found
}

/// Pairs of translators of which neither is within the other. An answer is translated back in the
/// reverse order.
fn crossed(all: &[Member<'_>]) -> Vec<String> {
    let place =
        |name: &str, place| all.iter().position(|one| one.name == name && one.place == place);
    let pairs: Vec<(&str, usize, usize)> = all
        .iter()
        .enumerate()
        .filter(|(_, one)| one.traits.translates && one.place == Place::First)
        .filter_map(|(first, one)| Some((one.name, first, place(one.name, Place::Second)?)))
        .collect();
    let mut found = Vec::new();
    for &(name, first, second) in &pairs {
        let is_crossed =
            |other: &&(&str, usize, usize)| (first..second).contains(&other.1) && other.2 > second;
        found.extend(pairs.iter().filter(is_crossed).map(|(other, ..)| {
            format!(
                "the places of `{name}` and `{other}` alternate, so answers would be translated \
                 back in the wrong order"
            )
        }));
    }
    found
}

/// Whether position `at` is after the first and before the second place of `name`.
fn is_between(all: &[Member<'_>], at: usize, name: &str) -> bool {
    let is = |one: &Member<'_>, place| one.name == name && one.place == place;
    all[..at].iter().any(|one| is(one, Place::First))
        && all[at..].iter().any(|one| is(one, Place::Second))
}

/// Whether the second place at `at` has packets to route: those that got outer headers since its
/// first place. A function that also opens packets must stand twice itself, or its opened packets
/// are not routed.
fn has_wrapped(all: &[Member<'_>], at: usize) -> bool {
    let name = all[at].name;
    let before = all[..at].iter();
    let mut since = before.skip_while(|one| one.name != name);
    since.any(|one| one.traits.wraps && !one.traits.deciphers)
}

/// The list with two places for each translator, all other places between them in their order.
/// Functions with two places that add outer headers are outermost, and a router with two places
/// follows them.
fn better(all: &[Member<'_>]) -> String {
    let routes_twice = |one: &Member<'_>| one.traits.routes && one.place == Place::Second;
    let again: Vec<&str> = all.iter().filter(|one| routes_twice(one)).map(|one| one.name).collect();
    let wraps: Vec<&str> = all.iter().filter(|one| one.traits.wraps).map(|one| one.name).collect();
    let is_outer = |one: &&Member<'_>| {
        wraps.contains(&one.name) && (one.place != Place::Only || !again.is_empty())
    };
    let firsts = || all.iter().filter(|one| one.place != Place::Second);
    let outer: Vec<&str> = firsts().filter(is_outer).map(|one| one.name).collect();
    let is_translator = |one: &&Member<'_>| one.traits.translates && !outer.contains(&one.name);
    let translators: Vec<&str> = firsts().filter(is_translator).map(|one| one.name).collect();
    let mut names: Vec<&str> = outer.iter().chain(&translators).copied().collect();
    let is_other = |name: &&str| !outer.contains(name) && !translators.contains(name);
    let places = all.iter().filter(|one| one.place != Place::Second || !one.traits.routes);
    names.extend(places.map(|one| one.name).filter(is_other));
    names.extend(translators.iter().rev().chain(outer.iter().rev()));
    names.extend(again.into_iter().filter(|_| !wraps.is_empty()));
    format!("{names:?}")
}

/// Orders that work, but perhaps not as meant.
pub(crate) fn remarks(instances: &[Instance]) -> Vec<String> {
    let all = members(instances);
    let deciphers = |one: &Member<'_>| one.traits.deciphers && one.place != Place::Second;
    let Some(last) = all.iter().rposition(deciphers) else { return Vec::new() };
    let before = all[..last].iter().filter(|one| one.traits.inspects || one.traits.tracks);
    before
        .map(|one| {
            let (name, cipher) = (one.name, all[last].name);
            format!("`{name}` sees packets before `{cipher}` deciphers them")
        })
        .collect()
}
