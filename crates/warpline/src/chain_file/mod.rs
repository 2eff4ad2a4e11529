//! The chain file: parsed and built in one pass that finds every mistake.

mod instances;
mod overrides;

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use warpline_engine::{Chain, Deployment, PlanOptions, PressureOptions, Settings};
use warpline_nf::config::{Folder, Layer};
use warpline_nf::{
    Definition, Diagnostic, Diagnostics, LISTED_MAX, PORTS_MAX, Ports, Resources, Section,
    SourceText,
};

use warpline_sched::{Profile, Sharing};

use crate::core_keys;
use crate::keys;
use crate::plan_keys;
use crate::port_keys::PortKeys;
use crate::port_tables::{self, ChosenPorts, PortTable};
use crate::pressure_keys;
use crate::route_tables::{self, ChosenRoutes, RouteTable};
use crate::table_lists;
use crate::tenants::{self, ArbiterTable, Tenancy, TenantTable};

pub(crate) use overrides::Setting;
use overrides::{Override, parse_override};

/// A chain of the file, built, with what it says of its ports.
pub(crate) struct Loaded {
    pub(crate) deployment: Arc<Deployment>,
    pub(crate) settings: Settings,
    /// Whether it reads nothing until it is resumed.
    pub(crate) starts_paused: bool,
    pub(crate) ports: PortKeys,
    /// By function, where the file has its table, or names it: `FILE:LINE:COLUMN`.
    pub(crate) steps: Vec<String>,
    /// Files that its functions' tables name, each with the table's name.
    pub(crate) files: Vec<(String, PathBuf)>,
    /// What functions were asked to leave out of their files, and left out.
    pub(crate) left_out: Diagnostics,
    /// What they remarked of what they did not leave out.
    pub(crate) remarks: Diagnostics,
    /// The tenant that it names.
    pub(crate) tenant: Option<String>,
    /// The shared devices of the file.
    pub(crate) tenancy: Arc<Tenancy>,
}

impl Loaded {
    pub(crate) fn chain(&self) -> &Chain {
        self.deployment.chain()
    }
}

/// Functions that a chain may have.
const FUNCTIONS_MAX: usize = 256;
/// Bytes of the name of a chain or an instance.
const NAME_LEN_MAX: usize = 128;
/// Chains that a file may have.
const CHAINS_MAX: usize = 256;

/// Tables that are no function's.
const RESERVED: [&str; 7] = [
    "chain",
    plan_keys::TABLE,
    port_tables::TABLE,
    route_tables::TABLE,
    pressure_keys::TABLE,
    tenants::ARBITER,
    tenants::TENANT,
];
const TABLES: &str = "tables: [chain], [[port]], [[route]], [[tenant]], [arbiter], [plan], \
    [backpressure] and one for each name in `functions`";
const NO_ROUTER: &str = "a chain with more than two ports needs a router";
const NO_ROUTER_HELP: &str =
    "its routes name the port by which packets leave: `dev PORT`. Or give each port a `peer`";

/// Settings of a file for its chains.
struct Given<'a> {
    /// The place of the chain's table.
    span: Range<usize>,
    plan: &'a (PlanOptions, Profile),
    pressure: PressureOptions,
    starts_paused: bool,
    ports: &'a mut ChosenPorts,
    routes: &'a mut ChosenRoutes,
    tenants: &'a [TenantTable],
}

/// How a chain file is read.
#[derive(Clone, Copy)]
pub(crate) struct LoadOptions<'a> {
    /// The functions that it may name.
    pub(crate) functions: &'a [&'static Definition],
    /// Set on top of the file; the last one of a key counts.
    pub(crate) set: &'a [Setting],
    /// The device of all functions that have kernels; it replaces those of the file.
    pub(crate) device: Option<&'a str>,
    /// Whether the command line names an interface as the input.
    pub(crate) is_live: bool,
}

