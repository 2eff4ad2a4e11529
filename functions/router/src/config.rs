//! The function's table in the chain file, and the files that it names.

use std::sync::Arc;

use super::checks::{self, Checks};
use super::fib::Fib;
use super::kernel_routes::{self, KernelRoutes, Tables};
use super::routes::{self, Routes, Unsupported};
use super::{Router, Sends, mrt};
use warpline_nf::config::unpack::unpack;
use warpline_nf::{Diagnostics, Function, HopPorts, Key, Ports, Resources, Section, SourceText};
use warpline_rewrite::icmp_errors;
use warpline_rule_files::neighbours::{self, Mac};

pub(super) const KEYS: &[Key] = &{
    let [icmp, icmp_src_v4, icmp_src_v6, icmp_rate_pps] = icmp_errors::KEYS;
    let [
        martian_source,
        martian_destination,
        multicast,
        link_broadcast,
        bad_checksum,
        bad_options,
        source_route,
        directed_broadcast,
    ] = checks::KEYS;
    [
        Key {
            name: "routes",
            allowed: "a file, or kernel",
            default: "required",
            help: "`prefix next-hop` lines, `ip route`, an MRT dump; kernel follows the kernel's \
                   routes",
        },
        Key {
            name: "neighbours",
            allowed: "a file",
            default: "none: Ethernet addresses are unchanged",
            help: "`address mac` lines, or the output of `ip neigh`",
        },
        Key {
            name: "mac",
            allowed: "an Ethernet address",
            default: "none: Ethernet addresses are unchanged",
            help: "the router's own Ethernet address",
        },
        martian_source,
        martian_destination,
        multicast,
        link_broadcast,
        bad_checksum,
        bad_options,
        source_route,
        directed_broadcast,
        icmp,
        icmp_src_v4,
        icmp_src_v6,
        icmp_rate_pps,
        Key {
            name: "unsupported",
            allowed: "error | skip",
            default: "error",
            help: "unsupported routes: an error, or skip; then their packets are dropped",
        },
    ]
};

/// Next hops of a router are numbered from a multiple of this on, so that those of the router
/// before may become more.
const HOPS_STEP: usize = 1 << 10;

/// The number that next hop 0 of a router has in packets, after `before` numbers of other routers.
/// `None` if there is no room for its `hops`.
pub(super) fn first_hop(before: usize, hops: usize) -> Option<u16> {
    let first = u16::try_from(before.next_multiple_of(HOPS_STEP)).ok()?;
    (usize::from(first) + hops <= 1 << 16).then_some(first)
}

/// A table of the chain file, with the contents of its files.
pub(super) struct Settings {
    pub(super) fib: Arc<Fib>,
    pub(super) mac: Option<Mac>,
    pub(super) icmp: Option<icmp_errors::Config>,
    pub(super) checks: Checks,
    /// The number that next hop 0 of `fib` has in packets: each router of a chain has its own.
    pub(super) first_hop: u16,
    /// The port of each next hop, in a chain with ports.
    pub(super) hop_ports: Option<HopPorts>,
    /// The routes that it follows.
    pub(super) kernel: Option<Arc<KernelRoutes>>,
}

pub(super) fn build(
    section: &mut Section<'_>,
    resources: &mut Resources,
) -> Option<Box<dyn Function>> {
    let settings = read(section, resources)?;
    Some(Box::new(Router::new(&settings, Sends::All)))
}

pub(super) fn build_pair(
    section: &mut Section<'_>,
    resources: &mut Resources,
) -> Option<[Box<dyn Function>; 2]> {
    let settings = read(section, resources)?;
    let place = |sends| -> Box<dyn Function> { Box::new(Router::new(&settings, sends)) };
    Some([place(Sends::All), place(Sends::Wrapped)])
}

