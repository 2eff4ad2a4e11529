//! The configuration and traffic by which each function is measured.

use warpline_nf::config::Folder;
use warpline_nf::{Definition, SourceText};

use crate::chain_file::{LoadOptions, Loaded, Setting, load};
use crate::demo;

/// The tables of functions that need one. Generated packets go from 10.0.0.0/8 to 198.18.0.0/15.
const TABLES: &[(&str, &str)] = &[
    ("firewall", "rules = \"measured.rules\"\ndefault = \"drop\"\nestablished = true"),
    ("ipcomp", "mode = \"compress\"\nto = [\"198.18.0.0/15\"]"),
    ("ipsec", "sas = \"sas.toml\"\npolicies = \"measured.toml\"\ndefault = \"bypass\""),
    ("load_balancer", "services = \"services.txt\""),
    ("nat", "inside = [\"10.0.0.0/8\"]\noutside = [\"203.0.113.0/30\"]"),
    ("nids", "rules = \"sensor.rules\"\nclassification = \"classes.config\"\nflows = 16384"),
    ("router", "routes = \"measured.routes\""),
];
const ROUTES: &str = "0.0.0.0/1 192.0.2.1\n128.0.0.0/1 192.0.2.2\n198.18.0.0/15 192.0.2.3\n";
const POLICIES: &str = "[[policy]]\nsrc = \"10.0.0.0/8\"\naction = \"protect\"\nsa = \"voice\"\n";
/// Rules of the firewall that no generated packet matches.
const RULES: u32 = 999;

/// Generated packets of `len` bytes, without an end.
pub(super) fn traffic(len: u32) -> String {
    format!("generate:packets=1000000000000,size={len},flows=1000,seed=7,payload=text")
}

/// The sizes of a launch, and the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Where<'a> {
    pub(super) device: &'a str,
    pub(super) launch_packets: u32,
    pub(super) packet_len: u32,
    /// Launches in flight at most.
    pub(super) streams: u32,
}

/// Packets of a batch, of which launches are made.
pub(super) const BATCH: u32 = 256;

/// A chain of this function alone.
///
/// # Errors
/// It needs a table of its own, or the device cannot run it.
pub(super) fn chain(
    functions: &[&'static Definition],
    definition: &Definition,
    at: Where<'_>,
) -> Result<Loaded, String> {
    let name = definition.name;
    let table = TABLES.iter().find(|(own, _)| *own == name).map_or("", |(_, table)| table);
    let text = format!("[chain]\nfunctions = [{name:?}]\n\n[{name}]\n{table}\n");
    let source = SourceText::new(format!("the profile's chain of {name}"), text);
    let rules = rules();
    let mut files = demo::FILES.to_vec();
    files.extend([("measured.rules", &*rules), ("measured.routes", ROUTES)]);
    files.push(("measured.toml", POLICIES));
    let set = Setting::of_set(&settings(name, at));
    let options = LoadOptions { set: &set, device: Some(at.device), ..LoadOptions::of(functions) };
    let loaded = load(&source, Folder::Bundled(&files), &options, false);
    let mut chains = loaded.map_err(|mistakes| mistakes.to_string())?;
    chains.pop().ok_or_else(|| "it has no chain".into())
}

fn settings(name: &str, at: Where<'_>) -> Vec<String> {
    let is_cpu = at.device == "cpu";
    let batch = if is_cpu { at.launch_packets } else { at.launch_packets.min(BATCH) };
    let mut set = vec![format!("chain.batch_packets={batch}"), "chain.lanes=1".into()];
    if !is_cpu {
        let kib = (at.launch_packets * at.packet_len).div_ceil(1024).max(1);
        set.push(format!("{name}.launch_kib={kib}"));
        set.push(format!("{name}.launch_delay_us=20000"));
        set.push(format!("{name}.streams={}", at.streams));
    }
    set
}

fn rules() -> String {
    let rule = |i| format!("drop tcp from 172.16.{}.{} to any port {}\n", i / 256, i % 256, i + 1);
    (0..RULES).map(rule).chain(["accept from any to any\n".into()]).collect()
}