/// Builds every chain of `source`. The file that `input` names must be there if `needs_input`.
pub(crate) fn load(
    source: &SourceText,
    folder: Folder<'_>,
    options: &LoadOptions<'_>,
    needs_input: bool,
) -> Result<Vec<Loaded>, Diagnostics> {
    let set = options.set;
    let mut mistakes = Diagnostics::default();
    let (table, errors) = DeTable::parse_recoverable(&source.text);
    for error in errors {
        let span = error.span().unwrap_or(0..0);
        mistakes.push(source.mistake(span, error.message().to_lowercase()));
    }
    let overrides: Vec<Override> =
        set.iter().filter_map(|setting| parse_override(setting, &mut mistakes)).collect();
    let parsed: Vec<(&Override, Spanned<DeTable<'_>>)> =
        overrides.iter().filter_map(|o| Some((o, DeTable::parse(&o.source.text).ok()?))).collect();
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let file = File { source, table: &table, folder, overrides: &parsed, needs_input, options };
    let chains = file.build(&mut mistakes);
    if mistakes.is_empty() { Ok(chains) } else { Err(mistakes) }
}

struct File<'a> {
    source: &'a SourceText,
    table: &'a Spanned<DeTable<'a>>,
    folder: Folder<'a>,
    overrides: &'a [(&'a Override, Spanned<DeTable<'a>>)],
    needs_input: bool,
    options: &'a LoadOptions<'a>,
}

impl<'a> File<'a> {
    fn build(&self, mistakes: &mut Diagnostics) -> Vec<Loaded> {
        let chains = self.chain_tables(mistakes);
        let plan = plan_keys::read(&mut self.section(plan_keys::TABLE, &DeTable::new(), mistakes));
        let (pressure, starts_paused) =
            pressure_keys::read(&mut self.section(pressure_keys::TABLE, &DeTable::new(), mistakes));
        let ports = self.ports(mistakes);
        let routes = self.routes(mistakes);
        let arbiter = self.arbiter(mistakes);
        let tenants = self.tenants(mistakes);
        let mut used: Vec<String> = RESERVED[1..].iter().map(|name| (*name).into()).collect();
        used.extend(ports.iter().map(|table| format!("port.{}", table.port.name)));
        let is_only = chains.len() == 1;
        let mut ports = ChosenPorts::new(ports, is_only);
        let mut routes = ChosenRoutes::new(routes, is_only);
        let mut loaded: Vec<Loaded> = Vec::new();
        let mut spans = Vec::new();
        for (table, span) in &chains {
            let given = Given {
                span: span.clone(),
                plan: &plan,
                pressure,
                starts_paused,
                ports: &mut ports,
                routes: &mut routes,
                tenants: &tenants,
            };
            let Some(chain) = self.build_chain(table, given, &loaded, &mut used, mistakes) else {
                continue;
            };
            if loaded.iter().any(|other| other.chain().name == chain.chain().name) {
                let text = format!("two chains are called {:?}", chain.chain().name);
                mistakes.push(self.source.mistake(span.clone(), text));
            }
            loaded.push(chain);
            spans.push(span.clone());
        }
        if loaded.len() == chains.len() {
            let mut all: Vec<_> = loaded.iter_mut().zip(spans).collect();
            let is_forced = self.options.device.is_some();
            let tables = (&arbiter, &tenants[..]);
            let tenancy = Tenancy::share(tables, is_forced, &mut all, self.source, mistakes);
            let tenancy = Arc::new(tenancy);
            loaded.iter_mut().for_each(|chain| chain.tenancy = Arc::clone(&tenancy));
        }
        ports.refuse_left(self.source, mistakes);
        routes.refuse_left(self.source, mistakes);
        self.refuse_unused(&used, mistakes);
        loaded
    }

    /// The ports of all chains.
    fn ports(&self, mistakes: &mut Diagnostics) -> Vec<PortTable> {
        let mut ports = Vec::new();
        let list = (port_tables::TABLE, PORTS_MAX);
        let tables = table_lists::tables(self.source, self.table.get_ref(), list, mistakes);
        for (table, span) in tables {
            let own = port_tables::name_of(table).map(|name| format!("port.{name}"));
            let layers = self.layers(own.as_deref().unwrap_or(""), table, span.clone());
            let mut section = Section::new(layers, "[port]", self.folder, mistakes);
            let needs = self.needs_input;
            ports.extend(port_tables::read(&mut section, span, &ports, self.folder, needs));
        }
        ports
    }

