//! The `[[route]]` tables of a chain file: which function a packet goes to next.

use std::ops::Range;
use std::sync::Arc;

use warpline_engine::Instance;
use warpline_nf::config::did_you_mean;
use warpline_nf::{Diagnostic, Diagnostics, Ports, Section, SourceText};
use warpline_packet::{Field, FieldSet, Prefix};
use warpline_sched::{Route, RouteFrom, RouteMistake, RouteTo, RoutedFunction, Routes};

use crate::keys;

/// The tables' name: no function can have it.
pub(crate) const TABLE: &str = "route";
/// Most tables of a file.
pub(crate) const TABLES_MAX: usize = 1 << 16;

const INGRESS: &str = "ingress";
const EGRESS: &str = "egress";

/// A `[[route]]` table.
#[derive(Clone, Debug)]
pub(crate) struct RouteTable {
    /// The chain that it is of; `None` is the file's only one.
    chain: Option<String>,
    from: String,
    to: String,
    port: Option<String>,
    /// Destinations of one family; none is every packet.
    destinations: Vec<Prefix>,
    /// Where the table stands.
    span: Range<usize>,
}

/// Reads a table.
pub(crate) fn read(section: &mut Section<'_>, span: Range<usize>) -> Option<RouteTable> {
    section.refuse_all_but(&keys::names(keys::ROUTE));
    section.require("from", "\"ingress\" or a function's name");
    section.require("to", "a function's name or \"egress\"");
    let destinations: Vec<Prefix> = section.parsed_list("destination");
    let families = destinations.iter().map(|prefix| prefix.address().is_ipv4());
    if families.clone().any(|is_v4| families.clone().next() != Some(is_v4)) {
        let text = "`destination`: a route has IPv4 or IPv6 destinations, not both";
        section.mistake("destination", format!("{text}; write a second [[route]]"));
        return None;
    }
    if section.has("destination") && destinations.is_empty() {
        if !section.is_broken() {
            let text = "`destination` is empty; leave it out for every packet";
            section.mistake("destination", text);
        }
        return None;
    }
    let own = |text: Option<&str>| text.map(str::to_owned);
    let (chain, port) = (own(section.string("chain")), own(section.string("port")));
    let (from, to) = (own(section.string("from"))?, own(section.string("to"))?);
    if port.is_some() && from != INGRESS {
        section.mistake("port", "`port` requires from = \"ingress\"");
    }
    Some(RouteTable { chain, from, to, port, destinations, span })
}

/// The routes of a file, each of which is one chain's.
pub(crate) struct ChosenRoutes {
    tables: Vec<RouteTable>,
    is_taken: Vec<bool>,
    is_only: bool,
}

impl ChosenRoutes {
    pub(crate) fn new(tables: Vec<RouteTable>, is_only: bool) -> Self {
        Self { is_taken: vec![false; tables.len()], tables, is_only }
    }

    /// The routes of chain `name`.
    pub(crate) fn take(&mut self, name: &str) -> Vec<RouteTable> {
        let mut own = Vec::new();
        for (table, is_taken) in self.tables.iter().zip(&mut self.is_taken) {
            let is_own = match &table.chain {
                Some(chain) => chain == name,
                None => self.is_only,
            };
            if is_own {
                *is_taken = true;
                own.push(table.clone());
            }
        }
        own
    }

    /// Notes the routes that no chain has.
    pub(crate) fn refuse_left(&self, source: &SourceText, mistakes: &mut Diagnostics) {
        let left = self.tables.iter().zip(&self.is_taken).filter(|(_, is_taken)| !*is_taken);
        for (table, _) in left {
            let mistake = match &table.chain {
                Some(chain) => {
                    let text = format!("there is no chain {chain:?}");
                    source.mistake(table.span.clone(), text)
                }
                None => source
                    .mistake(table.span.clone(), "a route in a file with several chains")
                    .help("name its chain: chain = \"NAME\""),
            };
            mistakes.push(mistake);
        }
    }
}

