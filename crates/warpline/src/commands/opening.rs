//! Opens everything that a run reads and writes: first interfaces and inputs, then, without the
//! rights that these need, its files.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use warpline_engine::{Machine, Member, PeerLink, Peers, Ports};
use warpline_io::af_packet::Delivery;
use warpline_io::interface::Interface;
use warpline_io::middleware::Limit;
use warpline_io::neighbours::{Follower, NeighbourTable};
use warpline_io::per_port::PortSinks;
use warpline_io::rights::{
    Rights, User, become_user, check_readable, give_up_in_other_threads, is_root, keep,
    refuse_calls,
};
use warpline_io::{Sink, Source};
use warpline_io_error::plain;
use warpline_nf::{Destination, Format, Output as RecordOutput, Outputs, Registry};

use super::places::{Planned, kept_files, located, written_files};
use super::run::print_message;
use crate::Failure;
use crate::chain_file::Loaded;
use crate::claims::Refusal;
use crate::cli::RunArguments;
use crate::ctl::Socket;
use crate::ports::{Input, Liveness, NotOpened, Output, wrap};
use crate::route_mode;
use crate::writes::{Earlier, Emptied, FileSlot, Writes};

/// All that a run reads and writes.
pub(super) struct Opened {
    /// The chains as they were loaded, in the order of the machine's.
    pub(super) loaded: Vec<Loaded>,
    pub(super) machine: Machine,
    pub(super) stats: Option<File>,
    pub(super) socket: Option<Socket>,
}

/// The outputs of a run besides packets.
struct Reports<'a> {
    registry: &'a Registry,
    /// Where alerts go, unless to standard output or nowhere.
    alerts: Option<Destination>,
}

/// A chain's inputs and interfaces, open.
struct Ends {
    source: Box<dyn Source>,
    /// The sockets of its links.
    peers: Peers,
    /// The interface of the chain's output and of each port's, if it is one.
    interfaces: Vec<Option<Box<dyn Sink>>>,
    follower: Option<Follower>,
    neighbours: Option<NeighbourTable>,
}

/// The places of a chain's files.
struct Places {
    tap: Option<FileSlot>,
    /// Of the chain's output, then of each port's.
    outputs: Vec<Option<FileSlot>>,
}

/// Opens every input, then every output, so that nothing is emptied for a run that can't start.
pub(super) fn open(
    arguments: &RunArguments,
    planned: Vec<Planned>,
    alerts: Option<Destination>,
) -> Result<Opened, Failure> {
    let refuse = |path: Option<&Path>, why: String| {
        let path = path.unwrap_or(Path::new("")).into();
        located(arguments.chain.as_deref(), &Refusal { why, path })
    };
    let is_live = planned.iter().any(|chain| chain.input.is_live());
    let process = planned.first().map(|chain| &chain.loaded.process);
    let patience = process.map_or(Duration::ZERO, |process| process.outputs_wait);
    let registry = if is_live { Registry::queued(patience) } else { Registry::default() };
    let reports = Reports { registry: &registry, alerts };
    let user = process.and_then(|process| process.user.as_ref());
    let socket = open_socket(arguments, user).map_err(Failure::Usage)?;
    user.map_or(Ok(()), change_user).map_err(Failure::Usage)?;
    let gives_up = user.is_some() || is_live;
    if gives_up {
        // Devices have threads already, and interfaces need none of them.
        give_up_elsewhere();
    }
    let ends: Vec<Ends> =
        planned.iter().map(|c| open_ends(c, &refuse)).collect::<Result<_, _>>()?;
    if gives_up {
        let kept = keep(Rights::None);
        kept.map_err(|why| Failure::Run(format!("capabilities: {}", plain(&why))))?;
        filter_calls(&planned);
    }
    if user.is_some() {
        warn_of_reloads(arguments, &planned);
    }
    let mut writes = Writes::default();
    let places: Vec<Places> =
        planned.iter().map(|c| open_files(c, &mut writes, &refuse)).collect::<Result<_, _>>()?;
    let earlier = match reports.registry.continues_files() {
        true => Earlier::Kept,
        false => Earlier::Removed,
    };
    for (table, path) in planned.iter().flat_map(|chain| written_files(&chain.loaded)) {
        let opened = writes.open_for_other(&path, earlier);
        opened.map_err(|why| refuse(Some(&path), format!("[{table}]: {why}")))?;
    }
    let mut other = |what: &str, path: Option<&Path>, earlier| {
        let opened = path.map(|path| writes.open(path, earlier)).transpose();
        opened.map_err(|why| Failure::Usage(format!("{what}: {why}")))
    };
    let own = reports.alerts.as_ref().filter(|alerts| !reports.registry.opens_later(alerts));
    let alerts_file = other("alerts", own.and_then(Destination::path), earlier)?;
    let stats = other("statistics", arguments.stats.as_deref(), Earlier::Removed)?;
    let mut files = writes.empty();
    let (mut loaded, mut members) = (Vec::new(), Vec::new());
    for ((chain, ends), places) in planned.into_iter().zip(ends).zip(places) {
        members.push(member(arguments, &chain, (ends, places), &mut files, &refuse)?);
        loaded.push(chain.loaded);
    }
    let registry = reports.registry.clone();
    let alerts = open_alerts(arguments, reports, files.take(alerts_file));
    let alerts = alerts.map_err(|why| Failure::Run(format!("alerts: {why}")))?;
    let outputs = Outputs::of_run(alerts, registry);
    let background = loaded.first().map(|own| own.tenancy.start_background()).transpose();
    let no_background = |(name, why)| Failure::Run(format!("tenant {name:?}: {why}"));
    let background = background.map_err(no_background)?.unwrap_or_default();
    let machine = Machine::new(members, outputs, background);
    Ok(Opened { loaded, machine, stats: files.take(stats), socket })
}