    /// The routes of all chains.
    fn routes(&self, mistakes: &mut Diagnostics) -> Vec<RouteTable> {
        let list = (route_tables::TABLE, route_tables::TABLES_MAX);
        let tables = table_lists::tables(self.source, self.table.get_ref(), list, mistakes);
        let mut routes = Vec::new();
        for (table, span) in tables {
            let layers = self.layers("", table, span.clone());
            let mut section = Section::new(layers, "[route]", self.folder, mistakes);
            routes.extend(route_tables::read(&mut section, span));
        }
        routes
    }

    /// How devices are shared.
    fn arbiter(&self, mistakes: &mut Diagnostics) -> ArbiterTable {
        let is_set = self.overrides.iter().any(|(set, _)| set.table == tenants::ARBITER);
        let is_given = self.table.get_ref().get(tenants::ARBITER).is_some() || is_set;
        let empty = DeTable::new();
        ArbiterTable::read(&mut self.section(tenants::ARBITER, &empty, mistakes), is_given)
    }

    /// The tenants of all devices.
    fn tenants(&self, mistakes: &mut Diagnostics) -> Vec<TenantTable> {
        let list = (tenants::TENANT, Sharing::TENANTS_MAX);
        let tables = table_lists::tables(self.source, self.table.get_ref(), list, mistakes);
        let mut all = Vec::new();
        for (table, span) in tables {
            let layers = self.layers("", table, span.clone());
            let mut section = Section::new(layers, "[tenant]", self.folder, mistakes);
            all.extend(TenantTable::read(&mut section, span, &all));
        }
        all
    }

