//! One chain of a file, built from its table and those of its functions.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use warpline_engine::{
    Chain, Deployment, PeerLink, PeerSide, PlanOptions, PressureOptions, Settings, Site,
};
use warpline_nf::config::Folder;
use warpline_nf::{Diagnostics, Resources, Section};
use warpline_sched::Profile;

use super::{
    FUNCTIONS_MAX, File, Given, LeftOut, Loaded, NAME_LEN_MAX, NO_ROUTER, NO_ROUTER_HELP,
    NO_ROUTES, NO_ROUTES_HELP,
};
use crate::placement::PlacementTable;
use crate::port_keys::PortKeys;
use crate::port_tables::PortTable;
use crate::process_keys::ProcessTable;
use crate::tenants::TenantTable;
use crate::{core_keys, keys, placement, plan_keys, port_tables, pressure_keys, route_tables};

impl<'a> File<'a> {
    /// The chain of `table`, which follows the chains `before`.
    pub(super) fn build_chain(
        &self,
        table: &'a DeTable<'a>,
        given: Given<'_>,
        before: &[Loaded],
        used: &mut Vec<String>,
        mistakes: &mut Diagnostics,
    ) -> Option<Loaded> {
        let Given { span, plan, placement, fixed, pressure, .. } = given;
        let Given { ports: chosen, routes, tenants, .. } = given;
        let layers = self.layers("chain", table, span.clone());
        let mut section = Section::new(layers, "chain", self.folder, mistakes);
        section.refuse_all_but(&keys::names(keys::CHAIN));
        let mut settings = settings(&mut section, pressure.options, before);
        let names = names(&mut section);
        let name = name(&mut section);
        let tenant = tenant(&mut section, tenants);
        let tables = chosen.take(&mut section, self.source);
        let links = links(&pressure.links, &tables);
        settings.pressure.downstream = downstream(&links);
        let ports = PortKeys::read(&mut section, &tables, self.folder, self.needs_input);
        let is_live =
            self.options.is_live || ports.input.as_ref().is_some_and(|input| input.is_live());
        let seed = core_keys::seed(&mut section, is_live);
        let mut fixed = fixed.clone();
        fixed.note("seed", &seed.number());
        fixed.note_settings(&settings);
        fixed.note_ports(&ports);
        tables.iter().for_each(|table| fixed.note_port(table));
        let seed = self.options.seed_of(&name).unwrap_or(seed);
        let own_ports = port_tables::ports(&mut section, &tables, self.source);
        used.extend(own_names(table));
        let resources = Resources::with_seed(seed).with_ports(own_ports.clone());
        let (instances, seats, mut resources) =
            self.instances(&names, table, resources, (used, placement.may_place()), mistakes);
        for (instance, (site, auto)) in instances.iter().zip(&seats) {
            fixed.note_seat(instance.table(), site, auto.as_ref());
        }
        let (sites, autos) = seats.into_iter().unzip();
        let has_router = resources.hop_ports().is_some() || !mistakes.is_empty();
        let needs_router = own_ports.len() > 2 && !own_ports.are_wires();
        if !has_router && own_ports.are_routed() {
            mistakes.push(self.source.mistake(span.clone(), NO_ROUTES).help(NO_ROUTES_HELP));
        } else if !has_router && needs_router {
            mistakes.push(self.source.mistake(span.clone(), NO_ROUTER).help(NO_ROUTER_HELP));
        }
        let tables = routes.take(&name);
        let own = (&tables[..], self.function_list(table).whole());
        let routes = match mistakes.is_empty() && instances.len() == names.len() {
            true => route_tables::routes(self.source, own, &instances, &own_ports, mistakes),
            false => None,
        };
        let chain = Chain::new(name, instances, resources.scratch_words());
        let routed = |chain: Chain| match routes {
            Some(routes) => chain.with_routes(routes),
            None => Ok(chain),
        };
        match chain.and_then(routed) {
            Ok(chain) => {
                let chain = chain.with_ports(own_ports, resources.presumes_crossing());
                let chain = Arc::new(chain.with_seed(seed));
                Some(Loaded {
                    deployment: Arc::new(deploy(chain, sites, settings.lanes, (plan, placement))),
                    settings,
                    starts_paused: pressure.starts_paused,
                    ports,
                    links,
                    steps: names.iter().map(|name| self.step(table, name)).collect(),
                    files: self.files(&names),
                    left_out: LeftOut {
                        listed: resources.notices().clone(),
                        counts: resources.skipped(),
                    },
                    remarks: resources.remarks().clone(),
                    autos,
                    chosen: None,
                    table: Arc::clone(placement),
                    lacks_profile: placement.lacks_profile(),
                    tenant,
                    process: ProcessTable::default(),
                    fixed,
                    tenancy: Arc::default(),
                })
            }
            Err(error) => {
                mistakes.push(self.source.mistake(span, error.to_string()));
                None
            }
        }
    }

    /// Where the file has the table of an instance of `chain`, or names the instance.
    fn step(&self, chain: &DeTable<'_>, name: &str) -> String {
        let in_list = || {
            let names = chain.get("functions")?.get_ref().as_array()?;
            names.iter().find(|own| own.get_ref().as_str() == Some(name)).map(Spanned::span)
        };
        let own = self.table.get_ref().iter().find(|(key, _)| key.get_ref().as_ref() == name);
        let span = own.map(|(key, _)| key.span()).or_else(in_list);
        let at = self.source.mistake(span.unwrap_or(0..0), "");
        format!("{}:{}:{}", at.file, at.line, at.column)
    }