/// Makes a failure that names the place of a file in the chain file.
type Refuse<'a> = dyn Fn(Option<&Path>, String) -> Failure + 'a;

fn open_ends(chain: &Planned, refuse: &Refuse<'_>) -> Result<Ends, Failure> {
    let not_opened = |failed: NotOpened| refuse(failed.path.as_deref(), failed.why);
    let follower = route_mode::follow(chain.loaded.chain()).map_err(not_opened)?;
    let local = follower.as_ref().map(Follower::local);
    let source = chain.input.open_beside(local.as_ref(), delivery(chain)).map_err(not_opened)?;
    let peers = open_peers(&chain.loaded.links);
    let peers = peers.map_err(|why| refuse(Some(Path::new(&why.0)), why.1))?;
    let neighbours = follower.as_ref().map(Follower::table).transpose();
    let neighbours = neighbours.map_err(|why| refuse(None, plain(&why)))?;
    // Frames that XDP programs pass to the chain do not reach the kernel.
    let is_shared = |input: &Input| matches!(input.interface(), Some(Interface::AfPacket(_)));
    let shares = chain.input.parts().any(is_shared);
    let warnings = follower.as_ref().filter(|_| shares).map(route_mode::warnings);
    warnings.into_iter().flatten().for_each(|warning| print_message(&warning));
    let open = |output: Option<&Output>| {
        let opened = output.map(Output::open_interface).transpose();
        let name = output.and_then(Output::named);
        opened.map(Option::flatten).map_err(|why| refuse(name.as_deref(), why))
    };
    let interfaces = outputs(chain).map(open).collect::<Result<_, _>>()?;
    Ok(Ends { source, peers, interfaces, follower, neighbours })
}

/// How packet sockets get frames: in blocks if they leave by no interface. Frames of several inputs
/// come at once, since a merge brings them in order.
fn delivery(chain: &Planned) -> Delivery {
    let forwards = outputs(chain).flatten().any(|output| output.interface().is_some());
    let is_one = chain.input.parts().count() == 1;
    let is_urgent = forwards || !is_one || chain.loaded.settings.busy;
    if is_urgent { Delivery::AtOnce } else { Delivery::InBlocks }
}

/// Opens the sockets of links. The error has the address as the chain file has it.
fn open_peers(links: &[PeerLink]) -> Result<Peers, (String, String)> {
    Peers::open(links).map_err(|(link, why)| {
        let address = format!("udp://{}", link.address);
        let text = format!("{address}: {}; choose another address or port", plain(&why));
        (address, text)
    })
}

fn open_files(
    chain: &Planned,
    writes: &mut Writes,
    refuse: &Refuse<'_>,
) -> Result<Places, Failure> {
    let is_live = chain.input.is_live();
    let mut open_at = |(path, rolls): (&Path, bool)| {
        let earlier = if rolls { Earlier::Kept } else { Earlier::Removed };
        match is_live {
            true => writes.open_at_once(path, earlier),
            false => writes.open(path, earlier),
        }
    };
    let tap = chain.loaded.ports.tap.as_ref();
    let opened = tap.map(|tap| open_at((&tap.path, tap.roll.is_some()))).transpose();
    let tap = tap.map(|tap| &*tap.path);
    let opened = opened.map_err(|why| refuse(tap, format!("tap: {why}")))?;
    let mut open = |output: Option<&Output>| {
        let rolls = output.is_some_and(Output::rolls);
        let path = output.and_then(Output::path);
        let opened = path.map(|path| open_at((path, rolls))).transpose();
        let name = output.and_then(Output::named);
        opened.map_err(|why| refuse(name.as_deref(), format!("output {why}")))
    };
    let outputs = outputs(chain).map(&mut open).collect::<Result<_, _>>()?;
    Ok(Places { tap: opened, outputs })
}

/// The chain's output, then each port's own.
fn outputs(chain: &Planned) -> impl Iterator<Item = Option<&Output>> {
    let own = chain.loaded.ports.outputs.iter().map(Option::as_ref);
    std::iter::once(Some(&chain.output)).chain(own)
}