fn read(section: &mut Section<'_>, resources: &mut Resources) -> Option<Settings> {
    let choices = [("error", Unsupported::Error), ("skip", Unsupported::Skip)];
    let unsupported = section.choice("unsupported", &choices, Unsupported::Error);
    section.require("routes", "the route file");
    let ports = resources.ports().clone();
    let mac = mac(section, &ports);
    let checks = Checks::read(section);
    let icmp = icmp_errors::Config::read(section);
    let (file, kernel) = match section.string("routes") {
        Some(KERNEL) => kernel_routes(section, &ports, checks).unzip(),
        _ => (route_file(section, unsupported), None),
    };
    let unsupported = match (&kernel, unsupported) {
        (Some(_), Unsupported::Skip) => Unsupported::Kernel,
        _ => unsupported,
    };
    let needs_ports = ports.len() > 2 || ports.are_routed();
    if matches!(file, Some(RouteFile::Dump(_))) && needs_ports {
        let text = "a dump names no ports, which this chain needs";
        section.mistake("routes", text);
    }
    let source_neighbours = section.file("neighbours");
    let note = &mut |mistake| section.note(mistake);
    let source;
    let routes = match file {
        Some(RouteFile::Dump(routes)) => Some(routes),
        Some(RouteFile::Text(text)) => {
            source = text;
            Some(routes::read(&source, unsupported, &ports, note))
        }
        None => None,
    };
    let neighbours = source_neighbours.as_ref().map(|source| neighbours::read(source, note));
    if section.is_broken() {
        return None;
    }
    let routes = routes?;
    notice_left_out(section, resources, &routes);
    if routes.routes.is_empty() && kernel.is_none() {
        let mut remarks = Diagnostics::default();
        let file = SourceText::new(section.string("routes").unwrap_or_default(), "");
        remarks.push(file.whole("it has no routes: each packet is dropped as no-route"));
        resources.remarks_of(&remarks);
    }
    let fib = Fib::new(&routes, neighbours.as_ref(), checks);
    let fib = fib.map_err(|why| section.mistake("neighbours", why)).ok()?;
    let tables = Tables::new(fib);
    if let Some(kernel) = &kernel {
        kernel.set(tables.clone(), routes.skipped);
    }
    let Tables { fib, hop_ports } = tables;
    let hops = hop_ports.all().len();
    let Some(first_hop) = first_hop(resources.next_hops(), hops) else {
        let why = format!("{hops} next hops are too many after those of other routers");
        section.mistake("routes", why);
        return None;
    };
    let hop_ports = (!ports.is_empty()).then(|| hop_ports.numbered_from(first_hop));
    if let Some(hop_ports) = &hop_ports {
        resources.set_hop_ports(hop_ports.clone());
    }
    Some(Settings { fib, mac, icmp, checks, first_hop, hop_ports, kernel })
}

/// The source of Ethernet addresses, which needs those of neighbours.
fn mac(section: &mut Section<'_>, ports: &Ports) -> Option<Mac> {
    if section.has("mac") != section.has("neighbours") {
        let (has, lacks) =
            if section.has("mac") { ("mac", "neighbours") } else { ("neighbours", "mac") };
        section.mistake(has, format!("`{has}` needs `{lacks}`: Ethernet addresses take both"));
    }
    if ports.are_routed() && section.has("neighbours") {
        let text = "`neighbours` conflicts with forward = \"route\", which takes the kernel's";
        section.mistake("neighbours", text);
    }
    section.parsed::<Mac>("mac")
}

/// Counts the lines of a route file that the table does not have.
fn notice_left_out(section: &mut Section<'_>, resources: &mut Resources, routes: &Routes<'_>) {
    let file = SourceText::new(section.string("routes").unwrap_or_default(), "");
    let left_out = format!("routes of other tables are left out: {}", routes.of_other_tables);
    for (count, text) in
        [(routes.skipped, routes.skipped_text()), (routes.of_other_tables, left_out)]
    {
        if count > 0 {
            resources.notice_many(file.whole(text), count);
        }
    }
}

/// The kernel's routes, which have no neighbours of files.
fn kernel_routes(
    section: &mut Section<'_>,
    ports: &Ports,
    checks: Checks,
) -> Option<(RouteFile, Arc<KernelRoutes>)> {
    if section.has("neighbours") {
        let text = "`neighbours` conflicts with routes = \"kernel\"; see forward = \"route\"";
        section.mistake("neighbours", text);
    }
    match KernelRoutes::open(ports, checks) {
        Ok((kernel, text)) => Some((RouteFile::Text(text), Arc::new(kernel))),
        Err(why) => {
            section.mistake("routes", format!("the kernel's routes can't be read: {why}"));
            None
        }
    }
}

/// The value of `routes` for the kernel's.
const KERNEL: &str = kernel_routes::NAME;

/// The content of the file that the key `routes` names.
enum RouteFile {
    Text(SourceText),
    Dump(Routes<'static>),
}

/// Reads the file of routes, which may be packed: a dump whole, a text as it is.
fn route_file(section: &mut Section<'_>, unsupported: Unsupported) -> Option<RouteFile> {
    let (name, bytes) = section.file_bytes("routes")?;
    if let Ok(unpacked) = unpack(&bytes)
        && mrt::is_mrt(unpacked.head())
    {
        let note = &mut |mistake| section.note(mistake);
        let routes = mrt::read(unpacked.into_reader(), name, unsupported, note);
        return Some(RouteFile::Dump(routes));
    }
    section.text("routes", name, bytes).map(RouteFile::Text)
}
