//! What `SRC` and `DST` name: sources and sinks, opened.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use warpline_io::generator::{Generator, GeneratorConfig};
use warpline_io::middleware::{Impair, ImpairConfig, Tap};
use warpline_io::{CaptureReader, NullSink, Paced, PcapWriter, Sink, Source, SourceError};
use warpline_nf::config::plain;

/// Where packets come from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Input {
    /// A capture file, with its own timing times a factor if `pace` is given.
    File(PathBuf, Option<f64>),
    /// A capture on standard input.
    Stdin(Option<f64>),
    /// The generator.
    Generate(String),
    /// The demo's capture.
    Demo,
}

/// Where packets go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// A capture file.
    File(PathBuf),
    /// A capture on standard output.
    Stdout,
    /// Nowhere.
    None,
}

impl Input {
    /// Reads `text`; relative paths are in `folder`.
    pub(crate) fn parse(text: &str, folder: &Path) -> Result<Self, String> {
        if text.starts_with("generate:") || text == "generate" {
            return Ok(Self::Generate(
                text.trim_start_matches("generate").trim_start_matches(':').into(),
            ));
        }
        let (name, pace) = match text.rsplit_once(",pace=") {
            Some((name, factor)) => {
                let factor: f64 =
                    factor.parse().map_err(|_| format!("pace={factor}: not a number"))?;
                (name, Some(factor))
            }
            None => (text, None),
        };
        match name {
            "" => Err("the input has no name".into()),
            "-" => Ok(Self::Stdin(pace)),
            name => Ok(Self::File(folder.join(name), pace)),
        }
    }

    /// Opens it. An error is told without the input's name.
    pub(crate) fn open(&self) -> Result<Box<dyn Source>, String> {
        match self {
            Self::File(path, pace) => {
                paced(CaptureReader::open(path).map_err(|e| told(&e))?, *pace)
            }
            Self::Stdin(pace) => paced(CaptureReader::stdin().map_err(|e| told(&e))?, *pace),
            Self::Generate(text) => match GeneratorConfig::parse(text) {
                Ok(config) => Ok(Box::new(Generator::new(config))),
                Err(problems) => {
                    let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
                    Err(told.join("\n"))
                }
            },
            Self::Demo => crate::demo::source().map_err(|e| told(&e)),
        }
    }

    fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path, _) => Some(path),
            _ => None,
        }
    }
}

fn told(error: &SourceError) -> String {
    match error {
        SourceError::Io(error) => plain(error),
        other => other.to_string(),
    }
}

fn paced(reader: CaptureReader, pace: Option<f64>) -> Result<Box<dyn Source>, String> {
    match pace {
        None => Ok(Box::new(reader)),
        Some(factor) => match Paced::new(reader, factor) {
            Ok(paced) => Ok(Box::new(paced)),
            Err(bad) => Err(bad.to_string()),
        },
    }
}

/// `source` behind the middleware that the chain asks for.
pub(crate) fn wrap(
    mut source: Box<dyn Source>,
    impair: Option<&str>,
    tap: Option<&Path>,
) -> Result<Box<dyn Source>, String> {
    if let Some(text) = impair {
        let config = ImpairConfig::parse(text).map_err(|problems| {
            let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
            format!("impair: {}", told.join("\n"))
        })?;
        source = Box::new(Impair::new(source, config));
    }
    if let Some(path) = tap {
        let sink = PcapWriter::create(path).map_err(|e| format!("tap: {}: {e}", path.display()))?;
        source = Box::new(Tap::new(source, Box::new(sink)));
    }
    Ok(source)
}

impl Output {
    /// Reads `text`; relative paths are in `folder`.
    pub(crate) fn parse(text: &str, folder: &Path) -> Result<Self, String> {
        match text {
            "" => Err("the output has no name".into()),
            "-" => Ok(Self::Stdout),
            "none" => Ok(Self::None),
            name => Ok(Self::File(folder.join(name))),
        }
    }

    /// Opens it, which empties a file that is there.
    pub(crate) fn open(&self) -> Result<Box<dyn Sink>, String> {
        match self {
            Self::File(path) => {
                let sink = PcapWriter::create(path).map_err(|e| e.to_string())?;
                Ok(Box::new(sink))
            }
            Self::Stdout => Ok(Box::new(PcapWriter::stdout())),
            Self::None => Ok(Box::new(NullSink)),
        }
    }

    fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            _ => None,
        }
    }
}

/// Files that a run reads and writes, so that none is two things.
#[derive(Default)]
pub(crate) struct Claims {
    files: Vec<(String, PathBuf, bool)>,
}

impl Claims {
    /// Notes an input.
    pub(crate) fn read(&mut self, input: &Input) -> Result<(), String> {
        input.path().map_or(Ok(()), |path| self.claim("input", path, false))
    }

    /// Notes an output.
    pub(crate) fn write(&mut self, output: &Output) -> Result<(), String> {
        output.path().map_or(Ok(()), |path| self.claim("output", path, true))
    }

    /// Notes another file; refuses one that is written and also something else.
    pub(crate) fn claim(&mut self, what: &str, path: &Path, writes: bool) -> Result<(), String> {
        for (other, own, written) in &self.files {
            if (writes || *written) && is_same_file(own, path) {
                return Err(format!("{} is both the {other} and the {what}", path.display()));
            }
        }
        self.files.push((what.into(), path.into(), writes));
        Ok(())
    }
}

#[cfg(unix)]
fn is_same_file(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (fs::metadata(a), fs::metadata(b)) {
        // A device such as /dev/null or a terminal may be many things at once.
        (Ok(a), Ok(b)) => a.is_file() && (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => absolute(a) == absolute(b),
    }
}

#[cfg(not(unix))]
fn is_same_file(a: &Path, b: &Path) -> bool {
    absolute(a) == absolute(b)
}

/// The path with its folder's links followed, for a file that need not be there.
fn absolute(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.into());
    path.file_name().map_or(folder.clone(), |name| folder.join(name))
}

/// Makes `path` an empty file, or says why not.
pub(crate) fn create(path: &Path) -> Result<File, String> {
    File::create(path).map_err(|error| format!("{}: {}", path.display(), plain(&error)))
}