    /// The files that the tables of these instances name: strings that are the name of a file.
    fn files(&self, names: &[String]) -> Vec<(String, PathBuf)> {
        let Folder::Disk(folder) = self.folder else { return Vec::new() };
        let mut files = Vec::new();
        // A function with two places has one table.
        let tables = names.iter().map(String::as_str).collect::<BTreeSet<_>>();
        let shared = [plan_keys::TABLE, pressure_keys::TABLE, placement::TABLE];
        for name in tables.into_iter().chain(shared) {
            let own = self.table.get_ref().get(name).map(Spanned::get_ref);
            let own = own.and_then(DeValue::as_table).into_iter();
            let set = self.overrides.iter().filter(|(o, _)| o.table == name);
            let tables = own.chain(set.map(|(_, table)| table.get_ref()));
            let values = tables.flat_map(|table| table.values()).map(Spanned::get_ref);
            let values = values.flat_map(|value| match value {
                DeValue::Array(values) => values.iter().map(Spanned::get_ref).collect(),
                value => vec![value],
            });
            let paths = values.filter_map(DeValue::as_str).map(|text| folder.join(text));
            let paths = paths.filter(|path| path.metadata().is_ok_and(|meta| !meta.is_dir()));
            files.extend(paths.map(|path| (name.to_owned(), path)));
        }
        files
    }
}

/// The links of a chain with these ports, in a file whose only chain has the `shared` ones.
fn links(shared: &[PeerLink], ports: &[PortTable]) -> Vec<PeerLink> {
    shared.iter().chain(ports.iter().flat_map(|port| &port.links)).cloned().collect()
}

/// How many instances may pause it.
fn downstream(links: &[PeerLink]) -> usize {
    links.iter().filter(|link| link.side == PeerSide::Downstream).count()
}

/// A chain on its sites, with as many lanes as it can use of `lanes`.
fn deploy(
    chain: Arc<Chain>,
    sites: Vec<Site>,
    lanes: usize,
    ((plan, profile), placement): (&(PlanOptions, Profile), &PlacementTable),
) -> Deployment {
    let lanes = chain.lanes(lanes);
    let mut deployment = Deployment::new(chain, sites);
    deployment.set_plan(PlanOptions { lanes, ..*plan });
    let is_measured = *profile != Profile::default();
    let profile = placement.speeds().filter(|_| !is_measured).unwrap_or(profile);
    deployment.set_profile(profile.clone());
    deployment
}

/// The names that the chain file itself has in `functions`: their tables are no strays where the
/// command line sets others.
fn own_names(chain: &DeTable<'_>) -> Vec<String> {
    let list = chain.get("functions").and_then(|value| value.get_ref().as_array());
    let names = list.into_iter().flatten().filter_map(|item| item.get_ref().as_str());
    names.map(str::to_owned).collect()
}

/// The dimensions of a chain, which comes after those `before`.
fn settings(section: &mut Section<'_>, pressure: PressureOptions, before: &[Loaded]) -> Settings {
    let default = Settings::default();
    let (lanes, cores) = core_keys::read(section, default.lanes);
    core_keys::refuse_taken(section, &cores, before);
    let busy = section.boolean("busy", default.busy);
    let mut number = |key, max, default| section.integer(key, 1..=max, default as u64) as usize;
    Settings {
        lanes,
        cores,
        counts_huge_pages: true,
        busy,
        batch_packets: number("batch_packets", 1024, default.batch_packets),
        queue_batches: number("queue_batches", 1024, default.queue_batches),
        slabs: number("arena_mib", 2048, default.slabs).max(2),
        pressure,
        ..default
    }
}

/// The names in the list of functions.
fn names(section: &mut Section<'_>) -> Vec<String> {
    section.require("functions", "the functions, in processing order");
    let mut names: Vec<String> = section.parsed_list("functions");
    if names.len() > FUNCTIONS_MAX {
        let reported = format!("{} functions: a chain has {FUNCTIONS_MAX} at most", names.len());
        section.mistake("functions", reported);
        names.clear();
    }
    if names.iter().any(|name| name.len() > NAME_LEN_MAX) {
        section.mistake("functions", format!("a name has {NAME_LEN_MAX} bytes at most"));
        names.retain(|name| name.len() <= NAME_LEN_MAX);
    }
    names
}

/// The name of a chain.
fn name(section: &mut Section<'_>) -> String {
    let mut name = section.string("name").unwrap_or("chain").to_owned();
    if name.len() > NAME_LEN_MAX {
        section.mistake("name", format!("a name has {NAME_LEN_MAX} bytes at most"));
        name = "chain".into();
    }
    name
}

/// The tenant that a chain names.
fn tenant(section: &mut Section<'_>, tenants: &[TenantTable]) -> Option<String> {
    let name = section.string("tenant")?.to_owned();
    if !tenants.iter().any(|one| one.name == name) {
        let names: Vec<String> = tenants.iter().map(|one| format!("{:?}", one.name)).collect();
        let known = if names.is_empty() { "none".into() } else { names.join(", ") };
        section.mistake("tenant", format!("there is no tenant {name:?}; tenants: {known}"));
    }
    Some(name)
}
