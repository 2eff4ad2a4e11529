//! Sources and sinks, opened by the names `SRC` and `DST`.

use std::fs::File;
use std::path::{Path, PathBuf};

use warpline_io::af_packet::Delivery;
use warpline_io::generator::{Generator, GeneratorConfig};
use warpline_io::interface::{self, Interface};
use warpline_io::middleware::{Impair, ImpairConfig, Tap};
use warpline_io::neighbours::LocalAddresses;
use warpline_io::per_port::{Merged, PortSource, Wanted};
use warpline_io::{
    BadPace, CaptureFile, CaptureFormat, CaptureReader, Destination, InterfaceNames, NullSink,
    Paced, PcapWriter, Queued, Roll, Rolling, Sink, Source, SourceError,
};
use warpline_io_error::plain;
use warpline_nf::descriptor_of;

use crate::port_keys::problem_text;

/// Where packets come from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Input {
    /// A capture file, with its own timing times a factor if `pace` is given.
    File(PathBuf, Option<f64>),
    /// A capture on standard input.
    Stdin(Option<f64>),
    /// All frames that arrive at a network interface.
    Interface(Interface),
    /// The generator.
    Generate(Box<GeneratorConfig>),
    /// The demo's capture.
    Demo,
    /// The inputs of a chain's ports, in the order of timestamps, and the names of all ports.
    Ports(Vec<PortInput>, Vec<String>),
}

/// An input that can't be opened.
pub(crate) struct NotOpened {
    /// Its name and why.
    pub(crate) why: String,
    /// The file, if it is one.
    pub(crate) path: Option<PathBuf>,
}

/// The input of a port.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PortInput {
    /// The port's place in the chain.
    pub(crate) number: u16,
    /// The port's name.
    pub(crate) name: String,
    /// A file or the generator.
    pub(crate) input: Input,
    /// The interface of the file, if it is one of several.
    pub(crate) interface: Option<Wanted>,
    /// Whether its packets are forwarded by routes.
    pub(crate) forwards: bool,
}

/// Where packets go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// A capture file.
    File(CaptureOutput),
    /// A pcap on standard output.
    Stdout,
    /// A network interface.
    Interface(Interface),
    /// Nowhere.
    None,
}

/// Whether a chain may wait for the readers of its outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// It reads captures, and waits.
    Captures,
    /// It reads interfaces, and waits for the reader of standard output only.
    Reads,
    /// It also sends by interfaces: it waits for no reader.
    Forwards,
}

/// A capture file in the format of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CaptureOutput {
    pub(crate) path: PathBuf,
    how: CaptureFile,
    /// When it continues in a new file.
    pub(crate) roll: Option<Roll>,
}

impl CaptureOutput {
    /// Reads a name with its settings; relative paths are in `folder`.
    pub(crate) fn parse(text: &str, folder: &Path) -> Result<Self, String> {
        let (name, roll) = Roll::split(text)?;
        if roll.is_some() && matches!(name, "none" | "-") {
            return Err(format!("{name:?} takes no settings; they are those of a capture"));
        }
        let path = folder.join(name);
        let how = CaptureFile::of_name(&path).map_err(|why| why.to_string())?;
        if roll.is_some() && descriptor_of(&path).is_some() {
            return Err(format!("{name:?} is a stream of the process, and no new file can follow"));
        }
        Ok(Self { path, how, roll })
    }

    /// Writes to `file`, which is at its path; none is a pipe without a reader. A live chain
    /// continues when writing fails, and does not wait for the reader of a pipe.
    pub(crate) fn sink(
        &self,
        file: Option<File>,
        (names, annotate): (InterfaceNames, bool),
        is_live: bool,
    ) -> Result<Box<dyn Sink>, String> {
        let is_regular = |file: &File| file.metadata().is_ok_and(|about| about.is_file());
        let is_stream = descriptor_of(&self.path).is_some();
        let roll = self.roll.or_else(|| (is_live && !is_stream).then(Roll::default));
        Ok(match file {
            Some(file) if is_regular(&file) && roll.is_some() => {
                let (at, form) = ((&*self.path, file), (names, annotate));
                let roll = roll.unwrap_or_default();
                let rolling = Rolling::new(at, self.how, form, roll, is_live);
                Box::new(
                    rolling.map_err(|why| format!("{}: {}", self.path.display(), plain(&why)))?,
                )
            }
            Some(file) if !is_live => self.how.writer(file, names, annotate),
            file => {
                let (name, at) = (self.path.display().to_string(), self.path.clone());
                let destination = Destination::Path(at, file);
                let annotates = annotate && self.how.format == CaptureFormat::Pcapng;
                queued(name, destination, self.how, (names, annotates))?
            }
        })
    }
}