/// The routes of a chain of `instances`; nothing if it has none.
pub(crate) fn routes(
    source: &SourceText,
    (tables, list): (&[RouteTable], Range<usize>),
    instances: &[Instance],
    ports: &Ports,
    mistakes: &mut Diagnostics,
) -> Option<Arc<Routes>> {
    if tables.is_empty() {
        return None;
    }
    let mut routes = Vec::new();
    // By route, the table that has it.
    let mut spans = Vec::new();
    let before = mistakes.count();
    for table in tables {
        let own = resolve(table, instances, ports);
        let own = own.map_err(|why| mistakes.push(why(source, table.span.clone())));
        let Ok((from, to)) = own else { continue };
        let each = table.destinations.iter().copied().map(Some);
        let each: Vec<_> = if table.destinations.is_empty() { vec![None] } else { each.collect() };
        for destination in each {
            routes.push(Route { from, destination, to });
            spans.push(table.span.clone());
        }
    }
    if mistakes.count() > before {
        return None;
    }
    let functions: Vec<RoutedFunction> =
        instances.iter().map(|one| routed(one, instances)).collect();
    match Routes::new(&functions, ports.len(), &routes) {
        Ok(routes) => Some(Arc::new(routes)),
        Err(errors) => {
            for error in errors {
                let at = error.routes.first().map_or(list.clone(), |&at| spans[at].clone());
                let text = match &error.mistake {
                    RouteMistake::NoIngress(Some(port)) => {
                        let name = ports.iter().nth(usize::from(*port)).map(|p| p.name.as_str());
                        let name = name.unwrap_or_default();
                        format!("no route begins at \"ingress\" for port {name:?}")
                    }
                    mistake => mistake.to_string(),
                };
                let mistake = source.mistake(at, text);
                mistakes.push(match help(&error.mistake) {
                    Some(help) => mistake.help(help),
                    None => mistake,
                });
            }
            None
        }
    }
}

/// The text to write instead.
fn help(mistake: &RouteMistake) -> Option<String> {
    match mistake {
        RouteMistake::NoIngress(_) => {
            Some("write a [[route]] with from = \"ingress\" and to = \"FUNCTION\"".into())
        }
        RouteMistake::DeadEnd(name) => Some(format!(
            "write a [[route]] with from = {name:?} and to = a later function or \"egress\""
        )),
        RouteMistake::Unreachable(name) => {
            Some(format!("write a [[route]] with to = {name:?}, or leave it out of `functions`"))
        }
        _ => None,
    }
}

/// Makes the message of a route that can't be resolved, at its place.
type Refusal = Box<dyn FnOnce(&SourceText, Range<usize>) -> Diagnostic>;

fn refusal(text: String, help: String) -> Refusal {
    Box::new(move |source, span| source.mistake(span, text).help(help))
}

fn resolve(
    table: &RouteTable,
    instances: &[Instance],
    ports: &Ports,
) -> Result<(RouteFrom, RouteTo), Refusal> {
    let from = match table.from.as_str() {
        INGRESS => RouteFrom::Ingress(table.port.as_deref().map(|p| port(p, ports)).transpose()?),
        name => RouteFrom::Function(position("from", name, INGRESS, instances)?),
    };
    let to = match table.to.as_str() {
        EGRESS => RouteTo::Egress,
        name => RouteTo::Function(position("to", name, EGRESS, instances)?),
    };
    Ok((from, to))
}

fn port(name: &str, ports: &Ports) -> Result<u16, Refusal> {
    let found = ports.iter().position(|port| port.name == name);
    found.map(|at| at as u16).ok_or_else(|| {
        let known: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
        let meant = did_you_mean(name, known.iter().copied());
        let known = if known.is_empty() { "the chain has none".into() } else { known.join(", ") };
        refusal(format!("`port`: there is no port {name:?}"), format!("{meant}ports: {known}"))
    })
}

fn position(key: &str, name: &str, end: &str, instances: &[Instance]) -> Result<u8, Refusal> {
    if let Some(at) = instances.iter().position(|one| one.name == name) {
        return Ok(at as u8);
    }
    let places: Vec<&str> =
        instances.iter().filter(|one| one.table() == name).map(|one| one.name.as_str()).collect();
    if let [first, second] = places[..] {
        let text = format!("`{key}`: {name:?} has two places");
        return Err(refusal(text, format!("write {first:?} or {second:?}")));
    }
    let known = [end].into_iter().chain(instances.iter().map(|one| one.name.as_str()));
    let meant = did_you_mean(name, known.clone());
    let known = known.collect::<Vec<_>>().join(", ");
    let text = format!("`{key}`: {name:?} is not in the chain");
    Err(refusal(text, format!("{meant}allowed: {known}")))
}

/// Properties of a function that decide about its routes.
fn routed(one: &Instance, all: &[Instance]) -> RoutedFunction {
    let (access, emits) = (one.function.access(), one.function.emits());
    let phases = [access.before, access.run, access.after, access.after_flagged];
    let moves = FieldSet::of(&[Field::DstAddr, Field::Start, Field::L3Offset]);
    let writes = phases.into_iter().any(|phase| !(phase.writes & moves).is_empty());
    let second = || {
        let is_second = |other: &Instance| {
            other.table() == one.table() && other.place == warpline_engine::Place::Second
        };
        all.iter().position(is_second).map(|at| at as u8)
    };
    let is_first = one.place == warpline_engine::Place::First;
    RoutedFunction {
        name: one.name.clone(),
        changes_destination: writes || emits.per_packet > 0 || emits.replace_len_max > 0,
        second_place: is_first.then(second).flatten(),
    }
}
