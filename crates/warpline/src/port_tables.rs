//! The `[[port]]` tables of a chain file: where packets come in and leave, by name.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::de::DeTable;
use warpline_engine::PeerLink;
use warpline_io::af_packet::AfPacketConfig;
use warpline_io::af_xdp::Mode;
use warpline_io::interface::Interface;
use warpline_io::per_port::Wanted;
use warpline_nf::config::{Folder, NumberOrName, did_you_mean};
use warpline_nf::{Diagnostics, Port, Ports, Section, Side, SourceText};

use crate::keys;
use crate::peer_keys::PeerKeys;
use crate::port_keys::{read_port, refusal};
use crate::ports::{Input, Output, PortInput};

/// The tables' name: no function can have it.
pub(crate) const TABLE: &str = "port";

/// A `[[port]]` table.
#[derive(Clone)]
pub(crate) struct PortTable {
    pub(crate) port: Port,
    /// Its input; none for `device = "none"`.
    pub(crate) input: Option<Input>,
    /// The interface of a capture that feeds it.
    pub(crate) interface: Option<Wanted>,
    /// Its own output.
    pub(crate) output: Option<Output>,
    /// Instances that are linked to it.
    pub(crate) links: Vec<PeerLink>,
    /// The name of the port at the other end of its wire.
    pub(crate) peer: Option<String>,
    /// Whether its packets are forwarded by routes.
    pub(crate) forwards: bool,
    /// Where its table stands.
    pub(crate) span: Range<usize>,
}

/// Bytes of a port's name.
const NAME_LEN_MAX: usize = 128;

/// The name that a table gives its port, if it is one.
pub(crate) fn name_of<'a>(table: &'a DeTable<'a>) -> Option<&'a str> {
    table.get("name")?.get_ref().as_str()
}

/// Reads a table, with the command line's settings; `before` are the ports of those above it. The
/// file that it names must be there if `needs_input`.
pub(crate) fn read(
    section: &mut Section<'_>,
    span: Range<usize>,
    (before, peers): (&[PortTable], &mut PeerKeys),
    folder: Folder<'_>,
    needs_input: bool,
) -> Option<PortTable> {
    section.refuse_all_but(&keys::names(keys::PORT));
    section.require("name", "the port's name");
    section.require("side", "\"inside\" or \"outside\"");
    section.require("device", "af_packet:IF, af_xdp:IF, a capture, generate:... or none");
    let name = name(section, before);
    let sides = [Side::Inside, Side::Outside].map(|side| (side.name(), side));
    let side = section.choice("side", &sides, Side::Inside);
    let (path, on_disk) = match folder {
        Folder::Disk(folder) => (folder, true),
        Folder::Bundled(_) => (Path::new(""), false),
    };
    let mut input = device(section, path, needs_input && on_disk);
    let forwards = forwards(section, input.as_mut());
    let interface = interface(section, input.as_ref());
    let output = section.string("output").and_then(|text| {
        let parsed = match text {
            "-" => Err("a port writes to a file, not to standard output".into()),
            _ => Output::parse(text, path),
        };
        read_port(section, "output", parsed.map_err(|why| vec![why]))
    });
    // Frames leave by the interface that they arrive at.
    let output = output.or_else(|| match &input {
        Some(Input::Interface(interface)) if !section.has("output") => {
            Some(Output::Interface(interface.clone()))
        }
        _ => None,
    });
    let links = peers.read_port(section, (name.as_deref().unwrap_or_default(), before.len()));
    let port = Port { name: name?, side };
    let peer = section.string("peer").map(str::to_owned);
    let table = PortTable { port, input, interface, output, links, peer, forwards, span };
    refuse_taken(section, &table, before);
    Some(table)
}

fn name(section: &mut Section<'_>, before: &[PortTable]) -> Option<String> {
    let name = section.string("name")?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._:@-".contains(c);
    if name.is_empty() || name.len() > NAME_LEN_MAX || !name.chars().all(is_plain) {
        let text = format!(
            "`name`: a port's name has 1 to {NAME_LEN_MAX} of the characters a-z, A-Z, 0-9 and \
             ._:@-"
        );
        section.mistake("name", text);
        return None;
    }
    let is_taken = |name: &str| before.iter().any(|other| other.port.name == name);
    if is_taken(name) {
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let free = numbered.into_iter().find(|name| !is_taken(name)).unwrap_or_default();
        section.mistake("name", format!("two ports are called {name:?}; write name = {free:?}"));
        return None;
    }
    Some(name.to_owned())
}

fn device(section: &mut Section<'_>, folder: &Path, needs_input: bool) -> Option<Input> {
    let text = section.string("device")?;
    let parsed = match text {
        "none" => return None,
        "-" => Err(vec!["a port reads a file, not standard input".into()]),
        _ => Input::parse(text, folder),
    };
    let mut input = parsed;
    if let Some(why) = input.as_ref().ok().and_then(refusal)
        && needs_input
    {
        input = Err(vec![format!("can't read {text:?}: {why}")]);
    }
    let input = read_port(section, "device", input);
    let input = of_packet(section, input);
    of_xdp(section, input)
}

