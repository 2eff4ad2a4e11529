//! The chain file: parsed and built in one pass that finds every mistake.

mod chain;
mod instances;
mod overrides;
mod tables;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use warpline_engine::{Chain, Deployment, INSTANCES_MAX, PeerLink, PlanOptions, Settings};
use warpline_nf::config::{Folder, did_you_mean};
use warpline_nf::{Definition, Diagnostic, Diagnostics, LISTED_MAX, Skipped, SourceText};

use warpline_packet::Seed;
use warpline_sched::Profile;

use crate::fixed_keys::FixedKeys;
use crate::peer_keys::PeerKeys;
use crate::placement::{self, Auto, Chosen, PlacementTable};
use crate::plan_keys;
use crate::port_keys::PortKeys;
use crate::port_tables::{self, ChosenPorts};
use crate::pressure_keys::{self, PressureTable};
use crate::process_keys::{self, ProcessTable};
use crate::route_tables::{self, ChosenRoutes};
use crate::tenants::{self, Tenancy, TenantTable};

pub(crate) use overrides::Setting;
use overrides::{Override, parse_override};

/// A chain of the file, built, with its ports.
pub(crate) struct Loaded {
    pub(crate) deployment: Arc<Deployment>,
    pub(crate) settings: Settings,
    /// Whether it reads nothing until it is resumed.
    pub(crate) starts_paused: bool,
    pub(crate) ports: PortKeys,
    /// Instances that are linked to it.
    pub(crate) links: Vec<PeerLink>,
    /// By function, the place of its table in the file, or else of its name: `FILE:LINE:COLUMN`.
    pub(crate) steps: Vec<String>,
    /// Files that its functions' tables name, each with the table's name.
    pub(crate) files: Vec<(String, PathBuf)>,
    /// Rules and lines that functions left out of their files.
    pub(crate) left_out: LeftOut,
    /// Their remarks about other lines.
    pub(crate) remarks: Diagnostics,
    /// By position, the functions with `device = "auto"`.
    pub(crate) autos: Vec<Option<Auto>>,
    /// The choice of devices for these, if there is a profile.
    pub(crate) chosen: Option<Chosen>,
    /// The table by which they are chosen.
    pub(crate) table: Arc<PlacementTable>,
    /// Whether a profile would be needed to choose.
    pub(crate) lacks_profile: bool,
    /// The tenant that it names.
    pub(crate) tenant: Option<String>,
    /// The table `[process]` of the file.
    pub(crate) process: ProcessTable,
    /// Keys that a reload cannot change.
    pub(crate) fixed: FixedKeys,
    /// The shared devices of the file.
    pub(crate) tenancy: Arc<Tenancy>,
}

/// Rules and lines that functions left out of their files.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeftOut {
    /// Those with messages.
    pub(crate) listed: Diagnostics,
    /// Numbers of all.
    pub(crate) counts: Skipped,
}

impl Loaded {
    pub(crate) fn chain(&self) -> &Chain {
        self.deployment.chain()
    }
}

/// Functions that a chain may have.
const FUNCTIONS_MAX: usize = INSTANCES_MAX;
/// Bytes of the name of a chain or an instance.
const NAME_LEN_MAX: usize = 128;
/// Chains that a file may have.
const CHAINS_MAX: usize = 256;

/// Tables that are no function's.
const RESERVED: [&str; 9] = [
    "chain",
    plan_keys::TABLE,
    placement::TABLE,
    port_tables::TABLE,
    route_tables::TABLE,
    pressure_keys::TABLE,
    process_keys::TABLE,
    tenants::ARBITER,
    tenants::TENANT,
];
const TABLES: &str = "tables: [chain], [[port]], [[route]], [[tenant]], [arbiter], [plan], \
    [placement], [backpressure], [process] and one for each name in `functions`";
const NO_ROUTES: &str = "forward = \"route\" needs a router in the chain";
const NO_ROUTES_HELP: &str = "add \"router\" to `functions`; its routes name the port: `dev PORT`";
const NO_ROUTER: &str = "a chain with more than two ports needs a router";
const NO_ROUTER_HELP: &str =
    "its routes name the port by which packets leave: `dev PORT`. Or give each port a `peer`";

/// Settings of a file for its chains.
struct Given<'a> {
    /// The place of the chain's table.
    span: Range<usize>,
    plan: &'a (PlanOptions, Profile),
    placement: &'a Arc<PlacementTable>,
    /// Keys of all chains that a reload cannot change.
    fixed: &'a FixedKeys,
    pressure: &'a PressureTable,
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
    /// Whether devices are those of a profile: tenants may name others than this machine has.
    pub(crate) is_simulated: bool,
    /// Whether the command line names an interface as the input.
    pub(crate) is_live: bool,
    /// The seeds of chains that run, by name: a reload keeps them.
    pub(crate) seeds: &'a [(String, Seed)],
}

