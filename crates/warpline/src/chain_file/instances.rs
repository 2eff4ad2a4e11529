//! The functions of a chain: instances at their places, built from their tables.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use warpline_engine::{Instance, Place, Site};
use warpline_nf::config::did_you_mean;
use warpline_nf::{Diagnostic, Diagnostics, Function, HopPorts, Resources, Section, SourceText};

use super::{File, RESERVED};
use crate::placement::Auto;
use crate::{chain_order, device_keys};

/// Where a function runs, and whether that may be chosen.
type Seat = (Site, Option<Auto>);

fn hash_of(ports: &HopPorts) -> u64 {
    let mut hasher = DefaultHasher::new();
    ports.hash(&mut hasher);
    hasher.finish()
}

/// A name of the list of functions.
struct Named<'a, 'n> {
    name: &'n str,
    /// How often the list has it.
    mentions: usize,
    source: &'a SourceText,
    at: Range<usize>,
}

/// The list of functions of a chain, where there is one.
pub(super) struct FunctionList<'a> {
    source: &'a SourceText,
    list: Option<&'a Spanned<DeValue<'a>>>,
}

impl FunctionList<'_> {
    pub(super) fn whole(&self) -> Range<usize> {
        self.list.map_or(0..0, Spanned::span)
    }

    /// Where entry `index` stands.
    fn entry(&self, index: usize) -> Range<usize> {
        let entries = self.list.and_then(|list| list.get_ref().as_array());
        entries.and_then(|all| all.get(index)).map_or(self.whole(), Spanned::span)
    }
}

/// A function that the list has more than twice.
fn too_many_places(source: &SourceText, at: Range<usize>, name: &str) -> Diagnostic {
    let mistake = source.mistake(at, format!("{name:?} has more than two places in the chain"));
    mistake.help(second_instance(name))
}

/// A function that the list has twice and that has no second place.
fn one_place(source: &SourceText, at: Range<usize>, name: &str, function: &str) -> Diagnostic {
    let text = format!("{name:?} is in the chain twice, and `{function}` has one place only");
    source.mistake(at, text).help(second_instance(name))
}

fn second_instance(name: &str) -> String {
    format!(
        "for another instance write another name, {:?}, and [{name}-2] with `function = {name:?}`",
        format!("{name}-2")
    )
}
impl<'a> File<'a> {
    /// The instances called `names` with their seats, and what they were handed. `auto` may be a
    /// device if `may_place`.
    pub(super) fn instances(
        &self,
        names: &[String],
        chain: &'a DeTable<'a>,
        mut resources: Resources,
        (used, may_place): (&mut Vec<String>, bool),
        mistakes: &mut Diagnostics,
    ) -> (Vec<Instance>, Vec<Seat>, Resources) {
        let list = self.function_list(chain);
        let (mut instances, mut sites) = (Vec::new(), Vec::new());
        // Second places whose turn has not come.
        let mut second_places: Vec<(Instance, Seat)> = Vec::new();
        for (place, name) in names.iter().enumerate() {
            let at = list.entry(place);
            match names[..place].iter().filter(|own| *own == name).count() {
                0 => {
                    used.push(name.clone());
                    let mentions = names.iter().filter(|own| *own == name).count();
                    let named = Named { name, mentions, source: list.source, at };
                    for built in self.instance(&named, &mut resources, may_place, mistakes) {
                        if built.0.place == Place::Second {
                            second_places.push(built);
                            continue;
                        }
                        instances.push(built.0);
                        sites.push(built.1);
                    }
                }
                1 => {
                    let is_own = |(one, _): &(Instance, Seat)| one.table() == name;
                    if let Some(own) = second_places.iter().position(is_own) {
                        let (instance, site) = second_places.swap_remove(own);
                        instances.push(instance);
                        sites.push(site);
                    } else if let Some(function) = self.with_one_place(name) {
                        mistakes.push(one_place(list.source, at, name, function));
                    }
                }
                _ => mistakes.push(too_many_places(list.source, at, name)),
            }
        }
        if instances.len() == names.len() {
            for objection in chain_order::objections(&instances) {
                let mistake = list.source.mistake(list.whole(), objection.text);
                mistakes.push(mistake.help(objection.help));
            }
            let mut remarks = Diagnostics::default();
            for remark in chain_order::remarks(&instances) {
                remarks.push(list.source.mistake(list.whole(), remark));
            }
            resources.remarks_of(&remarks);
        }
        (instances, sites, resources)
    }