/// `input` with the keys of packet sockets.
fn of_packet(section: &mut Section<'_>, mut input: Option<Input>) -> Option<Input> {
    for (key, range) in
        [("queue_mib", AfPacketConfig::QUEUE_MIB_RANGE), ("queues", AfPacketConfig::QUEUES_RANGE)]
    {
        if !section.has(key) {
            continue;
        }
        let Some(Input::Interface(Interface::AfPacket(config))) = &mut input else {
            if input.is_some() {
                section.mistake(key, format!("`{key}` requires af_packet:IF as `device`"));
            }
            continue;
        };
        let value = if key == "queues" { &mut config.queues } else { &mut config.queue_mib };
        let range = u64::from(*range.start())..=u64::from(*range.end());
        *value = section.integer(key, range, u64::from(*value)) as u16;
    }
    input
}

/// `input` with the keys of AF_XDP.
fn of_xdp(section: &mut Section<'_>, input: Option<Input>) -> Option<Input> {
    let Some(Input::Interface(Interface::AfXdp(mut config))) = input else {
        for key in ["mode", "queue"].into_iter().filter(|_| input.is_some()) {
            if section.has(key) {
                section.mistake(key, format!("`{key}` requires af_xdp:IF as `device`"));
            }
        }
        return input;
    };
    config.mode = section.choice("mode", &Mode::ALL, config.mode);
    if section.has("queue") {
        config.queue = Some(section.integer("queue", 0..=u64::from(u16::MAX), 0) as u32);
    }
    Some(Input::Interface(Interface::AfXdp(config)))
}

/// Reads `forward`. The interface then takes frames to its own address only.
fn forwards(section: &mut Section<'_>, input: Option<&mut Input>) -> bool {
    let is_route = section.choice("forward", &[("route", true)], false);
    if !is_route {
        return false;
    }
    for other in ["peer", "output", "interface"] {
        if section.has(other) {
            section.mistake("forward", format!("`forward` conflicts with `{other}`"));
        }
    }
    match input {
        Some(Input::Interface(Interface::AfPacket(config))) => config.promiscuous = false,
        Some(Input::Interface(Interface::AfXdp(config))) => config.promiscuous = false,
        _ => {
            let text = "`forward` requires an interface as `device`";
            section.mistake("forward", text);
        }
    }
    true
}

fn interface(section: &mut Section<'_>, input: Option<&Input>) -> Option<Wanted> {
    let wanted = match section.number_or_name("interface", 0..=u64::from(u16::MAX))? {
        NumberOrName::Number(number) => Wanted::Number(number as u16),
        NumberOrName::Name(name) => Wanted::Name(name.to_owned()),
    };
    if !matches!(input, Some(Input::File(..))) && section.has("device") {
        section.mistake("interface", "`interface` requires a capture file as `device`");
    }
    Some(wanted)
}

/// Frames of one interface come in at one port.
fn refuse_taken(section: &mut Section<'_>, table: &PortTable, before: &[PortTable]) {
    let Some(path) = table.input.as_ref().and_then(file) else { return };
    let same = before.iter().find(|other| other.input.as_ref().and_then(file) == Some(path));
    let Some(first) = same else { return };
    let other = before.iter().find(|other| {
        other.input.as_ref().and_then(file) == Some(path) && other.interface == table.interface
    });
    let name = &table.port.name;
    let file = section.string("device").unwrap_or_default();
    match (&table.interface, other) {
        (None, _) => {
            let text = format!(
                "ports {:?} and {name:?} read {file}: each needs the interface that feeds it, such \
                 as interface = 0",
                first.port.name
            );
            section.mistake("device", text);
        }
        (Some(_), _) if first.interface.is_none() => {
            let text = format!("port {:?} reads all interfaces of {file}", first.port.name);
            section.mistake("interface", format!("{text}; give it an `interface`, too"));
        }
        (Some(wanted), Some(other)) => {
            let text = format!("interface {wanted} of {file} feeds port {:?}", other.port.name);
            section.mistake("interface", text);
        }
        (Some(_), None) => {}
    }
}

fn file(input: &Input) -> Option<&PathBuf> {
    match input {
        Input::File(path, _) => Some(path),
        _ => None,
    }
}

/// The inputs of a chain's ports, as one.
pub(crate) fn input(tables: &[PortTable]) -> Input {
    let inputs = (0..).zip(tables).filter_map(|(number, table)| {
        let (input, interface) = (table.input.clone()?, table.interface.clone());
        let (name, forwards) = (table.port.name.clone(), table.forwards);
        Some(PortInput { number, name, input, interface, forwards })
    });
    let names = tables.iter().map(|table| table.port.name.clone()).collect();
    Input::Ports(inputs.collect(), names)
}

/// The ports of a file, each of which is one chain's.
pub(crate) struct ChosenPorts {
    tables: Vec<PortTable>,
    /// By table, whether a chain has it.
    is_taken: Vec<bool>,
    /// Whether the file has one chain, which needs not name its ports.
    is_only: bool,
}