impl<'a> LoadOptions<'a> {
    /// With `functions`, and nothing set on top of the file.
    pub(crate) fn of(functions: &'a [&'static Definition]) -> Self {
        Self { functions, set: &[], device: None, is_simulated: false, is_live: false, seeds: &[] }
    }

    /// The seed that the chain called `name` runs with.
    fn seed_of(&self, name: &str) -> Option<Seed> {
        self.seeds.iter().find(|(own, _)| own == name).map(|(_, seed)| *seed)
    }
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
    push_syntax_errors(source, errors, &mut mistakes);
    let overrides: Vec<Override> =
        set.iter().filter_map(|setting| parse_override(setting, &mut mistakes)).collect();
    let parsed: Vec<(&Override, Spanned<DeTable<'_>>)> =
        overrides.iter().filter_map(|o| Some((o, DeTable::parse(&o.source.text).ok()?))).collect();
    if !mistakes.is_empty() {
        if !source.text.lines().any(is_chain_header) {
            mistakes.push(tables::no_chain(source));
        }
        mistakes.sort();
        return Err(mistakes);
    }
    let file = File { source, table: &table, folder, overrides: &parsed, needs_input, options };
    let chains = file.build(&mut mistakes);
    mistakes.sort();
    if mistakes.is_empty() { Ok(chains) } else { Err(mistakes) }
}

/// Adds the mistakes of the TOML reader. It reads all that follows an array or inline table without
/// an end as its elements, so only the place where it should have ended is reported.
fn push_syntax_errors(
    source: &SourceText,
    mut errors: Vec<toml::de::Error>,
    mistakes: &mut Diagnostics,
) {
    let place = |error: &toml::de::Error| error.span().unwrap_or(0..0);
    errors.sort_by_key(|error| place(error).start);
    let is = |error: &toml::de::Error, start: &str| error.message().starts_with(start);
    // A key among the elements, and the comma that is missing before it.
    let key = errors.iter().position(|error| is(error, "unexpected `=` in"));
    let key = key.filter(|_| errors.iter().any(|error| is(error, "unclosed")));
    let comma = errors[..key.unwrap_or(0)].iter().rposition(|error| is(error, "missing comma"));
    for (at, error) in errors.iter().enumerate() {
        let message = error.message().to_lowercase();
        if comma == Some(at) {
            let text = "no comma, and no end of the array or inline table that began before";
            mistakes.push(source.mistake(place(error), text));
            return;
        }
        mistakes.push(source.mistake(place(error), message));
    }
}

/// Whether a line begins a chain's table.
pub(crate) fn is_chain_header(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("[chain") || line.starts_with("[[chain")
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
        let empty = DeTable::new();
        let mut fixed = FixedKeys::default();
        let placement = &mut self.section(placement::TABLE, &empty, mistakes);
        let placement = Arc::new(PlacementTable::read(placement));
        let mut peers = PeerKeys::default();
        let mut section = self.section(pressure_keys::TABLE, &empty, mistakes);
        let pressure = pressure_keys::read(&mut section, chains.len(), &mut peers);
        let process =
            process_keys::read(&mut self.section(process_keys::TABLE, &DeTable::new(), mistakes));
        fixed.note_process(&process);
        fixed.note_pressure(&pressure.options, pressure.starts_paused);
        let ports = self.ports(&mut peers, mistakes);
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
                placement: &placement,
                fixed: &fixed,
                pressure: &pressure,
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
        // After other mistakes, these checks would report their consequences.
        if mistakes.is_empty() {
            if let Err(why) = placement.place(&mut loaded) {
                mistakes.push(self.source.whole(format!("[placement]: {why}")));
            }
            let mut all: Vec<_> = loaded.iter_mut().zip(spans).collect();
            let is_forced = self.options.device.is_some();
            let tables = (&arbiter, &tenants[..]);
            let tenancy = match self.options.is_simulated {
                true => Tenancy::named(tables, self.source, mistakes),
                false => Tenancy::share(tables, is_forced, &mut all, self.source, mistakes),
            };
            let tenancy = Arc::new(tenancy);
            loaded.iter_mut().for_each(|chain| chain.tenancy = Arc::clone(&tenancy));
            loaded.iter_mut().for_each(|chain| chain.process = process.clone());
        }
        ports.refuse_left(self.source, mistakes);
        routes.refuse_left(self.source, mistakes);
        self.refuse_unused(&used, mistakes);
        loaded
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
            mistakes.push(mistake.help(self.help_for_unused(name, used)));
        }
        for (set, _) in self.overrides {
            if set.table != "chain" && !used.contains(&set.table) {
                let text = format!("--set: [{}] is in no chain", set.table);
                let help = match set.table.split_once('.') {
                    Some((table, key)) => format!("write --set '{table}.{key}={{KEY=VALUE}}'"),
                    None => self.help_for_unused(&set.table, used),
                };
                mistakes.push(Diagnostic::bare(text).help(help));
            }
        }
    }

    fn help_for_unused(&self, name: &str, used: &[String]) -> String {
        if self.options.functions.iter().any(|definition| definition.name == name) {
            return format!("add {name:?} to `functions` of a chain");
        }
        let known = RESERVED.iter().copied().chain(used.iter().map(String::as_str));
        format!("{}{TABLES}", did_you_mean(name, known))
    }
}