    /// The function of a table, if it has one place only.
    fn with_one_place(&self, name: &str) -> Option<&'static str> {
        let table = self.table.get_ref().get(name).and_then(|table| table.get_ref().as_table());
        let function = table.and_then(|table| table.get("function")?.get_ref().as_str());
        let definition =
            self.options.functions.iter().find(|known| known.name == function.unwrap_or(name))?;
        definition.build_pair.is_none().then_some(definition.name)
    }

    /// The list of functions of `chain`, or that which the command line sets.
    pub(super) fn function_list(&self, chain: &'a DeTable<'a>) -> FunctionList<'a> {
        let set = self.overrides.iter().rev().filter(|(o, _)| o.table == "chain");
        let set = set.map(|(o, table)| (&o.source, table.get_ref()));
        let mut lists = set.chain([(self.source, chain)]);
        let found = lists.find_map(|(source, table)| Some((source, table.get("functions")?)));
        match found {
            Some((source, list)) => FunctionList { source, list: Some(list) },
            None => FunctionList { source: self.source, list: None },
        }
    }

    /// The instance of a name, or both of its places.
    fn instance(
        &self,
        named: &Named<'a, '_>,
        resources: &mut Resources,
        may_place: bool,
        mistakes: &mut Diagnostics,
    ) -> Vec<(Instance, Seat)> {
        let &Named { name, mentions, source, ref at } = named;
        let empty = DeTable::new();
        let found = self.table.get_ref().get(name).filter(|_| !RESERVED.contains(&name));
        let (table, span) = match found.map(|value| (value.get_ref(), value.span())) {
            Some((DeValue::Table(table), span)) => (table, span),
            Some((_, span)) => {
                mistakes.push(self.source.mistake(span, format!("`{name}` is a table")));
                return Vec::new();
            }
            None => (&empty, at.clone()),
        };
        let mut layers = self.layers(name, table, span);
        if found.is_none() {
            // Missing keys are reported where the name stands.
            layers[0].source = source;
        }
        let mut section = Section::new(layers, name, self.folder, mistakes);
        let function = section.string("function").unwrap_or(name).to_owned();
        let known = self.options.functions;
        let Some(&definition) = known.iter().find(|known| known.name == function) else {
            let names: Vec<&str> = known.iter().map(|known| known.name).collect();
            let text = format!("unknown function {function:?}");
            let meant = did_you_mean(&function, names.iter().copied());
            let allowed = format!("{meant}functions: {}", names.join(", "));
            if section.has("function") {
                section.mistake("function", format!("{text}; {allowed}"));
            } else {
                section.note(source.mistake(at.clone(), text).help(allowed));
            }
            return Vec::new();
        };
        section.refuse_unknown(definition.keys);
        let own_stage = section.choice("stage", &[("fused", false), ("own", true)], false);
        let launch_batches = section.integer("launch_batches", 1..=64, 1) as usize;
        if launch_batches > 1 && !own_stage {
            section.mistake("launch_batches", "`launch_batches` requires `stage = \"own\"`");
        }
        let built = match (mentions, definition.build_pair) {
            (2.., Some(build_pair)) => build_pair(&mut section, resources)
                .map(|[first, second]| vec![(Place::First, first), (Place::Second, second)]),
            _ => (definition.build)(&mut section, resources)
                .map(|function| vec![(Place::Only, function)]),
        };
        let Some(functions) = built else { return Vec::new() };
        let may = device_keys::May { run: definition.has_kernels, place: may_place };
        let (on_device, auto) = device_keys::read(&mut section, may, self.options.device);
        let fingerprint =
            section.fingerprint() ^ resources.take_asked_hop_ports().map_or(0, hash_of);
        let instance = |(place, function): (Place, Box<dyn Function>)| {
            let name = match place {
                Place::Only => name.to_owned(),
                Place::First => format!("{name}:1"),
                Place::Second => format!("{name}:2"),
            };
            // A place without kernels runs on the CPU.
            let on_device = on_device.clone().filter(|_| function.kernels().is_some());
            let auto = auto.filter(|_| !may_place || function.kernels().is_some());
            let function = Arc::from(function);
            let instance = Instance { name, definition, function, fingerprint, place };
            (instance, (Site { on_device, own_stage, launch_batches }, auto))
        };
        functions.into_iter().map(instance).collect()
    }
}