/// A capture that a thread of its own writes.
fn queued(
    name: String,
    destination: Destination,
    how: CaptureFile,
    form: (InterfaceNames, bool),
) -> Result<Box<dyn Sink>, String> {
    match Queued::start(name, destination, how, form) {
        Ok(queued) => Ok(Box::new(queued)),
        Err(why) => Err(format!("cannot spawn thread: {}", plain(&why))),
    }
}

impl Input {
    /// Reads `text`; relative paths are in `folder`. Tells all that is wrong with it.
    pub(crate) fn parse(text: &str, folder: &Path) -> Result<Self, Vec<String>> {
        if text.starts_with("generate:") || text == "generate" {
            let settings = if text == "generate" { "" } else { text };
            return match GeneratorConfig::parse(settings) {
                Ok(config) => Ok(Self::Generate(Box::new(config))),
                Err(problems) => Err(problems.iter().map(problem_text).collect()),
            };
        }
        if Interface::is_named(text) {
            return Interface::parse(text).map(Self::Interface).map_err(|why| vec![why]);
        }
        let (name, pace) = match text.rsplit_once(",pace=") {
            Some((name, factor)) => (name, Some(parse_pace(factor).map_err(|why| vec![why])?)),
            None => (text, None),
        };
        match name {
            "" => Err(vec!["the input has no name".into()]),
            "-" => Ok(Self::Stdin(pace)),
            name if CaptureFile::has_setting(name) => Err(vec![format!(
                "{name:?} has a setting that captures do not have; theirs is pace=FACTOR"
            )]),
            name => Ok(Self::File(folder.join(name), pace)),
        }
    }

    /// Opens it, without its pace.
    pub(crate) fn open(&self) -> Result<Box<dyn Source>, NotOpened> {
        self.open_beside(None, Delivery::default())
    }

    /// The same; packet sockets get frames by `delivery`, and ports that forward by routes leave
    /// packets to the addresses of `local` to the kernel.
    pub(crate) fn open_beside(
        &self,
        local: Option<&LocalAddresses>,
        delivery: Delivery,
    ) -> Result<Box<dyn Source>, NotOpened> {
        let opened = match self {
            Self::File(path, _) => CaptureReader::open(path),
            Self::Stdin(_) => CaptureReader::stdin(),
            Self::Generate(config) => return Ok(Box::new(Generator::new((**config).clone()))),
            Self::Demo => crate::demo::source(),
            Self::Ports(ports, names) => return merged((ports, names), local, delivery),
            Self::Interface(interface) => {
                return interface.source(local, delivery).map_err(|error| self.not_opened(&error));
            }
        };
        match opened {
            Ok(source) => Ok(Box::new(source)),
            Err(error) => {
                let why = format!("{}: {}", self.name(), reported(&error));
                Err(NotOpened { why, path: self.path().map(Path::to_owned) })
            }
        }
    }

    fn not_opened(&self, error: &interface::NotOpened) -> NotOpened {
        let (name, why) = (self.name(), interface_reported(error));
        NotOpened { why: format!("{name}: {why}"), path: Some(name.into()) }
    }

    /// Whether it is network interfaces, or some of it is.
    pub(crate) fn is_live(&self) -> bool {
        self.parts().any(|part| matches!(part, Self::Interface(_)))
    }

    /// Its name in messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::File(path, _) => path.display().to_string(),
            Self::Interface(interface) => interface.to_string(),
            Self::Stdin(_) => "standard input".into(),
            Self::Generate(_) => "generate".into(),
            Self::Demo => "the demo's capture".into(),
            Self::Ports(..) => "ports".into(),
        }
    }

    /// The interface that it is, if it is one.
    pub(crate) fn interface(&self) -> Option<&Interface> {
        match self {
            Self::Interface(interface) => Some(interface),
            _ => None,
        }
    }

    /// The file that it is, if it is one.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path, _) => Some(path),
            _ => None,
        }
    }

    /// The inputs that it is made of: itself, or those of ports.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Self> {
        let (itself, ports) = match self {
            Self::Ports(ports, _) => (None, &ports[..]),
            _ => (Some(self), &[][..]),
        };
        itself.into_iter().chain(ports.iter().map(|port| &port.input))
    }

    /// The factor on its own timing, if that is kept.
    pub(crate) fn pace(&self) -> Option<f64> {
        match self {
            Self::File(_, pace) | Self::Stdin(pace) => *pace,
            Self::Generate(_) | Self::Demo | Self::Interface(_) => None,
            // They agree.
            Self::Ports(ports, _) => ports.iter().find_map(|port| port.input.pace()),
        }
    }
}

