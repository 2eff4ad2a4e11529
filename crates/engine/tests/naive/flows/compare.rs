//! The records of a flow monitor beside those of the naive one.

use std::collections::{BTreeMap, BTreeSet};

use super::record::{End, Exported, Row};
use crate::function::Counters;

/// Totals of one direction of a flow over all its records, with its first and last time.
type Total = (u64, u64, u8, String, String);
/// A direction, as a record shows it.
type Way = [String; 7];

/// The first difference of the engine's records from the naive ones, or from the engine's counters.
pub(crate) fn differ(
    engine: &[Exported],
    naive: &[Exported],
    counted: &Counters,
) -> Option<String> {
    let apart: BTreeSet<Way> = naive
        .iter()
        .filter(|exported| exported.apart)
        .flat_map(|exported| ways(&exported.row))
        .collect();
    let is_apart = |exported: &Exported| ways(&exported.row).iter().any(|way| apart.contains(way));
    let split = |all: &[Exported]| -> [Vec<Exported>; 2] {
        [false, true]
            .map(|side| all.iter().filter(|exported| is_apart(exported) == side).cloned().collect())
    };
    let ([engine_own, engine_apart], [naive_own, naive_apart]) = (split(engine), split(naive));
    counts(engine, counted)
        .or_else(|| same(&engine_own, &naive_own))
        .or_else(|| order(&engine_own, &naive_own))
        .or_else(|| sums(&engine_apart, &naive_apart))
}

/// The first counter that differs from the records in the file.
fn counts(engine: &[Exported], counted: &Counters) -> Option<String> {
    let of = |end| engine.iter().filter(|exported| exported.end == end).count() as u64;
    let all = engine.len() as u64;
    let should = [
        ("records", all),
        ("flows", all - of(End::Active)),
        ("ended-idle", of(End::Idle)),
        ("ended-active", of(End::Active)),
        ("ended-detected", of(End::Closed)),
        ("ended-forced", of(End::Forced)),
        ("ended-full", of(End::LackOfResources)),
    ];
    if !counted.contains_key("records") {
        return None;
    }
    should.into_iter().find_map(|(name, count)| {
        let own = counted.get(name);
        (own != Some(&(count, count))).then(|| format!("{name} is {own:?}, the file has {count}"))
    })
}

/// The same records; those that can end by one reason alone look for theirs first.
fn same(engine: &[Exported], naive: &[Exported]) -> Option<String> {
    let mut left = engine.to_vec();
    let (either, exact): (Vec<_>, Vec<_>) =
        naive.iter().partition(|exported| exported.or.is_some());
    for own in exact.into_iter().chain(either) {
        let fits = |exported: &Exported| exported.row == own.row && ends(own, exported.end);
        match left.iter().position(fits) {
            Some(at) => drop(left.remove(at)),
            None => return Some(format!("\nnaive:  {own:?}\nengine: {:?}", nearest(&left, own))),
        }
    }
    left.first().map(|exported| format!("\nnaive:  no such record\nengine: {exported:?}"))
}

fn ends(own: &Exported, end: End) -> bool {
    own.end == end || own.or == Some(end)
}

/// The records that share most with `own`.
fn nearest<'a>(left: &'a [Exported], own: &Exported) -> Option<&'a Exported> {
    let alike = |exported: &&Exported| {
        own.row.iter().filter(|&(name, value)| exported.row.get(name) == Some(value)).count()
    };
    left.iter().max_by_key(alike)
}

/// Records that packets ended are in the order of those packets. Records that the end of the run
/// ended follow them.
fn order(engine: &[Exported], naive: &[Exported]) -> Option<String> {
    let mut rest = engine.iter();
    for own in naive.iter().filter(|exported| exported.is_here) {
        if !rest.any(|exported| exported.row == own.row && exported.end == own.end) {
            return Some(format!("a record comes too early: {own:?}"));
        }
    }
    let forced = engine.iter().position(|exported| exported.end == End::Forced)?;
    let early = |exported: &&Exported| matches!(exported.end, End::Active | End::LackOfResources);
    let late = engine[forced..].iter().find(early)?;
    Some(format!("a record after the end of the run: {late:?}"))
}

/// The same packets, bytes, flags and times by direction.
fn sums(engine: &[Exported], naive: &[Exported]) -> Option<String> {
    let (engine, naive) = (totals(engine), totals(naive));
    let ways: BTreeSet<_> = engine.keys().chain(naive.keys()).collect();
    ways.into_iter().find_map(|way| {
        let (own, other) = (naive.get(way), engine.get(way));
        (own != other).then(|| format!("in all of {way:?}:\nnaive:  {own:?}\nengine: {other:?}"))
    })
}

fn totals(all: &[Exported]) -> BTreeMap<Way, Total> {
    let mut totals: BTreeMap<Way, Total> = BTreeMap::new();
    for exported in all {
        for (way, prefix) in ways(&exported.row).into_iter().zip(["", "reverse_"]) {
            let text = |name: &str| {
                exported.row.get(&format!("{prefix}{name}")).cloned().unwrap_or_default()
            };
            let number = |name| text(name).parse::<u64>().expect("a number");
            if number("packets") == 0 {
                continue;
            }
            let total = totals.entry(way).or_default();
            total.0 += number("packets");
            total.1 += number("bytes");
            total.2 |= number("tcp_flags") as u8;
            // Seconds have ten digits.
            let first = text("first");
            total.3 = if total.3.is_empty() { first } else { first.min(total.3.clone()) };
            total.4 = text("last").max(total.4.clone());
        }
    }
    totals
}

/// The direction of the source, and the other; an echo is one by its request.
fn ways(row: &Row) -> [Way; 2] {
    let text = |name: &str| row.get(name).cloned().unwrap_or_default();
    let kind = match (&text("protocol")[..], &text("icmp_type")[..]) {
        ("1", "0") => "8".to_owned(),
        ("58", "129") => "128".to_owned(),
        (_, kind) => kind.to_owned(),
    };
    let way = |src: &str, dst: &str| {
        let [from, to] = [src, dst].map(|side| [text(side), text(&format!("{side}_port"))]);
        let [[from, from_port], [to, to_port]] = [from, to];
        [from, from_port, to, to_port, text("protocol"), kind.clone(), text("icmp_code")]
    };
    [way("src", "dst"), way("dst", "src")]
}