impl ChosenPorts {
    pub(crate) fn new(tables: Vec<PortTable>, is_only: bool) -> Self {
        let is_taken = vec![false; tables.len()];
        Self { tables, is_taken, is_only }
    }

    /// The ports of the chain of `section`, in the order of the file.
    pub(crate) fn take(
        &mut self,
        section: &mut Section<'_>,
        source: &SourceText,
    ) -> Vec<PortTable> {
        let names: Vec<String> = section.parsed_list("ports");
        let mut own = vec![self.is_only && !section.has("ports"); self.tables.len()];
        for name in names {
            match self.tables.iter().position(|table| table.port.name == name) {
                Some(at) if self.is_taken[at] || own[at] => {
                    section.mistake("ports", format!("port {name:?} is named twice in `ports`"));
                }
                Some(at) => own[at] = true,
                None => {
                    let known = self.tables.iter().map(|table| table.port.name.as_str());
                    let text = format!("there is no port {name:?}");
                    let meant = did_you_mean(&name, known.clone());
                    let known = known.collect::<Vec<_>>().join(", ");
                    section.mistake("ports", format!("{text}; {meant}ports: {known}"));
                }
            }
        }
        let numbers = (0..own.len()).filter(|&at| own[at]);
        let tables: Vec<PortTable> = numbers.map(|at| self.tables[at].clone()).collect();
        self.is_taken.iter_mut().zip(&own).for_each(|(is_taken, own)| *is_taken |= own);
        refuse_paces(section, &tables, source);
        tables
    }

    /// Notes the ports that no chain has.
    pub(crate) fn refuse_left(&self, source: &SourceText, mistakes: &mut Diagnostics) {
        for (table, _) in self.tables.iter().zip(&self.is_taken).filter(|(_, is_taken)| !*is_taken)
        {
            let text = format!("port {:?} is in no chain", table.port.name);
            let help = format!("write ports = [{:?}, ...] in its [[chain]]", table.port.name);
            mistakes.push(source.mistake(table.span.clone(), text).help(help));
        }
    }
}

/// By port, the port at the other end of its wire, named by one of the two or by both.
fn peers(section: &mut Section<'_>, tables: &[PortTable], source: &SourceText) -> Vec<Option<u16>> {
    let mut peers = vec![None; tables.len()];
    for (own, table) in tables.iter().enumerate() {
        let Some(name) = &table.peer else { continue };
        let peer = tables.iter().position(|other| other.port.name == *name);
        let text = match peer {
            None => format!("`peer`: the chain has no port {name:?}"),
            Some(peer) if peer == own => format!("`peer`: port {name:?} is its own peer"),
            Some(peer) => {
                let is = |at: usize, other: usize| peers[at].is_none_or(|n| n == other as u16);
                if is(own, peer) && is(peer, own) {
                    (peers[own], peers[peer]) = (Some(peer as u16), Some(own as u16));
                    continue;
                }
                let own = &table.port.name;
                format!("`peer`: port {own:?} or {name:?} has another peer")
            }
        };
        section.note(source.mistake(table.span.clone(), text));
    }
    peers
}

/// The ports as the chain's functions get them: with peers, interfaces and ways of forwarding.
pub(crate) fn ports(section: &mut Section<'_>, tables: &[PortTable], source: &SourceText) -> Ports {
    let peers = peers(section, tables, source);
    let all = tables.iter().map(|table| table.port.clone()).collect();
    let interfaces = tables.iter().map(PortTable::network_interface);
    let routed: Vec<bool> = tables.iter().map(|table| table.forwards).collect();
    if routed.contains(&true) {
        let left = tables.iter().filter(|table| !table.forwards);
        for table in left.filter(|table| table.network_interface().is_some()) {
            let text = format!("port {:?} lacks forward = \"route\"", table.port.name);
            let help = "either all interfaces of a chain forward by routes, or none does";
            section.note(source.mistake(table.span.clone(), text).help(help));
        }
    }
    let all = Ports::new(all).with_peers(peers).with_routed(routed);
    all.with_interfaces(interfaces.map(|name| name.map(str::to_owned)).collect())
}

impl PortTable {
    /// The network interface that is its device.
    fn network_interface(&self) -> Option<&str> {
        match &self.input {
            Some(Input::Interface(interface)) => Some(interface.name()),
            _ => None,
        }
    }
}

/// The frames of all ports are one sequence, which has one pace.
fn refuse_paces(section: &mut Section<'_>, tables: &[PortTable], source: &SourceText) {
    let pace = |table: &PortTable| table.input.as_ref().and_then(Input::pace);
    let first = tables.iter().find_map(pace);
    let other = tables.iter().find(|table| pace(table).is_some_and(|own| Some(own) != first));
    if let (Some(first), Some(other)) = (first, other) {
        let text = format!("the ports of a chain share a pace: pace={first} is given before");
        section.note(source.mistake(other.span.clone(), text));
    }
}