/// The chain with its open ports.
fn member(
    arguments: &RunArguments,
    chain: &Planned,
    (ends, places): (Ends, Places),
    files: &mut Emptied,
    refuse: &Refuse<'_>,
) -> Result<Member, Failure> {
    let Ends { source, peers, interfaces, follower, neighbours } = ends;
    let names = source.interfaces();
    let tap = chain.loaded.ports.tap.as_ref();
    let how = match chain.input.is_live() {
        true if interfaces.iter().any(Option::is_some) => Liveness::Forwards,
        true => Liveness::Reads,
        false => Liveness::Captures,
    };
    let (tap_file, form) = (files.take(places.tap), (names.clone(), false));
    let tap = tap.map(|tap| tap.sink(tap_file, form, how != Liveness::Captures)).transpose();
    let tap = tap.map_err(|why| refuse(None, format!("tap: {why}")))?;
    let (impair, pace) = (chain.loaded.ports.impair.as_ref(), chain.input.pace());
    let source: Box<dyn Source> = match arguments.count {
        Some(count) => Box::new(Limit::new(source, count)),
        None => source,
    };
    let source = wrap(source, impair, pace, tap)
        .map_err(|why| refuse(chain.input.path(), why.to_string()))?;
    let open = places.outputs.into_iter().zip(interfaces);
    let sinks = outputs(chain).zip(open).map(|(output, (place, interface))| {
        let file = files.take(place);
        let form = (names.clone(), arguments.annotate);
        output.map(|output| output.sink(file, interface, form, how)).transpose()
    });
    let sinks: Result<Vec<Option<Box<dyn Sink>>>, String> = sinks.collect();
    let mut sinks = sinks.map_err(|why| refuse(None, format!("output: {why}")))?;
    let own = sinks.split_off(1);
    let sink = sinks.pop().flatten().unwrap_or_else(|| Box::new(warpline_io::NullSink));
    let sink = match own.is_empty() {
        true => sink,
        false => Box::new(PortSinks::new(sink, own).with_neighbours(neighbours)),
    };
    let Loaded { deployment, settings, .. } = &chain.loaded;
    let ports = Ports::Shared(source, sink);
    let member = Member::new(Arc::clone(deployment), *settings, ports);
    Ok(member.with_peers(peers).with_follower(follower))
}

/// Opens the output of alerts, if they go anywhere.
fn open_alerts(
    arguments: &RunArguments,
    reports: Reports<'_>,
    file: Option<File>,
) -> Result<Option<Arc<RecordOutput>>, String> {
    let registry = reports.registry;
    match reports.alerts {
        Some(alerts) => registry.open(alerts, file, Format::lines()).map(Some),
        None if arguments.alerts.is_some() => registry.stdout().map(Some),
        None => Ok(None),
    }
}

/// Makes the control socket, which belongs to `user` if there is one.
fn open_socket(arguments: &RunArguments, user: Option<&User>) -> Result<Option<Socket>, String> {
    let socket = arguments.socket.as_deref().map(Socket::open).transpose()?;
    if let (Some(socket), Some(user)) = (&socket, user) {
        socket.give_to(user.ids())?;
    }
    Ok(socket)
}

fn change_user(user: &User) -> Result<(), String> {
    let name = user.name().to_string_lossy();
    let needs = "changing the user needs root, or CAP_SETUID and CAP_SETGID";
    become_user(user).map_err(|why| format!("user {name:?}: {}: {needs}", plain(&why)))
}

/// Refuses system calls that no chain makes, unless the chain file forbids it.
fn filter_calls(planned: &[Planned]) {
    if !planned.first().is_some_and(|chain| chain.loaded.process.refuses_calls) {
        return;
    }
    // Only root opens the sockets of an interface again that was made anew. XDP programs of routed
    // ports follow the machine's addresses.
    let is_xdp = |input: &Input| matches!(input.interface(), Some(Interface::AfXdp(_)));
    let needs_bpf = |chain: &Planned| {
        (is_root() || chain.loaded.chain().ports().are_routed()) && chain.input.parts().any(is_xdp)
    };
    let needs_bpf = planned.iter().any(needs_bpf);
    if let Err(why) = refuse_calls(needs_bpf) {
        print_message(&format!("warning: no system call filter: {}\n", plain(&why)));
    }
}

/// Has threads that run already give up all capabilities.
fn give_up_elsewhere() {
    let why = match give_up_in_other_threads() {
        Ok(0) => return,
        Ok(count) => format!("{count} block all signals"),
        Err(error) => plain(&error),
    };
    print_message(&format!("warning: threads of devices may keep capabilities: {why}\n"));
}

/// Warns if a reload will fail, because the user can't read the files that it reads.
fn warn_of_reloads<'a>(arguments: &'a RunArguments, planned: &'a [Planned]) {
    let is_read = |loaded: &Loaded, file: &(String, PathBuf)| {
        !written_files(loaded).chain(kept_files(loaded)).any(|written| written == *file)
    };
    let read = |chain: &'a Planned| {
        let own = chain.loaded.files.iter().filter(|file| is_read(&chain.loaded, file));
        own.map(|(_, path)| path)
    };
    let mut all = arguments.chain.iter().chain(planned.iter().flat_map(read));
    let unread = all.find_map(|path| Some((path, check_readable(path).err()?)));
    if let Some((path, why)) = unread.filter(|_| !is_root()) {
        let text = format!("warning: a reload will fail: {}: {}\n", path.display(), plain(&why));
        print_message(&text);
    }
}