    /// The table `name` of all chains; `empty` if the file has none.
    fn section<'s>(
        &'s self,
        name: &'static str,
        empty: &'s DeTable<'s>,
        mistakes: &'s mut Diagnostics,
    ) -> Section<'s> {
        let own = self.table.get_ref().get(name).map(|value| (value.get_ref(), value.span()));
        let (table, span) = match own {
            Some((DeValue::Table(table), span)) => (table, span),
            Some((_, span)) => {
                mistakes.push(self.source.mistake(span, format!("`{name}` is a table")));
                (empty, 0..0)
            }
            None => (empty, 0..0),
        };
        Section::new(self.layers(name, table, span), name, self.folder, mistakes)
    }

    fn chain_tables(&self, mistakes: &mut Diagnostics) -> Vec<(&'a DeTable<'a>, Range<usize>)> {
        let Some(value) = self.table.get_ref().get("chain") else {
            let mistake = self.source.whole("[chain] is missing");
            mistakes.push(mistake.help("a chain file begins with [chain] and `functions = [...]`"));
            return Vec::new();
        };
        let items: Vec<&Spanned<DeValue<'a>>> = match value.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            _ => vec![value],
        };
        if items.len() > CHAINS_MAX {
            let told = format!("{} chains: a file has {CHAINS_MAX} at most", items.len());
            mistakes.push(self.source.mistake(items[CHAINS_MAX].span(), told));
        }
        let mut tables = Vec::new();
        for item in items.into_iter().take(CHAINS_MAX) {
            match item.get_ref() {
                DeValue::Table(table) => tables.push((table, item.span())),
                _ => mistakes.push(self.source.mistake(item.span(), "`chain` is a table")),
            }
        }
        tables
    }

    fn layers(&self, name: &str, table: &'a DeTable<'a>, span: Range<usize>) -> Vec<Layer<'a>> {
        let set = self.overrides.iter().filter(|(o, _)| o.table == name);
        let set =
            set.map(|(o, table)| Layer { source: &o.source, table: table.get_ref(), span: 0..0 });
        std::iter::once(Layer { source: self.source, table, span }).chain(set).collect()
    }

    /// The chain of `table`, which comes behind those `before`.
    fn build_chain(
        &self,
        table: &'a DeTable<'a>,
        given: Given<'_>,
        before: &[Loaded],
        used: &mut Vec<String>,
        mistakes: &mut Diagnostics,
    ) -> Option<Loaded> {
        let Given { span, plan: (plan, profile), pressure, starts_paused, .. } = given;
        let Given { ports: chosen, routes, tenants, .. } = given;
        let layers = self.layers("chain", table, span.clone());
        let mut section = Section::new(layers, "chain", self.folder, mistakes);
        section.refuse_all_but(&keys::names(keys::CHAIN));
        let settings = settings(&mut section, pressure, before);
        let names = names(&mut section);
        let name = name(&mut section);
        let tenant = tenant(&mut section, tenants);
        let tables = chosen.take(&mut section, self.source);
        let ports = PortKeys::read(&mut section, &tables, self.folder, self.needs_input);
        let is_live =
            self.options.is_live || ports.input.as_ref().is_some_and(|input| input.is_live());
        let seed = core_keys::seed(&mut section, is_live);
        let peers = port_tables::peers(&mut section, &tables, self.source);
        let own_ports = Ports::new(tables.into_iter().map(|table| table.port).collect());
        let own_ports = own_ports.with_peers(peers);
        used.extend(own_names(table));
        let resources = Resources::with_seed(seed).with_ports(own_ports.clone());
        let (instances, sites, mut resources) =
            self.instances(&names, table, resources, used, mistakes);
        let needs_router = own_ports.len() > 2 && !own_ports.are_wires();
        if needs_router && resources.hop_ports().is_none() && mistakes.is_empty() {
            mistakes.push(self.source.mistake(span.clone(), NO_ROUTER).help(NO_ROUTER_HELP));
        }
        let tables = routes.take(&name);
        let own = (&tables[..], self.function_list(table).whole());
        let routes = match mistakes.is_empty() && instances.len() == names.len() {
            true => route_tables::routes(self.source, own, &instances, &own_ports, mistakes),
            false => None,
        };
        let files = self.files(&names);
        let steps = names.iter().map(|name| self.step(table, name)).collect();
        let chain = Chain::new(name, instances, resources.scratch_words());
        let routed = |chain: Chain| match routes {
            Some(routes) => chain.with_routes(routes),
            None => Ok(chain),
        };
        match chain.and_then(routed) {
            Ok(chain) => {
                let chain = chain.with_ports(own_ports, resources.presumes_crossing());
                let chain = Arc::new(chain.with_seed(seed));
                let lanes = chain.lanes(settings.lanes);
                let mut deployment = Deployment::new(chain, sites);
                deployment.set_plan(PlanOptions { lanes, ..*plan });
                deployment.set_profile(profile.clone());
                let (left_out, remarks) =
                    (resources.notices().clone(), resources.remarks().clone());
                let deployment = Arc::new(deployment);
                let tenancy = Arc::default();
                Some(Loaded {
                    deployment,
                    settings,
                    starts_paused,
                    ports,
                    steps,
                    files,
                    left_out,
                    remarks,
                    tenant,
                    tenancy,
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
        for name in tables.into_iter().chain([plan_keys::TABLE]) {
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

    fn refuse_unused(&self, used: &[String], mistakes: &mut Diagnostics) {
        let is_used = |name: &str| name == "chain" || used.iter().any(|used| used == name);
        let tables = self.table.get_ref().iter();
        let unused: Vec<_> = tables.filter(|(key, _)| !is_used(key.get_ref().as_ref())).collect();
        mistakes.count_more(unused.len().saturating_sub(LISTED_MAX));
        for (key, value) in unused.into_iter().take(LISTED_MAX) {
            let name = key.get_ref().as_ref();
            let is_table = matches!(value.get_ref(), DeValue::Table(_));
            let text = match is_table {
                true => format!("[{name}] is in no chain"),
                false => format!("`{name}` is in no table"),
            };
            let mistake = self.source.mistake(key.span(), text);
            mistakes.push(mistake.help(TABLES));
        }
        for (set, _) in self.overrides {
            if set.table != "chain" && !used.contains(&set.table) {
                let text = format!("--set: [{}] is in no chain", set.table);
                mistakes.push(Diagnostic::bare(text));
            }
        }
    }
}

/// The names that the chain file itself has in `functions`: their tables are no strays where the command
/// line sets others.
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
    let mut number = |key, max, default| section.integer(key, 1..=max, default as u64) as usize;
    Settings {
        lanes,
        cores,
        counts_huge_pages: true,
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
        let told = format!("{} functions: a chain has {FUNCTIONS_MAX} at most", names.len());
        section.mistake("functions", told);
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