/// The source of a chain with ports. One file that feeds several ports is read once.
fn merged(
    (ports, names): (&[PortInput], &[String]),
    local: Option<&LocalAddresses>,
    delivery: Delivery,
) -> Result<Box<dyn Source>, NotOpened> {
    let mut feeds = Vec::new();
    for (at, port) in ports.iter().enumerate() {
        let PortInput { number, name, input, interface, forwards } = port;
        let label = input.path().map_or_else(|| name.clone(), |path| path.display().to_string());
        let Some(interface) = interface else {
            let local = local.filter(|_| *forwards);
            feeds.push(PortSource::whole(input.open_beside(local, delivery)?, label, *number));
            continue;
        };
        let is_same = |other: &&PortInput| other.input.path() == input.path();
        if ports[..at].iter().any(|other| is_same(&other)) {
            continue;
        }
        let others = ports[at + 1..].iter().filter(is_same);
        let others = others.filter_map(|other| Some((other.interface.clone()?, other.number)));
        let all: Vec<_> = std::iter::once((interface.clone(), *number)).chain(others).collect();
        feeds.push(PortSource::by_interface(input.open()?, label, all));
    }
    Ok(Box::new(Merged::new(feeds, names.iter().cloned())))
}

fn parse_pace(text: &str) -> Result<f64, String> {
    let factor: f64 = text.parse().map_err(|_| format!("pace={text}: not a number"))?;
    let is_pace = factor.is_finite() && factor > 0.0;
    if is_pace { Ok(factor) } else { Err(BadPace(factor).to_string()) }
}

fn interface_reported(error: &interface::NotOpened) -> String {
    match error {
        interface::NotOpened::Io(error) => plain(error),
        other => other.to_string(),
    }
}

pub(crate) fn reported(error: &SourceError) -> String {
    match error {
        SourceError::Io(error) => plain(error),
        other => other.to_string(),
    }
}

/// `source` with the middleware that the chain asks for, and with the pace of its input.
pub(crate) fn wrap(
    mut source: Box<dyn Source>,
    impair: Option<&ImpairConfig>,
    pace: Option<f64>,
    tap: Option<Box<dyn Sink>>,
) -> Result<Box<dyn Source>, BadPace> {
    if let Some(config) = impair {
        source = Box::new(Impair::new(source, config.clone()));
    }
    if let Some(factor) = pace {
        source = Box::new(Paced::new(source, factor)?);
    }
    Ok(match tap {
        Some(sink) => Box::new(Tap::new(source, sink)),
        None => source,
    })
}

impl Output {
    /// Reads `text`; relative paths are in `folder`.
    pub(crate) fn parse(text: &str, folder: &Path) -> Result<Self, String> {
        match text {
            "" => Err("the output has no name".into()),
            "-" => Ok(Self::Stdout),
            "none" => Ok(Self::None),
            _ if Interface::is_named(text) => Interface::parse(text).map(Self::Interface),
            _ if text.starts_with("generate:") => {
                Err("the generator is an input; write a capture, an interface or none".into())
            }
            name => CaptureOutput::parse(name, folder).map(Self::File),
        }
    }

    /// Whether dropped packets can be shown in it, with the reason.
    pub(crate) fn takes_comments(&self) -> bool {
        matches!(self, Self::File(file) if file.how.format == CaptureFormat::Pcapng)
    }

    /// Whether it is a capture in several files.
    pub(crate) fn rolls(&self) -> bool {
        matches!(self, Self::File(file) if file.roll.is_some())
    }

    /// Opens the interface that it is, if it is one.
    pub(crate) fn open_interface(&self) -> Result<Option<Box<dyn Sink>>, String> {
        let Self::Interface(interface) = self else { return Ok(None) };
        let reported = |why| format!("output {interface}: {}", interface_reported(&why));
        interface.sink().map(Some).map_err(reported)
    }

    /// The sink, which writes to `file` or `interface`. Interfaces are called as `names` has them.
    /// With `annotate` dropped packets are written as well.
    pub(crate) fn sink(
        &self,
        file: Option<File>,
        interface: Option<Box<dyn Sink>>,
        form: (InterfaceNames, bool),
        how: Liveness,
    ) -> Result<Box<dyn Sink>, String> {
        match (self, interface) {
            (Self::Stdout, _) if how == Liveness::Forwards => {
                let pcap = CaptureFile { format: CaptureFormat::Pcap, compression: None };
                queued("standard output".into(), Destination::Stdout, pcap, (form.0, false))
            }
            (Self::Stdout, _) => Ok(Box::new(PcapWriter::stdout())),
            (Self::File(output), _) => output.sink(file, form, how != Liveness::Captures),
            (_, Some(interface)) => Ok(interface),
            _ => Ok(Box::new(NullSink)),
        }
    }

    /// The interface that it is, if it is one.
    pub(crate) fn interface(&self) -> Option<&Interface> {
        match self {
            Self::Interface(interface) => Some(interface),
            _ => None,
        }
    }

    /// Its name in a chain file, if it has one.
    pub(crate) fn named(&self) -> Option<PathBuf> {
        match self {
            Self::File(file) => Some(file.path.clone()),
            Self::Interface(interface) => Some(interface.to_string().into()),
            Self::Stdout | Self::None => None,
        }
    }

    /// The file that it is, if it is one.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::File(file) => Some(&file.path),
            _ => None,
        }
    }
}
