//! What `SRC` and `DST` name: sources and sinks, opened.

use std::fs;
use std::path::{Path, PathBuf};

use warpline_io::generator::{Generator, GeneratorConfig};
use warpline_io::middleware::{Impair, ImpairConfig, Tap};
use warpline_io::{
    BadPace, CaptureFile, CaptureFormat, CaptureReader, InterfaceNames, NullSink, Paced,
    PcapWriter, Sink, Source, SourceError,
};
use warpline_io_error::plain;

use crate::writes::{Place, Writes};

/// Where packets come from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Input {
    /// A capture file, with its own timing times a factor if `pace` is given.
    File(PathBuf, Option<f64>),
    /// A capture on standard input.
    Stdin(Option<f64>),
    /// The generator.
    Generate(Box<GeneratorConfig>),
    /// The demo's capture.
    Demo,
}

/// Where packets go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// A capture file, written as its name says.
    File(PathBuf, CaptureFile),
    /// A pcap on standard output.
    Stdout,
    /// Nowhere.
    None,
}

impl Input {
    /// Reads `text`; relative paths are in `folder`. Tells all that is wrong with it.
    pub(crate) fn parse(text: &str, folder: &Path) -> Result<Self, Vec<String>> {
        if text.starts_with("generate:") || text == "generate" {
            let settings = if text == "generate" { "" } else { text };
            return match GeneratorConfig::parse(settings) {
                Ok(config) => Ok(Self::Generate(Box::new(config))),
                Err(problems) => Err(problems.iter().map(ToString::to_string).collect()),
            };
        }
        let (name, pace) = match text.rsplit_once(",pace=") {
            Some((name, factor)) => (name, Some(parse_pace(factor).map_err(|why| vec![why])?)),
            None => (text, None),
        };
        match name {
            "" => Err(vec!["the input has no name".into()]),
            "-" => Ok(Self::Stdin(pace)),
            name => Ok(Self::File(folder.join(name), pace)),
        }
    }

    /// Opens it, without its pace. Errors lack the name of the input.
    pub(crate) fn open(&self) -> Result<Box<dyn Source>, String> {
        match self {
            Self::File(path, _) => {
                Ok(Box::new(CaptureReader::open(path).map_err(|error| told(&error))?))
            }
            Self::Stdin(_) => Ok(Box::new(CaptureReader::stdin().map_err(|error| told(&error))?)),
            Self::Generate(config) => Ok(Box::new(Generator::new((**config).clone()))),
            Self::Demo => Ok(Box::new(crate::demo::source().map_err(|error| told(&error))?)),
        }
    }

    /// The file that it is, if it is one.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path, _) => Some(path),
            _ => None,
        }
    }

    /// The factor on its own timing, if that is kept.
    pub(crate) fn pace(&self) -> Option<f64> {
        match self {
            Self::File(_, pace) | Self::Stdin(pace) => *pace,
            Self::Generate(_) | Self::Demo => None,
        }
    }
}

fn parse_pace(text: &str) -> Result<f64, String> {
    let factor: f64 = text.parse().map_err(|_| format!("pace={text}: not a number"))?;
    let is_pace = factor.is_finite() && factor > 0.0;
    if is_pace { Ok(factor) } else { Err(BadPace(factor).to_string()) }
}

fn told(error: &SourceError) -> String {
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
            name => {
                let path = folder.join(name);
                let file = CaptureFile::of_name(&path).map_err(|why| why.to_string())?;
                Ok(Self::File(path, file))
            }
        }
    }

    /// Whether dropped packets can be shown in it, with the reason.
    pub(crate) fn takes_comments(&self) -> bool {
        matches!(self, Self::File(_, file) if file.format == CaptureFormat::Pcapng)
    }

    /// Opens its file, if it is one.
    pub(crate) fn open(&self, writes: &mut Writes) -> Result<Option<Place>, String> {
        let opened = self.path().map(|path| writes.open(path)).transpose();
        opened.map_err(|why| format!("output {why}"))
    }

    /// The sink, which writes to `file` where the output is one; interfaces are called as `names` has
    /// them, and with `annotate` dropped packets are written as well.
    pub(crate) fn sink(
        &self,
        file: Option<fs::File>,
        names: InterfaceNames,
        annotate: bool,
    ) -> Box<dyn Sink> {
        match (self, file) {
            (Self::Stdout, _) => Box::new(PcapWriter::stdout()),
            (Self::File(_, how), Some(file)) => how.writer(file, names, annotate),
            (_, _) => Box::new(NullSink),
        }
    }

    /// The file that it is, if it is one.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path, _) => Some(path),
            _ => None,
        }
    }
}
